# SPDX-License-Identifier: Apache-2.0
"""The samples of tests/data/samples: that docs/guide/examples.md is right about them, and those that test_kubectl.py does not go into."""

import json
import os
import re

import pytest

from cay_local import EXTENSIONS, ROOT
from conftest import SAMPLES

CLAIMS = f"{EXTENSIONS}/namespaces/demo/sandboxclaims"
POOLS = f"{EXTENSIONS}/namespaces/demo/sandboxwarmpools"


def test_the_guide_has_every_sample_and_its_test():
    with open(os.path.join(ROOT, "docs", "guide", "examples.md")) as f:
        rows = re.findall(r"^\| \[(\S+)\]\(\S+/(\S+)\) \|.*\| `(\w+\.py)::(\w+)` \|$", f.read(), re.M)
    assert [name + ".yaml" for name, *_ in rows] == [file for _, file, *_ in rows] == sorted(os.listdir(SAMPLES))
    for _, _, file, test in rows:
        with open(os.path.join(os.path.dirname(__file__), file)) as f:
            assert f"def {test}(" in f.read(), test


@pytest.fixture(scope="module")
def demo(cay):
    """All samples, applied as a person would: the whole directory in one go."""
    cay.kubectl("create", "namespace", "demo")
    said = cay.kubectl("apply", "-f", SAMPLES, check=False)
    wrong = [line for line in said.stderr.splitlines() if not line.startswith("Warning")]
    assert not wrong, wrong
    return cay


def get(cay, kind, name, *flags):
    return json.loads(cay.kubectl("-n", "demo", "get", kind, name, "-o", "json", *flags).stdout)


def test_sample_06_keeps_its_own_rules(demo):
    demo.wait_ready(CLAIMS, "user-two")
    spec = get(demo, "networkpolicy", "py-open-network-policy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"] and spec["podSelector"]["matchLabels"]
    assert spec["ingress"][0]["from"] == [{"podSelector": {"matchLabels": {"role": "gateway"}}}]
    assert [(p["port"], p["protocol"]) for p in spec["egress"][0]["ports"]] == [(53, "UDP")]
    pod = get(demo, "pod", "user-two")
    assert "dnsConfig" not in pod["spec"] and pod["spec"]["dnsPolicy"] == "ClusterFirst"
    assert [c["name"] for c in pod["spec"]["containers"]] == ["runtime", "sidecar"]
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_sample_07_has_no_policy(demo):
    demo.api("POST", POOLS, {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": {"name": "byo"},
                             "spec": {"replicas": 1, "sandboxTemplateRef": {"name": "byo-cni"}}})
    pool = demo.wait(POOLS, "byo", lambda p: p and p.get("status", {}).get("readyReplicas") == 1)
    pods = json.loads(demo.kubectl("-n", "demo", "get", "sandbox", "-o", "json", "-l", pool["status"]["selector"]).stdout)["items"]
    spec = get(demo, "pod", pods[0]["metadata"]["name"])["spec"]
    assert spec["automountServiceAccountToken"] is False and spec["dnsPolicy"] == "ClusterFirst"
    assert "byo-cni-network-policy" not in demo.kubectl("-n", "demo", "get", "networkpolicy", "-o", "name").stdout


def test_sample_12_is_stored_as_v1beta1_and_reads_back_as_it_was_written(demo):
    assert get(demo, "sandbox", "old-parked")["spec"]["operatingMode"] == "Suspended"
    assert get(demo, "sandboxes.v1alpha1.agents.x-k8s.io", "old-parked")["spec"]["replicas"] == 0
    assert get(demo, "sandboxtemplate", "old-template")["spec"]["volumeClaimTemplatesPolicy"] == "Allowed"
    for name, pool, warmpool in (("old-none", "shadow-pool-old-template", "none"), ("old-pinned", "old-pool", "old-pool")):
        assert get(demo, "sandboxclaim", name)["spec"]["warmPoolRef"]["name"] == pool
        assert get(demo, "sandboxclaims.v1alpha1.extensions.agents.x-k8s.io", name)["spec"]["warmpool"] == warmpool
        demo.wait_ready(CLAIMS, name)
    assert get(demo, "sandboxclaim", "old-none")["status"]["sandbox"]["name"] == "old-none"
    said = demo.kubectl("apply", "-f", os.path.join(SAMPLES, "12-v1alpha1.yaml"))
    groups = {"agents.x-k8s.io": ["Sandbox"], "extensions.agents.x-k8s.io": ["SandboxTemplate", "SandboxWarmPool", "SandboxClaim"]}
    assert {line for line in said.stderr.splitlines() if "deprecated" in line} == {
        f"Warning: {group}/v1alpha1 {kind} is deprecated; use {group}/v1beta1 {kind} instead"
        for group, kinds in groups.items() for kind in kinds}
