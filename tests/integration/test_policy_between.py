# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies between sandboxes: a packet passes if the policies of both ends allow it, and each packet filter alone shuts what they do not."""

import contextlib
import json
import re
import signal
import subprocess
import sys

import pytest
from cay_local import wait_until
from internet import sh
from test_node_pods import PODS, create, events, pod
from test_policy import ECHO, KEEP, TCP, TRY, attempt, inside, out, policy, rules, settled


def into(labels, *rules):
    return {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"], "ingress": list(rules)}


def of(role):
    return {"podSelector": {"matchLabels": {"role": role}}}


def peers(cay, name):
    """What is open in the filter inside, by set."""
    found = {}
    for item in json.loads(sh(*inside(cay, name), "nft", "-j", "list", "sets"))["nftables"]:
        if item.get("set", {}).get("name", "").startswith("peers_"):
            found[item["set"]["name"]] = [json.dumps(e) for e in item["set"].get("elem", [])]
    return found


@contextlib.contextmanager
def keeper(cay, name, ip):
    """Keeps a connection from a sandbox; says a line and returns what came of it. It does not need the daemon."""
    argv = [*inside(cay, name), sys.executable, "-c", KEEP, ip, "8000"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def say(text):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            return process.stdout.readline().split()
        try:
            yield say
        finally:
            process.kill()


# Connects all the time, and says of each attempt what came of it.
TRY_ON = """
import socket, sys
while True:
    s = socket.socket(); s.settimeout(0.1)
    print('yes' if s.connect_ex((sys.argv[1], 8000)) == 0 else 'no', flush=True); s.close()
"""


NO_PEERS = {"peers_out": [], "peers_in": [], "peers_out6": [], "peers_in6": []}


@pytest.fixture(scope="module")
def boxes(module_instance):
    """Three sandboxes, of which all listen; what they send comes from none of their servers."""
    cay = module_instance()
    ips = {}
    for name in ("alice", "bob", "carol"):
        body = pod(name, "python3", "-c", ECHO, *map(str, TCP), container={
            "ports": [{"name": "first", "containerPort": 8000}, {"name": "both", "containerPort": 8001, "protocol": "UDP"}],
            "readinessProbe": {"tcpSocket": {"port": TCP[-1]}, "periodSeconds": 1}})
        body["metadata"]["labels"] = {"role": name}
        ips[name] = create(cay, body)["status"]["podIP"]
    return cay, ips


def test_sandboxes_reach_each_other_as_far_as_both_sides_allow(boxes):
    cay, ip = boxes
    to_bob = [f"tcp:{ip['bob']}:8000", f"tcp:{ip['bob']}:8001", f"udp:{ip['bob']}:8001"]
    assert attempt(cay, "alice", *to_bob) == ["no"] * 3
    with policy(cay, "out", out({"role": "alice"}, {"to": [of("bob")]})):
        wait_until(lambda: "both sides" in events(cay, "out").get("PolicyWithoutEffect", ""))
        assert attempt(cay, "alice", *to_bob) == ["no"] * 3
        with policy(cay, "in", into({"role": "bob"}, {"from": [of("alice")], "ports": [{"port": "first"}, {"protocol": "UDP", "port": "both"}]})):
            settled(cay, "alice", to_bob, ["yes", "no", "yes"])
            assert attempt(cay, "bob", f"tcp:{ip['alice']}:8000", f"udp:{ip['alice']}:8000") == ["no"] * 2, "the other way round"
            assert attempt(cay, "carol", *to_bob) == ["no"] * 3
            assert ip["bob"] in str(peers(cay, "alice")["peers_out"]) and ip["alice"] in str(peers(cay, "bob")["peers_in"])
            assert peers(cay, "carol") == NO_PEERS
        settled(cay, "alice", to_bob, ["no"] * 3)
    wait_until(lambda: peers(cay, "alice") == peers(cay, "bob") == NO_PEERS)
    assert "between" not in rules(cay)


def test_a_connection_between_sandboxes_ends_with_its_policy(boxes):
    cay, ip = boxes
    with policy(cay, "out", out({"role": "alice"}, {"to": [of("bob")]})), contextlib.ExitStack() as closing:
        with policy(cay, "in", into({"role": "bob"}, {"from": [of("alice")]})):
            settled(cay, "alice", [f"tcp:{ip['bob']}:8000"], ["yes"])
            say = closing.enter_context(keeper(cay, "alice", ip["bob"]))
            assert say("one") == ["back", "one"]
            assert say("two") == ["back", "two"]
        wait_until(lambda: peers(cay, "bob") == NO_PEERS and peers(cay, "alice") == NO_PEERS)
        assert say("three") == ["ended", "ConnectionResetError"]


def test_neither_opens_nor_ends_anything_when_the_daemon_is_killed(boxes, tmp_path):
    cay, ip = boxes
    with policy(cay, "out", out({"role": "alice"}, {"to": [of("bob")]})), policy(cay, "in", into({"role": "bob"}, {"from": [of("alice")]})):
        settled(cay, "alice", [f"tcp:{ip['bob']}:8000"], ["yes"])
        opened = peers(cay, "alice"), peers(cay, "bob")
        log = tmp_path / "tries"
        with keeper(cay, "alice", ip["bob"]) as say, log.open("w") as file, \
                subprocess.Popen([*inside(cay, "carol"), sys.executable, "-c", TRY_ON, ip["bob"]], stdout=file) as attack:
            try:
                assert say("one") == ["back", "one"]
                for line in ("two", "three"):
                    cay.kill()
                    assert say(line) == ["back", line]
                    cay.start()
                    assert say(line) == ["back", line]
                    wait_until(lambda: "between" in rules(cay))
                tried = log.read_text().count("\n")
                wait_until(lambda: log.read_text().count("\n") > tried + 3)
                assert (peers(cay, "alice"), peers(cay, "bob"), peers(cay, "carol")) == (*opened, NO_PEERS)
            finally:
                attack.kill()
        assert "yes" not in log.read_text()
    wait_until(lambda: peers(cay, "alice") == peers(cay, "bob") == NO_PEERS)


def test_each_filter_alone_shuts_what_policies_do_not_open(boxes):
    """While alice reaches bob, carol does not: neither without the filters inside, nor without that of the host."""
    cay, ip = boxes
    target = ["1", f"tcp:{ip['bob']}:8000", f"udp:{ip['bob']}:8000"]
    attack = (*inside(cay, "carol"), sys.executable, "-c", TRY)
    table = next(i["name"] for i in cay.census()[0] if i["type"] == "table").split()
    tables = {name: sh(*inside(cay, name), "nft", "list", "table", "inet", "cay") for name in ("bob", "carol")}
    assert all(tables.values())
    with policy(cay, "out", out({"role": "alice"}, {"to": [of("bob")]})), policy(cay, "in", into({"role": "bob"}, {"from": [of("alice")]})):
        settled(cay, "alice", target[1:], ["yes", "yes"])
        cay.process.send_signal(signal.SIGSTOP)
        try:
            sh("nft", "delete", "table", *table)
            assert sh(*attack, *target).split() == ["no", "no"], "the filters inside alone"
            sh(*inside(cay, "carol"), "nft", "delete", "table", "inet", "cay")
            assert sh(*attack, *target).split() == ["no", "no"], "that of the receiver alone"
        finally:
            cay.process.send_signal(signal.SIGCONT)
        wait_until(lambda: "between" in rules(cay))
        sh(*inside(cay, "bob"), "nft", "delete", "table", "inet", "cay")
        assert sh(*attack, *target).split() == ["no", "no"], "that of the host alone"
        with policy(cay, "everybody", into({"role": "bob"}, {})):
            wait_until(lambda: re.search(r"chain from\d+ \{\s+accept", rules(cay)))
            assert sh(*attack, *target).split() == ["no", "no"], "that of the host alone, as the sender's policies do not allow it"
        assert sh(*inside(cay, "alice"), sys.executable, "-c", TRY, "20", *target[1:]).split() == ["yes", "yes"], "the attempts prove nothing"


def test_pods_and_policies_change_elements_and_nothing_is_loaded_anew(boxes):
    """A table that is loaded is another one. It is loaded when another program changes any table at the same moment, so there are several
    tries. What a stranger does to the elements is still undone."""
    cay, ip = boxes
    name = next(i["name"] for i in cay.census()[0] if i["type"] == "table").split()

    def handle():
        return sh("nft", "-a", "list", "table", *name).splitlines()[0].split()[-1]

    def come_and_go():
        before = handle()
        body = pod("dave", "sleep", "1000")
        body["metadata"]["labels"] = {"role": "dave"}
        dave = create(cay, body)["status"]["podIP"]
        wait_until(lambda: dave in rules(cay))
        with policy(cay, "more", into({"role": "dave"}, {"from": [of("alice")], "ports": [{"port": 8000}]})):
            wait_until(lambda: dave in str(peers(cay, "alice")) and rules(cay).count(dave) > 2)
        cay.api("DELETE", f"{PODS}/dave")
        wait_until(lambda: dave not in rules(cay))
        cay.wait(PODS, "dave", lambda obj: obj is None)
        return handle() == before

    with policy(cay, "out", out({"role": "alice"}, {"to": [of("bob"), of("dave")]})), policy(cay, "in", into({"role": "bob"}, {"from": [of("alice")]})):
        settled(cay, "alice", [f"tcp:{ip['bob']}:8000"], ["yes"])
        assert any(come_and_go() for _ in range(8))
        sh("nft", "add", "element", *name, "policies", "{ 192.0.2.1 : accept }")
        wait_until(lambda: "192.0.2.1 " not in rules(cay))
        settled(cay, "alice", [f"tcp:{ip['bob']}:8000"], ["yes"])
