# SPDX-License-Identifier: Apache-2.0
"""The kinds that both servers have, with an object of each, and short ways to write requests."""
import json

from replay import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE  # noqa: F401: for the files of requests/

CORE, RBAC = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
AGENTS, EXTENSIONS = "/apis/agents.x-k8s.io/v1beta1", "/apis/extensions.agents.x-k8s.io/v1beta1"
CONTAINER = {"name": "c", "image": "registry.k8s.io/pause:3.10"}
POD_SPEC = {"containers": [CONTAINER], "automountServiceAccountToken": False}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]


class Kind:
    """A kind: where it is served, its names, and what an object has besides metadata."""

    def __init__(self, base, plural, kind, body=None, namespaced=True, drop=()):
        self.plural, self.kind, self.body, self.drop, self.namespaced = plural, kind, body or {}, drop, namespaced
        self.base, self.version = base, base.removeprefix("/apis/").removeprefix("/api/")
        self.path = f"{base}/namespaces/$NS/{plural}" if namespaced else f"{base}/{plural}"
        self.custom = "agents" in base
        self.id = plural if "events.k8s" not in base else "events.events"

    def at(self, name, sub=""):
        return f"{self.path}/{name}{sub and '/' + sub}"

    def object(self, name, **rest):
        meta = {"name": name, **rest.pop("metadata", {})}
        return {"apiVersion": self.version, "kind": self.kind, "metadata": meta, **self.body, **rest}


CRD_NAME = "things.{}.example.com"
RUNNING = ("status", "spec.nodeName", "metadata.generation", "spec.priority", "spec.preemptionPolicy", "spec.tolerations")  # controllers may have acted already

CONFIG = Kind(CORE, "configmaps", "ConfigMap", {"data": {"a": "1"}})
SECRET = Kind(CORE, "secrets", "Secret", {"data": {"a": "MQ=="}})
ACCOUNT = Kind(CORE, "serviceaccounts", "ServiceAccount")
SERVICE = Kind(CORE, "services", "Service", {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}})
ENDPOINTS = Kind(CORE, "endpoints", "Endpoints", {"subsets": [{"addresses": [{"ip": "10.9.8.7"}], "ports": [{"port": 80}]}]})
CLAIM = Kind(CORE, "persistentvolumeclaims", "PersistentVolumeClaim",
             {"spec": {"storageClassName": "none", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
             drop=("status",))
VOLUME = Kind(CORE, "persistentvolumes", "PersistentVolume",
              {"spec": {"storageClassName": "none", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                        "hostPath": {"path": "/tmp/x"}}}, namespaced=False, drop=("status",))
EVENT = Kind(CORE, "events", "Event", {"involvedObject": {"kind": "Pod", "namespace": "$NS", "name": "p"}, "reason": "R", "message": "m",
                                       "type": "Normal", "source": {"component": "c"}, "count": 1,
                                       "firstTimestamp": "$AGO", "lastTimestamp": "$AGO"})
NAMESPACE = Kind(CORE, "namespaces", "Namespace", namespaced=False)
POD = Kind(CORE, "pods", "Pod", {"spec": POD_SPEC}, drop=RUNNING)
NODE = Kind(CORE, "nodes", "Node", namespaced=False, drop=("status", "spec.taints"))
SLICE = Kind("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice",
             {"addressType": "IPv4", "endpoints": [{"addresses": ["10.9.8.7"]}], "ports": [{"port": 80}]})
POLICY = Kind("/apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", {"spec": {"podSelector": {}}})
LEASE = Kind("/apis/coordination.k8s.io/v1", "leases", "Lease", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})
RUNTIME = Kind("/apis/node.k8s.io/v1", "runtimeclasses", "RuntimeClass", {"handler": "runc"}, namespaced=False)
CLASS = Kind("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", {"provisioner": "example.com/none"}, namespaced=False)
ROLE = Kind(RBAC, "roles", "Role", {"rules": RULES})
CLUSTER_ROLE = Kind(RBAC, "clusterroles", "ClusterRole", {"rules": RULES}, namespaced=False)
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
WHO = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}]
BINDING = Kind(RBAC, "rolebindings", "RoleBinding", {"roleRef": REF, "subjects": WHO})
CLUSTER_BINDING = Kind(RBAC, "clusterrolebindings", "ClusterRoleBinding", {"roleRef": REF, "subjects": WHO}, namespaced=False)
NEW_EVENT = Kind("/apis/events.k8s.io/v1", "events", "Event",
                 {"regarding": {"kind": "Pod", "namespace": "$NS", "name": "p"}, "reason": "R", "note": "m", "type": "Normal", "action": "a",
                  "reportingController": "example.com/c", "reportingInstance": "i", "eventTime": "$AGO"})
TEMPLATE = Kind(EXTENSIONS, "sandboxtemplates", "SandboxTemplate", {"spec": {"podTemplate": {"spec": {"containers": [CONTAINER]}}}})
SANDBOX = Kind(AGENTS, "sandboxes", "Sandbox", {"spec": {"operatingMode": "Suspended",
                                                         "podTemplate": {"spec": {"containers": [CONTAINER]}}}}, drop=("status",))
POOL = Kind(EXTENSIONS, "sandboxwarmpools", "SandboxWarmPool", {"spec": {"replicas": 0, "sandboxTemplateRef": {"name": "none"}}}, drop=("status",))
BOX_CLAIM = Kind(EXTENSIONS, "sandboxclaims", "SandboxClaim", {"spec": {"warmPoolRef": {"name": "none"}}}, drop=("status",))

KINDS = [CONFIG, SECRET, ACCOUNT, SERVICE, ENDPOINTS, CLAIM, VOLUME, EVENT, NAMESPACE, POD, SLICE, POLICY, LEASE, RUNTIME, CLASS,
         ROLE, CLUSTER_ROLE, BINDING, CLUSTER_BINDING, NEW_EVENT, TEMPLATE, SANDBOX, POOL, BOX_CLAIM]
# Those that no controller acts on.
STILL = [k for k in KINDS if not k.drop and k is not NAMESPACE]


def ask(name, method, path, body=None, **rest):
    step = {"name": name, "method": method, "path": path, **rest}
    return step if body is None else dict(step, body=body)


def get(name, path, **rest):
    return ask(name, "GET", path, **rest)


def post(name, path, body, **rest):
    return ask(name, "POST", path, body, **rest)


def put(name, path, body, **rest):
    return ask(name, "PUT", path, body, **rest)


def patch(name, path, body, type=MERGE, **rest):
    return ask(name, "PATCH", path, body, type=type, **rest)


def delete(name, path, body=None, **rest):
    return ask(name, "DELETE", path, body, **rest)


def text(value):
    return json.dumps(value)
