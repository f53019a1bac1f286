# SPDX-License-Identifier: Apache-2.0
"""`cay router` beside `cay serve`: another process, another user, who knows only what the API says.

The packet filter of `cay serve` lets nobody but itself into sandboxes, while on a cluster everybody in the Pod network gets
there. So a table of the test's own marks the packets of the router's user, as an administrator would who runs one here.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import make_dir
from cay_local import AGENTS, EXTENSIONS, ROOT, is_ready, wait_until
from router_kit import Authority, Router, scoped_token, soon

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
ROUTER = 64123  # a user that nobody is
SECRET = b"0123456789abcdef0123456789abcdef"

# Says what it was asked; /slow takes until the file /tmp/go is there.
ECHO = """
import http.server, os, time
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if self.path == '/slow':
            while not os.path.exists('/tmp/go'): time.sleep(0.01)
        if self.path == '/go': open('/tmp/go', 'w').close()
        body = (self.path + '\\n' + str(self.headers)).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length'])); self.do_GET()
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('', 8000), Echo).serve_forever()
"""


def sandbox(name):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [
                {"name": "main", "image": "host", "command": ["python3", "-c", ECHO],
                 "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}}}}


@pytest.fixture(scope="module")
def world(module_instance):
    cay = module_instance("--service-account-grants", "default/runner=edit,default/reader=view")
    for name in ("runner", "reader"):
        cay.kubectl("create", "serviceaccount", name)
    cay.tokens = {name: cay.kubectl("create", "token", name).stdout.strip() for name in ("runner", "reader")}
    for name in ("box", "other"):
        cay.api("POST", SANDBOXES, sandbox(name))
    cay.ip = cay.wait(SANDBOXES, "box", is_ready)["status"]["podIPs"][0]
    cay.wait(SANDBOXES, "other", is_ready)
    with open(f"{cay.data_dir}/node/instance.json") as f:
        mark = 0xca700000 | (int(json.load(f)["id"], 16) & 0xfffff)
    table = f"cayt_router_{os.getpid()}"
    # A socket whose process has ended has no user: what it still sends belongs to a connection that had one.
    rules = (f"type filter hook output priority -150\nmeta skuid {ROUTER} ct mark set {mark:#x}\n"
             f"ct mark {mark:#x} meta mark set {mark:#x}")
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=f"table inet {table} {{\nchain of_router {{\n{rules}\n}}\n}}\n")
    yield cay
    subprocess.run(["nft", "delete", "table", "inet", table], check=True)


@pytest.fixture
def router(world):
    made = []

    def make(*flags, start=True, **more):
        made.append(Router(world.kubeconfig, *flags, uid=ROUTER, **more))
        return made[-1].start() if start else made[-1]

    yield make
    for one in made:
        one.finish()


@pytest.fixture
def shared():
    """A directory that the router's user can read, too."""
    directory = make_dir()
    os.chmod(directory, 0o755)
    yield pathlib.Path(directory)
    shutil.rmtree(directory)


def test_rights_decide_who_enters(world, router):
    """The default: who may create pods/exec for the sandbox's Pod."""
    r = router()
    status, _, body = r.ask("box", "/a%2Fb?q=1", token=world.tokens["runner"])
    assert status == 200 and body.startswith("/a%2Fb?q=1\n")
    assert "Authorization" not in body  # dataplane 116
    assert r.ask("box")[::2] == (401, '{"detail":"unauthenticated"}\n')
    assert r.ask("box", token="made-up")[::2] == (401, '{"detail":"unauthenticated"}\n')
    assert r.ask("box", token=world.tokens["reader"])[::2] == (403, '{"detail":"forbidden"}\n')
    assert r.status("box", token=world.tokens["runner"], X_Sandbox_Namespace="kube-system") == 403
    assert r.status("nobody", token=world.tokens["runner"]) == 502


def test_answers_about_callers_are_remembered(world, router):
    """dataplane 147"""
    r = router()
    for _ in range(5):
        assert r.status("box", token=world.tokens["runner"]) == 200
        assert r.status("box", token="bad") == 401
    assert r.metric('cay_router_reviews_total{answer="asked"}') == 3  # a token, its right, another token
    assert r.status("other", token=world.tokens["runner"]) == 200
    assert r.metric('cay_router_reviews_total{answer="asked"}') == 4
    assert r.metric('sandbox_router_requests_total{method="GET",code="200",sandbox_namespace="default"}') == 6
    assert r.metric('sandbox_router_authz_decisions_total{sandbox_namespace="default",decision="deny"}') == 5


def test_tokens_alone(world, router):
    """dataplane 145, 146: whoever is somebody may enter, and without a token only where that is allowed."""
    r = router("--authz-mode", "tokenreview")
    assert r.status("box", token=world.tokens["reader"]) == 200
    assert r.status("box", token="bad") == 401
    assert r.status("box") == 401
    r = router("--authz-mode", "tokenreview", "--authz-tokenreview-require-token=false")
    assert r.status("box") == 200
    assert r.status("box", token="bad") == 401


def test_scoped_tokens(world, router, shared):
    """dataplane 151, 152, 153, 154"""
    secret = shared / "secret"
    secret.write_bytes(b"\n " + SECRET + b" \n")
    r = router("--authz-mode", "scoped-token", "--authz-scoped-token-secret-file", str(secret))
    good = scoped_token(SECRET, "default", "box", soon())
    assert r.status("box", token=good) == 200
    assert r.status("other", token=good) == 403
    assert r.status("box", token=good, X_Sandbox_Namespace="kube-system") == 403
    assert r.status("box", token=good, X_Sandbox_Pod_IP=world.ip) == 403
    assert r.status("box", token=good, X_Sandbox_UID="x") == 403
    bad = [scoped_token(b"x" * 32, "default", "box", soon()), scoped_token(SECRET, "default", "box", time.time() - 1), "v1.x",
           scoped_token(SECRET, "default", "box", soon(), domain=""), good[3:], world.tokens["runner"], None]
    assert [r.status("box", token=token) for token in bad] == [401] * len(bad)


def test_everybody_if_told_so(world, router):
    """dataplane 143; and addresses that a request names only choose among those of the sandbox."""
    r = router("--authz-mode", "allow-all")
    assert r.status("box") == 200
    assert r.status("box", X_Sandbox_Pod_IP=world.ip) == 200
    status, _, body = r.ask("box", X_Sandbox_Pod_IP="10.255.255.1")
    assert status == 200 and f"Host: {world.ip}:8000" in body
    assert r.status("box", X_Sandbox_Pod_IP="127.0.0.1") == 400  # dataplane 100


def test_tls_and_client_certificates(world, router, shared):
    """dataplane 150, 168, U46"""
    ca = Authority(str(shared))
    ca.server()
    flags = ["--tls-cert-file", ca.path("server.crt"), "--tls-key-file", ca.path("server.key"),
             "--tls-client-ca-file", ca.path("ca.crt"), "--mtls-mode"]
    r = router(*flags, "optional", "--https-bind-address", "127.0.0.1:0", start=False)
    r.argv[-1] = f"127.0.0.1:{r.tls_port}"
    r.start()
    runner = ca.client("runner", "/CN=x", "subjectAltName=URI:https://no,URI:spiffe://cluster/ns/a,DNS:a.example")
    master = ca.client("master", "/O=system:masters/CN=boss")
    account = ca.client("account", "/CN=system:serviceaccount:default:runner")
    hidden = ca.client("hidden", "/CN=system:serviceaccount:default:runner", "subjectAltName=DNS:a.example")
    assert r.status("box", tls=ca.context(), token=world.tokens["runner"]) == 200
    assert r.status("box", tls=ca.context()) == 401
    assert r.status("box", tls=runner) == 403  # known, without rights
    assert r.status("box", tls=master) == 200
    assert r.status("box", tls=account) == 200
    assert r.status("box", tls=hidden) == 403  # the DNS name comes first
    page = ca.client("page", "/CN=system:serviceaccount:default:runner", "subjectAltName=URI:https://no")
    assert r.status("box", tls=page) == 200  # such a URI names nobody
    assert r.status("box", tls=master, token="bad") == 401  # a token that is shown counts
    _, _, body = r.ask("box", tls=master)
    assert "X-Forwarded-Proto: https" in body

    before = r.connect(ca.context())
    before.connect()
    first = before.sock.getpeercert(True)
    ca.server()
    os.utime(ca.path("server.crt"))

    def served():
        conn = r.connect(ca.context())
        conn.connect()
        return conn.sock.getpeercert(True)
    wait_until(lambda: served() != first)

    r = router(*flags, "required", "--authz-mode", "allow-all", "--https-bind-address", "127.0.0.1:0", start=False)
    r.argv[-1] = f"127.0.0.1:{r.tls_port}"
    r.start()
    assert r.status("box", tls=runner) == 200
    assert r.status("box", tls=ca.context()) == 401
    assert r.status("box") == 401  # through the plain port too


def test_probes_and_drain(world, router):
    """dataplane 124, 166: not ready first, then requests under way end, then the process."""
    r = router("--authz-mode", "allow-all")
    assert r.show(r.probe_port, "/healthz") == (200, '{"status":"ok"}\n')
    assert r.show(r.port, "/healthz") == (200, '{"status":"ok"}\n')
    assert r.ready() == 200
    assert r.show(r.probe_port, "/metrics")[0] == 404
    slow = r.connect()
    slow.request("GET", "/slow", headers={"X-Sandbox-ID": "box", "X-Sandbox-Port": "8000"})
    wait_until(lambda: r.metric("sandbox_router_inflight_requests") == 1)
    r.process.send_signal(signal.SIGTERM)
    wait_until(lambda: r.show(r.probe_port, "/readyz") == (503, "draining\n"))
    assert r.show(r.probe_port, "/healthz")[0] == 200
    with pytest.raises(OSError):
        r.ask("box")
    other = router("--authz-mode", "allow-all")  # what a Deployment has beside it
    assert other.status("box", "/go") == 200
    answer = slow.getresponse()
    assert answer.status == 200 and answer.read().startswith(b"/slow\n")
    assert r.process.wait(60) == 0


def test_metrics_that_are_off_are_nowhere(world, router):
    r = router("--authz-mode", "allow-all", start=False)
    r.argv[r.argv.index("--metrics-bind-address") + 1] = "0"
    r.start()
    assert r.show(r.probe_port, "/metrics")[0] == 404
    r = router("--authz-mode", "allow-all", start=False)
    r.argv[r.argv.index("--metrics-bind-address") + 1] = f"127.0.0.1:{r.probe_port}"
    r.start()
    assert r.show(r.probe_port, "/metrics")[0] == 200  # one address for both


def test_a_drain_has_an_end(world, router):
    r = router("--authz-mode", "allow-all", "--shutdown-timeout", "100ms", "--proxy-timeout", "1h")
    conn = r.connect()
    conn.connect()
    conn.sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: 8000\r\nContent-Length: 9\r\n\r\nabc")
    wait_until(lambda: r.metric("sandbox_router_inflight_requests") == 1)
    assert r.stop() == 0
    assert conn.sock.recv(100) == b""


def test_a_crash_leaves_nothing(world, router):
    r = router()
    assert r.status("box", token=world.tokens["runner"]) == 200
    r.stop(signal.SIGKILL)
    r.start()  # the same ports
    assert r.status("box", token=world.tokens["runner"]) == 200


def test_the_api_server_may_be_away(world, router):
    """What is known goes on; who is not known is not let in."""
    r = router("--authz-tokenreview-ttl", "10m")
    assert r.status("box", token=world.tokens["runner"]) == 200
    world.process.send_signal(signal.SIGSTOP)
    try:
        assert r.status("box", token=world.tokens["runner"]) == 200
        assert r.ask("box", token="new")[::2] == (500, '{"detail":"tokenreview: the API server gave no answer"}\n')
        assert r.ready() == 200
    finally:
        world.process.send_signal(signal.SIGCONT)


def test_sandboxes_come_and_go(world, router):
    """dataplane 157, 160, U47: the newest state of a Sandbox counts, whatever becomes of its earlier Pods."""
    r = router("--authz-mode", "allow-all")
    world.api("POST", SANDBOXES, sandbox("short"))
    assert r.status("short") == 200  # held until it is ready
    first = world.wait(SANDBOXES, "short", is_ready)
    pods = "/api/v1/namespaces/default/pods"
    gone = world.api("GET", f"{pods}/short")["metadata"]["uid"]
    world.api("DELETE", f"{pods}/short")
    world.wait(pods, "short", lambda o: o and o["metadata"]["uid"] != gone and is_ready(o))
    world.wait(SANDBOXES, "short", is_ready)
    assert r.status("short") == 200
    assert r.status("short", X_Sandbox_UID=first["metadata"]["uid"]) == 200
    assert r.status("short", X_Sandbox_UID="another") == 502
    world.api("DELETE", f"{SANDBOXES}/short")
    wait_until(lambda: r.status("short") == 502)


def test_one_namespace_alone(world, router):
    r = router("--authz-mode", "allow-all", "--cache-namespace", "kube-system")
    assert r.status("box") == 502
    r = router("--authz-mode", "allow-all", "--cache-namespace", "default")
    assert r.status("box") == 200


def test_limits(world, router):
    """dataplane 114, 126: a port that nobody opens is tried so often; a body may be so large."""
    r = router("--authz-mode", "allow-all", "--upstream-max-retries", "2", "--upstream-retry-initial-delay", "1ms",
               "--upstream-retry-max-delay", "1ms", "--max-request-body-bytes", "10")
    status, _, body = r.ask("box", port=8999)
    assert status == 502 and json.loads(body)["detail"] == "Could not connect to the backend sandbox: box"
    assert r.metric('sandbox_router_upstream_retries_total{sandbox_namespace="default"}') == 2
    assert r.metric('sandbox_router_upstream_errors_total{sandbox_namespace="default",reason="dial"}') == 3
    assert r.status("box", method="POST", body="x" * 10) == 200
    assert r.status("box", method="POST", body="x" * 11) == 413


def test_what_ends_a_start(world, router):
    """dataplane 163, 167: exit 2 and the flag's name for a bad configuration; 1 for a busy port or a silent API server."""
    def ended(*flags):
        r = router(*flags, start=False).spawn()
        return r.process.wait(60), r.log()

    code, log = ended("--authz-mode", "nonsense")
    assert code == 2 and "--authz-mode" in log
    code, log = ended("--https-bind-address", ":0")
    assert code == 2 and "--tls-cert-file" in log
    first = router("--authz-mode", "allow-all")
    second = router("--health-probe-bind-address", f"127.0.0.1:{first.probe_port}", start=False).spawn()
    assert second.process.wait(60) == 1 and str(first.probe_port) in second.log()
    with pytest.raises(ConnectionRefusedError):
        second.ask("box")
    world.process.send_signal(signal.SIGSTOP)
    try:
        code, log = ended("--cache-sync-timeout", "300ms")
        assert code == 1 and "did not list the Sandboxes" in log
    finally:
        world.process.send_signal(signal.SIGCONT)


def test_settings_from_the_environment(world, router, shared):
    """dataplane 162, 165: upstream's variables."""
    config = shared / "config.yaml"
    config.write_text("authz-mode: allow-all\nupstream-max-retries: 0\n")
    r = router(env={"SANDBOX_ROUTER_CONFIG": str(config), "PROXY_TIMEOUT_SECONDS": "0.3"})
    assert r.status("box", port=8999) == 502
    assert r.metric("sandbox_router_upstream_retries_total") == 0
    code, _, body = r.ask("other", "/slow")
    assert code == 504 and "Timed out" in body  # dataplane 115
    assert r.status("other", "/go") == 200


def test_paths(world, router):
    """U43"""
    r = router("--authz-mode", "allow-all", "--path-routing-prefix", "/s")
    conn = r.connect()
    conn.request("GET", "/s/default/box/8000/a%2Fb?q=1")
    answer = conn.getresponse()
    assert answer.status == 200 and answer.read().startswith(b"/a%2Fb?q=1\n")
    conn.request("GET", "/s/default/box")
    answer = conn.getresponse()
    assert answer.status == 400 and b"Path-routed request must have the form" in answer.read()


CLIENT = """
import os
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
config = SandboxDirectConnectionConfig(api_url=os.environ["ROUTER"], extra_headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
box = SandboxClient(connection_config=config).create_sandbox("agents")
box.files.write("a.txt", b"bytes")
print(box.commands.run("cat a.txt").stdout)
box.terminate()
"""


def test_the_published_client(world, router):
    """Unmodified, with a token for the router: a claimed member of a pool, by the name of its Sandbox. U46"""
    world.kubectl("apply", "-f", os.path.join(ROOT, "examples", "template.yaml"))
    world.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": "agents"},
        "spec": {"replicas": 1, "sandboxTemplateRef": {"name": "agent"}}})
    world.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents",
               lambda p: p and p.get("status", {}).get("readyReplicas") == 1)
    r = router()
    env = dict(os.environ, KUBECONFIG=world.kubeconfig, ROUTER=f"http://127.0.0.1:{r.port}", TOKEN=world.tokens["runner"])
    ran = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, env=env, timeout=120)
    assert ran.returncode == 0 and ran.stdout == "bytes\n", ran.stderr
    world.api("DELETE", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools/agents")


def test_requests_are_logged(world, router):
    r = router("--authz-mode", "allow-all", "--log-format", "json")
    assert r.status("box", "/x?secret=1") == 200
    line = wait_until(lambda: next((json.loads(s) for s in r.log().splitlines() if '"request"' in s), None))
    assert line["sandbox"] == "box" and line["namespace"] == "default" and line["status"] == 200 and line["path"] == "/x"


def test_entries_are_recorded(world, router, shared):
    os.chmod(shared, 0o777)
    path = f"{shared}/audit.log"
    r = router("--audit-log", path)
    assert r.status("box", "/x?secret=1", token=world.tokens["runner"]) == 200
    assert r.status("box", "/", token=world.tokens["reader"]) == 403

    def lines():
        return [r for r in map(json.loads, open(path)) if "verb" in r]
    wait_until(lambda: len(lines()) == 2)
    entered, refused = lines()
    assert entered["user"] == "system:serviceaccount:default:runner" and entered["status"] == 200 and entered["port"] == 8000
    assert (entered["verb"], entered["group"], entered["resource"], entered["name"]) == ("connect", "agents.x-k8s.io", "sandboxes", "box")
    assert refused["user"] == "system:serviceaccount:default:reader" and refused["status"] == 403
    assert "secret" not in open(path).read() and r.metric("cay_audit_records_total") == 2
    r = router("--authz-mode", "allow-all", "--access-log=false")
    assert r.status("box") == 200
    wait_until(lambda: [line for line in r.log().splitlines() if line.startswith("{") and json.loads(line).get("verb") == "connect"])
    r = router("--authz-mode", "allow-all", "--access-log=false", "--audit-log", "none")
    assert r.status("box") == 200
    assert r.stop() == 0 and '"connect"' not in r.log()


def test_without_a_header(world, router):
    r = router("--authz-mode", "allow-all")
    conn = r.connect()
    conn.request("GET", "/")
    answer = conn.getresponse()
    assert answer.status == 400 and json.loads(answer.read()) == {"detail": "X-Sandbox-ID header is required."}
