# SPDX-License-Identifier: Apache-2.0
"""Every way into a sandbox asks the gate. What the server offers is read from the server itself: a subresource, an endpoint or a way of the
router that is not in these tables fails the test that lists them, until somebody has said how it is tried, or why it leads nowhere."""

import http.client
import json
import re

import pytest

from cay_local import ROOT, wait_until
from gate_kit import acting, box
from mcp_kit import Raw, call
from test_agent_identity import Agent

BOX = "desk"
POD = f"/api/v1/namespaces/default/pods/{BOX}"

# Subresources of what a sandbox is made of. None: it changes or shows the object, and starts nothing in it.
SUBRESOURCES = {
    "pods/exec": ["exec", BOX, "--", "touch", "/tmp/entered"],
    "pods/attach": ["attach", BOX],
    "pods/log": ["logs", BOX],
    "pods/portforward": ["port-forward", f"pod/{BOX}", ":8888"],
    "pods/proxy": ["get", "--raw", f"{POD}:8888/proxy/"],
    "services/proxy": ["get", "--raw", f"/api/v1/namespaces/default/services/{BOX}:8888/proxy/"],
    "pods/ephemeralcontainers": ["debug", BOX, "--image=host", "--", "touch", "/tmp/entered"],
    "pods/status": None, "pods/resize": None, "pods/eviction": None, "services/status": None,
    "sandboxes/status": None, "sandboxes/scale": None,
}
# Tools that go into a sandbox.
TOOLS = {
    "execute_command": {"command": "touch /tmp/entered"},
    "download_file": {"path": "/etc/hostname"},
    "upload_file": {"path": "/tmp/entered", "content": "x"},
    "list_files": {"path": "/"},
    "file_exists": {"path": "/etc"},
}
RESOURCES = {"pods", "services", "sandboxes"}


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance("--router-path-prefix", "/boxes")
    box(c, BOX)
    return c


@pytest.fixture(scope="module")
def outsider(cay):
    """An agent with every role, and without an attachment."""
    return Agent(cay, "outsider", role="cluster-admin")


def entered(cay):
    return cay.kubectl("exec", BOX, "--", "sh", "-c", "test -e /tmp/entered && echo yes; true").stdout == "yes\n"


def offered(cay):
    """From discovery: what is below Pods, Services and Sandboxes, in every version."""
    found = set()
    groups = ["/api/v1"] + [f"/apis/{v['groupVersion']}" for g in cay.api("GET", "/apis")["groups"] for v in g["versions"]]
    for path in groups:
        for r in cay.api("GET", path)["resources"]:
            resource, _, sub = r["name"].partition("/")
            if sub and resource in RESOURCES:
                found.add(r["name"])
    return found


def test_every_subresource_is_known_here(cay):
    assert offered(cay) == set(SUBRESOURCES)


@pytest.mark.parametrize("sub", [s for s, how in SUBRESOURCES.items() if how])
def test_no_subresource_leads_in_without_the_gate(cay, outsider, sub):
    if sub == "services/proxy":
        cay.kubectl("patch", "sandbox", BOX, "--type=merge", "-p", '{"spec":{"service":true}}')
        wait_until(lambda: cay.kubectl("get", "endpoints", BOX, check=False).returncode == 0 or cay.kubectl("get", "service", BOX, check=False).returncode == 0)
    r = cay.kubectl(*acting("outsider"), *SUBRESOURCES[sub], check=False, timeout=60)
    assert r.returncode != 0 and not entered(cay), (r.stdout, r.stderr)
    if sub != "services/proxy":  # a Service without ready Pods is refused sooner
        assert "no attachment" in r.stderr or "orbidden" in r.stderr, r.stderr


def request(cay, headers, path="/execute", port=None):
    body = json.dumps({"command": "touch /tmp/entered"})
    conn = http.client.HTTPConnection("127.0.0.1", port or cay.router_port, timeout=60)
    conn.request("POST", path, body, {"Content-Type": "application/json", **headers})
    answer = conn.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("way", ["header", "host", "path"])
def test_no_way_of_the_router_leads_in_without_the_gate(cay, outsider, way):
    token = {"Authorization": "Bearer " + outsider.mint(), "Sec-Fetch-Site": "cross-site"}
    headers = {"header": {"X-Sandbox-ID": BOX, "X-Sandbox-Namespace": "default"}, "host": {"Host": f"8888-{BOX}.default.sandbox.localhost"}, "path": {}}[way]
    status, text = request(cay, {**token, **headers}, f"/boxes/default/{BOX}/8888/execute" if way == "path" else "/execute")
    assert status == 403 and "no attachment" in text, (status, text)
    assert not entered(cay)


def test_the_ways_of_the_router_are_known_here():
    """Ports that pass TLS on, and node ports, ask who has connected, and no agent has."""
    text = open(f"{ROOT}/src/router/router.h").read()
    ways = re.search(r"enum router_way \{(.*?)\}", text, re.S).group(1)
    assert set(re.findall(r"ROUTER_BY_(\w+)", ways)) - {"WAY_MAX_"} == {"HEADER", "HOST", "PATH"}


def test_no_tool_of_mcp_leads_in_without_the_gate(cay, outsider):
    cay.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": {"name": "t"}, "spec": {"podTemplate": {"spec": {
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}},
        {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": "p"}, "spec": {
            "replicas": 1, "sandboxTemplateRef": {"name": "t"}}}]}))
    wire = Raw(cay, outsider.mint())
    wire.open()
    made = wire.send(call("create_sandbox", warmpool="p"))[2]
    claim = re.search(r'"sandbox_claim_name": ?"([\w-]+)"', json.dumps(made).replace("\\", ""))
    assert claim, made
    listed = {t["name"] for t in wire.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})[2]["result"]["tools"]}
    assert listed == set(TOOLS) | {"create_sandbox", "delete_sandbox", "get_sandbox_status"}
    for tool, arguments in TOOLS.items():
        answer = json.dumps(wire.send(call(tool, sandbox_claim_name=claim.group(1), **arguments))[2])
        assert "no attachment" in answer, (tool, answer)
