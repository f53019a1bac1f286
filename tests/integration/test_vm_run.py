# SPDX-License-Identifier: Apache-2.0
"""The driver of tests/vm, as far as it works without a machine: what it makes of what a machine says, and that it skips loudly."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys

import pytest

from cay_local import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "vm"))
import images  # noqa: E402
import machine  # noqa: E402
import steps  # noqa: E402

HELD = """
[  310.000000] systemd-shutdown[1]: Syncing filesystems and block devices.
[  310.500000] systemd-shutdown[1]: Sending SIGTERM to remaining processes...
[  320.600000] systemd-shutdown[1]: Waiting for process: 812 (cay-init)
[  400.500000] systemd-shutdown[1]: Sending SIGKILL to remaining processes...
[  401.000000] reboot: Restarting system
"""


def run(*args, **env):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tests/vm/run"), *args], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **env))


def test_without_qemu_the_run_says_what_is_missing_and_counts_what_it_skipped(tmp_path):
    r = run("--short", PATH=str(tmp_path))
    assert r.returncode == 0
    assert r.stdout.splitlines()[0] == "SKIP: qemu-system-x86_64 is missing; tools/setup vm"
    assert r.stdout.splitlines()[-1] == f"0 passed, 0 failed, {sum(s.short for s in steps.STEPS)} skipped"


@pytest.mark.parametrize("flags, says", [(["--only", "nope"], "no such step: nope"), (["--deb", "/nope.deb"], "there is no /nope.deb"),
                                         (["--release", "11"], "invalid choice: '11'")])
def test_a_flag_that_names_nothing_is_refused(flags, says):
    r = run(*flags)
    assert r.returncode == 2 and says in r.stderr


@pytest.mark.parametrize("rc, text, verdict, why", [
    (0, "ok: fine\n", "passed", ""),
    (1, "ok: fine\nFAIL: memory.max: max, and not 1\n", "failed", "memory.max: max, and not 1"),
    (1, "FAIL: one\nFAIL: two\n", "failed", "one; two"),
    (127, "bash: no such file\n", "failed", "exit 127: bash: no such file"),
    ("timeout", "ok: fine\nstill waiting\n", "timed out", "ok: fine\nstill waiting"),
])
def test_a_script_that_failed_is_told_with_its_reason(rc, text, verdict, why):
    assert steps.outcome_of(machine.Done(rc, text)) == (verdict, why)


@pytest.mark.parametrize("rc, text, verdict, why", [
    (0, "..\n2 passed, 1 skipped in 3.10s\n", "passed", "2 passed, 1 skipped"),
    (0, "2 passed, 30 deselected in 190.70s (0:03:10)\n", "passed", "2 passed, 30 deselected"),
    (0, "3 skipped in 3.10s\n", "failed", "3 skipped: 3 skipped in 3.10s"),
    (1, "FAILED tests/integration/test_cli.py::test_a[b] - assert 1 == 2\n1 failed, 2 passed in 3.10s\n", "failed", "1 failed, 2 passed: test_a[b]: assert 1 == 2"),
    (5, "no tests ran in 0.10s\n", "failed", "nothing ran: no tests ran in 0.10s"),
])
def test_a_file_of_tests_passes_only_if_one_of_them_did(rc, text, verdict, why):
    assert steps.outcome_of_pytest(machine.Done(rc, text)) == (verdict, why)


def test_what_a_machine_waits_for_at_its_end_is_read_from_its_console():
    assert steps.waited_for_processes(HELD) == (91.0, ["Waiting for process: 812 (cay-init)"])
    assert steps.waited_for_processes("[  310.000000] systemd-shutdown[1]: Syncing\n") == (None, [])


def test_every_step_has_its_script_or_its_tests():
    for step in steps.STEPS:
        path = step.pytest[0] if step.pytest else f"tests/vm/inside/{step.name}"
        assert os.access(os.path.join(ROOT, path), os.R_OK if step.pytest else os.X_OK), step.name


def test_what_was_half_made_is_made_anew_and_what_is_there_is_kept(tmp_path):
    made = []

    def make(to):
        assert not list(to.iterdir())
        made.append(to)
        (to / "part").touch()
        if len(made) == 1:
            raise RuntimeError("no space left")

    with pytest.raises(RuntimeError):
        images.kept(tmp_path / "root", make)
    assert not (tmp_path / "root").exists()
    assert images.kept(tmp_path / "root", make) == tmp_path / "root" == images.kept(tmp_path / "root", make)
    assert len(made) == 2


def test_what_was_made_under_an_earlier_key_is_removed_and_nothing_else(tmp_path):
    others = ["root-trixie-0a1b", "wheels-3.11-0a1b", "tree-bookworm.img"]
    for name in ["root-bookworm-0a1b", "root-bookworm-2c3d.new", *others]:
        (tmp_path / name).mkdir()
    with pytest.raises(RuntimeError):
        images.kept(tmp_path / "root-bookworm-4e5f", lambda to: images.run(["false"]))
    assert (tmp_path / "root-bookworm-0a1b").exists()
    images.kept(tmp_path / "root-bookworm-4e5f", lambda to: None)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["root-bookworm-4e5f", *others])


def hosts_table():
    loader = importlib.machinery.SourceFileLoader("hosts_table", os.path.join(ROOT, "tests/vm/hosts-table"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hosts_table", loader))
    loader.exec_module(module)
    return module


def host(**steps_found):
    """install="+9 passed": that verdict with the package 0.1.0+9."""
    found = {name: {"verdict": text.split(" ", 1)[1], "package": f"cay_0.1.0{text.split()[0]}_amd64.deb", "date": "2026-01-02"} for name, text in steps_found.items()}
    return {"facts": {"release": "Debian 12", "systemd": True, "kernel": "6.1", "control groups": "unified", "architecture": "x86_64"}, "steps": found}


def test_the_table_of_hosts_counts_against_all_steps_and_names_those_that_were_not_tried():
    hosts = hosts_table()
    cells = dict(zip(hosts.HEAD, hosts.row(host(kill="+10 timed out", install="+10 passed", limits="+9 passed", demo="+9 failed", nope="+11 passed"))))
    assert cells["package"] == "0.1.0+10"
    assert cells["passed"] == f"1 of {len(steps.STEPS)} steps: install"
    assert cells["did not pass"] == "kill (timed out)"
    assert cells["only with an earlier package"] == "0.1.0+9: limits, demo (failed)"
    untried = cells["not tried"].split(", ")
    assert untried == [s.name for s in steps.STEPS if s.name not in ("install", "kill", "limits", "demo")]


def test_a_host_where_everything_passed_has_nothing_else_in_the_table():
    hosts = hosts_table()
    cells = dict(zip(hosts.HEAD, hosts.row(host(**{s.name: "+10 passed" for s in steps.STEPS}))))
    assert cells["passed"].startswith(f"{len(steps.STEPS)} of {len(steps.STEPS)} steps: install, ")
    assert cells["did not pass"] == cells["only with an earlier package"] == cells["not tried"] == "–"
    assert hosts.table({"debian-12": host(install="+1 passed"), "debian-13": {"facts": {}, "steps": {}}}).count("\n") == 2
