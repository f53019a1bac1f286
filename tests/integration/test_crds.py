# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions with unmodified kubectl, across restarts and crashes, and written by somebody hostile."""

import json
import threading

import pytest

from cay_local import ApiError, condition, wait_until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "shop.example.com"
SPEC = {"type": "object", "required": ["color"], "properties": {
    "color": {"type": "string", "enum": ["red", "green", "blue"], "description": "How it looks."},
    "replicas": {"type": "integer", "minimum": 0, "default": 1}}}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}


def schema(spec=SPEC):
    return {"openAPIV3Schema": {"type": "object", "description": "Something for sale.", "properties": {"spec": spec, "status": STATUS}}}


def crd(plural, kind, group=GROUP, **version):
    v = {"name": "v1", "served": True, "storage": True, "schema": schema(),
         "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
         "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]}
    v.update(version)
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [v]}}


def item(kind, name, version="v1", **spec):
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name}, "spec": dict({"color": "red"}, **spec)}


def path(plural, name=None, version="v1", ns="default"):
    return "/".join(p for p in (f"/apis/{GROUP}/{version}/namespaces/{ns}/{plural}", name) if p)


def gone(cay, where):
    def look():
        try:
            cay.api("GET", where)
        except ApiError as e:
            return e.code == 404
        return False
    return look


def remove(cay, name):
    cay.api("DELETE", f"{CRDS}/{name}")
    assert wait_until(gone(cay, f"{CRDS}/{name}"), 60)


def answer(cay, method, where, body):
    """Status, body and warnings."""
    conn = cay.connect(60)
    try:
        conn.request(method, where, json.dumps(body), {"Content-Type": "application/json"})
        response = conn.getresponse()
        return response.status, json.loads(response.read()), response.headers.get_all("Warning") or []
    finally:
        conn.close()


# -- ours --------------------------------------------------------------------------------------------------------------

OURS = ["agents.cay.dev", "approvals.cay.dev", "attachments.cay.dev", "budgets.cay.dev", "credentials.cay.dev",
        "gateways.gateway.networking.k8s.io", "ledgers.cay.dev", "sandboxclaims.extensions.agents.x-k8s.io", "sandboxes.agents.x-k8s.io",
        "sandboxtemplates.extensions.agents.x-k8s.io", "sandboxwarmpools.extensions.agents.x-k8s.io", "sessions.cay.dev",
        "teampolicies.cay.dev", "triggers.cay.dev"]


def test_our_kinds_are_definitions_that_cannot_be_deleted(cay):
    names = cay.kubectl("get", "crd", "-o", "name").stdout.split()
    assert [n.split("/")[1] for n in names] == OURS
    for name in OURS:
        cay.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=20s")
        refused = cay.kubectl("delete", "crd", name, check=False)
        assert refused.returncode != 0 and "this definition is built into the server" in refused.stderr
    versions = cay.api("GET", f"{CRDS}/sandboxes.agents.x-k8s.io")["spec"]["versions"]
    assert [(v["name"], v["storage"]) for v in versions] == [("v1beta1", True), ("v1alpha1", False)]
    pool = cay.api("GET", f"{CRDS}/sandboxwarmpools.extensions.agents.x-k8s.io")["spec"]["versions"][1]
    assert (pool["name"], pool["deprecated"], set(pool["subresources"])) == ("v1alpha1", True, {"status", "scale"})
    assert pool["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] == ["replicas", "sandboxTemplateRef"]


def test_a_manifest_of_one_of_ours_is_applied_with_a_warning(cay):
    """As upstream's install manifests and charts do it: other fields, other versions, a webhook."""
    name = "sandboxes.agents.x-k8s.io"
    before = cay.api("GET", f"{CRDS}/{name}")
    theirs = crd("sandboxes", "Sandbox", "agents.x-k8s.io", name="v1")
    theirs["metadata"]["labels"] = {"app": "theirs"}
    theirs["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
        "service": {"name": "hook", "namespace": "default"}}}}
    applied = cay.kubectl("apply", "-f", "-", stdin=json.dumps(theirs))
    assert "is built into this server" in applied.stderr
    after = cay.api("GET", f"{CRDS}/{name}")
    assert after["spec"] == before["spec"] and after["status"] == before["status"]
    assert after["metadata"]["labels"] == {"app": "theirs"}
    again = cay.kubectl("apply", "-f", "-", stdin=json.dumps(theirs))
    assert "configured" in again.stdout or "unchanged" in again.stdout


# -- users' ------------------------------------------------------------------------------------------------------------

def test_kubectl_knows_a_new_kind_at_once(cay):
    toy = crd("toys", "Toy")
    toy["spec"]["names"].update(shortNames=["ty"], categories=["all"])
    cay.kubectl("create", "-f", "-", stdin=json.dumps(toy))
    cay.kubectl("create", "-f", "-", stdin=json.dumps(item("Toy", "bear", color="blue")))
    lines = cay.kubectl("get", "ty").stdout.splitlines()
    assert lines[0].split() == ["NAME", "COLOR"] and lines[1].split() == ["bear", "blue"]
    assert f"toy.{GROUP}/bear" in cay.kubectl("get", "all").stdout
    assert "How it looks." in cay.kubectl("explain", "toy.spec.color").stdout
    cay.kubectl("scale", "toy", "bear", "--replicas=3")
    bear = cay.api("GET", path("toys", "bear"))
    assert bear["spec"]["replicas"] == 3 and bear["metadata"]["generation"] == 2
    cay.kubectl("patch", "toy", "bear", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":2},"spec":{"color":"red"}}')
    bear = cay.api("GET", path("toys", "bear"))
    assert bear["status"] == {"replicas": 2} and bear["spec"]["color"] == "blue" and bear["metadata"]["generation"] == 2
    wrong = cay.kubectl("create", "-f", "-", stdin=json.dumps(item("Toy", "odd", colour="x")), check=False)
    assert 'unknown field "spec.colour"' in wrong.stderr
    wrong = cay.kubectl("create", "-f", "-", stdin=json.dumps(item("Toy", "odd", color="pink")), check=False)
    assert 'spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"' in wrong.stderr
    remove(cay, f"toys.{GROUP}")
    assert cay.kubectl("get", "toys", check=False).returncode != 0


def test_an_object_can_be_created_right_after_its_definition(cay):
    for i in range(20):
        made = cay.api("POST", CRDS, crd(f"things{i}", f"Thing{i}"))
        assert condition(made, "Established")["status"] == "True"
        assert cay.api("POST", path(f"things{i}"), item(f"Thing{i}", "x"))["spec"]["replicas"] == 1
    for i in range(20):
        remove(cay, f"things{i}.{GROUP}")


def test_rules_in_cel_are_warned_about_and_kept(cay):
    ruled = crd("ruled", "Ruled", schema=schema(dict(SPEC, **{"x-kubernetes-validations": [{"rule": "self.replicas < 3"}]})))
    status, body, warnings = answer(cay, "POST", CRDS, ruled)
    assert status == 201
    assert len(warnings) == 1 and "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations" in warnings[0]
    assert body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    assert cay.api("POST", path("ruled"), item("Ruled", "x", replicas=5))["spec"]["replicas"] == 5
    remove(cay, f"ruled.{GROUP}")


def test_a_definition_that_changes_is_followed_by_its_objects(cay):
    cay.api("POST", CRDS, crd("cars", "Car"))
    cay.api("POST", path("cars"), item("Car", "old"))
    now = cay.api("GET", f"{CRDS}/cars.{GROUP}")
    second = json.loads(json.dumps(now["spec"]["versions"][0]))
    second["name"] = "v2"
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["doors"] = {"type": "integer", "default": 4}
    now["spec"]["versions"][0]["storage"] = False
    now["spec"]["versions"].append(second)
    now = cay.api("PUT", f"{CRDS}/cars.{GROUP}", now)
    assert now["status"]["storedVersions"] == ["v1", "v2"] and now["metadata"]["generation"] == 2
    old = cay.api("GET", path("cars", "old", "v2"))
    assert old["apiVersion"] == f"{GROUP}/v2" and old["spec"] == {"color": "red", "replicas": 1, "doors": 4}
    assert "doors" not in cay.api("GET", path("cars", "old"))["spec"]
    now["spec"]["versions"] = now["spec"]["versions"][1:]
    with pytest.raises(ApiError) as e:
        cay.api("PUT", f"{CRDS}/cars.{GROUP}", now)
    assert e.value.code == 422 and "was previously a storage version" in str(e.value)
    remove(cay, f"cars.{GROUP}")


def test_a_name_that_is_taken_is_given_once_it_is_free(cay):
    cay.api("POST", CRDS, crd("firsts", "Same"))
    second = cay.api("POST", CRDS, crd("seconds", "Same"))
    assert condition(second, "NamesAccepted")["status"] == "False" and condition(second, "Established")["status"] == "False"
    with pytest.raises(ApiError) as e:
        cay.api("POST", path("seconds"), item("Same", "x"))
    assert e.value.code == 404
    remove(cay, f"firsts.{GROUP}")
    assert condition(cay.api("GET", f"{CRDS}/seconds.{GROUP}"), "Established")["status"] == "True"
    cay.api("POST", path("seconds"), item("Same", "x"))
    remove(cay, f"seconds.{GROUP}")


def test_watches_end_when_the_definition_changes_or_goes(cay):
    cay.api("POST", CRDS, crd("seen", "Seen"))
    cay.api("POST", path("seen"), item("Seen", "x"))

    def follow(seen):
        conn = cay.connect(120)
        conn.request("GET", path("seen") + "?watch=true&timeoutSeconds=100")
        answer_ = conn.getresponse()
        for line in answer_:
            seen.append(json.loads(line)["type"])
        seen.append("END")
        conn.close()

    for change in ("update", "delete"):
        seen = []
        thread = threading.Thread(target=follow, args=(seen,))
        thread.start()
        assert wait_until(lambda: seen == ["ADDED"], 30)
        if change == "update":
            now = cay.api("GET", f"{CRDS}/seen.{GROUP}")
            now["spec"]["versions"][0]["additionalPrinterColumns"] = []
            cay.api("PUT", f"{CRDS}/seen.{GROUP}", now)
        else:
            remove(cay, f"seen.{GROUP}")
        thread.join(60)
        assert seen[-1] == "END" and seen[0] == "ADDED"
        assert ("DELETED" in seen) == (change == "delete")


def test_objects_go_with_their_namespace_and_their_owner(cay):
    cay.api("POST", CRDS, crd("kids", "Kid"))
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": "nursery"}})
    cay.api("POST", path("kids", ns="nursery"), item("Kid", "one"))
    owner = cay.api("POST", path("kids"), item("Kid", "owner"))
    owned = item("Kid", "owned")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": f"{GROUP}/v1", "kind": "Kid", "name": "owner", "uid": owner["metadata"]["uid"]}]
    cay.api("POST", path("kids"), owned)
    cay.api("DELETE", "/api/v1/namespaces/nursery")
    cay.api("DELETE", path("kids", "owner"))
    assert wait_until(gone(cay, path("kids", "owned")), 60)
    assert wait_until(gone(cay, "/api/v1/namespaces/nursery"), 60)
    remove(cay, f"kids.{GROUP}")


# -- restarts ----------------------------------------------------------------------------------------------------------

def test_definitions_and_objects_survive_a_restart(fresh):
    cay = fresh()
    cay.api("POST", CRDS, crd("kept", "Kept"))
    made = cay.api("POST", path("kept"), item("Kept", "x", color="green"))
    cay.stop()
    cay.start()
    assert cay.api("GET", path("kept", "x")) == made
    assert condition(cay.api("GET", f"{CRDS}/kept.{GROUP}"), "Established")["status"] == "True"
    assert "not served" not in cay.log()
    cay.api("POST", path("kept"), item("Kept", "y"))


def test_a_deletion_that_was_cut_off_is_finished_after_the_crash(fresh):
    cay = fresh()
    cay.api("POST", CRDS, crd("cut", "Cut"))
    held = item("Cut", "held")
    held["metadata"]["finalizers"] = ["shop.example.com/wait"]
    cay.api("POST", path("cut"), held)
    for i in range(300):
        cay.api("POST", path("cut"), item("Cut", f"n{i}"))
    cay.api("DELETE", f"{CRDS}/cut.{GROUP}")
    with pytest.raises(ApiError) as e:
        cay.api("POST", path("cut"), item("Cut", "late"))
    assert e.value.code == 405
    assert wait_until(lambda: len(cay.api("GET", path("cut"))["items"]) == 1, 60)
    # nobody but the server takes its finalizer away: nothing can be left behind
    cay.kubectl("patch", "crd", f"cut.{GROUP}", "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')
    assert cay.api("GET", f"{CRDS}/cut.{GROUP}")["metadata"]["finalizers"]
    cay.kill()
    cay.start()
    assert [o["metadata"]["name"] for o in cay.api("GET", path("cut"))["items"]] == ["held"]
    cay.kubectl("patch", f"cut.{GROUP}", "held", "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')
    assert wait_until(gone(cay, f"{CRDS}/cut.{GROUP}"), 60)
    cay.api("POST", CRDS, crd("cut", "Cut"))
    assert cay.api("GET", path("cut"))["items"] == []


def test_kill_at_any_moment_of_a_deletion(fresh):
    cay = fresh()
    for _ in range(3):
        cay.api("POST", CRDS, crd("moments", "Moment"))
        for i in range(100):
            cay.api("POST", path("moments"), item("Moment", f"n{i}"))
        cay.api("DELETE", f"{CRDS}/moments.{GROUP}")
        cay.kill()  # the answer is there; how far the rest has come is anybody's guess
        cay.start()
        assert wait_until(gone(cay, f"{CRDS}/moments.{GROUP}"), 60)
        with pytest.raises(ApiError) as e:
            cay.api("GET", path("moments"))
        assert e.value.code == 404


# -- hostile -----------------------------------------------------------------------------------------------------------

def refused(cay, definition):
    status, body, _ = answer(cay, "POST", CRDS, definition)
    assert status in (400, 413, 422), body
    return body["message"]


def with_spec(spec):
    return crd("evils", "Evil", schema=schema(spec))


def test_hostile_schemas_are_refused(cay):
    deep = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    assert "nest" in refused(cay, with_spec(deep)) or "depth" in refused(cay, with_spec(deep))
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(33000)}}
    assert "more than 32768 parts" in refused(cay, with_spec(wide))
    patterns = {"type": "object", "properties": {f"p{i}": {"type": "string", "pattern": "^([a-z]{80}){100}$"} for i in range(100)}}
    assert "instructions" in refused(cay, with_spec(patterns))
    assert "$ref is not supported" in refused(cay, with_spec({"type": "object", "$ref": "#/definitions/x"}))
    assert "expression is too large" in refused(cay, with_spec(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "((a{1000}){1000}){1000}"}}}))
    assert "must be of type integer" in refused(cay, with_spec(
        {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}))


def test_a_catastrophic_pattern_is_harmless(cay):
    spec = {"type": "object", "properties": {"color": {"type": "string"}, "words": {"type": "array", "items": {
        "type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}}
    cay.api("POST", CRDS, crd("slow", "Slow", schema=schema(spec)))
    # within the time that any request has: other engines would need longer than the universe has existed
    status, body, _ = answer(cay, "POST", path("slow"), item("Slow", "x", words=["a" * 100000] * 20))
    assert status == 422 and "takes more than" in body["message"]
    remove(cay, f"slow.{GROUP}")


def test_names_that_shadow_built_in_kinds_are_not_given(cay):
    shadow = crd("endpointslices", "EndpointSlice", "discovery.k8s.io")
    assert "api-approved.kubernetes.io" in refused(cay, shadow)
    shadow["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, an attack"}
    made = cay.api("POST", CRDS, shadow)
    assert condition(made, "NamesAccepted")["status"] == "False" and condition(made, "Established")["status"] == "False"
    kinds = cay.api("GET", "/apis/discovery.k8s.io/v1")["resources"]
    assert [k["name"] for k in kinds] == ["endpointslices"] and cay.api("GET", "/apis/discovery.k8s.io/v1/endpointslices")["items"] is not None
    remove(cay, "endpointslices.discovery.k8s.io")
    assert cay.api("GET", "/apis/discovery.k8s.io/v1/endpointslices")["kind"] == "EndpointSliceList"
    with pytest.raises(ApiError) as e:
        cay.api("POST", CRDS, crd("sandboxes", "Sandbox", "agents.x-k8s.io"))
    assert e.value.code == 409


def test_there_may_be_a_thousand_definitions_and_no_more(fresh):
    cay = fresh()
    refusals = 0
    for i in range(1000):
        status, body, _ = answer(cay, "POST", CRDS, crd(f"many{i}", f"Many{i}", f"g{i % 50}.example.com"))
        assert status in (201, 403), body
        refusals += status == 403
    assert refusals == len(OURS)
    assert "delete some first" in body["message"]
    groups = cay.kubectl("api-resources", "-o", "name").stdout.splitlines()
    assert sum(".example.com" in g for g in groups) == 1000 - refusals
    assert json.loads(cay.kubectl("get", "--raw", "/openapi/v3").stdout)["paths"]["apis/g0.example.com/v1"]
    cay.stop()
    cay.start()
    assert cay.api("POST", "/apis/g0.example.com/v1/namespaces/default/many0",
                   {"apiVersion": "g0.example.com/v1", "kind": "Many0", "metadata": {"name": "x"}, "spec": {"color": "red"}})
