# SPDX-License-Identifier: Apache-2.0
"""Roles, bindings and questions about rights as Kubernetes 1.36 answers them.

A kube-apiserver 1.36.3 gave these answers to these requests. They build on each other and use nothing but the API of an
administrator who may impersonate, so that they can be asked of any server.
"""

import json

NS = "rights"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = (f"{RBAC}/namespaces/{NS}/{kind}" for kind in ("roles", "rolebindings"))
CLUSTER, CLUSTER_BINDINGS = RBAC + "/clusterroles", RBAC + "/clusterrolebindings"
AUTHZ = "/apis/authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
FORBIDDEN, INVALID = "Forbidden", "Invalid"


def role(name, *rules, kind="Role", **more):
    return dict({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules)}, **more)


def binding(name, ref, *users, kind="Role", cluster=False):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding" if cluster else "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ref},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u} for u in users]}


# who (None: the administrator), method, path, body, status, reason, message (None: any)
CASES = (
    # -- validation
    (None, "POST", ROLES, role("r", {"apiGroups": [""], "resources": ["pods"], "verbs": []}), 422, INVALID,
     'Role.rbac.authorization.k8s.io "r" is invalid: rules[0].verbs: Required value: verbs must contain at least one value'),
    (None, "POST", ROLES, role("r", {"nonResourceURLs": ["/x"], "verbs": ["get"]}), 422, INVALID,
     'Role.rbac.authorization.k8s.io "r" is invalid: rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'),
    (None, "POST", ROLES, role("r", {"verbs": ["get"]}), 422, INVALID,
     'Role.rbac.authorization.k8s.io "r" is invalid: [rules[0].apiGroups: Required value: resource rules must supply at least one api group, '
     'rules[0].resources: Required value: resource rules must supply at least one resource]'),
    (None, "POST", CLUSTER_BINDINGS, binding("b", "x", "u", kind="Role", cluster=True), 422, INVALID,
     'ClusterRoleBinding.rbac.authorization.k8s.io "b" is invalid: roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'),
    (None, "POST", BINDINGS, binding("b", "", "u"), 422, INVALID, 'RoleBinding.rbac.authorization.k8s.io "b" is invalid: roleRef.name: Required value'),
    (None, "POST", ROLES, role("a:b c", READ_PODS), 201, None, None),
    # -- rights
    ("ann", "GET", f"/api/v1/namespaces/{NS}/pods", None, 403, FORBIDDEN,
     f'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "{NS}"'),
    (None, "POST", BINDINGS, binding("later", "reader", "ann"), 201, None, None),
    ("ann", "GET", f"/api/v1/namespaces/{NS}/pods", None, 403, FORBIDDEN,
     f'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "{NS}": RBAC: role.rbac.authorization.k8s.io "reader" not found'),
    (None, "POST", ROLES, role("reader", READ_PODS), 201, None, None),
    ("ann", "GET", f"/api/v1/namespaces/{NS}/pods", None, 200, None, None),
    ("ann", "GET", "/api/v1/pods", None, 403, FORBIDDEN, 'pods is forbidden: User "ann" cannot list resource "pods" in API group "" at the cluster scope'),
    ("ann", "GET", f"/api/v1/namespaces/{NS}/pods?watch=1", None, 403, FORBIDDEN,
     f'pods is forbidden: User "ann" cannot watch resource "pods" in API group "" in the namespace "{NS}"'),
    ("ann", "DELETE", f"/api/v1/namespaces/{NS}/pods", None, 403, FORBIDDEN,
     f'pods is forbidden: User "ann" cannot deletecollection resource "pods" in API group "" in the namespace "{NS}"'),
    ("ann", "GET", f"/api/v1/namespaces/{NS}/pods/p/log", None, 403, FORBIDDEN,
     f'pods "p" is forbidden: User "ann" cannot get resource "pods/log" in API group "" in the namespace "{NS}"'),
    ("ann", "GET", f"/api/v1/namespaces/{NS}", None, 403, FORBIDDEN,
     f'namespaces "{NS}" is forbidden: User "ann" cannot get resource "namespaces" in API group "" in the namespace "{NS}"'),
    ("ann", "POST", f"/api/v1/namespaces/{NS}/pods", {"metadata": {"name": "p"}}, 403, FORBIDDEN,
     f'pods is forbidden: User "ann" cannot create resource "pods" in API group "" in the namespace "{NS}"'),
    ("ann", "GET", "/metrics", None, 403, FORBIDDEN, 'forbidden: User "ann" cannot get path "/metrics"'),
    ("ann", "GET", "/version", None, 200, None, None),
    ("system:anonymous", "GET", "/apis", None, 403, FORBIDDEN, 'forbidden: User "system:anonymous" cannot get path "/apis"'),
    # -- what cannot change
    (None, "PATCH", BINDINGS + "/later", {"roleRef": {"name": "other"}}, 422, INVALID,
     'RoleBinding.rbac.authorization.k8s.io "later" is invalid: roleRef: Invalid value: '
     '{"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: cannot change roleRef'),
    # -- giving away
    (None, "POST", BINDINGS, binding("ann-admin", "admin", "ann", kind="ClusterRole"), 201, None, None),
    ("ann", "GET", f"/api/v1/namespaces/{NS}", None, 200, None, None),
    ("ann", "POST", ROLES, role("small", READ_PODS), 201, None, None),
    ("ann", "POST", ROLES, role("nodes", {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "get"]}), 403, FORBIDDEN,
     'roles.rbac.authorization.k8s.io "nodes" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
     '{APIGroups:[""], Resources:["nodes"], Verbs:["list" "get"]}'),
    ("ann", "PATCH", ROLES + "/small", {"rules": [ALL]}, 403, FORBIDDEN,
     'roles.rbac.authorization.k8s.io "small" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
     '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'),
    ("ann", "POST", BINDINGS, binding("up", "cluster-admin", "ann", kind="ClusterRole"), 403, FORBIDDEN,
     'rolebindings.rbac.authorization.k8s.io "up" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
     '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'),
    ("ann", "POST", BINDINGS, binding("none", "absent", "ann"), 404, "NotFound", 'rolebindings.rbac.authorization.k8s.io "absent" not found'),
    ("ann", "POST", BINDINGS, binding("fine", "small", "bob"), 201, None, None),
    ("bob", "GET", f"/api/v1/namespaces/{NS}/pods", None, 200, None, None),
    # -- questions
    ("ann", "POST", AUTHZ + "/subjectaccessreviews", {"spec": {"user": "x"}}, 403, FORBIDDEN,
     'subjectaccessreviews.authorization.k8s.io is forbidden: User "ann" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope'),
    (None, "POST", AUTHZ + "/subjectaccessreviews", {"spec": {}}, 422, INVALID, None),  # Kubernetes forgets the kind in its message
    ("ann", "POST", AUTHZ + "/selfsubjectrulesreviews", {"spec": {}}, 400, "BadRequest", "no namespace on request"),
)


def ask(server, who, method, path, body, headers=()):
    head = {"Content-Type": MERGE if method == "PATCH" else "application/json", **dict(headers)}
    if who:
        head["Impersonate-User"] = who
    conn = server.connect(30)
    try:
        conn.request(method, path, None if body is None else json.dumps(body), head)
        answer = conn.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else {}
    finally:
        conn.close()


def differs(case, status, answer):
    _, _, _, _, code, reason, message = case
    if (status, answer.get("reason") if status >= 400 else None) != (code, reason):
        return f"{status} {answer.get('message')}, not {code}"
    if message and answer["message"] != message:
        return f"{answer['message']}\n    not {message}"
    return None


def test_rights_are_those_of_kubernetes(server):
    server.api("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    try:
        found = [(case[:3], differs(case, *ask(server, *case[:4]))) for case in CASES]
    finally:
        server.api("DELETE", f"/api/v1/namespaces/{NS}")
    bad = [f"{name}:\n    {what}" for name, what in found if what]
    assert not bad, "\n".join(bad)


def test_questions_are_answered_with_the_binding_that_decided(server, ns):
    bindings = f"{RBAC}/namespaces/{ns.name}/rolebindings"
    server.api("POST", bindings, binding("b", "view", "zoe", kind="ClusterRole"))
    attributes = {"namespace": ns.name, "verb": "list", "resource": "pods"}
    for who, path, spec in (("zoe", "/selfsubjectaccessreviews", {}), (None, "/subjectaccessreviews", {"user": "zoe"}),
                            (None, f"/namespaces/{ns.name}/localsubjectaccessreviews", {"user": "zoe"})):
        status, answer = ask(server, who, "POST", AUTHZ + path, {"spec": dict(spec, resourceAttributes=attributes)})
        assert status == 201 and answer["status"] == {
            "allowed": True, "reason": f'RBAC: allowed by RoleBinding "b/{ns.name}" of ClusterRole "view" to User "zoe"'}, answer
        status, answer = ask(server, who, "POST", AUTHZ + path, {"spec": dict(spec, resourceAttributes=dict(attributes, verb="delete"))})
        assert status == 201 and answer["status"] == {"allowed": False}, answer


def test_whoever_is_impersonated_is_described(server):
    headers = {"Impersonate-Group": "devs", "Impersonate-Uid": "7", "Impersonate-Extra-Scopes": "all"}
    status, answer = ask(server, "zoe", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers)
    assert status == 201 and answer["status"]["userInfo"] == {
        "username": "zoe", "uid": "7", "groups": ["devs", "system:authenticated"], "extra": {"scopes": ["all"]}}
    account = "system:serviceaccount:default:default"
    status, answer = ask(server, account, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer["status"]["userInfo"]["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    status, answer = ask(server, "zoe", "GET", "/api/v1/pods", None, {"Impersonate-Group": "system:masters"})
    assert status == 200
