# SPDX-License-Identifier: Apache-2.0
"""A page inside a sandbox, opened from Cay's own page: it learns nothing of the visitor, the API, or another sandbox."""

import json
import re

import pytest

from cay_local import AGENTS, wait_until
from page_kit import expect

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"

# Remembers all it is sent, and answers it; what begins with "/seen" is for the test.
SERVER = r"""
import http.server, json, sys
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.path == "/seen":
            answer = json.dumps(seen).encode()
        else:
            seen.append({"path": self.path, "method": self.command, "headers": self.headers.items(), "body": body})
            answer = b"<!doctype html><title>" + sys.argv[1].encode() + b"</title><p>secret of " + sys.argv[1].encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Access-Control-Allow-Origin", self.headers.get("Origin") or "*")
        self.send_header("Access-Control-Allow-Credentials", "true")
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_POST = do_PUT = do_OPTIONS = do
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""

# What a hostile page tries with one address: the text that it could read, or "" and why not.
READ = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return [answer.type === "opaque" ? "" : `${answer.status} ${await answer.text()}`, answer.type];
    } catch (e) {
        return ["", String(e)];
    }
}"""
SOCKET = """(url) => new Promise((done) => {
    const s = new WebSocket(url, ["v5.channel.k8s.io"]);
    s.onopen = () => done("open");
    s.onerror = () => done("refused");
})"""
FRAME = """(url) => new Promise((done) => {
    const f = document.createElement("iframe");
    f.onload = () => {
        try {
            done(f.contentDocument ? f.contentDocument.documentElement.outerHTML : "");
        } catch (e) {
            done("");
        }
    };
    f.src = url;
    document.body.append(f);
    setTimeout(() => done(""), 5000);
})"""
WAYS = [{"credentials": "include"}, {"credentials": "omit"}, {"credentials": "include", "mode": "no-cors"}, {"mode": "no-cors", "method": "POST", "body": "x", "credentials": "include"},
        {"credentials": "include", "headers": {"Authorization": "Bearer x"}}, {"credentials": "include", "method": "PUT", "body": "x"}]


def serve_in(cay, name):
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
        "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "host", "command": ["python3", "-c", SERVER, name]}]}}}})


@pytest.fixture(scope="module")
def two(cay):
    for name in ("spy", "victim"):
        serve_in(cay, name)
    for name in ("spy", "victim"):
        cay.wait_ready(SANDBOXES, name)
        wait_until(lambda: cay.route(name, "GET", "/seen", port=8000)[0] == 200)
    return cay


def seen(cay, name):
    """The requests that it has had, but for the icon, which a browser asks for by itself and when it likes."""
    return [request for request in json.loads(cay.route(name, "GET", "/seen", port=8000)[1]) if request["path"] != "/favicon.ico"]


def url_of(me, name):
    """As the page asks for it."""
    made = me.page.evaluate("""async (name) => (await fetch("/cay/v1/page/urls", {method: "POST", headers: {"Content-Type": "application/json",
        Authorization: `Bearer ${sessionStorage.getItem("cay.token")}`}, body: JSON.stringify({namespace: "default", sandbox: name, port: 8000})})).json()""", name)
    return made["url"]


def origin_of(url):
    return re.match(r"http://[^/]+", url)[0]


@pytest.fixture
def inside(two, visit):
    """A visitor of the page, and the spy's page in a window of its own, opened in the way that gives it the most."""
    me = visit(two, expected=[r"Access to fetch|net::|CORS|Refused to display|Mixed Content|blocked|frame"]).log_in()
    url = url_of(me, "spy")
    with me.context.expect_page() as opened:
        me.page.evaluate("(url) => { window.theirs = window.open(url); }", url)
    spy = opened.value
    spy.wait_for_load_state()
    assert spy.title() == "spy" and origin_of(spy.url) == origin_of(url)
    me.spy, me.url = spy, url
    me.token = me.page.evaluate("() => sessionStorage.getItem('cay.token')")
    assert me.token
    return me


def opened_by_link(me):
    """As a link of the page opens it: the new window does not even get a copy of the tab's storage, which browsers keep out of its reach otherwise."""
    with me.context.expect_page() as opened:
        me.page.evaluate("(url) => window.open(url, '_blank', 'noopener')", me.url)
    opened.value.wait_for_load_state()
    return opened.value


def test_it_learns_nothing_of_who_opened_it(two, inside):
    me, spy = inside, inside.spy
    assert spy.evaluate("() => window.opener === null && window.parent === window && window.top === window && document.referrer === ''")
    kept = spy.evaluate("() => JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, window.name, location.href, performance.getEntries().map((e) => e.name), history.state])")
    assert me.token not in kept and "cay_pass" not in spy.evaluate("() => document.cookie")
    # Nor does the page keep hold of it, so that neither can steer the other.
    assert me.page.evaluate("() => { try { return window.theirs === null || window.theirs.closed; } catch (e) { return false; } }")
    # A message to the page's window, if somehow it had one, moves nothing.
    me.page.evaluate("() => window.postMessage({type: 'token', logout: true, navigate: 'javascript:window.hit=1'}, '*')")
    expect(me.page.get_by_role("navigation", name="Screens")).to_be_visible()
    me.unharmed()


def test_no_secret_is_sent_into_it(two, inside):
    me = inside
    me.spy.evaluate("() => fetch('/own', {credentials: 'include'}).then((r) => r.text())")
    code = me.url.split("cay_pass=")[-1].split("&")[0]
    assert len(code) > 20
    requests = seen(two, "spy")
    assert any(r["path"] == "/own" for r in requests)
    for r in requests:
        all_of_it = json.dumps(r)
        assert me.token not in all_of_it and code not in all_of_it and "cay_pass" not in all_of_it, r
        names = {k.lower(): v for k, v in r["headers"]}
        assert "authorization" not in names and f":{two.port}" not in names.get("referer", "") + names.get("origin", ""), r
        assert "cay" not in names.get("cookie", ""), r


def test_it_does_not_reach_the_api(two, inside):
    me, spy = inside, inside.spy
    # What it tries does work for the page itself, which shows the token.
    own = me.page.evaluate(READ, ["/api/v1/namespaces", {"headers": {"Authorization": f"Bearer {me.token}"}}])
    assert own[0].startswith("200") and "NamespaceList" in own[0]
    statuses = []
    spy.on("response", lambda r: statuses.append((r.status, r.request.method, r.url)) if me.base in r.url else None)
    for path in ("/api/v1/namespaces/default/secrets", "/cay/v1/page/links", "/cay/v1/page/sessions", "/cay/v1/page/urls", "/cay/v1/audit", "/ui/"):
        for options in WAYS:
            text, why = spy.evaluate(READ, [me.base + path, options])
            assert text == "", f"{path} {options} could be read: {text[:200]} ({why})"
    good = [s for s in statuses if s[0] < 400 and "/ui/" not in s[2]]
    assert not good, f"the API took these from a page of a sandbox: {good}"
    pod = "/api/v1/namespaces/default/pods/victim/exec?command=id&stdout=true"
    assert spy.evaluate(SOCKET, f"wss://127.0.0.1:{two.port}{pod}") == "refused"
    assert spy.evaluate(SOCKET, f"wss://127.0.0.1:{two.port}/api/v1/namespaces?watch=true") == "refused"


def test_the_page_is_shown_in_no_frame_and_no_window_of_it(two, inside):
    me, spy = inside, inside.spy
    assert spy.evaluate(FRAME, f"{me.base}/ui/") == ""
    for frame in spy.frames[1:]:
        assert not frame.url.startswith(me.base) and not frame.locator("#page").count(), f"shown in a frame: {frame.url}"
    # A window that it opens is out of its reach.
    for from_page, kept in ((spy, True), (opened_by_link(me), False)):
        with me.context.expect_page() as opened:
            from_page.evaluate("(url) => { window.w = window.open(url); }", f"{me.base}/ui/sandboxes")
        other = opened.value
        expect(other.get_by_role("navigation", name="Screens") if kept else other.get_by_role("heading", name="Log in to Cay")).to_be_visible()
        assert from_page.evaluate("() => { try { return window.w.sessionStorage.length + window.w.document.title; } catch (e) { return 'refused'; } }") == "refused"
        other.close()


@pytest.mark.parametrize("visited", [False, True], ids=["never visited", "visited by a link"])
def test_it_does_not_reach_another_sandbox(two, inside, visited):
    """Also when the visitor has been there, and their browser has what lets them in."""
    me, spy = inside, inside.spy
    url = url_of(me, "victim")
    there = origin_of(url)
    if visited:
        page = me.context.new_page()
        page.goto(url)
        assert page.title() == "victim"
        cookies = [c for c in me.context.cookies() if "victim" in c["domain"]]
        assert cookies and all(c["httpOnly"] and not c["domain"].startswith(".") for c in cookies), cookies
    before = seen(two, "victim")
    for options in WAYS:
        text, why = spy.evaluate(READ, [f"{there}/from-spy", options])
        assert "secret" not in text, f"{options} read it: {text} ({why})"
    assert spy.evaluate(FRAME, f"{there}/from-spy") == ""
    assert spy.evaluate(SOCKET, f"{there.replace('http', 'ws')}/from-spy") == "refused"
    # A cookie for all names below the domain is not the victim's, and does not lock its visitor out.
    spy.evaluate("""() => { for (const d of ["localhost", "sandbox.localhost", "default.sandbox.localhost"]) for (const n of ["cay_pass", "cay", "planted"])
        document.cookie = `${n}=planted; domain=${d}; path=/`; }""")
    assert seen(two, "victim") == before, "requests of a page of another sandbox got through"
    if visited:
        page.reload()
        assert page.title() == "victim", page.content()
        page.close()
