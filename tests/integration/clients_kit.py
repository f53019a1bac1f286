# SPDX-License-Identifier: Apache-2.0
"""Published clients in Go, built from the modules of tests/clients, each once."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from cay_local import ROOT

MADE = pathlib.Path(ROOT) / "build" / "clients"
BUILD_S = 3600  # for a machine that is busy with other things
BUILDS = pytest.mark.timeout(600, func_only=True)  # for the tests of a module whose fixtures build: that takes as long as it takes


def too_old(modfile):
    """Why Go cannot build it; "" if it can. Debian 12 and 13 have older ones than most clients want."""
    wanted = re.search(r"^go (\d+)\.(\d+)", modfile.read_text(), re.M)
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        return "there is no go"
    have = re.search(r"go(\d+)\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True).stdout)
    return "" if [*map(int, have.groups())] >= [*map(int, wanted.groups())] else f"{have.group(0)} is older than {'.'.join(wanted.groups())}"


def is_built(source, name, modfile="go.mod"):
    path = MADE / name
    return path.exists() and path.stat().st_mtime > max(p.stat().st_mtime for p in [source / modfile, *source.glob("*.go")])


def built(source, package, name, modfile="go.mod", ldflags=""):
    """The program, or skips: a clean clone needs Go and the modules from their proxy, and minutes of a processor."""
    path = MADE / name
    if is_built(source, name, modfile):
        return str(path)
    if why := too_old(source / modfile):
        pytest.skip(f"{name} cannot be built: {why}")
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/local/go/bin", GOFLAGS="-p=2", GOTOOLCHAIN="local", CGO_ENABLED="0")
    fetched = subprocess.run(["go", "mod", "download", f"-modfile={modfile}"], cwd=source, env=env, capture_output=True, text=True, timeout=600)
    if fetched.returncode:
        pytest.skip(f"the modules of {name} cannot be had: {fetched.stderr.splitlines()[-1]}")
    made = subprocess.run(["nice", "go", "build", f"-modfile={modfile}", "-trimpath", f"-ldflags=-s -w {ldflags}", "-o", path, package], cwd=source,
                          env=env, capture_output=True, text=True, timeout=BUILD_S)
    assert made.returncode == 0, made.stderr
    return str(path)
