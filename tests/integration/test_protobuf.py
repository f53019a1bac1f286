# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' protobuf, both ways: typed client-go that speaks nothing else, and the published encoders beside ours (goclient/protobuf)."""

import json
import os
import pathlib
import subprocess

import pytest

from cay_local import ROOT, wait_until
from test_go_client import SOURCE, go_program
from test_readers import Deaf

PROGRAM = pathlib.Path(ROOT) / "build" / "goprotobuf"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NEWEST = max(p.stat().st_mtime for p in [SOURCE / "go.mod", *(SOURCE / "protobuf").iterdir()])
BUILT = PROGRAM.exists() and PROGRAM.stat().st_mtime > NEWEST

# Compiling client-go from nothing takes two minutes of a processor.
needs_go = [] if BUILT else [pytest.mark.long]


@pytest.fixture(scope="module")
def program():
    return PROGRAM if BUILT else go_program("./protobuf", PROGRAM)


class TestGo:
    pytestmark = needs_go

    def test_a_full_and_an_empty_object_of_every_kind_are_written_as_go_writes_them(self, program, tmp_path):
        lines = subprocess.run([pathlib.Path(ROOT) / "build/tests/unit/api/full_objects"], capture_output=True, check=True).stdout
        (tmp_path / "full").write_bytes(lines)
        r = subprocess.run([program, "compare", tmp_path / "full"], capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        n = len(lines.splitlines())
        assert r.stdout == f"{n} objects are the same\n" and n >= 70

    @pytest.mark.parametrize("watch_list", ["true", "false"])
    def test_typed_clients_do_everything_in_protobuf(self, program, fresh, watch_list):
        cay = fresh()
        r = subprocess.run([program, "client"], capture_output=True, text=True, timeout=300,
                           env=dict(os.environ, KUBECONFIG=cay.kubeconfig, KUBE_FEATURE_WatchListClient=watch_list))
        assert r.returncode == 0, r.stderr
        assert int(r.stdout.split()[0]) > 300


def ask(cay, path, accept, method="GET", body=None, content_type="application/json"):
    conn = cay.connect()
    conn.request(method, path, body, {k: v for k, v in (("Accept", accept), ("Content-Type", body and content_type)) if v})
    r = conn.getresponse()
    return r.status, r.headers["content-type"], r.read()


def varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return n, at


def members(data):
    """A message as {number: [values]}."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        n, at = varint(data, at)
        if tag & 7 == 2:
            assert at + n <= len(data), "cut off"
            found.setdefault(tag >> 3, []).append(data[at:at + n])
            at += n
        else:
            assert tag & 7 == 0
            found.setdefault(tag >> 3, []).append(n)
    return found


def opened(data):
    """apiVersion, kind and message of an object in its envelope."""
    assert data[:4] == b"k8s\0"
    whole = members(data[4:])
    named = members(whole[1][0])
    assert list(whole) == [1, 2, 3, 4] and whole[3] == whole[4] == [b""]
    return named[1][0].decode(), named[2][0].decode(), members(whole[2][0])


def name_of(message):
    return members(message[1][0])[1][0].decode()


def kind_of(answer):
    """The form and the kind of an answer."""
    status, type_, body = answer
    if type_.startswith(PROTOBUF):
        return "protobuf", opened(body)[1]
    assert type_ == "application/json"
    return "json", json.loads(body)["kind"]


@pytest.fixture(scope="module")
def world(module_instance):
    cay = module_instance()
    for i in range(200):
        cay.api("POST", MAPS, {"metadata": {"name": f"map-{i:03}", "labels": {"many": "yes"}}, "data": {"text": "x" * (400 + i)}})
    return cay


MAPS, BOXES = "/api/v1/namespaces/default/configmaps", "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
ONE = MAPS + "/map-007"
TABLE, PARTIAL, OLD = ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"

# What a kube-apiserver 1.36.3 answered to each; None: 406. The second column is for a built-in kind, the third for a custom resource.
NEGOTIATION = [
    (None, "json", "json"),
    ("*/*", "json", "json"),
    ("*", "json", "json"),  # there, 406 for built-in kinds alone
    ("application/*", "json", "json"),  # there, 406 for built-in kinds alone
    (PROTOBUF, "protobuf", None),
    (PROTOBUF + ",application/json", "protobuf", "json"),
    ("application/json," + PROTOBUF, "json", "json"),
    (f"application/json;q=0.5,{PROTOBUF}", "protobuf", "json"),
    (f"{PROTOBUF};q=0.5,application/json;q=0.8", "json", "json"),
    (f"{PROTOBUF};q=0.5,*/*", "json", "json"),
    (f"*/*,{PROTOBUF}", "protobuf", "json"),
    (f"application/*,{PROTOBUF}", "protobuf", "json"),
    (f"{PROTOBUF};q=0", "protobuf", None),
    (f" {PROTOBUF} ; q=1 ", "protobuf", None),
    ("text/html", None, None),
    ("text/html," + PROTOBUF, "protobuf", None),
    (PROTOBUF + ";stream=watch", "protobuf", None),
    (PROTOBUF + ";stream=other", None, None),
    ("application/json" + TABLE, "json Table", "json Table"),
    (PROTOBUF + TABLE, None, None),
    (PROTOBUF + TABLE + ",application/json", "json", "json"),
    (f"{PROTOBUF}{TABLE},application/json{TABLE}", "json Table", "json Table"),
    ("*/*" + TABLE, "json Table", "json Table"),
    (PROTOBUF + PARTIAL, "protobuf PartialObjectMetadata", "protobuf PartialObjectMetadata"),
    (PROTOBUF + OLD, "protobuf PartialObjectMetadata", "protobuf PartialObjectMetadata"),
    ("application/json" + PARTIAL, "json PartialObjectMetadata", "json PartialObjectMetadata"),
    ("application/json;v=v1", None, None),
    ("application/json;as=PartialObjectMetadata;v=v2;g=meta.k8s.io", None, None),
    (PROTOBUF + ";as=Table;v=v1;g=meta.k8s.io," + PROTOBUF, "protobuf", None),
]


@pytest.mark.parametrize("accept,built_in,custom", NEGOTIATION)
def test_the_accept_header_chooses_as_on_a_kube_apiserver(world, accept, built_in, custom):
    if ask(world, BOXES + "/box", None)[0] == 404:
        world.api("POST", BOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box"}, "spec": {
            "replicas": 0, "podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}})
    for path, kind, want in ((ONE, "ConfigMap", built_in), (BOXES + "/box", "Sandbox", custom)):
        answer = ask(world, path, accept)
        if want is None:
            assert answer[0] == 406 and kind_of(answer)[1] == "Status"
        else:
            assert answer[0] == 200 and list(kind_of(answer)) == (want if " " in want else f"{want} {kind}").split()


@pytest.mark.parametrize("path,accept,status,form", [
    (MAPS + "/absent", PROTOBUF, 404, "protobuf"),
    (MAPS + "/absent", "application/json", 404, "json"),
    (MAPS + "/absent", "application/json" + TABLE, 404, "json"),
    (MAPS + "/absent", "text/html", 406, "json"),
    (MAPS + "/absent", PROTOBUF + TABLE, 406, "json"),
    (BOXES + "/absent", PROTOBUF, 406, "protobuf"),
    (BOXES + "/absent", PROTOBUF + PARTIAL, 404, "json"),
    (BOXES + "/absent", PROTOBUF + ",application/json", 404, "protobuf"),
])
def test_a_status_comes_in_the_form_that_was_asked_for(world, path, accept, status, form):
    """Also where the answer itself is not there in that form; and in JSON rather than not at all."""
    answer = ask(world, path, accept)
    assert (answer[0], *kind_of(answer)) == (status, form, "Status")


def test_a_status_in_protobuf_says_what_the_one_in_json_says(world):
    message = opened(ask(world, MAPS + "/absent", PROTOBUF)[2])[2]
    assert message[2] == [b"Failure"] and message[3] == [b'configmaps "absent" not found'] and message[4] == [b"NotFound"] and message[6] == [404]


def test_what_cannot_be_shown_is_not_done(world):
    body = json.dumps({"metadata": {"name": "unseen"}})
    assert ask(world, MAPS, "text/html", "POST", body)[0] == 406
    assert ask(world, MAPS + "/unseen", None)[0] == 404
    assert ask(world, ONE, "text/html", "DELETE")[0] == 406
    assert ask(world, ONE, None)[0] == 200


@pytest.mark.parametrize("query", ["", "?limit=150", "?labelSelector=many%3Dyes", "?limit=2", "?labelSelector=many%3Dno"])
def test_a_list_in_protobuf_has_what_the_one_in_json_has(world, query):
    """In one piece, in slices after they were measured, in pages, and empty."""
    status, type_, body = ask(world, MAPS + query, PROTOBUF)
    assert status == 200 and type_ == PROTOBUF
    version, kind, message = opened(body)
    there = json.loads(ask(world, MAPS + query, None)[2])
    assert (version, kind) == ("v1", "ConfigMapList")
    meta = members(message[1][0])
    assert meta[2][0].decode() == there["metadata"]["resourceVersion"] and meta[3][0].decode() == there["metadata"].get("continue", "")
    assert meta.get(4, [None])[0] == there["metadata"].get("remainingItemCount")
    items = [members(m) for m in message.get(2, [])]
    assert [name_of(m) for m in items] == [i["metadata"]["name"] for i in there["items"]]
    assert [members(m[2][0])[2][0].decode() for m in items if 2 in m] == [next(iter(i["data"].values())) for i in there["items"] if "data" in i]


def test_a_list_of_metadata_comes_in_protobuf(world):
    version, kind, message = opened(ask(world, MAPS, PROTOBUF + PARTIAL.replace("Metadata;", "MetadataList;"))[2])
    assert (version, kind) == ("meta.k8s.io/v1", "PartialObjectMetadataList")
    assert [name_of(members(m)) for m in message[2]].count("map-007") == 1 and all(list(members(m)) == [1] for m in message[2])


def frame(r):
    """The next event of a watch: its type, and the envelope of its object."""
    data = r.read(int.from_bytes(r.read(4), "big"))
    event = members(data)
    return event[1][0].decode(), opened(members(event[2][0])[1][0])


def test_a_watch_in_protobuf_comes_in_frames(world):
    conn = world.connect()
    conn.request("GET", MAPS + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=many%3Dyes",
                 headers={"Accept": PROTOBUF + ";stream=watch," + PROTOBUF})
    r = conn.getresponse()
    assert r.status == 200 and r.headers["content-type"] == PROTOBUF + ";stream=watch"
    for i in range(200):
        type_, (version, kind, message) = frame(r)
        assert (type_, version, kind, name_of(message)) == ("ADDED", "v1", "ConfigMap", f"map-{i:03}")
    type_, (version, kind, message) = frame(r)
    meta = members(message[1][0])
    assert (type_, kind, meta[1]) == ("BOOKMARK", "ConfigMap", [b""])
    assert members(meta[12][0]) == {1: [b"k8s.io/initial-events-end"], 2: [b"true"]}
    world.api("POST", MAPS, {"metadata": {"name": "new", "labels": {"many": "yes"}}})
    assert frame(r)[0] == "ADDED"
    world.api("DELETE", MAPS + "/new")
    type_, (version, kind, message) = frame(r)
    assert (type_, name_of(message)) == ("DELETED", "new")


def test_a_watch_from_too_long_ago_ends_with_a_status(world):
    """The error is an event like others."""
    conn = world.connect()
    conn.request("GET", MAPS + "?watch=1&resourceVersion=999999999", headers={"Accept": PROTOBUF})
    r = conn.getresponse()
    assert r.status == 410 and opened(r.read())[1] == "Status"


def test_a_watch_of_metadata_comes_in_protobuf_for_custom_resources(world):
    conn = world.connect()
    conn.request("GET", BOXES + "?watch=1", headers={"Accept": PROTOBUF + PARTIAL})
    r = conn.getresponse()
    assert r.status == 200 and r.headers["content-type"] == PROTOBUF + ";stream=watch"
    world.api("POST", BOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "watched"}, "spec": {
        "replicas": 0, "podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}})
    names = (event for event in iter(lambda: frame(r), None) if name_of(event[1][2]) == "watched")
    type_, (version, kind, message) = next(names)
    assert (type_, version, kind, list(message)) == ("ADDED", "meta.k8s.io/v1", "PartialObjectMetadata", [1])


def events_in_json(answer):
    for line in answer:
        event = json.loads(line)
        yield event["type"], event["object"].get("code")


def events_in_protobuf(answer):
    while True:
        type_, (_, kind, message) = frame(answer)
        yield type_, message[6][0] if kind == "Status" else None


@pytest.mark.parametrize("accept,events", [("application/json", events_in_json), (PROTOBUF, events_in_protobuf)])
def test_a_watch_that_fell_behind_ends_with_an_error_event(world, accept, events):
    """The history of the store holds 8 MiB of changes."""
    start = world.api("GET", MAPS + "?limit=1")["metadata"]["resourceVersion"]
    slow = Deaf(world, f"{MAPS}?watch=1&resourceVersion={start}", accept=accept)
    world.api("POST", MAPS, {"metadata": {"name": "large"}})
    for i in range(60):
        world.api("PUT", MAPS + "/large", {"metadata": {"name": "large"}, "data": {"text": str(i % 10) * 200_000}})
    world.api("DELETE", MAPS + "/large")
    last = next(e for e in events(slow.answer) if e[0] == "ERROR")
    slow.close()
    assert last == ("ERROR", 410)


def config_map(message):
    return b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + bytes([len(message)]) + message


# What a kube-apiserver 1.36.3 answered to each.
@pytest.mark.parametrize("name,body,status", [
    ("unknown number", config_map(b"\x0a\x05\x0a\x03unk\x98\x06\x01\x12\x06\x0a\x01k\x12\x01v"), 201),
    ("unknown group", config_map(b"\x0a\x05\x0a\x03grp\x9b\x06\x08\x01\x9c\x06"), 201),
    ("given twice", config_map(b"\x0a\x05\x0a\x03two\x0a\x05\x22\x03xyz\x12\x06\x0a\x01b\x12\x011\x12\x06\x0a\x01b\x12\x012"), 201),
    ("wrong wire type", config_map(b"\x0a\x05\x0a\x03wwt\x10\x01"), 400),
    ("end of no group", config_map(b"\x24"), 400),
    ("cut off", config_map(b"\x12\x20"), 400),
    ("nothing", b"k8s\0", 400),
    ("no prefix", b"hello", 400),
])
def test_odd_bodies_are_taken_as_a_kube_apiserver_takes_them(world, name, body, status):
    """Also when unknown members are to be refused: in protobuf they are numbers, and skipped."""
    answer = ask(world, MAPS + "?fieldValidation=Strict", None, "POST", body, PROTOBUF)
    assert answer[0] == status, answer
    if status == 201:
        made = json.loads(answer[2])
        assert made.get("data") == {"unk": {"k": "v"}, "grp": None, "two": {"b": "2"}}[made["metadata"]["name"]]
        world.api("DELETE", MAPS + "/" + made["metadata"]["name"])


CRDS, METRICS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/metrics.k8s.io/v1beta1"


def field(number, data):
    """A member of a message: bytes or a message under a number."""
    def length(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + length(n >> 7)
    return length(number << 3 | 2) + length(len(data)) + data


def definition(plural, schema):
    """A CustomResourceDefinition in protobuf; schema is the message of the member `part`."""
    props = field(5, b"object") + field(29, field(1, b"part") + field(2, schema))
    version = field(1, b"v1") + b"\x10\x01\x18\x01" + field(4, field(1, props))
    names = field(1, plural) + field(4, b"Thing" + plural)
    spec = field(1, b"proto.example.com") + field(3, names) + field(4, b"Namespaced") + field(7, version)
    message = field(1, field(1, plural + b".proto.example.com")) + field(2, spec)
    return b"k8s\0" + field(1, field(1, b"apiextensions.k8s.io/v1") + field(2, b"CustomResourceDefinition")) + field(2, message)


@pytest.mark.parametrize("plural,schema,want", [
    (b"opens", field(5, b"object") + field(30, b"\x08\x01"), {"type": "object", "additionalProperties": True}),
    (b"shuts", field(5, b"object") + field(30, b"\x08\x00"), {"type": "object", "additionalProperties": False}),
    (b"texts", field(5, b"object") + field(30, b"\x08\x01" + field(2, field(5, b"string"))), {"type": "object", "additionalProperties": {"type": "string"}}),
    (b"items", field(5, b"array") + field(24, field(1, field(5, b"string"))), {"type": "array", "items": {"type": "string"}}),
    (b"enums", field(5, b"string") + field(20, field(1, b'"a"')) + field(20, b"") + b"\xa8\x02\x01", {"type": "string", "enum": ["a", None], "nullable": True}),
    (b"fixes", field(5, b"number") + field(8, field(1, b"1.5")), {"type": "number", "default": 1.5}),
])
def test_a_definition_is_read_and_shown_in_protobuf(world, plural, schema, want):
    """The types that are one thing or another in JSON have a message of their own."""
    status, type_, body = ask(world, CRDS, PROTOBUF, "POST", definition(plural, schema), PROTOBUF)
    assert status == 201 and type_ == PROTOBUF, body
    name = plural.decode() + ".proto.example.com"
    part = world.api("GET", f"{CRDS}/{name}")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["part"]
    assert part == want
    version, kind, message = opened(ask(world, f"{CRDS}/{name}", PROTOBUF)[2])
    assert (version, kind) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    shown = members(members(members(members(message[2][0])[7][0])[4][0])[1][0])
    shown = members(members(shown[29][0])[2][0])
    sent = members(schema)
    assert {n: shown[n] for n in sent if n != 30} == {n: v for n, v in sent.items() if n != 30} or plural == b"items"
    assert [members(v)[1] for v in shown.get(30, [])] == [members(v)[1] for v in sent.get(30, [])]
    names = [name_of(members(m)) for m in opened(ask(world, CRDS, PROTOBUF)[2])[2][2]]
    assert name in names
    world.api("DELETE", f"{CRDS}/{name}")


def test_a_list_of_schemas_is_refused_in_protobuf_as_in_json(world):
    schema = field(5, b"array") + field(24, field(2, field(5, b"string")))
    tuple_ = {"spec": {"group": "proto.example.com", "scope": "Namespaced", "names": {"plural": "pairs", "kind": "Thingpairs"}, "versions": [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "part": {"type": "array", "items": [{"type": "string"}]}}}}}]}, "metadata": {"name": "pairs.proto.example.com"}}
    in_protobuf = ask(world, CRDS, None, "POST", definition(b"pairs", schema), PROTOBUF)
    in_json = ask(world, CRDS, None, "POST", json.dumps(tuple_))
    assert in_protobuf[0] == in_json[0] >= 400
    assert json.loads(in_protobuf[2])["message"] == json.loads(in_json[2])["message"]


def test_a_watch_of_definitions_comes_in_protobuf(world):
    conn = world.connect()
    conn.request("GET", CRDS + "?watch=1", headers={"Accept": PROTOBUF})
    r = conn.getresponse()
    assert r.status == 200 and r.headers["content-type"] == PROTOBUF + ";stream=watch"
    ask(world, CRDS, None, "POST", definition(b"seens", field(5, b"string")), PROTOBUF)
    seen = next(event for event in iter(lambda: frame(r), None) if name_of(event[1][2]) == "seens.proto.example.com")
    assert seen[1][1] == "CustomResourceDefinition"
    world.api("DELETE", CRDS + "/seens.proto.example.com")


def test_measurements_are_shown_in_protobuf(world):
    wait_until(lambda: world.api("GET", METRICS + "/nodes")["items"])
    version, kind, message = opened(ask(world, METRICS + "/nodes", PROTOBUF)[2])
    assert (version, kind) == ("metrics.k8s.io/v1beta1", "NodeMetricsList")
    there = world.api("GET", METRICS + "/nodes")["items"][0]
    node = members(message[2][0])
    assert name_of(node) == there["metadata"]["name"] and members(node[2][0])[1][0] > 0 and members(node[3][0])[1][0] > 0
    assert {members(e)[1][0].decode() for e in node[4]} == set(there["usage"])
    assert opened(ask(world, f"{METRICS}/nodes/{name_of(node)}", PROTOBUF)[2])[1] == "NodeMetrics"
    assert opened(ask(world, METRICS + "/pods", PROTOBUF)[2])[1] == "PodMetricsList"


def test_custom_resources_are_not_read_from_protobuf(world):
    status, _, body = ask(world, BOXES, None, "POST", b"k8s\0", PROTOBUF)
    assert status == 415, body
