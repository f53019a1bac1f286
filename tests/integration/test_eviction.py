# SPDX-License-Identifier: Apache-2.0
"""A node whose sandboxes use nearly all memory that they may use together evicts one Pod, and the right one."""

import pytest

from cay_local import wait_until
from test_host import group, memory, slots
from test_node_pods import CORE, PODS, create, pod, status_of

MIB = 1 << 20
BUDGET = 1024 * MIB
# Takes as many MiB as it is told to, and keeps them.
HOARD = """
import os
os.mkfifo("/more")
kept = []
while True:
    with open("/more") as f:
        for line in f:
            kept.append(b"x" * (int(line) << 20))
    open("/took", "w").write(str(sum(map(len, kept)) >> 20))
"""


@pytest.fixture(scope="module")
def cay(module_instance):
    return module_instance("--sandboxes-memory", "1Gi", "--usage-interval", "1", "--pressure-interval", "1", "--default-memory", "1Gi")


def hoarder(cay, name, request=None, **spec):
    resources = {"resources": {"requests": {"memory": request}}} if request else {}
    obj = create(cay, pod(name, "python3", "-c", HOARD, container=resources, **spec))
    wait_until(lambda: not cay.kubectl("exec", name, "--", "test", "-p", "/more", check=False).returncode)
    return obj


def take(cay, name, mib):
    cay.kubectl("exec", name, "--", "sh", "-c", f"rm -f /took; echo {mib} >/more; until test -s /took; do sleep 0.05; done")


def used(cay, obj):
    """What a look counts: all but what was read from files and can be dropped."""
    slot = slots(obj)["main"]
    stat = dict(line.split() for line in group(cay, slot, "memory.stat").splitlines())
    return int(group(cay, slot, "memory.current", "memory.usage_in_bytes")) - int(stat.get("total_inactive_file", stat.get("inactive_file")))


def pressure(node):
    return next((c["status"] for c in node["status"]["conditions"] if c["type"] == "MemoryPressure"), None)


def test_all_sandboxes_together_have_what_the_setting_says(cay):
    node = cay.api("GET", "/api/v1/nodes")["items"][0]
    assert memory(cay) == BUDGET and node["status"]["allocatable"]["memory"] == "1Gi"


def test_the_pod_that_is_beyond_its_request_and_least_important_makes_room(cay):
    """Neither the largest, which keeps to its request, nor the one beyond its request that is more important."""
    node = cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    cay.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "important"}, "value": 1000})
    pods = {"large": hoarder(cay, "large", "600Mi"),
            "important": hoarder(cay, "important", "50Mi", priorityClassName="important"),
            "greedy": hoarder(cay, "greedy", "50Mi")}
    take(cay, "large", 400)
    take(cay, "important", 350)
    take(cay, "greedy", 50)
    cay.wait("/api/v1/nodes", node, lambda n: pressure(n) == "False")
    take(cay, "greedy", (BUDGET * 97 // 100 - sum(used(cay, p) for p in pods.values())) // MIB)
    cay.wait("/api/v1/nodes", node, lambda n: pressure(n) == "True")
    status = cay.wait(PODS, "greedy", lambda o: o["status"]["phase"] == "Failed")["status"]
    assert status["reason"] == "Evicted" and "low on resource: memory" in status["message"]
    assert "Container main was using" in status["message"] and "request is 51200Ki" in status["message"]
    cay.wait("/api/v1/nodes", node, lambda n: pressure(n) == "False")
    for name in ("large", "important"):
        obj = cay.api("GET", f"{PODS}/{name}")
        assert obj["status"]["phase"] == "Running" and status_of(obj)["restartCount"] == 0
    assert [e for e in cay.api("GET", f"{CORE}/events")["items"] if e["reason"] == "Evicted" and e["involvedObject"]["name"] == "greedy"]
