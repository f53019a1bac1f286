# SPDX-License-Identifier: Apache-2.0
"""cay-init alone, as pid 1 of namespaces made by unshare(1): frames on its private socket, the log
file, and the python-runtime HTTP API. Tests of the API carry the numbers of the cases that they prove: dataplane_N is in
docs/reference/dataplane.md, uN in docs/reference/cases.md.
"""

import ctypes
import hashlib
import http.client
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

BUILD = pathlib.Path(os.environ.get("CAY_BUILD", pathlib.Path(__file__).parents[2] / "build"))
INIT = (BUILD / "cay-init").absolute()

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes pid, mount and net namespaces")

(HELLO, START, EXEC, STDIN, RESIZE, SIGNAL, CREDIT, DIAL, STATUS, READY, STARTED_OK, FAILED, STDOUT,
 STDERR, EXITED, STATE) = range(16)
TTY, STDIN_OPEN, RUNTIME_HTTP, RUNTIME_NOW, LOG_STDOUT = 1, 2, 4, 8, 16
WINDOW = 256 * 1024
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
PORT = 8888
CLONE_NEWNET = 0x40000000
# What the launcher leaves to cay-init.
CAPABILITIES = "-all,+setuid,+setgid,+setpcap,+kill,+chown,+dac_override,+fowner,+fsetid,+net_bind_service,+sys_chroot"


def packed_text(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(data)) + data


def packed_list(items):
    return struct.pack("<I", len(items)) + b"".join(map(packed_text, items))


def packed_start(argv=(), env=(PATH,), cwd="/", uid=0, gid=0, groups=(), flags=0, size=(80, 24), port=0,
                 caps=0, nofile=0):
    return (packed_list(argv) + packed_list(env) + packed_text(cwd) + struct.pack("<III", uid, gid, len(groups))
            + struct.pack(f"<{len(groups)}I", *groups)
            + struct.pack("<IHHHQI", flags, size[0], size[1], port, caps, nofile))


class Link:
    """A connection to the private socket. Frames of a type are taken in order; others are kept."""

    def __init__(self, path, hello=True):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
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
                sock = socket.create_connection(("127.0.0.1", port), timeout=20)
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
    g = Guest(tmp_path)
    yield g
    g.stop()


@pytest.fixture
def link(guest):
    return guest.link()


def wait_for(check, seconds=10):
    """Polls for what has no event to wait for: files and processes of others."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "waited too long"
        select.select([], [], [], 0.01)


def cri_lines(data):
    """[(source, tag, text)], every line with a well-formed time."""
    lines = []
    for line in data.split(b"\n")[:-1]:
        m = re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)", line, re.S)
        assert m, line
        lines.append((m[1].decode(), m[2].decode(), m[3]))
    return lines


# The private socket


def test_hello_is_answered_with_version_and_state(guest):
    link = guest.link()
    assert (link.version, link.flags) == (1, 0)
    link.start()
    assert guest.link().flags == 1


def test_frame_before_hello_closes_the_connection(guest):
    link = guest.link(hello=False)
    link.send(STATUS, 0)
    with pytest.raises((EOFError, ConnectionResetError)):
        link.frame()


@pytest.mark.parametrize("data", [
    struct.pack("<IBI", 5, 99, 0), struct.pack("<I", 1 << 30), struct.pack("<IBI", 5, READY, 0),
    struct.pack("<IBI", 6, EXEC, 1) + b"x", struct.pack("<IBI", 9, SIGNAL, 0) + struct.pack("<I", 4000),
    struct.pack("<IBI", 5, EXEC, 0),
])
def test_frame_that_cannot_be_read_closes_this_connection_alone(guest, link, data):
    other = guest.link()
    link.sock.sendall(data)
    with pytest.raises((EOFError, ConnectionResetError)):
        while True:
            link.frame()
    assert other.run("true")[2] == 0


def test_peer_inside_the_sandbox_is_refused(guest, link, tmp_path):
    # The socket's path is visible here because the test shares its mounts; the node's is not.
    code = f"import socket; s=socket.socket(socket.AF_UNIX); s.connect('{guest.path}'); print(s.recv(1))"
    assert link.run("python3", "-c", code)[0] == b"b''\n"


def test_pid_one_hides_itself_from_the_sandbox(link):
    user = dict(uid=65534, gid=65534)
    assert b"Permission denied" in link.run("ls", "/proc/1/fd", **user)[1]
    assert link.run("cat", "/proc/1/environ", stream=2, **user)[2] == 1


# The command


def test_command_runs_and_its_end_is_told_and_remembered(guest, link):
    other = guest.link()
    pid = link.start("sh", "-c", "exit 7")
    for each in (link, other):
        _, stream, payload = each.take(EXITED)
        assert (stream, struct.unpack("<IIB", payload)) == (0, (7, 0, 0))
    started, exited, told_pid, code, signum, oom, at = guest.link().state()
    assert (started, exited, told_pid, code, signum, oom) == (1, 1, pid, 7, 0, 0)
    assert abs(at / 1e6 - time.time()) < 60


def test_command_outlives_the_connection_that_started_it(guest, link):
    link.start("sleep", "1000")
    link.close()
    again = guest.link()
    assert again.flags == 1
    assert again.state()[:2] == (1, 0)
    again.send(SIGNAL, 0, struct.pack("<I", signal.SIGTERM))
    assert struct.unpack("<IIB", again.take(EXITED)[2]) == (143, 15, 0)


def test_signal_to_pid_one_goes_to_the_commands_group(guest, link):
    link.start("sh", "-c", "trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    wait_for(lambda: b"up" in guest.log())
    os.kill(guest.pid(), signal.SIGTERM)
    assert struct.unpack("<IIB", link.take(EXITED)[2])[0] == 3
    # A shell may add that its sleep, which is in the group too, was terminated.
    assert ("stdout", "F", b"got") in cri_lines(guest.log())


def test_second_start_is_refused(link):
    link.start()
    link.send(START, 0, packed_start(["true"]))
    assert b"second time" in link.take(FAILED)[2]


def test_command_that_is_not_there_fails_the_start_and_may_be_tried_again(link):
    for argv, cwd, text in ((["nosuch"], "/", 'exec "nosuch": No such file or directory'),
                            (["/etc/passwd"], "/", 'exec "/etc/passwd": Permission denied'),
                            (["true"], "/no/dir", 'chdir "/no/dir": No such file or directory')):
        link.send(START, 0, packed_start(argv, cwd=cwd))
        payload = link.take(FAILED)[2]
        assert payload[8:].decode() == text
    link.start("true")
    link.take(EXITED)


def test_idle_start_waits_for_a_signal_and_ends_well(link):
    assert link.start() == 0
    assert link.state()[:3] == (1, 0, 0)
    link.send(SIGNAL, 0, struct.pack("<I", signal.SIGHUP))
    assert link.state()[:2] == (1, 0)
    link.send(SIGNAL, 0, struct.pack("<I", signal.SIGTERM))
    assert struct.unpack("<IIB", link.take(EXITED)[2]) == (0, 0, 0)


# The log


def test_log_has_a_line_a_line_and_all_of_it_before_the_end_is_told(guest, link):
    link.start("sh", "-c", "echo one; echo two >&2; printf three")
    link.take(EXITED)
    lines = cri_lines(guest.log())
    assert [l for l in lines if l[0] == "stdout"] == [("stdout", "F", b"one"), ("stdout", "F", b"three")]
    assert [l for l in lines if l[0] == "stderr"] == [("stderr", "F", b"two")]


def test_long_line_is_split(guest, link):
    link.start("sh", "-c", "head -c 40000 /dev/zero | tr '\\0' x; echo; echo y")
    link.take(EXITED)
    lines = cri_lines(guest.log())
    assert [(l[1], len(l[2])) for l in lines] == [("P", 16384), ("P", 16384), ("F", 7232), ("F", 1)]


def test_log_keeps_its_last_megabytes_on_disk(guest, link):
    link.start("sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 60000000; echo; echo last")
    link.take(EXITED)
    stat = guest.log_path.stat()
    assert stat.st_size > 60_000_000
    assert stat.st_blocks * 512 <= 17 * 1024 * 1024
    tail = guest.log()[-4 * 1024 * 1024:]
    assert cri_lines(tail[tail.index(b"\n") + 1:])[-1] == ("stdout", "F", b"last")


def test_terminal_of_the_command_goes_to_the_log(guest, link):
    link.start("sh", "-c", "tty; stty size", flags=TTY | LOG_STDOUT, size=(91, 17))
    link.take(EXITED)
    lines = cri_lines(guest.log())
    assert lines[0][2].startswith(b"/dev/pts/")
    assert lines[1][2] == b"17 91\r"


# Exec


def test_exec_tells_output_errors_and_code(link):
    assert link.run("sh", "-c", "echo out; echo err >&2; exit 3") == (b"out\n", b"err\n", 3, 0)
    assert link.run("sh", "-c", "kill -9 $$") == (b"", b"", 137, 9)


def test_exec_that_cannot_start_says_why(link):
    with pytest.raises(OSError, match='exec "nosuch": No such file or directory') as e:
        link.exec("nosuch")
    assert e.value.errno == 2
    with pytest.raises(OSError, match='chdir "/nosuch"'):
        link.exec("true", cwd="/nosuch")
    with pytest.raises(OSError):
        link.exec()
    assert link.run("true")[2] == 0


def test_exec_looks_up_path_of_its_own_environment(link, tmp_path):
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho tool $A\n")
    tool.chmod(0o755)
    assert link.run("tool", env=[f"PATH=/nosuch::{tool.parent}:/bin", "A=b"])[0] == b"tool b\n"
    with pytest.raises(OSError):
        link.exec("tool", env=["PATH=/bin"])


def test_exec_has_three_descriptors_and_clean_signals(link):
    out = link.run("sh", "-c", "ls -l /proc/self/fd | grep -c pipe; ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; umask")[0]
    # ls itself opens the directory: 0, 1, 2 and that one
    assert out.split() == [b"2", b"4", b"SigBlk:", b"0000000000000000", b"SigIgn:", b"0000000000000000", b"0022"]


def test_exec_starts_with_no_signal_blocked(link):
    """Asked of the program itself: a shell may unblock them for those that it starts."""
    assert link.run("grep", "SigBlk", "/proc/self/status")[0].split()[1] == b"0000000000000000"


def test_exec_takes_ids_groups_limits_and_capabilities(link):
    show = "id -u; id -g; id -G; ulimit -n; grep -E 'Cap' /proc/self/status"
    out = link.run("sh", "-c", show, uid=1234, gid=4321, groups=[7, 8], nofile=99)[0].split()
    assert out[:6] == [b"1234", b"4321", b"4321", b"7", b"8", b"99"]
    assert set(out[7::2]) == {b"0" * 16}
    out = link.run("sh", "-c", show, uid=1234, gid=4321, caps=1 << 10)[0].split()
    assert set(out[5::2]) == {b"0000000000000400"}
    out = link.run("sh", "-c", show, uid=0, gid=0)[0].split()
    assert set(out[5::2]) == {b"0" * 16}


def test_exec_reads_its_input_to_the_end(link):
    link.exec("cat", flags=STDIN_OPEN)
    link.send(STDIN, 1, b"hello ")
    link.send(STDIN, 1, b"world")
    link.send(STDIN, 1, b"")
    assert link.finish() == (b"hello world", b"", 0, 0)
    assert link.run("cat", stream=2) == (b"", b"", 0, 0)


def test_input_flows_by_credit_and_nothing_is_lost(link):
    link.exec("sh", "-c", "exec sha256sum", flags=STDIN_OPEN)
    data, sent, credit, digest = os.urandom(1 << 16), 0, WINDOW, hashlib.sha256()
    while sent < 8 << 20:
        while credit < len(data):
            credit += struct.unpack("<I", link.take(CREDIT, stream=1)[2])[0]
        link.send(STDIN, 1, data)
        digest.update(data)
        sent += len(data)
        credit -= len(data)
    link.send(STDIN, 1, b"")
    assert link.finish()[0].split()[0].decode() == digest.hexdigest()


def test_echo_of_much_input_does_not_lock_up(link):
    link.exec("cat", flags=STDIN_OPEN)
    data, sent, got, credit = b"x" * 65536, 0, 0, WINDOW
    while got < 4 << 20:
        if sent < 4 << 20 and credit >= len(data):
            link.send(STDIN, 1, data)
            sent, credit = sent + len(data), credit - len(data)
            continue
        kind, _, payload = link.take(STDOUT, CREDIT, stream=1)
        if kind == CREDIT:
            credit += struct.unpack("<I", payload)[0]
            continue
        got += len(payload)
        link.send(CREDIT, 1, struct.pack("<I", len(payload)))
    link.send(STDIN, 1, b"")
    assert link.finish()[2] == 0


def test_peer_that_ignores_credit_is_held_back_not_believed(guest, link):
    link.exec("sleep", "1000", flags=STDIN_OPEN)
    link.sock.settimeout(1)
    with pytest.raises(TimeoutError):
        for _ in range(200):
            link.send(STDIN, 1, b"x" * 65536)
    rss = pathlib.Path(f"/proc/{guest.pid()}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+)", rss)[1]) < 8192
    assert guest.link().run("true")[2] == 0


def test_output_stops_at_the_window_and_goes_on_with_credit(link):
    link.exec("sh", "-c", "head -c 1000000 /dev/zero")
    got = 0
    while got < WINDOW:
        got += len(link.take(STDOUT, stream=1)[2])
    assert got == WINDOW
    link.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        link.frame()
    link.sock.settimeout(20)
    link.send(CREDIT, 1, struct.pack("<I", 1 << 30))
    assert got + len(link.finish(credit=False)[0]) == 1000000


def test_output_of_an_ended_process_waits_for_credit_longer_than_the_drain(link):
    link.exec("sh", "-c", "head -c 300000 /dev/zero; exec true")
    got = 0
    while got < WINDOW:
        got += len(link.take(STDOUT, stream=1)[2])
    link.sock.settimeout(2.5)
    with pytest.raises(TimeoutError):
        link.frame()
    link.sock.settimeout(20)
    link.send(CREDIT, 1, struct.pack("<I", 1 << 20))
    assert got + len(link.finish(credit=False)[0]) == 300000


def test_process_left_behind_with_the_pipe_does_not_hang_the_exec(link):
    assert link.run("sh", "-c", "sleep 1000 & echo started")[0] == b"started\n"  # or the socket times out
    out = link.run("sh", "-c", "(while :; do echo noise; done) & echo first")[0]
    assert b"first\n" in out


def test_terminal_exec_echoes_resizes_and_ends(link):
    link.exec("sh", flags=TTY | STDIN_OPEN, env=[PATH, "PS1=$ "], size=(100, 40))
    link.send(STDIN, 1, b"stty size; tty; ps -o sess= -p $$ | tr -d ' '; echo $$\n")
    link.send(RESIZE, 1, struct.pack("<HH", 120, 50))
    link.send(STDIN, 1, b"stty size; exit 5\n")
    out, err, code, signum = link.finish()
    assert (code, signum, err) == (5, 0, b"")
    assert b"40 100\r\n" in out or b"50 120\r\n" in out
    assert b"50 120\r\n" in out
    assert b"/dev/pts/" in out


def test_terminal_belongs_to_its_user(link):
    out = link.run("sh", "-c", "stat -c %u $(tty); echo hi > $(tty)", flags=TTY, uid=1234, gid=1234)
    assert out[0] == b"1234\r\nhi\r\n"


def test_control_c_on_a_terminal_reaches_the_process(link):
    link.exec("sh", "-c", "echo up; exec sleep 1000", flags=TTY | STDIN_OPEN)
    assert link.take(STDOUT)[2] == b"up\r\n"
    link.send(STDIN, 1, b"\x03")
    assert link.finish()[2:] == (130, 2)


def test_signal_goes_to_the_group_of_an_exec(link):
    link.exec("sh", "-c", "sleep 1000 & wait")
    link.send(SIGNAL, 1, struct.pack("<I", signal.SIGKILL))
    assert link.finish()[2:] == (137, 9)


def test_signal_reaches_what_an_exec_has_started(link):
    link.exec("sh", "-c", "sleep 4003 & echo up; wait")
    link.take(STDOUT, stream=1)
    link.send(SIGNAL, 1, struct.pack("<I", signal.SIGKILL))
    link.finish()
    wait_for(lambda: link.run("pgrep", "-xf", "sleep 4003", stream=9)[2] == 1)


def test_closing_the_connection_kills_its_execs_and_no_others(guest, link):
    other = guest.link()
    other.exec("sleep", "4001")
    link.exec("sh", "-c", "sleep 4002 & sleep 4002", stream=1)
    link.exec("sleep", "4002", stream=2)
    link.close()
    wait_for(lambda: other.run("pgrep", "-xf", "sleep 4002", stream=9)[2] == 1)
    assert other.run("pgrep", "-xf", "sleep 4001", stream=9)[2] == 0


def test_many_execs_on_one_connection(link):
    for i in range(1, 201):
        link.exec("sh", "-c", f"echo {i}; exit {i}", stream=i)
    for i in range(1, 201):
        assert link.finish(stream=i) == (f"{i}\n".encode(), b"", i, 0)


def test_execs_are_limited(link):
    for i in range(1, 257):
        link.exec("sleep", "1000", stream=i)
    with pytest.raises(OSError, match="256"):
        link.exec("true", stream=300)
    link.send(SIGNAL, 1, struct.pack("<I", 9))
    link.finish(stream=1)
    assert link.run("true", stream=301)[2] == 0


def test_orphans_are_reaped(link):
    assert link.run("sh", "-c", "for i in 1 2 3 4 5; do (sleep 0 & exec true) & done; wait")[2] == 0
    wait_for(lambda: b"Z" not in link.run("ps", "-eo", "stat=", stream=7)[0])


def test_no_thread_is_made(guest, link):
    link.run("true")
    assert len(os.listdir(f"/proc/{guest.pid()}/task")) == 1


# Dial


def test_dial_carries_bytes_and_half_close(link):
    server = ("import socket; s=socket.create_server(('127.0.0.1', 7000)); print('up', flush=True); c,_=s.accept(); d=b''\n"
              "while (x := c.recv(4096)): d+=x\n"
              "c.sendall(d[::-1]); c.close()")
    link.exec("python3", "-c", server, stream=1)
    assert link.take(STDOUT, stream=1)[2] == b"up\n"
    link.send(DIAL, 2, struct.pack("<H", 7000))
    assert link.take(STARTED_OK, FAILED, stream=2)[0] == STARTED_OK
    link.send(STDIN, 2, b"abc")
    link.send(STDIN, 2, b"")
    out, _, code, _ = link.finish(stream=2)
    assert (out, code) == (b"cba", 0)


def test_dial_reaches_a_server_on_the_other_family(link):
    server = "import socket; s=socket.create_server(('::1', 7000), family=socket.AF_INET6); print('up', flush=True); c,_=s.accept(); c.sendall(b'six')"
    link.exec("python3", "-c", server, stream=1)
    link.take(STDOUT, stream=1)
    link.send(DIAL, 2, struct.pack("<H", 7000))
    assert link.take(STARTED_OK, FAILED, stream=2)[0] == STARTED_OK
    assert link.take(STDOUT, stream=2)[2] == b"six"


def test_dial_to_a_closed_port_fails(link):
    link.send(DIAL, 2, struct.pack("<H", 7001))
    payload = link.take(STARTED_OK, FAILED, stream=2)[2]
    assert struct.unpack("<I", payload[:4])[0] == 111
    assert b"Connection refused" in payload


# The runtime API


class Runtime:
    def __init__(self, guest, link, base, env=(), now=True, **kw):
        self.guest, self.base = guest, base
        kw.setdefault("uid", 1000)
        kw.setdefault("gid", 1000)
        os.chown(base, kw["uid"], kw["gid"])
        for p in [base, *base.parents][:4]:
            p.chmod(p.stat().st_mode | 0o055)
        link.start(flags=LOG_STDOUT | RUNTIME_HTTP | (RUNTIME_NOW if now else 0), port=PORT,
                   env=[PATH, f"SANDBOX_BASE_DIR={base}", *env], **kw)

    def ask(self, method, target, body=None, headers=None, **kw):
        conn = http.client.HTTPConnection("127.0.0.1", PORT)
        conn.sock = self.guest.tcp()
        conn.request(method, target, body, headers or {}, **kw)
        answer = conn.getresponse()
        data = answer.read()
        conn.close()
        return answer, data

    def get(self, target, headers=None):
        answer, data = self.ask("GET", target, headers=headers)
        return answer.status, json.loads(data)

    def execute(self, command, **more):
        answer, data = self.ask("POST", "/execute", json.dumps({"command": command, **more}),
                                {"Content-Type": "application/json"})
        return answer.status, json.loads(data)

    def upload(self, disposition, data=b"data", extra="", chunked=False):
        head = f"--XX\r\nContent-Disposition: form-data; {disposition}\r\n{extra}\r\n".encode()
        body = head + data + b"\r\n--XX--\r\n"
        headers = {"Content-Type": "multipart/form-data; boundary=XX"}
        if chunked:
            pieces = (body[i:i + 50_000] for i in range(0, len(body), 50_000))
            answer, got = self.ask("POST", "/upload", pieces, headers, encode_chunked=True)
        else:
            answer, got = self.ask("POST", "/upload", body, headers)
        return answer.status, json.loads(got)


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    path.mkdir()
    return path


@pytest.fixture
def rt(guest, link, base):
    return Runtime(guest, link, base)


DENIED = (403, {"message": "Access denied"})


def test_dataplane_1_health(rt):
    answer, data = rt.ask("GET", "/")
    assert answer.status == 200 and answer.getheader("Content-Type") == "application/json"
    assert json.loads(data) == {"status": "ok", "message": "Sandbox Runtime is active."}


def test_runtime_has_the_users_ids_and_no_privilege(rt):
    status, got = rt.execute("id -u; id -g; grep -E 'Cap|NoNew' /proc/self/status; ls /proc/self/fd | wc -l")
    out = got["stdout"].split()
    assert out[:2] == ["1000", "1000"]
    assert set(out[3:13:2]) == {"0" * 16}
    assert out[-1] == "4"
    # the serving process itself: parent of the shell
    got = rt.execute("grep -E '^(Uid|CapPrm|CapBnd|Threads)' /proc/$PPID/status; cat /proc/$PPID/environ; ls /proc/$PPID/fd")[1]
    assert "Uid:\t1000\t1000\t1000\t1000\nThreads:\t1\nCapPrm:\t0000000000000000\nCapBnd:\t0000000000000000" in got["stdout"]
    assert "Permission denied" in got["stderr"]


def test_dataplane_2_3_paths_are_relative_to_the_base(rt, base):
    (base / "a").mkdir()
    (base / "a/b.txt").write_bytes(b"x")
    assert rt.ask("GET", "/download/a/b.txt")[1] == b"x"
    assert rt.ask("GET", "/download/a%2Fb.txt")[1] == b"x"
    assert rt.get("/exists/%2F%2F%2Fa")[1] == {"path": "///a", "exists": True}


@pytest.mark.parametrize("path", ["..%2Fetc%2Fpasswd", "a%2F..%2F..%2Fetc", "%2F..%2Fetc%2Fpasswd",
                                  "..%2F..%2Fetc%2Fpasswd", ".."])
def test_dataplane_4_5_7_20_23_26_30_31_traversal_is_denied(rt, path):
    for route in ("download", "list", "exists"):
        assert rt.get(f"/{route}/{path}") == DENIED


def test_links_may_not_lead_outside(rt, base):
    (base / "in").mkdir()
    (base / "in/f").write_text("inside")
    (base / "abs_in").symlink_to(base / "in/f")
    (base / "rel_in").symlink_to("in/../in/f")
    (base / "abs_out").symlink_to("/etc/passwd")
    (base / "rel_out").symlink_to("../../../../../../../../etc/passwd")
    (base / "dir_out").symlink_to("/etc")
    (base / "loop").symlink_to("loop")
    assert rt.ask("GET", "/download/abs_in")[1] == b"inside"
    assert rt.ask("GET", "/download/rel_in")[1] == b"inside"
    for path in ("abs_out", "rel_out", "dir_out/passwd", "dir_out"):
        assert rt.get(f"/exists/{path}") == DENIED
        assert rt.get(f"/download/{path}") == DENIED
        assert rt.upload(f'name="file"; filename="{path}"') == DENIED
    assert rt.get("/exists/loop") == (200, {"path": "loop", "exists": False})
    assert pathlib.Path("/etc/passwd").read_text().startswith("root")


def test_dataplane_6_8_base_comes_from_the_environment_or_the_working_directory(guest, link, base):
    # "   " means the default; there is no /app here, so it is the command's directory
    rt = Runtime(guest, link, base, env=["SANDBOX_BASE_DIR=   "], cwd=str(base))
    link_env = rt.execute("pwd")[1]["stdout"]
    assert link_env == f"{base}\n"


def test_base_of_last_resort_is_writable(guest, link, tmp_path):
    link.start(flags=LOG_STDOUT | RUNTIME_HTTP | RUNTIME_NOW, port=PORT, env=[PATH], cwd=str(tmp_path), uid=1000,
               gid=1000)
    tmp_path.chmod(0o755)
    rt = Runtime.__new__(Runtime)
    rt.guest = guest
    where = rt.execute("pwd")[1]["stdout"].strip()
    assert os.path.isdir(where) and where != str(tmp_path)
    assert rt.execute("touch f && rm f")[1]["exit_code"] == 0


def test_dataplane_9_12_u29_execute_in_the_base_directory(rt, base):
    assert rt.execute("echo hello") == (200, {"stdout": "hello\n", "stderr": "", "exit_code": 0, "timed_out": False})
    assert rt.execute("pwd")[1]["stdout"] == f"{base}\n"
    session, own = rt.execute("ps -o sess= -p $$; echo $$")[1]["stdout"].split()
    assert session == own


def test_dataplane_10_limit_comes_from_the_environment(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_EXEC_TIMEOUT_SECONDS=0.5"])
    got = rt.execute("sleep 60")[1]
    assert (got["exit_code"], got["timed_out"]) == (124, True)
    assert got["stderr"] == "Command timed out after 0.5 seconds"


@pytest.mark.parametrize("limit", ["not-a-number", "nan", "inf", "-1", "0", ""])
def test_dataplane_11_bad_limit_means_the_default(guest, link, base, limit):
    rt = Runtime(guest, link, base, env=[f"SANDBOX_EXEC_TIMEOUT_SECONDS={limit}"])
    assert rt.execute("sleep 0.1; echo ok")[1]["stdout"] == "ok\n"


def test_dataplane_14_u30_unbalanced_quote_is_the_shells_business(rt):
    status, got = rt.execute("echo 'unterminated")
    assert status == 200 and got["exit_code"] == 2 and "nterminated" in got["stderr"]


def test_dataplane_9_14_27_words_instead_of_a_shell(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_EXECUTE_MODE=argv"])
    assert rt.execute("echo 'hello  world' \"a\\\"b\" c\\ d $HOME | x")[1]["stdout"] == 'hello  world a"b c d $HOME | x\n'
    got = rt.execute("echo 'unterminated")[1]
    assert (got["exit_code"], got["stderr"]) == (1, "Failed to execute command: No closing quotation")
    got = rt.execute("nosuch x")[1]
    assert got["stderr"] == "Failed to execute command: [Errno 2] No such file or directory: 'nosuch'"
    assert rt.execute("")[1]["exit_code"] == 1


def test_dataplane_27_quotes_are_removed(rt):
    assert rt.execute("echo 'hello world'")[1]["stdout"] == "hello world\n"


def test_u26_execute_runs_a_shell(rt):
    got = rt.execute("mkdir -p a && echo hi > a/f && cat a/f | tr h H")[1]
    assert (got["stdout"], got["exit_code"]) == ("Hi\n", 0)


def test_dataplane_13_u27_timeout_kills_the_group_and_keeps_output(rt):
    before = time.monotonic()
    status, got = rt.execute("echo x; sleep 4711 & sleep 4711", timeout_seconds=1)
    assert time.monotonic() - before < 100  # not 4711
    assert (status, got["exit_code"], got["timed_out"], got["stdout"]) == (200, 124, True, "x\n")
    assert got["stderr"].endswith("Command timed out after 1 seconds")
    wait_for(lambda: rt.execute("pgrep -xf 'sleep 4711'")[1]["exit_code"] == 1)
    got = rt.execute("printf oops >&2; sleep 60", timeout_seconds=0.25)[1]
    assert got["stderr"] == "oops\nCommand timed out after 0.25 seconds"


@pytest.mark.parametrize("body", ['{"command":"true","timeout_seconds":0}', '{"command":"true","timeout_seconds":-1}',
                                  '{"command":"true","timeout_seconds":"x"}', '{"command":"true","timeout_seconds":NaN}',
                                  '{"command":"true","timeout_seconds":1e999}', '{"command":1}', "{}", "[]", '"x"',
                                  "nonsense", "", '{"command":"a\\u0000b"}'])
def test_u28_bad_request_bodies_are_422(rt, body):
    answer, data = rt.ask("POST", "/execute", body, {"Content-Type": "application/json"})
    assert answer.status == 422
    detail = json.loads(data)["detail"][0]
    assert detail["loc"][0] == "body" and {"type", "msg", "input"} <= detail.keys()


def test_u28_server_limit_is_the_upper_one(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_EXEC_TIMEOUT_SECONDS=0.5"])
    assert rt.execute("sleep 60", timeout_seconds=1000)[1]["stderr"].endswith("after 0.5 seconds")


def test_execute_tells_codes_and_signals(rt):
    assert rt.execute("exit 3")[1]["exit_code"] == 3
    assert rt.execute("kill -9 $$")[1]["exit_code"] == -9
    assert rt.execute("nosuch")[1]["exit_code"] == 127


def test_execute_output_is_valid_json_whatever_it_is(rt):
    got = rt.execute(r"printf 'a\377b\r\nc\rd\001\042\\ \303\244\342\202'; printf '\360\237\217\235' >&2")[1]
    assert got["stdout"] == 'a\ufffdb\nc\nd\x01"\\ ä\ufffd\ufffd'
    assert got["stderr"] == "🏝"


def test_execute_large_output_comes_whole_and_too_large_is_cut_aloud(rt):
    got = rt.execute("head -c 10000000 /dev/zero | tr '\\0' '\\n'")[1]
    assert got["stdout"] == "\n" * 10_000_000 and got["stderr"] == ""
    got = rt.execute("head -c 20000000 /dev/zero | tr '\\0' y")[1]
    assert len(got["stdout"]) == 16 << 20
    assert got["stderr"] == f"[stdout cut: {20_000_000 - (16 << 20)} bytes more than can be kept]\n"
    assert got["exit_code"] == 0


def test_execute_input_is_empty_and_background_processes_do_not_hold_it(rt):
    before = time.monotonic()
    assert rt.execute("cat; sleep 1000 & echo ok")[1]["stdout"] == "ok\n"
    assert time.monotonic() - before < 100  # not 1000


def test_slow_command_blocks_nobody_and_outlives_its_caller(rt, base):
    sock = rt.guest.tcp()
    body = json.dumps({"command": "echo up > up; while [ ! -e go ]; do sleep 0.02; done; echo done > done"})
    sock.sendall(f"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    wait_for((base / "up").exists)
    assert rt.get("/")[0] == 200
    assert rt.get("/exists/up")[1]["exists"]
    sock.close()
    assert rt.get("/")[0] == 200
    (base / "go").touch()
    wait_for((base / "done").exists)


def test_dataplane_15_18_32_upload_download_remove(rt, base):
    status, got = rt.upload('name="file"; filename="uploaded.txt"', b"some bytes\r\n--X\r\n")
    assert (status, got) == (200, {"message": "File 'uploaded.txt' uploaded successfully."})
    assert (base / "uploaded.txt").read_bytes() == b"some bytes\r\n--X\r\n"
    assert (base / "uploaded.txt").stat().st_uid == 1000
    answer, data = rt.ask("GET", "/download/uploaded.txt")
    assert (answer.status, data) == (200, b"some bytes\r\n--X\r\n")
    assert answer.getheader("Content-Type") == "application/octet-stream"
    assert answer.getheader("Content-Length") == "17"
    assert answer.getheader("Accept-Ranges") == "bytes"
    assert answer.getheader("ETag") and answer.getheader("Last-Modified").endswith("GMT")
    assert answer.getheader("Content-Disposition") == 'attachment; filename="uploaded.txt"'
    assert rt.execute("rm uploaded.txt")[1]["exit_code"] == 0
    assert rt.get("/exists/uploaded.txt")[1] == {"path": "uploaded.txt", "exists": False}


def test_dataplane_16_upload_makes_directories_and_overwrites(rt, base):
    assert rt.upload('name="file"; filename="nested/dir/uploaded.txt"', b"long content")[0] == 200
    assert rt.upload('name="file"; filename="/nested/dir/uploaded.txt"', b"short")[0] == 200
    assert (base / "nested/dir/uploaded.txt").read_bytes() == b"short"
    assert rt.upload('name="file"; filename="empty"', b"")[0] == 200
    assert (base / "empty").read_bytes() == b""


@pytest.mark.parametrize("name", ["../evil.txt", "../../evil", "a/../../evil"])
def test_dataplane_17_34_upload_traversal_is_denied(rt, base, name):
    assert rt.upload(f'name="file"; filename="{name}"') == DENIED
    assert not (base.parent / "evil").exists() and not (base.parent / "evil.txt").exists()


def test_upload_to_a_directory_fails_with_a_reason(rt, base):
    (base / "d").mkdir()
    status, got = rt.upload('name="file"; filename="d"')
    assert status == 500 and got["message"].startswith("File upload failed: ")
    os.mkfifo(base / "pipe", 0o666)
    assert rt.upload('name="file"; filename="pipe"')[0] == 500


@pytest.mark.parametrize("disposition,name", [
    ('name="file"; filename="x y.txt"', "x y.txt"), ("name=file; filename=bare.txt", "bare.txt"),
    ('name="file"; filename="ä€🏝.txt"', "ä€🏝.txt"), ("name=\"file\"; filename*=utf-8''%C3%A4%20b", "ä b"),
    ("name=\"file\"; filename=\"other\"; filename*=UTF-8''real", "real"), ('name="file"; filename="q%22q"', 'q"q'),
    ('name="file"; filename="q\\"q"', 'q"q'), ('name="file"; filename="b\\\\s"', "b\\s"),
    ('name="file"; filename="100%41"', "100%41"),
])
def test_upload_filenames_of_every_client(rt, base, disposition, name):
    assert rt.upload(disposition) == (200, {"message": f"File '{name}' uploaded successfully."})
    assert (base / name).read_bytes() == b"data"


def test_upload_without_a_file_is_422(rt):
    assert rt.upload('name="other"; filename="x"')[0] == 422
    assert rt.upload('name="file"')[0] == 422
    answer, data = rt.ask("POST", "/upload", b"{}", {"Content-Type": "application/json"})
    assert answer.status == 422 and json.loads(data)["detail"][0]["loc"] == ["body", "file"]
    answer, _ = rt.ask("POST", "/upload", b"--XX\r\nno end", {"Content-Type": "multipart/form-data; boundary=XX"})
    assert answer.status == 400


def test_u31_chunked_upload_of_8_mib(rt, base):
    data = os.urandom(8 << 20)
    assert rt.upload('name="file"; filename="big"', data, chunked=True)[0] == 200
    assert (base / "big").read_bytes() == data
    assert rt.ask("GET", "/download/big")[1] == data


def test_upload_and_download_keep_memory_small(rt, base):
    with open(base / "sparse", "wb") as f:
        f.truncate(200 << 20)
    assert len(rt.ask("GET", "/download/sparse")[1]) == 200 << 20
    assert rt.upload('name="file"; filename="big"', bytes(64 << 20))[0] == 200
    got = rt.execute("grep VmHWM /proc/$PPID/status")[1]["stdout"]
    assert int(got.split()[1]) < 6144


def test_dataplane_19_download_of_nothing_is_404(rt, base):
    (base / "d").mkdir()
    os.mkfifo(base / "pipe")
    for path in ("missing", "d", "", "pipe", "d/missing/x", "x" * 300):
        assert rt.get(f"/download/{path}") == (404, {"message": "File not found"})


@pytest.mark.parametrize("asked,status,content,range_", [
    ("bytes=2-5", 206, b"2345", "bytes 2-5/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"),
    ("bytes=-3", 206, b"789", "bytes 7-9/10"), ("bytes=-30", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=0-99", 206, b"0123456789", "bytes 0-9/10"), ("bytes=10-", 416, b"", "bytes */10"),
    ("bytes=-0", 416, b"", "bytes */10"), ("bytes=5-2", 200, b"0123456789", None),
    ("bytes=0-1,3-4", 200, b"0123456789", None), ("items=0-1", 200, b"0123456789", None),
    ("bytes=x", 200, b"0123456789", None), ("bytes=99999999999999999999999-", 200, b"0123456789", None),
])
def test_download_ranges(rt, base, asked, status, content, range_):
    (base / "f").write_bytes(b"0123456789")
    answer, data = rt.ask("GET", "/download/f", headers={"Range": asked})
    assert (answer.status, data, answer.getheader("Content-Range")) == (status, content, range_)


def test_download_if_range(rt, base):
    (base / "f").write_bytes(b"0123456789")
    etag = rt.ask("GET", "/download/f")[0].getheader("ETag")
    assert rt.ask("GET", "/download/f", headers={"Range": "bytes=1-2", "If-Range": etag})[1] == b"12"
    assert rt.ask("GET", "/download/f", headers={"Range": "bytes=1-2", "If-Range": '"old"'})[0].status == 200


def test_download_disposition_of_odd_names(rt, base):
    (base / "d").mkdir()
    (base / "d/ä b").write_bytes(b"x")
    answer, _ = rt.ask("GET", "/download/d%2F%C3%A4%20b")
    assert answer.getheader("Content-Disposition") == "attachment; filename*=utf-8''%C3%A4%20b"


def test_dataplane_21_u33_list_tells_name_size_type_time(rt, base):
    (base / "sub").mkdir()
    (base / "f").write_bytes(b"12345")
    (base / "dangling").symlink_to("nowhere")
    (base / "to_sub").symlink_to("sub")
    status, got = rt.get("/list/")
    by_name = {e["name"]: e for e in got}
    assert status == 200 and by_name.keys() == {"sub", "f", "dangling", "to_sub"}
    assert by_name["f"]["size"] == 5 and by_name["f"]["type"] == "file"
    assert abs(by_name["f"]["mod_time"] - (base / "f").stat().st_mtime) < 0.001
    assert by_name["sub"]["type"] == by_name["to_sub"]["type"] == "directory"
    assert all(isinstance(e["mod_time"], float) for e in got)
    assert rt.get("/list/sub") == (200, [])


def test_list_of_many_entries_comes_whole(rt, base):
    (base / "many").mkdir()
    for i in range(5000):
        (base / "many" / f"{i:0100d}").touch()
    got = rt.get("/list/many")[1]
    assert sorted(e["name"] for e in got) == [f"{i:0100d}" for i in range(5000)]


def test_dataplane_22_list_of_no_directory_is_404(rt, base):
    (base / "f").touch()
    assert rt.get("/list/f") == (404, {"message": "Path is not a directory"})
    assert rt.get("/list/missing") == (404, {"message": "Path is not a directory"})


def test_dataplane_24_25_exists(rt, base):
    (base / "present.txt").touch()
    assert rt.get("/exists/present.txt") == (200, {"path": "present.txt", "exists": True})
    assert rt.get("/exists/absent.txt") == (200, {"path": "absent.txt", "exists": False})


def test_dataplane_28_29_u32_base_with_and_without_slash(rt, base):
    (base / "f").touch()
    for target in ("/list", "/list/", "/list/%2E", "/list/."):
        status, got = rt.get(target)
        assert status == 200 and [e["name"] for e in got] == ["f"]
    assert rt.get("/exists") == (200, {"path": "", "exists": True})
    assert rt.get("/exists/") == (200, {"path": "", "exists": True})
    assert rt.get("/exists/%2E") == (200, {"path": ".", "exists": True})


def test_u34_paths_are_decoded_once(rt, base):
    (base / "%41").write_bytes(b"percent")
    (base / "A").write_bytes(b"letter")
    assert rt.ask("GET", "/download/%2541")[1] == b"percent"
    assert rt.ask("GET", "/download/%41")[1] == b"letter"


def test_unknown_paths_and_methods(rt):
    assert rt.get("/nosuch") == (404, {"detail": "Not Found"})
    assert rt.get("/download") == (404, {"detail": "Not Found"})
    assert rt.get("/executes") == (404, {"detail": "Not Found"})
    for method, target, allow in (("POST", "/", "GET"), ("GET", "/execute", "POST"), ("OPTIONS", "/list/", "GET"),
                                  ("HEAD", "/", "GET"), ("DELETE", "/download/x", "GET")):
        answer, data = rt.ask(method, target)
        assert (answer.status, answer.getheader("Allow")) == (405, allow)
        if method != "HEAD":
            assert json.loads(data) == {"detail": "Method Not Allowed"}
    assert rt.ask("GET", "/exists/%00")[0].status == 400
    assert rt.ask("GET", "/exists/%zz")[0].status == 400


def test_runtime_leaves_a_taken_port_alone(guest, link, base):
    server = "import socket; s=socket.create_server(('', 8888)); print('up', flush=True); c,_=s.accept(); c.sendall(b'mine')"
    link.exec("python3", "-c", server, stream=5)
    link.take(STDOUT, stream=5)
    Runtime(guest, link, base)
    assert guest.tcp().recv(10) == b"mine"


def test_runtime_comes_a_second_later_when_the_command_does_not_listen(guest, link, base):
    rt = Runtime(guest, link, base, now=False)
    with pytest.raises(ConnectionRefusedError):
        guest.tcp()

    def listens():
        try:
            return rt.get("/")[0] == 200
        except ConnectionRefusedError:
            return False
    wait_for(listens)


def test_runtime_is_started_again_when_it_dies(rt):
    first = rt.execute("echo $PPID")[1]["stdout"]
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        rt.execute("kill -9 $PPID; sleep 1")
    second = rt.execute("echo $PPID")[1]["stdout"]
    assert first != second


def test_runtime_keeps_connections_open(rt):
    conn = http.client.HTTPConnection("127.0.0.1", PORT)
    conn.sock = rt.guest.tcp()
    for _ in range(3):
        conn.request("GET", "/")
        assert conn.getresponse().read().startswith(b'{"status"')
        conn.request("POST", "/execute", json.dumps({"command": "echo hi"}))
        assert json.loads(conn.getresponse().read())["stdout"] == "hi\n"
    conn.close()
