# SPDX-License-Identifier: Apache-2.0
"""The audit log over HTTP: who may read it, pages and filters, following it over rotation and restarts, and its check."""

import http.client
import json
import os
import select
import socket
import ssl
import threading
import urllib.parse

import pytest
from cay_local import wait_until
from oversight_kit import AUDIT, VERIFY, Stream, ask, lines, names

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOSTILE = '</script><img src=x onerror=alert(1)>\u202e"\\ \u2028 {"n":1}'


def write(cay, n, begin=0, ns="default", prefix="m"):
    for i in range(begin, begin + n):
        cay.api("POST", f"/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": f"{prefix}{i}"}})


def written(cay, name):
    """Waits until the record of an object is in the log."""
    wait_until(lambda: name in names(lines(cay, limit=10000)[0]))


@pytest.fixture(scope="module")
def log(module_instance):
    c = module_instance("--audit-log-size", "64Ki", "--audit-log-keep", "50")
    c.api("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    write(c, 400)
    write(c, 20, ns="team", prefix="t")
    written(c, "t19")
    return c


def test_a_page_is_the_newest_and_pages_go_back_to_the_first(log):
    whole, end = lines(log, limit=10000)
    assert [r["n"] for r in whole] == sorted(r["n"] for r in whole) and "before" not in end
    assert names(whole)[-20:] == [f"t{i}" for i in range(20)]
    pages, before = [], {}
    while True:
        rows, mark = lines(log, limit=37, **before)
        pages.insert(0, rows)
        if "before" not in mark:
            break
        assert len(rows) == 37
        before = {"before": mark["before"]}
    together = [r for page in pages for r in page]
    assert together[:len(whole)] == whole
    assert len(lines(log)[0]) == min(500, len(whole))


def test_after_is_read_forwards(log):
    whole, _ = lines(log, limit=10000)
    rows, mark = lines(log, after=whole[9]["n"], limit=5)
    assert rows == whole[10:15] and mark["more"] and mark["n"] == rows[-1]["n"]
    rows, mark = lines(log, after=mark["n"], limit=10000)
    assert rows[:len(whole) - 15] == whole[15:] and "more" not in mark
    status, text = ask(log, AUDIT, after=10**12)
    assert status == 410 and "begun anew" in json.loads(text)["message"]


def test_filters_select(log):
    with pytest.raises(Exception):
        log.api("POST", MAPS, {"metadata": {"name": "m0"}})
    written(log, "m0")
    wait_until(lambda: lines(log, refused="true", limit=1)[0])
    assert names(lines(log, namespace="team", limit=10000)[0]) == [f"t{i}" for i in range(20)]
    refused = lines(log, refused="true")[0]
    assert refused and all(r["status"] >= 400 for r in refused) and refused[-1]["name"] == "m0"
    assert lines(log, user="nobody")[0] == []
    user = lines(log, limit=1)[0][0]["user"]
    assert len(lines(log, user=user, verb="create", limit=10000)[0]) >= 420
    assert lines(log, verb="delete")[0] == []
    assert lines(log, sandbox="m0")[0] == [], "a ConfigMap is no sandbox"
    assert len(lines(log, since="1h", limit=10000)[0]) >= 420
    middle = lines(log, limit=10000)[0][200]["time"]
    assert lines(log, limit=10000, until="1970-01-01T00:00:00Z")[0] == []
    old, new = (lines(log, limit=10000, **{k: middle})[0] for k in ("until", "since"))
    assert old[-1]["time"] < middle <= new[0]["time"] == middle


@pytest.mark.parametrize("params,says", [
    ({"limit": "10001"}, "limit=10001: must be a number from 0 to 10000"),
    ({"limit": "-1"}, "limit=-1"),
    ({"limit": "0"}, "limit=0: only with follow=true"),
    ({"before": "0"}, "before=0"),
    ({"after": "x"}, "after=x"),
    ({"before": "5", "follow": "true"}, "before goes with neither"),
    ({"until": "1h", "follow": "true"}, "until does not go with follow"),
    ({"since": "yesterday"}, "since=yesterday: must be a time"),
    ({"follow": "perhaps"}, "follow=perhaps: must be true or false"),
    ({"usr": "a"}, "no parameter usr; there are user, agent"),
])
def test_what_is_wrong_is_named(log, params, says):
    status, text = ask(log, AUDIT, **params)
    assert status == 400 and says in json.loads(text)["message"], text


def test_only_get(log):
    for path in (AUDIT, VERIFY, "/cay/v1/overview"):
        assert ask(log, path, method="POST")[0] == 405
        conn = http.client.HTTPSConnection("127.0.0.1", log.port, context=ssl._create_unverified_context())
        conn.request("GET", path)
        assert conn.getresponse().status == 401, path
        conn.close()


def role(cay, name, rules, user, ns=None):
    kind, where = ("Role", f"/namespaces/{ns}") if ns else ("ClusterRole", "")
    cay.api("POST", f"{RBAC}{where}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
    cay.api("POST", f"{RBAC}{where}/{kind.lower()}bindings", {"metadata": {"name": name}, "subjects": [
        {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}})


def test_who_may_read(log):
    status, text = ask(log, AUDIT, "ann")
    assert status == 403 and AUDIT in json.loads(text)["message"] and "auditrecords" in json.loads(text)["message"]
    status, text = ask(log, AUDIT, "ann", namespace="team")
    assert status == 403 and 'cannot get resource "auditrecords" in API group "cay.dev" in the namespace "team"' in text.replace("\\", "")
    status, text = ask(log, VERIFY, "ann")
    assert status == 403 and f'cannot get path "{VERIFY}"' in text.replace("\\", "")
    role(log, "team-audit", [{"apiGroups": ["cay.dev"], "resources": ["auditrecords"], "verbs": ["get"]}], "ann", "team")
    rows, _ = lines(log, "ann", namespace="team", limit=10000)
    assert {r["namespace"] for r in rows} == {"team"} and len(rows) >= 20
    assert ask(log, AUDIT, "ann")[0] == 403 and ask(log, AUDIT, "ann", namespace="default")[0] == 403
    role(log, "auditor", [{"nonResourceURLs": [AUDIT], "verbs": ["get"]}], "ben")
    assert len(lines(log, "ben", limit=10000)[0]) > 400
    assert ask(log, VERIFY, "ben")[0] == 403, "one path is not the other"
    for broad in ("view", "edit", "admin"):
        log.api("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": f"all-{broad}"}, "subjects": [
            {"kind": "User", "name": broad, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": broad}})
        assert ask(log, AUDIT, broad)[0] == 403 and ask(log, AUDIT, broad, namespace="team")[0] == 403


def test_a_stream_ends_with_the_right(log):
    role(log, "for-now", [{"nonResourceURLs": [AUDIT], "verbs": ["get"]}], "eve")
    with Stream(log, AUDIT, "eve", limit=0) as s:
        assert "bookmark" in s.next()
        log.api("DELETE", f"{RBAC}/clusterrolebindings/for-now")
        seen = []
        while (row := s.next()) is not None:
            seen.append(row)
            # Those of the giving may come: a record is in the log a moment after its answer.
            assert (row.get("verb"), row.get("name")) != ("delete", "for-now"), "the record of the taking away is not hers"
        assert "forbidden" in seen[-1]["error"]


def test_follow_over_rotation_loses_and_doubles_nothing(log):
    with Stream(log, AUDIT, limit=1, verb="create", namespace="default") as s:
        first = s.until(lambda r: "bookmark" in r)
        assert len(first) == 2
        files = len([f for f in os.listdir(log.data_dir) if f.startswith("audit.log.")])
        write(log, 600, 1000)
        seen = s.until(lambda r: r.get("name") == "m1599")
    assert [r["name"] for r in seen if "n" in r] == [f"m{i}" for i in range(1000, 1600)]
    assert not any("gap" in r for r in seen)
    assert len([f for f in os.listdir(log.data_dir) if f.startswith("audit.log.")]) > files + 1


def test_hostile_texts_are_json_strings(log):
    conn = log.connect()
    conn.request("POST", MAPS, json.dumps({"metadata": {"name": "hostile"}}), {"Content-Type": "application/json", "Impersonate-User": "cay:agent:x:y"})
    conn.getresponse().read()
    conn.request("DELETE", MAPS + "/" + urllib.parse.quote(HOSTILE, safe=""))
    conn.getresponse().read()
    conn.close()
    write(log, 1, 5000)
    written(log, "m5000")
    status, text = ask(log, AUDIT, limit=20)
    assert status == 200
    rows = [json.loads(line) for line in text.split("\n")[:-1]]
    assert all(isinstance(r, dict) and ("n" in r or "bookmark" in r) for r in rows)


def test_verify_says_that_it_is_fine_while_it_is_written(log):
    status, text = ask(log, VERIFY)
    verdict = json.loads(text)
    assert status == 200 and verdict["ok"] and verdict["findings"] == [] and verdict["faults"] == 0, verdict
    assert verdict["records"] > 400 and verdict["segments"] > 2 and verdict["from"] < verdict["to"] <= verdict["checkedAt"]
    assert json.loads(ask(log, VERIFY)[1])["checkedAt"] == verdict["checkedAt"], "it is kept for a moment"


def test_verify_finds_what_was_changed(fresh):
    cay = fresh("--audit-log-size", "64Ki")
    write(cay, 300)
    written(cay, "m299")
    path = os.path.join(cay.data_dir, "audit.log.1")
    rows = open(path).read().splitlines(keepends=True)
    rows[10] = rows[10].replace('"verb":"', '"verb":"not-', 1)
    with open(path, "r+") as f:
        f.write("".join(rows))
    verdict = json.loads(ask(cay, VERIFY)[1])
    assert not verdict["ok"] and verdict["faults"] >= 1
    assert verdict["findings"][0]["file"] == "audit.log.1" and "is not what it was" in verdict["findings"][0]["fault"]
    assert all("/" not in f["file"] for f in verdict["findings"])


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_after_goes_on_over_a_restart(fresh, how):
    cay = fresh("--audit-log-size", "64Ki", "--audit-log-keep", "50")
    write(cay, 50)
    with Stream(cay, AUDIT, limit=10000, verb="create") as s:
        seen = s.until(lambda r: r.get("name") == "m49")
    last = max(r["n"] for r in seen if "n" in r)
    write(cay, 200, 50)
    written(cay, "m249")
    getattr(cay, how)()
    cay.start()
    write(cay, 200, 250)
    with Stream(cay, AUDIT, after=last, verb="create") as s:
        more = s.until(lambda r: r.get("name") == "m449")
    assert names(more) == [f"m{i}" for i in range(50, 450)] and not any("gap" in r for r in more)


def test_a_stop_does_not_wait_for_those_who_follow(fresh):
    cay = fresh()
    with Stream(cay, AUDIT) as s:
        s.until(lambda r: "bookmark" in r)
        assert cay.stop() == 0
        with pytest.raises((http.client.HTTPException, OSError, AssertionError)):
            s.until(lambda r: False)
    cay.start()


def test_there_may_be_no_log(fresh):
    cay = fresh("--audit-log", "none")
    for path in (AUDIT, VERIFY):
        status, text = ask(cay, path)
        assert status == 404 and "--audit-log" in json.loads(text)["message"]


def rss(cay):
    with open(f"/proc/{cay.process.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def big(module_instance):
    """An instance with a log of some hundred MiB, made by hand: numbers are right, digests are not."""
    c = module_instance("--audit-log-size", "512Mi")
    write(c, 1)
    written(c, "m0")
    c.stop()
    path = os.path.join(c.data_dir, "audit.log")
    tail = open(path).read().splitlines()
    n = json.loads(tail[-1])["n"]
    row = '{"n":%d,"prev":"' + "0" * 64 + '","time":"2026-03-04T05:06:07.123456Z","user":"u","verb":"create","namespace":"default","name":"b%d","note":"' + "x" * 400 + '","status":201}\n'
    with open(path, "a") as f:
        for i in range(n + 1, n + 500001):
            f.write(row % (i, i))
    c.last = n + 500000
    c.start()
    return c


def test_a_large_log_costs_little_memory_and_does_not_hold_the_loop(big):
    assert os.path.getsize(os.path.join(big.data_dir, "audit.log")) > 250 << 20
    lines(big, limit=1)
    before = rss(big)
    rows, mark = lines(big, limit=500)
    assert len(rows) == 500 and mark["before"] == rows[0]["n"]
    rows, mark = lines(big, limit=10000)
    assert len(rows) < 10000, "4 MiB are enough for an answer"
    deep, _ = lines(big, before=big.last // 2, limit=5)
    assert [r["n"] for r in deep] == list(range(big.last // 2 - 5, big.last // 2))
    rows, mark = lines(big, user="nobody")
    assert rows == [] and 0 < mark["before"] < big.last, "64 MiB are enough for an answer"
    assert rss(big) - before < 64 << 20


def test_a_slow_reader_is_paused(big):
    """Nobody reads a stream of the whole log: the server keeps a bounded part of it, and serves others."""
    before = rss(big)
    slow = []
    for _ in range(4):
        conn = big.connect()
        conn.connect()
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        conn.request("GET", AUDIT + "?follow=true&after=1")
        slow.append(conn)
    write(big, 50, 100)
    wait_until(lambda: "m149" in names(lines(big, limit=60)[0]))
    assert rss(big) - before < 64 << 20
    answer = slow[0].getresponse()
    rows = [json.loads(answer.readline()) for _ in range(5000)]
    numbers = [r["n"] for r in rows if "n" in r]
    assert numbers == sorted(set(numbers)) and len(numbers) > 4900
    for conn in slow:
        conn.close()


def test_readers_who_go_on_after_a_record_are_counted(big):
    """Nobody reads these answers: each keeps its place until it is complete."""
    slow = []
    try:
        for i in range(16):
            conn = big.connect()
            conn.connect()
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
            conn.request("GET", AUDIT + "?limit=10000&after=100")
            assert select.select([conn.sock], [], [], 60)[0], "it has begun"
            slow.append(conn)
        status, text = ask(big, AUDIT, limit=1)
        assert status == 429 and "being answered" in text, text
    finally:
        for conn in slow:
            conn.close()
    wait_until(lambda: ask(big, AUDIT, limit=1)[0] == 200)


def test_too_many_followers_are_told(log):
    kept = []
    try:
        while len(kept) < 64:
            s = Stream(log, AUDIT, limit=0)
            assert "bookmark" in s.next()
            kept.append(s)
        status, text = ask(log, AUDIT, follow="true")
        assert status == 429, text
        assert lines(log, limit=1)[0]
    finally:
        for s in kept:
            s.close()
    wait_until(lambda: ask(log, AUDIT, limit=1)[0] == 200)


def test_a_quiet_stream_shows_that_it_lives_and_how_far_it_is(log):
    with Stream(log, AUDIT, limit=0, user="nobody") as s:
        first = s.next()["bookmark"]["n"]
        write(log, 5, 7000)
        assert s.next()["bookmark"]["n"] >= first + 5, "what a filter leaves out counts too"


def test_verify_while_files_come_and_go(fresh):
    """The oldest files are removed, heads are written, lines are half way: none of it is a fault."""
    cay = fresh("--audit-log-size", "16Ki", "--audit-log-keep", "2")
    write(cay, 200)
    stop = threading.Event()
    done = []

    def go_on():
        i = 1000
        while not stop.is_set():
            write(cay, 1, i)
            i += 1
        done.append(i)

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        at = set()
        while len(at) < 3:  # each verdict is kept for a while
            status, text = ask(cay, VERIFY)
            assert status == 200 and json.loads(text)["ok"], text
            at.add(json.loads(text)["checkedAt"])
            select.select([], [], [], 0.2)
    finally:
        stop.set()
        writer.join()
    assert done
