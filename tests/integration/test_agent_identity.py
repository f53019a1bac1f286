# SPDX-License-Identifier: Apache-2.0
"""Agents that prove themselves with keys of their own: `cay token`, kubectl, and tokens that were narrowed."""

import base64
import json
import os
import stat
import subprocess
import time

import pytest
from cay_local import wait_until
from gate_kit import attach, session
from mcp_kit import Raw, call
from test_identity import ask, b64

AGENTS = "/apis/cay.dev/v1alpha1/namespaces/default/agents"
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WAIT_S = 60


class Agent:
    """One with a key in a file."""

    def __init__(self, cay, name, role=None):
        self.cay, self.name = cay, name
        self.key = os.path.join(cay.data_dir, name + ".pem")
        self.keys = json.loads(token(cay, "key", self.key, "-o", "json"))["keys"]
        cay.api("POST", AGENTS, {"apiVersion": "cay.dev/v1alpha1", "kind": "Agent", "metadata": {"name": name}, "spec": {"keys": self.keys}})
        if role:
            cay.kubectl("create", "rolebinding", name, "--clusterrole", role, "--user", self.user)

    @property
    def user(self):
        return "cay:agent:default:" + self.name

    def enters(self, *sandboxes):
        session(self.cay, self.name, self.name)
        for sandbox in sandboxes:
            attach(self.cay, f"{self.name}-{sandbox}", self.name, sandbox)
        return self

    def mint(self, *flags):
        return token(self.cay, "mint", "--key", self.key, "--agent", "default/" + self.name, "--kubeconfig", self.cay.kubeconfig, *flags).strip()

    def set_keys(self, keys):
        self.cay.api("PATCH", f"{AGENTS}/{self.name}", {"spec": {"keys": keys}}, content_type="application/merge-patch+json")


def token(cay, *args, stdin=None, check=True):
    r = subprocess.run([os.path.join(cay.build, "cay"), "token", *args], input=stdin, capture_output=True, text=True, timeout=60)
    if check:
        assert r.returncode == 0, r.stderr
        return r.stdout
    return r


def narrow(cay, text, *flags):
    return token(cay, "narrow", *flags, stdin=text).strip()


def kubeconfig(cay, name, user):
    """A kubeconfig with this user entry, in YAML."""
    ca = base64.b64encode(open(os.path.join(cay.data_dir, "ca.crt"), "rb").read()).decode()
    path = os.path.join(cay.data_dir, name + ".kubeconfig")
    with open(path, "w") as f:
        f.write(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": user}],
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{cay.port}", "certificate-authority-data": ca}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}]}))
    return path


def kubectl_env(path):
    return dict(os.environ, HOME=os.path.dirname(path), KUBECONFIG="/nonexistent")


def kubectl(path, *args):
    return subprocess.run(["kubectl", "--kubeconfig", path, *args], capture_output=True, text=True, timeout=120, env=kubectl_env(path))


def whoami(cay, text):
    status, answer = ask(cay, SELF, text, "POST", {})
    assert status == 201, answer
    return answer["status"]["userInfo"]


@pytest.fixture(scope="module")
def cay(module_instance):
    return module_instance()


@pytest.fixture(scope="module")
def boxes(cay):
    """Two sandboxes that run."""
    for name in ("mine", "yours"):
        cay.api("POST", SANDBOXES, {
            "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [
                {"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    for name in ("mine", "yours"):
        cay.wait_ready(SANDBOXES, name)


def test_an_agent_makes_a_key_is_verified_and_asks_with_kubectl(cay):
    agent = Agent(cay, "coder", role="view")
    assert stat.S_IMODE(os.stat(agent.key).st_mode) == 0o600
    path = kubeconfig(cay, "coder", {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": os.path.join(cay.build, "cay"), "interactiveMode": "Never",
        "provideClusterInfo": True, "args": ["token", "mint", "-o", "exec", "--key", agent.key, "--agent", "default/coder", "--key-name", "main"]}})
    info = json.loads(kubectl(path, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert info["username"] == agent.user
    assert sorted(info["groups"]) == ["cay:agents", "cay:agents:default", "system:authenticated"]
    agent.set_keys([{**agent.keys[0], "verified": True}])
    info = json.loads(kubectl(path, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert "cay:verified" in info["groups"]
    assert kubectl(path, "get", "configmaps").returncode == 0
    refused = kubectl(path, "delete", "configmap", "x")
    assert f'User "{agent.user}" cannot delete resource "configmaps"' in refused.stderr
    agent.set_keys([])
    assert kubectl(path, "get", "configmaps").returncode == 1


def test_a_token_that_openssl_signs_is_one(cay):
    agent = Agent(cay, "foreign")
    audience = token(cay, "audience", "--kubeconfig", cay.kubeconfig).strip()
    der = subprocess.run(["openssl", "x509", "-in", os.path.join(cay.data_dir, "ca.crt"), "-noout", "-pubkey"], capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=der, capture_output=True, check=True).stdout
    digest = subprocess.run(["openssl", "dgst", "-sha256", "-r"], input=der, capture_output=True, check=True).stdout.split()[0].decode()
    assert audience == "cay:instance:" + digest
    now = int(time.time())
    claims = {"iss": agent.user, "sub": agent.user, "aud": audience, "iat": now, "exp": now + 60, "jti": "1"}
    text = b64(json.dumps({"alg": "EdDSA", "typ": "JWT", "kid": "main"}).encode()) + "." + b64(json.dumps(claims).encode())
    body = os.path.join(cay.data_dir, "body")
    with open(body, "w") as f:
        f.write(text)
    signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", agent.key, "-in", body], capture_output=True, check=True).stdout
    assert whoami(cay, text + "." + b64(signature))["username"] == agent.user


def test_a_token_of_one_instance_is_worthless_on_another(cay, fresh):
    other = fresh()
    agent = Agent(cay, "traveller")
    body = {"apiVersion": "cay.dev/v1alpha1", "kind": "Agent", "metadata": {"name": "traveller"}, "spec": {"keys": agent.keys}}
    other.api("POST", AGENTS, body)
    text = agent.mint()
    assert ask(cay, SELF, text, "POST", {})[0] == 201
    assert ask(other, SELF, text, "POST", {})[0] == 401
    there = token(cay, "mint", "--key", agent.key, "--agent", "default/traveller", "--kubeconfig", other.kubeconfig).strip()
    assert ask(other, SELF, there, "POST", {})[0] == 201
    assert ask(cay, SELF, there, "POST", {})[0] == 401


def test_a_narrowed_token_works_with_kubectl_for_what_it_leaves(cay, boxes):
    agent = Agent(cay, "boss", role="admin").enters("mine", "yours")
    whole = agent.mint()
    path = kubeconfig(cay, "reader", {"token": narrow(cay, whole, "--right", "read")})
    assert kubectl(path, "get", "pods").returncode == 0
    assert 'narrowed to {"rights":["read"]}' in kubectl(path, "delete", "sandbox", "mine").stderr
    assert kubectl(path, "exec", "mine", "--", "true").returncode != 0
    both = narrow(cay, whole, "--right", "read", "--right", "exec", "--sandbox", "mine", "--sealed")
    path = kubeconfig(cay, "one", {"token": both})
    assert kubectl(path, "exec", "mine", "--", "echo", "in").stdout == "in\n"
    assert "forbidden" in kubectl(path, "exec", "yours", "--", "echo", "in").stderr
    assert "forbidden" in kubectl(path, "get", "pods").stderr
    assert whoami(cay, both)["extra"]["cay.dev/grant"]
    assert kubectl(kubeconfig(cay, "whole", {"token": whole}), "exec", "yours", "--", "true").returncode == 0
    short = narrow(cay, whole, "--ttl", "1s")  # the shortest end of all blocks counts
    wait_until(lambda: ask(cay, SELF, short, "POST", {})[0] == 401)
    assert ask(cay, SELF, whole, "POST", {})[0] == 201


def test_nobody_gets_back_what_was_taken_away(cay):
    agent = Agent(cay, "giver", role="admin")
    whole = agent.mint()
    given = narrow(cay, whole, "--right", "read")
    wider = narrow(cay, given, "--right", "read", "--right", "lifecycle", "--right", "exec")
    assert ask(cay, MAPS, wider)[0] == 200
    assert ask(cay, SANDBOXES + "/x", wider, "DELETE")[0] == 403
    parts = given.split(".")
    cut = ".".join(parts[:4])
    for text in (cut, cut[5:], cut + "." + parts[-1], cut + "." + parts[-2], given[:-1], given[:-4] + "AAAA"):
        assert ask(cay, MAPS, text)[0] == 401, text
    status, answer = ask(cay, MAPS, given, headers={"Impersonate-User": agent.user})
    assert status == 403 and "narrowed" in answer["message"]


@pytest.mark.parametrize("end", ["key", "agent"])
def test_the_end_of_a_key_cuts_what_is_open(cay, boxes, end):
    agent = Agent(cay, "ends-" + end, role="admin").enters("mine")
    path = kubeconfig(cay, agent.name, {"token": agent.mint()})
    before = cay.metric("cay_api_watches")
    watch = subprocess.Popen(["kubectl", "--kubeconfig", path, "get", "--raw", MAPS + "?watch=1&timeoutSeconds=600"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=kubectl_env(path))
    wait_until(lambda: cay.metric("cay_api_watches") > before)
    inside = subprocess.Popen(["kubectl", "--kubeconfig", path, "exec", "mine", "--", "sh", "-c", "echo in; sleep 1000"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=kubectl_env(path))
    assert inside.stdout.readline() == "in\n"
    if end == "key":
        agent.set_keys([])
    else:
        cay.api("DELETE", f"{AGENTS}/{agent.name}")
    inside.wait(WAIT_S)  # what runs there would take much longer
    watch.wait(WAIT_S)
    assert kubectl(path, "get", "pods").returncode == 1
    for p in (inside, watch):
        p.stdout.close()


def test_what_an_agent_opened_outlives_its_token_and_what_was_lent_does_not(cay, boxes):
    """A token of five minutes is renewed by whoever has the key; a narrowed one is all that its bearer has."""
    agent = Agent(cay, "outlives").enters("mine")
    whole = agent.mint("--ttl", "20s")
    lent = narrow(cay, agent.mint("--ttl", "20s"), "--right", "exec", "--right", "read")
    ps = {}
    for name, text in (("whole", whole), ("lent", lent)):
        path = kubeconfig(cay, f"{agent.name}-{name}", {"token": text})
        ps[name] = subprocess.Popen(["kubectl", "--kubeconfig", path, "exec", "-i", "mine", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, bufsize=1, env=kubectl_env(path))
        ps[name].stdin.write("in\n")
        assert ps[name].stdout.readline() == "in\n"
    ps["lent"].wait(WAIT_S)
    wait_until(lambda: ask(cay, SELF, whole, "POST", {})[0] == 401)
    ps["whole"].stdin.write("still\n")
    assert ps["whole"].stdout.readline() == "still\n"
    for p in ps.values():
        p.kill()
        p.wait()
        for f in (p.stdin, p.stdout):
            try:
                f.close()
            except BrokenPipeError:
                pass  # what nobody has read any more


def test_a_narrowed_token_names_the_tools_of_mcp_that_it_leaves(cay):
    agent = Agent(cay, "tooler", role="admin")
    text = narrow(cay, agent.mint(), "--tool", "get_*")
    wire = Raw(cay, text)
    wire.open()
    for tool, word in (("get_sandbox_status", "not found"), ("delete_sandbox", "narrowed to other tools")):
        answer = wire.send(call(tool, sandbox_claim_name="nothing"))[2]
        assert word in json.dumps(answer), (tool, answer)


def test_the_command_reads_no_token_from_its_arguments_and_asks_nobody(cay):
    key = os.path.join(cay.data_dir, "offline.pem")
    token(cay, "key", key)
    again = token(cay, "key", key, check=False)
    assert again.returncode == 1 and "exists" in again.stderr
    text = token(cay, "mint", "--key", key, "--agent", "a/b", "--audience", "x").strip()
    assert token(cay, "narrow", text, "--right", "read", check=False).returncode == 2
    path = os.path.join(cay.data_dir, "token")
    with open(path, "w") as f:
        f.write(text + "\n")
    sealed = token(cay, "narrow", "-f", path, "--right", "exec", "--right", "read", "--sealed").strip()
    shown = json.loads(token(cay, "show", "-o", "json", stdin=sealed))
    assert (shown["verified"], shown["agent"], shown["sealed"], shown["grant"]) == (False, "a/b", True, {"rights": ["exec", "read"]})
    assert "Nothing of this was verified" in token(cay, "show", stdin=sealed)
    for flags, stdin in ((("narrow", "--right", "read"), sealed), (("narrow", "--right", "root"), text), (("narrow",), text), (("mint",), None),
                         (("mint", "--key", key, "--agent", "a/b", "--audience", "x", "--ttl", "6m"), None), ((), None)):
        assert token(cay, *flags, stdin=stdin, check=False).returncode == 2, flags
    assert token(cay, "show", stdin="a.b.c", check=False).returncode == 1
    assert "usage: cay token narrow" in token(cay, "narrow", "--help")
