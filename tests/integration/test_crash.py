# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cay serve while sandboxes run and claims are in flight: nothing acknowledged is lost, nothing is bound twice,
nothing is left over. CAY_CRASH_ROUNDS sets the number of rounds (20)."""

import http.client
import json
import os
import random
import threading
import time

import pytest

from cay_local import AGENTS, EXTENSIONS, Cay, is_ready

ROUNDS = int(os.environ.get("CAY_CRASH_ROUNDS", "20"))
RUNNING = 20
NS = "namespaces/default"
SANDBOXES = f"{AGENTS}/{NS}/sandboxes"
CLAIMS = f"{EXTENSIONS}/{NS}/sandboxclaims"
POOLS = f"{EXTENSIONS}/{NS}/sandboxwarmpools"
TEMPLATES = f"{EXTENSIONS}/{NS}/sandboxtemplates"


def sandbox(name):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "host", "command": ["sleep", "infinity"], "ports": [{"containerPort": 8888}]}]}}}}


def extension(kind, name, spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def prepare(cay):
    cay.api("POST", TEMPLATES, extension("SandboxTemplate", "t", sandbox("x")["spec"]))
    cay.api("POST", POOLS, extension("SandboxWarmPool", "p", {"replicas": 5, "sandboxTemplateRef": {"name": "t"}}))
    for i in range(RUNNING):
        cay.api("POST", SANDBOXES, sandbox(f"s{i}"))
    boxes = {}
    for i in range(RUNNING):
        box = cay.wait_ready(SANDBOXES, f"s{i}")
        assert cay.execute(f"s{i}", f"echo mark {i} > /tmp/mark")["exit_code"] == 0
        boxes[f"s{i}"] = box["status"]["podIPs"]
    return boxes


def claim_until_dead(cay, lane, round_number, acknowledged):
    """Claims and deletes claims until the server is gone; remembers what was answered."""
    c = Cay.__new__(Cay)
    c.__dict__.update(cay.__dict__, _conn=None)
    for i in range(10_000):
        name = f"c-{round_number}-{lane}-{i}"
        try:
            c.api("POST", CLAIMS, extension("SandboxClaim", name, {"warmPoolRef": {"name": "p"}}))
            acknowledged[name] = True
            if i % 3 == 2:
                del acknowledged[name]
                acknowledged[name + "?"] = True
                c.api("DELETE", f"{CLAIMS}/{name}")
        except (OSError, http.client.HTTPException, ValueError):
            return


def check(cay, boxes, acknowledged):
    claims = {c["metadata"]["name"]: c for c in cay.api("GET", CLAIMS)["items"]}
    for name in acknowledged:
        if not name.endswith("?"):
            assert name in claims, f"acknowledged claim {name} is gone"
    for name, ip in boxes.items():
        box = cay.wait_ready(SANDBOXES, name)
        assert box["status"]["podIPs"] == ip
        assert cay.execute(name, "cat /tmp/mark")["stdout"] == f"mark {name[1:]}\n"
    bound = {}
    for name in claims:
        claim = cay.wait(CLAIMS, name, lambda c: c is None or is_ready(c))
        if claim:
            other = bound.setdefault(claim["status"]["sandbox"]["name"], name)
            assert other == name, f"{claim['status']['sandbox']['name']} is bound to {other} and {name}"
    owners = [(b["metadata"]["name"], o["uid"]) for b in cay.api("GET", SANDBOXES)["items"]
              for o in b["metadata"].get("ownerReferences", []) if o["kind"] == "SandboxClaim"]
    assert len({uid for _, uid in owners}) == len(owners), "a claim owns two sandboxes"
    return claims


def test_kill_9_loses_nothing_and_leaks_nothing(fresh):
    crash(fresh(), ROUNDS)


@pytest.mark.long
def test_kill_9_many_times_loses_nothing_and_leaks_nothing(fresh):
    crash(fresh(), 10 * ROUNDS)


def time_of_claim(cay):
    began = time.monotonic()
    cay.api("POST", CLAIMS, extension("SandboxClaim", "first", {"warmPoolRef": {"name": "p"}}))
    cay.wait(CLAIMS, "first", is_ready)
    took = time.monotonic() - began
    cay.api("DELETE", f"{CLAIMS}/first")
    return took


def crash(cay, rounds):
    boxes = prepare(cay)
    cay.wait(POOLS, "p", lambda p: p["status"].get("readyReplicas") == 5)
    moment = max(0.02, time_of_claim(cay))
    random.seed(7)
    survived = 0
    for n in range(rounds):
        acknowledged = {}
        lanes = [threading.Thread(target=claim_until_dead, args=(cay, lane, n, acknowledged)) for lane in range(4)]
        for t in lanes:
            t.start()
        threading.Event().wait(random.uniform(1, 20) * moment)
        cay.kill()
        for t in lanes:
            t.join()
        cay.start()
        claims = check(cay, boxes, acknowledged)
        survived += sum(not name.endswith("?") for name in acknowledged)
        for name in claims:
            cay.api("DELETE", f"{CLAIMS}/{name}")
        cay.wait(POOLS, "p", lambda p: p["status"].get("readyReplicas") == 5)
        items, orphans = cay.census()
        assert not orphans, f"round {n}: {orphans[:5]}"
    assert survived >= rounds, f"only {survived} claims were acknowledged in {rounds} rounds: the test saw nothing"
    print(json.dumps({"rounds": rounds, "sandboxes": RUNNING, "claims": survived}))
