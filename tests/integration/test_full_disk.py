# SPDX-License-Identifier: Apache-2.0
"""A disk that is full to its last byte: nothing acknowledged is lost, deletions go on, and the daemon starts."""

import http.client
import os
import ssl
import subprocess
import tempfile

import pytest

from cay_local import AGENTS, ApiError, Cay
from conftest import needs_root

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def box(name):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}}


def page(cay, path):
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=30, context=cay.context())
    conn.request("GET", path)
    answer = conn.getresponse()
    return answer.status, answer.read().decode()


class Alive(Cay):
    """One that counts as started when it answers, whether or not it takes writes."""

    def ready(self):
        try:
            conn = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=ssl._create_unverified_context())
            conn.request("GET", "/livez")
            return conn.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


@pytest.fixture
def small(tmp_path):
    """Makes an instance whose data directory is a small file system of its own."""
    needs_root()
    made = []

    def make(*flags):
        data_dir = tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "cay-test", data_dir], check=True)
        cay = Alive(data_dir, flags=flags)
        cay.log_path = str(tmp_path / "serve.log")
        made.append(cay)
        return cay.start()

    yield make
    for cay in made:
        try:
            empty(cay)
            cay.flags.append("--stop-sandboxes")
            cay.stop()
            cay.start().stop()
            _, orphans = cay.census()
            assert not orphans, orphans[:5]
        finally:
            cay.kill()
            subprocess.run(["umount", "-l", cay.data_dir], check=True)
            os.rmdir(cay.data_dir)


def filler(cay):
    return os.path.join(cay.data_dir, "filler")


def fill(cay):
    """Takes every byte that is left."""
    with open(filler(cay), "ab", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            try:
                while f.write(b"x" * size):
                    pass
            except OSError:
                pass
    assert os.statvfs(cay.data_dir).f_bavail == 0


def empty(cay):
    if os.path.exists(filler(cay)):
        os.unlink(filler(cay))


def await_ready(cay):
    while page(cay, "/readyz")[0] != 200:
        os.sched_yield()


def write_until_refused(cay):
    """Names of the ConfigMaps that were acknowledged, and the refusal."""
    kept = []
    for i in range(1000):
        name = f"m{i}"
        try:
            cay.api("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                   "data": {"x": "y" * 100_000}})
        except ApiError as e:
            return kept, e
        kept.append(name)
    raise AssertionError("a full disk took 100 MB")


def metric(cay, name):
    return [line for line in page(cay, "/metrics")[1].splitlines() if line.startswith(name + " ")][0].split()[1]


def test_a_full_disk_stops_no_deletion_and_no_start(small):
    cay = small("--store-reserve", "8")
    cay.api("POST", SANDBOXES, box("s"))
    cay.wait_ready(SANDBOXES, "s")
    fill(cay)
    kept, refusal = write_until_refused(cay)
    assert refusal.code == 503 and "no space left" in refusal.status["message"]
    status, text = page(cay, "/readyz?verbose")
    assert status == 503 and "[-]store failed: no space left on device" in text
    assert metric(cay, "cay_store_short_of_space") == "1" and metric(cay, "cay_store_failed_commits_total") == "0"
    assert cay.log().count("disk is full, only deletions are accepted") == 1

    names = ("admin.kubeconfig", "ca.crt", "ca.key", "server.crt", "sa.key", "node/instance.json")
    stamps = lambda: [os.stat(os.path.join(cay.data_dir, n)).st_mtime_ns for n in names]
    before = stamps()
    cay.kill()
    fill(cay)
    cay.start()
    assert stamps() == before
    assert {m["metadata"]["name"] for m in cay.api("GET", MAPS)["items"]} >= set(kept), "what was acknowledged is there"

    cay.api("DELETE", f"{SANDBOXES}/s")
    cay.wait(SANDBOXES, "s", lambda o: o is None)
    cay.wait(PODS, "s", lambda o: o is None)
    for name in kept:
        cay.api("DELETE", f"{MAPS}/{name}")
    left = [m["metadata"]["name"] for m in cay.api("GET", MAPS)["items"]]
    assert not set(left) & set(kept)

    empty(cay)
    await_ready(cay)
    cay.api("POST", SANDBOXES, box("again"))
    cay.wait_ready(SANDBOXES, "again")
    cay.api("DELETE", f"{SANDBOXES}/again")
    cay.wait(PODS, "again", lambda o: o is None)


def test_a_write_whose_commit_failed_is_answered_504_and_one_that_was_refused_503(small):
    cay = small("--store-reserve", "0")
    fill(cay)
    kept, unknown = write_until_refused(cay)
    assert unknown.code == 504 and "unknown" in unknown.status["message"]
    assert "retryAfterSeconds" not in unknown.status.get("details", {}), "nobody is invited to write it again"
    with pytest.raises(ApiError) as refused:
        cay.api("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
    assert refused.value.code == 503
    shown = {m["metadata"]["name"] for m in cay.api("GET", MAPS)["items"]}
    assert set(kept) <= shown and f"m{len(kept)}" not in shown, "reads show what a crash would not take back"
    status, text = page(cay, "/readyz?verbose")
    assert status == 503 and "no space left on device" in text
    assert metric(cay, "cay_store_read_only") == "1" and metric(cay, "cay_store_failed_commits_total") != "0"
    assert cay.log().count("store is read-only") == 1

    cay.kill()
    empty(cay)
    cay.start()
    after = {m["metadata"]["name"] for m in cay.api("GET", MAPS)["items"]}
    assert after >= shown and "late" not in after
