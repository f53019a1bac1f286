# SPDX-License-Identifier: Apache-2.0
"""Agents, sessions and attachments for tests, and commands that an agent runs with kubectl."""

import contextlib
import subprocess

from cay_local import AGENTS, wait_until

CAY = "/apis/cay.dev/v1alpha1/namespaces/default"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"


def put(cay, plural, kind, name, **spec):
    return cay.api("POST", f"{CAY}/{plural}", {"apiVersion": "cay.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def agent(cay, name, **spec):
    return put(cay, "agents", "Agent", name, **{"sandbox": {"mode": "UserChooses"}, **spec})


def session(cay, name, of, **spec):
    return put(cay, "sessions", "Session", name, agent=of, **{"sandbox": "none", **spec})


def attach(cay, name, session, sandbox, **spec):
    return put(cay, "attachments", "Attachment", name, session=session, sandbox=sandbox, **spec)


def patch(cay, plural, name, body, sub=""):
    return cay.api("PATCH", f"{CAY}/{plural}/{name}{sub}", body, content_type="application/merge-patch+json")


def delete(cay, plural, name):
    return cay.api("DELETE", f"{CAY}/{plural}/{name}")


def box(cay, name, *command):
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
        "containers": [{"name": "main", "image": "host", "command": list(command) or ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, name)


def acting(name, ns="default"):
    """Flags of kubectl for an agent; its own tokens are for tests of identity."""
    return ["--as", f"cay:agent:{ns}:{name}", "--as-group", "cay:agents", "--as-group", "system:authenticated"]


def run(cay, name, sandbox, *argv, stdin=None, **more):
    return cay.kubectl(*acting(name), "exec", *(["-i"] if stdin is not None else []), sandbox, "--", *argv, stdin=stdin, check=False, **more)


@contextlib.contextmanager
def waiting(cay, name, sandbox, *argv, stdin=None):
    """A command under way; it is ended afterwards."""
    command = ["kubectl", "--kubeconfig", cay.kubeconfig, *acting(name), "exec", *(["-i"] if stdin is not None else []), sandbox, "--", *argv]
    p = subprocess.Popen(command, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if stdin is not None:
        p.stdin.write(stdin)
        p.stdin.close()
        p.stdin = None
    try:
        yield p
    finally:
        p.kill()
        p.communicate()


def open_questions(cay, name):
    return [a for a in cay.api("GET", f"{CAY}/approvals")["items"] if a["spec"]["agent"] == name and not a.get("status", {}).get("decision")]


def question(cay, name):
    """The one of this agent that is open, as soon as it is."""
    wait_until(lambda: len(open_questions(cay, name)) == 1)
    return open_questions(cay, name)[0]


def decide(cay, approval, decision):
    return patch(cay, "approvals", approval["metadata"]["name"], {"status": {"decision": decision}}, "/status")
