# SPDX-License-Identifier: Apache-2.0
"""Events that start sessions: who is believed, what is taken once, and what becomes of it, on a real server with real sandboxes."""

import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import re
import ssl
import subprocess
import threading
import time

import pytest

from cay_local import ROOT, wait_until
from mcp_kit import make_pool

NS = "/apis/cay.dev/v1alpha1/namespaces/default"
SECRETS = "/api/v1/namespaces/default/secrets"
SECRET = b"a secret that both sides know"
COMMAND = ["sh", "-c", "cat >>/tmp/events; echo >>/tmp/events; echo taken"]


def put(cay, plural, kind, name, spec):
    return cay.api("POST", f"{NS}/{plural}", {"apiVersion": "cay.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def make_agent(cay, name="worker", pool="plain", **spec):
    put(cay, "agents", "Agent", name, {"sandbox": {"warmPoolRef": {"name": pool}}, "capabilities": {"rights": ["exec", "read", "write"]}, **spec})


def make_trigger(cay, name, agent="worker", **spec):
    put(cay, "triggers", "Trigger", name,
        {"agent": agent, "secretRef": {"name": "hook", "key": "key"}, "command": COMMAND, "sessionKey": ".number", **spec})


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    prepare(c)
    return c


def prepare(c, pool=True):
    if pool:
        make_pool(c)
    c.api("POST", SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook"}, "stringData": {"key": SECRET.decode()}})
    make_agent(c)


def mac(text, secret=SECRET):
    return "sha256=" + hmac.new(secret, text, hashlib.sha256).hexdigest()


def github(body, delivery=None, secret=SECRET):
    return {"X-Hub-Signature-256": mac(body, secret), **({"X-GitHub-Delivery": delivery} if delivery else {})}


def plain(body, delivery=None, secret=SECRET, at=None):
    stamp = f"{time.time() if at is None else at:.6f}"
    return {"X-Cay-Timestamp": stamp, "X-Cay-Signature": mac(stamp.encode() + b"." + body, secret),
            **({"X-Cay-Delivery": delivery} if delivery else {})}


def connect(cay):
    """With no credential of the API."""
    return http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=120,
                                       context=ssl.create_default_context(cadata=cay.credentials()[0].decode()))


def post(cay, name, body, headers, method="POST", ns="default"):
    conn = connect(cay)
    try:
        conn.request(method, f"/hooks/{ns}/{name}", body, {"Content-Type": "application/json", **headers})
        answer = conn.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text, answer.headers
    finally:
        conn.close()


def send(cay, name, event, delivery=None, sign=plain):
    """A right delivery: its answer."""
    body = json.dumps(event).encode()
    status, answer, _ = post(cay, name, body, sign(body, delivery))
    assert status == 202, answer
    return answer


def deliveries(cay, name):
    return cay.api("GET", f"{NS}/triggers/{name}").get("status", {}).get("deliveries", [])


def outcome(cay, name, delivery, *wanted, not_yet=("Accepted", "Waiting")):
    """Its entry, once it has ended, or has one of these outcomes."""
    found = []

    def there():
        found[:] = [d for d in deliveries(cay, name) if d["id"] == delivery and d["outcome"] != "Duplicate"]
        return found and (found[0]["outcome"] in wanted if wanted else found[0]["outcome"] not in not_yet)
    wait_until(there)
    return found[0]


def sandbox_of(cay, session):
    return cay.api("GET", f"{NS}/sessions/{session}")["status"]["sandbox"]


def active(cay, session):
    """Waits until it is; it may not even be there yet."""
    cay.wait(f"{NS}/sessions", session, lambda s: s and s.get("status", {}).get("phase") == "Active")


def inside(cay, session, *command):
    return cay.kubectl("exec", pod_of(cay, session), "--", *command).stdout


def pod_of(cay, session):
    box = cay.api("GET", f"/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/{sandbox_of(cay, session)}")
    return box["metadata"].get("annotations", {}).get("agents.x-k8s.io/pod-name", box["metadata"]["name"])


def audit(cay):
    return [json.loads(line) for line in open(f"{cay.data_dir}/audit.log")]


def records(cay):
    """What is kept of deliveries that are not over."""
    return [s for s in cay.api("GET", SECRETS)["items"] if s.get("type") == "cay.dev/delivery"]


@pytest.mark.parametrize("form,sign", [("Plain", plain), ("GitHub", github)])
def test_a_signed_event_starts_a_session_and_runs_the_command_on_it(cay, form, sign):
    name = form.lower()
    make_trigger(cay, name, form=form, user="bob")
    answer = send(cay, name, {"number": 7, "text": "hello"}, "one", sign)
    assert answer["delivery"] == "one" and answer["outcome"] == "accepted"
    done = outcome(cay, name, "one")
    assert done["outcome"] == "Ran" and done["exitCode"] == 0 and done["output"] == "taken\n" and done["session"] == answer["session"], done
    session = cay.api("GET", f"{NS}/sessions/{answer['session']}")
    assert session["spec"]["agent"] == "worker" and session["spec"]["user"] == "bob" and session["spec"]["title"] == f"{name}: 7"
    assert json.loads(inside(cay, answer["session"], "cat", "/tmp/events")) == {"number": 7, "text": "hello"}
    assert not records(cay)


def test_what_is_not_rightly_signed_gets_one_answer(cay):
    make_trigger(cay, "strict")
    make_trigger(cay, "hub", form="GitHub")
    put(cay, "triggers", "Trigger", "no-secret", {"agent": "worker", "secretRef": {"name": "none", "key": "key"}, "command": COMMAND})
    put(cay, "triggers", "Trigger", "no-key", {"agent": "worker", "secretRef": {"name": "hook", "key": "none"}, "command": COMMAND})
    body = b'{"number": 1}'
    now = time.time()
    wrong = [
        ("strict", {}), ("strict", plain(body, secret=b"another")), ("strict", plain(b'{"number": 2}')),
        ("strict", github(body)), ("strict", {**plain(body), "X-Cay-Timestamp": str(int(now) + 1)}),
        ("strict", {"X-Cay-Signature": mac(body)}), ("strict", {**plain(body), "X-Cay-Signature": mac(body)[7:]}),
        ("strict", plain(body, at=now - 400)), ("strict", plain(body, at=now + 400)),
        ("hub", {}), ("hub", plain(body)), ("hub", github(body, secret=b"")), ("hub", {"X-Hub-Signature-256": mac(body) + "0"}),
        ("no-secret", plain(body)), ("no-secret", plain(body, secret=b"")), ("no-key", plain(body)), ("no-key", plain(body, secret=b"")),
        ("nothing", plain(body)),
    ]
    answers = {(status, json.dumps(text)) for status, text, _ in (post(cay, n, body, h) for n, h in wrong)}
    assert answers == {(401, '{"error": "unauthorized"}')}
    # The wrong namespace is as good as no trigger.
    assert post(cay, "strict", body, plain(body), ns="kube-system")[0] == 401
    assert not deliveries(cay, "strict") and not deliveries(cay, "hub")
    wait_until(lambda: [line for line in audit(cay) if line.get("subresource") == "deliveries" and line.get("status") == 401])


def test_only_posts_to_a_name_are_for_hooks(cay):
    make_trigger(cay, "paths")
    assert post(cay, "paths", None, {}, "GET")[0] == 405
    assert post(cay, "paths/more", b"{}", plain(b"{}"))[0] == 404
    assert post(cay, "Not_A_Name", b"{}", plain(b"{}"))[0] == 404


def test_a_body_has_a_limit_and_must_be_json(cay):
    make_trigger(cay, "sizes", filters=[{"path": ".want", "values": ["nothing"]}])
    huge = b'{"a": "' + b"x" * (1 << 20) + b'"}'
    conn = connect(cay)
    conn.putrequest("POST", "/hooks/default/sizes")
    conn.putheader("Content-Length", str(len(huge)))
    conn.endheaders()
    assert conn.getresponse().status == 413
    conn.close()
    conn = connect(cay)  # a length that is not told
    try:
        conn.request("POST", "/hooks/default/sizes", iter([huge]), plain(huge), encode_chunked=True)
        assert conn.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
        pass  # it was answered and closed before all was sent
    conn.close()
    largest = b'{"a": "' + b"x" * ((1 << 20) - 9) + b'"}'
    assert len(largest) == 1 << 20
    assert post(cay, "sizes", largest, plain(largest))[0] == 202
    for bad in (b"", b"{", b"payload=%7B%7D", b"[" * 65 + b"]" * 65, b'{"a":1,"a":2}', b'"\xff"'):
        assert post(cay, "sizes", bad, plain(bad))[0] == 400, bad
    assert post(cay, "sizes", b"{}", plain(b"{}", "two words"))[0] == 400
    assert post(cay, "sizes", b"{}", plain(b"{}", "x" * 129))[0] == 400


def test_the_largest_event_arrives_whole(cay):
    make_trigger(cay, "large", command=["sh", "-c", "wc -c"])
    event = {"number": 1, "text": ""}
    event["text"] = "x" * ((1 << 20) - len(json.dumps(event)))
    send(cay, "large", event, "largest")
    assert outcome(cay, "large", "largest")["output"].split() == [str(1 << 20)]


def test_filters_decide_whether_anything_happens(cay):
    make_trigger(cay, "picky", filters=[{"path": ".action", "values": ["opened", "closed"]}, {"path": ".draft", "values": ["false"]}])
    for n, event in enumerate(({"action": "labeled", "draft": False}, {"action": "opened", "draft": True}, {"draft": False},
                               {"action": ["opened"], "draft": False}, {"action": "opened", "draft": False}, [])):
        answer = send(cay, "picky", event, f"f{n}")
        assert answer == {"delivery": f"f{n}", "outcome": "filtered"}, (event, answer)
        assert outcome(cay, "picky", f"f{n}")["outcome"] == "Filtered"
    # The last but one passes its filters and has nothing at the place of its key.
    assert ".number" in outcome(cay, "picky", "f4")["message"]
    assert send(cay, "picky", {"action": "closed", "draft": False, "number": 3}, "yes")["outcome"] == "accepted"
    assert outcome(cay, "picky", "yes")["outcome"] == "Ran"
    # What was filtered is known too.
    assert send(cay, "picky", {"action": "closed", "draft": False, "number": 3}, "f0") == \
        {"delivery": "f0", "outcome": "filtered", "duplicate": True}


def test_a_delivery_that_comes_again_does_nothing_twice(cay):
    make_trigger(cay, "once", limits={"perMinute": 1000, "maxPending": 100})
    body = b'{"number": 9}'

    def one(n):
        # The same id, and each signed at another moment.
        return post(cay, "once", body, plain(body, "same", at=time.time() - n))[:2]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(one, range(100)))
    while any(status == 429 for status, _ in answers):  # so many bodies are read at a time
        answers = [a if a[0] != 429 else one(n) for n, a in enumerate(answers)]
    assert {status for status, _ in answers} == {202}
    assert {(a["delivery"], a["outcome"]) for _, a in answers} == {("same", "accepted")}
    assert len([a for _, a in answers if not a.get("duplicate")]) == 1
    session = answers[0][1]["session"]
    assert outcome(cay, "once", "same")["outcome"] == "Ran"
    assert len(inside(cay, session, "cat", "/tmp/events").splitlines()) == 1
    shown = deliveries(cay, "once")
    assert sorted(d["outcome"] for d in shown) == ["Duplicate", "Ran"]
    # Another id for the same signature is the same request: the id is not signed.
    headers = plain(body, "first")
    assert "duplicate" not in post(cay, "once", body, headers)[1]
    assert post(cay, "once", body, {**headers, "X-Cay-Delivery": "second"})[1]["duplicate"] is True


def test_without_an_id_the_body_is_its_own(cay):
    make_trigger(cay, "nameless", form="GitHub")
    first = send(cay, "nameless", {"number": 1}, None, github)
    assert first["delivery"] == "sha256:" + hashlib.sha256(json.dumps({"number": 1}).encode()).hexdigest()
    assert send(cay, "nameless", {"number": 1}, None, github)["duplicate"] is True
    assert outcome(cay, "nameless", first["delivery"])["outcome"] == "Ran"


def test_the_same_key_finds_the_same_session_and_wakes_its_sandbox(cay):
    make_trigger(cay, "requests", sessionKey=".pull_request.number", command=["sh", "-c", "cat >>$HOME/seen 2>/dev/null || cat >>/tmp/seen; hostname"])
    first = send(cay, "requests", {"pull_request": {"number": 12}}, "p1")
    other = send(cay, "requests", {"pull_request": {"number": 13}}, "p2")
    assert first["session"] != other["session"]
    one = outcome(cay, "requests", "p1")
    assert one["outcome"] == "Ran" and outcome(cay, "requests", "p2")["outcome"] == "Ran"
    box = sandbox_of(cay, first["session"])
    assert box != sandbox_of(cay, other["session"])
    # The session ends, and with it its sandbox falls asleep.
    cay.api("PATCH", f"{NS}/sessions/{first['session']}", {"spec": {"ended": True}}, content_type="application/merge-patch+json")
    boxes = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
    wait_until(lambda: cay.api("GET", f"{boxes}/{box}")["spec"].get("operatingMode") == "Suspended")
    again = send(cay, "requests", {"pull_request": {"number": 12}}, "p3")
    assert again["session"] == first["session"]
    two = outcome(cay, "requests", "p3")
    assert two["outcome"] == "Ran", two
    session = cay.api("GET", f"{NS}/sessions/{first['session']}")
    assert session["status"]["phase"] == "Active" and session["status"]["sandbox"] == box and not session["spec"]["ended"]


def test_an_event_wakes_a_sandbox_that_nobody_used(cay):
    make_trigger(cay, "sleepy")
    session = send(cay, "sleepy", {"number": 1}, "z1")["session"]
    assert outcome(cay, "sleepy", "z1")["outcome"] == "Ran"
    box = f"/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/{sandbox_of(cay, session)}"
    cay.api("PATCH", box, {"metadata": {"annotations": {"cay.dev/idle-after": "1s", "cay.dev/idle-action": "Suspend"}}},
            content_type="application/merge-patch+json")
    wait_until(lambda: cay.api("GET", box)["spec"].get("operatingMode") == "Suspended")
    send(cay, "sleepy", {"number": 1}, "z2")
    assert outcome(cay, "sleepy", "z2")["outcome"] == "Ran"


def test_without_a_key_each_delivery_has_a_session_that_ends_with_it(cay):
    make_trigger(cay, "each", sessionKey=None)
    a, b = send(cay, "each", {}, "a"), send(cay, "each", {}, "b")
    assert a["session"] != b["session"]
    for answer, name in ((a, "a"), (b, "b")):
        assert outcome(cay, "each", name)["outcome"] == "Ran"
        wait_until(lambda s=answer["session"]: cay.api("GET", f"{NS}/sessions/{s}")["spec"].get("ended"))


def test_sessions_of_single_deliveries_do_not_pile_up(cay):
    make_agent(cay, "quick", sandbox={"mode": "Shared", "warmPoolRef": {"name": "plain"}})
    make_trigger(cay, "many", "quick", sessionKey=None, limits={"perMinute": 100, "maxPending": 100})
    for n in range(30):
        send(cay, "many", {}, f"s{n}")
    wait_until(lambda: not records(cay))

    def left():
        return [s for s in cay.api("GET", f"{NS}/sessions")["items"] if s["metadata"]["annotations"].get("cay.dev/trigger") == "many"]
    wait_until(lambda: len(left()) == 20)
    assert all(s["spec"]["ended"] for s in left())


def test_deliveries_of_a_session_run_one_at_a_time_and_in_order(cay):
    make_trigger(cay, "queue", command=["sh", "-c", "read x; test ! -e /tmp/busy || exit 9; touch /tmp/busy; sleep 0.2; rm /tmp/busy; echo $x >>/tmp/order"])
    answers = [send(cay, "queue", {"number": 1, "n": n}, f"q{n}") for n in range(6)]
    for n in range(6):
        assert outcome(cay, "queue", f"q{n}")["exitCode"] == 0
    lines = inside(cay, answers[0]["session"], "cat", "/tmp/order").splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(6))


def test_how_a_command_ends_is_recorded(cay):
    make_trigger(cay, "ends", command=["sh", "-c", "read x; echo to stderr >&2; printf '\\377\\0%05000d' 7; exit 3"])
    send(cay, "ends", {"number": 1}, "bad")
    done = outcome(cay, "ends", "bad")
    assert done["outcome"] == "Ran" and done["exitCode"] == 3
    assert done["output"] == "%04096d" % 7
    make_trigger(cay, "binary", command=["sh", "-c", "printf 'a\\377\\0b'; kill -9 $$"])
    send(cay, "binary", {"number": 1}, "killed")
    done = outcome(cay, "binary", "killed")
    assert done["exitCode"] == 137 and done["output"] == "a??b"
    make_trigger(cay, "missing", command=["/no/such/program"])
    send(cay, "missing", {"number": 1}, "none")
    done = outcome(cay, "missing", "none")
    assert done["outcome"] in ("Failed", "Ran") and done.get("exitCode") != 0


def test_too_many_are_turned_away_with_a_time(cay):
    make_trigger(cay, "slow", limits={"perMinute": 3}, filters=[{"path": ".x", "values": ["y"]}])
    for n in range(3):
        send(cay, "slow", {}, f"r{n}")
    body = b"{}"
    status, answer, headers = post(cay, "slow", body, plain(body, "r3"))
    assert status == 429 and 1 <= int(headers["Retry-After"]) <= 61 and "minute" in answer["error"]
    assert post(cay, "slow", body, plain(body, "r0"))[1]["duplicate"] is True  # a repetition costs nothing
    make_trigger(cay, "narrow", limits={"maxPending": 2}, command=["sh", "-c", "until test -e /tmp/go; do sleep 0.05; done"])
    session = send(cay, "narrow", {"number": 1}, "m0")["session"]
    send(cay, "narrow", {"number": 1}, "m1")
    body = b'{"number": 1}'
    status, answer, headers = post(cay, "narrow", body, plain(body, "m2"))
    assert status == 429 and int(headers["Retry-After"]) > 0
    active(cay, session)
    inside(cay, session, "touch", "/tmp/go")
    outcome(cay, "narrow", "m1")
    assert send(cay, "narrow", {"number": 1}, "m2")["outcome"] == "accepted"  # it was not remembered


def test_agents_are_refused_and_asked_for_as_on_every_other_way_in(cay):
    make_agent(cay, "timid", approval={"rules": [{"action": "Deny", "argv": ["rm", "**"]}, {"action": "Ask", "argv": ["sh", "**"]}]})
    make_trigger(cay, "denied", "timid", command=["rm", "-rf", "/tmp/x"])
    send(cay, "denied", {"number": 1}, "d")
    done = outcome(cay, "denied", "d")
    assert done["outcome"] == "Refused" and "denies" in done["message"]
    make_trigger(cay, "asking", "timid")
    session = send(cay, "asking", {"number": 1}, "q")["session"]
    waiting = outcome(cay, "asking", "q", "Waiting")
    assert waiting["approval"] in waiting["message"]
    approval = cay.api("GET", f"{NS}/approvals/{waiting['approval']}")
    assert approval["spec"]["session"] == session and approval["spec"]["requestedBy"] == "cay:agent:default:timid"
    decide(cay, waiting["approval"], "Once")
    done = outcome(cay, "asking", "q")
    assert done["outcome"] == "Ran" and done["exitCode"] == 0
    send(cay, "asking", {"number": 1, "again": True}, "q2")
    decide(cay, outcome(cay, "asking", "q2", "Waiting")["approval"], "Deny")
    assert outcome(cay, "asking", "q2")["outcome"] == "Refused"


def decide(cay, approval, decision):
    cay.api("PATCH", f"{NS}/approvals/{approval}/status", {"status": {"decision": decision}}, content_type="application/merge-patch+json")


def test_a_deleted_agent_runs_nothing(cay):
    make_agent(cay, "leaver")
    make_trigger(cay, "orphan", "leaver")
    cay.api("DELETE", f"{NS}/agents/leaver")
    send(cay, "orphan", {"number": 1}, "gone")
    done = outcome(cay, "orphan", "gone")
    assert done["outcome"] == "Failed" and "no agent leaver" in done["message"]
    # In the middle: what runs ends with what allowed it.
    make_agent(cay, "quitter")
    make_trigger(cay, "cut", "quitter", command=["sh", "-c", "touch /tmp/begun; sleep 600"])
    session = send(cay, "cut", {"number": 1}, "long")["session"]
    active(cay, session)
    pod = pod_of(cay, session)
    wait_until(lambda: cay.kubectl("exec", pod, "--", "test", "-e", "/tmp/begun", check=False).returncode == 0)
    cay.api("DELETE", f"{NS}/agents/quitter")
    assert outcome(cay, "cut", "long")["outcome"] == "Refused"


def test_a_deleted_trigger_takes_what_it_kept_with_it(cay):
    make_trigger(cay, "brief", filters=[{"path": ".x", "values": ["y"]}])
    send(cay, "brief", {}, "b1")

    def kept():
        return [s["metadata"]["name"] for s in cay.api("GET", SECRETS)["items"]
                if any(o["kind"] == "Trigger" and o["name"] == "brief" for o in s["metadata"].get("ownerReferences", []))]
    assert kept()
    cay.api("DELETE", f"{NS}/triggers/brief")
    wait_until(lambda: not kept())
    body = b"{}"
    assert post(cay, "brief", body, plain(body))[0] == 401


def test_bodies_of_strangers_are_read_for_some_at_a_time(cay):
    make_trigger(cay, "busy", filters=[{"path": ".x", "values": ["y"]}])
    held = []
    try:
        for _ in range(16):
            conn = connect(cay)
            conn.putrequest("POST", "/hooks/default/busy")
            conn.putheader("Content-Length", "100")
            conn.endheaders()
            held.append(conn)
        wait_until(lambda: post(cay, "busy", b"{}", plain(b"{}", "x"))[0] == 429)
        assert cay.api("GET", NS + "/triggers")["items"]  # nobody else notices
    finally:
        for conn in held:
            conn.close()
    wait_until(lambda: post(cay, "busy", b"{}", plain(b"{}", "x"))[0] == 202)


def test_every_delivery_is_in_the_audit_log(cay):
    make_trigger(cay, "told")
    send(cay, "told", {"number": 1}, "t1")
    outcome(cay, "told", "t1")
    send(cay, "told", {"number": 1}, "t1")

    def lines():
        return [line for line in audit(cay)
                if line.get("resource") == "triggers" and line.get("name") == "told" and line.get("subresource") == "deliveries"]
    wait_until(lambda: len(lines()) == 2)
    ran, again = lines()
    assert ran["user"] == "cay:trigger:default:told" and ran["from"].startswith("127.0.0.1:") and ran["note"].startswith("Ran t1")
    assert again["note"].startswith("Duplicate t1")
    assert [line for line in audit(cay) if line.get("subresource") == "exec" and line.get("user") == "cay:agent:default:worker"]


# After a kill


def test_what_was_accepted_and_had_not_begun_runs_once_after_a_kill(fresh):
    cay = fresh()
    prepare(cay, pool=False)  # no session becomes active yet
    make_trigger(cay, "t", limits={"perMinute": 100})
    answers = [send(cay, "t", {"number": 1, "n": n}, f"k{n}") for n in range(3)]
    send(cay, "t", {}, "filtered")
    cay.kill()
    cay.start()
    assert len(records(cay)) == 3
    # Known still, in whatever state they are.
    assert send(cay, "t", {"number": 1, "n": 0}, "k0")["duplicate"] is True
    assert send(cay, "t", {}, "filtered") == {"delivery": "filtered", "outcome": "filtered", "duplicate": True}
    make_pool(cay)
    for n in range(3):
        assert outcome(cay, "t", f"k{n}")["outcome"] == "Ran"
    lines = inside(cay, answers[0]["session"], "cat", "/tmp/events").splitlines()
    assert [json.loads(line)["n"] for line in lines] == [0, 1, 2]
    cay.kill()
    cay.start()
    assert not records(cay)
    for n in range(3):
        assert send(cay, "t", {"number": 1, "n": n}, f"k{n}")["duplicate"] is True
    assert len(inside(cay, answers[0]["session"], "cat", "/tmp/events").splitlines()) == 3


def test_a_command_that_may_have_begun_is_not_run_again(fresh):
    cay = fresh()
    prepare(cay)
    make_trigger(cay, "t", command=["sh", "-c", "cat >>/tmp/events; echo >>/tmp/events; sleep 600"])
    session = send(cay, "t", {"number": 1}, "begun")["session"]
    send(cay, "t", {"number": 1, "next": True}, "behind")
    active(cay, session)
    wait_until(lambda: cay.kubectl("exec", pod_of(cay, session), "--", "test", "-s", "/tmp/events", check=False).returncode == 0)
    cay.kill()
    cay.start()
    done = outcome(cay, "t", "begun")
    assert done["outcome"] == "Interrupted", done
    # The one behind it had not begun, and goes on.
    wait_until(lambda: len(inside(cay, session, "cat", "/tmp/events").splitlines()) == 2)
    first, second = inside(cay, session, "cat", "/tmp/events").splitlines()
    assert "next" not in json.loads(first) and json.loads(second)["next"]


def test_what_waits_for_an_approval_waits_on_after_a_kill(fresh):
    cay = fresh()
    prepare(cay)
    make_agent(cay, "timid", approval={"default": "Ask"})
    make_trigger(cay, "t", "timid")
    session = send(cay, "t", {"number": 1}, "w")["session"]
    approval = outcome(cay, "t", "w", "Waiting")["approval"]
    cay.kill()
    cay.start()
    wait_until(lambda: outcome(cay, "t", "w", "Waiting"))
    assert [a["metadata"]["name"] for a in cay.api("GET", f"{NS}/approvals")["items"]] == [approval]
    decide(cay, approval, "Once")
    done = outcome(cay, "t", "w")
    assert done["outcome"] == "Ran", done
    assert len(inside(cay, session, "cat", "/tmp/events").splitlines()) == 1


@pytest.mark.long
def test_kills_at_any_moment_run_nothing_twice(fresh):
    """A kill at a moment that nobody chose: each event is in the sandbox once, or not at all if it was interrupted."""
    cay = fresh()
    prepare(cay)
    make_trigger(cay, "t", limits={"perMinute": 6000, "maxPending": 1024})
    sent, session, n = {}, None, 0
    for round_ in range(8):
        stop = threading.Timer(0.4 + 0.15 * round_, lambda: os.kill(cay.process.pid, 9))
        stop.start()
        try:
            while True:
                answer = send(cay, "t", {"number": 1, "n": n}, f"n{n}")
                sent[n], session = answer, answer["session"]
                n += 1
        except (OSError, http.client.HTTPException, ssl.SSLError):
            n += 1  # nobody knows
        stop.join()
        cay.kill()
        cay.start()
    wait_until(lambda: not records(cay), 120)
    # A command that was cut off may have written its event and not the end of its line.
    seen = [int(n) for n in re.findall(r'"n": (\d+)\}', inside(cay, session, "cat", "/tmp/events"))]
    assert len(seen) == len(set(seen)) and len(seen) > 8
    assert len(set(sent) - set(seen)) <= 8  # what was interrupted: one for each kill at most


# The command line


def test_the_command_line_sends_events_and_shows_what_became_of_them(cay, tmp_path):
    (tmp_path / "key").write_bytes(SECRET)
    (tmp_path / "wrong").write_bytes(b"another")
    for form in ("Plain", "GitHub"):
        name = "cli-" + form.lower()
        make_trigger(cay, name, form=form)

        def test(key, *args, event='{"number": 5}', name=name):
            return subprocess.run([f"{cay.build}/cay", "hook", "test", f"default/{name}", "--kubeconfig", cay.kubeconfig,
                                   "--secret-file", str(tmp_path / key), *args], input=event, capture_output=True, text=True)
        sent = test("key", "--delivery", "by-hand")
        assert sent.returncode == 0 and json.loads(sent.stdout)["outcome"] == "accepted", sent
        assert outcome(cay, name, "by-hand")["outcome"] == "Ran"
        assert json.loads(test("key", "--delivery", "by-hand").stdout)["duplicate"] is True
        assert json.loads(test("key").stdout)["delivery"] != "by-hand"
        refused = test("wrong")
        assert refused.returncode == 1 and "401" in refused.stderr
        assert "400" in test("key", event="{").stderr

    def run(*args):
        return cay.cay("trigger", *args, "--kubeconfig", cay.kubeconfig).stdout
    rows = [line.split() for line in run("ls").splitlines()]
    assert rows[0][:3] == ["NAME", "AGENT", "FORM"]
    assert [r for r in rows if r[0] == "cli-plain" and "Plain" in r]
    shown = run("show", "cli-plain")
    assert "by-hand" in shown and "Ran" in shown and "the command ended with 0" in shown
    assert json.loads(run("show", "cli-plain", "-o", "json"))["status"]["deliveries"]


def test_the_guide_is_right(cay, tmp_path):
    guide = open(f"{ROOT}/docs/guide/triggers.md").read()
    manifests = guide.split("```yaml\n")[1].split("```")[0]
    event = re.search(r"echo '(.*)' > event.json", guide).group(1)
    (tmp_path / "key").write_bytes(SECRET)
    cay.kubectl("create", "secret", "generic", "pulls-hook", f"--from-file={tmp_path}/key")
    (tmp_path / "all.yaml").write_text(manifests)
    cay.cay("apply", "-f", str(tmp_path / "all.yaml"), "--kubeconfig", cay.kubeconfig)
    sent = subprocess.run([f"{cay.build}/cay", "hook", "test", "default/pulls", "--kubeconfig", cay.kubeconfig, "--secret-file", str(tmp_path / "key")],
                          input=event, capture_output=True, text=True, check=True)
    answer = json.loads(sent.stdout)
    assert outcome(cay, "pulls", answer["delivery"])["output"] == "reviewed\n"
    assert json.loads(inside(cay, answer["session"], "cat", "/tmp/event.json")) == json.loads(event)
    # With curl and openssl, as the page has it.
    make_trigger(cay, "by-curl", secretRef={"name": "pulls-hook", "key": "key"}, sessionKey=".pull_request.html_url")
    (tmp_path / "event.json").write_text(event)
    (tmp_path / "ca.crt").write_bytes(cay.credentials()[0])
    script = guide.split("With `openssl`:\n\n```sh\n")[1].split("```")[0]
    script = script.replace("https://HOST:6443", f"https://127.0.0.1:{cay.port}").replace("/NAME", "/by-curl")
    sent = subprocess.run(["sh", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(sent.stdout)["outcome"] == "accepted", sent
