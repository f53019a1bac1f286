# SPDX-License-Identifier: Apache-2.0
"""Server-side apply with unmodified kubectl: ownership, conflicts, and the move from client-side apply."""

import json

import pytest

NS = "applied"
SIMPLE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: %(name)s, namespace: applied, labels: {team: a}}
data: {%(data)s}
"""
SANDBOX = """
apiVersion: agents.x-k8s.io/v1beta1
kind: Sandbox
metadata: {name: %(name)s, namespace: applied}
spec:
  operatingMode: Suspended
  podTemplate:
    spec:
      containers:
      - {name: main, image: %(image)s, ports: [{containerPort: 8080}]}
"""


@pytest.fixture(scope="module", autouse=True)
def namespace(cay):
    cay.kubectl("create", "namespace", NS)


def apply(cay, manifest, *flags, check=True):
    return cay.kubectl("apply", "--server-side", *flags, "-f", "-", stdin=manifest, check=check)


def get(cay, kind, name):
    return json.loads(cay.kubectl("-n", NS, "get", kind, name, "-o", "json", "--show-managed-fields").stdout)


def owners(obj):
    """What each entry owns, by manager, operation and subresource."""
    return {(m["manager"], m["operation"], m.get("subresource", "")): m["fieldsV1"]
            for m in obj["metadata"].get("managedFields", [])}


def test_an_apply_creates_and_owns_what_it_names(cay):
    made = apply(cay, SIMPLE % {"name": "one", "data": "a: '1', b: '2'"})
    assert "serverside-applied" in made.stdout
    obj = get(cay, "configmap", "one")
    assert owners(obj) == {("kubectl", "Apply", ""): {
        "f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:team": {}}}}}
    apply(cay, SIMPLE % {"name": "one", "data": "a: '1', b: '2'"})
    assert get(cay, "configmap", "one")["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]


def test_what_is_not_applied_any_more_goes(cay):
    apply(cay, SIMPLE % {"name": "less", "data": "a: '1', b: '2'"})
    cay.kubectl("-n", NS, "patch", "configmap", "less", "--type=merge", "-p", '{"data":{"c":"3"}}')
    apply(cay, SIMPLE % {"name": "less", "data": "b: '2'"})
    assert get(cay, "configmap", "less")["data"] == {"b": "2", "c": "3"}


def test_a_conflict_is_shown_and_can_be_won(cay):
    apply(cay, SIMPLE % {"name": "two", "data": "a: '1'"})
    lost = apply(cay, SIMPLE % {"name": "two", "data": "a: '2'"}, "--field-manager=other", check=False)
    assert lost.returncode != 0
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in lost.stderr
    assert get(cay, "configmap", "two")["data"] == {"a": "1"}
    apply(cay, SIMPLE % {"name": "two", "data": "a: '2'"}, "--field-manager=other", "--force-conflicts")
    obj = get(cay, "configmap", "two")
    assert obj["data"] == {"a": "2"}
    assert owners(obj)["other", "Apply", ""]["f:data"] == {"f:a": {}}
    assert "f:data" not in owners(obj)["kubectl", "Apply", ""]


def test_other_writes_are_recorded_under_their_program(cay):
    cay.kubectl("create", "-f", "-", stdin=SIMPLE % {"name": "made", "data": "a: '1'"})
    cay.kubectl("-n", NS, "label", "configmap", "made", "x=y")
    cay.kubectl("-n", NS, "annotate", "configmap", "made", "note=1")
    assert owners(get(cay, "configmap", "made")) == {
        ("kubectl-create", "Update", ""): {"f:data": {".": {}, "f:a": {}},
                                           "f:metadata": {"f:labels": {".": {}, "f:team": {}}}},
        ("kubectl-label", "Update", ""): {"f:metadata": {"f:labels": {"f:x": {}}}},
        ("kubectl-annotate", "Update", ""): {"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}},
    }


def test_from_client_side_to_server_side_apply(cay):
    """kubectl hands its own fields over; what the manifest drops afterwards is removed."""
    cay.kubectl("apply", "-f", "-", stdin=SIMPLE % {"name": "moved", "data": "a: '1', b: '2'"})
    assert ("kubectl-client-side-apply", "Update", "") in owners(get(cay, "configmap", "moved"))
    apply(cay, SIMPLE % {"name": "moved", "data": "a: '5'"})
    obj = get(cay, "configmap", "moved")
    assert obj["data"] == {"a": "5"}
    assert ("kubectl-client-side-apply", "Update", "") not in owners(obj)
    assert owners(obj)["kubectl", "Apply", ""]["f:data"] == {"f:a": {}}
    last = json.loads(obj["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert last["data"] == {"a": "5"}
    cay.kubectl("apply", "-f", "-", stdin=SIMPLE % {"name": "moved", "data": "a: '6'"})
    assert get(cay, "configmap", "moved")["data"] == {"a": "6"}


def test_diff_shows_what_an_apply_would_change(cay):
    apply(cay, SIMPLE % {"name": "seen", "data": "a: '1'"})
    before = get(cay, "configmap", "seen")
    same = cay.kubectl("diff", "--server-side", "-f", "-", stdin=SIMPLE % {"name": "seen", "data": "a: '1'"}, check=False)
    assert same.returncode == 0, same.stdout + same.stderr
    other = cay.kubectl("diff", "--server-side", "-f", "-", stdin=SIMPLE % {"name": "seen", "data": "a: '2'"}, check=False)
    assert other.returncode == 1
    assert '-  a: "1"' in other.stdout and '+  a: "2"' in other.stdout
    assert get(cay, "configmap", "seen") == before


def test_a_sandbox_is_applied_and_its_controller_takes_nothing(cay):
    apply(cay, SANDBOX % {"name": "box", "image": "scratch"})
    cay.kubectl("-n", NS, "wait", "sandbox/box", "--for=condition=Ready=False", "--timeout=60s")
    box = get(cay, "sandbox", "box")
    ports = {'k:{"containerPort":8080,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    container = {".": {}, "f:image": {}, "f:name": {}, "f:ports": ports}
    assert owners(box) == {("kubectl", "Apply", ""): {"f:spec": {
        "f:operatingMode": {}, "f:podTemplate": {"f:spec": {"f:containers": {'k:{"name":"main"}': container}}}}}}
    apply(cay, SANDBOX % {"name": "box", "image": "other"})
    assert get(cay, "sandbox", "box")["spec"]["podTemplate"]["spec"]["containers"][0]["image"] == "other"
    lost = apply(cay, SANDBOX % {"name": "box", "image": "third"}, "--field-manager=b", check=False)
    assert '.spec.podTemplate.spec.containers[name="main"].image' in lost.stderr


def test_a_field_that_another_write_took_is_a_conflict(cay):
    apply(cay, SANDBOX % {"name": "taken", "image": "scratch"}, "--field-manager=owner")
    cay.kubectl("-n", NS, "patch", "sandbox", "taken", "--type=merge", "-p", '{"spec":{"operatingMode":"Running"}}')
    lost = apply(cay, SANDBOX % {"name": "taken", "image": "scratch"}, "--field-manager=owner", check=False)
    assert lost.returncode != 0 and ".spec.operatingMode" in lost.stderr
    assert 'conflict with "kubectl-patch" using agents.x-k8s.io/v1beta1' in lost.stderr


def test_ownership_is_forgotten_on_request(cay):
    apply(cay, SIMPLE % {"name": "reset", "data": "a: '1'"})
    cay.kubectl("-n", NS, "patch", "configmap", "reset", "--type=merge", "-p", '{"metadata":{"managedFields":[{}]}}')
    assert "managedFields" not in get(cay, "configmap", "reset")["metadata"]
    lost = apply(cay, SIMPLE % {"name": "reset", "data": "a: '2'"}, "--field-manager=late", check=False)
    assert 'conflict with "before-first-apply" using v1: .data.a' in lost.stderr
    apply(cay, SIMPLE % {"name": "reset", "data": "a: '2'"}, "--field-manager=late", "--force-conflicts")
    assert ("before-first-apply", "Update", "") in owners(get(cay, "configmap", "reset"))


def test_a_dry_run_answers_and_changes_nothing(cay):
    apply(cay, SIMPLE % {"name": "dry", "data": "a: '1'"}, "--dry-run=server")
    assert "NotFound" in cay.kubectl("-n", NS, "get", "configmap", "dry", check=False).stderr


def test_the_python_client_applies_dicts(cay):
    kubernetes = pytest.importorskip("kubernetes")
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(cay.kubeconfig))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "py"}, "data": {"a": "1"}}
    kind = "application/apply-patch+yaml"
    made = core.patch_namespaced_config_map("py", NS, body, field_manager="python", _content_type=kind)
    assert made.data == {"a": "1"} and made.metadata.managed_fields[0].manager == "python"
    body["data"] = {"a": "2"}
    with pytest.raises(kubernetes.client.ApiException) as lost:
        core.patch_namespaced_config_map("py", NS, body, field_manager="other", _content_type=kind)
    assert lost.value.status == 409
    core.patch_namespaced_config_map("py", NS, body, field_manager="other", force=True, _content_type=kind)
    assert core.read_namespaced_config_map("py", NS).data == {"a": "2"}


def test_an_apply_creates_only_for_whoever_may_create(cay):
    cay.kubectl("create", "role", "changes", "-n", NS, "--verb=get,patch", "--resource=configmaps")
    cay.kubectl("create", "rolebinding", "changes", "-n", NS, "--role=changes", "--user=changer")
    r = apply(cay, SIMPLE % {"name": "new", "data": "a: '1'"}, "--as=changer", check=False)
    assert r.returncode and 'User "changer" cannot create resource "configmaps"' in r.stderr
    assert "not found" in cay.kubectl("-n", NS, "get", "configmap", "new", check=False).stderr
    apply(cay, SIMPLE % {"name": "new", "data": "a: '1'"})
    apply(cay, SIMPLE % {"name": "new", "data": "b: '2'"}, "--as=changer", "--field-manager=changer")
    assert get(cay, "configmap", "new")["data"] == {"a": "1", "b": "2"}


BOATS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.sea.example}
spec:
  group: sea.example
  scope: Namespaced
  names: {plural: boats, kind: Boat}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.crew.size, statusReplicasPath: .status.size}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              crew: {type: object, properties: {size: {type: integer}}}
              berth: {type: object, x-kubernetes-map-type: atomic, properties: {pier: {type: string}, side: {type: string}}}
              cargo: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {tons: {type: integer}}}
              sails:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, area: {type: integer}}}
          status: {type: object, properties: {size: {type: integer}}}
"""
BOAT = """
apiVersion: sea.example/v1
kind: Boat
metadata: {name: one, namespace: applied}
spec: {%s}
"""


def test_objects_of_a_users_kind_are_owned_as_its_schema_says(cay):
    cay.kubectl("apply", "-f", "-", stdin=BOATS)
    apply(cay, BOAT % "crew: {size: 2}, sails: [{name: main, area: 10}], berth: {pier: a}, cargo: {tons: 1, of: {fish: 2}}")
    apply(cay, BOAT % "sails: [{name: jib, area: 5}]", "--field-manager", "other")
    assert owners(get(cay, "boat", "one")) == {
        ("kubectl", "Apply", ""): {"f:spec": {
            "f:crew": {"f:size": {}}, "f:berth": {}, "f:cargo": {"f:tons": {}, "f:of": {".": {}, "f:fish": {}}},
            "f:sails": {'k:{"name":"main"}': {".": {}, "f:name": {}, "f:area": {}}}}},
        ("other", "Apply", ""): {"f:spec": {"f:sails": {'k:{"name":"jib"}': {".": {}, "f:name": {}, "f:area": {}}}}}}
    r = apply(cay, BOAT % "sails: [{name: main, area: 11}], berth: {side: port}", "--field-manager", "third", check=False)
    assert r.returncode and '.spec.sails[name="main"].area' in r.stderr and ".spec.berth" in r.stderr
    r = apply(cay, BOAT % "mast: {}", "--field-manager", "third", check=False)
    assert r.returncode and ".spec.mast: field not declared in schema" in r.stderr
    apply(cay, BOAT % "crew: {size: 2}")
    assert get(cay, "boat", "one")["spec"] == {"crew": {"size": 2}, "sails": [{"name": "jib", "area": 5}]}
    cay.kubectl("-n", NS, "scale", "boat/one", "--replicas=7")
    assert get(cay, "boat", "one")["spec"]["crew"] == {"size": 7}
