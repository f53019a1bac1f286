# SPDX-License-Identifier: Apache-2.0
"""The overview: pools, claims and the node as they live."""

import pytest

from page_kit import expect, token_for
from world import POOLS, claim, put, question, sandbox, template


@pytest.fixture(scope="module")
def cay(cay):
    template(cay, "python", pool="pythons", replicas=1)
    sandbox(cay, "asleep", mode="Suspended")
    return cay


def figure(me, title):
    return me.page.locator("main").get_by_role("link", name=title).or_(me.page.locator("main section, main li, main div").filter(has_text=title)).first


def test_it_lives(cay, visitor):
    me = visitor.go("")
    me.heading("Overview").see("1 suspended").see("1 of 1 ready").see("0 claimed")
    claim(cay, "quick", "pythons")
    me.see("1 claimed").see("quick").see("Warm").see("1 in use")
    put(cay, "approvals", "ask", {**question(argv=["make"]), "agent": "builder"})
    me.see("Agents are waiting for an answer")
    put(cay, "sandboxwarmpools", "dry", {"replicas": 1, "sandboxTemplateRef": {"name": "no-such-template"}})
    me.see("Dry", exact=True)
    me.see("Node pressure").see("Memory is fine").shot("overview").axe()


def test_a_pool_is_sized(cay, visitor):
    me = visitor.go("")
    me.button("Change the size of pythons").click()
    dialog = me.page.get_by_role("dialog", name="Size of pythons")
    dialog.get_by_label("Sandboxes to keep ready").fill("-1")
    expect(dialog).to_contain_text("Enter a whole number")
    dialog.get_by_label("Sandboxes to keep ready").fill("2")
    dialog.get_by_role("button", name="Change size").click()
    me.see("pythons now keeps 2 ready.").see("2 of 2 ready")
    assert cay.api("GET", f"{POOLS}/pythons")["spec"]["replicas"] == 2


def test_who_sees_less_sees_the_rest(cay, visit):
    me = visit(cay).log_in_by_token(token_for(cay, "looker", "view"))
    me.heading("Overview").see("2 of 2 ready")
    expect(me.button("Change the size of pythons")).to_be_disabled()
