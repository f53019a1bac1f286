# SPDX-License-Identifier: Apache-2.0
"""The small core kinds: ConfigMaps, Secrets, ServiceAccounts, Events, Leases, Namespaces."""
from shapes import ACCOUNT, CONFIG, EVENT, LEASE, NAMESPACE, NEW_EVENT, SECRET, STRATEGIC, delete, get, patch, post, put

TRY = "?dryRun=All"


def tries(k, cases):
    """Creations that leave nothing behind."""
    return [post(name, k.path + TRY, {"metadata": {"name": "t"}, "apiVersion": k.version, "kind": k.kind, **body}) for name, body in cases.items()]


def events(k, cases):
    return [post(name, k.path + TRY, {**k.object("t"), **body}) for name, body in cases.items()]


CERT = {"tls.crt": "MQ==", "tls.key": "MQ=="}
KEYS = ["a", "a.b-c_d", "", ".", "..", "..a", "a/b", "a b", "ä", "A" * 253, "A" * 254]

STORIES = {
    "keys of config maps": [post(f"{i}", CONFIG.path + TRY, CONFIG.object("t", data={key: "1"})) for i, key in enumerate(KEYS)]
    + [post(f"binary {i}", CONFIG.path + TRY, CONFIG.object("t", binaryData={key: "MQ=="})) for i, key in enumerate(KEYS)],
    "config maps": tries(CONFIG, {
        "the same key twice": {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}}, "empty data": {"data": {}, "binaryData": {}}, "empty values": {"data": {"a": ""}, "binaryData": {"b": ""}},
        "immutable": {"immutable": True}, "not immutable": {"immutable": False}, "two bad keys": {"data": {"a b": "1"}, "binaryData": {"c d": "MQ=="}}}),
    "immutable config maps": [
        post("create", CONFIG.path, CONFIG.object("i", immutable=True, binaryData={"b": "MQ=="})),
        patch("data", CONFIG.at("i"), {"data": {"a": "2"}}), patch("no data", CONFIG.at("i"), {"data": None}), patch("binary data", CONFIG.at("i"), {"binaryData": {"b": "Mg=="}}),
        patch("mutable", CONFIG.at("i"), {"immutable": False}), patch("undecided", CONFIG.at("i"), {"immutable": None}), patch("labels", CONFIG.at("i"), {"metadata": {"labels": {"a": "b"}}}),
        patch("all of it", CONFIG.at("i"), {"data": {"a": "2"}, "binaryData": None, "immutable": False}), delete("delete", CONFIG.at("i"), see=["kind"])],
    "keys of secrets": [post(f"{i}", SECRET.path + TRY, SECRET.object("t", data={key: "MQ=="})) for i, key in enumerate(KEYS)]
    + [post(f"text {i}", SECRET.path + TRY, SECRET.object("t", stringData={key: "1"})) for i, key in enumerate(KEYS[:8])],
    "secrets": tries(SECRET, {
        "no type": {}, "another type": {"type": "a/b"}, "a type with a space": {"type": "a b"}, "text and data": {"data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"a": "3"}},
        "empty text": {"stringData": {"a": ""}}, "bad base64": {"data": {"a": "***"}}, "data is text": {"data": "x"}, "a number in text": {"stringData": {"a": 1}},
        "null in data": {"data": {"a": None}}, "TLS": {"type": "kubernetes.io/tls", "data": CERT}, "TLS without a key": {"type": "kubernetes.io/tls", "data": {"tls.crt": "MQ=="}},
        "TLS without data": {"type": "kubernetes.io/tls"}, "docker": {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}},
        "docker without a key": {"type": "kubernetes.io/dockerconfigjson"}, "docker with bad JSON": {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{"}},
        "old docker": {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "e30="}}, "old docker without a key": {"type": "kubernetes.io/dockercfg"},
        "old docker with bad JSON": {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "x"}},
        "basic auth": {"type": "kubernetes.io/basic-auth", "stringData": {"username": "u", "password": "p"}}, "basic auth without both": {"type": "kubernetes.io/basic-auth"},
        "ssh": {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": "x"}}, "ssh without a key": {"type": "kubernetes.io/ssh-auth"},
        "ssh with an empty key": {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}},
        "bootstrap": {"type": "bootstrap.kubernetes.io/token"}, "a token of nobody": {"type": "kubernetes.io/service-account-token"},
        "immutable": {"immutable": True}, "too large": {"data": {"a": "MQ==" * 360000}}}),
    "a secret that changes": [
        post("create", SECRET.path, SECRET.object("c", stringData={"b": "2"})), get("read", SECRET.at("c")),
        patch("type", SECRET.at("c"), {"type": "a/b"}), patch("text", SECRET.at("c"), {"stringData": {"c": "3"}}), put("without a type", SECRET.at("c"), SECRET.object("c")),
        put("with another type", SECRET.at("c"), SECRET.object("c", type="x/y")), patch("no data", SECRET.at("c"), {"data": None}),
        patch("strategic", SECRET.at("c"), {"data": {"d": "NA=="}, "stringData": {"e": "5"}}, STRATEGIC), patch("immutable", SECRET.at("c"), {"immutable": True}),
        patch("data of an immutable one", SECRET.at("c"), {"data": {"d": "MQ=="}}), patch("mutable again", SECRET.at("c"), {"immutable": None}), delete("delete", SECRET.at("c"), see=["kind"])],
    "accounts": tries(ACCOUNT, {
        "plain": {}, "with secrets": {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}]}, "secrets are text": {"secrets": ["a"]}, "no token": {"automountServiceAccountToken": False},
        "token is text": {"automountServiceAccountToken": "no"}, "an empty secret": {"imagePullSecrets": [{}]}})
    + [get("the default one", ACCOUNT.at("default"), see=["metadata.name", "kind"])],
    "events": events(EVENT, {
        "plain": {}, "about another namespace": {"involvedObject": {"kind": "Pod", "namespace": "other", "name": "p"}}, "about a node": {"involvedObject": {"kind": "Node", "name": "n"}},
        "about nothing": {"involvedObject": {}}, "without it": {"involvedObject": None}, "no reason": {"reason": ""}, "another type": {"type": "Other"}, "no type": {"type": None},
        "no times": {"firstTimestamp": None, "lastTimestamp": None}, "no source": {"source": None}, "count is text": {"count": "x"}, "bad time": {"firstTimestamp": "x"},
        "event time": {"eventTime": "2026-01-01T00:00:00.000000Z"}, "a series": {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}},
        "new and whole": {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "a"},
        "new and long": {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "example.com/c", "reportingInstance": "i" * 129, "action": "a" * 129},
        "a long message": {"message": "m" * 1025}, "an unknown version": {"involvedObject": {"kind": "Pod", "namespace": "$NS", "apiVersion": "a/b/c"}}}),
    "newer events": events(NEW_EVENT, {
        "plain": {}, "about another namespace": {"regarding": {"kind": "Pod", "namespace": "other", "name": "p"}}, "about a node": {"regarding": {"kind": "Node", "name": "n"}},
        "no reason": {"reason": None}, "no action": {"action": None}, "no controller": {"reportingController": None}, "a bad controller": {"reportingController": "a b"},
        "no instance": {"reportingInstance": None}, "a long instance": {"reportingInstance": "i" * 129}, "a long action": {"action": "a" * 129}, "a long reason": {"reason": "r" * 129},
        "a long note": {"note": "n" * 1025}, "no type": {"type": None}, "another type": {"type": "Other"}, "no time": {"eventTime": None}, "a bad time": {"eventTime": "x"},
        "a series": {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}, "a short series": {"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}},
        "old times": {"deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"}, "an old count": {"deprecatedCount": 3}, "an old source": {"deprecatedSource": {"component": "c"}}}),
    "an event that changes": [
        post("create", EVENT.path, EVENT.object("c")), patch("count", EVENT.at("c"), {"count": 2}), patch("another object", EVENT.at("c"), {"involvedObject": {"name": "q"}}),
        patch("reason", EVENT.at("c"), {"reason": "S"}), get("the same, newer", NEW_EVENT.at("c")), delete("delete", EVENT.at("c"), see=["kind", "details"]),
        post("create a newer one", NEW_EVENT.path, NEW_EVENT.object("d")), patch("note", NEW_EVENT.at("d"), {"note": "n"}), patch("series", NEW_EVENT.at("d"), {"series": {
            "count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}), get("the same, older", EVENT.at("d")), delete("delete the newer", NEW_EVENT.at("d"), see=["kind", "details"])],
    "leases": tries(LEASE, {
        "plain": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00Z", "leaseTransitions": 1}},
        "no spec": {}, "null": {"spec": None}, "no duration": {"spec": {"leaseDurationSeconds": 0}}, "a negative duration": {"spec": {"leaseDurationSeconds": -1}},
        "negative transitions": {"spec": {"leaseTransitions": -1}}, "duration is text": {"spec": {"leaseDurationSeconds": "x"}}, "a bad time": {"spec": {"renewTime": "x"}},
        "an empty holder": {"spec": {"holderIdentity": ""}}, "a strategy": {"spec": {"strategy": "OldestEmulationVersion"}}, "a bad strategy": {"spec": {"strategy": "x y"}},
        "a preferred holder": {"spec": {"preferredHolder": "b"}}, "both": {"spec": {"preferredHolder": "b", "strategy": "OldestEmulationVersion"}}, "unknown": {"spec": {"more": 1}}}),
    "namespaces": tries(NAMESPACE, {
        "plain": {}, "labels": {"metadata": {"name": "t", "labels": {"a": "b"}}}, "another label of its name": {"metadata": {"name": "t", "labels": {"kubernetes.io/metadata.name": "x"}}},
        "no finalizers": {"spec": {"finalizers": []}},
        "a status": {"status": {"phase": "Terminating"}}, "in a namespace": {"metadata": {"name": "t", "namespace": "x"}}})
    + [patch("its label stays", NAMESPACE.at("$NS"), {"metadata": {"labels": None}}), patch("finalizers", NAMESPACE.at("$NS"), {"metadata": {"finalizers": ["x"]}}),
       put("without labels", NAMESPACE.at("$NS"), NAMESPACE.object("$NS"))],
    "a namespace that goes": [
        post("create", NAMESPACE.path, NAMESPACE.object("$NS-gone", metadata={"finalizers": ["example.com/held"]})),
        delete("delete", NAMESPACE.at("$NS-gone"), see=["kind", "metadata.name", "status.phase", "metadata.finalizers"]),
        post("create in it", "/api/v1/namespaces/$NS-gone/configmaps", CONFIG.object("x")),
        delete("again", NAMESPACE.at("$NS-gone"), see=["kind", "code", "metadata.name", "status.phase"]),
        patch("a new finalizer", NAMESPACE.at("$NS-gone"), {"metadata": {"finalizers": ["example.com/held", "example.com/new"]}}),
        patch("let it go", NAMESPACE.at("$NS-gone"), {"metadata": {"finalizers": None}}, see=["kind"])],
}
