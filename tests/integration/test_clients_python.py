# SPDX-License-Identifier: Apache-2.0
"""The published Python client in its versions, each in a directory of its own: tests/clients/python/day.py does the work."""

import os
import pathlib
import subprocess
import sys

import pytest

from cay_local import ROOT, is_ready

SOURCE = pathlib.Path(ROOT) / "tests" / "clients" / "python"
MADE = pathlib.Path(ROOT) / "build" / "clients"
OLDEST = "28.1.0"  # the fetch of one takes seconds; the newest is in the environment of all tests
VERSIONS = [line.strip() for line in (SOURCE / "versions").read_text().splitlines() if line[0] != "#"]
SCENARIOS = ["typed", "custom", "watches", "execute", "execute_often", "forward", "forward_often", "apply"]

SERVER = """
import http.server, socketserver, sys, threading
class Hello(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello\\n")
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
socketserver.ThreadingTCPServer.allow_reuse_address = True
servers = [http.server.ThreadingHTTPServer(("", 8000), http.server.SimpleHTTPRequestHandler),
           socketserver.ThreadingTCPServer(("", 8001), Hello), socketserver.ThreadingTCPServer(("", 8002), Echo)]
for s in servers[1:]:
    threading.Thread(target=s.serve_forever, daemon=True).start()
print("serving", flush=True)
sys.stderr = open("/dev/null", "w")
servers[0].serve_forever()
"""


def newest():
    line = next(line for line in (pathlib.Path(ROOT) / "tests" / "requirements.txt").read_text().splitlines() if line.startswith("kubernetes=="))
    return line.split("==")[1]


def installed(version):
    """Where the version is, with everything it wants; "" for the one that every test can import."""
    if version == newest():
        return ""
    where = MADE / f"python-{version}"
    if not (where / "stamp").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--upgrade", "--target", where]
        r = subprocess.run([*pip, f"kubernetes=={version}"], capture_output=True, text=True, timeout=500)
        if r.returncode:
            pytest.skip(f"kubernetes {version} cannot be had: {r.stderr.splitlines()[-1]}")
        (where / "stamp").write_text(version)
    return str(where)


@pytest.fixture(scope="module")
def world(module_instance):
    cay = module_instance("--watch-history", "1Mi")
    cay.namespaces = 0
    return cay


@pytest.fixture
def namespace(world):
    world.namespaces += 1
    name = f"day-{world.namespaces}"
    world.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    pods = f"/api/v1/namespaces/{name}/pods"
    world.api("POST", pods, {"metadata": {"name": "web"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "main", "image": "host", "command": ["python3", "-c", SERVER], "workingDir": "/etc",
         "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}})
    world.wait(pods, "web", is_ready)
    yield name
    world.api("DELETE", f"/api/v1/namespaces/{name}")


def runs():
    """Each takes a second of a processor to begin with, so that only the oldest does all of it by default."""
    for version in [*VERSIONS, newest()]:
        for scenario in SCENARIOS:
            default = version == OLDEST or (version == newest() and scenario in ("custom", "execute", "forward"))
            yield pytest.param(version, scenario, marks=[] if default else [pytest.mark.long])


@pytest.mark.parametrize("version,scenario", list(runs()))
def test_a_day_of_the_python_client(world, namespace, version, scenario):
    env = dict(os.environ, KUBECONFIG=world.kubeconfig, PYTHONPATH=installed(version))
    r = subprocess.run([sys.executable, SOURCE / "day.py", scenario, namespace], capture_output=True, text=True, timeout=500, env=env)
    assert r.returncode == 0, r.stderr[-4000:]
