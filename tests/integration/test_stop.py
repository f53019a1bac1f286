# SPDX-License-Identifier: Apache-2.0
"""A stop waits for the removals under way, and a start that fails undoes what it did."""

import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from cay_local import Cay
from conftest import make_dir, needs_root

PODS = "/api/v1/namespaces/default/pods"
N = 165
KEPT = {"pool", "directory", "volume"}  # in the data directory


def pod(name, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": dict({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}, **spec)}


def instance(cay):
    path = os.path.join(cay.data_dir, "node", "instance.json")
    return json.load(open(path)) if os.path.exists(path) else None


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def in_pool(line, pool):
    return any(ipaddress.ip_address(a) in pool for a in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", line))


def host(cay):
    """What an instance has on the host, as data: nft tables, links, addresses, routes, mounts, control groups, runtime
    directories. Other instances come and go meanwhile, so only what is named after this one counts."""
    me = instance(cay)
    if not me:
        return []
    groups = "\n".join(d for _, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if me["id"] in d)
    directories = "\n".join(os.listdir("/run/cay")) if os.path.isdir("/run/cay") else ""
    links = re.sub(r"^\d+: ([^:@]+).*$", r"\1", run("ip", "-o", "link"), flags=re.M)  # their state may change
    named = [run("nft", "list", "tables"), links, open("/proc/self/mountinfo").read(), groups, directories]
    numbered = [run("ip", "-o", "addr"), run("ip", "-o", "route", "show", "table", "all")]
    pool = ipaddress.ip_network(me["pool"])
    return sorted([line for text in named for line in text.splitlines() if me["id"] in line or cay.data_dir in line] +
                  [line for text in numbered for line in text.splitlines() if in_pool(line, pool)])


def lasting(cay):
    """Without links and their routes: those made ahead come and go."""
    return [line for line in host(cay) if not re.search(f"cay{instance(cay)['id']}[0-9a-f]", line)]


def left(cay):
    """What is there once the kernel has done its part: links go some time after the last process of their network."""
    deadline = time.monotonic() + 60
    while host(cay) and time.monotonic() < deadline:
        threading.Event().wait(0.1)
    return host(cay)


def fails(cay, *flags):
    r = subprocess.run([os.path.join(cay.build, "cay"), "serve", "--data-dir", cay.data_dir, *flags], capture_output=True,
                       text=True, timeout=120)
    assert r.returncode == 1, r.stderr
    return r.stderr


def start_many(cay, n=N):
    for i in range(n):
        cay.api("POST", PODS, pod(f"p{i}"))
    for i in range(n):
        cay.wait_ready(PODS, f"p{i}", timeout=240)


@pytest.fixture
def lone():
    """One without --stop-sandboxes."""
    needs_root()
    cay = Cay(make_dir())
    yield cay
    cay.kill()
    shutil.rmtree(cay.data_dir, ignore_errors=True)


def test_a_stop_waits_for_what_is_being_removed(lone):
    cay = lone.start()
    start_many(cay)
    for i in range(N):
        cay.api("DELETE", f"{PODS}/p{i}?gracePeriodSeconds=0")
    assert cay.stop(timeout=120) == 0
    items, orphans = cay.census()
    assert not orphans, f"{len(orphans)} left: {orphans[:5]}"
    assert {i["type"] for i in items} <= KEPT and not left(cay)


def test_a_stop_with_its_sandboxes_leaves_nothing(fresh):
    cay = fresh()
    start_many(cay, 40)
    for i in range(0, 40, 2):
        cay.api("DELETE", f"{PODS}/p{i}?gracePeriodSeconds=0")
    assert cay.stop(timeout=120) == 0
    items, _ = cay.census()
    assert {i["type"] for i in items} <= KEPT and not left(cay)


def test_a_stop_does_not_wait_for_a_grace_that_was_given(lone):
    """The Pod is left to the next start, which goes on with its deletion."""
    cay = lone.start()
    body = pod("patient", terminationGracePeriodSeconds=600)
    body["spec"]["containers"][0]["command"] = ["sh", "-c", "trap '' TERM; touch /armed; while :; do sleep 1; done"]
    body["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["test", "-e", "/armed"]}, "periodSeconds": 1}
    cay.api("POST", PODS, body)
    cay.wait_ready(PODS, "patient")
    cay.api("DELETE", f"{PODS}/patient")
    assert cay.stop() == 0
    items, orphans = cay.census()
    assert not orphans and any(i["type"] == "process" for i in items)
    cay.flags = ["--stop-sandboxes"]
    cay.start()
    assert cay.api("GET", f"{PODS}/patient")["metadata"]["deletionTimestamp"]  # a restart is no reason to hurry
    cay.api("DELETE", f"{PODS}/patient?gracePeriodSeconds=0")
    cay.wait(PODS, "patient", lambda p: p is None)
    assert cay.stop() == 0 and not left(cay)


@pytest.mark.parametrize("again_after", [0, 0.01, 0.1])
def test_a_second_signal_is_no_harm(fresh, again_after):
    cay = fresh()
    start_many(cay, 10)
    cay.close()
    for _ in range(3):
        cay.process.send_signal(signal.SIGTERM)
        threading.Event().wait(again_after)
    assert cay.process.wait(120) == 0
    cay.start()  # what it did not get to is found again, and ended with this one


@pytest.mark.parametrize("after", [0, 0.01, 0.02, 0.04, 0.08, 0.16])
def test_a_signal_during_the_start_leaves_nothing(lone, after):
    cay = lone
    os.makedirs(cay.data_dir, exist_ok=True)
    process = subprocess.Popen([os.path.join(cay.build, "cay"), "serve", "--data-dir", cay.data_dir,
                                "--listen", "127.0.0.1:0", "--router-listen", "127.0.0.1:0"], stderr=subprocess.DEVNULL)
    threading.Event().wait(after)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) in (0, -signal.SIGTERM)  # before it can catch anything, it has done nothing
    assert not left(cay)


def test_a_start_that_fails_undoes_what_it_did(lone):
    cay = lone
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        free = "127.0.0.1:0"
        for flags, says in [
            (("--listen", busy, "--router-listen", free), busy),
            (("--listen", free, "--router-listen", busy), busy),
            (("--listen", free, "--router-listen", free, "--init", "/no/such/init"), "/no/such/init"),
        ]:
            assert says in fails(cay, *flags)
            assert not left(cay), flags
    run_dir = instance(cay)["runDir"]
    with open(run_dir, "w") as f:
        f.write("precious")
    try:
        assert run_dir in fails(cay, "--listen", "127.0.0.1:0", "--router-listen", "127.0.0.1:0")
        assert open(run_dir).read() == "precious"  # it is not ours
    finally:
        os.unlink(run_dir)
    assert not left(cay)
    images = os.path.join(cay.data_dir, "images")  # opened after the table, the address and the control groups were made
    os.rename(images, images + ".away")
    open(images, "w").close()
    assert images in fails(cay, "--listen", "127.0.0.1:0", "--router-listen", "127.0.0.1:0")
    assert not left(cay)
    os.unlink(images)
    os.rename(images + ".away", images)
    cay.start()
    assert len(host(cay)) > 5  # it can see what there is
    assert cay.stop() == 0 and not left(cay)


def test_a_start_that_fails_leaves_the_sandboxes_of_the_last_one(fresh):
    cay = fresh()
    cay.flags = []
    cay.stop()
    cay.start()
    cay.api("POST", PODS, pod("stays"))
    ready = cay.wait_ready(PODS, "stays")
    cay.stop()
    before = lasting(cay)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        fails(cay, "--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--router-listen", "127.0.0.1:0")
    assert before and lasting(cay) == before
    cay.flags = ["--stop-sandboxes"]
    cay.start()
    now = cay.wait_ready(PODS, "stays")
    assert now["status"]["containerStatuses"] == ready["status"]["containerStatuses"]


def test_a_second_instance_on_the_same_directory_harms_nothing(fresh):
    cay = fresh()
    cay.api("POST", PODS, pod("mine"))
    ready = cay.wait_ready(PODS, "mine")
    before = lasting(cay)
    for _ in range(3):
        fails(cay, "--listen", "127.0.0.1:0", "--router-listen", "127.0.0.1:0")
    assert before and [line for line in before if line not in lasting(cay)] == []
    assert cay.api("GET", f"{PODS}/mine")["status"] == ready["status"]
    assert cay.kubectl("exec", "mine", "--", "echo", "alive").stdout == "alive\n"
