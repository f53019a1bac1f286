# SPDX-License-Identifier: Apache-2.0
"""SandboxClaim: finding or making its Sandbox, metadata, environment and volumes. Cases 175 to 214 of docs/reference/cases.md."""

import re

import pytest
from kit import (CLAIM_UID, CREATED_BY, EVICT, LAUNCH, POOL, TEMPLATE, TEMPLATE_REF, AGENTS, annotations, condition, container, labels,
                 name_hash, owned, owner_reference, pod_metadata, said, vct)

BETA = "extensions.agents.x-k8s.io/v1beta1"
USER = "sandbox.users.io"


def main_env(sandbox, index=0, where="containers"):
    return [(e["name"], e.get("value")) for e in sandbox["spec"]["podTemplate"]["spec"][where][index].get("env", [])]


def rejected(ns, reason, **spec):
    """Claims and returns the message of the refusal; no Sandbox may exist."""
    ns.claim("mine", "cold", **spec)
    claim = ns.reason("sandboxclaims", "mine", reason)
    assert condition(claim, "Ready")["status"] == "False" and not ns.get("sandboxes", "mine")
    assert "sandbox" not in claim["status"]
    return condition(claim, "Ready")["message"]


def test_cases_175_185_188_189_and_196_cold_start(ns):
    ns.cold(metadata={"labels": {"l": "1"}, "annotations": {"a": "1"}})
    claim = ns.claim("mine", "cold", labels={CREATED_BY: "somebody"})
    ready = ns.ready("sandboxclaims", "mine")
    assert [c["type"] for c in ready["status"]["conditions"]] == ["Ready"]
    sandbox = ns.get("sandboxes", "mine")
    assert sandbox["metadata"]["ownerReferences"] == [owner_reference(claim, BETA, "SandboxClaim")]
    uid = claim["metadata"]["uid"]
    system = {CLAIM_UID: uid, TEMPLATE: name_hash("cold"), CREATED_BY: "somebody"}
    assert labels(sandbox) == dict(system, **{LAUNCH: "cold"})
    assert annotations(sandbox)[TEMPLATE_REF] == "cold"
    assert pod_metadata(sandbox, "labels") == dict(system, l="1") and pod_metadata(sandbox, "annotations") == {"a": "1"}
    spec = sandbox["spec"]["podTemplate"]["spec"]
    assert spec["automountServiceAccountToken"] is False and spec["dnsPolicy"] == "None"
    assert spec["dnsConfig"] == {"nameservers": ["8.8.8.8", "1.1.1.1"]} and "shutdownTime" not in sandbox["spec"]
    assert ready["status"]["sandbox"] == {"name": "mine", "podIPs": sandbox["status"]["podIPs"]}
    pod = ns.get("pods", "mine")
    assert CLAIM_UID not in labels(pod) and labels(pod)[TEMPLATE] == name_hash("cold") and labels(pod)[CREATED_BY] == "unknown"
    event = ns.event("mine", "SandboxProvisioned")
    assert (event["type"], event["action"], event["note"]) == ("Normal", "Provisioning", 'Created Sandbox "mine"')
    assert event["reportingController"] == "sandboxclaim-controller"


def test_case_176_automount_of_the_template_is_kept(ns):
    ns.cold(pod={"automountServiceAccountToken": True})
    ns.claim("mine", "cold")
    assert ns.exists("sandboxes", "mine")["spec"]["podTemplate"]["spec"]["automountServiceAccountToken"] is True


def test_cases_177_269_and_u24_a_missing_template_and_its_coming(ns):
    ns.pool("pool", "later", 0)
    ns.claim("mine", "pool")
    claim = ns.reason("sandboxclaims", "mine", "TemplateNotFound")
    assert said(claim) == ("False", "TemplateNotFound", 'SandboxTemplate "later" not found') and not ns.list("sandboxes")
    ns.template("later")
    ns.ready("sandboxclaims", "mine", timeout=5)


def test_cases_178_and_267_a_missing_pool_and_its_coming(ns):
    ns.claim("mine", "later")
    claim = ns.reason("sandboxclaims", "mine", "WarmPoolNotFound")
    assert said(claim) == ("False", "WarmPoolNotFound", 'SandboxWarmPool "later" not found')
    ns.cold("later")
    ns.ready("sandboxclaims", "mine", timeout=5)


def test_case_179_a_sandbox_of_that_name_is_not_taken(ns):
    ns.cold()
    before = ns.sandbox("mine", operatingMode="Suspended")
    ns.seen("sandboxes", "mine")
    ns.claim("mine", "cold")
    claim = ns.reason("sandboxclaims", "mine", "ReconcilerError")
    assert said(claim)[2] == ('Error seen: sandbox "mine" is not controlled by claim "mine". Please use a different claim name '
                              'or delete the sandbox manually')
    now = ns.get("sandboxes", "mine")
    assert now["spec"] == before["spec"] and "ownerReferences" not in now["metadata"]


def test_case_181_a_bound_claim_does_not_need_its_template(ns):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    ns.delete("sandboxtemplates", "cold")
    ns.gone("sandboxtemplates", "cold")
    version = ns.version("sandboxclaims")
    ns.delete("pods", "mine")
    changes = ns.server.watch(ns.path("sandboxclaims"), version, fieldSelector="metadata.name=mine")
    assert any(said(claim)[0] == "False" for _, claim in changes)  # for a few milliseconds only
    claim = ns.ready("sandboxclaims", "mine")
    assert claim["status"]["sandbox"]["podIPs"] == ns.get("sandboxes", "mine")["status"]["podIPs"]


def test_cases_182_183_and_u23_ready_is_forwarded_under_the_claims_generation(ns):
    ns.cold(service=True)
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    ns.patch("sandboxclaims", "mine", {"spec": {"lifecycle": {"ttlSecondsAfterFinished": 600}}})
    claim = ns.seen("sandboxclaims", "mine")
    assert claim["metadata"]["generation"] == 2 == condition(claim, "Ready")["observedGeneration"]
    sandbox = ns.get("sandboxes", "mine")
    same = ("status", "reason", "message", "lastTransitionTime")
    assert [condition(claim, "Ready")[k] for k in same] == [condition(sandbox, "Ready")[k] for k in same]
    assert said(claim)[2] == "Pod is Ready; Service Exists"


def test_case_186_the_policy_of_an_older_controller_is_removed(ns):
    ns.cold()
    claim = ns.claim("mine", "cold")
    other = ns.claim("other", "cold")
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    ns.create("networkpolicies", "mine-network-policy", spec, ownerReferences=[owner_reference(claim, BETA, "SandboxClaim")])
    ns.create("networkpolicies", "other-network-policy", spec)
    for name in ("mine", "other"):
        ns.patch("sandboxclaims", name, {"spec": {"lifecycle": {"ttlSecondsAfterFinished": 600}}})
        ns.seen("sandboxclaims", name)
    ns.gone("networkpolicies", "mine-network-policy")
    assert ns.get("networkpolicies", "other-network-policy") and other


def test_case_187_trace_context_goes_to_the_sandbox(ns):
    ns.cold()
    trace = '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
    ns.claim("mine", "cold", annotations={"opentelemetry.io/trace-context": trace})
    assert annotations(ns.exists("sandboxes", "mine"))["opentelemetry.io/trace-context"] == trace


def test_cases_190_and_214_volumes_of_the_template(ns):
    ns.cold(volumeClaimTemplates=[vct("data", "3Gi")])
    ns.claim("mine", "cold")
    assert ns.exists("sandboxes", "mine")["spec"]["volumeClaimTemplates"] == [vct("data", "3Gi")]
    assert ns.exists("persistentvolumeclaims", "data-mine")["spec"]["resources"]["requests"]["storage"] == "3Gi"


def test_cases_193_and_272_time_stamps(ns):
    ns.cold()
    made = ns.claim("mine", "cold")
    claim = ns.wait("sandboxclaims", "mine", lambda c: f"{AGENTS}/claim-first-ready-at" in annotations(c))
    for key in ("controller-first-observed-at", "claim-first-ready-at"):
        stamp = annotations(claim)[f"{AGENTS}/{key}"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z", stamp), stamp
        assert stamp[:19] >= made["metadata"]["creationTimestamp"][:19]


def test_case_195_launch_type_is_filled_in_but_not_changed(ns):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    for given, expected in ((None, "cold"), ("warm", "warm")):
        ns.patch("sandboxes", "mine", {"metadata": {"labels": {LAUNCH: given}}})
        ns.patch("sandboxclaims", "mine", {"metadata": {"annotations": {"look": str(given)}}})
        ns.wait("sandboxes", "mine", lambda s: labels(s).get(LAUNCH) == expected)


def test_case_197_additional_metadata_reaches_the_pod_now_and_later(ns):
    ns.cold()
    more = {"labels": {f"{USER}/user-label": "1"}, "annotations": {"user-annotation": "1"}}
    ns.claim("mine", "cold", additionalPodMetadata=more)
    ns.ready("sandboxclaims", "mine")
    sandbox, pod = ns.get("sandboxes", "mine"), ns.get("pods", "mine")
    assert pod_metadata(sandbox, "labels").items() >= more["labels"].items()
    assert pod_metadata(sandbox, "annotations").items() >= more["annotations"].items()
    assert labels(pod)[f"{USER}/user-label"] == annotations(pod)["user-annotation"] == "1"
    ns.patch("sandboxclaims", "mine", {"spec": {"additionalPodMetadata": {"labels": {f"{USER}/user-label": "2"}}}})
    now = ns.wait("pods", "mine", lambda p: labels(p)[f"{USER}/user-label"] == "2")
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]


@pytest.mark.parametrize("metadata,text", [
    ({"labels": {"plain": "1"}}, 'failed to validate label "plain": label "plain" must have a domain prefix'),
    ({"labels": {f"{USER}/long": "x" * 64}}, f'failed to validate label "{USER}/long": invalid label value: "{"x" * 64}"'),
    ({"labels": {f"{USER}/l": "invalid@value"}}, 'invalid label value: "invalid@value" does not match allowed pattern'),
    ({"labels": {f"{USER}/invalid@key": "1"}}, f'failed to validate label "{USER}/invalid@key": invalid label key: '),
    ({"labels": {"kubernetes.io/x": "1"}}, 'label domain "kubernetes.io" is not in the allowlist'),
    ({"labels": {"app": "sandbox-router"}}, 'failed to validate label "app": restricted system label value: '
     '"app"="sandbox-router" is not allowed in AdditionalPodMetadata'),
    ({"labels": {"App": "Sandbox-Router"}}, "restricted system label value"),
    ({"annotations": {"x.k8s.io/y": "1"}}, 'failed to validate annotation "x.k8s.io/y": restricted system domain: "x.k8s.io/y" '
     "is not allowed in AdditionalPodMetadata"),
    ({"annotations": {"bad@key": "1"}}, "invalid annotation key: "),
])
def test_cases_198_and_200_metadata_is_checked(ns, metadata, text):
    ns.cold()
    message = rejected(ns, "InvalidMetadata", additionalPodMetadata=metadata)
    assert message.startswith("invalid additionalPodMetadata: ") and text in message


def test_cases_199_and_233_eviction_may_be_set(ns):
    ns.cold()
    ns.claim("mine", "cold", additionalPodMetadata={"annotations": {EVICT: "false"}, "labels": {f"team.{USER}/x": "1"}})
    assert pod_metadata(ns.exists("sandboxes", "mine"), "annotations")[EVICT] == "false"


def test_a_metadata_conflict_with_the_template_is_told(ns):
    ns.cold(metadata={"labels": {f"{USER}/x": "template"}})
    ns.claim("mine", "cold", additionalPodMetadata={"labels": {f"{USER}/x": "claim"}})
    claim = ns.reason("sandboxclaims", "mine", "ReconcilerError")
    assert f'metadata override conflict: label "{USER}/x" is defined in template with value "template", but claim requests "claim"' \
        in said(claim)[2]
    assert not ns.list("sandboxes")


@pytest.mark.parametrize("policy", ["Overrides", "Allowed"])
def test_cases_202_203_and_u11_env_is_appended_and_seen(ns, policy):
    ns.cold(pod={"restartPolicy": "Never", "containers": [container(
        command=["sh", "-c", 'test "$A$B" = 12'], env=[{"name": "A", "value": "1"}])]}, envVarsInjectionPolicy=policy)
    ns.claim("mine", "cold", env=[{"name": "B", "value": "2"}])
    ns.reason("sandboxclaims", "mine", "PodSucceeded")
    assert main_env(ns.get("sandboxes", "mine")) == [("A", "1"), ("B", "2")]


def test_case_204_env_passes_the_warm_pool_by(ns):
    [member] = ns.warm(envVarsInjectionPolicy="Allowed")
    ns.claim("mine", "warm", env=[{"name": "B", "value": "2"}])
    assert ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"] == "mine"
    assert labels(ns.get("sandboxes", "mine"))[LAUNCH] == "cold"
    assert labels(ns.get("sandboxes", member["metadata"]["name"]))[POOL]


def test_case_205_allowed_does_not_replace(ns):
    ns.cold(pod={"containers": [container(env=[{"name": "EXISTING_VAR", "value": "1"}])]}, envVarsInjectionPolicy="Allowed")
    message = rejected(ns, "ReconcilerError", env=[{"name": "EXISTING_VAR", "value": "2"}])
    assert message == ('Error seen: environment variable override is not allowed by the template policy for variable "EXISTING_VAR"')


def test_case_206_disallowed(ns):
    ns.cold()
    message = rejected(ns, "EnvVarsInjectionRejected", env=[{"name": "A", "value": "1"}])
    assert message == "environment variable injection rejected: environment variable injection is not allowed by the template policy"


@pytest.mark.parametrize("target", ["main", "first"])
def test_case_207_allowed_and_env_from(ns, target):
    source = {"envFrom": [{"configMapRef": {"name": "c", "optional": True}}]}
    ns.cold(pod={"containers": [container(**(source if target == "main" else {}))],
                 "initContainers": [container(name="first", command=["true"], **(source if target == "first" else {}))]},
            envVarsInjectionPolicy="Allowed")
    message = rejected(ns, "EnvVarsInjectionRejected", env=[{"name": "A", "value": "1", "containerName": target}])
    assert message == (f'environment variable injection rejected: container "{target}" uses EnvFrom sources; '
                       "Allowed policy cannot safely prevent overriding EnvFrom-provided variables")


def test_case_208_env_from_of_another_container_does_not_matter(ns):
    ns.cold(pod={"containers": [container(), container(name="other", envFrom=[{"configMapRef": {"name": "c", "optional": True}}])]},
            envVarsInjectionPolicy="Allowed")
    ns.claim("mine", "cold", env=[{"name": "A", "value": "1"}])
    assert main_env(ns.exists("sandboxes", "mine")) == [("A", "1")]


def test_case_209_overrides_replace_in_place(ns):
    ns.cold(pod={"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}])]},
            envVarsInjectionPolicy="Overrides")
    ns.claim("mine", "cold", env=[{"name": "A", "value": "2"}])
    assert main_env(ns.exists("sandboxes", "mine")) == [("A", "2"), ("B", "1")]


def test_case_210_env_for_a_named_container(ns):
    ns.cold(pod={"containers": [container(), container(name="app-container")],
                 "initContainers": [container(name="first", command=["true"])]}, envVarsInjectionPolicy="Allowed")
    ns.claim("mine", "cold", env=[{"name": "A", "value": "1", "containerName": "app-container"},
                                  {"name": "B", "value": "1", "containerName": "first"}])
    sandbox = ns.exists("sandboxes", "mine")
    assert main_env(sandbox) == [] and main_env(sandbox, 1) == [("A", "1")]
    assert main_env(sandbox, 0, "initContainers") == [("B", "1")]


def test_case_210_env_for_an_unknown_container(ns):
    ns.cold(envVarsInjectionPolicy="Allowed")
    message = rejected(ns, "ReconcilerError", env=[{"name": "A", "value": "1", "containerName": "nobody"}])
    assert message == 'Error seen: target container "nobody" not found in template for environment variable "A"'


@pytest.mark.parametrize("policy,claimed,expected", [
    ("Overrides", [vct("data", "2Gi")], [vct("data", "2Gi")]),
    ("Overrides", [vct("custom")], [vct("data"), vct("custom")]),
    ("Allowed", [vct("custom")], [vct("data"), vct("custom")]),
])
def test_case_211_volumes_of_the_claim(ns, policy, claimed, expected):
    [member] = ns.warm("cold", volumeClaimTemplates=[vct("data")], volumeClaimTemplatesPolicy=policy)
    ns.claim("mine", "cold", volumeClaimTemplates=claimed)
    assert ns.exists("sandboxes", "mine")["spec"]["volumeClaimTemplates"] == expected
    assert labels(ns.get("sandboxes", member["metadata"]["name"]))[POOL], "a warm one was taken"
    ns.ready("sandboxclaims", "mine")


MERGE = "failed to merge volume claim templates: "


@pytest.mark.parametrize("policy,template,claimed,message", [
    ("Disallowed", [vct("data")], [vct("x")], MERGE + "volume claim templates are disallowed by the template"),
    (None, [], [vct("x")], MERGE + "volume claim templates are disallowed by the template"),
    ("Allowed", [vct("data")], [vct("data")], MERGE + "overriding volume claim templates is forbidden by the template: "
     'cannot override template volume "data"'),
    ("Allowed", [], [vct("")], MERGE + "claim: invalid volume claim templates: name at index 0 is empty"),
    ("Allowed", [], [vct("a"), vct("a")], MERGE + 'claim: invalid volume claim templates: duplicate name "a"'),
    ("Allowed", [vct("a"), vct("a")], [vct("b")], MERGE + 'template: invalid volume claim templates: duplicate name "a"'),
    ("Allowed", [vct("a"), vct("a")], [], 'invalid volume claim templates in template: invalid volume claim templates: duplicate name "a"'),
])
def test_case_213_volumes_that_are_refused(ns, policy, template, claimed, message):
    ns.cold(**dict({"volumeClaimTemplates": template}, **({"volumeClaimTemplatesPolicy": policy} if policy else {})))
    assert rejected(ns, "VolumeClaimTemplatesError", volumeClaimTemplates=claimed) == message


def test_a_sandbox_deleted_out_of_band_is_replaced(ns):
    [member] = ns.warm()
    ns.claim("mine", "warm")
    name = ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"]
    assert name == member["metadata"]["name"]
    ns.full("warm", 1)
    ns.delete("sandboxes", name)
    claim = ns.wait("sandboxclaims", "mine", lambda c: said(c)[0] == "True" and c["status"]["sandbox"]["name"] != name)
    new = ns.get("sandboxes", claim["status"]["sandbox"]["name"])
    assert owned(new, claim)


def test_deleting_a_claim_deletes_all_that_is_its_own(ns):
    ns.cold(service=True, volumeClaimTemplates=[vct("data")])
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    ns.delete("sandboxclaims", "mine")
    for kind, name in (("sandboxclaims", "mine"), ("sandboxes", "mine"), ("pods", "mine"), ("services", "mine"),
                       ("persistentvolumeclaims", "data-mine")):
        ns.gone(kind, name)


def test_suspending_a_claimed_sandbox_shows_on_the_claim(ns):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    ns.patch("sandboxes", "mine", {"spec": {"operatingMode": "Suspended"}})
    claim = ns.wait("sandboxclaims", "mine", lambda c: said(c) == ("False", "SandboxSuspended", "Sandbox is suspended"))
    assert claim["status"]["sandbox"] == {"name": "mine"}
    ns.patch("sandboxes", "mine", {"spec": {"operatingMode": "Running"}})
    ns.ready("sandboxclaims", "mine")
