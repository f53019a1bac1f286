# SPDX-License-Identifier: Apache-2.0
"""Peers and objects that mean harm: each test is something that once broke, or nearly."""

import socket
import time

import pytest

from cay_local import AGENTS, EXTENSIONS, Cay, is_ready, wait_until

PODS = "/api/v1/namespaces/default/pods"
SANDBOXES = AGENTS + "/namespaces/default/sandboxes"
SLEEP = {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}],
         "terminationGracePeriodSeconds": 0}


def make(cay, path, kind, name, spec, **metadata):
    version = EXTENSIONS if "extensions" in path else AGENTS if AGENTS in path else "/api/v1"
    version = version.removeprefix("/apis/").removeprefix("/api/")
    return cay.api("POST", path, {"apiVersion": version, "kind": kind, "metadata": dict(metadata, name=name), "spec": spec})


def make_pod(cay, name, spec):
    make(cay, PODS, "Pod", name, spec)
    return cay.wait_ready(PODS, name)


def upgrade(cay, path, after=b""):
    """A WebSocket to path with `after` sent behind the request, as a raw TLS socket."""
    sock = socket.create_connection(("127.0.0.1", cay.port), timeout=60)
    tls = cay.context().wrap_socket(sock, server_hostname="127.0.0.1")
    tls.sendall(f"GET {path} HTTP/1.1\r\nHost: cay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode() + after)
    return tls


def test_aborted_execs_do_not_hurt_the_sandbox(cay):
    """The first bytes break the protocol, so the session ends while the guest is still starting it."""
    make_pod(cay, "aborted", SLEEP)
    for _ in range(30):
        tls = upgrade(cay, PODS + "/aborted/exec?command=cat&stdin=1&stdout=1", b"\xc2\x80\0\0\0\0")
        while tls.recv(4096):
            pass
        tls.close()
    status = cay.api("GET", PODS + "/aborted")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0 and "running" in status["state"]


@pytest.mark.alone
def test_a_pool_without_end_leaves_room_for_others(cay):
    path = EXTENSIONS + "/namespaces/default/"
    make(cay, path + "sandboxtemplates", "SandboxTemplate", "broken",
         {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "no/such:image"}]}}})
    make(cay, path + "sandboxwarmpools", "SandboxWarmPool", "endless",
         {"replicas": 2147483647, "sandboxTemplateRef": {"name": "broken"}})
    slowest = 0
    for _ in range(20):
        began = time.monotonic()
        cay.api("GET", "/api/v1/namespaces/default")
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 20  # it was minutes when one pool could keep the loop
    assert len(cay.api("GET", SANDBOXES)["items"]) <= 1100
    cay.api("DELETE", path + "sandboxwarmpools/endless")
    cay.wait(path + "sandboxwarmpools", "endless", lambda o: o is None)
    wait_until(lambda: not cay.api("GET", SANDBOXES + "?labelSelector=agents.x-k8s.io/launch-type")["items"], timeout=240)


def test_a_namespace_with_a_ring_of_owners_ends(cay):
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": "ring"}})
    path = "/api/v1/namespaces/ring/configmaps"
    uids = {n: cay.api("POST", path, {"metadata": {"name": n}})["metadata"]["uid"] for n in "abc"}
    for name, owner in ("ab", "bc", "ca"):
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uids[owner], "blockOwnerDeletion": True}
        cay.api("PATCH", f"{path}/{name}", {"metadata": {"ownerReferences": [ref]}}, "application/merge-patch+json")
    cay.api("DELETE", path + "/a?propagationPolicy=Foreground")
    cay.api("DELETE", "/api/v1/namespaces/ring")
    cay.wait("/api/v1/namespaces", "ring", lambda o: o is None)


def test_a_forged_status_is_put_right(cay):
    pod = make_pod(cay, "forged", SLEEP)
    ip = pod["status"]["podIP"]
    forged = {"status": {"phase": "Failed", "podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}}
    cay.api("PATCH", PODS + "/forged/status", forged, "application/merge-patch+json")
    now = cay.wait(PODS, "forged", lambda o: o["status"]["podIP"] == ip and is_ready(o))
    assert now["status"]["phase"] == "Running"


def test_words_that_mean_nothing_are_refused():
    """`cay serve /srv/cay` must not serve another directory than the one that was meant."""
    cay = Cay("/nonexistent")
    for command in ("serve", "controller", "manifests", "census", "version"):
        r = cay.cay(command, "/srv/cay", check=False)
        assert r.returncode == 2 and "/srv/cay" in r.stderr
