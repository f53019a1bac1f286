# SPDX-License-Identifier: Apache-2.0
"""gRPC from a real client through the router to a real server in a real sandbox. U44 and U45 are in docs/reference/cases.md."""

import base64
import http.client
import pathlib
import socket
import threading

import grpc
import pytest

from cay_local import wait_until

SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
PORT = "9090"

# Raw bytes instead of messages. What was cancelled is written down, because nobody is told.
SERVER = r"""
import concurrent.futures, grpc, threading, time
def unary(request, context):
    context.set_trailing_metadata((("x-end", "yes"),))
    seen = dict(context.invocation_metadata())
    return b"%s timeout=%d authorization=%s" % (request, context.time_remaining() or 0, seen.get("authorization", "none").encode())
def fail(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "100% not so \u00e4")
def silent(request, context):
    open("/tmp/calls", "a").write("begun\n")
    over = threading.Event()
    if not context.add_callback(over.set):
        over.set()
    over.wait(float(request))
    open("/tmp/calls", "a").write("cancelled\n" if over.is_set() else "in time\n")
    return b"late"
def count(request, context):
    for i in range(int(request)):
        yield b"%d" % i
def sum_up(requests, context):
    return b"%d" % sum(len(r) for r in requests)
def echo(requests, context):
    for r in requests:
        yield b"<" + r + b">"
def pour(request, context):
    while context.is_active():
        yield bytes(64 * 1024)
h = grpc.method_handlers_generic_handler("t.T", {
    "Unary": grpc.unary_unary_rpc_method_handler(unary), "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Silent": grpc.unary_unary_rpc_method_handler(silent), "Count": grpc.unary_stream_rpc_method_handler(count),
    "Sum": grpc.stream_unary_rpc_method_handler(sum_up), "Echo": grpc.stream_stream_rpc_method_handler(echo),
    "Pour": grpc.unary_stream_rpc_method_handler(pour)})
server = grpc.server(concurrent.futures.ThreadPoolExecutor(32))
server.add_generic_rpc_handlers([h])
server.add_insecure_port("0.0.0.0:9090")
server.start()
server.wait_for_termination()
"""


def sandbox(name, *command):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
        "containers": [{"name": "c", "image": "host", "command": list(command),
                        "readinessProbe": {"tcpSocket": {"port": int(PORT)}, "periodSeconds": 1}}]}}}}


@pytest.fixture(scope="module")
def box(cay):
    cay.api("POST", SANDBOXES, sandbox("box", "/usr/bin/python3", "-c", SERVER))
    cay.wait_ready(SANDBOXES, "box")
    return "box"


@pytest.fixture
def channel(cay, box):
    with grpc.insecure_channel(f"127.0.0.1:{cay.router_port}") as c:
        yield c


def to(name="box", **more):
    return (("x-sandbox-id", name), ("x-sandbox-port", PORT), *((k.replace("_", "-"), v) for k, v in more.items()))


def failed(call):
    with pytest.raises(grpc.RpcError) as e:
        call()
    return e.value.code(), e.value.details()


def test_u44_calls_of_all_four_shapes(channel):
    reply, call = channel.unary_unary("/t.T/Unary").with_call(b"hello", metadata=to(authorization="Bearer secret"), timeout=50)
    text, left, auth = reply.decode().split()
    assert text == "hello" and 30 < int(left.split("=")[1]) <= 50  # what is left of the time is passed on
    assert auth == "authorization=none"
    assert dict(call.trailing_metadata())["x-end"] == "yes"
    assert [int(m) for m in channel.unary_stream("/t.T/Count")(b"500", metadata=to())] == list(range(500))
    assert channel.stream_unary("/t.T/Sum")((bytes(100000) for _ in range(50)), metadata=to()) == b"5000000"
    replies = channel.stream_stream("/t.T/Echo")(iter([b"a", b"bc", b""]), metadata=to())
    assert list(replies) == [b"<a>", b"<bc>", b"<>"]


def test_u44_both_directions_stream_at_the_same_time(channel):
    said, asks = [], threading.Semaphore(1)

    def requests():
        for i in range(20):
            assert asks.acquire(timeout=30)  # only after the answer to the last one
            yield b"%d" % i

    for reply in channel.stream_stream("/t.T/Echo")(requests(), metadata=to()):
        said.append(reply)
        asks.release()
    assert said == [b"<%d>" % i for i in range(20)]


def test_u44_the_status_of_the_server_comes_through(channel):
    assert failed(lambda: channel.unary_unary("/t.T/Fail")(b"", metadata=to())) == (grpc.StatusCode.FAILED_PRECONDITION, "100% not so ä")
    assert failed(lambda: channel.unary_unary("/t.T/Nope")(b"", metadata=to()))[0] == grpc.StatusCode.UNIMPLEMENTED


def test_u44_failures_of_the_router_are_statuses(channel):
    unary = channel.unary_unary("/t.T/Unary")
    code, details = failed(lambda: unary(b"", metadata=to("nope")))
    assert code == grpc.StatusCode.UNAVAILABLE and "nope" in details and "SandboxNotFound" in details
    code, details = failed(lambda: unary(b""))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and details == "X-Sandbox-ID header is required."
    shut = (("x-sandbox-id", "box"), ("x-sandbox-port", "9"))
    assert failed(lambda: unary(b"", metadata=shut))[0] == grpc.StatusCode.UNAVAILABLE


def test_u44_silence_lasts_as_long_as_the_call_may(cay, channel):
    silent = channel.unary_unary("/t.T/Silent")
    assert silent(b"3", metadata=to(), timeout=60) == b"late"
    assert failed(lambda: silent(b"60", metadata=to(x_sandbox_timeout="1")))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
    known = ["begun", "in time", "begun", "cancelled"]
    wait_until(lambda: calls(cay) == known, timeout=30)
    call = silent.future(b"60", metadata=to())
    wait_until(lambda: calls(cay) == [*known, "begun"], timeout=30)
    call.cancel()
    wait_until(lambda: calls(cay) == [*known, "begun", "cancelled"], timeout=30)


def calls(cay):
    return cay.kubectl("exec", "box", "--", "cat", "/tmp/calls").stdout.splitlines()


def peak(pid):
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0])


def test_u44_a_slow_reader_is_nobodys_memory(cay, channel):
    calls = [channel.unary_stream("/t.T/Pour")(b"", metadata=to(), timeout=50) for _ in range(16)]
    for c in calls:
        next(c)  # and no more
    before = peak(cay.process.pid)
    assert channel.unary_unary("/t.T/Unary")(b"beside them", metadata=to()).startswith(b"beside them")
    assert peak(cay.process.pid) - before < 48 * 1024
    for c in calls:
        c.cancel()


def test_u45_the_same_port_upgrades_to_websocket(cay, channel):
    assert channel.unary_unary("/t.T/Unary")(b"x", metadata=to())
    cay.api("POST", SANDBOXES, sandbox("ws", "/usr/bin/python3", "-c", r"""
import socket
s = socket.create_server(("0.0.0.0", 9090))
while True:
    c, _ = s.accept()
    if b"\r\n\r\n" in c.recv(65536):
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        c.sendall(c.recv(100))
"""))
    cay.wait_ready(SANDBOXES, "ws")
    with socket.create_connection(("127.0.0.1", cay.router_port), timeout=30) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-ID: ws\r\nX-Sandbox-Port: 9090\r\nConnection: Upgrade\r\n"
                  b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\n\r\n")
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(4096)
        assert got.startswith(b"HTTP/1.1 101 ")
        s.sendall(b"\x81\x00")
        assert s.recv(100) == b"\x81\x00"


def test_plain_requests_of_http2_are_http1_in_the_sandbox(cay, box):
    """By hand, since the clients of the tests speak HTTP/1.1 or gRPC: what a guest answers to GET /."""
    conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=30)
    conn.request("GET", "/", headers={"X-Sandbox-ID": box})
    plain = conn.getresponse().read()
    literal = lambda n, v: bytes([0, len(n)]) + n + bytes([len(v)]) + v  # noqa: E731
    head = b"\x82\x84\x86" + literal(b":authority", b"localhost") + literal(b"x-sandbox-id", box.encode())
    with socket.create_connection(("127.0.0.1", cay.router_port), timeout=30) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5) + len(head).to_bytes(3, "big") + b"\x01\x05" + b"\0\0\0\1" + head)
        got = b""
        while plain not in got:
            data = s.recv(4096)
            assert data, got
            got += data
