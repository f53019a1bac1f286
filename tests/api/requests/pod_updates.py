# SPDX-License-Identifier: Apache-2.0
"""What may change in a Pod that exists. Its node does not exist, so that nothing but these requests changes it."""

import copy

PODS = "/api/v1/namespaces/$NS/pods"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
SPEC = {
    "nodeName": "elsewhere", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5,
    "containers": [{"name": "c", "image": "i:1", "env": [{"name": "A", "value": "1"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}}],
    "initContainers": [{"name": "i", "image": "j:1"}],
    # With the last two a cluster adds none of its own.
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]
    + [{"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"} for k in ("not-ready", "unreachable")],
}


def create(name, **fields):
    spec = {k: v for k, v in {**copy.deepcopy(SPEC), **fields}.items() if v is not None}
    return {"name": "create", "method": "POST", "path": PODS, "see": ["spec.containers"],
            "body": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}}


def remove(name):
    return {"name": "delete", "method": "DELETE", "path": f"{PODS}/{name}", "body": {"gracePeriodSeconds": 0}, "see": ["kind"]}


def patch(name, what, *ops, see=("spec.containers",), sub=""):
    return {"name": what, "method": "PATCH", "path": f"{PODS}/{name}{sub}?dryRun=All", "type": JSON_PATCH, "see": list(see),
            "body": [{"op": op, "path": path, **({"value": value[0]} if value else {})} for op, path, *value in ops]}


def spec(name, *rows, see=("spec.containers",)):
    """Of each row a patch that adds (or replaces) one field of the spec."""
    return [patch(name, what, ("add", f"/spec/{path}", value), see=see) for what, path, value in rows]


def story(name, *steps, **fields):
    return [create(name, **fields), *(s for step in steps for s in (step if isinstance(step, list) else [step])), remove(name)]


def status(name, *rows):
    return [{"name": what, "method": "PATCH", "path": f"{PODS}/{name}/status?dryRun=All", "type": STRATEGIC, "body": {"status": s}, "see": [see]}
            for what, s, see in rows]


def ephemeral(name, *rows):
    return [{"name": what, "method": "PATCH", "path": f"{PODS}/{name}/ephemeralcontainers?dryRun=All", "type": STRATEGIC,
             "see": ["spec.ephemeralContainers"], "body": {"spec": {"ephemeralContainers": [{"name": "e", "image": "x:1", **c}]}}} for what, c in rows]


def resize(name, *rows):
    return [{"name": what, "method": "PATCH", "path": f"{PODS}/{name}/resize?dryRun=All", "type": STRATEGIC, "see": ["spec.containers"],
             "body": {"spec": s}} for what, s in rows]


def resources(**fields):
    return {"containers": [{"name": "c", "resources": fields}]}


STORIES = {
    "allowed": story(
        "allowed",
        spec("allowed", ("image", "containers/0/image", "i:2"), ("init image", "initContainers/0/image", "j:2"), ("deadline", "activeDeadlineSeconds", 9),
             ("nothing", "dnsPolicy", "ClusterFirst")),
        spec("allowed", ("more tolerations", "tolerations/-", {"key": "b", "operator": "Exists"}),
             ("seconds of a toleration", "tolerations/0/tolerationSeconds", 7), see=["spec.dnsPolicy"]),
        patch("allowed", "labels", ("add", "/metadata/labels", {"a": "b"}), see=["metadata.labels"]),
    ),
    "images": story(
        "images",
        spec("images", ("empty", "containers/0/image", ""), ("leading space", "containers/0/image", " i"), ("trailing space of init", "initContainers/0/image", "j "),
             ("same", "containers/0/image", "i:1")),
    ),
    "other fields": story(
        "other",
        spec("other", ("other field: env", "containers/0/env/0/value", "2"), ("other field: command", "containers/0/command", ["x"]),
             ("other field: restart policy", "restartPolicy", "Never"), ("other field: node", "nodeName", "n2"), ("other field: grace", "terminationGracePeriodSeconds", 6),
             ("other field: service account", "serviceAccountName", "other"), ("other field: volumes", "volumes", [{"name": "v", "emptyDir": {}}]),
             ("other field: host network", "hostNetwork", True), ("other field: resources", "containers/0/resources/limits/cpu", "300m"),
             ("other field: host name", "hostname", "h"), ("other field: node selector", "nodeSelector", {"a": "b"}),
             ("other field: pull policy", "containers/0/imagePullPolicy", "Always")),
    ),
    "containers": story(
        "containers",
        spec("containers", ("add", "containers/-", {"name": "d", "image": "d"}), ("add init", "initContainers/-", {"name": "d", "image": "d"}),
             ("add a bad one", "containers/-", {"name": "D", "image": ""}), ("ephemeral", "ephemeralContainers", [{"name": "e", "image": "e"}])),
        patch("containers", "remove init", ("remove", "/spec/initContainers")),
    ),
    "deadline": story(
        "deadline",
        spec("deadline", ("shorter", "activeDeadlineSeconds", 5), ("longer", "activeDeadlineSeconds", 20), ("zero", "activeDeadlineSeconds", 0),
             ("negative", "activeDeadlineSeconds", -1), ("too large", "activeDeadlineSeconds", 1 << 40)),
        patch("deadline", "removed", ("remove", "/spec/activeDeadlineSeconds")),
        activeDeadlineSeconds=10,
    ),
    "tolerations": story(
        "tolerations",
        spec("tolerations", ("none", "tolerations", []), ("key", "tolerations/0/key", "b"), ("effect", "tolerations/0/effect", "NoSchedule"),
             ("bad one", "tolerations/-", {"key": "a b"}), ("operator", "tolerations/-", {"key": "a", "operator": "x"})),
    ),
    "gates": story(
        "gates",
        spec("gates", ("none", "schedulingGates", []), ("fewer", "schedulingGates", [{"name": "a/b"}]), ("other", "schedulingGates", [{"name": "a/d"}]),
             ("more", "schedulingGates/-", {"name": "a/e"}), ("selector", "nodeSelector/b", "c"), ("selector changed", "nodeSelector/a", "c"),
             ("affinity", "affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                 "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}})),
        patch("gates", "selector gone", ("remove", "/spec/nodeSelector")),
        nodeName=None, schedulingGates=[{"name": "a/b"}, {"name": "a/c"}], nodeSelector={"a": "b"},
    ),
    "affinity of a gated Pod": story(
        "gated",
        spec("gated", ("more expressions", "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/-",
                       {"key": "b", "operator": "Exists"}),
             ("other expression", "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0/key", "c"),
             ("more terms", "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/-",
              {"matchExpressions": [{"key": "b", "operator": "Exists"}]})),
        nodeName=None, schedulingGates=[{"name": "a/b"}],
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
    ),
    "status": story(
        "status",
        status("status", ("phase", {"phase": "Running"}, "status.phase"), ("message", {"message": "m", "reason": "r"}, "status.message"),
               ("condition", {"conditions": [{"type": "Mine", "status": "True"}]}, "status.phase"),
               ("quality", {"qosClass": "Guaranteed"}, "status.phase"), ("addresses", {"podIPs": [{"ip": "1.2.3.4"}]}, "status.phase"),
               ("bad address", {"podIPs": [{"ip": "1.2.3"}]}, "status.phase"), ("bad host address", {"hostIP": "x", "hostIPs": [{"ip": "x"}]}, "status.phase"),
               ("host addresses", {"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]}, "status.phase"),
               ("nominated", {"nominatedNodeName": "N"}, "status.phase")),
        {"name": "spec is left alone", "method": "PATCH", "path": f"{PODS}/status/status?dryRun=All", "type": STRATEGIC,
         "body": {"spec": {"hostname": "h"}}, "see": ["spec.hostname"]},
    ),
    "ephemeral containers": story(
        "ephemeral",
        ephemeral("ephemeral", ("good", {}), ("target", {"targetContainerName": "c"}), ("unknown target", {"targetContainerName": "x"}), ("name taken", {"name": "c"}),
                  ("name bad", {"name": "E"}), ("no image", {"image": ""}), ("ports", {"ports": [{"containerPort": 1}]}), ("probe", {"livenessProbe": {"exec": {"command": ["a"]}}}),
                  ("lifecycle", {"lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}), ("resources", {"resources": {"limits": {"cpu": "1"}}}),
                  ("restart policy", {"restartPolicy": "Always"}), ("mount", {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
                  ("security", {"securityContext": {"runAsUser": -1}}), ("policy", {"imagePullPolicy": "x"}), ("env", {"env": [{"name": ""}]})),
        {"name": "of no Pod", "method": "PATCH", "path": f"{PODS}/none/ephemeralcontainers", "type": STRATEGIC, "body": {}},
    ),
    "resize": story(
        "resize",
        resize("resize", ("cpu", resources(limits={"cpu": "300m"})), ("request above limit", resources(requests={"cpu": "1"})),
               ("memory", resources(limits={"memory": "256Mi"}, requests={"memory": "96Mi"})),
               ("class", resources(limits={"cpu": "100m", "memory": "64Mi"})),
               ("negative", resources(limits={"cpu": "-1"})), ("unknown", resources(limits={"gpu": "1"})),
               ("limit removed", resources(limits={"cpu": None})), ("request removed", resources(requests={"memory": None})),
               ("oddly written", resources(limits={"cpu": "0.3"}))),
        nodeName=None, schedulingGates=[{"name": "a/b"}],
    ),
}
