# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings: one odd field in each request."""

GROUP = "/apis/rbac.authorization.k8s.io/v1"
ROLES = GROUP + "/namespaces/$NS/roles"
BINDINGS = GROUP + "/namespaces/$NS/rolebindings"
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
USER = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}


def create(name, path, kind, **fields):
    return {"name": name, "method": "POST", "path": path + "?dryRun=All", "drop": ["metadata"],
            "body": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "r"}, **fields}}


def roles(*rows):
    """Of each row a Role and a ClusterRole."""
    return [create(f"{kind} {name}", path, kind, rules=rules) for name, rules in rows
            for kind, path in (("Role", ROLES), ("ClusterRole", GROUP + "/clusterroles"))]


def bindings(*rows):
    return [create(f"{kind} {name}", path, kind, **{"roleRef": REF, "subjects": [USER], **fields}) for name, fields in rows
            for kind, path in (("RoleBinding", BINDINGS), ("ClusterRoleBinding", GROUP + "/clusterrolebindings"))]


STORIES = {
    "roles": roles(
        ("good", [RULE]), ("empty", []), ("no verbs", [{"apiGroups": [""], "resources": ["pods"]}]), ("no groups", [{"resources": ["pods"], "verbs": ["get"]}]),
        ("no resources", [{"apiGroups": [""], "verbs": ["get"]}]), ("nothing", [{}]), ("all", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
        ("names", [{**RULE, "resourceNames": ["a"]}]), ("urls", [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]), ("urls and resources", [{**RULE, "nonResourceURLs": ["/a"]}]),
        ("urls and names", [{"nonResourceURLs": ["/a"], "verbs": ["get"], "resourceNames": ["x"]}]), ("urls without verbs", [{"nonResourceURLs": ["/a"]}]),
        ("second bad", [RULE, {"verbs": []}]),
    ) + [
        create("aggregation", GROUP + "/clusterroles", "ClusterRole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
        create("aggregation empty", GROUP + "/clusterroles", "ClusterRole", aggregationRule={}),
        create("aggregation bad", GROUP + "/clusterroles", "ClusterRole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}),
        create("aggregation operator", GROUP + "/clusterroles", "ClusterRole", aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "x"}]}]}),
    ],
    "bindings": bindings(
        ("good", {}), ("defaults", {"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        ("no subjects", {"subjects": []}), ("no reference", {"roleRef": {}}), ("reference group", {"roleRef": {**REF, "apiGroup": "x"}}),
        ("reference kind", {"roleRef": {**REF, "kind": "Pod"}}), ("reference to a role", {"roleRef": {**REF, "kind": "Role"}}), ("reference without name", {"roleRef": {**REF, "name": ""}}),
        ("reference name", {"roleRef": {**REF, "name": "a/b"}}), ("subject empty", {"subjects": [{}]}), ("subject kind", {"subjects": [{"kind": "Robot", "name": "r"}]}),
        ("subject without name", {"subjects": [{"kind": "User"}]}), ("subject group", {"subjects": [{**USER, "apiGroup": "x"}]}),
        ("account without namespace", {"subjects": [{"kind": "ServiceAccount", "name": "s"}]}), ("account name", {"subjects": [{"kind": "ServiceAccount", "name": "S", "namespace": "n"}]}),
        ("account group", {"subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiGroup": "x"}]}), ("group", {"subjects": [{"kind": "Group", "name": "g"}]}),
        ("user with namespace", {"subjects": [{**USER, "namespace": "n"}]}), ("everything wrong", {"roleRef": {"apiGroup": "x", "kind": "y"}, "subjects": [{"kind": "z"}]}),
    ),
    "change of a binding": [
        dict(create("create", BINDINGS, "RoleBinding", roleRef=REF, subjects=[USER]), path=BINDINGS),
        *({"name": name, "method": "PUT", "path": BINDINGS + "/r?dryRun=All", "drop": ["metadata"],
           "body": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r"}, **{"roleRef": REF, "subjects": [USER], **fields}}} for name, fields in (
               ("subjects", {"subjects": [{**USER, "name": "v"}]}), ("reference", {"roleRef": {**REF, "name": "edit"}}), ("subject wrong", {"subjects": [{"kind": "x"}]}))),
        {"name": "delete", "method": "DELETE", "path": BINDINGS + "/r", "see": ["kind"]},
    ],
}
