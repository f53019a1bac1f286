# SPDX-License-Identifier: Apache-2.0
"""The picture of the page in README.md: CAY_README_SHOT=1 writes docs/images/page.png anew, from things that a team could have."""

import os
import re

import pytest

from cay_local import ROOT
from page_kit import expect
from world import claim, put, sandbox, team

TARGET = os.path.join(ROOT, "docs", "images", "page.png")
MOST = 150 * 1024

pytestmark = pytest.mark.skipif(not os.environ.get("CAY_README_SHOT"), reason="CAY_README_SHOT=1 makes the picture")


def test_the_picture(cay, visit):
    team(cay)
    for name in ("evaluate-7", "evaluate-8", "evaluate-9", "data-import"):
        claim(cay, name, "pythons")
    tasks = {"parser-upgrade": "Upgrade the parser", "changelog": "Write the changelog"}
    for name, title in tasks.items():
        put(cay, "sessions", name, {"agent": "builder", "title": title, "user": "maria@example.org"})
    sandbox(cay, "archive", mode="Suspended")
    cay.api("DELETE", "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/broken")
    me = visit(cay, size=(1280, 720)).log_in().go("sandboxes")
    for name in tasks:
        expect(me.row(name)).to_contain_text("Ready")
    expect(me.row("broken")).to_have_count(0)
    cay.api("PATCH", "/apis/cay.dev/v1alpha1/namespaces/default/sessions/changelog", {"spec": {"ended": True}}, content_type="application/merge-patch+json")
    expect(me.row("changelog")).to_contain_text("Its session has ended.")
    expect(me.row("changelog")).to_contain_text("deleted in 23h")
    expect(me.row("fix-login")).to_contain_text(re.compile(r"0\.\d\d s"), timeout=90_000)  # measured every few seconds
    os.makedirs(os.path.dirname(TARGET), exist_ok=True)
    me.page.mouse.move(640, 700)
    me.page.screenshot(path=TARGET)
    assert os.path.getsize(TARGET) < MOST
