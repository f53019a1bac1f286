# SPDX-License-Identifier: Apache-2.0
"""Readers who ask for much and read nothing: what they hold of the server's memory is bounded, and so is what one user may ask for."""

import concurrent.futures
import http.client
import json
import socket
import ssl
import time

import pytest
from conftest import Cay, finish, make_dir, needs_root

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 1500
READERS = 100
MIB = 1 << 20


@pytest.fixture(scope="module")
def full(request):
    """An instance whose list of ConfigMaps has 12 MiB: more than any socket buffer takes."""
    needs_root()
    cay = Cay(make_dir(), flags=["--stop-sandboxes", "--service-account-grants", "default/reader=view"]).start()
    request.addfinalizer(lambda: finish(cay))
    cay.kubectl("create", "serviceaccount", "reader")
    cay.context()

    def some(part):
        conn = cay.connect()
        for i in part:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{i}"}, "data": {"text": "x" * 8192}}
            conn.request("POST", MAPS, json.dumps(body), {"Content-Type": "application/json"})
            answer = conn.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(some, [range(k, OBJECTS, 8) for k in range(8)]))
    return cay


def rss(cay):
    with open(f"/proc/{cay.process.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))


def metric(cay, name):
    conn = cay.connect()
    conn.request("GET", "/metrics")
    text = conn.getresponse().read().decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def await_nothing_held(cay):
    """The server hears that its readers have left."""
    deadline = time.monotonic() + 60
    while metric(cay, "cay_api_answer_bytes"):
        assert time.monotonic() < deadline, "what was held is not free again"


class Deaf:
    """A connection that asks, reads the head of the answer, and then nothing."""

    def __init__(self, cay, path, token=None, accept="application/json"):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(60)
        raw.connect(("127.0.0.1", cay.port))
        self.sock = (ssl._create_unverified_context() if token else cay.context()).wrap_socket(raw, server_hostname="127.0.0.1")
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: cay\r\nAccept: {accept}\r\n{bearer}\r\n".encode())
        self.answer = http.client.HTTPResponse(self.sock)
        self.answer.begin()

    def close(self):
        self.answer.close()
        self.sock.close()


@pytest.mark.parametrize("accept", ["application/json", "application/vnd.kubernetes.protobuf"])
@pytest.mark.parametrize("path", [MAPS, MAPS + "?watch=1&resourceVersion=0", MAPS + "?limit=1400"])
def test_readers_who_do_not_read_hold_little(full, path, accept):
    """Each holds 64 KiB of answer and what TLS needs; they used to hold the whole list, 12 MiB each."""
    cay, deaf = full, []
    before = rss(cay)
    try:
        for _ in range(READERS):
            deaf.append(Deaf(cay, path, accept=accept))
            assert deaf[-1].answer.status == 200
        small = cay.api("GET", MAPS + "/c1")["metadata"]["name"]
        assert small == "c1" and metric(cay, "cay_api_answer_bytes") <= READERS * 128 * 1024
        assert rss(cay) - before < 48 * MIB
    finally:
        for d in deaf:
            d.close()
    await_nothing_held(cay)


def test_a_user_who_reads_nothing_gets_429_and_others_do_not(full):
    cay, deaf = full, []
    token = cay.kubectl("create", "token", "reader").stdout.strip()
    try:
        while not deaf or deaf[-1].answer.status == 200:
            assert len(deaf) < READERS, "there is no limit"
            deaf.append(Deaf(cay, MAPS, token))
        refused = deaf[-1].answer
        status = json.loads(refused.read())
        assert refused.status == status["code"] == 429 and refused.getheader("Retry-After") == "1"
        assert status["reason"] == "TooManyRequests" and status["details"]["retryAfterSeconds"] == 1
        assert len(cay.api("GET", MAPS)["items"]) == OBJECTS + 1  # another user; one is that of the root CA
    finally:
        for d in deaf:
            d.close()
    await_nothing_held(cay)
    again = Deaf(cay, MAPS + "/c1", token)
    assert again.answer.status == 200
    again.close()


def test_a_slow_reader_gets_the_list_as_it_was(full):
    cay = full
    slow = Deaf(cay, MAPS)
    cay.api("DELETE", MAPS + "/c999")
    cay.api("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}})
    names = {o["metadata"]["name"] for o in json.loads(slow.answer.read())["items"]}
    slow.close()
    assert "c999" in names and "later" not in names
    assert len(names) == len(cay.api("GET", MAPS)["items"])
