# SPDX-License-Identifier: Apache-2.0
"""Everything with the keyboard alone: no test in this file moves a pointer, and where the focus is can always be seen."""

import re

import pytest

from page_kit import expect, token_for
from world import template

FOCUS = """() => {
    const e = document.activeElement;
    if (!e || e === document.body)
        return { lost: true };
    const s = getComputedStyle(e);
    const around = e.closest(".xterm, .term-frame");
    const outlined = (x) => x && getComputedStyle(x).outlineStyle !== "none" && parseFloat(getComputedStyle(x).outlineWidth) > 0;
    return { lost: false, what: `${e.tagName} ${e.id} ${e.getAttribute("aria-label") ?? ""} ${e.textContent.slice(0, 40)}`, main: e.id === "main", dialog: !!e.closest("dialog"),
        seen: outlined(e) || s.boxShadow !== "none" || outlined(around) || !!around, box: e.getBoundingClientRect().toJSON() };
}"""


@pytest.fixture(scope="module")
def cay(cay):
    template(cay, "python", pool="pythons", replicas=1)
    return cay


class Keys:
    def __init__(self, me):
        self.me, self.page = me, me.page

    def press(self, *keys):
        for k in keys:
            self.page.keyboard.press(k)
        return self

    def type(self, text):
        self.page.keyboard.type(text)
        return self

    def focus(self):
        return self.page.evaluate(FOCUS)

    def tab_to(self, locator, key="Tab", most=80):
        """The next stop that it is; each on the way can be seen, and is within a dialog as long as one is open."""
        expect(locator).to_be_visible()
        for _ in range(most):
            if locator.evaluate("(e) => e === document.activeElement || e.contains(document.activeElement)"):
                at = self.focus()
                assert at["seen"], f"nothing shows that the focus is at {at['what']}"
                return self
            self.press(key)
            at = self.focus()
            if self.page.locator("dialog[open]").count():
                assert at["lost"] is False and at["dialog"], f"the focus left the dialog: {at}"
            elif not at["lost"]:
                assert at["seen"] or at["main"], f"nothing shows that the focus is at {at['what']}"
        raise AssertionError(f"{most} tabs do not lead to {locator}")

    def palette(self, words, title):
        """The command of this title, by a few letters."""
        self.press("Control+k")
        box = self.page.get_by_role("combobox", name="What do you want to do?")
        expect(box).to_be_focused()
        self.type(words)
        expect(self.page.locator("#palette-list").get_by_role("option", selected=True)).to_contain_text(title)
        self.press("Enter")
        expect(self.page.get_by_role("dialog", name="Commands")).to_be_hidden()
        return self


def test_a_life_without_a_pointer(cay, visit):
    token = token_for(cay, "typist", "cluster-admin", cluster=True)
    me = visit(cay)
    me.open(f"{me.base}/ui/")
    keys, page = Keys(me), me.page
    keys.tab_to(page.get_by_label("Token"))
    page.keyboard.insert_text(token)
    keys.tab_to(page.get_by_role("button", name="Log in"))
    keys.press("Enter")
    expect(page.get_by_role("navigation", name="Screens")).to_be_visible()

    # a new sandbox, from a pool
    keys.press("g", "s")
    me.heading("Sandboxes")
    keys.press("n")
    dialog = page.get_by_role("dialog", name="New sandbox")
    expect(dialog).to_be_visible()
    assert keys.focus()["dialog"]
    keys.tab_to(dialog.get_by_label("Name"))
    keys.type("Not a name")
    keys.press("Enter")
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert keys.focus()["dialog"]
    keys.press("Control+a").type("typed")
    keys.press("Enter")
    me.heading(re.compile("^typed"))
    expect(page.locator("h1")).to_contain_text("Ready")

    # its terminal
    keys.tab_to(page.get_by_role("tab", name="Overview"))
    keys.press("ArrowRight")
    expect(page.get_by_role("tab", name="Terminal")).to_be_focused()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    terminal = page.get_by_role("textbox", name=re.compile("Terminal"))
    keys.tab_to(terminal)
    keys.type("echo typed-$((40+2))\n")
    expect(page.locator(".xterm-rows")).to_contain_text("typed-42")
    keys.press("Tab")
    expect(terminal).to_be_focused()  # a shell completes with it
    keys.press("Control+Shift+l")
    expect(terminal).not_to_be_focused()
    assert keys.focus()["lost"] is False
    me.shot("keyboard-terminal")

    # to sleep, and away
    keys.palette("suspend", "Suspend typed")
    expect(page.locator("h1")).to_contain_text("Suspended")
    keys.palette("delete", "Delete typed")
    ask = page.get_by_role("dialog", name="Delete typed?")
    expect(ask).to_be_visible()
    keys.press("Escape")
    expect(ask).to_be_hidden()
    keys.palette("delete", "Delete typed")
    keys.tab_to(ask.get_by_role("button", name="Delete", exact=True))
    keys.press("Enter")
    me.heading("Sandboxes")
    expect(page.get_by_role("table", name="Sandboxes").get_by_text("typed", exact=True)).to_have_count(0)


def test_the_commands(cay, visitor):
    keys, page = Keys(visitor), visitor.page
    visitor.go("agents")
    for words, title, heading in (("temp", "Go to Templates", "Templates"), ("BUDG go", "Go to Budgets", "Budgets"), ("audit", "Go to Audit", "Audit")):
        keys.palette(words, title)
        visitor.heading(heading)
    keys.press("Control+k")
    dialog = page.get_by_role("dialog", name="Commands")
    first = page.locator("#palette-list").get_by_role("option", selected=True).text_content()
    keys.press("ArrowDown")
    expect(page.locator("#palette-list").get_by_role("option", selected=True)).not_to_have_text(first)
    keys.press("ArrowUp", "ArrowUp", "ArrowDown")
    expect(page.locator("#palette-list").get_by_role("option", selected=True)).to_have_text(first)
    keys.type("no command is called so")
    expect(dialog).to_contain_text("There is no such command")
    visitor.axe()
    keys.press("Enter")
    visitor.heading("Audit")
    keys.press("Control+k")
    expect(dialog).to_be_visible()
    keys.press("Escape")
    expect(dialog).to_be_hidden()
    for key in ("Control", "k", "k"):  # held down: it opens, and does not close again
        page.keyboard.down(key)
    for key in ("k", "Control"):
        page.keyboard.up(key)
    expect(dialog).to_be_visible()
    keys.press("Escape")


def test_the_list_of_keys(cay, visitor):
    keys, page = Keys(visitor), visitor.page
    visitor.go("sandboxes")
    visitor.heading("Sandboxes")
    keys.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    for key, what in (("Ctrl K", "Commands"), ("g s", "Go to Sandboxes"), ("/", "Find"), ("n", "New sandbox")):
        expect(dialog.locator("div", has=page.locator("kbd", has_text=re.compile(f"^{re.escape(key)}$"))).filter(has_text=what).first).to_be_visible()
    assert keys.focus()["dialog"]
    visitor.axe().shot("keys")
    keys.press("Escape")
    expect(dialog).to_be_hidden()
    keys.press("/")
    expect(page.get_by_label("Find", exact=True)).to_be_focused()
    keys.type("g s ? n")
    expect(page.get_by_label("Find", exact=True)).to_have_value("g s ? n")
    assert not page.locator("dialog[open]").count()


@pytest.mark.parametrize("key,heading", [("o", "Overview"), ("s", "Sandboxes"), ("e", "Sessions"), ("p", "Approvals"), ("a", "Agents"), ("b", "Budgets"), ("u", "Audit"), ("t", "Templates")])
def test_each_screen_has_a_key_and_can_be_walked_through(cay, one, key, heading):
    keys, page = Keys(one), one.page
    page.evaluate("() => document.activeElement?.blur?.()")
    keys.press("g", key)
    one.heading(heading)
    stops, around = [], 0
    for _ in range(60):
        keys.press("Tab")
        at = keys.focus()
        around += at["lost"]
        if around == 2:
            break
        if at["lost"]:
            continue
        assert at["seen"] or at["main"], f"nothing shows that the focus is at {at['what']}"
        stops.append(at["what"])
    assert len(set(stops)) > 8, stops


@pytest.fixture(scope="module")
def one(chromium, cay):
    from page_kit import Visitor
    me = Visitor(chromium, cay).log_in()
    yield me
    wrong = me.close()
    assert not wrong, wrong


def test_the_content_is_one_step_away(cay, visitor):
    visitor.go("sandboxes")
    visitor.heading("Sandboxes")
    keys = Keys(visitor)
    keys.press("Tab")
    expect(visitor.page.get_by_role("link", name="Skip to content")).to_be_focused()
    keys.press("Enter")
    keys.press("Tab")
    assert visitor.page.evaluate("() => !!document.activeElement.closest('main')")
