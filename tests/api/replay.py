# SPDX-License-Identifier: Apache-2.0
"""Sends the requests of requests/*.py to a server, and keeps of its answers what two servers could agree on.

A story is a list of requests that follow each other. All stories of a file share a namespace of their own, $NS; a story
names its objects so that it meets no other. A request is a dict:

    name     what it shows, unique in its story
    method   GET, POST, PUT, PATCH or DELETE
    path     with its query; $NS stands for the namespace
    body     an object, or a string that is sent as it is
    type     the Content-Type, application/json if there is none; None leaves the header out
    accept   the Accept header, application/json if there is none
    headers  others
    see      paths into the answer (metadata.labels, items.0.spec, resources.name=pods); only these are compared
    drop     paths into the answer that are not compared

"$uid:PATH" and "$version:PATH" anywhere in it stand for uid and resourceVersion of the object that GET of PATH shows now,
and "$AGO" for a time 320 days before this run.
"""
import base64
import datetime
import http.client
import importlib.util
import json
import pathlib
import re
import ssl
import tempfile
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
JSON = "application/json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# The same age on every day; the hour is more than a run takes.
LONG_AGO = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=320, hours=1)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def stories(name):
    """The stories of requests/NAME.py."""
    spec = importlib.util.spec_from_file_location(f"requests_{name}", HERE / "requests" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.STORIES


def names():
    return sorted(p.stem for p in (HERE / "requests").glob("*.py"))


# -- asking -----------------------------------------------------------------------------------------------------------


class Server:
    """The server of a kubeconfig, on one connection that is kept."""

    def __init__(self, kubeconfig):
        import yaml
        config = yaml.safe_load(open(kubeconfig))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.context = ssl.create_default_context(cadata=text_of(cluster, "certificate-authority"))
        with tempfile.NamedTemporaryFile() as f:
            f.write((text_of(user, "client-certificate") + "\n" + text_of(user, "client-key")).encode())
            f.flush()
            self.context.load_cert_chain(f.name)
        self.where = urllib.parse.urlparse(cluster["server"])
        self.conn = None

    def ask(self, method, path, body=None, headers=None):
        """Status, text and headers of the answer."""
        for last in (False, True):
            if self.conn is None:
                self.conn = http.client.HTTPSConnection(self.where.hostname, self.where.port, context=self.context, timeout=30)
            try:
                self.conn.request(method, path, body, headers or {})
                reply = self.conn.getresponse()
                return reply.status, reply.read().decode(errors="replace"), reply.headers
            except (OSError, http.client.HTTPException):
                self.conn = None
                if last:
                    raise

    def object(self, path):
        status, text, _ = self.ask("GET", path, headers={"Accept": JSON})
        return json.loads(text) if status == 200 else {"metadata": {}}


def text_of(part, name):
    if name in part:
        return open(part[name]).read()
    return base64.b64decode(part[name + "-data"]).decode()


def filled(server, text, ns):
    text = text.replace("$NS", ns).replace("$AGO", LONG_AGO)

    def value(match):
        meta = server.object(match[2])["metadata"]
        return meta.get("uid" if match[1] == "uid" else "resourceVersion", "")
    return re.sub(r"\$(uid|version):([^\s\"?&]+)", value, text)


def answer(server, step, ns):
    """What is compared of the answer to one request."""
    body = step.get("body")
    if body is not None:
        body = filled(server, body if isinstance(body, str) else json.dumps(body), ns).encode()
    headers = {"Accept": step.get("accept", JSON), "User-Agent": "replay/1.0", **step.get("headers", {})}
    if body is not None and step.get("type", JSON):
        headers["Content-Type"] = step.get("type", JSON)
    status, text, got = server.ask(step["method"], filled(server, step["path"], ns), body, headers)
    out = {"code": status, "body": kept(read(text), step)}
    if got.get_all("Warning"):
        out["warnings"] = [plain(w) for w in got.get_all("Warning")]
    kind = (got.get("Content-Type") or "").split(";")[0]
    if kind != JSON:
        out["type"] = kind
    return out


def read(text):
    """An object, the events of a watch, or text."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()] or text
    except ValueError:
        return text


# -- what two servers cannot agree on ----------------------------------------------------------------------------------

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ETCD = re.compile(r"StorageError: invalid object, Code: \d, Key: \S+, ResourceVersion: \d+, AdditionalErrorMsg: ")
PATCHED = re.compile(r'(Invalid value: )"\{\\"(?:[^"\\]|\\.)*"(: )')  # the whole object, with members in an order of its own
RECORD = re.compile(r"in record \(\d+\)")
CURRENT = re.compile(r"current: \d+")
OURS = "agents.x-k8s.io/"
TOKENS = "kube-api-access-"  # a volume that admission adds to Pods: docs/reference/differences.md
# Members whose values are chosen by the server; what the client chose shows in the same place of both.
CHOSEN = {"resourceVersion": "<version>", "clusterIP": "<address>", "clusterIPs": "<addresses>", "nodePort": "<port>",
          "continue": "<continue>", "remainingItemCount": "<count>"}


def plain(value, key=""):
    if isinstance(value, dict):
        return {k: plain(v, k) for k, v in named(value).items() if not left_out(k, v, key)}
    if isinstance(value, list) and key == "items":
        return [plain({k: v for k, v in item.items() if k not in ("kind", "apiVersion")} if isinstance(item, dict) else item) for item in value]
    if isinstance(value, list) and key == "columnDefinitions":
        return [plain({k: v for k, v in column.items() if k != "description"}) for column in value]
    if isinstance(value, list) and key == "verbs":
        return sorted(value)
    if isinstance(value, list) and key == "causes":  # metadata is checked twice by a kube-apiserver, now and then
        return [plain(v) for i, v in enumerate(value) if v not in value[:i] or not v.get("field", "").startswith("metadata.")]
    if isinstance(value, list) and key not in CHOSEN:
        return [plain(v) for v in value if not (isinstance(v, dict) and str(v.get("name")).startswith(TOKENS))]
    if key in CHOSEN and value not in ("", "None", ["None"], 0, "0"):
        return CHOSEN[key]
    if isinstance(value, str):
        for pattern, to in ((UID, "<uid>"), (TIME, "<time>"), (ETCD, ""), (CURRENT, "current: <version>"), (RECORD, "in record (<version>)"),
                            (PATCHED, r"\1<object>\2")):
            value = pattern.sub(to, value)
    return value


def left_out(key, value, of):
    """Bookkeeping: who owns fields, an empty continue, and the labels of controllers that only one server has."""
    return (key in ("managedFields", "selfLink") or (key == "continue" and value == "")
            or (key in ("labels", "annotations") and value and all(k.startswith(OURS) for k in value))
            or (of in ("labels", "annotations") and key.startswith(OURS)))


def named(obj):
    """A name that was made from generateName ends differently each time."""
    prefix = obj.get("generateName")
    if prefix and str(obj.get("name", "")).startswith(prefix) and len(obj["name"]) == len(prefix) + 5:
        return dict(obj, name=prefix + "<random>")
    return obj


def at(value, path):
    for part in path.split("."):
        if isinstance(value, list) and part.startswith("name="):
            value = next((v for v in value if v.get("name") == part[5:]), None)
        elif isinstance(value, list):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def without(value, parts):
    """A copy without one path; "*" stands for every element of a list."""
    if isinstance(value, list) and parts[0] == "*":
        return [without(v, parts[1:]) for v in value]
    if not isinstance(value, dict) or parts[0] not in value:
        return value
    if len(parts) == 1:
        return {k: v for k, v in value.items() if k != parts[0]}
    return dict(value, **{parts[0]: without(value[parts[0]], parts[1:])})


def kept(body, step):
    body = plain(body)
    if isinstance(body, dict) and body.get("kind") == "Status" and body.get("status") == "Failure":
        return body
    if "see" in step:
        return {path: at(body, path) for path in step["see"]}
    for path in step.get("drop", ()):
        body = without(body, path.split("."))
    return body


# -- whole files -------------------------------------------------------------------------------------------------------


def open_namespace(server, name):
    """The namespace of a file, new and with its service account."""
    ns = "api-" + name.replace("_", "-")
    body = json.dumps({"metadata": {"name": ns}}).encode()
    for _ in range(300):
        status, _, _ = server.ask("POST", "/api/v1/namespaces", body, {"Content-Type": JSON})
        if status == 201:
            break
        server.ask("DELETE", f"/api/v1/namespaces/{ns}")
    for _ in range(300):
        if server.ask("GET", f"/api/v1/namespaces/{ns}/serviceaccounts/default")[0] == 200:
            return ns
    raise RuntimeError(f"{ns}: no service account")


def close_namespace(server, ns):
    server.ask("DELETE", f"/api/v1/namespaces/{ns}")


# -- differences -------------------------------------------------------------------------------------------------------


def listed():
    """Of each row of docs/reference/differences.md, section "By request": patterns of requests."""
    text = (HERE.parent.parent / "docs/reference/differences.md").read_text()
    section = text.split("\n## By request\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [re.findall(r"`([^`]+)`", row) for row in rows]


def difference(want, got, path=""):
    """The first places where two answers differ, as lines."""
    if isinstance(want, dict) and isinstance(got, dict):
        keys = sorted(set(want) | set(got))
        return [line for k in keys for line in difference(want.get(k, "(nothing)"), got.get(k, "(nothing)"), f"{path}.{k}")]
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [line for i, (w, g) in enumerate(zip(want, got)) for line in difference(w, g, f"{path}[{i}]")]
    return [] if want == got else [f"{path.lstrip('.')}: want {json.dumps(want)}, got {json.dumps(got)}"]
