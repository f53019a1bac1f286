# SPDX-License-Identifier: Apache-2.0
"""The commands for people against servers that do less than ours: an old exec protocol, watches that end early."""

import base64
import hashlib
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cay_local import BUILD

CAY = os.path.join(BUILD, "cay")
BOX = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/box"


class Old(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, text, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    def box(self, revision, suspended="False"):
        return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
                "metadata": {"name": "box", "namespace": "default", "resourceVersion": str(revision)},
                "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Suspended", "status": suspended}]}}

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked = self.headers
        status = self.server.status
        self.answer(status, b'{"url":"http://x/"}' if status == 200 else b'{"detail":"why"}')

    def do_PATCH(self):
        self.server.patched = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200, json.dumps(self.box(5)).encode())

    def do_GET(self):
        if "/exec?" in self.path:
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
            self.end_headers()
            self.rfile.read()  # until the client has enough
            self.close_connection = True
        elif "watch=true" in self.path:
            self.server.watches.append(self.path)
            self.answer(200, b"".join(json.dumps(e).encode() + b"\n" for e in self.server.events.pop(0)))
        elif self.path.split("?")[0] == BOX:
            self.answer(200, json.dumps(self.box(4)).encode())
        else:
            self.answer(404, b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"none"}')


@pytest.fixture
def old(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Old)
    server.daemon_threads = True
    server.watches, server.events = [], []
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
              "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
              "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    server.config = str(tmp_path / "kubeconfig")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def run(old, *args, **more):
    return subprocess.run([CAY, args[0], "--kubeconfig", old.config, *args[1:]], capture_output=True, timeout=60, **more)


def test_input_needs_a_protocol_that_can_end_it(old, tmp_path):
    r = run(old, "exec", "-i", "box", "--", "cat", input=b"x")
    assert r.returncode == 1 and b"speaks only v4.channel.k8s.io" in r.stderr, r


def test_a_watch_that_ends_is_begun_anew(old):
    event = {"type": "MODIFIED", "object": Old.box(None, 7)}
    old.events = [[], [event], [{"type": "MODIFIED", "object": Old.box(None, 8, "True")}]]
    r = run(old, "suspend", "box", "--wait")
    assert r.returncode == 0, r
    assert [p.partition("resourceVersion=")[2] for p in old.watches] == ["5", "5", "7"]
    assert old.patched == {"metadata": {"annotations": {"cay.dev/asleep-since": None}}, "spec": {"operatingMode": "Suspended"}}


def test_what_is_deleted_is_not_waited_for(old):
    old.events = [[{"type": "ERROR", "object": {"kind": "Status", "code": 410}}], [{"type": "DELETED", "object": Old.box(None, 9)}]]
    r = run(old, "suspend", "box", "--wait")
    assert r.returncode == 1 and b"somebody has deleted it" in r.stderr, r
    assert "resourceVersion" not in old.watches[1]


def url(old, tmp_path, *flags, **user):
    config = json.loads((tmp_path / "kubeconfig").read_text())
    config["users"][0]["user"] = user
    config["contexts"][0]["context"]["namespace"] = "team"
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    return run(old, "url", "box", "8000", *flags)


def test_url_reads_the_kubeconfig_as_other_commands_do(old, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    old.status, router = 200, ("--router", f"http://127.0.0.1:{old.server_port}")
    assert url(old, tmp_path, *router, tokenFile="token").stdout == b"http://x/\n"
    assert (old.asked["Authorization"], old.asked["X-Sandbox-Namespace"]) == ("Bearer secret", "team")
    assert url(old, tmp_path, *router, "-n", "other", "-o", "json").returncode == 0
    assert (old.asked["Authorization"], old.asked["X-Sandbox-Namespace"]) == (None, "other")


def test_url_sends_no_token_in_the_clear_to_another_machine(old, tmp_path):
    r = url(old, tmp_path, "--router", "http://192.0.2.1:8080", token="secret")
    assert r.returncode == 2 and b"over https:// only" in r.stderr, r
