# SPDX-License-Identifier: Apache-2.0
"""Questions of agents, answered in the page: the command that waits is held by the gate, and goes on or not as the answer says."""

import contextlib
import importlib.util
import os

import pytest

from cay_local import ROOT
from page_kit import expect, token_for
from world import DEFAULT, put, sandbox

spec = importlib.util.spec_from_file_location("gate_kit", os.path.join(ROOT, "tests", "integration", "gate_kit.py"))
gate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gate)


@pytest.fixture(scope="module")
def cay(cay):
    sandbox(cay, "box")
    put(cay, "agents", "builder", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec", "read"]}, "approval": {"default": "Ask", "timeout": "10m"}})
    put(cay, "sessions", "work", {"agent": "builder", "sandbox": "none", "title": "Some work", "user": "maria"})
    put(cay, "attachments", "work", {"session": "work", "sandbox": "box", "rights": ["exec", "read"]})
    cay.wait_ready(f"{DEFAULT}/attachments", "work")
    return cay


@contextlib.contextmanager
def asked(cay, me, *argv):
    """A command of the agent that waits, is shown, and can be answered; one that nobody answered is no longer there for the next test."""
    with gate.waiting(cay, "builder", "box", *argv) as p:
        try:
            for word in argv:
                expect(me.page.get_by_role("article").get_by_role("listitem").filter(has_text=f'"{word}"').first).to_be_visible()
            expect(me.button("Deny", exact=False)).to_be_enabled()  # the page knows what its user may do
            assert p.poll() is None
            yield p
        finally:
            for left in gate.open_questions(cay, "builder"):
                gate.decide(cay, left, "Deny")


def test_once(cay, visitor):
    me = visitor.go("approvals").see("No agent is waiting for an answer")
    with asked(cay, me, "echo", "allowed-once") as p:
        expect(me.page.get_by_role("navigation").get_by_label("1 open question")).to_be_visible()
        me.see("Run this command").see("Some work").see("maria").shot("approval").axe()
        me.button("Allow once", exact=False).click()
        assert p.communicate(timeout=60)[0] == "allowed-once\n" and p.returncode == 0
    me.see("Allowed builder once.").see("It has begun.")
    expect(me.page.get_by_role("navigation").locator(".count")).to_have_count(0)


def test_deny_by_key(cay, visitor):
    me = visitor.go("approvals")
    with asked(cay, me, "echo", "denied") as p:
        me.page.keyboard.press("d")
        out, err = p.communicate(timeout=60)
        assert p.returncode != 0 and out == "" and "denied" in err.lower()
    me.see("Denied for builder.")


def test_a_key_answers_only_what_was_in_sight(cay, visitor):
    me = visitor.go("approvals")
    with asked(cay, me, "echo", *(f"word-{n}" for n in range(60))) as p:
        me.page.keyboard.press("d")
        me.see("There is more of it than the screen shows")
        assert p.poll() is None
        me.page.keyboard.press("d")
        p.communicate(timeout=60)
        assert p.returncode != 0


def test_always_adds_a_rule_that_can_be_removed(cay, visitor):
    me = visitor.go("approvals")
    with asked(cay, me, "echo", "from-now-on") as p:
        me.button("Always", exact=False).click()
        dialog = me.page.get_by_role("dialog", name="Always allow builder to do this?")
        expect(dialog).to_contain_text('"from-now-on"')
        dialog.get_by_role("button", name="Always").click()
        assert p.communicate(timeout=60)[0] == "from-now-on\n"
    assert gate.run(cay, "builder", "box", "echo", "from-now-on").stdout == "from-now-on\n", "it was asked again"
    rules = cay.api("GET", f"{DEFAULT}/agents/builder")["spec"]["approval"]["rules"]
    assert rules[0]["argv"] == ["echo", "from-now-on"] and rules[0]["action"] == "Allow"
    me.go("agents/default/builder").see("from-now-on").shot("agent-rule")
    me.button("Remove rule 1").click()
    me.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    me.see("The rule is removed.")
    assert not cay.api("GET", f"{DEFAULT}/agents/builder")["spec"]["approval"].get("rules")


def test_who_answers_first(cay, visit):
    """Two look at the same question; what one decided is seen by the other, and an answer that came late is told."""
    one, two = visit(cay).log_in().go("approvals"), visit(cay).log_in().go("approvals")
    with asked(cay, one, "echo", "twice"):
        expect(two.page.get_by_role("article")).to_contain_text('"twice"')
        one.button("Deny", exact=False).click()
        expect(two.page.get_by_role("article")).to_contain_text("Denied")
        expect(two.button("Allow once", exact=False)).to_have_count(0)


def test_who_may_not_answer_is_told_what_to_ask_for(cay, visit):
    admin = visit(cay).log_in().go("approvals")
    me = visit(cay).log_in_by_token(token_for(cay, "looker", "view")).go("approvals")
    with asked(cay, admin, "echo", "not-by-me") as p:
        expect(me.page.get_by_role("article")).to_contain_text('"not-by-me"')
        expect(me.button("Allow once", exact=False)).to_be_disabled()
        me.see("To answer, you need a role that allows approve on approvals")
        me.page.keyboard.press("o")
        assert p.poll() is None
        admin.button("Deny", exact=False).click()
        p.communicate(timeout=60)


def test_what_was_decided_is_kept(cay, visitor):
    visitor.go("approvals?tab=decided").see("Denied").see("Allowed once").shot("approvals-decided")
    visitor.page.get_by_label("Find", exact=True).fill("denied")
    expect(visitor.page.locator("[data-row]")).to_have_count(1)
