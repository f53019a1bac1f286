# SPDX-License-Identifier: Apache-2.0
"""The published Python client, unmodified, newest and 0.5.6, over a direct connection."""

import json
import os
import subprocess
import sys

import pytest

from cay_local import EXTENSIONS, ROOT

PROGRAM = """
import json, os, sys, time
import importlib.metadata
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

client = SandboxClient(connection_config=SandboxDirectConnectionConfig(api_url=os.environ["CAY_ROUTER"]))
times = []
for i in range(5):
    began = time.perf_counter()
    box = client.create_sandbox("agents")
    first = box.commands.run("echo first").stdout
    times.append(time.perf_counter() - began)
    assert first == "first\\n", first
    if i < 4:
        box.terminate()
box.files.write("notes/a.txt", b"bytes \\x00 here")
assert box.files.read("notes/a.txt") == b"bytes \\x00 here"
assert [f.name for f in box.files.list("notes")] == ["a.txt"]
assert box.files.exists("notes/a.txt") and not box.files.exists("notes/b.txt")
failed = box.commands.run("sh -c 'echo out; echo err >&2; exit 3'")
assert (failed.stdout, failed.stderr, failed.exit_code) == ("out\\n", "err\\n", 3), failed
claim = box.claim_name
box.terminate()
print(json.dumps({"version": importlib.metadata.version("k8s-agent-sandbox"), "claim": claim,
                  "first_output_ms": sorted(t * 1000 for t in times)[2]}))
"""


@pytest.fixture(scope="module", autouse=True)
def pool(cay):
    for name in ("template", "warmpool"):
        cay.kubectl("apply", "-f", os.path.join(ROOT, "examples", name + ".yaml"))
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents",
             lambda p: p and p.get("status", {}).get("readyReplicas") == 10)


def python_of(venv):
    path = os.path.join(ROOT, "build", venv, "bin", "python")
    return path if os.path.exists(path) else sys.executable


def run(cay, python, *args):
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, CAY_ROUTER=f"http://127.0.0.1:{cay.router_port}")
    r = subprocess.run([python, *args], capture_output=True, text=True, env=env, timeout=120)
    assert r.returncode == 0, r.stderr
    return r.stdout


@pytest.mark.parametrize("venv,version", [("venv", "1.0"), ("venv-0.5.6", "0.5.6")])
def test_published_client_creates_runs_reads_writes_and_terminates(cay, venv, version):
    result = json.loads(run(cay, python_of(venv), "-c", PROGRAM).splitlines()[-1])
    assert result["version"].startswith(version)
    print(f"k8s-agent-sandbox {result['version']}: create_sandbox to first output {result['first_output_ms']:.1f} ms")
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxclaims", result["claim"], lambda c: c is None)


def test_first_program_of_the_readme(cay):
    out = run(cay, python_of("venv"), os.path.join(ROOT, "examples", "first.py"))
    assert out.startswith("hello from the other side\n")


def test_missing_pool_is_an_error_at_once(cay):
    program = ("import os\nfrom k8s_agent_sandbox import SandboxClient\n"
               "from k8s_agent_sandbox.models import SandboxDirectConnectionConfig as C\n"
               "from k8s_agent_sandbox.exceptions import SandboxWarmPoolNotFoundError\n"
               "c = SandboxClient(connection_config=C(api_url=os.environ['CAY_ROUTER']))\n"
               "try:\n    c.create_sandbox('nowhere')\nexcept SandboxWarmPoolNotFoundError as e:\n    print('refused', e)\n")
    assert "refused" in run(cay, python_of("venv"), "-c", program)
