# SPDX-License-Identifier: Apache-2.0
"""A Sandbox and its Pod: cases 30 to 89 of docs/reference/cases.md."""

import pytest
from kit import (ADOPTABLE, AGENTS, CREATED_BY, HASH, NEVER_READY, POD_NAME, POOL, PROPAGATED_ANNOTATIONS,
                 PROPAGATED_LABELS, TEMPLATE, annotations, condition, container, labels, name_hash, owned, said, vct)

FOREIGN = {"terminationGracePeriodSeconds": 0, "containers": [container()]}


def test_case_33_running_but_not_ready(ns):
    ns.sandbox("box", pod=NEVER_READY, service=True)
    box = ns.wait("sandboxes", "box", lambda s: (said(s) or [""])[-1].startswith("Pod is Running but not Ready; Service Exists"))
    assert said(box)[:2] == ("False", "DependenciesNotReady")
    assert condition(box, "PodScheduled")["status"] == "True"


def test_case_38_suspended_without_a_pod(ns):
    ns.sandbox("box", operatingMode="Suspended")
    box = ns.seen("sandboxes", "box")
    assert said(box, "Suspended") == ("True", "PodTerminated", "Pod has been terminated. Sandbox is suspended")
    assert said(box) == ("False", "SandboxSuspended", "Sandbox is suspended")
    assert not condition(box, "PodScheduled") and not ns.list("pods")


@pytest.mark.parametrize("code,reason,message", [(0, "PodSucceeded", "Pod completed successfully"), (1, "PodFailed", "Pod failed")])
def test_cases_43_and_44_a_finished_pod_is_kept(ns, code, reason, message):
    ns.sandbox("box", pod={"restartPolicy": "Never", "containers": [container(command=["sh", "-c", f"exit {code}"])]})
    box = ns.reason("sandboxes", "box", reason)
    assert said(box, "Finished") == ("True", reason, message)
    assert said(box) == ("False", reason, message)
    assert ns.get("pods", "box")


def test_case_52_a_ready_sandbox_has_three_conditions(ns):
    ns.sandbox("box")
    ns.ready("sandboxes", "box")
    ns.patch("sandboxes", "box", {"spec": {"podTemplate": {"metadata": {"labels": {"again": "1"}}}}})
    box = ns.seen("sandboxes", "box")
    assert sorted(c["type"] for c in box["status"]["conditions"]) == ["PodScheduled", "Ready", "Suspended"]
    assert said(box, "Suspended") == ("False", "NotSuspended", "Sandbox is not suspended")


def test_case_53_address_node_and_ready_land_together(ns):
    version = ns.version("sandboxes")
    ns.sandbox("box")
    seen = ns.history("sandboxes", version, lambda _, s: said(s) and said(s)[0] == "True")
    for (_, a), (_, b) in zip(seen, seen[1:]):
        rest = [{k: v for k, v in s.get("status", {}).items() if k != "nodeName"} for s in (a, b)]
        assert rest[0] != rest[1] or a.get("status") == b.get("status"), "a status was written for the node name alone"
    assert seen[-1][1]["status"]["nodeName"] and seen[-1][1]["status"]["podIPs"]


def test_case_54_minimal_sandbox(ns):
    made = ns.sandbox("box")
    box = ns.ready("sandboxes", "box")
    pod = ns.get("pods", "box")
    assert labels(pod) == {HASH: name_hash("box")}
    [ref] = pod["metadata"]["ownerReferences"]
    assert ref == {"apiVersion": f"{AGENTS}/v1beta1", "kind": "Sandbox", "name": "box", "uid": made["metadata"]["uid"],
                   "controller": True, "blockOwnerDeletion": True}
    assert box["status"]["selector"] == f"{HASH}={name_hash('box')}"
    assert not ns.get("services", "box") and "service" not in box["status"]
    assert box["status"]["nodeName"] == pod["spec"]["nodeName"]
    assert box["status"]["podIPs"] == [ip["ip"] for ip in pod["status"]["podIPs"]]


def test_case_55_metadata_of_the_template_is_on_the_pod(ns):
    ns.sandbox("box", {"labels": {"b": "2", "a": "1"}, "annotations": {"note": "x"}})
    pod = ns.exists("pods", "box")
    assert labels(pod)["a"] == "1" and labels(pod)["b"] == "2" and annotations(pod)["note"] == "x"
    assert annotations(pod)[PROPAGATED_LABELS] == "a,b"
    assert annotations(pod)[PROPAGATED_ANNOTATIONS] == "note"


@pytest.mark.parametrize("mark", [{HASH: name_hash("box")}, {ADOPTABLE: "true"}])
def test_cases_56_57_59_60_a_marked_unowned_pod_is_adopted(ns, mark):
    before = ns.create("pods", "box", FOREIGN, labels=mark)
    made = ns.sandbox("box", {"labels": {"a": "1"}}, pod={"containers": [container(name="other")]})
    box = ns.ready("sandboxes", "box")
    pod = ns.get("pods", "box")
    assert pod["metadata"]["uid"] == before["metadata"]["uid"] and owned(pod, made)
    assert labels(pod).items() >= dict(mark, a="1", **{HASH: name_hash("box")}).items()
    assert annotations(pod)[PROPAGATED_LABELS] == "a"
    assert [c["name"] for c in pod["spec"]["containers"]] == ["main"]
    assert box["status"]["podIPs"] == [ip["ip"] for ip in pod["status"]["podIPs"]]


def test_case_58_ready_without_service(ns):
    ns.sandbox("box")
    assert said(ns.ready("sandboxes", "box")) == ("True", "DependenciesReady", "Pod is Ready")


def test_case_61_reserved_keys_do_not_reach_the_pod(ns):
    ns.sandbox("box", {"labels": {HASH: "ffffffff", "extensions.agents.x-k8s.io/x": "1", "mine": "1"},
                       "annotations": {POD_NAME: "other", "opentelemetry.io/trace-context": "{}", "mine": "1"}})
    pod = ns.exists("pods", "box")
    assert labels(pod) == {HASH: name_hash("box"), "mine": "1"}
    assert set(annotations(pod)) == {"mine", PROPAGATED_LABELS, PROPAGATED_ANNOTATIONS}
    assert annotations(pod)[PROPAGATED_LABELS] == annotations(pod)[PROPAGATED_ANNOTATIONS] == "mine"


def test_case_62_reserved_keys_of_an_older_controller_are_removed(ns):
    ns.create("pods", "box", FOREIGN,
              labels={HASH: name_hash("box"), f"{AGENTS}/old": "1", "gone": "1"},
              annotations={f"{AGENTS}/older": "1", PROPAGATED_LABELS: f"{HASH},{AGENTS}/old,gone",
                           PROPAGATED_ANNOTATIONS: f"{AGENTS}/older"})
    made = ns.sandbox("box")
    pod = ns.wait("pods", "box", lambda p: owned(p, made) and f"{AGENTS}/old" not in labels(p))
    assert labels(pod) == {HASH: name_hash("box")}
    assert f"{AGENTS}/older" not in annotations(pod)
    assert not annotations(pod).get(PROPAGATED_LABELS) and not annotations(pod).get(PROPAGATED_ANNOTATIONS)


def test_cases_63_and_68_labels_of_extensions_are_not_for_bare_sandboxes(ns):
    marks = {POOL: "11111111", TEMPLATE: "22222222"}
    ns.create("pods", "had", FOREIGN, labels=dict(marks, **{HASH: name_hash("had")}))
    for name in ("bare", "had"):
        ns.sandbox(name, {"labels": marks}, labels=marks)
        ns.ready("sandboxes", name)
        assert labels(ns.get("pods", name)) == {HASH: name_hash(name)}


def test_cases_64_65_66_and_67_labels_follow_the_owner(ns):
    [member] = ns.warm("warm")
    name = member["metadata"]["name"]
    pod = ns.get("pods", name)
    assert labels(pod)[POOL] == name_hash("warm") and labels(pod)[TEMPLATE] == name_hash("warm")
    ns.claim("mine", "warm")
    ns.ready("sandboxclaims", "mine")
    pod = ns.wait("pods", name, lambda p: POOL not in labels(p))
    assert labels(pod)[TEMPLATE] == name_hash("warm")
    ns.json_patch("sandboxes", name, {"op": "remove", "path": "/metadata/ownerReferences"})
    pod = ns.wait("pods", name, lambda p: TEMPLATE not in labels(p))


def test_cases_69_and_119_suspension_waits_for_the_pod(ns):
    ns.sandbox("box", service=True)
    first = ns.ready("sandboxes", "box")
    ns.patch("pods", "box", {"metadata": {"finalizers": ["example.com/hold"]}})
    ns.patch("sandboxes", "box", {"spec": {"operatingMode": "Suspended"}})
    box = ns.reason("sandboxes", "box", "PodTerminating", "Suspended")
    assert said(box, "Suspended") == ("False", "PodTerminating", "Pod is terminating. Sandbox is suspending")
    assert said(box) == ("False", "SandboxSuspended", "Sandbox is suspending")
    assert condition(box, "PodScheduled")
    assert condition(box, "Suspended")["lastTransitionTime"] == condition(first, "Suspended")["lastTransitionTime"]
    assert ns.get("pods", "box")["metadata"]["deletionTimestamp"]
    ns.patch("pods", "box", {"metadata": {"finalizers": None}})
    box = ns.reason("sandboxes", "box", "PodTerminated", "Suspended")
    assert not condition(box, "PodScheduled") and said(box)[2] == "Sandbox is suspended"
    assert box["status"]["selector"] and ns.get("services", "box") and not box["status"].get("podIPs")


def test_case_72_a_pod_of_another_controller_is_refused(ns):
    ref = ns.foreign_owner()
    before = ns.create("pods", "box", FOREIGN, ownerReferences=[ref], labels={ADOPTABLE: "true"})
    ns.sandbox("box", {"labels": {"a": "1"}})
    box = ns.reason("sandboxes", "box", "ReconcilerError")
    assert said(box)[2] == (f'Error seen: pod "box" is owned by ConfigMap/{ref["name"]} (UID: {ref["uid"]}), '
                            'not by sandbox "box"')
    pod = ns.get("pods", "box")
    assert labels(pod) == labels(before) and pod["metadata"]["ownerReferences"] == [ref]


def test_case_74_a_legacy_pod_name_is_cleared_when_suspended(ns):
    ns.create("pods", "other", FOREIGN)
    ns.sandbox("box", annotations={POD_NAME: "other", "keep": "1"}, operatingMode="Suspended")
    box = ns.wait("sandboxes", "box", lambda s: POD_NAME not in annotations(s))
    assert annotations(box) == {"keep": "1"}
    ns.wait("sandboxes", "box", lambda s: said(s, "Suspended") and said(s, "Suspended")[0] == "True")
    assert "deletionTimestamp" not in ns.get("pods", "other")["metadata"]


def test_case_77_what_left_the_template_leaves_the_pod(ns):
    ns.sandbox("box", {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "1"}})
    ns.ready("sandboxes", "box")
    ns.patch("pods", "box", {"metadata": {"labels": {f"{AGENTS}/system-label": "1"}, "annotations": {"kubernetes.io/y": "1"}}})
    ns.patch("sandboxes", "box", {"spec": {"podTemplate": {"metadata": {"labels": {"a": None, "b": "3"}, "annotations": None}}}})
    pod = ns.wait("pods", "box", lambda p: labels(p).get("b") == "3")
    assert labels(pod) == {HASH: name_hash("box"), "b": "3", f"{AGENTS}/system-label": "1"}
    assert "x" not in annotations(pod) and annotations(pod)["kubernetes.io/y"] == "1"
    assert annotations(pod)[PROPAGATED_LABELS] == "b"


def test_case_78_an_unmarked_pod_is_refused(ns):
    ns.create("pods", "box", FOREIGN)
    ns.sandbox("box")
    box = ns.reason("sandboxes", "box", "ReconcilerError")
    assert said(box)[2] == ('Error seen: cannot adopt unowned pod "box": missing required pool authorization label '
                            f'("{ADOPTABLE}") or sandbox tracking label ("{HASH}")')
    assert "ownerReferences" not in ns.get("pods", "box")["metadata"]


def test_case_79_created_by_follows_the_sandbox(ns):
    ns.sandbox("box", labels={CREATED_BY: "go-client"})
    assert labels(ns.exists("pods", "box"))[CREATED_BY] == "go-client"
    ns.patch("sandboxes", "box", {"metadata": {"labels": {CREATED_BY: "somebody"}}})
    ns.wait("pods", "box", lambda p: labels(p).get(CREATED_BY) == "unknown")
    ns.patch("sandboxes", "box", {"metadata": {"labels": {CREATED_BY: None}}})
    ns.wait("pods", "box", lambda p: CREATED_BY not in labels(p))


def test_case_82_two_owned_pods_stop_everything(ns):
    ns.sandbox("box")
    ns.ready("sandboxes", "box")
    first = ns.get("pods", "box")
    ns.create("pods", "box-two", FOREIGN, labels={HASH: name_hash("box")}, ownerReferences=first["metadata"]["ownerReferences"])
    box = ns.reason("sandboxes", "box", "MultiplePods")
    text = "multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"
    assert said(box) == ("False", "MultiplePods", text)
    assert not box["status"].get("podIPs") and not box["status"].get("nodeName")
    event = ns.event("box", "MultiplePods")
    assert (event["type"], event["action"], event["note"]) == ("Warning", "Reconciling", text)
    ns.patch("sandboxes", "box", {"spec": {"service": True}})
    ns.seen("sandboxes", "box")
    assert not ns.get("services", "box") and len(ns.events("box", "MultiplePods", 1)) == 1
    assert {p["metadata"]["name"] for p in ns.list("pods") if "deletionTimestamp" not in p["metadata"]} == {"box", "box-two"}
    ns.delete("pods", "box-two")
    assert ns.ready("sandboxes", "box")["status"]["service"] == "box"


def test_case_83_a_pod_of_an_earlier_namesake_is_not_owned(ns):
    old = ns.sandbox("box", operatingMode="Suspended")
    ns.delete("sandboxes", "box", propagationPolicy="Orphan")
    ns.gone("sandboxes", "box")
    ref = {"apiVersion": f"{AGENTS}/v1beta1", "kind": "Sandbox", "name": "box", "uid": old["metadata"]["uid"], "controller": True}
    cm = ns.foreign_owner()
    ns.sandbox("box", operatingMode="Suspended")
    ns.create("pods", "box", FOREIGN, labels={HASH: name_hash("box")}, finalizers=["example.com/hold"],
              ownerReferences=[ref, dict(cm, controller=False)])
    box = ns.wait("sandboxes", "box", lambda s: (said(s, "Suspended") or ["", ""])[1] == "PodNotOwned")
    assert box
    ns.patch("pods", "box", {"metadata": {"finalizers": None}})


def test_case_84_no_second_pod_while_one_is_terminating(ns):
    ns.sandbox("box")
    ns.ready("sandboxes", "box")
    first = ns.get("pods", "box")
    ns.patch("pods", "box", {"metadata": {"finalizers": ["example.com/hold"]}})
    ns.delete("pods", "box")
    ns.wait("sandboxes", "box", lambda s: said(s)[0] == "False")
    assert [p["metadata"]["uid"] for p in ns.list("pods")] == [first["metadata"]["uid"]]
    ns.patch("pods", "box", {"metadata": {"finalizers": None}})
    ns.ready("sandboxes", "box")
    assert ns.get("pods", "box")["metadata"]["uid"] != first["metadata"]["uid"]


def test_case_86_a_foreign_pod_leaks_nothing_into_status(ns):
    ns.create("pods", "box", FOREIGN, ownerReferences=[ns.foreign_owner()])
    ns.wait("pods", "box", lambda p: p["status"].get("podIPs"))
    ns.sandbox("box", operatingMode="Suspended")
    box = ns.reason("sandboxes", "box", "PodNotOwned", "Suspended")
    assert said(box, "Suspended")[0] == "False" and said(box) == ("False", "SandboxSuspended", "Sandbox is suspending")
    assert not box["status"].get("podIPs") and not box["status"].get("nodeName")
    assert box["status"]["selector"] == f"{HASH}={name_hash('box')}" and not condition(box, "PodScheduled")


def test_case_87_a_deleted_pod_comes_back(ns):
    ns.sandbox("box")
    before = ns.ready("sandboxes", "box")
    old = ns.get("pods", "box")
    version = ns.version("sandboxes")
    ns.delete("pods", "box")
    ns.wait("pods", "box", lambda p: p and p["metadata"]["uid"] != old["metadata"]["uid"])
    after = ns.ready("sandboxes", "box")
    assert condition(after, "Suspended") == condition(before, "Suspended")
    seen = ns.history("sandboxes", version, lambda _, s: said(s)[0] == "True")
    assert not {said(s)[1] for _, s in seen} & {"PodFailed", "PodSucceeded"}, "a client would give up on these"


def test_case_88_a_volume_of_the_same_name_gives_way(ns):
    ns.sandbox("box", pod={"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]},
               volumeClaimTemplates=[vct("data")])
    pod = ns.exists("pods", "box")
    assert [v["name"] for v in pod["spec"]["volumes"] if v["name"] in ("data", "tmp")] == ["tmp", "data"]
    assert next(v for v in pod["spec"]["volumes"] if v["name"] == "data")["persistentVolumeClaim"]["claimName"] == "data-box"
