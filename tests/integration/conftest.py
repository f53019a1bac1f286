# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the real program, started once a module, in a directory of its own."""

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "pylib"))
from cay_local import ROOT, Cay  # noqa: E402

SAMPLES = os.path.join(ROOT, "tests", "data", "samples")


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces, cgroups and links are made")


def make_dir():
    return tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")


@pytest.fixture
def fresh():
    """Makes instances; each is stopped with its sandboxes and must leave nothing behind."""
    needs_root()
    made = []

    def make(*flags, data_dir=None, start=True):
        cay = Cay(data_dir or make_dir(), flags=["--stop-sandboxes", *flags])
        made.append(cay)
        return cay.start() if start else cay

    yield make
    for cay in made:
        finish(cay)


def left_behind(cay):
    """What a stop left on the host. A namespace, and with it its link, lives as long as the kernel tries to close a
    connection that a sandbox had and whose other end no longer answers: a minute or two."""
    end = time.monotonic() + 150
    while True:
        _, orphans = cay.census()
        if not orphans or any(o["type"] not in ("link", "address") for o in orphans) or time.monotonic() > end:
            return orphans
        select.select([], [], [], 0.2)  # the kernel tells nobody


def finish(cay):
    try:
        cay.stop()
    finally:
        cay.kill()  # one that hangs must not outlive the test that shows it
    orphans = left_behind(cay)
    shutil.rmtree(cay.data_dir, ignore_errors=True)
    assert not orphans, f"left on the host: {orphans[:5]}"


@pytest.fixture(scope="module")
def cay():
    """One instance for a module, with the names of the samples given to local images."""
    needs_root()
    c = Cay(make_dir(), flags=["--stop-sandboxes"])
    c.start()
    c.image_tag("host", "python:3.12-slim", "busybox:1.36", "quay.io/jupyter/minimal-notebook:latest")
    c.image_tag("pause", "registry.k8s.io/pause:3.10")
    yield c
    finish(c)


@pytest.fixture(scope="module")
def module_instance():
    """Makes instances with flags of a module's own."""
    needs_root()
    made = []

    def make(*flags):
        made.append(Cay(make_dir(), flags=["--stop-sandboxes", *flags]))
        return made[-1].start()

    yield make
    for cay in made:
        finish(cay)


@pytest.fixture(scope="session")
def kubectl_version():
    if not shutil.which("kubectl"):
        pytest.fail("kubectl is missing; tools/setup test installs it")
    return subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True).stdout
