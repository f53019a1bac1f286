# SPDX-License-Identifier: Apache-2.0
"""More ways to address the router: by host, by path, through TLS; and what keeps web pages from using them.

A browser is played by hand: what counts is which headers arrive. `visit` follows a signed URL and keeps its cookie, as
a browser would; attacks then send that cookie the way a page of another origin makes a browser send it.
"""

import base64
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import time
import urllib.parse

import pytest

from cay_local import AGENTS, ROOT, condition, free_port, is_ready, wait_until

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
DOMAIN = "sandbox.localhost"
SECRET = "0123456789abcdef0123456789abcdef-scoped"
NOBODY = 65534

# Tells what it was asked; speaks WebSocket on /ws; TLS on 8443 with the certificate in $TLS_PEM.
SERVER = """
import base64, hashlib, http.server, json, os, socket, ssl, threading
NAME = os.environ['BOX']
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0)).decode()
        if self.headers.get('Upgrade', '').lower() == 'websocket':
            return self.websocket()
        told = json.dumps({'box': NAME, 'method': self.command, 'target': self.path, 'body': body,
                           'headers': [[k.lower(), v] for k, v in self.headers.items()]}).encode()
        self.send_response(302 if self.path.startswith('/go') else 200)
        if self.path == '/go':
            self.send_header('Location', '/next?x=1')
        if self.path == '/go-self':
            self.send_header('Location', 'http://' + self.headers['Host'] + '/next')
        if self.path == '/go-away':
            self.send_header('Location', 'http://elsewhere.example/next')
        for c in ('cay-door=stolen', '__Host-cay-door=stolen; Path=/; Secure', 'mine=1; Path=/app; Domain=sandbox.localhost; HttpOnly'):
            self.send_header('Set-Cookie', c)
        self.send_header('Service-Worker-Allowed', '/')
        self.send_header('Content-Length', str(len(told)))
        self.end_headers()
        self.wfile.write(told)
    do_GET = do_POST = do_PUT = do_OPTIONS = answer
    def websocket(self):
        key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        for k, v in (('Upgrade', 'websocket'), ('Connection', 'Upgrade'),
                     ('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(k, v)
        self.end_headers()
        hello = ('hello from ' + NAME).encode()
        self.wfile.write(bytes([0x81, len(hello)]) + hello)
        self.close_connection = True
        self.rfile.read(1)
    def log_message(self, *a): pass
class Tls(http.server.ThreadingHTTPServer):
    def get_request(self):
        s, a = self.socket.accept()
        return context.wrap_socket(s, server_side=True, do_handshake_on_connect=False), a
open('/tmp/tls.pem', 'w').write(os.environ['TLS_PEM'])
def count(s):  # answers when the other side has ended its direction
    got = b''.join(iter(lambda: s.recv(65536), b''))
    s.sendall(hashlib.sha256(got).hexdigest().encode())
    s.close()
def counter():
    listener = socket.create_server(('', 8002))
    while True:
        threading.Thread(target=count, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=counter, daemon=True).start()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('/tmp/tls.pem')
threading.Thread(target=Tls(('', 8443), Echo).serve_forever, daemon=True).start()
threading.Thread(target=http.server.ThreadingHTTPServer(('', 8001), Echo).serve_forever, daemon=True).start()
http.server.ThreadingHTTPServer(('', 8000), Echo).serve_forever()
"""


def make_pem(directory, name="in-the-box.example"):
    key, cert = f"{directory}/box.key", f"{directory}/box.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-keyout", key, "-out", cert, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"],
                   check=True, capture_output=True)
    return open(key).read() + open(cert).read()


def make_box(cay, name, pem):
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
                                "spec": {"podTemplate": {"spec": {"containers": [
                                    {"name": "main", "image": "host", "command": ["python3", "-c", SERVER],
                                     "env": [{"name": "BOX", "value": name}, {"name": "TLS_PEM", "value": pem}],
                                     "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}}}})
    return cay.wait(SANDBOXES, name, is_ready)


class Doors:
    """An instance with every way in, and two sandboxes whose owners do not know each other."""

    def __init__(self, make, tmp):
        self.tmp = str(tmp)
        open(f"{self.tmp}/secret", "w").write(f"  {SECRET}\n")
        self.tls_port, self.sni_port = free_port(), free_port()
        self.cay = make("--router-path-prefix", "/s", "--router-scoped-token-secret", f"{self.tmp}/secret",
                        "--router-tls-listen", f"127.0.0.1:{self.tls_port}", "--router-sni-listen", f"127.0.0.1:{self.sni_port}",
                        "--service-account-grants", "default/runner=edit")
        self.pem = make_pem(self.tmp)
        for name in ("alice", "bob-2"):
            make_box(self.cay, name, self.pem)
        self.cay.kubectl("create", "serviceaccount", "runner")

    def host(self, name="alice", port=8000):
        return f"{port}-{name}.default.{DOMAIN}:{self.cay.router_port}"

    def ask(self, method="GET", target="/", body=None, secure=False, **headers):
        """One request; headers as keywords, with _ for -. (status, headers as a list, body)"""
        head = {k.replace("_", "-"): v for k, v in headers.items() if v is not None}
        if secure:
            conn = http.client.HTTPSConnection("127.0.0.1", self.tls_port, timeout=30, context=ssl._create_unverified_context())
        else:
            conn = http.client.HTTPConnection("127.0.0.1", self.cay.router_port, timeout=30)
        try:
            conn.request(method, target, body, head)
            answer = conn.getresponse()
            return answer.status, [(k.lower(), v) for k, v in answer.getheaders()], answer.read().decode()
        finally:
            conn.close()

    def told(self, *args, **headers):
        status, _, body = self.ask(*args, **headers)
        assert status == 200, (status, body)
        return json.loads(body)

    def url(self, name="alice", port=8000, *flags):
        out = self.cay.cay("url", name, str(port), "--router", f"http://127.0.0.1:{self.cay.router_port}", *flags).stdout.strip()
        return urllib.parse.urlsplit(out)

    def token(self, *args):
        return urllib.parse.parse_qs(self.url(*args).query)["cay_pass"][0]

    def visit(self, name="alice", port=8000, *flags):
        """Opens a signed URL as a browser does; the cookie."""
        u = self.url(name, port, *flags)
        status, head, _ = self.ask("GET", f"{u.path}?{u.query}", Host=u.netloc)
        assert status == 303
        return dict(head)["set-cookie"].split(";")[0]


@pytest.fixture(scope="module")
def doors(module_instance, tmp_path_factory):
    return Doors(module_instance, tmp_path_factory.mktemp("doors"))


def bearer(doors):
    return "Bearer " + doors.cay.kubectl("create", "token", "runner").stdout.strip()


# -- which sandbox ----------------------------------------------------------------------------


def test_u43_a_path_names_the_sandbox_and_the_rest_stays_as_it_is(doors):
    token = bearer(doors)
    seen = doors.told("GET", "/s/default/alice/8000/a%2Fb?q=1", Authorization=token)
    assert (seen["box"], seen["target"]) == ("alice", "/a%2Fb?q=1")
    assert dict(seen["headers"])["x-forwarded-prefix"] == "/s/default/alice/8000"
    assert doors.told("GET", "/s/default/bob-2/8001", Authorization=token)["target"] == "/"
    for target, text in (("/s/default/alice", "must have the form"), ("/s", "must have the form"),
                         ("/s/default/alice/", "must have the form"), ("/s/default/alice/0/", "Invalid port"),
                         ("/s/default/Alice/80/", "Invalid sandbox ID"), ("/s/a.b/alice/80/", "Invalid namespace")):
        status, _, body = doors.ask("GET", target, Authorization=token)
        assert status == 400 and text in body, (target, body)
    seen = doors.told("GET", "/sx/default/alice/8000/", X_Sandbox_ID="bob-2", X_Sandbox_Port="8000")
    assert (seen["box"], seen["target"]) == ("bob-2", "/sx/default/alice/8000/")


def test_a_host_names_the_sandbox(doors):
    token = bearer(doors)
    for name, port in (("alice", 8000), ("bob-2", 8001)):
        seen = doors.told("GET", "/healthz?a", Host=doors.host(name, port), Authorization=token)
        assert (seen["box"], seen["target"]) == (name, "/healthz?a")
        assert dict(seen["headers"])["x-forwarded-host"] == doors.host(name, port)
    assert doors.told("GET", "/", Host=doors.host("alice").upper(), Authorization=token)["box"] == "alice"
    for host, text in ((f"alice.default.{DOMAIN}", "PORT-NAME"), (f"8000-alice.{DOMAIN}", "PORT-NAME"),
                       (f"x.8000-alice.default.{DOMAIN}", "PORT-NAME"), (f"8000-alice.x.default.{DOMAIN}", "Invalid namespace"), (f"99999-alice.default.{DOMAIN}", "Invalid port")):
        status, _, body = doors.ask("GET", "/", Host=host, Authorization=token)
        assert status == 400 and text in body, (host, body)
    assert doors.ask("GET", "/", Host=f"8000-alice.default.not-{DOMAIN}", Authorization=token)[0] == 421


def test_two_names_for_a_sandbox_are_a_contradiction(doors):
    token = bearer(doors)
    for where in ({"Host": doors.host("alice")}, {"target": "/s/default/alice/8000/"}):
        for name, value in (("X_Sandbox_ID", "bob-2"), ("X_Sandbox_Port", "8000"), ("X_Sandbox_Pod_IP", "10.0.0.1")):
            status, _, body = doors.ask(**where, **{name: value}, Authorization=token)
            assert status == 400 and "leave one of them out" in body
        assert doors.ask(**where, X_Sandbox_Timeout="20", Authorization=token)[0] == 200


# -- who may ----------------------------------------------------------------------------------


def test_who_has_connected_is_not_enough_where_a_page_could_have_made_it(doors):
    """This test is root. By header that lets it in; by host and path a page could send the same."""
    assert doors.ask("GET", "/", X_Sandbox_ID="alice", X_Sandbox_Port="8000")[0] == 200
    status, _, body = doors.ask("GET", "/", Host=doors.host())
    assert status == 401 and "cay url" in body
    assert doors.ask("GET", "/s/default/alice/8000/")[0] == 401


def test_what_a_browser_says_it_has_sent_is_not_its_users(doors):
    """A page that the router itself served has the router's origin, and may send any header there."""
    for site in ("same-origin", "cross-site", "none"):
        assert doors.ask("GET", "/", X_Sandbox_ID="alice", X_Sandbox_Port="8000", Sec_Fetch_Site=site)[0] == 401
    assert doors.ask("GET", "/", X_Sandbox_ID="alice", X_Sandbox_Port="8000", Sec_Fetch_Site="none",
                     Authorization=bearer(doors))[0] == 200


def test_a_signed_url_becomes_a_cookie_of_its_host_alone(doors):
    u = doors.url()
    assert u.netloc == doors.host()
    status, head, _ = doors.ask("GET", f"/deep//x?a=1&{u.query}&b=%2F", Host=u.netloc)
    head = dict(head)
    assert status == 303 and head["location"] == f"http://{u.netloc}/deep//x?a=1&b=%2F"
    assert head["cache-control"] == "no-store" and head["referrer-policy"] == "no-referrer"
    attributes = [a.strip().lower() for a in head["set-cookie"].split(";")[1:]]
    assert "httponly" in attributes and "samesite=lax" in attributes and "path=/" in attributes
    assert not any(a.startswith("domain") for a in attributes) and "secure" not in attributes
    cookie = head["set-cookie"].split(";")[0]
    seen = doors.told("GET", "/", Host=u.netloc, Cookie=f"a=1; {cookie}; b=2")
    assert dict(seen["headers"])["cookie"] == "a=1; b=2", "the sandbox was told the router's cookie"


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_client_with_a_cookie_jar_follows_a_signed_url(doors, secure, tmp_path):
    """curl keeps cookies by the rules: of the host alone, __Host- only with Secure."""
    port = doors.tls_port if secure else doors.cay.router_port
    router = f"https://localhost:{port}" if secure else f"http://localhost:{port}"
    url = doors.cay.cay("url", "alice", "8000", "--router", router, "--kubeconfig", doors.cay.kubeconfig).stdout.strip()
    (tmp_path / "ca.crt").write_bytes(doors.cay.credentials()[0])

    def curl(url, *flags):
        names = [flag for name in ("alice", "bob-2") for flag in ("--resolve", f"8000-{name}.default.{DOMAIN}:{port}:127.0.0.1")]
        r = subprocess.run(["curl", "-sS", "--cacert", tmp_path / "ca.crt", "-b", tmp_path / "jar", "-c", tmp_path / "jar",
                            "-w", "\n%{http_code}", *names, *flags, url], capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        return int(r.stdout.rsplit("\n", 1)[1]), r.stdout.rsplit("\n", 1)[0]
    status, body = curl(url, "-L")
    assert status == 200 and json.loads(body)["target"] == "/"
    bare = url.split("?")[0]
    assert curl(bare)[0] == 200
    assert curl(bare.replace("alice", "bob-2"))[0] == 401, "the jar gave a sibling the cookie"


def test_by_path_a_signed_url_is_shown_every_time_and_sets_no_cookie(doors):
    u = doors.url("alice", 8000, "--via", "path")
    status, head, body = doors.ask("GET", f"{u.path}x?{u.query}&a=1", Host=u.netloc)
    assert status == 200 and json.loads(body)["target"] == "/x?a=1"
    assert not any(v.startswith(("cay-door", "__Host-cay-door")) for k, v in head if k == "set-cookie")
    assert doors.ask("GET", u.path, Host=u.netloc, Cookie=doors.visit())[0] == 401


def test_sandboxes_share_an_origin_by_path_and_their_pages_get_none(doors):
    _, head, _ = doors.ask("GET", "/s/default/alice/8000/", Authorization=bearer(doors))
    policy = dict(head)["content-security-policy"]
    assert policy.startswith("sandbox") and "allow-same-origin" not in policy
    assert "service-worker-allowed" not in dict(head)


def test_a_cookie_opens_no_other_sandbox_and_no_other_port(doors):
    cookie = doors.visit("alice")
    assert doors.ask("GET", "/", Host=doors.host("alice"), Cookie=cookie)[0] == 200
    assert doors.ask("GET", "/", Host=doors.host("bob-2"), Cookie=cookie)[0] == 403
    assert doors.ask("GET", "/", Host=doors.host("alice", 8001), Cookie=cookie)[0] == 403
    assert doors.ask("GET", "/", X_Sandbox_ID="alice", Sec_Fetch_Site="none", Cookie=cookie)[0] == 401


def test_neither_a_cookie_nor_a_url_is_good_as_the_other(doors):
    token, cookie = doors.token(), doors.visit().split("=", 1)[1]
    assert doors.ask("GET", "/", Host=doors.host(), Cookie=f"cay-door={token}")[0] == 401
    assert doors.ask("GET", f"/?cay_pass={cookie}", Host=doors.host())[0] == 401
    assert doors.ask("GET", "/", Host=doors.host(), Authorization=f"Bearer {token}")[0] == 200
    assert doors.ask("GET", "/", Host=doors.host(), Authorization=f"Bearer {cookie}")[0] == 401


def test_what_was_changed_or_made_elsewhere_is_refused(doors):
    token = doors.token()
    kind, claims, mac = token.split(".")
    wrong = json.loads(base64.urlsafe_b64decode(claims + "=="))
    wrong["name"] = "bob-2"
    forged = base64.urlsafe_b64encode(json.dumps(wrong).encode()).decode().rstrip("=")
    own = base64.urlsafe_b64encode(hmac.new(b"x" * 32, b"cay/signed-url/v1." + forged.encode(), hashlib.sha256).digest())
    for bad in (f"{kind}.{forged}.{mac}", f"{kind}.{forged}.{own.decode().rstrip('=')}", f"{kind}.{claims}.", f"{kind}.{claims}",
                f"v1.{claims}.{mac}", f"c1.{claims}.{mac}", "", "u1..", "x" * 9000, token[:-1] + ("A" if token[-1] != "A" else "B")):
        assert doors.ask("GET", f"/?cay_pass={bad}", Host=doors.host("bob-2"))[0] == 401, bad
        assert doors.ask("GET", "/", Host=doors.host("bob-2"), Cookie=f"cay-door={bad}")[0] == 401, bad


def test_a_url_ends_with_its_time(doors):
    token, u = doors.token("alice", 8000, "--ttl", "1s"), doors.url("alice", 8000, "--ttl", "1s")
    wait_until(lambda: doors.ask("GET", "/", Host=doors.host(), Authorization=f"Bearer {token}")[0] == 401, timeout=20)
    status, _, body = doors.ask("GET", f"/?{u.query}", Host=u.netloc)
    assert status == 401 and "expired" in body
    for flags in (("--ttl", "25h"), ("--ttl", "0s")):
        r = doors.cay.cay("url", "alice", "8000", "--router", f"http://127.0.0.1:{doors.cay.router_port}", *flags, check=False)
        assert r.returncode == 2, r


def test_a_url_opens_the_sandbox_it_was_made_for_and_not_the_next_of_its_name(doors):
    cay = doors.cay
    make_box(cay, "fleeting", doors.pem)
    token, cookie = doors.token("fleeting"), doors.visit("fleeting")
    shown = {"Host": doors.host("fleeting")}
    assert doors.ask("GET", "/", **shown, Cookie=cookie)[0] == 200
    cay.api("DELETE", f"{SANDBOXES}/fleeting")
    cay.wait(SANDBOXES, "fleeting", lambda o: o is None)
    make_box(cay, "fleeting", doors.pem)
    for head in ({"Cookie": cookie}, {"Authorization": f"Bearer {token}"}):
        status, _, body = doors.ask("GET", "/", **shown, **head)
        assert status == 403 and "gone" in body, body
    assert doors.ask("GET", "/", **shown, Cookie=doors.visit("fleeting"))[0] == 200
    cay.api("DELETE", f"{SANDBOXES}/fleeting")


def test_a_url_may_be_for_some_paths_and_methods_alone(doors):
    token = doors.token("alice", 8000, "--path", "/public", "--methods", "GET,HEAD")
    ask = lambda method, target: doors.ask(method, target, Host=doors.host(), Authorization=f"Bearer {token}")[0]
    assert ask("GET", "/public") == 200 and ask("GET", "/public/a?x=/private") == 200
    assert ask("POST", "/public") == 403
    seen = doors.told("GET", "/public", Host=doors.host(), Authorization=f"Bearer {token}", X_HTTP_Method_Override="DELETE")
    assert "x-http-method-override" not in dict(seen["headers"])
    conn = http.client.HTTPConnection("127.0.0.1", doors.cay.router_port, timeout=30)
    conn.request("GET", "/public", None, {"Host": doors.host(), "Authorization": f"Bearer {token}", "X_HTTP_Method": "PUT", "X-HTTP_Method-Override": "PUT"})
    assert "method" not in json.dumps(json.loads(conn.getresponse().read())["headers"]).lower()
    conn.close()
    for path in ("/", "/private", "/publicity", "/public/../private", "/public/%2e%2e/private", "/public%2f..%2fprivate", "/public//x"):
        assert ask("GET", path) == 403, path


def test_whoever_may_not_go_in_gets_no_url_and_neither_does_a_url(doors):
    ask = lambda **head: doors.ask("POST", "/.cay/url", "{}", X_Sandbox_ID="alice", X_Sandbox_Port="8000", **head)
    mints = lambda **head: "url" in json.loads(ask(**head)[2])
    assert mints() and mints(Authorization=bearer(doors), Sec_Fetch_Site="none")
    status, _, body = ask(Authorization=f"Bearer {doors.token()}")
    assert status == 200 and json.loads(body)["target"] == "/.cay/url", "a signed URL renews itself"
    assert ask(Sec_Fetch_Site="same-origin")[0] == 401
    assert doors.told("POST", "/.cay/url", "{}", Host=doors.host(), Cookie=doors.visit(), Origin=f"http://{doors.host()}")["box"] == "alice"
    code = "import http.client, sys\nc = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n" \
           "c.request('POST', '/.cay/url', '{}', {'X-Sandbox-ID': 'alice'})\nprint(c.getresponse().status)"
    r = subprocess.run(["/usr/bin/python3", "-c", code, str(doors.cay.router_port)], capture_output=True, text=True, user=NOBODY,
                       group=NOBODY, extra_groups=[], cwd="/")
    assert r.stdout.strip() == "401", r.stderr
    r = doors.cay.cay("url", "nobody", "8000", "--router", f"http://127.0.0.1:{doors.cay.router_port}", check=False)
    assert r.returncode == 1 and "there is no sandbox nobody" in r.stderr


# -- pages ------------------------------------------------------------------------------------

CROSS = [
    ("an image or script of another site", "GET", dict(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="script")),
    ("a script of a sibling", "GET", dict(Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="script")),
    ("a frame in a sibling", "GET", dict(Sec_Fetch_Site="same-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe")),
    ("a fetch of a sibling", "GET", dict(Origin="SIBLING", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")),
    ("a form of a sibling", "POST", dict(Origin="SIBLING", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")),
    ("a form of an old browser", "POST", dict(Origin="https://evil.example")),
    ("a form with no origin", "POST", dict(Origin="null")),
    ("a form of a browser that says nothing", "POST", dict()),
    ("a form that shows where it was", "POST", dict(Referer="http://evil.example/")),
    ("one whose name begins alike", "POST", dict(Referer="OWN.evil.example/")),
    ("another scheme", "POST", dict(Origin="HTTPS")),
]


@pytest.mark.parametrize("who,method,head", CROSS, ids=[c[0].replace(" ", "-") for c in CROSS])
def test_other_pages_cannot_use_the_cookie(doors, who, method, head):
    own = f"http://{doors.host()}"
    words = {"SIBLING": f"http://{doors.host('bob-2')}", "OWN": own, "HTTPS": f"https://{doors.host()}"}
    head = {k: re.sub("SIBLING|OWN|HTTPS", lambda m: words[m.group()], v) for k, v in head.items()}
    status, _, body = doors.ask(method, "/", Host=doors.host(), Cookie=doors.visit(), **head)
    assert status == 403 and "another page" in body, (who, body)


def test_the_sandboxs_own_pages_and_the_user_can(doors):
    own, cookie = f"http://{doors.host()}", doors.visit()
    ask = lambda method, **head: doors.ask(method, "/", Host=doors.host(), Cookie=cookie, **head)[0]
    assert ask("GET") == 200
    assert ask("GET", Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document") == 200
    assert ask("GET", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document") == 200
    assert ask("POST", Origin=own) == 200
    assert ask("POST", Origin=own, Sec_Fetch_Site="same-origin") == 200
    assert ask("PUT", Referer=own + "/form") == 200


def test_a_planted_cookie_does_not_hide_the_good_one(doors):
    cookie = doors.visit()
    assert doors.ask("GET", "/", Host=doors.host(), Cookie=f"cay-door=planted; {cookie}; cay-door=")[0] == 200


def test_a_sandbox_sets_no_cookie_of_the_routers_and_none_for_its_siblings(doors):
    for where in (dict(Host=doors.host()), dict(target="/s/default/alice/8000/")):
        _, head, _ = doors.ask(**where, Authorization=bearer(doors))
        cookies = [v for k, v in head if k == "set-cookie"]
        path = "/s/default/alice/8000/app" if "target" in where else "/app"
        assert cookies == [f"mine=1; Path={path}; HttpOnly"]


def test_redirections_lead_back_to_where_the_client_came_from(doors):
    token = bearer(doors)
    for base, where in (("", dict(Host=doors.host())), ("/s/default/alice/8000", {})):
        location = lambda path: dict(doors.ask("GET", base + path if base else path, **where, Authorization=token)[1])["location"]
        assert location("/go") == base + "/next?x=1"
        assert location("/go-self") == base + "/next"
        assert location("/go-away") == "http://elsewhere.example/next"


IDENTITIES = ("X-Forwarded-User", "X-Forwarded-Email", "X-Remote-User", "X-Remote-Group", "X-Auth-Request-User", "X-Webauth-User",
              "Remote-User", "remote_user", "X_Forwarded_User", "X-SSL-Client-DN", "Cay-User", "X-Real-IP", "Forwarded",
              "X-Forwarded-Client-Cert", "X-Original-URL", "Proxy-Authorization")


def test_a_client_cannot_say_who_it_is(doors):
    for where in (dict(Host=doors.host()), dict(target="/s/default/alice/8000/"), dict(X_Sandbox_ID="alice", X_Sandbox_Port="8000")):
        conn = http.client.HTTPConnection("127.0.0.1", doors.cay.router_port, timeout=30)
        head = {k.replace("_", "-"): v for k, v in where.items() if k != "target"}
        head.update({k: "admin" for k in IDENTITIES}, Authorization=bearer(doors), **{"X-Own": "admin"})
        conn.request("GET", where.get("target", "/"), headers=head)
        seen = json.loads(conn.getresponse().read())["headers"]
        conn.close()
        assert [k for k, v in seen if v == "admin"] == ["x-own"]
        assert "authorization" not in dict(seen)


def websocket(doors, **head):
    import websocket as ws
    return ws.create_connection(f"ws://127.0.0.1:{doors.cay.router_port}/ws", host=doors.host(), timeout=30, **head)


def test_a_websocket_by_host(doors):
    import websocket as ws
    cookie, own = doors.visit(), f"http://{doors.host()}"
    s = websocket(doors, cookie=cookie, origin=own)
    assert s.recv() == "hello from alice"
    s.close()
    for head in (dict(cookie=cookie, origin=f"http://{doors.host('bob-2')}"), dict(cookie=cookie, suppress_origin=True), dict(origin=own)):
        with pytest.raises(ws.WebSocketBadStatusException) as e:
            websocket(doors, **head)
        assert e.value.status_code == (403 if "cookie" in head else 401)


# -- scoped tokens ----------------------------------------------------------------------------


def scoped(ns="default", name="alice", exp=None, secret=SECRET, label="agent-sandbox/scoped-token/v1.", **more):
    claims = {"ns": ns, "name": name, "exp": int(time.time()) + 600 if exp is None else exp, **more}
    b64 = lambda b: base64.urlsafe_b64encode(b).decode().rstrip("=")
    body = b64(json.dumps(claims).encode())
    return f"v1.{body}.{b64(hmac.new(secret.encode(), (label + body).encode(), hashlib.sha256).digest())}"


def test_dataplane_151_to_155_scoped_tokens(doors):
    def ask(token, name="alice", scheme="Bearer", **head):
        return doors.ask("GET", "/", X_Sandbox_ID=name, X_Sandbox_Port="8000", Sec_Fetch_Site="none",
                         Authorization=token and f"{scheme} {token}", **head)[0]
    assert ask(scoped()) == 200 and ask(f"  {scoped()} ", scheme="bearer") == 200
    assert ask(scoped(), "bob-2") == 403 and ask(scoped(ns="other")) == 403
    now = int(time.time())
    for bad in (scoped(secret="x" * 32), scoped(exp=now - 1), scoped(exp=now), scoped(label=""), scoped()[3:], "v1.", "v1.x.y", "v2." + scoped()[3:],
                scoped(exp="never"), scoped(name=""), scoped(exp=float(now + 600.5)), None):
        assert ask(bad) == 401, bad
    assert ask(scoped(), X_Sandbox_UID="x") == 403 and ask(scoped(), X_Sandbox_Pod_IP="10.0.0.1") == 403
    assert doors.ask("GET", "/", Host=doors.host(), Authorization=f"Bearer {scoped()}")[0] == 200


def test_a_short_secret_and_contradictory_flags_are_refused(fresh, tmp_path):
    (tmp_path / "short").write_text("x" * 31 + "\n")
    for flags, text in ((("--router-scoped-token-secret", str(tmp_path / "short")), "32 bytes"),
                        (("--router-path-prefix", "s/"), "must begin with a slash"),
                        (("--router-domain", "Not_A_Domain"), "no domain"),
                        (("--router-domain", "", "--router-sni-listen", "127.0.0.1:0"), "needs --router-domain"),
                        (("--router-tls-cert", "/x"), "go together")):
        with pytest.raises(RuntimeError, match=text):
            fresh(*flags)


def test_ways_that_are_off_lead_nowhere(fresh):
    cay = fresh("--router-domain", "")
    status = lambda target, **head: cay.route("x", "GET", target, headers=head)[0]
    assert status("/", Host=f"8000-x.default.{DOMAIN}") == 421
    assert status("/s/default/x/8000/") == 502, "routed by its headers to a sandbox that is not there"


# -- TLS --------------------------------------------------------------------------------------


def tls_context(doors, cert=False):
    ca, crt, key = doors.cay.credentials()
    context = ssl.create_default_context(cadata=ca.decode())
    if cert:
        open(f"{doors.tmp}/admin.pem", "wb").write(crt + b"\n" + key)
        context.load_cert_chain(f"{doors.tmp}/admin.pem")
    return context


def tls_ask(doors, name, context, port=None, **head):
    """A request over TLS for a name; what answered, and the names in its certificate."""
    with socket.create_connection(("127.0.0.1", port or doors.tls_port), timeout=30) as raw:
        with context.wrap_socket(raw, server_hostname=name) as s:
            lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in dict(Host=f"{name}:{doors.tls_port}", **head).items())
            s.sendall(f"GET / HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            names = [v for _, v in (s.getpeercert() or {}).get("subjectAltName", ())]
            text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    return int(text.split()[1]), text, names


def test_tls_has_a_certificate_for_every_name_that_is_asked_for(doors):
    context = tls_context(doors)
    token = bearer(doors)
    for name in ("8000-alice.default", "8001-bob-2.default"):
        status, text, names = tls_ask(doors, f"{name}.{DOMAIN}", context, Authorization=token)
        assert status == 200 and names == [f"*.default.{DOMAIN}"], text
        assert json.loads(text.split("\r\n\r\n", 1)[1])["box"] in name
        assert '"x-forwarded-proto", "https"' in text
    assert tls_ask(doors, f"1-x.other-ns.{DOMAIN}", context)[2] == [f"*.other-ns.{DOMAIN}"]
    assert "127.0.0.1" in tls_ask(doors, "localhost", context)[2]
    for name in (f"a.b.c.{DOMAIN}", f"x.{DOMAIN}", "example.com"):
        with pytest.raises(ssl.SSLCertVerificationError):
            tls_ask(doors, name, context)


def test_a_client_certificate_counts_as_at_the_api_but_not_in_a_browsers_hands(doors):
    """As a user whose uid is not trusted: the certificate is all that is shown."""
    code = """
import http.client, ssl
context = ssl._create_unverified_context()
if pem: context.load_cert_chain(pem)
c = http.client.HTTPSConnection('127.0.0.1', port, context=context, timeout=30)
c.request('GET', '/', headers=head)
print(c.getresponse().status)
"""
    tls_context(doors, cert=True)
    pem = f"/var/tmp/cay-doors-{os.getpid()}.pem"
    with open(pem, "wb") as f:
        f.write(open(f"{doors.tmp}/admin.pem", "rb").read())
    os.chmod(pem, 0o644)
    strange = f"/var/tmp/cay-doors-{os.getpid()}-strange.pem"
    with open(strange, "w") as f:
        f.write(doors.pem)
    os.chmod(strange, 0o644)

    def ask(pem, **head):
        head = {k.replace("_", "-"): v for k, v in head.items()}
        r = subprocess.run(["/usr/bin/python3", "-c", f"pem, port, head = {pem!r}, {doors.tls_port}, {head!r}\n{code}"], text=True,
                           capture_output=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", timeout=60)
        return r.stdout.strip() or r.stderr
    try:
        by_header = dict(X_Sandbox_ID="alice", X_Sandbox_Port="8000")
        assert ask(None, **by_header) == "401"
        assert ask(pem, **by_header) == "200"
        assert ask(strange, **by_header) == "401"
        assert ask(pem, **by_header, Sec_Fetch_Site="same-origin") == "401"
        assert ask(pem, Host=f"8000-alice.default.{DOMAIN}:{doors.tls_port}") == "401"
    finally:
        os.unlink(pem)
        os.unlink(strange)


def test_under_tls_the_cookie_is_secure_and_bound_to_its_host(doors):
    out = doors.cay.cay("url", "alice", "8000", "--router", f"https://127.0.0.1:{doors.tls_port}", "--kubeconfig", doors.cay.kubeconfig).stdout
    u = urllib.parse.urlsplit(out.strip())
    assert u.scheme == "https" and u.netloc == f"8000-alice.default.{DOMAIN}:{doors.tls_port}"
    _, head, _ = doors.ask("GET", f"/?{u.query}", secure=True, Host=u.netloc)
    cookie = dict(head)["set-cookie"]
    assert cookie.startswith("__Host-cay-door=") and "; Secure" in cookie and dict(head)["location"] == f"https://{u.netloc}/"
    value = cookie.split(";")[0]
    assert doors.ask("GET", "/", secure=True, Host=u.netloc, Cookie=value)[0] == 200
    assert doors.ask("GET", "/", secure=True, Host=u.netloc, Cookie=value.replace("__Host-", ""))[0] == 401
    assert doors.ask("GET", "/", Host=doors.host(), Cookie=value)[0] == 401


def test_dataplane_168_files_of_a_certificate_are_read_again(fresh, tmp_path):
    """As a cluster mounts them: links through `..data`, which is replaced by a rename."""
    def version(n, name):
        d = tmp_path / n
        d.mkdir()
        make_pem(str(d), name)
        return d

    def swap(d):
        os.symlink(d.name, tmp_path / "..data_tmp")
        os.rename(tmp_path / "..data_tmp", tmp_path / "..data")
    swap(version("one", "first.example"))
    for f in ("box.crt", "box.key"):
        os.symlink(f"..data/{f}", tmp_path / f)
    port = free_port()
    cay = fresh("--router-tls-listen", f"127.0.0.1:{port}", "--router-tls-cert", str(tmp_path / "box.crt"),
                "--router-tls-key", str(tmp_path / "box.key"))

    def served():
        der = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port), timeout=20))
        return [n for n in ("first.example", "second.example", "third.example") if n.encode() in der][0]
    assert served() == "first.example"
    swap(version("two", "second.example"))
    wait_until(lambda: served() == "second.example")
    (tmp_path / "two" / "box.key").write_text("nonsense")
    wait_until(lambda: "going on with the last one" in cay.log())
    assert served() == "second.example"
    swap(version("three", "third.example"))
    wait_until(lambda: served() == "third.example")


# -- TLS that is passed on --------------------------------------------------------------------


def inside(doors):
    """A context that trusts the certificate in the sandbox, and no other."""
    context = ssl.create_default_context(cadata=re.search("-----BEGIN CERT.*", doors.pem, re.S).group())
    context.check_hostname = False  # the name routes; the certificate has its own
    return context


def test_tls_is_passed_on_to_the_sandbox_that_it_names(doors):
    for name in ("alice", "bob-2"):
        status, text, names = tls_ask(doors, f"8443-{name}.default.{DOMAIN}", inside(doors), doors.sni_port)
        assert status == 200 and json.loads(text.split("\r\n\r\n", 1)[1])["box"] == name
        assert "in-the-box.example" in names
        with open(f"{doors.cay.data_dir}/audit.log") as log:
            wait_until(lambda: any(f'"name":"{name}","port":8443' in line and '"user":"uid 0 of this machine"' in line for line in log))


def alert_of(doors, data, user=None):
    """What the port answers to bytes: the description in its alert."""
    with socket.create_connection(("127.0.0.1", doors.sni_port), timeout=30) as s:
        s.sendall(data)
        got = b"".join(iter(lambda: s.recv(4096), b""))
    assert got[:5] == b"\x15\x03\x03\x00\x02" and got[5] == 2 and len(got) == 7, got
    return got[6]


def hello(name, pieces=1):
    ext = b""
    if name is not None:
        entry = b"\x00" + struct.pack(">H", len(name)) + name
        ext = struct.pack(">HHH", 0, len(entry) + 2, len(entry)) + entry
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00" + struct.pack(">H", len(ext)) + ext
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    size = -(-len(message) // pieces)
    parts = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(p)) + p for p in parts)


def test_what_names_no_sandbox_is_told_so_and_closed(doors):
    assert alert_of(doors, hello(None)) == 109
    assert alert_of(doors, hello(f"8443-nobody.default.{DOMAIN}".encode())) == 112
    assert alert_of(doors, hello(f"8443-nobody.default.{DOMAIN}".encode(), pieces=40)) == 112
    assert alert_of(doors, hello(b"example.com")) == 112
    assert alert_of(doors, hello(f"9-alice.default.{DOMAIN}".encode())) == 80, "nothing listens there"
    assert alert_of(doors, b"GET / HTTP/1.1\r\n\r\n") == 50
    assert alert_of(doors, b"\x16\x03\x01\x40\x00\x01\x00\x50\x00") == 50, "too long a message"


def test_another_user_is_not_passed_on(doors):
    code = f"""
import socket
s = socket.create_connection(('127.0.0.1', {doors.sni_port}), timeout=30)
s.sendall({hello(f"8443-alice.default.{DOMAIN}".encode())!r})
print(s.recv(7)[6])
"""
    r = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    assert r.stdout.strip() == "49", r.stderr


def test_a_crowd_of_another_user_takes_no_places(doors):
    """It is told why only while there is room: whoever is told may stay for a moment."""
    code = f"""
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
crowd = [socket.create_connection(('127.0.0.1', {doors.sni_port}), timeout=60) for _ in range(1000)]
told = 0
for s in crowd:
    try:
        told += len(s.recv(7)) == 7
    except ConnectionResetError:
        pass
print(told)
"""
    r = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    assert 0 < int(r.stdout or -1) < 1000, r.stderr


@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "later"])
def test_bytes_are_passed_on_as_they_are_and_so_is_the_end_of_a_direction(doors, at_once):
    first, more = hello(f"8002-alice.default.{DOMAIN}".encode(), pieces=3), os.urandom(300000)
    with socket.create_connection(("127.0.0.1", doors.sni_port), timeout=30) as s:
        s.sendall(first)
        if not at_once:
            s.sendall(more)
        s.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: s.recv(4096), b""))
    assert answer.decode() == hashlib.sha256(first if at_once else first + more).hexdigest()


def test_a_suspended_sandbox_is_woken_by_clients_that_ask_for_its_name(doors):
    make_box(doors.cay, "carol", doors.pem)
    try:
        doors.cay.api("PATCH", f"{SANDBOXES}/carol", {"metadata": {"annotations": {"cay.dev/wake": "OnRequest"}},
                                                      "spec": {"operatingMode": "Suspended"}}, "application/merge-patch+json")
        doors.cay.wait(SANDBOXES, "carol", lambda o: (condition(o, "Suspended") or {}).get("status") == "True")

        def ask(_):
            return tls_ask(doors, f"8443-carol.default.{DOMAIN}", inside(doors), doors.sni_port)[0]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == [200] * 8
    finally:
        doors.cay.api("DELETE", f"{SANDBOXES}/carol")


def test_connections_to_one_sandbox_are_limited(doors):
    """The first 128 stay; the next is told so; when one ends there is room again."""
    name = f"8443-alice.default.{DOMAIN}"
    opened = []

    def is_let_in():
        s = inside(doors).wrap_socket(socket.create_connection(("127.0.0.1", doors.sni_port), timeout=30), server_hostname=name)
        opened.append(s)
        return True
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda _: is_let_in(), range(128)))
        assert alert_of(doors, hello(name.encode())) == 80
        assert tls_ask(doors, f"8443-bob-2.default.{DOMAIN}", inside(doors), doors.sni_port)[0] == 200
        opened.pop().close()

        def again():
            try:
                return is_let_in()
            except ssl.SSLError:
                return False
        wait_until(again)
    finally:
        for s in opened:
            s.close()
