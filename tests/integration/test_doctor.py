# SPDX-License-Identifier: Apache-2.0
"""`cay doctor` fails where `cay serve` would not work."""

import ctypes
import json
import os
import struct
import subprocess

import pytest

from cay_local import Cay
from conftest import needs_root

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, EPROTONOSUPPORT, ENOSYS = 0x7fff0000, 0x00050000, 93, 38
SOCKET = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
AF_NETLINK, NETLINK_SOCK_DIAG = 16, 4
NR, FAMILY, PROTOCOL = 0, 16, 32  # offsets in struct seccomp_data


def load_filter(rows):
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program):
        raise OSError(ctypes.get_errno(), "set a system call filter")


def without_call(number):
    """From here on this process is on a kernel that does not know a call."""
    load_filter([(LOAD, 0, 0, NR), (EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | ENOSYS), (RETURN, 0, 0, ALLOW)])


def without_sock_diag():
    """From here on this process is on a kernel that cannot be asked about sockets."""
    rows = [(LOAD, 0, 0, NR), (EQUAL, 0, 5, SOCKET), (LOAD, 0, 0, FAMILY), (EQUAL, 0, 3, AF_NETLINK), (LOAD, 0, 0, PROTOCOL),
            (EQUAL, 0, 1, NETLINK_SOCK_DIAG), (RETURN, 0, 0, ERRNO | EPROTONOSUPPORT), (RETURN, 0, 0, ALLOW)]
    load_filter(rows)


def run(cay, *args, before=None):
    argv = [os.path.join(cay.build, "cay"), *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, preexec_fn=before)  # noqa: PLW1509


def checks(result):
    return {c["name"]: c for c in json.loads(result.stdout)["checks"]}


@pytest.mark.parametrize("flags", [(), ("--open-to-local-users",)])
def test_a_kernel_that_does_not_tell_who_owns_a_socket_is_not_fit(fresh, flags):
    cay = fresh(start=False)
    doctor = ("doctor", "--data-dir", cay.data_dir, "-o", "json")
    fine = run(cay, *doctor)
    assert fine.returncode == 0 and checks(fine)["socket-owners"]["status"] == "ok"
    poor = run(cay, *doctor, before=without_sock_diag)
    assert poor.returncode == 1 and checks(poor)["socket-owners"]["status"] == "fail"
    assert "modprobe tcp_diag" in checks(poor)["socket-owners"]["fix"]
    serve = run(cay, "serve", "--data-dir", cay.data_dir, "--listen", f"127.0.0.1:{cay.port}", "--router-listen",
                f"127.0.0.1:{cay.router_port}", "--stop-sandboxes", *flags, before=without_sock_diag)
    assert serve.returncode != 0


@pytest.fixture
def idle(tmp_path):
    """An instance that is never started, and so leaves nothing to account for."""
    needs_root()
    return Cay(str(tmp_path / "data"))


def serve(cay, data_dir, *flags):
    return run(cay, "serve", "--data-dir", data_dir, "--listen", f"127.0.0.1:{cay.port}", "--router-listen",
               f"127.0.0.1:{cay.router_port}", "--stop-sandboxes", *flags)


@pytest.mark.parametrize("below", ["file/x", "/proc/nope/x", "/sys/nope"])
def test_doctor_and_serve_agree_on_a_data_directory_that_cannot_be_made(idle, tmp_path, below):
    cay = idle
    (tmp_path / "file").write_text("")
    where = str(tmp_path / below)  # an absolute path stays one
    said = run(cay, "doctor", "--data-dir", where, "-o", "json")
    assert said.returncode == 1 and checks(said)["data-dir"]["status"] == "fail"
    assert "--data-dir" in checks(said)["data-dir"]["fix"]
    assert serve(cay, where).returncode != 0


@pytest.mark.parametrize("where", ["missing/deep/er", "/cay-nowhere/deep"])
def test_missing_parents_of_the_data_directory_are_no_obstacle(idle, tmp_path, where, monkeypatch):
    cay = idle
    monkeypatch.chdir(tmp_path)
    said = checks(run(cay, "doctor", "--data-dir", where, "-o", "json"))
    assert said["data-dir"]["status"] == "ok"
    assert said["disk-space"]["message"] != f"0 MiB are free for {where}"
    assert not os.path.exists(where) and not os.path.exists("missing")  # it asks, and changes nothing


def test_a_start_that_cannot_use_its_pool_leaves_nothing_in_it(fresh, tmp_path):
    cay = fresh(start=False)
    pool = tmp_path / "not-btrfs"
    pool.mkdir()
    failed = serve(cay, cay.data_dir, "--disk-pool", str(pool))
    assert failed.returncode != 0 and "is not on a btrfs" in failed.stderr
    assert os.listdir(pool) == []


def test_a_grant_with_a_pattern_is_refused_with_what_to_write_instead(idle):
    cay = idle
    failed = serve(cay, cay.data_dir, "--service-account-grants", "*/agent=view")
    assert failed.returncode != 0
    assert "--service-account-grants" in failed.stderr and "default/agent=view" in failed.stderr


# What to hide from the doctor, in a mount namespace of its own: shell, the check that must notice, and what its fix speaks of.
GAPS = [
    ("mount --bind /dev/null /proc/sys/user/max_user_namespaces", "user-namespaces", "fail", "max_user_namespaces"),
    ("mount -t tmpfs none /sys/fs/cgroup", "cgroup-layout", "warn", "unified_cgroup_hierarchy"),
    ("mount --bind /dev/null /proc/filesystems", "overlay", "warn", "modprobe overlay"),
    ("mount --bind /dev/null /proc/filesystems", "btrfs", "warn", "modprobe btrfs"),
    ("mount -t tmpfs none /proc/sys/kernel/seccomp", "seccomp", "fail", "CONFIG_SECCOMP_FILTER"),
    ("echo 5 > $T; mount --bind $T /proc/sys/fs/inotify/max_user_instances", "inotify-instances", "warn", "max_user_instances=128"),
    ("echo 5 > $T; mount --bind $T /proc/sys/fs/inotify/max_user_watches", "inotify-watches", "warn", "max_user_watches"),
    ("echo 5 > $T; mount --bind $T /proc/sys/kernel/pid_max", "pid-max", "warn", "kernel.pid_max"),
    ("ulimit -n 1000", "descriptors", "warn", "LimitNOFILE"),
    ("mount -t tmpfs none /proc/sys/net/ipv4", "low-ports", "warn", "/proc/sys"),
    ("mount -t tmpfs none /proc/sys/net; mkdir /proc/sys/net/ipv4", "ipv6", "warn", "ipv6"),
    ("mount -t tmpfs none /etc/ssl", "host-image", "warn", "install ca-certificates"),
    ("echo '1 1 0:1 / /c - cgroup cgroup rw,pids' > $T; mount --bind $T /proc/$$/mountinfo", "cgroup-moves", "warn", "favordynmods"),
    ("mount -t tmpfs none /dev", "kvm", "warn", "modprobe kvm"),
    ("mount --bind /dev/null /proc/swaps", "swap", "warn", "zram"),
    ("mount -t tmpfs -o size=1M none $D", "disk-pool", "warn", "btrfs-progs"),  # too little for a pool
    ("mount -t tmpfs -o size=1M none $D", "disk-space", "warn", "1 GiB"),
]


@pytest.mark.parametrize("plant,name,status,fix", GAPS, ids=[g[1] for g in GAPS])
def test_a_gap_is_noticed_and_its_fix_named(idle, tmp_path, plant, name, status, fix):
    script = f"D={tmp_path}; T=$D/value; {plant} && exec \"$@\""
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    found = checks(said)[name]
    assert found["status"] == status and fix in found["fix"], found
    assert said.returncode == 1 or status != "fail"


@pytest.mark.parametrize("name,number,status", [
    ("system-calls", 437, "fail"),  # openat2
    ("swap", 440, "warn"),  # process_madvise
    ("idmapped-mounts", 442, "warn"),  # mount_setattr
    ("landlock", 444, "warn"),  # landlock_create_ruleset
])
def test_a_call_that_the_kernel_lacks_is_noticed(idle, name, number, status):
    said = run(idle, "doctor", "--data-dir", idle.data_dir, "-o", "json", before=lambda: without_call(number))
    assert checks(said)[name]["status"] == status and "use Linux" in checks(said)[name]["fix"]


def test_a_host_that_cannot_make_links_between_networks_is_not_fit(idle):
    unshare = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
    said = run(idle, "doctor", "--data-dir", idle.data_dir, "-o", "json", before=lambda: without_call(unshare))
    assert said.returncode == 1 and checks(said)["veth"]["status"] == "fail" and "modprobe veth" in checks(said)["veth"]["fix"]
    assert checks(said)["outlet"]["status"] == "warn" and "could not be tried" in checks(said)["outlet"]["message"]


def test_what_is_tried_works_here_and_leaves_nothing(idle):
    """A machine that runs these tests makes links; whether it runs virtual machines is its own affair, but that must be said."""
    said = checks(run(idle, "doctor", "--data-dir", idle.data_dir, "-o", "json"))
    assert said["outlet"]["status"] == "ok" and "marks" in said["outlet"]["message"]
    assert said["veth"]["status"] == "ok" and "virtual machine" in said["kvm"]["message"]
    assert not {"here", "there"} & set(os.listdir("/sys/class/net"))


def test_control_groups_that_are_quick_to_enter_are_known(idle, tmp_path):
    (tmp_path / "mountinfo").write_text("1 1 0:1 / /c - cgroup cgroup rw,pids,favordynmods\n")
    script = f"mount --bind {tmp_path}/mountinfo /proc/$$/mountinfo && exec \"$@\""
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert checks(said)["cgroup-moves"]["status"] == "ok"


def test_lost_capabilities_are_noticed(idle):
    argv = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "-o", "json"]
    said = checks(subprocess.run(argv, capture_output=True, text=True, timeout=60))
    assert said["resource-limits"]["status"] == "warn" and "CAP_SYS_RESOURCE" in said["resource-limits"]["message"]
    assert said["namespaces"]["status"] == "ok"
