# SPDX-License-Identifier: Apache-2.0
"""Limits of a sandbox that the kernel keeps beside the one that was asked for."""

import os

import pytest

PODS = "/api/v1/namespaces/default/pods"
MEMORY = 64 << 20


def ready(obj):
    return obj and any(c["type"] == "Ready" and c["status"] == "True" for c in obj.get("status", {}).get("conditions", []))


def test_swap_is_no_way_around_the_memory_limit(cay):
    cay.api("POST", PODS, {"metadata": {"name": "swap"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
        {"name": "main", "image": "host", "command": ["sleep", "infinity"], "resources": {"limits": {"memory": str(MEMORY)}}}]}})
    cay.wait(PODS, "swap", ready)
    groups = [i["name"] for i in cay.census()[0] if i["type"] == "cgroup" and i["owner"] == "default/swap"]
    # Of version 1: memory and swap together. Of version 2: swap alone.
    files = {os.path.join(g, name): limit for g in groups
             for name, limit in (("memory.memsw.limit_in_bytes", MEMORY), ("memory.swap.max", 0))}
    there = {path: limit for path, limit in files.items() if os.path.exists(path)}
    if not there:
        pytest.skip("the kernel does not account for swap")
    for path, limit in there.items():
        with open(path) as f:
            assert int(f.read()) == limit, path
