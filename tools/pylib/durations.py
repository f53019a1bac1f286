# SPDX-License-Identifier: Apache-2.0
"""How long things took in a run of the tests: one file, a line of JSON for each test, start of a server, build and tool.

tools/run-tests names the file in $CAY_DURATIONS for all that it starts; without that nothing is kept.
"""

import contextlib
import json
import os
import time

VARIABLE = "CAY_DURATIONS"


def note(kind, name, seconds):
    """kind: test, start, build, tool."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    line = json.dumps({"kind": kind, "name": name, "seconds": round(seconds, 3)}) + "\n"
    with open(path, "a") as f:
        f.write(line)  # in one piece: several processes write


@contextlib.contextmanager
def timed(kind, name):
    began = time.monotonic()
    try:
        yield
    finally:
        note(kind, name, time.monotonic() - began)


def read(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def table(rows, n):
    """The n slowest, and what each kind took in all."""
    totals = {}
    for row in rows:
        count, seconds = totals.get(row["kind"], (0, 0))
        totals[row["kind"]] = count + 1, seconds + row["seconds"]
    slowest = sorted(rows, key=lambda row: -row["seconds"])[:n]
    lines = [f"{row['seconds']:9.2f} s  {row['kind']:<6} {row['name']}" for row in slowest]
    return lines + [f"{seconds:9.2f} s  {count} of kind {kind}" for kind, (count, seconds) in sorted(totals.items())]
