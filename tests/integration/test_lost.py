# SPDX-License-Identifier: Apache-2.0
"""A store, a key or a log that is missing or damaged: the daemon refuses to start, says what to do, and touches nothing."""

import os
import subprocess

import pytest

from cay_local import AGENTS, BUILD

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
MAPS = "/api/v1/namespaces/default/configmaps"


def box(name):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}}


def refused(cay, *flags):
    """What a start that must fail says."""
    r = subprocess.run([os.path.join(BUILD, "cay"), "serve", "--data-dir", cay.data_dir, "--listen", "127.0.0.1:0",
                        "--router-listen", "127.0.0.1:0", *flags], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1, r.stderr
    return r.stderr


def processes(cay):
    return sorted(i["name"] for i in cay.census()[0] if i["type"] == "process")


def test_a_missing_store_is_not_a_new_one_and_sweeps_nothing(fresh):
    cay = fresh()
    cay.flags = []
    cay.stop()
    cay.start()
    cay.api("POST", SANDBOXES, box("stays"))
    before = cay.wait_ready(SANDBOXES, "stays")
    cay.stop()
    running = processes(cay)
    assert running

    away = os.path.join(cay.data_dir, "away")
    os.mkdir(away)
    names = [n for n in os.listdir(cay.data_dir) if n.startswith("store.db")]
    for name in names:
        os.rename(os.path.join(cay.data_dir, name), os.path.join(away, name))
    said = refused(cay)
    assert "store.db" in said and "--new-store" in said and "mounted" in said
    assert not os.path.exists(os.path.join(cay.data_dir, "store.db"))
    said = refused(cay, "--new-store")
    assert os.path.join(cay.data_dir, "node/store") in said

    for name in os.listdir(cay.data_dir):
        if name.startswith("store.db"):
            os.unlink(os.path.join(cay.data_dir, name))
    for name in names:
        os.rename(os.path.join(away, name), os.path.join(cay.data_dir, name))
    assert processes(cay) == running, "the sandbox was left alone"
    cay.flags = ["--stop-sandboxes"]
    cay.start()
    assert cay.wait_ready(SANDBOXES, "stays")["status"]["podIPs"] == before["status"]["podIPs"]


@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "sa.key"])
def test_a_missing_key_is_not_replaced_in_silence(fresh, name):
    cay = fresh()
    cay.stop()
    path = os.path.join(cay.data_dir, name)
    os.rename(path, path + ".away")
    keys = {n: open(os.path.join(cay.data_dir, n)).read() for n in ("ca.key", "ca.crt", "sa.key") if n != name}
    said = refused(cay)
    assert name in said and "--new-keys" in said
    assert not os.path.exists(path)
    assert keys == {n: open(os.path.join(cay.data_dir, n)).read() for n in keys}
    cay.flags.append("--new-keys")
    cay.start()
    assert os.path.exists(path)
    assert cay.api("GET", MAPS)["items"] is not None


def test_a_damaged_log_is_refused_and_a_torn_one_is_not(fresh):
    cay = fresh()
    for i in range(8):
        cay.api("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{i}"}, "data": {"x": "y" * 9000}})
    cay.kill()
    log = os.path.join(cay.data_dir, "store.db-wal")
    good = open(log, "rb").read()
    with open(log, "r+b") as f:
        f.seek(32 + 4120 * 3 + 200)
        f.write(b"damage")
    said = refused(cay)
    assert log in said and "--accept-damaged-log" in said and "backup" in said
    with open(log, "wb") as f:
        f.write(good + good[32:32 + 2000])  # the frame that was being written when the power went
    cay.start()
    assert {f"m{i}" for i in range(8)} <= {m["metadata"]["name"] for m in cay.api("GET", MAPS)["items"]}
