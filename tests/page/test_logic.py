# SPDX-License-Identifier: Apache-2.0
"""What the page computes without a browser: ui/src/**/*.test.ts, run by Node.js."""

import os
import re
import shutil
import subprocess

import pytest
from cay_local import ROOT


def test_what_needs_no_browser():
    if not shutil.which("npm"):
        pytest.skip("there is no Node.js")
    done = subprocess.run(["npm", "test", "--silent"], cwd=os.path.join(ROOT, "ui"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.M) or re.search(r"pass (\d+)", done.stdout)
    assert passed and int(passed[1]) > 0, done.stdout
