# SPDX-License-Identifier: Apache-2.0
"""A table of policies, and for each of them every packet that the text of the NetworkPolicy API lets pass: all of them are sent, by real sandboxes, and no other arrives.

web (app=web, tier=front) and db (app=db) are in the namespace red, other (app=web) in blue, and each namespace has its name as the label team. Two addresses
outside, north and south, stand for the Internet. The port "http" is 8000 of web and other, and 8001 of db. Of each receiver four packets
are tried: t0 and t1 to the TCP ports 8000 and 8001, u0 to the UDP port 8000, and i, a ping; of the name server, one question. Where sandboxes have
addresses of IPv6, all that is between them is tried over that as well.
"""

import json
import os
import subprocess
import sys
import time

import pytest
from cay_local import wait_until
from conftest import needs_root
from internet import Network
from test_node_pods import pod, ready

PODS = {"web": ("red", {"app": "web", "tier": "front"}, 8000), "db": ("red", {"app": "db"}, 8001), "other": ("blue", {"app": "web"}, 8000)}
KINDS = ("t0", "t1", "u0", "i")
# Answers at each of its addresses with that address: one socket for several of them would answer with the first. "::" is both families.
SERVER = """
import socket, sys, threading
def tcp(s):
    while True: s.accept()[0].close()
def udp(s):
    while True:
        try:
            data, peer = s.recvfrom(100); s.sendto(data, peer)
        except OSError: pass  # the rules changed between the two
for ip in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in ip else socket.AF_INET
    for port in (8000, 8001):
        threading.Thread(target=tcp, args=(socket.create_server((ip, port), family=family, dualstack_ipv6=':' in ip),)).start()
    s = socket.socket(family, socket.SOCK_DGRAM)
    if ':' in ip:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind((ip, 8000))
    threading.Thread(target=udp, args=(s,)).start()
print('up', flush=True)
"""
# Sends all packets that it is told of at once, waits for the answers that should come and for a moment longer, and says which came.
AGENT = """
import json, select, socket, struct, sys, time
QUERY = bytes.fromhex('777701000001000000000000017807636c7573746572056c6f63616c0000010001')
PING = struct.pack('>BBHHH', 8, 0, 0xf7fd, 0, 1), struct.pack('>BBHHH', 128, 0, 0, 0, 1)
def begin(kind, ip):
    stream, v6 = kind[0] == 't', ':' in ip
    ping = socket.IPPROTO_ICMPV6 if v6 else socket.IPPROTO_ICMP
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM, ping if kind == 'i' else 0)
    s.setblocking(False)
    try:
        s.connect_ex((ip, {'t0': 8000, 't1': 8001, 'u0': 8000, 'i': 0, 'dns': 53}[kind]))
        if not stream:
            s.send({'u0': b'x', 'i': PING[v6], 'dns': QUERY}[kind])
    except OSError:
        s.close()
        return None
    return s
def arrived(s, kind):
    try:
        return s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 if kind[0] == 't' else bool(s.recv(100))
    except OSError:
        return False
for line in sys.stdin:
    want, packets = json.loads(line)
    left = {}
    for name, (kind, ip) in packets.items():
        s = begin(kind, ip)
        if s:
            left[s] = name
    came, end, poll = set(), time.monotonic() + 2, select.poll()
    for s, name in left.items():
        poll.register(s, select.POLLOUT if packets[name][0][0] == 't' else select.POLLIN)
    by_fd = {s.fileno(): s for s in left}
    while time.monotonic() < end:
        for fd, _ in poll.poll(max(0, int(1000 * (end - time.monotonic())))):
            poll.unregister(fd)
            if arrived(by_fd[fd], packets[left[by_fd[fd]]][0]):
                came.add(left[by_fd[fd]])
        if came >= set(want):
            end = min(end, time.monotonic() + 0.2)
            want = ['nothing more']
    for s in left:
        s.close()
    print(json.dumps(sorted(came)), flush=True)
"""


class World:
    def __init__(self, cay, internet):
        self.cay, self.agents = cay, {}
        self.ips = dict(zip(("north", "south"), internet.addresses))
        for name, (ns, labels, http) in PODS.items():
            body = pod(name, "python3", "-c", SERVER, "::", container={
                "ports": [{"name": "http", "containerPort": http}], "readinessProbe": {"tcpSocket": {"port": 8001}, "periodSeconds": 1}})
            body["metadata"]["labels"] = labels
            cay.api("POST", f"/api/v1/namespaces/{ns}/pods", body)
        for name, (ns, _, _) in PODS.items():
            for ip in cay.wait(f"/api/v1/namespaces/{ns}/pods", name, ready)["status"]["podIPs"]:
                self.ips[name + ("6" if ":" in ip["ip"] else "")] = ip["ip"]
        owners = {i["owner"]: i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process"}
        for name, (ns, _, _) in PODS.items():
            argv = ["nsenter", "-t", owners[f"{ns}/{name}"], "-n", sys.executable, "-c", AGENT]
            self.agents[name] = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        address = int.from_bytes(bytes(map(int, self.ips["web"].split("."))), "big") >> 14 << 14 | 1
        self.gateway = ".".join(map(str, address.to_bytes(4, "big")))

    def packets(self, sender):
        found = {f"{to} {kind}": (kind, ip) for to, ip in self.ips.items() if to.rstrip("6") != sender for kind in KINDS}
        return found | {"dns": ("dns", self.gateway)}

    def in_both_families(self, packets):
        """What passes between sandboxes passes over IPv6 as well, where they have it."""
        return packets | {f"{to}6 {kind}" for to, kind in (p.split() for p in packets if " " in p) if f"{to}6" in self.ips}

    def send(self, expected):
        """What arrives, by sender; all of them send at the same time."""
        for name, agent in self.agents.items():
            agent.stdin.write(json.dumps([sorted(expected[name]), self.packets(name)]) + "\n")
            agent.stdin.flush()
        return {name: set(json.loads(agent.stdout.readline())) for name, agent in self.agents.items()}

    def wrong(self, expected):
        """By sender, what should have arrived and did not, and what should not have arrived and did."""
        found = self.send(expected)
        return {name: {"missing": sorted(expected[name] - found[name]), "too much": sorted(found[name] - expected[name])}
                for name in expected if found[name] != expected[name]}

    def close(self):
        for agent in self.agents.values():
            agent.kill()
            agent.wait()
            agent.stdin.close()
            agent.stdout.close()


@pytest.fixture(scope="module")
def world(module_instance):
    needs_root()
    internet = Network(f"ptab{os.getpid()}")
    made = None
    try:
        internet.addresses = [internet.ip, str(internet.net[3])]
        internet.run("ip", "addr", "add", f"{internet.addresses[1]}/28", "dev", "eth0")
        internet.spawn(sys.executable, "-c", SERVER, *internet.addresses)
        for port in (8000, 8001):
            internet.listens(port)
        cay = module_instance()
        for ns in ("red", "blue"):
            cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": ns, "labels": {"team": ns}}})
        made = World(cay, internet)
        wait_until(lambda: internet.forwards)
        yield made
    finally:
        if made:
            made.close()
        internet.close()


def labels(**match):
    return {"matchLabels": match}


def policy(ns, selector, egress=None, ingress=None):
    types = [name for name, rules in (("Egress", egress), ("Ingress", ingress)) if rules is not None]
    spec = {"podSelector": selector, "policyTypes": types}
    return ns, spec | ({"egress": egress} if egress else {}) | ({"ingress": ingress} if ingress else {})


def pods(**match):
    return {"podSelector": labels(**match) if match else {}}


def team(name, **match):
    return {"namespaceSelector": labels(team=name)} | (pods(**match) if match else {})


def block(cidr, *but):
    return {"ipBlock": {"cidr": cidr} | ({"except": list(but)} if but else {})}


def every(*receivers):
    return " ".join(f"{to}:{','.join(KINDS)}" for to in receivers)


EVERYWHERE = every("north", "south") + " dns"
NOWHERE = ""
HTTP, T0, UDP = {"port": "http"}, {"port": 8000}, {"protocol": "UDP"}
BOTH = {"port": 8000, "endPort": 8001}
WEB, DB, ALL = labels(app="web"), labels(app="db"), {}

# name: the policies; then what arrives, by sender. {north} and so on are addresses.
TABLE = {
    "no policy": ([], {"web": EVERYWHERE, "db": EVERYWHERE, "other": EVERYWHERE}),
    "nothing out, nothing in": ([policy("red", ALL, [], [])], {"web": NOWHERE, "db": NOWHERE, "other": EVERYWHERE}),
    "nothing in": ([policy("red", ALL, None, [])], {"web": EVERYWHERE, "db": EVERYWHERE, "other": EVERYWHERE}),
    "all of one namespace": ([policy("red", ALL, [{}], [{}])],
                             {"web": f"{EVERYWHERE} {every('db')}", "db": f"{EVERYWHERE} {every('web')}", "other": EVERYWHERE}),
    "all of both": ([policy("red", ALL, [{}], [{}]), policy("blue", ALL, [{}], [{}])],
                    {"web": f"{EVERYWHERE} {every('db', 'other')}", "db": f"{EVERYWHERE} {every('web', 'other')}",
                     "other": f"{EVERYWHERE} {every('web', 'db')}"}),
    "one side alone": ([policy("red", WEB, [{"to": [pods(app="db")]}])], {"web": NOWHERE, "db": EVERYWHERE, "other": EVERYWHERE}),
    "one port between two": ([policy("red", WEB, [{"to": [pods(app="db")]}]), policy("red", DB, None, [{"from": [pods(app="web")], "ports": [T0]}])],
                             {"web": "db:t0", "db": EVERYWHERE, "other": EVERYWHERE}),
    "pods of one's own namespace": ([policy("red", ALL, [{"to": [pods()]}], [{"from": [pods()]}]), policy("blue", ALL, [{}], [{}])],
                                    {"web": every("db"), "db": every("web"), "other": EVERYWHERE}),
    "another namespace": ([policy("blue", ALL, [{}]), policy("red", DB, None, [{"from": [team("blue")]}]), policy("red", WEB, [{}])],
                          {"web": EVERYWHERE, "db": EVERYWHERE, "other": f"{EVERYWHERE} {every('db')}"}),
    "pods of another namespace": ([policy("blue", ALL, [{}]), policy("red", ALL, [{}], [{"from": [team("blue", app="web")]}])],
                                  {"web": EVERYWHERE, "db": EVERYWHERE, "other": f"{EVERYWHERE} {every('web', 'db')}"}),
    "no such pods there": ([policy("blue", ALL, [{}]), policy("red", ALL, [{}], [{"from": [team("blue", app="db")]}])],
                           {"web": EVERYWHERE, "db": EVERYWHERE, "other": EVERYWHERE}),
    "a namespace by its name": ([policy("red", ALL, [{"to": [{"namespaceSelector": labels(**{"kubernetes.io/metadata.name": "blue"})}]}]),
                                 policy("blue", ALL, None, [{"from": [team("red")], "ports": [UDP]}])],
                                {"web": "other:u0", "db": "other:u0", "other": EVERYWHERE}),
    "a named port, going out": ([policy("red", ALL, [{"ports": [HTTP]}], [{}])], {"web": "db:t1", "db": "web:t0", "other": EVERYWHERE}),
    "a named port, coming in": ([policy("red", ALL, [{}], [{"ports": [HTTP]}])],
                                {"web": f"{EVERYWHERE} db:t1", "db": f"{EVERYWHERE} web:t0", "other": EVERYWHERE}),
    "a range of ports": ([policy("red", ALL, [{"ports": [BOTH]}], [{}])],
                         {"web": "db:t0,t1 north:t0,t1 south:t0,t1", "db": "web:t0,t1 north:t0,t1 south:t0,t1", "other": EVERYWHERE}),
    "a protocol": ([policy("red", ALL, [{}]), policy("red", DB, None, [{"ports": [UDP]}])],
                   {"web": f"{EVERYWHERE} db:u0", "db": EVERYWHERE, "other": EVERYWHERE}),
    "a block with an exception": ([policy("red", WEB, [{"to": [block("{net}", "{south}/32")]}])],
                                  {"web": every("north"), "db": EVERYWHERE, "other": EVERYWHERE}),
    "a block with ports": ([policy("red", WEB, [{"to": [block("{north}/32")], "ports": [T0, UDP]}])],
                           {"web": "north:t0,u0", "db": EVERYWHERE, "other": EVERYWHERE}),
    "a block of all addresses is no sandbox": ([policy("red", WEB, [{"to": [block("0.0.0.0/0")]}]), policy("red", DB, None, [{}])],
                                               {"web": EVERYWHERE, "db": EVERYWHERE, "other": EVERYWHERE}),
    "a block in ingress is no sandbox": ([policy("red", ALL, [{}], [{"from": [block("0.0.0.0/0")]}])],
                                         {"web": EVERYWHERE, "db": EVERYWHERE, "other": EVERYWHERE}),
    "names alone": ([policy("red", ALL, [{"to": [{"namespaceSelector": {}, "podSelector": labels(**{"k8s-app": "kube-dns"})}],
                                          "ports": [{"protocol": "UDP", "port": 53}]}])],
                    {"web": "dns", "db": "dns", "other": EVERYWHERE}),
    "the union of several": ([policy("red", WEB, [{"to": [pods(app="db")], "ports": [T0]}]), policy("red", ALL, [{"to": [block("{north}/32")]}]),
                              policy("red", DB, None, [{"from": [pods(app="web")]}]), policy("red", DB, None, [])],
                             {"web": f"db:t0 {every('north')}", "db": every("north"), "other": EVERYWHERE}),
    "both sides narrow": ([policy("red", WEB, [{"to": [pods(app="db")], "ports": [BOTH]}]), policy("red", DB, None, [{"ports": [{"port": 8001}, UDP]}])],
                          {"web": "db:t1", "db": EVERYWHERE, "other": EVERYWHERE}),
    "expressions": ([policy("red", ALL, [{}]),
                     policy("red", {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, None,
                            [{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}]}])],
                    {"web": EVERYWHERE, "db": f"{EVERYWHERE} {every('web')}", "other": EVERYWHERE}),
}


def read(text):
    """"db:t0,t1 dns" as a set of packets."""
    return {packet for word in text.split() for packet in
            ([f"{word.split(':')[0]} {kind}" for kind in word.split(":")[1].split(",")] if ":" in word else [word])}


@pytest.mark.parametrize("name", TABLE)
def test_what_arrives_is_what_the_text_of_the_api_demands(world, name):
    policies, arrives = TABLE[name]
    text = json.dumps(policies)
    places = dict(world.ips, net=".".join(world.ips["north"].split(".")[:3]) + ".0/24")
    for place, ip in places.items():
        text = text.replace(f"{{{place}}}", ip)
    expected = {sender: world.in_both_families(read(what)) for sender, what in arrives.items()}
    assert sum(len(world.packets(sender)) for sender in expected) == 51 + (24 if "web6" in world.ips else 0)
    paths = []
    try:
        for i, (ns, spec) in enumerate(json.loads(text)):
            at = f"/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies"
            world.cay.api("POST", at, {"metadata": {"name": f"p{i}"}, "spec": spec})
            paths.append(f"{at}/p{i}")
        end = time.monotonic() + 60  # rules are loaded a moment later, and on a busy machine answers are late
        while (wrong := world.wrong(expected)) and time.monotonic() < end:
            pass
        assert not wrong
    finally:
        for path in paths:
            world.cay.api("DELETE", path)
