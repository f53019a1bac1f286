# SPDX-License-Identifier: Apache-2.0
"""Requests about quotas, limit ranges, Pod Security levels and priority classes, in the order in which they are asked.

`record` keeps the answers of a kube-apiserver in answers.json; tests/conformance/test_quota.py expects the same of the server under
test. A step that says "until" is asked again until its answer stays: a controller writes what it looks at.
"""
NAMESPACES = ("q-count", "q-pods", "q-scope", "q-limits", "q-psa", "q-warn", "q-pc")
AGENTS = "/apis/agents.x-k8s.io/v1beta1"
MERGE = "application/merge-patch+json"
STEPS = []


def step(name, method, path, body=None, see=(), **more):
    STEPS.append({"name": name, "method": method, "path": path, **({"body": body} if body is not None else {}),
                  **({"see": list(see)} if see else {}), **more})


def objects(ns, kind):
    return f"/api/v1/namespaces/{ns}/{kind}"


def quota(ns, name, hard, **spec):
    step(f"{ns}: quota {name}", "POST", objects(ns, "resourcequotas"),
         {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}, ("spec",), settles=name)


def used(ns, name, why):
    step(f"{ns}: {name} after {why}", "GET", objects(ns, f"resourcequotas/{name}"), see=("status.used", "status.hard"), until=True)


def config_map(ns, name, **more):
    return dict(method="POST", path=objects(ns, "configmaps"), body={"metadata": {"name": name}}, **more)


def container(name="c", requests=None, limits=None, **more):
    resources = {k: v for k, v in (("requests", requests), ("limits", limits)) if v}
    return {"name": name, "image": "example.com/none:1", **({"resources": resources} if resources else {}), **more}


def pod(name, *containers, meta=None, **spec):
    # No scheduler takes it, so that it stays as it is.
    return {"metadata": {"name": name, **(meta or {})},
            "spec": {"containers": list(containers) or [container()], "schedulerName": "nobody", **spec}}


def create(ns, why, obj, kind="pods", see=(), query=""):
    step(f"{ns}: {why}", "POST", objects(ns, kind) + query, obj, see)


def remove(ns, kind, name):
    step(f"{ns}: delete {kind}/{name}", "DELETE", objects(ns, f"{kind}/{name}") + "?gracePeriodSeconds=0")


# Counts
NS = "q-count"
quota(NS, "bad-name", {"nonsense": "1"})
quota(NS, "bad-value", {"pods": "-1"})
quota(NS, "bad-half", {"pods": "500m"})
quota(NS, "bad-scope", {"pods": "1"}, scopes=["Nonsense"])
quota(NS, "bad-scope-for", {"services": "1"}, scopes=["BestEffort"])
quota(NS, "bad-pair", {"pods": "1"}, scopes=["BestEffort", "NotBestEffort"])
quota(NS, "bad-operator", {"pods": "1"}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Is"}]})
quota(NS, "bad-values", {"pods": "1"}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]})
quota(NS, "bad-exists", {"pods": "1"},
      scopeSelector={"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["x"]}]})
quota(NS, "counts", {"count/leases.coordination.k8s.io": "1", "secrets": "1", "services": "2", "services.nodeports": "1",
                     "services.loadbalancers": "0", "persistentvolumeclaims": "2", "requests.storage": "3Gi", "count/secrets": "5",
                     "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
                     "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1", "count/widgets.example.com": "1"})
used(NS, "counts", "nothing")
create(NS, "secret", {"metadata": {"name": "a"}}, "secrets")
create(NS, "secret too many", {"metadata": {"name": "b"}}, "secrets")
create(NS, "secret too many, only tried", {"metadata": {"name": "b"}}, "secrets", query="?dryRun=All")
create(NS, "secret too many, a name made up", {"metadata": {"generateName": "b-"}}, "secrets")
step(f"{NS}: secret too many, applied", "PATCH", objects(NS, "secrets/c") + "?fieldManager=me",
     {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}}, type="application/apply-patch+yaml")
create(NS, "secret that exists", {"metadata": {"name": "a"}}, "secrets")
create(NS, "secret that is wrong", {"metadata": {"name": "A_"}}, "secrets")
step(f"{NS}: secret changed", "PATCH", objects(NS, "secrets/a"), {"stringData": {"k": "v"}}, type=MERGE)
used(NS, "counts", "a secret")
remove(NS, "secrets", "a")
used(NS, "counts", "no secret")
create(NS, "secret after all", {"metadata": {"name": "b"}}, "secrets")
create(NS, "secret tried without room", {"metadata": {"name": "d"}}, "secrets", query="?dryRun=All")
step(f"{NS}: lease", "POST", f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases", {"metadata": {"name": "a"}})
step(f"{NS}: lease too many", "POST", f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases", {"metadata": {"name": "b"}})


def service(name, ports=1, **spec):
    return {"metadata": {"name": name},
            "spec": {"ports": [{"name": f"p{i}", "port": 80 + i} for i in range(ports)], **spec}}


create(NS, "service with two node ports", service("s", 2, type="NodePort"), "services")
create(NS, "service with a balancer", service("s", 1, type="LoadBalancer"), "services")
create(NS, "service with a node port", service("s", 1, type="NodePort"), "services")
create(NS, "service without", service("t"), "services")
step(f"{NS}: service gets a node port", "PATCH", objects(NS, "services/t"), {"spec": {"type": "NodePort"}}, type=MERGE)
create(NS, "service too many", service("u"), "services")
used(NS, "counts", "services")


def claim(name, size, storage_class=None):
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
                                                 "storageClassName": storage_class or ""}}


create(NS, "claim of a class that is too large", claim("big", "2Gi", "fast"), "persistentvolumeclaims")
create(NS, "claim of a class", claim("a", "512Mi", "fast"), "persistentvolumeclaims")
create(NS, "claim of a class too many", claim("b", "1Mi", "fast"), "persistentvolumeclaims")
create(NS, "claim that is too large", claim("b", "2600Mi"), "persistentvolumeclaims")
create(NS, "claim", claim("b", "2560Mi"), "persistentvolumeclaims")
used(NS, "counts", "claims")
step(f"{NS}: quota with other scopes", "PATCH", objects(NS, "resourcequotas/counts"), {"spec": {"scopes": ["Terminating"]}}, type=MERGE)
step(f"{NS}: quota made smaller", "PATCH", objects(NS, "resourcequotas/counts"), {"spec": {"hard": {"services": "1"}}},
     ("spec.hard",), type=MERGE, settles="counts")
used(NS, "counts", "it was made smaller")
create(NS, "service too many by far", service("v"), "services")
quota(NS, "quotas", {"resourcequotas": "2"})
quota(NS, "third", {"resourcequotas": "2"})
used(NS, "quotas", "it was made")

# What Pods request
NS = "q-pods"
SMALL = {"cpu": "500m", "memory": "64Mi"}
quota(NS, "compute", {"requests.cpu": "2", "requests.memory": "1Gi", "limits.cpu": "4", "limits.memory": "2Gi", "pods": "3"})
create(NS, "pod that says nothing", pod("a", container("x"), container("b")))
create(NS, "pod that says half", pod("a", container("x", {"cpu": "1"}, {"memory": "1Gi"}), container("b", limits={"cpu": "1"}),
                                     initContainers=[container("i", limits=SMALL)]))
create(NS, "pod", pod("a", container(limits=SMALL)))
used(NS, "compute", "a pod")
create(NS, "pod with too much of all", pod("b", container(requests={"cpu": "1600m", "memory": "2Gi"},
                                                          limits={"cpu": "5", "memory": "2.5Gi"})))
create(NS, "pod with too much memory", pod("b", container(requests={"cpu": "0.1", "memory": "1000Mi"}, limits={"cpu": "1", "memory": "1000Mi"})))
create(NS, "pod with a large init container", pod("b", container(limits=SMALL), initContainers=[container("i", limits={"cpu": "1.9", "memory": "1Mi"})]))
create(NS, "pod with a sidecar", pod("b", container(limits=SMALL),
                                     initContainers=[container("i", limits=SMALL, restartPolicy="Always"),
                                                     container("j", limits={"cpu": "250m", "memory": "1Mi"})]))
used(NS, "compute", "a pod with a sidecar")
create(NS, "a third pod", pod("p", container(limits={"cpu": "100m", "memory": "1Mi"})))
create(NS, "pod too many", pod("d", container(limits={"cpu": "1m", "memory": "1"})))
step(f"{NS}: resize to too much", "PATCH", objects(NS, "pods/a/resize"),
     {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}}]}},
     type="application/strategic-merge-patch+json")
step(f"{NS}: resize", "PATCH", objects(NS, "pods/a/resize"),
     {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "600m"}, "limits": {"cpu": "600m"}}}]}},
     type="application/strategic-merge-patch+json")
used(NS, "compute", "a resize")
step(f"{NS}: ephemeral container", "PATCH", objects(NS, "pods/a/ephemeralcontainers"),
     {"spec": {"ephemeralContainers": [{"name": "e", "image": "example.com/none:1"}]}}, type="application/strategic-merge-patch+json")
step(f"{NS}: label", "PATCH", objects(NS, "pods/a"), {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
remove(NS, "pods", "a")
remove(NS, "pods", "b")
used(NS, "compute", "most pods are gone")

# Scopes
NS = "q-scope"
quota(NS, "best-effort", {"pods": "1"}, scopes=["BestEffort"])
quota(NS, "long", {"pods": "1", "requests.cpu": "1"}, scopes=["NotBestEffort", "NotTerminating"])
quota(NS, "short", {"pods": "1"}, scopes=["Terminating"])
quota(NS, "high", {"pods": "0"}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]})
create(NS, "best effort", pod("a"))
create(NS, "best effort too many", pod("b"))
create(NS, "with a request", pod("b", container(requests={"cpu": "1"})))
create(NS, "with a request too many", pod("c", container(requests={"memory": "1Mi"})))
create(NS, "with a deadline", pod("c", container(requests={"memory": "1Mi"}), activeDeadlineSeconds=600))
create(NS, "with a deadline too many", pod("d", container(requests={"memory": "1Mi"}), activeDeadlineSeconds=600))
step(f"{NS}: gets a deadline", "PATCH", objects(NS, "pods/b"), {"spec": {"activeDeadlineSeconds": 60}}, type=MERGE)
create(NS, "critical", pod("d", priorityClassName="system-node-critical"))
for NAME in ("best-effort", "long", "short", "high"):
    used(NS, NAME, "pods")

# LimitRange
NS = "q-limits"


def limit_range(name, *limits, see=("spec",)):
    create(NS, f"limit range {name}", {"metadata": {"name": name}, "spec": {"limits": list(limits)}}, "limitranges", see)


limit_range("bad-type", {"type": "Nonsense"})
limit_range("bad-twice", {"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "2"}})
limit_range("bad-order", {"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}})
limit_range("bad-default", {"type": "Pod", "default": {"cpu": "2"}})
limit_range("bad-request", {"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}})
limit_range("bad-ratio", {"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}})
limit_range("bad-resource", {"type": "Container", "max": {"storage": "1Gi"}})
limit_range("bad-claim", {"type": "PersistentVolumeClaim"})
limit_range("containers", {"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "1", "memory": "256Mi"},
                           "default": {"cpu": "200m"}, "defaultRequest": {"memory": "16Mi"}, "maxLimitRequestRatio": {"cpu": "4"}})
RESOURCES = ("spec.containers.0.resources", "metadata.annotations", "status.qosClass")
create(NS, "pod that says nothing", pod("a", initContainers=[container("i")]), see=RESOURCES + ("spec.initContainers.0.resources",))
create(NS, "pod that says some", pod("b", container(limits={"cpu": "400m"})), see=RESOURCES)
create(NS, "pod that is too small", pod("c", container(requests={"cpu": "10m"}, limits={"cpu": "40m"})))
create(NS, "pod that is too large", pod("c", container(limits={"cpu": "2"})))
create(NS, "pod with too high a ratio", pod("c", container(requests={"cpu": "100m"}, limits={"cpu": "500m"})))
limit_range("pods", {"type": "Pod", "max": {"cpu": "500m"}, "min": {"memory": "1Mi"}})
create(NS, "pod that is too large in all", pod("c", container("x"), container("y"), container("z")))
limit_range("claims", {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
create(NS, "claim that is too small", claim("a", "500Mi"), "persistentvolumeclaims")
create(NS, "claim that is too large", claim("a", "3Gi"), "persistentvolumeclaims")
create(NS, "claim", claim("a", "1Gi"), "persistentvolumeclaims")
step(f"{NS}: resize beyond the limits", "PATCH", objects(NS, "pods/b/resize"),
     {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}},
     type="application/strategic-merge-patch+json")
remove(NS, "limitranges", "containers")

# Pod Security
NS = "q-psa"
POLICY = "pod-security.kubernetes.io/"
SPACE = f"/api/v1/namespaces/{NS}"


def label(why, ns=NS, **labels):
    step(f"{ns}: {why}", "PATCH", f"/api/v1/namespaces/{ns}",
         {"metadata": {"labels": {POLICY + k.replace("_", "-"): v for k, v in labels.items()}}}, ("metadata.labels",), type=MERGE)


def secure(name="c", **more):
    return container(name, securityContext={"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]},
                                            "seccompProfile": {"type": "RuntimeDefault"}, **more})


for NAME in ("old", "old2", "older"):
    create(NS, f"{NAME} while anything goes", pod(NAME, hostNetwork=True, hostPID=NAME == "older"))
label("bad level", enforce="nonsense")
label("bad version", enforce_version="nonsense")
label("baseline, with Pods that are not", enforce="baseline")
create(NS, "host namespaces", pod("a", hostNetwork=True, hostPID=True, hostIPC=True))
create(NS, "host path and port", pod("a", container(ports=[{"containerPort": 80, "hostPort": 80}]),
                                     volumes=[{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "hostPath": {"path": "/y"}}]))
create(NS, "capabilities", pod("a", container("x", securityContext={"capabilities": {"add": ["NET_ADMIN", "CHOWN", "SYS_ADMIN"]}}),
                               container("y", securityContext={"capabilities": {"add": ["NET_RAW"]}})))
create(NS, "sysctl, unconfined, unmasked", pod("a", container(securityContext={"procMount": "Unmasked", "seccompProfile": {"type": "Unconfined"}}),
                                               hostUsers=False, securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}],
                                                                                 "seLinuxOptions": {"type": "spc_t", "user": "u"}}))
create(NS, "apparmor", pod("a", container(securityContext={"appArmorProfile": {"type": "Unconfined"}})))
create(NS, "probe of another host", pod("a", container(livenessProbe={"httpGet": {"port": 80, "host": "10.0.0.1"}})))
create(NS, "a plain one", pod("plain"))
label("restricted", enforce="restricted", enforce_version="latest")
create(NS, "a plain one under restricted", pod("a"))
create(NS, "two containers, one wrong", pod("a", secure("x"), container("y")))
create(NS, "as root", pod("a", secure(runAsUser=0)))
create(NS, "may add one", pod("b", secure(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})))
create(NS, "adds another", pod("a", secure(capabilities={"drop": ["ALL"], "add": ["CHOWN"]})))
create(NS, "a volume of the network", pod("a", secure(), volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]))
create(NS, "all in the Pod", pod("c", container(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}),
                                 securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}))
step(f"{NS}: ephemeral container", "PATCH", objects(NS, "pods/b/ephemeralcontainers"),
     {"spec": {"ephemeralContainers": [{"name": "e", "image": "example.com/none:1"}]}}, type="application/strategic-merge-patch+json")
step(f"{NS}: label of a Pod that would not be let in", "PATCH", objects(NS, "pods/plain"), {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
step(f"{NS}: image of a Pod that would not be let in", "PATCH", objects(NS, "pods/plain"),
     {"spec": {"containers": [{"name": "c", "image": "example.com/none:2"}]}}, type="application/strategic-merge-patch+json")
label("an old version", enforce="restricted", enforce_version="v1.20")
create(NS, "an old version is less strict", pod("a", container(securityContext={"runAsNonRoot": True})))
create(NS, "windows in an old version", pod("w", container(securityContext={"runAsNonRoot": True}), os={"name": "windows"}))
label("of the future", enforce="restricted", enforce_version="v1.99")
create(NS, "from the future", pod("a"))
NS = "q-warn"
label("warnings", NS, warn="restricted", audit="baseline")
create(NS, "a plain one is warned about", pod("a"))
label("a lower level that is enforced", NS, enforce="baseline")
create(NS, "refused without a warning", pod("b", hostNetwork=True))

# PriorityClass
NS = "q-pc"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITY = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")


def priority_class(name, value, **more):
    step(f"class {name}", "POST", CLASSES, {"metadata": {"name": name}, "value": value, **more}, ("value", "preemptionPolicy", "globalDefault"))


step("class of the system", "GET", CLASSES + "/system-node-critical", see=("value", "description", "preemptionPolicy"))
step("class of the system is kept", "DELETE", CLASSES + "/system-cluster-critical")
priority_class("system-mine", 1)
priority_class("too-high", 1000000001)
priority_class("bad-policy", 1, preemptionPolicy="Sometimes")
priority_class("q-high", 1000, preemptionPolicy="Never")
step("class changes its value", "PATCH", CLASSES + "/q-high", {"value": 1001}, type=MERGE)
step("class changes its policy", "PATCH", CLASSES + "/q-high", {"preemptionPolicy": "PreemptLowerPriority"}, type=MERGE)
create(NS, "no class", pod("a"), see=PRIORITY)
create(NS, "class", pod("b", priorityClassName="q-high"), see=PRIORITY)
create(NS, "class that is not there", pod("c", priorityClassName="nonsense"))
create(NS, "another number", pod("c", priorityClassName="q-high", priority=7))
create(NS, "a number without a class", pod("c", priority=7))
create(NS, "another policy", pod("c", priorityClassName="q-high", preemptionPolicy="PreemptLowerPriority"))
priority_class("q-default", 5, globalDefault=True)
priority_class("q-default2", 6, globalDefault=True)
step("a second default", "PATCH", CLASSES + "/q-high", {"globalDefault": True}, type=MERGE)
step("the default stays so", "PATCH", CLASSES + "/q-default", {"description": "x"}, ("description",), type=MERGE)
create(NS, "the default class", pod("d"), see=PRIORITY)
step(f"{NS}: pod keeps its priority", "PATCH", objects(NS, "pods/b"), {"spec": {"priority": None}}, PRIORITY, type=MERGE)
step("delete the default", "DELETE", CLASSES + "/q-default")
step("delete the other", "DELETE", CLASSES + "/q-high")


def at(value, path):
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value.get(part) if isinstance(value, dict) else None
    return value


def outcome(step, status, body, warnings):
    """What matters of an answer: a failure's reason and message, of an object what the step looks at."""
    out = {"code": status}
    if status >= 400:
        out.update({k: body.get(k, "") for k in ("reason", "message")})
    elif "see" in step:
        out["see"] = {path: at(body, path) for path in step["see"]}
    if warnings:
        out["warnings"] = warnings
    return out
