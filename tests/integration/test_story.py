# SPDX-License-Identifier: Apache-2.0
"""The story of a pull request: an event starts a session, a builder writes code, a reviewer runs its tests, a push asks, a budget runs out, the next
event wakes the same sandbox, a parent takes its network away; what it cost and who did what is on record. All of it with clients as they are published."""

import json
import os
import shutil
import subprocess

import kubernetes
import pytest

from cay_local import BUILD, wait_until
from gate_kit import patch
from mcp_kit import Failed
from story_kit import APP, CAY, PACKAGES, SANDBOXES, TEST, WAYS, Groups, Team, World
from test_audit_chain import add, change, drop, edit, forge, swap, verify

PUSH = ("git", "push", "origin", "main")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    w = World(str(tmp_path_factory.mktemp("world")))
    yield w
    w.close()


@pytest.fixture(scope="module")
def team(module_instance, world):
    return Team(module_instance("--usage-interval", "1", "--resolv-conf", world.conf)).prepare()


def an_event_starts_a_session_with_a_sandbox_of_its_own(team):
    team.event("opened", "d-1")
    assert team.delivered("d-1")["outcome"] == "Ran"
    api = kubernetes.client.CustomObjectsApi(team.python())
    sessions = api.list_namespaced_custom_object("cay.dev", "v1alpha1", "default", "sessions")["items"]
    assert [(s["spec"]["agent"], s["status"]["phase"]) for s in sessions] == [("builder", "Active")]
    assert '"opened"' in team.says("builder", "cat", "/work/events.jsonl")


def the_builder_writes_code_with_the_tools_it_was_granted(team):
    async def work(tools):
        granted = sorted(t.name for t in (await tools.session.list_tools()).tools)
        box = team.sandbox()
        await tools.upload_file(box, path="/work/app.py", content=APP)
        await tools.upload_file(box, path="/work/test.py", content=TEST)
        ran = await tools.execute_command(box, command="cd /work && python3 test.py")
        return granted, ran
    granted, ran = team.tools("builder", work)
    assert granted == ["download_file", "execute_command", "list_files", "upload_file"]
    assert ran["stdout"] == "tests passed\n" and ran["exit_code"] == 0


def the_reviewer_runs_the_tests_and_changes_nothing_by_any_way(team):
    team.review()
    before = team.state_of_files()
    assert team.says("reviewer", "python3", "test.py") == "tests passed\n"
    team.says("reviewer", "sh", "-c", "echo 'assert False' >> test.py && ! python3 test.py 2>/dev/null")
    for name, way in WAYS.items():
        team.exec("reviewer", "sh", "-c", way)
        assert team.state_of_files() == before, name
    for name in ("append", "remount"):  # it is the view that stops them: the builder's own work
        assert team.says("builder", "sh", "-c", f"cp app.py saved; ({WAYS[name]}) 2>/dev/null; cmp -s app.py saved || echo changed; cp saved app.py; rm saved") == "changed\n"


def a_push_asks_and_what_is_approved_is_that_push_once(team):
    team.says("builder", "sh", "-c", "git init -q --bare /srv/origin.git && git init -q -b main . && git remote add origin /srv/origin.git && "
              "git add app.py test.py && git -c user.name=b -c user.email=b@example.org commit -qm one")
    with team.running("builder", *PUSH) as push:
        team.cay.cay("approve", team.question(*PUSH), "--kubeconfig", team.cay.kubeconfig)
        assert push.wait(60) == 0
    assert team.says("builder", "git", "--git-dir", "/srv/origin.git", "log", "--format=%s", "main") == "one\n"
    for again in ((*PUSH, "--force"), PUSH):  # another one, and the same once more
        with team.running("builder", *again) as push:
            team.cay.cay("approve", team.question(*again), "--deny", "--kubeconfig", team.cay.kubeconfig)
            assert push.wait(60) != 0
            assert "denied" in push.stderr.read()


def a_budget_that_runs_out_suspends_the_sandbox_and_keeps_its_state(team):
    cay = team.cay
    patch(cay, "budgets", "pulls", {"spec": {"limits": {"cpuSeconds": "4"}}})
    with team.running("builder", "python3", "-c", "while True: pass"):
        cay.wait(SANDBOXES, team.sandbox(), lambda b: b["spec"].get("operatingMode") == "Suspended")
    budget = cay.wait(f"{CAY}/budgets", "pulls", lambda b: b.get("status", {}).get("exceeded"))
    assert float(budget["status"]["used"]["cpuSeconds"]) > 4

    async def work(tools):
        with pytest.raises(Failed, match="budget pulls is used up"):
            await tools.execute_command(team.sandbox(), command="true")
    team.tools("builder", work)
    team.event("synchronize", "d-2")
    late = team.delivered("d-2")
    assert late["outcome"] != "Ran" and "pulls" in late["message"]


def the_next_event_wakes_the_same_sandbox(team):
    box = team.sandbox()
    patch(team.cay, "budgets", "pulls", {"spec": {"limits": {"cpuSeconds": "600"}}})
    team.cay.wait(f"{CAY}/budgets", "pulls", lambda b: not b["status"].get("exceeded"))
    team.event("synchronize", "d-3")
    assert team.delivered("d-3")["outcome"] == "Ran"
    assert team.sandbox() == box
    assert team.says("builder", "python3", "test.py") == "tests passed\n"
    assert len(team.says("builder", "cat", "events.jsonl").split()) >= 2


FOLLOW = f"""
import socket, time
s = socket.create_connection(("{PACKAGES}", 80), 20)
print("connected", flush=True)
try:
    while True:
        s.sendall(b"still there?")
        if not s.recv(4096):
            break
        time.sleep(0.05)
except OSError as e:
    print(type(e).__name__, flush=True)
"""


def shrinking_the_parent_cuts_the_childs_open_connection(team):
    with team.running("builder", "python3", "-c", FOLLOW) as child:
        assert child.stdout.readline() == "connected\n", child.stderr.read()
        patch(team.cay, "agents", "lead", {"spec": {"capabilities": {"egress": [{"host": "docs.example.org"}]}}})
        assert child.wait(60) == 0
        assert child.stdout.read().strip() in ("ConnectionResetError", "ConnectionRefusedError", "TimeoutError", "OSError")
    assert team.exec("builder", "python3", "-c", FOLLOW).returncode != 0


def the_cost_adds_up_to_what_the_control_groups_counted(team, counted):
    cay = team.cay
    patch(cay, "sessions", team.session()["metadata"]["name"], {"spec": {"ended": True}})
    patch(cay, "sessions", "review", {"spec": {"ended": True}})
    wait_until(lambda: not team.groups())
    kernel = counted.stop()

    def cost():
        rows = json.loads(cay.cay("cost", "--by", "agent", "--since", "24h", "-o", "json", "--kubeconfig", cay.kubeconfig).stdout)["items"]
        return {r["agent"]: float(r["cpuSeconds"]) for r in rows}
    wait_until(lambda: abs(cost()["builder"] + cost()["reviewer"] - kernel) < 0.01 * kernel)
    used = cay.api("GET", f"{CAY}/budgets/pulls")["status"]
    assert abs(float(used["used"]["cpuSeconds"]) - kernel) < 0.01 * kernel


def cut(lines):
    return lines[:-5]


TAMPERING = {"changed": change, "missing": drop, "reordered": swap, "added": add, "forged": forge, "cut": cut}


def the_record_is_clean_and_each_kind_of_tampering_is_found(team, tmp_path):
    cay = team.cay
    for agent, sandbox in (("builder", "exec"), ("reviewer", "exec")):
        shown = cay.cay("audit", "show", "--data-dir", cay.data_dir).stdout
        assert any(f"cay:agent:default:{agent}" in line and sandbox in line for line in shown.splitlines())
    cay.stop()
    log = tmp_path / "log"
    log.mkdir()
    for name in os.listdir(cay.data_dir):
        if name.startswith("audit."):
            shutil.copy2(os.path.join(cay.data_dir, name), log)
    cay.start()
    assert verify(log)["faults"] == 0
    for name, way in TAMPERING.items():
        touched = shutil.copytree(log, tmp_path / name)
        edit(touched, way, "audit.log")
        assert verify(touched)["faults"] > 0, name
        assert subprocess.run([os.path.join(BUILD, "cay"), "audit", "verify", "--data-dir", str(touched)], capture_output=True).returncode == 1


@pytest.mark.timeout(600)
def test_the_story_of_a_pull_request(team, tmp_path):
    counted = Groups(team)
    an_event_starts_a_session_with_a_sandbox_of_its_own(team)
    the_builder_writes_code_with_the_tools_it_was_granted(team)
    the_reviewer_runs_the_tests_and_changes_nothing_by_any_way(team)
    a_push_asks_and_what_is_approved_is_that_push_once(team)
    a_budget_that_runs_out_suspends_the_sandbox_and_keeps_its_state(team)
    the_next_event_wakes_the_same_sandbox(team)
    shrinking_the_parent_cuts_the_childs_open_connection(team)
    the_cost_adds_up_to_what_the_control_groups_counted(team, counted)
    the_record_is_clean_and_each_kind_of_tampering_is_found(team, tmp_path)
