# SPDX-License-Identifier: Apache-2.0
"""Streams into Pods against the real program: kubectl over both transports, and a bare WebSocket for what kubectl hides."""

import hashlib
import http.client
import json
import os
import re
import select
import socket
import subprocess
import time

import pytest
import websocket

from cay_local import ApiError, is_ready, wait_until

PODS = "/api/v1/namespaces/default/pods"
CODE_OF_KILL = 128 + 9
SERVER = ("import http.server as h, sys\n"
          "class H(h.BaseHTTPRequestHandler):\n"
          "    def do_GET(self):\n"
          "        self.send_response(200); self.end_headers(); self.wfile.write(b'x' * int(self.path[1:]))\n"
          "print('up', flush=True)\n"
          "h.ThreadingHTTPServer(('', 8000), H).serve_forever()\n")


def make_pod(cay, name, *containers):
    cay.api("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": n, "image": "host", "command": list(c)} for n, *c in containers]}})
    return cay.wait(PODS, name, lambda p: is_ready(p) or p["status"].get("phase") in ("Succeeded", "Failed"))


@pytest.fixture(scope="module", autouse=True)
def pods(cay):
    make_pod(cay, "web", ("main", "python3", "-c", SERVER))
    make_pod(cay, "over", ("main", "sh", "-c", "echo bye"))
    cay.wait(PODS, "over", lambda p: p["status"]["phase"] == "Succeeded")


def kubectl(cay, transport, *args, **more):
    """Bytes in, bytes out, over the transport named; again if kubectl says that it lost some (see tests/conftest.py)."""
    flag = "true" if transport == "websocket" else "false"
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir, KUBECTL_REMOTE_COMMAND_WEBSOCKETS=flag,
               KUBECTL_PORT_FORWARD_WEBSOCKETS=flag)
    for _ in range(5):
        r = subprocess.run(["kubectl", *args], capture_output=True, timeout=120, env=env, **more)
        if b"discarding message" not in r.stderr:
            break
    return r


def ws_open(cay, path, protocol="v4.channel.k8s.io", **more):
    return websocket.create_connection(f"wss://127.0.0.1:{cay.port}{path}", sslopt={"context": cay.context()},
                                       subprotocols=[protocol], timeout=60, **more)


def exec_path(*command, pod="web", flags="stdout=1&stderr=1"):
    return f"{PODS}/{pod}/exec?{flags}" + "".join("&command=" + c for c in command)


def ws_read(ws):
    """({channel: bytes}, close code)"""
    got = {}
    while True:
        opcode, data = ws.recv_data()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return got, int.from_bytes(data[:2], "big")
        got[data[0]] = got.get(data[0], b"") + data[1:]


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_output_errors_and_code_come_apart(cay, transport):
    r = kubectl(cay, transport, "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (r.stdout, r.returncode) == (b"out\n", 7)
    assert r.stderr == b"err\ncommand terminated with exit code 7\n"
    r = kubectl(cay, transport, "exec", "web", "--", "sh", "-c", "kill -9 $$")
    assert r.returncode == CODE_OF_KILL


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_much_input_comes_back_whole(cay, transport):
    data = os.urandom(20_000_000)
    r = kubectl(cay, transport, "exec", "-i", "web", "--", "cat", input=data)
    assert hashlib.sha256(r.stdout).digest() == hashlib.sha256(data).digest(), (len(r.stdout), r.stderr)


def rss(cay):
    with open(f"/proc/{cay.process.pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


def pour(process, much):
    """Bytes that went into its input before it took none for two seconds."""
    block, sent = bytes(1 << 16), 0
    os.set_blocking(process.stdin.fileno(), False)
    while sent < much and select.select([], [process.stdin], [], 2)[1]:
        sent += os.write(process.stdin.fileno(), block)
    return sent


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_input_that_nobody_reads_stays_with_the_client(cay, transport):
    flag = "true" if transport == "websocket" else "false"
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir, KUBECTL_REMOTE_COMMAND_WEBSOCKETS=flag)
    before = rss(cay)
    p = subprocess.Popen(["kubectl", "exec", "-i", "web", "--", "sleep", "1000"], env=env, stdin=subprocess.PIPE)
    try:
        sent = pour(p, 400_000_000)
        grown = rss(cay) - before
    finally:
        p.kill()
        p.wait()
        p.stdin.close()
    print(f"{transport}: {sent >> 10} KiB taken, the daemon grew by {grown >> 10} KiB")
    assert sent < 32 << 20 and grown < 16 << 20


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_refusals_are_told(cay, transport):
    for args, says in [
        (("exec", "none", "--", "true"), b'pods "none" not found'),
        (("exec", "web", "-c", "none", "--", "true"), b"container none is not valid for pod web"),
        (("exec", "over", "--", "true"), b"completed pod; current phase is Succeeded"),
        (("exec", "web", "--", "/no/such/program"), b"/no/such/program"),
        (("logs", "web", "-c", "none"), b"container none is not valid for pod web"),
        (("port-forward", "none", "0:1"), b'pods "none" not found'),
    ]:
        r = kubectl(cay, transport, *args)
        assert r.returncode and says in r.stderr, (args, r.stderr)


def start_forward(cay, transport, *ports):
    flag = "true" if transport == "websocket" else "false"
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir, KUBECTL_PORT_FORWARD_WEBSOCKETS=flag)
    p = subprocess.Popen(["kubectl", "port-forward", "web", "--address=127.0.0.1", *ports], env=env,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    line = p.stdout.readline()
    found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
    assert found, line + p.stdout.read()
    return p, int(found.group(1))


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_a_port_is_forwarded(cay, transport):
    p, port = start_forward(cay, transport, ":8000")
    try:
        for size in (0, 1, 5_000_000):
            conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            conn.request("GET", f"/{size}")
            assert len(conn.getresponse().read()) == size
            conn.close()
        socket.create_connection(("127.0.0.1", port)).close()  # a probe, which sends nothing
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        conn.request("GET", "/3")
        assert conn.getresponse().read() == b"xxx"
        conn.close()
    finally:
        p.kill()
        p.wait()


def test_many_connections_share_a_tunnel(cay):
    p, port = start_forward(cay, "websocket", ":8000")
    try:
        conns = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(20)]
        for c in conns:
            c.request("GET", "/300000")
        assert [len(c.getresponse().read()) for c in conns] == [300000] * 20
        for c in conns:
            c.close()
    finally:
        p.kill()
        p.wait()


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_the_error_channel_carries_a_status(cay, protocol):
    got, code = ws_read(ws_open(cay, exec_path("sh", "-c", "echo+hello;exit+3"), protocol))
    assert (got[1], code) == (b"hello\n", 1000)
    status = json.loads(got[3])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    got, code = ws_read(ws_open(cay, exec_path("true"), protocol))
    assert (json.loads(got[3]), code) == ({"metadata": {}, "status": "Success"}, 1000)


def test_input_ends_with_version_5(cay):
    ws = ws_open(cay, exec_path("wc", "-c", flags="stdin=1&stdout=1"), "v5.channel.k8s.io")
    ws.send_binary(b"\0" + b"12345")
    ws.send("\0" + "678")  # older clients send text
    ws.send_binary(b"\xff\0")
    got, _ = ws_read(ws)
    assert got[1] == b"8\n"


def test_a_terminal_has_the_size_it_was_told(cay):
    ws = ws_open(cay, exec_path("sh", flags="stdin=1&stdout=1&tty=1"), "v5.channel.k8s.io")
    ws.send_binary(b'\4{"Width":123,"Height":45}\n')
    ws.send_binary(b"\0stty size; exit 5\n")
    got, _ = ws_read(ws)
    assert b"45 123" in got[1]
    assert json.loads(got[3])["details"]["causes"][0]["message"] == "5"


def test_a_reader_that_stands_still_loses_nothing(cay):
    """Sizes around what the buffers between hold, where the command ends long before its output is read."""
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)]
    open_ones = [(n, ws_open(cay, exec_path("head", "-c", str(n), "/dev/zero"), sockopt=small))
                 for n in range(100_000, 6_000_000, 400_000)]
    time.sleep(6)  # not for an event: the point is that nothing happens
    for n, ws in open_ones:
        got, code = ws_read(ws)
        assert (len(got.get(1, b"")), code) == (n, 1000)


def processes(cay, text):
    r = cay.kubectl("exec", "web", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    return text in r.stdout


def test_what_a_client_started_ends_with_it(cay):
    ws = ws_open(cay, exec_path("sleep", "98765"))
    wait_until(lambda: processes(cay, "sleep 98765"))
    ws.shutdown()
    wait_until(lambda: not processes(cay, "sleep 98765"))


def test_a_request_without_upgrade_is_refused(cay):
    with pytest.raises(ApiError) as e:
        cay.api("GET", exec_path("true"))
    assert (e.value.code, e.value.status["message"]) == (400, "Upgrade request required")
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        ws_open(cay, exec_path("true", pod="none"))
    assert refused.value.status_code == 404


def test_the_python_client_runs_a_command(cay):
    kubernetes = pytest.importorskip("kubernetes")
    from kubernetes.stream import stream

    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(cay.kubeconfig))
    out = stream(core.connect_get_namespaced_pod_exec, "web", "default", command=["sh", "-c", "echo out; echo err >&2"],
                 stderr=True, stdin=False, stdout=True, tty=False)
    assert sorted(out.split()) == ["err", "out"]
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(cay.kubeconfig))
    resp = stream(core.connect_get_namespaced_pod_exec, "web", "default", command=["sh"], stderr=True, stdin=True,
                  stdout=True, tty=False, _preload_content=False)
    resp.write_stdin("echo hello; exit 4\n")
    resp.run_forever(timeout=30)
    assert (resp.read_stdout(), resp.returncode) == ("hello\n", 4)


def test_attach_follows_the_output(cay):
    make_pod(cay, "ticker", ("main", "sh", "-c", "while :; do echo tick; sleep 0.2; done"))
    ws = ws_open(cay, f"{PODS}/ticker/attach?stdout=1&stderr=1")
    _, data = ws.recv_data()
    assert data.startswith(b"\1tick\n")
    ws.close()
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        ws_open(cay, f"{PODS}/ticker/attach?stdin=1&stdout=1")
    assert refused.value.status_code == 400 and b"stdin" in refused.value.resp_body
    cay.api("DELETE", f"{PODS}/ticker")


def test_logs_of_a_completed_pod_and_bad_options(cay):
    assert cay.api("GET", f"{PODS}/over/log") == "bye\n"
    assert cay.api("GET", f"{PODS}/over/log?tailLines=0") is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[0-9:.]+Z bye\n", cay.api("GET", f"{PODS}/over/log?timestamps=true"))
    for bad, why in (("tailLines=-1", "tailLines"), ("limitBytes=0", "limitBytes"), ("sinceSeconds=x", 'parsing "x"'), ("sinceTime=noon", "sinceTime")):
        with pytest.raises(ApiError) as e:
            cay.api("GET", f"{PODS}/over/log?{bad}")
        assert e.value.code == 400 and why in e.value.status["message"]


def test_a_container_must_be_named_among_several(cay):
    make_pod(cay, "pair", ("a", "sleep", "1000"), ("b", "sleep", "1000"))
    with pytest.raises(ApiError) as e:
        cay.api("GET", f"{PODS}/pair/log")
    assert e.value.status["message"] == "a container name must be specified for pod pair, choose one of: [a b]"
    got, _ = ws_read(ws_open(cay, exec_path("echo", "hi", pod="pair", flags="stdout=1&container=b")))
    assert got[1] == b"hi\n"
    cay.api("DELETE", f"{PODS}/pair")


def forward_path(query):
    return f"{PODS}/web/portforward?{query}"


def test_ports_are_forwarded_in_channels(cay):
    wait_until(lambda: b"up" in kubectl(cay, "websocket", "logs", "web").stdout)
    ws = ws_open(cay, forward_path("ports=8000&ports=8001,8002"))
    ws.send_binary(b"\0GET /3000000 HTTP/1.0\r\n\r\n")
    got, code = ws_read(ws)
    numbers = {n: int.from_bytes(got[n][:2], "little") for n in range(6)}
    assert numbers == {0: 8000, 1: 8000, 2: 8001, 3: 8001, 4: 8002, 5: 8002}
    assert got[0].endswith(b"x" * 3000000) and got[1][2:] == b"" and code == 1000
    assert b"forwarding port 8001" in got[3] and b"forwarding port 8002" in got[5]  # nobody listens there


def test_a_half_close_is_passed_on_with_version_5(cay):
    make_pod(cay, "counts", ("main", "python3", "-c", "import socket\ns = socket.create_server(('', 8001))\nprint('up', flush=True)\n"
                             "while True:\n c, _ = s.accept()\n n = 0\n while d := c.recv(65536): n += len(d)\n c.sendall(str(n).encode()); c.close()"))
    wait_until(lambda: b"up" in kubectl(cay, "websocket", "logs", "counts").stdout)
    ws = ws_open(cay, f"{PODS}/counts/portforward?ports=8001", "v5.channel.k8s.io")
    for _ in range(10):
        ws.send_binary(b"\0" + b"x" * 100000)
    ws.send_binary(b"\xff\0")
    got, _ = ws_read(ws)
    assert got[0][2:] == b"1000000"


@pytest.mark.parametrize("query", ["", "ports=0", "ports=65536", "ports=a", "ports=1,", "ports=" + ",".join(["1"] * 33)])
def test_channels_need_ports(cay, query):
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        ws_open(cay, forward_path(query))
    assert refused.value.status_code == 400


def test_the_python_client_forwards_a_port(cay):
    from kubernetes import client, config
    from kubernetes.stream import portforward

    wait_until(lambda: b"up" in kubectl(cay, "websocket", "logs", "web").stdout)
    api = client.CoreV1Api(config.new_client_from_config(cay.kubeconfig))
    tunnel = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports="8000,8001")
    s = tunnel.socket(8000)
    s.setblocking(True)
    s.sendall(b"GET /10 HTTP/1.0\r\n\r\n")
    got = b""
    while data := s.recv(4096):
        got += data
    assert got.endswith(b"x" * 10)
    assert tunnel.error(8000) is None and "8001" in wait_until(lambda: tunnel.error(8001))
