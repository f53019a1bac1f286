# SPDX-License-Identifier: Apache-2.0
"""No serious fault of accessibility: every screen, light and dark, with things in it and without, and with its dialogs open."""

import pytest

from page_kit import expect
from world import team

LISTS = ["", "sandboxes", "sessions", "approvals", "agents", "budgets", "audit", "templates"]
BOX = "sandboxes/default/docs-preview"
OBJECTS = [BOX, *(f"{BOX}?tab={tab}" for tab in ("terminal", "files", "logs", "ports", "events", "usage")), "sandboxes/default/broken", "sandboxes/default/nightly", "sandboxes/default/no-such-box",
           "sessions/default/fix-login", "approvals/default/push-0", "approvals/default/old?tab=decided", "agents/default/builder", "budgets/default/pulls", "budgets?tab=costs", "templates/default/python"]


@pytest.fixture(scope="module")
def cay(cay):
    team(cay)
    cay.api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}})
    return cay


def settled(me, path):
    me.turn(path)
    expect(me.page.locator("main h1")).to_be_visible()
    expect(me.page.locator("main")).not_to_contain_text("Loading…")
    return me


# Dark differs in its colours alone.
COLORS = {"light": [], "dark": ["color-contrast"]}


@pytest.mark.parametrize("color", COLORS)
def test_every_screen(cay, visit, color):
    me = visit(cay, color=color).log_in()
    found = []
    for path in LISTS + OBJECTS + ([f"{p}?ns=empty" for p in LISTS] if color == "light" else []):
        settled(me, path)
        me.framed().shot(f"{color}-{path.replace('/', '-').replace('?', '-') or 'overview'}")
        try:
            me.axe(*COLORS[color])
        except AssertionError as e:
            found.append(str(e))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("color", COLORS)
def test_every_dialog(cay, visit, color):
    """Each that one button opens."""
    me = visit(cay, color=color).log_in()
    found, opened = [], set()
    for path in ["sandboxes", BOX, "sessions", "sessions/default/fix-login", "approvals/default/push-0", "agents/default/builder", "budgets/default/pulls", "budgets", "templates", "templates/default/python", "",
                 f"{BOX}?tab=files", f"{BOX}?tab=terminal"]:
        settled(me, path)
        names = me.page.locator("main button:enabled:visible").evaluate_all("(all) => [...new Set(all.map((b) => (b.getAttribute('aria-label') || b.textContent).trim()))].filter((n) => /…$|^New |^Delete|^Attach|^End|^Detach|^Always|^Change|^Actions|^Size|^Edit|^Remove|^Close terminal|^Upload$/.test(n))")
        for name in names[:8]:
            me.page.keyboard.press("Escape")
            button = me.page.locator("main").get_by_role("button", name=name, exact=True).first
            if not button.count() or not button.is_enabled():
                continue
            button.click()
            over = me.page.locator("dialog[open], [popover]:popover-open")
            try:
                over.first.wait_for(state="visible", timeout=1500)
            except Exception:
                continue  # it does something else
            opened.add(name)
            me.shot(f"{color}-dialog-{name.replace(' ', '-').replace('…', '').replace('/', '-')}")
            try:
                me.axe(*COLORS[color]).framed()
            except AssertionError as e:
                found.append(f"{name}: {e}")
            me.page.keyboard.press("Escape")
            expect(over).to_have_count(0)
            if me.page.url.split("?")[0] != f"{me.base}/ui/{path}".split("?")[0]:
                settled(me, path)
    assert not found, "\n".join(found)
    assert len(opened) >= 8, f"hardly a dialog was found: {opened}"


def test_light_and_dark(cay, visit):
    """As the system has it, until somebody chooses; the choice stays."""
    def ground(me):
        return me.page.evaluate("() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)")
    dark = visit(cay, color="dark").log_in()
    light = visit(cay, color="light").log_in()
    assert ground(dark) < 200 and ground(light) > 600
    light.page.get_by_label("Theme").select_option("dark")
    assert ground(light) < 200
    light.page.reload()
    light.heading("Overview")
    assert ground(light) < 200
    light.page.get_by_label("Theme").select_option("system")
    light.page.emulate_media(color_scheme="dark")
    assert ground(light) < 200
    light.page.emulate_media(color_scheme="light")
    assert ground(light) > 600


def test_a_small_window(cay, visit):
    """Half a window beside an editor, and a telephone."""
    me = visit(cay).log_in()
    for size in ((720, 800), (400, 800)):
        me.page.set_viewport_size({"width": size[0], "height": size[1]})
        for path in LISTS + OBJECTS[:2] + ["approvals/default/push-0", "agents/default/builder"]:
            settled(me, path)
            me.shot(f"small-{size[0]}-{path.replace('/', '-').replace('?', '-') or 'overview'}")
            over = me.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert over <= 1, f"{path} is {over} px wider than {size[0]}"
