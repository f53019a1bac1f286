# SPDX-License-Identifier: Apache-2.0
"""The way to the router through the API server: the objects by which clients find it, and the tunnel behind them."""

import contextlib
import http.client
import json
import os
import re
import subprocess

import pytest

from cay_local import AGENTS, EXTENSIONS, ROOT, wait_until
from test_python_sdk import python_of

SYSTEM = "agent-sandbox-system"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"


@pytest.fixture(scope="module")
def world(module_instance):
    cay = module_instance("--service-account-grants", f"{SYSTEM}/runner=edit,elsewhere/runner=edit")
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    for ns in ("default", "elsewhere", SYSTEM):
        cay.kubectl("create", "serviceaccount", "runner", "-n", ns)
        for name in ("template", "warmpool"):
            cay.kubectl("apply", "-n", ns, "-f", os.path.join(ROOT, "examples", name + ".yaml"))
        sandbox = {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": f"box-{ns}"}, "spec": {"podTemplate": {"spec": {"containers": [
            {"name": "main", "image": "host", "command": ["sleep", "infinity"], "ports": [{"containerPort": 8888}]}]}}}}
        cay.api("POST", f"{AGENTS}/namespaces/{ns}/sandboxes", sandbox)
    for ns in ("default", "elsewhere", SYSTEM):
        cay.wait(f"{EXTENSIONS}/namespaces/{ns}/sandboxwarmpools", "agents", lambda p: p and p.get("status", {}).get("readyReplicas") == 10)
    return cay


@contextlib.contextmanager
def forwarded(cay, what, *flags):
    """kubectl port-forward; yields the local port."""
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir)
    with subprocess.Popen(["kubectl", *flags, "port-forward", what, ":8080"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=env) as kubectl:
        line = kubectl.stdout.readline()
        found = re.match(r"Forwarding from 127.0.0.1:(\d+)", line)
        try:
            assert found, line + kubectl.stdout.read()
            yield int(found.group(1))
        finally:
            kubectl.terminate()


def ask(port, ns, path="/", headers=()):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    conn.request("GET", path, headers={"X-Sandbox-ID": f"box-{ns}", "X-Sandbox-Namespace": ns, **dict(headers)})
    answer = conn.getresponse()
    with contextlib.closing(conn):
        return answer.status, json.loads(answer.read() or b"null")


def as_runner(cay, ns):
    """Flags that make kubectl the service account of that namespace, and nobody else."""
    path = os.path.join(cay.data_dir, f"runner-{ns}.kubeconfig")
    if not os.path.exists(path):
        token = cay.kubectl("create", "token", "runner", "-n", ns).stdout.strip()
        ca = os.path.join(cay.data_dir, "ca.crt")
        run = lambda *args: subprocess.run(["kubectl", "--kubeconfig", path, "config", *args], check=True, capture_output=True)
        run("set-cluster", "cay", f"--server=https://127.0.0.1:{cay.port}", f"--certificate-authority={ca}")
        run("set-credentials", "runner", f"--token={token}")
        run("set-context", "runner", "--cluster=cay", "--user=runner")
        run("use-context", "runner")
    return ("--kubeconfig", path, "-n", ns)


@pytest.mark.parametrize("venv", ["venv", "venv-0.5.6"])
def test_u10_a_client_without_arguments_finds_its_way(world, venv):
    """Its default is a tunnel to svc/sandbox-router-svc in agent-sandbox-system."""
    program = ("from k8s_agent_sandbox import SandboxClient\n"
               "box = SandboxClient().create_sandbox('agents')\n"
               "box.files.write('a.txt', 'through the tunnel')\n"
               "print(box.commands.run('cat a.txt').stdout)\n"
               "box.terminate()\n")
    r = subprocess.run([python_of(venv), "-c", program], capture_output=True, text=True, timeout=240,
                       env=dict(os.environ, KUBECONFIG=world.kubeconfig))
    assert r.returncode == 0 and r.stdout == "through the tunnel\n", r.stderr


def test_dataplane_256_a_port_of_the_service_leads_to_the_router(world):
    with forwarded(world, "svc/sandbox-router-svc", "-n", SYSTEM) as port:
        assert ask(port, "default") == (200, {"status": "ok", "message": "Sandbox Runtime is active."})
        assert ask(port, "elsewhere")[0] == 200  # an administrator
        assert ask(port, "default", headers={"Host": "evil.example"})[0] == 421


def test_a_tunnel_gives_no_more_than_its_user_may(world):
    """The daemon itself connects to the router there, and is not believed for that."""
    with forwarded(world, "svc/sandbox-router-svc", *as_runner(world, SYSTEM)) as port:
        assert ask(port, SYSTEM)[0] == 200
        status, body = ask(port, "elsewhere")
        assert status == 403 and f"system:serviceaccount:{SYSTEM}:runner" in body["detail"], body
        token = world.kubectl("create", "token", "runner", "-n", "elsewhere").stdout.strip()
        assert ask(port, "elsewhere", headers={"Authorization": f"Bearer {token}"})[0] == 403  # the tunnel's user counts
    refused = subprocess.run(["kubectl", *as_runner(world, "elsewhere"), "port-forward", "svc/sandbox-router-svc", ":8080", "-n", SYSTEM],
                             capture_output=True, text=True, timeout=60)
    assert refused.returncode and "forbidden" in refused.stderr, refused


def test_other_ports_of_the_router_are_closed(world):
    with pytest.raises(AssertionError, match="does not have a service port 9999"):
        with forwarded_port(world, 9999):
            pass


@contextlib.contextmanager
def forwarded_port(cay, port):
    r = subprocess.run(["kubectl", "port-forward", "-n", SYSTEM, "svc/sandbox-router-svc", f":{port}"], capture_output=True, text=True,
                       timeout=60, env=dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir))
    assert r.returncode == 0, r.stderr
    yield


def test_dataplane_230_every_namespace_with_a_pool_has_an_endpoint(world):
    for ns in ("default", "elsewhere", SYSTEM):
        items = world.api("GET", SLICES.format(ns) + "?labelSelector=kubernetes.io/service-name%3Dsandbox-router-svc")["items"]
        ready = [e for s in items for e in s.get("endpoints") or [] if e["conditions"]["ready"] and e["targetRef"]["name"] == "sandbox-router"]
        assert len(ready) == 1, items
    assert not world.api("GET", SLICES.format("kube-system"))["items"]


def test_what_leads_to_the_router_comes_back_when_it_is_deleted(world):
    def there():
        kinds = ((f"/api/v1/namespaces/{SYSTEM}/pods", "sandbox-router"), (f"/api/v1/namespaces/{SYSTEM}/services", "sandbox-router-svc"),
                 (SLICES.format("default"), "sandbox-router-svc"))
        return [next((o["metadata"]["uid"] for o in world.api("GET", path)["items"] if o["metadata"]["name"] == name), None) for path, name in kinds]

    before = there()
    assert all(before)
    world.kubectl("delete", "-n", SYSTEM, "pod/sandbox-router", "svc/sandbox-router-svc")
    world.kubectl("delete", "endpointslice/sandbox-router-svc")
    wait_until(lambda: all(there()) and not set(there()) & set(before))
    world.wait(f"/api/v1/namespaces/{SYSTEM}/pods", "sandbox-router", lambda p: p and p["status"].get("phase") == "Running")
    with forwarded(world, "svc/sandbox-router-svc", "-n", SYSTEM) as port:
        assert ask(port, "default")[0] == 200


def test_a_pod_of_that_name_is_reached_itself(world):
    pod = {"metadata": {"name": "sandbox-router"}, "spec": {"containers": [
        {"name": "main", "image": "host", "command": ["python3", "-m", "http.server", "8080", "-d", "/usr/share"],
         "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}]}}
    world.api("POST", "/api/v1/namespaces/elsewhere/pods", pod)
    world.wait("/api/v1/namespaces/elsewhere/pods", "sandbox-router",
               lambda p: any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", [])))
    with forwarded(world, "pod/sandbox-router", "-n", "elsewhere") as port:
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        conn.request("GET", "/")
        assert "SimpleHTTP" in conn.getresponse().getheader("Server", "")
    world.api("DELETE", "/api/v1/namespaces/elsewhere/pods/sandbox-router?gracePeriodSeconds=0")


def test_a_router_pod_with_a_finalizer_does_not_hold_up_the_server(world):
    """Its removal has no effect until the finalizer is gone, and must not be asked for again and again."""
    pods = f"/api/v1/namespaces/{SYSTEM}/pods"
    uid = world.api("GET", f"{pods}/sandbox-router")["metadata"]["uid"]
    world.api("PATCH", f"{pods}/sandbox-router", {"metadata": {"finalizers": ["example.com/held"]}}, content_type="application/merge-patch+json")
    world.api("DELETE", f"{pods}/sandbox-router")
    assert world.api("GET", f"{pods}/sandbox-router")["metadata"]["uid"] == uid  # answered at all
    world.api("PATCH", f"{pods}/sandbox-router", {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
    world.wait(pods, "sandbox-router", lambda p: p and p["metadata"]["uid"] != uid and p["status"].get("phase") == "Running")


def test_a_service_that_leads_elsewhere_is_made_anew(world):
    services = f"/api/v1/namespaces/{SYSTEM}/services"
    world.api("PATCH", f"{services}/sandbox-router-svc", {"spec": {"selector": {"app": "evil"}}}, content_type="application/merge-patch+json")
    world.wait(services, "sandbox-router-svc", lambda s: s and s["spec"]["selector"] == {"app": "sandbox-router"})


def test_a_tunnel_ends_with_the_account_of_its_user(world):
    with forwarded(world, "svc/sandbox-router-svc", *as_runner(world, SYSTEM)) as port:
        assert ask(port, SYSTEM)[0] == 200
        world.kubectl("delete", "serviceaccount", "runner", "-n", SYSTEM)
        try:
            status = ask(port, SYSTEM)[0]
        except ConnectionError:  # the tunnel itself was cut
            status = 401
        assert status == 401


def test_only_the_routers_own_pod_is_run_by_nobody(world):
    """The annotation of a mirror on a Pod of somebody else means nothing: it runs, and survives a restart of the server."""
    pod = {"metadata": {"name": "pretender", "annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {
        "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}
    world.api("POST", "/api/v1/namespaces/elsewhere/pods", pod)
    ready = lambda p: any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))
    world.wait("/api/v1/namespaces/elsewhere/pods", "pretender", ready)
    world.kill()
    world.start()
    assert world.kubectl("exec", "-n", "elsewhere", "pretender", "--", "echo", "here").stdout == "here\n"
    world.api("DELETE", "/api/v1/namespaces/elsewhere/pods/pretender?gracePeriodSeconds=1")
    world.wait("/api/v1/namespaces/elsewhere/pods", "pretender", lambda p: p is None)
