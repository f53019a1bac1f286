# SPDX-License-Identifier: Apache-2.0
"""`cay ui` on a real kube-apiserver, which has no page: the command serves it, and passes the API through.

The nodes are simulated, so nobody can be entered; a watch over WebSocket shows that upgrades go through.
"""

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import page_walk  # noqa: E402
from cay_local import BUILD  # noqa: E402

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
BEARER = "base64url.bearer.authorization.k8s.io."
PAGE, SESSIONS = "/cay/v1/page", "/cay/v1/page/sessions"


def encoded(text):
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


class Desk:
    def __init__(self, kubeconfig):
        self.process = subprocess.Popen([os.path.join(BUILD, "cay"), "ui", "--print", "--kubeconfig", kubeconfig],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        url = self.process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), self.process.communicate()[1]
        self.port = int(url.removeprefix("http://127.0.0.1:").partition("/")[0])
        status, answer = self.ask(SESSIONS, "POST", {"code": url.partition("#code=")[2]}, token=None)
        assert status == 201, answer
        self.token = answer["token"]

    def request(self, path, method="GET", body=None, token="", **headers):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        head = {k.replace("_", "-"): v for k, v in headers.items()}
        if token is not None:
            head["Authorization"] = "Bearer " + (token or self.token)
        conn.request(method, path, None if body is None else json.dumps(body), {**head, "Content-Type": "application/json"})
        return conn, conn.getresponse()

    def ask(self, path, method="GET", body=None, **more):
        conn, answer = self.request(path, method, body, **more)
        data = answer.read()
        conn.close()
        return answer.status, json.loads(data) if data[:1] == b"{" else data

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


def upgrade(conn, path, protocols):
    """The status of a WebSocket's handshake, and what came of it."""
    conn.request("GET", path, headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Origin": f"http://127.0.0.1:{conn.port}",
                                       "Sec-WebSocket-Key": "A" * 22 + "==", "Sec-WebSocket-Protocol": ", ".join(protocols)})
    answer = conn.getresponse()
    return answer.status, answer


def serves(plane, desk):
    """The cluster's objects are there with the rights of the kubeconfig, by the page's token alone."""
    status, me = desk.ask(PAGE)
    assert status == 200 and me["proxied"] and "system:masters" in me["user"]["groups"] and not me["urls"], me
    assert desk.ask("/ui/", token=None)[0] == 200
    for path in ("/version", "/api", "/apis", "/livez", "/readyz", "/openapi/v3", PODS):
        assert desk.ask(path)[0] == 200, path
    plane.await_("the Sandboxes", lambda: desk.ask("/apis/agents.x-k8s.io/v1beta1/sandboxes")[0] == 200)  # a new kind takes a moment
    for token in (None, "x"):
        assert desk.ask(PODS, token=token)[0] == 401
    assert desk.ask(PODS, Host="evil.example")[0] == 403
    assert desk.ask("/cay/v1/users")[0] == 404


def streams(plane, desk):
    """A watch comes event by event."""
    version = desk.ask(MAPS)[1]["metadata"]["resourceVersion"]
    conn, answer = desk.request(f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=300")
    for name in ("page-one", "page-two"):
        assert desk.ask(MAPS, "POST", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})[0] == 201
        assert json.loads(answer.readline())["object"]["metadata"]["name"] == name
        assert desk.ask(f"{MAPS}/{name}", "DELETE")[0] == 200
        assert json.loads(answer.readline())["type"] == "DELETED"
    conn.close()


def upgrades(plane, desk):
    """A WebSocket goes through, with the token of the page as its protocol."""
    mine = BEARER + encoded(desk.token)
    for protocols, status in ((["base64.binary.k8s.io", mine], 101), (["base64.binary.k8s.io"], 401), ([mine], 401)):
        conn = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=60)
        got, _ = upgrade(conn, f"{MAPS}?watch=1", protocols)
        assert got == status, (protocols, got)
        conn.close()


def protocols(plane, desk):
    """What a kube-apiserver makes of such a protocol is what Cay does (test_page.py)."""
    token = plane.kubectl("create", "token", "default").stdout.strip()
    mine = BEARER + encoded(token)
    path = "/api/v1/namespaces/default/pods/none/exec?command=true&stdout=true"
    rows = ((["v5.channel.k8s.io", mine], 403), ([mine, "v5.channel.k8s.io"], 403), ([mine], 401), (["v5.channel.k8s.io", mine, mine], 401),
            (["v5.channel.k8s.io", BEARER + encoded("nonsense")], 401), (["v5.channel.k8s.io", BEARER + "%%%"], 401))
    for offered, status in rows:
        conn = http.client.HTTPSConnection("127.0.0.1", plane.port, timeout=60, context=ssl._create_unverified_context())
        got, _ = upgrade(conn, path, offered)
        conn.close()
        assert got == status, (offered, got)


def without_rights(plane, desk):
    """An account whom the cluster lets do nothing still gets the page."""
    own = Desk(plane.account_kubeconfig("default", "default"))
    try:
        assert own.ask(PAGE)[1]["user"]["username"] == "system:serviceaccount:default:default"
        assert own.ask(PODS)[0] == 403
    finally:
        own.close()


def in_a_browser(plane, desk):
    """As a person walks through it."""
    page_walk.walk(plane, os.path.dirname(plane.kubeconfig))


CHECKS = [serves, streams, upgrades, protocols, without_rights, in_a_browser]


def run(plane, work):
    """How many failed; each says so itself."""
    desk, failed = Desk(plane.kubeconfig), 0
    try:
        for check in CHECKS:
            try:
                check(plane, desk)
                print(f"page: {check.__name__}: passed", flush=True)
            except Exception as e:  # the others are still worth knowing
                failed += 1
                print(f"page: {check.__name__}: FAILED: {type(e).__name__}: {e}", flush=True)
    finally:
        desk.close()
    return failed
