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

PODS = "/api/v1/namespaces/default/pods"
PRIVATE = "10.211.77"  # of a network that only these tests have

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
            {"name": "main", "image": "host", "command": ["python3", "-m", "http.server", "8000"],
             "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}})
        self.ip = cay.wait(PODS, name, ready)["status"]["podIP"]
        self.pid = next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == f"default/{name}")
        self.link = json.loads(sh("ip", "-j", "route", "get", self.ip))[0]["dev"]

    def inside(self, *argv, check=True):
        return sh("nsenter", "-t", self.pid, "-n", *argv, check=check)

    def connect(self, target):
        """From its network, past seccomp and whatever else holds its processes: only filters are in the way."""
        return self.inside(sys.executable, "-c", CONNECT, *map(str, target)).split()[0]


class World:
    def __init__(self, cay, listener):
        self.cay = cay
        self.id = json.load(open(f"{cay.data_dir}/node/instance.json"))["id"]
        self.table = ("inet", f"cay_{self.id}")
        self.one, self.two = Box(cay, "one"), Box(cay, "two")
        gateway = json.loads(self.one.inside("ip", "-j", "route", "show", "default"))[0]["gateway"]
        self.host = (gateway, listener.getsockname()[1])
        self.other = (self.two.ip, 8000)
        self.private = (f"{PRIVATE}.2", 8000)
        for link in (self.one.link, self.two.link):
            forward(link)

    def listing(self):
        return sh("nft", "--stateless", "list", "table", *self.table, check=False)

    def metric(self, name):
        lines = dict(line.rsplit(" ", 1) for line in self.cay.api("GET", "/metrics").splitlines() if not line.startswith("#"))
        return int(lines[name])

    def restored(self, times):
        node = self.cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
        return self.cay.wait("/api/v1/nodes", node, lambda n: f"({times} since the start)" in
                             (condition(n, "PacketFilterReady") or {}).get("message", ""))


def forward(link):
    """Packets that come in by it may go on: only the host's settings would otherwise hide that no filter is there."""
    with open(f"/proc/sys/net/ipv4/conf/{link}/forwarding", "w") as f:
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
        forward(name)
        server = subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-m", "http.server", "8000"],
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
    with socket.create_server(("0.0.0.0", 0)) as listener:
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


def test_a_table_that_is_put_back_during_a_pause_is_intact_again(world):
    """Touched again and again, it is restored after longer and longer pauses; in one of them the other program undoes its change."""
    before, count = world.listing(), world.metric("cay_packet_filter_restored_total")
    node = world.cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    for n in range(1, 7):
        touch(world)
        world.restored(count + n)
    undo = touch(world)
    world.cay.wait("/api/v1/nodes", node, lambda n: condition(n, "PacketFilterReady")["reason"] == "PacketFilterContested")
    assert world.metric("cay_packet_filter_intact") == 0
    sh(*undo)
    assert world.listing() == before
    world.cay.wait("/api/v1/nodes", node, lambda n: condition(n, "PacketFilterReady")["status"] == "True")
    assert world.metric("cay_packet_filter_intact") == 1
    assert world.metric("cay_packet_filter_restored_total") == count + 6


def test_both_filters_reserve_the_same_addresses(world):
    text = world.one.inside("nft", "--stateless", "list", "table", "inet", "cay")
    inside = {96: set(), 128: set()}  # bits before the source and the destination
    for at, mask, net in re.findall(r"@nh,(\d+),32 & (0x\w+) == (0x\w+) drop", text):
        prefix = bin(int(mask, 16)).count("1")
        inside[int(at)].add(str(ipaddress.ip_network((int(net, 16), prefix))))
    host = set(re.findall(r"[\d.]+/\d+", re.search(r"ip daddr \{([^}]*)\}", world.listing())[1]))
    assert {"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "224.0.0.0/3"} <= host
    assert host == inside[96] == inside[128]


def test_the_filter_inside_is_there_and_ipv6_is_not(world):
    for box in (world.one, world.two):
        listed = json.loads(box.inside("nft", "-j", "list", "table", "inet", "cay"))["nftables"]
        chains = {i["chain"]["name"]: i["chain"] for i in listed if "chain" in i}
        assert {(c["name"], c["hook"], c["type"]) for c in chains.values()} == {("out", "output", "filter"), ("in", "input", "filter")}
        text = box.inside("nft", "list", "table", "inet", "cay")
        own = "0x" + socket.inet_aton(box.ip).hex()
        assert f"!= {own} drop" in text and text.count("meta nfproto != ipv4 drop") == 2
        addresses = json.loads(box.inside("ip", "-j", "-6", "addr"))
        assert [a["local"] for link in addresses for a in link.get("addr_info", [])] == ["::1"]
        assert not [r for r in json.loads(box.inside("ip", "-j", "-6", "route") or "[]") if r.get("dev") == "eth0"]
        on_host = json.loads(sh("ip", "-j", "-6", "addr", "show", "dev", box.link) or "[]")
        assert not [a for link in on_host for a in link.get("addr_info", [])]


def test_the_filter_inside_holds_while_the_hosts_is_gone(world, stopped):
    targets = (world.host, world.other, world.private)
    assert world.listing() == ""
    assert [world.one.connect(t) for t in targets] == ["refused"] * 3
    for box in (world.one, world.two):
        box.inside("nft", "delete", "table", "inet", "cay")
    assert [world.one.connect(t) for t in targets] == ["reached"] * 3, "the attempts prove nothing"


def test_the_host_is_shut_by_its_own_filter(world, without_inner):
    assert world.one.connect(world.host) == "refused"


def test_the_host_forwards_nothing_to_sandboxes_and_private_networks(world, without_inner):
    assert world.one.connect(world.other) == "refused"
    assert world.one.connect(world.private) == "refused"
    assert world.one.connect((world.one.ip, 8000)) == "reached"
