# SPDX-License-Identifier: Apache-2.0
"""The web page in a real browser: a link gets in, and the policy of the page lets it do what it must and nothing else."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

import pytest
import websocket

from cay_local import wait_until
from gate_kit import box
from test_page import BEARER, Desk, fetch

BOX = "seen"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """Chromium without a window, over its debugging protocol."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cay-browser-", dir="/var/tmp")
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={self.dir}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = os.path.join(self.dir, "DevToolsActivePort")
        wait_until(lambda: os.path.exists(port) and open(port).read().count("\n") >= 1, timeout=120)
        self.port = open(port).read().split("\n")[0]

    def tab(self, url):
        ask = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        return Tab(json.load(urllib.request.urlopen(ask, timeout=60))["webSocketDebuggerUrl"], url)

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.dir, ignore_errors=True)


class Tab:
    def __init__(self, address, url):
        self.ws = websocket.create_connection(address, timeout=120)
        self.n = 0
        self.call("Page.enable")
        self.call("Page.navigate", url=url)

    def call(self, method, **params):
        self.n += 1
        self.ws.send(json.dumps({"id": self.n, "method": method, "params": params}))
        while True:
            answer = json.loads(self.ws.recv())
            if answer.get("id") == self.n:
                assert "error" not in answer, answer
                return answer["result"]

    def run(self, script):
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, script):
        end = time.monotonic() + 120
        while not (got := self.run(script)):
            assert time.monotonic() < end, f"waited in vain for {script}: {self.run('document.documentElement.outerHTML')[:2000]}"
        return got


@pytest.fixture(scope="module")
def cay(module_instance):
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    c = module_instance()
    if fetch(c, "/ui/")[0] == 404:
        pytest.skip("this build has no page: it needs Node.js and npm")
    box(c, BOX, "python3", "-m", "http.server", "8000", "-d", "/usr/share")
    return c


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    b = Browser()
    yield b
    b.close()


TOKEN = "Object.values(sessionStorage).map(v => { try { return JSON.parse(v).token ?? v } catch { return v } }).find(v => v.length > 40)"
EXEC = f"/api/v1/namespaces/default/pods/{BOX}/exec?command=echo&command=hi&stdout=true"
SHELL = """new Promise((ok) => {
    const token = %s;
    const shown = btoa(token).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
    const ws = new WebSocket(location.origin.replace('http', 'ws') + '%s', ['v5.channel.k8s.io', '%s' + shown]);
    let out = '';
    ws.binaryType = 'arraybuffer';
    ws.onmessage = (e) => { const b = new Uint8Array(e.data); if (b[0] == 1) out += new TextDecoder().decode(b.slice(1)) };
    ws.onclose = (e) => ok(ws.protocol + ' ' + out);
})""" % (TOKEN, EXEC, BEARER)


@pytest.mark.parametrize("way", ["server", "proxy"])
def test_a_link_gets_a_browser_in(cay, browser, way):
    desk = Desk(cay, "--proxy") if way == "proxy" else None
    url = desk.url if desk else cay.cay("ui", "--print", "--kubeconfig", cay.kubeconfig).stdout.strip()
    tab = browser.tab(url)
    tab.until(TOKEN)
    assert "code=" not in tab.run("location.href"), "the code must leave the address"
    assert "code=" not in tab.run("JSON.stringify(history.state) + document.referrer")
    assert tab.run("document.cookie") == ""
    # A WebSocket to the same origin is within connect-src 'self'.
    assert tab.run(SHELL) == "v5.channel.k8s.io hi\n"
    # What the policy is for.
    assert tab.run("fetch('https://localhost:1/').then(() => 'sent', (e) => e.name)") == "TypeError"
    tab.run("const s = document.createElement('script'); s.textContent = 'window.inline = 1'; document.head.append(s); 0")
    assert tab.run("window.inline === undefined")
    # Another tab of the same origin has no session: it is this tab's.
    assert not browser.tab(url.partition("#")[0]).run(TOKEN)
    if desk:
        assert desk.close() == 0


def test_a_page_of_a_sandbox_reaches_nothing(cay, browser):
    """It is on the same host, at another port: its requests carry nothing, and it reads no answer."""
    tab = browser.tab(cay.cay("ui", "--print", "--kubeconfig", cay.kubeconfig).stdout.strip())
    tab.until(TOKEN)
    made = tab.run(f"""fetch('/cay/v1/page/urls', {{ method: 'POST', headers: {{ Authorization: 'Bearer ' + {TOKEN} }},
        body: JSON.stringify({{ namespace: 'default', sandbox: '{BOX}', port: 8000 }}) }}).then(r => r.json())""")
    other = browser.tab(made["url"])
    other.until("location.host.startsWith('8000-')")
    assert other.run("location.origin") != tab.run("location.origin")
    base = f"https://127.0.0.1:{cay.port}"
    for path in ("/ui/", "/cay/v1/page", "/api/v1/namespaces"):
        assert other.run(f"fetch('{base}{path}', {{ credentials: 'include' }}).then(() => 'read', (e) => e.name)") == "TypeError", path
    assert not other.run(TOKEN)
    # Nor can it show the page in a frame.
    assert other.run(f"""new Promise((ok) => {{ const f = document.createElement('iframe'); f.src = '{base}/ui/';
        f.onload = () => {{ try {{ ok(f.contentDocument ? 'same origin' : 'refused') }} catch (e) {{ ok('refused') }} }}; document.body.append(f) }})""") == "refused"
