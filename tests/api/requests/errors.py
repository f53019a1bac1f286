# SPDX-License-Identifier: Apache-2.0
"""Paths that do not exist, methods that are not there, and pages of the server itself."""
from shapes import CONFIG, KINDS, ask, delete, get, patch, post, put

CM = CONFIG.path
PATHS = ["/api/nothing", "/api/v2", "/api/v2/pods", "/api/v1/nothing", "/api/v1/namespaces/$NS/nothing", "/api/v1/namespaces/$NS/nothing/x",
         "/apis/rbac.authorization.k8s.io/v2", "/apis/rbac.authorization.k8s.io/v2/roles", "/apis/rbac.authorization.k8s.io/v1/nothing",
         "/api/v1/namespaces/$NS/configmaps/a/b/c", "/api/v1/namespaces/$NS/Configmaps", "/api/v1/Namespaces", "/api/V1", "/api/v1/pod", "/version/x"]
# A kube-apiserver answers with text.
PAGES = ["/nothing", "/apis/nothing", "/apis/nothing/v1", "/apis/nothing/v1/things", "/apis/core/v1", "/apis/agents.x-k8s.io/v9", "/apis/agents.x-k8s.io/v9/sandboxes",
         "/apis/agents.x-k8s.io/v1beta1/nothing", "/apis/agents.x-k8s.io/v1beta1/namespaces/$NS/nothing", "/apis/agents.x-k8s.io/v1beta1/namespaces/$NS/nothing/x",
         "/API/v1", "/openapi", "/openapi/v3/nothing", "/openapi/v9", "/swagger", "/debug/nothing", "/logs/nothing"]

STORIES = {
    "paths": [get(p, p) for p in PATHS],
    "pages that are not there": [get(p, p) for p in PAGES],
    "slashes": [get(p, p, see=["kind", "metadata.name"]) for p in
                ["/api/", "/apis/", "/api/v1/", "/apis/rbac.authorization.k8s.io/", "/apis/rbac.authorization.k8s.io/v1/", "/api/v1/namespaces/$NS/", "/api/v1/namespaces/"]],
    "methods": [ask(f"{m} {p}", m, p, body) for p in ("/api", "/api/v1", "/version") for m, body in
                (("POST", "{}"), ("PUT", "{}"), ("DELETE", None))]
    + [put("PUT of a collection", CM, "{}"), patch("PATCH of a collection", CM, "{}"), post("POST of an object", CONFIG.at("x"), "{}"),
       post("POST into all namespaces", "/api/v1/configmaps", "{}"), delete("DELETE of all namespaces' objects", "/api/v1/secrets")],
    "methods of documents": [dict(ask(f"{m} {p}", m, p, "{}"), see=["kind"]) for p in ("/apis", "/openapi/v3") for m in ("POST", "PUT")],
    **{"methods of " + k.id: [put("PUT", k.path, k.object("x")), patch("PATCH", k.path, {}), post("POST", k.at("x"), k.object("x"))] for k in KINDS},
    "pages": [
        get("api", "/api", see=["kind", "versions"]),
        get("no such page", "/nothing", accept="text/plain"),
        get("metadata of nothing", "/api/v1/nothing", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ],
    "objects": [get("in a namespace that is not there", "/api/v1/namespaces/absent/secrets/x"), get("a namespace that is not there", "/api/v1/namespaces/absent"),
                get("a list in a namespace that is not there", "/api/v1/namespaces/absent/secrets", drop=["metadata"]),
                get("a bad name", "/api/v1/namespaces/Bad_Name/secrets/x"), get("an empty name", "/api/v1/namespaces//secrets", see=["kind"])],
}
