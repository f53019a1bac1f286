# SPDX-License-Identifier: Apache-2.0
"""Services as the API server stores them: the answers of a kube-apiserver, recorded in tests/data/services/cases.json.

The requests build on each other, so they are asked in their order by one test, which names every answer that differs.
"""

import json
import pathlib

from test_decode import ask

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/services/cases.json").read_text())
# The answer is another one, and why. Its code and reason are the same.
DIFFERENT = {
    "create: a bad name": "names are first checked by the one rule that every kind shares",
    "create: an external address that is none": "the warning about such addresses comes before the rules",
    "patch: the first family": "the message quotes the address that the server has chosen",
}


def masked(value, key=""):
    """Without what no two servers have in common: the addresses and ports that they have chosen."""
    if isinstance(value, dict):
        return {k: masked(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(v, key) for v in value]
    if key in ("nodePort", "healthCheckNodePort"):
        return 30000 <= value <= 32767
    if key in ("clusterIP", "clusterIPs") and value != "None":
        return "IPv6" if ":" in value else "IPv4"
    return value


def differs(case, status, body, warnings):
    want = case["want"]
    if (status, body.get("reason") if status >= 400 else None) != (want["code"], want.get("reason")):
        return f"{status} {body.get('message')}, not {want['code']} {want.get('message')}"
    if case["name"] in DIFFERENT:
        return None
    if "message" in want and body["message"] != want["message"]:
        return f"{body['message']}\n    not {want['message']}"
    for path, value in want.get("see", {}).items():
        if masked(body.get(path)) != masked(value):
            return f"{json.dumps(masked(body.get(path)), sort_keys=True)}\n    not {json.dumps(masked(value), sort_keys=True)}"
    if warnings != want.get("warnings", []):
        return f"warnings {warnings}, not {want.get('warnings')}"
    return None


def test_services_get_what_a_kube_apiserver_gives_them(server):
    for case in DATA["before"]:
        assert ask(server, case)[0] == 201
    try:
        found = {case["name"]: differs(case, *ask(server, case)) for case in DATA["cases"]}
    finally:
        server.api("DELETE", "/api/v1/namespaces/services")
    bad = [f"{name}:\n    {what}" for name, what in found.items() if what]
    assert not bad, "\n".join(bad)
