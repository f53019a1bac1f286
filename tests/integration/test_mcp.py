# SPDX-License-Identifier: Apache-2.0
"""Sandboxes as MCP tools, used by the official client: what each tool does, and who reaches which sandbox."""

import asyncio
import base64
import contextlib
import json
import subprocess

import httpx2
import pytest

from cay_local import ROOT, wait_until
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_kit import CLAIMS, Failed, bridge, connect, connect_stdio, make_pool, token_of

TOOLS = ["create_sandbox", "delete_sandbox", "get_sandbox_status", "execute_command", "upload_file", "download_file",
         "list_files", "file_exists"]


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance("--service-account-grants", "default/alice=edit,default/bob=edit,default/viewer=view")
    make_pool(c)
    c.tokens = {name: token_of(c, name) for name in ("alice", "bob", "viewer", "nobody")}
    return c


def on(work, *args, **more):
    """Runs work(tools) in a session over HTTP."""
    async def main():
        async with connect(*args, **more) as tools:
            return await work(tools)
    return asyncio.run(main())


def claim_of(cay, name):
    return cay.api("GET", f"{CLAIMS}/{name}")


async def refused(awaitable):
    with pytest.raises(Failed) as e:
        await awaitable
    return str(e.value)


@pytest.mark.parametrize("way", [connect, connect_stdio])
def test_each_way_lists_the_tools_and_leads_a_sandbox_through_its_life(cay, way):
    async def main():
        async with way(cay) as t:
            tools = (await t.session.list_tools()).tools
            assert [x.name for x in tools] == TOOLS
            assert all(x.input_schema["additionalProperties"] is False for x in tools)
            assert all(x.output_schema for x in tools if x.name != "delete_sandbox")
            name = await t.create()
            assert (await t.execute_command(name, command="echo $((6*7))"))["stdout"] == "42\n"
            await t.delete_sandbox(name)
            assert "is not found" in await refused(t.execute_command(name, command="true"))
            await t.session.send_ping()
            return name
    name = asyncio.run(main())
    cay.wait(CLAIMS, name, lambda c: c is None)


@contextlib.asynccontextmanager
async def clients(cay, mode, scope):
    """The client that chooses its version, over either way."""
    command, *args = bridge(cay, "--scope", scope)
    async with httpx2.AsyncClient(verify=cay.context(), timeout=60) as http:
        url = f"https://127.0.0.1:{cay.port}/mcp?scope={scope}"
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as over_http:
            async with Client(StdioServerParameters(command=command, args=args), mode=mode) as over_stdio:
                yield over_http, over_stdio


@pytest.mark.parametrize("mode,scope,version", [("auto", "session", "2025-11-25"), ("legacy", "user", "2025-11-25"), ("auto", "user", "2026-07-28")])
def test_a_client_gets_the_version_without_sessions_where_it_needs_none(cay, mode, scope, version):
    async def main():
        async with clients(cay, mode, scope) as both:
            for client in both:
                assert client.session.protocol_version == version
                assert [x.name for x in (await client.list_tools()).tools] == TOOLS
    asyncio.run(main())


def test_without_sessions_a_sandbox_is_its_users(cay):
    async def main():
        async with clients(cay, "2026-07-28", "user") as (one, other):
            made = await one.call_tool("create_sandbox", {"warmpool": "plain"})
            name = made.structured_content["sandbox_claim_name"]
            labels = claim_of(cay, name)["metadata"]["labels"]
            assert "mcp.cay.dev/owner" in labels and "mcp.k8s-agent-sandbox/session-id" not in labels
            ran = await other.call_tool("execute_command", {"sandbox_claim_name": name, "command": "echo 'ü'"})
            assert ran.structured_content["stdout"] == "ü\n"
            assert name in [c.text for c in (await other.read_resource("sandboxes://default")).contents]
            async with connect(cay, cay.tokens["alice"], "?scope=user") as alice:
                assert "is not found" in await refused(alice.delete_sandbox(name))
            for client in (one, other):
                await gives_up(client, name)
            await one.call_tool("delete_sandbox", {"sandbox_claim_name": name})
    asyncio.run(main())


async def gives_up(client, box):
    """A command that outlasts the client's patience is killed."""
    with pytest.raises(MCPError):
        await client.call_tool("execute_command", {"sandbox_claim_name": box, "timeout": 600,
                                                   "command": "echo $$ >/tmp/pid; exec sleep 1000"}, read_timeout_seconds=1)
    for _ in range(100):
        ran = await client.call_tool("execute_command", {"sandbox_claim_name": box,
                                                         "command": "kill -0 $(cat /tmp/pid) 2>/dev/null && echo alive; true"})
        if ran.structured_content["stdout"] == "":
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the command is still there")


def test_dataplane_246_a_claim_has_the_defaults_and_the_labels_of_its_session(cay):
    async def work(t):
        usual = claim_of(cay, await t.create())
        other = claim_of(cay, await t.create(labels={"team": "red"}, shutdown_after_seconds=None, pod_labels={"sandbox.users.io/a": "b"},
                                             pod_annotations={"sandbox.users.io/c": "d"}, sandbox_ready_timeout=30))
        labels = usual["metadata"]["labels"]
        assert labels["mcp.k8s-agent-sandbox/session-id"] == other["metadata"]["labels"]["mcp.k8s-agent-sandbox/session-id"]
        assert other["metadata"]["labels"]["team"] == "red"
        assert usual["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
        assert usual["spec"]["lifecycle"]["shutdownTime"] > usual["metadata"]["creationTimestamp"]
        assert "lifecycle" not in other["spec"]
        assert other["spec"]["additionalPodMetadata"] == {"labels": {"sandbox.users.io/a": "b"}, "annotations": {"sandbox.users.io/c": "d"}}
        schema = {x.name: x.input_schema["properties"] for x in (await t.session.list_tools()).tools}["create_sandbox"]
        assert (schema["sandbox_ready_timeout"]["default"], schema["shutdown_after_seconds"]["default"]) == (180, 300)
        for key in ("mcp.k8s-agent-sandbox/session-id", "mcp.cay.dev/owner"):
            assert "set by the server" in await refused(t.create(labels={key: "x"}))
        assert (await refused(t.create(warmpool="nowhere"))).startswith("Failed to create sandbox: WarmPoolNotFound")
    before = len(cay.api("GET", CLAIMS)["items"])
    on(work, cay, query="?cleanup=true")
    wait_until(lambda: len(cay.api("GET", CLAIMS)["items"]) == before)  # the failed one left nothing, the others ended with the session


EACH_TOOL = [("execute_command", {"command": "touch /tmp/seen"}), ("upload_file", {"path": "/tmp/seen", "content": ""}),
             ("download_file", {"path": "x"}), ("list_files", {"path": "."}), ("file_exists", {"path": "x"}),
             ("get_sandbox_status", {}), ("delete_sandbox", {})]


def test_dataplane_247_a_claim_of_another_session_is_not_found_and_nothing_runs(cay):
    async def main():
        async with connect(cay) as mine, connect(cay) as other:
            name = await mine.create()
            for tool, arguments in EACH_TOOL:
                text = await refused(getattr(other, tool)(name, **arguments))
                assert text == f"Sandbox claim '{name}' is not found in namespace 'default'.", tool
            assert not (await mine.file_exists(name, path="/tmp/seen"))["exists"]
            assert await other.sandboxes() == [] and await mine.sandboxes() == [name]
            async with connect(cay, query="?scope=user") as all_mine:
                assert name in await all_mine.sandboxes()
                await all_mine.delete_sandbox(name)
    asyncio.run(main())


def test_two_users_in_one_namespace_never_reach_each_others_sandboxes(cay):
    async def main():
        async with connect(cay, cay.tokens["alice"], "?scope=user") as alice, connect(cay, cay.tokens["bob"], "?scope=user") as bob:
            hers, his = await alice.create(), await bob.create()
            for tool, arguments in EACH_TOOL:
                assert "is not found" in await refused(getattr(bob, tool)(hers, **arguments)), tool
            assert (await alice.sandboxes(), await bob.sandboxes()) == ([hers], [his])
            assert not (await alice.file_exists(hers, path="/tmp/seen"))["exists"]
            owners = {claim_of(cay, n)["metadata"]["labels"]["mcp.cay.dev/owner"] for n in (hers, his)}
            assert len(owners) == 2
            await alice.delete_sandbox(hers)
            await bob.delete_sandbox(his)
    asyncio.run(main())


def test_tools_have_the_rights_of_their_user_and_no_others(cay):
    async def as_viewer(t):
        assert "cannot create resource" in await refused(t.create())
        assert await t.sandboxes() == []
        with pytest.raises(MCPError, match="cannot list resource"):
            await t.sandboxes("kube-system")
    on(as_viewer, cay, cay.tokens["viewer"])

    async def as_nobody(t):
        for tool, arguments in EACH_TOOL:
            assert "is forbidden" in await refused(getattr(t, tool)("x", **arguments)), tool
        assert "is forbidden" in await refused(t.create())
    on(as_nobody, cay, cay.tokens["nobody"])

    async def elsewhere(t):
        assert "is forbidden" in await refused(t.create(namespace="kube-system"))
        assert (await t.session.list_resources()).resources[0].uri == "sandboxes://default"
    on(elsewhere, cay, cay.tokens["alice"])


def test_a_user_who_may_read_claims_but_not_exec_runs_nothing(cay):
    """The claim carries the labels of the viewer, as if it had been made for them: the right to exec decides."""
    async def work(t):
        name = await t.create(shutdown_after_seconds=None)
        labels = claim_of(cay, name)["metadata"]["labels"]
        async with connect(cay, cay.tokens["viewer"], "?scope=user") as viewer:
            owner = __import__("hashlib").sha256(b"system:serviceaccount:default:viewer").hexdigest()[:32]
            cay.api("PATCH", f"{CLAIMS}/{name}", {"metadata": {"labels": {"mcp.cay.dev/owner": owner}}},
                    content_type="application/merge-patch+json")
            assert (await viewer.get_sandbox_status(name))["ready"] is True
            assert "cannot create resource \"pods/exec\"" in await refused(viewer.execute_command(name, command="true"))
            assert "cannot delete resource" in await refused(viewer.delete_sandbox(name))
        cay.api("PATCH", f"{CLAIMS}/{name}", {"metadata": {"labels": labels}}, content_type="application/merge-patch+json")
        await t.delete_sandbox(name)
    on(work, cay)


@pytest.fixture(scope="module")
def box(cay):
    """A sandbox for the tests of one tool each, reached by its user from every session."""
    return on(lambda t: t.create(shutdown_after_seconds=None), cay)


def using(cay):
    return {"query": "?scope=user"}


def test_dataplane_248_a_command_tells_code_and_both_outputs(cay, box):
    async def work(t):
        ran = await t.execute_command(box, command="echo out; echo err >&2; exit 3")
        assert ran == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}
        assert (await t.execute_command(box, command="printf 'a\\377b'"))["stdout"] == "a\ufffdb"
        assert (await t.execute_command(box, command="kill -9 $$"))["exit_code"] == -9
        with pytest.raises(Failed, match="Failed to execute command in sandbox: it was killed after 0.5 seconds") as e:
            await t.execute_command(box, command="echo early; sleep 1000", timeout=0.5)
        assert e.value.told == {"exit_code": -1, "stdout": "early\n", "stderr": "", "timed_out": True}
        for timeout in (0, -1, 601, "60"):
            assert (await refused(t.execute_command(box, command="true", timeout=timeout))).startswith("timeout: ")
        assert "command: is missing" == await refused(t.execute_command(box))
        assert "shell: execute_command has no such argument" == await refused(t.execute_command(box, command="true", shell=1))
    on(work, cay, **using(cay))


def test_a_large_output_keeps_both_ends_and_says_so(cay, box):
    async def work(t):
        ran = await t.execute_command(box, command="echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last; exit 4")
        assert ran["truncated"] is True and ran["exit_code"] == 4
        assert ran["stdout"].startswith("first\nxxx") and ran["stdout"].endswith("xxx\nlast\n")
        assert "bytes are left out here]" in ran["stdout"] and len(ran["stdout"]) < 70000
    on(work, cay, **using(cay))


def test_a_long_command_is_answered_as_a_stream(cay, box):
    async def work(t):
        return await t.execute_command(box, command="sleep 10.5; echo done", timeout=30)
    assert on(work, cay, **using(cay))["stdout"] == "done\n"


@pytest.mark.parametrize("way", [connect, connect_stdio])
def test_a_cancelled_command_is_killed(cay, box, way):
    scope = {"query": "?scope=user"} if way is connect else {}
    flags = () if way is connect else ("--scope", "user")

    async def main():
        async with way(cay, *flags, **scope) as t:
            await gives_up(t.session, box)
    asyncio.run(main())


def test_dataplane_249_files_go_in_and_come_out_as_text_and_base64(cay, box):
    blob = bytes(range(256)) * 700

    async def work(t):
        assert await t.upload_file(box, path="a/ü b.txt", content="zwölf\n") == {"bytes_written": 7}
        assert await t.download_file(box, path="a/ü b.txt") == {"content": "zwölf\n", "bytes_read": 7}
        assert (await t.execute_command(box, command="cat 'a/ü b.txt'"))["stdout"] == "zwölf\n"
        text = base64.b64encode(blob).decode()
        assert await t.upload_file(box, path="/tmp/blob", content=text, binary=True) == {"bytes_written": len(blob)}
        assert await t.download_file(box, path="/tmp/blob", binary=True) == {"content": text, "bytes_read": len(blob)}
        assert await refused(t.download_file(box, path="/tmp/blob")) == (
            "File at '/tmp/blob' contains non-UTF-8 bytes. Set binary=True to retrieve it as base64.")
        await t.upload_file(box, path="-n", content="")
        assert await t.download_file(box, path="-n") == {"content": "", "bytes_read": 0}
        large = base64.b64encode(blob * 12).decode()
        assert await t.upload_file(box, path="/tmp/large", content=large, binary=True) == {"bytes_written": len(blob) * 12}
        assert (await t.execute_command(box, command="wc -c </tmp/large"))["stdout"] == f"{len(blob) * 12}\n"
        assert await refused(t.upload_file(box, path="a", content="x")) == "Failed to write file to sandbox: it is a directory"
        assert "Failed to write file to sandbox: " in await refused(t.upload_file(box, path="/proc/x", content="x"))
        assert await refused(t.upload_file(box, path="x", content="?!", binary=True)) != ""
        assert await refused(t.download_file(box, path="nope")) == "Failed to read file from sandbox: there is no such file"
        assert "not a regular file" in await refused(t.download_file(box, path="/dev/zero"))
        await t.execute_command(box, command="head -c 1048577 /dev/zero >/tmp/big")
        assert "larger than 1048576 bytes" in await refused(t.download_file(box, path="/tmp/big", binary=True))
    on(work, cay, **using(cay))


def test_dataplane_250_a_listing_counts_all_and_returns_at_most_max(cay, box):
    async def work(t):
        await t.execute_command(box, command="mkdir -p l/empty; cd l; for i in 1 2 3; do printf %$i's' '' >f$i; done; ln -s f3 link; "
                                             "ln -s nowhere dangling; touch 'x\n81a4 9 9 .' .hidden")
        whole = await t.list_files(box, path="l")
        assert [(e["name"], e["type"], e["size"]) for e in whole["entries"] if e["name"] != "empty"] == [
            (".hidden", "file", 0), ("dangling", "file", 7), ("f1", "file", 1), ("f2", "file", 2), ("f3", "file", 3),
            ("link", "file", 3), ("x\n81a4 9 9 .", "file", 0)]
        assert (whole["total_entries"], whole["truncated"]) == (8, False)
        assert all(e["mod_time"] > 1.7e9 for e in whole["entries"])
        part = await t.list_files(box, path="l", max_entries=2)
        assert (len(part["entries"]), part["total_entries"], part["truncated"]) == (2, 8, True)
        assert (await t.list_files(box, path="l", max_entries=8))["truncated"] is False
        assert await t.list_files(box, path="l/empty") == {"entries": [], "total_entries": 0, "truncated": False}
        for bad in ({"max_entries": 0}, {"max_entries": 10001}, {"timeout": 0}, {"timeout": 601}):
            assert (await refused(t.list_files(box, path="l", **bad))).startswith(next(iter(bad)) + ": ")
        assert await refused(t.list_files(box, path="l/f1")) == "Failed to list directory in sandbox: it is not a directory"
    on(work, cay, **using(cay))


def test_a_directory_of_many_files_is_counted_in_full(cay, box):
    async def work(t):
        await t.execute_command(box, command="mkdir -p many && cd many && seq 1 12000 | xargs touch", timeout=120)
        listed = await t.list_files(box, path="many", max_entries=10000, timeout=120)
        assert (len(listed["entries"]), listed["total_entries"], listed["truncated"]) == (10000, 12000, True)
    on(work, cay, **using(cay))


def test_dataplane_251_exists_is_true_or_false_within_its_limits(cay, box):
    async def work(t):
        assert (await t.file_exists(box, path="/etc/passwd"))["exists"] is True
        assert (await t.file_exists(box, path="."))["exists"] is True
        assert (await t.file_exists(box, path="/nope"))["exists"] is False
        for timeout in (0, 601):
            assert (await refused(t.file_exists(box, path=".", timeout=timeout))).startswith("timeout: ")
        assert await refused(t.file_exists(box, path="")) == "path: must not be empty"
    on(work, cay, **using(cay))


def test_dataplane_252_the_resource_lists_claims_of_the_session(cay):
    async def work(t):
        templates = (await t.session.list_resource_templates()).resource_templates
        assert [x.uri_template for x in templates] == ["sandboxes://{namespace}"]
        assert await t.sandboxes() == []
        names = sorted([await t.create(), await t.create()])
        assert await t.sandboxes() == names and await t.sandboxes("kube-system") == []
        for uri in ("sandboxes://", "sandboxes://Not_A_Name", "files://default"):
            with pytest.raises(MCPError, match="Resource not found"):
                await t.session.read_resource(uri)
    on(work, cay, query="?cleanup=true")


def test_status_is_that_of_the_claim(cay, box):
    async def work(t):
        told = await t.get_sandbox_status(box)
        assert told["ready"] is True and set(told) == {"status", "ready", "message"}
    on(work, cay, **using(cay))


def test_a_sandbox_that_is_late_is_given_up_and_leaves_no_claim(cay):
    async def work(t):
        text = await refused(t.create(warmpool="slow", sandbox_ready_timeout=0.5))
        assert text.startswith("Failed to create sandbox: it is not ready in time: ")
    template = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": {"name": "slow"},
                "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "not-there"}]}}}}
    pool = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": "slow"},
            "spec": {"replicas": 0, "sandboxTemplateRef": {"name": "slow"}}}
    cay.api("POST", CLAIMS.replace("claims", "templates"), template)
    cay.api("POST", CLAIMS.replace("sandboxclaims", "sandboxwarmpools"), pool)
    on(work, cay)
    wait_until(lambda: not [c for c in cay.api("GET", CLAIMS)["items"] if c["spec"].get("warmPoolRef", {}).get("name") == "slow"])


def test_the_bridge_uses_its_defaults_and_cleans_up(cay):
    async def main():
        async with connect_stdio(cay, "--pool", "plain", "--namespace", "default", "--cleanup") as t:
            schema = {x.name: x.input_schema for x in (await t.session.list_tools()).tools}["create_sandbox"]
            assert schema["required"] == [] and schema["properties"]["warmpool"]["default"] == "plain"
            return (await t.create_sandbox())["sandbox_claim_name"]
    name = asyncio.run(main())
    cay.wait(CLAIMS, name, lambda c: c is None)


def lines_of(cay, text, *flags):
    """What the bridge writes for this input, decoded, and its exit code."""
    r = subprocess.run(bridge(cay, *flags), input=text, capture_output=True, timeout=60, cwd=ROOT)
    return [json.loads(line) for line in r.stdout.splitlines()], r


INIT = json.dumps({"jsonrpc": "2.0", "id": "i", "method": "initialize",
                   "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}})


def test_the_bridge_writes_nothing_but_the_protocol(cay):
    text = "\n".join([INIT, "{nonsense", "", '{"jsonrpc":"2.0","method":"notifications/cancelled"}', json.dumps({"jsonrpc": "2.0", "id": 2, "method": "nope"}),
                      json.dumps({"jsonrpc": "2.0", "id": 3, "method": "ping"})])  # the last line has no end
    answers, r = lines_of(cay, text.encode())
    assert r.returncode == 0 and r.stderr == b""
    assert sorted((a["id"] is None, str(a["id"])) for a in answers) == [(False, "2"), (False, "3"), (False, "i"), (True, "None")]
    by_id = {a["id"]: a for a in answers}
    assert by_id["i"]["result"]["protocolVersion"] == "2025-06-18"
    assert (by_id[2]["error"]["code"], by_id[None]["error"]["code"], by_id[3]["result"]) == (-32601, -32700, {})
    answers, _ = lines_of(cay, b"x" * 4_000_000 + b"\n" + INIT.encode() + b"\n")
    assert answers[0]["error"]["code"] == -32700 and answers[-1]["id"] == "i"
    answers, _ = lines_of(cay, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode())
    assert answers[0]["id"] == 1 and "initialize" in answers[0]["error"]["message"]


def test_the_bridge_outlives_a_restart_of_the_server(fresh):
    cay = fresh()

    async def main():
        async with connect_stdio(cay) as t:
            await t.session.list_tools()
            cay.stop()
            asked = asyncio.create_task(t.session.list_tools())
            await asyncio.sleep(0)
            await asyncio.to_thread(cay.start)
            assert [x.name for x in (await asked).tools] == TOOLS
            assert await t.sandboxes() == []
    asyncio.run(main())
