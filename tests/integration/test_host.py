# SPDX-License-Identifier: Apache-2.0
"""The host stays alive: what sandboxes may use together and each, read from the kernel's own files; bombs with a neighbour."""

import ctypes
import errno
import json
import os
import struct
import subprocess

import pytest

from cay_local import Cay, wait_until
from conftest import finish, make_dir, needs_root

PODS = "/api/v1/namespaces/default/pods"
MI = 1 << 20
CAP_SYS_RESOURCE = 24


def ready(obj):
    return obj is not None and any(c["type"] == "Ready" and c["status"] == "True"
                                   for c in obj.get("status", {}).get("conditions", []))


def over(obj):
    return obj is not None and obj.get("status", {}).get("phase") in ("Failed", "Succeeded")


def pod(name, *containers, **spec):
    listed = [dict({"name": f"c{i}", "image": "host", "command": ["sleep", "infinity"]}, **c)
              for i, c in enumerate(containers or ({},))]
    return {"metadata": {"name": name}, "spec": dict({"terminationGracePeriodSeconds": 0, "containers": listed}, **spec)}


def start(cay, *args, until=ready, **spec):
    body = pod(*args, **spec)
    cay.api("POST", PODS, body)
    return cay.wait(PODS, body["metadata"]["name"], until)


def group(cay, slot, *names):
    """The value of the first of these files that a hierarchy has, below the instance's group."""
    for name in names:
        for found in filter(os.path.exists, [os.path.join(d, slot, name) for d in cay.groups()]):
            with open(found, encoding="utf-8") as f:
                return f.read().strip()
    return pytest.fail(f"no hierarchy has {names} of {slot}")


def memory(cay, slot=""):
    return int(group(cay, slot, "memory.max", "memory.limit_in_bytes"))


def pids(cay, slot=""):
    return int(group(cay, slot, "pids.max"))


def slots(obj):
    return {c["name"]: c["containerID"].removeprefix("cay://") for c in obj["status"]["containerStatuses"]}


def number(path):
    with open(path, encoding="utf-8") as f:
        return int(f.read())


def total_memory():
    with open("/proc/meminfo", encoding="utf-8") as f:
        return int(f.readline().split()[1]) * 1024


def node_status(cay):
    def first():
        return (cay.api("GET", "/api/v1/nodes")["items"] or [{}])[0].get("status", {})
    wait_until(lambda: "capacity" in first())
    return first()


def sh(cay, name, script, **kwargs):
    return cay.kubectl("exec", name, "--", "sh", "-c", script, check=False, **kwargs)


@pytest.fixture(scope="module")
def cay():
    needs_root()
    c = Cay(make_dir(), flags=["--stop-sandboxes", "--host-memory-reserve", "1Gi", "--host-pids-reserve", "5000",
                               "--default-memory", "192Mi", "--pod-pids", "200"])
    c.start()
    yield c
    finish(c)


def test_all_sandboxes_together_leave_memory_to_the_host(cay):
    assert memory(cay) == total_memory() - (1 << 30)


def test_all_sandboxes_together_leave_processes_to_the_host(cay):
    limit = min(number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max"))
    assert pids(cay) == limit - 5000


def test_the_daemon_is_in_no_group_of_its_sandboxes(cay):
    with open(f"/proc/{cay.process.pid}/cgroup", encoding="utf-8") as f:
        assert os.path.basename(cay.groups()[0]) not in f.read()


def test_a_container_without_a_limit_gets_the_default(cay):
    obj = start(cay, "defaults", {}, {"resources": {"limits": {"memory": "64Mi"}}})
    assert memory(cay, slots(obj)["c0"]) == 192 * MI
    assert memory(cay, slots(obj)["c1"]) == 64 * MI


def test_the_containers_of_a_pod_share_its_number_of_processes(cay):
    one = start(cay, "alone")
    assert pids(cay, slots(one)["c0"]) == 200
    three = start(cay, "three", {}, {}, {})
    assert sorted(pids(cay, s) for s in slots(three).values()) == [66, 66, 68]


def protects_itself(cay):
    with open(f"/proc/{cay.process.pid}/status", encoding="utf-8") as f:
        caps = next(int(line.split()[1], 16) for line in f if line.startswith("CapEff"))
    return bool(caps >> CAP_SYS_RESOURCE & 1)


def test_sandboxes_are_killed_before_the_daemon(cay):
    score = number(f"/proc/{cay.process.pid}/oom_score_adj")
    assert score == (-900 if protects_itself(cay) else number("/proc/self/oom_score_adj"))
    start(cay, "effort")
    start(cay, "burst", {"resources": {"requests": {"memory": "64Mi"}}})
    start(cay, "sure", {"resources": {"limits": {"memory": "64Mi", "cpu": "100m"}}})
    inside = {n: int(sh(cay, n, "cat /proc/self/oom_score_adj").stdout) for n in ("effort", "burst", "sure")}
    assert inside["effort"] == 1000 and inside["sure"] == 100
    assert 100 < inside["burst"] < 1000
    assert all(v > max(score, 0) for v in inside.values())
    # The kernel keeps the least score only if the capability was there when it was set; below 0 nobody gets.
    tried = sh(cay, "effort", "echo -1 > /proc/self/oom_score_adj; echo 10 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj")
    assert int(tried.stdout.split()[-1]) == (1000 if protects_itself(cay) else 10)


def test_a_fork_bomb_ends_at_its_pods_number_and_leaves_the_neighbour_alone(cay):
    bomb = start(cay, "bomb")
    start(cay, "beside")
    sh(cay, "bomb", "b() { b | b & }; b; sleep 1", timeout=30)
    wait_until(lambda: int(group(cay, slots(bomb)["c0"], "pids.events").split()[-1]) > 0)
    assert int(group(cay, slots(bomb)["c0"], "pids.current")) <= 200
    assert sh(cay, "beside", "for i in 1 2 3 4 5; do /bin/true || exit 1; done; echo fine").stdout == "fine\n"
    cay.api("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "written"}, "data": {"a": "b"}})
    cay.api("DELETE", f"{PODS}/bomb")
    cay.wait(PODS, "bomb", lambda o: o is None)


def test_memory_without_a_limit_ends_at_the_default(cay):
    start(cay, "hungry", {"command": ["python3", "-c", "a = []\nwhile True: a.append(bytearray(1 << 20))"]},
          restartPolicy="Never", until=over)
    ended = cay.api("GET", f"{PODS}/hungry")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "OOMKilled" and ended["exitCode"] == 137
    cay.api("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "alive"}, "data": {"a": "b"}})


def deny_inotify():
    """From here on inotify_init1() answers EMFILE, to us and to all we start: as if other programs had taken all instances."""
    number_of = {"x86_64": 294, "aarch64": 26}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    # load the number; if it is this one, EMFILE; else allow
    code = b"".join(struct.pack("HBBI", *row) for row in (
        (0x20, 0, 0, 0), (0x15, 0, 1, number_of), (0x06, 0, 0, 0x00050000 | errno.EMFILE), (0x06, 0, 0, 0x7FFF0000)))
    rows = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(rows))
    if libc.prctl(22, 2, program, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "seccomp")


def test_serve_works_without_inotify(monkeypatch, fresh):
    real = subprocess.Popen
    with monkeypatch.context() as m:
        m.setattr(subprocess, "Popen", lambda *a, **k: real(*a, preexec_fn=deny_inotify, **k))
        cay = fresh()
    assert "the kernel reports no changes of files" in cay.log() and "Too many open files" in cay.log()
    start(cay, "talk", {"command": ["sh", "-c", "echo one; until [ -e /tmp/go ]; do sleep 0.1; done; echo two"]},
          restartPolicy="Never")
    follow = real(["kubectl", "logs", "-f", "talk"], stdout=subprocess.PIPE, text=True,
                  env=dict(os.environ, KUBECONFIG=cay.kubeconfig))
    assert follow.stdout.readline() == "one\n"
    sh(cay, "talk", "touch /tmp/go")
    assert follow.stdout.readline() == "two\n"  # the follower was told of what came later
    assert follow.wait(30) == 0  # and of the end
    cay.api("POST", PODS, pod("named", {"image": "later:1"}))
    cay.wait(PODS, "named", lambda o: o is not None and "ErrImagePull" in json.dumps(o.get("status", {})))
    cay.image_tag("host", "later:1")
    cay.wait(PODS, "named", ready)
    cay.api("DELETE", f"{PODS}/named")
    cay.wait(PODS, "named", lambda o: o is None)


def test_a_node_runs_a_bounded_number_of_pods(fresh):
    cay = fresh("--max-pods", "2", "--max-containers", "3")
    node = node_status(cay)
    assert node["capacity"]["pods"] == node["allocatable"]["pods"] == "2"
    start(cay, "one")
    many = start(cay, "many", {}, {}, {}, until=lambda o: ready(o) or over(o))
    assert many["status"]["reason"] == "OutOfcontainers" and "--max-containers" in many["status"]["message"]
    start(cay, "two")
    third = start(cay, "three", until=lambda o: ready(o) or over(o))
    assert third["status"]["phase"] == "Failed" and third["status"]["reason"] == "OutOfpods"
    assert "--max-pods" in third["status"]["message"]
    wait_until(lambda: any(e["reason"] == "OutOfpods" for e in cay.api("GET", "/api/v1/namespaces/default/events")["items"]))
    cay.api("DELETE", f"{PODS}/one")
    cay.wait(PODS, "one", lambda o: o is None)
    start(cay, "four")
    cay.kill()
    cay.start()  # what ran goes on and is counted
    start(cay, "five", until=lambda o: ready(o) or over(o))
    assert cay.api("GET", f"{PODS}/five")["status"]["reason"] == "OutOfpods"
    assert ready(cay.wait(PODS, "four", ready)) and ready(cay.wait(PODS, "two", ready))


def test_requests_beyond_the_machine_are_refused(fresh):
    cay = fresh("--overcommit", "1")
    node = node_status(cay)["allocatable"]
    half = int(node["memory"].removesuffix("Ki")) * 6 // 10
    for name, requests, reason in (("cpus", {"cpu": str(int(node["cpu"]) + 1)}, "OutOfcpu"),
                                   ("memory", {"memory": f"{half * 2}Ki"}, "OutOfmemory")):
        obj = start(cay, name, {"resources": {"requests": requests}}, until=lambda o: ready(o) or over(o))
        assert obj["status"]["reason"] == reason
    start(cay, "first", {"resources": {"requests": {"memory": f"{half}Ki"}}})
    obj = start(cay, "second", {"resources": {"requests": {"memory": f"{half}Ki"}}}, until=lambda o: ready(o) or over(o))
    assert obj["status"]["reason"] == "OutOfmemory" and "--overcommit" in obj["status"]["message"]
