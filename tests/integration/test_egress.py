# SPDX-License-Identifier: Apache-2.0
"""The way out: sandboxes reach the public Internet, nothing else, and the host becomes a router for nobody but them.

The Internet is a network namespace; behind every address that must not be reached a listener waits.
"""

import contextlib
import ipaddress
import json
import os
import socket
import subprocess

import pytest
from cay_local import BUILD, wait_until
from conftest import needs_root
from internet import FORWARDS6, HAS6, Network, setting, sh
from test_node_pods import create, pod

PORT = 8000
OWN = os.getpid() % 256  # other tests may run beside this one
PRIVATE = (f"10.211.{OWN}.2", f"172.29.{OWN}.2", f"192.168.{OWN}.2", f"169.254.{OWN}.2", f"100.127.{OWN}.2")
# Private, the metadata address of a cloud, and what leads to addresses of IPv4: NAT64, 6to4, Teredo. Then what no document may mean.
PRIVATE6 = (f"fd42:{OWN:x}::2", f"fd00:ec2:{OWN:x}::254", f"64:ff9b::a0a:{OWN:x}", f"2002:a0a:{OWN:x}::1", f"2001:0:{OWN:x}::2", f"2001:db8:{OWN:x}::2",
            f"3fff:0:{OWN:x}::2", f"fec0:{OWN:x}::2")
needs_ipv6 = pytest.mark.skipif(not FORWARDS6, reason="the kernel cannot forward IPv6 for single links")
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close(); print('reached')
except OSError as e:
    print('refused', e)
"""
# All at once, as each that is dropped takes its time.
EACH = """
import concurrent.futures, json, socket, sys
def attempt(target):
    try:
        socket.create_connection(target, timeout=1).close(); return 'reached'
    except OSError:
        return 'refused'
targets = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(len(targets)) as pool:
    print(json.dumps(dict(zip((ip for ip, _ in targets), pool.map(lambda t: attempt(tuple(t)), targets)))))
"""
GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"


@contextlib.contextmanager
def network(name):
    n = Network(f"{name}{os.getpid()}")
    try:
        yield n
    finally:
        n.close()


@pytest.fixture(scope="module")
def internet():
    with network("inet") as n:
        private = (*PRIVATE, *(PRIVATE6 if HAS6 else ()))
        for ip in private:
            n.add(ip)
        n.serve_web(PORT)
        for ip in (n.ip, *private, *((n.ip6,) if HAS6 else ())):
            socket.create_connection((ip, PORT), timeout=60).close()
        yield n


def own_notes(cay):
    return {i["name"] for i in cay.census()[0] if i["type"] == "forwarding"}


def python(cay, name, script, *args):
    return cay.kubectl("exec", name, "--", "python3", "-c", script, *map(str, args)).stdout.strip()


def connect(cay, name, ip, port, timeout=1):
    return python(cay, name, CONNECT, ip, port, timeout).split()[0]


def box(cay, name):
    return create(cay, pod(name, "python3", "-m", "http.server", *(("--bind", "::") if HAS6 else ()), str(PORT), container={
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1}}))["status"]["podIPs"]


def test_a_sandbox_reaches_the_internet_with_the_hosts_address(cay, internet):
    create(cay, pod("out", "sleep", "1000"))
    wait_until(lambda: internet.forwards)
    assert python(cay, "out", GET, f"http://{internet.ip}:{PORT}/") == internet.host
    with open("/proc/sys/net/ipv4/ip_forward") as f:
        assert f.read().strip() == "0" or not own_notes(cay)


def test_nothing_but_the_internet_is_reached(cay, internet):
    create(cay, pod("shut", "sleep", "1000"))
    neighbour = [one["ip"] for one in box(cay, "neighbour")]
    wait_until(lambda: internet.forwards)
    assert connect(cay, "shut", internet.ip, PORT, timeout=60) == "reached", "the attempts prove nothing"
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        gateway = python(cay, "shut", "print([l.split()[2] for l in open('/proc/net/route') if l.split()[1] == '00000000'][0])")
        gateway = socket.inet_ntoa(bytes.fromhex(gateway)[::-1])
        host = [(gateway, port), (internet.host, port)]
        for ip, port in [*host, (neighbour[0], PORT), *((ip, PORT) for ip in PRIVATE)]:
            assert connect(cay, "shut", ip, port) == "refused", ip


@needs_ipv6
def test_a_sandbox_reaches_the_internet_over_ipv6(cay, internet):
    create(cay, pod("out6", "sleep", "1000"))
    before = setting("ipv6/conf/all/forwarding")
    wait_until(lambda: internet.forwards6)
    assert python(cay, "out6", GET, f"http://[{internet.ip6}]:{PORT}/") == internet.host6
    assert setting("ipv6/conf/all/forwarding") == before


@needs_ipv6
def test_nothing_but_the_internet_is_reached_over_ipv6(cay, internet):
    create(cay, pod("shut6", "sleep", "1000"))
    neighbour = box(cay, "neighbour6")[1]["ip"]
    wait_until(lambda: internet.forwards6)
    assert connect(cay, "shut6", internet.ip6, PORT, timeout=60) == "reached", "the attempts prove nothing"
    with socket.create_server(("::", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        gateway = neighbour.rsplit("::", 1)[0] + "::1"
        socket.create_connection((gateway, port), timeout=60).close()
        targets = [(gateway, port), (internet.host6, port), (neighbour, PORT), *((ip, PORT) for ip in PRIVATE6)]
        said = python(cay, "shut6", EACH, json.dumps(targets))
    assert json.loads(said) == {ip: "refused" for ip, _ in targets}


@needs_ipv6
def test_a_policy_narrows_ipv6_too(cay, internet):
    """One that opens a block of IPv6 on one port leaves nothing else of either family, and the Pod beside it all."""
    cay.api("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {"metadata": {"name": "only6"}, "spec": {
        "podSelector": {"matchLabels": {"way": "only6"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": str(ipaddress.ip_network(f"{internet.ip6}/64", strict=False))}}], "ports": [{"port": PORT, "protocol": "TCP"}]}]}})
    internet.serve_web(PORT + 3)
    try:
        narrow = pod("narrow", "sleep", "1000")
        narrow["metadata"]["labels"] = {"way": "only6"}
        create(cay, narrow)
        create(cay, pod("wide", "sleep", "1000"))
        wait_until(lambda: internet.forwards6)
        targets = [(internet.ip6, PORT), (internet.ip, PORT), (PRIVATE6[0], PORT)]
        assert json.loads(python(cay, "narrow", EACH, json.dumps(targets))) == {internet.ip6: "reached", internet.ip: "refused", PRIVATE6[0]: "refused"}
        assert json.loads(python(cay, "wide", EACH, json.dumps(targets))) == {internet.ip6: "reached", internet.ip: "reached", PRIVATE6[0]: "refused"}
        assert connect(cay, "narrow", internet.ip6, PORT + 3) == "refused"
        assert connect(cay, "wide", internet.ip6, PORT + 3) == "reached"
    finally:
        cay.api("DELETE", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/only6")


# Larger than a path takes: the host says so, and the sender must hear it.
COUNT = """
import socket, sys
s = socket.create_server(('::', int(sys.argv[1])), family=socket.AF_INET6)
while True:
    c, _ = s.accept(); n = 0
    while n < 200000: n += len(c.recv(65536)) or 1 << 30
    c.sendall(str(n).encode()); c.close()
"""
UPLOAD = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60); s.sendall(b'x' * 200000); print(s.recv(100).decode())
"""


@needs_ipv6
def test_a_path_for_small_packets_takes_large_ones(cay, internet):
    create(cay, pod("large", "sleep", "1000"))
    internet.spawn("python3", "-c", COUNT, str(PORT + 2))
    internet.listens(PORT + 2)
    wait_until(lambda: internet.forwards6)
    sh("ip", "link", "set", internet.name, "mtu", "1300")  # the other end goes on with 1500
    try:
        assert python(cay, "large", UPLOAD, internet.ip6, PORT + 2) == "200000"
    finally:
        sh("ip", "link", "set", internet.name, "mtu", "1500")


SPEAK = """
import socket, sys
v6 = ':' in sys.argv[2]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM); s.bind(('::' if v6 else '0.0.0.0', int(sys.argv[1]))); s.settimeout(60)
s.sendto(b'x', (sys.argv[2], int(sys.argv[3]))); print(s.recv(100).decode())
"""
# Answers with the port that a datagram came from.
LISTEN = """
import socket, sys
import os
v6 = os.path.exists('/proc/net/if_inet6')
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
if v6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(('::' if v6 else '0.0.0.0', int(sys.argv[1])))
while True:
    _, who = s.recvfrom(100); s.sendto(str(who[1]).encode(), who)
"""


def test_a_sandbox_speaks_from_no_port_of_the_hosts_own(cay, internet):
    """Or it could take all ports to a name server, and get what is meant for a service of the host that has a known port."""
    create(cay, pod("speaker", "sleep", "1000"))
    internet.spawn("python3", "-c", LISTEN, str(PORT + 1))
    internet.listens(PORT + 1, "-u")
    wait_until(lambda: internet.forwards)
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        last = int(f.read().split()[1])
    wait_until(lambda: internet.forwards6 or not FORWARDS6)
    for port in (53, 5555, last):
        for ip in (internet.ip, internet.ip6)[:1 + FORWARDS6]:
            assert int(python(cay, "speaker", SPEAK, port, ip, PORT + 1)) > last


def test_without_egress_there_is_no_way_out(fresh, internet):
    cay = fresh("--egress", "none")
    created = create(cay, pod("inside", "sleep", "1000"))
    assert not own_notes(cay)
    link = json.loads(sh("ip", "-j", "route", "get", created["status"]["podIP"]))[0]["dev"]
    for name in ("ipv4/conf/{}/forwarding", "ipv6/conf/{}/force_forwarding")[:1 + FORWARDS6]:
        for path in (link, internet.name):  # as a host that forwards on its own would have them
            with open("/proc/sys/net/" + name.format(path), "w") as f:
                f.write("1")
    internet_ips = (internet.ip, internet.ip6)[:1 + FORWARDS6]
    assert {connect(cay, "inside", ip, PORT) for ip in internet_ips} == {"refused"}
    pid = next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "default/inside")
    sh("nsenter", "-t", pid, "-n", "nft", "delete", "table", "inet", "cay")
    assert {connect(cay, "inside", ip, PORT) for ip in internet_ips} == {"refused"}, "the filter of the host alone"
    assert "--egress" in cay.cay("serve", "--help").stdout


PORTS = """
set -e
doctor() { "$CAY" doctor --data-dir /nonexistent --quick -o json || :; echo; }
ip link set lo up
doctor
mkfifo "$TMP/up"
python3 -c "
import os, signal, socket
s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('0.0.0.0', 53))
os.close(os.open('$TMP/up', os.O_WRONLY))  # ends the wait below
signal.pause()" >/dev/null 2>&1 &
read -r line < "$TMP/up" || :
doctor
kill $!
"""
WAYS6 = """
set -e
doctor() { "$CAY" doctor --data-dir /nonexistent --quick -o json || :; echo; }
ip link set lo up
doctor
ip link add up0 type veth peer name up1
ip link set up0 up
ip link set up1 up
ip addr add 2d00:ca7::1/64 dev up0 nodad
doctor
"""
WAYS = """
set -e
doctor() { "$CAY" doctor --data-dir /nonexistent --quick -o json || :; echo; }
ip link set lo up
doctor
ip link add up0 type veth peer name up1
ip link set up0 up
ip link set up1 up
ip addr add 203.0.113.9/24 dev up0
ip route add default via 203.0.113.1
doctor
nft add table ip other
nft 'add chain ip other through { type filter hook forward priority 0; policy drop; }'
doctor
"""


def doctors(script, check, tmp_path):
    """What it says of one thing, each time that a script in a network of its own runs it."""
    needs_root()
    env = dict(os.environ, CAY=os.path.join(BUILD, "cay"), TMP=str(tmp_path))
    said = subprocess.run(["unshare", "-n", "sh", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=True).stdout
    decoder, at, found = json.JSONDecoder(), 0, []
    while said[at:].strip():
        at += len(said[at:]) - len(said[at:].lstrip())
        value, at = decoder.raw_decode(said, at)
        found.append(next(c for c in value["checks"] if c["name"] == check))
    return found


def test_doctor_tells_whether_the_name_server_has_its_port(tmp_path):
    found = doctors(PORTS, "name-server", tmp_path)
    assert [c["status"] for c in found] == ["ok", "warn"] and "fix" in found[1]


def test_doctor_tells_whether_there_is_a_way_out(tmp_path):
    found = doctors(WAYS, "way-out", tmp_path)
    assert [c["status"] for c in found] == ["warn", "ok", "warn"]
    assert "no route" in found[0]["message"] and "up0" in found[1]["message"] and "ip other through" in found[2]["message"]


def test_doctor_tells_whether_there_is_a_way_out_over_ipv6(tmp_path):
    if not HAS6:
        pytest.skip("the kernel has no IPv6")
    found = doctors(WAYS6, "way-out-ipv6", tmp_path)
    assert [c["status"] for c in found] == ["ok", "ok" if FORWARDS6 else "warn"]
    assert "no route" in found[0]["message"] and ("up0" in found[1]["message"] or not FORWARDS6)
