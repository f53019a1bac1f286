# SPDX-License-Identifier: Apache-2.0
"""Who owns which field: the answers of a kube-apiserver to the stories of tests/data/apply."""

import json
import pathlib
import sys

import pytest

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/apply"
sys.path.insert(0, str(DATA))

from stories import JSON, NAMESPACE, STORIES, answer  # noqa: E402

ANSWERS = json.loads((DATA / "answers.json").read_text())
# Where the answer is another one, and why.
WORDS = "Go shows its own structures and counts lines from another end"
SCALE = "a kube-apiserver records the Scale of a custom resource in the version of Scale, and fails to convert that when it is applied"
KEYS = "an element without its key is refused before anything is merged; OpenAPI gives the names of built-in kinds a default of \"\""
DIFFERENT = {
    ("bodies", 0): WORDS, ("bodies", 4): WORDS, ("bodies", 5): WORDS, ("bodies", 18): WORDS, ("bodies", 19): WORDS,
    ("sandboxes", 6): WORDS,
    ("pods", 4): KEYS,
    ("the status of a service", 5): "the status of what does not exist is not applied; a kube-apiserver tries to create the object from it",
    ("scale", 2): SCALE, ("scale", 3): SCALE, ("scale", 4): SCALE, ("scale", 5): SCALE,
}
CODES = {("pods", 4): 500, ("scale", 4): 200, ("the status of a service", 5): 404}


def plain(reply):
    """Without what is said twice, and the reason of an internal error, which only we give."""
    reply = dict(reply)
    if reply["code"] == 500:
        reply.pop("reason", None)
    if "causes" in reply:
        reply["causes"] = [c for i, c in enumerate(reply["causes"]) if c not in reply["causes"][:i]]
    return reply


@pytest.fixture(scope="module")
def ask(server):
    def one(method, path, body=None, kind=JSON, agent="stories/1.0"):
        conn = server.connect(20)
        try:
            text = body if isinstance(body, (str, type(None))) else json.dumps(body)
            conn.request(method, path, text, {"Content-Type": kind, "User-Agent": agent})
            reply = conn.getresponse()
            return reply.status, json.loads(reply.read()), reply.headers.get_all("Warning") or []
        finally:
            conn.close()

    server.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield one
    server.api("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


@pytest.mark.parametrize("name", STORIES)
def test_story(ask, name):
    for number, (step, want) in enumerate(zip(STORIES[name], ANSWERS[name], strict=True)):
        have = plain(answer(ask, step))
        if (name, number) in DIFFERENT:
            assert have["code"] == CODES.get((name, number), want["code"])
        else:
            assert (number, have) == (number, plain(want))
