# SPDX-License-Identifier: Apache-2.0
"""The parts of a Pod that have a subresource of their own: the answers of a kube-apiserver, recorded in tests/data/pod_parts/cases.json."""

import json
import pathlib

import pytest

from test_decode import ask, at, plain

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/pod_parts/cases.json").read_text())
# The answer is another one, and why. The code and the reason are the same.
DIFFERENT = {}


@pytest.fixture(scope="module")
def prepared(server):
    for case in DATA["before"]:
        status, body, _ = ask(server, case)
        assert status == 201, body
    yield server
    server.api("DELETE", "/api/v1/namespaces/parts")


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda c: c["name"].replace(" ", "-").replace(":", ""))
def test_a_part_of_a_pod_is_changed_as_by_a_kube_apiserver(prepared, case):
    want = case["want"]
    status, body, warnings = ask(prepared, case)
    assert status == want["code"], body
    assert body.get("reason", "") == want.get("reason", "") or status < 400
    if case["name"] in DIFFERENT:
        return
    assert plain(body.get("message", "")) == plain(want.get("message", "")) or status < 400
    assert {path: at(body, path) for path in want.get("see", {})} == want.get("see", {})
