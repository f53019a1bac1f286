# SPDX-License-Identifier: Apache-2.0
"""The load of make test-cluster: claims on a warm pool, one after the other, seen as a client sees them."""

import datetime
import json
import os
import queue
import threading
import time

from cay_local import EXTENSIONS, is_ready

NAMESPACE = "load"
POOL = "load"
TEMPLATE = {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create(api, plural, name, kind, spec):
    api.api("POST", f"{EXTENSIONS}/namespaces/{NAMESPACE}/{plural}",
            {"apiVersion": EXTENSIONS.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, "spec": spec})


def follow(api, path, version, ready):
    """Puts the time, name and Sandbox of each claim that becomes Ready into the queue."""
    for _, claim in api.watch(path, version, timeout=600):
        if is_ready(claim):
            ready.put((time.monotonic(), claim["metadata"]["name"], claim["status"]["sandbox"]["name"]))


def claim_one(api, name, ready, timeout=60):
    """(seconds from POST to the event that says Ready, Sandbox, time of the POST)"""
    posted, begin = datetime.datetime.now(datetime.UTC), time.monotonic()
    create(api, "sandboxclaims", name, "SandboxClaim", {"warmPoolRef": {"name": POOL}})
    while True:
        at, who, sandbox = ready.get(timeout=timeout)
        if who == name:
            return at - begin, sandbox, posted


def run(api, pid, pool, count):
    """Fills a pool, then makes `count` claims; pid is the process whose CPU time is counted."""
    claims = f"{EXTENSIONS}/namespaces/{NAMESPACE}/sandboxclaims"
    api.api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    create(api, "sandboxtemplates", POOL, "SandboxTemplate", TEMPLATE)
    create(api, "sandboxwarmpools", POOL, "SandboxWarmPool", {"replicas": pool, "sandboxTemplateRef": {"name": POOL}})
    api.wait(f"{EXTENSIONS}/namespaces/{NAMESPACE}/sandboxwarmpools", POOL,
             lambda p: p and p.get("status", {}).get("readyReplicas") == pool, timeout=120)

    ready = queue.Queue()
    version = api.api("GET", claims)["metadata"]["resourceVersion"]
    threading.Thread(target=follow, args=(api, claims, version, ready), daemon=True).start()
    cpu, results = cpu_seconds(pid), {}
    for i in range(count):
        name = f"claim-{i}"
        results[name] = claim_one(api, name, ready)
    return {"seconds": sorted(s for s, _, _ in results.values()),
            "warm": sum(sandbox.startswith(f"{POOL}-") for _, sandbox, _ in results.values()),
            "cpu": cpu_seconds(pid) - cpu,
            "posted": {name: posted for claim, (_, sandbox, posted) in results.items() for name in (claim, sandbox)}}


def writes(audit_log, user, posted):
    """(writes that user made to claims and their Sandboxes, Pods and Events from the POST on, those that were refused)"""
    made = refused = 0
    with open(audit_log) as f:
        for line in f:
            event = json.loads(line)
            about = event.get("objectRef", {}).get("name", "").partition(".")[0]  # an Event is called OBJECT.HASH
            if event["verb"] not in ("create", "update", "patch", "delete") or user not in event["user"]["username"]:
                continue
            if about in posted and datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]) >= posted[about]:
                made += 1
                refused += event["responseStatus"]["code"] >= 400
    return made, refused
