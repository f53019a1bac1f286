# SPDX-License-Identifier: Apache-2.0
"""The list of sandboxes: what is there, made, found, put to sleep and deleted."""

import pytest

from page_kit import expect, token_for
from world import CLAIMS, SANDBOXES, container, put, sandbox, template


@pytest.fixture(scope="module")
def cay(cay):
    template(cay, "python", pool="pythons", replicas=1)
    sandbox(cay, "steady")
    sandbox(cay, "asleep", mode="Suspended")
    put(cay, "sandboxes", "broken", {"podTemplate": {"spec": container(image="registry.example.org/none:1")}})
    return cay


def test_a_list_that_lives(cay, visitor):
    me = visitor.go("sandboxes")
    for name, state in (("steady", "Ready"), ("asleep", "Suspended"), ("broken", "Waiting")):
        expect(me.row(name)).to_contain_text(state)
    expect(me.row("broken")).to_contain_text("ErrImagePull")
    sandbox(cay, "later", mode="Suspended")
    expect(me.row("later")).to_contain_text("Suspended")
    cay.api("DELETE", f"{SANDBOXES}/later")
    expect(me.row("later")).to_have_count(0)
    me.page.get_by_label("Pool members too").check()
    expect(me.row("in a pool")).to_be_visible()
    me.page.get_by_role("combobox", name="Show").select_option("suspended")
    expect(me.page.locator("[data-row]")).to_have_count(1)
    assert "state=suspended" in me.page.url
    me.page.reload()
    expect(me.page.locator("[data-row]")).to_have_count(1)
    me.shot("sandboxes")


def test_a_new_one_from_a_pool(cay, visitor):
    me = visitor.go("sandboxes")
    me.button("New sandbox", exact=False).click()
    dialog = me.page.get_by_role("dialog", name="New sandbox")
    dialog.get_by_label("Name").fill("fresh")
    me.shot("sandboxes-new")
    dialog.get_by_role("button", name="Create").click()
    me.see("fresh was ready in")
    expect(me.page.locator("h1")).to_contain_text("Ready")
    assert cay.api("GET", f"{CLAIMS}/fresh")["status"]["sandbox"]["name"] in me.page.url
    me.go("sandboxes?new=1")
    dialog.get_by_label("Name").fill("fresh")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("There is already a sandbox named fresh")


def test_to_sleep_and_back_and_away(cay, visitor):
    sandbox(cay, "nap")
    me = visitor.go("sandboxes")

    def do(what):
        me.button("Actions for nap").click()
        me.page.get_by_role("menuitem", name=what).click()
    do("Suspend")
    expect(me.row("nap")).to_contain_text("Suspended")
    assert cay.api("GET", f"{SANDBOXES}/nap")["spec"]["operatingMode"] == "Suspended"
    do("Resume")
    expect(me.row("nap")).to_contain_text("Ready")
    do("Delete…")
    dialog = me.page.get_by_role("dialog", name="Delete nap?")
    expect(dialog).to_contain_text("cannot be undone")
    dialog.get_by_role("button", name="Cancel").click()
    expect(me.row("nap")).to_contain_text("Ready")
    do("Delete…")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(me.row("nap")).to_have_count(0)


def test_what_somebody_may_not_do_is_not_offered(cay, visit):
    me = visit(cay).log_in_by_token(token_for(cay, "looker", "view")).go("sandboxes")
    me.button("Actions for steady").click()
    item = me.page.get_by_role("menuitem", name="Suspend")
    expect(item).to_have_attribute("aria-disabled", "true")
    expect(item).to_have_attribute("title", "You need the right to patch sandboxes.")
    me.page.keyboard.press("Escape")
    me.button("New sandbox", exact=False).click()
    expect(me.page.get_by_role("dialog").get_by_role("button", name="Create")).to_be_disabled()


def test_enter_opens_the_row_with_the_focus_wherever_it_has_moved(cay, visitor):
    sandbox(cay, "middle", mode="Suspended")
    me = visitor.go("sandboxes")
    row = me.row("middle")
    row.focus()
    for name in ("aaa-1", "aaa-2"):
        sandbox(cay, name, mode="Suspended")
        expect(me.row(name)).to_be_visible()
    expect(row).to_be_focused()
    assert me.page.locator("[data-row][tabindex='0']").count() == 1
    expect(row).to_have_attribute("tabindex", "0")
    at = int(row.get_attribute("data-row"))
    me.page.keyboard.press("ArrowDown")
    expect(me.page.locator(f"[data-row='{at + 1}']")).to_be_focused()
    me.page.keyboard.press("ArrowUp")
    expect(row).to_be_focused()
    me.page.keyboard.press("Enter")
    expect(me.page.locator("h1")).to_contain_text("middle")


def test_a_list_keeps_a_way_in_for_the_keyboard(cay, visitor):
    for n in range(60):
        put(cay, "sandboxes", f"crowd-{n:02}", {"operatingMode": "Suspended", "podTemplate": {"spec": container()}})
    me = visitor.go("sandboxes?q=crowd")
    stop = me.page.locator("[data-row][tabindex='0']")
    expect(stop).to_have_attribute("data-row", "0")
    me.page.get_by_role("table", name="Sandboxes").evaluate("(e) => { e.scrollTop = e.scrollHeight; }")
    last = me.page.locator("[data-row='59']")
    expect(last).to_be_visible()
    expect(me.page.locator("[data-row='0']")).to_have_count(0)
    expect(stop).to_have_count(1)
    last.focus()
    me.page.get_by_label("Find", exact=True).fill("crowd-1")
    expect(last).to_have_count(0)
    expect(stop).to_have_count(1)
    # What somebody looks for is read out once; rows that come and go are not.
    expect(me.page.locator(".table-bar [role=status]")).to_contain_text("10 of")
    me.page.get_by_label("Find", exact=True).fill("")
    expect(me.page.locator(".table-bar [role=status]")).to_have_text("")


def ask_to_delete(me, name):
    me.button(f"Actions for {name}").click()
    me.page.get_by_role("menuitem", name="Delete…").click()
    dialog = me.page.get_by_role("dialog", name=f"Delete {name}?")
    expect(dialog).to_be_visible()
    return dialog.get_by_role("button", name="Delete", exact=True)


def test_another_that_got_its_name_is_not_deleted(cay, visitor):
    sandbox(cay, "twin", mode="Suspended")
    me = visitor.go("sandboxes")
    yes = ask_to_delete(me, "twin")
    cay.api("DELETE", f"{SANDBOXES}/twin")
    cay.wait(SANDBOXES, "twin", lambda o: o is None)
    sandbox(cay, "twin", mode="Suspended")
    yes.click()
    expect(me.page.get_by_role("region", name="Notices").get_by_role("alert")).to_be_visible()
    assert "deletionTimestamp" not in cay.api("GET", f"{SANDBOXES}/twin")["metadata"]


def test_a_deletion_whose_answer_was_lost_is_done(cay, visitor):
    sandbox(cay, "away", mode="Suspended")
    me = visitor.go("sandboxes")
    asked = []

    def lose_the_first(route):
        if route.request.method != "DELETE" or asked:
            return route.continue_()
        asked.append(route.request.post_data_json)
        cay.api("DELETE", f"{SANDBOXES}/away")
        cay.wait(SANDBOXES, "away", lambda o: o is None)
        return route.abort()
    yes = ask_to_delete(me, "away")
    me.page.route("**/sandboxes/away", lose_the_first)
    yes.click()
    expect(me.page.get_by_role("region", name="Notices").get_by_role("status")).to_contain_text("away")
    expect(me.page.get_by_role("alert")).to_have_count(0)
    assert asked[0]["preconditions"]["uid"]


def test_who_closes_the_dialog_is_left_where_they_are(cay, visitor):
    me = visitor.go("sandboxes")
    held = []
    me.page.route("**/sandboxclaims", lambda r: held.append(r) if r.request.method == "POST" else r.continue_())
    me.button("New sandbox", exact=False).click()
    dialog = me.page.get_by_role("dialog", name="New sandbox")
    dialog.get_by_label("Name").fill("unwatched")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("button", name="Creat")).to_be_disabled()
    me.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    url = me.page.url
    held[0].continue_()
    expect(me.row("unwatched")).to_be_visible()
    cay.wait_ready(CLAIMS, "unwatched")
    me.page.wait_for_timeout(2500)  # longer than the page's patience
    assert me.page.url == url
