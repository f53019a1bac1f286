# SPDX-License-Identifier: Apache-2.0
"""Sessions: started, given sandboxes, ended and taken up again."""

import pytest

from page_kit import expect
from world import DEFAULT, put, sandbox, template


@pytest.fixture(scope="module")
def cay(cay):
    template(cay, "python", pool="pythons", replicas=1)
    sandbox(cay, "shared")
    put(cay, "agents", "builder", {"sandbox": {"mode": "FreshPerSession", "warmPoolRef": {"name": "pythons"}, "retain": "24h"}, "capabilities": {"rights": ["exec", "read", "write"]}})
    put(cay, "agents", "reviewer", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec", "read"]}})
    return cay


def only(cay):
    return cay.api("GET", f"{DEFAULT}/sessions")["items"][0]


def test_a_session_from_its_start_to_its_end(cay, visitor):
    me = visitor.go("sessions")
    me.see("There are no ongoing sessions")
    me.page.get_by_role("link", name="New session").or_(me.button("New session", exact=False)).first.click()
    me.page.get_by_role("combobox", name="Agent").select_option("builder")
    me.page.get_by_label("Title").fill("Mend the roof")
    me.page.get_by_label("For user").fill("maria")
    me.shot("session-new").axe()
    me.button("Start").click()
    me.heading("Mend the roof")
    me.see("Active")
    s = only(cay)
    assert (s["spec"]["title"], s["spec"]["user"], s["spec"]["agent"]) == ("Mend the roof", "maria", "builder")
    box = cay.wait_ready(f"{DEFAULT}/sessions", s["metadata"]["name"])["status"]["sandbox"]
    me.see(box)
    me.shot("session")
    # another sandbox
    me.button("Attach another sandbox").click()
    dialog = me.page.get_by_role("dialog", name="Attach a sandbox")
    dialog.get_by_text("shared", exact=True).click()
    dialog.get_by_role("button", name="Attach", exact=False).last.click()
    me.see("Sandbox shared is attached.")
    me.button("Detach shared").click()
    me.page.get_by_role("dialog").get_by_role("button", name="Detach").click()
    me.see("Sandbox shared is detached.")
    # the end
    me.button("End session").click()
    dialog = me.page.get_by_role("dialog", name="End this session?")
    expect(dialog).to_contain_text("24h")
    dialog.get_by_role("button", name="End session").click()
    me.see("Ended").see("deleted in")
    assert only(cay)["spec"]["ended"] is True
    me.button("Resume session").click()
    me.see("The session has resumed.").see("Active")


def test_the_list_lives(cay, visitor):
    me = visitor.go("sessions")
    put(cay, "sessions", "review", {"agent": "reviewer", "sandbox": "none", "title": "Read it through"})
    expect(me.row("Read it through")).to_contain_text("Active")
    cay.api("PATCH", f"{DEFAULT}/sessions/review", {"spec": {"ended": True}}, content_type="application/merge-patch+json")
    expect(me.row("Read it through")).to_have_count(0)
    me.page.get_by_role("combobox", name="Show").select_option("ended")
    expect(me.row("Read it through")).to_contain_text("Ended")
    me.shot("sessions")


def test_a_choice_that_is_left_to_the_user(cay, visitor):
    put(cay, "sessions", "undecided", {"agent": "reviewer", "title": "Which one"})
    me = visitor.go("sessions/default/undecided")
    me.see("Choose a sandbox below")
    me.button("Change its sandbox").click()
    dialog = me.page.get_by_role("dialog")
    dialog.get_by_label("One that exists.").check()
    dialog.get_by_text("shared", exact=True).click()
    dialog.get_by_role("button").last.click()
    me.see("The session gets the sandbox that you chose.")
    cay.wait(f"{DEFAULT}/sessions", "undecided", lambda o: (o or {}).get("status", {}).get("sandbox") == "shared")
