# SPDX-License-Identifier: Apache-2.0
"""docs/guide/walkthroughs.md: every command of it, in order, as a reader would type them."""

import os
import re
import subprocess

from cay_local import ROOT

PAGE = os.path.join(ROOT, "docs", "guide", "walkthroughs.md")


def test_the_walk_throughs_work_as_they_are_written(fresh, tmp_path):
    cay = fresh("--usage-interval", "1")
    with open(PAGE) as f:
        blocks = re.findall(r"^```sh\n(.*?)^```$", f.read(), re.M | re.S)
    assert len(blocks) >= 10
    os.symlink(os.path.join(ROOT, "examples"), tmp_path / "examples")
    env = {**os.environ, "KUBECONFIG": cay.kubeconfig, "PATH": f"{cay.build}:{os.environ['PATH']}", "CAY_DATA_DIR": cay.data_dir}
    out, err = tmp_path / "out", tmp_path / "err"  # files: a command in the background may outlive the shell
    with open(out, "w") as to, open(err, "w") as log:
        done = subprocess.run(["bash", "-e", "-x", "-c", "\n".join(blocks)], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=to, stderr=log, timeout=300)
    said = out.read_text()
    assert done.returncode == 0, err.read_text()[-3000:]
    for line in ("42", "the way in is gone", "denied", "the budget is used up"):
        assert line in said.splitlines(), said
    assert ", 0 faults" in said
