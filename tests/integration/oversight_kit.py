# SPDX-License-Identifier: Apache-2.0
"""Requests to what pages watch: whole answers, and streams of JSON lines."""

import json
import urllib.parse

AUDIT = "/cay/v1/audit"
VERIFY = AUDIT + "/verify"
OVERVIEW = "/cay/v1/overview"


def target(path, params):
    return path + ("?" + urllib.parse.urlencode(params) if params else "")


def ask(cay, path, as_user=None, method="GET", **params):
    """(status, the text of the answer)"""
    conn = cay.connect()
    try:
        conn.request(method, target(path, params), headers={"Impersonate-User": as_user} if as_user else {})
        answer = conn.getresponse()
        return answer.status, answer.read().decode()
    finally:
        conn.close()


def lines(cay, as_user=None, **params):
    """The lines of an answer that does not follow, and its bookmark."""
    status, text = ask(cay, AUDIT, as_user, **params)
    assert status == 200, text
    assert text.endswith("\n")
    rows = [json.loads(line) for line in text.splitlines()]
    assert "bookmark" in rows[-1], rows[-1]
    return rows[:-1], rows[-1]["bookmark"]


def names(rows):
    return [r["name"] for r in rows if "name" in r]


class Stream:
    """A stream of JSON lines, read one by one."""

    def __init__(self, cay, path, as_user=None, timeout=60, **params):
        self.conn = cay.connect(timeout)
        self.conn.request("GET", target(path, dict(params, follow="true")), headers={"Impersonate-User": as_user} if as_user else {})
        self.answer = self.conn.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def next(self):
        """The next line; None at the end."""
        line = self.answer.readline()
        return json.loads(line) if line else None

    def until(self, holds):
        """All lines up to the one that holds, which is the last of them."""
        seen = []
        while not seen or not holds(seen[-1]):
            seen.append(self.next())
            assert seen[-1] is not None, seen[:-1]
        return seen

    def close(self):
        self.conn.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
