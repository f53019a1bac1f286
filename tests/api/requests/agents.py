# SPDX-License-Identifier: Apache-2.0
"""Sandboxes, templates, claims and warm pools: one odd field in each request, judged by their schemas and nothing else."""

BOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/$NS/sandboxes"
EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/$NS"
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
DROP = ["metadata", "status"]


def create(name, path, kind, spec, **more):
    version = path.split("/apis/")[1].split("/namespaces")[0]
    return {"name": name, "method": "POST", "path": path + "?dryRun=All", "drop": DROP,
            "body": {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **({} if spec is None else {"spec": spec}), **more}}


def boxes(*rows):
    return [create(name, BOXES, "Sandbox", None if spec is None else {"podTemplate": POD, **spec}) for name, spec in rows]


def templates(*rows):
    return [create(name, EXTENSIONS + "/sandboxtemplates", "SandboxTemplate", None if spec is None else {"podTemplate": POD, **spec}) for name, spec in rows]


def claims(*rows):
    return [create(name, EXTENSIONS + "/sandboxclaims", "SandboxClaim", spec) for name, spec in rows]


def pools(*rows):
    return [create(name, EXTENSIONS + "/sandboxwarmpools", "SandboxWarmPool", spec) for name, spec in rows]


def pod(**fields):
    return {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "i"}], **fields}}}


def container(**fields):
    return {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "i", **fields}]}}}


BAD_PODS = (
    ("no containers", {"podTemplate": {"spec": {}}}), ("no spec of a Pod", {"podTemplate": {}}), ("empty containers", {"podTemplate": {"spec": {"containers": []}}}),
    ("container without name", {"podTemplate": {"spec": {"containers": [{"image": "i"}]}}}), ("port as text", container(ports=[{"containerPort": "80"}])),
    ("port missing", container(ports=[{"name": "a"}])), ("port twice", container(ports=[{"containerPort": 1}, {"containerPort": 1}])), ("env without name", container(env=[{"value": "a"}])),
    ("env twice", container(env=[{"name": "A"}, {"name": "A"}])), ("command as text", container(command="x")), ("quantity", container(resources={"limits": {"cpu": "lots"}})),
    ("quantity as number", container(resources={"limits": {"cpu": 1, "memory": 1.5}})), ("grace as text", pod(terminationGracePeriodSeconds="x")), ("host network as text", pod(hostNetwork="yes")),
    ("volume twice", pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v"}])), ("volume without name", pod(volumes=[{"emptyDir": {}}])), ("unknown field", pod(nonsense=1)),
    ("probe port", container(livenessProbe={"httpGet": {"port": 1.5}})), ("mount without path", container(volumeMounts=[{"name": "v"}])),
    ("pod as list", {"podTemplate": []}), ("containers as object", {"podTemplate": {"spec": {"containers": {}}}}), ("bad pull policy", container(imagePullPolicy="x")),
)

STORIES = {
    "sandboxes": boxes(
        ("good", {}), ("no spec", None), *BAD_PODS,
        *((f"mode {m}", {"operatingMode": m}) for m in ("Running", "Suspended", "Sleeping", "", 1)),
        *((f"policy {p}", {"shutdownPolicy": p}) for p in ("Delete", "Retain", "Keep", "")),
        *((f"time {t}", {"shutdownTime": t}) for t in ("2030-01-01T00:00:00Z", "tomorrow", "", 5)),
        ("service as text", {"service": "yes"}), ("service", {"service": True}), ("unknown member", {"nonsense": {}}),
        ("claim templates", {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}),
        ("claim template without spec", {"volumeClaimTemplates": [{"metadata": {"name": "d"}}]}), ("claim templates as object", {"volumeClaimTemplates": {}}),
        ("metadata of the Pod", {"podTemplate": {**POD, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}}), ("labels of the Pod", {"podTemplate": {**POD, "metadata": {"labels": {"a": 1}}}}),
    ) + [create("spec as text", BOXES, "Sandbox", "x"), create("spec as list", BOXES, "Sandbox", [])],
    "templates": templates(
        ("good", {}), ("no spec", None), ("no template", {"podTemplate": None}), *BAD_PODS[:9],
        ("policy", {"networkPolicy": {"ingress": [{"ports": [{"port": 80}]}]}}), ("policy port", {"networkPolicy": {"ingress": [{"ports": [{"port": True}]}]}}),
        ("policy management", {"networkPolicyManagement": "Unmanaged"}), ("policy management wrong", {"networkPolicyManagement": "x"}),
        ("policy as list", {"networkPolicy": []}), ("service", {"service": True}), ("service as number", {"service": 1}), ("injection", {"envVarsInjectionPolicy": "x"}),
        ("injection allowed", {"envVarsInjectionPolicy": "Allowed"}),
    ),
    "claims": claims(
        ("good", {"warmPoolRef": {"name": "p"}}), ("empty", {}), ("no spec", None), ("pool without name", {"warmPoolRef": {}}), ("pool as text", {"warmPoolRef": "p"}), ("pool name as number", {"warmPoolRef": {"name": 1}}),
        ("lifecycle", {"warmPoolRef": {"name": "p"}, "lifecycle": {"shutdownPolicy": "Delete"}}), ("lifecycle policy", {"warmPoolRef": {"name": "p"}, "lifecycle": {"shutdownPolicy": "x"}}),
        ("lifecycle time", {"warmPoolRef": {"name": "p"}, "lifecycle": {"shutdownTime": "x"}}), ("ttl negative", {"warmPoolRef": {"name": "p"}, "lifecycle": {"ttlSecondsAfterFinished": -1}}),
        ("ttl as text", {"warmPoolRef": {"name": "p"}, "lifecycle": {"ttlSecondsAfterFinished": "5"}}), ("ttl", {"warmPoolRef": {"name": "p"}, "lifecycle": {"ttlSecondsAfterFinished": 5}}),
        ("env", {"warmPoolRef": {"name": "p"}, "env": [{"name": "A", "value": "b"}]}), ("env without name", {"warmPoolRef": {"name": "p"}, "env": [{"value": "b"}]}), ("env as object", {"warmPoolRef": {"name": "p"}, "env": {}}),
        ("env twice", {"warmPoolRef": {"name": "p"}, "env": [{"name": "A"}, {"name": "A"}]}),
        ("metadata", {"warmPoolRef": {"name": "p"}, "additionalPodMetadata": {"labels": {"a": "b"}}}), ("metadata labels", {"warmPoolRef": {"name": "p"}, "additionalPodMetadata": {"labels": {"a": 1}}}),
        ("unknown member", {"warmPoolRef": {"name": "p"}, "nonsense": 1}),
    ),
    "pools": pools(
        ("good", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}}), ("no spec", None), ("empty", {}), ("no replicas", {"sandboxTemplateRef": {"name": "t"}}), ("negative", {"replicas": -1, "sandboxTemplateRef": {"name": "t"}}),
        ("replicas as text", {"replicas": "1", "sandboxTemplateRef": {"name": "t"}}), ("fraction", {"replicas": 1.5, "sandboxTemplateRef": {"name": "t"}}), ("large", {"replicas": 1 << 40, "sandboxTemplateRef": {"name": "t"}}),
        ("no template", {"replicas": 1}), ("template without name", {"replicas": 1, "sandboxTemplateRef": {}}), ("template as text", {"replicas": 1, "sandboxTemplateRef": "t"}),
        ("strategy", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}, "updateStrategy": {"type": "OnReplenish"}}), ("strategy wrong", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}, "updateStrategy": {"type": "x"}}),
        ("strategy empty", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}, "updateStrategy": {}}),
    ),
}
