# SPDX-License-Identifier: Apache-2.0
"""The walls of a sandbox, read as data: namespaces, ids, mounts, devices, capabilities, limits, the system call filter.

Nothing here tries to break out: an attempt can fail for another reason than the wall. Each test names one wall or group of
walls, so that tests/walls.py can name the test that goes red without it.
"""

import contextlib
import ctypes
import fcntl
import ipaddress
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import threading

import pytest

from cay_local import ROOT, Cay
from conftest import finish, make_dir, needs_root

PODS = "/api/v1/namespaces/default/pods"
MEMORY, CPU_MILLI, PIDS = 192 << 20, 300, 1024
ID_RANGE = 65536
# CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT AUDIT_WRITE SETFCAP
CAPS = 0xa00405fb
NUMBERS = itertools.count()
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


class Sandbox:
    """A running Pod, and the host's view of its processes."""

    def __init__(self, cay, name, spec):
        self.cay, self.name = cay, name
        cay.api("POST", PODS, {"metadata": {"name": name}, "spec": dict({"terminationGracePeriodSeconds": 0}, **spec)})
        cay.wait(PODS, name, ready)
        self.init = int(next(i["name"].split()[0] for i in cay.census()[0]
                             if i["type"] == "process" and i["owner"] == f"default/{name}"))
        self.main = next(p for p in children(self.init) if b"infinity" in read(f"/proc/{p}/cmdline", "rb"))

    def run(self, script, check=True):
        return self.cay.kubectl("exec", self.name, "--", "sh", "-c", script, check=check).stdout

    def python(self, code):
        r = self.cay.kubectl("exec", "-i", self.name, "--", "python3", "-", stdin=code, check=False)
        assert r.returncode == 0, r.stderr
        return r.stdout

    @contextlib.contextmanager
    def execed(self):
        """The pid on the host of a process that `kubectl exec` started."""
        env = dict(os.environ, KUBECONFIG=self.cay.kubeconfig, HOME=self.cay.data_dir)
        script = f"echo {next(NUMBERS)}; read x"
        with subprocess.Popen(["kubectl", "exec", "-i", self.name, "--", "sh", "-c", script], env=env,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            assert p.stdout.readline().strip().isdigit()
            yield next(c for c in children(self.init) if script.encode() in read(f"/proc/{c}/cmdline", "rb"))
            p.stdin.close()


def ready(obj):
    return obj is not None and any(c["type"] == "Ready" and c["status"] == "True"
                                   for c in obj.get("status", {}).get("conditions", []))


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def children(pid):
    return [int(p) for t in os.listdir(f"/proc/{pid}/task") for p in read(f"/proc/{pid}/task/{t}/children").split()]


def container(**more):
    return dict({"name": "main", "image": "host", "command": ["sleep", "infinity"]}, **more)


@pytest.fixture(scope="module")
def box(cay):
    """Two sandboxes: `one` has limits and volumes of every kind, `two` has nothing but the defaults."""
    limits = {"memory": str(MEMORY), "cpu": f"{CPU_MILLI}m"}
    cay.api("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "conf"}, "data": {
        "key": "value", "script": "#!/bin/sh\necho ran\n"}})
    one = Sandbox(cay, "one", {
        "volumes": [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}},
                    {"name": "memory-ro", "emptyDir": {"medium": "Memory"}},
                    {"name": "conf", "configMap": {"name": "conf", "defaultMode": 0o755}}],
        "containers": [container(resources={"limits": limits}, volumeMounts=[
            {"name": "disk", "mountPath": "/disk"}, {"name": "disk", "mountPath": "/disk-ro", "readOnly": True},
            {"name": "memory", "mountPath": "/memory"}, {"name": "memory-ro", "mountPath": "/memory-ro", "readOnly": True},
            {"name": "conf", "mountPath": "/conf"}])]})
    return {"cay": cay, "one": one, "two": Sandbox(cay, "two", {"containers": [container()]})}


# -- namespaces and ids -----------------------------------------------------------------------------------------------


def namespaces(pid):
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES}


@pytest.mark.parametrize("kind", NAMESPACES)
def test_a_namespace_is_the_sandboxs_own(box, kind):
    one, two, host = namespaces(box["one"].init)[kind], namespaces(box["two"].init)[kind], namespaces("self")[kind]
    assert len({one, two, host}) == 3, "shared"
    assert namespaces(box["one"].main)[kind] == one
    with box["one"].execed() as pid:
        assert namespaces(pid)[kind] == one


def parked_slots(cay):
    for _ in range(600):
        pids = [i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "instance"]
        if pids:
            return pids
        threading.Event().wait(0.1)
    raise AssertionError("no slot was ever parked")


def test_a_slot_is_born_with_namespaces_of_its_own(cay):
    for pid in parked_slots(cay):
        with contextlib.suppress(FileNotFoundError):  # a helper of one that is being parked has ended
            for kind in ("ipc", "mnt", "pid", "uts"):
                assert namespaces(pid)[kind] != namespaces("self")[kind], kind


def test_no_kind_of_namespace_is_forgotten(box):
    kinds = {re.sub("_for_children$", "", kind) for kind in os.listdir("/proc/self/ns")}
    assert kinds <= {*NAMESPACES, "time"}  # clocks have no offset: the time namespace is the host's
    assert os.readlink(f"/proc/{box['one'].init}/ns/time") == os.readlink("/proc/self/ns/time")


def id_map(pid, which):
    return [tuple(map(int, line.split())) for line in read(f"/proc/{pid}/{which}").splitlines()]


def base_of(sandbox):
    return id_map(sandbox.init, "uid_map")[0][1]


def test_ids_are_a_range_of_the_sandboxs_own(box):
    bases = []
    for sandbox in (box["one"], box["two"]):
        (first, base, count), = id_map(sandbox.init, "uid_map")
        assert (first, count) == (0, ID_RANGE) and base >= 1 << 20 and base % ID_RANGE == 0
        assert id_map(sandbox.init, "gid_map") == id_map(sandbox.main, "uid_map") == [(0, base, ID_RANGE)]
        for pid in (sandbox.init, sandbox.main):
            status = status_of(pid)
            assert status["Uid"].split() == status["Gid"].split() == [str(base)] * 4 and status["Groups"].strip() == ""
        bases.append(base)
    assert bases[0] != bases[1]


def ns_ioctl(pid, kind, request, arg=0):
    with open(f"/proc/{pid}/ns/{kind}", "rb") as f:
        return fcntl.ioctl(f, request, arg)


NS_GET_USERNS, NS_GET_OWNER_UID = 0xb701, 0xb704


def test_the_first_id_of_the_range_owns_the_user_namespace(box):
    for sandbox in (box["one"], box["two"]):
        owner, = struct.unpack("I", ns_ioctl(sandbox.init, "user", NS_GET_OWNER_UID, struct.pack("I", 0)))
        assert owner == base_of(sandbox)


def test_the_host_owns_every_other_namespace(box):
    ours = os.stat("/proc/self/ns/user").st_ino
    for kind in set(NAMESPACES) - {"user"}:
        fd = ns_ioctl(box["one"].init, kind, NS_GET_USERNS)
        owner = os.fstat(fd).st_ino
        os.close(fd)
        assert owner == ours, kind


# -- processes --------------------------------------------------------------------------------------------------------


def status_of(pid):
    return dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)


def capabilities(pid):
    status = status_of(pid)
    return {which: int(status["Cap" + which], 16) for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")}


def root_with(caps):
    return {"Inh": 0, "Prm": caps, "Eff": caps, "Bnd": caps, "Amb": 0}


def test_cay_init_has_only_the_capabilities_that_containers_may_get(box):
    assert capabilities(box["one"].init) == root_with(CAPS)


def test_root_has_the_usual_capabilities(box):
    assert capabilities(box["one"].main) == root_with(CAPS)
    with box["one"].execed() as pid:
        assert capabilities(pid) == root_with(CAPS)


WISHES = {  # a security context, and what its processes have
    "drop-all": ({"capabilities": {"drop": ["ALL"]}}, root_with(0)),
    "drop-one": ({"capabilities": {"drop": ["CHOWN"]}}, root_with(CAPS & ~1)),
    "add-one": ({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}, root_with(1)),
    "user": ({"runAsUser": 1000}, dict(root_with(0), Bnd=CAPS)),
    "restricted": ({"runAsUser": 1000, "runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"}}, root_with(0)),
}


def test_capabilities_are_those_of_the_security_context(box):
    """For the command and for an exec alike."""
    containers = [container(name=name, securityContext=wish) for name, (wish, _) in WISHES.items()]
    box["cay"].api("POST", PODS, {"metadata": {"name": "wishes"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": containers}})
    box["cay"].wait(PODS, "wishes", ready)
    for name, (_, want) in WISHES.items():
        out = box["cay"].kubectl("exec", "wishes", "-c", name, "--", "sh", "-c", "grep Cap /proc/self/status $(grep -lx 'Name:.sleep' /proc/[0-9]*/status)").stdout
        rows = [line.split(":Cap")[1].split(":") for line in out.splitlines()]
        assert len(rows) == 10
        assert all(int(value, 16) == want[which] for which, value in rows), (name, out)
    box["cay"].kubectl("delete", "pod", "wishes", timeout=60)


def test_no_process_gains_privileges(box):
    with box["one"].execed() as pid:
        assert [status_of(p)["NoNewPrivs"] for p in (box["one"].init, box["one"].main, pid)] == ["1"] * 3


def test_every_process_has_the_filter(box):
    with box["one"].execed() as pid:
        for p in (box["one"].init, box["one"].main, pid):
            assert (status_of(p)["Seccomp"], status_of(p).get("Seccomp_filters")) == ("2", "1")


def descriptors(pid):
    return {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def test_no_descriptor_of_the_host_is_left(box):
    """A directory or a namespace of the host would be a way out."""
    assert set(descriptors(box["one"].main)) == {0, 1, 2}
    own = ("/dev/null", "/dev/termination-log")  # in the sandbox's own /dev
    for fd, name in descriptors(box["one"].init).items():
        assert name in own or name.endswith("/log") or re.match(r"(socket|pipe|anon_inode):", name), (fd, name)


LIMITS = {  # soft and hard at most; the daemon's own may be lower
    "Max open files": (1024, 1 << 16), "Max core file size": (1, 1), "Max locked memory": (8 << 20, 8 << 20),
    "Max pending signals": (4096, 4096), "Max msgqueue size": (819200, 819200), "Max nice priority": (0, 0),
    "Max realtime priority": (0, 0)}


def resource_limits(pid):
    rows = re.findall(r"^(Max [a-z ]+?)  +(\S+) +(\S+)", read(f"/proc/{pid}/limits"), re.M)
    value = lambda word: float("inf") if word == "unlimited" else int(word)
    return {name: (value(soft), value(hard)) for name, soft, hard in rows}


def test_resource_limits(box):
    """A limit of 1 for core files is the only one with which the kernel starts no program of the host's core pattern."""
    daemon = resource_limits("self")
    with box["one"].execed() as pid:
        for p in (box["one"].main, pid):
            have = resource_limits(p)
            for name, (soft, hard) in LIMITS.items():
                if name != "Max core file size":
                    hard = min(hard, daemon[name][1])
                assert have[name] == (min(soft, hard), hard), name


COUNTERS = {"max_inotify_instances": 128, "max_inotify_watches": 65536, "max_fanotify_groups": 0, "max_fanotify_marks": 0,
            **{f"max_{kind}_namespaces": 0 for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time")}}


def test_the_user_namespace_limits_its_counters(box):
    text = box["one"].run("cd /proc/sys/user && grep . *")
    assert {name: int(n) for name, n in (line.split(":") for line in text.split())} == COUNTERS


# Takes all that there is of everything that the kernel counts, says how much that was, and holds it.
TAKE_ALL = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def count(take, most):
    n = 0
    while n < most and take(n) >= 0:
        n += 1
    return n
def pty(n):
    try:
        return os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1
timer = ctypes.c_void_p()
io_setup = 206 if os.uname().machine == 'x86_64' else 0
got = {
    'inotify': count(lambda n: libc.inotify_init1(0), most),
    'timers': count(lambda n: libc.timer_create(1, None, ctypes.byref(timer)), most),
    'queues': count(lambda n: libc.mq_open(b'/cay-%d-%d' % (os.getpid(), n), os.O_CREAT | os.O_RDWR, 0o600, None), most),
    'ptys': count(pty, most),
    'aio': count(lambda n: libc.syscall(io_setup, 64, ctypes.byref(ctypes.c_ulong(0))), most),
}
print(json.dumps(got), flush=True)
"""


GIVE_BACK = "for n in range(got['queues']): libc.mq_unlink(b'/cay-%d-%d' % (os.getpid(), n))\n"  # the rest ends with us


def take_all(most):
    return f"most = {most}\n{TAKE_ALL}"


@pytest.fixture(scope="module")
def hog(box):
    """A sandbox that holds all it can get, and what that was."""
    spec = container(command=["python3", "-c", take_all(100000) + "import time\ntime.sleep(1 << 20) # infinity"])
    Sandbox(box["cay"], "hog", {"containers": [spec]})
    env = dict(os.environ, KUBECONFIG=box["cay"].kubeconfig, HOME=box["cay"].data_dir)
    with subprocess.Popen(["kubectl", "logs", "-f", "hog"], env=env, stdout=subprocess.PIPE) as p:
        got = json.loads(p.stdout.readline())
        p.kill()
    return got


ALL = {"inotify": 128, "timers": 4096, "queues": 9, "ptys": 64, "aio": 0}


def test_a_sandbox_gets_its_share_of_what_the_kernel_counts(hog):
    inotify = int(read("/proc/sys/user/max_inotify_instances"))
    assert hog == dict(ALL, inotify=min(ALL["inotify"], inotify))


def test_another_sandbox_has_all_of_its_own_share(box, hog):
    assert json.loads(box["two"].python(take_all(100000) + GIVE_BACK)) == hog


def test_root_of_the_host_is_not_charged(hog):
    """Each of the five is still there for the host, though one sandbox holds all it can get."""
    r = subprocess.run([sys.executable, "-c", take_all(1) + GIVE_BACK], capture_output=True, text=True, check=True)
    assert json.loads(r.stdout) == dict.fromkeys(ALL, 1)


def test_ipv6_believes_no_router_and_makes_no_address(box):
    if not os.path.exists("/proc/sys/net/ipv6"):
        pytest.skip("the kernel has no IPv6")
    inside = box["one"].run("cat /proc/sys/net/ipv6/conf/eth0/accept_ra; cat /proc/net/if_inet6").split("\n")
    assert inside[0] == "0"
    ips = [one["ip"] for one in box["cay"].api("GET", f"{PODS}/one")["status"]["podIPs"]]
    packed = ipaddress.ip_address(ips[1]).packed.hex()
    assert sorted((line.split()[-1], line.split()[0], line.split()[2]) for line in inside[1:] if line) == \
        [("eth0", packed, "80"), ("lo", f"{1:032x}", "80")]


# -- files ------------------------------------------------------------------------------------------------------------

MASKED_FILES = """buddyinfo cmdline config.gz consoles diskstats dma interrupts iomem ioports kallsyms kcore key-users keys kmsg
    kpagecgroup kpagecount kpageflags latency_stats locks mdstat modules mtrr pagetypeinfo partitions sched_debug schedstat
    slabinfo softirqs swaps sysrq-trigger timer_list vmallocinfo vmcore zoneinfo""".split()
MASKED_DIRS = ["acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi", "tty/driver"]
READ_ONLY = ["sys"]


def mountinfo(pid):
    """Per mount point: flags, file system, directory in it, and its options. Later ones lie over earlier ones."""
    mounts = {}
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        left, right = line.split(" - ")
        root, point, flags = left.split()[3:6]
        kind, _, options = right.split(" ", 2)
        assert point not in mounts, f"{point} is mounted twice"
        flags = {f for f in flags.split(",") if f not in ("relatime", "noatime", "nodiratime")}
        mounts[point] = (flags, kind, root, set(options.split(",")))
    return mounts


def expected_flags():
    want = {"/": "rw,nosuid,nodev", "/usr": "ro,nosuid,nodev", "/dev": "rw,nosuid,noexec", "/dev/pts": "rw,nosuid,noexec",
            "/proc": "rw,nosuid,nodev,noexec", "/disk": "rw,nosuid,nodev,idmapped", "/disk-ro": "ro,nosuid,nodev,idmapped",
            "/memory": "rw,nosuid,nodev", "/memory-ro": "ro,nosuid,nodev", "/conf": "ro,nosuid,nodev,idmapped"}
    want.update({f"/etc/{name}": "rw,nosuid,nodev" for name in ("hostname", "hosts", "resolv.conf")})
    if os.path.exists("/usr/local"):
        want["/usr/local"] = "rw,nosuid,nodev"
    return {point: set(flags.split(",")) for point, flags in want.items()}


def test_a_script_from_a_config_map_can_be_run(box):
    assert box["one"].run("/conf/script") == "ran\n"


def masks(mounts):
    return {point for point in mounts if point.startswith("/proc/")}


def test_the_mounts_are_exactly_these(box):
    mounts = mountinfo(box["one"].main)
    assert {p: m[0] for p, m in mounts.items() if p not in masks(mounts)} == expected_flags()
    assert mounts == mountinfo(box["one"].init)


@pytest.fixture
def followed():
    """An instance in a mount namespace whose mounts are shared, as those of every host with systemd are."""
    needs_root()
    cay = Cay(make_dir(), flags=["--stop-sandboxes"], prefix=["unshare", "--mount", "--propagation", "shared"])
    yield cay.start()
    finish(cay)


def test_no_mount_follows_those_of_the_host(followed):
    """Optional fields of mountinfo: "shared:" tells others, "master:" is told by others."""
    volumes = [{"name": "disk", "emptyDir": {}}, {"name": "names", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]
    mounts = [{"name": "disk", "mountPath": "/disk"}, {"name": "names", "mountPath": "/names"}]
    found = {}
    for runtime in ["native"] + [r for r in ("crun", "runc") if shutil.which(r)]:
        more = {} if runtime == "native" else {"runtimeClassName": runtime}
        followed.api("POST", PODS, {"metadata": {"name": runtime}, "spec": dict(
            more, terminationGracePeriodSeconds=0, volumes=volumes, containers=[container(volumeMounts=mounts)])})
        followed.wait(PODS, runtime, ready)
        text = followed.kubectl("exec", runtime, "--", "cat", "/proc/self/mountinfo").stdout
        assert " /usr " in text and " /disk " in text and " /names " in text
        found[runtime] = [line for line in text.splitlines() if line.split(" - ")[0].split()[6:]]
    assert found == {runtime: [] for runtime in found}


def test_a_read_only_root_is_all_read_only(box):
    spec = container(securityContext={"readOnlyRootFilesystem": True})
    mounts = mountinfo(Sandbox(box["cay"], "fixed", {"containers": [spec]}).main)
    assert {p for p, m in mounts.items() if "rw" in m[0] and p not in masks(mounts)} == {
        "/dev", "/dev/pts", "/proc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    box["cay"].kubectl("delete", "pod", "fixed", timeout=30)


def present(names):
    return {f"/proc/{n}" for n in names if os.path.exists(f"/proc/{n}")}


def closed(names):
    """What the kernel keeps from everybody but root of the host, who is nobody inside: it needs no mask."""
    stats = {path: os.stat(path) for path in present(names)}
    return {path for path, st in stats.items() if st.st_uid == st.st_gid == 0 and not st.st_mode & 0o007}


def test_files_of_proc_are_masked(box):
    mounts = mountinfo(box["one"].main)
    found = {p for p in masks(mounts) if mounts[p][1:3] == ("tmpfs", "/dev/null")}
    assert found == present(MASKED_FILES) - closed(MASKED_FILES)
    assert all(mounts[p][0] == {"rw", "nosuid", "noexec"} for p in found)
    assert box["one"].run("cat " + " ".join(sorted(found))) == ""


def test_what_is_not_masked_in_proc_cannot_be_opened(box):
    names = sorted(closed(MASKED_FILES) | closed(MASKED_DIRS))
    assert "/proc/sysrq-trigger" in names or not os.path.exists("/proc/sysrq-trigger")
    # As root of the sandbox, which has every right over its own files.
    script = "for f in %s; do for how in '<' '>' '<>'; do (eval \"exec 3$how $f\") 2>/dev/null && echo $f; done; ls $f/ 2>/dev/null; done"
    assert box["one"].run("id -u").strip() == "0"
    assert box["one"].run(script % " ".join(names) + "; echo done") == "done\n"


def test_directories_of_proc_are_masked(box):
    mounts = mountinfo(box["one"].main)
    found = {p for p in masks(mounts) if mounts[p][1:3] == ("tmpfs", "/empty")}
    assert found == present(MASKED_DIRS) - closed(MASKED_DIRS)
    assert all(mounts[p][0] == {"ro", "nosuid", "nodev", "noexec"} for p in found)
    assert box["one"].run("find " + " ".join(sorted(found)) + " -mindepth 1") == ""


def test_directories_of_proc_are_read_only(box):
    mounts = mountinfo(box["one"].main)
    found = {p for p in masks(mounts) if mounts[p][1] == "proc"}
    assert found == present(READ_ONLY)
    assert all(mounts[p][0] == {"ro", "nosuid", "nodev", "noexec"} and mounts[p][2] == p[len("/proc"):] for p in found)


def test_terminals_are_counted(box):
    assert "max=64" in mountinfo(box["one"].main)["/dev/pts"][3]


def test_no_directory_of_the_host_is_named(box):
    """A volume's mount shows where it is on its file system, as the kernel has it; nothing else names a directory."""
    text = read(f"/proc/{box['two'].main}/mountinfo")
    assert box["cay"].data_dir not in text and os.path.basename(box["cay"].data_dir) not in text
    for _, kind, _, options in mountinfo(box["two"].main).values():
        if kind == "overlay":
            assert not [o for o in options if re.match("(lower|upper|work)dir=/", o)]


DEVICES = {"full": (1, 7), "null": (1, 3), "random": (1, 8), "tty": (5, 0), "urandom": (1, 9), "zero": (1, 5), "pts/ptmx": (5, 2)}
LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
         "stderr": "/proc/self/fd/2"}


def test_dev_holds_exactly_these(box):
    dev = f"/proc/{box['two'].main}/root/dev"
    found, links = {}, {}
    for top, dirs, files in os.walk(dev):
        for name in dirs + files:
            path = os.path.join(top, name)
            st, short = os.lstat(path), os.path.relpath(path, dev)
            if os.path.islink(path):
                links[short] = os.readlink(path)
            elif short == "termination-log":
                assert (st.st_mode, st.st_uid, st.st_size) == (0o100666, 0, 0)
            elif not os.path.isdir(path):
                found[short] = (os.major(st.st_rdev), os.minor(st.st_rdev))
                assert (st.st_mode, st.st_uid) == (0o20666, 0)
    assert (found, links) == (DEVICES, LINKS)


@pytest.fixture
def private_file():
    path = f"/usr/share/cay-test-{os.getpid()}"
    with open(path, "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write("secret")
    yield path
    os.unlink(path)


def test_what_only_root_of_the_host_may_read_is_not_read_inside(box, private_file):
    """The same file is read once everybody may."""
    read_it = f"cat {private_file} 2>/dev/null; true"
    assert box["two"].run(read_it) == ""
    os.chmod(private_file, 0o644)
    assert box["two"].run(read_it) == "secret"


# -- control groups ---------------------------------------------------------------------------------------------------


def cgroup_file(pid, controller, v2_name, v1_name):
    """The value that the kernel enforces for a process, whichever version its controller is in."""
    mounts = [line.split() for line in read("/proc/self/mounts").splitlines()]
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        v2 = controllers == ""
        for _, at, kind, options, *_ in mounts:
            if kind == ("cgroup2" if v2 else "cgroup") and (v2 or set(controllers.split(",")) <= set(options.split(","))):
                file = f"{at}{path}/{v2_name if v2 else v1_name}"
                if (v2 or controller in controllers.split(",")) and os.path.exists(file):
                    return read(file).strip()
    raise AssertionError(f"no {controller} controller holds {pid}")


@pytest.mark.parametrize("who", ["init", "main", "exec"])
def test_the_memory_limit_is_exact(box, who):
    with box["one"].execed() as pid:
        pid = {"init": box["one"].init, "main": box["one"].main, "exec": pid}[who]
        assert int(cgroup_file(pid, "memory", "memory.max", "memory.limit_in_bytes")) == MEMORY


def test_the_cpu_limit_is_exact(box):
    with box["one"].execed() as pid:
        for p in (box["one"].main, pid):
            text = cgroup_file(p, "cpu", "cpu.max", "cpu.cfs_quota_us").split()
            period = text[1] if len(text) > 1 else cgroup_file(p, "cpu", "", "cpu.cfs_period_us")
            assert (int(text[0]), int(period)) == (CPU_MILLI * 100, 100000)


def test_the_limit_of_processes_is_exact(box):
    with box["two"].execed() as pid:
        for p in (box["two"].main, pid):
            assert int(cgroup_file(p, "pids", "pids.max", "pids.max")) == PIDS


# -- the system call filter -------------------------------------------------------------------------------------------

PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SECCOMP_GET_FILTER = 16, 17, 0x420c
ARCHS = {"x86_64": (0xc000003e, 0), "x32": (0xc000003e, 0x40000000), "i386": (0x40000003, 0), "aarch64": (0xc00000b7, 0)}


def installed_filter(pid):
    """The instructions that the kernel runs for a process: (code, jump if true, jump if false, k)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    assert libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    try:
        os.waitpid(pid, 0x40000000)  # __WALL
        n = libc.ptrace(PTRACE_SECCOMP_GET_FILTER, pid, None, None)
        if n < 0 and ctypes.get_errno() == 5:
            pytest.skip("the kernel has no CONFIG_CHECKPOINT_RESTORE to read a filter with")
        assert n > 0, "has no filter"
        buf = ctypes.create_string_buffer(n * 8)
        assert libc.ptrace(PTRACE_SECCOMP_GET_FILTER, pid, None, buf) == n
    finally:
        libc.ptrace(PTRACE_DETACH, pid, None, None)
    return list(struct.iter_unpack("HBBI", buf.raw))


JUMPS = {0x15: lambda a, k: a == k, 0x25: lambda a, k: a > k, 0x35: lambda a, k: a >= k, 0x45: lambda a, k: a & k}


def verdict(program, arch, nr, args):
    data = struct.pack("<iIQ6Q", nr, arch, 0, *args, 0, 0, 0)
    acc = at = 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        if code == 0x20:
            acc, = struct.unpack_from("<I", data, k)
        elif code == 0x54:
            acc &= k
        elif code == 0x05:
            at += k
        elif code == 0x06:
            return "allow" if k == 0x7fff0000 else str(k & 0xffff) if k >> 16 == 5 else hex(k)
        else:
            at += yes if JUMPS[code](acc, k) else no


@pytest.fixture(scope="module")
def differing(box):
    """What the filter of a running process answers otherwise than the list says, as lines of the list."""
    program, lines = installed_filter(box["one"].main), []
    for line in read(f"{ROOT}/tests/data/seccomp/x86_64.txt").splitlines():
        if line.startswith("#"):
            continue
        abi, numbers, *args, want = line.split()[:6]
        first, _, last = numbers.partition("-")
        for nr in range(int(first), int(last or first) + 1):
            arch, bit = ARCHS[abi]
            if verdict(program, arch, nr | bit, [int(a, 16) for a in args]) != want:
                lines.append(line)
    return lines


RULES = {"foreign ABIs": "x32|i386|aarch64", "namespaces": r"x86_64 (56|272) ", "sockets": r"x86_64 (41|53) ",
         "core limit": r"x86_64 (160|302) ", "asynchronous files": r"x86_64 20[6-9] ", "forbidden": r"x86_64 \S+ 0 0 0 1 ",
         "everything": ""}
only_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the list is that of x86_64")


@only_x86_64
@pytest.mark.parametrize("rule", RULES)
def test_the_filter_in_the_kernel_answers_as_listed(differing, rule):
    assert [line for line in differing if re.match(RULES[rule], line)] == []
