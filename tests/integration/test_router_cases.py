# SPDX-License-Identifier: Apache-2.0
"""The router before a program of one's own: what of a request arrives, how often, and what the published clients make of the answers."""

import contextlib
import http.client
import json
import os
import subprocess
import threading

import pytest
import websocket

from cay_local import AGENTS, EXTENSIONS, is_ready, wait_until
from test_python_sdk import python_of

# Remembers every request, and answers as the path says.
BACKEND = r"""
import base64, hashlib, http.server, json, socket, socketserver, struct, sys
seen, codes = [], []

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/seen":
            return self.reply(200, {"seen": seen, "codes": codes})
        seen.append({"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode(errors="replace")})
        if self.headers.get("Upgrade"):
            return self.upgrade()
        if self.path.startswith("/torn") or (self.path == "/execute" and b"torn" in body):
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        for code in (302, 409, 503):
            if self.path == f"/{code}" or (self.path == "/execute" and str(code).encode() in body):
                return self.reply(code, {"why": "because"})
        self.reply(200, {"stdout": json.dumps(seen[-1]), "stderr": "", "exit_code": 0, **seen[-1]})
    do_GET = do_POST = do_PUT = do_DELETE = answer
    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if status == 302:
            self.send_header("Location", "http://192.0.2.1/")
        self.end_headers()
        self.wfile.write(data)
    def upgrade(self):
        key = self.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for k, v in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())):
            self.send_header(k, v)
        self.end_headers()
        if self.path == "/close":
            self.wfile.write(b"\x88\x05" + struct.pack(">H", 4001) + b"bye")
        head = self.rfile.read(6)  # a close frame with a mask
        data = bytes(c ^ head[2 + i % 4] for i, c in enumerate(self.rfile.read(head[1] & 127)))
        codes.append(struct.unpack(">H", data[:2])[0])
        self.close_connection = True
    def log_message(self, *args):
        pass

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    address_family, daemon_threads, allow_reuse_address, request_queue_size = socket.AF_INET6, True, True, 64

Server(("::", int(sys.argv[1])), Handler).serve_forever()
"""
PORT, LATER = 9000, 9001


def kind(name):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": name}


@pytest.fixture(scope="module")
def world(cay):
    container = {"name": "main", "image": "host", "command": ["python3", "-c", BACKEND, str(PORT)], "ports": [{"containerPort": 8888}, {"containerPort": PORT}],
                 "env": [{"name": "BACKEND", "value": BACKEND}], "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1}}
    cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxtemplates", {**kind("SandboxTemplate"), "metadata": {"name": "backend"}, "spec": {"podTemplate": {
        "metadata": {"annotations": {"cay.dev/runtime": "python"}}, "spec": {"containers": [container]}}}})
    cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", {**kind("SandboxWarmPool"), "metadata": {"name": "backends"}, "spec": {
        "replicas": 2, "sandboxTemplateRef": {"name": "backend"}}})
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "backends", lambda p: p and p.get("status", {}).get("readyReplicas") == 2)
    return cay


@pytest.fixture(scope="module")
def box(world):
    world.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxclaims", {**kind("SandboxClaim"), "metadata": {"name": "mine"}, "spec": {"warmPoolRef": {"name": "backends"}}})
    name = world.wait(f"{EXTENSIONS}/namespaces/default/sandboxclaims", "mine", is_ready)["status"]["sandbox"]["name"]
    return world.wait_ready(f"{AGENTS}/namespaces/default/sandboxes", name)


def ask(cay, box, path, method="GET", body=None, headers=(), port=PORT):
    status, got = cay.route(box["metadata"]["name"], method, path, body, port=port, headers=dict(headers))
    return status, json.loads(got)


def seen(cay, box, port=PORT):
    return ask(cay, box, "/seen", port=port)[1]["seen"]


def test_dataplane_107_110_117_paths_and_hosts(world, box):
    assert ask(world, box, "/p?a=1&b=2&a=%2F")[1]["path"] == "/p?a=1&b=2&a=%2F"
    conn = http.client.HTTPConnection("127.0.0.1", world.router_port, timeout=60)
    conn.connect()
    conn.sock.sendall(f"GET /\xe4?\xfc HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-ID: {box['metadata']['name']}\r\nX-Sandbox-Port: {PORT}\r\n\r\n".encode("latin-1"))
    answer = http.client.HTTPResponse(conn.sock)
    answer.begin()
    assert answer.status in (200, 400)  # passed on or refused, and nobody is harmed
    conn.close()
    arrived = ask(world, box, "/host", headers={"Host": "localhost"})[1]["headers"]["host"]
    assert arrived.endswith(f":{PORT}") and "localhost" not in arrived


def test_dataplane_104_106_108_133_158_159_the_address_of_a_target(world, box):
    ips = box["status"]["podIPs"]
    assert any(":" in ip for ip in ips) and any("." in ip for ip in ips)
    for ip in ips:
        status, got = ask(world, box, "/ip", headers={"X-Sandbox-Pod-IP": ip})
        assert status == 200 and got["headers"]["host"] == (f"[{ip}]:{PORT}" if ":" in ip else f"{ip}:{PORT}")
    assert ask(world, box, "/ip")[0] == 200  # by its name alone
    assert ask(world, box, "/ip", headers={"X-Sandbox-UID": box["metadata"]["uid"]})[0] == 200
    other = next(s for s in world.api("GET", f"{AGENTS}/namespaces/default/sandboxes")["items"] if s["metadata"]["name"] != box["metadata"]["name"])
    status, got = ask(world, other, "/ip")
    assert (status, got["code"]) == (502, "SandboxUnclaimed")
    assert ask(world, other, "/ip", headers={"X-Sandbox-UID": other["metadata"]["uid"]})[0] == 200
    status, got = ask(world, box, "/ip", headers={"X-Sandbox-UID": other["metadata"]["uid"]})
    assert (status, got["code"]) == (502, "SandboxReplaced")
    assert ask(world, box, "/ip", headers={"X-Sandbox-Pod-IP": "10.1.2.3"})[0] == 200  # a hint that is wrong leads nowhere else


def test_dataplane_127_128_a_request_arrives_once_or_not_at_all(world, box):
    status, got = ask(world, box, "/torn", "POST", b"x")
    assert (status, got["code"]) == (502, "ConnectionBroken")
    assert [r["path"] for r in seen(world, box)].count("/torn") == 1, "what a sandbox took is not sent again"
    answers = []
    early = threading.Thread(target=lambda: answers.append(ask(world, box, "/early", "POST", b"x", port=LATER)))
    early.start()
    world.execute(box["metadata"]["name"], f"(python3 -c \"$BACKEND\" {LATER} >/dev/null 2>&1 &)", detach=True)
    early.join()
    if answers[0][0] == 502:  # it took too long to open; then it is open for the next
        wait_until(lambda: ask(world, box, "/late", "POST", b"x", port=LATER)[0] == 200)
    assert len([r for r in seen(world, box, LATER) if r["path"] == "/early"]) == (answers[0][0] == 200)


def test_dataplane_136_140_websockets_are_refused_before_they_begin_and_end_with_the_code_of_either_side(world, box):
    url = f"ws://127.0.0.1:{world.router_port}"
    headers = {"X-Sandbox-ID": box["metadata"]["name"], "X-Sandbox-Port": str(PORT)}
    for wrong in ({"X-Sandbox-Port": str(PORT)}, {**headers, "X-Sandbox-Namespace": "Bad_NS"}):
        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            websocket.create_connection(f"{url}/close", header=wrong, timeout=60)
        assert refused.value.status_code == 400
    socket = websocket.create_connection(f"{url}/close", header=headers, timeout=60)
    opcode, data = socket.recv_data(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_CLOSE and int.from_bytes(data[:2], "big") == 4001 and data[2:] == b"bye"
    socket.close()
    with contextlib.closing(websocket.create_connection(f"{url}/wait", header=headers, timeout=60)) as socket:
        socket.send_close(4002, b"done")
        wait_until(lambda: 4002 in ask(world, box, "/seen")[1]["codes"])


def test_dataplane_141_nobody_is_believed_about_where_a_request_comes_from(world, box):
    got = ask(world, box, "/x", headers={"X-Forwarded-For": "192.0.2.1, 192.0.2.2", "Forwarded": "for=192.0.2.3", "X-Real-IP": "192.0.2.4"})[1]["headers"]
    assert got["x-forwarded-for"] == "127.0.0.1"


CLIENT = """
import json, os
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.exceptions import SandboxRequestError
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
import importlib.metadata

new = importlib.metadata.version("k8s-agent-sandbox") > "1"
more = {"extra_headers": {"Authorization": "Bearer secret-of-mine", "X-Mine": "arrives"}} if new else {}
client = SandboxClient(connection_config=SandboxDirectConnectionConfig(api_url=os.environ["CAY_ROUTER"], server_port=9000, **more))
box = client.create_sandbox("backends")
told = {"plain": json.loads(box.commands.run("hello", timeout=30).stdout)["headers"]}
if new:
    told["long"] = json.loads(box.commands.run("hello", command_timeout=300).stdout)["headers"]
errors = {}
for what in ("302", "409", *(["503", "torn"] if new else [])):  # older ones send a POST six times
    try:
        box.commands.run(what)
    except SandboxRequestError as e:
        errors[what] = e.status_code
print(json.dumps({"told": told, "errors": errors, "sandbox": box.sandbox_id, "claim": box.claim_name}))
"""


@pytest.mark.parametrize("venv", ["venv", "venv-0.5.6"])
def test_u40_u42_u46_what_a_client_sends_and_makes_of_answers(world, venv):
    """Also dataplane 197 to 199. A POST that was answered 503, or not at all, comes once; the time that the client has is told; credentials for the router stay outside."""
    r = subprocess.run([python_of(venv), "-c", CLIENT], capture_output=True, text=True, timeout=120,
                       env=dict(os.environ, KUBECONFIG=world.kubeconfig, CAY_ROUTER=f"http://127.0.0.1:{world.router_port}"))
    assert r.returncode == 0, r.stderr
    result = json.loads(r.stdout.splitlines()[-1])
    told, errors = result["told"], result["errors"]
    assert told["plain"]["x-sandbox-timeout"] == "30"
    assert errors["302"] == 302 and errors["409"] == 409
    if venv == "venv":
        assert told["long"]["x-sandbox-timeout"] == "310"
        assert told["plain"]["x-mine"] == "arrives" and "authorization" not in told["plain"]
        assert errors["503"] == 503 and errors["torn"] == 502
        bodies = [r["body"] for r in seen(world, {"metadata": {"name": result["sandbox"]}})]
        assert [sum(what in b for b in bodies) for what in ("503", "torn")] == [1, 1], bodies
    world.api("DELETE", f"{EXTENSIONS}/namespaces/default/sandboxclaims/{result['claim']}")
