# SPDX-License-Identifier: Apache-2.0
"""Agents enter sandboxes by their attachments, and ask where a rule says so."""

import itertools
import json
import shlex
import subprocess
import urllib.error
import urllib.request

import pytest

from cay_local import wait_until
from gate_kit import CAY, acting, agent, attach, box, decide, delete, open_questions, patch, question, run, session, waiting
from test_agent_identity import Agent

number = itertools.count()


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    box(c, "desk")
    box(c, "other")
    return c


@pytest.fixture
def name():
    """Of an agent of its own for each test; its session and attachment are named alike."""
    return f"a{next(number)}"


@pytest.fixture
def builder(cay, name):
    agent(cay, name)
    session(cay, name, name)
    attach(cay, name, name, "desk")
    return name


def rules(cay, name, *rows, default="Allow"):
    patch(cay, "agents", name, {"spec": {"approval": {"default": default, "rules": list(rows)}}})


PUSH = {"action": "Ask", "argv": ["echo", "push", "**"]}


def test_an_attachment_is_the_way_in_and_there_is_no_other(cay, name):
    other = f"{name}-other"
    for each in (name, other):
        agent(cay, each)
        session(cay, each, each)
    attach(cay, other, other, "desk")
    assert run(cay, other, "desk", "echo", "in").stdout == "in\n"
    # Roles alone do not help, nor do attachments of others: this one may exec into every Pod of the namespace.
    cay.kubectl("create", "rolebinding", name, "--clusterrole=edit", f"--user=cay:agent:default:{name}")
    refused = run(cay, name, "desk", "true")
    assert refused.returncode == 1 and f"agent {name} has no attachment to sandbox desk that grants exec" in refused.stderr
    attach(cay, name, name, "desk")
    assert run(cay, name, "desk", "echo", "in").stdout == "in\n"
    assert run(cay, name, "other", "true").returncode == 1
    delete(cay, "attachments", name)
    assert run(cay, name, "desk", "true").returncode == 1


def test_an_attachment_that_is_not_ready_leads_nowhere(cay, builder):
    owner = f"{builder}-owner"
    agent(cay, owner, visibility="Private")
    box(cay, owner)
    cay.kubectl("label", "sandbox", owner, f"cay.dev/agent={owner}")
    attach(cay, f"{builder}-steals", builder, owner)
    assert run(cay, builder, owner, "true").returncode == 1
    delete(cay, "attachments", f"{builder}-steals")
    patch(cay, "agents", owner, {"spec": {"visibility": "Team"}})
    attach(cay, f"{builder}-asked", builder, owner)
    assert run(cay, builder, owner, "true").returncode == 0


def test_users_who_are_no_agents_go_by_their_roles(cay):
    assert cay.kubectl("exec", "desk", "--", "echo", "admin").stdout == "admin\n"
    assert cay.kubectl("exec", "desk", "--as", "ann", "--", "true", check=False).returncode == 1


@pytest.mark.parametrize("missing,how", [
    ("exec", ["exec", "desk", "--", "true"]),
    ("read", ["logs", "desk"]),
    ("ports", ["get", "--raw", "/api/v1/namespaces/default/pods/desk:9999/proxy/"]),
])
def test_each_right_opens_its_own_doors(cay, name, missing, how):
    agent(cay, name)
    session(cay, name, name)
    attach(cay, name, name, "desk", rights=[r for r in ("exec", "read", "ports") if r != missing])
    refused = cay.kubectl(*acting(name), *how, check=False)
    assert refused.returncode == 1 and f"that grants {missing}" in refused.stderr, refused.stderr
    delete(cay, "attachments", name)
    attach(cay, name, name, "desk", rights=[missing])
    allowed = cay.kubectl(*acting(name), *how, check=False)
    assert "no attachment" not in allowed.stderr and (allowed.returncode == 0 or "refused" in allowed.stderr), allowed.stderr


def test_a_port_of_the_runtime_is_as_good_as_a_shell(cay, name):
    agent(cay, name)
    session(cay, name, name)
    attach(cay, name, name, "desk", rights=["ports"])
    for port, grants in ((8888, False), (8080, False), (9090, False), (8000, True)):
        r = cay.kubectl(*acting(name), "get", "--raw", f"/api/v1/namespaces/default/pods/desk:{port}/proxy/", check=False)
        assert ("no attachment" not in r.stderr) == grants, (port, r.stderr)


def test_an_agent_enters_nothing_in_another_namespace(cay, builder):
    cay.kubectl("create", "namespace", builder)
    r = cay.kubectl("--as", f"cay:agent:{builder}:{builder}", "exec", "desk", "--", "true", check=False)
    assert r.returncode == 1 and "Forbidden" in r.stderr


def test_a_child_has_no_more_than_each_of_its_parents_at_once(cay, name):
    top, middle, leaf = f"{name}-top", f"{name}-mid", f"{name}-leaf"
    agent(cay, top)
    agent(cay, middle, parent=top)
    agent(cay, leaf, parent=middle)
    session(cay, leaf, leaf)
    attach(cay, leaf, leaf, "desk")
    with waiting(cay, leaf, "desk", "sh", "-c", "echo on; sleep 1000") as p:
        assert p.stdout.readline() == "on\n"
        patch(cay, "agents", top, {"spec": {"capabilities": {"rights": ["read"]}}})
        out, err = p.communicate(timeout=60)  # what is open ends with it
        assert p.returncode == 1 and "no longer" in err
    assert run(cay, leaf, "desk", "true").returncode == 1
    patch(cay, "agents", top, {"spec": {"capabilities": {"rights": ["exec", "read"]}}})
    assert run(cay, leaf, "desk", "true").returncode == 0
    rules(cay, middle, {"action": "Deny", "argv": ["echo", "**"]})
    assert "denies it" in run(cay, leaf, "desk", "echo").stderr
    delete(cay, "agents", top)
    assert run(cay, leaf, "desk", "true").returncode == 1
    refused = cay.kubectl(*acting(leaf), "get", "--raw", "/api/v1/namespaces/default/pods/desk/log", check=False)
    assert f"agent {leaf} has a parent that is missing" in refused.stderr, refused.stderr


@pytest.mark.parametrize("end", ["detach", "end", "delete session", "delete agent"])
def test_what_runs_ends_with_what_let_it_in(cay, builder, end):
    with waiting(cay, builder, "desk", "sh", "-c", "echo on; sleep 1000") as p:
        assert p.stdout.readline() == "on\n"
        if end == "end":
            patch(cay, "sessions", builder, {"spec": {"ended": True}})
        else:
            delete(cay, {"detach": "attachments", "delete session": "sessions", "delete agent": "agents"}[end], builder)
        _, err = p.communicate(timeout=60)
        assert p.returncode == 1 and "no longer" in err
    assert run(cay, builder, "desk", "true").returncode == 1


def test_once_is_once_and_for_exactly_this(cay, builder):
    rules(cay, builder, PUSH)
    with waiting(cay, builder, "desk", "echo", "push", "main") as p:
        asked = question(cay, builder)
        assert asked["spec"]["argv"] == ["echo", "push", "main"] and asked["spec"]["agent"] == builder
        decide(cay, asked, "Once")
        out, err = p.communicate(timeout=60)
        assert (p.returncode, out) == (0, "push main\n") and f"cay approve -n default {asked['metadata']['name']}" in err
    used = cay.api("GET", f"{CAY}/approvals/{asked['metadata']['name']}")["status"]
    assert used["used"] and used["decision"] == "Once"
    # The same again, and something slightly different, are new questions.
    for argv in (["echo", "push", "main"], ["echo", "push", "main", ""], ["echo", "push", "Main"]):
        with waiting(cay, builder, "desk", *argv):
            again = question(cay, builder)
            assert again["spec"]["digest"] != asked["spec"]["digest"] or argv == asked["spec"]["argv"]
            decide(cay, again, "Deny")
            wait_until(lambda: not open_questions(cay, builder))
    assert run(cay, builder, "desk", "echo", "pull").stdout == "pull\n"


def test_input_is_part_of_what_is_approved(cay, builder):
    rules(cay, builder, {"action": "Ask", "argv": ["cat"]})
    digests = set()
    for text in ("one", "two"):
        with waiting(cay, builder, "desk", "cat", stdin=text) as p:
            asked = question(cay, builder)
            digests |= {asked["spec"]["inputDigest"], asked["spec"]["digest"]}
            decide(cay, asked, "Once")
            assert p.communicate(timeout=60)[0] == text
    assert len(digests) == 4


def test_who_leaves_before_the_end_of_its_input_takes_nobody_along(cay, builder):
    rules(cay, builder, {"action": "Ask", "argv": ["cat"]})
    command = ["kubectl", "--kubeconfig", cay.kubeconfig, *acting(builder), "exec", "-i", "desk", "--", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        before = cay.metric("cay_entries_waiting")
        p.stdin.write(b"half")
        p.stdin.flush()
        wait_until(lambda: cay.metric("cay_entries_waiting") > before)
        p.kill()
    wait_until(lambda: cay.metric("cay_entries_waiting") == before)
    assert not open_questions(cay, builder)


def test_a_terminal_can_be_approved(cay, builder):
    rules(cay, builder, {"action": "Ask", "argv": ["echo", "**"]})
    command = shlex.join(["kubectl", "--kubeconfig", cay.kubeconfig, *acting(builder), "exec", "-it", "desk", "--", "echo", "typed"])
    with subprocess.Popen(["script", "-qec", command, "/dev/null"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        asked = question(cay, builder)
        assert "inputDigest" not in asked["spec"]
        decide(cay, asked, "Always")
        out = p.stdout.read()
        assert "typed" in out and "for this once" in out  # a rule would allow any input
    assert len(cay.api("GET", f"{CAY}/agents/{builder}")["spec"]["approval"]["rules"]) == 1


def test_what_cannot_be_shown_whole_is_not_asked(cay, builder):
    rules(cay, builder, {"action": "Ask", "argv": ["echo", "**"]})
    r = run(cay, builder, "desk", "echo", "x" * 5000)
    assert r.returncode == 1 and "at most 256 arguments of 4096 bytes" in r.stderr and not open_questions(cay, builder)


def test_a_read_that_is_approved_needs_no_other_right(cay, name):
    agent(cay, name, approval={"default": "Ask"})
    session(cay, name, name)
    attach(cay, name, name, "desk", rights=["read"])
    with subprocess.Popen(["kubectl", "--kubeconfig", cay.kubeconfig, *acting(name), "logs", "desk"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        decide(cay, question(cay, name), "Once")
        out, err = p.communicate(timeout=60)
        assert (p.returncode, out) == (0, b""), err  # and nobody adds to a log


def test_no_url_outlives_what_lets_an_agent_in(cay, builder):
    a = Agent(cay, f"{builder}-url").enters("desk")
    request = urllib.request.Request(f"http://127.0.0.1:{cay.router_port}/.cay/url", method="POST", data=b"{}", headers={
        "X-Sandbox-ID": "desk", "X-Sandbox-Namespace": "default", "Authorization": "Bearer " + a.mint(), "Sec-Fetch-Site": "cross-site"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 403 and b"outlive" in refused.value.read()


def test_always_is_a_rule_that_can_be_seen_and_removed(cay, builder):
    rules(cay, builder, PUSH)
    with waiting(cay, builder, "desk", "echo", "push", "a b") as p:
        decide(cay, question(cay, builder), "Always")
        assert p.communicate(timeout=60)[0] == "push a b\n"
    assert run(cay, builder, "desk", "echo", "push", "a b").stdout == "push a b\n"
    shown = cay.api("GET", f"{CAY}/agents/{builder}")["spec"]["approval"]["rules"]
    assert shown == [{"action": "Allow", "withoutInput": True, "argv": ["echo", "push", "a b"]}, PUSH]
    with waiting(cay, builder, "desk", "echo", "push", "a b", stdin="more than was shown"):  # with something to read it is another command
        decide(cay, question(cay, builder), "Deny")
    rules(cay, builder, PUSH)
    with waiting(cay, builder, "desk", "echo", "push", "a b"):
        decide(cay, question(cay, builder), "Deny")


def test_a_denial_and_an_expiry_are_told(cay, builder):
    rules(cay, builder, PUSH)
    with waiting(cay, builder, "desk", "echo", "push") as p:
        asked = question(cay, builder)
        decide(cay, asked, "Deny")
        assert "denied it" in p.communicate(timeout=60)[1] and p.returncode == 1
    assert "denied it" in run(cay, builder, "desk", "echo", "push").stderr  # no second question about the same
    patch(cay, "agents", builder, {"spec": {"approval": {"timeout": "1s"}}})
    assert "nobody approved it in time" in run(cay, builder, "desk", "echo", "push", "late").stderr


def test_a_question_outlives_the_server_and_its_answer_is_used_once(fresh):
    cay = fresh()
    box(cay, "desk")
    agent(cay, "b", approval={"rules": [PUSH]})
    session(cay, "b", "b")
    attach(cay, "b", "b", "desk")
    with waiting(cay, "b", "desk", "echo", "push"):
        asked = question(cay, "b")
    cay.kill()
    cay.start()
    with waiting(cay, "b", "desk", "echo", "push") as p:  # finds the question that is open
        decide(cay, question(cay, "b"), "Once")
        assert p.communicate(timeout=60)[0] == "push\n"
    cay.kill()
    cay.start()
    status = cay.api("GET", f"{CAY}/approvals/{asked['metadata']['name']}")["status"]
    assert status["used"]
    with waiting(cay, "b", "desk", "echo", "push"):
        assert question(cay, "b")["metadata"]["name"] != asked["metadata"]["name"]


def test_two_who_wait_for_one_answer_do_not_both_get_it(cay, builder):
    rules(cay, builder, PUSH)
    with waiting(cay, builder, "desk", "echo", "push") as one, waiting(cay, builder, "desk", "echo", "push") as two:
        asked = question(cay, builder)
        wait_until(lambda: cay.metric("cay_approvals_waiting") == 2)
        decide(cay, asked, "Once")
        outs = sorted([one.communicate(timeout=60)[0], two.communicate(timeout=60)[0]])
    assert outs == ["", "push\n"]


def test_nobody_approves_their_own_question(cay, builder):
    rules(cay, builder, PUSH)
    cay.kubectl("create", "rolebinding", f"{builder}-admin", "--clusterrole=admin", f"--user=cay:agent:default:{builder}")
    with waiting(cay, builder, "desk", "echo", "push"):
        asked = question(cay, builder)
        body = json.dumps({"status": {"decision": "Once"}})
        r = cay.kubectl(*acting(builder), "patch", "approval", asked["metadata"]["name"], "--subresource=status", "--type=merge", "-p", body, check=False)
        assert r.returncode == 1 and "orbidden" in r.stderr, r.stderr
        decide(cay, asked, "Deny")
