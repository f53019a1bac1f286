# SPDX-License-Identifier: Apache-2.0
"""`cay router` on a real kube-apiserver, as the service account that its manifests give it.

Nobody's controllers run: the Sandboxes have the status that a controller would have written, and their addresses are loopback
addresses behind which this program listens. Who may enter is decided by the RBAC of the cluster alone.
"""

import http.server
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from control_plane import ControlPlane  # noqa: E402
from cay_local import AGENTS, ApiError, wait_until  # noqa: E402
from router_kit import Authority, Router, scoped_token, soon  # noqa: E402

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
SECRET = b"0123456789abcdef0123456789abcdef"
READY = [{"type": "Ready", "status": "True", "reason": "DependenciesReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


class Backend(http.server.BaseHTTPRequestHandler):
    """Says which address was asked, for what, and with which headers; /slow waits."""

    protocol_version = "HTTP/1.1"
    go = threading.Event()

    def do_GET(self):
        if self.path == "/slow":
            self.go.wait(60)
        body = f"{self.connection.getsockname()[0]} {self.path}\n{self.headers}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class World:
    def __init__(self, plane, work):
        self.plane, self.work, self.made = plane, work, []
        self.backends = [http.server.ThreadingHTTPServer(("127.0.0.2", 0), Backend)]
        self.port = self.backends[0].server_port
        self.backends.append(http.server.ThreadingHTTPServer(("127.0.0.3", self.port), Backend))
        for one in self.backends:
            threading.Thread(target=one.serve_forever, daemon=True).start()
        self.kubeconfig = plane.account_kubeconfig("agent-sandbox-system", "sandbox-router")

    def router(self, *flags, start=True, kubeconfig=None, tls=False):
        r = Router(kubeconfig or self.kubeconfig, "--allow-loopback-pod-ip", *flags)
        if tls:
            r.argv += ["--https-bind-address", f"127.0.0.1:{r.tls_port}"]
        self.made.append(r)
        return r.start() if start else r

    def ask(self, r, name, *args, **more):
        return r.ask(name, *args, port=self.port, **more)

    def status(self, r, name, *args, **more):
        return self.ask(r, name, *args, **more)[0]

    def sandbox(self, name, *ips, **meta):
        """As a controller has left it."""
        spec = {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "none"}]}}}
        self.plane.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
                                           "metadata": dict(name=name, **meta), "spec": spec})
        return self.set_ips(name, *ips)

    def set_ips(self, name, *ips):
        status = {"podIPs": list(ips), "conditions": READY}
        return self.plane.api("PATCH", f"{SANDBOXES}/{name}/status", {"status": status}, "application/merge-patch+json")

    def account(self, name):
        self.plane.api("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})

    def token(self, name, **spec):
        return self.plane.api("POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token",
                              {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]

    def allow(self, role, *pods, **subject):
        """A role of that name: to create pods/exec, of these Pods or of all."""
        rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}
        if pods:
            rule["resourceNames"] = list(pods)
        self.plane.api("POST", f"{RBAC}/roles", {"metadata": {"name": role}, "rules": [rule]})
        self.plane.api("POST", f"{RBAC}/rolebindings", {
            "metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [subject or {"kind": "ServiceAccount", "name": role, "namespace": "default"}]})

    def prepare(self):
        for name in ("runner", "one", "reader"):
            self.account(name)
        self.allow("runner")
        self.allow("one", "pod-of-box")
        self.sandbox("box", "127.0.0.2", annotations={"agents.x-k8s.io/pod-name": "pod-of-box"})
        self.sandbox("other", "127.0.0.3")

    def finish(self):
        for r in self.made:
            r.finish()
        for one in self.backends:
            one.shutdown()


def rights(w):
    """The default mode: rights on the Pod of the very sandbox; dataplane 143, 144."""
    r = w.router()
    runner, one, reader = (w.token(n) for n in ("runner", "one", "reader"))
    status, _, body = w.ask(r, "box", "/a%2Fb?q=1", token=runner)
    assert status == 200 and body.startswith("127.0.0.2 /a%2Fb?q=1\n") and "Authorization" not in body, body
    assert w.status(r, "other", token=runner) == 200
    assert w.status(r, "box", token=one) == 200
    assert w.ask(r, "other", token=one)[::2] == (403, '{"detail":"forbidden"}\n')
    assert w.status(r, "box", token=reader) == 403
    assert w.ask(r, "box")[::2] == (401, '{"detail":"unauthenticated"}\n')
    assert w.status(r, "box", token="made-up") == 401
    assert w.status(r, "box", token=runner, X_Sandbox_Namespace="kube-system") == 403


def tokens(w):
    """dataplane 145 to 148, with audiences."""
    r = w.router("--authz-mode", "tokenreview", "--authz-tokenreview-audiences", "router, gate")
    assert w.status(r, "box", token=w.token("reader", audiences=["gate"])) == 200
    assert w.status(r, "box", token=w.token("reader", audiences=["elsewhere"])) == 401
    assert w.status(r, "box", token=w.token("reader")) == 401
    assert w.status(r, "box") == 401
    r = w.router("--authz-mode", "tokenreview", "--authz-tokenreview-require-token=false")
    token = w.token("reader")
    assert [w.status(r, "box"), w.status(r, "box", token=token), w.status(r, "box", token=token)] == [200, 200, 200]
    assert r.metric('cay_router_reviews_total{answer="asked"}') == 1


def revocation(w):
    """A right that was taken away ends when the answer is forgotten; so does a token of a deleted account."""
    w.account("brief")
    w.allow("brief")
    r = w.router("--authz-tokenreview-ttl", "200ms")
    token = w.token("brief")
    assert w.status(r, "box", token=token) == 200
    w.plane.api("DELETE", f"{RBAC}/rolebindings/brief")
    wait_until(lambda: w.status(r, "box", token=token) == 403)
    w.plane.api("DELETE", "/api/v1/namespaces/default/serviceaccounts/brief")
    wait_until(lambda: w.status(r, "box", token=token) == 401)


def certificates(w):
    """dataplane 150, 168: a certificate names a user of the cluster's RBAC."""
    directory = tempfile.mkdtemp(dir=w.work)
    ca = Authority(directory)
    ca.server()
    w.allow("spiffe", kind="User", name="spiffe://cluster/a", apiGroup="rbac.authorization.k8s.io")
    w.allow("group", kind="Group", name="ops", apiGroup="rbac.authorization.k8s.io")
    r = w.router("--tls-cert-file", ca.path("server.crt"), "--tls-key-file", ca.path("server.key"), "--mtls-mode", "optional",
                 "--tls-client-ca-file", ca.path("ca.crt"), tls=True)
    assert w.status(r, "box", tls=ca.client("a", "/CN=x", "subjectAltName=URI:spiffe://cluster/a,DNS:b.example")) == 200
    assert w.status(r, "box", tls=ca.client("b", "/CN=spiffe:\\/\\/cluster\\/a", "subjectAltName=DNS:b.example")) == 403
    assert w.status(r, "box", tls=ca.client("c", "/O=ops/CN=c")) == 200
    assert w.status(r, "box", tls=ca.client("d", "/O=dev/CN=d")) == 403
    assert w.status(r, "box", tls=ca.context()) == 401
    assert w.status(r, "box", tls=ca.context(), token=w.token("runner")) == 200


def scoped(w):
    """dataplane 151 to 154."""
    with open(os.path.join(w.work, "secret"), "wb") as f:
        f.write(b" " + SECRET + b"\n")
    r = w.router("--authz-mode", "scoped-token", "--authz-scoped-token-secret-file", f.name)
    good = scoped_token(SECRET, "default", "box", soon())
    assert w.status(r, "box", token=good) == 200
    assert w.status(r, "other", token=good) == 403
    assert w.status(r, "box", token=good, X_Sandbox_Pod_IP="127.0.0.2") == 403
    assert w.status(r, "box", token=scoped_token(SECRET, "default", "box", time.time())) == 401
    assert w.status(r, "box", token=w.token("runner")) == 401


def changes(w):
    """dataplane 157 to 160, U47."""
    r = w.router("--authz-mode", "allow-all")
    owner = [{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "name": "p", "uid": "u-1",
              "controller": True}]
    pool = w.sandbox("pooled", "127.0.0.2", ownerReferences=owner)
    wait_until(lambda: "SandboxUnclaimed" in w.ask(r, "pooled")[2])  # not by its name
    assert w.status(r, "pooled", X_Sandbox_UID=pool["metadata"]["uid"]) == 200
    w.plane.api("PATCH", f"{SANDBOXES}/pooled", {"metadata": {"ownerReferences": None}}, "application/merge-patch+json")
    wait_until(lambda: w.status(r, "pooled") == 200)

    w.sandbox("moving", "127.0.0.2")
    wait_until(lambda: w.ask(r, "moving")[2].startswith("127.0.0.2 "))
    w.set_ips("moving", "127.0.0.3")  # another Pod; what becomes of the first is not our affair
    wait_until(lambda: w.ask(r, "moving")[2].startswith("127.0.0.3 "))
    assert w.ask(r, "moving", X_Sandbox_Pod_IP="127.0.0.2")[2].startswith("127.0.0.3 ")
    first = w.plane.api("GET", f"{SANDBOXES}/moving")["metadata"]["uid"]
    w.plane.api("DELETE", f"{SANDBOXES}/moving")
    wait_until(lambda: w.status(r, "moving") == 502)
    w.sandbox("moving", "127.0.0.2")
    wait_until(lambda: w.ask(r, "moving")[2].startswith("127.0.0.2 "))
    assert w.status(r, "moving", X_Sandbox_UID=first) == 502


def no_rights(w):
    """An account that may not list Sandboxes: the start fails, and says why."""
    kubeconfig = w.plane.account_kubeconfig("default", "reader")
    r = w.router("--cache-sync-timeout", "2s", start=False, kubeconfig=kubeconfig).spawn()
    assert r.process.wait(60) == 1 and "may list and watch sandboxes" in r.log(), r.log()


IN_POD = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1"/* /run/secrets/kubernetes.io/serviceaccount/
shift
exec "$@"
"""


def in_pod(w):
    """What a kubelet gives to a Pod is all that the router needs: two variables and the files of its service account."""
    files = tempfile.mkdtemp(dir=w.work)
    token = w.plane.api("POST", "/api/v1/namespaces/agent-sandbox-system/serviceaccounts/sandbox-router/token",
                        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
    shutil.copy(w.plane.path("ca.crt"), files)
    for name, text in (("token", token), ("namespace", "agent-sandbox-system")):
        with open(os.path.join(files, name), "w") as f:
            f.write(text)
    r = w.router(start=False)
    r.argv = [arg for arg in r.argv if arg not in ("--kubeconfig", os.path.join(r.dir, "kubeconfig"))]
    r.argv = ["unshare", "--mount", "sh", "-c", IN_POD, "sh", files, *r.argv]
    r.env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(w.plane.port)}
    had = os.environ.pop("KUBECONFIG", None)
    try:
        r.start()
    finally:
        if had:
            os.environ["KUBECONFIG"] = had
    assert w.status(r, "box", token=w.token("runner")) == 200
    assert w.status(r, "box", token=w.token("reader")) == 403


def outage(w):
    """The API server dies and comes back: what is known is served, then what is new is learned."""
    r = w.router("--authz-tokenreview-ttl", "10m")
    runner = w.token("runner")
    assert w.status(r, "box", token=runner) == 200
    argv = w.plane.children["kube-apiserver"].args
    w.plane.children["kube-apiserver"].kill()
    w.plane.children["kube-apiserver"].wait()
    w.plane.close()
    assert w.status(r, "box", token=runner) == 200
    assert w.ask(r, "box", token="new")[0] == 500
    with open(w.plane.path("kube-apiserver.log"), "ab") as log:
        w.plane.children["kube-apiserver"] = subprocess.Popen(argv, stdout=log, stderr=log)
    w.plane.await_("the API server", w.plane.ready)

    def made():
        try:
            return w.sandbox("after", "127.0.0.2")
        except (ApiError, OSError):
            return None  # its caches are not warm yet
    wait_until(made)
    wait_until(lambda: w.status(r, "after", token=runner) == 200)


def drain(w):
    """dataplane 166."""
    r = w.router("--authz-mode", "allow-all")
    slow = r.connect()
    slow.request("GET", "/slow", headers={"X-Sandbox-ID": "box", "X-Sandbox-Port": str(w.port)})
    wait_until(lambda: r.metric("sandbox_router_inflight_requests") == 1)
    r.process.send_signal(signal.SIGTERM)
    wait_until(lambda: r.show(r.probe_port, "/readyz") == (503, "draining\n"))
    Backend.go.set()
    assert slow.getresponse().status == 200
    assert r.process.wait(60) == 0


CHECKS = [rights, tokens, revocation, certificates, scoped, changes, no_rights, in_pod, drain, outage]


def run(plane: ControlPlane, work):
    """How many failed; each says so itself."""
    w, failed = World(plane, work), 0
    try:
        w.prepare()
        for check in CHECKS:
            try:
                check(w)
                print(f"router: {check.__name__}: passed", flush=True)
            except Exception as e:  # the others are still worth knowing
                failed += 1
                print(f"router: {check.__name__}: FAILED: {type(e).__name__}: {e} ({where(e)})", flush=True)
    finally:
        w.finish()
    return failed


def where(e):
    at = e.__traceback__
    while at.tb_next:
        at = at.tb_next
    line = e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else at.tb_lineno
    return f"line {line}"
