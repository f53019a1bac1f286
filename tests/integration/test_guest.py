# SPDX-License-Identifier: Apache-2.0
"""cay-init alone, as pid 1 of namespaces made by unshare(1): frames on its private socket, and the log file."""

import hashlib
import os
import pathlib
import re
import select
import signal
import struct
import time

import pytest

from cay_local import wait_until
from guest_kit import (  # noqa: F401: fixtures
    CREDIT, DIAL, EXEC, EXITED, FAILED, LOG_STDOUT, PATH, READY, RESIZE, SIGNAL, START, STARTED_OK, STATUS, STDERR, STDIN,
    STDIN_ONCE, STDIN_OPEN, STDOUT, TTY, WINDOW, cri_lines, guest, link, packed_start)

TELLS_BUSY = 2  # it may be asked how many commands its runtime runs
LOG_MAX = 20 * 1024 * 1024  # cay-init's own limit when nobody says otherwise


# The private socket


def test_hello_is_answered_with_version_and_state(guest):
    link = guest.link()
    assert (link.version, link.flags) == (1, TELLS_BUSY)
    link.start()
    assert guest.link().flags == 1 | TELLS_BUSY


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
    assert again.flags == 1 | TELLS_BUSY
    assert again.state()[:2] == (1, 0)
    again.send(SIGNAL, 0, struct.pack("<I", signal.SIGTERM))
    assert struct.unpack("<IIB", again.take(EXITED)[2]) == (143, 15, 0)


def test_signal_to_pid_one_goes_to_the_commands_group(guest, link):
    link.start("sh", "-c", "trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    wait_until(lambda: b"up" in guest.log())
    os.kill(guest.pid(), signal.SIGTERM)
    assert struct.unpack("<IIB", link.take(EXITED)[2])[0] == 3
    # A shell may add that its sleep, which is in the group too, was terminated.
    assert ("stdout", "F", b"got") in cri_lines(guest.log())


def test_asked_to_end_it_ends_with_its_command_where_no_node_is_connected(guest, link):
    """As at the end of the machine, after the daemon."""
    link.start("sh", "-c", "trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    wait_until(lambda: b"up" in guest.log())
    link.close()
    os.kill(guest.pid(), signal.SIGTERM)
    wait_until(lambda: guest.proc.poll() is not None)
    assert ("stdout", "F", b"got") in cri_lines(guest.log())


def test_the_end_of_the_command_alone_does_not_end_it(guest, link):
    link.start("true")
    link.take(EXITED)
    link.close()
    assert guest.link().state()[:2] == (1, 1)


def test_second_start_is_refused(link):
    link.start()
    link.send(START, 0, packed_start(["true"]))
    assert b"second time" in link.take(FAILED)[2]


def test_command_that_is_not_there_fails_the_start_and_may_be_tried_again(link):
    for argv, cwd, text in ((["nosuch"], "/", 'exec "nosuch": No such file or directory'),
                            (["/etc/passwd"], "/", 'exec "/etc/passwd": Permission denied'),
                            (["true"], "/proc/no/dir", 'chdir "/proc/no/dir": No such file or directory')):
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
    link.start("sh", "-c", "yes $(printf %01000d 7) | head -c 60000000; echo; echo last")
    link.take(EXITED)
    stat = guest.log_path.stat()
    assert stat.st_size > 60_000_000
    assert stat.st_blocks * 512 <= LOG_MAX + 64 * 1024
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
    none, some = b"0" * 16, b"0000000000000400"
    out = link.run("sh", "-c", show, uid=1234, gid=4321, caps=1 << 10)[0].split()
    assert out[5::2] == [none, none, none, some, none], "inheritable, permitted, effective, bounding, ambient"
    out = link.run("sh", "-c", show, uid=0, gid=0, caps=1 << 10)[0].split()
    assert out[5::2] == [none, some, some, some, none]
    out = link.run("sh", "-c", show, uid=0, gid=0)[0].split()
    assert set(out[5::2]) == {none}


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
    wait_until(lambda: link.run("pgrep", "-xf", "sleep 4003", stream=9)[2] == 1)


def test_closing_the_connection_kills_its_execs_and_no_others(guest, link):
    other = guest.link()
    other.exec("sleep", "4001")
    link.exec("sh", "-c", "sleep 4002 & sleep 4002", stream=1)
    link.exec("sleep", "4002", stream=2)
    link.close()
    wait_until(lambda: other.run("pgrep", "-xf", "sleep 4002", stream=9)[2] == 1)
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
    wait_until(lambda: b"Z" not in link.run("ps", "-eo", "stat=", stream=7)[0])


def test_no_thread_is_made(guest, link):
    link.run("true")
    assert len(os.listdir(f"/proc/{guest.pid()}/task")) == 1


# Dial


def test_attach_reaches_the_input_and_output_of_the_command(guest, link):
    with pytest.raises(OSError, match="does not run"):
        link.attach()
    link.start("sh", "-c", "while read x; do echo out $x; echo err $x >&2; done; exit 7", flags=LOG_STDOUT | STDIN_OPEN | STDIN_ONCE)
    other = guest.link()
    other.attach()
    link.attach(stream=2, flags=STDIN_OPEN)
    link.send(STDIN, 2, b"one\n")
    assert {link.take(STDOUT, STDERR, stream=2)[2] for _ in range(2)} == {b"out one\n", b"err one\n"}
    other.close()  # it had no input: nothing of it ends
    link.send(STDIN, 2, b"two\n")
    link.send(STDIN, 2, b"")
    out, err, code, _ = link.finish(2)
    assert (out, err, code) == (b"out two\n", b"err two\n", 7)


@pytest.mark.parametrize("turn", range(6))  # the other order shows in one of three
def test_who_is_attached_hears_of_the_exit_before_the_node_that_kills_the_sandbox_for_it(guest, link, turn):
    link.start("sh", "-c", "read x", flags=LOG_STDOUT | STDIN_OPEN | STDIN_ONCE)
    attached = [guest.link() for _ in range(200)]
    for one in attached:
        one.attach(flags=STDIN_OPEN)
    attached[0].send(STDIN, 1, b"go\n")
    link.frame()  # the first that hears
    unheard = [one for one in reversed(attached) if not select.select([one.sock], [], [], 0)[0]]
    assert not unheard
    assert [one.finish()[2] for one in attached] == [0] * 200


def test_input_goes_on_after_the_first_that_was_attached_has_left(guest, link):
    link.start("cat", flags=LOG_STDOUT | STDIN_OPEN)
    for text in (b"first\n", b"second\n"):
        one = guest.link()
        one.attach(flags=STDIN_OPEN)
        one.send(STDIN, 1, text)
        assert one.take(STDOUT)[2] == text
        one.send(STDIN, 1, b"")
        one.close()


def test_attach_that_does_not_keep_up_ends_and_holds_nobody_up(guest, link):
    link.start("sh", "-c", "read x; head -c 3000000 /dev/zero | tr '\\0' 'a' | fold; echo done", flags=LOG_STDOUT | STDIN_OPEN)
    slow = guest.link()
    slow.attach(flags=STDIN_OPEN)
    slow.send(STDIN, 1, b"go\n")
    out, _, code, _ = slow.finish(credit=False)
    assert len(out) <= WINDOW and code == 0
    wait_until(lambda: link.state()[1] == 1)  # all of it is in the log


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
