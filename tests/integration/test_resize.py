# SPDX-License-Identifier: Apache-2.0
"""Containers are resized while they run: limits that the kernel keeps, status, conditions, restarts."""

import json

from cay_local import wait_until
from test_node_pods import PODS, condition, create, events, pod, ready, sh, status_of

MIB = 1 << 20
# Holds as many MiB as /tmp/want says, and writes down how many it holds.
EATER = r"""
import os, time
held = []
while True:
    want = int(open("/tmp/want").read() or 0) if os.path.exists("/tmp/want") else 0
    while len(held) < want: held.append(bytearray(os.urandom(1) * 2**20))
    del held[want:]
    open("/tmp/holds", "w").write(str(len(held)))
    time.sleep(0.02)
"""


def amounts(cpu, memory):
    return {"cpu": cpu, "memory": memory}


def resources(limit, request=None):
    return {"limits": limit, "requests": request or limit}


def resize(cay, name, res, check=True):
    """As a user types it."""
    patch = {"spec": {"containers": [{"name": "main", "resources": res}]}}
    return cay.kubectl("patch", "pod", name, "--subresource", "resize", "-p", json.dumps(patch), check=check)


def has(cay, name, limits):
    return cay.wait(PODS, name, lambda o: status_of(o).get("resources", {}).get("limits") == limits and
                    condition(o, "PodResizePending") is None and condition(o, "PodResizeInProgress") is None)


def reason(obj, kind):
    return next(((c.get("reason", ""), c.get("message", "")) for c in obj["status"]["conditions"] if c["type"] == kind), None)


def hold(cay, name, mib):
    sh(cay, name, f"echo {mib} > /tmp/.want && mv /tmp/.want /tmp/want")
    wait_until(lambda: sh(cay, name, "cat /tmp/holds").stdout == str(mib))


def test_limits_change_while_a_container_runs_and_the_kernel_keeps_them(cay):
    body = pod("grows", "/usr/bin/python3", "-c", EATER,
               container={"resources": resources(amounts("200m", "64Mi"), amounts("100m", "32Mi"))})
    was = create(cay, body)
    assert status_of(was)["resources"] == resources(amounts("200m", "64Mi"), amounts("100m", "32Mi"))
    assert status_of(was)["allocatedResources"] == amounts("100m", "32Mi")
    resize(cay, "grows", resources(amounts("2", "256Mi"), amounts("150m", "32Mi")))
    now = has(cay, "grows", amounts("2", "256Mi"))
    assert status_of(now)["allocatedResources"] == amounts("150m", "32Mi")
    assert now["metadata"]["generation"] == was["metadata"]["generation"] + 1 == now["status"]["observedGeneration"]
    hold(cay, "grows", 128)  # twice what it had
    # Below what is in use it stays as it is, and says why. When that is free again, the limit follows.
    resize(cay, "grows", resources(amounts("2", "64Mi"), amounts("150m", "32Mi")))
    stuck = cay.wait(PODS, "grows", lambda o: (reason(o, "PodResizeInProgress") or ("",))[0] == "Error")
    assert "below current usage" in reason(stuck, "PodResizeInProgress")[1]
    assert status_of(stuck)["resources"]["limits"] == amounts("2", "256Mi")
    hold(cay, "grows", 1)
    now = has(cay, "grows", amounts("2", "64Mi"))
    assert status_of(now)["restartCount"] == 0
    # The new limit is a limit: the same amount is now too much.
    sh(cay, "grows", "echo 128 > /tmp/.want && mv /tmp/.want /tmp/want")
    cay.wait(PODS, "grows", lambda o: status_of(o).get("lastState", {}).get("terminated", {}).get("reason") == "OOMKilled")


def test_a_policy_may_ask_for_a_restart(cay):
    body = pod("again", "sleep", "1000", restartPolicy="OnFailure", container={
        "resources": resources(amounts("100m", "64Mi")), "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]})
    create(cay, body)
    resize(cay, "again", resources(amounts("200m", "64Mi")))
    assert status_of(has(cay, "again", amounts("200m", "64Mi")))["restartCount"] == 0
    resize(cay, "again", resources(amounts("200m", "96Mi")))
    now = cay.wait(PODS, "again", lambda o: ready(o) and status_of(o)["restartCount"] == 1)
    assert status_of(now)["resources"]["limits"] == amounts("200m", "96Mi")


def test_what_the_node_has_no_room_for_is_deferred_or_infeasible(fresh):
    cay = fresh("--overcommit", "1")
    cpus = int(cay.api("GET", "/api/v1/nodes")["items"][0]["status"]["allocatable"]["cpu"])
    small = resources(amounts("100m", "32Mi"))
    big = resources(amounts(str(cpus), "32Mi"))
    create(cay, pod("one", "sleep", "1000", container={"resources": small}))
    create(cay, pod("two", "sleep", "1000", container={"resources": small}))
    resize(cay, "one", big)
    now = cay.wait(PODS, "one", lambda o: reason(o, "PodResizePending"))
    assert reason(now, "PodResizePending")[0] == "Deferred"
    assert status_of(now)["resources"] == small and status_of(now)["allocatedResources"] == small["requests"]
    cay.kill()
    cay.start()
    now = cay.wait(PODS, "one", lambda o: reason(o, "PodResizePending"))
    assert status_of(now)["resources"] == small
    cay.kubectl("delete", "pod", "two")  # what it leaves is enough
    has(cay, "one", big["limits"])
    resize(cay, "one", resources(amounts(str(cpus + 1), "32Mi")))
    now = cay.wait(PODS, "one", lambda o: reason(o, "PodResizePending"))
    assert reason(now, "PodResizePending")[0] == "Infeasible"
    wait_until(lambda: "ResizeInfeasible" in events(cay, "one"))
    resize(cay, "one", big)  # the wish is taken back
    has(cay, "one", big["limits"])
