# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings with a real kubectl, and what somebody who has some rights does to get more."""

import json
import threading

import pytest
from cay_local import wait_until
from test_identity import ask

NS = "/api/v1/namespaces/team"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = RBAC + "/namespaces/team/roles"
BINDINGS = RBAC + "/namespaces/team/rolebindings"
ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
WAIT_S = 60


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    c.kubectl("create", "namespace", "team")
    return c


def may(cay, *what, user, ns="team"):
    return cay.kubectl("auth", "can-i", *what, "-n", ns, "--as", user, check=False).stdout.strip() == "yes"


def account(cay, name, *roles):
    """A token of an account in the namespace, with bindings to ClusterRoles."""
    cay.kubectl("create", "serviceaccount", name, "-n", "team")
    for role in roles:
        cay.kubectl("create", "rolebinding", f"{name}-{role}", "-n", "team", "--clusterrole", role, "--serviceaccount", f"team:{name}")
    return cay.kubectl("create", "token", name, "-n", "team").stdout.strip()


def test_kubectl_gives_rights_and_takes_them(cay):
    cay.kubectl("create", "role", "reader", "-n", "team", "--verb=get,list,watch", "--resource=pods,sandboxes.agents.x-k8s.io")
    cay.kubectl("create", "rolebinding", "reader", "-n", "team", "--role=reader", "--user=ann", "--group=readers")
    assert may(cay, "list", "pods", user="ann") and may(cay, "get", "sandboxes", user="ann")
    assert not may(cay, "delete", "pods", user="ann") and not may(cay, "list", "pods", user="ann", ns="default")
    assert cay.kubectl("get", "pods", "-n", "team", "--as", "ben", "--as-group", "readers").returncode == 0
    refused = cay.kubectl("get", "pods", "--as", "ann", check=False)
    assert refused.returncode == 1
    assert ('pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"') in refused.stderr
    rows = cay.kubectl("get", "rolebindings", "-n", "team", "-o", "wide").stdout.splitlines()
    assert rows[0].split() == ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]
    assert "Role/reader" in rows[1] and "ann" in rows[1]
    cay.kubectl("delete", "rolebinding", "reader", "-n", "team")
    assert not may(cay, "list", "pods", user="ann")


def test_kubectl_tells_who_one_is_and_what_one_may(cay):
    told = cay.kubectl("auth", "whoami", "-o", "json", "--as", "ann", "--as-group", "devs", "--as-uid", "42")
    info = json.loads(told.stdout)["status"]["userInfo"]
    assert (info["username"], info["uid"], info["groups"]) == ("ann", "42", ["devs", "system:authenticated"])
    listed = cay.kubectl("auth", "can-i", "--list", "-n", "team", "--as", "ann").stdout
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed and "pods" not in listed
    cay.kubectl("create", "rolebinding", "ann-edit", "-n", "team", "--clusterrole=edit", "--user=ann")
    listed = cay.kubectl("auth", "can-i", "--list", "-n", "team", "--as", "ann").stdout
    assert "sandboxclaims.extensions.agents.x-k8s.io" in listed and "pods/exec" in listed
    cay.kubectl("delete", "rolebinding", "ann-edit", "-n", "team")
    for verb, what, user, answer in (("get", "/metrics", "ann", False), ("get", "/version", "ann", True)):
        assert may(cay, verb, what, user=user) == answer


def test_reconcile_and_apply_work_on_roles(cay):
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "lister"},
         "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "lister"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lister"},
         "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "zed"}]}]})
    for command in (("apply",), ("auth", "reconcile"), ("apply",)):
        done = cay.kubectl(*command, "-f", "-", stdin=text)
        assert done.returncode == 0, done.stderr
    assert may(cay, "list", "pods", user="zed", ns="default")
    cay.kubectl("delete", "clusterrole,clusterrolebinding", "lister")


def binding(name, role, user, kind="ClusterRole"):
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": [{"kind": "User", "name": user}]}


def test_nobody_gives_away_more_than_they_hold(cay):
    token = account(cay, "lead", "admin")
    assert ask(cay, ROLES, token, "POST", {"metadata": {"name": "fine"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})[0] == 201
    tries = (
        ("POST", ROLES, {"metadata": {"name": "all"}, "rules": [ALL]}),
        ("PUT", ROLES + "/fine", {"metadata": {"name": "fine"}, "rules": [ALL]}),
        ("POST", BINDINGS, binding("up", "cluster-admin", "x")),
        ("POST", RBAC + "/clusterroles", {"metadata": {"name": "all"}, "rules": [ALL]}),
        ("POST", RBAC + "/clusterrolebindings", binding("up", "admin", "x")),
        ("POST", RBAC + "/namespaces/default/rolebindings", binding("up", "admin", "x")),
        ("DELETE", RBAC + "/clusterrolebindings", None),
        ("DELETE", RBAC + "/clusterroles/view", None),
    )
    for method, path, body in tries:
        status, answer = ask(cay, path, token, method, body)
        assert (status, answer["reason"]) == (403, "Forbidden"), (method, path, answer)
    status, answer = ask(cay, BINDINGS, token, "POST", binding("up", "cluster-admin", "x"))
    assert "is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}" in answer["message"]
    assert not may(cay, "get", "secrets", user="x")


def test_a_namespace_is_where_rights_end(cay):
    token = account(cay, "walled", "admin")
    assert ask(cay, NS + "/pods", token)[0] == 200
    for path in ("/api/v1/pods", "/api/v1/pods?watch=1", "/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces", "/api/v1/namespaces/default/pods",
                 "/api/v1/namespaces/kube-system/secrets", "/apis/agents.x-k8s.io/v1beta1/sandboxes", "/metrics",
                 "/api/v1/namespaces/team%2F..%2Fdefault/pods", "/api/v1/pods?fieldSelector=metadata.namespace%3Dteam"):
        assert ask(cay, path, token)[0] in (403, 404), path
    assert ask(cay, NS, token)[0] == 200  # the namespace itself, by `view`
    for method, path in (("DELETE", NS), ("PUT", NS + "/finalize"), ("PATCH", NS + "/status")):
        assert ask(cay, path, token, method, {})[0] == 403, path


def test_rights_about_names_are_about_nothing_else(cay):
    cay.kubectl("create", "role", "one", "-n", "team", "--verb=*", "--resource=configmaps", "--resource-name=mine")
    token = account(cay, "single")
    cay.kubectl("create", "rolebinding", "single", "-n", "team", "--role=one", "--serviceaccount=team:single")
    cay.kubectl("create", "configmap", "mine", "-n", "team")
    cay.kubectl("create", "configmap", "other", "-n", "team")
    maps = NS + "/configmaps"
    assert ask(cay, maps + "/mine", token)[0] == 200
    for method, path in (("GET", maps), ("GET", maps + "?watch=1"), ("GET", maps + "?fieldSelector=metadata.name%3Dother"), ("DELETE", maps),
                         ("DELETE", maps + "?fieldSelector=metadata.name%3Dmine"), ("GET", maps + "/other"), ("DELETE", maps + "/other"), ("POST", maps)):
        assert ask(cay, path, token, method, {"metadata": {"name": "mine"}} if method == "POST" else None)[0] == 403, (method, path)
    assert ask(cay, maps + "/mine", token, "DELETE")[0] == 200
    assert ask(cay, maps + "/other", None)[0] == 403
    assert cay.kubectl("get", "configmap", "other", "-n", "team").returncode == 0


def test_a_subresource_is_not_its_object(cay):
    token = account(cay, "tricky", "view")
    pod = NS + "/pods/p"
    for method, path in (("POST", pod + "/exec?command=id"), ("GET", pod + "/exec?command=id"), ("GET", pod + "/attach"), ("POST", pod + "/portforward"),
                         ("PUT", pod + "/status"), ("PATCH", pod + "/status"), ("PATCH", pod + "/resize"), ("PATCH", pod + "/ephemeralcontainers"),
                         ("POST", pod + "/eviction"), ("POST", NS + "/serviceaccounts/default/token"),
                         ("PATCH", "/apis/agents.x-k8s.io/v1beta1/namespaces/team/sandboxes/s/status"),
                         ("PUT", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/team/sandboxwarmpools/w/scale")):
        assert ask(cay, path, token, method, {})[0] == 403, (method, path)
    assert ask(cay, pod + "/log", token)[0] == 404  # there is no such Pod


def test_acting_as_an_account_of_the_namespace_leads_no_further(cay):
    token = account(cay, "actor", "edit")  # may impersonate accounts of its namespace
    status, answer = ask(cay, NS + "/pods", token, headers={"Impersonate-User": "system:serviceaccount:team:default"})
    assert status == 403 and 'User "system:serviceaccount:team:default" cannot list' in answer["message"]
    for headers in ({"Impersonate-User": "system:serviceaccount:kube-system:default"},
                    {"Impersonate-User": "system:serviceaccount:team:default", "Impersonate-Group": "system:masters"},
                    {"Impersonate-User": "cay-admin"}):
        assert ask(cay, NS + "/pods", token, headers=headers)[0] == 403, headers


def test_what_is_open_ends_with_the_right_to_open_it(cay):
    token = account(cay, "watcher", "view")
    got = []

    def watch():
        got.append(ask(cay, NS + "/configmaps?watch=1&timeoutSeconds=300&fieldSelector=metadata.name%3Dlate", token))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    wait_until(lambda: cay.metric("cay_api_watches") > 0)
    cay.kubectl("delete", "rolebinding", "watcher-view", "-n", "team")
    cay.kubectl("create", "configmap", "late", "-n", "team")
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert b"late" not in (got[0][1] if isinstance(got[0][1], bytes) else json.dumps(got[0][1]).encode())
    cay.kubectl("delete", "configmap", "late", "-n", "team")


def test_the_log_names_both_users(cay):
    cay.kubectl("get", "pods", "--as", "somebody", check=False)
    lines = [line for line in cay.log().splitlines() if "request in the name of another user" in line]
    assert any("user=somebody" in line and "impersonator=cay-admin" in line for line in lines)
