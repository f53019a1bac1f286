# SPDX-License-Identifier: Apache-2.0
"""Watches over WebSocket, as a kube-apiserver has them: one event in a message."""

import json
import ssl

import pytest
import websocket
from cay_local import wait_until

MAPS = "/api/v1/namespaces/default/configmaps"


def dial(cay, query, protocols=None, headers=None):
    """With the administrator's certificate."""
    context = cay.context()
    return websocket.create_connection(f"wss://127.0.0.1:{cay.port}{MAPS}?watch=true{query}", subprotocols=protocols, header=headers or {},
                                       sslopt={"context": context, "check_hostname": False, "cert_reqs": ssl.CERT_NONE}, timeout=60)


def event(ws):
    message = json.loads(ws.recv())
    return message["type"], message["object"]


def version(cay):
    return cay.api("GET", MAPS)["metadata"]["resourceVersion"]


def test_each_event_is_a_message(cay):
    ws = dial(cay, f"&resourceVersion={version(cay)}")
    assert ws.getsubprotocol() is None
    cay.api("POST", MAPS, {"metadata": {"name": "told"}, "data": {"a": "1"}})
    kind, told = event(ws)
    assert (kind, told["metadata"]["name"], told["data"]) == ("ADDED", "told", {"a": "1"})
    cay.api("PATCH", f"{MAPS}/told", {"data": {"a": "2"}}, "application/merge-patch+json")
    assert event(ws)[0] == "MODIFIED"
    cay.api("DELETE", f"{MAPS}/told")
    assert event(ws)[0] == "DELETED"
    ws.close()


def test_what_existed_comes_first_however_much_it_is(cay):
    names = {f"many-{i}" for i in range(300)}
    for name in names:
        cay.api("POST", MAPS, {"metadata": {"name": name}, "data": {"filler": "x" * 5000}})
    ws = dial(cay, "")
    seen = set()
    while not names <= seen:
        kind, obj = event(ws)
        assert kind == "ADDED"
        seen.add(obj["metadata"]["name"])
    ws.close()
    for name in names:
        cay.api("DELETE", f"{MAPS}/{name}")


def test_a_single_protocol_is_confirmed_and_two_are_refused(cay):
    ws = dial(cay, f"&resourceVersion={version(cay)}", ["watch.example.org"])
    assert ws.getsubprotocol() == "watch.example.org"
    ws.close()
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        dial(cay, f"&resourceVersion={version(cay)}", ["a", "b"])
    assert refused.value.status_code == 400


def test_it_ends_in_time_and_with_the_right_to_it(cay):
    ws = dial(cay, f"&resourceVersion={version(cay)}&timeoutSeconds=1")
    assert ws.recv_data()[0] == websocket.ABNF.OPCODE_CLOSE
    cay.kubectl("create", "serviceaccount", "watcher")
    cay.kubectl("create", "rolebinding", "watcher", "--clusterrole=view", "--serviceaccount=default:watcher")
    token = cay.kubectl("create", "token", "watcher").stdout.strip()
    ws = websocket.create_connection(f"wss://127.0.0.1:{cay.port}{MAPS}?watch=true&resourceVersion={version(cay)}", timeout=60,
                                     header={"Authorization": f"Bearer {token}"}, sslopt={"cert_reqs": ssl.CERT_NONE})
    cay.api("POST", MAPS, {"metadata": {"name": "seen"}})
    assert event(ws)[1]["metadata"]["name"] == "seen"
    cay.kubectl("delete", "rolebinding", "watcher")
    assert ws.recv_data()[0] == websocket.ABNF.OPCODE_CLOSE


def test_what_a_client_says_is_ignored_and_limited(cay):
    ws = dial(cay, f"&resourceVersion={version(cay)}")
    ws.send("hello")
    ws.send_binary(b"\x00" * 100)
    cay.api("POST", MAPS, {"metadata": {"name": "still"}})
    assert event(ws)[1]["metadata"]["name"] == "still"
    ws.send("x" * 5000)
    assert ws.recv_data()[0] == websocket.ABNF.OPCODE_CLOSE
    cay.api("DELETE", f"{MAPS}/still")


def test_no_watch_is_left_when_clients_leave(cay):
    open_ones = [dial(cay, f"&resourceVersion={version(cay)}") for _ in range(20)]
    assert cay.metric("cay_api_watches") >= 20
    for ws in open_ones:
        ws.sock.close()
    wait_until(lambda: cay.metric("cay_api_watches") == 0)
