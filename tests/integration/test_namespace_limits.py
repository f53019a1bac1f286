# SPDX-License-Identifier: Apache-2.0
"""Quotas while much happens at once, across restarts, and in the way of controllers. The answers one by one: tests/conformance/test_quota.py."""

import concurrent.futures
import json

import pytest
from cay_local import ApiError, wait_until

PAUSE = {"name": "c", "image": "registry.k8s.io/pause:3.10"}
TEMPLATE = {"podTemplate": {"spec": {"containers": [PAUSE]}}}
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/{}/sandboxes"
EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{}/"
N = 200


@pytest.fixture
def ns(cay, request):
    name = request.node.name.replace("_", "-")[:40].strip("-")
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cay.api("DELETE", f"/api/v1/namespaces/{name}")


def limit(cay, ns, hard, name="q", **spec):
    cay.api("POST", f"/api/v1/namespaces/{ns}/resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})


def quota(cay, ns, name="q"):
    return cay.api("GET", f"/api/v1/namespaces/{ns}/resourcequotas/{name}")


def used(cay, ns, want):
    wait_until(lambda: quota(cay, ns).get("status", {}).get("used") == want)


def make(cay, ns, name):
    """On a connection of its own: whether it was let in."""
    conn = cay.connect(60)
    conn.request("POST", f"/api/v1/namespaces/{ns}/secrets", json.dumps({"metadata": {"name": name}}), {"Content-Type": "application/json"})
    answer = conn.getresponse()
    text = answer.read().decode()
    conn.close()
    assert answer.status == 201 or "exceeded quota: q, requested: secrets=1" in text, text
    return answer.status == 201


def agent(kind, name, spec):
    group = "agents" if kind == "Sandbox" else "extensions.agents"
    return {"apiVersion": f"{group}.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def ready(obj):
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == "Ready"), {})


def test_a_burst_is_counted_exactly_and_told_seldom(cay, ns):
    limit(cay, ns, {"secrets": str(N)})
    used(cay, ns, {"secrets": "0"})
    before = int(quota(cay, ns)["metadata"]["resourceVersion"])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: make(cay, ns, f"m{i}"), range(N + 20)))
    assert sum(made) == N
    used(cay, ns, {"secrets": str(N)})
    # Each write has a revision: those that are nobody else's are the quota's, with room for what the machine does meanwhile.
    after = int(quota(cay, ns)["metadata"]["resourceVersion"])
    assert after - before < N + N // 2, "the status is written for every object"
    cay.stop()
    cay.start()
    assert not make(cay, ns, "after")
    gone = next(f"m{i}" for i, ok in enumerate(made) if ok)
    cay.api("DELETE", f"/api/v1/namespaces/{ns}/secrets/{gone}")
    assert make(cay, ns, "after") and not make(cay, ns, "more")
    used(cay, ns, {"secrets": str(N)})


def test_what_a_quota_says_is_put_right_whoever_wrote_it(cay, ns):
    limit(cay, ns, {"secrets": "3"})
    used(cay, ns, {"secrets": "0"})
    cay.api("PATCH", f"/api/v1/namespaces/{ns}/resourcequotas/q/status", {"status": {"used": {"secrets": "3"}, "hard": {"secrets": "9"}}},
            content_type="application/merge-patch+json")
    used(cay, ns, {"secrets": "0"})
    assert quota(cay, ns)["status"]["hard"] == {"secrets": "3"}


def test_a_sandbox_waits_for_room(cay, ns):
    limit(cay, ns, {"pods": "1"})
    for name in ("first", "second"):
        cay.api("POST", SANDBOXES.format(ns), agent("Sandbox", name, TEMPLATE))
        if name == "first":
            wait_until(lambda: ready(cay.api("GET", SANDBOXES.format(ns) + "/first")).get("status") == "True")
    wait_until(lambda: "exceeded quota: q" in ready(cay.api("GET", SANDBOXES.format(ns) + "/second")).get("message", ""))
    used(cay, ns, {"pods": "1"})
    cay.api("DELETE", SANDBOXES.format(ns) + "/first")
    wait_until(lambda: ready(cay.api("GET", SANDBOXES.format(ns) + "/second")).get("status") == "True")
    used(cay, ns, {"pods": "1"})


def test_a_pool_says_that_it_is_refused_and_fills_up_later(cay, ns):
    limit(cay, ns, {"count/sandboxes.agents.x-k8s.io": "2"})
    path = EXTENSIONS.format(ns)
    cay.api("POST", path + "sandboxtemplates", agent("SandboxTemplate", "t", TEMPLATE))
    cay.api("POST", path + "sandboxwarmpools", agent("SandboxWarmPool", "p", {"replicas": 4, "sandboxTemplateRef": {"name": "t"}}))
    wait_until(lambda: cay.api("GET", path + "sandboxwarmpools/p").get("status", {}).get("readyReplicas") == 2)
    events = f"/api/v1/namespaces/{ns}/events?fieldSelector=involvedObject.name=p,reason=FailedCreate"
    wait_until(lambda: cay.api("GET", events)["items"])
    assert "exceeded quota: q" in cay.api("GET", events)["items"][0]["message"]
    cay.api("POST", path + "sandboxclaims", agent("SandboxClaim", "c", {"warmPoolRef": {"name": "p"}}))
    wait_until(lambda: ready(cay.api("GET", path + "sandboxclaims/c")).get("status") == "True")
    cay.api("PATCH", f"/api/v1/namespaces/{ns}/resourcequotas/q", {"spec": {"hard": {"count/sandboxes.agents.x-k8s.io": "5"}}},
            content_type="application/merge-patch+json")
    wait_until(lambda: cay.api("GET", path + "sandboxwarmpools/p").get("status", {}).get("readyReplicas") == 4)
    used(cay, ns, {"count/sandboxes.agents.x-k8s.io": "5"})


def test_a_claim_says_why_it_has_no_sandbox(cay, ns):
    limit(cay, ns, {"count/sandboxes.agents.x-k8s.io": "0"})
    path = EXTENSIONS.format(ns)
    cay.api("POST", path + "sandboxtemplates", agent("SandboxTemplate", "t", TEMPLATE))
    cay.api("POST", path + "sandboxwarmpools", agent("SandboxWarmPool", "p", {"replicas": 0, "sandboxTemplateRef": {"name": "t"}}))
    cay.api("POST", path + "sandboxclaims", agent("SandboxClaim", "c", {"warmPoolRef": {"name": "p"}}))
    wait_until(lambda: "exceeded quota: q" in ready(cay.api("GET", path + "sandboxclaims/c")).get("message", ""))
    assert ready(cay.api("GET", path + "sandboxclaims/c"))["reason"] == "ReconcilerError"
    cay.api("DELETE", f"/api/v1/namespaces/{ns}/resourcequotas/q")
    wait_until(lambda: ready(cay.api("GET", path + "sandboxclaims/c")).get("status") == "True")


def test_who_may_edit_may_not_change_the_limits(cay, ns):
    limit(cay, ns, {"secrets": "0"})
    cay.api("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/rolebindings",
            {"metadata": {"name": "jane"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
             "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]})

    def asks(method, path, body=None):
        conn = cay.connect(20)
        conn.request(method, f"/api/v1/namespaces/{ns}/{path}", json.dumps(body) if body else None,
                     {"Impersonate-User": "jane", "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"})
        answer = conn.getresponse()
        text = json.loads(answer.read())
        conn.close()
        return answer.status, text.get("message", "")

    assert asks("GET", "resourcequotas/q")[0] == 200
    assert asks("GET", "limitranges")[0] == 200
    for method, path in (("POST", "resourcequotas"), ("PATCH", "resourcequotas/q"), ("PATCH", "resourcequotas/q/status"),
                         ("DELETE", "resourcequotas/q"), ("POST", "limitranges")):
        assert asks(method, path, {"metadata": {"name": "q"}})[0] == 403, (method, path)
    code, why = asks("POST", "secrets", {"metadata": {"name": "s"}})
    assert code == 403 and "exceeded quota" in why
    assert asks("PUT", "secrets/s", {"metadata": {"name": "s"}})[0] == 404


def test_a_warning_tells_of_a_template_that_the_namespace_will_not_run(cay, ns):
    cay.api("PATCH", f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
            content_type="application/merge-patch+json")
    conn = cay.connect(20)
    conn.request("POST", SANDBOXES.format(ns), json.dumps(agent("Sandbox", "s", TEMPLATE)),
                 {"Content-Type": "application/json"})
    answer = conn.getresponse()
    answer.read()
    conn.close()
    assert answer.status == 201
    assert 'would violate PodSecurity \\"restricted:latest\\"' in answer.headers["Warning"]
    wait_until(lambda: "violates PodSecurity" in ready(cay.api("GET", SANDBOXES.format(ns) + "/s")).get("message", ""))


def test_a_limit_of_nothing_is_none(cay, ns):
    """The node would give such a container what others get without a limit."""
    limit(cay, ns, {"limits.memory": "64Mi"})
    body = {"metadata": {"name": "p"}, "spec": {"containers": [dict(PAUSE, resources={"limits": {"memory": "0Mi"}})]}}
    with pytest.raises(ApiError) as e:
        cay.api("POST", f"/api/v1/namespaces/{ns}/pods", body)
    assert e.value.code == 403 and "must specify limits.memory for: c" in e.value.status["message"]
    cay.api("DELETE", f"/api/v1/namespaces/{ns}/resourcequotas/q")
    cay.api("POST", f"/api/v1/namespaces/{ns}/limitranges", {"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]}})
    with pytest.raises(ApiError) as e:
        cay.api("POST", f"/api/v1/namespaces/{ns}/pods", body)
    assert e.value.code == 403 and "No limit is specified" in e.value.status["message"]
