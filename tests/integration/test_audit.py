# SPDX-License-Identifier: Apache-2.0
"""The audit log: one line for each write and each entry into a sandbox, by whom, and nothing that is secret."""

import asyncio
import http.client
import json
import os
import signal
import ssl
import subprocess

import pytest

from cay_local import ApiError, wait_until
from mcp_kit import connect, make_pool, token_of
from test_node_pods import pod, ready

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"


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


def test_what_pod_security_finds_is_with_the_write(server):
    key = "pod-security.kubernetes.io/"
    server.api("POST", "/api/v1/namespaces", {"metadata": {"name": "watched", "labels": {key + "audit": "restricted", key + "enforce": "baseline"}}})
    pods = "/api/v1/namespaces/watched/pods"
    server.api("POST", pods, pod("plain", "sleep", "1000"))
    [line] = lines(server, verb="create", resource="pods", namespace="watched", name="plain", status=201)
    assert line["annotations"][key + "enforce-policy"] == "baseline:latest"
    assert line["annotations"][key + "audit-violations"].startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container ')
    forbidden = pod("host", "sleep", "1000")
    forbidden["spec"]["hostNetwork"] = True
    with pytest.raises(ApiError):
        server.api("POST", pods, forbidden)
    [line] = lines(server, verb="create", namespace="watched", name="host", status=403)
    assert "host namespaces (hostNetwork=true)" in line["annotations"][key + "audit-violations"]
    sandboxes = SANDBOXES.replace("/default/", "/watched/")
    server.api("POST", sandboxes, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box"},
                                   "spec": {"operatingMode": "Suspended", "podTemplate": {"spec": pod("x", "true")["spec"]}}})
    [line] = lines(server, verb="create", resource="sandboxes", namespace="watched", name="box")
    assert list(line["annotations"]) == [key + "audit-violations"]
    server.api("PATCH", f"{pods}/plain", {"metadata": {"labels": {"a": "b"}}}, content_type="application/merge-patch+json")
    assert "annotations" not in lines(server, verb="patch", namespace="watched", name="plain")[0], "nothing that a level is about has changed"
    server.api("POST", PODS, pod("free", "true"))
    assert "annotations" not in lines(server, verb="create", resource="pods", namespace="default", name="free")[0]


@pytest.fixture(scope="module")
def web(server):
    """A Sandbox with something that answers on port 8000."""
    command = ["python3", "-m", "http.server", "8000"]
    server.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "web"},
                                   "spec": {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "host", "command": command}]}}}})
    server.wait_ready(SANDBOXES, "web")
    return "web"


def entries(server, count=1, **want):
    return lines(server, count, verb="connect", group="agents.x-k8s.io", resource="sandboxes", **want)


def enter(server, token=None, sandbox="web", path="/", uid=None, headers=None):
    """The status of one request through the router, by a token, or by a user of this machine."""
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{server.router_port}{path}",
            "-H", f"X-Sandbox-ID: {sandbox}", "-H", "X-Sandbox-Port: 8000", *(["-H", f"Authorization: Bearer {token}"] if token else [])]
    return int(subprocess.run(argv, capture_output=True, text=True, user=uid, check=False).stdout)


def test_a_request_through_the_router_is_recorded_with_who_where_and_how_it_ended(server, web):
    assert enter(server, path="/?pass=hidden-thing") == 200
    line = entries(server, user="uid 0 of this machine", name=web, status=200)[-1]
    assert line["namespace"] == "default" and line["port"] == 8000 and line["subresource"] == "proxy"
    assert line["from"].startswith("127.0.0.1:") and line["tookMicros"] > 0
    assert enter(server, path="/nothing/hidden-thing") == 404
    assert entries(server, name=web, status=404)
    assert "hidden-thing" not in open(f"{server.data_dir}/audit.log").read()


def test_a_token_names_its_user_whether_it_lets_in_or_not(server, web):
    alice, nobody = (f"system:serviceaccount:default:{name}" for name in ("alice", "nobody"))
    assert enter(server, server.tokens["alice"], uid=65534) == 200
    assert entries(server, user=alice, name=web, status=200)
    assert enter(server, server.tokens["nobody"], uid=65534) == 403
    assert "pods/exec" in entries(server, user=nobody, name=web, status=403)[-1]["note"]


def test_strangers_cannot_fill_the_log(server, web):
    before = len(read(f"{server.data_dir}/audit.log"))
    for token in (None, "made.up.token"):
        assert enter(server, token, uid=65534) == 401
    enter(server)
    entries(server)
    assert not [line for line in read(f"{server.data_dir}/audit.log")[before:] if line.get("status") == 401]


def test_requests_on_one_connection_are_a_record_each(server, web):
    before = len(entries(server, name=web, status=200))
    conn = http.client.HTTPConnection("127.0.0.1", server.router_port, timeout=60)
    for _ in range(3):
        conn.request("GET", "/", headers={"X-Sandbox-ID": web, "X-Sandbox-Port": "8000"})
        assert conn.getresponse().read() is not None
    conn.close()
    found = entries(server, before + 3, name=web, status=200)
    assert len(found) == before + 3 and len({line["from"] for line in found[-3:]}) == 1


def test_a_signed_url_is_recorded_when_it_is_made_and_when_it_is_used(server, web):
    url = server.cay("url", web, "8000", "--router", f"http://127.0.0.1:{server.router_port}").stdout.strip()
    assert entries(server, name=web, subresource="url", status=200)[-1]["user"]
    path, host = url.split("/", 3)[3], url.split("/")[2].split(":")[0]
    answer = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{server.router_port}/{path}", "-H", f"Host: {host}:{server.router_port}"],
                            capture_output=True, text=True, user=65534)
    assert answer.stdout == "303"
    assert entries(server, user="bearer of a signed URL or scoped token", name=web, status=303)


def test_the_log_is_rotated_and_goes_on_after_a_kill(fresh):
    server = fresh("--audit-log-size", "2Ki", "--audit-log-keep", "2")
    path = f"{server.data_dir}/audit.log"
    for i in range(40):
        server.api("POST", MAPS, {"metadata": {"name": f"m{i}"}})
    wait_until(lambda: any(line.get("name") == "m39" for line in [*read(path), *read(f"{path}.1")]))
    assert {n for n in os.listdir(server.data_dir) if n.startswith("audit.log")} - {"audit.log.head"} == {
        "audit.log", "audit.log.1", "audit.log.2"}
    assert all(os.path.getsize(f"{path}{s}") <= 2048 for s in ("", ".1", ".2"))
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.start()
    server.api("DELETE", f"{MAPS}/m0")
    wait_until(lambda: any(line.get("verb") == "delete" for line in read(path)))


def test_it_can_be_switched_off_or_be_elsewhere(fresh, tmp_path):
    server = fresh("--audit-log", str(tmp_path / "who"))
    server.api("POST", MAPS, {"metadata": {"name": "here"}})
    wait_until(lambda: any(line.get("name") == "here" for line in read(tmp_path / "who")))
    assert not os.path.exists(f"{server.data_dir}/audit.log")
    off = fresh("--audit-log", "none")
    off.api("POST", MAPS, {"metadata": {"name": "here"}})
    assert not os.path.exists(f"{off.data_dir}/audit.log")
    assert off.metric("cay_audit_records_total") == 0
