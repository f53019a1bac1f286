# SPDX-License-Identifier: Apache-2.0
"""Nodes and RuntimeClasses: one odd field in each request."""

NODES = "/api/v1/nodes"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
JSON_PATCH = "application/json-patch+json"
SEE = ["spec.taints", "spec.unschedulable", "spec.podCIDRs", "spec.podCIDR", "spec.providerID"]


def nodes(*rows):
    return [{"name": name, "method": "POST", "path": NODES + "?dryRun=All", "see": ["spec.podCIDRs", "spec.podCIDR", "spec.providerID"],
             "body": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec}} for name, spec in rows]


def patches(*rows, see=SEE):
    return [{"name": what, "method": "PATCH", "path": NODES + "/u?dryRun=All", "type": JSON_PATCH, "see": see,
             "body": [{"op": "add", "path": "/spec/" + at, "value": value}]} for what, at, value in rows]


def classes(*rows):
    return [{"name": name, "method": "POST", "path": CLASSES + "?dryRun=All", "drop": ["metadata"],
             "body": {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}, **fields}} for name, fields in rows]


def taint(**fields):
    return {"key": "a", "effect": "NoSchedule", **fields}


TAINTS = (
    ("good", [taint()]), ("value", [taint(value="b")]), ("no key", [{"effect": "NoSchedule"}]), ("key bad", [taint(key="a b")]), ("value bad", [taint(value="b c")]),
    ("no effect", [{"key": "a"}]), ("effect wrong", [taint(effect="Never")]), ("twice", [taint(), taint(value="c")]), ("two effects", [taint(), taint(effect="NoExecute")]),
)

STORIES = {
    "nodes": nodes(
        *((f"taint {n}", {"taints": t}) for n, t in TAINTS),
        *((f"range {n}", {"podCIDRs": c, "podCIDR": c[0]}) for n, c in (
            ("good", ["10.1.0.0/24"]), ("bad", ["10.1.0.0"]), ("bits", ["10.1.0.1/24"]), ("of both families", ["10.1.0.0/24", "fd00::/64"]),
            ("two of a family", ["10.1.0.0/24", "10.2.0.0/24"]), ("three", ["10.1.0.0/24", "fd00::/64", "10.2.0.0/24"]))),
        ("provider", {"providerID": "a://b"}), ("unschedulable", {"unschedulable": True}),
    ),
    "changes": [
        {"name": "create", "method": "POST", "path": NODES, "see": SEE[2:],
         "body": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "u"}, "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a://b",
                                                                                       "taints": [taint(key="old")]}}},
        *patches(*((f"taint {n}", "taints", t) for n, t in TAINTS)),
        *patches(("unschedulable", "unschedulable", True), ("range", "podCIDRs", ["10.2.0.0/24"]), ("no range", "podCIDRs", []), ("more ranges", "podCIDRs/-", "fd00::/64"),
                 ("provider", "providerID", "c://d"), ("same", "providerID", "a://b"), ("one range", "podCIDR", "10.2.0.0/24"), see=SEE[1:]),
        {"name": "delete", "method": "DELETE", "path": NODES + "/u", "see": ["kind"]},
    ],
    "classes": classes(
        ("good", {"handler": "h"}), ("no handler", {}), ("handler upper", {"handler": "H"}), ("handler dotted", {"handler": "a.b"}), ("handler long", {"handler": "a" * 64}),
        ("selector bad", {"handler": "h", "scheduling": {"nodeSelector": {"a b": "c"}}}), ("overhead bad", {"handler": "h", "overhead": {"podFixed": {"gpu": "1"}}}),
        ("overhead negative", {"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}}), ("toleration bad", {"handler": "h", "scheduling": {"tolerations": [{"key": "a b"}]}}),
        ("overhead", {"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}}), ("scheduling", {"handler": "h", "scheduling": {"nodeSelector": {"a": "b"}}}),
    ),
    "change of a class": [
        {"name": "create", "method": "POST", "path": CLASSES, "drop": ["metadata"],
         "body": {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}, "handler": "h"}},
        {"name": "handler", "method": "PATCH", "path": CLASSES + "/r?dryRun=All", "type": JSON_PATCH, "body": [{"op": "add", "path": "/handler", "value": "i"}]},
        {"name": "delete", "method": "DELETE", "path": CLASSES + "/r", "see": ["kind"]},
    ],
}
