# SPDX-License-Identifier: Apache-2.0
"""Deployments with kubectl, on a node that runs their Pods."""

import json
import time

import pytest

MANIFEST = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
    "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "pause"}]}}}}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def web(module_instance):
    cay = module_instance()
    cay.kubectl("create", "-f", "-", stdin=json.dumps(MANIFEST))
    rolled_out(cay)
    return cay


def rolled_out(cay):
    cay.kubectl("rollout", "status", "deployment/web", "--timeout=60s")


def pods(cay):
    return [p for p in cay.api("GET", PODS)["items"] if p["metadata"].get("labels", {}).get("app") == "web"
            and "deletionTimestamp" not in p["metadata"]]


def test_its_pods_run_and_kubectl_shows_them(web):
    assert {p["status"]["phase"] for p in pods(web)} == {"Running"} and len(pods(web)) == 2
    line = web.kubectl("get", "deployment", "web", "--no-headers", "-o", "wide").stdout.split()
    assert line[:4] == ["web", "2/2", "2", "2"] and line[5:] == ["c", "pause", "app=web"]
    scale = web.api("GET", "/apis/apps/v1/namespaces/default/deployments/web/scale")
    assert scale["spec"]["replicas"] == 2 and scale["status"] == {"replicas": 2, "selector": "app=web"}


def test_a_rollout_and_its_undoing(web):
    first = {p["metadata"]["name"] for p in pods(web)}
    web.kubectl("set", "env", "deployment/web", "X=1")
    rolled_out(web)
    assert not first & {p["metadata"]["name"] for p in pods(web)}
    assert [p["spec"]["containers"][0]["env"] for p in pods(web)] == [[{"name": "X", "value": "1"}]] * 2
    web.kubectl("rollout", "undo", "deployment/web")
    rolled_out(web)
    assert not any("env" in p["spec"]["containers"][0] for p in pods(web))
    history = web.kubectl("rollout", "history", "deployment/web").stdout.split()
    assert history[-4:] == ["2", "<none>", "3", "<none>"]


def test_a_pause_and_a_restart(web):
    web.kubectl("rollout", "pause", "deployment/web")
    web.kubectl("set", "env", "deployment/web", "Y=1")
    web.kubectl("scale", "deployment/web", "--replicas=3")  # a number counts while it is paused, a template does not
    web.wait("/apis/apps/v1/namespaces/default/deployments", "web", lambda d: d["status"].get("readyReplicas") == 3)
    assert not any("env" in p["spec"]["containers"][0] for p in pods(web))
    web.kubectl("rollout", "resume", "deployment/web")
    rolled_out(web)
    assert [p["spec"]["containers"][0]["env"] for p in pods(web)] == [[{"name": "Y", "value": "1"}]] * 3
    before = {p["metadata"]["name"] for p in pods(web)}
    web.kubectl("rollout", "restart", "deployment/web")
    rolled_out(web)
    assert not before & {p["metadata"]["name"] for p in pods(web)}


def test_scaling_and_the_end(web):
    web.kubectl("scale", "deployment/web", "--replicas=1")
    rolled_out(web)
    assert len(pods(web)) == 1
    web.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    assert not pods(web) and not web.api("GET", "/apis/apps/v1/replicasets")["items"]


def revision(cay):
    return int(cay.api("GET", "/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"])


def broken(cay, ns, **spec):
    """A Deployment whose Pods come to nothing, after it has had some time."""
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})
    if spec.pop("quota", False):
        cay.api("POST", f"/api/v1/namespaces/{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
    body = json.loads(json.dumps(MANIFEST))
    body["spec"]["template"]["spec"].update(spec)
    cay.api("POST", f"/apis/apps/v1/namespaces/{ns}/deployments", body)
    time.sleep(1)
    before = revision(cay)
    time.sleep(3)
    return revision(cay) - before


def test_pods_that_are_refused_cost_few_writes(web):
    writes = broken(web, "full", quota=True)
    sets = web.api("GET", "/apis/apps/v1/namespaces/full/replicasets")["items"]
    assert [c["reason"] for s in sets for c in s["status"]["conditions"]] == ["FailedCreate"]
    assert writes < 50
    web.api("DELETE", "/api/v1/namespaces/full")


def test_pods_that_the_node_refuses_are_made_ever_more_seldom(web):
    writes = broken(web, "odd", shareProcessNamespace=True)
    made = web.api("GET", "/api/v1/namespaces/odd/pods")["items"]
    assert made and {p["status"]["phase"] for p in made} == {"Failed"}
    assert len(made) <= 8 and writes < 100
    web.api("DELETE", "/api/v1/namespaces/odd")


def test_a_set_that_was_left_behind(web):
    """It is adopted if it is selected; with another template it is an old one, though it has the name that the newest would have."""
    sets, made = "/apis/apps/v1/namespaces/left/replicasets", "/apis/apps/v1/namespaces/left/deployments"
    web.api("POST", "/api/v1/namespaces", {"metadata": {"name": "left"}})
    web.api("POST", made, MANIFEST)
    web.wait(made, "web", lambda d: d.get("status", {}).get("availableReplicas") == 2)
    [first] = web.api("GET", sets)["items"]
    web.kubectl("delete", "deployment", "web", "-n", "left", "--cascade=orphan")
    web.wait(sets, first["metadata"]["name"], lambda s: not s["metadata"].get("ownerReferences"))
    web.api("POST", made, MANIFEST)
    web.wait(sets, first["metadata"]["name"], lambda s: s["metadata"].get("ownerReferences"))
    web.wait(made, "web", lambda d: d.get("status", {}).get("availableReplicas") == 2)
    assert len(web.api("GET", sets)["items"]) == 1 and "collisionCount" not in web.api("GET", f"{made}/web")["status"]
    web.kubectl("delete", "deployment", "web", "-n", "left", "--cascade=foreground", "--timeout=60s")

    other = json.loads(json.dumps(MANIFEST))
    other.update(kind="ReplicaSet", metadata={"name": first["metadata"]["name"], "labels": {"app": "web"}})
    other["spec"]["template"]["spec"]["containers"][0]["name"] = "other"
    web.api("POST", sets, other)
    web.wait(sets, first["metadata"]["name"], lambda s: s.get("status", {}).get("availableReplicas") == 2)
    web.api("POST", made, MANIFEST)
    done = web.wait(made, "web", lambda d: d.get("status", {}).get("updatedReplicas") == 2 and d["status"].get("replicas") == 2
                    and d["status"].get("availableReplicas") == 2)
    assert done["status"]["collisionCount"] == 1
    by_name = {s["metadata"]["name"]: s for s in web.api("GET", sets)["items"]}
    assert len(by_name) == 2 and by_name[first["metadata"]["name"]]["spec"]["replicas"] == 0
    web.api("DELETE", "/api/v1/namespaces/left")
