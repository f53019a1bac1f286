# SPDX-License-Identifier: Apache-2.0
"""Claims, commands and deletions for half an hour, with kill -9 in it: whatever the machine spends must stay flat.

CAY_SOAK_MINUTES sets how long (30). What was spent is read when nothing is going on: twice in each life of the server,
and the readings of late lives are compared with those before.
"""

import glob
import json
import os
import statistics
import threading
import time

import pytest

from cay_local import EXTENSIONS, Cay, is_ready

MINUTES = float(os.environ.get("CAY_SOAK_MINUTES", "30"))
LIFE_S = 60
LANES = 3
POOL = 6
HERE = f"{EXTENSIONS}/namespaces/default"
SLACK = {  # what may differ between two quiet moments: pools refill, caches fill, a checkpoint is due
    "rss_kib": 8192, "descriptors": 16, "threads": 4, "mounts": 4, "census": 24, "files": 64, "store_kib": 8192,
}
FILLING = {"rss_kib", "store_kib"}  # until as many Events and past states are kept as ever will be: some minutes


def extension(kind, name, spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def prepare(cay):
    container = {"name": "main", "image": "host", "command": ["sleep", "infinity"], "ports": [{"containerPort": 8888}]}
    cay.api("POST", f"{HERE}/sandboxtemplates",
            extension("SandboxTemplate", "t", {"podTemplate": {"spec": {"containers": [container]}}}))
    cay.api("POST", f"{HERE}/sandboxwarmpools",
            extension("SandboxWarmPool", "p", {"replicas": POOL, "sandboxTemplateRef": {"name": "t"}}))


class Lane(threading.Thread):
    """Claims, runs a command, deletes, until it is told to stop; the server must be there all the time."""

    def __init__(self, cay, name, stop):
        super().__init__(name=name, daemon=True)
        self.cay = Cay.__new__(Cay)
        self.cay.__dict__.update(cay.__dict__, _conn=None)
        self.stop, self.cycles, self.failure = stop, 0, None

    def run(self):
        try:
            while not self.stop.is_set():
                self.cycle(f"{self.name}-{self.cycles}")
                self.cycles += 1
        except Exception as what:  # pylint: disable=broad-except
            self.failure = what
        self.cay.close()

    def cycle(self, name):
        claims = f"{HERE}/sandboxclaims"
        self.cay.api("POST", claims, extension("SandboxClaim", name, {"warmPoolRef": {"name": "p"}}))
        box = self.cay.wait(claims, name, is_ready)["status"]["sandbox"]["name"]
        assert self.cay.execute(box, f"echo {name}; head -c 100000 /dev/zero > /tmp/x")["stdout"] == f"{name}\n"
        self.cay.api("DELETE", f"{claims}/{name}")


def calm(cay):
    """No claim and no Sandbox but the pool's, all of it ready."""
    sandboxes = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
    cay.wait(f"{HERE}/sandboxwarmpools", "p", lambda p: p["status"].get("readyReplicas") == POOL)
    deadline = time.monotonic() + 60
    while len(cay.api("GET", sandboxes)["items"]) > POOL or len(cay.api("GET", "/api/v1/namespaces/default/pods")["items"]) > POOL:
        assert time.monotonic() < deadline, "deleted Sandboxes stay"
        threading.Event().wait(0.05)
    threading.Event().wait(2)  # memory goes back when nothing has happened for a moment


def spent(cay):
    pid = cay.process.pid
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    with open(f"{cay.data_dir}/node/instance.json") as f:
        run_dir = json.load(f)["runDir"]
    items, orphans = cay.census()
    assert not orphans, f"orphans: {orphans[:5]}"
    return {
        "rss_kib": int(status["VmRSS"].split()[0]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
        "mounts": sum(cay.data_dir in line or run_dir in line for line in open(f"/proc/{pid}/mountinfo")),
        "census": len(items),  # processes, mounts, cgroups, namespaces, links, sockets, directories
        "files": sum(len(files) for _, _, files in os.walk(cay.data_dir)),
        "store_kib": sum(os.path.getsize(f) for f in glob.glob(f"{cay.data_dir}/store.db*")) // 1024,
    }


def live(cay, number, seconds):
    """(cycles, spent) of one stretch of work."""
    stop = threading.Event()
    lanes = [Lane(cay, f"l{number}-{n}", stop) for n in range(LANES)]
    for lane in lanes:
        lane.start()
    stop.wait(seconds)
    stop.set()
    for lane in lanes:
        lane.join(60)
    assert not [lane.failure for lane in lanes if lane.failure]
    calm(cay)
    return sum(lane.cycles for lane in lanes), spent(cay)


def check_flat(name, early, late):
    a, b = statistics.median(s[name] for s in early), statistics.median(s[name] for s in late)
    assert b <= a * 1.05 + SLACK[name], f"{name} grew from {a} to {b}"


def soak(cay, minutes, flat):
    prepare(cay)
    calm(cay)
    first, second, cycles = [], [], 0  # spent after the first and the second half of each life
    half = min(LIFE_S, minutes * 60 / 8) / 2
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end or len(first) < 4:
        for readings in (first, second):
            n, s = live(cay, 2 * len(first) + len(second), half)
            cycles += n
            readings.append(s)
        cay.kill()
        cay.start()
    print({"minutes": minutes, "cycles": cycles, "kills": len(first), "first": first[0], "last": second[-1]})
    third = len(first) // 3
    for name in flat:
        check_flat(name, second[third:-third], second[-third:])  # from life to life
        check_flat(name, first[third:], second[third:])  # within lives
    assert cycles > 10 * len(first)


def test_half_a_minute_of_claims_and_kills_leaves_everything_flat(fresh):
    soak(fresh(), 0.5, set(SLACK) - FILLING)


@pytest.mark.long
@pytest.mark.timeout(max(1800, MINUTES * 90))
def test_half_an_hour_of_claims_and_kills_leaves_everything_flat(fresh):
    soak(fresh(), MINUTES, SLACK)
