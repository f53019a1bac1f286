# SPDX-License-Identifier: Apache-2.0
"""The answers of a kube-apiserver to requests/*.py, but for the differences that docs/reference/differences.md lists with their reasons."""

import fnmatch
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from replay import Server, answer, close_namespace, difference, listed, names, open_namespace, stories  # noqa: E402

ROWS = listed()
FILES = names()
ALL = [(name, story) for name in FILES for story in stories(name)]


def recorded(name):
    with open(os.path.join(HERE, "answers", f"{name}.json")) as f:
        return json.load(f)["answers"]


@pytest.fixture(scope="module")
def asked(cay):
    return Server(cay.kubeconfig)


@pytest.fixture(scope="module")
def spaces(asked):
    spaces = {name: open_namespace(asked, name) for name in FILES}
    yield spaces
    for ns in spaces.values():
        close_namespace(asked, ns)


@pytest.mark.parametrize("name,story", ALL, ids=[f"{name}: {story}" for name, story in ALL])
def test_story(asked, spaces, name, story):
    wrong = []
    want = recorded(name)[story]
    for step in stories(name)[story]:
        where = f"{name}: {story}: {step['name']}"
        lines = difference(want[step["name"]], answer(asked, step, spaces[name]))
        known = any(fnmatch.fnmatchcase(where, p) for row in ROWS for p in row)
        if known and not lines:
            wrong.append(f"{where}: does not differ, but docs/reference/differences.md lists it")
        if lines and not known:
            wrong.append("\n    ".join([where, *lines]))
    assert not wrong, "\n".join(wrong)


def test_every_pattern_of_the_page_names_a_request():
    every = [f"{name}: {story}: {step['name']}" for name in FILES for story, steps in stories(name).items() for step in steps]
    idle = [p for row in ROWS for p in row if not fnmatch.filter(every, p)]
    assert not idle, idle


def test_names_of_requests_are_unique():
    for name in FILES:
        for story, steps in stories(name).items():
            assert len({s["name"] for s in steps}) == len(steps), f"{name}: {story}"


def test_differences_are_few():
    """A page that lists everything would prove nothing: at most one answer in ten may differ, for whatever reason."""
    every = [f"{name}: {story}: {step['name']}" for name in FILES for story, steps in stories(name).items() for step in steps]
    known = {w for row in ROWS for p in row for w in fnmatch.filter(every, p)}
    assert len(known) * 10 <= len(every), f"{len(known)} of {len(every)}"
