# SPDX-License-Identifier: Apache-2.0
"""The published Python clients, unmodified, running in a sandbox as they would run in a cluster: they connect to the addresses and names of other
sandboxes, past the router. NetworkPolicies open the way; the test itself carries their API calls out, since sandboxes do not reach the API server."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from cay_local import AGENTS, EXTENSIONS, ROOT, is_ready, wait_until
from conftest import needs_root
from test_client_modes import ASYNC
from test_node_pods import PODS, pod

PYTHON = "/usr/bin/python3"  # of the image `host`

# Both ends of the way to the API server: connections to argv[1] go on to argv[2], each a port of loopback or a path.
RELAY = """
import asyncio, sys
def there(where):
    return asyncio.open_connection("127.0.0.1", int(where)) if where.isdigit() else asyncio.open_unix_connection(where)
async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
async def one(reader, writer):
    onward = await there(sys.argv[2])
    await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))
async def main():
    at = sys.argv[1]
    server = await (asyncio.start_server(one, "127.0.0.1", int(at)) if at.isdigit() else asyncio.start_unix_server(one, at))
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

PROGRAM = """
import asyncio, json
from k8s_agent_sandbox import AsyncSandboxClient, SandboxClient
from k8s_agent_sandbox.models import *

DATA = b"bytes \\x00 here"
done = []
client = SandboxClient(connection_config=SandboxInClusterConnectionConfig())
box = client.create_sandbox("agents")
box.files.write("a.txt", DATA)
assert box.files.read("a.txt") == DATA and box.files.exists("a.txt")
assert "a.txt" in [f.name for f in box.files.list(".")]
r = box.commands.run("sh -c 'cat a.txt; env | grep -c ^X_SANDBOX; exit 4'")
assert (r.stdout, r.exit_code) == (DATA.decode() + "0\\n", 4), r
done.append("in-cluster")

async def inside():
    async with AsyncSandboxClient(connection_config=SandboxInClusterConnectionConfig()) as client:
        box = await client.create_sandbox("agents")
        await box.files.write("a.txt", DATA)
        assert await box.files.read("a.txt") == DATA
        assert "a.txt" in [f.name for f in await box.files.list(".")]
        assert (await box.commands.run("cat a.txt")).stdout == DATA.decode()
    done.append("async in-cluster")
asyncio.run(inside())

def rest(mode):
    client = SandboxClient(connection_config=SandboxdInClusterConnectionConfig(mode=mode))
    again = client.get_sandbox(box.claim_name)
    again.files.write("sub/b c.txt", DATA)
    assert again.files.read("sub/b c.txt") == DATA and again.files.exists("sub/b c.txt")
    assert [(f.name, f.mode) for f in again.files.list("sub")] == [("b c.txt", "0644")]
    assert "sub" in [f.name for f in again.files.list(".")]
    again.files.delete("sub", recursive=True)
    assert not again.files.exists("sub")
    again.close_connection()
    done.append(mode)
if "SandboxdInClusterConnectionConfig" in globals():  # from 1.0.5 on; what it runs goes over gRPC, and not here
    rest("in-cluster-pod-ip")
    rest("in-cluster-service")
box.terminate()
print(json.dumps(done))
"""
MODES = {"venv": ["in-cluster", "async in-cluster", "in-cluster-pod-ip", "in-cluster-service"], "venv-0.5.6": ["in-cluster", "async in-cluster"]}


def kind(name):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": name}


def site(venv):
    return next(pathlib.Path(ROOT, "build", venv, "lib").glob("python3*/site-packages"))


@pytest.fixture(scope="module")
def shared():
    needs_root()
    have = subprocess.run([PYTHON, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], capture_output=True, text=True).stdout.strip()
    if have != site("venv").parent.name:
        pytest.skip(f"{PYTHON} is {have or 'missing'}, and the clients were installed for {site('venv').parent.name}")
    top = tempfile.mkdtemp(prefix="cay-test-inside-", dir="/var/tmp")
    os.chmod(top, 0o777)
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def world(module_instance, shared):
    cay = module_instance("--host-path", f"{shared}:rw,{site('venv')}:ro,{site('venv-0.5.6')}:ro,{ASYNC}:ro")
    to_client = [{"from": [{"podSelector": {"matchLabels": {"role": "client"}}}]}]
    template = {**kind("SandboxTemplate"), "metadata": {"name": "open"}, "spec": {"service": True, "networkPolicy": {"ingress": to_client}, "podTemplate": {
        "metadata": {"annotations": {"cay.dev/runtime": "python,sandboxd"}},
        "spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"], "ports": [{"containerPort": 8888}, {"containerPort": 8080}]}]}}}}
    cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxtemplates", template)
    cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", {**kind("SandboxWarmPool"), "metadata": {"name": "agents"}, "spec": {"replicas": 2, "sandboxTemplateRef": {"name": "open"}}})
    cay.api("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {"metadata": {"name": "client"}, "spec": {
        "podSelector": {"matchLabels": {"role": "client"}}, "policyTypes": ["Egress"], "egress": [{}]}})
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents", lambda p: p and p.get("status", {}).get("readyReplicas") == 2)
    return cay


@pytest.fixture(scope="module")
def client(world, shared):
    """A Pod with the clients in it, and with the API server at a port of its own loopback."""
    text = pathlib.Path(world.kubeconfig).read_text()
    config = pathlib.Path(shared, "kubeconfig")
    config.write_text(re.sub(r"server: \S+", "server: https://127.0.0.1:6443", text))
    config.chmod(0o644)
    body = pod("client", PYTHON, "-c", RELAY, "6443", "/shared/api.sock", container={
        "readinessProbe": {"exec": {"command": ["bash", "-c", "</dev/tcp/127.0.0.1/6443"]}, "periodSeconds": 1}, "env": [{"name": "KUBECONFIG", "value": "/shared/kubeconfig"}],
        "volumeMounts": [{"name": n, "mountPath": f"/{n}", "readOnly": n != "shared"} for n in ("shared", "sdk", "old", "async")]})
    body["metadata"]["labels"] = {"role": "client"}
    body["spec"]["volumes"] = [{"name": n, "hostPath": {"path": str(p)}} for n, p in (("shared", shared), ("sdk", site("venv")), ("old", site("venv-0.5.6")), ("async", ASYNC))]
    outside = subprocess.Popen([PYTHON, "-c", RELAY, f"{shared}/api.sock", str(world.port)], stdout=subprocess.PIPE, text=True)
    assert outside.stdout.readline() == "ready\n"
    os.chmod(f"{shared}/api.sock", 0o666)
    world.api("POST", PODS, body)
    world.wait(PODS, "client", is_ready, timeout=30)
    yield "client"
    world.api("DELETE", f"{PODS}/client?gracePeriodSeconds=0")
    world.wait(PODS, "client", lambda p: p is None)
    outside.kill()
    outside.wait()


@pytest.mark.parametrize("venv", MODES)
def test_dataplane_195_196_u39_a_client_in_the_cluster(world, client, venv):
    path = "/async:/sdk" if venv == "venv" else "/async:/old:/sdk"
    r = world.kubectl("exec", client, "--", "env", f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1", PYTHON, "-c", PROGRAM, check=False, timeout=180)
    assert r.returncode == 0, r.stderr
    assert json.loads(r.stdout.splitlines()[-1]) == MODES[venv]


def test_u39_nobody_else_reaches_the_address(world, client):
    """What the policy of the template does not name is shut, for a neighbour and for the host."""
    claim = {**kind("SandboxClaim"), "metadata": {"name": "kept"}, "spec": {"warmPoolRef": {"name": "agents"}}}
    world.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxclaims", claim)
    name = world.wait(f"{EXTENSIONS}/namespaces/default/sandboxclaims", "kept", is_ready)["status"]["sandbox"]["name"]
    ip = world.api("GET", f"{AGENTS}/namespaces/default/sandboxes/{name}")["status"]["podIPs"][0]
    attempt = f"import socket; socket.create_connection(('{ip}', 8888), 2); print('in')"
    wait_until(lambda: "in" in world.kubectl("exec", client, "--", PYTHON, "-c", attempt, check=False).stdout)
    stranger = pod("stranger", "sleep", "infinity")
    world.api("POST", PODS, stranger)
    world.wait(PODS, "stranger", is_ready)
    assert "in" not in world.kubectl("exec", "stranger", "--", PYTHON, "-c", attempt, check=False).stdout
    assert "in" not in subprocess.run([PYTHON, "-c", attempt], capture_output=True, text=True).stdout.split()
