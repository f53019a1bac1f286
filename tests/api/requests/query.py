# SPDX-License-Identifier: Apache-2.0
"""The parameters of lists, watches, reads and writes."""
from shapes import (EVENT, JSON_PATCH, KINDS, LEASE, NODE, POD, SECRET, SERVICE, TABLE, TEMPLATE, delete, get, patch, post, put)

MANY = LEASE.path
ONE = LEASE.at("q1")
MINE = "labelSelector=set%3Dq&"
SEE = {"see": ["kind", "apiVersion", "items.0.metadata.name", "items.1.metadata.name", "items.2.metadata.name", "metadata.continue",
               "metadata.remainingItemCount"]}
FUTURE = "999999999999"
OPTIONS = ["", "limit=1", "limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=99999999999999999999", "limit=1&limit=2",
           "continue=x", "continue=eyJ2IjoiIn0", "limit=1&continue=x", "resourceVersion=0", "resourceVersion=1", "resourceVersion=x", "resourceVersion=-1",
           "resourceVersion=0&resourceVersionMatch=NotOlderThan", "resourceVersion=0&resourceVersionMatch=Exact",
           "resourceVersion=1&resourceVersionMatch=NotOlderThan", "resourceVersion=x&resourceVersionMatch=Exact",
           "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=x", "resourceVersion=1&resourceVersionMatch=x",
           "resourceVersion=1&resourceVersionMatch=Exact&continue=x", "resourceVersion=1&continue=x", "sendInitialEvents=true", "sendInitialEvents=x",
           "allowWatchBookmarks=true", "allowWatchBookmarks=x", "watch=0", "watch=false", "pretty=x", "pretty=false", "unknown=1",
           "timeoutSeconds=1", "timeoutSeconds=x", "timeoutSeconds=-1", "dryRun=All", "fieldValidation=x", "timeout=1s", "timeout=x", "%zz=1", "a;b",
           "shardSelector=x"]
LABELS = ["a", "!a", "a=b", "a==b", "a!=b", "a in (b)", "a in (b,c)", "a notin (b)", "a in ()", "a in", "a in b", "a=", "a!=", "=b", "a,b", "a,", ",a", "a b",
          "a=b c", "a>1", "a<1", "a>x", "a=(b)", "a in (b", "!", "!!a", "a=b=c", "A_b.c/d=e", "-a=b", "a=-b", "a/b/c=d", "a" * 64, "a=" + "b" * 64,
          "a in (b c)", "in=in", "notin in (in)", "a in (,b)", "()", "a=b,c in (d,e),!f", "set in (q,r),n!=1", "n notin (1,2),set", " set = q ", "n>1", "n<2"]
FIELDS = ["metadata.name=q1", "metadata.name!=q1", "metadata.name==q1", "metadata.namespace=$NS", "metadata.namespace=x", "metadata.name=q1,metadata.name=q2",
          "metadata.name", "metadata.name=", "=q1", "metadata.uid=x", "data.a=1", "a=b", "metadata.name=q1,", ",", "metadata.name=a\\,b", "metadata.name=a\\xb",
          "metadata.name in (a)", "metadata.name>a", "metadata.name=a=b", "metadata.name=q1,x=y"]
# Fields that some kind or other has, asked of all.
SELECTABLE = ["metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.hostNetwork", "status.phase", "status.podIP", "spec.clusterIP",
              "spec.unschedulable", "type", "source", "reportingComponent", "reportingController", "involvedObject.name", "regarding.name", "spec.holderIdentity"]


def quoted(text):
    return "".join(c if c.isalnum() or c in "-._$" else "%%%02x" % ord(c) for c in text)


def three():
    return [post(f"create {n}", MANY, LEASE.object(f"q{n}", metadata={"labels": {"set": "q", "n": str(n)}})) for n in (1, 2, 3)]


WRITES = ["dryRun=x", "dryRun=All&dryRun=All", "dryRun=All&dryRun=x", "dryRun=", "dryRun=true", "fieldValidation=x", "fieldValidation=strict", "fieldValidation=",
          "fieldManager=" + "m" * 129, "fieldManager=a%0Ab", "fieldManager=%C3%A9", "fieldManager=", "pretty=true", "unknown=1", "timeout=1s", "timeout=x",
          "fieldManager=a&fieldManager=b", "timeoutSeconds=x", "limit=x", "force=true", "dryRun=All&fieldValidation=x&fieldManager=%0A"]

WATCHES = ["resourceVersion=x", "resourceVersion=-1", "resourceVersion=1&resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "sendInitialEvents=true",
           "sendInitialEvents=false", "sendInitialEvents=x", "sendInitialEvents=true&resourceVersionMatch=Exact", "timeoutSeconds=x",
           "labelSelector=%3D", "fieldSelector=x", "fieldSelector=data.a%3D1", "continue=x", "limit=x", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
           "resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=x"]

STORIES = {
    "lists": three() + [get(f"{o or 'plain'}", f"{MANY}?{MINE}{o}", **SEE) for o in OPTIONS]
    + [get("a page of two", f"{MANY}?{MINE}limit=2", **SEE), get("from the future", f"{MANY}?resourceVersion={FUTURE}"),
       get("exactly the future", f"{MANY}?resourceVersion={FUTURE}&resourceVersionMatch=Exact"),
       get("not older than the future", f"{MANY}?resourceVersion={FUTURE}&resourceVersionMatch=NotOlderThan"),
       get("a page of what is named", f"{MANY}?fieldSelector=metadata.name%3Dq1&limit=1", **SEE)],
    "labels": three() + [get(f"{i}: {s[:20]}", f"{MANY}?labelSelector={quoted(s)}", **SEE) for i, s in enumerate(LABELS)],
    "fields": three() + [get(f"{i}: {s[:20]}", f"{MANY}?fieldSelector={quoted(s)}", **SEE) for i, s in enumerate(FIELDS)],
    **{"fields of " + k.id: [get(f, f"{k.path}?fieldSelector={f}%3Dx", see=["kind"]) for f in SELECTABLE] for k in KINDS + [NODE]},
    "fields that are set": [
        post("a secret", SECRET.path, SECRET.object("f", type="example.com/t")),
        get("by type", SECRET.path + "?fieldSelector=type%3Dexample.com/t", drop=["metadata"]),
        get("by another type", SECRET.path + "?fieldSelector=type!%3Dexample.com/t,metadata.name%3Df", drop=["metadata"]),
        post("an event", EVENT.path, EVENT.object("f", metadata={"labels": {"set": "f"}})),
        get("by reason", EVENT.path + "?fieldSelector=reason%3DR,involvedObject.name%3Dp&labelSelector=set%3Df", drop=["metadata"]),
        get("by source", EVENT.path + "?fieldSelector=source%3Dc&labelSelector=set%3Df", drop=["metadata"]),
        get("by a component", EVENT.path + "?fieldSelector=reportingComponent%3Dc&labelSelector=set%3Df", drop=["metadata"]),
        post("a service", SERVICE.path, SERVICE.object("f", metadata={"labels": {"set": "f"}})),
        get("by address", SERVICE.path + "?fieldSelector=spec.clusterIP%3DNone&labelSelector=set%3Df", see=["items.0.metadata.name"]),
        get("by kind of service", SERVICE.path + "?fieldSelector=spec.type%3DClusterIP&labelSelector=set%3Df", see=["items.0.metadata.name"]),
        get("phase of a namespace", "/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D$NS", see=["items.0.metadata.name"]),
        get("nodes that are schedulable", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse", see=["kind"]),
        post("a Pod", POD.path + "?dryRun=All", POD.object("f"), see=["metadata.name"]),
    ],
    "creations": [post(o, f"{MANY}?{o}", LEASE.object(f"w{i}")) for i, o in enumerate(WRITES)]
    + [post("of a template: " + o, f"{TEMPLATE.path}?{o}", TEMPLATE.object(f"w{i}")) for i, o in enumerate(WRITES[:8])],
    "updates": three() + [put(o, f"{ONE}?{o}", LEASE.object("q1", metadata={"resourceVersion": f"$version:{ONE}"})) for o in WRITES],
    "patches": three() + [patch(o, f"{ONE}?{o}", {"spec": {"holderIdentity": str(i)}}) for i, o in enumerate(WRITES)]
    + [patch("json: " + o, f"{ONE}?{o}", [], JSON_PATCH) for o in WRITES[:6]],
    "deletions": three() + [delete(o, f"{ONE}?{o}", see=["kind", "status"]) for o in WRITES if "timeout" not in o and o not in ("unknown=1", "pretty=true")],
    "reads": three() + [get(o, f"{ONE}?{o}", see=["metadata.name"]) for o in [
        "resourceVersion=0", "resourceVersion=x", "resourceVersion=1", "resourceVersion=-1", "unknown=1", "pretty=true", "pretty=x", "limit=x", "watch=x",
        "fieldSelector=x", "labelSelector=%3D", "timeoutSeconds=x"]]
    + [get("from the future", ONE + "?resourceVersion=" + FUTURE)],
    "watches": three() + [get(o, f"{MANY}?watch=1&timeoutSeconds=1&{o}") for o in WATCHES] + [
        get("all of them", f"{MANY}?watch=true&timeoutSeconds=1&labelSelector=set%3Dq&resourceVersion=0", see=["0.type", "0.object.metadata.name", "2.type", "3"]),
        get("one by its name", f"{MANY}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dq1", see=["0.type", "0.object.metadata.name", "1"]),
        get("with the first events", f"{MANY}?watch=true&timeoutSeconds=1&{MINE}sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            see=["0.type", "0.object.metadata.name", "3.type", "3.object.kind", "3.object.metadata.annotations"]),
        get("as a table", f"{MANY}?watch=true&timeoutSeconds=1&{MINE}", accept=TABLE, see=["0.type", "0.object.kind", "0.object.columnDefinitions", "1.object.columnDefinitions"]),
        get("a path of old", "/apis/coordination.k8s.io/v1/watch/namespaces/$NS/leases?timeoutSeconds=1&" + MINE, see=["0.type", "0.object.metadata.name"]),
        get("one by a path of old", "/apis/coordination.k8s.io/v1/watch/namespaces/$NS/leases/q1?timeoutSeconds=1", see=["0.type", "0.object.metadata.name"]),
    ],
}
for name in ("labels", "fields", "updates", "patches", "deletions", "reads", "watches"):
    STORIES[name] = [dict(step, see=["metadata.name"]) if step["name"].startswith("create ") else step for step in STORIES[name]]
    STORIES[name].append(delete("away", f"{MANY}?labelSelector=set%3Dq", see=["kind"]))
STORIES["lists"].append(delete("away", f"{MANY}?labelSelector=set%3Dq", see=["kind"]))
