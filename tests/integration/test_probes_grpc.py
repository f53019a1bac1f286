# SPDX-License-Identifier: Apache-2.0
"""Probes and hooks over gRPC and HTTPS, against a real gRPC server and a real TLS server in the sandbox."""

import subprocess

from cay_local import wait_until
from test_node_pods import PODS, create, events, phase, pod, ready, sh

# Serves grpc.health.v1.Health with raw messages: "" is well, "db" is well once /tmp/db is there, anything else is unknown.
GRPC = r"""
import os, grpc, concurrent.futures
def check(request, context):
    if request not in (b"", b"\x0a\x02db"):
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return b"\x08\x01" if not request or os.path.exists("/tmp/db") else b"\x08\x02"
server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", {
    "Check": grpc.unary_unary_rpc_method_handler(check)})])
server.add_insecure_port("0.0.0.0:9000")
server.start()
server.wait_for_termination()
"""

# Answers 200 to requests with the header that the probe sends, and writes down who asked for what.
HTTPS = r"""
import http.server, os, ssl
open("/tmp/pem", "w").write(os.environ["PEM"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, self.headers["X-Probe"], flush=True)
        self.send_response(200 if self.headers["X-Probe"] == "yes" else 403)
        self.end_headers()
server = http.server.HTTPServer(("0.0.0.0", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

# Accepts, greets in HTTP/2, and then sends frames of an unknown type for as long as anybody reads them.
ENDLESS = r"""
import socket
server = socket.create_server(("0.0.0.0", 9000))
while True:
    conn, _ = server.accept()
    try:
        conn.sendall(b"\0\0\0\x04\0\0\0\0\0")
        while True:
            conn.sendall(b"\0\0\x08\x42\0\0\0\0\0" + b"01234567")
    except OSError:
        conn.close()
"""


def probe(**handler):
    return dict(handler, periodSeconds=1, failureThreshold=1, timeoutSeconds=30)


def up(port):
    return {"startupProbe": dict(probe(tcpSocket={"port": port}), failureThreshold=100)}


def grpc_pod(name, script, **grpc):
    return pod(name, "/usr/bin/python3", "-c", script, container=dict(up(9000), readinessProbe=probe(grpc=dict(grpc, port=9000))))


def says(cay, name, text):
    wait_until(lambda: text in events(cay, name).get("Unhealthy", ""), timeout=60)


def test_a_grpc_probe_asks_a_real_server_for_its_health(cay):
    for name, service in (("whole", {}), ("named", {"service": "db"}), ("unknown", {"service": "nope"})):
        cay.api("POST", PODS, grpc_pod(name, GRPC, **service))
    cay.wait(PODS, "whole", ready)
    says(cay, "named", 'service unhealthy (responded with "NOT_SERVING")')
    says(cay, "unknown", "health rpc probe failed: NotFound: unknown service")
    assert not ready(cay.api("GET", f"{PODS}/named"))
    sh(cay, "named", "touch /tmp/db")
    cay.wait(PODS, "named", ready)


def test_a_server_that_never_stops_answering_fails_its_probe_and_harms_nobody(cay):
    cay.api("POST", PODS, grpc_pod("endless", ENDLESS))
    says(cay, "endless", "sends frames of no known type")
    assert cay.api("GET", PODS)["items"]


def test_probes_and_hooks_speak_https_and_verify_nothing(cay):
    pem = subprocess.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout - -days 1 -subj /CN=nobody", shell=True, check=True,
                         capture_output=True, text=True).stdout
    env = [{"name": "PEM", "value": pem}]
    get = {"port": 8443, "scheme": "HTTPS", "httpHeaders": [{"name": "X-Probe", "value": "yes"}]}
    body = pod("secure", "/usr/bin/python3", "-c", HTTPS, container={
        "env": env, "startupProbe": dict(probe(httpGet=dict(get, path="/up")), failureThreshold=60),
        "readinessProbe": probe(httpGet=dict(get, path="/ready")),
        "livenessProbe": probe(exec={"command": ["test", "!", "-e", "/tmp/sick"]}),
        "lifecycle": {"preStop": {"httpGet": dict(get, path="/bye")}}}, terminationGracePeriodSeconds=30, restartPolicy="Never")
    create(cay, body)
    cay.api("POST", PODS, pod("bare", "/usr/bin/python3", "-c", HTTPS,
                              container=dict(up(8443), env=env, readinessProbe=probe(httpGet={"port": 8443, "scheme": "HTTPS"}))))
    says(cay, "bare", "HTTP probe failed with statuscode: 403")
    sh(cay, "secure", "touch /tmp/sick")
    cay.wait(PODS, "secure", phase("Failed", "Succeeded"))
    asked = set(cay.kubectl("logs", "secure").stdout.splitlines())
    assert {"/up yes", "/ready yes", "/bye yes"} <= asked
