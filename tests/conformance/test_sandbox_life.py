# SPDX-License-Identifier: Apache-2.0
"""Expiry, suspension and resumption of a Sandbox, and its older version: cases 110 to 124 and 1 to 10 of docs/reference/cases.md."""

import json

import pytest
from kit import (AGENTS, HASH, ApiError, annotations, at, box, condition, container, controller, name_hash, said, vct)

EXPIRED = ("False", "SandboxExpired", "Sandbox has expired")
ALPHA = f"/apis/{AGENTS}/v1alpha1"
STATE = "api.agents.x-k8s.io/v1alpha1-sandbox-state"


def expired(s):
    return said(s) == EXPIRED and set(s["status"]) == {"conditions"}


def test_cases_110_111_and_117_retained_after_its_time(ns):
    version = ns.version("sandboxes")
    ns.sandbox("box", service=True, volumeClaimTemplates=[vct("data")])
    ns.ready("sandboxes", "box")
    ns.patch("sandboxes", "box", {"spec": {"shutdownTime": at(3)}})
    done = ns.wait("sandboxes", "box", expired)
    ns.gone("pods", "box")
    ns.gone("services", "box")
    assert not condition(done, "PodScheduled")
    assert said(done, "Suspended")[0] == "False" and condition(done, "Suspended")["observedGeneration"] == 2
    assert ns.get("persistentvolumeclaims", "data-box")
    seen = [s for _, s in ns.history("sandboxes", version, lambda _, s: expired(s))]
    first = next(s for s in seen if said(s) == EXPIRED)
    assert condition(first, "Ready")["lastTransitionTime"] >= first["spec"]["shutdownTime"], "too early"


def test_case_110_a_moved_time_brings_it_back(ns):
    ns.sandbox("box", shutdownTime=at(-5))
    ns.wait("sandboxes", "box", expired)
    assert not ns.list("pods")
    ns.patch("sandboxes", "box", {"spec": {"shutdownTime": at(3600)}})
    ns.ready("sandboxes", "box")


def test_case_113_deleted_after_its_time(ns):
    ns.sandbox("box", service=True)
    ns.ready("sandboxes", "box")
    ns.patch("sandboxes", "box", {"spec": {"shutdownTime": at(-1), "shutdownPolicy": "Delete"}})
    for kind in ("sandboxes", "pods", "services"):
        ns.gone(kind, "box")


def test_case_114_expiry_leaves_a_foreign_pod(ns):
    ns.create("pods", "box", box()["podTemplate"]["spec"], ownerReferences=[ns.foreign_owner()])
    ns.sandbox("box", service=True)
    ns.exists("services", "box")
    ns.patch("sandboxes", "box", {"spec": {"shutdownTime": at(-1)}})
    ns.wait("sandboxes", "box", expired)
    ns.gone("services", "box")
    assert "deletionTimestamp" not in ns.get("pods", "box")["metadata"]


def test_case_115_expired_with_nothing_to_end(ns):
    ns.sandbox("box", operatingMode="Suspended", shutdownTime=at(-1))
    assert [c["type"] for c in ns.wait("sandboxes", "box", expired)["status"]["conditions"]] == ["Ready"]


@pytest.mark.parametrize("code,reason", [(0, "PodSucceeded"), (1, "PodFailed")])
def test_case_116_finished_outlives_expiry(ns, code, reason):
    ns.sandbox("box", pod={"restartPolicy": "Never", "containers": [container(command=["sh", "-c", f"exit {code}"])]})
    before = ns.reason("sandboxes", "box", reason)
    ns.patch("sandboxes", "box", {"spec": {"shutdownTime": at(-1)}})
    after = ns.wait("sandboxes", "box", expired)
    assert condition(after, "Finished") == condition(before, "Finished") and not condition(after, "PodScheduled")
    ns.gone("pods", "box")


def test_case_118_suspended_and_resumed_twice(ns):
    ns.sandbox("box", service=True, volumeClaimTemplates=[vct("data")])
    ns.ready("sandboxes", "box")
    uids = [ns.get("pods", "box")["metadata"]["uid"]]
    for turn in range(2):
        ns.patch("sandboxes", "box", {"spec": {"operatingMode": "Suspended"}})
        down = ns.wait("sandboxes", "box", lambda s: said(s, "Suspended")[0] == "True")
        assert down["metadata"]["generation"] == 2 + 2 * turn == condition(down, "Suspended")["observedGeneration"]
        assert not ns.get("pods", "box") and ns.get("services", "box") and ns.get("persistentvolumeclaims", "data-box")
        assert down["status"]["selector"] == f"{HASH}={name_hash('box')}" and not down["status"].get("podIPs")
        ns.patch("sandboxes", "box", {"spec": {"operatingMode": "Running"}})
        up = ns.ready("sandboxes", "box")
        assert said(up, "Suspended") == ("False", "NotSuspended", "Sandbox is not suspended")
        assert condition(up, "Suspended")["lastTransitionTime"] >= condition(down, "Suspended")["lastTransitionTime"]
        uids.append(ns.get("pods", "box")["metadata"]["uid"])
    assert len(set(uids)) == 3 and up["metadata"]["generation"] == 5


def test_case_123_metadata_changes_leave_the_pod_running(ns):
    ns.sandbox("box")
    ns.ready("sandboxes", "box")
    before = ns.get("pods", "box")
    ns.patch("sandboxes", "box", {"spec": {"podTemplate": {"metadata": {"labels": {"a": "1"}}}}})
    after = ns.wait("pods", "box", lambda p: p["metadata"]["labels"].get("a"))
    assert after["spec"] == before["spec"] and after["status"] == before["status"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize("name,digest", [("a", "e40c292c"), ("my-sandbox", "374de8f5"), ("sandbox-name", "ab179450")])
def test_case_124_name_hash(ns, name, digest):
    ns.sandbox(name, service=True, operatingMode="Suspended")
    assert ns.exists("services", name)["spec"]["selector"] == {HASH: digest} == {HASH: name_hash(name)}


# -- v1alpha1: upstream stopped serving it in 1.0, so a server without it passes by answering 404 -----------------------


@pytest.fixture
def alpha(ns):
    def call(method, name=None, body=None, sub=None):
        path = "/".join(p for p in (f"{ALPHA}/namespaces/{ns.name}/sandboxes", name, sub) if p)
        return ns.server.api(method, path, body, "application/merge-patch+json" if method == "PATCH" else "application/json")
    try:
        call("GET")
    except ApiError as e:
        assert e.code == 404
        pytest.skip("v1alpha1 is not served")
    return call


def old(name, spec, **metadata):
    return {"apiVersion": f"{AGENTS}/v1alpha1", "kind": "Sandbox", "metadata": dict(metadata, name=name), "spec": spec}


@pytest.mark.parametrize("replicas,mode", [(None, "Running"), (1, "Running"), (0, "Suspended")])
def test_cases_1_2_and_3_replicas_and_mode(ns, alpha, replicas, mode):
    spec = box()
    if replicas is not None:
        spec["replicas"] = replicas
    alpha("POST", body=old("box", spec))
    new = ns.seen("sandboxes", "box")
    assert new["apiVersion"] == f"{AGENTS}/v1beta1" and new["spec"]["operatingMode"] == mode and "replicas" not in new["spec"]
    back = alpha("GET", "box")
    assert back["spec"].get("replicas", 1) == (1 if replicas is None else replicas) and "operatingMode" not in back["spec"]
    assert back["status"].get("replicas", 0) == (0 if mode == "Suspended" else 1)


def test_case_4_the_rest_of_the_spec_survives(ns, alpha):
    spec = box(metadata={"labels": {"a": "1"}}, replicas=0, service=True, shutdownPolicy="Delete", volumeClaimTemplates=[vct("data")])
    alpha("POST", body=old("box", spec, labels={"l": "1"}, annotations={"n": "1"}))
    for got in (alpha("GET", "box"), ns.get("sandboxes", "box")):
        for field in ("podTemplate", "service", "shutdownPolicy", "volumeClaimTemplates"):
            assert got["spec"][field] == spec[field]
        assert got["metadata"]["labels"] == {"l": "1"} and annotations(got)["n"] == "1"


def test_cases_5_6_and_7_the_kept_state_stays_inside(ns, alpha):
    made = alpha("POST", body=old("box", box(replicas=0), annotations={"n": "1"}))
    alpha("PATCH", "box", {"metadata": {"labels": {"again": "1"}}})
    for got in (made, alpha("GET", "box")):
        assert STATE not in annotations(got) and annotations(got)["n"] == "1"
    state = annotations(ns.get("sandboxes", "box")).get(STATE)
    assert state is None or STATE not in json.loads(state)["metadata"].get("annotations", {})


@pytest.mark.parametrize("mode,replicas", [("Running", 1), ("Suspended", 0), (None, 1)])
def test_cases_8_9_and_10_born_as_v1beta1(ns, alpha, mode, replicas):
    ns.sandbox("box", **({"operatingMode": mode} if mode else {}))
    ns.seen("sandboxes", "box")
    got = alpha("GET", "box")
    assert got["apiVersion"] == f"{AGENTS}/v1alpha1" and got["spec"]["replicas"] == replicas
    assert got["status"].get("replicas", 0) == replicas
    assert [s["metadata"]["name"] for s in alpha("GET")["items"]] == ["box"]


@pytest.mark.parametrize("given", [{"replicas": 1}, {}])
def test_scale_of_v1alpha1_suspends_and_resumes(ns, alpha, given):
    alpha("POST", body=old("box", box(**given)))
    ns.ready("sandboxes", "box")
    scale = alpha("GET", "box", sub="scale")
    assert scale["spec"]["replicas"] == 1 and scale["status"]["selector"] == f"{HASH}={name_hash('box')}"
    alpha("PATCH", "box", {"spec": {"replicas": 0}}, "scale")
    ns.wait("sandboxes", "box", lambda s: said(s, "Suspended")[0] == "True")
    assert ns.get("sandboxes", "box")["spec"]["operatingMode"] == "Suspended"
    assert alpha("PATCH", "box", {"spec": {"replicas": 1}}, "scale")["spec"]["replicas"] == 1
    ns.ready("sandboxes", "box")


def test_case_29_and_244_owner_references_of_v1alpha1_are_recognised(ns):
    [member] = ns.warm("warm")
    ref = dict(controller(member), apiVersion="extensions.agents.x-k8s.io/v1alpha1")
    name = member["metadata"]["name"]
    ns.patch("sandboxes", name, {"metadata": {"ownerReferences": [ref]}})
    ns.claim("mine", "warm")
    assert ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"] == name
