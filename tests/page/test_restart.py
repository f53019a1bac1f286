# SPDX-License-Identifier: Apache-2.0
"""A server that is killed, and an access that ends, in each screen: the page says so, and goes on by itself where it was."""

import re

import pytest

import world
from cay_local import wait_until
from page_kit import Visitor, expect, token_for
from world import SANDBOXES, put, question, sandbox, template, write_status

LOST = "The connection to the server is lost"
LOGIN = "Log in to Cay"


@pytest.fixture(scope="module")
def cay(cay):
    template(cay, "python", pool="pythons")
    # Its log goes on for as long as it lives.
    sandbox(cay, "box", "sh", "-c", "n=0; while sleep .2; do n=$((n+1)); echo line $n; done", labels={"round": "0"})
    put(cay, "budgets", "pulls", {"limits": {"cpuSeconds": "600"}, "period": "24h", "onExceeded": "Suspend"})
    put(cay, "agents", "builder", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec"]}, "budget": "pulls"})
    put(cay, "sessions", "first", {"agent": "builder", "sandbox": "none", "title": "The first"})
    return cay


# For each screen its address, what is seen there, and what changes it: texts with the name of a round.
CHANGES = {
    "": ("Pools", lambda cay, r: put(cay, "sandboxwarmpools", f"pool-{r}", {"replicas": 0, "sandboxTemplateRef": {"name": "python"}}), "pool-{}"),
    "sandboxes": ("box", lambda cay, r: put(cay, "sandboxes", f"box-{r}", {"operatingMode": "Suspended", "podTemplate": {"spec": {"containers": [{"name": "main", "image": "host"}]}}}), "box-{}"),
    "sandboxes/default/box": ("About it", lambda cay, r: write_status(cay, "sandboxes", "box", {"conditions": [*cay.api("GET", f"{SANDBOXES}/box")["status"]["conditions"], condition(r)]}), "condition of {}"),
    "sandboxes/default/box?tab=events": ("What happened", lambda cay, r: event(cay, r), "event of {}"),
    "sandboxes/default/box?tab=logs": ("line 1", None, None),
    "sandboxes/default/box?tab=terminal": ("Connected", None, None),
    "sessions": ("The first", lambda cay, r: put(cay, "sessions", f"session-{r}", {"agent": "builder", "sandbox": "none", "title": f"Title of {r}"}), "Title of {}"),
    "sessions/default/first": ("The first", lambda cay, r: patch(cay, "sessions", "first", {"spec": {"title": f"The first of {r}"}}), "The first of {}"),
    "approvals": ("No agent is waiting for an answer", lambda cay, r: put(cay, "approvals", f"question-{r}", {**question(argv=["make", r]), "agent": "builder"}), "make {}"),
    "agents": ("builder", lambda cay, r: put(cay, "agents", f"agent-{r}", {"sandbox": {"mode": "UserChooses"}}), "agent-{}"),
    "agents/default/builder": ("What it may do", lambda cay, r: patch(cay, "agents", "builder", {"spec": {"capabilities": {"tools": [f"tool_{r}"]}}}), "tool_{}"),
    "budgets": ("pulls", lambda cay, r: put(cay, "budgets", f"budget-{r}", {"limits": {"cpuSeconds": "60"}}), "budget-{}"),
    "templates": ("python", lambda cay, r: put(cay, "sandboxtemplates", f"template-{r}", {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "host"}]}}}), "template-{}"),
    "audit": ("create", None, None),
}


def condition(r):
    return {"type": f"Of{r}", "status": "True", "reason": "Round", "message": f"condition of {r}", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def event(cay, r):

    return world.event(cay, f"event-{r}", "box", "Round", f"event of {r}")


def patch(cay, plural, name, body):
    return cay.api("PATCH", f"/apis/cay.dev/v1alpha1/namespaces/default/{plural}/{name}", body, content_type="application/merge-patch+json")


class Tabs:
    """All screens at once, each in a tab of one visitor."""

    def __init__(self, chromium, cay, token):
        self.me = Visitor(chromium, cay)
        self.me.context.add_init_script(f"if (location.port === '{cay.port}' && !sessionStorage.getItem('begun')) {{ sessionStorage.setItem('begun', '1'); sessionStorage.setItem('cay.token', '{token}'); }}")
        self.pages = {}
        first = self.me.page
        for path in CHANGES:
            self.me.page = first if not self.pages else self.me.context.new_page()
            if self.pages:
                self.me.watch(self.me.page)
            self.me.go(path)
            self.pages[path] = self.me.page

    def each(self):
        yield from self.pages.items()

    def close(self):
        wrong = self.me.close()
        assert not wrong, "\n".join(wrong)


def seen(page, text):
    expect(page.locator("main").get_by_text(text).locator("visible=true").first).to_be_visible()  # a word of a closed menu is not seen


def show(page):
    page.bring_to_front()


@pytest.fixture
def tabs(chromium, cay):
    made = []

    def make(token):
        made.append(Tabs(chromium, cay, token))
        return made[-1]
    yield make
    for t in made:
        t.close()


def lines(page):
    return [int(n) for n in re.findall(r"line (\d+)", page.locator("main").inner_text())]


def test_a_server_that_was_killed_comes_back_in_every_screen(cay, tabs):
    all_of_them = tabs(token_for(cay, "root", "cluster-admin", cluster=True))
    for path, page in all_of_them.each():
        seen(page, CHANGES[path][0])
    terminal = all_of_them.pages["sandboxes/default/box?tab=terminal"]
    show(terminal)
    terminal.get_by_role("textbox", name=re.compile("Terminal")).focus()
    terminal.keyboard.type("kept=before; echo typed-$kept\n")
    expect(terminal.locator(".xterm-rows")).to_contain_text("typed-before")
    places = {path: page.url for path, page in all_of_them.each()}
    cay.kill()
    for path, page in all_of_them.each():
        show(page)
        expect(page.get_by_text(LOST)).to_be_visible()
        expect(page.get_by_role("navigation", name="Screens")).to_be_visible()
    cay.start()
    for path, page in all_of_them.each():
        show(page)
        expect(page.get_by_text(LOST)).to_be_hidden()
        assert page.url == places[path]
    for path, (_, change, _) in CHANGES.items():
        if change:
            change(cay, "two")
    for path, page in all_of_them.each():
        if CHANGES[path][2]:
            show(page)
            seen(page, CHANGES[path][2].format("two"))
    log = all_of_them.pages["sandboxes/default/box?tab=logs"]
    show(log)
    last = max(lines(log))
    wait_until(lambda: max(lines(log)) > last + 10)
    show(terminal)
    expect(terminal.get_by_text("Connected", exact=True)).to_be_visible()
    terminal.get_by_role("textbox", name=re.compile("Terminal")).focus()
    terminal.keyboard.type("echo again-$((40+2))\n")
    expect(terminal.locator(".xterm-rows")).to_contain_text("again-42")
    audit = all_of_them.pages["audit"]
    show(audit)
    seen(audit, "agent-two")


def test_a_short_absence_is_not_told(cay, visit):
    """A network that only changed ends watches; nobody needs to know of what is mended at once."""
    me = visit(cay).log_in().go("sandboxes")
    me.see("box")
    me.page.evaluate("() => { window.said = []; new MutationObserver(() => { if (document.querySelector('.lost')) window.said.push(document.querySelector('.lost').textContent); }).observe(document.body, {childList: true, subtree: true}); }")
    me.context.set_offline(True)
    me.context.set_offline(False)
    put(cay, "sandboxes", "box-short", {"operatingMode": "Suspended", "podTemplate": {"spec": {"containers": [{"name": "main", "image": "host"}]}}})
    me.see("box-short")
    assert me.page.evaluate("() => window.said") == []


def test_who_loses_their_access_comes_back_where_they_were_in_every_screen(cay, tabs):
    all_of_them = tabs(token_for(cay, "passing", "cluster-admin", cluster=True))
    for path, page in all_of_them.each():
        expect(page.locator("main h1")).to_be_visible()
    places = {path: page.url for path, page in all_of_them.each()}
    cay.kubectl("delete", "serviceaccount", "passing")
    for path, page in all_of_them.each():
        show(page)
        expect(page.get_by_role("heading", name=LOGIN)).to_be_visible()
        expect(page.get_by_text("Your session has ended, or your access was revoked")).to_be_visible()
        assert page.evaluate("() => sessionStorage.getItem('cay.token')") is None
    again = token_for(cay, "passing")
    for path, page in all_of_them.each():
        show(page)
        page.get_by_label("Token").fill(again)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("main h1")).to_be_visible()
        assert page.url.split("?")[0] == places[path].split("?")[0]
