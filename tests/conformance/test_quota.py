# SPDX-License-Identifier: Apache-2.0
"""Quotas, limit ranges, Pod Security levels and priority classes: the answers of a kube-apiserver, in tests/data/quota/answers.json.

The requests build on each other, so they are asked in their order by one test, which names every answer that differs.
"""

import json
import pathlib
import re
import sys
import time

from test_decode import ask

DATA = pathlib.Path(__file__).parent.parent / "data/quota"
sys.path.insert(0, str(DATA))

from steps import NAMESPACES, STEPS, outcome  # noqa: E402

ANSWERS = json.loads((DATA / "answers.json").read_text())
WAIT_S = 20
# The answer is another one, and why. Its code and reason are the same.
DIFFERENT = {
    "q-scope: critical": "of two quotas that are against it, the first by name is told of",
}


def masked(text):
    """Without the part of a name that the server made up."""
    return re.sub(r"b-\w{5}\b", "b-", text)


def look(server, step):
    asked = {**step, "type": step.get("type", "application/json")}
    if "body" in step:
        asked["body"] = json.dumps(step["body"])
    return outcome(step, *ask(server, asked))


def differs(server, step):
    want = ANSWERS[step["name"]]
    end = time.monotonic() + (WAIT_S if step.get("until") else 0)
    found = look(server, step)
    while found != want and time.monotonic() < end:
        time.sleep(0.05)
        found = look(server, step)
    if step["name"] in DIFFERENT and (found["code"], found.get("reason")) == (want["code"], want.get("reason")):
        return None
    if masked(json.dumps(found, sort_keys=True)) == masked(json.dumps(want, sort_keys=True)):
        return None
    return f"{json.dumps(found, sort_keys=True)}\n    not {json.dumps(want, sort_keys=True)}"


def test_a_namespace_is_limited_as_by_a_kube_apiserver(server):
    assert set(ANSWERS) == {s["name"] for s in STEPS} and len(STEPS) >= 150
    for ns in NAMESPACES:
        server.api("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})
    try:
        found = {step["name"]: differs(server, step) for step in STEPS}
    finally:
        for ns in NAMESPACES:
            server.api("DELETE", f"/api/v1/namespaces/{ns}")
    bad = [f"{name}:\n    {what}" for name, what in found.items() if what]
    assert not bad, "\n".join(bad)
