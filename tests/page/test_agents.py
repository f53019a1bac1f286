# SPDX-License-Identifier: Apache-2.0
"""Agents: what the chain above them leaves, as the server applies it."""

import pytest

from page_kit import expect
from world import DEFAULT, put


def patch(cay, plural, name, body):
    return cay.api("PATCH", f"{DEFAULT}/{plural}/{name}", body, content_type="application/merge-patch+json")


@pytest.fixture(scope="module")
def cay(cay):
    put(cay, "teampolicies", "team", {"capabilities": {"rights": ["exec", "read", "write"], "egress": [{"host": "*.example.org"}], "tools": ["*"]}})
    put(cay, "budgets", "pulls", {"limits": {"cpuSeconds": "600"}, "period": "24h", "onExceeded": "Suspend"})
    put(cay, "agents", "lead", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec", "read", "write"], "tools": ["*"], "egress": [{"host": "packages.example.org", "ports": [443]}]}, "budget": "pulls"})
    put(cay, "agents", "builder", {"parent": "lead", "sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec", "read", "write"], "tools": ["execute_command"], "egress": [{"host": "packages.example.org", "ports": [443]}]},
                                   "approval": {"rules": [{"action": "Ask", "argv": ["git", "push", "**"]}, {"action": "Deny", "argv": ["rm", "-rf", "**"]}, {"action": "Allow", "argv": ["make", "all"], "withoutInput": True}]}})
    patch(cay, "agents", "lead", {"spec": {"capabilities": {"rights": ["exec", "read"]}}})
    cay.wait(f"{DEFAULT}/agents", "builder", lambda o: (o or {}).get("status", {}).get("effective", {}).get("rights") == ["exec", "read"])
    return cay


def test_the_list(cay, visitor):
    me = visitor.go("agents")
    expect(me.row("builder")).to_contain_text("lead")
    expect(me.row("builder")).to_contain_text("Not verified")
    put(cay, "agents", "newcomer", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec"]}})
    expect(me.row("newcomer")).to_be_visible()
    cay.api("DELETE", f"{DEFAULT}/agents/newcomer")
    expect(me.row("newcomer")).to_have_count(0)
    me.shot("agents")


def test_what_is_left_of_its_rights(cay, visitor):
    me = visitor.go("agents/default/builder")
    me.see("What it may do")
    row = me.page.get_by_role("row", name="Rights")
    last = row.get_by_role("cell").last
    expect(last).to_contain_text("exec")
    expect(last).not_to_contain_text("write")
    expect(row.locator("del, s").filter(has_text="write").first).to_be_visible()
    me.see("packages.example.org").shot("agent").axe()
    # What somebody above changes is shown as soon as the server applies it.
    patch(cay, "agents", "lead", {"spec": {"capabilities": {"rights": ["exec", "read", "write"]}}})
    expect(last).to_contain_text("write")
    patch(cay, "agents", "lead", {"spec": {"capabilities": {"rights": ["read"]}}})
    expect(last).not_to_contain_text("exec")
    patch(cay, "agents", "lead", {"spec": {"capabilities": {"rights": ["exec", "read"]}}})


def test_its_rules(cay, visitor):
    me = visitor.go("agents/default/builder")
    me.see("What a person is asked about").see("git").see("Deny")
    before = cay.api("GET", f"{DEFAULT}/agents/builder")["spec"]["approval"]["rules"]
    me.button("Remove rule 3").click()
    dialog = me.page.get_by_role("dialog", name="Remove this rule?")
    expect(dialog).to_contain_text("make")
    dialog.get_by_role("button", name="Remove").click()
    me.see("The rule is removed.")
    assert cay.api("GET", f"{DEFAULT}/agents/builder")["spec"]["approval"]["rules"] == before[:2]


def test_one_whose_parent_is_missing(cay, visitor):
    for name, parent in (("gone", None), ("orphan", "gone")):
        put(cay, "agents", name, {**({"parent": parent} if parent else {}), "sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec"]}})
    cay.api("DELETE", f"{DEFAULT}/agents/gone")
    visitor.go("agents/default/orphan").see("which is above it, does not exist")
    visitor.go("agents/default/never").see("There is no such agent")
