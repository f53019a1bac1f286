# SPDX-License-Identifier: Apache-2.0
"""Forwarding that was switched on for sandboxes is switched off when nobody needs it any more. No other instance may run beside
these tests: it would need it."""

import json
import os
import socket

import pytest
from cay_local import wait_until
from internet import Network, sh
from test_egress import own_notes


@pytest.fixture
def uplink():
    n = Network(f"upl{os.getpid()}", "198.51.100")
    try:
        assert not n.forwards
        yield n
    finally:
        n.close()


@pytest.mark.alone
def test_what_was_switched_on_is_switched_off_again(fresh, uplink):
    cay = fresh()
    wait_until(lambda: uplink.forwards)
    assert uplink.name in own_notes(cay)
    other = fresh()
    assert uplink.name in own_notes(other)
    cay.stop()
    assert uplink.forwards, "another instance still needs it"
    other.kill()
    assert uplink.forwards and uplink.name in {i["name"] for i in other.census()[1]}, "the census does not see what a crash left"
    other.start()
    assert uplink.forwards
    other.stop()
    assert not uplink.forwards and not own_notes(other)


@pytest.mark.alone
def test_a_start_that_fails_leaves_it_as_it_was(fresh, uplink):
    cay = fresh(start=False)
    with socket.create_server(("127.0.0.1", cay.router_port)):
        with pytest.raises(RuntimeError):
            cay.start()
    assert "node started" in cay.log()
    assert not uplink.forwards and not own_notes(cay)


@pytest.mark.alone
def test_what_the_operator_switched_on_stays(fresh, uplink):
    with open(f"/proc/sys/net/ipv4/conf/{uplink.name}/forwarding", "w") as f:
        f.write("1")
    cay = fresh()
    assert uplink.name not in own_notes(cay)
    identity = json.load(open(f"{cay.data_dir}/node/instance.json"))["id"]
    assert uplink.name not in sh("nft", "list", "table", "inet", f"cay_{identity}")
    cay.stop()
    assert uplink.forwards


@pytest.mark.alone
def test_an_uplink_that_is_switched_off_is_switched_on_again(fresh, uplink):
    cay = fresh()
    wait_until(lambda: uplink.forwards)
    sh("sysctl", "-w", f"net.ipv4.conf.{uplink.name}.forwarding=0")
    wait_until(lambda: uplink.forwards)
    assert uplink.name in own_notes(cay)
