# SPDX-License-Identifier: Apache-2.0
"""sandboxd's ports under each runtime, through the router and kubectl's tunnel: files, archives, changes, WebSocket and gRPC."""

import http.client
import io
import json
import re
import subprocess
import tarfile

import grpc
import pytest
import websocket

from rpc_kit import M, number_of, read_rest
from runtime_kit import read_events
from test_runtimes import container, need, pod_of

SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"


@pytest.fixture(scope="module", params=["native", "crun", "runsc"])
def box(cay, request):
    need(request.param)
    name = f"box-{request.param}"
    pod = pod_of(name, request.param, container(["sleep", "infinity"]))
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {
        "podTemplate": {"metadata": {"annotations": {"cay.dev/runtime": "sandboxd"}}, "spec": pod["spec"]}}})
    cay.wait_ready(SANDBOXES, name)
    return name


def ask(cay, box, method, path, body=None):
    conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60)
    conn.request(method, path, body, {"X-Sandbox-ID": box, "X-Sandbox-Port": "8080"})
    answer = conn.getresponse()
    return answer.status, answer.read()


def test_files_are_put_replaced_and_deleted(cay, box):
    for data in (b"first and longer", b"second"):
        assert ask(cay, box, "PUT", "/v1/files/d/f?mode=0600", data) == (204, b"")
        assert ask(cay, box, "GET", "/v1/files/d/f") == (200, data)
    entries = json.loads(ask(cay, box, "GET", "/v1/files/d")[1])["entries"]
    assert [(e["name"], e["mode"]) for e in entries] == [("f", "0600")]  # and nothing temporary
    assert ask(cay, box, "GET", "/v1/files/..")[0] == 403
    assert ask(cay, box, "DELETE", "/v1/files/d?recursive=true")[0] == 204 and ask(cay, box, "GET", "/v1/files/d/f")[0] == 404


def test_archives_go_in_and_come_out(cay, box):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("sub/f")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"bytes"))
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "sub/f"
        tar.addfile(link)
    assert ask(cay, box, "PUT", "/v1/archive/tree", out.getvalue())[0] == 200
    status, data = ask(cay, box, "GET", "/v1/archive/tree")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert sorted(tar.getnames()) == ["l", "sub", "sub/f"] and tar.extractfile("sub/f").read() == b"bytes"
    assert ask(cay, box, "DELETE", "/v1/files/tree?recursive=true")[0] == 204


def test_changes_are_told(cay, box):
    conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60)
    conn.request("GET", "/v1/watch/?recursive=true", headers={"X-Sandbox-ID": box, "X-Sandbox-Port": "8080"})
    events = read_events(conn.getresponse())
    assert next(events)[0] == "watching"
    assert ask(cay, box, "PUT", "/v1/files/seen/f", b"x")[0] == 204
    assert next(e for e in events if e[2].get("path") == "seen/f")[0] in ("create", "rename")
    conn.close()
    assert ask(cay, box, "DELETE", "/v1/files/seen?recursive=true")[0] == 204


def test_a_terminal_over_websocket(cay, box):
    ws = websocket.create_connection(f"ws://127.0.0.1:{cay.router_port}/v1/exec?command=sh&command=-c&command=stty%20size;%20exit%203"
                                     "&tty=true&cols=90&rows=30", header=[f"X-Sandbox-ID: {box}", "X-Sandbox-Port: 8080"], timeout=60)
    got = b""
    while (data := ws.recv()) and data[0] == 1:
        got += data[1:]
    assert got == b"30 90\r\n" and json.loads(data[1:])["exit_code"] == 3
    ws.close()


def test_commands_over_grpc(cay, box):
    tunnel = subprocess.Popen(["kubectl", "port-forward", box, ":9090"], stdout=subprocess.PIPE, text=True,
                              env={"KUBECONFIG": cay.kubeconfig, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": cay.data_dir})
    try:
        port = re.search(r"127.0.0.1:(\d+)", tunnel.stdout.readline())[1]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            start = channel.unary_stream("/process.v1.ProcessService/Start", lambda m: m.SerializeToString(), M["StartResponse"].FromString)
            stream = start(M["StartRequest"](config=M["ProcessConfig"](command=["sh", "-c", "echo out; kill -9 $$"])), timeout=60)
            number_of(stream)
            assert read_rest(stream) == (b"out\n", b"", 137)
            slow = start(M["StartRequest"](config=M["ProcessConfig"](command=["sleep", "60"])), timeout=1)
            with pytest.raises(grpc.RpcError) as e:
                list(slow)
            assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        tunnel.kill()
        tunnel.wait()
