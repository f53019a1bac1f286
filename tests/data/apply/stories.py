# SPDX-License-Identifier: Apache-2.0
"""Requests about ownership, in stories: each begins with objects that do not exist, and its steps follow each other."""
import base64
import http.client
import json
import re
import ssl
import tempfile
import urllib.parse

NAMESPACE = "apply"
APPLY, MERGE, JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
AGENTS = "/apis/agents.x-k8s.io/v1beta1"
EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"


def connection(kubeconfig):
    """A function that asks the server of a kubeconfig: status, body, warnings."""
    import yaml
    config = yaml.safe_load(open(kubeconfig))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context()
    if "certificate-authority" in cluster:
        context.load_verify_locations(cluster["certificate-authority"])
    else:
        context.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    else:
        with tempfile.NamedTemporaryFile() as f:
            f.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
            f.flush()
            context.load_cert_chain(f.name)
    where = urllib.parse.urlparse(cluster["server"])

    def ask(method, path, body=None, kind=JSON, agent="stories/1.0"):
        conn = http.client.HTTPSConnection(where.hostname, where.port, context=context, timeout=30)
        text = body if isinstance(body, (str, type(None))) else json.dumps(body)
        conn.request(method, path, text, {"Content-Type": kind, "User-Agent": agent})
        reply = conn.getresponse()
        data = reply.read()
        conn.close()
        return reply.status, json.loads(data), reply.headers.get_all("Warning") or []
    return ask


def owners(obj):
    """The entries without their times, which are only there or not, and without their order, which is that of the times."""
    entries = [{k: k in m if k == "time" else v for k, v in m.items() if k != "fieldsType"}
               for m in obj.get("metadata", {}).get("managedFields", [])]
    return sorted(entries, key=lambda m: (m["operation"], m["manager"], m.get("subresource", "")))


def answer(ask, step):
    """What matters of the answer to one step."""
    for name in re.findall(r"\$(\w+)", json.dumps(step)):
        status, obj, _ = ask("GET", step["path"].split("?")[0])
        value = obj["metadata"].get(name, "") if status == 200 else ""
        step = json.loads(json.dumps(step).replace("$" + name, value))
    status, obj, warnings = ask(step["method"], step["path"], step.get("body"), step.get("kind", JSON),
                                step.get("agent", "stories/1.0"))
    out = {"code": status, "warnings": warnings} if warnings else {"code": status}
    if obj.get("kind") == "Status":
        details = obj.get("details", {})
        out.update({k: obj[k] for k in ("reason", "message") if k in obj})
        if "causes" in details:
            out["causes"] = details["causes"]
        return out
    out["owners"] = len(owners(obj)) if step.get("count") else owners(obj)
    for part in step.get("see", ("data",)):
        value = obj
        for name in part.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        out[part] = value
    return out


def place(kind, name=None):
    base = {"configmaps": "/api/v1", "pods": "/api/v1", "services": "/api/v1", "secrets": "/api/v1",
            "sandboxes": AGENTS, "sandboxtemplates": EXTENSIONS, "sandboxwarmpools": EXTENSIONS}[kind]
    return f"{base}/namespaces/{NAMESPACE}/{kind}" + (f"/{name}" if name else "")


def obj(kind, name, **rest):
    api, what = {
        "configmaps": ("v1", "ConfigMap"), "pods": ("v1", "Pod"), "services": ("v1", "Service"),
        "sandboxes": ("agents.x-k8s.io/v1beta1", "Sandbox"),
        "sandboxwarmpools": ("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool"),
    }[kind]
    meta = dict({"name": name}, **rest.pop("metadata", {}))
    return dict({"apiVersion": api, "kind": what, "metadata": meta}, **rest)


def apply(kind, name, manager, query="", sub="", see=None, **rest):
    step = {"method": "PATCH", "path": f"{place(kind, name)}{sub}?fieldManager={manager}{query}", "kind": APPLY,
            "body": obj(kind, name, **rest)}
    return dict(step, see=see) if see else step


def create(kind, name, agent="maker/1", see=None, **rest):
    step = {"method": "POST", "path": place(kind), "body": obj(kind, name, **rest), "agent": agent}
    return dict(step, see=see) if see else step


def patch(kind, name, body, how=MERGE, agent="patcher/1", sub="", see=None):
    step = {"method": "PATCH", "path": place(kind, name) + sub, "kind": how, "body": json.dumps(body), "agent": agent}
    return dict(step, see=see) if see else step


def replace(kind, name, agent="putter/1", see=None, **rest):
    step = {"method": "PUT", "path": place(kind, name), "body": obj(kind, name, **rest), "agent": agent}
    return dict(step, see=see) if see else step


def raw(name, body, query="?fieldManager=m", kind="configmaps", how=APPLY):
    return {"method": "PATCH", "path": place(kind, name) + query, "kind": how, "body": body}


def get(kind, name, see=None):
    step = {"method": "GET", "path": place(kind, name)}
    return dict(step, see=see) if see else step


LABELS = ["metadata.labels", "data"]
CONTAINERS = ["spec.containers"]
BOX = ["spec"]


def pod(*containers, **more):
    return dict({"containers": list(containers)}, **more)


def box(*containers, **more):
    return dict({"podTemplate": {"spec": {"containers": list(containers)}}}, **more)


def condition(kind, reason):
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def c(name, image="i", **more):
    return dict({"name": name, "image": image}, **more)


STORIES = {
    "create, apply again, drop": [
        apply("configmaps", "s1", "a", data={"x": "1", "y": "2"}, metadata={"labels": {"l": "1"}}, see=LABELS),
        apply("configmaps", "s1", "a", data={"x": "1", "y": "2"}, metadata={"labels": {"l": "1"}}, see=LABELS),
        apply("configmaps", "s1", "a", data={"x": "3"}, see=LABELS),
        apply("configmaps", "s1", "a", see=LABELS),
        get("configmaps", "s1", see=LABELS),
    ],
    "two appliers": [
        apply("configmaps", "s2", "a", data={"x": "1", "y": "2"}),
        apply("configmaps", "s2", "b", data={"x": "1"}),
        apply("configmaps", "s2", "b", data={"x": "2", "y": "3", "z": "4"}),
        apply("configmaps", "s2", "a", data={"y": "2"}),
        apply("configmaps", "s2", "b", data={"x": "2", "y": "3"}, query="&force=true"),
        apply("configmaps", "s2", "a", data={}),
        apply("configmaps", "s2", "b", data={}),
    ],
    "appliers and updaters": [
        create("configmaps", "s3", data={"x": "1", "y": "1"}, metadata={"labels": {"a": "b"}}, see=LABELS),
        apply("configmaps", "s3", "a", data={"x": "2"}),
        apply("configmaps", "s3", "a", data={"x": "2"}, query="&force=true"),
        patch("configmaps", "s3", {"data": {"x": "3", "z": "1"}}),
        apply("configmaps", "s3", "a", data={"x": "2"}),
        replace("configmaps", "s3", data={"x": "4"}),
        patch("configmaps", "s3", {"data": {"x": "4"}}, agent="idle/1"),
        patch("configmaps", "s3", {"data": {"x": "5"}}, how=STRATEGIC, agent="a b c/1"),
        patch("configmaps", "s3", [{"op": "replace", "path": "/data/x", "value": "6"}], how=JSON_PATCH, agent=""),
    ],
    "resets": [
        apply("configmaps", "s4", "a", data={"x": "1"}),
        patch("configmaps", "s4", {"metadata": {"managedFields": [{}]}}),
        patch("configmaps", "s4", {"data": {"x": "2"}}),
        apply("configmaps", "s4", "a", data={"x": "3"}),
        apply("configmaps", "s4", "a", data={"x": "3"}, query="&force=true"),
        patch("configmaps", "s4", {"metadata": {"managedFields": []}}),
        apply("configmaps", "s4", "a", data={"x": "3"}),
        patch("configmaps", "s4", {"metadata": {"managedFields": None}}),
        patch("configmaps", "s4", {"metadata": {"managedFields": [{"manager": "q", "operation": "Apply", "apiVersion": "v1",
              "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:x": {}}}}]}}),
        patch("configmaps", "s4", {"metadata": {"managedFields": [{"manager": "q", "operation": "Nope"}]}}),
        apply("configmaps", "s4", "q", data={}),
    ],
    "options": [
        raw("s5", obj("configmaps", "s5", data={"x": "1"}), query=""),
        raw("s5", obj("configmaps", "s5", data={"x": "1"}), query="?fieldManager=m&force=maybe"),
        raw("s5", obj("configmaps", "s5", data={"x": "1"}), query="?fieldManager=m&dryRun=All"),
        get("configmaps", "s5"),
        raw("s5", obj("configmaps", "s5", data={"x": "1"}), query="?fieldManager=" + "m" * 129),
        raw("s5", obj("configmaps", "s5", data={"x": "1"}), query="?fieldManager=m&fieldValidation=Nope"),
        patch("configmaps", "s5", {}, sub="?force=true"),
    ],
    "bodies": [
        raw("s6", "{"),
        raw("s6", "[1]"),
        raw("s6", ""),
        raw("s6", "{}"),
        raw("s6", obj("configmaps", "s6", data={"x": 1})),
        raw("s6", obj("configmaps", "s6", data=[1])),
        raw("s6", obj("configmaps", "s6", nope=1)),
        raw("s6", obj("configmaps", "s6", nope=1), query="?fieldManager=m&fieldValidation=Strict"),
        raw("s6", obj("configmaps", "other", data={"x": "1"})),
        raw("s6", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}),
        raw("s6", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s6"}}),
        raw("s6", {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "s6"}}),
        raw("s6", obj("configmaps", "s6", metadata={"managedFields": [{}]})),
        raw("s6", obj("configmaps", "s6", metadata={"managedFields": []})),
        raw("s6", obj("configmaps", "s6", metadata={"namespace": "elsewhere"})),
        raw("s6", obj("configmaps", "s6", data={"x": "1"}, metadata={"resourceVersion": "5"})),
        raw("s6", obj("configmaps", "s6", data={"x": "1"}, metadata={"uid": "5"})),
        raw("s6", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: s6\ndata:\n  x: '1'\n  z: |\n    text\n"),
        raw("s6", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s6"},"data":{"x":"1","x":"2"}}'),
        raw("s6", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s6"},"data":{"x":"1","x":"2"}}',
            query="?fieldManager=m&fieldValidation=Strict"),
        raw("s6", obj("configmaps", "s6", data=None)),
        raw("s6", obj("configmaps", "s6", data={"x": "1"}, metadata={"resourceVersion": "5"})),
        raw("s6", obj("configmaps", "s6", data={"x": "1"}, metadata={"resourceVersion": "$resourceVersion"})),
        raw("s6", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}),
    ],
    "pods": [
        create("pods", "s7", spec=pod(c("a", ports=[{"containerPort": 80}], env=[{"name": "X", "value": "1"}]), c("b")),
               metadata={"labels": {"x": "y"}, "finalizers": ["a.b/c"]}, see=["metadata.labels"]),
        apply("pods", "s7", "m", spec=pod(c("b", "j")), see=["metadata.labels"]),
        apply("pods", "s7", "m", spec=pod(c("b", "j")), query="&force=true", see=["metadata.labels"]),
        apply("pods", "s7", "m", spec=pod(c("b", "j"), c("b", "k")), see=["metadata.labels"]),
        apply("pods", "s7", "m", spec=pod({"image": "j"}), see=["metadata.labels"]),
        apply("pods", "s7", "m", metadata={"labels": {"x": "z"}}, query="&force=true", see=["metadata.labels"]),
        patch("pods", "s7", {"metadata": {"finalizers": None}}, see=["metadata.labels"]),
    ],
    "services": [
        apply("services", "s8", "a", spec={"selector": {"x": "y"}, "ports": [{"port": 80, "name": "web"}]},
              see=["spec.ports", "spec.selector"]),
        apply("services", "s8", "b", spec={"ports": [{"port": 80, "protocol": "UDP", "name": "udp"}]}, see=["spec.ports"]),
        apply("services", "s8", "b", spec={"ports": [{"port": 81, "name": "more"}]}, see=["spec.ports"]),
        apply("services", "s8", "b", spec={"selector": {"z": "y"}}, see=["spec.selector"]),
        apply("services", "s8", "b", spec={"selector": {"z": "y"}}, query="&force=true", see=["spec.selector"]),
        apply("services", "s8", "a", spec={"type": "ClusterIP", "ports": [{"port": 80, "name": "web"}]}, see=["spec.ports", "spec.selector"]),
    ],
    "a service that is created": [
        create("services", "s9", spec={"ports": [{"port": 80}]}, see=["spec.ports"]),
    ],
    "the status of a service": [
        apply("services", "s10", "a", spec={"ports": [{"port": 80}]}, status={"conditions": [condition("A", "x")]}, see=["status"]),
        apply("services", "s10", "s", sub="/status", status={"conditions": [condition("A", "x"), condition("B", "y")]},
              see=["status.conditions"]),
        apply("services", "s10", "t", sub="/status", spec={"ports": [{"port": 81}]}, status={"conditions": [condition("A", "z")]},
              see=["status.conditions"]),
        apply("services", "s10", "t", sub="/status", spec={"ports": [{"port": 81}]}, status={"conditions": [condition("A", "z")]},
              query="&force=true", see=["status.conditions", "spec.ports"]),
        patch("services", "s10", {"status": {"conditions": [condition("B", "q")]}}, sub="/status", see=["status.conditions"]),
        apply("services", "none", "t", sub="/status", status={}),
    ],
    "sandboxes": [
        apply("sandboxes", "t1", "a", spec=box(c("a", ports=[{"containerPort": 80}]), c("b")), see=BOX),
        apply("sandboxes", "t1", "b", spec=box(c("b", "j")), see=BOX),
        apply("sandboxes", "t1", "b", spec=box(c("c", env=[{"name": "X", "value": "1"}]), operatingMode="Suspended"), see=BOX),
        apply("sandboxes", "t1", "a", spec=box(c("b"), operatingMode="Running"), see=BOX),
        apply("sandboxes", "t1", "a", spec=box(c("b")), see=BOX),
        apply("sandboxes", "t1", "a", spec=box(c("b"), nope=1), see=BOX),
        apply("sandboxes", "t1", "a", spec=box(c("b", 5)), see=BOX),
        patch("sandboxes", "t1", {"spec": {"operatingMode": "Running"}}, see=BOX),
        apply("sandboxes", "t1", "s", sub="/status", status={"serviceFQDN": "x"}, see=["status.serviceFQDN"]),
    ],
    "a sandbox that is created": [
        create("sandboxes", "t2", spec=box(c("a")), metadata={"annotations": {"x": "y"}}, see=BOX),
        apply("sandboxes", "t2", "a", spec=box(c("a", "j")), see=BOX),
        apply("sandboxes", "t2", "a", spec=box(c("a", "j")), query="&force=true", see=BOX),
    ],
    "scale": [
        apply("sandboxwarmpools", "t3", "a", spec={"replicas": 1, "sandboxTemplateRef": {"name": "t"}}, see=["spec"]),
        patch("sandboxwarmpools", "t3", {"spec": {"replicas": 2}}, sub="/scale", see=["spec"]),
        get("sandboxwarmpools", "t3", see=["spec"]),
        raw("t3", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "t3"}, "spec": {"replicas": 3}},
            kind="sandboxwarmpools", query="/scale?fieldManager=hpa"),
        raw("t3", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "t3"}, "spec": {"replicas": 3}},
            kind="sandboxwarmpools", query="/scale?fieldManager=hpa&force=true"),
        get("sandboxwarmpools", "t3", see=["spec"]),
    ],
    "lists in order": [
        apply("configmaps", "u1", "a", metadata={"finalizers": ["a/a", "b/b", "c/c"]}, see=["metadata.finalizers"]),
        apply("configmaps", "u1", "b", metadata={"finalizers": ["c/c", "x/x", "a/a"]}, see=["metadata.finalizers"]),
        apply("configmaps", "u1", "a", metadata={"finalizers": ["b/b"]}, see=["metadata.finalizers"]),
        apply("configmaps", "u1", "b", metadata={"finalizers": ["y/y", "b/b", "a/a"]}, see=["metadata.finalizers"]),
        apply("configmaps", "u1", "b", metadata={"finalizers": []}, see=["metadata.finalizers"]),
        apply("configmaps", "u1", "a", see=["metadata.finalizers"]),
    ],
    "twelve updaters": [create("configmaps", "u2", data={"x": "0"})] +
    [dict(patch("configmaps", "u2", {"data": {f"k{i:02d}": "1"}}, agent=f"m{i:02d}/1"), count=True) for i in range(12)],
}
