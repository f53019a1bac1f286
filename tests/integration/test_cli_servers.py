# SPDX-License-Identifier: Apache-2.0
"""The commands for people against servers that do less than ours, an old exec protocol or watches that end early, and without any."""

import base64
import hashlib
import json
import os
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cay_local import BUILD
from conftest import needs_root

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


def lonely(tmp_path, *args, **env):
    """A command of a user who has a home and nothing else."""
    if os.path.exists("/var/lib/cay"):
        pytest.skip("this machine has a server of its own, which would be found")
    clean = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")}
    return subprocess.run([CAY, *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**clean, "HOME": str(tmp_path), **env})


@pytest.mark.parametrize("command", [("ls",), ("run", "--", "true"), ("get", "pods"), ("agent", "ls"), ("mcp",), ("ui", "--print")])
def test_where_no_server_was_started_the_places_and_the_way_to_one_are_named(tmp_path, command):
    r = lonely(tmp_path, *command)
    assert r.returncode == 1 and "no server has been started here" in r.stderr and r.stderr.count("\n") == 1, r
    for part in ("/var/lib/cay/admin.kubeconfig", f"{tmp_path}/.kube/config", "`cay serve`", "--kubeconfig"):
        assert part in r.stderr, r.stderr


def test_the_unit_is_started_where_it_is_installed(tmp_path):
    needs_root()
    script = """mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc/systemd && mkdir -p /run/systemd/system /etc/systemd/system &&
        touch /etc/systemd/system/cay.service && exec "$@\""""
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", CAY, "ls"]
    if os.path.exists("/var/lib/cay"):
        pytest.skip("this machine has a server of its own, which would be found")
    if not os.path.isdir("/etc/systemd"):
        pytest.skip("this machine has no /etc/systemd to put a unit into")
    r = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert r.returncode == 1 and "`systemctl start cay`" in r.stderr, r


def test_a_data_directory_of_ones_own_is_named_in_the_command(tmp_path):
    for command in ("mcp", "ui"):
        assert f"`cay serve --data-dir {tmp_path}/data`" in lonely(tmp_path, command, "--data-dir", f"{tmp_path}/data").stderr
    r = lonely(tmp_path, "user", "ls", "--data-dir", f"{tmp_path}/data")
    assert r.returncode == 1 and "no server has been started here" in r.stderr and f"`cay serve --data-dir {tmp_path}/data`" in r.stderr


def test_a_kubeconfig_of_the_user_that_is_missing_is_a_plain_fact(tmp_path):
    for r in (lonely(tmp_path, "ls", KUBECONFIG="/nowhere/config"), lonely(tmp_path, "ls", "--kubeconfig", "/nowhere/config")):
        assert r.returncode == 1 and "/nowhere/config: No such file" in r.stderr and "started" not in r.stderr, r


def nobody_at(path):
    """A kubeconfig of a port where nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "c", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}))
    return f"no server answers at 127.0.0.1:{port}"


@pytest.mark.parametrize("command", [("ls",), ("run", "--", "true"), ("exec", "box", "--", "true"), ("ui", "--print")])
def test_a_server_that_does_not_answer_is_named(tmp_path, command):
    said = nobody_at(tmp_path / ".kube" / "config")
    r = lonely(tmp_path, *command)
    assert r.returncode == 1 and f"{said}: " in r.stderr and "cay serve" not in r.stderr, r
    said = nobody_at(tmp_path / "copied" / "admin.kubeconfig")  # from a machine that may be another
    r = lonely(tmp_path, command[0], "--kubeconfig", f"{tmp_path}/copied/admin.kubeconfig", *command[1:])
    assert r.returncode == 1 and f"{said}: " in r.stderr and "cay serve" not in r.stderr, r


@pytest.mark.parametrize("command", [("ls",), ("ui", "--print"), ("user", "ls")])
def test_a_server_of_this_machine_that_does_not_answer_can_be_started(tmp_path, command):
    data = tmp_path / "data"
    said = nobody_at(data / "admin.kubeconfig")
    (data / "store.db").write_text("")
    flag = ("--data-dir", str(data)) if command[0] == "user" else ("--kubeconfig", str(data / "admin.kubeconfig"))
    r = lonely(tmp_path, *command, *flag)
    assert r.returncode == 1 and f"{said} (start it with `cay serve --data-dir {data}`)" in r.stderr, r


def test_who_may_not_read_the_administrators_kubeconfig_is_told_whom_to_ask(tmp_path):
    needs_root()
    script = 'mount -t tmpfs tmpfs /var/lib && mkdir -m 700 /var/lib/cay && touch /var/lib/cay/admin.kubeconfig && exec setpriv --reuid 65534 "$@"'
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", CAY, "ls"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={"HOME": "/nowhere", "PATH": os.environ["PATH"]})
    assert r.returncode == 1 and "/var/lib/cay/admin.kubeconfig cannot be read" in r.stderr and "cay user add" in r.stderr, r
    assert "started" not in r.stderr
