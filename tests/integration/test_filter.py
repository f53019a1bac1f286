# SPDX-License-Identifier: Apache-2.0
"""Both packet filters: the host's, which is restored when another program touches it, and the one inside each sandbox.

Behind every address that must not be reached a listener waits, and where a filter is missing the same attempt gets through.
"""

import contextlib
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from cay_local import condition, wait_until
from internet import FORWARDS6, HAS6

PODS = "/api/v1/namespaces/default/pods"
NFPROTO_IPV4, NFPROTO_IPV6 = 2, 10
PRIVATE, PRIVATE6 = "10.211.77", "fd42:ca77:77:"  # of a network that only these tests have

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close(); print('reached')
except OSError as e:
    print('refused', e)
"""


def sh(*argv, check=True):
    return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=60).stdout


def ready(obj):
    c = condition(obj, "Ready")
    return bool(c) and c["status"] == "True"


class Box:
    """A Pod that listens on port 8000, and its network seen from the host."""

    def __init__(self, cay, name):
        cay.api("POST", PODS, {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
            {"name": "main", "image": "host", "command": ["python3", "-m", "http.server", *(("--bind", "::") if HAS6 else ()), "8000"],
             "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}})
        self.ips = [one["ip"] for one in cay.wait(PODS, name, ready)["status"]["podIPs"]]
        self.ip = self.ips[0]
        self.pid = next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == f"default/{name}")
        self.link = json.loads(sh("ip", "-j", "route", "get", self.ip))[0]["dev"]

    def inside(self, *argv, check=True):
        return sh("nsenter", "-t", self.pid, "-n", *argv, check=check)

    def connect(self, target):
        """From its network, past seccomp and whatever else holds its processes: only filters are in the way."""
        return self.inside(sys.executable, "-c", CONNECT, *map(str, target)).split()[0]


class Table:
    """The host's filter of an instance."""

    def __init__(self, cay):
        self.cay = cay
        self.id = json.load(open(f"{cay.data_dir}/node/instance.json"))["id"]
        self.table = ("inet", f"cay_{self.id}")

    def listing(self):
        return sh("nft", "--stateless", "list", "table", *self.table, check=False)

    def metric(self, name):
        lines = dict(line.rsplit(" ", 1) for line in self.cay.api("GET", "/metrics").splitlines() if not line.startswith("#"))
        return int(lines[name])

    def restored(self, times):
        node = self.cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
        return self.cay.wait("/api/v1/nodes", node, lambda n: f"({times} since the start)" in
                             (condition(n, "PacketFilterReady") or {}).get("message", ""))


class World(Table):
    def __init__(self, cay, listener):
        super().__init__(cay)
        self.one, self.two = Box(cay, "one"), Box(cay, "two")
        port = listener.getsockname()[1]
        gateways = [json.loads(self.one.inside("ip", family, "-j", "route", "show", "default"))[0]["gateway"] for family in ("-4", "-6")[:1 + HAS6]]
        families = 1 + FORWARDS6  # those that a single link can be made to forward
        self.host = [(ip, port) for ip in gateways]
        self.other = [(ip, 8000) for ip in self.two.ips[:families]]
        self.private = [(ip, 8000) for ip in (f"{PRIVATE}.2", f"{PRIVATE6}:2")[:families]]
        for link in (self.one.link, self.two.link):
            forward(link)


def forward(link):
    """Packets that come in by it may go on: only the host's settings would otherwise hide that no filter is there."""
    for setting in ("ipv4/conf/{}/forwarding", "ipv6/conf/{}/force_forwarding")[:1 + FORWARDS6]:
        with open("/proc/sys/net/" + setting.format(link), "w") as f:
            f.write("1")


@pytest.fixture(scope="module")
def private_network():
    """A namespace with a private address, a route back, and a listener."""
    name = f"cayt{os.getpid()}"
    sh("ip", "netns", "add", name)
    server = None
    try:
        sh("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "addr", "add", f"{PRIVATE}.1/30", "dev", name)
        sh("ip", "link", "set", name, "up")
        for args in (("addr", "add", f"{PRIVATE}.2/30", "dev", "eth0"), ("link", "set", "eth0", "up"),
                     ("route", "add", "default", "via", f"{PRIVATE}.1")):
            sh("ip", "-n", name, *args)
        if HAS6:
            sh("ip", "addr", "add", f"{PRIVATE6}:1/64", "dev", name, "nodad")
            sh("ip", "-n", name, "addr", "add", f"{PRIVATE6}:2/64", "dev", "eth0", "nodad")
            sh("ip", "-n", name, "route", "add", "default", "via", f"{PRIVATE6}:1")
        forward(name)
        server = subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-m", "http.server", *(("--bind", "::") if HAS6 else ()), "8000"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection((f"{PRIVATE}.2", 8000), timeout=5).close()
                break
            except OSError:
                threading.Event().wait(0.1)
        else:
            raise AssertionError("the private listener never came")
        yield name
    finally:
        if server:
            server.kill()
            server.wait()
        sh("ip", "netns", "del", name)


@pytest.fixture(scope="module")
def world(module_instance, private_network):
    every = {"family": socket.AF_INET6, "dualstack_ipv6": True} if HAS6 else {}
    with socket.create_server(("::" if HAS6 else "0.0.0.0", 0), **every) as listener:
        yield World(module_instance(), listener)


@pytest.fixture
def without_inner(world):
    """The filters inside are gone: what holds now is the host's. They come back with the next sandboxes only."""
    for box in (world.one, world.two):
        box.inside("nft", "delete", "table", "inet", "cay", check=False)


@pytest.fixture
def stopped(world):
    """The daemon stands still, so that nobody restores the host's table, which is gone."""
    before = world.metric("cay_packet_filter_restored_total")
    world.cay.process.send_signal(signal.SIGSTOP)
    try:
        sh("nft", "delete", "table", *world.table)
        yield
    finally:
        world.cay.process.send_signal(signal.SIGCONT)
        world.restored(before + 1)


# In this order: the last ones take the filters inside away.


def test_the_table_is_restored_however_many_descriptors_are_open(world):
    """The library that loads it waits with select(), which knows 1,024 of them."""
    count = world.metric("cay_packet_filter_restored_total")
    with contextlib.ExitStack() as open_ones:
        for _ in range(1100):
            open_ones.enter_context(socket.create_connection(("127.0.0.1", world.cay.port), timeout=60))
        wait_until(lambda: len(os.listdir(f"/proc/{world.cay.process.pid}/fd")) > 1024)
        sh("nft", "delete", "table", *world.table)
        world.restored(count + 1)


def test_a_touched_table_is_restored_and_reported(world):
    before, count = world.listing(), world.metric("cay_packet_filter_restored_total")
    assert "from_host" in before
    sh("nft", "add", "table", "inet", f"cayt_{os.getpid()}")  # somebody else's business
    sh("nft", "delete", "table", "inet", f"cayt_{os.getpid()}")
    sh("nft", "delete", "table", *world.table)
    node = world.restored(count + 1)
    assert world.listing() == before
    assert condition(node, "PacketFilterReady")["status"] == "True"
    assert condition(node, "PacketFilterReady")["reason"] == "PacketFilterRestored"
    assert world.metric("cay_packet_filter_restored_total") == count + 1 and world.metric("cay_packet_filter_intact") == 1
    events = world.cay.api("GET", "/api/v1/namespaces/default/events")["items"]
    assert any(e["reason"] == "PacketFilterRestored" and e["involvedObject"]["kind"] == "Node" and e["type"] == "Warning"
               and "removed" in e["message"] for e in events)
    assert "packet filter was touched by another program" in world.cay.log()
    sh("nft", "insert", "rule", *world.table, "to_host", "accept")
    world.restored(count + 2)
    assert world.listing() == before
    events = world.cay.api("GET", "/api/v1/namespaces/default/events")["items"]
    assert any("changed" in e["message"] for e in events if e["reason"] == "PacketFilterRestored")


def touch(world):
    """Inserts a rule and returns what takes it away again."""
    rule = json.loads(sh("nft", "-j", "-e", "-a", "insert", "rule", *world.table, "to_host", "accept"))["nftables"][0]["insert"]["rule"]
    return ("nft", "delete", "rule", *world.table, "to_host", "handle", str(rule["handle"]))


def test_a_table_that_is_put_back_during_a_pause_is_intact_again(fresh):
    """Touched again and again, it is restored after longer and longer pauses; in one of them the other program undoes its change.

    Without egress, so that no link that another test makes on this host has the table loaded anew.
    """
    world = Table(fresh("--egress", "none"))
    # The address of the router's Service comes a moment after the start, and with it a table that has no changes of others.
    services = "/api/v1/namespaces/agent-sandbox-system/services"
    address = world.cay.wait(services, "sandbox-router-svc", lambda s: s and s["spec"].get("clusterIP"))["spec"]["clusterIP"]
    wait_until(lambda: address in world.listing())
    count = world.metric("cay_packet_filter_restored_total")
    node = world.cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    for n in range(1, 7):
        touch(world)
        world.restored(count + n)
    before = world.listing()
    undo = touch(world)
    world.cay.wait("/api/v1/nodes", node, lambda n: condition(n, "PacketFilterReady")["reason"] == "PacketFilterContested")
    assert world.metric("cay_packet_filter_intact") == 0
    sh(*undo)
    assert world.listing() == before
    world.cay.wait("/api/v1/nodes", node, lambda n: condition(n, "PacketFilterReady")["status"] == "True")
    assert world.metric("cay_packet_filter_intact") == 1
    assert world.metric("cay_packet_filter_restored_total") == count + 6


def ranges(elements):
    """The first and the last address of each run of neighbouring networks, however they are written."""
    pairs = []
    for e in elements:
        net = e.get("prefix") if isinstance(e, dict) else None
        first, last = e["range"] if isinstance(e, dict) and "range" in e else (e, e)
        if net:
            first = ipaddress.ip_network(f"{net['addr']}/{net['len']}")
            first, last = first[0], first[-1]
        pairs.append((int(ipaddress.ip_address(first)), int(ipaddress.ip_address(last))))
    return runs(pairs)


def runs(pairs):
    joined = []
    for first, last in sorted(pairs):
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def reserved_inside(listed, family):
    """What the one set of the filter inside has of a family: the first byte of a key is the family, the last four begin an address."""
    elements = next(i["set"]["elem"] for i in listed if i.get("set", {}).get("name") == "reserved")
    pairs = [e["range"] if isinstance(e, dict) else (e, e) for e in elements]
    whole = 1 << 32
    return runs([(first % whole, last % whole) for first, last in pairs if first >> 56 == family])


def test_both_filters_reserve_the_same_addresses(world):
    inside = json.loads(world.one.inside("nft", "-j", "list", "table", "inet", "cay"))["nftables"]
    text = world.one.inside("nft", "--stateless", "list", "table", "inet", "cay")
    assert text.count("@reserved drop") == (4 if HAS6 else 2)
    host = {}
    for item in json.loads(sh("nft", "-j", "list", "chain", *world.table, "from_sandbox"))["nftables"]:
        for match in (e["match"] for e in item.get("rule", {}).get("expr", []) if "match" in e):
            if match["left"].get("payload", {}).get("field") == "daddr":
                host[match["left"]["payload"]["protocol"]] = ranges(match["right"]["set"])
    public = [*ranges([{"prefix": {"addr": "0.0.0.0", "len": 8}}]), *ranges([{"range": ["224.0.0.0", "255.255.255.255"]}])]
    assert set(public) <= set(host["ip"]) and host["ip"] == reserved_inside(inside, NFPROTO_IPV4)
    assert host["ip6"][0] == (0, (1 << 125) - 1) and host["ip6"][-1] == (1 << 126, (1 << 128) - 1)
    if HAS6:  # what is inside goes by the first 32 bits
        assert [(first >> 96, last >> 96) for first, last in host["ip6"]] == reserved_inside(inside, NFPROTO_IPV6)


def test_the_filter_inside_is_there_for_both_families(world):
    for box in (world.one, world.two):
        listed = json.loads(box.inside("nft", "-j", "list", "table", "inet", "cay"))["nftables"]
        chains = {i["chain"]["name"]: i["chain"] for i in listed if "chain" in i}
        assert {(c["name"], c["hook"], c["type"]) for c in chains.values() if "hook" in c} == {("out", "output", "filter"), ("in", "input", "filter")}
        text = box.inside("nft", "list", "table", "inet", "cay")
        for ip in box.ips:
            assert f"!= 0x{ipaddress.ip_address(ip).packed.hex().lstrip('0')} drop" in text, ip
        for chain in ("out", "in"):
            assert f"meta nfproto != ipv4 {f'goto {chain}6' if HAS6 else 'drop'}" in text


def test_ipv6_has_one_address_and_looks_for_nobody(world):
    """No address of its own making, no neighbour that it asked for, no router that it believes; on the host's end not even a group."""
    if not HAS6:
        pytest.skip("the kernel has no IPv6")
    for box in (world.one, world.two):
        addresses = json.loads(box.inside("ip", "-j", "-6", "addr"))
        assert [(link["ifname"], a["local"], a["prefixlen"]) for link in addresses for a in link["addr_info"]] == \
            [("lo", "::1", 128), ("eth0", box.ips[1], 128)]
        assert box.inside("cat", "/proc/sys/net/ipv6/conf/eth0/accept_ra").strip() == "0"
        gateway = world.host[1][0]
        assert {r["dst"] for r in json.loads(box.inside("ip", "-j", "-6", "route"))} == {box.ips[1], "default"}
        assert [(n["dst"], n["state"]) for n in json.loads(box.inside("ip", "-j", "-6", "neigh", "show", "dev", "eth0"))] == [(gateway, ["PERMANENT"])]
        assert "NOARP" in json.loads(box.inside("ip", "-j", "link", "show", "dev", "eth0"))[0]["flags"]
        on_host = json.loads(sh("ip", "-j", "-6", "addr", "show", "dev", box.link) or "[]")
        assert not [a for link in on_host for a in link.get("addr_info", [])]
        routes = json.loads(sh("ip", "-j", "-6", "route", "show", "table", "all", "dev", box.link))
        assert [(r["dst"], r["prefsrc"]) for r in routes] == [(box.ips[1], gateway)]
    assert box.ips[1].startswith(f"fdca:7{world.id[:3]}:{world.id[3:]}00::".replace(":0", ":"))


def test_the_filter_inside_holds_while_the_hosts_is_gone(world, stopped):
    targets = (*world.host, *world.other, *world.private)
    assert world.listing() == ""
    assert [world.one.connect(t) for t in targets] == ["refused"] * len(targets)
    for box in (world.one, world.two):
        box.inside("nft", "delete", "table", "inet", "cay")
    assert [world.one.connect(t) for t in targets] == ["reached"] * len(targets), "the attempts prove nothing"


def test_the_host_is_shut_by_its_own_filter(world, without_inner):
    assert {world.one.connect(t) for t in world.host} == {"refused"}


def test_the_host_forwards_nothing_to_sandboxes_and_private_networks(world, without_inner):
    assert {world.one.connect(t) for t in (*world.other, *world.private)} == {"refused"}
    assert {world.one.connect((ip, 8000)) for ip in world.one.ips} == {"reached"}
