# SPDX-License-Identifier: Apache-2.0
"""`cay serve` and `cay doctor` without the rights they need: one line that names what is missing and how to give it, and nothing touched."""

import ctypes
import json
import os
import subprocess
import tempfile

import pytest

from cay_local import BUILD, free_port
from conftest import needs_root
from test_doctor import ALLOW, ERRNO, EQUAL, LOAD, NR, RETURN, load_filter

CAY = os.path.join(BUILD, "cay")
EPERM = 1
FSOPEN = 430
NEEDED = ["sys_admin", "net_admin", "sys_ptrace", "mknod", "setuid", "setgid", "chown", "dac_override", "kill"]


@pytest.fixture
def place():
    """A directory that everybody may write to, and no server must."""
    needs_root()
    with tempfile.TemporaryDirectory(prefix="cay-rights-") as path:
        os.chmod(path, 0o777)
        yield path


def start(place, *before, **more):
    # One that starts after all is asked to end, and takes along what it has made.
    argv = [*before, "timeout", "--kill-after=30", "30", CAY, "serve", "--data-dir", f"{place}/data", "--listen", f"127.0.0.1:{free_port()}", "--router-listen",
            f"127.0.0.1:{free_port()}", "--stop-sandboxes"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=120, **more)  # noqa: PLW1509
    assert r.returncode == 1 and not os.path.exists(f"{place}/data"), r
    assert r.stderr.startswith("cay: serve: ") and r.stderr.count("\n") == 1, r.stderr
    return r.stderr


def doctor(place, *before, **more):
    argv = [*before, CAY, "doctor", "--data-dir", f"{place}/data", "-o", "json"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=60, **more)  # noqa: PLW1509
    return {c["name"]: c for c in json.loads(r.stdout)["checks"]}


def test_an_ordinary_user_is_told_that_it_needs_root(place):
    said = start(place, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert "needs root" in said and "65534" in said


def test_every_capability_that_is_missing_is_named_with_the_flag_that_gives_it(place):
    said = start(place, "setpriv", "--bounding-set=-sys_admin,-net_admin")
    assert "CAP_SYS_ADMIN" in said and "CAP_NET_ADMIN" in said and "CAP_CHOWN" not in said
    assert "--privileged" in said and "--cap-add SYS_ADMIN --cap-add NET_ADMIN" in said and "CapabilityBoundingSet=" in said


@pytest.mark.parametrize("name", NEEDED)
def test_doctor_and_serve_agree_on_capabilities(place, name):
    before = ("setpriv", f"--bounding-set=-{name}")
    assert f"CAP_{name.upper()}" in start(place, *before)
    said = doctor(place, *before)["capabilities"]
    assert said["status"] == "fail" and f"CAP_{name.upper()}" in said["message"] and f"--cap-add {name.upper()}" in said["fix"]


def test_root_of_a_user_namespace_is_not_root_of_the_host(place):
    assert "user namespace" in start(place, "unshare", "--user", "--map-root-user")
    assert doctor(place, "unshare", "--user", "--map-root-user")["confinement"]["status"] == "fail"


def refuse_fsopen():
    load_filter([(LOAD, 0, 0, NR), (EQUAL, 0, 1, FSOPEN), (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)])


def test_a_filter_that_refuses_a_call_is_named(place):
    said = start(place, preexec_fn=refuse_fsopen)
    assert "fsopen;" in said and "seccomp=unconfined" in said


def read_only_control_groups():
    """As in a container that is not privileged."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) or libc.mount(None, b"/", None, 0x44000, None):  # CLONE_NEWNS; MS_REC | MS_PRIVATE
        raise OSError(ctypes.get_errno(), "unshare mounts")
    if libc.mount(b"cgroup2", b"/sys/fs/cgroup", b"cgroup2", 0, None):
        raise OSError(ctypes.get_errno(), "mount control groups")
    if libc.mount(None, b"/sys/fs/cgroup", None, 0x1021, None):  # MS_REMOUNT | MS_BIND | MS_RDONLY
        raise OSError(ctypes.get_errno(), "make them read-only")


def test_control_groups_that_cannot_be_written_are_named(place):
    said = start(place, preexec_fn=read_only_control_groups)
    assert "/sys/fs/cgroup is read-only" in said and "--privileged" in said


def test_a_read_only_proc_sys_costs_the_way_out(place):
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
              'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"', "sh")
    said = doctor(place, *before)["confinement"]
    assert said["status"] == "warn" and "no way out" in said["message"] and "--privileged" in said["fix"]
    assert doctor(place)["confinement"]["status"] == "ok"
