# SPDX-License-Identifier: Apache-2.0
"""The page as somebody uses it: a browser, a visitor, and what must never happen."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.parse

import axe_playwright_python.sync_playwright as axe
import pytest
from island import Island
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect, sync_playwright

PROGRAM = "/usr/bin/chromium"
# The machine's network is closed, or should not be asked; tests run as root in a container's place.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
SHOTS = os.environ.get("CAY_SHOTS", "")  # a directory for screenshots, or none
CLOSE_S = 60
SERIOUS = ("serious", "critical")

# What a page that was taken over would show: elements of tests/page/corpus.py, or their scripts' mark.
PLANTED = """() => ({
    hit: window.hit,
    planted: [...document.querySelectorAll('#planted, script:not([src]), iframe, object, embed, base, meta[http-equiv], [onerror], [onload], [onfocus], a[href^="javascript:" i], a[href^="data:" i]')]
        .map((e) => e.outerHTML.slice(0, 200)),
    title: document.title,
})"""
FRAMED = """() => {
    const seen = (e) => { const r = e?.getBoundingClientRect(); return !!r && r.width > 40 && r.height > 20 && r.left >= 0 && r.top >= 0 && r.right <= innerWidth + 1 && getComputedStyle(e).visibility === "visible"; };
    const over = document.documentElement.scrollWidth - innerWidth;
    const widest = over <= 1 ? "" : [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 150)).join(" | ");
    return { nav: seen(document.querySelector("nav[aria-label=Screens]")), bar: seen(document.querySelector("header.bar")), main: seen(document.querySelector("main")), over, widest, title: document.title };
}"""
WATCH_POLICY = """addEventListener('securitypolicyviolation', (e) => {
    console.error(`content security policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`);
});"""

expect.set_options(timeout=20_000)


def load(page, url):
    """Loads a page, and once more if the browser gave up."""
    for _ in range(5):
        try:
            page.goto(url() if callable(url) else url)
            page.wait_for_selector("#page > *", state="attached", timeout=20_000)
            return
        except PlaywrightError as e:
            if not re.search("ERR_NETWORK_CHANGED|Timeout|interrupted by another navigation", str(e)):
                raise
    raise AssertionError(f"{url} could not be loaded")


class Chromium:
    """One browser for a session of tests; each visitor has a profile of their own in it."""

    def __enter__(self):
        if not shutil.which(PROGRAM):
            pytest.fail("chromium is missing; tools/setup test installs it")
        self.island = Island()
        self.playwright = sync_playwright().start()
        self.browser = self.launch()
        return self

    def __exit__(self, *_):
        self.close(self.browser)
        self.playwright.stop()
        self.island.close()

    def launch(self):
        return self.playwright.chromium.launch(executable_path=self.island.program(PROGRAM), args=FLAGS)

    def profile(self, **options):
        if not self.browser.is_connected():
            self.browser = self.launch()
        return self.browser.new_context(**options)

    def close(self, what):
        """A profile, or the browser. A Chromium that has many tabs to close may wait for one of them forever: that one is killed, and the
        next visitor gets another."""
        late = threading.Timer(CLOSE_S, lambda: os.kill(self.island.pid(PROGRAM), signal.SIGKILL))
        late.start()
        try:
            what.close()
        except PlaywrightError:
            if self.browser.is_connected():
                raise
        finally:
            late.cancel()


class Visitor:
    """One tab. server is a Cay of tools/pylib, or a base URL."""

    def __init__(self, chromium, server, color="light", size=(1280, 800), expected=()):
        self.server = server
        self.base = server if isinstance(server, str) else f"https://127.0.0.1:{server.port}"
        chromium.island.reach(urllib.parse.urlparse(self.base).port, *([] if isinstance(server, str) else [server.router_port]))
        self.expected = [re.compile(e) for e in expected]  # messages of the browser that are no fault, such as a refused request
        self.chromium = chromium
        self.context = chromium.profile(ignore_https_errors=True, color_scheme=color, reduced_motion="reduce",
                                        viewport={"width": size[0], "height": size[1]}, accept_downloads=True)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=self.base)
        self.context.add_init_script(WATCH_POLICY)
        self.wrong = []
        self.page = self.context.new_page()
        self.watch(self.page)

    def watch(self, page):
        page.on("pageerror", lambda e: self.wrong.append(f"error in the page: {e}"))
        page.on("dialog", self.on_dialog)
        page.on("console", self.on_console)

    def on_dialog(self, dialog):
        self.wrong.append(f"a dialog of the browser: {dialog.type} {dialog.message}")
        dialog.dismiss()

    def on_console(self, message):
        if message.type != "error" or any(e.search(message.text) for e in self.expected):
            return
        # A browser reports each request that was refused or lost; the page handles those, and tests look at what it shows.
        if "content security policy" not in message.text.lower() and re.search(r"Failed to load resource|WebSocket connection to", message.text):
            return
        self.wrong.append(f"console: {message.text}")

    # -- getting in ---------------------------------------------------------------------------

    def link(self):
        """A link as `cay ui` prints it."""
        said = self.server.cay("ui", "--print", "--kubeconfig", self.server.kubeconfig).stdout
        return re.search(r"https?://\S+#code=\S+", said)[0]

    def open(self, url):
        load(self.page, url)

    def log_in(self, link=None):
        self.open(link or self.link)  # each try has a link of its own: one that was used is no longer good
        expect(self.page.get_by_role("navigation", name="Screens")).to_be_visible()
        assert "code=" not in self.page.url
        return self

    def log_in_by_token(self, token):
        self.open(f"{self.base}/ui/")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        # The page asks the server before it takes a token.
        expect(self.page.get_by_role("navigation", name="Screens").or_(self.page.get_by_role("alert")).first).to_be_visible()
        return self

    # -- moving about -------------------------------------------------------------------------

    def go(self, path):
        """A screen, as if its address had been typed: the token is the tab's."""
        self.open(f"{self.base}/ui/{path}")
        return self

    def turn(self, path):
        """A screen, as if a link within the page had been followed: nothing is loaded."""
        self.page.evaluate("(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", f"/ui/{path}")
        return self

    def see(self, text, exact=False):
        expect(self.page.get_by_text(text, exact=exact).first).to_be_visible()
        return self

    def heading(self, name):
        expect(self.page.get_by_role("heading", name=name, level=1)).to_be_visible()
        return self

    def button(self, name, exact=True):
        return self.page.get_by_role("button", name=name, exact=exact)

    def row(self, text):
        return self.page.get_by_role("row").filter(has_text=text)

    def shot(self, name):
        if SHOTS:
            os.makedirs(SHOTS, exist_ok=True)
            self.page.screenshot(path=os.path.join(SHOTS, f"{name}.png"))
        return self

    # -- what must never happen ---------------------------------------------------------------

    def unharmed(self):
        """No markup or script from outside has become part of the page."""
        found = self.page.evaluate(PLANTED)
        if found["hit"] is not None or found["planted"] or "planted" in found["title"]:
            self.wrong.append(f"taken over at {self.page.url}: {found}")
        return self

    def framed(self):
        """The frame of the page stands where it stood, and nothing has pushed it out of the window."""
        found = self.page.evaluate(FRAMED)
        assert found["nav"] and found["bar"] and found["main"], f"{self.page.url}: the frame is not whole: {found}"
        assert found["over"] <= 1, f"{self.page.url}: wider than the window by {found['over']} px: {found['widest']}"
        assert found["title"].endswith("Cay"), found["title"]
        return self

    def axe(self, *rules):
        """No serious fault of accessibility in what is shown now, by these rules or by all."""
        options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else None
        results = axe.Axe().run(self.page, options=options).response["violations"]
        found = [f"{v['id']} ({v['impact']}): {v['help']}: {[n['target'] for n in v['nodes'][:3]]}" for v in results if v["impact"] in SERIOUS]
        assert not found, f"{self.page.url}:\n" + "\n".join(found)
        return self

    def close(self):
        self.chromium.close(self.context)
        return self.wrong


def token_for(cay, name, role=None, ns="default", cluster=False):
    """A token of a service account, with a role or without."""
    cay.kubectl("create", "serviceaccount", name, "-n", ns, check=False)
    if role:
        kind = "clusterrolebinding" if cluster else "rolebinding"
        where = [] if cluster else ["-n", ns]
        cay.kubectl("create", kind, f"{name}-{role}", f"--clusterrole={role}", f"--serviceaccount={ns}:{name}", *where, check=False)
    return cay.kubectl("create", "token", name, "-n", ns).stdout.strip()


def temporary():
    return tempfile.mkdtemp(prefix="cay-page-", dir="/var/tmp")


def run(*argv, **options):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options)
