# SPDX-License-Identifier: Apache-2.0
"""Budgets and costs: the page adds up to what `cay cost` says, and limits can be changed."""

import csv
import decimal
import json

import pytest

from cay_local import wait_until
from page_kit import expect
from world import DEFAULT, put, sandbox

AMOUNTS = ("cpuSeconds", "memoryGiBHours", "diskGiBHours", "networkBytes")


@pytest.fixture(scope="module")
def cay(cay):
    put(cay, "budgets", "pulls", {"limits": {"cpuSeconds": "600"}, "period": "24h", "onExceeded": "Warn"})
    put(cay, "agents", "builder", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec"]}, "budget": "pulls"})
    put(cay, "sessions", "work", {"agent": "builder", "sandbox": "none", "user": "maria"})
    sandbox(cay, "box")
    put(cay, "attachments", "work", {"session": "work", "sandbox": "box", "rights": ["exec"]})
    cay.wait_ready(f"{DEFAULT}/attachments", "work")
    who = ["--as", "cay:agent:default:builder", "--as-group", "cay:agents", "--as-group", "system:authenticated"]
    cay.kubectl(*who, "exec", "box", "--", "python3", "-c", "import time\nwhile time.process_time() < 1: pass")
    wait_until(lambda: cost(cay, "agent").get("builder", {}).get("cpuSeconds", 0) > 0.5)
    return cay


def cost(cay, by):
    """As the command line adds it up."""
    said = json.loads(cay.cay("cost", "--by", by, "-o", "json", "--kubeconfig", cay.kubeconfig).stdout)
    rows = said["items"] if isinstance(said, dict) else said
    return {r.get(by) or "-": {a: decimal.Decimal(str(r.get(a, "0"))) for a in AMOUNTS} for r in rows}


@pytest.mark.parametrize("by", ["agent", "user", "template"])
def test_costs_are_those_of_the_command(cay, visitor, by, tmp_path):
    me = visitor.go(f"budgets?tab=costs&group={by}")
    me.see("By day")

    def same():
        """Neither is asked at the same moment as the other: what the sandbox uses meanwhile is in the later one."""
        with me.page.expect_download() as got:
            me.button("Download CSV").click()
        rows = list(csv.DictReader(open(got.value.path())))
        said = cost(cay, by)
        mine = {}
        for r in rows:
            values = {k: v for k, v in r.items()}
            mine[values.get(by) or "-"] = {a: decimal.Decimal(values[a]) for a in AMOUNTS if a in values}
        assert rows and set(rows[0]) >= {by}, rows
        return mine == said
    expect(me.button("Download CSV")).to_be_enabled()
    wait_until(same)
    me.shot(f"costs-{by}")


def test_limits_are_changed(cay, visitor):
    me = visitor.go("budgets")
    me.see("pulls").see("Within its limits")
    me.button("Change the limits of pulls").first.click()
    dialog = me.page.get_by_role("dialog", name="Limits of pulls")
    field = dialog.get_by_label("CPU time")
    field.fill("nonsense")
    expect(dialog).to_contain_text("Write a quantity")
    field.fill("0.1")
    expect(dialog).to_contain_text("the budget would be used up")
    me.shot("budget-limits")
    dialog.get_by_role("button", name="Save limits").click()
    me.see("The limits of pulls are changed.")
    assert cay.api("GET", f"{DEFAULT}/budgets/pulls")["spec"]["limits"]["cpuSeconds"] in ("0.1", "100m")
    me.see("Exceeded")
    me.go("budgets/default/pulls").see("Exceeded").see("builder").shot("budget").axe()
