# SPDX-License-Identifier: Apache-2.0
"""kubectl port-forward as the published clients use it: what happens to the tunnel when something is not as it should be."""

import contextlib
import http.client
import os
import pathlib
import re
import socket
import ssl
import subprocess
import threading

import pytest

from cay_local import is_ready
from test_node_pods import PODS, pod

SERVER = "import http.server as h; h.ThreadingHTTPServer(('', 8000), h.SimpleHTTPRequestHandler).serve_forever()"


@pytest.fixture(scope="module")
def world(module_instance):
    cay = module_instance("--service-account-grants", "default/runner=edit")
    cay.api("POST", PODS, pod("web", "python3", "-c", SERVER, container={"readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}))
    cay.api("POST", PODS, pod("waiting", "sleep", "infinity", container={"image": "not-here:1"}))
    cay.wait(PODS, "web", is_ready)
    return cay


@contextlib.contextmanager
def forwarded(cay, remote, *flags, websockets=True):
    """Yields (kubectl, the local port)."""
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir, KUBECTL_PORT_FORWARD_WEBSOCKETS="true" if websockets else "false")
    with subprocess.Popen(["kubectl", *flags, "port-forward", "pod/web", f":{remote}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as kubectl:
        try:
            line = kubectl.stdout.readline()
            found = re.match(r"Forwarding from 127.0.0.1:(\d+)", line)
            assert found, line + kubectl.stderr.read()
            yield kubectl, int(found.group(1))
        finally:
            kubectl.terminate()


def get(port):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(conn):
        conn.request("GET", "/")
        return conn.getresponse().status


@pytest.mark.parametrize("websockets", [True, False])
def test_dataplane_258_259_connections_come_one_after_the_other_and_some_say_nothing(world, websockets):
    with forwarded(world, 8000, websockets=websockets) as (kubectl, port):
        assert get(port) == get(port) == 200
        for _ in range(5):  # as clients do to see whether the tunnel is up
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        assert get(port) == 200 and kubectl.poll() is None


@pytest.mark.parametrize("websockets", [True, False])
def test_dataplane_260_a_closed_port_is_told_in_words(world, websockets):
    with forwarded(world, 8001, websockets=websockets) as (kubectl, port):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert sock.recv(100) == b""
        said = ""
        while "an error occurred forwarding" not in said:
            line = kubectl.stderr.readline()
            assert line, said
            said += line
        assert "refused" in said, said


def refused(cay, what):
    r = cay.kubectl("port-forward", what, ":8000", check=False)
    assert r.returncode
    return r.stderr


def test_dataplane_261_262_what_does_not_run_is_refused(world):
    world.wait(PODS, "waiting", lambda p: p and p["status"].get("phase") == "Pending")
    assert "is not running" in refused(world, "pod/waiting")
    assert '"nobody" not found' in refused(world, "pod/nobody")


class Refuser:
    """In front of the API server: a WebSocket is answered 400, everything else passes."""

    def __init__(self, cay, folder):
        self.cay, self.refused = cay, 0
        cert, key = folder / "cert.pem", folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-keyout", key, "-out", cert], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=[self.listening.accept()[0]], daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError), self.context.wrap_socket(sock, server_side=True) as client:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536) or b"\r\n\r\n"
            if b"upgrade: websocket" in head.lower():
                self.refused += 1
                client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with ssl._create_unverified_context().wrap_socket(socket.create_connection(("127.0.0.1", self.cay.port))) as server:
                server.sendall(head)
                other = threading.Thread(target=self.copy, args=[server, client], daemon=True)
                other.start()
                self.copy(client, server)
                other.join()

    def copy(self, a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_RDWR)


def test_dataplane_257_a_refused_websocket_is_followed_by_spdy(world, tmp_path):
    world.kubectl("create", "serviceaccount", "runner")
    token = world.kubectl("create", "token", "runner").stdout.strip()
    between = Refuser(world, pathlib.Path(tmp_path))
    flags = ("--kubeconfig", os.devnull, "--server", f"https://127.0.0.1:{between.port}", "--insecure-skip-tls-verify", "--token", token)
    with forwarded(world, 8000, *flags) as (kubectl, port):
        assert get(port) == 200 and kubectl.poll() is None
    assert between.refused == 1
    between.listening.close()
