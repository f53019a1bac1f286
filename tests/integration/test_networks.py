# SPDX-License-Identifier: Apache-2.0
"""Networks that are given to another sandbox: those that nothing went through, and no others."""

import itertools
import json
import subprocess

from cay_local import wait_until
from test_node_pods import CORE, PODS, create, pod, sh

CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "both"}}
AT_V = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
STOCK = 16  # networks that are made ahead; one that comes back stands behind them

# Descriptors go to another sandbox, which keeps them: a socket, or a file that shows all connections of a network.
KEEP = """
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind('/v/sock'); s.listen()
held = []
while True:
    c, _ = s.accept()
    held.append(c.recvmsg(1, 1000)[1])
    os.mkdir(f'/v/got-{len(held)}')
"""
PASS = """
import array, socket
c = socket.socket(socket.AF_UNIX); c.connect('/v/sock')
f = %s
c.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [f.fileno()]))])
"""
LEAKS = {"file": "open('/proc/self/net/tcp')", "socket": "socket.create_server(('0.0.0.0', 80))"}
# The filter inside drops this one: no link has seen it.
SEND = "import socket; s = socket.socket(type=socket.SOCK_DGRAM)\ntry: s.sendto(b'x', ('%s', 9))\nexcept OSError: pass"


def python(cay, name, script):
    return cay.kubectl("exec", name, "--", "python3", "-c", script)


def box(cay, name, **more):
    return create(cay, pod(name, "sleep", "1000", **more))["status"]["podIP"]


def end(cay, *names):
    for name in names:
        cay.api("DELETE", f"{PODS}/{name}")
    for name in names:
        cay.wait(PODS, name, lambda obj: obj is None)


def test_only_a_network_that_nothing_went_through_comes_back(cay):
    cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "both"}, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "100Mi"}}}})
    create(cay, pod("keeper", "python3", "-c", KEEP, container=AT_V, volumes=[CLAIM]))
    quiet = box(cay, "quiet")
    used = {name: box(cay, name) for name in ("loopback", "filtered", "listener")}
    used |= {name: box(cay, name, container=AT_V, volumes=[CLAIM]) for name in LEAKS}

    sh(cay, "quiet", "echo hello; ls /proc/net; cat /proc/net/tcp")
    python(cay, "loopback", SEND % "127.0.0.1")
    python(cay, "filtered", SEND % "10.1.2.3")
    python(cay, "listener", "import socket; s = socket.create_server(('0.0.0.0', 80))\n"
           "socket.create_connection(('127.0.0.1', 80)); s.accept()")
    sh(cay, "keeper", "until test -S /v/sock; do sleep 0.05; done")
    for i, (name, what) in enumerate(LEAKS.items()):
        python(cay, name, PASS % what)
        sh(cay, "keeper", f"until test -d /v/got-{i + 1}; do sleep 0.05; done")

    end(cay, "quiet", *used)
    looked_at = len({"quiet", *used} - LEAKS.keys())
    wait_until(lambda: cay.metric("cay_networks_as_new_total") + cay.metric("cay_networks_worn_total") == looked_at)
    seen = [box(cay, f"next-{i}") for i in range(2 * STOCK)]
    assert quiet in seen
    assert not {name for name, ip in used.items() if ip in seen}
    dev = sh(cay, f"next-{seen.index(quiet)}", "tail -n 2 /proc/net/dev").stdout.replace("eth0", "eth")
    assert not set("123456789") & set(dev)


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def contest(cay):
    """Changes the host's table each time that it was restored, until the daemon waits for seconds before the next time."""
    chain = ("inet", f"cay_{json.load(open(f'{cay.data_dir}/node/instance.json'))['id']}", "to_host")
    for _ in range(20):
        run("nft", "insert", "rule", *chain, "accept")
        wait_until(lambda: "pause_ms=6400" in cay.log() or "\taccept\n" not in run("nft", "list", "chain", *chain))
        if "pause_ms=6400" in cay.log():
            return
    raise AssertionError("the pauses do not grow")


def is_used_again(cay, name, ip):
    """Whether the network of a Pod that ends is kept for another; if not, its route goes."""
    before = cay.metric("cay_networks_as_new_total")
    end(cay, name)
    wait_until(lambda: cay.metric("cay_networks_as_new_total") > before or f"{ip} " not in run("ip", "route", "show", "table", "all"))
    return cay.metric("cay_networks_as_new_total") > before


def test_an_address_is_not_used_again_before_the_packet_filter_has_forgotten_its_sandbox(cay):
    cay.api("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {
        "metadata": {"name": "shut"}, "spec": {"podSelector": {"matchLabels": {"shut": "yes"}}, "policyTypes": ["Egress"]}})
    known = box(cay, "known")
    tries = itertools.count()
    wait_until(lambda: (name := f"free-{next(tries)}") and is_used_again(cay, name, box(cay, name)), timeout=240)  # on a busy machine the filter may be late
    contest(cay)
    assert not is_used_again(cay, "known", known)
