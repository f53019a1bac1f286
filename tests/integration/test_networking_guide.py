# SPDX-License-Identifier: Apache-2.0
"""What docs/guide/networking.md says, step by step."""

import os
import subprocess

import pytest

from cay_local import ROOT, free_port, wait_until

EXAMPLES = os.path.join(ROOT, "examples")


def status(url, *more):
    return subprocess.run(["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", *more, url], capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def net(module_instance):
    gateway = f"127.0.{os.getpid() % 250 + 2}.{free_port() % 250 + 2}"
    cay = module_instance("--gateway-listen", gateway)
    cay.gateway = gateway
    port = free_port() % 2767 + 30000  # others on this machine may have the guide's
    with open(os.path.join(EXAMPLES, "networking.yaml")) as f:
        cay.kubectl("apply", "-f", "-", stdin=f.read().replace("nodePort: 30080", f"nodePort: {port}"))
    cay.kubectl("wait", "--for=condition=Ready", "sandbox/web", "sandbox/agent", "--timeout=120s")
    cay.node_port = port
    return cay


TO_WEB = ("-H", "X-Sandbox-ID: web", "-H", "X-Sandbox-Port: 8000")


def test_the_ways_into_a_sandbox(net):
    wait_until(lambda: status(f"http://127.0.0.1:{net.router_port}/", *TO_WEB) == "200")
    wait_until(lambda: status(f"http://127.0.0.1:{net.node_port}/") == "200")
    assert status(f"http://{net.gateway}/", *TO_WEB) == "200"
    assert net.gateway in net.kubectl("get", "gateway", "external-http-gateway").stdout
    url = net.cay("url", "web", "8000", "--router", f"http://127.0.0.1:{net.router_port}").stdout.strip()
    assert url.startswith("http://8000-web.default.sandbox.localhost:") and status(url, "-L", "-c", "/dev/null", "--cookie", "") == "200"


def test_between_sandboxes_both_ends_decide(net):
    def ask(url):
        done = net.kubectl("exec", "agent", "--", "curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", url, check=False)
        return done.stdout

    names = net.kubectl("exec", "agent", "--", "getent", "hosts", "web").stdout + net.kubectl("exec", "agent", "--", "getent", "hosts", "web-public").stdout
    assert "web.default.svc.cluster.local" in names and "10.96." in names
    assert ask("http://web:8000/") == "000"
    net.kubectl("apply", "-f", os.path.join(EXAMPLES, "networking-policy.yaml"))
    wait_until(lambda: ask("http://web:8000/") == "200")
    assert ask("http://web-public/") == "200"
    net.kubectl("delete", "networkpolicy", "web-from-agent")
    wait_until(lambda: ask("http://web:8000/") == "000")
