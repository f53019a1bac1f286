# SPDX-License-Identifier: Apache-2.0
"""Backups made while clients write, restored whole or not at all; fsck; stores of earlier versions; and `cay stop`."""

import base64
import json
import os
import pty
import shutil
import signal
import sqlite3
import stat
import subprocess
import tarfile
import threading

import pytest

from cay_local import AGENTS, BUILD, ROOT, Cay
from conftest import finish, make_dir, needs_root

MAPS = "/api/v1/namespaces/default/configmaps"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
CLIENTS = 16
KEPT = ("store.db", "ca.crt", "ca.key", "sa.key", "router.key")


def config(name, text="x"):
    return {"metadata": {"name": name}, "data": {"text": text}}


def box(name, command="sleep infinity"):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [
                {"name": "main", "image": "host", "command": ["sh", "-c", command]}]}}}}


CAY = os.path.join(BUILD, "cay")


def run(*args, **options):
    return subprocess.run([CAY, *args], capture_output=True, text=True, timeout=300, **options)


def good(*args):
    r = run(*args)
    assert r.returncode == 0, (args, r.returncode, r.stdout, r.stderr)
    return r.stdout


def backup(cay, path):
    return json.loads(good("backup", path, "--data-dir", cay.data_dir, "-o", "json"))


def image(directory):
    """Every file of a directory that a restoration may touch, as bytes."""
    return {name: open(os.path.join(directory, name), "rb").read() for name in sorted(os.listdir(directory))
            if os.path.isfile(os.path.join(directory, name)) and name not in ("lock", "serve.log", "pool.img")}


class Writers:
    """Clients that create objects as fast as they are answered, and note what was acknowledged."""

    def __init__(self, cay):
        self.cay, self.acknowledged, self.over = cay, [[] for _ in range(CLIENTS)], False
        self.threads = [threading.Thread(target=self.write, args=(i,)) for i in range(CLIENTS)]
        for t in self.threads:
            t.start()

    def write(self, i):
        conn = self.cay.connect()
        n = 0
        while not self.over:
            conn.request("POST", MAPS, json.dumps(config(f"w{i}-{n}", "x" * 2000)), {"Content-Type": "application/json"})
            answer = conn.getresponse()
            answer.read()
            if answer.status == 201:
                self.acknowledged[i].append(n)
            n += 1
        conn.close()

    def so_far(self):
        """Numbers that each client wrote; on a busy machine one may not have begun yet."""
        return [list(a) for a in self.acknowledged]

    def count(self):
        return sum(map(len, self.acknowledged))

    def wait_for(self, more):
        before, turn = self.count(), threading.Event()
        while self.count() < before + more:
            assert any(t.is_alive() for t in self.threads)
            turn.wait(0.01)

    def stop(self):
        self.over = True
        for t in self.threads:
            t.join()


@pytest.fixture
def elsewhere():
    """A directory that is removed, whatever happens."""
    directory = make_dir()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_a_backup_during_writes_has_all_that_was_acknowledged_before(elsewhere, fresh):
    cay = fresh()
    old = os.path.join(elsewhere, "old")
    shutil.copytree(cay.data_dir, old, ignore=lambda d, names: [n for n in names if n not in ("admin.kubeconfig",)])
    writers = Writers(cay)
    taken = []
    try:
        for i in range(3):
            writers.wait_for(200)
            before = writers.so_far()
            taken.append((before, backup(cay, os.path.join(elsewhere, f"{i}.backup"))))
    finally:
        writers.stop()
    for i, (before, facts) in enumerate(taken):
        path = os.path.join(elsewhere, f"{i}.backup")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and facts["bytes"] == os.path.getsize(path)
        to = os.path.join(elsewhere, f"to-{i}")
        restored = json.loads(good("restore", path, "--data-dir", to, "-o", "json"))
        assert restored["revision"] == facts["revision"] + 10**9 and restored["objects"] == facts["objects"]
        assert "0 faults" in good("fsck", "--data-dir", to)
        with sqlite3.connect(f"file:{to}/store.db?mode=ro", uri=True) as db:
            names = {key.split("/")[-1] for key, in db.execute("SELECT key FROM objects WHERE key LIKE 'configmaps/default/w%'")}
        for client, numbers in enumerate(before):
            assert {f"w{client}-{k}" for k in numbers} <= names
            assert sum(1 for name in names if name.startswith(f"w{client}-")) <= len(writers.so_far()[client]) + 1
    # The kubeconfig from before the backup is as good for the restored server, and revisions have moved on.
    other = fresh(data_dir=os.path.join(elsewhere, "to-2"))
    shutil.copy(os.path.join(old, "admin.kubeconfig"), other.data_dir + "/client.kubeconfig")
    other.kubeconfig, other._ssl = other.data_dir + "/client.kubeconfig", None
    client, number = next((c, numbers[0]) for c, numbers in enumerate(taken[2][0]) if numbers)
    seen = other.api("GET", f"{MAPS}/w{client}-{number}")
    made = other.api("POST", MAPS, config("after"))
    assert int(made["metadata"]["resourceVersion"]) > taken[2][1]["revision"] + 10**9 > int(seen["metadata"]["resourceVersion"])
    assert not [n for n in os.listdir(elsewhere) if n.endswith(".tmp")]


def test_a_restored_server_runs_the_sandboxes_of_the_backup_and_ends_later_ones(elsewhere, fresh):
    cay = fresh()
    cay.api("POST", SANDBOXES, box("early"))
    cay.wait_ready(SANDBOXES, "early")
    archive = os.path.join(elsewhere, "b")
    backup(cay, archive)
    cay.api("POST", SANDBOXES, box("late"))
    cay.wait_ready(SANDBOXES, "late")
    r = run("restore", archive, "--data-dir", cay.data_dir, "--force")
    assert r.returncode == 1 and f"in use by cay serve pid {cay.process.pid} at https://127.0.0.1:{cay.port}" in r.stderr
    cay.flags.remove("--stop-sandboxes")
    cay.kill()
    r = run("restore", archive, "--data-dir", cay.data_dir)
    assert r.returncode == 1 and "--force" in r.stderr and cay.data_dir in r.stderr
    good("restore", archive, "--data-dir", cay.data_dir, "--force")
    cay.flags.append("--stop-sandboxes")
    cay.start()
    cay.wait_ready(SANDBOXES, "early")
    assert [o["metadata"]["name"] for o in cay.api("GET", SANDBOXES)["items"]] == ["early"]
    # On a host that never had them, sandboxes are made anew.
    other = os.path.join(elsewhere, "other")
    good("restore", archive, "--data-dir", other)
    twin = fresh(data_dir=other)
    twin.wait_ready(SANDBOXES, "early")
    assert json.load(open(other + "/node/instance.json"))["id"] != json.load(open(cay.data_dir + "/node/instance.json"))["id"]


def test_damaged_archives_are_refused_and_nothing_changes(elsewhere, fresh):
    cay = fresh()
    archive = os.path.join(elsewhere, "b")
    backup(cay, archive)
    cay.stop()
    whole, before = open(archive, "rb").read(), image(cay.data_dir)
    tar = tarfile.open(archive)
    assert tar.getnames() == ["cay-backup.json", *KEPT, "SHA256SUMS"]
    store = tar.getmember("store.db")
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=unpack(tar, elsewhere)).returncode == 0
    flipped = bytearray(whole)
    flipped[store.offset_data + store.size // 2] ^= 1
    key = tar.getmember("ca.key")
    swapped = bytearray(whole)
    swapped[key.offset_data + 40] ^= 4
    foreign = os.path.join(elsewhere, "foreign.tar")
    with tarfile.open(foreign, "w") as t:
        t.add(__file__, "../../etc/passwd")
    cases = {"nothing": b"", "garbage": os.urandom(100000), "flipped": flipped, "key": swapped, "foreign": open(foreign, "rb").read(),
             "renamed": whole.replace(b"ca.key\0", b"cb.key\0"), "tail": whole[:-1024]}
    cases.update({f"cut at {n}": whole[:n] for n in (1, 511, 512, 1500, len(whole) // 2, store.offset_data + store.size, len(whole) - 4000)})
    for what, data in cases.items():
        bad, to = os.path.join(elsewhere, "bad"), os.path.join(elsewhere, "to")
        open(bad, "wb").write(data)
        for directory, flags in ((cay.data_dir, ["--force"]), (to, [])):
            r = run("restore", bad, "--data-dir", directory, *flags)
            assert r.returncode == 1 and f"read backup {bad}" in r.stderr, (what, r.stderr)
        assert image(cay.data_dir) == before and not os.path.exists(to), what
        assert not [n for n in os.listdir(cay.data_dir) if n.startswith("restore.")], what
    good("restore", archive, "--data-dir", cay.data_dir, "--force")
    cay.start()


def unpack(tar, where):
    to = os.path.join(where, "unpacked")
    tar.extractall(to)
    return to


def test_what_is_asked_wrongly_is_said_precisely(elsewhere, fresh):
    cay = fresh(start=False)
    other = fresh()
    archive = os.path.join(elsewhere, "b")
    for args, code, text in (
            (["backup"], 2, "FILE"), (["backup", "a", "b"], 2, "2 words"), (["restore", archive], 2, "--data-dir"),
            (["backup", archive, "--data-dir", cay.data_dir], 1, f"no store at {cay.data_dir}/store.db"),
            (["backup", elsewhere + "/no/b", "--data-dir", other.data_dir], 1, "No such file"),
            (["restore", archive, "--data-dir", cay.data_dir], 1, f"open {archive}: No such file"),
            (["fsck", "--data-dir", cay.data_dir], 3, f"no store at {cay.data_dir}/store.db"),
            (["stop", "--data-dir", elsewhere + "/no"], 1, "no data directory"),
            (["stop", "--data-dir", cay.data_dir], 3, "no server has")):
        r = run(*args)
        assert r.returncode == code and text in r.stderr and len(r.stderr.splitlines()) == 1, (args, r)
    backup(other, archive)
    r = run("backup", archive, "--data-dir", other.data_dir)
    assert r.returncode == 1 and "--force" in r.stderr
    good("backup", archive, "--data-dir", other.data_dir, "--force")
    # The sandboxes of one store are not those of another.
    cay.start().stop()
    r = run("restore", archive, "--data-dir", cay.data_dir, "--force")
    assert r.returncode == 1 and "belong to store" in r.stderr
    cay.start()


def test_progress_is_shown_on_a_terminal_alone(elsewhere, fresh):
    cay = fresh()
    shown, terminal = pty.openpty()
    r = subprocess.run([CAY, "backup", elsewhere + "/b", "--data-dir", cay.data_dir], stdout=subprocess.PIPE, stderr=terminal, timeout=300)
    os.close(terminal)
    text = os.read(shown, 65536).decode()
    os.close(shown)
    assert r.returncode == 0 and "copy the store: " in text and text.endswith("\r\033[K")
    assert run("backup", elsewhere + "/c", "--data-dir", cay.data_dir).stderr == ""


def test_a_full_disk_leaves_no_archive_and_no_half_restoration(elsewhere, fresh):
    cay = fresh()
    for i in range(64):
        cay.api("POST", MAPS, config(f"big-{i}", base64.b64encode(os.urandom(48000)).decode()))
    archive, small = os.path.join(elsewhere, "b"), os.path.join(elsewhere, "small")
    backup(cay, archive)
    os.mkdir(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "cay-test", small], check=True)
    try:
        r = run("backup", small + "/b", "--data-dir", cay.data_dir)
        assert r.returncode == 1 and "no space left" in r.stderr.lower() and os.listdir(small) == []
        r = run("restore", archive, "--data-dir", small + "/to")
        assert r.returncode == 1 and "no space left" in r.stderr.lower() and os.listdir(small) == []
    finally:
        subprocess.run(["umount", small], check=True)
    assert cay.api("GET", f"{MAPS}/big-63")


def test_a_killed_restoration_is_all_or_nothing(elsewhere, fresh):
    """tests/unit/server/data_test.c stops it at every step; here the real program is killed, and the server completes it."""
    cay = fresh()
    cay.api("POST", MAPS, config("old"))
    archive = os.path.join(elsewhere, "b")
    backup(cay, archive)
    cay.api("DELETE", f"{MAPS}/old")
    cay.api("POST", MAPS, config("new"))
    seen = set()
    for kill_after in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        cay.stop()
        restoration = subprocess.Popen([CAY, "restore", archive, "--data-dir", cay.data_dir, "--force"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            restoration.wait(kill_after / 1000)
        except subprocess.TimeoutExpired:
            restoration.send_signal(signal.SIGKILL)
            restoration.wait()
        cay._ssl = None
        cay.start()
        names = {o["metadata"]["name"] for o in cay.api("GET", MAPS)["items"]} & {"old", "new"}
        assert names in ({"new"}, {"old"})
        seen |= names
        assert "0 faults" in good("fsck", "--data-dir", cay.data_dir)
        if names == {"old"}:
            cay.api("DELETE", f"{MAPS}/old")
            cay.api("POST", MAPS, config("new"))
    assert not [n for n in os.listdir(cay.data_dir) if n.startswith("restore.")]


def test_the_server_completes_a_decided_restoration(elsewhere, fresh):
    cay = fresh()
    cay.api("POST", MAPS, config("old"))
    archive, to = os.path.join(elsewhere, "b"), os.path.join(elsewhere, "to")
    backup(cay, archive)
    cay.api("DELETE", f"{MAPS}/old")
    cay.stop()
    good("restore", archive, "--data-dir", to)
    ready = os.path.join(cay.data_dir, "restore.ready")
    os.mkdir(ready, 0o700)
    for name in KEPT:
        shutil.copy(os.path.join(to, name), ready)
    with open(os.path.join(ready, "files"), "w") as f:
        f.write("".join(f"{name}\n" for name in KEPT))
    os.rename(os.path.join(ready, "ca.key"), os.path.join(cay.data_dir, "ca.key"))  # it was killed here
    for command in (["backup", elsewhere + "/c"], ["fsck"]):
        r = run(*command, "--data-dir", cay.data_dir)
        assert r.returncode in (1, 3) and "was interrupted" in r.stderr
    cay.start()
    assert cay.api("GET", f"{MAPS}/old") and not os.path.exists(ready)
    assert "completed a restoration" in cay.log()


def damage(cay, *statements):
    with sqlite3.connect(os.path.join(cay.data_dir, "store.db")) as db:
        for s in statements:
            db.execute(*s) if isinstance(s, tuple) else db.execute(s)
    db.close()


def test_fsck_finds_what_is_wrong_and_says_what_to_do(fresh):
    cay = fresh()
    cay.api("POST", MAPS, config("good"))
    for name in ("rotten", "text", "name", "kind", "revision", "orphan", "homeless", "type"):
        cay.api("POST", MAPS, config(name))
    r = run("fsck", "--data-dir", cay.data_dir)
    assert r.returncode == 0 and "0 faults" in r.stdout and f"in use by cay serve pid {cay.process.pid}" in r.stdout
    cay.stop()
    assert run("fsck", "--data-dir", cay.data_dir).returncode == 0
    kept = image(cay.data_dir)

    def change(name, old, new):
        return ("UPDATE objects SET value = CAST(replace(value, ?, ?) AS BLOB), sum = NULL WHERE key = ?",
                (old, new, f"configmaps/default/{name}"))
    damage(cay, ("UPDATE objects SET value = CAST(replace(value, '\"x\"', '\"y\"') AS BLOB) WHERE key = 'configmaps/default/rotten'",),
           change("text", "{", "["), change("name", '"name":"name"', '"name":"nome"'), change("kind", '"ConfigMap"', '"Secret"'),
           change("revision", '"resourceVersion":"', '"resourceVersion":"9'), change("type", '"text":"x"', '"text":7'),
           change("orphan", '"name":"orphan"', '"name":"orphan","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"gone"}]'),
           "UPDATE objects SET key = 'configmaps/nowhere/homeless', sum = NULL,"
           " value = CAST(replace(value, '\"namespace\":\"default\"', '\"namespace\":\"nowhere\"') AS BLOB) WHERE key = 'configmaps/default/homeless'",
           "INSERT INTO objects VALUES('mysteries.example.com/a', 1, 1, '{}', NULL)")
    with open(os.path.join(cay.data_dir, "sa.key"), "w") as f:
        f.write("not a key")
    r = run("fsck", "--data-dir", cay.data_dir, "-o", "json")
    report = json.loads(r.stdout)
    found = {(f["severity"], f["what"].split("/")[-1]) for f in report["findings"]}
    assert r.returncode == 1
    assert {("fault", n) for n in ("rotten", "text", "name", "kind", "revision", "type", "homeless", "sa.key")} <= found
    assert ("note", "orphan") in found and ("note", "mysteries.example.com") in found and ("fault", "good") not in found
    assert all(f["message"] and f["fix"] for f in report["findings"])
    text = run("fsck", "--data-dir", cay.data_dir).stdout
    assert "what to do: restore a backup" in text and "does not match its checksum" in text
    for name, data in kept.items():
        open(os.path.join(cay.data_dir, name), "wb").write(data)
    page = os.path.join(cay.data_dir, "store.db")
    with open(page, "r+b") as f:
        f.seek(4096)
        f.write(os.urandom(4096))
    for name in ("store.db-wal", "store.db-shm"):
        os.unlink(os.path.join(cay.data_dir, name)) if os.path.exists(os.path.join(cay.data_dir, name)) else None
    r = run("fsck", "--data-dir", cay.data_dir)
    assert r.returncode in (1, 3) and ("restore" in r.stdout or "restore" in r.stderr)
    for name, data in kept.items():
        open(os.path.join(cay.data_dir, name), "wb").write(data)
    cay.start()


def test_a_store_of_the_oldest_schema_is_served(fresh):
    cay = fresh("--node-name", "old", start=False)
    shutil.copy(os.path.join(ROOT, "tests", "data", "store", "schema-1.db"), os.path.join(cay.data_dir, "store.db"))
    cay.flags.append("--new-keys")
    cay.start()
    assert cay.api("GET", f"{MAPS}/kept")["data"]["text"] == "written by schema 1"
    assert cay.api("GET", f"{MAPS}/changed")["data"]["text"] == "changed by schema 1"
    sandbox = cay.api("GET", f"{SANDBOXES}/asleep")
    assert sandbox["spec"]["operatingMode"] == "Suspended"
    r = run("fsck", "--data-dir", cay.data_dir, "-o", "json")
    assert r.returncode == 0 and json.loads(r.stdout)["schema"] == 2, r.stdout
    sandbox["spec"]["operatingMode"] = "Running"
    cay.api("PUT", f"{SANDBOXES}/asleep", sandbox)
    cay.wait_ready(SANDBOXES, "asleep")
    cay.stop()
    damage(cay, "UPDATE meta SET value = 3 WHERE name = 'schema'")
    r = run("serve", "--data-dir", cay.data_dir)
    assert r.returncode == 1 and "written by a newer Cay (schema 3, this one supports 2)" in r.stderr
    damage(cay, "UPDATE meta SET value = 2 WHERE name = 'schema'")


def test_stop_leaves_sandboxes_unless_it_is_asked_for_them(elsewhere):
    needs_root()
    cay = Cay(make_dir())
    try:
        cay.start()
        cay.api("POST", SANDBOXES, box("a"))
        cay.wait_ready(SANDBOXES, "a")
        told = json.loads(good("stop", "--data-dir", cay.data_dir, "-o", "json"))
        assert told == {"pid": cay.process.pid, "stopped": True, "sandboxes": 1}
        assert cay.process.wait(30) == 0
        r = run("stop", "--data-dir", cay.data_dir)
        assert r.returncode == 3 and "1 sandboxes live on" in r.stderr
        cay.start()
        cay.wait_ready(SANDBOXES, "a")
        pod = cay.api("GET", "/api/v1/namespaces/default/pods/a")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        out = good("stop", "--sandboxes", "--data-dir", cay.data_dir)
        assert f"stopped cay serve pid {cay.process.pid}" in out and "no sandbox is running" in out
        assert cay.process.wait(30) == 0
        assert not [i for i in cay.census()[0] if i["type"] in ("cgroup", "link", "table")]
        # A number in the lock that is not its holder's is nobody's to stop.
        holder = subprocess.Popen(["flock", os.path.join(cay.data_dir, "lock"), "sleep", "infinity"])
        bystander = subprocess.Popen(["sleep", "infinity"])
        try:
            while subprocess.run(["flock", "-n", os.path.join(cay.data_dir, "lock"), "true"]).returncode == 0:
                pass
            open(os.path.join(cay.data_dir, "lock"), "w").write(f"cay serve pid {bystander.pid} at https://127.0.0.1:1\n")
            r = run("stop", "--data-dir", cay.data_dir)
            assert r.returncode == 1 and "not by a process of this host" in r.stderr and bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()
            subprocess.run(["kill", *children(holder.pid), str(holder.pid)])
            holder.wait()
    finally:
        cay.flags.append("--stop-sandboxes")
        cay.start()
        finish(cay)


def children(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()


def test_stop_has_a_limit_of_time_and_does_not_kill(fresh):
    cay = fresh()
    cay.api("POST", SANDBOXES, dict(box("slow", "trap '' TERM; touch /tmp/up; while :; do sleep 1; done"),
                                    spec={"podTemplate": {"spec": {"terminationGracePeriodSeconds": 15, "containers": [
                                        {"name": "main", "image": "host", "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]}]}}}))
    cay.wait_ready(SANDBOXES, "slow")
    r = run("stop", "--sandboxes", "--timeout", "100ms", "--data-dir", cay.data_dir)
    assert r.returncode == 4 and "has not ended after 100ms" in r.stderr and cay.process.poll() is None
    assert cay.process.wait(120) == 0
