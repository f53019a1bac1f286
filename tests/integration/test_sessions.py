# SPDX-License-Identifier: Apache-2.0
"""Sessions of agents in real sandboxes: each mode, the end and what it leaves, and kill -9 in between."""

import http.client
import json
import os
import random
import threading

import pytest
from cay_local import AGENTS, EXTENSIONS, ApiError, Cay, condition, wait_until

ROUNDS = int(os.environ.get("CAY_CRASH_ROUNDS", "20")) // 4
NS = "namespaces/default"
CAY = f"/apis/cay.dev/v1alpha1/{NS}"
SANDBOXES = f"{AGENTS}/{NS}/sandboxes"
CLAIMS = f"{EXTENSIONS}/{NS}/sandboxclaims"
POD = {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"],
                       "volumeMounts": [{"name": "work", "mountPath": "/work"}]}]}
VOLUME = {"metadata": {"name": "work"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}


def extension(kind, name, spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def prepare(cay, replicas=0):
    cay.api("POST", f"{EXTENSIONS}/{NS}/sandboxtemplates",
            extension("SandboxTemplate", "t", {"podTemplate": {"spec": POD}, "volumeClaimTemplates": [VOLUME]}))
    cay.api("POST", f"{EXTENSIONS}/{NS}/sandboxwarmpools",
            extension("SandboxWarmPool", "p", {"replicas": replicas, "sandboxTemplateRef": {"name": "t"}}))
    return cay


@pytest.fixture(scope="module")
def team(module_instance):
    return prepare(module_instance())


@pytest.fixture
def cay(team):
    yield team
    for plural in ("sessions", "attachments", "agents", "teampolicies", "approvals"):
        team.api("DELETE", f"{CAY}/{plural}")
    wait_until(lambda: not team.api("GET", f"{CAY}/sessions")["items"])
    team.api("DELETE", CLAIMS)
    wait_until(lambda: not team.api("GET", SANDBOXES)["items"])
    wait_until(lambda: not team.census()[1])


def make(cay, kind, name, spec):
    plural = {"TeamPolicy": "teampolicies"}.get(kind, f"{kind.lower()}s")
    return cay.api("POST", f"{CAY}/{plural}",
                   {"apiVersion": "cay.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def agent(cay, name, mode="FreshPerSession", **more):
    sandbox = {"mode": mode, "warmPoolRef": {"name": "p"}, **more.pop("sandbox", {})}
    return make(cay, "Agent", name, {"sandbox": sandbox, **more})


def merge(cay, path, change):
    return cay.api("PATCH", path, change, content_type="application/merge-patch+json")


def phase(cay, name, want, reason=None):
    return cay.wait(f"{CAY}/sessions", name, lambda s: s and s.get("status", {}).get("phase") == want
                    and (reason is None or condition(s, "Ready")["reason"] == reason))


def get(cay, path):
    try:
        return cay.api("GET", path)
    except ApiError as e:
        assert e.code == 404
        return None


def claims(cay):
    return {c["metadata"]["name"]: c for c in cay.api("GET", CLAIMS)["items"]}


def run(cay, sandbox, *argv):
    return cay.cay("exec", sandbox, "--kubeconfig", cay.kubeconfig, "--", *argv).stdout


def command(cay, *argv, check=True):
    return cay.cay(*argv, "--kubeconfig", cay.kubeconfig, check=check)


def test_a_fresh_session_has_a_sandbox_of_its_own_that_sleeps_after_the_end_and_is_found_again(cay):
    agent(cay, "coder", sandbox={"retain": "1h"})
    make(cay, "Session", "x", {"agent": "coder"})
    session = phase(cay, "x", "Active")
    box = session["status"]["sandbox"]
    assert session["status"]["attachments"] == [{"name": "x", "sandbox": box}]
    run(cay, box, "sh", "-c", "echo kept > /work/mark")
    claim = claims(cay)["x"]
    assert "ownerReferences" not in claim["metadata"]

    merge(cay, f"{CAY}/sessions/x", {"spec": {"ended": True}})
    session = phase(cay, "x", "Ended")
    lifecycle = cay.api("GET", f"{CLAIMS}/x")["spec"]["lifecycle"]
    assert lifecycle == {"shutdownTime": session["status"]["deleteAt"], "shutdownPolicy": "Delete"}
    assert get(cay, f"{CAY}/attachments/x") is None
    cay.wait(SANDBOXES, box, lambda b: b["spec"]["operatingMode"] == "Suspended")
    wait_until(lambda: not cay.api("GET", f"/api/v1/{NS}/pods")["items"])

    merge(cay, f"{CAY}/sessions/x", {"spec": {"ended": False}})
    session = phase(cay, "x", "Active")
    assert session["status"]["sandbox"] == box and "deleteAt" not in session["status"]
    assert cay.api("GET", f"{CLAIMS}/x")["metadata"]["uid"] == claim["metadata"]["uid"]
    assert "lifecycle" not in cay.api("GET", f"{CLAIMS}/x")["spec"]
    cay.wait_ready(SANDBOXES, box)
    assert run(cay, box, "cat", "/work/mark") == "kept\n"


def test_what_is_kept_is_deleted_in_time_even_if_the_session_is_gone(cay):
    agent(cay, "coder")
    make(cay, "Session", "x", {"agent": "coder", "retain": "10h"})
    make(cay, "TeamPolicy", "team", {"retainMax": "1s"})  # counts for what there is already
    box = phase(cay, "x", "Active")["status"]["sandbox"]
    cay.api("DELETE", f"{CAY}/sessions/x")
    cay.wait(f"{CAY}/sessions", "x", lambda s: s is None)
    cay.wait(CLAIMS, "x", lambda c: c is None)
    cay.wait(SANDBOXES, box, lambda b: b is None)


def test_a_deleted_agent_ends_its_sessions_and_leaves_clocks(cay):
    agent(cay, "coder")
    for name in ("x", "y"):
        make(cay, "Session", name, {"agent": "coder"})
    boxes = [phase(cay, name, "Active")["status"]["sandbox"] for name in ("x", "y")]
    cay.api("DELETE", f"{CAY}/agents/coder")
    for name, box in zip(("x", "y"), boxes):
        session = phase(cay, name, "Ended", "AgentDeleted")
        assert cay.api("GET", f"{CLAIMS}/{name}")["spec"]["lifecycle"]["shutdownTime"] == session["status"]["deleteAt"]
        cay.wait(SANDBOXES, box, lambda b: b["spec"]["operatingMode"] == "Suspended")


def test_a_user_chooses_a_sandbox_changes_it_and_goes_without(cay):
    agent(cay, "helper", "UserChooses")
    cay.api("POST", CLAIMS, extension("SandboxClaim", "mine", {"warmPoolRef": {"name": "p"}}))
    box = cay.wait_ready(CLAIMS, "mine")["status"]["sandbox"]["name"]
    make(cay, "Session", "x", {"agent": "helper"})
    phase(cay, "x", "Pending", "NoSandboxChosen")
    assert list(claims(cay)) == ["mine"]
    merge(cay, f"{CAY}/sessions/x", {"spec": {"sandbox": box}})
    assert phase(cay, "x", "Active", "Attached")["status"]["sandbox"] == box
    merge(cay, f"{CAY}/sessions/x", {"spec": {"sandbox": "new"}})
    session = cay.wait(f"{CAY}/sessions", "x", lambda s: s["status"]["phase"] == "Active" and s["status"]["sandbox"] != box)
    assert cay.api("GET", f"{CAY}/attachments/x")["spec"]["sandbox"] == session["status"]["sandbox"]
    merge(cay, f"{CAY}/sessions/x", {"spec": {"sandbox": "none"}})
    phase(cay, "x", "Active", "WithoutSandbox")
    assert get(cay, f"{CAY}/attachments/x") is None
    merge(cay, f"{CAY}/sessions/x", {"spec": {"ended": True}})
    phase(cay, "x", "Ended")
    assert all("lifecycle" not in c["spec"] for c in claims(cay).values())  # they are the user's


@pytest.mark.parametrize("mode, label", [("Shared", {"cay.dev/shared": "true"}), ("PerAgent", {"cay.dev/agent": "a"})])
def test_sessions_share_one_sandbox_that_stays(cay, mode, label):
    agent(cay, "a", mode)
    for name in ("x", "y"):
        make(cay, "Session", name, {"agent": "a"})
    boxes = {phase(cay, name, "Active")["status"]["sandbox"] for name in ("x", "y")}
    assert len(boxes) == 1 and [c["metadata"]["labels"] for c in claims(cay).values()] == [label]
    for name in ("x", "y"):
        merge(cay, f"{CAY}/sessions/{name}", {"spec": {"ended": True}})
        phase(cay, name, "Ended")
    assert not cay.api("GET", f"{CAY}/attachments")["items"]
    assert cay.api("GET", f"{SANDBOXES}/{boxes.pop()}")["spec"]["operatingMode"] == "Running"
    assert all("lifecycle" not in c["spec"] for c in claims(cay).values())


def test_a_session_without_a_sandbox_says_why(cay):
    make(cay, "Session", "x", {"agent": "nobody"})
    assert "no Agent nobody" in condition(phase(cay, "x", "Pending", "AgentNotFound"), "Ready")["message"]
    agent(cay, "nobody", sandbox={"warmPoolRef": {"name": "dry"}})
    assert "dry" in condition(phase(cay, "x", "Pending", "PoolNotFound"), "Ready")["message"]
    merge(cay, f"{CAY}/agents/nobody", {"spec": {"sandbox": {"warmPoolRef": {"name": "p"}}, "isolation": {"unverified": "gvisor"}}})
    assert "gvisor" in condition(phase(cay, "x", "Pending", "RuntimeClassNotAllowed"), "Ready")["message"]
    merge(cay, f"{CAY}/agents/nobody", {"spec": {"isolation": None, "capabilities": {"maxSandboxes": 0}}})
    phase(cay, "x", "Pending", "MaxSandboxes")
    merge(cay, f"{CAY}/agents/nobody", {"spec": {"capabilities": {"maxSandboxes": 1}}})
    phase(cay, "x", "Active")
    make(cay, "Session", "y", {"agent": "nobody"})
    phase(cay, "y", "Pending", "MaxSandboxes")
    old = claims(cay)["x"]["metadata"]["uid"]
    cay.api("DELETE", f"{CLAIMS}/x")
    wait_until(lambda: claims(cay) and all(c["metadata"]["uid"] != old for c in claims(cay).values()))
    assert len(claims(cay)) == 1  # whoever came first has the place


def test_the_commands_begin_show_and_end_sessions(cay):
    agent(cay, "coder")
    said = command(cay, "session", "new", "coder", "--title", "Fix it", "--name", "x").stdout
    box = cay.api("GET", f"{CAY}/sessions/x")["status"]["sandbox"]
    assert said == f"session/x Active  sandbox/{box}\n"
    assert "Fix it" in command(cay, "session", "ls").stdout
    assert json.loads(command(cay, "session", "show", "x", "-o", "json").stdout)["status"]["phase"] == "Active"
    assert "FreshPerSession" in command(cay, "agent", "ls").stdout
    failed = command(cay, "session", "new", "nobody", check=False)
    assert failed.returncode == 1 and "no Agent nobody" in failed.stderr
    assert command(cay, "session", "end", check=False).returncode == 2

    assert command(cay, "session", "new", "coder", "--name", "reviewer", "--sandbox", "none").returncode == 0
    said = command(cay, "attach", "reviewer", box, "--view", "ReadOnly", "--right", "exec", "--right", "read").stdout
    name = f"reviewer-{box}"
    assert said == f"attachment/{name} attached\n"
    attached = cay.wait(f"{CAY}/attachments", name, lambda a: a.get("status"))
    assert attached["status"]["effectiveRights"] == ["exec", "read"] and attached["status"]["view"] == "ReadOnly"
    again = command(cay, "attach", "reviewer", box, check=False)
    assert again.returncode == 1 and "already exists" in again.stderr
    assert command(cay, "detach", name).stdout == f"attachment/{name} detached\n"
    twice = command(cay, "detach", name, check=False)
    assert twice.returncode == 1 and "may have been detached already" in twice.stderr

    assert command(cay, "session", "end", "x").stdout == "session/x ended\n"
    phase(cay, "x", "Ended")
    assert "23h" in command(cay, "session", "ls").stdout
    assert command(cay, "session", "resume", "x").stdout == "session/x goes on\n"
    phase(cay, "x", "Active")
    assert command(cay, "agent", "rm", "coder").stdout == "agent/coder deleted\n"
    phase(cay, "x", "Ended", "AgentDeleted")
    assert command(cay, "session", "rm", "x").stdout == "session/x deleted\n"
    assert command(cay, "session", "rm", "reviewer").returncode == 0


def test_a_question_is_answered_once(cay):
    for name in ("q", "r"):
        cay.api("POST", f"{CAY}/approvals", {
            "apiVersion": "cay.dev/v1alpha1", "kind": "Approval", "metadata": {"name": name},
            "spec": {"agent": "coder", "operation": "exec", "argv": ["git", "push"], "digest": "ab" * 32,
                     "expires": "2100-01-01T00:00:00Z"}})
    assert "git push" in command(cay, "approve", "ls").stdout and "git push" in command(cay, "approve").stdout
    cay.api("POST", f"{CAY}/approvals", {
        "apiVersion": "cay.dev/v1alpha1", "kind": "Approval", "metadata": {"name": "file"},
        "spec": {"agent": "coder", "operation": "exec", "tool": "upload_file", "path": "/etc/motd", "digest": "cd" * 32, "expires": "2100-01-01T00:00:00Z"}})
    assert "upload_file /etc/motd" in command(cay, "approve", "ls").stdout
    assert command(cay, "approve", "q").stdout == "approval/q approved\n"
    assert [line.split()[0] for line in command(cay, "approve", "ls").stdout.splitlines()] == ["NAME", "file", "r"]
    assert [line.split()[0] for line in command(cay, "approve", "ls", "--all").stdout.splitlines()] == ["NAME", "file", "q", "r"]
    assert cay.api("GET", f"{CAY}/approvals/q")["status"]["decision"] == "Once"
    assert command(cay, "approve", "--deny", "q", check=False).returncode != 0
    assert command(cay, "approve", "--deny", "r").stdout == "approval/r denied\n"
    assert command(cay, "approve", "--always", "--deny", "r", check=False).returncode == 2


def test_a_namespace_with_sessions_can_be_deleted(cay):
    cay.kubectl("create", "namespace", "gone")
    there = CAY.replace("default", "gone")
    for kind, plural, spec in (("SandboxTemplate", "sandboxtemplates", {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}),
                               ("SandboxWarmPool", "sandboxwarmpools", {"replicas": 0, "sandboxTemplateRef": {"name": "t"}})):
        cay.api("POST", f"{EXTENSIONS}/namespaces/gone/{plural}", extension(kind, {"SandboxTemplate": "t"}.get(kind, "p"), spec))
    for kind, name, spec in (("Agent", "a", {"sandbox": {"warmPoolRef": {"name": "p"}}}), ("Session", "x", {"agent": "a"})):
        cay.api("POST", f"{there}/{kind.lower()}s", {"apiVersion": "cay.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    cay.wait(f"{there}/sessions", "x", lambda s: s.get("status", {}).get("phase") == "Active")
    cay.kubectl("delete", "namespace", "gone", "--timeout=60s")


def begin_until_dead(cay, lane, n, acknowledged):
    """Begins sessions until the server is gone; remembers what was answered."""
    c = Cay.__new__(Cay)
    c.__dict__.update(cay.__dict__, _conn=None)
    for i in range(3):
        name = f"s-{n}-{lane}-{i}"
        try:
            make(c, "Session", name, {"agent": ("coder", "team", "own")[i]})
            acknowledged.append(name)
            if i == 0:
                merge(c, f"{CAY}/sessions/{name}", {"spec": {"ended": True}})
        except (OSError, http.client.HTTPException, ValueError):
            return


def test_kill_9_in_the_middle_of_new_sessions_makes_nothing_twice_and_loses_nothing(fresh):
    cay = prepare(fresh())
    agent(cay, "coder")
    agent(cay, "team", "Shared")
    agent(cay, "own", "PerAgent")
    random.seed(7)
    survived = 0
    for n in range(ROUNDS):
        acknowledged = []
        lanes = [threading.Thread(target=begin_until_dead, args=(cay, lane, n, acknowledged)) for lane in range(2)]
        for t in lanes:
            t.start()
        threading.Event().wait(random.uniform(0.01, 0.15))
        cay.kill()
        for t in lanes:
            t.join()
        cay.start()
        sessions = {s["metadata"]["name"]: s for s in cay.api("GET", f"{CAY}/sessions")["items"]}
        assert set(acknowledged) <= set(sessions)
        survived += len(acknowledged)
        for name, s in sessions.items():
            phase(cay, name, "Ended" if s["spec"].get("ended") else "Active")
        made = claims(cay)
        fresh_ones = {name for name, s in sessions.items() if s["spec"]["agent"] == "coder"}
        assert {c for c in made if c not in ("shared-p", "agent-own")} == fresh_ones
        attached = {a["metadata"]["name"] for a in cay.api("GET", f"{CAY}/attachments")["items"]}
        assert attached == {name for name, s in sessions.items() if not s["spec"].get("ended")}
        for name in fresh_ones:
            assert ("lifecycle" in made[name]["spec"]) == bool(sessions[name]["spec"].get("ended"))
        for name in sessions:
            cay.api("DELETE", f"{CAY}/sessions/{name}")
        wait_until(lambda: not cay.api("GET", f"{CAY}/sessions")["items"])
        assert all("lifecycle" in c["spec"] for name, c in claims(cay).items() if name in fresh_ones)
        cay.api("DELETE", CLAIMS)
        wait_until(lambda: not cay.api("GET", SANDBOXES)["items"])
        wait_until(lambda: not cay.census()[1])
    assert survived >= ROUNDS, f"only {survived} sessions were acknowledged: the test saw nothing"
