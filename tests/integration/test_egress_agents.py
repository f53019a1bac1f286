# SPDX-License-Identifier: Apache-2.0
"""The way out of sandboxes that agents are attached to: what all of them may reach, and nothing else.

The Internet is a network namespace with a name server of its own, which is the host's.
"""

import contextlib
import itertools
import json
import os
import subprocess

import pytest

from cay_local import wait_until
from conftest import needs_root
from gate_kit import CAY, SANDBOXES, agent, attach, box, decide, delete, open_questions, patch, question, session
from internet import Network, serve_names, sh

number = itertools.count()
PODS = "/api/v1/namespaces/default/pods"
KNOCKED = (9, 10, 11)  # ports at which datagrams are counted
# Connects to each host and port; a lookup that fails is told apart from a connection that does, and one that is cut at once, as limits do
# it, from one to which nothing answers.
TRY = """
import socket, sys
for target in sys.argv[2:]:
    host, port = target.rsplit(':', 1)
    try:
        a = socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror as e:
        print('waits' if e.errno == socket.EAI_AGAIN else 'no name'); continue
    try:
        socket.create_connection(a[0][4], timeout=float(sys.argv[1])).close(); print('reached')
    except (ConnectionRefusedError, ConnectionResetError):
        print('shut')
    except TimeoutError:
        print('silent')
"""
# A conversation that goes on: says something each time that a line comes in, and what became of that.
TALK = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7), timeout=60)
for line in sys.stdin:
    try:
        s.sendall(b'x'); print('heard' if s.recv(1) else 'end', flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True); break
"""
# The same without anybody who asks: counts what it heard, and notes that it was cut.
STEADY = """
import os, socket, time
def note(text):
    open('/tmp/steady.new', 'w').write(text); os.rename('/tmp/steady.new', '/tmp/steady')
s = socket.create_connection(('web.example', 7), timeout=60)
try:
    for n in range(10**6):
        s.sendall(b'x'); s.recv(1); note(str(n)); time.sleep(0.02)
except OSError:
    note('cut')
"""
# Datagrams to a port that is counted; a file says how many were tried.
KNOCK = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
for n in range(10**9):
    try:
        s.sendto(b'x', (sys.argv[1], 9))
    except OSError:
        pass
    if n % 1000 == 0:
        open('/tmp/knocked', 'w').write(str(n // 1000))
"""
# Datagrams to each port in turn, even after it was told to end; a file says how often all were tried.
LINGER = """
import signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
s = socket.socket(type=socket.SOCK_DGRAM)
for n in range(10**9):
    for port in sys.argv[2:]:
        try:
            s.sendto(b'x', (sys.argv[1], int(port)))
        except OSError:
            pass
    open('/tmp/knocked', 'w').write(str(n)); time.sleep(0.005)
"""
ECHO = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(100): self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer): allow_reuse_address = True
Server(('0.0.0.0', 7), Echo).serve_forever()
"""


class World:
    def __init__(self, tmp):
        self.net = Network(f"ega{os.getpid()}")
        self.log, self.conf = os.path.join(tmp, "questions"), os.path.join(tmp, "resolv.conf")
        open(self.log, "w").close()
        with open(self.conf, "w") as f:
            f.write(f"nameserver {self.net.ip}\n")

    def count_knocks(self):
        for command in ("add table ip count", "add chain ip count in { type filter hook prerouting priority 0; }",
                        *(f"add rule ip count in udp dport {port} counter" for port in KNOCKED)):
            self.net.run("nft", command)

    def knocks(self, port=9):
        rules = json.loads(self.net.run("nft", "-j", "list", "chain", "ip", "count", "in"))["nftables"]
        return [e["counter"]["packets"] for r in rules for e in r.get("rule", {}).get("expr", []) if "counter" in e][KNOCKED.index(port)]

    def asked(self):
        return {line.split()[1] for line in open(self.log).read().splitlines()}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    needs_root()
    w = World(str(tmp_path_factory.mktemp("egress")))
    try:
        names = {f"{n}.example.": w.net.ip for n in ("web", "api", "other", "a.deep", "once", "always", "denied")}
        serve_names(w.net, {**names, "inside.example.": "10.0.0.1"}, w.log)
        for port in (443, 8080):
            w.net.serve_web(port)
        w.net.spawn("python3", "-c", ECHO)
        w.net.listens(7)
        w.count_knocks()
        yield w
    finally:
        w.net.close()


@pytest.fixture(scope="module")
def cay(world, module_instance):
    c = module_instance("--resolv-conf", world.conf)
    box(c, "plain")
    wait_until(lambda: world.net.forwards)
    return c


@pytest.fixture
def name(cay):
    """Of an agent, its session, its attachment and a sandbox of its own."""
    n = f"e{next(number)}"
    box(cay, n)
    return n


def web(*hosts, ports=None):
    return [{"host": h, **({"ports": ports} if ports else {})} for h in hosts]


def may(cay, name, *places, sandbox=None, **spec):
    agent(cay, name, capabilities={"egress": list(places)}, **spec)
    session(cay, name, name)
    attach(cay, name, name, sandbox or name)
    wait_until(lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in
                           cay.api("GET", f"{CAY}/attachments/{name}").get("status", {}).get("conditions", [])))


def shrink(cay, name, *places):
    patch(cay, "agents", name, {"spec": {"capabilities": {"egress": list(places)}}})


def reach(cay, sandbox, *targets, timeout=30):
    """timeout: after which nothing is taken for an answer. It is short only where none is awaited."""
    out = cay.kubectl("exec", sandbox, "--", "python3", "-c", TRY, str(timeout), *targets).stdout.splitlines()
    return out[0] if len(targets) == 1 else out


def test_without_a_place_nothing_gets_out(cay, world, name):
    assert reach(cay, name, "web.example:443", f"{world.net.ip}:443") == ["reached", "reached"]
    may(cay, name)
    wait_until(lambda: reach(cay, name, f"{world.net.ip}:443") == "shut")
    assert reach(cay, name, "web.example:443", f"{world.net.ip}:8080") == ["no name", "shut"]
    assert reach(cay, "plain", "web.example:443") == "reached", "whoever has no agent is limited as well"


def test_a_place_is_reached_by_its_name_and_port_alone(cay, world, name):
    may(cay, name, *web("web.example"), *web("*.deep.example", ports=[8080]))
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    assert reach(cay, name, f"{world.net.ip}:443") == "shut", "an address that nobody looked up"
    assert reach(cay, name, "web.example:443", "web.example:8080", "a.deep.example:8080") == ["reached", "shut", "reached"]


def test_names_are_no_tunnel(cay, world, name):
    """Neither a name that is in no place nor anything but addresses leaves the host."""
    may(cay, name, *web("web.example"))
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    before = world.asked()
    secret = f"secret{os.getpid()}"
    reach(cay, name, f"{secret}.other.example:443", f"{secret}.web.example:443", f"{secret}\\.web.example:443", "web.example:443")
    assert not any(secret in q for q in world.asked() - before)


def test_several_agents_reach_what_all_of_them_may(cay, world, name):
    may(cay, name, *web("web.example", "api.example"))
    may(cay, f"{name}-b", *web("api.example", "other.example"), sandbox=name)
    wait_until(lambda: reach(cay, name, "web.example:443") == "no name")
    assert reach(cay, name, "api.example:443", "other.example:443") == ["reached", "no name"]
    delete(cay, "attachments", f"{name}-b")
    wait_until(lambda: reach(cay, name, "web.example:443") == "reached")
    delete(cay, "attachments", name)
    wait_until(lambda: reach(cay, name, "other.example:443") == "reached")


@contextlib.contextmanager
def talk(cay, sandbox, host):
    command = ["kubectl", "--kubeconfig", cay.kubeconfig, "exec", "-i", sandbox, "--", "python3", "-c", TALK, host]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)

    def say():
        p.stdin.write("\n")
        return p.stdout.readline().strip()

    try:
        yield say
    finally:
        p.kill()
        p.communicate()


def test_a_parent_that_shrinks_cuts_what_its_child_has_open(cay, world, name):
    agent(cay, f"{name}-parent", capabilities={"egress": web("web.example", ports=[7, 443])})
    may(cay, name, *web("web.example", ports=[7, 443]), parent=f"{name}-parent")
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    with talk(cay, name, "web.example") as say, talk(cay, "plain", "web.example") as others:
        assert [say(), say(), others()] == ["heard", "heard", "heard"]
        shrink(cay, f"{name}-parent", *web("web.example", ports=[443]))
        said = []
        wait_until(lambda: said.append(say()) or said[-1] != "heard")
        assert said[-1] == "ConnectionResetError", said
        assert others() == "heard"
    assert reach(cay, name, "web.example:443", "web.example:7") == ["reached", "shut"]


def test_addresses_can_be_places(cay, world, name):
    may(cay, name, *web(world.net.ip, ports=[8080]))
    wait_until(lambda: reach(cay, name, f"{world.net.ip}:443") == "shut")
    assert reach(cay, name, f"{world.net.ip}:8080", "web.example:8080") == ["reached", "no name"]
    shrink(cay, name, *web("*"))
    wait_until(lambda: reach(cay, name, f"{world.net.ip}:443") == "reached")
    assert reach(cay, name, f"{world.net.ip}:8080", "web.example:443") == ["shut", "reached"]


def test_a_name_with_a_private_address_opens_nothing(cay, world, name):
    may(cay, name, *web("inside.example", ports=[80]))
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    assert reach(cay, name, "inside.example:80", timeout=2) == "silent"
    assert "10.0.0.1" not in json.dumps(elements(cay, "leases"))


def table(cay):
    """The packet filter of the instance, as data."""
    with open(os.path.join(cay.data_dir, "node", "instance.json")) as f:
        return json.loads(sh("nft", "-j", "list", "table", "inet", f"cay_{json.load(f)['id']}"))["nftables"]


def elements(cay, which):
    return next(e["set"].get("elem", []) for e in table(cay) if e.get("set", {}).get("name") == which)


def test_a_place_with_methods_or_paths_is_not_for_packets(cay, world, name):
    may(cay, name, {"host": "web.example", "methods": ["GET"]}, {"host": "api.example", "paths": ["/v1/*"]}, {"host": world.net.ip, "methods": ["GET"]})
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    assert reach(cay, name, "web.example:443", "api.example:443", f"{world.net.ip}:443") == ["no name", "no name", "shut"]


def asks(*hosts, action="Ask"):
    return {"approval": {"rules": [{"action": action, "host": h} for h in hosts]}}


def test_a_host_that_must_be_approved_becomes_a_question(cay, world, name):
    may(cay, name, *web("once.example", "always.example", "denied.example", "web.example", "api.example"), **asks("once.example", "always.example", "denied.example"))
    patch(cay, "agents", name, {"spec": {"approval": {"rules": [*asks("once.example", "always.example", "denied.example")["approval"]["rules"],
                                                                {"action": "Deny", "host": "api.example"}]}}})
    wait_until(lambda: reach(cay, name, "api.example:443") == "no name")
    assert reach(cay, name, "web.example:443") == "reached", "no rule is about it"
    for host, decision, result in (("once", "Once", "reached"), ("always", "Always", "reached"), ("denied", "Deny", "no name")):
        assert reach(cay, name, f"{host}.example:443") == "waits"
        q = question(cay, name)
        assert {k: q["spec"].get(k) for k in ("operation", "host", "sandbox", "attachment", "session")} == {
            "operation": "egress", "host": f"{host}.example", "sandbox": name, "attachment": name, "session": name}
        assert reach(cay, name, f"{host}.example:443") == "waits" and len(open_questions(cay, name)) == 1, "the same question once more"
        decide(cay, q, decision)
        assert reach(cay, name, f"{host}.example:443") == result
        status = cay.api("GET", f"{CAY}/approvals/{q['metadata']['name']}")["status"]
        assert status.get("used", False) == (decision != "Deny")
    rules = cay.api("GET", f"{CAY}/agents/{name}")["spec"]["approval"]["rules"]
    assert rules[0] == {"action": "Allow", "host": "always.example"} and sum(r["action"] == "Allow" for r in rules) == 1
    events = [e for e in cay.api("GET", "/api/v1/namespaces/default/events")["items"] if e["reason"] == "EgressAsked" and e["involvedObject"]["name"] == name]
    assert len(events) == 3


def test_a_sandbox_cannot_flood_people_with_questions(cay, world, name):
    may(cay, name, *web("*.flood.example"), **asks("*.flood.example"))
    wait_until(lambda: reach(cay, name, "web.example:443") == "no name")
    assert set(reach(cay, name, *(f"n{i}.flood.example:443" for i in range(40)))) == {"waits"}
    assert len(open_questions(cay, name)) == 16


def test_an_address_cannot_be_asked_about(cay, world, name):
    may(cay, name, *web(world.net.ip), *web("*", ports=[8080]), approval={"default": "Ask"})
    wait_until(lambda: reach(cay, name, f"{world.net.ip}:443") == "shut")
    assert reach(cay, name, f"{world.net.ip}:8080") == "shut"
    patch(cay, "agents", name, {"spec": {"approval": {"rules": [{"action": "Allow", "host": world.net.ip}]}}})
    wait_until(lambda: reach(cay, name, f"{world.net.ip}:443") == "reached")


def test_a_sandbox_that_was_made_for_an_agent_stays_limited_without_it(cay, world, name):
    agent(cay, name, capabilities={"egress": web("web.example")})
    cay.kubectl("label", "sandbox", name, f"cay.dev/agent={name}")
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    assert reach(cay, name, "web.example:443") == "reached"
    cay.kubectl("delete", f"agents.cay.dev/{name}")
    wait_until(lambda: reach(cay, name, "web.example:443") == "no name")


def test_a_crash_of_the_server_opens_nothing(cay, world, name):
    may(cay, name, *web("web.example", ports=[7]), *web(world.net.ip, ports=[8080]))
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    cay.kubectl("exec", name, "--", "sh", "-c", 'setsid python3 -c "$1" >/dev/null 2>&1 </dev/null &', "sh", STEADY)
    wait_until(lambda: steady(cay, name).isdigit())
    before = elements(cay, "free"), leases_of(cay, name)
    assert len(before[1]) == 4
    cay.kill()
    cay.start()
    assert (elements(cay, "free"), leases_of(cay, name)) == before, "the first packet filter has the limits already"
    count = steady(cay, name)
    wait_until(lambda: steady(cay, name) != count)
    assert steady(cay, name).isdigit(), "what was open is cut"
    assert reach(cay, name, f"{world.net.ip}:8080", f"{world.net.ip}:7") == ["reached", "reached"]
    assert reach(cay, name, "web.example:443", "other.example:443") == ["shut", "no name"]
    shrink(cay, name)
    wait_until(lambda: steady(cay, name) == "cut")


def leases_of(cay, name):
    ip = cay.api("GET", f"{PODS}/{name}")["status"]["podIP"]
    return sorted(e["concat"] for e in elements(cay, "leases") if e["concat"][0] == ip)


def steady(cay, name):
    return cay.kubectl("exec", name, "--", "cat", "/tmp/steady", check=False).stdout


def test_the_record_has_each_host_once(cay, world, name):
    may(cay, name, *web("web.example"))
    wait_until(lambda: reach(cay, name, "other.example:443") == "no name")
    reach(cay, name, "web.example:443", "web.example:443", *(f"n{i}.flood.example:443" for i in range(60)))
    lines = [json.loads(line) for line in open(os.path.join(cay.data_dir, "audit.log"))]
    own = [r for r in lines if r.get("subresource") == "egress" and r["name"] == name]
    assert sum(r["status"] == 200 for r in own) == 1
    assert {r["user"] for r in own} == {f"cay:agent:default:{name}"}
    assert len(own) < 50 and any("other.example" in r["note"] for r in own), "a hostile sandbox could fill the record"


def test_nobody_limited_costs_no_rule(module_instance, world):
    c = module_instance("--resolv-conf", world.conf)
    box(c, "plain")
    assert not any(e.get("chain", {}).get("name") == "limits" for e in table(c))


def open_between(cay):
    """Policies that let all sandboxes of the namespace reach each other, the name server and everything else."""
    spec = {"podSelector": {}, "policyTypes": ["Egress", "Ingress"], "ingress": [{"from": [{"podSelector": {}}]}],
            "egress": [{"to": [{"podSelector": {}}, {"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}
    cay.api("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {"metadata": {"name": "between"}, "spec": spec})


def test_other_sandboxes_are_reached_by_their_names_if_policies_agree(module_instance, world):
    c = module_instance("--resolv-conf", world.conf)
    for box_name in ("db", "db2"):
        box(c, box_name, "python3", "-m", "http.server", "8000")
    box(c, "desk")
    ip = {n: c.api("GET", f"{PODS}/{n}")["status"]["podIP"] for n in ("db", "db2")}
    db, db2 = (f"{n}.default.pod.cluster.local:8000" for n in ip)
    may(c, "desk", *web(db.split(":")[0], ports=[8000]))
    wait_until(lambda: reach(c, "desk", db2) == "no name")
    assert reach(c, "desk", db) == "shut", "no policy opens it"
    open_between(c)
    wait_until(lambda: reach(c, "desk", db) == "reached")
    assert reach(c, "desk", f"{ip['db2']}:8000") == "shut"
    assert reach(c, "db2", f"{ip['db']}:8000") == "reached", "whoever is free goes by policies alone"
    assert reach(c, "db", "web.example:443") == "reached"


def test_a_sandbox_that_starts_anew_is_limited_from_its_first_packet(cay, world, name):
    """Its command knocks as fast as it can; nothing arrives, neither before its Pod has an agent again nor after."""
    knocker = f"{name}-k"
    box(cay, knocker, "python3", "-c", KNOCK, world.net.ip)
    wait_until(lambda: world.knocks() > 0)
    may(cay, knocker)
    wait_until(lambda: reach(cay, knocker, f"{world.net.ip}:443") == "shut")
    before, old = world.knocks(), cay.api("GET", f"{PODS}/{knocker}")["metadata"]["uid"]
    cay.api("DELETE", f"{PODS}/{knocker}")
    wait_until(lambda: int(cay.kubectl("exec", knocker, "--", "cat", "/tmp/knocked", check=False).stdout or 0) > 3
               and cay.api("GET", f"{PODS}/{knocker}")["metadata"]["uid"] != old)
    assert world.knocks() == before


def linger(cay, world, name, *ports, **labels):
    """A sandbox that goes on for ten minutes after it was deleted, and knocks at these ports all the time."""
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name, "labels": labels}, "spec": {"podTemplate": {"spec": {
        "terminationGracePeriodSeconds": 600,
        "containers": [{"name": "main", "image": "host", "command": ["python3", "-c", LINGER, world.net.ip, *map(str, ports)]}]}}}})
    cay.wait_ready(SANDBOXES, name)


def goes_on(cay, *names):
    """Waits until each has tried all of its ports again, several times."""
    def tried(name):
        return int(cay.kubectl("exec", name, "--", "cat", "/tmp/knocked", check=False).stdout or 0)

    for name in names:
        before = wait_until(lambda name=name: tried(name))
        wait_until(lambda name=name, before=before: tried(name) > before + 50)


def is_deleted(cay, name, propagation):
    """What kubectl delete --cascade does: the Sandbox is gone or is going, and its Pod has time left, or is nobody's."""
    sandboxes = {s["metadata"]["name"]: "deletionTimestamp" in s["metadata"] for s in cay.api("GET", SANDBOXES)["items"]}
    pod = cay.api("GET", f"{PODS}/{name}")["metadata"]
    return (sandboxes.get(name) if propagation == "Foreground" else name not in sandboxes) and (
        "ownerReferences" not in pod if propagation == "Orphan" else "deletionTimestamp" in pod)


def test_what_outlives_its_sandbox_reaches_no_more_than_before(module_instance, world):
    """Whether it was limited by a label or by an attachment, whatever becomes of the server, and whoever gets its name."""
    c = module_instance("--resolv-conf", world.conf)
    ends = {"made": "Background", "slow": "Foreground", "left": "Orphan", "lent": "Background", "plain": "Background"}
    limited = [name for name in ends if name != "plain"]
    agent(c, "made", capabilities={"egress": web(world.net.ip, ports=[10])})
    for name in ("made", "slow", "left"):
        linger(c, world, name, 9, 10, **{"cay.dev/agent": "made"})
    linger(c, world, "lent", 9)
    may(c, "lent", sandbox="lent")
    linger(c, world, "plain", 11)
    ip = {name: c.api("GET", f"{PODS}/{name}")["status"]["podIP"] for name in ends}
    wait_until(lambda: set(elements(c, "free")) == {ip["plain"]} and set(elements(c, "limited")) == {ip[name] for name in limited})
    shut, allowed = world.knocks(9), world.knocks(10)
    goes_on(c, *ends)
    assert world.knocks(9) == shut and world.knocks(10) > allowed, "it is not limited, or has no place"

    for name, propagation in ends.items():
        c.api("DELETE", f"{SANDBOXES}/{name}", {"propagationPolicy": propagation})
        wait_until(lambda name=name, propagation=propagation: is_deleted(c, name, propagation))
    delete(c, "sessions", "lent")
    wait_until(lambda: not c.api("GET", f"{CAY}/sessions")["items"] and not c.api("GET", f"{CAY}/attachments")["items"])
    delete(c, "agents", "made")

    def still_shut():
        free = world.knocks(11)
        goes_on(c, *ends)
        assert world.knocks(9) == shut, "what was never allowed is reached"
        assert elements(c, "free") == [ip["plain"]] and set(elements(c, "limited")) == {ip[name] for name in limited}
        assert world.knocks(11) > free, "whoever was never limited is shut"

    still_shut()
    c.kill()
    c.start()
    still_shut()
    anew = [name for name, propagation in ends.items() if propagation == "Background"]
    for name in anew:  # its Pod cannot be made before the other one has gone
        c.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    agent(c, "other", capabilities={"egress": []})
    session(c, "other", "other")  # every sandbox is judged anew
    still_shut()
    delete(c, "sessions", "other")
    c.kubectl("delete", "pod", *ends, "--grace-period=0", "--force")
    for name in anew:
        c.wait_ready(SANDBOXES, name)
    wait_until(lambda: not any(e.get("chain", {}).get("name") == "limits" for e in table(c)))
