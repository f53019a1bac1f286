# SPDX-License-Identifier: Apache-2.0
"""What the published Python client expects of the API server, case by case: the same program for the newest and for 0.5.6, which says what it saw."""

import datetime
import json
import os
import shlex
import subprocess

import pytest

from cay_local import EXTENSIONS, ApiError, wait_until
from test_python_sdk import python_of
from test_router_cases import kind

CLAIMS = f"{EXTENSIONS}/namespaces/default/sandboxclaims"

PROGRAM = """
import importlib.metadata, json, os, threading, time
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox import exceptions as x
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

new = importlib.metadata.version("k8s-agent-sandbox") > "1"
config = SandboxDirectConnectionConfig(api_url=os.environ["CAY_ROUTER"])
client = SandboxClient(connection_config=config)
told = {}

def error_of(function, *args, **more):
    try:
        function(*args, **more)
        return "none"
    except Exception as e:
        return type(e).__name__ + ": " + str(e)

# 170, 171, 186, 211: what a claim is made of. It is kept for the test to look at.
box = client.create_sandbox("agents", labels={"who": "me", "agents.x-k8s.io/created-by": "somebody"}, shutdown_after_seconds=300,
                            pod_labels={"sandbox.users.io/team": "blue"}, pod_annotations={"sandbox.users.io/note": "a b: c"})
told["claim"] = box.claim_name
# 173, 178, 179, 187, 191, 192
other = SandboxClient(connection_config=config)
again = other.get_sandbox(box.claim_name)
told["same"] = [again.sandbox_id == box.sandbox_id, again.get_pod_name() == box.sandbox_id, bool(again.get_sandbox_name_hash()), again.status()[0],
                other.get_sandbox_claim_warmpool_name(box.claim_name, "default"), box.claim_name in other.list_all_sandboxes(label_selector="who=me")]
# 175, 176, 182, U11: what ends a wait at once, and leaves no claim behind
told["no template"] = error_of(client.create_sandbox, "without-template", sandbox_ready_timeout=60)
told["no pool"] = error_of(client.create_sandbox, "nowhere", sandbox_ready_timeout=60)
told["bad metadata"] = error_of(client.create_sandbox, "agents", sandbox_ready_timeout=60, pod_labels={"agents.x-k8s.io/mine": "x"})
if new:
    told["env"] = error_of(client.create_sandbox, "agents", sandbox_ready_timeout=60, env={"A": "b"})
# 174, 177: a claim whose sandbox never gets ready is deleted while its client waits
def delete_soon():
    waiter = SandboxClient(connection_config=config)
    while not (found := waiter.list_all_sandboxes(label_selector="doomed=yes")):
        time.sleep(0.02)
    waiter.delete_sandbox(found[0])
helper = threading.Thread(target=delete_soon)
helper.start()
told["deleted"] = error_of(client.create_sandbox, "never", sandbox_ready_timeout=60, labels={"doomed": "yes"})
helper.join()
# 181, 183, 193, 210: an end
ended = client.create_sandbox("agents")
name = ended.claim_name
ended.terminate()
ended.terminate()
client.delete_sandbox("nobody")
told["ended"] = [ended.status()[0], error_of(SandboxClient(connection_config=config).get_sandbox, name, resolve_timeout=1)]
# U5, U6: names of one's own
if new:
    first = client.create_sandbox("agents", claim_name="of-mine")
    told["adopted"] = other.create_sandbox("agents", claim_name="of-mine", adopt_existing=True).sandbox_id == first.sandbox_id
    told["taken"] = error_of(other.create_sandbox, "agents", claim_name="of-mine")
    told["other pool"] = error_of(other.create_sandbox, "never", claim_name="of-mine", adopt_existing=True)
    told["not touched"] = first.commands.run("echo here").stdout
# 211: volumes of one's own, and a client that cleans up when the program ends
tidy = SandboxClient(connection_config=config, cleanup=True)
volume = {"metadata": {"name": "custom-workspace"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}}
told["volume"] = "custom-workspace-" + tidy.create_sandbox("volumes", volume_claim_templates=[volume]).sandbox_id
from kubernetes import client as k8s
told["storage"] = k8s.CoreV1Api().read_namespaced_persistent_volume_claim(told["volume"], "default").spec.resources.requests["storage"]
print(json.dumps(told))
"""


def template(name, image="host", command=("sleep", "infinity"), **spec):
    return {**kind("SandboxTemplate"), "metadata": {"name": name}, "spec": {"podTemplate": {"metadata": {"annotations": {"cay.dev/runtime": "python"}}, "spec": {
        "containers": [{"name": "main", "image": image, "command": list(command)}]}}, **spec}}


def pool(name, of, replicas):
    return {**kind("SandboxWarmPool"), "metadata": {"name": name}, "spec": {"replicas": replicas, "sandboxTemplateRef": {"name": of}}}


@pytest.fixture(scope="module")
def world(cay):
    for t in (template("agent"), template("volumes", volumeClaimTemplatesPolicy="Allowed"), template("never", image="not-here:1")):
        cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxtemplates", t)
    for p in (pool("agents", "agent", 4), pool("never", "never", 0), pool("volumes", "volumes", 1), pool("without-template", "nothing", 1)):
        cay.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", p)
    cay.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents", lambda p: p and p.get("status", {}).get("readyReplicas") == 4)
    return cay


def check_claim(claim):
    labels, spec = claim["metadata"]["labels"], claim["spec"]
    assert labels["who"] == "me" and labels["agents.x-k8s.io/created-by"] == "python-client"
    asked = datetime.datetime.fromisoformat(claim["metadata"]["annotations"]["agents.x-k8s.io/client-first-requested-at"])
    end = datetime.datetime.fromisoformat(spec["lifecycle"]["shutdownTime"].replace("Z", "+00:00"))
    assert spec["lifecycle"]["shutdownPolicy"] == "Delete" and abs((end - asked).total_seconds() - 300) < 5
    assert spec["additionalPodMetadata"] == {"labels": {"sandbox.users.io/team": "blue"}, "annotations": {"sandbox.users.io/note": "a b: c"}}
    assert claim["metadata"]["resourceVersion"] and claim["metadata"]["uid"]


@pytest.mark.parametrize("venv", ["venv", "venv-0.5.6"])
def test_u5_u6_u11_the_life_of_a_claim(world, venv):
    """Also dataplane 170 to 179, 181 to 183, 186, 187, 191 to 193, 210 and 211."""
    r = subprocess.run([python_of(venv), "-c", PROGRAM], capture_output=True, text=True, timeout=180,
                       env=dict(os.environ, KUBECONFIG=world.kubeconfig, CAY_ROUTER=f"http://127.0.0.1:{world.router_port}"))
    assert r.returncode == 0, r.stderr
    told = json.loads(r.stdout.splitlines()[-1])
    check_claim(world.api("GET", f"{CLAIMS}/{told['claim']}"))
    assert told["same"] == [True, True, True, "SandboxReady", "agents", True]
    assert told["no template"].startswith("SandboxTemplateNotFoundError"), told
    assert told["no pool"].startswith("SandboxWarmPoolNotFoundError"), told
    assert told["bad metadata"].startswith("SandboxClaimFailedError"), told
    assert told["deleted"].startswith("SandboxMetadataError"), told
    assert told["ended"][0] == "SandboxNotFound" and "not found" in told["ended"][1], told
    assert told["storage"] == "4Gi"
    kept = {told["claim"]}
    if venv == "venv":
        assert told["env"].startswith("SandboxClaimFailedError"), told
        assert told["adopted"] is True and told["not touched"] == "here\n"
        assert "409" in told["taken"] or "AlreadyExists" in told["taken"], told
        assert told["other pool"].startswith("ValueError"), told
        kept.add("of-mine")
    wait_until(lambda: {c["metadata"]["name"] for c in world.api("GET", CLAIMS)["items"]} == kept)
    for name in kept:
        world.api("DELETE", f"{CLAIMS}/{name}")


# The test of an adapter for deepagents: which of four words describes a path. It is sent in single quotes, over several lines.
STATE = """
if [ -d "$1" ]; then
  echo directory
elif [ -f "$1" ]; then
  if [ -r "$1" ]; then echo file; else echo denied; fi
else
  echo missing
fi
"""


def test_dataplane_253_254_what_an_adapter_for_deepagents_needs(world):
    """Its package is published for no index, so these are its requests: a directory made below /app, commands in it, and files beside it. Cay's base
    directory is /app where a container has it as its working directory."""
    container = {"name": "main", "image": "host", "command": ["sleep", "infinity"], "workingDir": "/app", "volumeMounts": [{"name": "app", "mountPath": "/app"}]}
    world.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxtemplates", {**kind("SandboxTemplate"), "metadata": {"name": "app"}, "spec": {"podTemplate": {
        "metadata": {"annotations": {"cay.dev/runtime": "python"}}, "spec": {"containers": [container], "volumes": [{"name": "app", "emptyDir": {}}]}}}})
    world.api("POST", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", pool("apps", "app", 1))
    labels = {"deepagents.agents.x-k8s.io/thread": "t-1"}
    world.api("POST", CLAIMS, {**kind("SandboxClaim"), "metadata": {"name": "scoped", "labels": labels}, "spec": {"warmPoolRef": {"name": "apps"}}})
    claim = world.wait(CLAIMS, "scoped", lambda c: c and c.get("status", {}).get("sandbox", {}).get("name") and c["status"]["conditions"][0]["status"] == "True")
    box = claim["status"]["sandbox"]["name"]
    found = world.api("GET", f"{CLAIMS}?labelSelector=deepagents.agents.x-k8s.io%2Fthread%3Dt-1")["items"]
    assert [c["metadata"]["name"] for c in found] == ["scoped"]

    def run(text, *args):
        r = world.execute(box, " ".join(["sh", "-c", shlex.quote(text), *map(shlex.quote, args)]))
        return r["stdout"], r["stderr"], r["exit_code"]

    def form(name):
        return f'--XX\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\nit\'s\r\n--XX--\r\n'.encode()

    def upload(name):
        return world.route(box, "POST", "/upload", form(name), headers={"Content-Type": "multipart/form-data; boundary=XX"})[0]

    assert run("mkdir -p /app/work") == ("", "", 0)
    assert run("cd /app/work && pwd && echo oops >&2; exit 7") == ("/app/work\n", "oops\n", 7)
    assert run("cd /app/work && cat <<'END'\nit's \"one\"\n  two\nEND\n") == ('it\'s "one"\n  two\n', "", 0)
    assert upload("work/a.txt") == 200 and upload("../etc/x") == 403
    assert [run(STATE, "sh", p)[0] for p in ("/app/work/a.txt", "/app/work", "/app/none")] == ["file\n", "directory\n", "missing\n"]
    assert world.route(box, "GET", "/download/work%2Fa.txt") == (200, b"it's")
    world.api("DELETE", f"{CLAIMS}/scoped")
    with pytest.raises(ApiError):
        world.wait(CLAIMS, "scoped", lambda c: c is None)
        world.api("GET", f"{CLAIMS}/scoped")
