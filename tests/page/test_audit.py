# SPDX-License-Identifier: Apache-2.0
"""The audit log: live, filtered, and checked."""

import pytest

from page_kit import expect, token_for
from world import SANDBOXES, put, sandbox


@pytest.fixture(scope="module")
def cay(cay):
    sandbox(cay, "watched", mode="Suspended")
    cay.kubectl("--as", "mallory", "delete", "sandbox", "watched", check=False)
    return cay


def test_records_come_by_themselves(cay, visitor):
    me = visitor.go("audit")
    me.see("Live", exact=True)
    expect(me.row("mallory").first).to_contain_text("Refused 403")
    put(cay, "budgets", "of-now", {"limits": {"cpuSeconds": "1"}})
    expect(me.row("of-now").first).to_contain_text("create")
    me.shot("audit").axe()
    me.button("Pause").click()
    put(cay, "budgets", "of-later", {"limits": {"cpuSeconds": "1"}})
    me.see("newer")
    expect(me.row("of-later")).to_have_count(0)
    me.button("Continue").click()
    expect(me.row("of-later").first).to_be_visible()


def test_filters_are_in_the_address(cay, visitor):
    me = visitor.go("audit")
    me.page.get_by_label("Only refused or failed").check()
    expect(me.row("mallory").first).to_be_visible()
    expect(me.page.get_by_role("row").filter(has_text="of-now")).to_have_count(0)
    assert "refused=true" in me.page.url
    me.page.get_by_label("User", exact=True).fill("mallory")
    me.page.keyboard.press("Enter")
    expect(me.row("mallory").first).to_be_visible()
    me.page.get_by_role("row").filter(has_text="mallory").first.get_by_role("link").first.click()
    me.see("On behalf of").see("mallory").shot("audit-record")
    me.page.keyboard.press("Escape")
    me.button("Clear filters").click()
    assert "mallory" not in me.page.url


def test_the_log_is_checked(cay, visitor):
    me = visitor.go("audit")
    me.button("Verify the log").click()
    me.see("Intact").see("Nothing was changed").shot("audit-verified")


def test_who_may_not_read_it_is_told(cay, visit):
    me = visit(cay).log_in_by_token(token_for(cay, "looker", "view")).go("audit")
    me.see("You may not read the audit log").see("auditrecords").axe()
    assert cay.api("GET", f"{SANDBOXES}/watched")
