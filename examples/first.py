# SPDX-License-Identifier: Apache-2.0
"""A first program. Before you run it: pip install k8s-agent-sandbox; export KUBECONFIG=DIR/admin.kubeconfig.

The client reaches the sandbox through `kubectl port-forward`, which it starts itself."""

from k8s_agent_sandbox import SandboxClient

client = SandboxClient()
sandbox = client.create_sandbox("agents")
try:
    sandbox.files.write("hello.txt", "hello from the other side\n")
    print(sandbox.commands.run("cat hello.txt && id -u && hostname").stdout, end="")
finally:
    sandbox.terminate()
