# SPDX-License-Identifier: Apache-2.0
"""What the processes of a sandbox hold open, as the host sees it: a descriptor from outside is a way out."""

import os
import re

PODS = "/api/v1/namespaces/default/pods"
# Sockets, pipes and what the kernel makes for an event loop name no file of the host, nor does what is in the sandbox's own /dev.
NAMELESS = re.compile(r"(socket|pipe):\[\d+\]|anon_inode:\[\w+\]|/dev/(null|pts/\w+|termination-log)")


def ready(obj):
    return obj and any(c["type"] == "Ready" and c["status"] == "True" for c in obj.get("status", {}).get("conditions", []))


def held(pid):
    """What each descriptor of a process leads to."""
    return {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def test_a_sandbox_holds_its_log_and_no_other_file_of_the_host(cay):
    cay.api("POST", PODS, {"metadata": {"name": "held"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
        {"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}})
    cay.wait(PODS, "held", ready)
    pids = [i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "default/held"]
    assert len(pids) >= 2  # cay-init and the command
    named = [to for pid in pids for to in held(pid).values() if not NAMELESS.fullmatch(to)]
    assert len(named) == 1 and named[0].endswith("/log"), named
