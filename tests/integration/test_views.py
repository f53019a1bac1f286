# SPDX-License-Identifier: Apache-2.0
"""What the commands of an attachment see of a sandbox's files, what they cannot do to them, and that all of it ends with the
attachment: its processes, its control group, its scratch."""

import contextlib
import glob
import itertools
import json
import os
import shutil
import signal
import subprocess
import uuid

import pytest

from cay_local import wait_until
from gate_kit import SANDBOXES, agent, attach, delete, patch, run, session

VIEWS = ("ReadOnly", "Scratch")
number = itertools.count()

# Serves in the sandbox whoever asks: any word, by any way, and it writes. Then it answers.
OBEYS = r"""
import os, socket, threading
os.makedirs("/srv/doors", exist_ok=True)
def write(*_):
    with open("/work/target", "a") as f:
        f.write("obeyed\n")
def streams(s):
    s.listen()
    while True:
        c = s.accept()[0]
        c.recv(100)
        write()
        c.sendall(b"done")
        c.close()
def datagrams(s):
    while True:
        s.recvfrom(100)
        write()
def pipe():
    while True:
        with open("/srv/doors/pipe", "rb") as f:
            if f.read():
                write()
def unix(kind, name):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(name)
    return s
os.makedirs("/work/below", exist_ok=True)
for path in ("/work/file", "/work/target", "/data/file", "/mem/file", "/work/below/file", "/work/held"):
    with open(path, "w") as f:
        f.write("as it was\n")
os.mkfifo("/srv/doors/pipe")
tcp = socket.create_server(("0.0.0.0", 7777))
for f, s in ((streams, tcp), (streams, unix(socket.SOCK_STREAM, "/srv/doors/stream")),
             (streams, unix(socket.SOCK_STREAM, "\0obey")), (datagrams, unix(socket.SOCK_DGRAM, "/srv/doors/datagram"))):
    threading.Thread(target=f, args=(s,), daemon=True).start()
keep = open("/work/held", "r+")
print("serves", flush=True)
pipe()
"""

# Prints what there is: every file of these directories with what can be seen of it, but not when it was read.
STATE = r"""
import hashlib, os, stat
for top in ("/work", "/data", "/mem", "/etc/conf", "/usr/local", "/home"):
    for at, dirs, files in sorted(os.walk(top)):
        for name in sorted(dirs + files):
            path = os.path.join(at, name)
            st = os.lstat(path)
            body = hashlib.sha256(open(path, "rb").read()).hexdigest() if stat.S_ISREG(st.st_mode) else ""
            print(path, oct(st.st_mode), st.st_uid, st.st_gid, st.st_nlink, st.st_size, st.st_mtime_ns, body, sorted(os.listxattr(path, follow_symlinks=False)))
"""

ALL = "for f in ('/work/file', '/work/below/file', '/data/file', '/mem/file'):\n    "
PIDS = "for p in [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:\n    "
ATTEMPT = """
import ctypes, os, socket, stat, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def tries(what, *args):
    try:
        return what(*args)
    except OSError as e:
        print(what, args, e)
def change(f):
    with open(f, "a") as to:
        to.write("changed\\n")
def sh(text):
    r = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=20)
    print(text, r.returncode, r.stderr)
"""
# By name: the code, and whether it works on files that are shared, which shows that it is worth trying.
ATTACKS = {
    "write": (ALL + "tries(change, f)", True),
    "truncate": (ALL + "tries(os.truncate, f, 0)", True),
    "rename": (ALL + "tries(os.rename, f, f + '.moved')", True),
    "unlink": (ALL + "tries(os.unlink, f)", True),
    "create": (ALL + "tries(change, f + '.new')", True),
    "chmod": (ALL + "tries(os.chmod, f, 0o777)\n    tries(os.chown, f, 1000, 1000)\n    tries(os.utime, f, (1, 1))", True),
    "attributes": (ALL + "tries(os.setxattr, f, 'user.x', b'1')", True),
    "hard link": ("tries(os.link, '/work/file', '/work/hard')\ntries(os.link, '/work/file', '/tmp/hard')\n"
                  "tries(change, '/work/hard')\ntries(change, '/tmp/hard')", True),
    "symbolic link": ("os.symlink('/work/file', '/tmp/link')\ntries(change, '/tmp/link')\nos.unlink('/tmp/link')", True),
    "descriptor": (ALL + "fd = os.open(f, os.O_RDONLY)\n    tries(change, f'/proc/self/fd/{fd}')\n"
                   "    fd = os.open(f, os.O_PATH)\n    tries(change, f'/proc/self/fd/{fd}')", True),
    "mapped memory": ("import mmap\nfd = os.open('/work/file', os.O_RDONLY)\ntries(mmap.mmap, fd, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)", False),
    "remount": ("for at in ('/', '/work', '/data', '/mem', '/usr', '/usr/local'):\n    sh(f'mount -o remount,rw {at}; mount -o remount,rw,bind {at}; umount -l {at}')\n"
                "    libc.mount(None, at.encode(), None, 32 | 4096, None)\ntries(change, '/work/file')", None),
    "bind mount": ("sh('mkdir -p /tmp/b && mount --bind /work /tmp/b && echo changed >> /tmp/b/file; mount --bind /tmp /work; mount -t tmpfs x /work')", False),
    "new namespaces": ("sh('unshare -Urm sh -c \"mount -o remount,rw / && echo changed >> /work/file\"; unshare -m true')\nlibc.unshare(0x10000000)\nlibc.unshare(0x00020000)", False),
    "process roots": (PIDS + "tries(change, f'/proc/{p}/root/work/file')\n    tries(change, f'/proc/{p}/cwd/work/file')", None),
    "process descriptors": (PIDS + "for fd in tries(os.listdir, f'/proc/{p}/fd') or ():\n        path = f'/proc/{p}/fd/{fd}'\n"
                            "        if '/work/held' in (tries(os.readlink, path) or ''):\n            tries(change, path)", True),
    "debugger": (PIDS + "print(libc.ptrace(16, p, None, None), libc.process_vm_writev(p, None, 0, None, 0, 0))\n    tries(open, f'/proc/{p}/mem', 'r+b')\n"
                 "    fd = libc.syscall(434, p, 0)\n    print('pidfd', fd, libc.syscall(438, fd, 3, 0), libc.setns(fd, 0x00020000))", None),
    "enter namespaces": ("sh('for p in 1 2 3 4 5 6 7 8; do nsenter -t $p -m -- sh -c \"echo changed >> /work/file\"; done')\n"
                         + PIDS + "fd = tries(os.open, f'/proc/{p}/ns/mnt', os.O_RDONLY)\n    fd and print(libc.setns(fd, 0))", None),
    "change root": ("pid = os.fork()\nif not pid:\n    tries(os.chroot, '/tmp')\n    for _ in range(20):\n        tries(os.chdir, '..')\n    tries(os.chroot, '.')\n    tries(change, '/work/file')\n    os._exit(0)\nos.waitpid(pid, 0)", True),
    "device": ("for d in [os.makedev(254, 0), os.makedev(8, 0), os.makedev(7, 0), os.makedev(1, 1)]:\n    tries(os.mknod, '/tmp/device', 0o666 | stat.S_IFBLK, d)\n"
               "    tries(os.mknod, '/dev/shm/device', 0o666 | stat.S_IFBLK, d)\n    tries(open, '/tmp/device', 'r+b')", False),
    "setuid program": ("import shutil\nshutil.copy('/bin/sh', '/tmp/sh')\nos.chmod('/tmp/sh', 0o6755)\nsh('setpriv --reuid=1000 /tmp/sh -p -c \"id; echo changed >> /work/file\"')\nos.unlink('/tmp/sh')", None),
    "file handle": ("b = ctypes.create_string_buffer(136)\nb[0:4] = (128).to_bytes(4, 'little')\nm = ctypes.c_int()\n"
                    "print(libc.name_to_handle_at(-100, b'/work/file', b, ctypes.byref(m), 0), libc.open_by_handle_at(os.open('/', 0), b, 2))", False),
    "stream socket": ("s = tries(socket.socket, socket.AF_UNIX)\nif s and not s.connect_ex('/srv/doors/stream'):\n    s.sendall(b'go')\n    s.recv(9)", True),
    "datagram socket": ("for s in (tries(socket.socket, socket.AF_UNIX, socket.SOCK_DGRAM), (tries(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM) or [None])[0]):\n"
                        "    s and tries(s.sendto, b'go', '/srv/doors/datagram')", True),
    "abstract socket": ("s = tries(socket.socket, socket.AF_UNIX)\nif s and not s.connect_ex('\\0obey'):\n    s.sendall(b'go')\n    s.recv(9)", True),
    "port": ("import fcntl, struct\nhosts = ['127.0.0.1', '::1', ADDRESS]\nfor h in hosts:\n    s = tries(socket.create_connection, (h, 7777), 3)\n    if s:\n        s.sendall(b'go')\n        s.recv(9)", True),
    "named pipe": ("fd = tries(os.open, '/srv/doors/pipe', os.O_WRONLY | os.O_NONBLOCK)\nif fd:\n    tries(os.write, fd, b'go')", True),
}


def read(path):
    with open(path) as f:
        return f.read()


class Desk:
    """A sandbox with volumes, a process that obeys whoever reaches it, and somebody for each view."""

    def __init__(self, cay, name, **more):
        self.cay, self.name = cay, name
        container = {"name": "main", "image": "host", "command": ["python3", "-c", OBEYS], "volumeMounts": [
            {"name": "data", "mountPath": "/data"}, {"name": "mem", "mountPath": "/mem"}, {"name": "conf", "mountPath": "/etc/conf"}], **more}
        cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
            "terminationGracePeriodSeconds": 0, "containers": [container], "volumes": [
                {"name": "data", "emptyDir": {}}, {"name": "mem", "emptyDir": {"medium": "Memory"}}, {"name": "conf", "configMap": {"name": "conf"}}]}}}})
        self.address = cay.wait_ready(SANDBOXES, name)["status"]["podIPs"][0]
        wait_until(lambda: "serves" in cay.kubectl("logs", name).stdout)
        pod = cay.api("GET", f"/api/v1/namespaces/default/pods/{name}")
        self.task = pod["status"]["containerStatuses"][0]["containerID"].split("//")[-1]

    def group(self):
        """The control group of the sandbox, in the tree that groups processes."""
        return os.path.join(self.cay.groups()[0], self.task)

    def join(self, view):
        who = f"v{next(number)}"
        agent(self.cay, who)
        session(self.cay, who, who)
        return Member(self, who, attach(self.cay, who, who, self.name, view=view)["metadata"]["uid"])

    def state(self):
        return self.cay.kubectl("exec", "-i", self.name, "--", "python3", "-", stdin=STATE).stdout

    def mounts(self):
        """Of the sandbox's first process, without what only counts."""
        init = next(p for p in read(f"{self.group()}/cgroup.procs").split() if read(f"/proc/{p}/comm") == "cay-init\n")
        return [line.split()[3:] for line in read(f"/proc/{init}/mountinfo").splitlines()]

    def restore(self):
        self.cay.kubectl("exec", self.name, "--", "sh", "-c", "cd /work && for f in file below/file target /data/file /mem/file; do rm -f $f $f.*; "
                         "echo as it was > $f; done; rm -f hard /tmp/hard")


class Member:
    """An agent with an attachment."""

    def __init__(self, desk, who, uid):
        self.desk, self.who, self.uid = desk, who, uid

    def run(self, script, **more):
        return run(self.desk.cay, self.who, self.desk.name, "sh", "-c", script, **more)

    def says(self, script):
        r = self.run(script)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def python(self, code):
        r = run(self.desk.cay, self.who, self.desk.name, "python3", "-", stdin=code)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def daemon(self):
        """Starts a process that leaves its session and goes on; its number among those of the host."""
        before = set(self.processes())
        self.says("setsid sh -c 'sleep 7654321 & echo $! > /tmp/daemon' > /dev/null 2>&1 < /dev/null & wait")

        def sleeping():  # which the shell's child is when it has got a processor
            for p in set(self.processes()) - before:
                with contextlib.suppress(OSError):  # it may have ended meanwhile
                    if read(f"/proc/{p}/comm") == "sleep\n" and "7654321" in read(f"/proc/{p}/cmdline"):
                        return p
            return None
        return wait_until(sleeping)

    def group(self):
        return f"{self.desk.group()}/a-{self.uid}"

    def processes(self):
        return read(f"{self.group()}/cgroup.procs").split() if os.path.exists(self.group()) else []

    def detach(self):
        delete(self.desk.cay, "attachments", self.who)

    def left(self):
        """Everything of it that is on the host."""
        cay = self.desk.cay
        return [*[found for d in cay.groups() for found in glob.glob(f"{d}/*/a-{self.uid}")],
                *glob.glob(cay.pool("roots", "*", f"scratch-{self.uid}")), *glob.glob(f"/run/cay/*/*.seats/{self.uid}-*")]


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    c.kubectl("create", "configmap", "conf", "--from-literal=key=value")
    return c


@pytest.fixture(scope="module")
def desk(cay):
    return Desk(cay, "desk")


@pytest.fixture(scope="module")
def members(desk):
    return {view: desk.join(view) for view in ("Shared", *VIEWS)}


def attack(member, name):
    code = ATTACKS[name][0].replace("ADDRESS", repr(member.desk.address))
    member.python(ATTEMPT + code)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attempt_from_a_view_changes_a_file(desk, members, name, view):
    files, mounts = desk.state(), desk.mounts()
    # In a scratch of its own: what another attempt has removed cannot be attacked.
    member = desk.join(view) if view == "Scratch" else members[view]
    attack(member, name)
    assert desk.state() == files
    assert desk.mounts() == mounts
    if view == "Scratch":
        member.detach()


@pytest.mark.parametrize("name", [name for name in ATTACKS if ATTACKS[name][1]])
def test_the_attempts_work_on_files_that_are_shared(desk, members, name):
    files = desk.state()
    attack(members["Shared"], name)
    try:
        wait_until(lambda: desk.state() != files)
    finally:
        desk.restore()


def mounts_of(member):
    rows = [line.split() for line in member.says("cat /proc/self/mountinfo").splitlines()]
    return {row[4]: set(row[5].split(",")) for row in rows}


def own(at):
    return any(at == top or at.startswith(top + "/") for top in ("/dev", "/proc"))


def test_every_mount_of_a_read_only_view_is_read_only(members):
    mounts = mounts_of(members["ReadOnly"])
    assert {"/", "/data", "/mem", "/etc/conf", "/usr", "/tmp", "/dev", "/proc"} <= set(mounts)
    for at, flags in mounts.items():
        assert "nosuid" in flags, at
        assert "ro" in flags or own(at) or at == "/tmp", at


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_the_sandboxs_mounts_and_flags(members, view):
    shared, mine = mounts_of(members["Shared"]), mounts_of(members[view])
    more = {"/tmp"} if view == "ReadOnly" else set()
    assert set(mine) - more == set(shared)
    for at, flags in shared.items():
        assert flags & {"nosuid", "nodev", "noexec"} <= mine[at], at
        assert "ro" not in flags or "ro" in mine[at], at


def test_a_read_only_view_shows_what_is_written_at_once(members):
    for i in range(3):
        members["Shared"].says(f"echo {i} > /work/live.tmp && mv /work/live.tmp /work/live")
        assert members["ReadOnly"].says("cat /work/live") == f"{i}\n"
    members["Shared"].says("rm /work/live")
    assert members["ReadOnly"].run("cat /work/live").returncode == 1


def test_a_read_only_view_has_a_tmp_and_a_shm_that_nobody_else_sees(desk, members):
    for where in ("/tmp", "/dev/shm"):
        members["ReadOnly"].says(f"echo mine > {where}/mine")
        assert members["ReadOnly"].says(f"cat {where}/mine") == "mine\n"
        for other in (members["Shared"], members["Scratch"], desk.join("ReadOnly")):
            assert other.run(f"cat {where}/mine").returncode == 1


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shares_no_memory_with_the_sandbox(members, view):
    key = 7000 + next(number)
    members["Shared"].python(f"import ctypes\nassert ctypes.CDLL(None).shmget({key}, 4096, 0o1666) >= 0\n")
    look = f"awk '$1 == {key}' /proc/sysvipc/shm | wc -l"
    assert members["Shared"].says(look) == "1\n"
    assert members[view].says(look) == "0\n"


def test_a_build_in_a_scratch_is_seen_by_its_attachment_alone_and_leaves_nothing(desk, members):
    files = desk.state()
    reviewer = desk.join("Scratch")
    members["Shared"].says("printf 'int main(void) { return 0; }\\n' > /work/main.c")
    try:
        files = desk.state()
        reviewer.says("cd /work && mkdir -p out && for i in $(seq 50); do cat main.c > out/$i.c; done && rm main.c && echo better > file && "
                      "dd if=/dev/zero of=/data/large bs=1M count=20 2>/dev/null && mkdir /usr/local/tool && chmod 700 /work")
        # Another command of the same attachment goes on where the first has ended.
        assert reviewer.says("ls /work/out | wc -l; cat /work/file; wc -c < /data/large; ls /usr/local/tool; ls /work/main.c 2>&1 | wc -l").split() == [
            "50", "better", str(20 << 20), "1"]
        for other in (members["Scratch"], members["ReadOnly"], members["Shared"]):
            assert other.says("ls /work/out /data/large 2>/dev/null; cat /work/file") == "as it was\n"
        assert desk.state() == files
        reviewer.detach()
        wait_until(lambda: not reviewer.left())
        assert desk.state() == files
        assert desk.join("Scratch").says("cat /work/file; ls /work/out 2>/dev/null | wc -l") == "as it was\n0\n"
    finally:
        members["Shared"].says("rm -f /work/main.c")


def test_a_scratch_is_full_at_the_sandboxs_own_limit(cay):
    if not os.path.exists(os.path.join(cay.data_dir, "pool.img")):
        pytest.skip("the disk pool enforces no limits here")
    reviewer = Desk(cay, "small", resources={"limits": {"ephemeral-storage": "32Mi"}}).join("Scratch")
    r = reviewer.run("dd if=/dev/zero of=/work/large bs=1M count=64 conv=fsync")
    assert r.returncode == 1 and ("Disk quota exceeded" in r.stderr or "No space left" in r.stderr)
    cay.api("DELETE", f"{SANDBOXES}/small")


@pytest.mark.parametrize("view", ("Shared", *VIEWS))
def test_commands_run_in_a_group_of_their_attachment_within_that_of_the_sandbox(desk, members, view):
    member = members[view]
    groups = [line.split(":", 2) for line in member.says("cat /proc/self/cgroup").splitlines()]
    mine = "" if view in VIEWS else f"a-{member.uid}"
    assert any(path == f"/{mine}" for _, _, path in groups), groups
    pid = member.daemon()
    of_host = read(f"/proc/{pid}/cgroup")
    for controller in ("memory", "cpu", "pids"):
        rows = [line for line in of_host.splitlines() if controller in line.split(":")[1].split(",")]
        assert all(line.endswith(f"/{desk.task}/a-{member.uid}") for line in rows), of_host
    os.kill(int(pid), signal.SIGKILL)


def test_agents_do_not_see_what_is_in_the_environment_of_others(desk):
    members = [desk.join(view) for view in ("ReadOnly", "Scratch", "ReadOnly", "Scratch")]
    for m in members:
        m.says(f"SECRET=secret-of-{m.who} setsid sleep 7654321 > /dev/null 2>&1 < /dev/null & ")
    look = "import glob\nfor p in glob.glob('/proc/[0-9]*/environ'):\n    try:\n        print(open(p).read())\n    except OSError:\n        pass\n"
    for m in (*members, desk.join("Shared")):
        seen = m.python(look)
        assert {o.who for o in members if f"secret-of-{o.who}" in seen} <= {m.who}
    for m in members:
        m.detach()


@pytest.mark.parametrize("end", ("attachment", "session", "view", "agent", "rights", "wall"))
@pytest.mark.parametrize("view", ("Shared", *VIEWS))
def test_what_was_started_ends_with_what_allowed_it(desk, members, view, end):
    member, other = desk.join(view), members["Shared"].daemon()
    pid = member.daemon()
    if end == "attachment":
        member.detach()
    elif end == "session":
        patch(desk.cay, "sessions", member.who, {"spec": {"ended": True}})
    elif end == "agent":
        delete(desk.cay, "agents", member.who)
    elif end == "rights":
        patch(desk.cay, "agents", member.who, {"spec": {"capabilities": {"rights": ["read"]}}})
    elif end == "wall":
        patch(desk.cay, "agents", member.who, {"spec": {"isolation": {"unverified": "gvisor"}}})
    else:
        patch(desk.cay, "attachments", member.who, {"spec": {"view": "ReadOnly" if view != "ReadOnly" else "Scratch", "rights": ["exec"]}})
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    wait_until(lambda: not member.left())
    assert os.path.exists(f"/proc/{other}"), "what others run goes on"
    os.kill(int(other), signal.SIGKILL)


def usage(cay, uid):
    record = json.loads(read(os.path.join(cay.data_dir, "node", "usage.json")))
    mine = next((a for a in record.get("attached", []) if a["uid"] == uid), None)
    meters = [m["meter"] for m in (mine or {}).get("meters", [])]
    return mine and mine.get("cpu_usec", 0) + sum(m.get("cpu_usec", 0) + m.get("task_cpu_usec", 0) for m in meters)


BURN = "import time\nwhile time.process_time() < 0.4:\n    pass\n"


@pytest.mark.parametrize("view", ("Shared", *VIEWS))
def test_what_an_attachment_used_is_counted_once_for_good(fresh, view):
    cay = fresh()
    cay.kubectl("create", "configmap", "conf", "--from-literal=key=value")
    desk = Desk(cay, "desk")
    member = desk.join(view)
    member.python(BURN)
    cay.kill()
    cay.start()
    member.python(BURN)
    kernel = int(next(line.split()[1] for line in read(f"{member.group()}/cpu.stat").splitlines() if line.startswith("usage_usec"))) \
        if os.path.exists(f"{member.group()}/cpu.stat") else 800_000
    member.detach()
    wait_until(lambda: not member.left())
    cay.kill()
    counted = usage(cay, member.uid)
    cay.start()
    cay.stop()
    again = usage(cay, member.uid)
    cay.start()  # what is left over when an assertion fails is its own to remove
    assert 800_000 <= kernel <= counted <= kernel + 200_000
    assert again == counted


def test_after_a_crash_attachments_go_on_and_those_that_are_gone_end(fresh):
    cay = fresh()
    cay.kubectl("create", "configmap", "conf", "--from-literal=key=value")
    desk = Desk(cay, "desk")
    members = {view: desk.join(view) for view in ("Shared", *VIEWS)}
    pids = {view: m.daemon() for view, m in members.items()}
    members["Scratch"].says("echo kept > /work/kept")
    cay.kill()
    # What an attachment left that the server no longer knows when it is back.
    gone = str(uuid.uuid4())
    orphan = subprocess.Popen(["sleep", "7654321"])
    groups = [f"{d}/{desk.task}/a-{gone}" for d in cay.groups() if os.path.exists(f"{d}/{desk.task}")]
    for g in groups:
        os.mkdir(g)
        with open(f"{g}/cgroup.procs", "w") as f:
            f.write(str(orphan.pid))
    cay.start()
    assert orphan.wait(60) == -signal.SIGKILL
    wait_until(lambda: not any(os.path.exists(g) for g in groups))
    for view, pid in pids.items():
        assert os.path.exists(f"/proc/{pid}"), view
    assert members["Scratch"].says("cat /work/kept; cat /tmp/daemon | wc -l") == "kept\n1\n"
    assert members["ReadOnly"].says("ls /proc | grep -c '^[0-9]'; cat /tmp/daemon | wc -l").split()[1] == "1"
    for m in members.values():
        m.detach()
    for view, pid in pids.items():
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    wait_until(lambda: not any(m.left() for m in members.values()))


@pytest.mark.parametrize("crash", (False, True))
def test_nothing_of_a_view_outlives_its_sandbox(fresh, crash):
    cay = fresh()
    cay.kubectl("create", "configmap", "conf", "--from-literal=key=value")
    desk = Desk(cay, "desk")
    members = [desk.join(view) for view in ("Shared", *VIEWS)]
    pids = [m.daemon() for m in members]
    if crash:
        init = next(p for p in read(f"{desk.group()}/cgroup.procs").split() if read(f"/proc/{p}/comm") == "cay-init\n")
        cay.kill()
        os.kill(int(init), signal.SIGKILL)
        cay.start()
    else:
        cay.api("DELETE", f"{SANDBOXES}/desk")
    wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids))
    wait_until(lambda: not any(m.left() for m in members))
    assert not [line for line in read("/proc/mounts").splitlines() if "scratch-" in line]


def test_a_seat_that_dies_is_made_anew_and_keeps_its_scratch(desk):
    member = desk.join("Scratch")
    member.says("echo kept > /work/kept")
    with open(f"{member.group()}/cgroup.kill", "w") if os.path.exists(f"{member.group()}/cgroup.kill") else open(os.devnull, "w") as f:
        f.write("1")
    for p in member.processes():
        os.kill(int(p), signal.SIGKILL)
    wait_until(lambda: not member.processes())
    assert member.says("cat /work/kept /work/file") == "kept\nas it was\n"
    member.detach()


@pytest.mark.parametrize("runtime", ("crun", "runc", "runsc"))
def test_an_oci_runtime_refuses_views_by_its_name(cay, runtime):
    if not shutil.which(runtime):
        pytest.skip(f"{runtime} is not installed")
    cay.api("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": f"of-{runtime}"}, "handler": runtime})
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": runtime}, "spec": {"podTemplate": {"spec": {
        "runtimeClassName": f"of-{runtime}", "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, runtime)
    for view in ("Shared", *VIEWS):
        who = f"v{next(number)}"
        agent(cay, who)
        session(cay, who, who)
        attach(cay, who, who, runtime, view=view)
        r = run(cay, who, runtime, "echo", "in")
        if view == "Shared":
            assert r.stdout == "in\n", r.stderr
        else:
            assert r.returncode == 1 and f"runtime of-{runtime} cannot show a sandbox's files with the view {view}" in r.stderr
    cay.api("DELETE", f"{SANDBOXES}/{runtime}")
