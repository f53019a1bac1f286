# SPDX-License-Identifier: Apache-2.0
"""What current clients send and what upstream 1.0 changed: the U cases of docs/reference/cases.md."""

import json

import pytest
from kit import POD_NAME, ApiError, annotations, at, box, condition, container, controller, is_ready, labels, owned, said

CLAIM = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim"}


def named(name, pool="cold"):
    return dict(CLAIM, metadata={"name": name}, spec={"warmPoolRef": {"name": pool}})


def raw(server, method, path, body=None, headers=None):
    conn = server.connect(20)
    try:
        conn.request(method, path, body, headers or {})
        answer = conn.getresponse()
        return answer.status, answer.headers, json.loads(answer.read() or b"{}")
    finally:
        conn.close()


def uid_of(obj):
    return obj["metadata"]["uid"]


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}])
def test_u1_a_post_needs_no_content_type(ns, server, headers):
    status, _, body = raw(server, "POST", ns.path("sandboxclaims"), json.dumps(named("mine")), headers)
    assert status == 201 and body["metadata"]["uid"]


def test_u2_delete_with_the_uid_as_precondition(ns, server):
    claim = ns.claim("mine", "none")
    path = ns.path("sandboxclaims", "mine")
    status, _, body = raw(server, "DELETE", path, json.dumps({"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}))
    assert (status, body["reason"]) == (409, "Conflict") and uid_of(ns.get("sandboxclaims", "mine")) == uid_of(claim)
    status, _, _ = raw(server, "DELETE", path, json.dumps({"preconditions": {"uid": uid_of(claim)}}))
    assert status == 200
    ns.gone("sandboxclaims", "mine")
    ns.claim("mine", "none")
    assert raw(server, "DELETE", path)[0] == 200
    ns.gone("sandboxclaims", "mine")


@pytest.mark.parametrize("word", ["true", "True", "1"])
def test_u3_every_word_for_watch_streams_and_is_not_compressed(ns, server, word):
    ns.claim("mine", "none")
    conn = server.connect(20)
    conn.request("GET", ns.path("sandboxclaims") + f"?watch={word}&timeoutSeconds=10", headers={"Accept-Encoding": "gzip, deflate"})
    answer = conn.getresponse()
    assert answer.status == 200 and answer.getheader("Content-Encoding") is None
    assert answer.getheader("Transfer-Encoding") == "chunked"
    event = json.loads(answer.readline())
    assert event["type"] == "ADDED" and event["object"]["metadata"]["name"] == "mine"
    conn.close()


def test_u4_an_existing_name_is_a_conflict(ns):
    before = ns.claim("mine", "none")
    with pytest.raises(ApiError) as e:
        ns.claim("mine", "other")
    assert (e.value.code, e.value.reason, e.value.status["kind"]) == (409, "AlreadyExists", "Status")
    assert e.value.status["details"]["name"] == "mine"
    assert ns.get("sandboxclaims", "mine")["spec"] == before["spec"]


def test_u5_a_second_client_finds_the_claim_ready(ns):
    ns.cold()
    ns.claim("mine", "cold")
    first = ns.ready("sandboxclaims", "mine")
    with pytest.raises(ApiError):
        ns.claim("mine", "cold")
    second = ns.get("sandboxclaims", "mine")
    assert is_ready(second) and second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["resourceVersion"] and second["spec"]["warmPoolRef"]["name"] == "cold"
    assert second["status"]["sandbox"] == first["status"]["sandbox"]


def test_u7_a_claim_made_again_has_another_uid(ns):
    ns.cold()
    old = ns.claim("mine", "cold")
    version = ns.ready("sandboxclaims", "mine")["metadata"]["resourceVersion"]
    ns.delete("sandboxclaims", "mine")
    ns.gone("sandboxclaims", "mine")
    ns.gone("sandboxes", "mine")
    new = ns.claim("mine", "cold")
    seen = ns.history("sandboxclaims", version, lambda what, c: what == "ADDED")
    assert seen[-1][1]["metadata"]["uid"] == new["metadata"]["uid"] != old["metadata"]["uid"]
    assert "DELETED" in [what for what, _ in seen]
    ns.ready("sandboxclaims", "mine")


def test_u9_the_preferred_version_is_v1beta1(ns, server):
    for group in ("agents.x-k8s.io", "extensions.agents.x-k8s.io"):
        found = server.api("GET", f"/apis/{group}")
        assert found["preferredVersion"]["version"] == "v1beta1"
        versions = [v["version"] for v in found["versions"]]
        assert versions in (["v1beta1"], ["v1beta1", "v1alpha1"])  # upstream has dropped the second


def test_u10_the_service_that_clients_look_for(ns):
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    path = ns.path("services", "sandbox-router-svc")
    with pytest.raises(ApiError) as e:
        ns.server.api("GET", path, accept=table)
    assert e.value.code == 404 and "not found" in str(e.value)
    ns.create("services", "sandbox-router-svc", {"ports": [{"port": 8080, "targetPort": 8080}], "selector": {"app": "sandbox-router"}})
    assert ns.server.api("GET", path, accept=table)["kind"] in ("Table", "Service")


def test_u11_env_that_is_not_allowed_ends_the_wait(ns):
    ns.cold()
    ns.claim("mine", "cold", env=[{"name": "A", "value": "1"}])
    assert ns.reason("sandboxclaims", "mine", "EnvVarsInjectionRejected")


def test_u12_a_get_with_a_content_type_and_no_body(ns, server):
    status, _, body = raw(server, "GET", ns.path("sandboxclaims"), headers={"Content-Type": "application/json"})
    assert status == 200 and body["kind"] == "SandboxClaimList"


def test_u13_no_pod_name_is_written_to_a_cold_sandbox(ns):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    assert POD_NAME not in annotations(ns.get("sandboxes", "mine")) and ns.get("pods", "mine")


def test_u14_a_legacy_pod_name_is_honoured_and_not_rewritten(ns):
    ns.create("pods", "other", box()["podTemplate"]["spec"], labels={"agents.x-k8s.io/adoptable": "true"})
    made = ns.sandbox("box", annotations={POD_NAME: "other"})
    ready = ns.ready("sandboxes", "box")
    ns.patch("sandboxes", "box", {"spec": {"podTemplate": {"metadata": {"labels": {"again": "1"}}}}})
    ns.wait("pods", "other", lambda p: labels(p).get("again"))
    [pod] = ns.list("pods")
    assert pod["metadata"]["name"] == "other" and owned(pod, made)
    assert annotations(ready)[POD_NAME] == annotations(ns.get("sandboxes", "box"))[POD_NAME] == "other"


def test_u15_a_pod_that_the_api_refuses(ns):
    ns.cold(pod={"containers": [container(name="Not_A_Name")]})
    ns.claim("mine", "cold")
    claim = ns.reason("sandboxclaims", "mine", "InvalidConfiguration")
    sandbox = ns.get("sandboxes", "mine")
    assert said(sandbox)[:2] == ("False", "InvalidConfiguration") and said(claim)[2] == said(sandbox)[2]
    assert "spec.containers[0].name" in said(sandbox)[2]
    ns.patch("sandboxes", "mine", {"spec": {"podTemplate": {"spec": {"containers": [container()]}}}})
    ns.ready("sandboxclaims", "mine")


def test_u16_a_service_needs_a_name_of_63(ns):
    longest, longer = "a" * 63, "a" * 64
    ns.sandbox(longest, service=True)
    ns.ready("sandboxes", longest)
    with pytest.raises(ApiError) as e:
        ns.sandbox(longer, service=True)
    assert (e.value.code, e.value.reason) == (422, "Invalid")
    ns.sandbox(longer)
    ns.ready("sandboxes", longer)
    with pytest.raises(ApiError) as e:
        ns.patch("sandboxes", longer, {"spec": {"service": True}})
    assert e.value.code == 422


@pytest.mark.parametrize("code,reason", [(0, "PodSucceeded"), (1, "PodFailed")])
def test_u17_a_pod_that_ends_shows_on_the_claim(ns, code, reason):
    ns.cold(pod={"restartPolicy": "Never", "containers": [container(command=["sh", "-c", f"exit {code}"])]})
    ns.claim("mine", "cold")
    claim = ns.reason("sandboxclaims", "mine", reason)
    assert said(claim)[0] == "False" and said(claim, "Finished")[:2] == ("True", reason)


TERMINAL = {"InvalidMetadata", "EnvVarsInjectionRejected", "VolumeClaimTemplatesError", "ClaimExpired", "SandboxExpired",
            "InvalidConfiguration", "PodFailed", "PodSucceeded"}


def test_u18_nothing_terminal_while_the_server_works_on_it(ns):
    ns.cold()
    version = {kind: ns.version(kind) for kind in ("sandboxclaims", "sandboxes")}
    ns.claim("mine", "cold")
    since = ns.ready("sandboxclaims", "mine")["metadata"]["resourceVersion"]
    ns.delete("pods", "mine")
    ns.history("sandboxclaims", since, lambda _, c: said(c)[0] == "False")  # it may be over before we look
    ns.ready("sandboxclaims", "mine")
    ns.patch("sandboxes", "mine", {"spec": {"operatingMode": "Suspended"}})
    ns.wait("sandboxes", "mine", lambda s: said(s, "Suspended")[0] == "True")
    ns.patch("sandboxes", "mine", {"spec": {"operatingMode": "Running"}})
    ns.wait("sandboxclaims", "mine", lambda c: is_ready(c) and c["status"]["sandbox"].get("podIPs"))
    ns.patch("sandboxclaims", "mine", {"metadata": {"labels": {"end": "1"}}})
    ns.patch("sandboxes", "mine", {"metadata": {"labels": {"end": "1"}}})
    for kind, since in version.items():
        seen = ns.history(kind, since, lambda _, o: "end" in labels(o))
        assert not {said(o)[1] for _, o in seen if said(o)} & TERMINAL


def test_u18_a_restarting_container_is_not_the_end(ns):
    version = ns.version("sandboxes")
    ns.sandbox("box", pod={"restartPolicy": "Always", "containers": [container(command=["sh", "-c", "exit 1"])]})
    ns.wait("pods", "box", lambda p: p and any(c["restartCount"] for c in p["status"].get("containerStatuses", [])))
    ns.patch("sandboxes", "box", {"metadata": {"labels": {"end": "1"}}})
    seen = ns.history("sandboxes", version, lambda _, o: "end" in labels(o))
    assert not {said(o)[1] for _, o in seen if said(o)} & TERMINAL


def test_u19_events_of_a_life(ns):
    ns.sandbox("box")
    ns.ready("sandboxes", "box")
    ns.event("box", "SandboxReady")
    ns.patch("sandboxes", "box", {"spec": {"operatingMode": "Suspended"}})
    ns.event("box", "SandboxSuspended")
    ns.patch("sandboxes", "box", {"spec": {"shutdownTime": at(-1)}})
    ns.event("box", "SandboxExpired")
    for reason in ("SandboxPodCreated", "SandboxReady", "SandboxSuspended", "SandboxExpired"):
        [event] = ns.events("box", reason, 1)
        assert event["type"] == "Normal" and event["regarding"]["kind"] == "Sandbox", reason
        assert event["reportingController"] == "sandbox-controller"
    ns.sandbox("gone", shutdownPolicy="Delete", shutdownTime=at(-1))
    ns.gone("sandboxes", "gone")
    assert not ns.events("gone", "SandboxExpired")


@pytest.mark.parametrize("code,reason,kind", [(0, "PodSucceeded", "Normal"), (1, "PodFailed", "Warning")])
def test_u19_events_of_an_end(ns, code, reason, kind):
    ns.sandbox("box", pod={"restartPolicy": "Never", "containers": [container(command=["sh", "-c", f"exit {code}"])]})
    ns.reason("sandboxes", "box", reason)
    assert ns.event("box", reason)["type"] == kind and len(ns.events("box", reason)) == 1


def test_u22_ready_is_false_before_the_pod_is_gone(ns):
    ns.sandbox("box")
    ns.ready("sandboxes", "box")
    ns.patch("pods", "box", {"metadata": {"finalizers": ["example.com/hold"]}})
    ns.delete("pods", "box")
    sandbox = ns.wait("sandboxes", "box", lambda s: said(s)[0] == "False")
    assert ns.get("pods", "box") and not condition(sandbox, "Finished")
    ns.patch("pods", "box", {"metadata": {"finalizers": None}})
    ns.ready("sandboxes", "box")
    assert controller(ns.get("pods", "box"))["name"] == "box"
