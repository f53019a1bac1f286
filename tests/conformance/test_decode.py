# SPDX-License-Identifier: Apache-2.0
"""How bodies and options are read: the answers of a kube-apiserver, recorded in tests/data/decode/cases.json."""

import json
import pathlib
import re

import pytest

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/decode/cases.json").read_text())
# A custom resource with rules in CEL: they are not checked when the schema is violated, which is said as well.
UNCHECKED = (", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
             "correct the existing errors to complete validation")
# The answer is another one, and why. The code and the reason are the same unless they are in CODES.
DIFFERENT = {}
CODES = {}


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
    """Without what no two servers have in common: the object that a patch made."""
    if message.startswith(' "" is invalid: patch: Invalid value: '):
        return "patch: " + message.rsplit('": ', 1)[1]
    if UNCHECKED in message:
        message = message.replace(UNCHECKED, "")
        only = re.fullmatch(r'(\S+ "\S*" is invalid: )\[(.*)\]', message)
        if only and not re.search(r", [a-z.\[\]0-9A-Z]+: (Invalid|Required)", only.group(2)):
            return only.group(1) + only.group(2)
    return message


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda c: c["name"])
def test_answer(prepared, case):
    name, want = case["name"], case["want"]
    status, body, warnings = ask(prepared, case)
    assert (status, body.get("reason")) == CODES.get(name, (want["code"], want.get("reason"))), body.get("message")
    if name in DIFFERENT:
        return
    if "message" in want:
        assert plain(body["message"]) == plain(want["message"])
    for path, value in want.get("see", {}).items():
        assert at(body, path) == value, path
    assert warnings == want.get("warnings", [])
