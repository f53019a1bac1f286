# SPDX-License-Identifier: Apache-2.0
"""The overview: pools with their dry times, claims with their latency, the machine; and who sees what of it."""

import json
import socket

import pytest
from cay_local import is_ready, wait_until
from oversight_kit import OVERVIEW, Stream, ask
from test_audit_http import role
from test_identity import ask as token_ask
from test_page import token_of
from test_users import make, user

EXT = "/apis/extensions.agents.x-k8s.io/v1beta1"
EVERYTHING = {"time", "pools", "poolsLeftOut", "claims", "node"}


def extension(kind, name, spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def pool(cay, ns, name, replicas, image="host"):
    template = {"podTemplate": {"spec": {"containers": [{"name": "c", "image": image, "command": ["sleep", "infinity"]}]}}}
    cay.api("POST", f"{EXT}/namespaces/{ns}/sandboxtemplates", extension("SandboxTemplate", name, template))
    cay.api("POST", f"{EXT}/namespaces/{ns}/sandboxwarmpools", extension("SandboxWarmPool", name, {"replicas": replicas, "sandboxTemplateRef": {"name": name}}))


def filled(cay, ns, name, n):
    cay.wait(f"{EXT}/namespaces/{ns}/sandboxwarmpools", name, lambda p: p and (p.get("status") or {}).get("readyReplicas") == n)


def claim(cay, ns, name, of):
    cay.api("POST", f"{EXT}/namespaces/{ns}/sandboxclaims", extension("SandboxClaim", name, {"warmPoolRef": {"name": of}}))
    return cay.wait(f"{EXT}/namespaces/{ns}/sandboxclaims", name, is_ready)


def overview(cay, as_user=None):
    status, text = ask(cay, OVERVIEW, as_user)
    assert status == 200, text
    return json.loads(text)


def find(line, ns, name):
    return next((p for p in line["pools"] if (p["namespace"], p["name"]) == (ns, name)), None)


@pytest.fixture(scope="module")
def used(cay):
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    pool(cay, "default", "p", 1)
    filled(cay, "default", "p", 1)
    claim(cay, "default", "one", "p")
    filled(cay, "default", "p", 1)
    pool(cay, "team", "q", 1)
    filled(cay, "team", "q", 1)
    claim(cay, "team", "two", "q")
    filled(cay, "team", "q", 1)
    return cay


def settled(line):
    """Both claims are there, and their pools have been filled again."""
    return len(line["claims"]["recent"]) == 2 and all(p["ready"] == 1 for p in line["pools"]) and line["node"]["sandboxesRunning"] == 4


def test_the_figures_are_right(used):
    with Stream(used, OVERVIEW) as s:
        s.until(settled)
    line = overview(used)
    assert set(line) == EVERYTHING and line["poolsLeftOut"] == 0
    assert [(p["namespace"], p["name"]) for p in line["pools"]] == [("default", "p"), ("team", "q")]
    p = find(line, "default", "p")
    assert (p["desired"], p["members"], p["ready"], p["waiting"], p["claimed"], p["dry"]) == (1, 1, 1, 0, 1, False)
    assert p["dryTimes"] == 2 and p["dryTotalSeconds"] > 0 and "drySince" not in p, "before it was filled, and after the claim"
    claims = line["claims"]
    assert claims["lastMinute"] <= 2 and [c["name"] for c in claims["recent"]] == ["one", "two"]
    assert all(c["warm"] and c["ms"] > 0 and c["at"] <= line["time"] for c in claims["recent"])
    node = line["node"]
    assert node["sandboxesRunning"] == 4 and node["sandboxesMax"] > 4 and node["cpus"] >= 1 and len(node["loadavg"]) == 3
    assert 0 < node["memoryAvailable"] <= node["memoryTotal"] and 0 < node["diskAvailable"] <= node["diskTotal"]


def test_a_stream_tells_of_changes_and_of_dryness(used):
    with Stream(used, OVERVIEW) as s:
        assert find(s.next(), "default", "dry") is None
        pool(used, "default", "dry", 1, image="no-such-image")
        seen = s.until(lambda o: (find(o, "default", "dry") or {}).get("dry"))
        dry = find(seen[-1], "default", "dry")
        assert dry["ready"] == 0 and dry["desired"] == 1 and dry["dryTimes"] == 1 and dry["drySince"] <= seen[-1]["time"]
        later = find(s.until(lambda o: find(o, "default", "dry")["dryTotalSeconds"] > dry["dryTotalSeconds"])[-1], "default", "dry")
        assert later["dryTimes"] == 1
        used.api("DELETE", f"{EXT}/namespaces/default/sandboxwarmpools/dry")
        s.until(lambda o: find(o, "default", "dry") is None)
        claim(used, "default", "three", "p")
        last = s.until(lambda o: o["claims"]["recent"][-1]["name"] == "three")[-1]
        assert last["claims"]["lastMinute"] >= 1 and last["claims"]["p50Ms"] <= last["claims"]["p95Ms"] <= last["claims"]["p99Ms"]
        assert find(last, "default", "p")["claimed"] == 2


def test_lines_come_without_changes_too_and_not_faster_than_one_a_second(used):
    with Stream(used, OVERVIEW) as s:
        first = s.next()["time"]
        for i in range(40):
            used.api("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"noise{i}"}})
        assert s.next()["time"] > first
        times = [first]
        for i in range(3):
            claim(used, "default", f"quick{i}", "p")
            times.append(s.next()["time"])
        assert times == sorted(set(times))


def test_everybody_sees_what_they_may_list(used):
    nothing = overview(used, "ann")
    assert nothing["pools"] == [] and nothing["claims"] == {"lastMinute": 0, "recent": []} and "node" not in nothing
    assert nothing["poolsLeftOut"] == 0, "how many there are is nobody's business either"
    with Stream(used, OVERVIEW, "ann") as s:
        assert s.next()["pools"] == []
        role(used, "ann-pools", [{"apiGroups": ["extensions.agents.x-k8s.io"], "resources": ["sandboxwarmpools"], "verbs": ["list"]}], "ann", "team")
        line = s.until(lambda o: o["pools"])[-1]
        assert [p["namespace"] for p in line["pools"]] == ["team"] and line["claims"]["recent"] == [] and "node" not in line
        role(used, "ann-claims", [{"apiGroups": ["extensions.agents.x-k8s.io"], "resources": ["sandboxclaims"], "verbs": ["list"]}], "ann", "team")
        line = s.until(lambda o: o["claims"]["recent"])[-1]
        assert [c["name"] for c in line["claims"]["recent"]] == ["two"] and line["claims"]["lastMinute"] <= 1
        role(used, "ann-node", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}], "ann")
        s.until(lambda o: "node" in o)
        used.api("DELETE", "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings/ann-pools")
        s.until(lambda o: not o["pools"])


def test_what_is_wrong_is_named(used):
    for params, says in (({"follow": "x"}, "follow=x"), ({"watch": "true"}, "no parameter watch; there are follow")):
        status, text = ask(used, OVERVIEW, **params)
        assert status == 400 and says in json.loads(text)["message"]


def test_many_pools_are_cut_and_counted(fresh):
    cay = fresh()
    for i in range(1005):
        cay.api("POST", f"{EXT}/namespaces/default/sandboxwarmpools",
                extension("SandboxWarmPool", f"p{i:04}", {"replicas": 0, "sandboxTemplateRef": {"name": "none"}}))
    line = overview(cay)
    assert len(line["pools"]) == 1000 and line["poolsLeftOut"] == 5 and line["pools"][-1]["name"] == "p0999"
    conn = cay.connect()
    conn.connect()
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    conn.request("GET", OVERVIEW + "?follow=true")  # and reads nothing: others are served
    for i in range(3):
        cay.api("DELETE", f"{EXT}/namespaces/default/sandboxwarmpools/p{i:04}")
    assert wait_until(lambda: overview(cay)["poolsLeftOut"] == 2)
    conn.close()


def test_streams_are_bounded_and_shared(used):
    kept, token = [], token_of(make(used, "other", "--token"))
    try:
        while len(kept) < 16:
            kept.append(Stream(used, OVERVIEW, f"user{len(kept)}" if len(kept) % 2 else None))
            kept[-1].next()
        for as_user in (None, "ann"):
            status, text = ask(used, OVERVIEW, as_user)
            assert status == 429 and "this user may have no more" in text, "in whichever name"
        assert token_ask(used, OVERVIEW, token)[0] == 200, "others find room"
    finally:
        user(used, "rm", "other")
        for s in kept:
            s.close()
    wait_until(lambda: ask(used, OVERVIEW)[0] == 200)
