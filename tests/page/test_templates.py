# SPDX-License-Identifier: Apache-2.0
"""Templates and their pools: looked at, used, made and deleted."""

import pytest

from cay_local import wait_until
from page_kit import expect
from world import CLAIMS, POOLS, TEMPLATES, claim, template


@pytest.fixture(scope="module")
def cay(cay):
    template(cay, "python", pool="pythons", replicas=1, env=[{"name": "GREETING", "value": "hello"}], resources={"limits": {"memory": "128Mi"}})
    template(cay, "unused")
    claim(cay, "first", "pythons")
    return cay


def names(cay, path):
    return [o["metadata"]["name"] for o in cay.api("GET", path)["items"]]


def test_what_a_template_is(cay, visitor):
    me = visitor.go("templates")
    expect(me.row("python").first).to_contain_text("host")
    me.page.get_by_role("link", name="python", exact=True).click()
    me.heading("python").see("Start times").see("Versions").shot("template").axe()
    me.page.get_by_role("tab", name="Contents").click()
    me.see("GREETING=hello").see("128Mi")
    me.page.get_by_role("tab", name="Object").click()
    me.see("kind: SandboxTemplate")


def test_a_pool_is_made_and_deleted(cay, visitor):
    me = visitor.go("templates/default/unused")
    me.see("No pool uses it")
    me.button("New pool…").click()
    dialog = me.page.get_by_role("dialog", name="New pool of unused")
    dialog.get_by_label("Name of the pool").fill("Not A Name")
    expect(dialog).to_contain_text("Lower-case letters")
    dialog.get_by_label("Name of the pool").fill("fresh")
    dialog.get_by_label("Sandboxes to keep ready").fill("1")
    dialog.get_by_role("button", name="Create pool").click()
    me.see("The pool fresh is being filled.").see("1 of 1 ready")
    assert cay.api("GET", f"{POOLS}/fresh")["spec"]["replicas"] == 1
    me.button("Delete the pool fresh").click()
    me.page.get_by_role("dialog", name="Delete the pool fresh?").get_by_role("button", name="Delete pool").click()
    me.see("No pool uses it")
    wait_until(lambda: "fresh" not in names(cay, POOLS))


def test_a_sandbox_is_made_from_here(cay, visitor):
    me = visitor.go("templates/default/python")
    me.page.get_by_role("link", name="New sandbox…").or_(me.button("New sandbox…")).first.click()
    dialog = me.page.get_by_role("dialog", name="New sandbox")
    dialog.get_by_label("Name").fill("from-here")
    dialog.get_by_role("button", name="Create").click()
    me.see("from-here was ready in")
    assert "from-here" in names(cay, CLAIMS)


def test_a_template_is_deleted(cay, visitor):
    me = visitor.go("templates/default/unused")
    me.button("Delete").click()
    me.page.get_by_role("dialog", name="Delete the template unused?").get_by_role("button", name="Delete").click()
    me.see("The template unused is deleted.")
    assert names(cay, TEMPLATES) == ["python"]
