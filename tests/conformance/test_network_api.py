# SPDX-License-Identifier: Apache-2.0
"""Ingresses, IngressClasses and EndpointSlices of users' own: the answers of a kube-apiserver, recorded in tests/data/networking/cases.json.

The requests build on each other, so they are asked in their order by one test, which names every answer that differs.
"""

import json
import pathlib

from test_decode import ask, at

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/networking/cases.json").read_text())
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/{}/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
# The answer is another one, and why. Its code and reason are the same.
DIFFERENT = {
    "slice: names": "a list that was sent empty stays empty; there it becomes null",
    "slice: v6": "the same",
    "ingress: no path type": "the schema already knows that it is required",
}


def differs(case, status, body, warnings):
    want = case["want"]
    if (status, body.get("reason") if status >= 400 else None) != (want["code"], want.get("reason")):
        return f"{status} {body.get('message')}, not {want['code']} {want.get('message')}"
    if case["name"] in DIFFERENT:
        return None
    if "message" in want and body["message"] != want["message"]:
        return f"{body['message']}\n    not {want['message']}"
    for path, value in want.get("see", {}).items():
        if at(body, path) != value:
            return f"{path} {json.dumps(at(body, path))}\n    not {json.dumps(value)}"
    return None if warnings == want.get("warnings", []) else f"warnings {warnings}, not {want.get('warnings')}"


def test_answers_are_those_of_a_kube_apiserver(server):
    for case in DATA["before"]:
        assert ask(server, case)[0] == 201
    try:
        found = {case["name"]: differs(case, *ask(server, case)) for case in DATA["cases"]}
    finally:
        server.api("DELETE", "/api/v1/namespaces/networking")
        for name in ("c1", "c2", "c3"):
            server.api("DELETE", f"{CLASSES}/{name}")
    bad = [f"{name}:\n    {what}" for name, what in found.items() if what]
    assert not bad, "\n".join(bad)


def test_columns(server, ns):
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rules = [{"host": f"{c}.example.com"} for c in "abcde"]
    path = INGRESSES.format(ns.name)
    server.api("POST", path, {"metadata": {"name": "many"}, "spec": {"ingressClassName": "c", "rules": rules, "tls": [{"hosts": ["a.example.com"]}]}})
    server.api("POST", path, {"metadata": {"name": "plain"}, "spec": {"defaultBackend": backend}})
    server.api("PATCH", f"{path}/plain/status", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}, "application/merge-patch+json")
    table = server.api("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Class", "Hosts", "Address", "Ports", "Age"]
    assert [r["cells"][:5] for r in table["rows"]] == [
        ["many", "c", "a.example.com,b.example.com,c.example.com + 2 more...", "", "80, 443"], ["plain", "<none>", "*", "192.0.2.1", "80"]]
    server.api("POST", CLASSES, {"metadata": {"name": "cls"}, "spec": {"controller": "a.com/b", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}})
    table = server.api("GET", CLASSES, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [r["cells"][:3] for r in table["rows"]] == [["cls", "a.com/b", "K.g/n"]]
    server.api("DELETE", f"{CLASSES}/cls")
