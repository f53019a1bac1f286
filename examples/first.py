# SPDX-License-Identifier: Apache-2.0
"""A first program. Before you run it: pip install k8s-agent-sandbox; export KUBECONFIG=DIR/admin.kubeconfig."""

import os

from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

router = os.environ.get("CAY_ROUTER", "http://127.0.0.1:8080")
client = SandboxClient(connection_config=SandboxDirectConnectionConfig(api_url=router))
sandbox = client.create_sandbox("agents")
try:
    sandbox.files.write("hello.txt", "hello from the other side\n")
    print(sandbox.commands.run("cat hello.txt && id -u && hostname").stdout, end="")
finally:
    sandbox.terminate()
