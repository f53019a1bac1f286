# SPDX-License-Identifier: Apache-2.0
"""Every way into a sandbox asks the gate. What the server offers is read from the server itself: a subresource, an endpoint or a way of the
router that is not in these tables fails the test that lists them, until somebody has said how it is tried, or why it leads nowhere."""

import http.client
import json
import os
import pathlib
import re
import subprocess

import pytest

from cay_local import ROOT, wait_until
from gate_kit import acting, agent, attach, box, open_questions, patch, run, session
from internet import HAS6, Network
from mcp_kit import Raw, call
from test_agent_identity import Agent
from test_identity import ask

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
# And those that do not.
OTHER_TOOLS = {"create_sandbox": {"warmpool": "p"}, "delete_sandbox": {"sandbox_claim_name": "none"}, "get_sandbox_status": {"sandbox_claim_name": BOX}}
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


@pytest.fixture(scope="module")
def wire(cay, outsider):
    cay.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": {"name": "t"}, "spec": {"podTemplate": {"spec": {
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}},
        {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": "p"}, "spec": {
            "replicas": 1, "sandboxTemplateRef": {"name": "t"}}}]}))
    w = Raw(cay, outsider.mint())
    w.open()
    made = w.send(call("create_sandbox", warmpool="p"))[2]
    w.claim = re.search(r'"sandbox_claim_name": ?"([\w-]+)"', json.dumps(made).replace("\\", "")).group(1)
    return w


def listed(wire):
    return {t["name"] for t in wire.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})[2]["result"]["tools"]}


def test_no_tool_of_mcp_leads_in_without_the_gate(cay, wire):
    assert listed(wire) == set(TOOLS) | set(OTHER_TOOLS)
    for tool, arguments in TOOLS.items():
        answer = json.dumps(wire.send(call(tool, sandbox_claim_name=wire.claim, **arguments))[2])
        assert "no attachment" in answer, (tool, answer)
    assert not entered(cay)


@pytest.mark.parametrize("limit,says", [
    ({"capabilities": {"tools": ["none"]}}, "may not use the tool"),
    ({"approval": {"default": "Deny"}}, "denies it"),
    ({"approval": {"default": "Ask"}}, "waits for approval"),
])
def test_every_tool_of_mcp_is_asked_about_by_grant_and_by_rule(cay, limit, says):
    """Whatever the server lists, of an agent that could use all of it."""
    name = "limited-" + says.split()[0]
    limited = Agent(cay, name, role="cluster-admin").enters(BOX)
    wire = Raw(cay, limited.mint())
    wire.open()
    tools = listed(wire)
    patch(cay, "agents", name, {"spec": limit})
    for i, tool in enumerate(tools):
        arguments = {**({"sandbox_claim_name": BOX, "timeout": 1} if tool in TOOLS else {}), **{**TOOLS, **OTHER_TOOLS}[tool]}
        if says == "waits for approval" and tool not in TOOLS:
            wire.leave(call(tool, 100 + i, **arguments))
            assert wait_until(lambda: [a for a in open_questions(cay, name) if a["spec"]["tool"] == tool]), tool
        else:
            assert says in json.dumps(wire.send(call(tool, **arguments))[2]), tool
    assert not entered(cay)



# What else answers on the port of the API server. Of these /mcp is tried above, and a URL of the page is one more way in; the hooks start
# commands as an agent's, over an exec (test_hooks.py), and the rest enters nothing.
ENDPOINTS = {"/mcp", "/hooks/", "/identity/", "/ui", "/ui/", "/cay/v1/page", "/cay/v1/page/links", "/cay/v1/page/sessions", "/cay/v1/page/urls"}


def test_every_endpoint_is_known_here():
    headers = "".join(p.read_text() for p in pathlib.Path(ROOT, "src").rglob("*.[ch]"))
    said = set()
    for source in pathlib.Path(ROOT, "src", "role").glob("*.c"):
        text = source.read_text()
        if "server_add_endpoint(" in text:
            said |= set(re.findall(r"\.path = ([A-Z_]+)", text))
    paths = {p for name in said for p in re.findall(rf'#define {name}\s+\\?\s*"([^"]+)"', headers) if p.startswith("/")}
    assert paths == ENDPOINTS


def test_no_url_of_the_page_leads_in_without_the_gate(cay, outsider):
    status, answer = ask(cay, "/cay/v1/page/urls", outsider.mint(), "POST", {"namespace": "default", "sandbox": BOX, "port": 8888})
    assert status == 403 and "outlive what lets an agent in" in answer["message"]


# The way out: what a sandbox asks the daemon from inside. A body, and on a line of its own the status.
CURL = ["curl", "-sS", "-m", "30", "-w", "\n%{http_code}", "--unix-socket", "/run/cay/identity.sock"]
ANSWERS = {"/identity": "/identity", "/token": "/token?audience=tests"}


def test_the_doors_of_the_gate_are_known_here():
    """Each is tried by a test above or below."""
    text = open(f"{ROOT}/src/gate/gate.h").read()
    doors = re.search(r"enum gate_door \{(.*?)\}", text, re.S).group(1)
    assert set(re.findall(r"GATE_([A-Z]+)\b", doors)) == {"EXEC", "ATTACH", "LOGS", "PORT", "RUNTIME", "READ", "WRITE", "TOOL", "IDENTITY"}


def test_no_answer_of_the_identity_socket_comes_without_the_gate(cay):
    agent(cay, "asker", approval={"default": "Deny", "rules": [{"action": "Allow", "argv": ["curl", "**"]}]})
    session(cay, "asker", "asker")
    attach(cay, "asker", "asker", BOX)
    offered = json.loads(run(cay, "asker", BOX, *CURL, "http://cay/").stdout.rsplit("\n", 1)[0])["error"]
    assert set(re.findall(r"/\w+", offered)) == set(ANSWERS)
    for path in ANSWERS.values():
        body, status = run(cay, "asker", BOX, *CURL, "http://cay" + path).stdout.rsplit("\n", 1)
        assert status == "403" and "denies it" in body, (path, body)


# What a sandbox can send by itself: it has no raw sockets. Names go to the node alone.
PACKETS = {
    "tcp": ("AF_INET", "SOCK_STREAM"), "udp": ("AF_INET", "SOCK_DGRAM"),
    "tcp6": ("AF_INET6", "SOCK_STREAM"), "udp6": ("AF_INET6", "SOCK_DGRAM"),
}
SEND = """
import socket, sys
s = socket.socket(getattr(socket, sys.argv[1]), getattr(socket, sys.argv[2]))
s.settimeout(1)
try:
    s.connect((sys.argv[3], 443)); s.send(b'x')
except OSError:
    pass
"""


@pytest.fixture(scope="module")
def internet():
    n = Network(f"door{os.getpid()}")
    try:
        n.run("nft", "add table inet count")
        n.run("nft", "add chain inet count in { type filter hook prerouting priority 0; }")
        n.run("nft", "add rule inet count in meta l4proto { tcp, udp } th dport 443 counter")
        yield n
    finally:
        n.close()


def arrived(net):
    rules = json.loads(net.run("nft", "-j", "list", "chain", "inet", "count", "in"))["nftables"]
    return next(e["counter"]["packets"] for r in rules for e in r.get("rule", {}).get("expr", []) if "counter" in e)


@pytest.mark.parametrize("way", PACKETS)
def test_no_packet_leaves_without_the_gate(cay, internet, way):
    """Of a sandbox with an agent that may reach nothing; the same packet leaves one that has none."""
    family, kind = PACKETS[way]
    if family == "AF_INET6" and not HAS6:
        pytest.skip("the host has no IPv6")
    name, to = f"out-{way}", internet.ip6 if family == "AF_INET6" else internet.ip

    def leaves():
        before = arrived(internet)
        cay.kubectl("exec", name, "--", "python3", "-c", SEND, family, kind, to)
        return arrived(internet) > before

    box(cay, name)
    wait_until(lambda: internet.forwards6 if family == "AF_INET6" else internet.forwards)
    wait_until(leaves)
    agent(cay, name)
    session(cay, name, name)
    attach(cay, name, name, name)
    wait_until(lambda: not leaves())
    assert not any(leaves() for _ in range(3))


# What sandboxes find at the gateway address. The name server lets nobody act; the outlet sends requests for agents, and asks the gate.
SERVICES = {("udp", 53), ("tcp", 53), ("tcp", 80)}
OUTLET = """
import http.client
c = http.client.HTTPConnection('outlet.cay.internal', 80, timeout=60)
c.request('GET', '/https/api.example/'); r = c.getresponse(); print(r.status, r.read().decode())
"""


def test_what_listens_for_sandboxes_is_known_here(cay):
    gateway = cay.kubectl("exec", BOX, "--", "sed", "-n", "s/^nameserver //p", "/etc/resolv.conf").stdout.split()[0]
    listed = subprocess.run(["ss", "-Hlntu", "src", gateway], capture_output=True, text=True, check=True).stdout
    assert {(line.split()[0], int(line.split()[4].rpartition(":")[2])) for line in listed.splitlines()} == SERVICES


def test_nothing_is_sent_for_a_sandbox_without_the_gate(cay):
    box(cay, "alone")
    text = cay.kubectl("exec", "alone", "--", "python3", "-c", OUTLET).stdout
    assert text.startswith("403 ") and "no agent is attached" in text
