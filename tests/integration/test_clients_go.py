# SPDX-License-Identifier: Apache-2.0
"""Go programs with client-go and controller-runtime, unmodified (tests/clients/go)."""

import os
import pathlib
import subprocess

import pytest

from cay_local import ROOT
from clients_kit import BUILDS, built

SOURCE = pathlib.Path(ROOT) / "tests" / "clients" / "go"
SCENARIOS = ["typed", "dynamic", "watchlist", "listwatch", "apply", "manager", "pages"]

pytestmark = [pytest.mark.long, BUILDS]  # it is built from its modules: minutes of a processor


@pytest.fixture(scope="module")
def world(module_instance):
    return module_instance(), built(SOURCE, ".", "goclients")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_program_in_go(world, scenario):
    cay, program = world
    r = subprocess.run([program, scenario], capture_output=True, text=True, timeout=500, env=dict(os.environ, KUBECONFIG=cay.kubeconfig))
    assert r.returncode == 0 and r.stdout.endswith("done\n"), r.stdout + r.stderr[-4000:]
    print(scenario, r.stdout)
