# SPDX-License-Identifier: Apache-2.0
"""The audit log: one line for each write and each entry into a sandbox, by whom, and nothing that is secret."""

import asyncio
import http.client
import json
import os
import signal
import ssl

import pytest

from cay_local import ApiError, wait_until
from mcp_kit import connect, make_pool, token_of
from test_node_pods import pod, ready

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"


def read(path):
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


@pytest.fixture(scope="module")
def server(module_instance):
    c = module_instance("--service-account-grants", "default/alice=edit")
    make_pool(c)
    c.tokens = {name: token_of(c, name) for name in ("alice", "nobody")}
    return c


def request(server, token, method, path):
    """By somebody who has a token and no certificate."""
    conn = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=ssl.create_default_context(cadata=server.credentials()[0].decode()))
    try:
        conn.request(method, path, headers={"Authorization": f"Bearer {token}"})
        answer = conn.getresponse()
        if answer.status >= 400:
            raise ApiError(answer.status, json.loads(answer.read()))
    finally:
        conn.close()


def lines(server, count=1, **want):
    """The lines with these values, once there are as many."""
    def found():
        return [line for line in read(f"{server.data_dir}/audit.log") if all(line.get(k) == v for k, v in want.items())]
    wait_until(lambda: len(found()) >= count)
    return found()


def test_a_write_is_recorded_with_who_what_and_how_it_ended(server):
    server.api("POST", MAPS, {"metadata": {"generateName": "made-"}})
    line = lines(server, verb="create", resource="configmaps", status=201)[-1]
    assert line["user"] == "cay-admin" and line["namespace"] == "default" and line["from"].startswith("127.0.0.1:")
    assert line["name"].startswith("made-") and line["tookMicros"] > 0 and "group" not in line
    server.kubectl("delete", "configmap", line["name"])
    assert lines(server, verb="delete", name=line["name"], status=200)
    server.kubectl("create", "configmap", "dry", "--dry-run=server")
    assert lines(server, name="dry", dryRun=True)
    server.kubectl("create", "configmap", "Not_a_name", check=False)
    assert lines(server, name="Not_a_name", status=422)


def test_reads_are_not_recorded(server):
    before = len(read(f"{server.data_dir}/audit.log"))
    server.kubectl("get", "configmaps", "-A")
    server.api("POST", MAPS, {"metadata": {"name": "after-a-read"}})
    lines(server, name="after-a-read")
    assert len(read(f"{server.data_dir}/audit.log")) == before + 1


def test_what_is_secret_is_not_in_it(server):
    server.api("POST", SECRETS, {"metadata": {"name": "hush"}, "stringData": {"key": "correct-horse"}})
    server.kubectl("patch", "secret", "hush", "-p", '{"stringData":{"key":"battery-staple"}}')
    token = server.kubectl("create", "token", "default").stdout.strip()
    assert lines(server, resource="secrets", verb="patch", name="hush")
    assert lines(server, resource="serviceaccounts", subresource="token")
    text = open(f"{server.data_dir}/audit.log").read()
    assert "correct-horse" not in text and "battery-staple" not in text and token not in text


def test_every_way_into_a_pod_is_recorded_once(server):
    server.api("POST", PODS, pod("box", "sleep", "1000"))
    server.wait(PODS, "box", ready)
    server.kubectl("exec", "box", "--", "echo", "very-private-argument")
    server.kubectl("logs", "box")
    for sub in ("exec", "log"):
        assert len(lines(server, verb="connect", resource="pods", subresource=sub, name="box", user="cay-admin")) == 1
    assert "very-private-argument" not in open(f"{server.data_dir}/audit.log").read()
    with pytest.raises(ApiError):
        request(server, server.tokens["nobody"], "POST", f"{PODS}/box/exec?command=true&stdout=true")
    assert len(lines(server, subresource="exec", name="box", status=403, user="system:serviceaccount:default:nobody")) == 1


def test_what_is_done_over_mcp_is_recorded_as_its_users(server):
    async def life():
        async with connect(server, token=server.tokens["alice"]) as t:
            name = await t.create()
            await t.execute_command(name, command="true")
            await t.delete_sandbox(name)
            return name

    name = asyncio.run(life())
    alice = "system:serviceaccount:default:alice"
    assert lines(server, user=alice, verb="create", resource="sandboxclaims", note="by MCP")
    assert lines(server, user=alice, verb="delete", resource="sandboxclaims", name=name, note="by MCP")
    assert lines(server, user=alice, verb="connect", resource="pods", subresource="exec")


def test_the_log_is_rotated_and_goes_on_after_a_kill(fresh):
    server = fresh("--audit-log-size", "2Ki", "--audit-log-keep", "2")
    path = f"{server.data_dir}/audit.log"
    for i in range(40):
        server.api("POST", MAPS, {"metadata": {"name": f"m{i}"}})
    wait_until(lambda: read(path) and read(path)[-1]["name"] == "m39" or read(f"{path}.1")[-1]["name"] == "m39")
    assert {n for n in os.listdir(server.data_dir) if n.startswith("audit")} == {"audit.log", "audit.log.1", "audit.log.2"}
    assert all(os.path.getsize(f"{path}{s}") <= 2048 for s in ("", ".1", ".2"))
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.start()
    server.api("DELETE", f"{MAPS}/m0")
    wait_until(lambda: any(line["verb"] == "delete" for line in read(path)))


def test_it_can_be_switched_off_or_be_elsewhere(fresh, tmp_path):
    server = fresh("--audit-log", str(tmp_path / "who"))
    server.api("POST", MAPS, {"metadata": {"name": "here"}})
    wait_until(lambda: any(line.get("name") == "here" for line in read(tmp_path / "who")))
    assert not os.path.exists(f"{server.data_dir}/audit.log")
    off = fresh("--audit-log", "none")
    off.api("POST", MAPS, {"metadata": {"name": "here"}})
    assert not os.path.exists(f"{off.data_dir}/audit.log")
    assert off.metric("cay_audit_records_total") == 0
