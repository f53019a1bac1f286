# SPDX-License-Identifier: Apache-2.0
"""How bodies and options are read: the answers of a kube-apiserver, recorded in tests/data/decode/cases.json."""

import json
import pathlib
import re

import pytest

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/decode/cases.json").read_text())
# The answer is another one, and why. The code and the reason are the same unless they are in CODES.
LITERAL = "numbers are kept as 64-bit integers and doubles, not as they were spelt"
KIND = "which other kinds there are is not looked up"
YAML = "YAML is not read"
CRD = "validation by the schema is worded a little differently for numbers"
STRATEGIC = "the result of a strategic patch is read like any other"
DIFFERENT = {
    "pod: exponent for an int32": LITERAL,
    "pod: overflow of an int64": LITERAL,
    "pod: a list given twice": "the second list replaces the first; Go reads it into the elements of the first",
    "configmap: other kind": KIND,
    "configmap: list body": KIND,
    "configmap: put of another kind": KIND,
    "configmap: merge patch of the kind": KIND,
    "configmap: other media type": YAML,
    "delete body: other media type": YAML,
    "sandbox: other version": "the version is checked first",
    "sandbox: float for an int": CRD,
    "sandbox: overflow of an int32": CRD,
    "sandbox: bool for a quantity": CRD,
    "configmap: strategic patch to a wrong type": STRATEGIC,
    "configmap: strategic patch to a wrong type of a map": STRATEGIC,
    "pod: strategic patch to a wrong type": STRATEGIC,
    "pod: strategic patch of a list element": STRATEGIC,
    "pod: strategic patch of a list with a string": STRATEGIC,
    "list: continue that is none": "what is in a token is the server's own",
    "list: continue with a resourceVersion": "what is in a token is the server's own",
}
CODES = {
    "configmap: deep nesting": (400, "BadRequest"),  # 128 levels are enough
    "configmap: strategic patch of the kind": (422, "Invalid"),  # a kind cannot be patched
    "pod: strategic patch without a merge key": (400, "BadRequest"),  # the client's fault
    "sandbox: strategic patch": (200, None),  # accepted, as kubectl would like it
    "get: resourceVersion of letters": (400, "BadRequest"),  # the client's fault
}


def ask(server, case):
    """Status, body and warnings."""
    conn = server.connect(20)
    try:
        conn.request(case["method"], case["path"], case.get("body"), {"Content-Type": case["type"]} if "type" in case else {})
        answer = conn.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []
    finally:
        conn.close()


@pytest.fixture(scope="module")
def prepared(server):
    for case in DATA["before"]:
        status, body, _ = ask(server, case)
        assert status == 201, body
    yield server
    server.api("DELETE", "/api/v1/namespaces/decode")


def at(value, path):
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value.get(step) if value else None
    return value


def plain(message):
    """Without what no two servers have in common: the object that a patch made, uids and versions."""
    message = re.sub(r"in record \(\S+\)", "in record ()", message)
    if message.startswith(' "" is invalid: patch: Invalid value: '):
        return "patch: " + message.rsplit('": ', 1)[1]
    return message


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda c: c["name"])
def test_answer(prepared, case):
    name, want = case["name"], case["want"]
    status, body, warnings = ask(prepared, case)
    assert (status, body.get("reason")) == CODES.get(name, (want["code"], want.get("reason"))), body.get("message")
    if name in DIFFERENT or name in CODES:
        return
    if "message" in want:
        assert plain(body["message"]) == plain(want["message"])
    for path, value in want.get("see", {}).items():
        assert at(body, path) == value, path
    assert warnings == want.get("warnings", [])
