# SPDX-License-Identifier: Apache-2.0
"""The forwarding that Cay switches on: for sandboxes alone, and off again when nobody needs it any more.

The host is a network namespace, because every other instance on this machine would need its uplinks too, and guard them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from cay_local import Cay, wait_until
from conftest import make_dir, needs_root
from internet import WEB, sh
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
        assert not self.forwards

    @property
    def forwards(self):
        return self.forwards_from(LINK)

    def forwards_from(self, link):
        return sh(*self.enter, "cat", f"/proc/sys/net/ipv4/conf/{link}/forwarding").strip() == "1"

    def switch(self, on):
        sh(*self.enter, "sh", "-c", f"echo {on} >/proc/sys/net/ipv4/conf/{LINK}/forwarding")

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
        for at, link, ip in ((self.name, name, own), (name, "eth0", far)):
            sh("ip", "-n", at, "addr", "add", f"{ip}/28", "dev", link)
            sh("ip", "-n", at, "link", "set", link, "up")
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
    cay = host.instance().start()
    wait_until(lambda: host.forwards)
    assert LINK in own_notes(cay)
    other = host.instance().start()
    assert LINK in own_notes(other)
    other.process.send_signal(signal.SIGSTOP)  # or it would switch it on again
    assert cay.stop() == 0
    assert host.forwards, "another instance still needs it"
    other.process.send_signal(signal.SIGCONT)
    other.kill()
    assert host.forwards and LINK in {i["name"] for i in other.census()[1]}, "the census does not see what a crash left"
    other.start()
    assert host.forwards
    assert other.stop() == 0
    assert not host.forwards and not own_notes(other)


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
    assert LINK not in own_notes(cay)
    identity = json.load(open(f"{cay.data_dir}/node/instance.json"))["id"]
    assert LINK not in sh(*host.enter, "nft", "list", "table", "inet", f"cay_{identity}")
    assert cay.stop() == 0
    assert host.forwards


def test_an_uplink_that_is_switched_off_is_switched_on_again(host):
    cay = host.instance().start()
    wait_until(lambda: host.forwards)
    host.switch(0)
    wait_until(lambda: host.forwards)
    sh("ip", "-n", host.name, "addr", "del", "198.51.100.1/24", "dev", LINK)
    wait_until(lambda: not host.forwards and not own_notes(cay))
    sh("ip", "-n", host.name, "addr", "add", "198.51.100.1/24", "dev", LINK)
    wait_until(lambda: host.forwards)
    assert cay.stop() == 0


def test_the_host_forwards_nobody_elses_packets(host):
    """Both links are switched on for sandboxes; a stranger beyond one of them would be routed to the other."""
    (one, one_ip, one_gate), (two, two_ip, two_gate) = host.neighbour(1), host.neighbour(2)
    inside_two = ("ip", "netns", "exec", two)
    cay = host.instance().start()
    wait_until(lambda: {one, two} <= own_notes(cay) and host.forwards_from(one) and host.forwards_from(two))
    sh("ip", "-n", one, "route", "add", f"{two_ip}/32", "via", one_gate)
    sh("ip", "-n", two, "route", "add", f"{one_ip}/32", "via", two_gate)
    web = subprocess.Popen([*inside_two, sys.executable, "-c", WEB, str(PORT)], stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: f":{PORT} " in sh(*inside_two, "ss", "-Hltn"))
        said = sh("ip", "netns", "exec", one, sys.executable, "-c", CONNECT, two_ip, str(PORT), "1")
    finally:
        web.kill()
        web.wait()
    assert said.split()[0] == "refused"
