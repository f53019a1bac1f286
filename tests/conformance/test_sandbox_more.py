# SPDX-License-Identifier: Apache-2.0
"""What a Sandbox keeps and loses with its Pod: cases 51, 85 and 288 of docs/reference/cases.md."""

import pytest
from kit import POD_NAME, annotations, condition, said


def test_case_51_a_suspended_sandbox_is_no_longer_scheduled(ns):
    ns.sandbox("box")
    assert said(ns.ready("sandboxes", "box"), "PodScheduled")[0] == "True"
    ns.patch("sandboxes", "box", {"spec": {"operatingMode": "Suspended"}})
    ns.gone("pods", "box")
    down = ns.wait("sandboxes", "box", lambda s: not condition(s, "PodScheduled"))
    assert said(down, "Suspended")[0] == "True"


@pytest.mark.parametrize("given", [None, {POD_NAME: ""}])
def test_case_85_the_pod_has_the_name_of_its_sandbox(ns, given):
    ns.sandbox("box", annotations=given)
    ns.ready("sandboxes", "box")
    assert [p["metadata"]["name"] for p in ns.list("pods")] == ["box"]
    assert not annotations(ns.get("sandboxes", "box")).get(POD_NAME)


def test_case_288_twenty_at_once_all_become_ready(ns):
    for i in range(20):
        ns.sandbox(f"box-{i}")
    for i in range(20):
        ns.ready("sandboxes", f"box-{i}", timeout=60)
