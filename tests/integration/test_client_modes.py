# SPDX-License-Identifier: Apache-2.0
"""The published Python clients, unmodified, newest and 0.5.6, in the modes that tests of their own do not have: gateway, and the asynchronous
client. What a client in a cluster does is in test_client_inside.py."""

import json
import os
import random
import socket
import subprocess

import pytest

from cay_local import EXTENSIONS, ROOT, wait_until
from test_python_sdk import python_of

VENVS = ("venv", "venv-0.5.6")
ASYNC = os.path.join(ROOT, "build", "venv-async")  # what the asynchronous client needs besides
GATEWAYS = "/apis/gateway.networking.k8s.io/v1/namespaces/default/gateways"
NAME = "external-http-gateway"

# All in one process: importing the client takes longer than everything that it does. Its direct connection without `await` is in
# test_python_sdk.py.
PROGRAM = """
import asyncio, json, os
from k8s_agent_sandbox import AsyncSandboxClient, SandboxClient
from k8s_agent_sandbox.models import *

DATA = b"bytes \\x00 here"
COMMAND = "sh -c 'cat notes/*; echo err >&2; exit 3'"
claims = {}

def check(mode, box, read, notes, top, there, r):
    assert read == DATA, mode
    assert [f.name for f in notes] == ["a b.txt"] and "notes" in [f.name for f in top], mode
    assert there == [True, False], mode
    assert (r.stdout, r.stderr, r.exit_code) == (DATA.decode(), "err\\n", 3), (mode, r)
    claims[mode] = box.claim_name

def sync(mode, config):
    client = SandboxClient(connection_config=config)
    box = client.create_sandbox("agents")
    box.files.write("notes/a b.txt", DATA)
    check(mode, box, box.files.read("notes/a b.txt"), box.files.list("notes"), box.files.list("."),
          [box.files.exists("notes/" + n) for n in ("a b.txt", "b.txt")], box.commands.run(COMMAND))
    assert client.get_sandbox(box.claim_name).sandbox_id == box.sandbox_id
    box.terminate()

async def run(mode, config):
    async with AsyncSandboxClient(connection_config=config) as client:
        box = await client.create_sandbox("agents")
        await box.files.write("notes/a b.txt", DATA)
        check(mode, box, await box.files.read("notes/a b.txt"), await box.files.list("notes"),
              await box.files.list("."),  # GET /list, without a slash
              [await box.files.exists("notes/" + n) for n in ("a b.txt", "b.txt")], await box.commands.run(COMMAND))
        many = await asyncio.gather(*(box.commands.run(f"echo {i}") for i in range(20)))
        assert [m.stdout for m in many] == [f"{i}\\n" for i in range(20)]

direct = SandboxDirectConnectionConfig(api_url=os.environ["CAY_ROUTER"])
gateway = SandboxGatewayConnectionConfig(gateway_name="external-http-gateway", gateway_ready_timeout=20)
sync("gateway", gateway)
asyncio.run(run("async direct", direct))
asyncio.run(run("async gateway", gateway))
from k8s_agent_sandbox.gke_extensions.snapshots import PodSnapshotSandboxClient
try:
    PodSnapshotSandboxClient(connection_config=direct)  # asks for an API group that is not there
    raise AssertionError("a client of snapshots where there are none")
except RuntimeError as e:
    assert "Pod Snapshot Controller is not ready" in str(e), e
print(json.dumps(claims))
"""


def free_address():
    """A loopback address whose port 80 nobody has; a server on all addresses has it everywhere."""
    address = f"127.{random.randrange(2, 250)}.{random.randrange(250)}.{random.randrange(2, 250)}"
    with socket.socket() as s:
        try:
            s.bind((address, 80))
        except OSError as e:
            pytest.skip(f"port 80 of {address}: {e}; a server of this machine listens there on all addresses")
    return address


@pytest.fixture(scope="module")
def address():
    return free_address()


@pytest.fixture(scope="module")
def world(module_instance, address):
    cay = module_instance("--gateway-listen", address)
    for name in ("template", "warmpool"):
        cay.kubectl("apply", "-f", os.path.join(ROOT, "examples", name + ".yaml"))
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents", lambda p: p and p.get("status", {}).get("readyReplicas") == 10)
    return cay


def run(cay, venv, program, **env):
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, CAY_ROUTER=f"http://127.0.0.1:{cay.router_port}", **env)
    r = subprocess.run([python_of(venv), "-c", program], capture_output=True, text=True, env=env, timeout=120)
    assert r.returncode == 0, r.stderr
    return r.stdout


@pytest.mark.parametrize("venv", VENVS)
def test_dataplane_189_194_212_and_213_a_client_by_gateway_and_an_asynchronous_one(world, venv):
    """U12 and U32 too: the asynchronous client sends a Content-Type with every GET, and asks for /list."""
    claims = json.loads(run(world, venv, PROGRAM, PYTHONPATH=ASYNC).splitlines()[-1])
    assert set(claims) == {"gateway", "async direct", "async gateway"}
    for claim in claims.values():  # the asynchronous client takes its claims along when it leaves
        world.wait(f"{EXTENSIONS}/namespaces/default/sandboxclaims", claim, lambda c: c is None)


def test_dataplane_231_the_gateway_has_one_address_and_keeps_it(world, address):
    def leads_here(g):
        return g and [a["value"] for a in g.get("status", {}).get("addresses", [])] == [address]

    first = world.wait(GATEWAYS, NAME, leads_here)
    world.api("PATCH", f"{GATEWAYS}/{NAME}/status", {"status": {"addresses": [{"value": "192.0.2.1"}]}}, content_type="application/merge-patch+json")
    world.wait(GATEWAYS, NAME, leads_here)
    world.api("DELETE", f"{GATEWAYS}/{NAME}")
    again = world.wait(GATEWAYS, NAME, leads_here)
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    # A manifest of one's own for this name changes the wish, not where it leads.
    manifest = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": NAME}, "spec": {
        "gatewayClassName": "gke-l7-regional-external-managed", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}}]}}
    world.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    row = world.kubectl("get", "gateways").stdout.split("\n")[1].split()
    assert row[:4] == [NAME, "gke-l7-regional-external-managed", address, "True"], row
    wrong = dict(manifest, metadata={"name": "wrong"}, spec={"gatewayClassName": "x", "listeners": [{"name": "a", "protocol": "HTTP", "port": 70000}]})
    refused = world.kubectl("create", "-f", "-", stdin=json.dumps(wrong), check=False)
    assert "spec.listeners[0].port" in refused.stderr, refused.stderr


def test_every_gateway_gets_the_address_unless_somebody_else_gave_it_one(world, address):
    world.api("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    theirs = GATEWAYS.replace("default", "team")
    for name, port in (("web", 80), ("other", 81), ("taken", 81)):
        world.api("POST", theirs, {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name}, "spec": {
            "gatewayClassName": "any", "listeners": [{"name": "http", "protocol": "HTTP", "port": port}]}})
    world.api("PATCH", f"{theirs}/taken/status", {"status": {"addresses": [{"value": "192.0.2.1"}]}}, content_type="application/merge-patch+json")
    world.api("PATCH", f"{theirs}/taken", {"spec": {"listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}},
              content_type="application/merge-patch+json")
    web = world.wait(theirs, "web", lambda g: g and g.get("status", {}).get("addresses"))
    assert [a["value"] for a in web["status"]["addresses"]] == [address]
    world.api("PATCH", f"{theirs}/web/status", {"status": {"addresses": [{"value": "192.0.2.1"}]}}, content_type="application/merge-patch+json")
    world.wait(theirs, "web", lambda g: g["status"]["addresses"][0]["value"] == address)  # it is ours by now, and leads here
    assert "status" not in world.api("GET", f"{theirs}/other")
    assert world.api("GET", f"{theirs}/taken")["status"]["addresses"][0]["value"] == "192.0.2.1"


def test_a_gateway_without_an_address_says_how_to_get_one(fresh):
    """Started again without the setting, the status no longer leads to where nobody listens."""
    other = free_address()
    cay = fresh("--gateway-listen", other)
    cay.wait(GATEWAYS, NAME, lambda g: g and g.get("status", {}).get("addresses"))
    cay.stop()
    cay.flags = [f for f in cay.flags if f not in ("--gateway-listen", other)]
    cay.start()
    gone = cay.wait(GATEWAYS, NAME, lambda g: g and not g["status"].get("addresses"))
    assert "--gateway-listen" in gone["status"]["conditions"][0]["message"]
    cay.api("DELETE", f"{GATEWAYS}/{NAME}")
    cay.wait(GATEWAYS, NAME, lambda g: g is None)
    wait_until(lambda: not cay.api("GET", GATEWAYS)["items"])  # nobody makes it anew


def test_a_gateway_address_that_is_none_is_an_error_at_the_start(fresh):
    for wrong in ("0.0.0.0", "::", "localhost", "127.0.0.1:80"):
        with pytest.raises(RuntimeError, match="gateway-listen"):
            fresh("--gateway-listen", wrong, start=False).start()
