# SPDX-License-Identifier: Apache-2.0
"""Claims, templates and pools in v1alpha1: upstream stopped serving it in 1.0, so a server without it passes by answering 404.
Sandboxes are in test_sandbox_life.py."""

import urllib.parse

import pytest

from kit import EXTENSIONS, ApiError, condition, container

OLD = f"/apis/{EXTENSIONS}/v1alpha1"
KINDS = {"sandboxtemplates": "SandboxTemplate", "sandboxwarmpools": "SandboxWarmPool", "sandboxclaims": "SandboxClaim"}
POLICY = "api.agents.x-k8s.io/v1beta1-volume-claim-templates-policy"
STATE = "api.agents.x-k8s.io/v1alpha1-sandboxclaim-state"
MERGE = "application/merge-patch+json"


class Old:
    """The kinds of the group in v1alpha1, in one namespace."""

    def __init__(self, ns):
        self.ns = ns

    def path(self, plural, name=None, sub=None):
        return "/".join(p for p in (f"{OLD}/namespaces/{self.ns.name}/{plural}", name, sub) if p)

    def create(self, plural, name, spec, **metadata):
        body = {"apiVersion": f"{EXTENSIONS}/v1alpha1", "kind": KINDS[plural], "metadata": dict(metadata, name=name), "spec": spec}
        return self.ns.server.api("POST", self.path(plural), body)

    def get(self, plural, name, sub=None):
        return self.ns.server.api("GET", self.path(plural, name, sub))

    def patch(self, plural, name, change, sub=None):
        return self.ns.server.api("PATCH", self.path(plural, name, sub), change, MERGE)


@pytest.fixture
def old(ns):
    try:
        ns.server.api("GET", f"{OLD}/namespaces/{ns.name}/sandboxclaims")
    except ApiError as e:
        assert e.code == 404
        pytest.skip("v1alpha1 is not served")
    return Old(ns)


def blueprint(**more):
    return dict({"podTemplate": {"spec": {"containers": [container()]}}}, **more)


@pytest.mark.parametrize("warmpool,pool", [
    ("my-pool", "my-pool"),
    ("none", "shadow-pool-my-template"),
    ("default", "shadow-pool-my-template"),
    (None, "shadow-pool-my-template"),
])
def test_cases_11_to_13_16_17_and_21_a_claim_and_its_pool(ns, old, warmpool, pool):
    spec = {"sandboxTemplateRef": {"name": "my-template"}, "lifecycle": {"ttlSecondsAfterFinished": 30}}
    if warmpool:
        spec["warmpool"] = warmpool
    old.create("sandboxclaims", "mine", spec, annotations={"a": "b", STATE: "garbage"})
    new = ns.get("sandboxclaims", "mine")
    assert new["apiVersion"] == f"{EXTENSIONS}/v1beta1" and new["spec"]["warmPoolRef"] == {"name": pool}
    assert not {"sandboxTemplateRef", "warmpool"} & set(new["spec"])
    assert "state" not in new["metadata"]["annotations"].get(STATE, "").lower().replace("sandboxtemplateref", "")
    back = old.get("sandboxclaims", "mine")
    assert back["apiVersion"] == f"{EXTENSIONS}/v1alpha1" and back["spec"]["sandboxTemplateRef"] == {"name": "my-template"}
    assert back["spec"].get("warmpool", "default") == (warmpool or "default") and "warmPoolRef" not in back["spec"]
    assert back["spec"]["lifecycle"]["ttlSecondsAfterFinished"] == 30
    assert STATE not in back["metadata"]["annotations"] and back["metadata"]["annotations"]["a"] == "b"


def test_cases_14_and_15_a_claim_that_got_a_member(ns, old):
    ns.warm("my-pool")
    old.create("sandboxclaims", "pinned", {"sandboxTemplateRef": {"name": "my-pool"}, "warmpool": "my-pool"})
    bound = ns.ready("sandboxclaims", "pinned")
    assert bound["status"]["sandbox"]["name"].startswith("my-pool-") and bound["spec"]["warmPoolRef"]["name"] == "my-pool"
    got = old.get("sandboxclaims", "pinned")
    assert got["status"]["sandbox"]["name"] == bound["status"]["sandbox"]["name"]
    # Whoever reads it, forgets the pool and writes it back gets the pool of the member, and their own word again.
    got["spec"]["warmpool"] = "default"
    ns.server.api("PUT", old.path("sandboxclaims", "pinned"), got)
    assert ns.get("sandboxclaims", "pinned")["spec"]["warmPoolRef"]["name"] == "my-pool"
    again = old.get("sandboxclaims", "pinned")["spec"]
    assert (again["warmpool"], again["sandboxTemplateRef"]["name"]) == ("default", "my-pool")


@pytest.mark.parametrize("pool,warmpool,template", [
    ("my-pool", "my-pool", "my-pool"),
    ("", "", ""),
    ("shadow-pool-my-template", "default", "my-template"),
])
def test_cases_18_to_20_a_claim_born_in_v1beta1(ns, old, pool, warmpool, template):
    ns.claim("new", pool)
    spec = old.get("sandboxclaims", "new")["spec"]
    assert (spec["warmpool"], spec["sandboxTemplateRef"]["name"]) == (warmpool, template)


def test_cases_22_to_24_templates(ns, old):
    spec = blueprint(service=True, envVarsInjectionPolicy="Allowed", networkPolicyManagement="Managed",
                     networkPolicy={"ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]},
                     volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {
                         "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])
    old.create("sandboxtemplates", "t", spec, annotations={POLICY: "Allowed"})
    new = ns.get("sandboxtemplates", "t")
    assert new["spec"]["volumeClaimTemplatesPolicy"] == "Allowed" and POLICY not in new["metadata"].get("annotations", {})
    back = old.get("sandboxtemplates", "t")
    assert back["metadata"]["annotations"][POLICY] == "Allowed" and "volumeClaimTemplatesPolicy" not in back["spec"]
    for key, value in spec.items():
        if key != "podTemplate":
            assert back["spec"][key] == value
    # Whatever v1beta1 says now is what v1alpha1 shows, and writes back.
    ns.patch("sandboxtemplates", "t", {"spec": {"volumeClaimTemplatesPolicy": "Overrides"}})
    assert old.get("sandboxtemplates", "t")["metadata"]["annotations"][POLICY] == "Overrides"
    old.patch("sandboxtemplates", "t", {"metadata": {"annotations": {POLICY: None}}})
    assert ns.get("sandboxtemplates", "t")["spec"]["volumeClaimTemplatesPolicy"] == "Disallowed"
    with pytest.raises(ApiError) as e:
        old.patch("sandboxtemplates", "t", {"metadata": {"annotations": {POLICY: "Sometimes"}}})
    assert e.value.code == 400 and 'invalid VolumeClaimTemplatesPolicy annotation value: "Sometimes"' in str(e.value)


def test_cases_25_and_26_pools(ns, old):
    old.create("sandboxwarmpools", "p", {"replicas": 0, "sandboxTemplateRef": {"name": "none"}, "updateStrategy": {"type": "Recreate"}})
    seen = ns.wait("sandboxwarmpools", "p", lambda o: (o.get("status") or {}).get("selector"))
    assert seen["spec"] == {"replicas": 0, "sandboxTemplateRef": {"name": "none"}, "updateStrategy": {"type": "Recreate"}}
    back = old.get("sandboxwarmpools", "p")
    assert back["spec"] == seen["spec"] and back["status"]["selector"] == seen["status"]["selector"]
    assert "observedGeneration" in seen["status"] and "observedGeneration" not in back["status"]
    old.create("sandboxwarmpools", "plain", {"replicas": 0, "sandboxTemplateRef": {"name": "none"}})
    assert "updateStrategy" not in ns.get("sandboxwarmpools", "plain")["spec"]
    assert "updateStrategy" not in old.get("sandboxwarmpools", "plain")["spec"]
    with pytest.raises(ApiError) as e:
        old.create("sandboxwarmpools", "bare", {"sandboxTemplateRef": {"name": "none"}})
    assert e.value.code == 422 and "spec.replicas" in str(e.value)


def test_scale_of_a_pool_in_v1alpha1(ns, old):
    old.create("sandboxwarmpools", "p", {"replicas": 0, "sandboxTemplateRef": {"name": "none"}})
    assert old.patch("sandboxwarmpools", "p", {"spec": {"replicas": 3}}, "scale")["spec"]["replicas"] == 3
    assert ns.get("sandboxwarmpools", "p")["spec"]["replicas"] == 3
    assert old.get("sandboxwarmpools", "p", "scale")["spec"]["replicas"] == 3


def test_case_27_both_versions_list_and_watch_the_same_objects(ns, old):
    ns.claim("new", "p")
    old.create("sandboxclaims", "old", {"sandboxTemplateRef": {"name": "t"}})
    listed = ns.server.api("GET", old.path("sandboxclaims"))
    assert listed["kind"] == "SandboxClaimList" and listed["apiVersion"] == f"{EXTENSIONS}/v1alpha1"
    assert [(o["metadata"]["name"], o["spec"]["warmpool"]) for o in listed["items"]] == [("new", "p"), ("old", "default")]
    assert not any("warmPoolRef" in o["spec"] for o in listed["items"])
    assert [o["spec"]["warmPoolRef"]["name"] for o in ns.list("sandboxclaims")] == ["p", "shadow-pool-t"]
    ns.patch("sandboxclaims", "old", {"metadata": {"labels": {"seen": "yes"}}})
    for what, o in ns.server.watch(old.path("sandboxclaims"), listed["metadata"]["resourceVersion"], 10):
        if o["metadata"].get("labels", {}).get("seen"):
            assert o["apiVersion"] == f"{EXTENSIONS}/v1alpha1" and o["spec"]["warmpool"] == "default"
            break
    table = ns.server.api("GET", old.path("sandboxwarmpools"), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Ready", "Desired", "Age"]
    table = ns.server.api("GET", old.path("sandboxclaims"), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Age"]


def test_status_of_v1alpha1_leaves_the_spec_alone(ns, old):
    old.create("sandboxwarmpools", "p", {"replicas": 0, "sandboxTemplateRef": {"name": "none"}})
    ns.wait("sandboxwarmpools", "p", lambda o: (o.get("status") or {}).get("selector"))
    old.patch("sandboxwarmpools", "p", {"spec": {"replicas": 7}, "status": {"readyReplicas": 5}}, "status")
    assert ns.get("sandboxwarmpools", "p")["spec"]["replicas"] == 0


def test_owners_of_fields_keep_the_version_they_wrote_in(ns, old):
    def apply(path, manager, body, force=False):
        query = urllib.parse.urlencode({"fieldManager": manager, "force": str(force).lower()})
        return ns.server.api("PATCH", f"{path}?{query}", body, "application/apply-patch+yaml")

    head = {"kind": "SandboxWarmPool", "metadata": {"name": "p"}}
    one = dict(head, apiVersion=f"{EXTENSIONS}/v1alpha1", spec={"replicas": 0, "sandboxTemplateRef": {"name": "none"}})
    two = dict(head, apiVersion=f"{EXTENSIONS}/v1beta1", spec={"replicas": 2})
    apply(old.path("sandboxwarmpools", "p"), "one", one)
    with pytest.raises(ApiError) as e:
        apply(ns.path("sandboxwarmpools", "p"), "two", two)
    assert e.value.code == 409 and ".spec.replicas" in str(e.value)
    taken = apply(ns.path("sandboxwarmpools", "p"), "two", two, True)
    owners = {m["manager"]: m for m in taken["metadata"]["managedFields"]}
    assert owners["one"]["apiVersion"].endswith("v1alpha1") and owners["two"]["apiVersion"].endswith("v1beta1")
    assert "f:replicas" not in owners["one"]["fieldsV1"]["f:spec"]
    with pytest.raises(ApiError) as e:
        apply(old.path("sandboxwarmpools", "p"), "one", one)
    assert e.value.code == 409


def test_a_claim_of_a_template_alone_starts_cold(ns, old):
    """What documents from before 1.0 show: a template and a claim of it, and no pool that has its name."""
    old.create("sandboxclaims", "mine", {"sandboxTemplateRef": {"name": "t"}})
    missing = ns.wait("sandboxclaims", "mine", lambda o: condition(o, "Ready"))
    assert 'SandboxWarmPool "shadow-pool-t" not found' in condition(missing, "Ready")["message"]
    old.create("sandboxtemplates", "t", blueprint())
    bound = ns.ready("sandboxclaims", "mine")
    assert bound["status"]["sandbox"]["name"] == "mine"
    assert old.get("sandboxclaims", "mine")["spec"] == {"sandboxTemplateRef": {"name": "t"}, "warmpool": "default"}


def test_unknown_and_wrong_fields_are_named_as_they_were_sent(ns, old):
    with pytest.raises(ApiError) as e:
        old.create("sandboxclaims", "mine", {"warmpool": "none"})
    assert e.value.code == 422 and "spec.sandboxTemplateRef" in str(e.value)
    made = old.create("sandboxclaims", "mine", {"sandboxTemplateRef": {"name": "t"}, "warmPoolRef": {"name": "p"}})
    assert "warmPoolRef" not in made["spec"] and ns.get("sandboxclaims", "mine")["spec"]["warmPoolRef"]["name"] == "shadow-pool-t"
