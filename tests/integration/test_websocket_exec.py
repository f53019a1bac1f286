# SPDX-License-Identifier: Apache-2.0
"""Processes over WebSocket: attached to, and started for one connection."""

import json
import pathlib
import socket
import urllib.parse

import pytest
import websocket

from cay_local import wait_until
from guest_kit import REST_PORT, guest, link  # noqa: F401: fixtures
from runtime_kit import base, rest  # noqa: F401: fixtures

STDIN, STDOUT, STDERR, STATUS, RESIZE, NOTICE, CLOSE = 0, 1, 2, 3, 4, 5, 255


class Ws:
    def __init__(self, rest, path, protocols=("v5.channel.k8s.io",), read=True):
        self.ws = websocket.WebSocket()
        sock = rest.guest.tcp(REST_PORT)
        self.ws.connect(f"ws://x{path}", socket=sock, subprotocols=list(protocols))

    def send(self, channel, data=b""):
        self.ws.send_binary(bytes([channel]) + data)

    def next(self):
        opcode, data = self.ws.recv_data()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return "close", int.from_bytes(data[:2], "big")
        return data[0], data[1:]

    def rest(self):
        """stdout, stderr and status, up to a clean end."""
        out = {STDOUT: bytearray(), STDERR: bytearray()}
        while (got := self.next())[0] != STATUS:
            assert got[0] in out, got
            out[got[0]] += got[1]
        assert self.next() == ("close", 1000)
        return bytes(out[STDOUT]), bytes(out[STDERR]), json.loads(got[1])


def execute(rest, *argv, **query):
    return Ws(rest, "/v1/exec?" + urllib.parse.urlencode([("command", a) for a in argv] + list(query.items())))


def start(rest, **wish):
    answer, got = rest.ask("POST", "/v1/processes", json.dumps(wish))
    assert answer.status == 201, got
    return json.loads(got)["id"]


def alive(word):
    def has(path):
        try:
            return word.encode() in path.read_bytes().split(b"\0")
        except OSError:
            return False
    return [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if has(p)]


def test_a_command_runs_for_one_connection(rest, base):
    out, err, status = execute(rest, "sh", "-c", "echo out; echo err >&2; exit 3").rest()
    assert (out, err, status["exit_code"], status["status"]) == (b"out\n", b"err\n", 3, "Failure")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    (base / "sub").mkdir()
    ws = execute(rest, "sh", "-c", 'pwd; echo "$A"', cwd="sub", env="A=b c=d")
    assert ws.ws.getsubprotocol() == "v5.channel.k8s.io"
    assert ws.rest() == (f"{base}/sub\nb c=d\n".encode(), b"", {"metadata": {}, "status": "Success", "exit_code": 0, "signal": 0,
                                                              "timed_out": False})
    assert execute(rest, "sh", "-c", "kill -9 $$").rest()[2]["signal"] == 9
    assert execute(rest, "cat").rest()[0] == b""  # without stdin it is empty
    assert Ws(rest, "/v1/exec?command=true", protocols=()).rest()[2]["exit_code"] == 0


def test_input_and_its_end(rest):
    ws = execute(rest, "cat", stdin="true")
    ws.send(STDIN, b"one ")
    ws.send(STDIN)
    ws.send(STDIN, b"two")
    ws.send(CLOSE, bytes([STDIN]))
    assert ws.rest()[0] == b"one two"
    ws = execute(rest, "sh", "-c", "sleep 0.2; wc -c", stdin="true")
    for _ in range(8):
        ws.send(STDIN, b"x" * 500_000)
    ws.send(CLOSE, bytes([STDIN]))
    assert ws.rest()[0].strip() == b"4000000"


def test_a_terminal_is_resized(rest):
    ws = execute(rest, "sh", "-c", "stty -echo; stty size; read x; stty size", tty="true", cols="80", rows="24")
    assert ws.next() == (STDOUT, b"24 80\r\n")
    ws.send(RESIZE, b'{"Width":132,"Height":50}')
    ws.send(STDIN, b"\n")
    assert b"50 132\r\n" in ws.rest()[0]
    ws = execute(rest, "sleep", "60", tty="true")
    ws.send(RESIZE, b'{"Width":0,"Height":50}')
    assert ws.next() == ("close", 1008)


def test_a_client_that_leaves_ends_the_whole_group(rest):
    for leave in (lambda ws: ws.ws.close(), lambda ws: ws.ws.sock.shutdown(socket.SHUT_RDWR), lambda ws: ws.ws.send("text")):
        ws = execute(rest, "sh", "-c", "sleep 7401 & sleep 7401 & echo; wait")
        ws.next()
        wait_until(lambda: len(alive("7401")) == 2)
        leave(ws)
        wait_until(lambda: not alive("7401"))


def test_a_slow_reader_holds_the_command_up(rest, base):
    ws = execute(rest, "sh", "-c", "head -c 30000000 /dev/zero; echo over >over")
    assert ws.next()[0] == STDOUT and rest.files("GET", "none")[0] == 404
    assert len(ws.rest()[0]) > 29_000_000 and (base / "over").exists()
    peak = execute(rest, "sh", "-c", "grep VmHWM /proc/$PPID/status").rest()[0]
    assert int(peak.split()[1]) < 8192


def test_attaching_to_a_process(rest):
    number = start(rest, command="echo begun; echo err >&2; cat", stdin=True, background=True)
    one, two = (Ws(rest, f"/v1/processes/{number}/attach") for _ in range(2))
    for ws in (one, two):
        got = {ws.next(), ws.next()}
        assert got == {(STDOUT, b"begun\n"), (STDERR, b"err\n")}
    one.send(STDIN, b"said\n")
    assert one.next() == two.next() == (STDOUT, b"said\n")
    one.ws.close()  # the process stays
    late = Ws(rest, f"/v1/processes/{number}/attach?from=10")
    assert late.next() == (STDOUT, b"said\n")
    two.send(CLOSE, bytes([STDIN]))
    assert two.rest()[2]["exit_code"] == late.rest()[2]["exit_code"] == 0
    assert Ws(rest, f"/v1/processes/{number}/attach").rest()[0] == b"begun\nsaid\n"
    number = start(rest, command="sleep 60", background=True)
    ws = Ws(rest, f"/v1/processes/{number}/attach")
    assert rest.ask("DELETE", f"/v1/processes/{number}")[0].status == 204
    assert ws.rest()[2]["signal"] == 9


def test_a_reader_who_comes_late_is_told_what_is_lost(rest):
    number = start(rest, command="head -c 3000000 /dev/zero", background=True)
    wait_until(lambda: rest.get(f"/v1/processes/{number}")[1]["state"] == "exited")
    ws = Ws(rest, f"/v1/processes/{number}/attach")
    channel, data = ws.next()
    dropped = json.loads(data)["dropped"]
    assert channel == NOTICE and dropped["from"] == 0 and len(ws.rest()[0]) == 3_000_000 - dropped["to"]


def test_what_is_no_websocket_starts_nothing(rest, base):
    for headers, status in (({}, 426), ({"Connection": "Upgrade", "Upgrade": "websocket"}, 426),
                            ({"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                              "Sec-WebSocket-Key": "short"}, 400)):
        assert rest.ask("GET", "/v1/exec?command=touch&command=made", headers=headers)[0].status == status
    assert not (base / "made").exists()
    for query, status in (("", 400), ("command=nosuch", 404), ("command=pwd&cwd=..", 403), ("command=pwd&env=%3Dx", 400),
                          ("command=pwd&env=A=%ff", 400), ("command=pwd&cwd=%ff", 400),
                          ("command=true" + "&command=x" * 1024, 400)):
        with pytest.raises(websocket.WebSocketBadStatusException) as e:
            Ws(rest, f"/v1/exec?{query}")
        assert e.value.status_code == status
    with pytest.raises(websocket.WebSocketBadStatusException):
        Ws(rest, "/v1/processes/99/attach")


@pytest.mark.parametrize("frame,code", [
    (b"\x82\x01x", 1002), (b"\xc2\x80\0\0\0\0", 1002), (b"\x82\xff\0\0\0\0\0\x10\0\x01\0\0\0\0", 1009), (b"\x82\x80\0\0\0\0", 1008),
    (b"\x82\x81\0\0\0\0\x09", 1008), (b"\x88\x80\0\0\0\0", 0), (b"\x88\x82\0\0\0\0\x03\xe9", 1001)])
def test_what_breaks_the_rules_is_told_and_cut(rest, frame, code):
    ws = execute(rest, "sleep", "7402")
    wait_until(lambda: alive("7402"))
    ws.ws.sock.sendall(frame)
    assert ws.next() == ("close", code)
    wait_until(lambda: not alive("7402"))


def test_pings_are_answered(rest):
    ws = execute(rest, "sleep", "60")
    ws.ws.ping("payload")
    opcode, data = ws.ws.recv_data(control_frame=True)
    assert (opcode, data) == (websocket.ABNF.OPCODE_PONG, b"payload")
    ws.ws.close()


def test_there_is_a_limit_of_connections(rest):
    number = start(rest, command="sleep 60", background=True)
    held = [Ws(rest, f"/v1/processes/{number}/attach") for _ in range(256)]
    with pytest.raises(websocket.WebSocketBadStatusException) as e:
        Ws(rest, f"/v1/processes/{number}/attach")
    assert e.value.status_code == 503
    held.pop().ws.close()
    Ws(rest, f"/v1/processes/{number}/attach").ws.close()
