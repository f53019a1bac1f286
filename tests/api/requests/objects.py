# SPDX-License-Identifier: Apache-2.0
"""Objects of any kind: create, read, change, delete; what metadata may say, and what a body may be."""
from shapes import (CONFIG, CLUSTER_ROLE, KINDS, NAMESPACE, ROLE, SECRET, TEMPLATE, get, patch, post, put, delete, text)

CM = CONFIG.path
LONG = "a" * 254
LABEL = "b" * 64


def config(name, **rest):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **rest}


def meta(**members):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "meta", **members}}


def life(k):
    """What every kind does in the same way."""
    name, one = "life-" + k.plural, {"drop": k.drop} if k.drop else {}
    many = {"drop": [f"items.*.{d}" for d in k.drop] + ["metadata.remainingItemCount"]} if k.drop else {}
    select = "?fieldSelector=metadata.name=" + name
    gone = {"see": ["kind", "metadata.name", "details", "status"]} if not k.drop else {"see": ["kind", "metadata.name", "details"]}
    return [
        post("dry run", k.path + "?dryRun=All", k.object(name), **one),
        get("before", k.at(name)),
        post("create", k.path, k.object(name, metadata={"labels": {"l": "1"}}), **one),
        post("again", k.path, k.object(name)),
        get("read", k.at(name), **one),
        get("list by name", k.path + select, **many),
        get("list by label", k.path + "?labelSelector=l%3D1,l!%3D2", **many),
        patch("label", k.at(name), {"metadata": {"labels": {"l": None, "m": "2"}}}, **one),
        put("update with another name", k.at(name), k.object("other")),
        *([] if k.plural == "pods" else [put("update without a version", k.at(name), k.object(name), **one)]),
        put("update with a stale version", k.at(name), k.object(name, metadata={"resourceVersion": "1"})),
        put("update with another uid", k.at(name), k.object(name, metadata={"uid": "x", "resourceVersion": f"$version:{k.at(name)}"})),
        put("update something absent", k.at("absent"), k.object("absent", metadata={"resourceVersion": "1"})),
        patch("patch something absent", k.at("absent"), {"metadata": {"labels": {"l": "1"}}}),
        delete("delete something absent", k.at("absent")),
        post("a bad label", k.path, k.object("bad", metadata={"labels": {"a b": "c"}})),
        post("a bad name", k.path, k.object("Bad_Name/x")),
        post("no name", k.path, k.object("")),
        post("another kind", k.path, dict(k.object("bad"), kind="Other")),
        post("another version", k.path, dict(k.object("bad"), apiVersion="v9")),
        post("a list for an object", k.path, "[]"),
        delete("dry run of a deletion", k.at(name) + "?dryRun=All", **gone),
        delete("delete", k.at(name) + ("?gracePeriodSeconds=0" if k.plural == "pods" else ""), **gone),
        *([] if k.plural in ("pods", "namespaces", "persistentvolumeclaims", "persistentvolumes") else [get("read what is gone", k.at(name))]),
    ]


STORIES = {
    "life": [
        post("create", CM, config("life", data={"a": "1"})),
        post("again", CM, config("life")),
        get("read", CM + "/life"),
        put("update with a stale version", CM + "/life", meta(name="life", resourceVersion="1")),
        put("update with a version that is no number", CM + "/life", meta(name="life", resourceVersion="x")),
        put("update", CM + "/life", config("life", data={"b": "2"})),
        delete("delete with another uid", CM + "/life", {"preconditions": {"uid": "x"}}),
        delete("delete", CM + "/life", {"preconditions": {"uid": "$uid:" + CM + "/life"}}),
        get("read what is gone", CM + "/life"),
    ],
    **{"life of " + k.id: life(k) for k in KINDS},
    "names": [
        post(f"{i}", CM, config(name)) for i, name in enumerate(
            ["UPPER", "a_b", "-a", "a-", "a..b", ".a", "a.", "a/b", "a%b", ".", "..", "", LONG, "ä", "a b", "a.b-c.d", "0", "1.2.3", "a" * 253])
    ] + [
        post(f"role {i}", ROLE.path, ROLE.object(name)) for i, name in enumerate(["UPPER", "a:b", "a/b", "a%b", ".", "..", "", "system:x y", LONG])
    ] + [
        post(f"namespace {i}", NAMESPACE.path + "?dryRun=All", NAMESPACE.object(name)) for i, name in enumerate(
            ["UPPER", "a.b", "a" * 64, "-a", "0", ""])
    ] + [
        post(f"template {i}", TEMPLATE.path, TEMPLATE.object(name)) for i, name in enumerate(["UPPER", "a..b", LONG, ""])
    ] + [
        post(f"cluster role {i}", CLUSTER_ROLE.path + "?dryRun=All", CLUSTER_ROLE.object(name)) for i, name in enumerate(["Ab:c", "a/b"])
    ] + [get(f"read {i}", CM + "/" + name) for i, name in enumerate(["UPPER", "a%20b", "%2e", "a%2Fb", LONG])],
    "generated names": [
        post("plain", CM, {"metadata": {"generateName": "gen-"}}),
        post("with a long prefix", CM, {"metadata": {"generateName": "g" * 100}}, see=["metadata.generateName"]),
        post("with a name too", CM, {"metadata": {"generateName": "gen-", "name": "given"}}),
        post("empty", CM, {"metadata": {"generateName": ""}}),
        post("no metadata", CM, {"data": {"a": "b"}}),
        post("of a template", TEMPLATE.path, {"metadata": {"generateName": "gen-"}, "apiVersion": TEMPLATE.version, "kind": TEMPLATE.kind,
                                              **TEMPLATE.body}),
    ],
    "labels": [
        post(name, CM, meta(labels=labels)) for name, labels in {
            "key too long": {LABEL: "v"}, "value too long": {"k": LABEL}, "bad value": {"k": "a b"}, "value ends badly": {"k": "a-"},
            "empty key": {"": "v"}, "two slashes": {"a/b/c": "v"}, "bad prefix": {"A_/b": "v"}, "empty prefix": {"/b": "v"},
            "empty name": {"a.b/": "v"}, "prefix too long": {LONG + "/a": "v"},
            "a number": {"k": 1}, "a list": {"k": ["v"]}, "null": {"k": None},
        }.items()] + [
        post("labels are a list", CM, meta(labels=["a"])),
        post("labels are text", CM, meta(labels="a=b")),
        delete("away", CM + "/meta", see=["kind"]),
    ],
    "annotations": [
        post(name, CM, meta(annotations=notes)) for name, notes in {
            "bad key": {"a b": "v"}, "upper case": {"A.B/c": "v"}, "empty key": {"": "v"}, "a number": {"k": 1},
            "too long": {"k": "x" * (256 * 1024)}, "key too long": {LABEL: "v"},
        }.items()] + [delete("away", CM + "/meta", see=["kind"])],
    "owners": [
        post(name, CM + "?dryRun=All", meta(ownerReferences=owners)) for name, owners in {
            "nothing in it": [{}],
            "no uid": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}],
            "no name": [{"apiVersion": "v1", "kind": "Pod", "uid": "u"}],
            "no kind": [{"apiVersion": "v1", "name": "p", "uid": "u"}],
            "no version": [{"kind": "Pod", "name": "p", "uid": "u"}],
            "a bad version": [{"apiVersion": "a/b/c", "kind": "Pod", "name": "p", "uid": "u"}],
            "an event": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}],
            "two controllers": [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"],
            "twice the same": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] * 2,
            "not a list": {"apiVersion": "v1"},
            "a list of text": ["a"],
            "unknown members": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "namespace": "x"}],
        }.items()],
    "finalizers": [
        post("not qualified", CM, meta(finalizers=["x"])),
        post("bad characters", CM, meta(finalizers=["a b/c"])),
        post("empty", CM, meta(finalizers=[""])),
        post("too long", CM, meta(finalizers=["example.com/" + LABEL])),
        post("orphan and foreground", CM, meta(finalizers=["orphan", "foregroundDeletion"])),
        post("twice", CM, meta(name="fin", finalizers=["example.com/a", "example.com/a"])),
        put("another", CM + "/fin", meta(name="fin", finalizers=["example.com/b"])),
        delete("delete", CM + "/fin"),
        delete("again", CM + "/fin"),
        put("one more", CM + "/fin", meta(name="fin", finalizers=["example.com/b", "example.com/c"])),
        patch("none by a patch of labels", CM + "/fin", {"metadata": {"labels": {"a": "b"}}}),
        put("another while it is deleted", CM + "/fin", meta(name="fin", finalizers=["example.com/d"])),
        patch("without", CM + "/fin", {"metadata": {"finalizers": None}}),
        get("gone", CM + "/fin"),
    ],
    "what the server sets": [
        post("create", CM, meta(name="mine", uid="11111111-1111-1111-1111-111111111111", generation=7, creationTimestamp="2020-01-01T00:00:00Z",
                                deletionTimestamp="2020-01-01T00:00:00Z", deletionGracePeriodSeconds=9, selfLink="/x")),
        post("create with a version", CM, meta(name="mine2", resourceVersion="12")),
        post("create with version zero", CM, meta(name="mine3", resourceVersion="0")),
        put("update uid", CM + "/mine", meta(name="mine", uid="11111111-1111-1111-1111-111111111111")),
        put("update times", CM + "/mine", meta(name="mine", creationTimestamp="2020-01-01T00:00:00Z", deletionTimestamp="2020-01-01T00:00:00Z",
                                               deletionGracePeriodSeconds=9, generation=9)),
        patch("patch uid", CM + "/mine", {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}),
        patch("patch name", CM + "/mine", {"metadata": {"name": "other"}}),
        patch("patch namespace", CM + "/mine", {"metadata": {"namespace": "default"}}),
        patch("patch creationTimestamp", CM + "/mine", {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
        patch("patch creationTimestamp away", CM + "/mine", {"metadata": {"creationTimestamp": None}}),
        patch("patch deletionTimestamp", CM + "/mine", {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        patch("patch generation", CM + "/mine", {"metadata": {"generation": 4}}),
        patch("patch generateName", CM + "/mine", {"metadata": {"generateName": "x-"}}),
        patch("patch a stale version", CM + "/mine", {"metadata": {"resourceVersion": "1"}}),
        patch("patch kind", CM + "/mine", {"kind": "Secret"}),
        patch("patch apiVersion", CM + "/mine", {"apiVersion": "v2"}),
        patch("patch the same name", CM + "/mine", {"metadata": {"name": "mine", "namespace": "$NS"}}),
        patch("patch a null name", CM + "/mine", {"metadata": {"name": None}}),
        patch("patch metadata away", CM + "/mine", {"metadata": None}),
        put("update without a name", CM + "/mine", {"apiVersion": "v1", "kind": "ConfigMap"}),
        put("update without metadata.name", CM + "/mine", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        put("update in another namespace", CM + "/mine", meta(name="mine", namespace="default")),
        put("update with version zero", CM + "/mine", meta(name="mine", resourceVersion="0")),
        post("create in another namespace", CM, meta(name="mine4", namespace="default")),
        post("create with a bad time", CM, meta(name="mine5", creationTimestamp="yesterday")),
        post("create with a bad version", CM, meta(name="mine5", resourceVersion="abc")),
        post("managed fields without a manager", CM + "?dryRun=All", meta(name="mine6", managedFields=[{}])),
        post("managed fields with a bad operation", CM + "?dryRun=All", meta(name="mine6", managedFields=[{"manager": "a", "operation": "X"}])),
    ],
    "what a template's metadata may say": [
        post("create", TEMPLATE.path, TEMPLATE.object("mine", metadata={"uid": "x", "generation": 7, "creationTimestamp": "2020-01-01T00:00:00Z",
                                                                        "deletionTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x"})),
        post("with a version", TEMPLATE.path, TEMPLATE.object("mine2", metadata={"resourceVersion": "5"})),
        put("without a version", TEMPLATE.at("mine"), TEMPLATE.object("mine")),
        put("with the version it has", TEMPLATE.at("mine"), TEMPLATE.object("mine", metadata={"resourceVersion": f"$version:{TEMPLATE.at('mine')}"})),
        post("label is a number", TEMPLATE.path, TEMPLATE.object("mine3", metadata={"labels": {"a": 1}})),
        post("labels are a list", TEMPLATE.path, TEMPLATE.object("mine3", metadata={"labels": []})),
        post("unknown in metadata", TEMPLATE.path, TEMPLATE.object("mine4", metadata={"more": 1})),
        post("unknown in metadata, strictly", TEMPLATE.path + "?fieldValidation=Strict", TEMPLATE.object("mine5", metadata={"more": 1})),
        post("unknown anywhere", TEMPLATE.path, TEMPLATE.object("mine6", more=1)),
        post("unknown anywhere, strictly", TEMPLATE.path + "?fieldValidation=Strict", TEMPLATE.object("mine7", more=1)),
        patch("unknown by a patch", TEMPLATE.at("mine"), {"spec": {"more": 1}}),
        patch("unknown by a patch, strictly", TEMPLATE.at("mine") + "?fieldValidation=Strict", {"spec": {"more": 1}}),
        post("spec is text", TEMPLATE.path, TEMPLATE.object("mine8", spec="x")),
        post("spec is null", TEMPLATE.path, TEMPLATE.object("mine8", spec=None)),
        post("no spec", TEMPLATE.path, {"apiVersion": TEMPLATE.version, "kind": TEMPLATE.kind, "metadata": {"name": "mine9"}}),
        post("no kind", TEMPLATE.path, {"apiVersion": TEMPLATE.version, "metadata": {"name": "mine9"}, **TEMPLATE.body}),
        post("no version of the API", TEMPLATE.path, {"kind": TEMPLATE.kind, "metadata": {"name": "mine9"}, **TEMPLATE.body}),
    ],
    "bodies": [
        post("empty", CM, ""),
        post("not JSON", CM, "{"),
        post("text", CM, '"x"'),
        post("a number", CM, "1"),
        post("null", CM, "null"),
        post("a list", CM, "[]"),
        post("two", CM, text(config("two")) + text(config("three"))),
        post("trailing text", CM, text(config("trail")) + "x"),
        post("another kind", CM, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
        post("an unknown kind", CM, {"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "x"}}),
        post("another group", CM, {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
        post("a bad group", CM, {"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": {"name": "x"}}),
        post("no kind", CM, {"apiVersion": "v1", "metadata": {"name": "nokind"}}),
        post("no version", CM, {"kind": "ConfigMap", "metadata": {"name": "noversion"}}),
        post("a list of them", CM, {"apiVersion": "v1", "kind": "ConfigMapList", "items": []}),
        post("data is a list", CM, {"metadata": {"name": "x"}, "data": []}),
        post("data is text", CM, {"metadata": {"name": "x"}, "data": "x"}),
        post("a number in data", CM, {"metadata": {"name": "x"}, "data": {"a": 1}}),
        post("true in data", CM, {"metadata": {"name": "x"}, "data": {"a": True}}),
        post("an object in data", CM, {"metadata": {"name": "x"}, "data": {"a": {}}}),
        post("null in data", CM, {"metadata": {"name": "nulls"}, "data": {"a": None}, "binaryData": None, "immutable": None}),
        post("immutable is text", CM, {"metadata": {"name": "x"}, "immutable": "yes"}),
        post("immutable is a number", CM, {"metadata": {"name": "x"}, "immutable": 1}),
        post("name is a number", CM, {"metadata": {"name": 1}}),
        post("metadata is text", CM, {"metadata": "x"}),
        post("metadata is a list", CM, {"metadata": []}),
        post("kind is a number", CM, {"kind": 1, "metadata": {"name": "x"}}),
        post("apiVersion is a number", CM, {"apiVersion": 1, "metadata": {"name": "x"}}),
        post("bad base64", CM, {"metadata": {"name": "x"}, "binaryData": {"a": "***"}}),
        post("bad escape", CM, '{"metadata":{"name":"a\\q"}}'),
        post("a lone surrogate", CM, '{"metadata":{"name":"lone"},"data":{"a":"\\ud800"}}'),
        post("a tab in text", CM, '{"metadata":{"name":"tab"},"data":{"a":"\t"}}'),
        post("a comment", CM, '{/*x*/"metadata":{"name":"x"}}'),
        post("a trailing comma", CM, '{"metadata":{"name":"x"},}'),
        post("a member without quotes", CM, '{metadata:{"name":"x"}}'),
        post("other case", CM, '{"Metadata":{"Name":"case"},"Data":{"a":"b"}}'),
        post("twice the same", CM, '{"metadata":{"name":"dup"},"data":{"a":"1","a":"2"},"data":{"b":"3"}}'),
        post("twice the same, strictly", CM + "?fieldValidation=Strict", '{"metadata":{"name":"dup2"},"data":{"a":"1","a":"2"},"data":{"b":"3"}}'),
        post("twice the same, ignored", CM + "?fieldValidation=Ignore", '{"metadata":{"name":"dup3"},"data":{"a":"1","a":"2"},"data":{"b":"3"}}'),
        post("unknown", CM, {"metadata": {"name": "unk", "x": 1}, "y": {"z": 1}}),
        post("unknown, strictly", CM + "?fieldValidation=Strict", {"metadata": {"name": "unk2", "x": 1}, "y": {"z": 1}}),
        post("unknown, ignored", CM + "?fieldValidation=Ignore", {"metadata": {"name": "unk3", "x": 1}, "y": {"z": 1}}),
        put("unknown in an update, strictly", CM + "/unk?fieldValidation=Strict", {"metadata": {"name": "unk"}, "y": 1}),
        post("large", CM, {"metadata": {"name": "large"}, "data": {"a": "x" * (1024 * 1024 + 1)}}),
        post("too large", CM, {"metadata": {"name": "large"}, "data": {"a": "x" * (3 * 1024 * 1024 + 1024)}}),
        post("YAML", CM, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: b}\n", type="application/yaml"),
        post("bad YAML", CM, "a: b: c\n", type="application/yaml"),
        post("YAML with a tab", CM, "a:\n\tb: c\n", type="application/yaml"),
        post("plain text", CM, "x", type="text/plain"),
        post("no type", CM, text(config("notype")), type=None),
        post("a bad type", CM, text(config("badtype")), type="x"),
        post("a charset", CM, text(config("charset")), type="application/json; charset=utf-8"),
        put("another type in an update", CM + "/unk", "x", type="text/xml"),
        post("of a secret as a form", SECRET.path, "a=b", type="application/x-www-form-urlencoded"),
    ],
    "places": [
        post("an absent namespace", "/api/v1/namespaces/absent/configmaps", config("x")),
        post("in no namespace", "/api/v1/configmaps", config("x")),
        put("a collection", CM, config("x")),
        patch("patch of a collection", CM, {}),
        post("one object", CM + "/life", config("life")),
        get("an absent namespace's list", "/api/v1/namespaces/absent/configmaps", drop=["metadata"]),
        get("an absent object", "/api/v1/namespaces/absent/configmaps/x"),
        get("one in no namespace", "/api/v1/configmaps/x"),
        delete("all in no namespace", "/api/v1/configmaps"),
        get("a namespaced path of a cluster's kind", "/api/v1/namespaces/$NS/nodes"),
        get("a namespace in a namespace", "/api/v1/namespaces/$NS/namespaces"),
    ],
}
