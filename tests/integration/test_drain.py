# SPDX-License-Identifier: Apache-2.0
"""kubectl cordon, drain and uncordon."""

import pytest

from cay_local import ApiError, wait_until
from test_node_pods import PODS, condition, create, events, phase, pod, ready, sh

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}


def evict(cay, name, **options):
    return cay.api("POST", f"{PODS}/{name}/eviction", dict(EVICTION, metadata={"name": name}, **options))


def test_a_cordoned_node_takes_no_new_pods_and_keeps_those_it_has(fresh):
    cay = fresh()
    node = cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    create(cay, pod("old", "sleep", "1000"))
    cay.kubectl("cordon", node)
    cay.api("POST", PODS, pod("new", "sleep", "1000"))
    waits = cay.wait(PODS, "new", lambda o: condition(o, "PodScheduled") == "False")
    assert waits["status"]["phase"] == "Pending" and not waits["status"].get("containerStatuses")
    why = next(c for c in waits["status"]["conditions"] if c["type"] == "PodScheduled")
    assert why["reason"] == "Unschedulable" and "unschedulable" in why["message"]
    wait_until(lambda: "FailedScheduling" in events(cay, "new"))
    create(cay, pod("stubborn", "sleep", "1000", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]))
    cay.kill()
    cay.start()
    assert sh(cay, "old", "echo on").stdout == "on\n"
    assert phase("Pending")(cay.api("GET", f"{PODS}/new"))
    cay.kubectl("uncordon", node)
    cay.wait(PODS, "new", ready)
    # drain: cordons, evicts with the grace of each Pod, and waits until all have gone.
    cay.kubectl("drain", node, "--force", "--delete-emptydir-data", timeout=110)
    assert not cay.api("GET", PODS)["items"]
    assert cay.api("GET", f"/api/v1/nodes/{node}")["spec"]["unschedulable"]


def test_an_eviction_deletes_a_pod_and_keeps_to_its_options(cay):
    create(cay, pod("goes", "sleep", "1000"))
    assert evict(cay, "goes", deleteOptions={"dryRun": ["All"]})["status"] == "Success"
    for code, options in ((409, {"deleteOptions": {"preconditions": {"uid": "another"}}}), (400, {"metadata": {"name": "other"}})):
        with pytest.raises(ApiError) as refused:
            cay.api("POST", f"{PODS}/goes/eviction", dict(EVICTION, **options))
        assert refused.value.code == code
    assert ready(cay.api("GET", f"{PODS}/goes"))
    with pytest.raises(ApiError) as absent:
        evict(cay, "nobody")
    assert absent.value.code == 404
    evict(cay, "goes", deleteOptions={"gracePeriodSeconds": 0})
    wait_until(lambda: not [p for p in cay.api("GET", PODS)["items"] if p["metadata"]["name"] == "goes"])
