# SPDX-License-Identifier: Apache-2.0
"""The outlet: requests of sandboxes with credentials that never enter them. The world is a network namespace with a name server and a server with TLS,
whose CA is made here."""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys

import pytest
from cay_local import wait_until
from gate_kit import agent, attach, box, delete, patch, put, session
from internet import Network, serve_names

SECRETS = "/api/v1/namespaces/default/secrets"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
BIG = 64 << 20

# Writes down what it is asked, as lines of JSON. What it answers depends on the path.
SERVER = """
import hashlib, http.server, json, os, socketserver, ssl, sys, threading, time
log, cert, big = sys.argv[1], sys.argv[2], int(sys.argv[3])
lock, go = threading.Lock(), threading.Event()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def note(self, **more):
        with lock, open(log, 'a') as f:
            f.write(json.dumps({'tls': self.server.tls, 'method': self.command, 'target': self.path, 'headers': self.headers.items(), **more}) + '\\n')
    def chunks(self):
        if 'chunked' not in self.headers.get('Transfer-Encoding', ''):
            left = int(self.headers.get('Content-Length', 0))
            while left:
                data = self.rfile.read(min(left, 65536)); left -= len(data)
                yield data
            return
        while True:
            n = int(self.rfile.readline(), 16)
            data = self.rfile.read(n); self.rfile.readline()
            if not n:
                return
            yield data
    def send(self, status, body=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(body))); self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)
    def answer(self):
        path = self.path.split('?')[0]
        if path == '/silent':
            self.note(); go.wait(); return
        while path == '/held' and not os.path.exists(log + '.go'):
            time.sleep(0.01)
        digest, n = hashlib.sha256(), 0
        for data in self.chunks():
            digest.update(data); n += len(data)
        self.note(n=n, digest=digest.hexdigest())
        if path == '/moved':
            self.send(302, Location=f"https://{self.headers['Host']}/new?x=1")
        elif path == '/aside':
            self.send(302, Location='/new')
        elif path == '/away':
            self.send(302, Location='https://elsewhere.example/new')
        elif path == '/tells':
            told = self.headers.get('Authorization', '-')
            self.send(200, b'told', Authorization=told, X_Seen=f'I saw {told}', X_Other='fine', Location='/?' + self.path.partition('?')[2])
        elif path == '/page':
            self.send(200, b'<script>1</script>', Content_Type='text/html', Content_Security_Policy='script-src *', X_Content_Type_Options='none',
                      Cross_Origin_Resource_Policy='cross-origin', Access_Control_Allow_Origin='*', Alt_Svc='h2=":1"', Clear_Site_Data='"*"',
                      Service_Worker_Allowed='/', X_Other='fine')
        elif path == '/big':
            self.send_response(200); self.send_header('Content-Length', str(big)); self.end_headers()
            for _ in range(big >> 16):
                self.wfile.write(b'x' * 65536)
        else:
            self.send(200, b'hello ' + self.command.encode())
    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = answer
    def log_message(self, *args): pass
class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):
        socketserver.TCPServer.server_bind(self)  # looks up no name
def serve(port, tls):
    s = Server(('0.0.0.0', port), Handler); s.tls = tls
    if tls:
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(cert)
        s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=s.serve_forever, daemon=True).start()
serve(443, True); serve(8443, True); serve(80, False)
threading.Event().wait()
"""

# One request from inside, as raw as it is given; prints the status and the body as JSON.
ASK = """
import http.client, json, sys
method, target, headers, body = json.loads(sys.argv[1])
c = http.client.HTTPConnection('outlet.cay.internal', 80, timeout=60)
c.putrequest(method, target, skip_host='Host' in headers, skip_accept_encoding=True)
for name, value in headers.items(): c.putheader(name, value)
if body is not None: c.putheader('Content-Length', str(len(body)))
c.endheaders(body.encode() if body is not None else None)
r = c.getresponse()
print(json.dumps([r.status, r.getheaders(), r.read().decode()]))
"""
RAW = """
import socket, sys
s = socket.create_connection(('outlet.cay.internal', 80), timeout=60)
s.sendall(bytes.fromhex(sys.argv[1]))
s.settimeout(60)
data = b''
while True:
    more = s.recv(65536)
    if not more: break
    data += more
print(data.hex())
"""
# Everything that somebody inside could read, but for what is as large as a disk.
SEARCH = """
import os, re, sys
want = bytes.fromhex(sys.argv[1])
def read(path):
    try:
        with open(path, 'rb') as f: return f.read(1 << 20)
    except OSError: return b''
found = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    for name in ('environ', 'cmdline'):
        if want in read(f'/proc/{pid}/{name}'): found.append(f'/proc/{pid}/{name}')
for top in ('/etc', '/run', '/tmp', '/root', '/home', '/var', '/opt', '/srv', '/dev/shm'):
    for d, _, names in os.walk(top):
        for n in names:
            p = os.path.join(d, n)
            if os.path.isfile(p) and want in read(p): found.append(p)
print(found)
"""


def sh(*argv):
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


def make_ca(tmp, names):
    """A CA, and a certificate for these names with its key in one file."""
    ca, key, req, cert = (os.path.join(tmp, n) for n in ("ca.pem", "ca.key", "s.csr", "server.pem"))
    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    sh("openssl", "req", "-x509", *ec, "-keyout", key, "-out", ca, "-subj", "/CN=test CA", "-days", "2")
    sh("openssl", "req", *ec, "-keyout", f"{tmp}/s.key", "-out", req, "-subj", "/CN=server")
    with open(f"{tmp}/ext", "w") as f:
        f.write("subjectAltName=" + ",".join(f"DNS:{n}" for n in names))
    sh("openssl", "x509", "-req", "-in", req, "-CA", ca, "-CAkey", key, "-CAcreateserial", "-out", cert, "-days", "2", "-extfile", f"{tmp}/ext")
    with open(cert, "a") as f, open(f"{tmp}/s.key") as k:
        f.write(k.read())
    return ca, cert


class World:
    """certified: names that the server has a certificate for; others lead to it, or somewhere else, as well."""

    certified = ("api.example", "sub.api.example", "other.example", "elsewhere.example", "big.example")

    def __init__(self, tmp):
        self.net = Network(f"out{os.getpid()}")
        self.log, self.questions, self.conf = (os.path.join(tmp, n) for n in ("requests", "questions", "resolv.conf"))
        self.ca, cert = make_ca(tmp, self.certified)
        names = {f"{n}.": self.net.ip for n in (*self.certified, "liar.example")}
        names.update({"loop.example.": "127.0.0.1", "meta.example.": "169.254.169.254", "lan.example.": "10.1.2.3",
                      "host.example.": self.net.host, "gone.example.": self.net.nobody})
        open(self.log, "w").close()
        open(self.questions, "w").close()
        with open(self.conf, "w") as f:
            f.write(f"nameserver {self.net.ip}\n")
        serve_names(self.net, names, self.questions)
        self.net.spawn(sys.executable, "-c", SERVER, self.log, cert, str(BIG))
        for port in (443, 8443, 80):
            self.net.listens(port)

    def requests(self):
        with open(self.log) as f:
            return [json.loads(line) for line in f]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes network namespaces")
    w = World(str(tmp_path_factory.mktemp("outlet")))
    yield w
    w.net.close()


def flags(world):
    return ("--resolv-conf", world.conf, "--outlet-ca", world.ca)


@pytest.fixture(scope="module")
def cay(world, module_instance):
    return module_instance(*flags(world))


def secret(cay, name, **data):
    cay.api("POST", SECRETS, {"metadata": {"name": name}, "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}})


def set_secret(cay, name, **data):
    cay.api("PATCH", f"{SECRETS}/{name}", {"data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}},
            content_type="application/merge-patch+json")


def credential(cay, name, value=None, **spec):
    """value: None if there is no Secret."""
    if value is not None:
        secret(cay, name, token=value)
    put(cay, "credentials", "Credential", name, **{"secretRef": {"name": name, "key": "token"}, "hosts": ["api.example"], "header": "Authorization",
                                                   "prefix": "Bearer ", **spec})


def seat(cay, name, sandbox, egress, **capabilities):
    """An agent, attached to a sandbox."""
    agent(cay, name, capabilities={"rights": ["exec"], "egress": egress, **capabilities})
    session(cay, name, name)
    attach(cay, name, name, sandbox)
    wait_until(lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in
                           cay.api("GET", f"/apis/cay.dev/v1alpha1/namespaces/default/attachments/{name}").get("status", {}).get("conditions", [])))


def ask_all(cay, sandbox, target, method="GET", body=None, **headers):
    """Status, headers as a list, and body."""
    return json.loads(cay.kubectl("exec", sandbox, "--", "python3", "-c", ASK,
                                  json.dumps([method, target, {k.replace("_", "-"): v for k, v in headers.items()}, body])).stdout)


def ask(*args, **more):
    status, headers, answer = ask_all(*args, **more)
    return status, dict(headers), answer


def gateway_of(cay, sandbox):
    return cay.kubectl("exec", sandbox, "--", "sed", "-n", "s/^nameserver //p", "/etc/resolv.conf").stdout.split()[0]


def raw(cay, sandbox, data):
    return bytes.fromhex(cay.kubectl("exec", sandbox, "--", "python3", "-c", RAW, data.hex()).stdout.strip())


@pytest.fixture
def mark():
    """For names of a test's own."""
    return "t" + secrets.token_hex(4)


@pytest.fixture
def desk(cay, mark):
    """A sandbox with one agent that may reach api.example and use what is named as it is."""
    box(cay, mark)
    seat(cay, mark, mark, [{"host": "api.example"}, {"host": "*.api.example"}], credentials=[f"{mark}*"])  # of the other tests none
    return mark


def sent(world, seen):
    return world.requests()[seen:]


def header(request, name):
    return [v for n, v in request["headers"] if n.lower() == name.lower()]


def test_a_credential_arrives_at_its_host_and_never_in_the_sandbox(cay, world, desk):
    value, seen = secrets.token_hex(16), len(world.requests())
    credential(cay, desk, value)
    status, headers, body = ask(cay, desk, "/https/api.example/v1/models?limit=2", Authorization="Bearer mine", X_Mine="kept")
    assert (status, body) == (200, "hello GET")
    request, = sent(world, seen)
    assert request["tls"] and request["target"] == "/v1/models?limit=2"
    assert header(request, "Authorization") == [f"Bearer {value}"], "what the sandbox sent is replaced"
    assert header(request, "Host") == ["api.example"] and header(request, "X-Mine") == ["kept"]
    assert value not in json.dumps(headers) + body
    assert cay.kubectl("exec", desk, "--", "python3", "-c", SEARCH, value.encode().hex()).stdout.strip() == "[]"


def test_a_parameter_is_replaced_too(cay, world, desk):
    value, seen = "a&b=" + secrets.token_hex(8), len(world.requests())
    credential(cay, desk, value, header=None, query="key", prefix="")
    assert ask(cay, desk, "/https/api.example/v1?key=mine&a=1&k%65y=also")[0] == 200
    request, = sent(world, seen)
    assert request["target"] == "/v1?a=1&key=" + value.replace("&", "%26").replace("=", "%3D")


def test_no_header_of_the_answer_tells_the_value(cay, world, desk):
    value = secrets.token_hex(16)
    credential(cay, desk, value)
    status, headers, body = ask(cay, desk, "/https/api.example/tells")
    assert (status, body, headers.get("X-Other")) == (200, "told", "fine")
    assert value not in json.dumps(headers) and "Authorization" not in headers


@pytest.mark.parametrize("target, expected", [
    ("/https/api.example/moved", "/https/api.example/new?x=1"), ("/https/api.example/aside", "/https/api.example/new"),
    ("/https/api.example/away", "https://elsewhere.example/new")])
def test_redirects_are_passed_on_and_not_followed(cay, world, desk, target, expected):
    seen = len(world.requests())
    status, headers, _ = ask(cay, desk, target)
    assert (status, headers["Location"]) == (302, expected)
    assert len(sent(world, seen)) == 1


def test_methods_and_bodies_arrive_as_they_were_sent(cay, world, desk):
    seen = len(world.requests())
    for method, body in (("POST", "x" * 5000), ("PUT", ""), ("DELETE", None), ("HEAD", None), ("PATCH", "{}")):
        status, _, answer = ask(cay, desk, "/https/api.example/thing", method, body)
        assert (status, answer) == (200, "" if method == "HEAD" else f"hello {method}")
    got = sent(world, seen)
    assert [(r["method"], r["n"]) for r in got] == [("POST", 5000), ("PUT", 0), ("DELETE", 0), ("HEAD", 0), ("PATCH", 2)]
    assert got[0]["digest"] == hashlib.sha256(b"x" * 5000).hexdigest()


def test_a_new_value_is_used_by_the_next_request(cay, world, desk):
    seen = len(world.requests())
    credential(cay, desk, "first")
    assert ask(cay, desk, "/https/api.example/")[0] == 200
    set_secret(cay, desk, token="second")
    assert ask(cay, desk, "/https/api.example/")[0] == 200
    assert [header(r, "Authorization") for r in sent(world, seen)] == [["Bearer first"], ["Bearer second"]]


@pytest.mark.parametrize("broken, field", [("secret", "secretRef.name"), ("key", "secretRef.key"), ("newline", "secretRef.key"), ("empty", "secretRef.key")])
def test_a_credential_without_a_value_sends_nothing(cay, world, desk, broken, field):
    seen = len(world.requests())
    if broken != "secret":
        secret(cay, desk, **({"other": "x"} if broken == "key" else {"token": "two\nlines" if broken == "newline" else ""}))
    credential(cay, desk)
    status, _, text = ask(cay, desk, "/https/api.example/")
    assert status == 502 and f"Credential {desk}" in text and field in text, text
    assert "two" not in text
    assert not sent(world, seen)


def test_the_most_precise_credential_comes_first(cay, world, desk):
    seen = len(world.requests())
    for name, hosts in (("all", ["*"]), ("below", ["*.api.example"]), ("sub-b", ["sub.api.example"]), ("sub-a", ["x.example", "SUB.api.example"])):
        credential(cay, f"{desk}-{name}", name, hosts=hosts)
    assert ask(cay, desk, "/https/sub.api.example/")[0] == 200
    assert ask(cay, desk, "/https/api.example/")[0] == 200
    assert [header(r, "Authorization") for r in sent(world, seen)] == [["Bearer sub-a"], ["Bearer all"]]


def test_no_credential_goes_where_it_could_be_read(cay, world, mark):
    """Over plain HTTP, or to a server that cannot prove its name."""
    seen = len(world.requests())
    box(cay, mark)
    seat(cay, mark, mark, [{"host": "*", "ports": [80, 443, 8443]}], credentials=[mark])
    credential(cay, mark, "value", hosts=["*"])
    assert ask(cay, mark, "/http/api.example/plain")[0] == 200
    request, = sent(world, seen)
    assert not request["tls"] and not header(request, "Authorization")
    status, _, text = ask(cay, mark, "/https/liar.example/")
    assert status == 502 and "certificate" in text.lower(), text
    assert len(sent(world, seen)) == 1
    assert ask(cay, mark, "/https/other.example:8443/")[0] == 200
    assert header(sent(world, seen)[1], "Host") == ["other.example:8443"] and header(sent(world, seen)[1], "Authorization") == ["Bearer value"]


def test_only_what_agents_may_do_is_sent(cay, world, mark):
    seen = len(world.requests())
    box(cay, mark)
    seat(cay, mark, mark, [{"host": "api.example", "methods": ["GET"], "paths": ["/v1/*"]}, {"host": "other.example", "ports": [8443]}])
    for method, target in (("POST", "/https/api.example/v1/x"), ("GET", "/https/api.example/v2"), ("GET", "/https/api.example:8443/v1/x"),
                           ("GET", "/https/other.example/"), ("GET", "/https/elsewhere.example/"), ("GET", "/http/api.example/v1/x")):
        status, _, text = ask(cay, mark, target, method)
        assert status == 403 and "not every agent" in text, (target, text)
    assert not sent(world, seen)
    assert ask(cay, mark, "/https/api.example/v1/x")[0] == 200
    assert ask(cay, mark, "/https/other.example:8443/")[0] == 200


def test_a_sandbox_without_agents_is_refused(cay, world, mark):
    seen = len(world.requests())
    box(cay, mark)
    credential(cay, mark, "value")
    status, _, text = ask(cay, mark, "/https/api.example/")
    assert status == 403 and "no agent is attached" in text
    seat(cay, mark, mark, [{"host": "api.example"}], credentials=[mark])
    assert ask(cay, mark, "/https/api.example/")[0] == 200
    delete(cay, "attachments", mark)
    wait_until(lambda: ask(cay, mark, "/https/api.example/")[0] == 403)
    assert len({json.dumps(header(r, "Authorization")) for r in sent(world, seen)}) == 1


def test_all_agents_of_a_sandbox_must_be_allowed(cay, world, desk):
    seen, second = len(world.requests()), f"{desk}-b"
    credential(cay, desk, "value")
    seat(cay, second, desk, [{"host": "api.example", "paths": ["/v1/*"]}])
    assert ask(cay, desk, "/https/api.example/v2")[0] == 403
    assert ask(cay, desk, "/https/api.example/v1/x")[0] == 200
    assert not header(sent(world, seen)[0], "Authorization"), "the second agent has no credentials"
    patch(cay, "agents", second, {"spec": {"capabilities": {"credentials": [desk]}}})
    assert ask(cay, desk, "/https/api.example/v1/x")[0] == 200
    assert header(sent(world, seen)[1], "Authorization") == ["Bearer value"]
    patch(cay, "credentials", desk, {"spec": {"agents": [desk]}})
    assert ask(cay, desk, "/https/api.example/v1/x")[0] == 200
    assert not header(sent(world, seen)[2], "Authorization"), "it is for the first agent alone"
    patch(cay, "credentials", desk, {"spec": {"agents": [f"{desk}*"]}})
    agent(cay, f"{desk}-p", capabilities={"rights": ["exec"], "egress": [{"host": "api.example"}], "credentials": [desk]})
    patch(cay, "agents", second, {"spec": {"parent": f"{desk}-p"}})
    assert ask(cay, desk, "/https/api.example/v1/x")[0] == 200
    patch(cay, "agents", f"{desk}-p", {"spec": {"capabilities": {"credentials": []}}})
    assert ask(cay, desk, "/https/api.example/v1/x")[0] == 200
    assert [header(r, "Authorization") for r in sent(world, seen)[3:]] == [["Bearer value"], []]


@pytest.mark.parametrize("action, words", [("Ask", "approved"), ("Deny", "denies")])
def test_rules_about_hosts_count(cay, world, desk, action, words):
    seen = len(world.requests())
    patch(cay, "agents", desk, {"spec": {"approval": {"rules": [{"host": "sub.api.example", "action": action}]}}})
    status, _, text = ask(cay, desk, "/https/sub.api.example/")
    assert status == 403 and words in text, text
    assert not sent(world, seen)
    assert ask(cay, desk, "/https/api.example/")[0] == 200


def test_no_name_leads_to_what_no_sandbox_reaches(cay, world, mark):
    """By a name that has such an address, or by the address itself."""
    box(cay, mark)
    seat(cay, mark, mark, [{"host": "*", "ports": [80, 443, cay.port]}])
    gateway = gateway_of(cay, mark)
    with socket.create_server((world.net.host, 443)) as trap:
        trap.setblocking(False)
        for host in ("loop.example", "meta.example", "lan.example", "host.example", "127.0.0.1", "169.254.169.254", "10.1.2.3", gateway, world.net.host,
                     f"127.0.0.1:{cay.port}", f"{gateway}:80", "[::1]", "[fd00::1]", "[64:ff9b::7f00:1]"):
            for scheme in ("https", "http"):
                status, _, text = ask(cay, mark, f"/{scheme}/{host}/")
                assert status == 403 and ("may be reached" in text or "not every agent" in text), (host, text)
        with pytest.raises(BlockingIOError):
            trap.accept()
    status, _, text = ask(cay, mark, "/https/nobody.example/")
    assert status == 502 and "no address" in text
    status, _, text = ask(cay, mark, "/https/gone.example/")
    assert status in (502, 504) and "gone.example: connect" in text, text
    assert ask(cay, mark, f"/http/{world.net.ip}/")[0] == 200


def test_names_are_looked_up_as_a_sandbox_would(cay, world, mark):
    """An answer that does not fit into a datagram is asked for over TCP, and one that never comes is given up."""
    box(cay, mark)
    seat(cay, mark, mark, [{"host": "*"}])
    assert ask(cay, mark, "/https/big.example/")[0] == 200
    status, _, text = ask(cay, mark, "/https/silent.example/")
    assert status == 502 and "no address" in text
    with open(world.questions) as f:
        asked = f.read().splitlines()
    assert "udp big.example. 1" in asked and "tcp big.example. 1" in asked and asked.count("udp silent.example. 1") > 1


def test_network_policies_count(cay, world, desk):
    seen = len(world.requests())
    assert ask(cay, desk, "/https/api.example/")[0] == 200
    labels = cay.api("GET", f"/api/v1/namespaces/default/pods/{desk}")["metadata"]["labels"]
    cay.api("POST", POLICIES, {"metadata": {"name": desk}, "spec": {
        "podSelector": {"matchLabels": labels}, "policyTypes": ["Egress"], "egress": [{"ports": [{"protocol": "UDP", "port": 53}]}, {
            "to": [{"ipBlock": {"cidr": f"{world.net.ip}/32"}}], "ports": [{"port": 8443}]}]}})
    wait_until(lambda: ask(cay, desk, "/https/api.example/")[0] == 403)
    cay.api("DELETE", f"{POLICIES}/{desk}")
    wait_until(lambda: ask(cay, desk, "/https/api.example/")[0] == 200)
    assert {r["target"] for r in sent(world, seen)} == {"/"}


@pytest.mark.parametrize("head, status", [
    (b"GET /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
    (b"POST /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    (b"GET /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\nX: y\r\n\r\n", 400),
    (b"GET /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nHost: api.example\r\n\r\n", 400),
    (b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n", 501),
    (b"TRACE /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\n\r\n", 405),
    (b"GET /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", 501),
    (b"GET http://api.example/a HTTP/1.1\r\nHost: api.example\r\n\r\n", 400),
    (b"GET /https/api.example/a HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400),
    (b"POST /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n\r\n", 403),
    (b"GET /https/api.example/a HTTP/1.1\r\nHost: outlet.cay.internal\r\nX: " + b"y" * 20000 + b"\r\n\r\n", 431),
    (b"GET /https/api.example/a/../b HTTP/1.1\r\nHost: outlet.cay.internal\r\n\r\n", 400),
    (b"GET /v1 HTTP/1.1\r\nHost: outlet.cay.internal\r\n\r\n", 404),
], ids=["both lengths", "other coding", "two lengths", "bare newline", "two hosts", "connect", "trace", "upgrade", "proxy", "other host", "web page", "large head",
        "dots", "other form"])
def test_what_could_mean_something_else_is_not_sent(cay, world, hygiene, head, status):
    seen = len(world.requests())
    last = b"Connection: close\r\n\r\n"
    answer = raw(cay, hygiene, head.replace(b"\r\n\r\n", b"\r\n" + last, 1) if b"Connection" not in head else head)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert not sent(world, seen)


@pytest.fixture(scope="module")
def hygiene(cay):
    name = "h" + secrets.token_hex(4)
    box(cay, name)
    seat(cay, name, name, [{"host": "api.example"}])
    return name


@pytest.mark.parametrize("name, value", [
    ("Origin", "https://evil.example"), ("Origin", "null"), ("Referer", "http://evil.example/page"), ("Referer", "HTTPS://evil.example"),
    ("Referer", "http://outlet.cay.internal.evil.example/"), ("Referer", "http://outlet.cay.internal@evil.example/"),
    ("Referer", "https://outlet.cay.internal/"), ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Dest", "image"), ("Sec-Fetch-User", "?1"),
    ("Sec-Purpose", "prefetch"), ("Upgrade-Insecure-Requests", "1")])
def test_what_says_that_a_browser_asks_is_refused(cay, world, hygiene, name, value):
    seen = len(world.requests())
    status, _, text = ask(cay, hygiene, "/https/api.example/", **{name: value})
    assert status == 403 and f"header {name}" in text and "from a program" in text, text
    assert not sent(world, seen)


@pytest.mark.parametrize("name, value", [
    ("Referer", "http://outlet.cay.internal/https/api.example/moved"), ("Referer", "install"), ("Sec-Fetch-Mode", "cors")],
    ids=["Go after a redirect", "npm 6", "fetch of Node.js"])
def test_what_programs_send_is_not_taken_for_a_browsers(cay, world, hygiene, name, value):
    seen = len(world.requests())
    assert ask(cay, hygiene, "/https/api.example/", **{name: value})[0] == 200
    assert not header(sent(world, seen)[0], "Referer")


ISOLATED = {"content-security-policy": ["sandbox; default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"],
            "x-content-type-options": ["nosniff"], "cross-origin-resource-policy": ["same-origin"],
            "access-control-allow-origin": [], "alt-svc": [], "clear-site-data": [], "service-worker-allowed": []}


@pytest.mark.parametrize("target, status", [("/https/api.example/page", 200), ("/https/api.example/", 200), ("/https/other.example/", 403), ("/v1", 404)],
                         ids=["a page", "plain", "refused", "other form"])
def test_an_answer_is_a_document_that_can_do_nothing_in_a_browser(cay, world, hygiene, target, status):
    """All hosts are one origin to a browser: no answer may be of that origin."""
    got, headers, _ = ask_all(cay, hygiene, target)
    assert got == status
    assert {name: [v for n, v in headers if n.lower() == name] for name in ISOLATED} == ISOLATED
    assert (("X-Other", "fine") in map(tuple, headers)) == target.endswith("/page")


def recorded(cay, sandbox):
    with open(os.path.join(cay.data_dir, "audit.log")) as f:
        return [r for r in map(json.loads, f) if r.get("subresource") == "outlet" and r.get("name") == sandbox]


def test_every_request_is_on_record_without_its_secrets(cay, world, desk):
    value = secrets.token_hex(16)
    credential(cay, desk, value)
    assert ask(cay, desk, "/https/api.example/v1/x?token=private")[0] == 200
    assert ask(cay, desk, "/https/other.example/")[0] == 403

    wait_until(lambda: len(recorded(cay, desk)) == 3)
    with open(os.path.join(cay.data_dir, "audit.log")) as f:
        text = f.read()
    assert value not in text and "private" not in text
    first, good, bad = recorded(cay, desk)
    assert "status" not in first and "note" not in first and (first["annotations"], first["from"]) == (good["annotations"], good["from"])
    assert (good["status"], good["user"], good["verb"]) == (200, f"cay:sandbox:default:{desk}", "connect")
    text = json.dumps(good)
    assert good["annotations"] == {"request": "GET https://api.example:443/v1/x", "credential": desk} and good["sent"] == len("hello GET"), text
    assert bad["status"] == 403 and "not every agent" in json.dumps(bad)
    assert value not in cay.log()


def hold(cay, sandbox, target):
    """A request whose answer does not come; end it with kill()."""
    return subprocess.Popen(["kubectl", "--kubeconfig", cay.kubeconfig, "exec", "-i", sandbox, "--", "timeout", "60", "python3", "-c", ASK, json.dumps(["GET", target, {}, None])],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_a_request_is_on_record_before_anybody_outside_learns_of_it(cay, world, desk):
    """Nobody answers at this address: not even a connection is there, and the record is."""
    credential(cay, desk, "value")
    patch(cay, "agents", desk, {"spec": {"capabilities": {"egress": [{"host": "*"}]}}})
    with hold(cay, desk, "/https/silent.example/x?y") as p:
        try:
            first, = wait_until(lambda: recorded(cay, desk))
            assert "status" not in first and first["annotations"] == {"request": "GET https://silent.example:443/x"}
        finally:
            p.kill()
    with hold(cay, desk, "/https/api.example/silent") as p:
        try:
            last = wait_until(lambda: [r for r in recorded(cay, desk) if "443/silent" in r["annotations"]["request"]])[-1]
            assert last["annotations"] == {"request": "GET https://api.example:443/silent", "credential": desk}
        finally:
            p.kill()


@pytest.fixture
def small_disk(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "cay-test", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", "-l", tmp_path], check=True)


def test_a_request_that_cannot_be_recorded_is_not_sent(fresh, world, small_disk):
    cay = fresh(*flags(world), "--audit-log", str(small_disk / "audit.log"))
    box(cay, "desk")
    seat(cay, "desk", "desk", [{"host": "api.example"}])
    assert ask(cay, "desk", "/https/api.example/")[0] == 200
    with contextlib.suppress(OSError), open(small_disk / "full", "wb", buffering=0) as f:
        while f.write(b"x" * 4096):
            pass
    wait_until(lambda: ask(cay, "desk", "/https/api.example/")[0] == 503)  # the last page of the log has room for some
    seen = len(world.requests())
    status, _, text = ask(cay, "desk", "/https/api.example/")
    assert status == 503 and "the audit log cannot be written now" in text and str(small_disk) not in text, text
    assert not sent(world, seen)
    os.unlink(small_disk / "full")
    wait_until(lambda: ask(cay, "desk", "/https/api.example/")[0] == 200)


def test_a_flood_of_requests_is_turned_away_and_counted(cay, world, desk):
    script = """
import http.client
c = http.client.HTTPConnection('outlet.cay.internal', 80, timeout=60)
got = []
while 429 not in got and len(got) < 5000:
    c.request('GET', '/v1'); r = c.getresponse(); r.read(); got.append(r.status)
print(len(got), got[-1], set(got[:-1]) or '')
"""
    n, last, before = cay.kubectl("exec", desk, "--", "python3", "-c", script).stdout.split(maxsplit=2)
    assert last == "429" and int(n) > 100 and before.strip() == "{404}"


def test_a_sandbox_has_no_more_requests_under_way_than_its_share(cay, world, desk):
    script = """
import http.client
def ask(path):
    c = http.client.HTTPConnection('outlet.cay.internal', 80, timeout=60); c.request('GET', path); return c
held = [ask('/https/api.example/silent') for _ in range(32)]
for _ in range(50):  # the last of them may come a moment later
    r = ask('/https/api.example/').getresponse(); text = r.read().decode()
    if r.status == 429: break
print(r.status, r.getheader('Retry-After'), text)
for c in held: c.close()
"""
    text = cay.kubectl("exec", desk, "--", "python3", "-c", script).stdout
    assert text.startswith("429 1 ") and "32 requests under way" in text
    wait_until(lambda: ask(cay, desk, "/https/api.example/")[0] == 200)


def daemon_memory(cay, reset=False):
    """The most that it has had since it was asked to forget, in bytes."""
    if reset:
        with open(f"/proc/{cay.process.pid}/clear_refs", "w") as f:
            f.write("5")
    with open(f"/proc/{cay.process.pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def established(world):
    """(receive queue, send queue) of the connections at the server."""
    return [tuple(map(int, line.split()[:2])) for line in world.net.run("ss", "-Htn", "state", "established", "sport = :443").splitlines()]


def test_a_sandbox_that_does_not_read_costs_no_memory(cay, world, desk):
    n, script = 8, """
import http.client, sys
n, all = int(sys.argv[1]), []
for _ in range(n):
    c = http.client.HTTPConnection('outlet.cay.internal', 80, timeout=300); c.request('GET', '/https/api.example/big'); all.append(c)
print('asked', flush=True); sys.stdin.readline()
total = 0
for c in all:
    r = c.getresponse()
    while data := r.read(1 << 16): total += len(data)
print(total)
"""
    before = daemon_memory(cay, reset=True)
    command = ["kubectl", "--kubeconfig", cay.kubeconfig, "exec", "-i", desk, "--", "python3", "-c", script, str(n)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout.readline() == "asked\n"
            wait_until(lambda: sum(out > 0 for _, out in established(world)) == n)  # the server has to wait with each
            out, _ = p.communicate("go\n", timeout=300)
        finally:
            p.kill()
    assert int(out) == n * BIG
    assert daemon_memory(cay) - before < 48 << 20, "512 MiB went through"


def test_a_server_that_does_not_read_costs_no_memory(cay, world, desk):
    script = """
import hashlib, http.client, sys
c = http.client.HTTPConnection('outlet.cay.internal', 80, timeout=300)
block, digest = bytes(range(256)) * 256, hashlib.sha256()
def body():
    for i in range(int(sys.argv[1]) >> 16):
        digest.update(block); yield block
c.request('POST', '/https/api.example/held', body(), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
r = c.getresponse(); r.read()
print(r.status, digest.hexdigest())
"""
    before, seen = daemon_memory(cay, reset=True), len(world.requests())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(cay.kubectl, "exec", desk, "--", "python3", "-c", script, str(BIG), timeout=300)
        wait_until(lambda: any(queued_in > 0 for queued_in, _ in established(world)))
        open(world.log + ".go", "w").close()
        status, digest = asked.result().stdout.split()
    request, = sent(world, seen)
    assert status == "200" and (request["n"], request["digest"]) == (BIG, digest)
    assert daemon_memory(cay) - before < 24 << 20


def test_the_name_leads_to_the_gateway_and_is_asked_of_nobody(cay, world, desk):
    script = "import socket\nfor n in ('outlet.cay.internal.', 'other.cay.internal.', 'cay.internal.'):\n try: print(socket.gethostbyname(n))\n except OSError: print('none')"
    found = cay.kubectl("exec", desk, "--", "python3", "-c", script).stdout.split()
    gateway = gateway_of(cay, desk)
    assert found == [gateway, "none", "none"]
    with open(world.questions) as f:
        assert "cay.internal. " not in f.read().replace("cay.internal.default", "")


def pid_of(cay, sandbox):
    return next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == f"default/{sandbox}")


def tries(pid, gateway, listen=True):
    """Whether port 80 of the gateway is reached from the network of this process. listen: a program of the host listens there meanwhile, as a web server
    on all addresses would; the packet filter knows our socket by its mark."""
    script = "import socket, sys\ntry: socket.create_connection((sys.argv[1], 80), timeout=2); print('reached')\nexcept OSError: print('shut')"
    with socket.create_server((gateway, 80)) if listen else contextlib.nullcontext():
        return subprocess.run(["nsenter", "-t", str(pid), "-n", sys.executable, "-c", script, gateway], capture_output=True, text=True, check=True).stdout.strip()


def test_a_server_that_is_killed_leaves_nothing_of_a_request_and_its_port_to_nobody(fresh, world):
    cay = fresh(*flags(world), "--open-to-local-users")  # otherwise no program of the host could answer either
    box(cay, "desk")
    seat(cay, "desk", "desk", [{"host": "api.example"}], credentials=["*"])
    credential(cay, "cred", "value")
    seen, pid, gateway = len(world.requests()), pid_of(cay, "desk"), gateway_of(cay, "desk")
    assert tries(pid, gateway, listen=False) == "reached"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(subprocess.run, ["kubectl", "--kubeconfig", cay.kubeconfig, "exec", "desk", "--", "python3", "-c", ASK,
                                             json.dumps(["GET", "/https/api.example/silent", {}, None])], capture_output=True, timeout=120)
        wait_until(lambda: len(sent(world, seen)) == 1)
        cay.kill()
        assert not asked.result().stdout, "it got no answer"
    assert tries(pid, gateway) == "shut"
    assert recorded(cay, "desk")[-1]["annotations"] == {"request": "GET https://api.example:443/silent", "credential": "cred"}, "it was sent, and is on record"
    cay.start()
    wait_until(lambda: ask(cay, "desk", "/https/api.example/after")[0] == 200)
    assert header(sent(world, seen)[-1], "Authorization") == ["Bearer value"]
    assert not cay.census()[1]


@pytest.mark.parametrize("off", [("--outlet", "off"), ("--egress", "none")])
def test_where_it_is_off_nobody_is_reached_at_its_port(fresh, world, off):
    cay = fresh(*flags(world), *off)
    box(cay, "desk")
    script = "import socket\ntry: socket.gethostbyname('outlet.cay.internal.'); print('name')\nexcept OSError: print('none')"
    assert cay.kubectl("exec", "desk", "--", "python3", "-c", script).stdout.strip() == "none"
    assert tries(pid_of(cay, "desk"), gateway_of(cay, "desk")) == "shut"
