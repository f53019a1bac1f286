# SPDX-License-Identifier: Apache-2.0
"""Deletions: their options, what they answer, and of many at once."""
from shapes import (CLASS, CONFIG, ENDPOINTS, EVENT, LEASE, NAMESPACE, NEW_EVENT, POLICY, ROLE, RUNTIME, SECRET, SERVICE, SLICE, STILL, TEMPLATE,
                    ask, delete, get, patch, post, text)

CM = CONFIG.path
HELD = {"finalizers": ["example.com/held"]}


def one(name, body=None, query="", k=CONFIG, meta=None, **rest):
    """A deletion of an object of its own."""
    obj = "d-" + "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
    return [post("create for: " + name, k.path, k.object(obj, metadata=meta or {}), see=["metadata.name"]),
            delete(name, k.at(obj) + query, body, **rest)]


def away(name):
    """Lets an object go that a finalizer holds."""
    obj = "d-" + "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
    return patch("let go: " + name, CONFIG.at(obj), {"metadata": {"finalizers": None}}, see=["kind"])


def flat(*lists):
    return [step for steps in lists for step in steps]


BAD = {
    "negative grace": {"gracePeriodSeconds": -1}, "grace is text": {"gracePeriodSeconds": "x"}, "grace is a fraction": {"gracePeriodSeconds": 1.5},
    "unknown policy": {"propagationPolicy": "X"}, "policy is a number": {"propagationPolicy": 1}, "empty policy": {"propagationPolicy": ""},
    "policy and orphan": {"propagationPolicy": "Orphan", "orphanDependents": True}, "orphan is text": {"orphanDependents": "x"},
    "another uid": {"preconditions": {"uid": "x"}}, "another version": {"preconditions": {"resourceVersion": "1"}},
    "both conditions": {"preconditions": {"uid": "x", "resourceVersion": "1"}}, "conditions are text": {"preconditions": "x"},
    "dry run of something else": {"dryRun": ["x"]}, "dry run is text": {"dryRun": "All"}, "dry run": {"dryRun": ["All"]},
    "unknown member": {"more": 1}, "another kind": {"kind": "Pod", "apiVersion": "v1"}, "another version of the API": {"kind": "DeleteOptions", "apiVersion": "x/v1"},
    "its kind": {"kind": "DeleteOptions", "apiVersion": "v1"}, "its kind of meta": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
    "a version without a kind": {"apiVersion": "v1"}, "a kind without a version": {"kind": "DeleteOptions"},
    "ignores store read error": {"ignoreStoreReadErrorWithClusterBreakingPotential": True},
}

STORIES = {
    "options": flat(*(one(name, body) for name, body in BAD.items())),
    "bodies": flat(one("not JSON", "{"), one("a list", "[]"), one("text", '"x"'), one("null", "null"), one("empty", ""), one("an empty object", "{}"),
                   one("YAML", "propagationPolicy: Background", type="application/yaml"), one("plain text", "x", type="text/plain"),
                   one("a config map", text(CONFIG.object("x"))), one("no type", "{}", type=None)),
    "in the query": flat(*(one(q, None, "?" + q) for q in [
        "gracePeriodSeconds=0", "gracePeriodSeconds=-1", "gracePeriodSeconds=x", "propagationPolicy=X", "propagationPolicy=Background", "orphanDependents=true",
        "orphanDependents=x", "dryRun=All", "dryRun=x", "propagationPolicy=Orphan&orphanDependents=true", "unknown=1"])),
    "query and body": flat(one("both", {"gracePeriodSeconds": 0}, "?propagationPolicy=X"), one("both fine", {"gracePeriodSeconds": 0}, "?gracePeriodSeconds=5")),
    "held": flat(one("held", None, meta=HELD), [get("read", CONFIG.at("d-held")), delete("again", CONFIG.at("d-held")),
                                                delete("with grace", CONFIG.at("d-held"), {"gracePeriodSeconds": 5}),
                                                delete("in the foreground", CONFIG.at("d-held"), {"propagationPolicy": "Foreground"}),
                                                delete("orphaning", CONFIG.at("d-held"), {"propagationPolicy": "Orphan"}),
                                                delete("another uid", CONFIG.at("d-held"), {"preconditions": {"uid": "x"}}),
                                                delete("dry run", CONFIG.at("d-held"), {"dryRun": ["All"]}, drop=["metadata.finalizers"]),
                                                patch("finalizers in the wrong way", CONFIG.at("d-held"), {"metadata": {"finalizers": ["example.com/other"]}}),
                                                patch("no finalizers", CONFIG.at("d-held"), {"metadata": {"finalizers": None}}),
                                                get("gone", CONFIG.at("d-held"))]),
    "held from the start": flat(one("foreground", {"propagationPolicy": "Foreground"}, meta=HELD, drop=["metadata.finalizers"]), [away("foreground")],
                                one("background", {"propagationPolicy": "Background"}, meta=HELD), [away("background")]),
    "at once": flat(one("background at once", {"propagationPolicy": "Background"}), one("with a uid", {"preconditions": {"uid": "$uid:" + CONFIG.at("d-with-a-uid")}}),
                    one("with a version", {"preconditions": {"resourceVersion": "$version:" + CONFIG.at("d-with-a-version")}}),
                    one("with grace", {"gracePeriodSeconds": 30}), one("with no grace", {"gracePeriodSeconds": 0}),
                    one("not orphaned", {"orphanDependents": False})),
    "answers": flat(*(one(k.id, None, "", k) for k in STILL)),
    "absent": [delete(k.id, k.at("not-there")) for k in STILL] + [delete("with a bad body", CONFIG.at("not-there"), "{"),
                                                                  delete("with a uid", CONFIG.at("not-there"), {"preconditions": {"uid": "x"}})],
    "many": [post(f"create {i}", CM, CONFIG.object(f"many{i}", metadata={"labels": {"many": "yes", "n": str(i)}}), see=["metadata.name"]) for i in range(5)] + [
        delete("a bad selector", CM + "?labelSelector=%3D"), delete("a bad field", CM + "?fieldSelector=x%3Dy"),
        delete("a bad limit", CM + "?limit=x&labelSelector=many"), delete("a bad policy", CM + "?labelSelector=many", {"propagationPolicy": "X"}),
        delete("a bad body", CM + "?labelSelector=many", "{"), delete("dry run", CM + "?labelSelector=many&dryRun=All"),
        get("still there", CM + "?labelSelector=many", drop=["metadata"]), delete("one by label", CM + "?labelSelector=many,n%3D0"),
        delete("one by name", CM + "?fieldSelector=metadata.name%3Dmany1"), delete("none", CM + "?labelSelector=absent%3Dyes"),
        delete("another uid", CM + "?labelSelector=many", {"preconditions": {"uid": "x"}}),
        delete("the rest", CM + "?labelSelector=many", {"gracePeriodSeconds": 0}), get("gone", CM + "?labelSelector=many", drop=["metadata"]),
    ] + [delete("many of " + k.id, k.path + "?labelSelector=no%3Dsuch") for k in (SECRET, SERVICE, ENDPOINTS, EVENT, SLICE, POLICY, LEASE, RUNTIME, CLASS, ROLE, NEW_EVENT, TEMPLATE)],
    "what cannot be deleted": [delete("the default namespace", "/api/v1/namespaces/default"), delete("kube-system", "/api/v1/namespaces/kube-system"),
                               delete("all namespaces", NAMESPACE.path), delete("a subresource", CONFIG.at("x", "status")),
                               delete("a Pod's status", "/api/v1/namespaces/$NS/pods/x/status"), ask("an unknown method", "OPTIONS", CM),
                               ask("another", "TRACE", CM)],
}
