# SPDX-License-Identifier: Apache-2.0
"""`cay doctor` fails where `cay serve` would not work."""

import contextlib
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import pytest

from cay_local import Cay, wait_until
from conftest import needs_root
from kernels import lacks

PODS = "/api/v1/namespaces/default/pods"

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
    doctor = ("doctor", "--data-dir", cay.data_dir, "--quick", "-o", "json")
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
    said = run(cay, "doctor", "--data-dir", where, "--quick", "-o", "json")
    assert said.returncode == 1 and checks(said)["data-dir"]["status"] == "fail"
    assert "--data-dir" in checks(said)["data-dir"]["fix"]
    assert serve(cay, where).returncode != 0


@pytest.mark.parametrize("where", ["missing/deep/er", "/cay-nowhere/deep"])
def test_missing_parents_of_the_data_directory_are_no_obstacle(idle, tmp_path, where, monkeypatch):
    cay = idle
    monkeypatch.chdir(tmp_path)
    said = checks(run(cay, "doctor", "--data-dir", where, "--quick", "-o", "json"))
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
    ("mount -t tmpfs -o ro none /sys/fs/cgroup", "control-groups", "fail", "/sys/fs/cgroup"),
    ("mount -t tmpfs none /proc/sys/kernel; echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns; set -- setpriv "
     "--bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"", "userns-restriction", "fail", "CAP_SYS_ADMIN"),
    ("mount -t tmpfs none /proc/sys/kernel; echo 0 > /proc/sys/kernel/unprivileged_userns_clone; set -- setpriv "
     "--bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"", "userns-restriction", "fail", "CAP_SYS_ADMIN"),
    ("echo 'snap.cay.cay (enforce)' > $T; mount --bind $T /proc/$$/attr/current", "snap", "fail", "Debian package"),
    (": > $T; mount --bind $T /etc/resolv.conf", "name-upstream", "warn", "--resolv-conf"),
    ("echo nameserver 127.0.0.153 > $T; mount --bind $T /etc/resolv.conf", "name-upstream", "warn", "systemd-resolved"),
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


@pytest.mark.parametrize("plant,name,status,fix", GAPS, ids=[f"{i}-{g[1]}" for i, g in enumerate(GAPS)])
def test_a_gap_is_noticed_and_its_fix_named(idle, tmp_path, plant, name, status, fix):
    script = f"D={tmp_path}; T=$D/value; {plant} && exec \"$@\""
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "--quick", "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    found = checks(said)[name]
    assert found["status"] == status and fix in found["fix"], found
    assert said.returncode == 1 or status != "fail"


@pytest.mark.parametrize("name,number,status", [
    ("system-calls", 437, "fail"),  # openat2
    ("swap", 440, "warn"),  # process_madvise
    ("system-calls", 442, "fail"),  # mount_setattr
    ("landlock", 444, "warn"),  # landlock_create_ruleset
])
def test_a_call_that_the_kernel_lacks_is_noticed(idle, name, number, status):
    said = run(idle, "doctor", "--data-dir", idle.data_dir, "--quick", "-o", "json", before=lambda: without_call(number))
    assert checks(said)[name]["status"] == status and "use Linux" in checks(said)[name]["fix"]


def test_a_host_that_cannot_make_links_between_networks_is_not_fit(idle):
    unshare = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
    said = run(idle, "doctor", "--data-dir", idle.data_dir, "-o", "json", before=lambda: without_call(unshare))
    assert said.returncode == 1 and checks(said)["veth"]["status"] == "fail" and "modprobe veth" in checks(said)["veth"]["fix"]
    assert checks(said)["outlet"]["status"] == "warn" and "could not be tried" in checks(said)["outlet"]["message"]


# A host whose control groups systemd manages, as far as the doctor can tell, with a systemd-run that is written for the occasion.
SYSTEMD = """umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs none /run && mkdir -p /run/systemd/system &&
mount --bind {program} /usr/bin/systemd-run && exec "$@\""""
REFUSES = "echo Interactive authentication required. >&2; exit 1"
GIVES = """for a; do case $a in --unit=*) at=/sys/fs/cgroup/cay.slice/${a#*=};; esac; done
mkdir -p $at && echo $$ > $at/cgroup.procs && exec /bin/cat"""


def under_systemd(cay, tmp_path, text):
    program = tmp_path / "systemd-run"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", SYSTEMD.format(program=program), "sh", os.path.join(cay.build, "cay"),
            "doctor", "--data-dir", cay.data_dir, "--quick", "-o", "json"]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    return p.pid, {c["name"]: c for c in json.loads(p.communicate(timeout=60)[0])["checks"]}


needs_systemd_run = pytest.mark.skipif(not os.path.exists("/usr/bin/systemd-run"), reason="needs systemd-run in /usr/bin, to put another in its place")


@needs_systemd_run
def test_a_scope_that_systemd_refuses_is_told_with_its_reason(idle, tmp_path):
    _, said = under_systemd(idle, tmp_path, REFUSES)
    assert said["control-groups"]["status"] == "ok"
    assert said["scope"]["status"] == "warn" and "Interactive authentication" in said["scope"]["message"] and "systemd-run" in said["scope"]["fix"]


@needs_systemd_run
def test_a_scope_that_systemd_gives_is_used(idle, tmp_path):
    pid, said = under_systemd(idle, tmp_path, GIVES)
    tree = version2()
    scope = f"{tree}/cay.slice/cay-doctor-{pid}.scope"
    try:
        assert said["scope"]["status"] == "ok" and "in a scope" in said["scope"]["message"]
    finally:
        for below, _, _ in os.walk(scope, topdown=False):  # as systemd does
            wait_until(lambda at=below: removed(at))
        with contextlib.suppress(OSError):
            os.rmdir(f"{tree}/cay.slice")


def version2():
    """Where control groups of version 2 are, alone or beside those of version 1."""
    return next(os.path.dirname(p) for p in glob.glob("/sys/fs/cgroup/cgroup.controllers") + glob.glob("/sys/fs/cgroup/*/cgroup.controllers"))


def removed(group):
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


def test_what_is_tried_works_here_and_leaves_nothing(idle):
    """A machine that runs these tests makes links; whether it runs virtual machines is its own affair, but that must be said."""
    said = checks(run(idle, "doctor", "--data-dir", idle.data_dir, "-o", "json"))
    assert said["outlet"]["status"] == "ok" and "marks" in said["outlet"]["message"]
    assert said["veth"]["status"] == "ok" and "virtual machine" in said["kvm"]["message"]
    assert not {"here", "there"} & set(os.listdir("/sys/class/net"))


ETC, RUN, LIB = (f"{d}/systemd/network" for d in ("/etc", "/run", "/usr/lib"))


@pytest.mark.parametrize("files,by", [
    ({}, None),
    ({f"{RUN}/10-netplan-all.network": "[Match]\nName=*\n\n[Network]\nDHCP=ipv4\n"}, "10-netplan-all.network"),
    ({f"{RUN}/10-netplan-eth.network": "[Match]\nName=eth* en*\n"}, None),
    ({f"{LIB}/50-two.network": "# all\n[Match]\nName = en* c[ab]y*\n"}, "50-two.network"),
    ({f"{RUN}/10-others.network": "[Match]\nName=!lo docker*\n"}, "10-others.network"),
    ({f"{RUN}/10-others.network": "[Match]\nName=!lo cay*\n"}, None),
    ({f"{RUN}/10-others.network": "[Match]\nName=*\nName=!cay*\n"}, None),
    ({f"{RUN}/10-type.network": "[Match]\nType=ether\n"}, "10-type.network"),
    ({f"{RUN}/10-kind.network": "[Match]\nType=ether\nKind=!*\n"}, None),
    ({f"{RUN}/10-mac.network": "[Match]\nName=*\nMACAddress=02:00:00:00:00:01\n"}, None),
    ({f"{RUN}/10-none.network": "[Network]\nDHCP=yes\n"}, None),
    ({f"{RUN}/10-all.network": "[Match]\nName=*\n", f"{ETC}/00-cay.network": "[Match]\nName=cay*\n[Link]\nUnmanaged=yes\n"}, None),
    ({f"{RUN}/10-all.network": "[Match]\nName=*\n", f"{ETC}/20-cay.network": "[Match]\nName=cay*\n[Link]\nUnmanaged=yes\n"}, f"{RUN}/10-all.network"),
    ({f"{RUN}/10-all.network": "[Match]\nName=*\n", f"{ETC}/10-all.network": ""}, None),  # which hides it
    ({f"{RUN}/10-all.network.disabled": "[Match]\nName=*\n"}, None),
    ({f"{RUN}/10-long.network": "[Match]\nName=*\n" + "#" * 70000}, None),  # it has a limit
])
def test_a_network_file_that_takes_the_links_of_sandboxes_is_named(idle, tmp_path, files, by):
    """netplan writes such files to /run/systemd/network."""
    for path, text in files.items():
        at = pathlib.Path(f"{tmp_path}/files{path}")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
    script = f"""mount -t tmpfs none /run && mount -t tmpfs none /etc/systemd && mount -t tmpfs none /usr/lib/systemd &&
        mkdir {ETC} {LIB} && mkdir -p {RUN} && if [ -d {tmp_path}/files ]; then cp -r {tmp_path}/files/. /; fi && exec "$@\""""
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "--quick", "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    found = checks(said)["networkd"]
    assert found["status"] == ("warn" if by else "ok"), found
    assert not by or (by in found["message"] and "Unmanaged=yes" in found["fix"])


def test_control_groups_that_are_quick_to_enter_are_known(idle, tmp_path):
    (tmp_path / "mountinfo").write_text("1 1 0:1 / /c - cgroup cgroup rw,pids,favordynmods\n")
    script = f"mount --bind {tmp_path}/mountinfo /proc/$$/mountinfo && exec \"$@\""
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "--quick", "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert checks(said)["cgroup-moves"]["status"] == "ok"


def test_lost_capabilities_are_noticed(idle):
    argv = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "-o", "json"]
    said = checks(subprocess.run(argv, capture_output=True, text=True, timeout=60))
    assert said["capabilities"]["status"] == "warn" and "CAP_SYS_RESOURCE" in said["capabilities"]["message"]
    assert "--cap-add SYS_RESOURCE" in said["capabilities"]["fix"]
    assert said["namespaces"]["status"] == "ok"


# Features of the kernel (src/node/host/features.h), and whether no sandbox starts without
FEATURES = {"overlay": True, "overlay-append": False, "overlay-volatile": False, "overlay-idmap": False, "idmap-disk": False, "idmap-tmpfs": False,
            "pty": True, "cgroup-kill": False, "peer-pidfd": False, "unix-diag": False}
FSOPEN = 430


def doctor(cay, *flags, before=None):
    return run(cay, "doctor", "--data-dir", cay.data_dir, "-o", "json", *flags, before=before)


def test_there_is_a_check_for_each_feature(idle):
    said = checks(doctor(idle))
    found = {n.removeprefix("feature-"): c["status"] for n, c in said.items() if n.startswith("feature-")}
    assert found == {f: "warn" if lacks(f) else "ok" for f in FEATURES}
    assert said["launch"]["status"] == "ok" and said["cgroup-memory"]["status"] == "ok" and "overlay" not in said


def test_a_missing_feature_is_told_with_what_happens_instead(idle):
    said = checks(doctor(idle, "--without-features", ",".join(f for f, needed in FEATURES.items() if not needed)))
    for name, needed in FEATURES.items():
        if not needed:
            found = said[f"feature-{name}"]
            assert found["status"] == "warn" and found["fix"] and "--without-features" in found["message"], found
    assert said["launch"]["status"] == "ok"  # by the other ways


def test_a_file_system_in_memory_is_tried_and_leaves_nothing(idle):
    found = checks(doctor(idle, "--quick", "--without-features", "idmap-tmpfs"))["feature-idmap-tmpfs"]
    assert found["status"] == "warn" and "lie in an ext4 in memory" in found["message"]
    wait_until(lambda: not [path for path in loops() if path.startswith("/tmp/.memory")])


@pytest.mark.parametrize("plant,words", [
    ("mount --bind /dev/null $(readlink -f $(command -v mkfs.ext4))", "mkfs.ext4 is missing"),
    ("mount --bind /dev/null /dev/loop-control", "loop device"),
])
def test_without_a_file_system_in_memory_it_is_told_which_files_cannot_be_read(idle, plant, words):
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", f"{plant} && exec \"$@\"", "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", idle.data_dir, "--quick", "--without-features", "idmap-tmpfs", "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    found = checks(said)["feature-idmap-tmpfs"]
    assert said.returncode == 0 and found["status"] == "warn", found
    assert words in found["message"] and "0400 cannot be read" in found["message"] and "lie in an ext4" not in found["message"]
    assert "e2fsprogs" in found["fix"] and "/dev/loop-control" in found["fix"]


@pytest.mark.parametrize("name", [f for f, needed in FEATURES.items() if needed])
def test_a_host_without_what_every_sandbox_needs_is_not_fit(idle, name):
    said = doctor(idle, "--quick", "--without-features", name)
    assert said.returncode == 1 and checks(said)[f"feature-{name}"]["status"] == "fail"


@pytest.mark.skipif(lacks("peer-pidfd"), reason="needs a kernel that tells the peer of a socket")
def test_sockets_that_tell_their_peer_need_no_other_way(idle):
    assert checks(doctor(idle, "--quick", "--without-features", "unix-diag"))["feature-unix-diag"]["status"] == "ok"


def test_features_are_tried_and_not_looked_up(idle):
    said = checks(doctor(idle, "--quick", before=lambda: without_call(FSOPEN)))
    assert said["feature-overlay-append"]["status"] == "warn" and "not implemented" in said["feature-overlay-append"]["message"]
    assert said["feature-overlay"]["status"] == "ok" and said["btrfs"]["status"] == "warn"


def test_without_root_nothing_is_tried_and_that_is_said(idle):
    argv = ["setpriv", "--reuid=65534", "--clear-groups", os.path.join(idle.build, "cay"), "doctor", "--data-dir", "/var/lib/cay-none", "-o", "json"]
    said = checks(subprocess.run(argv, capture_output=True, text=True, timeout=60))
    for name in ("root", "features", "launch"):
        assert said[name]["status"] == "fail" and "root" in said[name]["message"] and "as root" in said[name]["fix"], said[name]


# A launch in an instance that is thrown away


def left_on_host(place):
    """What a launch of the doctor may leave: directories, control groups, mounts, links, and processes by their directory."""
    with open("/proc/self/mountinfo") as f:
        mounts = [line for line in f if str(place) in line]
    groups = [d for d, _, _ in os.walk("/sys/fs/cgroup") if re.search(r"/cay-[0-9a-f]{5}(\.scope)?$|/cay-doctor-\d+(\.scope)?$", d)]
    processes = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"DOCTOR_PLACE={place}".encode() in f.read():
                    processes.append(pid)
        except OSError:
            pass
    return sorted(os.listdir(place)), mounts, groups, processes


def start_doctor(cay, place):
    argv = [os.path.join(cay.build, "cay"), "doctor", "--data-dir", f"{place}/data", "-o", "json"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(os.environ, DOCTOR_PLACE=str(place)))


@pytest.fixture
def place(tmp_path):
    at = tmp_path / "place"
    at.mkdir()
    return at


@pytest.mark.alone
def test_a_launch_leaves_nothing(idle, place):
    before = left_on_host(place)
    links = os.listdir("/sys/class/net")
    p = start_doctor(idle, place)
    said = {c["name"]: c for c in json.loads(p.communicate(timeout=60)[0])["checks"]}
    assert said["launch"]["status"] == "ok", said["launch"]
    assert left_on_host(place)[0] == before[0] and os.listdir("/sys/class/net") == links
    wait_until(lambda: left_on_host(place) == before)  # systemd removes a scope in its own time


def begun(place):
    """The instance has an id, so that it may have groups, mounts and processes."""
    return [d for d in os.listdir(place) if os.path.exists(f"{place}/{d}/roots")]


@pytest.mark.alone
def test_a_doctor_that_is_killed_leaves_nothing(idle, place):
    before = left_on_host(place)
    p = start_doctor(idle, place)
    wait_until(lambda: begun(place))
    p.kill()
    p.wait()
    wait_until(lambda: left_on_host(place) == before)


@pytest.mark.alone
def test_what_a_killed_janitor_left_the_next_doctor_removes(idle, place):
    before = left_on_host(place)
    p = start_doctor(idle, place)
    wait_until(lambda: begun(place))
    janitor = int(begun(place)[0].rsplit("-", 1)[1])
    os.kill(janitor, signal.SIGKILL)
    said = {c["name"]: c for c in json.loads(p.communicate(timeout=60)[0])["checks"]}
    assert said["launch"]["status"] == "fail" and "without a word" in said["launch"]["message"]
    assert left_on_host(place)[0] == [f".cay-doctor-{janitor}"]
    assert start_doctor(idle, place).wait(timeout=60) == 0
    assert left_on_host(place) == before


def test_a_launch_works_beside_a_server_and_with_its_data(fresh):
    cay = fresh()
    said = checks(doctor(cay))
    assert said["launch"]["status"] == "ok" and said["disk-pool"]["status"] == "ok", said["launch"]
    assert not [n for d in (cay.data_dir, cay.pool("roots")) for n in os.listdir(d) if n.startswith(".cay")]


# On a disk, as that of an engine is: on Linux 6.1 no loop device reads from an overlay in memory.
OVERLAY = """mkdir $D.lower $D.upper $D.work && mount -t overlay overlay -o lowerdir=$D.lower,upperdir=$D.upper,workdir=$D.work $D"""


def loops():
    """The files behind loop devices: those of other instances come and go."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError), open(path) as f:
            found.append(f.read().strip())
    return found


def on_overlay(cay, place, plant, *flags):
    """The place is on an overlay, as everything in a container is that is not a volume."""
    script = f"D={place}; {OVERLAY} && {plant} \"$@\"; r=$?; ls -A $D >&2; exit $r"
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(cay.build, "cay"), "doctor",
            "--data-dir", f"{place}/data", "-o", "json", *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("flags", [(), ("--quick",)])
def test_where_the_node_would_make_a_disk_pool_one_is_tried(idle, place, flags):
    """No overlay can be written to on the root of a container, but in a pool it can."""
    said = on_overlay(idle, place, "", *flags)
    found = checks(said)
    assert said.returncode == 0, [c for c in found.values() if c["status"] == "fail"]
    assert found["feature-overlay"]["status"] == "ok" and found["feature-idmap-disk"]["status"] == "ok" and found["disk-pool"]["status"] == "ok"
    assert flags or found["launch"]["status"] == "ok"
    assert said.stderr == "" and os.listdir(place) == []
    wait_until(lambda: not [path for path in loops() if ".cay-doctor-" in path])


def test_a_container_without_loop_devices_is_not_fit(idle, place):
    found = checks(on_overlay(idle, place, "mkdir $D.dev && mount -t tmpfs dev $D.dev && cp -a /dev/null /dev/zero /dev/random /dev/urandom $D.dev && mount --bind $D.dev /dev &&"))
    for name in ("data-dir", "feature-overlay", "launch"):
        assert name in found and found[name]["status"] == "fail", found


@pytest.mark.parametrize("plant,words", [
    ("for f in /sys/fs/cgroup/pids /sys/fs/cgroup; do [ -e $f/cgroup.procs ] && mount --bind -o ro $f $f && break; done", "control group"),
    ("mount --bind /dev/null $CAY_INIT", "cay-init"),
])
def test_a_launch_that_fails_says_where(idle, tmp_path, plant, words):
    script = f"CAY_INIT={idle.build}/cay-init; {plant} && exec \"$@\""
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, "sh", os.path.join(idle.build, "cay"), "doctor",
            "--data-dir", str(tmp_path / "data"), "-o", "json"]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    found = {c["name"]: c for c in json.loads(p.communicate(timeout=60)[0])["checks"]}["launch"]
    assert p.returncode == 1 and found["status"] == "fail" and words in found["message"] and "cay doctor" in found["fix"], found
    assert os.listdir(tmp_path) == []
    groups = f"/cay-doctor-{p.pid}"  # all that was started became this process
    wait_until(lambda: not [d for d, _, _ in os.walk("/sys/fs/cgroup") if d.endswith((groups, f"{groups}.scope"))])


def gone():
    """The number of a process that has ended."""
    p = subprocess.Popen(["true"])
    p.wait()
    return p.pid


def test_what_others_plant_beside_the_data_directory_is_not_believed(fresh, tmp_path):
    """The doctor removes what a killed one has left, and nothing that a link or a directory of another user names."""
    cay = fresh()
    cay.api("POST", PODS, {"metadata": {"name": "stays"}, "spec": {"containers": [{"name": "c", "image": "host", "command": ["sleep", "infinity"]}]}})
    slot = cay.wait_ready(PODS, "stays")["status"]["containerStatuses"][0]["containerID"].split("//")[-1]
    procs = os.path.join(cay.groups()[0], slot, "cgroup.procs")
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o1777)
    (place / f".cay-doctor-{gone()}").symlink_to(cay.data_dir)
    other = place / f".cay-doctor-{gone()}"
    shutil.copytree(os.path.join(cay.data_dir, "node"), other / "node", ignore=lambda _, names: set(names) - {"instance.json"})
    os.chown(other, 65534, 65534)
    with open(procs) as f:
        before = f.read()
    run(cay, "doctor", "--data-dir", str(place / "new"), "-o", "json")
    with open(procs) as f:
        assert before and f.read() == before


def test_what_a_killed_probe_and_a_killed_check_left_is_removed(idle, tmp_path):
    tree = next(os.path.dirname(p) for p in glob.glob("/sys/fs/cgroup/cgroup.controllers") + glob.glob("/sys/fs/cgroup/*/cgroup.controllers"))
    left = [tmp_path / f".cay-probe-{gone()}", pathlib.Path(tree, f"cay-doctor-{gone()}")]
    for path in left:
        path.mkdir(0o700)
    (left[1] / "probe-1").mkdir()
    alive = tmp_path / f".cay-probe-{os.getpid()}"
    alive.mkdir()
    os.makedirs(idle.data_dir, exist_ok=True)
    run(idle, "doctor", "--quick", "--data-dir", str(tmp_path))
    assert [path for path in left if path.exists()] == [] and alive.exists()
