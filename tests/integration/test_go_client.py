# SPDX-License-Identifier: Apache-2.0
"""The published Go client, unmodified (goclient/go.mod says which), over a direct connection, its own tunnel, and a gateway."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from cay_local import EXTENSIONS, ROOT
from test_client_modes import free_address

SOURCE = pathlib.Path(__file__).parent / "goclient"
PROGRAM = pathlib.Path(ROOT) / "build" / "goclient"
NEWEST = max(p.stat().st_mtime for p in SOURCE.iterdir() if p.is_file())
BUILT = PROGRAM.exists() and PROGRAM.stat().st_mtime > NEWEST

# Compiling client-go from nothing takes two minutes of a processor.
pytestmark = [] if BUILT else [pytest.mark.long]


def too_old():
    """Why Go cannot build it; "" if it can. Debian 12 and 13 have older ones than the client wants."""
    wanted = re.search(r"^go (\d+)\.(\d+)", (SOURCE / "go.mod").read_text(), re.M)
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        return "there is no go"
    have = re.search(r"go(\d+)\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True).stdout)
    if [*map(int, have.groups())] < [*map(int, wanted.groups())]:
        return f"{have.group(0)} is older than {'.'.join(wanted.groups())}"
    return ""


def go_program(package, path):
    """Builds a package of goclient, or skips."""
    if why := too_old():
        pytest.skip(f"the Go client cannot be built: {why}")
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/local/go/bin", GOFLAGS="-p=1", GOTOOLCHAIN="local", CGO_ENABLED="0",
               GOCACHE=str(path.parent / "gocache"))
    fetched = subprocess.run(["go", "mod", "download"], cwd=SOURCE, env=env, capture_output=True, text=True, timeout=300)
    if fetched.returncode:
        pytest.skip(f"the modules of the Go client cannot be had: {fetched.stderr.splitlines()[-1]}")
    made = subprocess.run(["nice", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, package], cwd=SOURCE, env=env, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return path


@pytest.fixture(scope="module")
def program():
    return PROGRAM if BUILT else go_program(".", PROGRAM)


@pytest.fixture(scope="module")
def world(module_instance):
    address = free_address()
    cay = module_instance("--gateway-listen", address)
    cay.gateway = address
    for name in ("template", "warmpool"):
        cay.kubectl("apply", "-f", os.path.join(ROOT, "examples", name + ".yaml"))
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents", lambda p: p and p.get("status", {}).get("readyReplicas") == 10)
    return cay


@pytest.mark.parametrize("mode", ["direct", "tunnel", "gateway"])
def test_dataplane_245_its_whole_life(world, program, mode):
    """Also dataplane 222, 223, 226 to 231, 233, 235 to 237, 239 and 243, on the way."""
    way = {"direct": ["-api-url", f"http://127.0.0.1:{world.router_port}"], "tunnel": [], "gateway": ["-gateway", "external-http-gateway"]}[mode]
    r = subprocess.run([program, "-pool", "agents", *way], capture_output=True, text=True, timeout=180, env=dict(os.environ, KUBECONFIG=world.kubeconfig))
    assert r.returncode == 0, r.stderr
    claim = r.stdout.splitlines()[-1]
    assert claim.startswith("sandbox-claim-")  # generateName
    world.wait(f"{EXTENSIONS}/namespaces/default/sandboxclaims", claim, lambda c: c is None)
    print(mode, r.stdout.splitlines()[0])
