# SPDX-License-Identifier: Apache-2.0
"""Launches yield to claims, and /metrics tells of it."""

from cay_local import EXTENSIONS, is_ready, wait_until

NS = f"{EXTENSIONS}/namespaces/default"
POOLS, CLAIMS = f"{NS}/sandboxwarmpools", f"{NS}/sandboxclaims"


def extension(kind, name, spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_launches_yield_to_claims_and_the_pool_is_full_again(cay):
    spec = {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}
    cay.api("POST", f"{NS}/sandboxtemplates", extension("SandboxTemplate", "t", spec))
    cay.api("POST", POOLS, extension("SandboxWarmPool", "p", {"replicas": 6, "sandboxTemplateRef": {"name": "t"}}))
    full = lambda pool: pool and (pool.get("status") or {}).get("readyReplicas") == 6
    cay.wait(POOLS, "p", full)
    assert cay.metric("cay_launches_yield_changes_total") == 0, "nobody has claimed anything"
    for i in range(3):
        cay.api("POST", CLAIMS, extension("SandboxClaim", f"c{i}", {"warmPoolRef": {"name": "p"}}))
        cay.wait(CLAIMS, f"c{i}", is_ready)
    assert cay.metric("cay_launches_yield_changes_total") >= 1
    cay.wait(POOLS, "p", full)
    for i in range(3):
        cay.api("DELETE", f"{CLAIMS}/c{i}")
        cay.wait(CLAIMS, f"c{i}", lambda claim: claim is None)
    cay.wait(POOLS, "p", full)
    wait_until(lambda: cay.metric("cay_launches_slots_waited_for") == 0)
