# SPDX-License-Identifier: Apache-2.0
"""SandboxWarmPool: cases 133 to 174 of docs/reference/cases.md."""

import pytest
from kit import (BLUEPRINT, CREATED_BY, EVICT, LAUNCH, NEVER_READY, POD_TEMPLATE, POOL, TEMPLATE, TEMPLATE_REF, annotations, at, box,
                 condition, container, controller, is_ready, labels, name_hash, owned, owner_reference, pod_metadata, vct)

BETA = "extensions.agents.x-k8s.io/v1beta1"


def names(objects):
    return {o["metadata"]["name"] for o in objects}


def grow(ns, pool, replicas):
    """Scales up and returns the one new member."""
    before = names(ns.of_pool(pool))
    ns.patch("sandboxwarmpools", pool, {"spec": {"replicas": replicas}})
    [new] = [m for m in ns.members("sandboxes", lambda ms: len(ms) == replicas, labelSelector=f"{POOL}={name_hash(pool)}")
             if m["metadata"]["name"] not in before]
    return new


def next_second(ns):
    """Until the server's clock shows another second: creationTimestamps have no finer resolution."""
    ns.sandbox("clock", operatingMode="Suspended", shutdownTime=at(2))
    ns.reason("sandboxes", "clock", "SandboxExpired")
    ns.delete("sandboxes", "clock")


def edit_image(ns, template, command=("sleep", "1000000")):
    ns.patch("sandboxtemplates", template, {"spec": {"podTemplate": {"spec": {"containers": [container(command=list(command))]}}}})


def nudge(ns, pool):
    """Makes the pool look again: an orphan's own events need not wake it."""
    ns.patch("sandboxwarmpools", pool, {"spec": {"updateStrategy": {"type": "OnReplenish"}}})


def command_of(member):
    return member["spec"]["podTemplate"]["spec"]["containers"][0]["command"]


def test_case_133_size(ns):
    ns.template("t")
    ns.create("sandboxwarmpools", "pool", {"sandboxTemplateRef": {"name": "t"}})
    ns.full("pool", 1)
    for replicas in (3, 2, 0):
        ns.patch("sandboxwarmpools", "pool", {"spec": {"replicas": replicas}})
        ns.full("pool", replicas)
        assert len([m for m in ns.of_pool("pool") if "deletionTimestamp" not in m["metadata"]]) == replicas
    pool = ns.get("sandboxwarmpools", "pool")
    assert pool["status"]["selector"] == f"{POOL}=91dd7983"


def test_cases_134_and_150_orphans_are_vetted(ns):
    [member] = ns.warm("pool")
    spec = {k: member["spec"][k] for k in ("podTemplate",)}
    marks = {POOL: name_hash("pool"), TEMPLATE: name_hash("pool")}
    ns.create("sandboxes", "orphan", spec, labels=marks)
    ns.create("sandboxes", "foreign", spec, labels=marks, ownerReferences=[ns.foreign_owner()])
    ns.create("sandboxes", "stale", box(metadata=spec["podTemplate"]["metadata"]),
              labels=dict(marks, **{BLUEPRINT: labels(member)[BLUEPRINT]}))
    nudge(ns, "pool")
    ns.gone("sandboxes", "stale")
    ns.members("sandboxes", lambda ms: len([m for m in ms if (controller(m) or {}).get("kind") == "SandboxWarmPool"]) == 1)
    foreign = ns.get("sandboxes", "foreign")
    assert controller(foreign)["kind"] == "ConfigMap" and LAUNCH not in labels(foreign)


def test_case_134_an_orphan_of_the_blueprint_is_adopted(ns):
    [member] = ns.warm("pool")
    pool = ns.get("sandboxwarmpools", "pool")
    ns.patch("sandboxwarmpools", "pool", {"spec": {"replicas": 0}})
    ns.full("pool", 0)
    ns.gone("sandboxes", member["metadata"]["name"])
    ns.create("sandboxes", "orphan", {"podTemplate": member["spec"]["podTemplate"]},
              labels={POOL: name_hash("pool"), TEMPLATE: name_hash("pool")}, finalizers=["example.com/hold"])
    nudge(ns, "pool")
    orphan = ns.wait("sandboxes", "orphan", lambda s: owned(s, pool))
    assert labels(orphan)[LAUNCH] == "warm"
    ns.patch("sandboxes", "orphan", {"metadata": {"finalizers": None}})


def test_cases_135_and_136_what_a_member_is_made_of(ns):
    vcts = [vct("data"), vct("cache", "2Gi")]
    [member] = ns.warm("pool", metadata={"labels": {"l": "1"}, "annotations": {"a": "1"}}, volumeClaimTemplates=vcts, service=True)
    pool = ns.get("sandboxwarmpools", "pool")
    assert member["metadata"]["name"].startswith("pool-") and len(member["metadata"]["name"]) == len("pool-") + 5
    assert member["metadata"]["ownerReferences"] == [owner_reference(pool, BETA, "SandboxWarmPool")]
    mine = labels(member)
    assert mine[POOL] == mine[TEMPLATE] == "91dd7983" and mine[LAUNCH] == "warm" and mine[CREATED_BY] == "controller"
    assert len(mine[BLUEPRINT]) == len(mine[POD_TEMPLATE]) == 8
    assert annotations(member)[TEMPLATE_REF] == "pool"
    inner = pod_metadata(member, "labels")
    assert inner == {"l": "1", **{k: mine[k] for k in (POOL, TEMPLATE, BLUEPRINT, POD_TEMPLATE)}}
    assert pod_metadata(member, "annotations") == {"a": "1", EVICT: "true"}
    assert member["spec"]["volumeClaimTemplates"] == vcts and member["spec"]["service"] is True
    pod = ns.get("pods", member["metadata"]["name"])
    assert labels(pod)["l"] == "1" and annotations(pod)[EVICT] == "true" and BLUEPRINT not in labels(pod)


@pytest.mark.parametrize("pod,spec,automount,dns", [
    ({}, {}, False, True),
    ({"automountServiceAccountToken": True}, {}, True, True),
    ({}, {"networkPolicyManagement": "Unmanaged"}, False, False),
    ({}, {"networkPolicy": {"egress": [{}]}}, False, False),
    ({"dnsPolicy": "ClusterFirst"}, {}, False, False),
])
def test_cases_137_and_184_secure_defaults(ns, pod, spec, automount, dns):
    ns.template("t", pod, **spec)
    ns.pool("pool", "t", 1)
    [member] = ns.members("sandboxes", lambda ms: ms)
    made = member["spec"]["podTemplate"]["spec"]
    assert made["automountServiceAccountToken"] is automount
    assert made.get("dnsPolicy") == ("None" if dns else pod.get("dnsPolicy"))
    assert made.get("dnsConfig") == ({"nameservers": ["8.8.8.8", "1.1.1.1"]} if dns else None)


def test_case_138_only_ready_members_are_ready_replicas(ns):
    ns.warm("pool")
    ns.patch("sandboxtemplates", "pool", {"spec": {"podTemplate": {"spec": NEVER_READY}}})
    new = grow(ns, "pool", 2)
    ns.wait("sandboxes", new["metadata"]["name"],
            lambda s: (condition(s, "Ready") or {}).get("message", "").startswith("Pod is Running but not Ready"))
    pool = ns.wait("sandboxwarmpools", "pool", lambda p: p["status"].get("replicas") == 2)
    assert pool["status"]["readyReplicas"] == 1


def test_cases_139_and_140_status_reaches_zero_again(ns):
    ns.warm("pool", 2)
    ns.patch("sandboxwarmpools", "pool", {"spec": {"replicas": 0}})
    pool = ns.wait("sandboxwarmpools", "pool", lambda p: not p["status"].get("replicas") and p["status"]["observedGeneration"] == 2)
    assert not pool["status"].get("readyReplicas") and pool["status"]["selector"]


@pytest.mark.parametrize("value", ["true", "false"])
def test_case_141_the_template_decides_about_eviction(ns, value):
    [member] = ns.warm("pool", metadata={"annotations": {EVICT: value}})
    assert pod_metadata(member, "annotations") == {EVICT: value}


def test_cases_142_143_and_145_recreate_replaces_members_of_that_pool_alone(ns):
    [a] = ns.warm("a", strategy="Recreate")
    [b] = ns.warm("b", strategy="Recreate")
    edit_image(ns, "a")
    [new] = ns.members("sandboxes", lambda ms: len(ms) == 1 and ms[0]["metadata"]["uid"] != a["metadata"]["uid"] and is_ready(ms[0]),
                       labelSelector=f"{POOL}={name_hash('a')}")
    assert command_of(new) == ["sleep", "1000000"] and labels(new)[BLUEPRINT] != labels(a)[BLUEPRINT]
    assert names(ns.of_pool("b")) == {b["metadata"]["name"]}


@pytest.mark.parametrize("strategy", [None, "OnReplenish"])
def test_case_145_otherwise_only_replacements_are_new(ns, strategy):
    members = ns.warm("pool", 2, strategy=strategy)
    edit_image(ns, "pool")
    gone, kept = (m["metadata"]["name"] for m in members)
    ns.delete("sandboxes", gone)
    ns.gone("sandboxes", gone)
    now = {m["metadata"]["name"]: command_of(m) for m in ns.members(
        "sandboxes", lambda ms: len(ms) == 2 and all(map(is_ready, ms)), labelSelector=f"{POOL}={name_hash('pool')}")}
    assert now.pop(kept) == ["sleep", "infinity"]
    assert list(now.values()) == [["sleep", "1000000"]]


def test_case_146_another_template_of_the_same_content_recreates(ns):
    [old] = ns.warm("pool", strategy="Recreate")
    ns.template("twin")
    ns.patch("sandboxwarmpools", "pool", {"spec": {"sandboxTemplateRef": {"name": "twin"}}})
    [new] = ns.members("sandboxes", lambda ms: len(ms) == 1 and ms[0]["metadata"]["uid"] != old["metadata"]["uid"])
    assert labels(new)[TEMPLATE] == name_hash("twin") and annotations(new)[TEMPLATE_REF] == "twin"


@pytest.mark.parametrize("change,recreated", [
    ({"podTemplate": {"metadata": {"labels": {"l": "2"}, "annotations": {"a": "2"}}}}, False),
    ({"volumeClaimTemplates": [vct("data", labels={"l": "1"})]}, False),
    ({"podTemplate": {"spec": {"automountServiceAccountToken": False}}}, False),
    ({"networkPolicy": {"egress": []}}, False),
    ({"envVarsInjectionPolicy": "Allowed"}, False),
    ({"podTemplate": {"spec": {"dnsPolicy": "Default"}}}, True),
    ({"podTemplate": {"spec": {"automountServiceAccountToken": True}}}, True),
    ({"volumeClaimTemplates": [vct("data", "2Gi")]}, True),
    ({"volumeClaimTemplates": [vct("data"), vct("more")]}, True),
    ({"volumeClaimTemplates": None}, True),
    ({"service": True}, True),
])
def test_cases_147_to_152_what_makes_a_member_stale(ns, change, recreated):
    [old] = ns.warm("pool", strategy="Recreate", volumeClaimTemplates=[vct("data")])
    version = ns.version("sandboxes")
    ns.patch("sandboxtemplates", "pool", {"spec": change})
    if recreated:
        ns.members("sandboxes", lambda ms: len(ms) == 1 and ms[0]["metadata"]["uid"] != old["metadata"]["uid"])
        return
    grow(ns, "pool", 2)  # a pass of the pool over the changed template
    assert not [o for what, o in ns.history("sandboxes", version, lambda w, _: w == "ADDED")
                if o["metadata"].get("deletionTimestamp") or what == "DELETED"]
    kept = ns.get("sandboxes", old["metadata"]["name"])
    assert labels(kept)[BLUEPRINT] == labels(old)[BLUEPRINT]


def test_case_158_a_terminating_member_counts_against_the_target(ns):
    members = ns.warm("pool", 2)
    name = members[0]["metadata"]["name"]
    ns.patch("sandboxes", name, {"metadata": {"finalizers": ["example.com/hold"]}})
    ns.delete("sandboxes", name)
    ns.wait("sandboxwarmpools", "pool", lambda p: p["status"].get("replicas") == 1)
    assert len(ns.of_pool("pool")) == 2
    ns.patch("sandboxes", name, {"metadata": {"finalizers": None}})
    ns.full("pool", 2)
    assert name not in names(ns.of_pool("pool"))


def test_case_162_the_newest_and_first_those_not_ready_go(ns):
    [first] = ns.warm("pool")
    next_second(ns)
    second = grow(ns, "pool", 2)
    ns.full("pool", 2)
    ns.patch("sandboxtemplates", "pool", {"spec": {"podTemplate": {"spec": NEVER_READY}}})
    grow(ns, "pool", 3)
    for replicas, left in ((2, {first["metadata"]["name"], second["metadata"]["name"]}), (1, {first["metadata"]["name"]})):
        ns.patch("sandboxwarmpools", "pool", {"spec": {"replicas": replicas}})
        alive = ns.members("sandboxes", lambda ms: len(ms) == replicas, labelSelector=f"{POOL}={name_hash('pool')}")
        assert names(alive) == left


def test_scale_resizes_the_pool(ns):
    ns.warm("pool")
    path = ns.path("sandboxwarmpools", "pool", "scale")
    scale = ns.server.api("GET", path)
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1) and scale["status"]["selector"] == f"{POOL}=91dd7983"
    scale["spec"]["replicas"] = 2
    assert ns.server.api("PUT", path, scale)["spec"]["replicas"] == 2
    ns.full("pool", 2)


def test_deleting_a_pool_deletes_members_but_not_adopted_ones(ns):
    ns.warm("pool", 2)
    ns.claim("mine", "pool")
    mine = ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"]
    ns.delete("sandboxwarmpools", "pool")
    left = ns.members("sandboxes", lambda ms: len(ms) == 1)
    assert names(left) == {mine}
    ns.delete("sandboxclaims", "mine")
    for kind in ("sandboxes", "pods"):
        ns.gone(kind, mine)


def test_u21_a_missing_template_is_told_once(ns):
    ns.pool("pool", "later", 2)
    ns.pool("empty", "later", 0)
    event = ns.event("pool", "WarmPoolNotProgressing")
    assert event["type"] == "Warning" and event["reportingController"] == "sandboxwarmpool-controller"
    ns.template("later")
    ns.full("pool", 2)
    event = ns.event("pool", "WarmPoolProgressing")
    assert (event["type"], event["action"], event["note"]) == ("Normal", "Reconciling", "Warm pool is progressing again")
    assert len(ns.events("pool", "WarmPoolNotProgressing", 1)) == 1
    assert not ns.events("empty", "WarmPoolNotProgressing") + ns.events("empty", "WarmPoolProgressing")
