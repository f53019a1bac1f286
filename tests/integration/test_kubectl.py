# SPDX-License-Identifier: Apache-2.0
"""Unmodified kubectl against the real program: the manifests of tests/data/samples, and every verb a person uses first."""

import json
import os
import pty
import re
import select
import subprocess
import time

import pytest
from conftest import SAMPLES

from cay_local import AGENTS, EXTENSIONS, condition, is_ready

DEMO = "namespaces/demo"


def sample(number):
    return next(os.path.join(SAMPLES, f) for f in sorted(os.listdir(SAMPLES)) if f.startswith(f"{number:02d}-"))


@pytest.fixture(scope="module", autouse=True)
def demo_namespace(cay):
    cay.kubectl("create", "namespace", "demo")


def get(cay, kind, name):
    return json.loads(cay.kubectl("-n", "demo", "get", kind, name, "-o", "json").stdout)


def test_sample_01_minimal_sandbox_gets_a_pod_and_the_defaults(cay):
    assert "created" in cay.kubectl("apply", "-f", sample(1)).stdout
    cay.kubectl("-n", "demo", "wait", "--for=condition=Ready", "sandbox/hello", "--timeout=60s")
    box = get(cay, "sandbox", "hello")
    assert box["spec"]["operatingMode"] == "Running" and box["spec"]["shutdownPolicy"] == "Retain"
    pod = get(cay, "pod", "hello")
    assert pod["metadata"]["labels"]["agents.x-k8s.io/sandbox-name-hash"] == "4f9f2cab"
    assert box["status"]["podIPs"] == [ip["ip"] for ip in pod["status"]["podIPs"]]
    assert "unchanged" in cay.kubectl("apply", "-f", sample(1)).stdout


def test_sample_02_volume_and_service(cay):
    cay.kubectl("apply", "-f", sample(2))
    cay.kubectl("-n", "demo", "wait", "--for=condition=Ready", "sandbox/notebook", "--timeout=60s")
    service = get(cay, "service", "notebook")
    assert service["spec"]["clusterIP"] == "None"
    assert [(p["name"], p["protocol"], p["port"]) for p in service["spec"]["ports"]] == [
        ("http", "TCP", 8888), ("p-9090-udp", "UDP", 9090)]
    assert get(cay, "pvc", "work-notebook")["status"]["phase"] == "Bound"
    pod = get(cay, "pod", "notebook")
    assert [v["name"] for v in pod["spec"]["volumes"]] == ["scratch", "work"]
    assert pod["metadata"]["labels"]["agents.x-k8s.io/created-by"] == "unknown"
    assert pod["metadata"]["labels"]["agents.x-k8s.io/sandbox-name-hash"] != "ffffffff"
    assert get(cay, "sandbox", "notebook")["status"]["serviceFQDN"] == "notebook.demo.svc.cluster.local"


def test_sample_03_a_finished_command_is_reported(cay):
    cay.kubectl("apply", "-f", sample(3))
    box = cay.wait(f"{AGENTS}/{DEMO}/sandboxes", "one-shot", lambda s: condition(s, "Finished"))
    assert condition(box, "Finished")["reason"] == "PodSucceeded"
    assert condition(box, "Ready")["reason"] == "PodSucceeded"
    assert cay.kubectl("-n", "demo", "logs", "one-shot").stdout == "done\n"


def test_sample_04_suspended_then_resumed_keeps_its_volume(cay):
    cay.kubectl("apply", "-f", sample(4))
    path = f"{AGENTS}/{DEMO}/sandboxes"
    box = cay.wait(path, "parked", lambda s: (condition(s, "Suspended") or {}).get("status") == "True")
    assert condition(box, "Ready")["message"] == "Sandbox is suspended"
    assert cay.kubectl("-n", "demo", "get", "pod", "parked", check=False).returncode == 1
    assert get(cay, "pvc", "data-parked") and get(cay, "service", "parked")
    cay.kubectl("-n", "demo", "patch", "sandbox", "parked", "--type=merge", "-p", '{"spec":{"operatingMode":"Running"}}')
    cay.wait_ready(path, "parked")


def test_samples_05_and_08_template_policy_and_pools(cay):
    cay.kubectl("apply", "-f", sample(5))
    cay.kubectl("apply", "-f", sample(6))
    cay.kubectl("apply", "-f", sample(8))
    pools = f"{EXTENSIONS}/{DEMO}/sandboxwarmpools"
    pool = cay.wait(pools, "py-hot", lambda p: p and p.get("status", {}).get("readyReplicas") == 3)
    assert pool["status"]["selector"].startswith("agents.x-k8s.io/warm-pool-sandbox=")
    policy = get(cay, "networkpolicy", "py-secure-network-policy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    boxes = json.loads(cay.kubectl("-n", "demo", "get", "sandbox", "-o", "json", "-l", pool["status"]["selector"]).stdout)
    assert len(boxes["items"]) == 3
    spec = boxes["items"][0]["spec"]["podTemplate"]["spec"]
    assert spec["automountServiceAccountToken"] is False and spec["dnsConfig"]["nameservers"] == ["8.8.8.8", "1.1.1.1"]


def test_sample_09_claim_is_bound_to_a_member(cay):
    cay.kubectl("apply", "-f", sample(9))
    claim = cay.wait_ready(f"{EXTENSIONS}/{DEMO}/sandboxclaims", "user-one")
    assert claim["status"]["sandbox"]["name"].startswith("py-hot-")


def test_sample_10_claim_with_env_metadata_and_volumes(cay):
    cay.kubectl("apply", "-f", sample(10))
    claim = cay.wait_ready(f"{EXTENSIONS}/{DEMO}/sandboxclaims", "user-two")
    assert claim["status"]["sandbox"]["name"] == "user-two"
    pod = get(cay, "pod", "user-two")
    assert pod["metadata"]["labels"]["sandbox.users.io/customer"] == "acme"
    assert get(cay, "pvc", "results-user-two") and get(cay, "pvc", "cache-user-two")
    out = cay.kubectl("-n", "demo", "exec", "user-two", "-c", "runtime", "--", "sh", "-c", "echo $MODE $EXTRA").stdout
    assert out == "claim 1\n"


def test_sample_11_claims_are_refused_by_condition(cay):
    cay.kubectl("apply", "-f", sample(11))
    claims = f"{EXTENSIONS}/{DEMO}/sandboxclaims"
    for name, reason in (("bad-label", "InvalidMetadata"), ("bad-env", "EnvVarsInjectionRejected"),
                         ("bad-volume", "VolumeClaimTemplatesError")):
        claim = cay.wait(claims, name, lambda c: condition(c, "Ready"))
        assert condition(claim, "Ready")["reason"] == reason


def test_v1alpha1_sandbox_applies_and_is_stored_as_v1beta1(cay):
    text = open(sample(12)).read().split("---")[0]
    r = cay.kubectl("apply", "-f", "-", stdin=text)
    assert "deprecated" in r.stderr
    assert get(cay, "sandbox", "old-parked")["spec"]["operatingMode"] == "Suspended"
    old = json.loads(cay.kubectl("-n", "demo", "get", "sandboxes.v1alpha1.agents.x-k8s.io", "old-parked", "-o", "json").stdout)
    assert old["spec"]["replicas"] == 0


@pytest.mark.parametrize("kind,columns", [
    ("sandbox", ["NAME", "READY", "REASON", "AGE"]),
    ("sandboxclaim", ["NAME", "READY", "SANDBOX", "REASON", "AGE"]),
    ("swp", ["NAME", "READY", "DESIRED", "AGE"]),
    ("sandboxtemplate", ["NAME", "AGE"]),
    ("pods", ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]),
    ("pvc", ["NAME", "STATUS", "VOLUME", "CAPACITY", "ACCESS", "MODES", "STORAGECLASS"]),
])
def test_get_shows_the_documented_columns(cay, kind, columns):
    head = cay.kubectl("-n", "demo", "get", kind).stdout.splitlines()[0].split()
    assert head[:len(columns)] == columns


def test_get_watch_shows_changes_as_they_come(cay):
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir)
    cay.kubectl("-n", "demo", "create", "configmap", "first", "--from-literal=a=b")
    with subprocess.Popen(["kubectl", "-n", "demo", "get", "configmap", "-w", "--output-watch-events",
                           "--field-selector=metadata.name!=kube-root-ca.crt"], env=env, stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout.readline().startswith("EVENT")
            assert re.match(r"ADDED\s+first", p.stdout.readline())
            cay.kubectl("-n", "demo", "create", "configmap", "seen", "--from-literal=a=b")
            assert re.match(r"ADDED\s+seen", p.stdout.readline())
            cay.kubectl("-n", "demo", "delete", "configmap", "seen")
            assert re.match(r"DELETED\s+seen", p.stdout.readline())
        finally:
            p.kill()


def test_describe_tells_spec_status_and_events(cay):
    out = cay.kubectl("-n", "demo", "describe", "sandbox", "hello").stdout
    assert "DependenciesReady" in out and "SandboxReady" in out
    out = cay.kubectl("-n", "demo", "describe", "pod", "hello").stdout
    assert "Started" in out


def test_exec_passes_output_errors_and_exit_code(cay):
    r = cay.kubectl("-n", "demo", "exec", "notebook", "--", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert r.returncode == 7 and r.stdout == "out\n" and "err\n" in r.stderr


def test_exec_passes_input_and_its_end(cay):
    data = "line\n" * 20000
    r = cay.kubectl("-n", "demo", "exec", "-i", "notebook", "--", "wc", "-l", stdin=data)
    assert r.stdout.strip() == "20000"


def test_exec_with_a_terminal(cay):
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir)
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("kubectl", ["kubectl", "-n", "demo", "exec", "-it", "notebook", "--", "sh"], env)
    os.write(fd, b"tty; echo sum=$((40+2)); exit 5\n")
    out, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        out += piece
    _, status = os.waitpid(pid, 0)
    assert b"sum=42" in out and b"/dev/pts/" in out
    assert os.waitstatus_to_exitcode(status) == 5


def test_logs_follow_until_the_end(cay):
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talker", "namespace": "demo"},
                "spec": {"restartPolicy": "Never", "containers": [
                    {"name": "main", "image": "host", "command": ["sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done"]}]}}
    cay.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    cay.wait("/api/v1/namespaces/demo/pods", "talker", lambda p: p and p["status"]["phase"] in ("Running", "Succeeded"))
    assert cay.kubectl("-n", "demo", "logs", "-f", "talker").stdout.splitlines() == [f"line {i}" for i in range(1, 6)]
    assert cay.kubectl("-n", "demo", "logs", "--tail=2", "talker").stdout == "line 4\nline 5\n"


def test_scale_a_pool(cay):
    pools = f"{EXTENSIONS}/{DEMO}/sandboxwarmpools"
    cay.kubectl("-n", "demo", "scale", "sandboxwarmpool", "py-hot", "--replicas=5")
    cay.wait(pools, "py-hot", lambda p: p["status"].get("readyReplicas") == 5)
    cay.kubectl("-n", "demo", "scale", "swp", "py-hot", "--replicas=1")
    cay.wait(pools, "py-hot", lambda p: p["status"].get("replicas") == 1)


def test_explain_api_resources_and_version(cay):
    assert "podTemplate" in cay.kubectl("explain", "sandbox.spec").stdout
    assert "containerPort" in cay.kubectl("explain", "pod.spec.containers.ports").stdout
    out = cay.kubectl("api-resources").stdout
    for name in ("sandboxes", "sandboxclaims", "sandboxtemplates", "sandboxwarmpools", "pods", "networkpolicies", "leases"):
        assert name in out
    assert "Server Version" in cay.kubectl("version").stdout


@pytest.mark.parametrize("manifest,words", [
    ({"spec": {}}, ["spec.podTemplate", "Required value"]),
    ({"spec": {"podTemplate": {"spec": {"containers": [{"name": "a", "image": "host"}]}}, "operatingMode": "Sleepy"}},
     ["spec.operatingMode", "Unsupported value", "Running"]),
    ({"spec": {"podTemplate": {"spec": {"containers": "x"}}}}, ["spec.podTemplate.spec.containers"]),
    ({"spec": {"podTemplate": {"spec": {"containers": [{"name": "a", "image": "host"}]}}, "colour": "blue"}},
     ["unknown field", "spec.colour"]),
])
def test_bad_manifests_name_the_field(cay, manifest, words):
    manifest = dict(manifest, apiVersion="agents.x-k8s.io/v1beta1", kind="Sandbox", metadata={"name": "bad", "namespace": "demo"})
    r = cay.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert r.returncode == 1
    for word in words:
        assert word in r.stderr, r.stderr
    assert cay.kubectl("-n", "demo", "get", "sandbox", "bad", check=False).returncode == 1


def test_a_broken_image_name_is_told_by_pod_and_event(cay):
    manifest = {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "noimage", "namespace": "demo"},
                "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "example.com/none:1"}]}}}}
    cay.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def waiting(pod):
        states = [c["state"] for c in ((pod or {}).get("status") or {}).get("containerStatuses") or []]
        return any("Image" in s.get("waiting", {}).get("reason", "") for s in states)

    cay.wait("/api/v1/namespaces/demo/pods", "noimage", waiting)
    assert "example.com/none:1" in cay.kubectl("-n", "demo", "describe", "pod", "noimage").stdout
    box = get(cay, "sandbox", "noimage")
    assert not is_ready(box)


def test_a_missing_command_is_told_by_the_container_state(cay):
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nocommand", "namespace": "demo"},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "host", "command": ["/no/such/program"]}]}}
    cay.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    pod = cay.wait("/api/v1/namespaces/demo/pods", "nocommand",
                   lambda p: p and "/no/such/program" in json.dumps(p["status"].get("containerStatuses", [])))
    assert pod["status"]["phase"] in ("Failed", "Pending")


def test_a_missing_pool_is_told_by_the_claim(cay):
    manifest = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
                "metadata": {"name": "nopool", "namespace": "demo"}, "spec": {"warmPoolRef": {"name": "none"}}}
    cay.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    claim = cay.wait(f"{EXTENSIONS}/{DEMO}/sandboxclaims", "nopool", lambda c: condition(c, "Ready"))
    assert condition(claim, "Ready")["reason"] == "WarmPoolNotFound"


def test_delete_takes_everything_below_with_it(cay):
    cay.kubectl("-n", "demo", "delete", "sandbox", "notebook")
    for kind, path in (("pods", "/api/v1/namespaces/demo/pods"), ("services", "/api/v1/namespaces/demo/services")):
        cay.wait(path, "notebook", lambda o: o is None)
    cay.wait("/api/v1/namespaces/demo/persistentvolumeclaims", "work-notebook", lambda o: o is None)
    cay.kubectl("-n", "demo", "delete", "sandboxclaim", "user-one", "user-two")
    cay.wait("/api/v1/namespaces/demo/pods", "user-two", lambda o: o is None)
    cay.kubectl("delete", "namespace", "demo", timeout=180)
    assert cay.kubectl("get", "namespace", "demo", check=False).returncode == 1
