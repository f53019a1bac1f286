# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cay serve while fifty sandboxes are created, used and deleted: none is lost, none runs twice, none stays."""

import http.client
import json
import random
import threading

import pytest

from cay_local import AGENTS, ApiError, Cay, is_ready

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
PODS = "/api/v1/namespaces/default/pods"
NAMES = 50
LANES = 5
ROUNDS, LONG_ROUNDS = 20, 500
GONE = (OSError, http.client.HTTPException, ValueError)  # the server, in the middle of a request

# What the sandbox's directory holds survives its container: a second start would add a second line.
COMMAND = "echo started >> /life/starts; exec sleep infinity"


def sandbox(name):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "life", "emptyDir": {}}],
                "containers": [{"name": "main", "image": "host", "command": ["sh", "-c", COMMAND], "ports": [{"containerPort": 8888}],
                                "volumeMounts": [{"name": "life", "mountPath": "/life"}]}]}}}}


class Lane:
    """A client with names of its own. It knows of each what was acknowledged last: a uid, None for deleted, or UNKNOWN while a
    request is under way."""

    UNKNOWN = object()

    def __init__(self, cay, number, known):
        self.client = Cay.__new__(Cay)
        self.client.__dict__.update(cay.__dict__, _conn=None)
        self.random = random.Random(number)
        self.names = [f"s{i}" for i in range(number, NAMES, LANES)]
        self.known = known
        self.used = self.writes = 0
        self.wrong = None

    def run_until_dead(self):
        try:
            while True:
                self.step(self.random.choice(self.names))
        except GONE:
            return
        except Exception as e:  # noqa: BLE001 — the test's own thread reports it
            self.wrong = e

    def step(self, name):
        uid = self.known.get(name)
        if uid is None:
            self.write(name, lambda: self.client.api("POST", SANDBOXES, sandbox(name))["metadata"]["uid"])
        elif self.random.random() < 0.3:
            self.write(name, lambda: self.client.api("DELETE", f"{SANDBOXES}/{name}") and None)
        elif is_ready(self.client.api("GET", f"{SANDBOXES}/{name}")):
            self.used += self.use(name)

    def write(self, name, request):
        before, self.known[name] = self.known.get(name), self.UNKNOWN
        try:
            self.known[name] = request()
            self.writes += 1
        except ApiError as e:
            # A name is free again only when the Pod of its predecessor is gone.
            assert before is None and e.code == 409, e
            self.known[name] = before

    def use(self, name):
        answer = self.client.execute(name, "cat /life/starts")
        assert answer["stdout"] == "started\n", answer
        return 1


def check(cay, known):
    """Everything acknowledged is there and runs for the first time; returns how many."""
    there = {s["metadata"]["name"]: s["metadata"]["uid"] for s in cay.api("GET", SANDBOXES)["items"]
             if not s["metadata"].get("deletionTimestamp")}
    for name, uid in known.items():
        if uid is Lane.UNKNOWN:
            known[name] = there.get(name)
        else:
            assert there.get(name) == uid, f"{name} was acknowledged as {uid} and is {there.get(name)}"
    alive = [name for name, uid in known.items() if uid]
    for name in alive:
        cay.wait_ready(SANDBOXES, name)
        assert cay.execute(name, "cat /life/starts")["stdout"] == "started\n"
        status = cay.api("GET", f"{PODS}/{name}")["status"]["containerStatuses"][0]
        assert status["restartCount"] == 0, status
    for name in set(known) - set(alive):
        cay.wait(PODS, name, lambda pod: pod is None)
    _, orphans = cay.census()
    assert not orphans, orphans[:5]
    return len(alive)


def live_and_die(cay, rounds):
    known, chance = {}, random.Random(11)
    used = writes = alive = 0
    for _ in range(rounds):
        lanes = [Lane(cay, n, known) for n in range(LANES)]
        for lane in lanes:
            lane.random.seed(chance.random())
        threads = [threading.Thread(target=lane.run_until_dead) for lane in lanes]
        for t in threads:
            t.start()
        threading.Event().wait(chance.uniform(0.1, 0.6))
        cay.kill()
        for t in threads:
            t.join()
        assert not [lane.wrong for lane in lanes if lane.wrong]
        used, writes = used + sum(lane.used for lane in lanes), writes + sum(lane.writes for lane in lanes)
        cay.start()
        alive += check(cay, known)
    print(json.dumps({"rounds": rounds, "writes": writes, "used": used, "alive_after_a_kill": alive}))
    assert writes >= 10 * rounds and used >= rounds and alive >= 5 * rounds, "the kills came before anything happened"


def test_sandboxes_outlive_kills_and_leave_nothing(fresh):
    live_and_die(fresh(), ROUNDS)


@pytest.mark.long
def test_sandboxes_outlive_hundreds_of_kills_and_leave_nothing(fresh):
    live_and_die(fresh(), LONG_ROUNDS)
