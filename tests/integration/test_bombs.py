# SPDX-License-Identifier: Apache-2.0
"""Bombs in a sandbox: whatever one of them takes, its neighbour, the host and the server still have their own.

For each kind of bomb: it takes all it can get (tests/bomb/bomb.c); then the neighbour and the host must each still get one of
the same, the neighbour still runs commands, writes go on, a new sandbox starts, and the server starts anew after kill -9.
"""

import base64
import json
import os
import statistics
import subprocess
import time

import pytest

from cay_local import AGENTS, BUILD, is_ready

HERE = "namespaces/default"
PODS = f"/api/v1/{HERE}/pods"
MAPS = f"/api/v1/{HERE}/configmaps"
SANDBOXES = f"{AGENTS}/{HERE}/sandboxes"
BOMB = os.path.join(BUILD, "tests", "bomb", "bomb")
EXECS = 40
KINDS = ("fork", "memory", "disk", "inodes", "descriptors", "inotify", "timers", "queues", "sysv", "aio", "ptys", "logs",
         "zombies", "connections")
UNPACK = "cp /b/bomb /tmp/bomb"
BOUNDED = {"disk": "16Mi", "inodes": "16Mi"}  # the default takes long to fill
REFUSED = ("aio",)  # in every sandbox; the host has it all the same


def pod_spec(*command):
    """A container that has the bomb, and commands to run beside it."""
    return {"terminationGracePeriodSeconds": 0, "volumes": [{"name": "b", "configMap": {"name": "bomb", "defaultMode": 0o755}}],
            "containers": [{"name": "main", "image": "host", "command": list(command), "ports": [{"containerPort": 8888}],
                            "volumeMounts": [{"name": "b", "mountPath": "/b"}]}]}


def sandbox(name, *command):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": pod_spec(*command)}}}


@pytest.fixture(scope="module")
def field(cay):
    """An instance with a neighbour in it."""
    with open(BOMB, "rb") as f:
        cay.api("POST", MAPS, {"metadata": {"name": "bomb"}, "binaryData": {"bomb": base64.b64encode(f.read()).decode()}})
    cay.api("POST", SANDBOXES, sandbox("neighbour", "sh", "-c", f"{UNPACK} && exec sleep infinity"))
    cay.wait_ready(SANDBOXES, "neighbour")
    commands(cay)  # the first ones are slower
    return cay


def commands(cay, name="neighbour"):
    """Seconds that each of some commands took."""
    took = []
    for _ in range(EXECS):
        began = time.monotonic()
        assert cay.execute(name, "true")["exit_code"] == 0
        took.append(time.monotonic() - began)
    return took


def one_more(cay, kind):
    """Whether the neighbour, and the host, still get one of what the bomb takes."""
    inside = cay.execute("neighbour", f"/tmp/bomb one {kind} > /dev/null")
    outside = subprocess.run([BOMB, "one", kind], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return inside["exit_code"] == 0, inside["stderr"], outside.returncode == 0, outside.stderr


def write(cay, kind):
    made = cay.api("POST", MAPS, {"metadata": {"name": f"under-{kind}"}})
    cay.api("DELETE", f"{MAPS}/{made['metadata']['name']}")


def explode(cay, kind):
    """Returns once the bomb has all that it can get."""
    spec = pod_spec("sh", "-c", f"{UNPACK} && exec /tmp/bomb {kind}")
    if kind in BOUNDED:
        spec["containers"][0]["resources"] = {"limits": {"ephemeral-storage": BOUNDED[kind]}}
    cay.api("POST", PODS, {"metadata": {"name": kind}, "spec": spec})
    if kind == "logs":
        cay.wait(PODS, kind, is_ready)  # what it says at the start is rotated away
        return "armed logs"
    log = subprocess.Popen(["kubectl", "--kubeconfig", cay.kubeconfig, "logs", "-f", "--pod-running-timeout=60s", kind],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
    try:
        for line in log.stdout:
            if line.startswith("armed "):
                return line.strip()
        raise AssertionError("the bomb did not go off: " + json.dumps(cay.api("GET", f"{PODS}/{kind}")["status"]))
    finally:
        log.kill()
        log.wait()


def check_life(cay, kind):
    """Everything that must go on beside the bomb."""
    inside, inside_why, outside, outside_why = one_more(cay, kind)
    assert inside or kind in REFUSED, f"the neighbour gets no {kind}: {inside_why}"
    assert outside, f"the host gets no {kind}: {outside_why}"
    write(cay, kind)
    cay.api("POST", SANDBOXES, sandbox(f"late-{kind}", "sleep", "infinity"))
    cay.wait_ready(SANDBOXES, f"late-{kind}")
    cay.api("DELETE", f"{SANDBOXES}/late-{kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_neighbour_host_and_server_live_beside_a_bomb(field, kind):
    cay = field
    calm = commands(cay)
    armed = explode(cay, kind)
    try:
        check_life(cay, kind)
        under = commands(cay)
        cay.kill()
        cay.start()
        check_life(cay, kind)
        assert cay.execute("neighbour", "true")["exit_code"] == 0
    finally:
        cay.api("DELETE", f"{PODS}/{kind}")
    cay.wait(PODS, kind, lambda p: p is None)
    ratio = [statistics.quantiles(t, n=100, method="inclusive") for t in (calm, under)]
    print({"bomb": armed, "p50": round(ratio[1][49] / ratio[0][49], 2), "p99": round(ratio[1][98] / ratio[0][98], 2)})
