# SPDX-License-Identifier: Apache-2.0
"""A crowd of silent connections takes neither the descriptors of the API and the guests nor the way in."""

import os
import resource
import socket

from cay_local import AGENTS

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
LIMIT = 256
CROWD = 1000


def box(name):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "host", "command": ["sleep", "infinity"], "ports": [{"containerPort": 8888}]}]}}}}


def limits(pid):
    line = [t for t in open(f"/proc/{pid}/limits") if t.startswith("Max open files")][0].split()
    return int(line[3]), int(line[4])


def descriptors(cay):
    return len(os.listdir(f"/proc/{cay.process.pid}/fd"))


def connect(port):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", port))
    return s


def start_limited(cay, soft, hard):
    """Started by a shell that sets the limits."""
    program = os.path.join(cay.data_dir, "limited")
    os.makedirs(program, exist_ok=True)
    with open(os.path.join(program, "cay"), "w") as f:
        f.write(f"#!/bin/sh -e\nulimit -Sn {soft}\nulimit -Hn {hard}\nexec {cay.build}/cay \"$@\"\n")
    os.chmod(os.path.join(program, "cay"), 0o755)
    build, cay.build = cay.build, program
    cay.start()
    cay.build = build


def test_silent_connections_leave_descriptors_for_api_and_guests(fresh):
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
                                                resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    cay = fresh("--network-pool", "2", start=False)
    start_limited(cay, 128, LIMIT)
    assert limits(cay.process.pid) == (LIMIT, LIMIT), "the soft limit is raised to the hard one"
    cay.api("POST", SANDBOXES, box("a"))
    cay.wait_ready(SANDBOXES, "a")
    cay.close()
    crowd = [connect(port) for _ in range(CROWD // 2) for port in (cay.port, cay.router_port)]
    taken = 0
    try:
        for i in range(3):
            cay.close()  # each through a connection of its own, made while the crowd is there
            cay.api("POST", SANDBOXES, box(f"b{i}"))
            taken = max(taken, descriptors(cay))
            cay.wait_ready(SANDBOXES, f"b{i}")
        assert cay.kubectl("exec", "a", "--", "echo", "here").stdout == "here\n"
        assert cay.execute("a", "echo there")["stdout"] == "there\n"
        taken = max(taken, descriptors(cay))
        assert taken <= LIMIT * 7 // 8, f"{taken} of {LIMIT} descriptors are taken"
    finally:
        for s in crowd:
            s.close()


def test_sandboxes_do_not_inherit_the_raised_limit(fresh):
    cay = fresh()
    hard = limits(cay.process.pid)[1]
    assert limits(cay.process.pid) == (hard, hard)
    cay.api("POST", SANDBOXES, box("a"))
    cay.wait_ready(SANDBOXES, "a")
    assert cay.kubectl("exec", "a", "--", "sh", "-c", "ulimit -Sn").stdout == "1024\n"
