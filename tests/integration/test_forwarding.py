# SPDX-License-Identifier: Apache-2.0
"""The forwarding that Cay switches on: for sandboxes alone, and off again when nobody needs it any more.

The host is a network namespace, because every other instance on this machine would need its uplinks too, and guard them.
"""

import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from cay_local import Cay, wait_until
from conftest import make_dir, needs_root
from internet import FORWARDS6, HAS6, WEB, sh
from test_egress import CONNECT, PORT, own_notes

LINK = f"up{os.getpid()}"


class Host:
    """A network namespace with one link to the outside, and the instances in it."""

    def __init__(self):
        self.name = f"host{os.getpid()}"
        self.enter = ("nsenter", f"--net=/run/netns/{self.name}")
        self.instances, self.neighbours = [], []
        sh("ip", "netns", "add", self.name)
        for args in (("link", "set", "lo", "up"), ("link", "add", LINK, "type", "veth", "peer", "name", "far"), ("link", "set", "far", "up"),
                     ("link", "set", LINK, "up"), ("addr", "add", "198.51.100.1/24", "dev", LINK)):
            sh("ip", "-n", self.name, *args)
        if HAS6:
            sh("ip", "-n", self.name, "addr", "add", "2d00:ca7::1/64", "dev", LINK, "nodad")
        assert not self.forwards

    @property
    def forwards(self):
        return self.forwards_from(LINK)

    def forwards_from(self, link):
        return sh(*self.enter, "cat", f"/proc/sys/net/ipv4/conf/{link}/forwarding").strip() == "1"

    def forwards6(self, link=LINK):
        """As forwards, where the kernel has no switch for single links."""
        if not FORWARDS6:
            return self.forwards_from(link)
        return sh(*self.enter, "cat", f"/proc/sys/net/ipv6/conf/{link}/force_forwarding").strip() == "1"

    def switch(self, on):
        for name in (f"ipv4/conf/{LINK}/forwarding", f"ipv6/conf/{LINK}/force_forwarding")[:1 + FORWARDS6]:
            sh(*self.enter, "sh", "-c", f"echo {on} >/proc/sys/net/{name}")

    def instance(self):
        self.instances.append(Inside(self))
        return self.instances[-1]

    def neighbour(self, number):
        """A namespace behind one more link, of that number; the name of both, and its address there and the host's."""
        name = f"n{number}x{os.getpid()}"
        own, far = (f"203.0.113.{16 * number + n}" for n in (1, 2))
        sh("ip", "netns", "add", name)
        self.neighbours.append(name)
        sh("ip", "-n", self.name, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        for at, link, ip, last in ((self.name, name, own, 1), (name, "eth0", far, 2)):
            sh("ip", "-n", at, "addr", "add", f"{ip}/28", "dev", link)
            sh("ip", "-n", at, "link", "set", link, "up")
            if HAS6:
                sh("ip", "-n", at, "addr", "add", f"2d00:ca7:{number}::{last}/64", "dev", link, "nodad")
        return name, far, own

    def close(self):
        for cay in self.instances:
            self.finish(cay)
        for name in (*self.neighbours, self.name):
            sh("ip", "netns", "del", name)

    @staticmethod
    def finish(cay):
        """What a test that failed left of it goes with a proper stop."""
        try:
            if cay.process and cay.process.poll() is None:
                cay.process.send_signal(signal.SIGCONT)
            cay.stop()
            if os.path.exists(os.path.join(cay.data_dir, "store.db")) and cay.census()[1]:
                cay.start().stop()
        finally:
            cay.kill()
            shutil.rmtree(cay.data_dir, ignore_errors=True)


class Inside(Cay):
    """One that runs in the namespace: nothing but its log and the command line can be asked from here."""

    def __init__(self, host):
        super().__init__(make_dir(), flags=["--stop-sandboxes"])
        self.enter = host.enter
        self.real, self.build = os.path.join(self.build, "cay"), os.path.join(self.data_dir, "bin")
        os.mkdir(self.build)
        with open(os.path.join(self.build, "cay"), "w") as f:
            f.write("#!/bin/sh\nexec " + " ".join(self.enter) + f' {self.real} "$@"\n')
        os.chmod(os.path.join(self.build, "cay"), 0o700)

    def spawn(self):
        self.before = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        return super().spawn()

    def ready(self):
        return " serving " in self.log(self.before)


@pytest.fixture
def host():
    needs_root()
    h = Host()
    try:
        yield h
    finally:
        h.close()


def test_what_was_switched_on_is_switched_off_again(host):
    links = {LINK, f"{LINK} IPv6"} if FORWARDS6 else {LINK}
    cay = host.instance().start()
    wait_until(lambda: host.forwards and host.forwards6())
    assert links <= own_notes(cay)
    other = host.instance().start()
    assert links <= own_notes(other)
    other.process.send_signal(signal.SIGSTOP)  # or it would switch it on again
    assert cay.stop() == 0
    assert host.forwards and host.forwards6(), "another instance still needs it"
    other.process.send_signal(signal.SIGCONT)
    other.kill()
    assert host.forwards and host.forwards6() and links <= {i["name"] for i in other.census()[1]}, "the census does not see what a crash left"
    other.start()
    assert host.forwards and host.forwards6()
    assert other.stop() == 0
    assert not host.forwards and not host.forwards6() and not own_notes(other)
    assert sh(*host.enter, "cat", "/proc/sys/net/ipv4/ip_forward").strip() == "0"
    assert not HAS6 or sh(*host.enter, "cat", "/proc/sys/net/ipv6/conf/all/forwarding").strip() == "0"


def test_the_addresses_of_an_instance_go_with_it(host):
    cay = host.instance().start()
    identity = json.load(open(f"{cay.data_dir}/node/instance.json"))
    pools = [ipaddress.ip_network(identity["pool"])]
    if HAS6:
        pools.append(ipaddress.ip_network(f"fdca:7{identity['id'][:3]}:{identity['id'][3:]}00::/64"))
    own = {str(name) for pool in pools for name in (pool, pool[1])}
    seen = lambda: {word for args in (("-4", "addr"), ("-6", "addr"), ("-4", "route"), ("-6", "route"))
                    for word in re.split(r"[\s]|/32|/128", sh("ip", "-n", host.name, *args)) if word in own}
    assert own <= {i["name"] for i in cay.census()[0]} and seen() == own
    cay.kill()
    assert own <= {i["name"] for i in cay.census()[1]} and seen() == own
    assert cay.start().stop() == 0
    assert not seen()


def table(host, cay):
    identity = json.load(open(f"{cay.data_dir}/node/instance.json"))["id"]
    return sh(*host.enter, "nft", "list", "table", "inet", f"cay_{identity}")


def test_an_uplink_with_another_name_is_the_same_uplink(host):
    cay = host.instance().start()
    wait_until(lambda: host.forwards and host.forwards6())
    name = f"re{os.getpid()}"
    try:
        sh("ip", "-n", host.name, "link", "set", LINK, "name", name)
    except subprocess.CalledProcessError:
        pytest.skip("the kernel renames no link that is up")
    guarded = re.search(r"iif . \{ ([^}]*)\}", table(host, cay).replace("nfproto . iif", "iif ."))
    assert guarded and f'ipv4 . "{name}"' in guarded[1], "strangers get through until it is noticed"
    wait_until(lambda: {i.split()[0] for i in own_notes(cay)} == {name})
    assert host.forwards_from(name) and host.forwards6(name)
    cay.kill()
    sh("ip", "-n", host.name, "link", "set", name, "name", LINK)
    assert {i["name"].split()[0] for i in cay.census()[1] if i["type"] == "forwarding"} == {LINK}
    cay.flags += ["--egress", "none"]  # it only takes back
    assert cay.start().stop() == 0
    assert not host.forwards and not host.forwards6() and not own_notes(cay)


def test_every_way_of_a_route_with_several_is_an_uplink(host):
    (one, one_far, _), (two, two_far, _) = host.neighbour(1), host.neighbour(2)
    for name, net in ((one, "203.0.113.16/28"), (two, "203.0.113.32/28")):  # no other route leads to the Internet by these
        sh("ip", "-n", host.name, "route", "del", net, "dev", name)
    cay = host.instance().start()
    wait_until(lambda: host.forwards)
    assert not {one, two} & own_notes(cay)
    sh("ip", "-n", host.name, "route", "add", "default", "nexthop", "via", one_far, "dev", one, "onlink", "nexthop", "via", two_far, "dev", two, "onlink")
    wait_until(lambda: {one, two} <= own_notes(cay) and host.forwards_from(one) and host.forwards_from(two))
    assert cay.stop() == 0
    assert not host.forwards_from(one) and not host.forwards_from(two)


def test_what_a_lost_instance_left_is_taken_over(host):
    lost = host.instance().start()
    wait_until(lambda: host.forwards)
    lost.kill()
    identity = os.path.join(lost.data_dir, "node", "instance.json")
    os.rename(identity, identity + ".away")
    cay = host.instance().start()
    assert host.forwards and LINK in own_notes(cay), "it passes for the operator's, and strangers for guests"
    assert cay.stop() == 0
    assert not host.forwards
    os.rename(identity + ".away", identity)  # and what else it left on this machine goes with a proper stop
    assert lost.start().stop() == 0


def test_what_the_operator_has_switched_on_since_a_crash_stays_on(host):
    cay = host.instance().start()
    wait_until(lambda: host.forwards)
    cay.kill()
    sh(*host.enter, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    cay.flags += ["--egress", "none"]
    assert cay.start().stop() == 0
    assert host.forwards and not own_notes(cay)


def test_a_start_that_fails_leaves_it_as_it_was(host):
    cay = host.instance()
    cay.flags += ["--router-listen", "198.51.100.77:1"]  # an address that nobody has
    with pytest.raises(RuntimeError):
        cay.start()
    assert "node started" in cay.log()
    assert not host.forwards and not own_notes(cay)


def test_what_the_operator_switched_on_stays(host):
    host.switch(1)
    cay = host.instance().start()
    assert not own_notes(cay)
    assert f'ipv4 . "{LINK}"' not in table(host, cay)
    assert cay.stop() == 0
    assert host.forwards and host.forwards6()


def test_an_uplink_that_is_switched_off_is_switched_on_again(host):
    cay = host.instance().start()
    wait_until(lambda: host.forwards and host.forwards6())
    host.switch(0)
    wait_until(lambda: host.forwards and host.forwards6())
    sh("ip", "-n", host.name, "addr", "flush", "dev", LINK)
    wait_until(lambda: not host.forwards and not host.forwards6() and not own_notes(cay))
    sh("ip", "-n", host.name, "addr", "add", "198.51.100.1/24", "dev", LINK)
    wait_until(lambda: host.forwards)
    assert not host.forwards6() or not FORWARDS6, "no route of IPv6 leads there"
    assert cay.stop() == 0


def test_the_host_forwards_nobody_elses_packets(host):
    """Both links are switched on for sandboxes; a stranger beyond one of them would be routed to the other."""
    (one, one_ip, one_gate), (two, two_ip, two_gate) = host.neighbour(1), host.neighbour(2)
    inside_two = ("ip", "netns", "exec", two)
    cay = host.instance().start()
    wait_until(lambda: {one, two} <= own_notes(cay) and all(host.forwards_from(n) and host.forwards6(n) for n in (one, two)))
    sh("ip", "-n", one, "route", "add", f"{two_ip}/32", "via", one_gate)
    sh("ip", "-n", two, "route", "add", f"{one_ip}/32", "via", two_gate)
    targets = [two_ip]
    if FORWARDS6:
        sh("ip", "-n", one, "route", "add", "2d00:ca7:2::/64", "via", "2d00:ca7:1::1")
        sh("ip", "-n", two, "route", "add", "2d00:ca7:1::/64", "via", "2d00:ca7:2::1")
        targets.append("2d00:ca7:2::2")
    web = subprocess.Popen([*inside_two, sys.executable, "-c", WEB, str(PORT)], stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: f":{PORT} " in sh(*inside_two, "ss", "-Hltn"))
        said = [sh("ip", "netns", "exec", one, sys.executable, "-c", CONNECT, ip, str(PORT), "1") for ip in targets]
    finally:
        web.kill()
        web.wait()
    assert {line.split()[0] for line in said} == {"refused"}
