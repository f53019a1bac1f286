# SPDX-License-Identifier: Apache-2.0
"""The kinds of cay.dev with a real kubectl: what they default, refuse and show, and who may say what in them."""

import base64
import datetime
import json

import pytest
from cay_local import ApiError

GROUP = "/apis/cay.dev/v1alpha1"
NS = GROUP + "/namespaces/team"
DIGEST = "ab" * 32


def key(n):
    return base64.b64encode(bytes([n]) + bytes(31)).decode()


KINDS = {
    "Agent": ("agents", {}),
    "Session": ("sessions", {"agent": "a"}),
    "Attachment": ("attachments", {"session": "s", "sandbox": "b"}),
    "Approval": ("approvals", {"agent": "a", "operation": "exec", "digest": DIGEST, "expires": "2100-01-01T00:00:00Z"}),
    "Budget": ("budgets", {"limits": {"cpuSeconds": "10", "maxSandboxes": 0}}),
    "Credential": ("credentials", {"secretRef": {"name": "s", "key": "k"}, "hosts": ["*.example.org"], "header": "Authorization"}),
    "Trigger": ("triggers", {"agent": "a", "secretRef": {"name": "s", "key": "k"}, "sessionKey": ".pull_request.number"}),
    "TeamPolicy": ("teampolicies", {}),
}


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    c.kubectl("create", "namespace", "team")
    for who, role in (("vera", "view"), ("edith", "edit"), ("adam", "admin")):
        c.kubectl("create", "rolebinding", who, "-n", "team", f"--clusterrole={role}", f"--user={who}")
    # Writes agents and their status, and has neither of the two verbs.
    c.kubectl("create", "role", "writer", "-n", "team", "--verb=get,list,create,update,patch,delete",
              "--resource=agents.cay.dev,approvals.cay.dev,agents.cay.dev/status,approvals.cay.dev/status")
    c.kubectl("create", "rolebinding", "wilma", "-n", "team", "--role=writer", "--user=wilma")
    return c


@pytest.fixture
def clean(cay):
    yield cay
    for plural, _ in KINDS.values():
        cay.api("DELETE", f"{NS}/{plural}")


def body(kind, name, spec=None, **meta):
    return {"apiVersion": "cay.dev/v1alpha1", "kind": kind, "metadata": {"name": name, **meta},
            "spec": KINDS[kind][1] if spec is None else spec}


def create(cay, kind, name, spec=None):
    return cay.api("POST", f"{NS}/{KINDS[kind][0]}", body(kind, name, spec))


def merge(cay, kind, name, change, sub=""):
    return cay.api("PATCH", f"{NS}/{KINDS[kind][0]}/{name}{sub}", change, content_type="application/merge-patch+json")


def refused(call, code=422):
    """The fields that an answer names, or its message."""
    with pytest.raises(ApiError) as e:
        call()
    assert e.value.code == code, e.value
    if code == 422:
        return [c["field"] for c in e.value.status["details"]["causes"]]
    return e.value.status["message"]


def kubectl_as(cay, user, *args, groups=(), stdin=None):
    more = [f"--as-group={g}" for g in groups]
    return cay.kubectl("-n", "team", f"--as={user}", *more, *args, stdin=stdin, check=False)


def name_for(kind):
    return "team" if kind == "TeamPolicy" else kind.lower()


def test_kinds_are_created_listed_and_changed(clean):
    for kind, (plural, _) in KINDS.items():
        made = create(clean, kind, name_for(kind))
        assert made["metadata"]["generation"] == 1 and "status" not in made
        shown = clean.kubectl("-n", "team", "get", plural, "-o", "wide").stdout.splitlines()
        assert shown[0].startswith("NAME") and "AGE" in shown[0] and shown[1].startswith(name_for(kind))
        # What a client says of the status is not taken with the rest.
        kept = merge(clean, kind, name_for(kind), {"status": {"observedGeneration": 7}})
        assert kept.get("status", {}).get("observedGeneration") != 7
    for short, kind in (("ag", "agent"), ("sess", "session"), ("att", "attachment"), ("appr", "approval"),
                        ("bud", "budget"), ("cred", "credential"), ("trig", "trigger"), ("tp", "teampolicy")):
        assert clean.kubectl("-n", "team", "get", short, "-o", "name").stdout.startswith(f"{kind}.cay.dev/")


def test_columns_say_what_matters(clean):
    create(clean, "Agent", "a")
    merge(clean, "Agent", "a", {"status": {"verified": True, "sandboxes": 2}}, "/status")
    rows = [r.split() for r in clean.kubectl("-n", "team", "get", "agents").stdout.splitlines()]
    assert rows[0] == ["NAME", "MODE", "VERIFIED", "SANDBOXES", "AGE"]
    assert rows[1][:4] == ["a", "FreshPerSession", "true", "2"]
    create(clean, "Approval", "q")
    rows = [r.split() for r in clean.kubectl("-n", "team", "get", "approvals").stdout.splitlines()]
    assert rows[0] == ["NAME", "AGENT", "OPERATION", "DECISION", "BY", "AGE"]


def test_explain_knows_every_field(cay):
    for kind, (plural, _) in KINDS.items():
        for part in ("spec", "status"):
            text = cay.kubectl("explain", f"{plural}.{part}", "--recursive").stdout
            assert f"KIND:       {kind}" in text
    document = cay.api("GET", "/openapi/v3/apis/cay.dev/v1alpha1")
    silent = [f"{name}.{field}" for name, schema in document["components"]["schemas"].items() if name.startswith("dev.cay.")
              for field, of in schema.get("properties", {}).items() if not of.get("description")]
    assert not silent
    assert "The first that matches decides" in cay.kubectl("explain", "agents.spec.approval.rules").stdout


def test_defaults_are_filled_in(clean):
    spec = create(clean, "Agent", "a")["spec"]
    assert spec["sandbox"] == {"mode": "FreshPerSession", "retain": "24h"}
    assert spec["capabilities"] == {"rights": ["exec", "read", "write", "ports"], "egress": [], "credentials": [],
                                    "tools": ["*"], "runtimeClasses": ["*"]}
    assert spec["approval"] == {"default": "Allow", "timeout": "10m"} and spec["visibility"] == "Team"
    assert create(clean, "Attachment", "x")["spec"]["rights"] == ["exec", "read", "write", "ports"]
    read_only = {"session": "s", "sandbox": "b", "view": "ReadOnly"}
    assert create(clean, "Attachment", "y", read_only)["spec"]["rights"] == ["exec", "read", "ports"]
    assert create(clean, "Budget", "b", {})["spec"] == {"onExceeded": "Suspend"}
    assert create(clean, "Trigger", "t")["spec"]["limits"] == {"perMinute": 60, "maxPending": 16}
    # A ceiling has none: what it leaves out it does not limit.
    assert create(clean, "TeamPolicy", "team", {"capabilities": {"tools": ["*"]}})["spec"] == {"capabilities": {"tools": ["*"]}}


BAD = [
    ("Agent", {"keys": [{"name": "k", "publicKey": "AAAA"}]}, "spec.keys[0].publicKey"),
    ("Agent", {"keys": [{"name": f"k{i}", "publicKey": key(i)} for i in range(17)]}, "spec.keys"),
    ("Agent", {"sandbox": {"retain": "soon"}}, "spec.sandbox.retain"),
    ("Agent", {"capabilities": {"egress": [{"host": "a"}, {"host": "http://a"}]}}, "spec.capabilities.egress[1].host"),
    ("Agent", {"capabilities": {"egress": [{"host": "a", "ports": [70000]}]}}, "spec.capabilities.egress[0].ports[0]"),
    ("Agent", {"capabilities": {"credentials": ["a*b*c"]}}, "spec.capabilities.credentials[0]"),
    ("Agent", {"capabilities": {"tools": ["x" * 300]}}, "spec.capabilities.tools[0]"),
    ("Agent", {"capabilities": {"tools": [f"t{i}" for i in range(33)]}}, "spec.capabilities.tools"),
    ("Agent", {"approval": {"rules": [{"action": "Ask"}]}}, "spec.approval.rules[0]"),
    ("Agent", {"approval": {"rules": [{"action": "Ask", "path": "/x"}] * 257}}, "spec.approval.rules"),
    ("Agent", {"visibility": "Nobody"}, "spec.visibility"),
    ("Session", {}, "spec.agent"),
    ("Session", {"agent": "a", "title": "x" * 257}, "spec.title"),
    ("Attachment", {"session": "s"}, "spec.sandbox"),
    ("Attachment", {"session": "s", "sandbox": "b", "view": "ReadOnly", "rights": ["write"]}, "spec.rights[0]"),
    ("Approval", {"agent": "a", "operation": "exec", "expires": "2100-01-01T00:00:00Z"}, "spec.digest"),
    ("Approval", {"agent": "a", "operation": "exec", "digest": DIGEST, "expires": "tomorrow"}, "spec.expires"),
    ("Budget", {"limits": {"cpuSeconds": "-1"}}, "spec.limits.cpuSeconds"),
    ("Budget", {"limits": {"maxSandboxes": "0.5"}}, "spec.limits.maxSandboxes"),
    ("Budget", {"onExceeded": "Explode"}, "spec.onExceeded"),
    ("Credential", {"secretRef": {"name": "s", "key": "k"}, "hosts": ["h"]}, "spec.header"),
    ("Credential", {"secretRef": {"name": "s", "key": "k"}, "hosts": ["h"], "header": "A", "query": "b"}, "spec.query"),
    ("Credential", {"secretRef": {"name": "s"}, "hosts": ["h"], "header": "A"}, "spec.secretRef.key"),
    ("Credential", {"secretRef": {"name": "s", "key": "k"}, "hosts": ["h"], "header": "A", "prefix": "a\r\nHost: b"}, "spec.prefix"),
    ("Trigger", {"agent": "a", "secretRef": {"name": "s", "key": "k"}, "sessionKey": "number"}, "spec.sessionKey"),
    ("Trigger", {"agent": "a", "secretRef": {"name": "s", "key": "k"}, "limits": {"maxPending": 0}}, "spec.limits.maxPending"),
    ("TeamPolicy", {"isolation": {"classes": ["vm"], "floor": "native"}}, "spec.isolation.floor"),
]


@pytest.mark.parametrize("kind,spec,field", BAD, ids=[f"{k}-{f}" for k, _, f in BAD])
def test_what_is_wrong_is_named(clean, kind, spec, field):
    assert field in refused(lambda: create(clean, kind, name_for(kind), spec))


def test_only_the_policy_named_team_counts(clean):
    assert refused(lambda: create(clean, "TeamPolicy", "other")) == ["metadata.name"]
    told = clean.kubectl("-n", "team", "create", "-f", "-", stdin=json.dumps(body("TeamPolicy", "other")), check=False)
    assert told.returncode == 1 and 'only the TeamPolicy named "team" counts' in told.stderr


def test_what_is_done_stays_done(clean):
    create(clean, "Session", "s")
    assert refused(lambda: merge(clean, "Session", "s", {"spec": {"agent": "b"}})) == ["spec.agent"]
    create(clean, "Attachment", "x")
    assert refused(lambda: merge(clean, "Attachment", "x", {"spec": {"sandbox": "c"}})) == ["spec.sandbox"]
    create(clean, "Approval", "q")
    assert refused(lambda: merge(clean, "Approval", "q", {"spec": {"argv": ["rm"]}})) == ["spec.argv"]


def test_a_decision_is_made_once_and_signed_by_the_server(clean):
    create(clean, "Approval", "q")
    assert refused(lambda: merge(clean, "Approval", "q", {"status": {"used": True}}, "/status")) == ["status.used"]
    said = {"decision": "Once", "decidedBy": "somebody-else", "decidedAt": "2000-01-01T00:00:00Z"}
    status = merge(clean, "Approval", "q", {"status": said}, "/status")["status"]
    assert status["decision"] == "Once" and status["decidedBy"] == "cay-admin"
    assert status["decidedAt"] > "2020"
    for decision in ("Always", "Deny", None):
        assert refused(lambda: merge(clean, "Approval", "q", {"status": {"decision": decision}}, "/status")) == ["status.decision"]
    again = merge(clean, "Approval", "q", {"status": {"decidedBy": "me", "used": True}}, "/status")["status"]
    assert (again["decidedBy"], again["decidedAt"]) == ("cay-admin", status["decidedAt"]) and again["used"]
    assert refused(lambda: merge(clean, "Approval", "q", {"status": {"used": None}}, "/status")) == ["status.used"]
    past = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    create(clean, "Approval", "late", dict(KINDS["Approval"][1], expires=past))
    assert refused(lambda: merge(clean, "Approval", "late", {"status": {"decision": "Once"}}, "/status")) == ["status.decision"]


def within(**more):
    return {"capabilities": {"rights": ["exec", "read"], "tools": ["search"], "runtimeClasses": ["native"],
                             "egress": [{"host": "*.example.org"}], "maxSandboxes": 3, **more}}


def test_a_child_stays_within_its_parent(clean):
    create(clean, "Agent", "p", within())
    assert refused(lambda: create(clean, "Agent", "c", {"parent": "nobody"})) == ["spec.parent"]

    def child(**more):
        return refused(lambda: create(clean, "Agent", "c", {"parent": "p", **within(**more)}))

    assert child(egress=[{"host": "a.example.org"}, {"host": "example.com"}]) == ["spec.capabilities.egress[1].host"]
    assert child(egress=[{"host": "a.example.org", "ports": [443, 80]}]) == ["spec.capabilities.egress[0].ports[1]"]
    assert child(rights=["lifecycle", "exec"]) == ["spec.capabilities.rights[0]"]
    assert child(tools=["search", "*"]) == ["spec.capabilities.tools[1]"]
    assert child(credentials=["x"]) == ["spec.capabilities.credentials[0]"]
    assert child(maxSandboxes=4) == ["spec.capabilities.maxSandboxes"]
    # One that names no number may have as many as its parent.
    spec = within(egress=[{"host": "*.a.example.org"}])
    del spec["capabilities"]["maxSandboxes"]
    create(clean, "Agent", "c", {"parent": "p", **spec})
    # A parent may shrink at any time; the child can still be written, but not grow.
    merge(clean, "Agent", "p", {"spec": {"capabilities": {"rights": ["read"]}}})
    merge(clean, "Agent", "c", {"spec": {"visibility": "Private"}})
    assert refused(lambda: merge(clean, "Agent", "c", {"spec": {"capabilities": {"tools": []}}})) == ["spec.capabilities.rights[0]"]


def test_parents_form_no_loop_and_no_long_chain(clean):
    create(clean, "Agent", "n0")
    for i in range(1, 9):
        create(clean, "Agent", f"n{i}", {"parent": f"n{i - 1}"})
    assert refused(lambda: create(clean, "Agent", "n9", {"parent": "n8"})) == ["spec.parent"]
    assert refused(lambda: merge(clean, "Agent", "n0", {"spec": {"parent": "n8"}})) == ["spec.parent"]
    assert refused(lambda: merge(clean, "Agent", "n0", {"spec": {"parent": "n0"}})) == ["spec.parent"]
    # Nor from above: those below count too.
    create(clean, "Agent", "top")
    assert refused(lambda: merge(clean, "Agent", "n0", {"spec": {"parent": "top"}})) == ["spec.parent"]
    merge(clean, "Agent", "n1", {"spec": {"parent": "top"}})


def test_a_team_policy_limits_agents(clean):
    create(clean, "TeamPolicy", "team", {
        "capabilities": {"egress": [{"host": "*.example.org"}], "tools": ["search"]}, "approvalDefault": "Ask", "retainMax": "2h",
        "isolation": {"classes": ["vm", "gvisor", "native"], "floor": "gvisor"}})
    good = {"capabilities": {"tools": ["search"], "rights": ["lifecycle"]}, "approval": {"default": "Ask"},
            "sandbox": {"retain": "2h"}, "isolation": {"verified": "native", "unverified": "vm"}}
    for change, field in (
            ({"capabilities": {"tools": ["search"], "egress": [{"host": "example.com"}]}}, "spec.capabilities.egress[0].host"),
            ({"capabilities": {}}, "spec.capabilities.tools[0]"),
            ({"approval": {}}, "spec.approval.default"),
            ({"sandbox": {}}, "spec.sandbox.retain"),
            ({"isolation": {"unverified": "native"}}, "spec.isolation.unverified"),
            ({"isolation": {"unverified": "unknown"}}, "spec.isolation.unverified")):
        assert refused(lambda: create(clean, "Agent", "a", {**good, **change})) == [field]
    create(clean, "Agent", "a", good)
    assert refused(lambda: create(clean, "Session", "s", {"agent": "a", "retain": "3h"})) == ["spec.retain"]
    # The policy may shrink; what is there can still be written.
    merge(clean, "TeamPolicy", "team", {"spec": {"approvalDefault": "Deny"}})
    merge(clean, "Agent", "a", {"spec": {"visibility": "Global"}})


def write_as(cay, user, how, obj, groups=()):
    return kubectl_as(cay, user, how, "-f", "-", groups=groups, stdin=json.dumps(obj))


def test_a_key_is_verified_only_with_the_verb(clean):
    agent = body("Agent", "a", {"keys": [{"name": "k", "publicKey": key(1), "verified": True}]})
    told = write_as(clean, "wilma", "create", agent)
    assert told.returncode == 1 and 'User "wilma" cannot verify resource "agents" in API group "cay.dev"' in told.stderr
    assert write_as(clean, "adam", "create", agent).returncode == 0
    # What is verified stays so in the hands of others, but not for another key.
    assert kubectl_as(clean, "wilma", "patch", "agent", "a", "--type=merge", "-p", '{"spec":{"budget":"b"}}').returncode == 0
    for keys in ([{"name": "k", "publicKey": key(2), "verified": True}],
                 [{"name": "k", "publicKey": key(1), "verified": True}, {"name": "l", "publicKey": key(2), "verified": True}]):
        told = kubectl_as(clean, "wilma", "patch", "agent", "a", "--type=merge", "-p", json.dumps({"spec": {"keys": keys}}))
        assert told.returncode == 1 and "cannot verify" in told.stderr
    keys = [{"name": "k", "publicKey": key(2)}]
    assert kubectl_as(clean, "wilma", "patch", "agent", "a", "--type=merge", "-p", json.dumps({"spec": {"keys": keys}})).returncode == 0
    # An agent does not, whatever its roles say.
    clean.kubectl("create", "rolebinding", "robot", "-n", "team", "--clusterrole=admin", "--user=cay:agent:team:robot")
    told = write_as(clean, "cay:agent:team:robot", "create", body("Agent", "b", agent["spec"]), groups=["cay:agents"])
    assert told.returncode == 1 and "an agent may not verify keys" in told.stderr


def decide(cay, user, name, decision="Once", groups=()):
    return kubectl_as(cay, user, "patch", "approval", name, "--subresource=status", "--type=merge", "-p",
                      json.dumps({"status": {"decision": decision}}), groups=groups)


def test_a_question_is_decided_only_with_the_verb_and_never_by_who_asks(clean):
    for name, parent in (("top", None), ("asker", "top"), ("child", "asker"), ("other", None)):
        create(clean, "Agent", name, {"parent": parent} if parent else {})
        clean.kubectl("create", "rolebinding", f"agent-{name}", "-n", "team", "--clusterrole=admin", f"--user=cay:agent:team:{name}")
    for name in ("q1", "q2"):
        create(clean, "Approval", name, dict(KINDS["Approval"][1], agent="asker"))
    told = decide(clean, "wilma", "q1")
    assert told.returncode == 1 and 'User "wilma" cannot approve resource "approvals" in API group "cay.dev"' in told.stderr
    for name in ("asker", "top", "child"):
        told = decide(clean, f"cay:agent:team:{name}", "q1", groups=["cay:agents"])
        assert told.returncode == 1 and "an agent may not decide" in told.stderr
    assert decide(clean, "adam", "q1").returncode == 0
    assert clean.api("GET", f"{NS}/approvals/q1")["status"]["decidedBy"] == "adam"
    assert decide(clean, "cay:agent:team:other", "q2", "Deny", groups=["cay:agents"]).returncode == 0
    # What was decided may be marked as used by whoever writes the status.
    assert kubectl_as(clean, "wilma", "patch", "approval", "q1", "--subresource=status", "--type=merge", "-p",
                      '{"status":{"used":true}}').returncode == 0


def test_the_server_says_whose_an_agent_is(clean):
    owner = "cay.dev/owner"
    said = body("Agent", "a", {}, annotations={owner: "somebody-else"})
    assert write_as(clean, "adam", "create", said).returncode == 0
    assert clean.api("GET", f"{NS}/agents/a")["metadata"]["annotations"][owner] == "adam"
    for value in ("me", None):
        kept = merge(clean, "Agent", "a", {"metadata": {"annotations": {owner: value}}})
        assert kept["metadata"]["annotations"][owner] == "adam"


def test_roles_give_what_they_say(cay):
    def may(user, verb, what, sub=None):
        more = [f"--subresource={sub}"] if sub else []
        return cay.kubectl("auth", "can-i", verb, f"{what}.cay.dev", "-n", "team", "--as", user, *more, check=False).stdout.strip() == "yes"

    for plural, _ in KINDS.values():
        assert may("vera", "list", plural) and not may("vera", "create", plural) and may("edith", "list", plural)
        assert may("edith", "create", plural) == (plural in ("sessions", "attachments", "triggers"))
        assert may("adam", "delete", plural)
    for who, holds in (("vera", False), ("edith", False), ("adam", True)):
        assert may(who, "approve", "approvals") == holds and may(who, "verify", "agents") == holds
        assert may(who, "patch", "approvals", "status") == holds
