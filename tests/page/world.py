# SPDX-License-Identifier: Apache-2.0
"""What servers of these tests are filled with: things as a team would have them, and things as somebody hostile would make them."""

import contextlib
import json
import os

import yaml

from cay_local import AGENTS, EXTENSIONS, ROOT, ApiError
from corpus import STRINGS, storable

CAY = "/apis/cay.dev/v1alpha1"
DEFAULT = f"{CAY}/namespaces/default"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
CLAIMS = f"{EXTENSIONS}/namespaces/default/sandboxclaims"
POOLS = f"{EXTENSIONS}/namespaces/default/sandboxwarmpools"
TEMPLATES = f"{EXTENSIONS}/namespaces/default/sandboxtemplates"
KINDS = {"sandboxes": ("Sandbox", AGENTS), "sandboxclaims": ("SandboxClaim", EXTENSIONS), "sandboxwarmpools": ("SandboxWarmPool", EXTENSIONS),
         "sandboxtemplates": ("SandboxTemplate", EXTENSIONS), "agents": ("Agent", CAY), "sessions": ("Session", CAY), "attachments": ("Attachment", CAY),
         "approvals": ("Approval", CAY), "budgets": ("Budget", CAY), "ledgers": ("Ledger", CAY), "triggers": ("Trigger", CAY), "teampolicies": ("TeamPolicy", CAY)}


def put(cay, plural, name, spec, **meta):
    kind, base = KINDS[plural]
    return cay.api("POST", f"{base}/namespaces/default/{plural}", {"apiVersion": base.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name, **meta}, "spec": spec})


def write_status(cay, plural, name, status):
    return cay.api("PATCH", f"{KINDS[plural][1]}/namespaces/default/{plural}/{name}/status", {"status": status}, content_type="application/merge-patch+json")


def container(*command, **more):
    return {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "host", "command": list(command) or ["sleep", "infinity"], **more}]}


def sandbox(cay, name, *command, wait=True, mode="Running", annotations=None, labels=None, **more):
    put(cay, "sandboxes", name, {"operatingMode": mode, "podTemplate": {"spec": container(*command, **more)}}, annotations=annotations or {}, labels=labels or {})
    if wait and mode == "Running":
        cay.wait_ready(SANDBOXES, name)


def template(cay, name, *command, pool=None, replicas=1, **more):
    put(cay, "sandboxtemplates", name, {"podTemplate": {"spec": container(*command, **more)}})
    if pool:
        put(cay, "sandboxwarmpools", pool, {"replicas": replicas, "sandboxTemplateRef": {"name": name}})
        if replicas:
            cay.wait(POOLS, pool, lambda o: (o or {}).get("status", {}).get("readyReplicas") == replicas)


def claim(cay, name, pool, wait=True, **meta):
    put(cay, "sandboxclaims", name, {"warmPoolRef": {"name": pool}}, **meta)
    return cay.wait_ready(CLAIMS, name)["status"]["sandbox"]["name"] if wait else ""


def apply(cay, path):
    """Objects of an example, by the API."""
    with open(os.path.join(ROOT, path)) as f:
        cay.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(f))}))


def event(cay, name, of, reason, message, kind="Sandbox", type="Normal", component="cay", **more):
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": reason, "message": message, "type": type, "count": 1, "source": {"component": component},
            "involvedObject": {"kind": kind, "namespace": "default", "name": of}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", **more}
    return cay.api("POST", "/api/v1/namespaces/default/events", body)


# -- hostile ------------------------------------------------------------------------------------------------------------

TEXTS = [storable(s) for s in STRINGS]
SHORT = [s for s in TEXTS if len(s.encode()) <= 250]
NOTES = {f"example.org/x{i}": s for i, s in enumerate(TEXTS)}
LATER = "2100-01-01T00:00:00Z"


def conditions(texts):
    return [{"type": f"T{i}", "status": "False", "reason": "R", "message": s, "lastTransitionTime": "2026-01-01T00:00:00Z"} for i, s in enumerate(texts)]


def agent_of(i, texts):
    """Everything that an Agent can hold of texts, which the server limits in number."""
    some = [s for s in texts if len(s.encode()) <= 60]
    return {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec"], "tools": some[:20], "credentials": some[:10], "runtimeClasses": some[:8],
                                                                    "egress": [{"host": "a.example.org", "paths": some[:8]}]},
            "approval": {"rules": [{"action": "Ask", "argv": texts[:30]}, *({"action": "Ask", "path": s} for s in texts[:10]), *({"action": "Ask", "tool": s} for s in some[:10])]}}


def hostile(cay):
    """All of the corpus, wherever this server takes it."""
    spec = {"metadata": {"annotations": NOTES}, "spec": container(args=TEXTS, env=[{"name": f"E{i}", "value": s} for i, s in enumerate(TEXTS)], workingDir=TEXTS[1])}
    put(cay, "sandboxtemplates", "hostile", {"podTemplate": spec}, annotations=NOTES)
    for i, s in enumerate(SHORT[:12]):
        put(cay, "sandboxtemplates", f"image-{i}", {"podTemplate": {"spec": container(image=s)}})
        put(cay, "sandboxwarmpools", f"of-{i}", {"replicas": 0, "sandboxTemplateRef": {"name": s}})
        put(cay, "sandboxclaims", f"of-{i}", {"warmPoolRef": {"name": s}}, annotations=NOTES if not i else {})
    put(cay, "sandboxwarmpools", "hostile", {"replicas": 0, "sandboxTemplateRef": {"name": "hostile"}}, annotations=NOTES)
    sandbox(cay, "hostile", "sh", "-c", LOG, wait=False, annotations=NOTES, env=[{"name": "ALL", "value": json.dumps(TEXTS)}])
    sandbox(cay, "sad", mode="Suspended", annotations=NOTES)
    write_status(cay, "sandboxes", "sad", {"conditions": conditions(TEXTS)})
    for i, s in enumerate(TEXTS):
        event(cay, f"e{i}", "hostile", s[:120], s[:1000], type="Warning" if i % 2 else "Normal", component=s[:60])
    for i in range(0, len(SHORT), 30):
        with contextlib.suppress(ApiError):  # whichever of these texts the server refuses
            put(cay, "agents", f"hostile-{i}", agent_of(i, SHORT[i:i + 30]), annotations=NOTES)
    put(cay, "agents", "hostile", {"sandbox": {"mode": "UserChooses"}, "capabilities": {"rights": ["exec"]}}, annotations=NOTES)
    for i, s in enumerate(SHORT):
        put(cay, "sessions", f"h{i}", {"agent": "hostile", "sandbox": "none", "title": s, "user": s})
    put(cay, "approvals", "argv", question(argv=TEXTS[:], cwd=TEXTS[0], requestedBy=TEXTS[4]))
    for i, s in enumerate(SHORT[::6]):
        put(cay, "approvals", f"more-{i}", question(operation=s[:16], argv=[s, "x", s], cwd=s, path=s, host=s, tool=s, requestedBy=s))
    put(cay, "budgets", "hostile", {"limits": {"cpuSeconds": "600"}, "period": "24h", "onExceeded": "Suspend"}, annotations=NOTES)
    put(cay, "triggers", "hostile", {"agent": "hostile", "secretRef": {"name": "x", "key": "k"}, "form": "GitHub", "filters": [{"path": ".a", "values": SHORT[:10]}], "command": SHORT[:30]})
    with contextlib.suppress(ApiError):
        write_status(cay, "triggers", "hostile", {"deliveries": [{"id": f"{i}", "time": "2026-01-01T00:00:00Z", "outcome": s[:20], "message": s} for i, s in enumerate(SHORT[:20])]})
    cay.wait_ready(SANDBOXES, "hostile")


def question(**spec):
    return {"agent": "hostile", "operation": "exec", "digest": "sha256:" + "0" * 64, "expires": LATER, **spec}


# Writes the corpus into its log, into files of such names and contents, and into one file for a terminal; then it stays.
LOG = r"""python3 - <<'END'
import json, os, sys
texts = json.loads(os.environ["ALL"])
os.makedirs("/tmp/hostile", exist_ok=True)
for i, s in enumerate(texts):
    name = f"{i:03} {s}".replace("/", "_").encode()[:200]
    try:
        os.makedirs(b"/tmp/hostile/" + name) if i % 7 == 0 else open(b"/tmp/hostile/" + name, "wb").write(s.encode() * (i % 3 + 1))
    except OSError as e:
        print(e)
open("/tmp/all", "wb").write("\n".join(texts).encode())
sys.stdout.buffer.write(open("/tmp/all", "rb").read() + b"\nthe end of the log\n")
sys.stdout.flush()
END
touch /tmp/done; exec sleep infinity"""


# -- a team as others have it -------------------------------------------------------------------------------------------

def team(cay):
    """Agents of examples/agents.yaml at work: a pool, sandboxes in several states, sessions, questions, costs. Believable enough for a picture."""
    apply(cay, "examples/agents.yaml")
    template(cay, "python", pool="pythons", replicas=2, ports=[{"name": "http", "containerPort": 8000}], resources={"limits": {"cpu": "500m", "memory": "256Mi"}})
    cay.wait(POOLS, "workshops", lambda o: (o or {}).get("status", {}).get("readyReplicas") == 1)
    for name in ("report", "notebook"):
        claim(cay, name, "pythons")
    sandbox(cay, "docs-preview", "python3", "-m", "http.server", "8000", "-d", "/usr/share", ports=[{"name": "http", "containerPort": 8000}])
    sandbox(cay, "nightly", mode="Suspended")
    put(cay, "sandboxes", "broken", {"podTemplate": {"spec": container(image="registry.example.org/team/tools:1.4")}})
    put(cay, "sessions", "fix-login", {"agent": "builder", "title": "Fix the login form", "user": "maria@example.org"})
    put(cay, "sessions", "review-12", {"agent": "reviewer", "sandbox": "none", "title": "Review pull request 12", "user": "jan@example.org"})
    cay.wait_ready(f"{DEFAULT}/sessions", "fix-login")
    box = cay.api("GET", f"{DEFAULT}/sessions/fix-login")["status"]["sandbox"]
    put(cay, "attachments", "review", {"session": "review-12", "sandbox": box, "rights": ["exec", "read"], "view": "ReadOnly"})
    for i, argv in enumerate((["git", "push", "origin", "main"], ["git", "push", "--force", "origin", "release"])):
        put(cay, "approvals", f"push-{i}", {**question(argv=argv), "agent": "builder", "session": "fix-login", "sandbox": box, "requestedBy": "maria@example.org"})
    put(cay, "approvals", "old", {**question(argv=["git", "push", "origin", "docs"]), "agent": "builder"})
    write_status(cay, "approvals", "old", {"decision": "Deny"})
    return box
