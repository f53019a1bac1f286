# SPDX-License-Identifier: Apache-2.0
"""What sandboxes use is counted from their start to their end, whatever becomes of the daemon."""

import subprocess

import pytest

from cay_local import ApiError, is_ready, wait_until
from test_protobuf import PROTOBUF, ask, members, name_of, opened

PODS = "/api/v1/namespaces/default/pods"
MIB = 1 << 20
# Burns a second and a half of processor time, fills 8 MiB of disk, asks the name server, and keeps 64 MiB of memory.
WORK = """
import os, socket, time
keep = bytearray(os.urandom(1 << 20) * 64)
with open("/tmp/file", "wb") as f:
    f.write(os.urandom(8 << 20))
    os.fsync(f.fileno())
try:
    socket.getaddrinfo("nobody.default.svc.cluster.local", 1)
except OSError:
    pass
while time.process_time() < 1.5:
    pass
print("done", flush=True)
time.sleep(10000)
"""


@pytest.fixture(scope="module")
def cay(module_instance):
    return module_instance("--usage-interval", "1")


def start(cay, name, command=("python3", "-c", WORK)):
    cay.api("POST", PODS, {"metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "host", "command": list(command)}]}})
    cay.wait(PODS, name, lambda o: o is not None and is_ready(o))


def worked(cay, name):
    wait_until(lambda: "done" in (cay.api("GET", f"{PODS}/{name}/log") or ""), timeout=120)


def remove(cay, name):
    cay.api("DELETE", f"{PODS}/{name}")
    cay.wait(PODS, name, lambda o: o is None)


def sums(cay):
    return {name: cay.metric(f"cay_usage_{name}_total") for name in (
        "cpu_seconds", "memory_byte_seconds", "disk_byte_seconds", "network_received_bytes", "network_sent_bytes")}


def look(cay):
    """The sums after a look that began after this call."""
    seen = cay.metric("cay_usage_looks_total")
    wait_until(lambda: cay.metric("cay_usage_looks_total") >= seen + 2)
    return sums(cay)


def test_usage_is_counted_to_the_end_and_survives_kill_9(cay):
    before = sums(cay)
    start(cay, "worker")
    worked(cay, "worker")
    first = look(cay)
    used = {k: first[k] - before[k] for k in first}
    assert 1.5 <= used["cpu_seconds"] < 6, used
    assert used["memory_byte_seconds"] > 32 * MIB, used
    assert 100 < used["network_sent_bytes"] < MIB and 100 < used["network_received_bytes"] < MIB, used
    subprocess.run(["sync", "-f", cay.pool()], check=True)  # btrfs counts when it commits
    wait_until(lambda: sums(cay)["disk_byte_seconds"] - before["disk_byte_seconds"] > 8 * MIB, timeout=120)

    cay.kill()
    cay.start()
    second = look(cay)
    assert all(second[k] >= first[k] for k in first), (first, second)
    assert second["cpu_seconds"] - before["cpu_seconds"] < 6, second  # the same task was not counted a second time
    remove(cay, "worker")
    third = sums(cay)
    assert all(third[k] >= second[k] for k in first), (second, third)
    cay.kill()
    cay.start()
    fourth = sums(cay)
    assert all(fourth[k] >= second[k] for k in first), (second, fourth)
    # What its processes used while they ended is added after the Pod has gone; the second and a half of their work is not, twice.
    assert fourth["cpu_seconds"] < third["cpu_seconds"] + 0.5, (third, fourth)


def test_a_container_that_ends_between_two_looks_is_counted_whole(cay):
    before = sums(cay)["cpu_seconds"]
    cay.api("POST", PODS, {"metadata": {"name": "short"}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "image": "host", "command": ["python3", "-c", "import time\nwhile time.process_time() < 0.4: pass"]}]}})
    cay.wait(PODS, "short", lambda o: o is not None and o["status"].get("phase") == "Succeeded")
    assert sums(cay)["cpu_seconds"] - before >= 0.4
    remove(cay, "short")
    assert sums(cay)["cpu_seconds"] - before >= 0.4


def test_kubectl_top_shows_pods_containers_and_the_node(cay, kubectl_version):
    start(cay, "busy", ("python3", "-c", "x = bytearray(b'x' * (64 << 20))\nwhile True: pass"))
    start(cay, "idle", ("sleep", "10000"))
    wait_until(lambda: cay.kubectl("top", "pod", "busy", check=False).returncode == 0)
    seen = cay.metric("cay_usage_looks_total")
    wait_until(lambda: cay.metric("cay_usage_looks_total") >= seen + 3)
    rows = {r[0]: r[1:] for r in (line.split() for line in cay.kubectl("top", "pod", "--no-headers").stdout.splitlines())}
    assert int(rows["busy"][0].rstrip("m")) > 100 and int(rows["idle"][0].rstrip("m")) < 100, rows
    assert 64 <= int(rows["busy"][1].removesuffix("Mi")) < 256, rows
    assert int(rows["idle"][1].removesuffix("Mi")) < 32, rows
    assert "main" in cay.kubectl("top", "pod", "busy", "--containers").stdout
    assert cay.kubectl("top", "pod", "-l", "app=idle", "--no-headers").stdout.split()[0] == "idle"
    assert "%" in cay.kubectl("top", "node", "--no-headers").stdout
    remove(cay, "idle")
    assert "idle" not in cay.kubectl("top", "pod", "--no-headers").stdout
    remove(cay, "busy")


def test_a_long_list_of_measurements_is_whole_in_protobuf(cay):
    """Longer than what is sent at once, and measured once: the numbers differ each time."""
    start(cay, "labelled", ("sleep", "10000"))
    labels = {f"{'x' * 63}.{'y' * 63}.{'z' * 63}.{i}/name": "v" * 60 for i in range(250)}
    cay.api("PATCH", f"{PODS}/labelled", {"metadata": {"labels": labels}}, content_type="application/merge-patch+json")
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    wait_until(lambda: "labelled" in [i["metadata"]["name"] for i in cay.api("GET", path)["items"]])
    status, type_, body = ask(cay, path, PROTOBUF)
    version, kind, message = opened(body)
    assert (status, type_, kind) == (200, PROTOBUF, "PodMetricsList") and len(body) > 64 * 1024
    pod = members(message[2][-1])
    assert name_of(pod) == "labelled" and len(members(pod[1][0])[11]) == 251
    usage = {members(e)[1][0].decode() for e in members(pod[4][0])[2]}
    assert {"cpu", "memory", "cay.dev/disk"} <= usage
    remove(cay, "labelled")


def test_measurements_are_read_and_never_written(cay):
    start(cay, "kept", ("sleep", "10000"))
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    one = wait_until(lambda: next((i for i in cay.api("GET", path)["items"] if i["metadata"]["name"] == "kept"), None))
    assert one["kind"] == "PodMetrics" and "uid" not in one["metadata"] and "spec" not in one
    usage = one["containers"][0]["usage"]
    assert {"cpu", "memory", "cay.dev/cpu-seconds", "cay.dev/memory-byte-seconds", "cay.dev/disk-byte-seconds"} <= set(usage)
    assert "cay.dev/network-sent-bytes" in one["metadata"]["annotations"]
    for method, where, body in (("POST", path, one), ("PUT", f"{path}/kept", one), ("DELETE", f"{path}/kept", None), ("DELETE", path, None),
                                ("PATCH", f"{path}/kept", {"metadata": {"labels": {"a": "b"}}}), ("GET", f"{path}?watch=true", None)):
        with pytest.raises(ApiError) as refused:
            cay.api(method, where, body, content_type="application/merge-patch+json" if method == "PATCH" else "application/json")
        assert refused.value.code == 405, (method, where)
    assert cay.api("GET", f"{PODS}/kept")["spec"]["containers"]
    with pytest.raises(ApiError) as absent:
        cay.api("GET", f"{path}/nobody")
    assert absent.value.code == 404
    resources = {r["name"]: r["verbs"] for r in cay.api("GET", "/apis/metrics.k8s.io/v1beta1")["resources"]}
    assert resources == {"nodes": ["get", "list"], "pods": ["get", "list"]}
    assert cay.kubectl("get", "pods", "-o", "name").stdout.split() == ["pod/kept"]  # the word still means Pods
    remove(cay, "kept")
