# SPDX-License-Identifier: Apache-2.0
"""A guest that was taken over cannot hurt the daemon: hostile_guest.c stands in for cay-init and breaks the protocol."""

import os
import shutil
import subprocess

import pytest
import websocket

from cay_local import Cay, wait_until
from conftest import finish, make_dir, needs_root

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
MUCH = 400_000_000
LITTLE = 32 << 20  # what sockets, windows and the allocator may hold on the way
STILL_S = 2  # no byte was taken for so long: the way is full


@pytest.fixture(scope="module")
def cay():
    needs_root()
    directory = make_dir()
    guest = os.path.join(directory, "hostile_guest")
    subprocess.run(["cc", "-static", "-O1", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", guest,
                    os.path.join(os.path.dirname(__file__), "hostile_guest.c")], check=True)
    c = Cay(directory, flags=["--stop-sandboxes", "--init", guest])
    c.start()
    yield c
    finish(c)
    shutil.rmtree(directory, ignore_errors=True)


def start(cay, mode):
    cay.api("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": mode}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "host", "command": [mode]}]}})


def running(pod):
    return pod["status"].get("phase") == "Running"


def ended(pod):
    return pod["status"].get("phase") in ("Failed", "Succeeded")


def ws_exec(cay, pod):
    return websocket.create_connection(
        f"wss://127.0.0.1:{cay.port}{PODS}/{pod}/exec?command=cat&stdin=1&stdout=1&stderr=1",
        sslopt={"context": cay.context()}, subprotocols=["v5.channel.k8s.io"], timeout=STILL_S)


def rss(cay):
    with open(f"/proc/{cay.process.pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


def pour(ws):
    """Bytes of input that were taken before nothing more was, or before the session was cut."""
    block, sent = b"\0" + bytes(1 << 16), 0
    while sent < MUCH:
        try:
            ws.send_binary(block)
        except (OSError, websocket.WebSocketException):
            break
        sent += len(block)
    ws.sock.close()
    return sent


def broken_events(cay, pod):
    """Events are written a moment after what they tell of."""
    return wait_until(lambda: [e for e in cay.api("GET", EVENTS)["items"]
                               if e["involvedObject"]["name"] == pod and e["reason"] == "GuestProtocolError"])


@pytest.mark.parametrize("mode, says", [
    ("hostile-task-output", "STDOUT on stream 0"),
    ("hostile-task-state", "STATE on stream 0"),
    ("hostile-credit", "4294967295 bytes of credit"),
    ("hostile-stream", "STDOUT on stream 77"),
    ("hostile-size", "frame length 2147483647"),
    ("hostile-code", "exit code 70000"),
])
def test_a_broken_protocol_ends_the_container_and_says_how(cay, mode, says):
    start(cay, mode)
    if "-task-" not in mode:
        cay.wait(PODS, mode, running)
        _, told = ws_exec(cay, mode).recv_data()
        assert told[:1] == b"\3" and says.encode() in told, told  # the error channel
    state = cay.wait(PODS, mode, ended)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("GuestProtocolError", 137)
    assert says in state["message"]
    events = broken_events(cay, mode)
    assert len(events) == 1 and says in events[0]["message"] and events[0]["type"] == "Warning"


def pour_into(cay, mode):
    """(bytes taken from the client, bytes that the daemon grew by)"""
    start(cay, mode)
    cay.wait(PODS, mode, running)
    before = rss(cay)
    sent = pour(ws_exec(cay, mode))
    grown = rss(cay) - before
    print(f"{mode}: {sent >> 10} KiB taken, the daemon grew by {grown >> 10} KiB")
    return sent, grown


def test_input_that_a_guest_does_not_read_stays_with_the_client(cay):
    sent, grown = pour_into(cay, "hostile-deaf")
    assert sent < LITTLE and grown < LITTLE


def test_credit_without_end_does_not_fill_the_daemon(cay):
    _, grown = pour_into(cay, "hostile-generous")
    assert grown < LITTLE


def test_output_that_a_client_does_not_read_stays_with_the_guest(cay):
    start(cay, "hostile-talker")
    cay.wait(PODS, "hostile-talker", running)
    before = rss(cay)
    clients = [ws_exec(cay, "hostile-talker") for _ in range(8)]
    with pytest.raises(TimeoutError):  # time for it to come
        cay.wait(PODS, "hostile-talker", ended, timeout=STILL_S)
    grown = rss(cay) - before
    assert grown < LITTLE, f"the daemon grew by {grown >> 10} KiB"
    for c in clients:
        c.sock.close()
    cay.api("GET", "/api/v1/namespaces/default")
