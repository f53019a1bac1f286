# SPDX-License-Identifier: Apache-2.0
"""The escape table of test_walls.py, and the walls as data, under each OCI runtime: one sandbox per runtime, all attacks in it."""

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess

import pytest
from test_isolation import CAPS, ID_RANGE, MEMORY, NAMESPACES, id_map, namespaces, read
from test_runtimes import container, installed, limit_of, need, numbers, pod_of, processes, ready
from test_walls import ACTS, ATTACKER, ATTACKS, ESCAPE, PODS, RIGHTS, SYSCALLS, forward_between

from cay_local import BUILD, ROOT, wait_until

RUNTIMES = ("crun", "runc", "runsc")
hosts_kernel = pytest.mark.parametrize("box", ["crun", "runc"], indirect=True)  # gVisor has mounts and namespaces of its own
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
# What gVisor answers otherwise. "done" was done in its own kernel alone, to something that the host does not have: each is
# followed by what the host would have seen of it, which is tested below.
IN_GVISOR = {
    "CHOWN: of a file of the kernel": "done", "FOWNER: mode of a file of the kernel": "done",  # its own /proc
    "DAC_OVERRIDE: into a directory of the host's root": "done",  # its own /dev, in its memory
    "FOWNER: what an overlay trusts": "ENOTSUP", "DAC_OVERRIDE: core pattern": "EPERM", "DAC_OVERRIDE: a descriptor of process 1": "ENXIO",
    "DAC_OVERRIDE: about a descriptor of process 1": "done",
    "SETUID: an id of the host": "done", "SETGID: a group of the host": "done",  # ids of its own; files have those of the sandbox
    "SETFCAP: a capability for a file of the host": "ENOTSUP", "SYS_CHROOT: a namespace of process 1": "done",
    "SYS_RESOURCE: more namespaces": "ENOENT", "SYS_RESOURCE: a better OOM score": "done",  # nobody asks for these
    "NET_ADMIN: an address": "ENOTTY", "SYS_NICE: a better priority": "done", "IPC_LOCK: huge pages": "done",
}


@pytest.fixture(scope="module")
def walled(module_instance):
    """One sandbox per runtime that is installed; all start at the same time."""
    cay = module_instance()
    for runtime in RUNTIMES:
        if installed(runtime):
            cay.api("POST", PODS, pod_of(f"wall-{runtime}", runtime, container(
                ["python3", "-m", "http.server", "8000"], resources={"limits": {"memory": str(MEMORY)}})))
    for runtime in RUNTIMES:
        if installed(runtime):
            cay.wait(PODS, f"wall-{runtime}", ready)
    return cay


def command_line(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return read(f"/proc/{pid}/cmdline")
    return ""


class Box:
    def __init__(self, cay, runtime):
        self.cay, self.runtime, self.name = cay, runtime, f"wall-{runtime}"

    def run(self, script):
        r = self.cay.kubectl("exec", self.name, "--", "sh", "-c", script, check=False)
        return r.returncode, r.stdout, r.stderr

    def python(self, code, *argv):
        r = self.cay.kubectl("exec", "-i", self.name, "--", "python3", "-", *argv, stdin=code, check=False)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def attack(self, table):
        """In a directory on disk: gVisor has a /tmp in its own memory."""
        return json.loads(self.python(ATTACKER.replace("/tmp/", "/root/"), json.dumps({k: v.replace("/tmp/", "/root/") for k, v in table.items()})))

    def processes(self):
        """On the host: the supervisor, and those of the container that stay; with gVisor, its kernel's two."""
        pids = {p: numbers(p) for p in processes(self.cay, self.name)}
        above = [p for p, n in pids.items() if len(n) == 2 and n[-1] == 1]
        return above, [p for p, n in pids.items() if p not in above and n and
                       (n[-1] == 1 or any(word in command_line(p) for word in ("http.server", "runsc-sandbox")))]

    @staticmethod
    def status(pid):
        return dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)


@pytest.fixture(scope="module", params=RUNTIMES)
def box(request, walled):
    need(request.param)
    return Box(walled, request.param)


def host_files(runtime):
    """What an attack on the host's programs would change."""
    paths = ["/usr/bin/id", shutil.which(runtime), os.path.join(BUILD, "cay-init")]
    return {p: (hashlib.sha256(read(p, "rb")).hexdigest(), os.stat(p).st_uid, os.stat(p).st_mode, os.stat(p).st_ctime_ns) for p in paths}


def test_no_capability_gives_anything_beyond_the_sandbox(box):
    before = host_files(box.runtime)
    others = [p for r in RUNTIMES if r != box.runtime and installed(r) for p in Box(box.cay, r).processes()[0]]
    got = box.attack({name: code % {"other": max(others)} if "%(" in code else code for name, (code, _) in ATTACKS.items()})
    want = {name: error for name, (_, error) in ATTACKS.items()}
    if box.runtime == "runsc":
        want.update(IN_GVISOR)
    assert got == want
    assert host_files(box.runtime) == before
    assert all(os.path.exists(f"/proc/{p}") for p in others)


def test_root_has_the_rights_of_root_inside(box):
    got = box.attack({name: "import signal; " + code for name, code in RIGHTS.items()})
    if box.runtime == "runsc":
        assert got.pop("SETFCAP") == "ENOTSUP"
    assert set(got.values()) == {"done"}, got


def test_a_chroot_is_left_for_nothing_of_the_host(box):
    assert box.python(ESCAPE) in (("same\n",) if box.runtime != "runsc" else ("same\n", "[]\n"))


def test_system_calls_outside_the_profile_are_refused(box):
    assert box.python(SYSCALLS) == ""


def test_privileged_acts_are_refused(box):
    """test_walls.py proves of each that root of the host can do it there."""
    acts = [a for a in ACTS if not (box.runtime == "runsc" and a.startswith("mknod"))]  # devices of gVisor, not of the host
    script = "\n".join(f"( {act} ) >/dev/null 2>&1; echo $?" for act in acts)
    codes = dict(zip(acts, map(int, box.run(script)[1].split())))
    assert len(codes) == len(acts) and not [a for a, code in codes.items() if code in (0, 126, 127)], codes


@pytest.mark.parametrize("box", ["runsc"], indirect=True)
def test_a_device_that_gvisor_makes_leads_nowhere(box):
    code, out, _ = box.run("mknod /dev/shm/d b 254 0; mknod /dev/shm/m c 1 1; head -c 1 /dev/shm/d; head -c 1 /dev/shm/m")
    assert code != 0 and out == ""
    assert box.run("mknod /root/d b 254 0")[0] != 0, "a device on a file system of the host"


def test_neither_runtime_nor_kit_can_be_overwritten(box):
    """What CVE-2019-5736 did: through /proc/self/exe of what enters the container, and through the files it is made from."""
    before = host_files(box.runtime)
    overwrite = """
import glob, os
for path in ['/dev/cay/init', '/dev/cay/filter', *glob.glob('/proc/[0-9]*/exe')]:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        try:
            os.write(os.open(path, flags), b'#!/bin/sh'); print('wrote', path)
        except OSError:
            pass
for path in ('/dev/cay/init', '/dev/cay/filter', '/dev/cay'):
    for act in (os.unlink, lambda p: os.rename(p, p + 'x'), lambda p: os.chmod(p, 0o777)):
        try:
            act(path); print('changed', path)
        except OSError:
            pass
"""
    assert box.python(overwrite) == ""
    assert box.run("true")[0] == 0, "the next exec still works"
    assert host_files(box.runtime) == before


def test_no_host_file_is_visible(box):
    paths = [box.cay.data_dir, "/etc/gshadow", *(f"/run/cay/{name}" for name in os.listdir("/run/cay")), "/run/bundle", "/run/state", "/sys/fs/cgroup/memory", ROOT]
    seen = [way + p for p in paths for way in ("", "/proc/1/root", "/proc/1/cwd", "/..")]
    assert box.run("for f in " + " ".join(seen) + "; do test -e $f && echo $f; done")[1] == ""
    code, _, _ = box.run("echo x > /usr/bin/cay-test")
    assert code != 0 and not os.path.exists("/usr/bin/cay-test")


REACH = """
import json, socket, sys, threading
results = {}
def reach(host, port):
    s = socket.socket()
    s.settimeout(2)
    try:
        s.connect((host, port)); results[f'{host}:{port}'] = 'reached'
    except OSError:
        results[f'{host}:{port}'] = 'refused'
threads = [threading.Thread(target=reach, args=t) for t in json.loads(sys.argv[1])]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps(results))
"""


def test_neither_host_nor_neighbour_is_reached(box):
    """Each reaches itself; the host would pass packets on, and something listens everywhere."""
    ips = {r: box.cay.api("GET", f"{PODS}/wall-{r}")["status"]["podIP"] for r in RUNTIMES if installed(r)}
    forward_between(*ips.values())
    gateway = box.run("cat /etc/resolv.conf")[1].split()[1]
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection((gateway, port), timeout=5).close()
        own = f"{ips[box.runtime]}:8000"
        targets = [(gateway, port), *((ip, 8000) for ip in ips.values())]
        wait_until(lambda: json.loads(box.python(REACH, json.dumps([(ips[box.runtime], 8000)])))[own] == "reached")
        got = json.loads(box.python(REACH, json.dumps(targets)))
    assert got.pop(own) == "reached" and set(got.values()) == {"refused"}, got


def test_raw_and_packet_sockets_are_refused(box):
    make = ("import socket\nfor f, k in ((2, 3), (17, 3), (17, 2), (10, 3)):\n try:\n  socket.socket(f, k, 1); print('made', f, k)\n"
            " except OSError: pass\n")
    assert box.python(make) == ""


# -- as data ----------------------------------------------------------------------------------------------------------


def test_namespaces_are_the_sandboxs_own(box):
    supervisors, inside = box.processes()
    host = namespaces("self")
    assert len(supervisors) == 1 and len(inside) == 2
    for pid in inside:
        shared = {kind for kind in NAMESPACES if namespaces(pid)[kind] == host[kind]}
        assert not shared, (pid, shared)
    assert {kind for kind in NAMESPACES if namespaces(supervisors[0])[kind] == host[kind]} == {"user"}


def test_ids_are_a_range_of_the_sandboxs_own(box):
    _, inside = box.processes()
    for pid in inside:
        (first, base, size), = id_map(pid, "uid_map")
        assert (first, size) == (0, ID_RANGE) and base >= 1 << 20
        assert all(base <= int(i) < base + ID_RANGE for i in Box.status(pid)["Uid"].split())


def test_no_process_has_more_than_it_may(box):
    """CapEff and CapBnd, no_new_privs and the filter: those of every sandbox, or for gVisor's kernel those that it keeps."""
    supervisors, inside = box.processes()
    kept = CAPS | (1 << 2 | 1 << 19 if box.runtime == "runsc" else 0)  # DAC_READ_SEARCH and SYS_PTRACE, in its user namespace
    for pid in inside:
        status = Box.status(pid)
        assert not int(status["CapEff"], 16) & ~kept and not int(status["CapBnd"], 16) & ~kept, (pid, status["CapBnd"])
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), pid
    own = dict(line.split(":\t", 1) for line in box.run("cat /proc/self/status")[1].splitlines() if ":\t" in line)
    assert int(own["CapEff"], 16) == int(own["CapBnd"], 16) == CAPS and own["Seccomp"] == "2"
    for pid in supervisors:
        status = Box.status(pid)
        assert (int(status["CapEff"], 16), status["NoNewPrivs"], status["Seccomp"]) == (0, "1", "2")


@hosts_kernel
def test_no_namespace_can_be_made_any_more(box):
    """For the launch the user namespace was open to a mount and a process namespace. Even root of the host is refused now."""
    _, inside = box.processes()
    for flag in ("-m", "-p", "-U"):
        r = subprocess.run(["nsenter", "-t", str(inside[0]), "-U", "unshare", flag, "true"], capture_output=True, text=True)
        assert "No space left" in r.stderr, (flag, r.stderr)


@hosts_kernel
def test_every_mount_is_without_setuid_or_nothing_can_be_written_to_it(box):
    for line in box.run("cat /proc/self/mountinfo")[1].splitlines():
        _, _, _, root, at, options, *_ = line.split()
        assert {"nosuid", "ro"} & set(options.split(",")), line
        assert not root.startswith(("/var", "/tmp", "/home", "/root")), line


def test_the_memory_limit_is_exact(box):
    for pid in sum(box.processes(), []):
        assert limit_of(pid, "memory", "memory.limit_in_bytes", "memory.max")[0] == str(MEMORY)
