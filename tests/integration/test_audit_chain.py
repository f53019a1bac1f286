# SPDX-License-Identifier: Apache-2.0
"""`cay audit`: the log as it was written is clean, and each way of changing it is found and named."""

import glob
import json
import os
import shutil
import subprocess

import pytest

from cay_local import BUILD, wait_until

MAPS = "/api/v1/namespaces/default/configmaps"


def audit(directory, *args):
    return subprocess.run([os.path.join(BUILD, "cay"), "audit", *args, "--data-dir", str(directory)], capture_output=True, text=True, timeout=120)


def verify(directory):
    r = audit(directory, "verify", "-o", "json")
    assert r.returncode in (0, 1), r.stderr
    return json.loads(r.stdout)


def write(cay, n, begin=0):
    for i in range(begin, begin + n):
        cay.api("POST", MAPS, {"metadata": {"name": f"m{i}"}})


def logged(cay):
    try:
        return "".join(open(p).read() for p in glob.glob(os.path.join(cay.data_dir, "audit.log*")))
    except FileNotFoundError:  # renamed meanwhile
        return ""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What a server left that was killed and started again, with several files; and its log's lines by file."""
    from cay_local import Cay
    from conftest import finish, make_dir
    cay = Cay(make_dir(), flags=["--audit-log-size", "64Ki", "--audit-log-keep", "50", "--stop-sandboxes"])
    cay.start()
    try:
        write(cay, 300)
        wait_until(lambda: '"m299"' in logged(cay))  # a line may be in memory a moment longer than its answer takes
        cay.kill()
        cay.start()
        write(cay, 300, 300)
        cay.stop()
        directory = tmp_path_factory.mktemp("log")
        for name in os.listdir(cay.data_dir):
            if name.startswith("audit."):
                shutil.copy2(os.path.join(cay.data_dir, name), directory)
        cay.start()
    finally:
        finish(cay)
    return directory


@pytest.fixture
def log(written, tmp_path):
    return shutil.copytree(written, tmp_path / "log")


def edit(log, change, name="audit.log.1"):
    path = log / name
    lines = path.read_text().splitlines(keepends=True)
    changed = change(lines)
    path.write_text("".join(lines if changed is None else changed))


def test_what_was_written_is_clean_over_kills_and_files(written):
    report = verify(written)
    assert report["faults"] == 0, report
    assert report["files"] > 2 and report["checkpoints"] >= report["files"] - 1 and report["signedUpTo"] >= report["lines"] - 2
    names = [json.loads(line)["name"] for line in audit(written, "export").stdout.splitlines() if '"configmaps"' in line]
    assert names == [f"m{i}" for i in range(600)]


def swap(lines):
    lines[10], lines[11] = lines[11], lines[10]


def change(lines):
    lines[10] = lines[10].replace('"verb":"', '"verb":"not-', 1)


def drop(lines):
    del lines[10]


def add(lines):
    lines.insert(11, lines[10])


def forge(lines):
    """Everything from a record on is written anew, by somebody who can compute digests and cannot sign."""
    import hashlib
    import re
    change(lines)
    for i in range(11, len(lines)):
        digest = hashlib.sha256(lines[i - 1].rstrip("\n").encode()).hexdigest()
        lines[i] = re.sub(r'"prev":"[0-9a-f]{64}"', f'"prev":"{digest}"', lines[i])


@pytest.mark.parametrize("how,says", [
    (change, "record {n} is not what it was when record {next} was written"),
    (drop, "1 records are missing before record {next}"),
    (swap, "record {n} is out of order"),
    (add, "record {n} is out of order, or there twice"),
    (forge, "is not signed with this key"),
])
def test_tampering_is_named(log, how, says):
    n = json.loads((log / "audit.log.1").read_text().splitlines()[10])["n"]
    edit(log, how)
    r = audit(log, "verify")
    assert r.returncode == 1 and says.format(n=n, next=n + 1) in r.stdout, r.stdout


def test_a_cut_end_is_named(log):
    edit(log, lambda lines: lines[:-3], "audit.log")
    r = audit(log, "verify")
    assert r.returncode == 1 and "were cut off at the end" in r.stdout, r.stdout


def test_a_cut_end_is_not_forgotten_by_the_next_start(fresh):
    cay = fresh()
    write(cay, 20)
    cay.stop()
    path = os.path.join(cay.data_dir, "audit.log")
    lines = open(path).read().splitlines(keepends=True)
    open(path, "w").write("".join(lines[:-5]))
    cay.start()
    write(cay, 5, 20)
    wait_until(lambda: "m24" in open(path).read())
    r = audit(cay.data_dir, "verify")
    assert r.returncode == 1 and "were cut off before the server was started again" in r.stdout, r.stdout


def test_a_missing_file_is_named(log):
    oldest = max((p for p in log.glob("audit.log.*") if p.suffix[1:].isdigit()), key=lambda p: int(p.suffix[1:]))
    oldest.unlink()
    r = audit(log, "verify")
    assert r.returncode == 1 and "files 1 to 1 are missing" in r.stdout, r.stdout


def test_another_key_is_noticed(log, tmp_path):
    other = tmp_path / "pub"
    other.write_text("A" * 43 + "=\n")
    r = audit(log, "verify", "--key", str(other))
    assert r.returncode == 1 and "is not signed with this key" in r.stdout
    other.write_text("nonsense\n")
    r = audit(log, "verify", "--key", str(other))
    assert r.returncode == 3 and "not a public key" in r.stderr
    assert audit(tmp_path, "verify").returncode == 3


def test_kills_at_any_moment_break_no_chain(fresh):
    cay = fresh()
    for i in range(5):
        write(cay, 40, i * 40)
        cay.kill()
        cay.start()
    assert verify(cay.data_dir)["faults"] == 0


def test_show_says_who_did_what(fresh):
    cay = fresh()
    write(cay, 1)
    cay.kubectl("create", "serviceaccount", "ann")
    cay.stop()
    shown = audit(cay.data_dir, "show", "-n", "default").stdout
    assert "create configmaps default/m0  201" in shown and "create serviceaccounts default/ann  201" in shown
    assert "begin" not in shown and "checkpoint" not in shown
    rows = [json.loads(line) for line in audit(cay.data_dir, "show", "-o", "json", "--since", "1h").stdout.splitlines()]
    assert [r["name"] for r in rows if r.get("resource") == "configmaps"] == ["m0"]
    assert audit(cay.data_dir, "show", "--user", "nobody").stdout == ""
    assert audit(cay.data_dir, "nonsense").returncode == 2
    assert len(audit(cay.data_dir, "key").stdout) == 45
