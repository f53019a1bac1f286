# SPDX-License-Identifier: Apache-2.0
"""A claim adopts a member of a warm pool: cases 227 to 266 of docs/reference/cases.md."""

import pytest
from kit import (BLUEPRINT, CLAIM_UID, CREATED_BY, EVICT, HASH, LAUNCH, NEVER_READY, POD_NAME, POD_TEMPLATE, POOL, SANDBOX_NAME, TEMPLATE,
                 TEMPLATE_REF, Space, annotations, box, condition, container, controller, is_ready, labels, name_hash, owned,
                 owner_reference, pod_metadata, said)

BETA = "extensions.agents.x-k8s.io/v1beta1"
USER = "sandbox.users.io"


def one_by_one(ns, pool, replicas, **more):
    """Members of a pool in the order in which they became Ready."""
    order = [m["metadata"]["name"] for m in ns.warm(pool, **more)]
    for n in range(2, replicas + 1):
        ns.patch("sandboxwarmpools", pool, {"spec": {"replicas": n}})
        order += [m["metadata"]["name"] for m in ns.full(pool, n) if m["metadata"]["name"] not in order]
    return order


def bound(ns, claim, pool, **spec):
    ns.claim(claim, pool, **spec)
    return ns.ready("sandboxclaims", claim)["status"]["sandbox"]["name"]


def test_cases_227_266_and_u13_what_adoption_changes(ns):
    order = one_by_one(ns, "warm", 3, metadata={"labels": {"l": "1"}})
    before = {n: ns.get("sandboxes", n) for n in order}
    pods = {n: ns.get("pods", n) for n in order}
    claim = ns.claim("mine", "warm")
    ready = ns.ready("sandboxclaims", "mine")
    name = ready["status"]["sandbox"]["name"]
    assert name == order[0]
    sandbox = ns.get("sandboxes", name)
    uid = claim["metadata"]["uid"]
    assert sandbox["metadata"]["ownerReferences"] == [owner_reference(claim, BETA, "SandboxClaim")]
    assert labels(sandbox) == {TEMPLATE: name_hash("warm"), LAUNCH: "warm", CLAIM_UID: uid}
    assert pod_metadata(sandbox, "labels") == {TEMPLATE: name_hash("warm"), CLAIM_UID: uid, "l": "1"}
    assert pod_metadata(sandbox, "annotations") == {}
    assert annotations(sandbox)[TEMPLATE_REF] == "warm" and POD_NAME not in annotations(sandbox)
    assert sandbox["spec"]["podTemplate"]["spec"] == before[name]["spec"]["podTemplate"]["spec"]
    assert ready["status"]["sandbox"]["podIPs"] == before[name]["status"]["podIPs"]
    pod = ns.wait("pods", name, lambda p: POOL not in labels(p) and EVICT not in annotations(p))
    assert pod["metadata"]["uid"] == pods[name]["metadata"]["uid"] and pod["status"] == pods[name]["status"]
    assert labels(pod) == {HASH: name_hash(name), TEMPLATE: name_hash("warm"), "l": "1"}
    ns.wait("sandboxclaims", "mine", lambda c: annotations(c).get(SANDBOX_NAME) == name)
    event = ns.event("mine", "SandboxAdopted")
    assert (event["type"], event["action"], event["note"]) == ("Normal", "Adoption", f'Adopted warm pool Sandbox "{name}"')
    ns.full("warm", 3)
    for other in order[1:]:
        assert labels(ns.get("sandboxes", other))[POOL], "a second member was touched"
    assert {BLUEPRINT, POD_TEMPLATE} <= set(labels(before[name]))


def test_case_228_an_empty_pool_starts_cold(ns):
    ns.cold()
    assert bound(ns, "mine", "cold") == "mine"
    assert labels(ns.get("sandboxes", "mine"))[LAUNCH] == "cold"


def test_case_229_foreign_deleting_and_unowned_members_are_passed_by(ns):
    ns.cold("pool")
    marks = {POOL: name_hash("pool"), TEMPLATE: name_hash("pool"), LAUNCH: "warm"}
    ns.create("sandboxes", "foreign", box(), labels=marks, ownerReferences=[ns.foreign_owner()])
    ns.create("sandboxes", "unowned", box(), labels=marks)
    pool = ns.get("sandboxwarmpools", "pool")
    ns.create("sandboxes", "deleting", box(), labels=marks, finalizers=["example.com/hold"],
              ownerReferences=[owner_reference(pool, BETA, "SandboxWarmPool")])
    ns.wait("sandboxes", "deleting", lambda s: "deletionTimestamp" in s["metadata"])  # one too many for the pool
    ns.ready("sandboxes", "foreign")
    ns.wait("sandboxes", "unowned", lambda s: s is None or is_ready(s))  # the pool may take or remove it
    assert bound(ns, "mine", "pool") == "mine"
    for sandbox in ns.list("sandboxes"):
        assert sandbox["metadata"]["name"] == "mine" or (controller(sandbox) or {}).get("kind") != "SandboxClaim"
    ns.patch("sandboxes", "deleting", {"metadata": {"finalizers": None}})


def test_case_230_ready_comes_before_older(ns):
    ns.template("pool", NEVER_READY)
    ns.pool("pool", "pool", 1)
    [first] = ns.members("sandboxes", lambda ms: ms and ms[0].get("status", {}).get("podIPs"))
    ns.patch("sandboxtemplates", "pool", {"spec": {"podTemplate": {"spec": {"containers": [container()]}}}})
    ns.patch("sandboxwarmpools", "pool", {"spec": {"replicas": 2}})
    second = next(m for m in ns.members("sandboxes", lambda ms: any(map(is_ready, ms))) if is_ready(m))
    assert bound(ns, "mine", "pool") == second["metadata"]["name"] != first["metadata"]["name"]


def test_case_230_a_member_that_is_not_ready_is_better_than_none(ns):
    ns.template("pool", NEVER_READY)
    ns.pool("pool", "pool", 1)
    [member] = ns.members("sandboxes", lambda ms: ms and ms[0].get("status", {}).get("podIPs"))
    ns.claim("mine", "pool")
    claim = ns.wait("sandboxclaims", "mine", lambda c: c.get("status", {}).get("sandbox"))
    assert claim["status"]["sandbox"]["name"] == member["metadata"]["name"] and said(claim)[0] == "False"


def test_cases_231_and_239_members_without_an_address_are_waited_for_not_long(ns):
    [member] = ns.warm("pool")
    ns.patch("sandboxes", member["metadata"]["name"], {"spec": {"operatingMode": "Suspended"}})
    ns.wait("sandboxes", member["metadata"]["name"], lambda s: not s["status"].get("podIPs"))
    version = ns.version("sandboxclaims")
    ns.claim("mine", "pool")
    sandbox = ns.exists("sandboxes", "mine")
    assert labels(sandbox)[LAUNCH] == "cold"
    seen = ns.history("sandboxclaims", version, lambda _, c: c.get("status", {}).get("sandbox"))
    assert all("conditions" not in c.get("status", {}) for _, c in seen[:-1]), "a status was written while waiting"


def test_case_240_a_member_that_gets_its_address_in_time_is_taken(ns):
    [member] = ns.warm("pool")
    name = member["metadata"]["name"]
    ns.patch("sandboxes", name, {"spec": {"operatingMode": "Suspended"}})
    ns.wait("sandboxes", name, lambda s: not s["status"].get("podIPs"))
    ns.claim("mine", "pool")
    ns.patch("sandboxes", name, {"spec": {"operatingMode": "Running"}})
    assert ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"] == name


def test_case_230_a_missing_image_is_no_address_or_no_readiness(ns):
    ns.template("pool", {"containers": [container(image="example.invalid/none:1", imagePullPolicy="Never")]})
    ns.pool("pool", "pool", 1)
    ns.members("sandboxes", lambda ms: ms and condition(ms[0], "Ready"))
    ns.claim("mine", "pool")
    claim = ns.wait("sandboxclaims", "mine", lambda c: c.get("status", {}).get("sandbox"))
    assert said(claim)[0] == "False"
    ns.sandbox("fine")
    ns.ready("sandboxes", "fine")


@pytest.mark.parametrize("template,claimed,expected", [
    ("false", None, {EVICT: "false"}), (None, "true", {EVICT: "true"}), (None, None, {})])
def test_case_233_eviction_after_adoption(ns, template, claimed, expected):
    ns.warm(metadata={"annotations": {EVICT: template}} if template else None)
    more = {"additionalPodMetadata": {"annotations": {EVICT: claimed}}} if claimed else {}
    name = bound(ns, "mine", "warm", **more)
    assert pod_metadata(ns.get("sandboxes", name), "annotations") == expected
    ns.wait("pods", name, lambda p: annotations(p).get(EVICT) == expected.get(EVICT))


def test_case_233_eviction_without_a_template(ns):
    ns.warm(metadata={"annotations": {EVICT: "false"}})
    ns.delete("sandboxtemplates", "warm")
    ns.gone("sandboxtemplates", "warm")
    name = bound(ns, "mine", "warm")
    assert pod_metadata(ns.get("sandboxes", name), "annotations") == {EVICT: "false"}


@pytest.mark.parametrize("creator", ["python-client", None])
def test_case_234_created_by_is_the_claims(ns, creator):
    ns.warm()
    name = bound(ns, "mine", "warm", labels={CREATED_BY: creator} if creator else {})
    sandbox = ns.get("sandboxes", name)
    assert labels(sandbox).get(CREATED_BY) == pod_metadata(sandbox, "labels").get(CREATED_BY) == creator
    ns.wait("pods", name, lambda p: labels(p).get(CREATED_BY) == creator)


def test_case_197_additional_metadata_on_an_adopted_sandbox(ns):
    ns.warm()
    name = bound(ns, "mine", "warm", additionalPodMetadata={"labels": {f"{USER}/x": "1"}, "annotations": {"n": "1"}})
    pod = ns.wait("pods", name, lambda p: labels(p).get(f"{USER}/x") == "1")
    assert annotations(pod)["n"] == "1"


def test_case_212_disallowed_volumes_do_not_matter_to_a_claim_without(ns):
    [member] = ns.warm(volumeClaimTemplatesPolicy="Disallowed")
    assert bound(ns, "mine", "warm") == member["metadata"]["name"]


@pytest.mark.parametrize("strategy", [None, "OnReplenish"])
def test_case_236_a_stale_member_is_taken_where_the_pool_keeps_it(ns, strategy):
    [member] = ns.warm(strategy=strategy)
    ns.patch("sandboxtemplates", "warm", {"spec": {"podTemplate": {"spec": {"containers": [container(command=["sleep", "99999"])]}}}})
    assert bound(ns, "mine", "warm") == member["metadata"]["name"]


def test_case_235_recreate_with_the_label_gone_compares_the_blueprint(ns):
    [member] = ns.warm(strategy="Recreate")
    ns.patch("sandboxes", member["metadata"]["name"], {"metadata": {"labels": {BLUEPRINT: None}}})
    assert bound(ns, "mine", "warm") == member["metadata"]["name"]


def test_case_241_recreate_without_its_template_gives_nothing(ns):
    [member] = ns.warm(strategy="Recreate")
    ns.delete("sandboxtemplates", "warm")
    ns.gone("sandboxtemplates", "warm")
    ns.claim("mine", "warm")
    ns.reason("sandboxclaims", "mine", "TemplateNotFound")
    assert labels(ns.get("sandboxes", member["metadata"]["name"]))[POOL]
    ns.template("warm")
    ns.ready("sandboxclaims", "mine")


def test_case_243_pools_of_another_namespace_give_nothing(ns, server):
    other = Space(server, ns.name + "-other")
    server.api("POST", "/api/v1/namespaces", {"metadata": {"name": other.name}})
    [member] = other.warm("same")
    ns.cold("same")
    assert bound(ns, "mine", "same") == "mine"
    assert controller(other.get("sandboxes", member["metadata"]["name"]))["kind"] == "SandboxWarmPool"
    server.api("DELETE", f"/api/v1/namespaces/{other.name}")


def test_case_247_two_members_and_three_claims(ns):
    members = {m["metadata"]["name"] for m in ns.warm("warm", 2)}
    claims = [ns.claim(f"c{i}", "warm") for i in range(3)]
    names = [ns.ready("sandboxclaims", c["metadata"]["name"])["status"]["sandbox"]["name"] for c in claims]
    assert len(set(names)) == 3 and members <= set(names)
    for claim, name in zip(claims, names):
        assert owned(ns.get("sandboxes", name), claim)
    mine = [s for s in ns.list("sandboxes") if (controller(s) or {}).get("kind") == "SandboxClaim"]
    assert len(mine) == 3


def test_case_248_many_claims_at_once(ns):
    ns.warm("warm", 5)
    for i in range(20):
        ns.claim(f"c{i}", "warm")
    names = {ns.ready("sandboxclaims", f"c{i}")["status"]["sandbox"]["name"] for i in range(20)}
    assert len(names) == 20


def test_case_249_a_bound_claim_takes_no_second(ns):
    order = one_by_one(ns, "warm", 2)
    name = bound(ns, "mine", "warm")
    ns.full("warm", 2)
    ns.patch("sandboxes", name, {"metadata": {"labels": {LAUNCH: None}}})
    ns.patch("sandboxclaims", "mine", {"spec": {"additionalPodMetadata": {"annotations": {"again": "1"}}}})
    ns.seen("sandboxclaims", "mine")
    ns.wait("sandboxes", name, lambda s: labels(s).get(LAUNCH) == "warm" and pod_metadata(s, "annotations").get("again"))
    assert labels(ns.get("sandboxes", order[1]))[POOL]
    assert ns.get("sandboxclaims", "mine")["status"]["sandbox"]["name"] == name


def test_case_237_and_250_a_recorded_member_is_taken_first(ns):
    order = one_by_one(ns, "warm", 2)
    ns.claim("mine", "warm", annotations={SANDBOX_NAME: order[1]})
    assert ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"] == order[1]
    assert labels(ns.get("sandboxes", order[0]))[POOL]


def test_case_251_a_recorded_member_of_another_pool_is_forgotten(ns):
    [member] = ns.warm("other")
    ns.cold("mine-pool")
    ns.claim("mine", "mine-pool", labels={SANDBOX_NAME: member["metadata"]["name"]})
    claim = ns.ready("sandboxclaims", "mine")
    assert claim["status"]["sandbox"]["name"] == "mine"
    ns.wait("sandboxclaims", "mine", lambda c: SANDBOX_NAME not in labels(c)
            and annotations(c).get(SANDBOX_NAME, "mine") == "mine")
    assert controller(ns.get("sandboxes", member["metadata"]["name"]))["kind"] == "SandboxWarmPool"


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_case_252_a_recorded_sandbox_of_another_claim_is_forgotten(ns, where):
    ns.warm()
    name = bound(ns, "first", "warm")
    ns.patch("sandboxwarmpools", "warm", {"spec": {"replicas": 0}})
    ns.full("warm", 0)
    ns.claim("second", "warm", **{where: {SANDBOX_NAME: name}})
    claim = ns.ready("sandboxclaims", "second")
    assert claim["status"]["sandbox"]["name"] == "second"
    ns.wait("sandboxclaims", "second", lambda c: name not in (labels(c).get(SANDBOX_NAME), annotations(c).get(SANDBOX_NAME)))
    assert owned(ns.get("sandboxes", name), ns.get("sandboxclaims", "first"))


def test_case_253_the_label_of_older_versions_becomes_an_annotation(ns):
    ns.warm()
    name = bound(ns, "mine", "warm")
    ns.wait("sandboxclaims", "mine", lambda c: annotations(c).get(SANDBOX_NAME) == name)
    ns.patch("sandboxclaims", "mine", {"metadata": {"labels": {SANDBOX_NAME: name}, "annotations": {SANDBOX_NAME: None}}})
    claim = ns.wait("sandboxclaims", "mine", lambda c: SANDBOX_NAME not in labels(c) and annotations(c).get(SANDBOX_NAME) == name)
    assert claim["status"]["sandbox"]["name"] == name


def test_case_258_a_recorded_sandbox_that_is_gone_is_forgotten(ns):
    [member] = ns.warm()
    ns.claim("mine", "warm", annotations={SANDBOX_NAME: "never-was"})
    claim = ns.ready("sandboxclaims", "mine")
    assert claim["status"]["sandbox"]["name"] == member["metadata"]["name"]
    ns.wait("sandboxclaims", "mine", lambda c: annotations(c).get(SANDBOX_NAME) == member["metadata"]["name"])


def test_case_265_the_pod_of_an_adopted_sandbox_is_watched(ns):
    ns.warm()
    name = bound(ns, "mine", "warm")
    old = ns.get("pods", name)
    before = ns.get("sandboxclaims", "mine")["metadata"]["resourceVersion"]
    ns.delete("pods", name)
    changes = ns.server.watch(ns.path("sandboxclaims"), before, 20)  # it may be over before a list could show it
    assert any(said(claim)[0] == "False" for _, claim in changes)
    claim = ns.ready("sandboxclaims", "mine")
    assert claim["status"]["sandbox"]["name"] == name
    assert ns.get("pods", name)["metadata"]["uid"] != old["metadata"]["uid"]


def test_case_144_a_pool_refills_after_a_claim(ns):
    ns.warm()
    first = bound(ns, "one", "warm")
    [member] = ns.full("warm", 1)
    assert bound(ns, "two", "warm") == member["metadata"]["name"] != first


def test_case_245_a_deleted_member_is_not_handed_out(ns):
    first, second = one_by_one(ns, "warm", 2)
    ns.patch("sandboxes", first, {"metadata": {"finalizers": ["example.com/hold"]}})
    ns.delete("sandboxes", first)
    assert bound(ns, "mine", "warm") == second
    ns.patch("sandboxes", first, {"metadata": {"finalizers": None}})
