# SPDX-License-Identifier: Apache-2.0
"""Much into a sandbox and out of it again, through the router: the same bytes, and nobody keeps them in memory."""

import hashlib
import http.client
import json
import pathlib
import random

import pytest

SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
FLAT_KB = 24 * 1024  # of growth: buffers, not a part of what passes


def pieces(size):
    rng, block = random.Random(7), 1 << 20
    data = rng.randbytes(block)
    for i in range(size // block):
        yield i.to_bytes(8, "big") + data[8:]


@pytest.fixture(scope="module")
def box(cay):
    cay.api("POST", SANDBOXES,
            {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box"}, "spec": {"podTemplate": {
                "metadata": {"annotations": {"cay.dev/runtime": "python,sandboxd"}},
                "spec": {"containers": [{"name": "c", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, "box")
    return "box"


def request(cay, box, method, path, body=None, headers=None, port=8080):
    conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=300)
    conn.request(method, path, body, {"X-Sandbox-ID": box, "X-Sandbox-Port": str(port), **(headers or {})})
    return conn.getresponse()


def digest(answer):
    sha, n = hashlib.sha256(), 0
    while data := answer.read(1 << 20):
        sha.update(data)
        n += len(data)
    return n, sha.hexdigest()


def peak(pid):
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0])


def runtime_peak(cay, box):
    return int(cay.execute(box, "grep VmHWM /proc/$PPID/status")["stdout"].split()[1])


@pytest.mark.alone
@pytest.mark.parametrize("size", [128 << 20, pytest.param(1 << 30, marks=pytest.mark.long)])
def test_what_goes_in_comes_out_and_nobody_keeps_it(cay, box, size):
    sha = hashlib.sha256()
    for piece in pieces(size):
        sha.update(piece)
    assert request(cay, box, "PUT", "/v1/files/warm", b"x").status == 204
    before = peak(cay.process.pid)
    answer = request(cay, box, "PUT", "/v1/files/big", pieces(size), {"Content-Length": str(size)})
    assert answer.status == 204, answer.read()
    assert digest(request(cay, box, "GET", "/v1/files/big")) == (size, sha.hexdigest())
    assert cay.execute(box, "sha256sum < /workspace/big || sha256sum < big")["stdout"].split()[0] == sha.hexdigest()
    text = hashlib.sha256(b'{"stdout":"' + b"y" * size + b'","stderr":"","exit_code":0,"timed_out":false}').hexdigest()
    answer = request(cay, box, "POST", "/execute", json.dumps({"command": f"head -c {size} /dev/zero | tr '\\0' y"}), port=8888)
    assert digest(answer)[1] == text
    assert runtime_peak(cay, box) < 8192
    assert peak(cay.process.pid) - before < FLAT_KB
    assert request(cay, box, "DELETE", "/v1/files/big").status == 204
