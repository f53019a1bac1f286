# SPDX-License-Identifier: Apache-2.0
"""Tables and metadata alone, of every kind."""
from shapes import (ACCOUNT, BINDING, CLUSTER_BINDING, CONFIG, ENDPOINTS, EVENT, KINDS, LEASE, NAMESPACE, NEW_EVENT, NODE, POD, POLICY, ROLE, SECRET, SERVICE, SLICE,
                    STILL, TABLE, TEMPLATE, delete, get, patch, post)

PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
# Age is as long as the recording took; what runs has cells of its own.
LAST = {}


def table_of(k):
    name = "table-" + k.plural
    one = f"?fieldSelector=metadata.name%3D{name}"
    # The last cell of each row is an age, except where it is not: those that are compared are named.
    return [
        post("create", k.path, k.object(name), see=["metadata.name"]),
        get("one", k.at(name), accept=TABLE, see=["kind", "apiVersion", "columnDefinitions", "rows.0.cells.0", "rows.0.cells.1", "rows.0.object.kind",
                                                  "rows.0.object.metadata.name"]),
        get("list", k.path + one, accept=TABLE, see=["kind", "apiVersion", "columnDefinitions", "rows.0.cells.0", "rows.0.cells.1", "rows.0.object.kind", "rows.1"]),
        get("with objects", k.path + one + "&includeObject=Object", accept=TABLE, see=["rows.0.object.kind", "rows.0.object.apiVersion"]),
        get("without objects", k.path + one + "&includeObject=None", accept=TABLE, see=["rows.0.object"]),
        get("metadata of one", k.at(name), accept=PARTIAL),
        get("metadata of a list", k.path + one, accept=PARTIAL_LIST, drop=["metadata"]),
        delete("delete", k.at(name), see=["kind"]),
    ]


STORIES = {
    **{"table of " + k.id: table_of(k) for k in STILL},
    **{"columns of " + k.id: [get("none", k.path + "?labelSelector=no%3Dsuch", accept=TABLE, drop=["metadata"])] for k in KINDS + [NODE]},
    "cells": [
        post("a secret", SECRET.path, SECRET.object("cells", type="example.com/x", data={"a": "MQ==", "b": "MQ=="})),
        get("of a secret", SECRET.at("cells"), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1", "rows.0.cells.2"]),
        post("a config map", CONFIG.path, CONFIG.object("cells", data={"a": "1"}, binaryData={"b": "MQ=="})),
        get("of a config map", CONFIG.at("cells"), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("an account", ACCOUNT.path, ACCOUNT.object("cells", secrets=[{"name": "x"}])),
        get("of an account", ACCOUNT.at("cells"), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("a service", SERVICE.path, SERVICE.object("cells", spec={"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}, {"name": "x", "port": 81, "protocol": "UDP"}]}),
             see=["metadata.name"]),
        get("of a service", SERVICE.at("cells"), accept=TABLE, see=[f"rows.0.cells.{i}" for i in (0, 1, 2, 3, 4, 6)]),
        post("endpoints", ENDPOINTS.path, ENDPOINTS.object("cells")),
        get("of endpoints", ENDPOINTS.at("cells"), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("a slice", SLICE.path, SLICE.object("cells")),
        get("of a slice", SLICE.at("cells"), accept=TABLE, see=[f"rows.0.cells.{i}" for i in range(4)]),
        post("a lease", LEASE.path, LEASE.object("cells")),
        get("of a lease", LEASE.at("cells"), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("a policy", POLICY.path, POLICY.object("cells", spec={"podSelector": {"matchLabels": {"a": "b"}}})),
        get("of a policy", POLICY.at("cells"), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("a role", ROLE.path, ROLE.object("cells")),
        get("of a role", ROLE.at("cells"), accept=TABLE, see=["rows.0.cells.0"]),
        post("a binding", BINDING.path, BINDING.object("cells", subjects=BINDING.body["subjects"] + [{"kind": "ServiceAccount", "name": "sa", "namespace": "$NS"}])),
        get("of a binding", BINDING.at("cells"), accept=TABLE, see=[f"rows.0.cells.{i}" for i in (0, 1, 3, 4, 5)]),
        get("of the namespace", "/api/v1/namespaces/$NS", accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("an event", EVENT.path, EVENT.object("cells")),
        get("of an event", EVENT.at("cells"), accept=TABLE, see=[f"rows.0.cells.{i}" for i in (1, 2, 3, 4, 5, 6, 8, 9)]),
    ],
    "Accept": [get(name, CONFIG.at("cells"), accept=accept, see=["kind", "apiVersion"]) for name, accept in {
        "a table of another group": "application/json;as=Table;v=v1;g=x", "a table of v1beta1": "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "a table of v2": "application/json;as=Table;v=v2;g=meta.k8s.io", "something else": "application/json;as=Other;v=v1;g=meta.k8s.io",
        "a table or JSON": TABLE + ",application/json", "another table or JSON": "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
        "metadata of v1beta1": "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", "a list for one": PARTIAL_LIST,
        "text": "text/plain", "anything": "*/*", "any application": "application/*", "an image": "image/png", "nothing": "", "HTML or anything": "text/html,*/*;q=0.1",
        "quality zero": "application/json;q=0", "as alone": "application/json;as=Table"}.items()]
    + [get("a bad includeObject", CONFIG.path + "?includeObject=X", accept=TABLE), get("a table of nothing", CONFIG.at("not-there"), accept=TABLE),
       get("a text of nothing", CONFIG.at("not-there"), accept="text/plain"), get("text of a list", CONFIG.path, accept="text/plain"),
       get("text of a template", TEMPLATE.path, accept="text/plain"),
       post("a table of what is created", CONFIG.path + "?dryRun=All", CONFIG.object("dry"), accept=TABLE, see=["kind", "rows.0.cells.0"]),
       patch("a table of what is patched", CONFIG.at("cells") + "?dryRun=All", {}, accept=TABLE, see=["kind", "rows.0.cells.0"]),
       delete("a table of what is deleted", CONFIG.at("cells") + "?dryRun=All", accept=TABLE, see=["kind", "status", "rows.0.cells.0"])],
}
