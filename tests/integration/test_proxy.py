# SPDX-License-Identifier: Apache-2.0
"""pods/NAME/proxy and services/NAME/proxy against the real program: what a Pod gets to see, what a client does, and Pods that misbehave."""

import http.client
import json
import os
import socket
import ssl
import subprocess

import pytest

from cay_local import AGENTS, ApiError, is_ready, wait_until
from mcp_kit import token_of

NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"
MUCH = 8 << 20
LIMIT = 64 << 10  # of the head of an answer
# 8000 tells what it was asked. 8001 misbehaves, as the path says. 8002 changes to a protocol that echoes. 8443 is 8000 with TLS.
SERVER = r"""
import http.server, json, os, socketserver, ssl, sys, threading, time
class Tell(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, code, body, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
    def do_GET(self):
        n = int(self.headers.get("Content-Length") or 0)
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while n := int(self.rfile.readline(), 16):
                body += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(n)
        if self.path.startswith("/to?"):
            self.answer(302, b"", Location=self.path[4:])
        elif self.path.startswith("/much?"):
            self.answer(200, b"x" * int(self.path[6:]))
        elif self.path == "/cookies":
            self.answer(200, b"", Set_Cookie="a=b; Path=/", Clear_Site_Data='"*"', X_Own="yes")
        elif self.path == "/teapot":
            self.answer(418, b"no coffee", Content_Type="text/plain")
        else:
            self.answer(200, json.dumps({"method": self.command, "path": self.path, "length": len(body), "headers": dict(self.headers)}).encode())
    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET
    def log_message(self, *a):
        pass
class Bad(socketserver.StreamRequestHandler):
    def handle(self):
        what = self.rfile.readline().split()[1].decode()
        while self.rfile.readline().strip():
            pass
        w = self.wfile
        try:
            if what == "/head":
                w.write(b"HTTP/1.1 200 OK\r\n")
                for i in range(100000):
                    w.write(b"X-%d: %s\r\n" % (i, b"y" * 1000))
            elif what == "/garbage":
                w.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            elif what == "/torn":
                w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
            elif what == "/nothing":
                pass
            elif what == "/early":
                w.write(b"HTTP/1.1 413 Much\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much")
            elif what == "/unasked":
                w.write(b"HTTP/1.1 101 Hi\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n")
            elif what == "/endless":
                w.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    w.write(b"10000\r\n" + b"z" * 65536 + b"\r\n")
        except OSError:
            pass
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        head = b""
        while line := self.rfile.readline().strip():
            head += line + b"|"
        self.wfile.write(b"HTTP/1.1 101 Echo\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Head: " + head + b"\r\n\r\n")
        for line in self.rfile:
            self.wfile.write(line)
class Threads(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
def serve(s):
    threading.Thread(target=s.serve_forever, daemon=True).start()
serve(Threads(("", 8001), Bad))
serve(Threads(("", 8002), Echo))
if "PEM" in os.environ:
    open("/tmp/pem", "w").write(os.environ["PEM"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tmp/pem")
    s = http.server.ThreadingHTTPServer(("", 8443), Tell)
    s.socket = context.wrap_socket(s.socket, server_side=True)
    serve(s)
s = http.server.ThreadingHTTPServer(("", 8000), Tell)
open("/tmp/up", "w")
s.serve_forever()
"""
UP = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}


def container(pem=""):
    return {"name": "main", "image": "host", "command": ["python3", "-c", SERVER], "readinessProbe": UP, "ports": [{"containerPort": 8000, "name": "web"}],
            "env": [{"name": "PEM", "value": pem}] if pem else []}


@pytest.fixture(scope="module")
def server(module_instance, tmp_path_factory):
    cay = module_instance("--service-account-grants", "default/editor=edit,default/viewer=view")
    made = tmp_path_factory.mktemp("pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=nobody",
                    "-keyout", made / "key", "-out", made / "cert"], check=True, capture_output=True)
    pem = (made / "key").read_text() + (made / "cert").read_text()
    cay.api("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
                           "spec": {"terminationGracePeriodSeconds": 0, "containers": [container(pem)]}})
    cay.api("POST", f"{NS}/services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": "web"}, {"name": "tls", "port": 443, "targetPort": 8443},
                                                {"name": "echo", "port": 82, "targetPort": 8002}]}})
    cay.wait(PODS, "web", is_ready)
    cay.wait(f"{NS}/endpoints", "svc", lambda e: e and e.get("subsets"))
    cay.tokens = {name: token_of(cay, name) for name in ("editor", "viewer")}
    return cay


def ask(server, path, method="GET", body=None, token=None, **headers):
    """(status, headers, body) of one request under the namespace."""
    context = ssl.create_default_context(cadata=server.credentials()[0].decode()) if token else server.context()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    conn = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=context)
    try:
        conn.request(method, NS + path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = conn.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        conn.close()


def told(server, path, **more):
    status, _, body = ask(server, path, **more)
    assert status == 200, body
    return json.loads(body)


def refusal(server, path, **more):
    status, _, body = ask(server, path, **more)
    body = json.loads(body)
    assert body["kind"] == "Status" and body["code"] == status
    return status, body["reason"], body["message"]


@pytest.mark.parametrize("target", ["pods/web", "pods/web:8000", "pods/http:web:8000", "pods/https:web:8443", "pods/:web:", "services/svc:web",
                                    "services/svc:80", "services/http:svc:web", "services/https:svc:443", "services/https:svc:tls"])
def test_every_way_to_name_a_port(server, target):
    assert told(server, f"/{target}/proxy/a/b?x=1&y=%2F")["path"] == "/a/b?x=1&y=%2F"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method(server, method):
    got = told(server, "/pods/web/proxy/x", method=method, body=b"y" * 1000 if method in ("POST", "PUT", "PATCH") else None)
    assert (got["method"], got["length"]) == (method, 1000 if method in ("POST", "PUT", "PATCH") else 0)
    assert ask(server, "/pods/web/proxy/much?1000", method="HEAD")[1]["Content-Length"] == "1000"


def test_kubectl_asks_through_it(server):
    """Over HTTP/2, as kubectl does."""
    assert json.loads(server.kubectl("get", "--raw", f"{NS}/services/svc:web/proxy/x?y=1").stdout)["path"] == "/x?y=1"
    got = json.loads(server.kubectl("create", "--raw", f"{PODS}/web/proxy/x", "-f", "-", stdin="z" * 100000).stdout)
    assert (got["method"], got["length"]) == ("POST", 100000)


def test_paths_go_on_as_they_were_sent(server):
    for path in ("/", "/a//b/", "/a%2Fb%20c", "/.", "/../x", "/" + "/".join("x" * 30)):
        assert told(server, f"/pods/web/proxy{path}")["path"] == path
    status, headers, _ = ask(server, "/pods/web/proxy?q=1")
    assert (status, headers["Location"]) == (301, f"{PODS}/web/proxy/?q=1")
    assert told(server, "/pods/web/proxy", method="POST")["path"] == "/"


def test_what_a_pod_sees(server):
    got = told(server, "/pods/web/proxy/x", token=server.tokens["editor"], Cookie="api=secret", X_Own="mine", X_Remote_User="root", X_Forwarded_For="1.2.3.4",
               x_forwarded_user="root")["headers"]
    got = {k.lower(): v for k, v in got.items()}
    assert not {"authorization", "cookie", "x-remote-user", "x-forwarded-user"} & set(got)
    assert got["x-own"] == "mine" and got["x-forwarded-for"] == "127.0.0.1" and got["x-forwarded-uri"] == f"{PODS}/web/proxy/x"
    assert got["x-forwarded-proto"] == "https" and got["host"] == f"127.0.0.1:{server.port}"


def test_what_a_client_sees(server):
    _, headers, _ = ask(server, "/pods/web/proxy/cookies")
    assert headers["X-Own"] == "yes" and not {"Set-Cookie", "Clear-Site-Data"} & set(headers) and headers["Content-Security-Policy"].startswith("sandbox ")
    assert ask(server, "/pods/web/proxy/teapot")[::2] == (418, b"no coffee")


def test_redirections_lead_back(server):
    ip = server.api("GET", f"{PODS}/web")["status"]["podIP"]
    base = f"{PODS}/web/proxy"
    for said, location in (("/x?y", f"{base}/x?y"), (f"http://{ip}:8000/x", f"{base}/x"), (f"https://127.0.0.1:{server.port}/x", f"{base}/x"), ("x", "x"),
                           ("http://example.com/x", "http://example.com/x"), ("//example.com/x", "//example.com/x"), (f"{base}/z", f"{base}/z"),
                           (f"http://{ip}:80001/x", f"http://{ip}:80001/x")):
        assert ask(server, f"/pods/web/proxy/to?{said}")[1]["Location"] == location


def test_large_bodies_in_both_directions(server):
    assert len(ask(server, f"/pods/web/proxy/much?{MUCH}")[2]) == MUCH
    assert told(server, "/pods/web/proxy/x", method="POST", body=b"z" * MUCH)["length"] == MUCH
    assert told(server, "/pods/web/proxy/x", method="POST", body=iter([b"z" * 70000] * 50))["length"] == 3500000
    status, _, body = ask(server, "/pods", method="POST", body=b"z" * (4 << 20))
    assert status == 413, "the limit of ordinary bodies stays"


@pytest.mark.parametrize("path,code,message", [
    ("/pods/none/proxy/", 404, 'pods "none" not found'),
    ("/pods/ftp:web:80/proxy/", 400, 'invalid pod request "ftp:web:80"'),
    ("/pods/a:b:c:d/proxy/", 400, 'invalid pod request "a:b:c:d"'),
    ("/pods/:/proxy/", 400, 'invalid pod request ":"'),
    ("/pods/web:99999/proxy/", 400, 'invalid pod request "web:99999"'),
    ("/services/none/proxy/", 404, 'services "none" not found'),
    ("/services/svc:99/proxy/", 503, 'no service port 99 found for service "svc"'),
    ("/services/svc:nope/proxy/", 503, "no endpoints available for service"),
    ("/services/svc/proxy/", 503, "no endpoints available for service"),
    ("/services/a:b:c:d/proxy/", 400, 'invalid service request "a:b:c:d"'),
    ("/pods/web:1/proxy/", 503, "error trying to reach service: "),
    ("/pods/web:8001/proxy/head", 503, "too large"),
    ("/pods/web:8001/proxy/garbage", 503, "error trying to reach service: "),
    ("/pods/web:8001/proxy/nothing", 503, "error trying to reach service: "),
    ("/pods/web:8001/proxy/unasked", 503, "error trying to reach service: "),
])
def test_what_cannot_be_reached_is_told(server, path, code, message):
    got = refusal(server, path)
    assert got[0] == code and message in got[2]


def test_an_answer_that_breaks_off_is_no_whole_one(server):
    with pytest.raises(http.client.IncompleteRead):
        ask(server, "/pods/web:8001/proxy/torn")


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_an_answer_before_the_end_of_the_body_arrives(server, tmp_path, version):
    """The Pod answers and closes before it has read the body."""
    for name, data in zip(("ca", "cert", "key"), server.credentials()):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "body").write_bytes(b"z" * MUCH)
    for _ in range(5):
        got = subprocess.run(["curl", "-sS", version, "--cacert", tmp_path / "ca", "--cert", tmp_path / "cert", "--key", tmp_path / "key", "--max-time", "60",
                              "-H", "Expect:", "--data-binary", f"@{tmp_path}/body", "-w", " %{http_code} %{http_version}",
                              f"https://127.0.0.1:{server.port}{PODS}/web:8001/proxy/early"], capture_output=True, text=True)
        assert got.stdout == f"too much 413 {'2' if version == '--http2' else '1.1'}", got.stderr


def rss(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def test_an_endless_answer_that_nobody_reads_stays_with_the_pod(server):
    conn = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=server.context())
    conn.request("GET", f"{PODS}/web:8001/proxy/endless")
    answer = conn.getresponse()
    before = rss(server)
    read = 0
    while read < 16 << 20:
        read += len(answer.read(1 << 16))
    wait_until(lambda: server.api("GET", f"{PODS}/web"))  # the server goes on meanwhile
    assert rss(server) - before < 16 << 10
    conn.close()
    assert told(server, "/pods/web/proxy/x")["path"] == "/x"


def upgrade(server, path, more=""):
    s = server.context().wrap_socket(socket.create_connection(("127.0.0.1", server.port), 60), server_hostname="127.0.0.1")
    s.sendall(f"GET {NS}{path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\nCookie: basic=1\r\nX-Own: z\r\n{more}\r\n".encode())
    f = s.makefile("rb")
    head = {}
    status = f.readline().split()[1]
    while line := f.readline().strip():
        head[line.split(b":")[0].lower()] = line
    return s, f, status, head


def test_a_changed_protocol_is_a_tunnel(server):
    s, f, status, head = upgrade(server, "/pods/web:8002/proxy/x")
    assert status == b"101" and head[b"upgrade"] == b"Upgrade: echo" and b"X-Own: z" in head[b"x-head"] and b"asic" not in head[b"x-head"]
    for i in range(3):
        s.sendall(b"hello %d\n" % i)
        assert f.readline() == b"hello %d\n" % i
    s.close()
    s, f, status, _ = upgrade(server, "/pods/web:8000/proxy/teapot")
    assert status == b"418", "whoever does not change it answers as usual"
    s.close()


@pytest.mark.parametrize("sent,seen", [
    ("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0, foo\r\n", b"Sec-WebSocket-Protocol: foo|"),
    ("Sec-WebSocket-Protocol: foo\r\nSec-WebSocket-Protocol: Base64URL.Bearer.Authorization.k8s.io.c2VjcmV0,bar\r\n", b"Sec-WebSocket-Protocol: foo, bar|"),
    ("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0\r\n", b""),
    ("Sec-WebSocket-Protocol: foo,bar\r\n", b"Sec-WebSocket-Protocol: foo,bar|"),
])
def test_a_token_among_the_subprotocols_stays_outside(server, sent, seen):
    for target in ("pods/web:8002", "services/svc:echo"):
        s, _, status, head = upgrade(server, f"/{target}/proxy/x", sent)
        s.close()
        assert status == b"101" and b"c2VjcmV0" not in head[b"x-head"]
        assert (seen in head[b"x-head"]) if seen else b"ocket-" not in head[b"x-head"]
    got = told(server, "/pods/web/proxy/x", **{"Sec-WebSocket-Protocol": "foo, base64url.bearer.authorization.k8s.io.c2VjcmV0"})["headers"]
    assert got["Sec-WebSocket-Protocol"] == "foo", "and without a change of the protocol too"


def test_who_may(server):
    assert told(server, "/pods/web/proxy/x", token=server.tokens["editor"])["path"] == "/x"
    for path, sub in (("/pods/web/proxy/x", "pods/proxy"), ("/services/svc:80/proxy/x", "services/proxy"), ("/pods/web/proxy", "pods/proxy")):
        code, reason, message = refusal(server, path, token=server.tokens["viewer"])
        assert (code, reason) == (403, "Forbidden") and f'cannot get resource "{sub}"' in message
    code, _, message = refusal(server, "/pods/web/proxy/x", method="DELETE", token=server.tokens["viewer"])
    assert code == 403 and 'cannot delete resource "pods/proxy"' in message
    assert refusal(server, "/pods/web/proxy/x", method="OPTIONS", token=server.tokens["viewer"])[0] == 403


def test_an_entry_is_recorded(server):
    def found():
        with open(f"{server.data_dir}/audit.log") as f:
            return [r for r in map(json.loads, f) if r.get("subresource") == "proxy" and r["name"] == "web" and r["verb"] == "connect"
                    and r["user"] == "system:serviceaccount:default:editor"]
    before = len(found())
    told(server, "/services/svc:80/proxy/x", token=server.tokens["editor"])
    wait_until(lambda: len(found()) == before + 1)


def test_a_slice_of_somebody_elses_address_leads_nowhere(server):
    """Whoever may write Endpoints cannot have the server connect to an address of their choice."""
    server.api("POST", f"{NS}/services", {"metadata": {"name": "forged"}, "spec": {"ports": [{"port": 80}]}})
    server.api("POST", f"{NS}/endpoints", {"metadata": {"name": "forged"}, "subsets": [{"ports": [{"port": server.port}], "addresses": [
        {"ip": "10.11.12.13", "targetRef": {"kind": "Pod", "name": "web", "namespace": "default"}}, {"ip": "10.11.12.14"}]}]})
    assert refusal(server, "/services/forged:80/proxy/") == (503, "ServiceUnavailable", 'no endpoints available for service "forged"')


def test_discovery_has_them(server):
    found = {r["name"]: r for r in server.api("GET", "/api/v1")["resources"]}
    for name, kind in (("pods/proxy", "PodProxyOptions"), ("services/proxy", "ServiceProxyOptions")):
        assert found[name]["kind"] == kind and sorted(found[name]["verbs"]) == ["create", "delete", "get", "patch", "update"]


def test_a_sleeping_sandbox_wakes(server):
    boxes = f"{AGENTS}/namespaces/default/sandboxes"
    server.api("POST", boxes, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box", "annotations": {
        "cay.dev/idle-after": "1s", "cay.dev/idle-action": "Suspend", "cay.dev/wake": "OnRequest"}},
        "spec": {"service": True, "podTemplate": {"spec": {"containers": [container()]}}}})
    for path in ("/pods/box/proxy/x", "/services/box:8000/proxy/x"):
        server.wait(boxes, "box", lambda b: b["spec"]["operatingMode"] == "Suspended", 60)
        server.wait(PODS, "box", lambda p: p is None)
        assert told(server, path)["path"] == "/x"
    server.api("DELETE", f"{boxes}/box")
