# SPDX-License-Identifier: Apache-2.0
"""What is Private is its owner's to use, whatever roles others have; what is Global may be read by everybody who knows its name."""

import asyncio
import http.client
import json
import subprocess

import pytest
from gate_kit import CAY, acting
from mcp_kit import Failed, connect, token_of

from cay_local import AGENTS, EXTENSIONS, condition, is_ready

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
CLAIMS, POOLS, TEMPLATES = (f"{EXTENSIONS}/namespaces/default/{kind}" for kind in ("sandboxclaims", "sandboxwarmpools", "sandboxtemplates"))
ALICE, BOB = (f"system:serviceaccount:default:{name}" for name in ("alice", "bob"))
SERVER = "import http.server; http.server.HTTPServer(('', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()"
POD = {"terminationGracePeriodSeconds": 0, "containers": [{
    "name": "main", "image": "host", "command": ["python3", "-c", SERVER], "ports": [{"containerPort": 8000}, {"containerPort": 8888}],
    "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}


def obj(api, kind, name, spec, **notes):
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": name, "annotations": {f"cay.dev/{k}": v for k, v in notes.items()}}, "spec": spec})


def box(name, **notes):
    return obj("agents.x-k8s.io/v1beta1", "Sandbox", name, {"service": True, "podTemplate": {"spec": POD}}, **notes)


def template(name, **notes):
    return obj("extensions.agents.x-k8s.io/v1beta1", "SandboxTemplate", name, {"networkPolicyManagement": "Unmanaged", "podTemplate": {"spec": POD}}, **notes)


def pool(name, of, replicas=1):
    return obj("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", name, {"replicas": replicas, "sandboxTemplateRef": {"name": of}})


def claim(name, of, **notes):
    return obj("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", name, {"warmPoolRef": {"name": of}}, **notes)


def agent(name, **spec):
    return obj("cay.dev/v1alpha1", "Agent", name, spec)


def talk(name, of, **spec):
    return obj("cay.dev/v1alpha1", "Session", name, {"agent": of, **spec})


def who(user):
    return ["--as", user, "--as-group", "system:authenticated"]


def by(cay, user, *args, stdin=None):
    return cay.kubectl(*who(user), *args, stdin=stdin, check=False)


def makes(cay, user, body):
    r = by(cay, user, "create", "-f", "-", stdin=body)
    assert r.returncode == 0, r.stderr
    return json.loads(body)["metadata"]["name"]


def refused(r):
    return r.returncode != 0 and "Private to another user" in r.stderr


@pytest.fixture(scope="module")
def world(module_instance):
    cay = module_instance("--router-path-prefix", "/s")
    cay.tokens = {name: token_of(cay, name) for name in ("alice", "bob")}
    for user in ("alice", "bob"):
        cay.kubectl("create", "rolebinding", user, "--clusterrole=admin", f"--serviceaccount=default:{user}")
    cay.kubectl("create", "clusterrolebinding", "carol", "--clusterrole=cluster-admin", "--user=carol")
    cay.kubectl("create", "role", "helper", "--verb=use-private", "--resource=sandboxes.agents.x-k8s.io")
    cay.kubectl("create", "rolebinding", "dave-edits", "--clusterrole=admin", "--user=dave")
    cay.kubectl("create", "rolebinding", "dave-helps", "--role=helper", "--user=dave")
    return cay


WAYS = {
    "exec": ["exec", "hers", "--", "true"],
    "attach": ["attach", "hers"],
    "logs": ["logs", "hers"],
    "port-forward": ["port-forward", "pod/hers", ":8000"],
    "debug": ["debug", "hers", "--image=host", "--", "true"],
    "proxy": ["get", "--raw", "/api/v1/namespaces/default/pods/hers:8000/proxy/"],
    "service proxy": ["get", "--raw", "/api/v1/namespaces/default/services/hers:8000/proxy/"],
    "resize": ["patch", "pod", "hers", "--subresource=resize", "-p", '{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"1Gi"}}}]}}'],
    "patch of the pod": ["patch", "pod", "hers", "-p", '{"spec":{"containers":[{"name":"main","image":"pause"}]}}'],
    "patch": ["patch", "sandbox", "hers", "--type=merge", "-p", '{"spec":{"operatingMode":"Suspended"}}'],
    "visibility": ["annotate", "sandbox", "hers", "cay.dev/visibility=Team", "--overwrite"],
    "owner": ["annotate", "sandbox", "hers", f"cay.dev/owner={BOB}", "--overwrite"],
}


@pytest.fixture(scope="module")
def hers(world):
    makes(world, ALICE, box("hers", visibility="Private", owner=BOB))
    world.wait_ready(SANDBOXES, "hers")
    return world


@pytest.mark.parametrize("way", WAYS)
def test_nobody_but_its_owner_uses_a_private_sandbox(hers, way):
    r = by(hers, BOB, *WAYS[way])
    assert r.returncode != 0 and ("Private to another user" in r.stderr or "Forbidden" in r.stderr), (r.stdout, r.stderr)


def test_its_owner_and_administrators_do(hers):
    assert hers.api("GET", f"{SANDBOXES}/hers")["metadata"]["annotations"]["cay.dev/owner"] == ALICE
    for user in (ALICE, "carol", "dave"):
        for way in ("exec", "logs", "proxy", "service proxy"):
            r = by(hers, user, *WAYS[way])
            assert r.returncode == 0, (user, way, r.stderr)
    assert by(hers, BOB, "get", "sandbox", "hers").returncode == 0, "seeing goes by roles"
    assert by(hers, ALICE, "annotate", "sandbox", "hers", f"cay.dev/owner={BOB}", "--overwrite").returncode == 0
    patch = json.dumps({"metadata": {"annotations": {"cay.dev/owner": BOB}}})
    assert by(hers, "carol", "patch", "sandbox", "hers", "--subresource=status", "--type=merge", "-p", patch).returncode == 0
    assert hers.api("GET", f"{SANDBOXES}/hers")["metadata"]["annotations"]["cay.dev/owner"] == ALICE, "only the server writes it"


def test_the_router_asks_too(hers):
    def ask(name):
        conn = http.client.HTTPConnection("127.0.0.1", hers.router_port, timeout=60)
        conn.request("GET", "/s/default/hers/8000/", headers={"Authorization": f"Bearer {hers.tokens[name]}"})
        return conn.getresponse().status
    assert ask("alice") == 200
    assert ask("bob") == 403


def test_it_is_not_woken_for_others(world):
    makes(world, ALICE, box("nap", visibility="Private", **{"idle-after": "1s", "idle-action": "Suspend"}))
    world.wait_ready(SANDBOXES, "nap")
    pods = "/api/v1/namespaces/default/pods"
    sleeps = lambda o: (condition(o, "Asleep") or {}).get("reason") == "Suspended"
    since = world.wait(SANDBOXES, "nap", sleeps)["metadata"]["annotations"]["cay.dev/asleep-since"]
    world.wait(pods, "nap", lambda o: o is None)
    for way in ("exec", "attach", "logs", "port-forward", "proxy", "service proxy"):
        r = by(world, BOB, *(word.replace("hers", "nap") for word in WAYS[way]))
        assert r.returncode != 0, way
    conn = http.client.HTTPConnection("127.0.0.1", world.router_port, timeout=60)
    conn.request("GET", "/s/default/nap/8000/", headers={"Authorization": f"Bearer {world.tokens['bob']}"})
    assert conn.getresponse().status == 403
    o = world.api("GET", f"{SANDBOXES}/nap")
    assert o["spec"]["operatingMode"] == "Suspended" and o["metadata"]["annotations"]["cay.dev/asleep-since"] == since, o
    assert not [e for e in world.api("GET", "/api/v1/namespaces/default/events")["items"] if e["reason"] == "SandboxWoken" and e["involvedObject"]["name"] == "nap"]
    assert by(world, ALICE, "exec", "nap", "--", "true").returncode == 0


def test_who_is_in_leaves_when_it_becomes_private(world):
    makes(world, ALICE, box("later", visibility="Team"))
    world.wait_ready(SANDBOXES, "later")
    command = ["kubectl", "--kubeconfig", world.kubeconfig, *who(BOB), "exec", "-i", "later", "--", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        try:
            p.stdin.write("in\n")
            p.stdin.flush()
            assert p.stdout.readline() == "in\n"
            assert by(world, ALICE, "annotate", "sandbox", "later", "cay.dev/visibility=Private", "--overwrite").returncode == 0
            assert p.wait(60) != 0
        finally:
            p.kill()
    assert refused(by(world, BOB, "exec", "later", "--", "true"))
    assert by(world, ALICE, "exec", "later", "--", "true").returncode == 0


def test_words_are_checked_and_nobody_takes_what_has_no_owner(world):
    makes(world, ALICE, template("ours", owner=BOB))
    assert "cay.dev/owner" not in world.api("GET", f"{TEMPLATES}/ours")["metadata"].get("annotations", {})
    for kind, name, path in (("sandboxtemplate", "ours", "visibility=Private"), ("sandboxtemplate", "ours", "visibility=Mine"), ("sandboxtemplate", "ours", "reset=yes")):
        r = by(world, BOB, "annotate", kind, name, f"cay.dev/{path}")
        assert r.returncode != 0 and f"metadata.annotations[cay.dev/{path.split('=')[0]}]" in r.stderr, r.stderr
    assert "Unsupported value" in by(world, BOB, "create", "-f", "-", stdin=claim("odd", "none", visibility="Nobody")).stderr


def test_a_private_template_is_its_owners_to_claim_from(world):
    makes(world, ALICE, template("secret", visibility="Private"))
    assert refused(by(world, BOB, "create", "-f", "-", stdin=pool("theirs", "secret")))
    makes(world, ALICE, pool("secrets", "secret"))
    world.wait(POOLS, "secrets", lambda p: p.get("status", {}).get("readyReplicas") == 1)
    assert refused(by(world, BOB, "create", "-f", "-", stdin=claim("b", "secrets")))
    old = json.dumps({"apiVersion": "extensions.agents.x-k8s.io/v1alpha1", "kind": "SandboxClaim", "metadata": {"name": "b"}, "spec": {"sandboxTemplateRef": {"name": "secret"}}})
    assert refused(by(world, BOB, "create", "-f", "-", stdin=old))

    async def over_mcp():
        async with connect(world, world.tokens["bob"]) as tools:
            with pytest.raises(Failed) as e:
                await tools.create(warmpool="secrets")
            return str(e.value)
    assert "Private to another user" in asyncio.run(over_mcp())
    makes(world, BOB, agent("his", sandbox={"warmPoolRef": {"name": "secrets"}}))
    makes(world, BOB, talk("his-talk", "his"))
    world.wait(f"{CAY}/sessions", "his-talk", lambda s: (condition(s, "Ready") or {}).get("reason") == "TemplatePrivate")
    for user, name in ((ALICE, "a"), ("carol", "c")):
        makes(world, user, claim(name, "secrets"))
        world.wait_ready(CLAIMS, name)


def test_a_claim_says_whom_its_sandbox_is_for(world):
    makes(world, ALICE, template("plain"))
    makes(world, ALICE, pool("plains", "plain"))
    world.wait(POOLS, "plains", lambda p: p.get("status", {}).get("readyReplicas") == 1)
    makes(world, ALICE, claim("mine", "plains", visibility="Private"))
    name = world.wait_ready(CLAIMS, "mine")["status"]["sandbox"]["name"]
    notes = lambda: world.api("GET", f"{SANDBOXES}/{name}")["metadata"]["annotations"]
    assert (notes()["cay.dev/visibility"], notes()["cay.dev/owner"]) == ("Private", ALICE)
    assert refused(by(world, BOB, "exec", name, "--", "true"))
    assert by(world, ALICE, "exec", name, "--", "true").returncode == 0
    assert refused(by(world, BOB, "annotate", "sandboxclaim", "mine", "cay.dev/visibility=Team", "--overwrite"))
    assert by(world, ALICE, "annotate", "sandboxclaim", "mine", "cay.dev/visibility=Team", "--overwrite").returncode == 0
    world.wait(SANDBOXES, name, lambda o: o["metadata"]["annotations"].get("cay.dev/visibility") == "Team")
    assert by(world, BOB, "exec", name, "--", "true").returncode == 0


def test_a_private_agent_works_for_its_owner_in_private_sandboxes(world):
    makes(world, ALICE, template("desk"))
    makes(world, ALICE, pool("desks", "desk", 2))
    world.wait(POOLS, "desks", lambda p: p.get("status", {}).get("readyReplicas") == 2)
    makes(world, ALICE, agent("aide", visibility="Private", sandbox={"warmPoolRef": {"name": "desks"}}))
    assert refused(by(world, BOB, "create", "-f", "-", stdin=talk("spy", "aide")))
    makes(world, ALICE, talk("work", "aide"))
    name = world.wait(f"{CAY}/sessions", "work", lambda s: s.get("status", {}).get("phase") == "Active")["status"]["sandbox"]
    notes = world.api("GET", f"{SANDBOXES}/{name}")["metadata"]["annotations"]
    assert (notes["cay.dev/visibility"], notes["cay.dev/owner"]) == ("Private", ALICE)
    assert refused(by(world, BOB, "exec", name, "--", "true"))
    assert by(world, ALICE, "exec", name, "--", "true").returncode == 0
    assert world.kubectl(*acting("aide"), "exec", name, "--", "true", check=False).returncode == 0


def test_agents_attach_what_is_private_to_their_owner_alone(hers):
    for user, name in ((ALICE, "hand"), (BOB, "thief")):
        makes(hers, user, agent(name, sandbox={"mode": "UserChooses"}))
    makes(hers, ALICE, talk("of-hand", "hand", sandbox="hers"))
    assert refused(by(hers, BOB, "create", "-f", "-", stdin=talk("of-thief", "thief", sandbox="hers")))
    hers.kubectl("create", "-f", "-", stdin=talk("of-thief", "thief", sandbox="hers"))  # an administrator may, and the agent may not
    hers.wait(f"{CAY}/attachments", "of-hand", is_ready)
    assert hers.kubectl(*acting("hand"), "exec", "hers", "--", "true", check=False).returncode == 0
    hers.wait(f"{CAY}/attachments", "of-thief", lambda a: (condition(a, "Ready") or {}).get("reason") == "SandboxPrivate")
    assert hers.kubectl(*acting("thief"), "exec", "hers", "--", "true", check=False).returncode != 0


def test_what_is_global_can_be_read_by_name_by_every_user(world):
    makes(world, ALICE, template("shown", visibility="Global"))
    makes(world, ALICE, template("hidden"))
    assert by(world, "stranger", "get", "sandboxtemplate", "shown").returncode == 0
    assert by(world, "stranger", "get", "sandboxtemplate", "hidden").returncode != 0
    assert by(world, "stranger", "get", "sandboxtemplates").returncode != 0
    assert by(world, "stranger", "delete", "sandboxtemplate", "shown").returncode != 0
    assert world.kubectl(*acting("hand", "other"), "get", "sandboxtemplate", "shown", check=False).returncode != 0, "an agent of another team"


def test_no_trigger_session_or_attachment_leads_to_what_is_private(world):
    """Whoever may write these has the agent act: it is used as much as by a session of one's own."""
    makes(world, ALICE, agent("her-agent", visibility="Private", sandbox={"mode": "UserChooses"}))
    makes(world, ALICE, agent("everybodys", sandbox={"mode": "UserChooses"}))
    makes(world, ALICE, box("hidden", visibility="Private"))
    makes(world, ALICE, talk("her-talk", "her-agent", sandbox="none"))
    makes(world, BOB, talk("bobs-talk", "everybodys", sandbox="none"))
    makes(world, BOB, box("bobs"))
    secret = {"name": "s", "key": "k"}
    for body in (obj("cay.dev/v1alpha1", "Trigger", "t", {"agent": "her-agent", "secretRef": secret, "command": ["true"]}),
                 talk("other-talk", "everybodys", sandbox="hidden"),
                 obj("cay.dev/v1alpha1", "Attachment", "a", {"session": "her-talk", "sandbox": "bobs"}),
                 obj("cay.dev/v1alpha1", "Attachment", "b", {"session": "bobs-talk", "sandbox": "hidden"})):
        assert refused(by(world, BOB, "create", "-f", "-", stdin=body)), body
    for name, change in (("bobs-talk", {"sandbox": "hidden"}), ("her-talk", {"ended": True})):
        assert refused(by(world, BOB, "patch", "session", name, "--type=merge", "-p", json.dumps({"spec": change}))), name
    makes(world, ALICE, obj("cay.dev/v1alpha1", "Attachment", "c", {"session": "her-talk", "sandbox": "hidden"}))
