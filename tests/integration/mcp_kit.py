# SPDX-License-Identifier: Apache-2.0
"""The official MCP client against a `cay serve`, over HTTP and over `cay mcp`; and bare HTTP, for what no client would send."""

import contextlib
import http.client
import json
import os
import ssl

import httpx2
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from cay_local import EXTENSIONS

CLAIMS = EXTENSIONS + "/namespaces/default/sandboxclaims"
VERSION = "2025-11-25"

# No port of the runtime API, and no directory of its own: everything goes through exec.
TEMPLATE = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": {"name": "plain"},
            "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [
                {"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}}


def make_pool(cay, name="plain", replicas=3):
    cay.api("POST", EXTENSIONS + "/namespaces/default/sandboxtemplates", TEMPLATE)
    cay.api("POST", EXTENSIONS + "/namespaces/default/sandboxwarmpools",
            {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": name},
             "spec": {"replicas": replicas, "sandboxTemplateRef": {"name": "plain"}}})
    cay.wait(EXTENSIONS + "/namespaces/default/sandboxwarmpools", name,
             lambda p: p and p.get("status", {}).get("readyReplicas") == replicas)


def token_of(cay, name):
    """The token of a new service account."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cay.api("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    return cay.api("POST", f"{accounts}/{name}/token",
                   {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]


class Failed(Exception):
    """A result that is an error; its text, and what it tells besides."""

    def __init__(self, result):
        super().__init__(result.content[0].text)
        self.told = result.structured_content


class Tools:
    """A session of the official client; tools are its methods."""

    def __init__(self, session):
        self.session = session

    def __getattr__(self, tool):
        async def call(*args, **arguments):
            if args:
                arguments["sandbox_claim_name"] = args[0]
            result = await self.session.call_tool(tool, arguments)
            if result.is_error:
                raise Failed(result)
            return result.structured_content
        return call

    async def create(self, **more):
        return (await self.create_sandbox(**{"warmpool": "plain", "namespace": "default", **more}))["sandbox_claim_name"]

    async def sandboxes(self, ns="default"):
        return sorted(c.text for c in (await self.session.read_resource(f"sandboxes://{ns}")).contents)


@contextlib.asynccontextmanager
async def connect(cay, token=None, query=""):
    """Over HTTP, with a token or as the administrator."""
    context = ssl.create_default_context(cadata=cay.credentials()[0].decode()) if token else cay.context()
    headers = {"Authorization": "Bearer " + token} if token else {}
    async with httpx2.AsyncClient(verify=context, headers=headers, timeout=60) as client:
        url = f"https://127.0.0.1:{cay.port}/mcp{query}"
        async with streamable_http_client(url, http_client=client) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            yield Tools(session)


def bridge(cay, *flags):
    return [os.path.join(cay.build, "cay"), "mcp", "--kubeconfig", cay.kubeconfig, *flags]


@contextlib.asynccontextmanager
async def connect_stdio(cay, *flags):
    command, *args = bridge(cay, *flags)
    async with stdio_client(StdioServerParameters(command=command, args=args)) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            yield Tools(session)


class Raw:
    """Bare requests to /mcp of one user."""

    def __init__(self, cay, token=None, query=""):
        self.cay, self.path = cay, "/mcp" + query
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token:
            self.headers["Authorization"] = "Bearer " + token
        self.token = token

    def conn(self):
        context = ssl._create_unverified_context() if self.token is not None else self.cay.context()
        return http.client.HTTPSConnection("127.0.0.1", self.cay.port, timeout=60, context=context)

    def send(self, body, method="POST", **headers):
        """(status, headers, decoded body)"""
        conn = self.conn()
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        sent = {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        conn.request(method, self.path, data, {k: v for k, v in sent.items() if v is not None})
        answer = conn.getresponse()
        text = answer.read()
        conn.close()
        return answer.status, answer.headers, json.loads(text) if text.startswith((b"{", b"[")) else text

    def leave(self, body):
        """Sends it and does not wait for the answer."""
        conn = self.conn()
        conn.request("POST", self.path, json.dumps(body), self.headers)
        conn.close()

    def open(self, version=VERSION):
        """Opens a session, which everything that follows is sent in."""
        status, headers, answer = self.send(request("initialize", protocolVersion=version, capabilities={},
                                                    clientInfo={"name": "raw", "version": "0"}), Mcp_Session_Id=None)
        assert status == 200, answer
        self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        return answer["result"]


def request(method, id=1, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(tool, id=1, **arguments):
    return request("tools/call", id, name=tool, arguments=arguments)
