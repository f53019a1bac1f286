# SPDX-License-Identifier: Apache-2.0
"""/v1/processes of the runtime: processes that outlive the request that started them."""

import http.client
import json
import struct
import threading
import time

import pytest

from cay_local import wait_until
from guest_kit import ASK_BUSY, BUSY, guest, link  # noqa: F401: fixtures
from runtime_kit import Runtime, base, bytes_of, read_events, rt  # noqa: F401: fixtures


class Processes:
    def __init__(self, rt):
        self.rt = rt

    def ask(self, method, tail="", body=None, headers=None):
        answer, data = self.rt.ask(method, "/v1/processes" + tail, body, headers)
        return answer.status, json.loads(data) if data.startswith(b"{") else data

    def start(self, **wish):
        status, got = self.ask("POST", body=json.dumps(wish))
        assert status == 201, got
        return got["id"]

    def get(self, id):
        return self.ask("GET", f"/{id}")[1]

    def ended(self, id):
        wait_until(lambda: self.get(id)["state"] == "exited")
        return self.get(id)

    def open(self, id, query="", headers=None):
        """A reader: the answer, of which read_events() makes events."""
        conn = http.client.HTTPConnection("127.0.0.1")
        conn.sock = self.rt.guest.tcp()
        conn.request("GET", f"/v1/processes/{id}/output{query}", headers=headers or {})
        answer = conn.getresponse()
        assert answer.status == 200 and answer.getheader("Content-Type") == "text/event-stream"
        answer.connection = conn
        return answer

    def output(self, id, query="", headers=None):
        """{channel: bytes}, the exit event, and the offsets of drops."""
        out, end, dropped = {"stdout": b"", "stderr": b""}, None, []
        for event, _, data in read_events(self.open(id, query, headers)):
            if event == "exit":
                end = data
            elif event == "dropped":
                dropped.append((data["from"], data["to"]))
            else:
                out[event] += bytes_of(data)
        return out, end, dropped


@pytest.fixture
def ps(rt):
    return Processes(rt)


def test_a_process_runs_on_and_is_told_of(ps, base):
    assert ps.ask("GET") == (200, {"processes": []})
    (base / "sub").mkdir()
    id = ps.start(argv=["sh", "-c", "echo $A; pwd; echo err >&2; exit 3"], env={"A": "x"}, cwd="sub", background=True)
    assert id == 1
    got = ps.ended(id)
    assert (got["exit_code"], got["signal"], got["timed_out"], got["argv"][0]) == (3, 0, False, "sh")
    assert got["output_bytes"] == len(f"x\n{base}/sub\nerr\n")
    out, end, dropped = ps.output(id)
    assert out == {"stdout": f"x\n{base}/sub\n".encode(), "stderr": b"err\n"} and not dropped
    assert end == {"exit_code": 3, "signal": 0, "timed_out": False}
    assert ps.start(command="echo $((6 * 7)) | cat", background=True) == 2
    assert ps.output(2)[0]["stdout"] == b"42\n"
    assert [p["id"] for p in ps.ask("GET")[1]["processes"]] == [1, 2]
    assert ps.ask("DELETE", "/1") == (204, b"")
    assert ps.ask("DELETE", "/1")[0] == ps.ask("GET", "/1")[0] == ps.ask("GET", "/1/output")[0] == 404
    assert ps.start(command="true") == 3  # no number is given twice


def test_a_killed_process_has_the_code_of_a_shell(ps):
    id = ps.start(command="sleep 4720", background=True)
    assert ps.ask("POST", f"/{id}/signal", '{"signal": "TERM"}')[0] == 204
    got = ps.ended(id)
    assert (got["exit_code"], got["signal"]) == (143, 15)
    assert ps.ask("POST", f"/{id}/signal", '{"signal": 9}')[0] == 204  # it has ended: nothing to do
    id = ps.start(command="sleep 4721", background=True, timeout_seconds=0.2)
    got = ps.ended(id)
    assert (got["exit_code"], got["timed_out"]) == (137, True)


@pytest.mark.parametrize("wish", [
    {}, [], {"argv": []}, {"argv": [1]}, {"argv": "x"}, {"command": 1}, {"command": "a", "argv": ["b"]}, {"command": None},
    {"command": "a", "env": {"A": 1}}, {"command": "a", "pty": {}}, {"command": "a", "pty": {"cols": 0, "rows": 1}},
    {"command": "a", "pty": True}, {"command": "a", "stdin": "text"}, {"command": "a", "background": 1},
    {"command": "a", "timeout_seconds": 0}, "nonsense"])
def test_wrong_wishes_are_400(ps, wish):
    status, got = ps.ask("POST", body=wish if wish == "nonsense" else json.dumps(wish))
    assert (status, got["code"]) == (400, "INVALID_ARGUMENT"), got


def test_what_cannot_start_says_why(ps, base):
    assert ps.ask("POST", body='{"argv":["nosuch"]}')[0] == 404
    assert ps.ask("POST", body='{"argv":["true"],"cwd":".."}')[1]["code"] == "PERMISSION_DENIED"
    assert ps.ask("POST", body='{"argv":["true"],"cwd":"absent"}')[1]["code"] == "NOT_FOUND"
    (base / "f").touch(0o644)
    assert ps.ask("POST", body='{"argv":["./f"]}')[0] == 403
    assert ps.ask("GET") == (200, {"processes": []})
    assert ps.ask("PUT")[0] == 405 and ps.ask("GET", "/1/nosuch")[0] == 404 and ps.ask("GET", "/x")[0] == 404
    assert ps.ask("POST", "/1/output")[0] == 405


def test_input_is_written_and_ended(ps):
    id = ps.start(argv=["cat"], stdin=True, background=True)
    much = bytes(range(256)) * 4000
    assert ps.get(id)["stdin_open"]
    got = {}
    reader = threading.Thread(target=lambda: got.update(out=ps.output(id)))
    reader.start()
    assert ps.ask("POST", f"/{id}/stdin", b"one") == (204, b"")
    assert ps.ask("POST", f"/{id}/stdin", much) == (204, b"")
    assert ps.ask("POST", f"/{id}/stdin?eof=true", b"two") == (204, b"")
    reader.join()
    assert got["out"][0]["stdout"] == b"one" + much + b"two" and got["out"][1]["exit_code"] == 0
    assert ps.ask("POST", f"/{id}/stdin", b"late")[1]["code"] == "CONFLICT"
    id = ps.start(argv=["true"], background=True)
    assert ps.ask("POST", f"/{id}/stdin", b"x")[1]["code"] == "CONFLICT"  # it was not asked for


def test_input_that_is_not_read_is_held_back(ps, rt):
    runtime = rt.execute("echo $PPID")[1]["stdout"].strip()
    id = ps.start(command="sleep 4722 & sleep 4722", stdin=True, background=True)
    conn = http.client.HTTPConnection("127.0.0.1")
    conn.sock = rt.guest.tcp()
    conn.sock.settimeout(1)
    conn.putrequest("POST", f"/v1/processes/{id}/stdin")
    conn.putheader("Content-Length", str(1 << 30))
    conn.endheaders()
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 1 << 30:
            conn.send(b"x" * 65536)
            sent += 65536
    assert sent < 32 << 20  # the buffers of two sockets and a pipe
    assert int(rt.execute(f"grep VmHWM /proc/{runtime}/status")[1]["stdout"].split()[1]) < 8192
    assert ps.ask("DELETE", f"/{id}")[0] == 204
    wait_until(lambda: rt.execute("pgrep -f '^sleep 4722'")[1]["exit_code"] == 1)


def test_a_terminal_has_its_size_from_the_start_and_can_be_resized(ps):
    id = ps.start(command="stty size; read x; stty size; tty; echo got $x", pty={"cols": 91, "rows": 33}, background=True)
    reader = read_events(ps.open(id))
    assert bytes_of(next(reader)[2]).startswith(b"33 91")
    assert ps.ask("POST", f"/{id}/resize", '{"cols": 100, "rows": 50}')[0] == 204
    assert ps.ask("POST", f"/{id}/stdin", b"hello\n")[0] == 204
    rest = b"".join(bytes_of(d) for e, _, d in reader if e != "exit")
    assert b"50 100\r\n/dev/pts/" in rest and b"got hello\r\n" in rest
    id = ps.start(argv=["cat"], pty={"cols": 80, "rows": 24}, background=True)
    assert ps.ask("POST", f"/{id}/stdin?eof=true", b"x\n")[0] == 204
    assert ps.output(id)[1]["exit_code"] == 0
    id = ps.start(command="sleep 4723", background=True)
    assert ps.ask("POST", f"/{id}/resize", '{"cols": 1, "rows": 1}')[1]["code"] == "CONFLICT"
    assert ps.ask("POST", f"/{id}/resize", '{"cols": 0, "rows": 1}')[0] == 400


def test_readers_resume_and_are_told_what_was_lost(guest, link, base):
    ps = Processes(Runtime(guest, link, base, env=["SANDBOX_PROCESS_RING_BYTES=100000"]))
    id = ps.start(command="echo begin; while [ ! -e go ]; do sleep 0.02; done; seq 1000000", background=True)
    reader = ps.open(id)
    event, offset, data = next(read_events(reader))
    assert (event, offset, data) == ("stdout", "6", {"text": "begin\n"})
    reader.connection.sock.close()
    reader.close()
    (base / "go").touch()
    whole = b"begin\n" + b"".join(b"%d\n" % i for i in range(1, 1_000_001))
    assert ps.ended(id)["output_bytes"] == len(whole)
    out, end, dropped = ps.output(id, headers={"Last-Event-ID": offset})
    (lost,) = dropped
    assert lost[0] == 6 and 80_000 < len(whole) - lost[1] <= 100_000
    assert out["stdout"] == whole[lost[1]:]
    at = lost[1] + 5000
    assert ps.output(id, f"?from={at}")[0]["stdout"] == whole[at:]
    assert ps.output(id, f"?from={len(whole)}")[0]["stdout"] == b""
    assert ps.ask("GET", f"/{id}/output?from=x")[0] == 400


def test_several_readers_have_the_same_and_a_slow_one_holds_nobody_up(ps, rt):
    runtime = rt.execute("echo $PPID")[1]["stdout"].strip()
    id = ps.start(command="head -c 30000000 /dev/zero | tr '\\0' y", background=True)
    slow = ps.open(id)
    assert ps.ended(id)["exit_code"] == 0
    events = list(read_events(slow))
    assert events[-1][0] == "exit" and any(e == "dropped" for e, _, _ in events)
    kept = sum(len(d["text"]) for e, _, d in events if e == "stdout")
    lost = sum(d["to"] - d["from"] for e, _, d in events if e == "dropped")
    assert kept + lost == 30_000_000
    assert int(rt.execute(f"grep VmHWM /proc/{runtime}/status")[1]["stdout"].split()[1]) < 8192
    id = ps.start(command="while [ ! -e go ]; do sleep 0.02; done; seq 10000", background=True)
    readers = [ps.open(id) for _ in range(3)]
    rt.execute("touch go")
    got = [b"".join(bytes_of(d) for e, _, d in read_events(r) if e == "stdout") for r in readers]
    assert got == [b"".join(b"%d\n" % i for i in range(1, 10001))] * 3


def test_a_process_that_nobody_reads_ends_unless_it_is_in_the_background(guest, link, base):
    ps = Processes(Runtime(guest, link, base, env=["SANDBOX_REATTACH_SECONDS=1"]))
    kept = ps.start(command="sleep 4724", background=True)
    read = ps.start(command="sleep 4725")
    reader = ps.open(read)
    left = ps.start(command="sleep 4726")
    assert ps.ended(left)["signal"] == 9
    assert ps.get(kept)["state"] == ps.get(read)["state"] == "running"
    reader.connection.sock.close()
    reader.close()
    assert ps.ended(read)["signal"] == 9
    assert ps.get(kept)["state"] == "running"


def test_processes_are_limited_and_ended_ones_make_room(ps):
    first = ps.start(command="true", background=True)
    ps.ended(first)
    ids = [ps.start(command="sleep 4727", background=True) for _ in range(63)]
    assert ids[-1] == 64
    assert ps.start(command="sleep 4727", background=True) == 65  # the first has made room
    assert ps.ask("GET", f"/{first}")[0] == 404
    status, got = ps.ask("POST", body='{"command":"true"}')
    assert (status, got["code"]) == (503, "UNAVAILABLE")
    ps.ask("DELETE", "/2")
    assert ps.start(command="true") == 66


def test_no_process_is_held_by_what_it_left_behind(ps):
    before = time.monotonic()
    id = ps.start(command="sleep 4728 & echo ok", background=True)
    assert ps.output(id)[0]["stdout"] == b"ok\n"
    assert time.monotonic() - before < 100  # not 4728


def test_pid_1_says_how_many_commands_run(ps, link):
    def busy():
        link.send(ASK_BUSY, 0)
        return struct.unpack("<I", link.take(BUSY)[2])[0]

    assert busy() == 0
    ids = [ps.start(command="sleep 1000") for _ in range(3)]
    assert busy() == 3
    for id in ids:
        ps.ask("DELETE", f"/{id}")
    wait_until(lambda: busy() == 0)
