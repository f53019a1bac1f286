# SPDX-License-Identifier: Apache-2.0
"""What the cases share: a namespace with short names for its resources, small objects, and waits for events."""

import datetime
import time
import urllib.parse

from cay_local import ApiError, condition, is_ready

AGENTS = "agents.x-k8s.io"
EXTENSIONS = "extensions.agents.x-k8s.io"
HASH = f"{AGENTS}/sandbox-name-hash"
POOL = f"{AGENTS}/warm-pool-sandbox"
TEMPLATE = f"{AGENTS}/sandbox-template-ref-hash"
TEMPLATE_REF = f"{AGENTS}/sandbox-template-ref"
BLUEPRINT = f"{AGENTS}/sandbox-template-hash"
POD_TEMPLATE = f"{AGENTS}/sandbox-pod-template-hash"
LAUNCH = f"{AGENTS}/launch-type"
CREATED_BY = f"{AGENTS}/created-by"
CLAIM_UID = f"{AGENTS}/claim-uid"
ADOPTABLE = f"{AGENTS}/adoptable"
POD_NAME = f"{AGENTS}/pod-name"
SANDBOX_NAME = f"{AGENTS}/sandbox-name"
PROPAGATED_LABELS = f"{AGENTS}/propagated-labels"
PROPAGATED_ANNOTATIONS = f"{AGENTS}/propagated-annotations"
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"

GROUPS = {
    "sandboxes": f"/apis/{AGENTS}/v1beta1",
    "sandboxtemplates": f"/apis/{EXTENSIONS}/v1beta1",
    "sandboxwarmpools": f"/apis/{EXTENSIONS}/v1beta1",
    "sandboxclaims": f"/apis/{EXTENSIONS}/v1beta1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "events": "/apis/events.k8s.io/v1",
}
KINDS = {
    "sandboxes": "Sandbox", "sandboxtemplates": "SandboxTemplate", "sandboxwarmpools": "SandboxWarmPool",
    "sandboxclaims": "SandboxClaim", "networkpolicies": "NetworkPolicy", "pods": "Pod", "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim", "configmaps": "ConfigMap",
}
WAIT_S = 20


class Space:
    """One namespace of a server."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def path(self, kind, name=None, sub=None):
        path = f"{GROUPS.get(kind, '/api/v1')}/namespaces/{self.name}/{kind}"
        return "/".join(p for p in (path, name, sub) if p)

    def create(self, kind, name, spec=None, **metadata):
        body = {"apiVersion": GROUPS.get(kind, "/api/v1").removeprefix("/apis/").removeprefix("/api/"),
                "kind": KINDS[kind], "metadata": dict(metadata, name=name)}
        if spec is not None:
            body["spec"] = spec
        return self.server.api("POST", self.path(kind), body)

    def get(self, kind, name):
        """The object, or None."""
        try:
            return self.server.api("GET", self.path(kind, name))
        except ApiError as e:
            if e.code != 404:
                raise
            return None

    def list(self, kind, **params):
        return self.server.api("GET", self.path(kind) + "?" + urllib.parse.urlencode(params))["items"]

    def version(self, kind):
        return self.server.api("GET", self.path(kind))["metadata"]["resourceVersion"]

    def patch(self, kind, name, change, sub=None):
        return self.server.api("PATCH", self.path(kind, name, sub), change, "application/merge-patch+json")

    def json_patch(self, kind, name, *steps):
        return self.server.api("PATCH", self.path(kind, name), list(steps), "application/json-patch+json")

    def delete(self, kind, name, **options):
        return self.server.api("DELETE", self.path(kind, name), options or None)

    # -- waits: every one of them is for an event -------------------------------------------------

    def wait(self, kind, name, until, timeout=WAIT_S):
        return self.server.wait(self.path(kind), name, until, timeout)

    def ready(self, kind, name, timeout=WAIT_S):
        return self.wait(kind, name, is_ready, timeout)

    def exists(self, kind, name):
        return self.wait(kind, name, lambda o: o is not None)

    def gone(self, kind, name):
        self.wait(kind, name, lambda o: o is None)

    def reason(self, kind, name, reason, of="Ready"):
        """Waits for the reason of a condition."""
        return self.wait(kind, name, lambda o: (condition(o, of) or {}).get("reason") == reason)

    def seen(self, kind, name):
        """Waits until the controller has reported on the present spec."""
        return self.wait(kind, name, lambda o: o and observed(o) == o["metadata"]["generation"])

    def members(self, kind, until, timeout=WAIT_S, **params):
        """The living objects under a selector once until(list) holds."""
        deadline = time.monotonic() + timeout
        listed = self.server.api("GET", self.path(kind) + "?" + urllib.parse.urlencode(params))
        now = {o["metadata"]["name"]: o for o in listed["items"]}
        version = listed["metadata"]["resourceVersion"]
        if until(alive(now)):
            return alive(now)
        while time.monotonic() < deadline:
            left = max(1, int(deadline - time.monotonic()))
            for what, o in self.server.watch(self.path(kind), version, left, **params):
                if what in ("BOOKMARK", "ERROR"):
                    continue
                version = o["metadata"]["resourceVersion"]
                now.pop(o["metadata"]["name"], None)
                if what != "DELETED":
                    now[o["metadata"]["name"]] = o
                if until(alive(now)):
                    return alive(now)
        raise TimeoutError(f"{self.path(kind)}: {[(n, o.get('status')) for n, o in now.items()]}")

    def history(self, kind, version, until, timeout=WAIT_S):
        """Every (type, object) since a resourceVersion, up to the first for which until(type, object) holds."""
        seen = []
        for what, o in self.server.watch(self.path(kind), version, timeout):
            if what == "BOOKMARK":
                continue
            seen.append((what, o))
            if until(what, o):
                return seen
        raise TimeoutError(f"{self.path(kind)}: {[(w, o['metadata']['name']) for w, o in seen]}")

    def event(self, regarding, reason):
        """The Event with this reason about an object of this name."""
        return event_of(self.members("events", lambda es: event_of(es, regarding, reason)), regarding, reason)

    def events(self, regarding, reason, n=0):
        """All Events with this reason about an object of this name, once there are n: they follow what they tell of."""
        def about(events):
            return [e for e in events if event_of([e], regarding, reason)]
        return about(self.members("events", lambda es: len(about(es)) >= n))

    # -- small objects ------------------------------------------------------------------------------

    def sandbox(self, name, metadata=None, pod=None, annotations=None, labels=None, **spec):
        return self.create("sandboxes", name, box(pod, metadata, **spec), annotations=annotations or {}, labels=labels or {})

    def template(self, name, pod=None, metadata=None, **spec):
        return self.create("sandboxtemplates", name, box(pod, metadata, **spec))

    def pool(self, name, template, replicas=1, strategy=None):
        spec = {"replicas": replicas, "sandboxTemplateRef": {"name": template}}
        if strategy:
            spec["updateStrategy"] = {"type": strategy}
        return self.create("sandboxwarmpools", name, spec)

    def claim(self, name, pool, labels=None, annotations=None, **spec):
        return self.create("sandboxclaims", name, dict(spec, warmPoolRef={"name": pool}), labels=labels or {},
                           annotations=annotations or {})

    def cold(self, name="cold", pod=None, metadata=None, **spec):
        """A template and an empty pool over it, of one name."""
        self.template(name, pod, metadata, **spec)
        self.pool(name, name, 0)

    def warm(self, name="warm", replicas=1, pod=None, metadata=None, strategy=None, **spec):
        """A template and a pool over it, full and Ready; the members, oldest first."""
        self.template(name, pod, metadata, **spec)
        self.pool(name, name, replicas, strategy)
        return self.full(name, replicas)

    def full(self, pool, replicas):
        self.members("sandboxes", lambda ms: len(ms) == replicas and all(map(is_ready, ms)),
                     labelSelector=f"{POOL}={name_hash(pool)}")
        self.wait("sandboxwarmpools", pool, lambda p: p["status"].get("readyReplicas", 0) == replicas ==
                  p["status"].get("replicas", 0) and p["status"]["observedGeneration"] == p["metadata"]["generation"])
        return self.of_pool(pool)

    def of_pool(self, pool):
        members = self.list("sandboxes", labelSelector=f"{POOL}={name_hash(pool)}")
        return sorted(members, key=lambda m: int(m["metadata"]["resourceVersion"]))

    def foreign_owner(self):
        """An owner reference to something that is neither Sandbox, claim nor pool."""
        other = self.get("configmaps", "somebody-else") or self.create("configmaps", "somebody-else")
        return owner_reference(other, "v1", "ConfigMap")


def container(**more):
    return dict({"name": "main", "image": "host", "command": ["sleep", "infinity"]}, **more)


def box(pod=None, metadata=None, **spec):
    """The blueprint that Sandbox and template share."""
    pod = dict({"terminationGracePeriodSeconds": 0, "containers": [container()]}, **(pod or {}))
    template = {"spec": pod}
    if metadata:
        template["metadata"] = metadata
    return dict(spec, podTemplate=template)


NEVER_READY = {"containers": [container(readinessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1})]}


def vct(name, size="1Gi", **metadata):
    return {"metadata": dict(metadata, name=name),
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}}


def owner_reference(obj, api_version, kind):
    return {"apiVersion": api_version, "kind": kind, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True}


def controller(obj):
    for ref in obj["metadata"].get("ownerReferences", []):
        if ref.get("controller"):
            return ref
    return None


def owned(obj, by):
    return (controller(obj) or {}).get("uid") == by["metadata"]["uid"]


def labels(obj):
    return obj["metadata"].get("labels") or {}


def annotations(obj):
    return obj["metadata"].get("annotations") or {}


def pod_metadata(sandbox, what):
    return sandbox["spec"]["podTemplate"].get("metadata", {}).get(what) or {}


def alive(objects):
    return [o for o in objects.values() if not o["metadata"].get("deletionTimestamp")]


def observed(obj):
    status = obj.get("status") or {}
    return (condition(obj, "Ready") or {}).get("observedGeneration", status.get("observedGeneration"))


def event_of(events, regarding, reason):
    return next((e for e in events if e["reason"] == reason and e["regarding"]["name"] == regarding), None)


def name_hash(text):
    h = 0x811C9DC5
    for b in text.encode():
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return f"{h:08x}"


def at(seconds):
    """RFC 3339, so many seconds from now."""
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def said(obj, kind="Ready"):
    """(status, reason, message) of a condition."""
    c = condition(obj, kind)
    return c and (c["status"], c["reason"], c["message"])
