# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions and their objects: the answers of a kube-apiserver (v1.36.3), recorded in tests/data/crds/cases.json."""

import json
import pathlib
import time

import pytest

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/crds/cases.json").read_text())
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WAIT_S = 60
# The answer is another one, and why. The code and the reason are the same unless they are in CODES.
DUMP = "a version is shown as it was sent, not as Go keeps it"
PATH = "paths that nobody serves have one wording"
SCALE = "the type of what /scale shows is checked by the schema alone"
WHO = "the kind is named, not the resource"
DIFFERENT = {
    "crd: no storage version": DUMP,
    "crd: a version twice": DUMP,
    "crd: schema: root with a status": DUMP,
    "crd: unknown member of a schema": "Go does not look into additionalProperties; we warn",
    "crd: schema: rule without a rule": "rules in CEL are warned about, also when they are wrong",
    "crd: put without a resourceVersion": WHO,
    "toy: put without a resourceVersion": WHO,
    "toy: integer": SCALE,
    "toy: float": SCALE,
    "toy: whole float": SCALE,
    "toy: exclusive": "a value of zero is not called a factor that must be positive",
    "toy: other version": "nothing is reported about an object of a version that is refused",
    "toy: strategic patch": "server-side apply is not among the types that are accepted",
    "toy: status of a wrong type": "the path in the message is a whole one",
    "toy: no such subresource": PATH,
    "game: not served": PATH,
    "game: no status subresource": PATH,
    "discovery: a version that is not there": PATH,
}
CODES = {
    "toy: whole float": (201, None),
    "game: not served": (404, "NotFound"),
    "discovery: a version that is not there": (404, "NotFound"),
}


def ask(server, case):
    """Status, body and warnings."""
    headers = {"Content-Type": case["type"]} if "type" in case else {}
    if "accept" in case:
        headers["Accept"] = case["accept"]
    conn = server.connect(20)
    try:
        conn.request(case["method"], case["path"], case["body"].encode() if "body" in case else None, headers)
        answer = conn.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []
    finally:
        conn.close()


def established(server, name):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        crd = server.api("GET", f"{CRDS}/{name}")
        if any(c["type"] == "Established" and c["status"] == "True" for c in crd.get("status", {}).get("conditions", [])):
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def prepared(server):
    for case in DATA["before"] + DATA["definitions"]:
        status, body, _ = ask(server, case)
        assert status == 201, body
    for case in DATA["definitions"]:
        assert established(server, case["name"])
    for case in DATA["after"]:
        status, body, _ = ask(server, case)
        assert status == 201, body
    yield server
    for case in DATA["definitions"]:
        server.api("DELETE", f"{CRDS}/{case['name']}")
    server.api("DELETE", "/api/v1/namespaces/crds")


def at(value, path):
    for step in path.split("."):
        if isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
        else:
            value = value.get(step) if value else None
    return value


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda c: c["name"])
def test_answer(prepared, case):
    name, want = case["name"], case["want"]
    status, body, warnings = ask(prepared, case)
    reason = body.get("reason") if body.get("kind") == "Status" else None
    assert (status, reason) == CODES.get(name, (want["code"], want.get("reason"))), body.get("message")
    if name in DIFFERENT:
        return
    if "message" in want:
        assert body["message"] == want["message"]
    for path, value in want.get("see", {}).items():
        assert at(body, path) == value, path
    assert warnings == want.get("warnings", [])
