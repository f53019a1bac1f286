# SPDX-License-Identifier: Apache-2.0
"""Agents over MCP: the tools and sandboxes that they were granted, and rules by tool and by path."""

import asyncio
import itertools
import json
import threading

import pytest

from cay_local import EXTENSIONS, wait_until
from gate_kit import CAY, attach, box, decide, delete, open_questions, patch, question, session
from mcp_kit import Raw, call, connect, make_pool, request
from test_agent_identity import Agent, narrow

TOOLS = ["create_sandbox", "delete_sandbox", "get_sandbox_status", "execute_command", "upload_file", "download_file",
         "list_files", "file_exists"]
number = itertools.count()


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    box(c, "desk")
    box(c, "other")
    make_pool(c, replicas=1)
    return c


class Worker(Agent):
    """An agent without any role, and its session of MCP; tools are its methods, and answer with what they say."""

    def __init__(self, cay, role=None, **spec):
        super().__init__(cay, f"w{next(number)}", role)
        if spec:
            self.set(**spec)
        self.wires = {}

    def set(self, **spec):
        patch(self.cay, "agents", self.name, {"spec": spec})

    def rules(self, *rows, default="Allow"):
        self.set(approval={"default": default, "rules": list(rows)})

    def wire(self, token=None):
        if token not in self.wires:
            self.wires[token] = Raw(self.cay, token or self.mint())
            self.wires[token].open()
        return self.wires[token]

    def listed(self, token=None):
        return [t["name"] for t in self.wire(token).send(request("tools/list"))[2]["result"]["tools"]]

    def sandboxes(self, token=None):
        answer = self.wire(token).send(request("resources/read", uri="sandboxes://default"))[2]
        return sorted(c["text"] for c in answer["result"]["contents"]) if "result" in answer else answer["error"]["message"]

    def use(self, tool, sandbox="desk", token=None, **arguments):
        named = {} if sandbox is None else {"sandbox_claim_name": sandbox}
        answer = self.wire(token).send(call(tool, next(number), **named, **arguments))[2]
        if isinstance(answer, bytes):  # events: the last is the answer
            answer = json.loads(answer.decode().strip().rsplit("data: ", 1)[1])
        if "error" in answer:
            return answer["error"]["message"]
        result = answer["result"]
        return result["content"][0]["text"] if result["isError"] else result.get("structuredContent", {})

    def run(self, command, **more):
        return self.use("execute_command", command=command, **more)


@pytest.fixture
def worker(cay):
    return Worker(cay).enters("desk")


class Held:
    """A call under way in a thread."""

    def __init__(self, fn, *args, **more):
        self.answer = None
        self.thread = threading.Thread(target=lambda: setattr(self, "answer", fn(*args, **more)))
        self.thread.start()

    def end(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.answer


def approve(worker, how, fn, *args, **more):
    """Asks, decides, and returns the Approval and the answer."""
    held = Held(fn, *args, **more)
    asked = question(worker.cay, worker.name)
    decide(worker.cay, asked, how)
    return asked["spec"], held.end()


def test_an_agent_without_roles_uses_the_sandboxes_that_it_is_attached_to(cay, worker):
    assert worker.run("echo $((6*7))")["stdout"] == "42\n"
    assert worker.use("upload_file", path="/tmp/note", content="hello") == {"bytes_written": 5}
    assert worker.use("download_file", path="/tmp/note")["content"] == "hello"
    assert worker.use("file_exists", path="/tmp/note") == {"exists": True}
    assert "note" in [e["name"] for e in worker.use("list_files", path="/tmp")["entries"]]
    assert worker.use("get_sandbox_status")["ready"] is True
    assert worker.sandboxes() == ["desk"]
    for refused in (worker.run("true", sandbox="other"), worker.use("get_sandbox_status", "other"), worker.use("delete_sandbox"),
                    worker.use("create_sandbox", None, warmpool="plain")):
        assert "forbidden" in refused, refused
    delete(cay, "attachments", f"{worker.name}-desk")
    assert "forbidden" in worker.run("true")
    assert "forbidden" in worker.sandboxes()


def test_a_sandbox_of_a_session_is_known_by_its_claim(cay):
    w = Worker(cay)
    w.set(sandbox={"mode": "FreshPerSession", "warmPoolRef": {"name": "plain"}})
    session(cay, w.name, w.name, sandbox="new")
    claim = cay.wait(f"{CAY}/sessions", w.name, lambda s: s and s.get("status", {}).get("phase") == "Active")["status"]["claim"]
    box_name = cay.api("GET", f"{EXTENSIONS}/namespaces/default/sandboxclaims/{claim}")["status"]["sandbox"]["name"]
    for name in (claim, box_name):
        wait_until(lambda: w.run("echo in", sandbox=name) == {"exit_code": 0, "stdout": "in\n", "stderr": ""})
    assert w.sandboxes() == [claim]
    assert "forbidden" in w.use("delete_sandbox", claim)  # what its session made is not its own to delete


@pytest.mark.parametrize("view,stays", [("Shared", True), ("Scratch", False), ("ReadOnly", False)])
def test_a_view_holds_for_tools(cay, view, stays):
    w = Worker(cay)
    session(cay, w.name, w.name)
    attach(cay, w.name, w.name, "desk", view=view)
    path = f"/var/{w.name}"
    said = w.use("upload_file", path=path, content="x")
    assert said == {"bytes_written": 1} if view != "ReadOnly" else "that grants write" in said
    w.run(f"echo y >{path}")
    assert (cay.kubectl("exec", "desk", "--", "test", "-e", path, check=False).returncode == 0) == stays


@pytest.mark.parametrize("right,tools", [("read", {"download_file", "list_files", "file_exists"}), ("write", {"upload_file"}), ("exec", {"execute_command"})])
def test_each_tool_takes_its_right_and_no_other(cay, right, tools):
    w = Worker(cay)
    session(cay, w.name, w.name)
    attach(cay, w.name, w.name, "desk", rights=[right])
    said = {"execute_command": w.run("true"), "upload_file": w.use("upload_file", path=f"/tmp/{w.name}", content=""), "list_files": w.use("list_files", path="/tmp"),
            "download_file": w.use("download_file", path="/etc/hostname"), "file_exists": w.use("file_exists", path="/tmp")}
    for tool, what in said.items():
        assert isinstance(what, dict) if tool in tools else "that grants " in what, (tool, what)


def test_a_token_that_is_narrowed_counts_for_attachments_too(cay, worker):
    attach(cay, f"{worker.name}-too", worker.name, "other")
    token = narrow(cay, worker.mint(), "--sandbox", "desk", "--right", "read")
    assert worker.sandboxes() == ["desk", "other"] and worker.sandboxes(token) == ["desk"]
    assert worker.use("file_exists", path="/tmp", token=token) == {"exists": True}
    assert worker.run("true", token=narrow(cay, worker.mint(), "--right", "exec"))["exit_code"] == 0
    for refused in (worker.use("file_exists", "other", path="/tmp", token=token), worker.run("true", token=token),
                    worker.use("upload_file", path="/tmp/x", content="", token=token)):
        assert "narrowed" in refused, refused


def test_an_agent_sees_only_the_tools_that_it_was_granted(cay, worker):
    parent = Worker(cay)
    assert worker.listed() == TOOLS
    worker.set(capabilities={"tools": ["*_file", "execute_command"]})
    assert worker.listed() == ["execute_command", "upload_file", "download_file"]
    refused = worker.use("list_files", path="/")
    assert f"agent {worker.name} may not use the tool list_files" in refused and "capabilities.tools" in refused
    # What a token, a parent or the team takes away counts in the same open session.
    token = narrow(cay, worker.mint(), "--tool", "download_file")
    assert worker.listed(token) == ["download_file"]
    parent.set(capabilities={"tools": ["*"]})
    worker.set(parent=parent.name)
    parent.set(capabilities={"tools": ["execute_*"]})
    assert worker.listed() == ["execute_command"] and worker.listed(token) == []
    cay.api("POST", f"{CAY}/teampolicies", {"apiVersion": "cay.dev/v1alpha1", "kind": "TeamPolicy", "metadata": {"name": "team"},
                                            "spec": {"capabilities": {"tools": ["get_*"]}}})
    try:
        assert worker.listed() == [] and "may not use the tool" in worker.run("true")
    finally:
        delete(cay, "teampolicies", "team")
    assert worker.run("true")["exit_code"] == 0


def test_a_command_ends_with_the_grant_of_its_tool(cay, worker):
    mark = f"/tmp/{worker.name}"
    held = Held(worker.run, f"touch {mark}; sleep 1000", timeout=600)
    wait_until(lambda: cay.kubectl("exec", "desk", "--", "test", "-e", mark, check=False).returncode == 0)
    worker.set(capabilities={"tools": ["list_files"]})
    assert "no longer" in held.end()


def test_the_official_client_is_told_whom_it_waits_for(cay, worker):
    worker.rules({"action": "Ask", "tool": "execute_command"})
    told = []

    async def on_progress(progress, total, message):
        told.append(message)
        decide(cay, await asyncio.to_thread(question, cay, worker.name), "Once")

    async def main():
        async with connect(cay, worker.mint()) as t:
            assert [x.name for x in (await t.session.list_tools()).tools] == TOOLS
            result = await t.session.call_tool("execute_command", {"sandbox_claim_name": "desk", "command": "echo yes"}, progress_callback=on_progress)
            return result.structured_content
    assert asyncio.run(main()) == {"exit_code": 0, "stdout": "yes\n", "stderr": ""}
    assert len(told) == 1 and f"waits for approval {worker.name}-" in told[0] and "cay approve -n default" in told[0]


def test_a_rule_by_tool_asks_for_exactly_this_call(cay, worker):
    worker.rules({"action": "Ask", "tool": "execute_command"})
    spec, answer = approve(worker, "Once", worker.run, "echo one")
    assert answer["stdout"] == "one\n" and answer["stderr"] == ""
    assert (spec["operation"], spec["tool"], spec["argv"], spec["sandbox"]) == ("exec", "execute_command", ["/bin/sh", "-c", "echo one"], "desk")
    assert approve(worker, "Deny", worker.run, "echo one")[1].endswith(f"denied it (approval {name_of(cay, worker)})")  # once was once
    assert isinstance(worker.use("file_exists", path="/tmp"), dict)  # another tool is not asked about


def name_of(cay, worker):
    """Of the last Approval."""
    return sorted((a["metadata"]["creationTimestamp"], int(a["metadata"]["resourceVersion"]), a["metadata"]["name"])
                  for a in cay.api("GET", f"{CAY}/approvals")["items"] if a["spec"]["agent"] == worker.name)[-1][2]


def test_an_answer_that_comes_late_is_found_by_the_same_call(cay, worker):
    worker.rules({"action": "Ask", "tool": "execute_command"})
    for _ in range(2):  # who asks again while it is open waits for the same
        said = worker.run("echo late", timeout=1)
        asked = question(cay, worker.name)
        assert asked["metadata"]["name"] in said and "cay approve" in said and "the same call again" in said, said
    decide(cay, asked, "Once")
    assert worker.run("echo late", timeout=60)["stdout"] == "late\n"


def test_a_question_outlives_the_server_and_its_answer_is_used_once(fresh):
    cay = fresh()
    box(cay, "desk")
    w = Worker(cay).enters("desk")
    w.rules({"action": "Ask", "tool": "upload_file"})
    assert "waits for approval" in w.use("upload_file", path="/tmp/x", content="1", timeout=1)
    cay.kill()
    cay.start()
    w.wires.clear()
    asked, held = question(cay, w.name), Held(w.use, "upload_file", path="/tmp/x", content="1")
    decide(cay, asked, "Once")
    assert held.end() == {"bytes_written": 1}
    cay.kill()
    cay.start()
    w.wires.clear()
    assert cay.api("GET", f"{CAY}/approvals/{asked['metadata']['name']}")["status"]["used"]
    assert "waits for approval" in w.use("upload_file", path="/tmp/x", content="1", timeout=1)


def test_a_call_that_is_cancelled_leaves_its_question(cay, worker):
    worker.rules({"action": "Ask", "tool": "*"})
    wire = worker.wire()
    held = [Held(wire.send, call("execute_command", 901, sandbox_claim_name="desk", command="true")),
            Held(wire.send, call("delete_sandbox", 902, sandbox_claim_name="desk"))]
    wait_until(lambda: len(open_questions(cay, worker.name)) == 2)
    for i in (901, 902):
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": i}})
    assert all("cancelled" in json.dumps(h.end()[2]) for h in held)
    assert len(open_questions(cay, worker.name)) == 2


def test_tools_that_enter_nothing_are_asked_about_with_their_arguments(cay):
    w = Worker(cay, role="edit")
    w.rules({"action": "Deny", "tool": "create_*"}, {"action": "Ask", "tool": "delete_*"})
    assert "denies it" in w.use("create_sandbox", None, warmpool="plain")
    w.rules({"action": "Ask", "tool": "delete_*"})
    claim = w.use("create_sandbox", None, warmpool="plain")["sandbox_claim_name"]
    spec, answer = approve(w, "Deny", w.use, "delete_sandbox", claim)
    assert (spec["operation"], spec["tool"], json.loads(spec["argv"][0])) == ("tool", "delete_sandbox", {"sandbox_claim_name": claim, "namespace": "default"})
    assert "denied it" in answer and w.use("get_sandbox_status", claim)["ready"]
    assert "denied it" in w.use("delete_sandbox", claim)  # the answer stands for as long as the question would have
    w.rules()
    assert w.use("delete_sandbox", claim) == {}


def test_a_tool_is_asked_about_with_its_namespace_wherever_that_comes_from(cay):
    w = Worker(cay, role="edit")
    w.rules({"action": "Ask", "tool": "*"})
    for query, arguments in (("", {"namespace": "kube-system"}), ("?namespace=kube-system&pool=big", {})):
        wire = Raw(cay, w.mint(), query)
        wire.open()
        held = Held(wire.send, call("create_sandbox", **{"warmpool": "big", **arguments} if arguments else {}))
        asked = question(cay, w.name)  # in the agent's own namespace
        assert json.loads(asked["spec"]["argv"][0]) == {"warmpool": "big", "namespace": "kube-system"}
        cay.api("DELETE", f"{CAY}/approvals/{asked['metadata']['name']}")
        assert "was withdrawn" in json.dumps(held.end()[2])


PATHS = [("/etc/shadow", True), ("/work/../etc/shadow", True), ("//etc//shadow", True), ("/etc/./shadow/", True), ("/../../etc/shadow", True),
         ("/ETC/shadow", False), ("/tmp/etc/shadow", False)]


@pytest.mark.parametrize("path,denied", PATHS)
def test_detours_do_not_lead_around_a_rule_by_path(cay, worker, path, denied):
    worker.rules({"action": "Deny", "path": "/etc/*"})
    assert ("denies it" in str(worker.use("file_exists", path=path))) == denied


def test_links_do_not_lead_around_a_rule_by_path(cay, worker):
    d = f"/tmp/{worker.name}"
    cay.kubectl("exec", "desk", "--", "sh", "-c", f"mkdir -p {d}/in && cd {d} && echo secret >in/file && ln -s in dir && ln -s in/file link && ln -s nowhere gone")
    for path in ("link", "dir/file", "dir/new", "gone"):  # without such rules a link is as good as what it leads to
        assert "real path" not in str(worker.use("file_exists", path=f"{d}/{path}"))
    worker.rules({"action": "Deny", "path": f"{d}/in/*"})
    for tool, more in (("download_file", {}), ("upload_file", {"content": "x"}), ("file_exists", {}), ("list_files", {})):
        for path in ("link", "dir/file", "dir/new", "dir/sub/new", "gone"):
            assert "real path" in worker.use(tool, path=f"{d}/{path}", **more), (tool, path)
        assert "denies it" in worker.use(tool, path=f"{d}/dir/../in/file", **more)
        assert "must be absolute" in worker.use(tool, path=f"{worker.name}/in/file", **more)
        assert "must be absolute" in worker.use(tool, path="-", **more)
    for root in ("/proc/self/root", "/proc/1/root", "/proc/self/cwd"):
        assert "real path" in worker.use("file_exists", path=f"{root}{d}/in/file")
    assert f"leads to {d}/in/file" in worker.use("download_file", path=f"{d}/link")
    assert cay.kubectl("exec", "desk", "--", "sh", "-c", f"cat {d}/in/*; ls {d}").stdout == "secret\ndir\ngone\nin\nlink\n"
    for path in (f"{d}/a b\n'\"$(touch {d}/run)", f"{d}/sub/new"):  # what no rule denies works, however it is called
        assert worker.use("upload_file", path=path, content="x") == {"bytes_written": 1}
        assert worker.use("download_file", path=path + "/.")["content"] == "x"
    assert worker.use("list_files", path="/")["total_entries"] and worker.use("list_files", path=d + "/sub//")["total_entries"] == 1
    assert worker.use("file_exists", path=f"{d}/run") == {"exists": False}


@pytest.mark.parametrize("path", ["a" * 4097, "", "/x\0y", 7, None])
def test_a_path_that_is_none_is_refused(cay, worker, path):
    worker.rules({"action": "Deny", "path": "/etc/*"})
    assert any(word in worker.use("file_exists", path=path) for word in ("path: ", "U+0000"))
    assert worker.use("file_exists", path="/" + "a/" * 2047) == {"exists": False}


def test_a_file_is_approved_by_tool_path_and_contents(cay, worker):
    d = f"/tmp/{worker.name}"
    worker.rules({"action": "Ask", "tool": "upload_file", "path": "*/.git/*"})
    assert isinstance(worker.use("upload_file", path=f"{d}/plain", content="x"), dict)
    said = worker.use("upload_file", path=f"{d}/x/../.git/config", content="a", timeout=1)
    assert "waits for approval" in said
    first = question(cay, worker.name)
    assert (first["spec"]["tool"], first["spec"]["path"]) == ("upload_file", f"{d}/.git/config") and "argv" not in first["spec"]
    decide(cay, first, "Once")
    # Something slightly different is another question.
    for arguments in ({"path": f"{d}/.git/config", "content": "b"}, {"path": f"{d}/.git/hook", "content": "a"}):
        assert "waits for approval" in worker.use("upload_file", timeout=1, **arguments)
        decide(cay, question(cay, worker.name), "Deny")
    assert worker.use("upload_file", path=f"{d}//.git/config", content="a") == {"bytes_written": 1}
    assert "waits for approval" in worker.use("upload_file", path=f"{d}/.git/config", content="a", timeout=1)


def test_always_allows_that_file_and_no_other(cay, worker):
    d = f"/tmp/{worker.name}"
    worker.rules({"action": "Ask", "path": f"{d}/*"})
    assert approve(worker, "Always", worker.use, "upload_file", path=f"{d}/a", content="1")[1] == {"bytes_written": 1}
    rules = cay.api("GET", f"{CAY}/agents/{worker.name}")["spec"]["approval"]["rules"]
    assert rules[0] == {"action": "Allow", "tool": "upload_file", "path": f"{d}/a"}
    assert worker.use("upload_file", path=f"{d}/a", content="other") == {"bytes_written": 5}
    for tool, path, more in (("upload_file", f"{d}/b", {"content": "1"}), ("download_file", f"{d}/a", {})):
        assert approve(worker, "Deny", worker.use, tool, path=path, **more)[1].count("denied it") == 1
    # A name that would be a pattern is good for this once.
    assert approve(worker, "Always", worker.use, "upload_file", path=f"{d}/*", content="1")[1] == {"bytes_written": 1}
    assert "waits for approval" in worker.use("upload_file", path=f"{d}/*", content="1", timeout=1)
    assert len(cay.api("GET", f"{CAY}/agents/{worker.name}")["spec"]["approval"]["rules"]) == 2


def test_what_is_asked_for_where_all_else_is_denied_runs_when_it_is_approved(cay, worker):
    worker.rules({"action": "Ask", "tool": "execute_command", "argv": ["/bin/sh", "-c", "echo *"]}, default="Deny")
    assert approve(worker, "Once", worker.run, "echo yes")[1]["stdout"] == "yes\n"
    assert "denies it" in worker.run("id")


def test_rules_bar_the_ports_behind_which_nobody_sees_what_is_done(cay, worker):
    def reach(port):
        return cay.kubectl("--as", worker.user, "--as-group", "cay:agents", "get", "--raw", f"/api/v1/namespaces/default/pods/desk:{port}/proxy/",
                           check=False).stderr
    assert "runtime" not in reach(8888)
    for rule in ({"tool": "execute_command", "action": "Deny"}, {"path": "/etc/*", "action": "Ask"}, {"argv": ["git", "push", "**"], "action": "Ask"}):
        worker.rules(rule)
        assert all("runtime APIs" in reach(port) for port in (8888, 8080, 9090)) and "runtime" not in reach(8000)
    worker.rules({"host": "*", "action": "Deny"}, {"tool": "*", "action": "Allow"})
    assert "runtime" not in reach(8888)


@pytest.mark.parametrize("limit", [{"rules": [{"tool": "execute_command", "action": "Deny"}]}, {"default": "Ask"}, {"default": "Deny"}])
def test_no_container_of_its_own_leads_around_rules(cay, worker, limit):
    worker.set(approval=limit)
    cay.kubectl("create", "rolebinding", worker.name, "--clusterrole=edit", "--user", worker.user)
    r = cay.kubectl("--as", worker.user, "--as-group", "cay:agents", "debug", "desk", "--image=host", "--", "true", check=False)
    assert r.returncode == 1 and ("container of its own" in r.stderr or "denies it" in r.stderr), r.stderr


def test_an_agent_that_may_write_in_one_place_writes_in_no_other(cay, worker):
    """The agent of docs/guide/agents.md."""
    cay.kubectl("exec", "desk", "--", "sh", "-c", f"mkdir -p /tmp/{worker.name}/.git")
    d = f"/tmp/{worker.name}"
    worker.set(capabilities={"rights": ["read", "write"], "tools": ["upload_file", "download_file", "list_files"]})
    worker.rules({"action": "Ask", "tool": "upload_file", "path": "*/.git/*"}, {"action": "Allow", "path": f"{d}/*"}, default="Deny")
    assert worker.use("upload_file", path=f"{d}/x", content="1") == {"bytes_written": 1}
    assert approve(worker, "Once", worker.use, "upload_file", path=f"{d}/.git/x", content="1")[1] == {"bytes_written": 1}
    for path in ("/bin/cat", f"{d}/../other", f"/tmp/{worker.name}x", d):
        assert "denies it" in worker.use("upload_file", path=path, content="1"), path
    assert "grants exec" in cay.kubectl("--as", worker.user, "--as-group", "cay:agents", "exec", "desk", "--", "true", check=False).stderr
