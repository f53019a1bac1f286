# SPDX-License-Identifier: Apache-2.0
"""Status, scale and other subresources, and which methods each path has."""
from shapes import (ACCOUNT, CLAIM, CONFIG, JSON_PATCH, KINDS, LEASE, NAMESPACE, NODE, POD, POOL, SANDBOX, SERVICE, STRATEGIC, TEMPLATE, VOLUME,
                    ask, delete, get, patch, post, put)

STATUS = [k for k in KINDS if k in (SERVICE, NAMESPACE, POD, CLAIM, VOLUME, SANDBOX, POOL)]
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
SVC = SERVICE.at("sub")
ALL = KINDS + [NODE]

STORIES = {
    "without status": [step for k in ALL if k not in STATUS and k is not NODE for step in
                       [get("get of " + k.id, k.at("x", "status")), put("put of " + k.id, k.at("x", "status"), k.object("x"))]],
    "no such subresource": [get(k.id, k.at("x", "nothing")) for k in ALL] + [get("scale of " + k.id, k.at("x", "scale")) for k in ALL if k is not POOL]
    + [get("below status", SERVICE.at("x", "status/x")), get("below an object", CONFIG.at("x", "a/b/c"))],
    "absent": [get(k.id, k.at("not-there", "status")) for k in STATUS] + [put("put of " + k.id, k.at("not-there", "status"), k.object("not-there")) for k in STATUS
                                                                        if k is not SANDBOX and k is not POOL]
    + [patch("patch of " + k.id, k.at("not-there", "status"), {}) for k in STATUS],
    "methods": [ask(f"{m} of {what}", m, path, {} if m != "DELETE" else None) for what, path in {
        "a status": SERVICE.at("x", "status"), "a scale": POOL.at("x", "scale"), "a log": POD.at("x", "log"),
        "a token": ACCOUNT.at("x", "token"), "an eviction": POD.at("x", "eviction"), "finalize": NAMESPACE.at("x", "finalize"),
        "a collection of all": "/api/v1/configmaps"}.items() for m in ("POST", "PUT", "DELETE") if not (what, m) in
        {("a status", "PUT"), ("a scale", "PUT"), ("a token", "POST"), ("an eviction", "POST"), ("finalize", "PUT")}],
    "status of a service": [
        post("create", SERVICE.path, SERVICE.object("sub", status={"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}})),
        put("put of the object leaves it", SVC, SERVICE.object("sub", status={"conditions": [CONDITION]}, metadata={"labels": {"a": "b"}})),
        put("put", SVC + "/status", SERVICE.object("sub", status={"loadBalancer": {}, "conditions": [CONDITION]}, metadata={"labels": {"c": "d"}})),
        get("get", SVC + "/status"),
        patch("merge", SVC + "/status", {"status": {"conditions": [dict(CONDITION, reason="S")]}, "spec": {"type": "NodePort"}}),
        patch("strategic", SVC + "/status", {"status": {"conditions": [dict(CONDITION, type="U")]}}, STRATEGIC),
        patch("json", SVC + "/status", [{"op": "remove", "path": "/status/conditions/0"}], JSON_PATCH),
        patch("conditions are text", SVC + "/status", {"status": {"conditions": "x"}}),
        patch("of the object leaves it", SVC, {"status": {"conditions": None}}),
        put("another name", SVC + "/status", SERVICE.object("other")),
        put("a stale version", SVC + "/status", SERVICE.object("sub", metadata={"resourceVersion": "1"})),
        put("an unknown member, strictly", SVC + "/status?fieldValidation=Strict", SERVICE.object("sub", more=1)),
        patch("dry run", SVC + "/status?dryRun=All", {"status": {"conditions": None}}),
        delete("delete", SVC, see=["kind"]),
    ],
    "status of a namespace": [
        get("get", "/api/v1/namespaces/$NS/status"),
        patch("a condition", "/api/v1/namespaces/$NS/status", {"status": {"conditions": [CONDITION]}}),
        patch("another phase", "/api/v1/namespaces/$NS/status", {"status": {"phase": "Terminating"}}),
        patch("an unknown phase", "/api/v1/namespaces/$NS/status", {"status": {"phase": "X"}}),
        patch("no condition", "/api/v1/namespaces/$NS/status", {"status": {"conditions": None}}),
        patch("spec stays", "/api/v1/namespaces/$NS/status", {"spec": {"finalizers": []}}),
        put("finalize: stale", "/api/v1/namespaces/$NS/finalize", NAMESPACE.object("$NS", metadata={"resourceVersion": "1"}, spec={"finalizers": []})),
        put("finalize: another name", "/api/v1/namespaces/$NS/finalize", NAMESPACE.object("other")),
        put("finalize: a bad one", "/api/v1/namespaces/$NS/finalize", NAMESPACE.object("$NS", spec={"finalizers": ["kubernetes", "x"]})),
        put("finalize: another", "/api/v1/namespaces/$NS/finalize", NAMESPACE.object("$NS", spec={"finalizers": ["kubernetes", "example.com/x"]})),
        put("finalize: back", "/api/v1/namespaces/$NS/finalize", NAMESPACE.object("$NS", spec={"finalizers": ["kubernetes"]})),
        patch("the object leaves it", "/api/v1/namespaces/$NS", {"spec": {"finalizers": None}}),
    ],
    "scale": [
        post("create", POOL.path, POOL.object("sub"), drop=["status"]),
        get("get", POOL.at("sub", "scale"), drop=["status.selector"]),
        put("put a negative number", POOL.at("sub", "scale"), {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "sub"}, "spec": {"replicas": -1}}),
        put("put another name", POOL.at("sub", "scale"), {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 0}}),
        put("put another kind", POOL.at("sub", "scale"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sub"}, "spec": {"replicas": 0}}),
        put("put a stale version", POOL.at("sub", "scale"), {"apiVersion": "autoscaling/v1", "kind": "Scale",
                                                             "metadata": {"name": "sub", "resourceVersion": "1"}, "spec": {"replicas": 0}}),
        put("put text", POOL.at("sub", "scale"), {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "sub"}, "spec": {"replicas": "x"}}),
        patch("merge", POOL.at("sub", "scale"), {"spec": {"replicas": 0}}, drop=["status.selector"]),
        patch("merge text", POOL.at("sub", "scale"), {"spec": {"replicas": "x"}}),
        patch("json", POOL.at("sub", "scale"), [{"op": "replace", "path": "/spec/replicas", "value": 0}], JSON_PATCH, drop=["status.selector"]),
        get("of something absent", POOL.at("not-there", "scale")),
        patch("patch of something absent", POOL.at("not-there", "scale"), {"spec": {"replicas": 0}}),
        delete("delete", POOL.at("sub"), see=["kind"]),
    ],
    "status of a custom resource": [
        post("create with a status", SANDBOX.path, SANDBOX.object("sub", status={"serviceFQDN": "x"}), drop=["status"]),
        patch("a wrong type", SANDBOX.at("sub", "status"), {"status": {"conditions": "x"}}),
        patch("a bad condition", SANDBOX.at("sub", "status"), {"status": {"conditions": [{"type": "x"}]}}),
        patch("metadata stays", SANDBOX.at("sub", "status"), {"metadata": {"labels": {"a": "b"}}}, drop=["status"]),
        patch("strategic", SANDBOX.at("sub", "status"), {}, STRATEGIC),
        delete("delete", SANDBOX.at("sub"), see=["kind"]),
    ],
    "tokens": [
        post("for an absent account", ACCOUNT.at("not-there", "token"), {}),
        post("too short", ACCOUNT.at("default", "token"), {"spec": {"expirationSeconds": 1}}),
        post("too long", ACCOUNT.at("default", "token"), {"spec": {"expirationSeconds": 1 << 33}}),
        post("another kind", ACCOUNT.at("default", "token"), {"apiVersion": "v1", "kind": "Pod"}),
        post("fine", ACCOUNT.at("default", "token"), {"spec": {"expirationSeconds": 600}}, see=["kind", "apiVersion", "spec.expirationSeconds", "metadata.name"]),
    ],
    "evictions": [
        post("of an absent Pod", POD.at("not-there", "eviction"), {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "not-there"}}),
        post("of another name", POD.at("not-there", "eviction"), {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}),
        post("of another kind", POD.at("not-there", "eviction"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "not-there"}}),
        get("a log of an absent Pod", POD.at("not-there", "log")),
        get("a log with bad options", POD.at("not-there", "log") + "?tailLines=x"),
    ],
    "created by an update": [
        put("a lease", LEASE.at("put"), LEASE.object("put")),
        put("the same again", LEASE.at("put"), LEASE.object("put")),
        put("a lease with a uid", LEASE.at("put2"), LEASE.object("put2", metadata={"uid": "x"})),
        put("a lease with another name", LEASE.at("put3"), LEASE.object("put4")),
        put("an invalid lease", LEASE.at("put5"), LEASE.object("put5", spec={"leaseDurationSeconds": -1})),
        put("in an absent namespace", "/apis/coordination.k8s.io/v1/namespaces/absent/leases/x", LEASE.object("x")),
        put("a dry run", LEASE.at("put6") + "?dryRun=All", LEASE.object("put6")),
        get("was dry", LEASE.at("put6")),
        put("a config map", CONFIG.at("put"), CONFIG.object("put")),
        put("a template", TEMPLATE.at("put"), TEMPLATE.object("put")),
        delete("delete", LEASE.at("put"), see=["kind"]),
    ],
}
