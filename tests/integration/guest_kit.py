# SPDX-License-Identifier: Apache-2.0
"""cay-init alone, as pid 1 of namespaces made by unshare(1): its frames, and the fixtures `guest` and `link`."""

import ctypes
import os
import pathlib
import re
import socket
import struct
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("CAY_BUILD", pathlib.Path(__file__).parents[2] / "build"))
INIT = (BUILD / "cay-init").absolute()

(HELLO, START, EXEC, STDIN, RESIZE, SIGNAL, CREDIT, DIAL, STATUS, READY, STARTED_OK, FAILED, STDOUT,
 STDERR, EXITED, STATE, ATTACH, ASK_BUSY, BUSY) = range(19)
TTY, STDIN_OPEN, RUNTIME_HTTP, RUNTIME_NOW, LOG_STDOUT, STDIN_ONCE = 1, 2, 4, 8, 16, 64
RUNTIME_REST, REST_NOW = 128, 256
WINDOW = 256 * 1024
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
PORT = 8888
REST_PORT = 8080
CLONE_NEWNET = 0x40000000
# What the launcher leaves to cay-init.
CAPABILITIES = "-all,+setuid,+setgid,+setpcap,+kill,+chown,+dac_override,+fowner,+fsetid,+net_bind_service,+sys_chroot,+setfcap,+audit_write"


def packed_text(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(data)) + data


def packed_list(items):
    return struct.pack("<I", len(items)) + b"".join(map(packed_text, items))


def packed_start(argv=(), env=(PATH,), cwd="/", uid=0, gid=0, groups=(), flags=0, size=(80, 24), port=0,
                 caps=0, nofile=0, message=None):
    return (packed_list(argv) + packed_list(env) + packed_text(cwd) + struct.pack("<III", uid, gid, len(groups))
            + struct.pack(f"<{len(groups)}I", *groups)
            + struct.pack("<IHHHQI", flags, size[0], size[1], port, caps, nofile)
            + (packed_text(message) if message else b""))


class Link:
    """A connection to the private socket. Frames of a type are taken in order; others are kept."""

    def __init__(self, path, hello=True):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(path))
        self.seen = []
        if hello:
            self.send(HELLO, 0, struct.pack("<I", 1))
            self.version, self.flags = struct.unpack("<II", self.take(READY)[2])

    def send(self, kind, stream, payload=b""):
        self.sock.sendall(struct.pack("<IBI", len(payload) + 5, kind, stream) + payload)

    def exact(self, n):
        data = b""
        while len(data) < n:
            got = self.sock.recv(n - len(data))
            if not got:
                raise EOFError
            data += got
        return data

    def frame(self):
        length, kind, stream = struct.unpack("<IBI", self.exact(9))
        return kind, stream, self.exact(length - 5)

    def take(self, *kinds, stream=None):
        def fits(f):
            return f[0] in kinds and stream in (None, f[1])

        for i, f in enumerate(self.seen):
            if fits(f):
                return self.seen.pop(i)
        while True:
            f = self.frame()
            if fits(f):
                return f
            self.seen.append(f)

    def close(self):
        self.sock.close()

    def start(self, *argv, **kw):
        kw.setdefault("flags", LOG_STDOUT)
        self.send(START, 0, packed_start(argv, **kw))
        kind, _, payload = self.take(STARTED_OK, FAILED)
        assert kind == STARTED_OK, payload
        return struct.unpack("<I", payload)[0]

    def exec(self, *argv, stream=1, **kw):
        self.send(EXEC, stream, packed_start(argv, **kw))
        kind, _, payload = self.take(STARTED_OK, FAILED, stream=stream)
        if kind == FAILED:
            raise OSError(struct.unpack("<I", payload[:4])[0], payload[8:].decode())
        return struct.unpack("<I", payload)[0]

    def attach(self, stream=1, flags=0):
        self.send(ATTACH, stream, struct.pack("<I", flags))
        kind, _, payload = self.take(STARTED_OK, FAILED, stream=stream)
        if kind == FAILED:
            raise OSError(struct.unpack("<I", payload[:4])[0], payload[8:].decode())

    def finish(self, stream=1, credit=True):
        """Until the stream is over: stdout, stderr, exit code, signal."""
        out = {STDOUT: b"", STDERR: b""}
        while True:
            kind, _, payload = self.take(STDOUT, STDERR, EXITED, stream=stream)
            if kind == EXITED:
                code, signum, _ = struct.unpack("<IIB", payload)
                return out[STDOUT], out[STDERR], code, signum
            out[kind] += payload
            if credit:
                self.send(CREDIT, stream, struct.pack("<I", len(payload)))

    def run(self, *argv, stream=1, **kw):
        self.exec(*argv, stream=stream, **kw)
        return self.finish(stream)

    def state(self):
        self.send(STATUS, 0)
        return struct.unpack("<BBIIIBQ", self.take(STATE)[2])


class Guest:
    def __init__(self, tmp_path):
        assert INIT.exists(), f"there is no {INIT}: build it first"
        self.path = tmp_path / "s"
        self.log_path = tmp_path / "log"
        self.links = []
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(self.path))
        listening.listen(64)
        log = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        inside = ('ip link set lo up; exec 3<&"$1" 4>&"$2"; exec setpriv --no-new-privs '
                  f'--bounding-set={CAPABILITIES} env -i "$3"')
        self.proc = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--ipc", "--uts",
             "bash", "-c", inside, "bash", str(listening.fileno()), str(log), INIT],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=[listening.fileno(), log])
        listening.close()
        os.close(log)

    def link(self, **kw):
        self.links.append(Link(self.path, **kw))
        return self.links[-1]

    def pid(self):
        """Of cay-init, seen from here."""
        return int(pathlib.Path(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children").read_text().split()[0])

    def tcp(self, port=PORT):
        """A socket connected to a port in the guest's network namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net") as ours, open(f"/proc/{self.proc.pid}/ns/net") as theirs:
            assert libc.setns(theirs.fileno(), CLONE_NEWNET) == 0
            try:
                sock = socket.create_connection(("127.0.0.1", port), timeout=60)
            finally:
                assert libc.setns(ours.fileno(), CLONE_NEWNET) == 0
        return sock

    def log(self):
        return self.log_path.read_bytes()

    def stop(self):
        for link in self.links:
            link.close()
        self.proc.kill()
        self.proc.wait()


@pytest.fixture
def guest(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: makes pid, mount and net namespaces")
    g = Guest(tmp_path)
    yield g
    g.stop()


@pytest.fixture
def link(guest):
    return guest.link()


def cri_lines(data):
    """[(source, tag, text)], every line with a well-formed time."""
    lines = []
    for line in data.split(b"\n")[:-1]:
        m = re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)", line, re.S)
        assert m, line
        lines.append((m[1].decode(), m[2].decode(), m[3]))
    return lines
