# SPDX-License-Identifier: Apache-2.0
"""/mcp with what no client would send: other people's sessions, messages that are none, and too much of everything."""

import json
import threading

import pytest

from cay_local import wait_until
from mcp_kit import CLAIMS, Raw, call, make_pool, request, token_of


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance("--service-account-grants", "default/alice=edit,default/bob=edit")
    c.tokens = {name: token_of(c, name) for name in ("alice", "bob")}
    return c


@pytest.fixture
def alice(cay):
    raw = Raw(cay, cay.tokens["alice"])
    raw.open()
    return raw


def test_nobody_is_let_in_without_a_credential(cay):
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}):
        raw = Raw(cay, token="")
        for method in ("POST", "GET", "DELETE"):
            status, answer, _ = raw.send(request("ping"), method, **headers)
            assert (status, answer["WWW-Authenticate"]) == (401, 'Bearer realm="cay"'), headers


def test_a_session_is_of_its_user_alone(cay, alice):
    bob = Raw(cay, cay.tokens["bob"])
    bob.headers["Mcp-Session-Id"] = alice.headers["Mcp-Session-Id"]
    status, _, answer = bob.send(request("tools/list"))
    assert (status, answer["error"]["code"]) == (404, -32001)
    assert bob.send(None, "DELETE")[0] == 404
    assert alice.send(request("tools/list"))[0] == 200
    alice.headers["Mcp-Session-Id"] = "0" * 32
    assert alice.send(request("tools/list"))[0] == 404


def test_a_session_ends_by_delete_and_begins_by_initialize(cay, alice):
    assert len(alice.headers["Mcp-Session-Id"]) == 32
    assert alice.send(None, "DELETE")[0] == 204
    assert alice.send(None, "DELETE")[0] == 404
    assert alice.send(request("ping"))[0] == 404
    status, _, answer = alice.send(request("tools/list"), Mcp_Session_Id=None)
    assert (status, answer["error"]["code"]) == (400, -32600)
    assert alice.send(request("ping"), Mcp_Session_Id=None)[0] == 200
    status, headers, _ = alice.send(None, "GET")
    assert (status, headers["Allow"]) == (405, "POST, DELETE")
    assert alice.send(None, "DELETE", Mcp_Session_Id=None)[0] == 400


def test_a_message_whose_session_ends_before_its_text_comes_is_refused(alice):
    body = json.dumps(request("ping")).encode()
    conn = alice.conn()
    conn.putrequest("POST", alice.path)
    for name, value in {**alice.headers, "Content-Length": str(len(body))}.items():
        conn.putheader(name, value)
    conn.endheaders()
    # The server has seen that head once it takes the DELETE, which comes on another connection after a whole exchange.
    assert alice.send(request("ping"))[0] == 200
    assert alice.send(None, "DELETE")[0] == 204
    conn.send(body)
    assert conn.getresponse().status == 404
    conn.close()


@pytest.mark.parametrize("asked,agreed", [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
                                          ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")])
def test_a_version_is_agreed_on(cay, asked, agreed):
    assert Raw(cay).open(asked)["protocolVersion"] == agreed


def test_a_version_that_nobody_speaks_is_refused(alice):
    assert alice.send(request("ping"), MCP_Protocol_Version="2025-06-18")[0] == 200
    status, _, answer = alice.send(request("ping"), MCP_Protocol_Version="2026-07-28")
    assert (status, answer["error"]["code"]) == (400, -32022)
    assert "2025-11-25" in answer["error"]["data"]["supported"]


META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def test_a_request_without_a_session_says_everything_itself(cay):
    raw = Raw(cay, cay.tokens["alice"], "?scope=user")
    head = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/list"}
    status, headers, answer = raw.send(request("tools/list", _meta=META), **head)
    assert status == 200 and "Mcp-Session-Id" not in headers
    assert (answer["result"]["resultType"], answer["result"]["cacheScope"]) == ("complete", "private")
    for params, more, code in (({}, {}, -32602), ({"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "x"}}, {}, -32020),
                               ({"_meta": META}, {"Mcp_Method": "ping"}, -32020), ({"_meta": META}, {"Mcp_Method": None}, -32020)):
        status, _, answer = raw.send(request("tools/list", **params), **{**head, **more})
        assert (status, answer["error"]["code"]) == (400, code)
    named = request("tools/call", name="file_exists", arguments={}, _meta=META)
    for name, status in (("file_exists", 200), ("=?base64?ZmlsZV9leGlzdHM=?=", 200), ("=?base64?!?=", 400), (None, 400), ("list_files", 400)):
        assert raw.send(named, **{**head, "Mcp_Method": "tools/call", "Mcp_Name": name})[0] == status, name
    for method in ("initialize", "ping", "nope"):
        assert raw.send(request(method, _meta=META), **{**head, "Mcp_Method": method})[0] == 404
    for query in ("", "?scope=session", "?scope=user&cleanup=true"):
        answer = Raw(cay, cay.tokens["alice"], query).send(request("tools/list", _meta=META), **head)
        assert answer[2]["error"]["code"] == -32022 and "2026-07-28" not in answer[2]["error"]["data"]["supported"]


def test_pages_of_other_sites_are_refused(alice):
    for origin in ("https://evil.example", "http://localhost.evil.example", "null", "http://127.0.0.1.evil.example"):
        assert alice.send(request("ping"), Origin=origin)[0] == 403, origin
    for origin in ("http://localhost:3000", "https://127.0.0.1", "http://[::1]:8"):
        assert alice.send(request("ping"), Origin=origin)[0] == 200, origin


def test_heads_that_are_wrong_are_refused(alice):
    assert alice.send("{}", Content_Type="text/plain")[0] == 415
    assert alice.send(request("ping"), Accept="text/html")[0] == 406
    status, headers, text = alice.send(request("ping"), Accept="text/event-stream")
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    assert text == b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
    for query in ("?scope=all", "?cleanup=maybe", "?namespace=No_Name", "?pool=-"):
        raw = Raw(alice.cay, alice.token, query)
        assert raw.send(request("ping"))[0] == 400, query


@pytest.mark.parametrize("body,code", [
    ("", -32700), ("nonsense", -32700), ("[" * 100 + "]" * 100, -32700), ('{"a":1,"a":2}', -32700), ("3", -32600), ("{}", -32600),
    ("[]", -32600), ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":1}', -32600),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600), (json.dumps(request("ping", "x" * 300)), -32600),
])
def test_what_is_no_message_is_refused(alice, body, code):
    status, _, answer = alice.send(body)
    assert (status, answer["error"]["code"], answer["id"]) == (400, code, None)


@pytest.mark.parametrize("message,code", [
    (request("nope"), -32601), (request("initialize"), -32602), (request("tools/call"), -32602), (request("tools/call", name="nope"), -32602),
    (request("tools/list", cursor="x"), -32602), (request("resources/read"), -32602), (request("resources/read", uri="x"), -32002),
])
def test_a_request_that_cannot_be_met_says_why(alice, message, code):
    status, _, answer = alice.send(message)
    assert (status, answer["error"]["code"], answer["id"]) == (200, code, 1)


@pytest.mark.parametrize("arguments", [[], "x", {"warmpool": 5}, {"warmpool": None}, {"warmpool": "a", "labels": []},
                                       {"warmpool": "a", "labels": {"a": 1}}, {"warmpool": "a", "shutdown_after_seconds": 0},
                                       {"warmpool": "a", "shutdown_after_seconds": 1.5}, {"warmpool": "A B"},
                                       {"warmpool": "a", "namespace": "../x"}, {"warmpool": "a", "sandbox_ready_timeout": 1e300},
                                       {"warmpool": "a", "labels": {"bad key": "x"}}, {"warmpool": "a", "labels": {str(i): "x" for i in range(65)}}])
def test_arguments_of_the_wrong_shape_are_an_error_of_the_tool(alice, arguments):
    status, _, answer = alice.send(request("tools/call", name="create_sandbox", arguments=arguments))
    assert status == 200 and answer["result"]["isError"] is True
    assert not alice.cay.api("GET", CLAIMS)["items"]


def test_notifications_and_responses_are_accepted(alice):
    for body in ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 4, "result": {}},
                 {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
                 {"jsonrpc": "2.0", "method": "notifications/cancelled"}):
        status, _, text = alice.send(body)
        assert (status, text) == (202, b"")


def test_lists_of_messages_are_of_one_version(cay, alice):
    both = [request("ping", 1), {"jsonrpc": "2.0", "method": "notifications/x"}, request("nope", 2), 5]
    assert alice.send(both)[0] == 400
    raw = Raw(cay)
    raw.open("2025-03-26")
    status, _, answers = raw.send(both)
    assert status == 200 and [a["id"] for a in answers] == [1, 2, None]
    assert raw.send([request("ping", i) for i in range(33)])[0] == 400
    assert raw.send([request("initialize", protocolVersion="2025-03-26")])[0] == 400
    assert raw.send([{"jsonrpc": "2.0", "method": "notifications/x"}])[0] == 202


def test_a_message_has_a_limit(alice):
    status, _, _ = alice.send(json.dumps(request("ping", pad="x" * (3 << 20))))
    assert status == 413
    for _ in range(40):  # none of them stays behind as a request under way
        assert alice.send(None, Content_Length=str(4 << 20))[0] == 413
    assert alice.send(request("ping"))[0] == 200


def test_a_thousand_sessions_take_the_place_of_the_oldest(cay):
    raw = Raw(cay, cay.tokens["bob"])
    other = Raw(cay, cay.tokens["alice"])
    other.open()
    raw.open()
    first = raw.headers["Mcp-Session-Id"]
    conn = raw.conn()
    body = json.dumps(request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={}))
    for _ in range(1000):
        conn.request("POST", "/mcp", body, {k: v for k, v in raw.headers.items() if k != "Mcp-Session-Id"})
        answer = conn.getresponse()
        answer.read()
    conn.close()
    raw.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
    assert raw.send(request("tools/list"))[0] == 200
    assert raw.send(request("tools/list"), Mcp_Session_Id=first)[0] == 404
    assert other.send(request("tools/list"))[0] == 200  # the sessions of another user stay
    assert 256 <= cay.metric("cay_mcp_sessions") < 400


def in_background(raw, message):
    """Sends it from another thread; the answer is in [0] once the thread has ended."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(raw.send(message)))
    thread.start()
    return thread, answers


@pytest.fixture(scope="module")
def box(cay):
    make_pool(cay, replicas=1)
    raw = Raw(cay, cay.tokens["alice"])
    raw.open()
    answer = raw.send(call("create_sandbox", warmpool="plain", shutdown_after_seconds=None))[2]
    return answer["result"]["structuredContent"]["sandbox_claim_name"]


def scoped(cay):
    raw = Raw(cay, cay.tokens["alice"], "?scope=user")
    raw.open()
    return raw


def shell(raw, box, command, id=1, **more):
    return call("execute_command", id, sandbox_claim_name=box, command=command, **more)


def wait_for_file(raw, box, path):
    wait_until(lambda: raw.send(call("file_exists", 900, sandbox_claim_name=box, path=path))[2]["result"]["structuredContent"]["exists"])


def test_the_end_of_a_session_ends_its_commands(cay, box):
    raw, watcher = scoped(cay), scoped(cay)
    thread, answers = in_background(raw, shell(raw, box, "echo $$ >/tmp/run; exec sleep 1000", 7, timeout=600))
    wait_for_file(watcher, box, "/tmp/run")
    status, _, answer = raw.send(request("ping", 7))
    assert answer["error"]["message"] == "a request with this id is under way"
    assert raw.send(None, "DELETE")[0] == 204
    thread.join(30)
    assert answers[0][2]["error"]["code"] == -32800
    gone = shell(watcher, box, "kill -0 $(cat /tmp/run) 2>/dev/null && echo alive; true")
    wait_until(lambda: watcher.send(gone)[2]["result"]["structuredContent"]["stdout"] == "")


def test_requests_under_way_have_a_limit(cay, box):
    raw, watcher = scoped(cay), Raw(cay)
    running = [in_background(raw, shell(raw, box, f"touch /tmp/n{i}; exec sleep 1000", 100 + i, timeout=600)) for i in range(32)]
    watcher.open()
    wait_until(lambda: raw.send(request("ping"))[0] == 429)
    status, headers, _ = raw.send(request("ping"))
    assert (status, headers["Retry-After"]) == (429, "1")
    assert watcher.send(request("ping"))[0] == 200  # another user is served
    assert raw.send(None, "DELETE")[0] == 204
    for thread, _ in running:
        thread.join(30)
    codes = [answers[0][2]["error"]["code"] for _, answers in running]
    assert codes.count(-32800) >= 30 and set(codes) <= {-32800, -32000}  # one of our own pings may have taken a place


def test_messages_under_way_have_a_limit_of_bytes(cay, box):
    """Uploads that the sandbox does not read."""
    raw = scoped(cay)
    fifo = shell(raw, box, "mkfifo /tmp/never; touch /tmp/made")
    assert raw.send(fifo)[0] == 200
    large = [in_background(raw, call("upload_file", 200 + i, sandbox_claim_name=box, path="/tmp/never", content="x" * 3_000_000, timeout=600))
             for i in range(8)]
    wait_until(lambda: any(answers and answers[0][0] == 429 for _, answers in large))
    assert raw.send(request("ping"))[0] == 200  # small ones have room
    assert raw.send(None, "DELETE")[0] == 204
    for thread, _ in large:
        thread.join(30)
    statuses = sorted(answers[0][0] for _, answers in large)
    assert statuses == [200] * 5 + [429] * 3


def test_a_client_that_leaves_cancels_nothing(cay, box):
    raw = scoped(cay)
    conn = raw.conn()
    conn.request("POST", raw.path, json.dumps(shell(raw, box, "touch /tmp/began; sleep 1; touch /tmp/went-on")), raw.headers)
    wait_for_file(raw, box, "/tmp/began")
    conn.close()
    wait_for_file(raw, box, "/tmp/went-on")
