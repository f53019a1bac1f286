# SPDX-License-Identifier: Apache-2.0
"""kill -9 while Pods start: each command runs exactly once, nothing is counted as a restart, nothing fails or is stuck.
CAY_CRASH_STARTS sets the number of rounds (4)."""

import collections
import os
import random
import signal
import threading

import pytest
from cay_local import wait_until

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ROUNDS = int(os.environ.get("CAY_CRASH_STARTS", "4"))
N = 120


def pod(name, number):
    """Each container adds a line to a volume that outlives it when it runs."""
    says = lambda what: ["sh", "-c", f"echo {name}-{what} >> /v/runs; exec sleep infinity" if what != "init"
                         else f"echo {name}-init >> /v/runs"]
    mounts = [{"name": "v", "mountPath": "/v"}]
    spec = {"restartPolicy": "Never" if number % 2 else "Always", "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "runs"}}],
            "containers": [{"name": "main", "image": "host", "command": says("main"), "volumeMounts": mounts}]}
    if number % 10 == 3:
        spec["initContainers"] = [{"name": "init", "image": "host", "command": says("init"), "volumeMounts": mounts}]
    if number % 10 == 6:
        spec["containers"].append({"name": "side", "image": "host", "command": says("side"), "volumeMounts": mounts})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def wanted(body):
    spec = body["spec"]
    return [f"{body['metadata']['name']}-{c['name']}" for c in spec["containers"] + spec.get("initContainers", [])]


def runs_file(cay):
    uid = cay.api("GET", f"{CLAIMS}/runs")["metadata"]["uid"]
    for directory, _, names in os.walk(os.path.join(cay.pool(), "volumes")):
        if "runs" in names and uid in directory:
            return os.path.join(directory, "runs")
    return None


def runs(cay):
    path = runs_file(cay)
    return collections.Counter(open(path).read().split()) if path else collections.Counter()


def settled(cay, names):
    """Every Pod, once all their containers are reported as started."""
    done = {}
    for name in names:
        done[name] = cay.wait(PODS, name, lambda p: p["status"].get("phase") in ("Failed", "Succeeded") or (
            p["status"].get("phase") == "Running" and all("running" in c["state"] for c in p["status"]["containerStatuses"])),
            timeout=240)
    return done


def launchers(cay):
    with open(f"/proc/{cay.process.pid}/task/{cay.process.pid}/children") as f:
        return [int(pid) for pid in f.read().split()]


def parked_slots(cay):
    """Processes that no Pod has yet; some are being launched by the time they are known."""
    return [int(i["name"]) for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "instance"]


def stopped(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] in "TtZX"


def kill(pid):
    """If it is still the launcher or a slot: killing a container, or a command that began while the census was taken, would
    cost a run. While it is stopped it becomes nothing."""
    try:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: stopped(pid))
        with open(f"/proc/{pid}/comm") as f:
            os.kill(pid, signal.SIGKILL if f.read().strip() == "cay-launch" else signal.SIGCONT)
    except (ProcessLookupError, FileNotFoundError):
        pass  # it has ended by itself


def create_until_dead(cay, bodies, created):
    for body in bodies:
        try:
            cay.api("POST", PODS, body)
            created.append(body)
        except Exception:  # noqa: BLE001: the server is gone
            return


def check(cay, created):
    pods = settled(cay, [b["metadata"]["name"] for b in created])
    for name, p in pods.items():
        assert p["status"]["phase"] == "Running", (name, p["status"])
        assert {c["restartCount"] for c in p["status"]["containerStatuses"]} == {0}, (name, p["status"])
    # A container is reported as running when its command has been started, which is before it has written its line.
    wait_until(lambda: all(runs(cay)[k] for b in created for k in wanted(b)))
    seen = runs(cay)
    assert {k: seen[k] for b in created for k in wanted(b)} == {k: 1 for b in created for k in wanted(b)}


def begin(fresh):
    cay = fresh()
    cay.api("POST", CLAIMS, {"metadata": {"name": "runs"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    return cay


def drop(cay, created):
    for body in created:
        cay.api("DELETE", f"{PODS}/{body['metadata']['name']}?gracePeriodSeconds=0")
    for body in created:
        cay.wait(PODS, body["metadata"]["name"], lambda p: p is None, timeout=240)


def nothing_is_left(cay):
    """A forced delete does not wait for the node: what the Pods had on the host goes a moment after their objects."""
    _, orphans = cay.census()
    if orphans:
        print("on its way:", orphans[:5])
    return not orphans


def test_kill_9_while_pods_start_runs_each_once(fresh):
    cay = begin(fresh)
    random.seed(11)
    for n in range(ROUNDS):
        bodies, created = [pod(f"r{n}-{i}", i) for i in range(N)], []
        t = threading.Thread(target=create_until_dead, args=(cay, bodies, created))
        t.start()
        t.join(random.uniform(0.05, 1.5))
        cay.kill()
        t.join()
        cay.start()
        known = {p["metadata"]["name"] for p in cay.api("GET", PODS)["items"]}
        check(cay, [b for b in bodies if b["metadata"]["name"] in known])
        drop(cay, [b for b in bodies if b["metadata"]["name"] in known])
        wait_until(lambda: nothing_is_left(cay))


@pytest.mark.parametrize("victims", [launchers, parked_slots])
def test_processes_that_die_while_pods_start_cost_no_run(fresh, victims):
    cay = begin(fresh)
    random.seed(12)
    bodies, created = [pod(f"p{i}", i) for i in range(N)], []
    t = threading.Thread(target=create_until_dead, args=(cay, bodies, created))
    t.start()
    for _ in range(4):
        t.join(random.uniform(0.05, 0.3))
        for pid in victims(cay):
            kill(pid)
    t.join()
    check(cay, created)
    drop(cay, created)
