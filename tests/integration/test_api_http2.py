# SPDX-License-Identifier: Apache-2.0
"""The API server over HTTP/2: the same answers and the same limits as over HTTP/1.1, and many requests on one connection."""

import json
import os
import subprocess
import threading

import pytest

from cay_local import wait_until

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def curl(cay, tmp_path_factory):
    """Runs curl as the administrator; what it printed, of which -w is a part."""
    at = tmp_path_factory.mktemp("curl")
    for name, data in zip(("ca", "cert", "key"), cay.credentials()):
        (at / name).write_bytes(data)
    common = ["curl", "-sS", "--cacert", f"{at}/ca", "--cert", f"{at}/cert", "--key", f"{at}/key", "--max-time", "120"]

    def start(*args, **options):
        return subprocess.Popen([*common, *[f"https://127.0.0.1:{cay.port}{a}" if a.startswith("/a") or a == "/version" else a for a in args]],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def run(*args):
        p = start(*args)
        out, err = p.communicate(timeout=180)
        assert p.returncode == 0, err
        return out

    run.start = start
    return run


def test_a_client_gets_the_version_that_it_offers(curl):
    for flag, version in (("--http2", "2"), ("--http1.1", "1.1")):
        assert curl(flag, "-o", os.devnull, "-w", "%{http_version}", "/version") == version


def test_kubectl_speaks_it(cay, monkeypatch):
    monkeypatch.setenv("GODEBUG", "http2debug=1")
    assert "http2: Transport received SETTINGS" in cay.kubectl("get", "--raw", "/version").stderr


def test_objects_are_written_read_and_removed_over_it(curl):
    body = json.dumps({"metadata": {"name": "two"}, "data": {"a": "b"}})
    status = ("--http2", "-w", "\n%{http_code}")
    made = curl(*status, "-X", "POST", "-H", "Content-Type: application/json", "-d", body, MAPS).rsplit("\n", 1)
    assert made[1] == "201" and json.loads(made[0])["data"] == {"a": "b"}
    again = curl(*status, "-X", "POST", "-H", "Content-Type: application/json", "-d", body, MAPS).rsplit("\n", 1)
    assert again[1] == "409" and json.loads(again[0])["reason"] == "AlreadyExists"
    assert curl(*status, "-X", "DELETE", f"{MAPS}/two").rsplit("\n", 1)[1] == "200"
    gone = curl(*status, f"{MAPS}/two").rsplit("\n", 1)
    assert gone[1] == "404" and json.loads(gone[0])["details"] == {"name": "two", "kind": "configmaps"}


def test_a_body_that_is_too_large_is_refused_in_words(cay, tmp_path):
    """The answer comes before the end of the body, and the stream is reset without an error after it."""
    (tmp_path / "large").write_text("x" * (2 << 20) + "\n" + "y" * (2 << 20))
    r = cay.kubectl("create", "configmap", "large", f"--from-file={tmp_path}/large", check=False)
    assert r.returncode == 1 and "Request entity too large: limit is 3145728" in r.stderr


def test_a_quiet_watch_tells_of_what_happens_later(cay, curl):
    p = curl.start("--http2", "-N", f"{MAPS}?watch=true&timeoutSeconds=100&fieldSelector=metadata.name%3Dlater&resourceVersion=0")
    try:
        wait_until(lambda: cay.metric("cay_api_watches") >= 1)
        cay.api("POST", MAPS, {"metadata": {"name": "later"}})
        assert json.loads(p.stdout.readline())["object"]["metadata"]["name"] == "later"
    finally:
        p.kill()
        p.communicate()


def test_whoever_ends_leaves_its_place(cay, curl):
    def under_way():
        return cay.metric("cay_api_requests_under_way") - 1  # the one that asks

    wait_until(lambda: under_way() == 0)
    watches = [curl.start("--http2", "-N", f"{MAPS}?watch=true&timeoutSeconds=100") for _ in range(3)]
    wait_until(lambda: under_way() == 3)
    for p in watches:
        p.kill()
        p.communicate()
    curl("--http2", f"{MAPS}/nobody")
    wait_until(lambda: under_way() == 0)


def test_many_requests_share_a_connection(cay, curl, tmp_path):
    """As many at a time as curl puts on one connection."""
    n = 300
    config = tmp_path / "config"
    config.write_text("".join(f'url = "https://127.0.0.1:{cay.port}{MAPS}?limit=1&n={i}"\noutput = "{tmp_path}/{i}"\n' for i in range(n)))
    said = curl("--http2", "--parallel", "--parallel-max", "90", "-w", "%{num_connects} %{http_code}\n", "-K", str(config)).split("\n")
    answers = [line.split() for line in said if line]
    assert len(answers) == n and {code for _, code in answers} == {"200"}
    assert sum(int(connects) for connects, _ in answers) <= 2  # as a rule one
    assert all(json.loads((tmp_path / str(i)).read_text())["kind"] == "ConfigMapList" for i in range(n))


def test_a_large_list_reaches_a_slow_reader_whole(cay, curl):
    """It goes out as it is taken, and others are served meanwhile."""
    text = "y" * 200_000
    for i in range(40):
        cay.api("POST", MAPS, {"metadata": {"name": f"slow{i}"}, "data": {"text": text}})
    try:
        p = curl.start("--http2", "--limit-rate", "4M", MAPS)
        taken = []
        reader = threading.Thread(target=lambda: taken.append(p.stdout.read()))
        reader.start()
        assert cay.api("GET", "/version")["major"]
        reader.join(180)
        assert p.wait(60) == 0
        assert sum(len(o.get("data", {}).get("text", "")) for o in json.loads(taken[0])["items"]) == 40 * len(text)
    finally:
        for i in range(40):
            cay.api("DELETE", f"{MAPS}/slow{i}")
