# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies in force: what goes out of a sandbox is what they allow, from its first packet to its last, whatever happens to the daemon.

The Internet is a network namespace with several addresses, where a server sends back every line.
"""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from cay_local import ApiError, wait_until
from conftest import needs_root
from internet import Network, sh
from test_node_pods import create, events, pod

POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
TCP = (8000, 8001, 8002)
ECHO = """
import socket, socketserver, sys, threading
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
def datagrams(port):
    s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('0.0.0.0', port))
    while True:
        try:
            data, peer = s.recvfrom(100); s.sendto(data, peer)
        except OSError: pass  # the rules changed between the two
for port in map(int, sys.argv[1:]):
    threading.Thread(target=datagrams, args=(port,), daemon=True).start()
    threading.Thread(target=Server(('0.0.0.0', port), Echo).serve_forever).start()
"""
# Says for each "tcp:IP:PORT" whether it answers. "dns" is the name server, asked for a name that is not there.
TRY = """
import socket, sys
QUERY = bytes.fromhex('777701000001000000000000017807636c7573746572056c6f63616c0000010001')
def tried(how, ip='', port=53):
    s = socket.socket(type=socket.SOCK_STREAM if how == 'tcp' else socket.SOCK_DGRAM)
    s.settimeout(float(sys.argv[1]))
    try:
        if how == 'dns':
            ip = open('/etc/resolv.conf').read().split('nameserver ')[1].split()[0]
        s.connect((ip, int(port))); s.send(QUERY if how == 'dns' else b'x\\n')
        return 'yes' if s.recv(100) else 'no'
    except OSError:
        return 'no'
print(*(tried(*what.split(':')) for what in sys.argv[2:]))
"""
# Keeps one connection, and sends the lines that it is told to.
KEEP = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
f = s.makefile('rb')
try:
    for line in sys.stdin:
        s.sendall(line.encode()); print('back', f.readline().decode().strip(), flush=True)
except OSError as e:
    print('ended', type(e).__name__, flush=True)
"""
# Connects all the time, from its first moment on, and notes how often it tried and whether it ever succeeded.
HASTE = """
import os, socket, sys, time
n = 0
while True:
    s = socket.socket(); s.settimeout(0.2)
    n += 1
    if s.connect_ex((sys.argv[1], int(sys.argv[2]))) == 0:
        open('/tmp/reached', 'w').close()
    s.close()
    with open('/tmp/new', 'w') as f: f.write(str(n))
    os.rename('/tmp/new', '/tmp/tries')
    time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def internet():
    needs_root()
    n = Network(f"pol{os.getpid()}")
    try:
        n.others = [str(n.net[i]) for i in (3, 4)]
        for ip in n.others:
            n.run("ip", "addr", "add", f"{ip}/28", "dev", "eth0")
        n.spawn(sys.executable, "-c", ECHO, *map(str, TCP))
        for port in TCP:
            n.listens(port)
            n.listens(port, "-u")
        yield n
    finally:
        n.close()


@contextlib.contextmanager
def policy(cay, name, spec):
    cay.api("POST", POLICIES, {"metadata": {"name": name}, "spec": spec})
    try:
        yield
    finally:
        with contextlib.suppress(ApiError):
            cay.api("DELETE", f"{POLICIES}/{name}")


def attempt(cay, name, *what, timeout=1):
    return cay.kubectl("exec", name, "--", "python3", "-c", TRY, str(timeout), *what).stdout.split()


def out(selector, *rules):
    return {"podSelector": {"matchLabels": selector} if selector else {}, "policyTypes": ["Egress"], "egress": list(rules)}


def box(cay, name, *command, **labels):
    body = pod(name, *(command or ("sleep", "1000")))
    body["metadata"]["labels"] = labels
    return create(cay, body)


def rules(cay):
    """The packet filter of this instance."""
    name = next(i["name"] for i in cay.census()[0] if i["type"] == "table")
    return sh("nft", "list", "table", *name.split())


def inside(cay, name):
    """How to run something in its network, past all that holds its processes but the filters."""
    pid = next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == f"default/{name}")
    return "nsenter", "-t", pid, "-n"


def received(internet):
    """How many datagrams have arrived there, whether or not an answer came back."""
    names, values = (line.split() for line in internet.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Udp: "))
    return int(values[names.index("InDatagrams")])


def settled(cay, name, what, expected, timeout=1):
    wait_until(lambda: attempt(cay, name, *what, timeout=timeout) == expected)


def test_a_policy_shuts_the_pods_that_it_selects_and_no_others(cay, internet):
    box(cay, "shut", role="shut")
    box(cay, "free", role="free")
    everything = [f"tcp:{internet.ip}:8000", f"udp:{internet.ip}:8000", "dns"]
    wait_until(lambda: internet.forwards)
    settled(cay, "shut", everything, ["yes"] * 3, timeout=20)
    with policy(cay, "deny", out({"role": "shut"})):
        settled(cay, "shut", everything, ["no"] * 3)
        assert attempt(cay, "free", *everything, timeout=20) == ["yes"] * 3
        cay.kubectl("label", "pod", "free", "role=shut", "--overwrite")
        settled(cay, "free", everything, ["no"] * 3)
        with policy(cay, "allow", out({"role": "shut"}, {"ports": [{"protocol": "UDP", "port": 53}]})):
            settled(cay, "shut", everything, ["no", "no", "yes"])
        settled(cay, "shut", everything, ["no"] * 3)
    settled(cay, "shut", everything, ["yes"] * 3, timeout=20)
    assert "policies" not in rules(cay), "without a policy the packet filter is what it was"


def test_blocks_exceptions_and_ports(cay, internet):
    box(cay, "blocks", role="blocks")
    a, b, c = internet.ip, *internet.others
    what = [f"tcp:{a}:8000", f"tcp:{a}:8001", f"tcp:{a}:8002", f"udp:{a}:8001", f"tcp:{b}:8000", f"tcp:{c}:8000", "dns"]
    rule = {"to": [{"ipBlock": {"cidr": str(internet.net), "except": [f"{b}/32"]}}], "ports": [{"port": 8000, "endPort": 8001}]}
    wait_until(lambda: internet.forwards)
    with policy(cay, "blocks", out({"role": "blocks"}, rule)):
        settled(cay, "blocks", what, ["yes", "yes", "no", "no", "no", "yes", "no"])
        more = [{"to": [{"ipBlock": {"cidr": f"{a}/32"}}], "ports": [{"protocol": "UDP", "port": 8001}]},
                {"to": [{"ipBlock": {"cidr": f"{b}/32"}}], "ports": [{"protocol": "TCP"}]}]
        with policy(cay, "more", out({"role": "blocks"}, *more)):
            settled(cay, "blocks", what, ["yes", "yes", "no", "yes", "yes", "yes", "no"])


def test_a_connection_that_is_no_longer_allowed_ends(cay, internet):
    box(cay, "open", role="open")
    wait_until(lambda: internet.forwards)
    argv = ["kubectl", "--kubeconfig", cay.kubeconfig, "exec", "-i", "open", "--", "python3", "-c", KEEP, internet.ip, "8000"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        def say(text):
            keeper.stdin.write(text + "\n")
            keeper.stdin.flush()
            return keeper.stdout.readline().split()
        try:
            assert say("one") == ["back", "one"]
            other = {"to": [{"ipBlock": {"cidr": f"{internet.others[0]}/32"}}]}
            with policy(cay, "other", out({"role": "open"}, other)):
                settled(cay, "open", [f"tcp:{internet.ip}:8000", f"tcp:{internet.others[0]}:8000"], ["no", "yes"])
                assert say("two") == ["ended", "ConnectionResetError"]
        finally:
            keeper.kill()


def test_probes_and_the_way_in_of_the_daemon_stay_open(cay, internet):
    body = pod("probed", "python3", "-c", ECHO, "8000", container={"readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}})
    body["metadata"]["labels"] = {"role": "probed"}
    with policy(cay, "nothing", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}):
        wait_until(lambda: "policies" in rules(cay))
        create(cay, body)  # waits until the probe agrees
        assert attempt(cay, "probed", f"tcp:{internet.ip}:8000") == ["no"]


def test_what_a_policy_cannot_open_stays_shut_and_is_told(cay, internet):
    """Blocks of addresses mean none of a sandbox, in either direction."""
    ip = box(cay, "server", "python3", "-c", ECHO, "8000", role="server")["status"]["podIP"]
    box(cay, "client", role="client")
    wait_until(lambda: internet.forwards)
    spec = {"podSelector": {"matchLabels": {"role": "server"}}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}
    blocks = {"to": [{"ipBlock": {"cidr": cidr}} for cidr in ("100.64.0.0/10", "10.0.0.0/8", f"{internet.others[1]}/32")]}
    with policy(cay, "in", spec), policy(cay, "out", out({"role": "client"}, {}, blocks)):
        wait_until(lambda: "spec.ingress[0]" in events(cay, "in").get("PolicyWithoutEffect", ""))
        wait_until(lambda: "spec.egress[1]" in events(cay, "out").get("PolicyWithoutEffect", ""))
        settled(cay, "client", [f"tcp:{internet.others[1]}:8000", f"tcp:{ip}:8000"], ["yes", "no"])


def test_private_networks_are_opened_where_the_setting_lets_policies_do_so(fresh, internet):
    """Both filters follow the policy, and open connections go with it."""
    own = os.getpid() % 256
    within, without = f"10.212.{own}.2", f"10.213.{own}.2"
    for ip in (within, without):
        internet.add(ip)
    cay = fresh("--policy-may-open", "10.212.0.0/16")
    box(cay, "plain")
    box(cay, "opener", role="opener")
    what = [f"tcp:{within}:8000", f"tcp:{within}:8001", f"tcp:{within}:8002", f"tcp:{without}:8000", f"tcp:{internet.ip}:8000"]
    wait_until(lambda: internet.forwards)
    settled(cay, "opener", what, ["no"] * 4 + ["yes"])
    private = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 8000, "endPort": 8001}]}
    with policy(cay, "open", out({"role": "opener"}, private)):
        settled(cay, "opener", what, ["yes", "yes", "no", "no", "no"])
        assert attempt(cay, "plain", *what) == ["no"] * 4 + ["yes"]
        sh(*inside(cay, "plain"), "nft", "delete", "table", "inet", "cay")
        assert attempt(cay, "plain", *what) == ["no"] * 4 + ["yes"], "the filter of the host alone"
        inner = inside(cay, "opener")
        assert "10.212.0.0/16" in sh(*inner, "nft", "list", "set", "inet", "cay", "peers_out")
        with policy(cay, "all", out({"role": "opener"}, {})):
            settled(cay, "opener", what, ["yes", "yes", "yes", "no", "yes"])
        with policy(cay, "never", out({"role": "opener"}, {"to": [{"ipBlock": {"cidr": f"{without}/32"}}]})):
            wait_until(lambda: "--policy-may-open" in events(cay, "never").get("PolicyWithoutEffect", ""))
    settled(cay, "opener", what, ["no"] * 4 + ["yes"])
    refused = fresh("--policy-may-open", "169.254.0.0/16", start=False)
    with pytest.raises(RuntimeError):
        refused.start()
    assert "169.254.0.0/16" in refused.log()


def test_nothing_goes_out_from_an_address_that_nobody_knows(cay, internet):
    """The daemon stands still, so that nobody puts the address back that is taken from the map; then it does."""
    ip = box(cay, "unknown", role="unknown")["status"]["podIP"]
    what = [f"udp:{internet.ip}:8000"]
    with policy(cay, "elsewhere", out({"role": "nobody"})):
        wait_until(lambda: f"{ip} : accept" in rules(cay))
        pid = next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "default/unknown")
        table = next(i["name"] for i in cay.census()[0] if i["type"] == "table").split()
        inside = ("nsenter", "-t", pid, "-n", sys.executable, "-c", TRY)
        before = received(internet)
        assert sh(*inside, "20", *what).split() == ["yes"]
        assert received(internet) == before + 1
        cay.process.send_signal(signal.SIGSTOP)
        try:
            sh("nft", "delete", "element", *table, "policies", f"{{ {ip} }}")
            assert sh(*inside, "1", *what).split() == ["no"]
            assert received(internet) == before + 1
        finally:
            cay.process.send_signal(signal.SIGCONT)
        wait_until(lambda: f"{ip} : accept" in rules(cay))
        settled(cay, "unknown", what, ["yes"], timeout=20)


def test_no_packet_leaves_before_a_policy_is_in_force(fresh, internet):
    """Neither at the start of a Pod, nor at that of the daemon after kill -9."""
    cay = fresh()

    def inside(path):
        return cay.kubectl("exec", "haste", "--", "sh", "-c", f"cat {path} 2>/dev/null || echo none").stdout.strip()

    def tries_on():
        was = int(inside("/tmp/tries"))
        wait_until(lambda: int(inside("/tmp/tries")) > was + 3)

    wait_until(lambda: internet.forwards)
    box(cay, "witness")
    settled(cay, "witness", [f"tcp:{internet.ip}:8000"], ["yes"], timeout=20)
    with policy(cay, "deny", out({"role": "haste"})):
        wait_until(lambda: "policies" in rules(cay))
        box(cay, "haste", "python3", "-c", HASTE, internet.ip, "8000", role="haste")
        wait_until(lambda: inside("/tmp/tries") != "none")
        tries_on()
        for _ in range(2):
            cay.kill()
            cay.start()
            tries_on()
        settled(cay, "witness", [f"tcp:{internet.ip}:8000"], ["yes"], timeout=20)
        assert inside("/tmp/reached") == "none"
    wait_until(lambda: inside("/tmp/reached") == "")


def test_the_secure_default_of_a_template_costs_nothing(cay, internet):
    """What it shuts out is shut out anyway: no rule is made for it, and nothing is told."""
    default = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
               "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agent-sandbox-system"}},
                                      "podSelector": {"matchLabels": {"app": "sandbox-router"}}}]}],
               "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [
                   "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]}},
                   {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}}]}]}
    box(cay, "plain")
    with policy(cay, "secure", default), policy(cay, "told", dict(default, ingress=[{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}])):
        wait_until(lambda: "PolicyWithoutEffect" in events(cay, "told"))  # so the other one was seen as well
        assert not events(cay, "secure")
        settled(cay, "plain", [f"tcp:{internet.ip}:8000", "dns"], ["yes", "yes"], timeout=20)
