# SPDX-License-Identifier: Apache-2.0
"""The published Python client, unmodified, in its sandboxd mode: files by REST and commands by gRPC, through kubectl's tunnel."""

import os
import subprocess
import sys

import pytest

from cay_local import EXTENSIONS

TEMPLATE = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": {"name": "daemons"}, "spec": {
    "podTemplate": {"spec": {"containers": [{
        "name": "c", "image": "host", "command": ["sleep", "infinity"],
        "ports": [{"name": "rest", "containerPort": 8080}, {"name": "grpc", "containerPort": 9090}]}]}}}}
POOL = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": "daemons"},
        "spec": {"replicas": 1, "sandboxTemplateRef": {"name": "daemons"}}}

PROGRAM = """
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.models import SandboxdPodTunnelConnectionConfig

client = SandboxClient(connection_config=SandboxdPodTunnelConnectionConfig())
box = client.create_sandbox("daemons")
done = box.commands.run("sh -c 'echo out; echo err >&2; exit 3'")
assert (done.stdout, done.stderr, done.exit_code, done.timed_out) == ("out\\n", "err\\n", 3, False), done
box.files.write("notes/a.txt", b"bytes \\x00 here")
assert box.files.read("notes/a.txt") == b"bytes \\x00 here"
assert [f.name for f in box.files.list("notes")] == ["a.txt"]
assert [f.name for f in box.files.list(".")] == ["notes"]
assert box.files.exists("notes/a.txt") and not box.files.exists("notes/b.txt")
done = box.commands.run("sh -c 'echo $WORD; cat a.txt | wc -c'", env={"WORD": "said"}, cwd="notes")
assert done.stdout == "said\\n12\\n", done
done = box.commands.run("sleep 7309", command_timeout=1)
assert (done.exit_code, done.timed_out) == (124, True), done
done = box.commands.run("pgrep -f '^sleep 7309$'")
assert done.exit_code == 1, done
assert box.commands.run("sh -c 'kill -9 $$'").exit_code == 137
box.files.delete("notes/a.txt")
assert not box.files.exists("notes/a.txt")
box.terminate()
print("all of it")
"""


@pytest.fixture(scope="module")
def pool(cay):
    cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxtemplates", TEMPLATE)
    cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", POOL)
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "daemons",
             lambda p: p and p.get("status", {}).get("readyReplicas") == 1)


def test_dataplane_72_u36_u37_u39_the_published_client_runs_commands_and_keeps_files(cay, pool):
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig)
    r = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, timeout=120)
    assert r.returncode == 0 and r.stdout.endswith("all of it\n"), r.stderr + r.stdout
