# SPDX-License-Identifier: Apache-2.0
"""A Jupyter kernel in a sandbox that freezes: what it computed before is still there when somebody asks again."""

import pathlib
import subprocess
import sys

import pytest

from cay_local import ROOT
from test_cli import ok
from test_sleep import make, wait_asleep

PACKAGES = ("ipykernel==7.4.0", "jupyter_client==8.10.0")
KEPT = pathlib.Path(ROOT) / "build" / "jupyter"
KERNEL = ("sh", "-c", "until [ -e /tmp/go ]; do sleep 0.1; done; cd /tmp && "
          "PYTHONPATH=/tmp/jupyter exec python3 -m ipykernel_launcher -f /tmp/kernel.json")
# Runs argv[1] in the kernel and prints what it printed.
ASK = """
import sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient(connection_file="/tmp/kernel.json")
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=60)
client.execute_interactive(sys.argv[1], timeout=60)
client.stop_channels()
"""


@pytest.fixture(scope="module")
def packages():
    """Installed once, for the Python of this machine, which is also that of the image `host`."""
    if not (KEPT / "ready").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
               "--target", str(KEPT), *PACKAGES]
        subprocess.run(pip, check=True, timeout=600)
        (KEPT / "ready").write_text("")
    return KEPT


def ask(cay, code):
    return ok(cay, "exec", "kernel", "--", "env", "PYTHONPATH=/tmp/jupyter", "python3", "-c", ASK, code)


@pytest.mark.long
def test_a_jupyter_kernel_survives_the_freeze(cay, packages):
    make(cay, "kernel", after="2s", command=KERNEL, port=None)
    ok(cay, "cp", "-r", str(packages), "kernel:/tmp/jupyter")
    ok(cay, "exec", "kernel", "--", "sh", "-c", "touch /tmp/go; until [ -s /tmp/kernel.json ]; do sleep 0.1; done")
    first = ask(cay, "import os; answer = 41; print(os.getpid())")
    wait_asleep(cay, "kernel")
    assert ask(cay, "print(answer + 1, os.getpid())").split() == ["42", first.strip()]
