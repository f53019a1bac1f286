# SPDX-License-Identifier: Apache-2.0
"""What clients learn of the kinds: verbs, short names, categories, scope."""
from shapes import AGENTS, KINDS, NODE, get

ALL = KINDS + [NODE]
GROUPS = sorted({k.base for k in ALL})
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SUBS = {"pods": ["status", "log", "exec", "attach", "portforward", "eviction", "resize", "ephemeralcontainers"], "namespaces": ["status", "finalize"],
        "serviceaccounts": ["token"], "services": ["status"], "nodes": ["status"], "persistentvolumes": ["status"], "persistentvolumeclaims": ["status"],
        "sandboxes": ["status"], "sandboxclaims": ["status"], "sandboxwarmpools": ["status", "scale"]}

STORIES = {
    "kinds": [get(k.id, k.base, see=[f"resources.name={k.plural}"]) for k in ALL],
    "subresources": [get(f"{k.id}/{s}", k.base, see=[f"resources.name={k.plural}/{s}"]) for k in ALL for s in SUBS.get(k.plural, ())],
    "documents": [get(b, b, see=["kind", "apiVersion", "groupVersion"]) for b in GROUPS],
    "groups": [get(b, b.rsplit("/", 1)[0], see=["kind", "apiVersion", "name", "preferredVersion", "versions"]) for b in GROUPS if b not in ("/api/v1", AGENTS)],
    "api": [get("versions", "/api", see=["kind", "versions"]), get("apis", "/apis", see=["kind", "apiVersion"]),
            get("api, newer", "/api", accept=V2, see=["kind", "apiVersion"]), get("apis, newer", "/apis", accept=V2, see=["kind", "apiVersion"])],
}
