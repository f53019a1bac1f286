# SPDX-License-Identifier: Apache-2.0
"""Who used what: ledgers, statuses, budgets and `cay cost`, with real sandboxes."""

import contextlib
import json
import os
import random
import subprocess

import pytest

from cay_local import AGENTS, EXTENSIONS, ApiError, condition, wait_until
from gate_kit import CAY, SANDBOXES, acting, attach, box, delete, patch, put, run, session, waiting

NS = "namespaces/default"
ROUNDS = int(os.environ.get("CAY_CRASH_ROUNDS", "20"))
BURN = "import time\nwhile time.process_time() < %s: pass"
POD = {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"],
                       "volumeMounts": [{"name": "work", "mountPath": "/work"}]}]}
VOLUME = {"metadata": {"name": "work"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}


def prepare(cay):
    for kind, plural, name, spec in (
            ("SandboxTemplate", "sandboxtemplates", "t", {"podTemplate": {"spec": POD}, "volumeClaimTemplates": [VOLUME]}),
            ("SandboxWarmPool", "sandboxwarmpools", "p", {"replicas": 0, "sandboxTemplateRef": {"name": "t"}})):
        cay.api("POST", f"{EXTENSIONS}/{NS}/{plural}", {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return cay


@pytest.fixture(scope="module")
def team(module_instance):
    return prepare(module_instance("--usage-interval", "1"))


@pytest.fixture
def cay(team):
    yield team
    for plural in ("sessions", "attachments", "agents", "budgets", "teampolicies"):
        team.api("DELETE", f"{CAY}/{plural}")
    wait_until(lambda: not team.api("GET", f"{CAY}/sessions")["items"])
    team.api("DELETE", f"{EXTENSIONS}/{NS}/sandboxclaims")
    team.api("DELETE", SANDBOXES)
    wait_until(lambda: not team.api("GET", SANDBOXES)["items"])


def agent(cay, name, mode="FreshPerSession", **spec):
    return put(cay, "agents", "Agent", name, sandbox={"mode": mode, "warmPoolRef": {"name": "p"}}, **spec)


def budget(cay, name, **spec):
    return put(cay, "budgets", "Budget", name, **spec)


def begin(cay, name, of, **spec):
    """A session with a sandbox of its own; the name of that."""
    put(cay, "sessions", "Session", name, agent=of, **spec)
    o = cay.wait(f"{CAY}/sessions", name, lambda s: s and s.get("status", {}).get("phase") == "Active")
    cay.wait_ready(SANDBOXES, o["status"]["sandbox"])
    return o["status"]["sandbox"]


def ledgers(cay):
    return sorted(cay.api("GET", f"{CAY}/ledgers")["items"], key=lambda o: o["metadata"]["name"])


def cpu(cay, **who):
    """Processor seconds in all rows with these members."""
    return sum(float(r["cpuSeconds"]) for o in ledgers(cay) for r in o["status"]["rows"] if all(r.get(k, "") == v for k, v in who.items()))


def measured(cay):
    """A measurement has begun after this call, and ended."""
    seen = cay.metric("cay_usage_looks_total")
    wait_until(lambda: cay.metric("cay_usage_looks_total") >= seen + 2)


def status(cay, plural, name):
    return cay.api("GET", f"{CAY}/{plural}/{name}").get("status", {})


def cost_of(cay, plural, name, what="cpuSeconds"):
    return float(status(cay, plural, name).get("cost", {}).get(what, 0))


def used(cay, name):
    return float(status(cay, "budgets", name).get("used", {}).get("cpuSeconds", 0))


def exceeded(cay, name, want=True):
    return cay.wait(f"{CAY}/budgets", name, lambda b: b and b.get("status", {}).get("exceeded") is want)


def command(cay, *argv):
    return cay.cay(*argv, "--kubeconfig", cay.kubeconfig, check=False)


def within(cay, name):
    return condition(cay.api("GET", f"{CAY}/sessions/{name}"), "WithinBudget")


def enter(cay, name, sandbox):
    """An exec as an agent, whether or not there is a Pod: status and text."""
    conn = cay.connect()
    conn.request("POST", f"/api/v1/{NS}/pods/{sandbox}/exec?command=true&stdout=true", headers={
        "Impersonate-User": f"cay:agent:default:{name}", "Impersonate-Group": "cay:agents"})
    r = conn.getresponse()
    text = r.read().decode()
    conn.close()
    return r.status, text


def burn(cay, of, sandbox, seconds):
    return run(cay, of, sandbox, "python3", "-c", BURN % seconds)


def test_use_is_that_of_the_attachment_its_session_agent_user_and_template(cay):
    agent(cay, "coder")
    sandbox = begin(cay, "s1", "coder", user="ann")
    assert burn(cay, "coder", sandbox, 1).returncode == 0
    wait_until(lambda: cpu(cay, agent="coder", user="ann", template="t") >= 1)
    assert cpu(cay, agent="coder") < 2.5
    wait_until(lambda: 1 <= cost_of(cay, "attachments", "s1") < 2.5)
    wait_until(lambda: 1 <= cost_of(cay, "sessions", "s1") < 2.5)
    wait_until(lambda: cost_of(cay, "sessions", "s1", "memoryGiBHours") > 0)
    assert status(cay, "sessions", "s1")["lastActivity"]
    assert cay.metric('cay_cost_cpu_seconds_total{namespace="default",agent="coder"}') >= 1


def test_what_is_not_done_by_an_attachment_is_its_owners_and_else_the_teams(cay):
    """A Pod's own processes count for whom it was made for; a sandbox without labels counts for nobody."""
    agent(cay, "worker")
    sandbox = begin(cay, "own", "worker")
    before = cpu(cay, agent="")
    cay.kubectl("exec", sandbox, "--", "python3", "-c", BURN % 0.5)  # the administrator, in the session's sandbox
    wait_until(lambda: cpu(cay, agent="worker") >= 0.5)
    assert cost_of(cay, "attachments", "own") == 0
    box(cay, "stray", "python3", "-c", (BURN % 0.5) + "\ntime.sleep(10000)")
    wait_until(lambda: cpu(cay, agent="") - before >= 0.5)


def test_what_is_over_before_it_was_measured_is_counted_whole_and_for_the_right_agent(cay):
    agent(cay, "quick")
    sandbox = begin(cay, "short", "quick", user="bob")
    assert burn(cay, "quick", sandbox, 0.4).returncode == 0
    delete(cay, "sessions", "short")
    cay.api("DELETE", f"{EXTENSIONS}/{NS}/sandboxclaims/short")
    cay.wait(SANDBOXES, sandbox, lambda o: o is None)
    wait_until(lambda: cpu(cay, agent="quick", user="bob") >= 0.4)
    wait_until(lambda: cay.metric("cay_usage_unsettled") == 0)
    measured(cay)
    uids = {m["uid"] for m in ledgers(cay)[-1]["status"]["marks"]}
    wait_until(lambda: not {m["uid"] for m in ledgers(cay)[-1]["status"]["marks"]} & uids, timeout=60)
    assert cpu(cay, agent="quick") < 1.5


def test_a_budget_that_is_used_up_suspends_and_wakes_again_when_there_is_room(cay):
    budget(cay, "small", limits={"cpuSeconds": "1"})
    agent(cay, "spender", budget="small")
    sandbox = begin(cay, "s2", "spender")
    cay.kubectl("exec", sandbox, "--", "sh", "-c", "echo kept > /work/mark")
    burn(cay, "spender", sandbox, 1.2)  # it may be cut off
    exceeded(cay, "small")
    o = cay.wait(SANDBOXES, sandbox, lambda b: b["spec"].get("operatingMode") == "Suspended")
    assert o["metadata"]["annotations"]["cay.dev/suspended-by"] == "budget/small"
    assert "cay.dev/asleep-since" not in o["metadata"]["annotations"]
    wait_until(lambda: within(cay, "s2")["status"] == "False")
    assert "Budget small is used up" in within(cay, "s2")["message"] and "of 1 cpuSeconds" in within(cay, "s2")["message"]
    assert condition(cay.api("GET", f"{CAY}/budgets/small"), "Exceeded")["reason"] == "UsedUp"
    assert [u["agent"] for u in status(cay, "budgets", "small")["usedByAgent"]] == ["spender"]
    code, text = enter(cay, "spender", sandbox)
    assert code == 403 and "budget small is used up" in text, (code, text)
    assert cay.api("GET", f"{SANDBOXES}/{sandbox}")["spec"]["operatingMode"] == "Suspended"
    reasons = lambda: {e["reason"] for e in cay.api("GET", f"/api/v1/{NS}/events")["items"]}
    wait_until(lambda: {"BudgetExceeded", "SuspendedByBudget"} <= reasons())

    # Whoever resumes it by hand does not get around it.
    cay.api("PATCH", f"{SANDBOXES}/{sandbox}", {"spec": {"operatingMode": "Running"}}, content_type="application/merge-patch+json")
    cay.wait(SANDBOXES, sandbox, lambda b: b["spec"]["operatingMode"] == "Suspended")

    patch(cay, "budgets", "small", {"spec": {"limits": {"cpuSeconds": "100"}}})
    exceeded(cay, "small", False)
    o = cay.wait(SANDBOXES, sandbox, lambda b: "cay.dev/asleep-since" in b["metadata"].get("annotations", {}))
    assert "cay.dev/suspended-by" not in o["metadata"]["annotations"]
    wait_until(lambda: within(cay, "s2")["status"] == "True")
    again = command(cay, "resume", sandbox)
    assert again.returncode == 0, again.stderr
    cay.wait_ready(SANDBOXES, sandbox)
    assert run(cay, "spender", sandbox, "cat", "/work/mark").stdout == "kept\n"


def deliver(cay, tmp_path, number, delivery):
    """An event of the trigger, and what became of it."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"number": number}))
    with open(event) as f:
        r = subprocess.run([os.path.join(cay.build, "cay"), "hook", "test", "default/pulls", "--secret-file", tmp_path / "key", "--delivery", delivery,
                            "--kubeconfig", cay.kubeconfig], stdin=f, capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    of = lambda t: next((d for d in t.get("status", {}).get("deliveries", []) if d["id"] == delivery), None)
    return of(cay.wait(f"{CAY}/triggers", "pulls", lambda t: of(t) and of(t).get("finished")))


def test_an_event_is_refused_while_a_budget_is_used_up_and_wakes_the_same_sandbox_afterwards(cay, tmp_path):
    (tmp_path / "key").write_text("secret")
    cay.api("POST", f"/api/v1/{NS}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook"}, "stringData": {"key": "secret"}})
    budget(cay, "events", limits={"cpuSeconds": "1"})
    agent(cay, "hooked", budget="events")
    put(cay, "triggers", "Trigger", "pulls", agent="hooked", secretRef={"name": "hook", "key": "key"}, sessionKey=".number",
        command=["sh", "-c", "echo once >> /work/events; cat /work/events"])
    first = deliver(cay, tmp_path, 7, "d1")
    assert first["outcome"] == "Ran" and first["output"] == "once\n", first
    sandbox = status(cay, "sessions", first["session"])["sandbox"]
    burn(cay, "hooked", sandbox, 1.2)
    exceeded(cay, "events")
    cay.wait(SANDBOXES, sandbox, lambda b: b["spec"].get("operatingMode") == "Suspended")
    wait_until(lambda: within(cay, first["session"])["status"] == "False")
    second = deliver(cay, tmp_path, 7, "d2")
    assert second["outcome"] == "Refused" and "Budget events is used up" in second["message"], second
    patch(cay, "budgets", "events", {"spec": {"limits": {"cpuSeconds": "100"}}})
    wait_until(lambda: within(cay, first["session"])["status"] == "True")
    third = deliver(cay, tmp_path, 7, "d3")
    assert third["outcome"] == "Ran" and third["output"] == "once\nonce\n", third
    assert status(cay, "sessions", first["session"])["sandbox"] == sandbox
    delete(cay, "triggers", "pulls")


def test_deny_refuses_what_is_new_and_lets_go_on_what_runs(cay):
    budget(cay, "strict", limits={"cpuSeconds": "1"}, onExceeded="Deny", period="1h")
    agent(cay, "parent", budget="strict")
    agent(cay, "child", parent="parent")
    sandbox = begin(cay, "s3", "child")
    with waiting(cay, "child", sandbox, "sh", "-c", f"echo on; python3 -c '{BURN % 1.2}'; while :; do sleep 0.1; done") as p:
        assert p.stdout.readline() == "on\n"
        exceeded(cay, "strict")
        refused = run(cay, "child", sandbox, "true")
        assert refused.returncode != 0 and "budget strict is used up" in refused.stderr and "begins anew at" in refused.stderr, refused.stderr
        put(cay, "sessions", "Session", "s4", agent="parent")
        o = cay.wait(f"{CAY}/sessions", "s4", lambda s: s and s.get("status", {}).get("phase") == "Pending")
        assert condition(o, "Ready")["reason"] == "BudgetExceeded"
        measured(cay)
        assert p.poll() is None
        assert cay.api("GET", f"{SANDBOXES}/{sandbox}")["spec"].get("operatingMode", "Running") == "Running"
    patch(cay, "budgets", "strict", {"spec": {"limits": {"cpuSeconds": "50"}}})
    cay.wait(f"{CAY}/sessions", "s4", lambda s: s["status"]["phase"] == "Active")
    wait_until(lambda: run(cay, "child", sandbox, "true").returncode == 0)


BEAT = "echo on; setsid sh -c 'while [ ! -e /tmp/enough ]; do date +%%s.%%N > /tmp/%s; sleep 0.05; done' > /dev/null 2>&1 & %s; wait"


def beats(cay, sandbox, name):
    """Whether what writes this file goes on."""
    last = cay.kubectl("exec", sandbox, "--", "cat", f"/tmp/{name}").stdout
    return cay.kubectl("exec", sandbox, "--", "sh", "-c", f'for i in $(seq 40); do [ "$(cat /tmp/{name})" = "{last.strip()}" ] || exit 0; sleep 0.05; done; exit 1',
                       check=False).returncode == 0


def test_suspend_ends_what_an_agent_runs_in_a_sandbox_of_somebody_elses(cay):
    """What went to the background included; what others run there goes on, and so does what agents run whose budget denies or warns."""
    kinds = {"tight": "Suspend", "denying": "Deny", "warning": "Warn"}
    for name, action in kinds.items():
        budget(cay, name, limits={"cpuSeconds": "1"}, onExceeded=action)
        agent(cay, f"parent-{name}", budget=name, capabilities={"rights": ["exec"]})
        agent(cay, f"guest-{name}", parent=f"parent-{name}", capabilities={"rights": ["exec"]})
    agent(cay, "owner")
    sandbox = begin(cay, "s10", "owner")
    for name in kinds:
        session(cay, name, f"guest-{name}")
        attach(cay, name, name, sandbox, rights=["exec"])
        cay.wait(f"{CAY}/attachments", name, lambda a: condition(a, "Ready") and condition(a, "Ready")["status"] == "True")
    with contextlib.ExitStack() as stack:
        p = {}
        for name, who, work in (("owner", "owner", "true"), *((n, f"guest-{n}", f"python3 -c '{BURN % 1.2}'") for n in ("denying", "warning", "tight"))):
            p[name] = stack.enter_context(waiting(cay, who, sandbox, "sh", "-c", BEAT % (name, work)))
            assert p[name].stdout.readline() == "on\n"
        for name in kinds:
            exceeded(cay, name)
        assert p["tight"].wait(60) != 0
        wait_until(lambda: not beats(cay, sandbox, "tight"))
        measured(cay)
        for name in ("owner", "denying", "warning"):
            assert p[name].poll() is None and beats(cay, sandbox, name), name
        refused = run(cay, "guest-tight", sandbox, "true")
        assert refused.returncode != 0 and "budget tight is used up" in refused.stderr, refused.stderr
        assert run(cay, "owner", sandbox, "true").returncode == 0
        assert cay.api("GET", f"{SANDBOXES}/{sandbox}")["spec"].get("operatingMode", "Running") == "Running"
        patch(cay, "budgets", "tight", {"spec": {"limits": {"cpuSeconds": "100"}}})
        wait_until(lambda: run(cay, "guest-tight", sandbox, "true").returncode == 0)
        # It ends too when somebody changes what a budget does that is used up.
        again = stack.enter_context(waiting(cay, "guest-tight", sandbox, "sh", "-c", BEAT % ("again", "true")))
        assert again.stdout.readline() == "on\n"
        patch(cay, "budgets", "denying", {"spec": {"onExceeded": "Suspend"}})
        wait_until(lambda: not beats(cay, sandbox, "denying"))
        assert again.poll() is None and beats(cay, sandbox, "again")
        cay.kubectl("exec", sandbox, "--", "touch", "/tmp/enough")  # other tests count what is used


def test_warn_says_so_and_does_nothing(cay):
    budget(cay, "soft", limits={"cpuSeconds": "0.2"}, onExceeded="Warn")
    put(cay, "teampolicies", "TeamPolicy", "team", budget="soft")
    agent(cay, "warned")
    sandbox = begin(cay, "s5", "warned")
    assert burn(cay, "warned", sandbox, 0.4).returncode == 0
    exceeded(cay, "soft")
    assert run(cay, "warned", sandbox, "true").returncode == 0
    measured(cay)
    assert cay.api("GET", f"{SANDBOXES}/{sandbox}")["spec"].get("operatingMode", "Running") == "Running"
    columns = cay.kubectl("get", "budgets", "soft").stdout.split()
    assert "CPU-LIMIT" in columns and "true" in columns, columns


def test_a_limit_of_zero_and_a_budget_that_is_not_there_let_nothing_begin(cay):
    budget(cay, "nothing", limits={"networkBytes": 0}, onExceeded="Deny")
    exceeded(cay, "nothing")
    agent(cay, "poor", budget="nothing")
    put(cay, "sessions", "Session", "s6", agent="poor")
    phase = lambda name: lambda s: s and condition(s, "Ready") and condition(s, "Ready")["reason"] == name
    cay.wait(f"{CAY}/sessions", "s6", phase("BudgetExceeded"))

    agent(cay, "typo", budget="nosuch")
    put(cay, "sessions", "Session", "s7", agent="typo")
    o = cay.wait(f"{CAY}/sessions", "s7", phase("BudgetExceeded"))
    assert "no Budget nosuch" in condition(o, "Ready")["message"]
    o = cay.wait(f"{CAY}/agents", "typo", lambda a: condition(a, "Ready") and condition(a, "Ready")["status"] == "False")
    assert condition(o, "Ready")["reason"] == "BudgetNotFound"
    budget(cay, "nosuch")
    cay.wait(f"{CAY}/sessions", "s7", lambda s: s["status"]["phase"] == "Active")
    cay.wait(f"{CAY}/agents", "typo", lambda a: condition(a, "Ready")["status"] == "True")
    sandbox = status(cay, "sessions", "s7")["sandbox"]
    cay.wait_ready(SANDBOXES, sandbox)
    assert run(cay, "typo", sandbox, "true").returncode == 0
    delete(cay, "budgets", "nosuch")
    refused = run(cay, "typo", sandbox, "true")
    assert refused.returncode != 0 and "there is no budget nosuch" in refused.stderr
    patch(cay, "agents", "typo", {"spec": {"budget": None}})
    wait_until(lambda: run(cay, "typo", sandbox, "true").returncode == 0)


def test_agents_share_a_budget_and_its_number_of_sandboxes(cay):
    budget(cay, "pair", limits={"maxSandboxes": 1})
    agent(cay, "left", budget="pair")
    agent(cay, "right", budget="pair")
    begin(cay, "s8", "left")
    put(cay, "sessions", "Session", "s9", agent="right")
    o = cay.wait(f"{CAY}/sessions", "s9", lambda s: s and condition(s, "Ready"))
    assert condition(o, "Ready")["reason"] == "MaxSandboxes" and "Budget pair" in condition(o, "Ready")["message"]


def test_a_budget_takes_no_period_below_a_minute_and_nothing_negative(cay):
    for spec, field in (({"period": "59s"}, "spec.period"), ({"limits": {"cpuSeconds": "-1"}}, "spec.limits.cpuSeconds")):
        with pytest.raises(ApiError) as refused:
            budget(cay, "bad", **spec)
        assert refused.value.code == 422 and field in str(refused.value)


def test_ledgers_are_read_by_viewers_and_written_by_nobody(cay):
    for role, verb, want in (("view", "get", True), ("view", "list", True), ("edit", "update", False), ("admin", "patch", False),
                             ("admin", "delete", False), ("admin", "create", False)):
        cay.kubectl("create", "rolebinding", f"l-{role}-{verb}", f"--clusterrole={role}", f"--user=u-{role}-{verb}")
        r = cay.kubectl("auth", "can-i", verb, "ledgers.cay.dev", "--as", f"u-{role}-{verb}", check=False)
        assert (r.stdout.strip() == "yes") is want, (role, verb, r.stdout)


def test_cay_cost_adds_up_to_what_the_kernel_counted(cay):
    """All of the namespace, from its first ledger on: within one percent of the node's own sum."""
    agent(cay, "adder")
    sandbox = begin(cay, "s10", "adder", user="eve")
    for _ in range(3):
        assert burn(cay, "adder", sandbox, 1).returncode == 0
    wait_until(lambda: cost_of(cay, "sessions", "s10") >= 3, timeout=60)
    node = lambda: cay.metric("cay_usage_cpu_seconds_total")
    total = lambda *by: json.loads(command(cay, "cost", "-o", "json", *by).stdout)
    measured(cay)
    wait_until(lambda: abs(float(total()["total"]["cpuSeconds"]) - node()) <= 0.01 * node())
    for by, who in (("agent", "adder"), ("user", "eve"), ("session", "s10")):
        items = {i[by]: float(i["cpuSeconds"]) for i in total("--by", by)["items"]}
        assert 3 <= items[who] < 5, (by, items)
    assert "t" in {i["template"] for i in total("--by", "template")["items"]}
    text = command(cay, "cost").stdout
    assert text.split()[0] == "AGENT" and "adder" in text and text.splitlines()[-1].startswith("TOTAL")
    assert command(cay, "cost", "-A").stdout.split()[0] == "NAMESPACE"
    assert not json.loads(command(cay, "cost", "--since", "2999-01-01", "-o", "json").stdout)["items"]
    assert json.loads(command(cay, "cost", "--since", "24h", "-o", "json").stdout)["items"]
    bad = command(cay, "cost", "--since", "yesterday")
    assert bad.returncode != 0 and "--since" in bad.stderr
    assert command(cay, "cost", "--by", "session", "--since", "1h").returncode != 0


def test_a_namespace_that_goes_leaves_nothing_unsettled(cay):
    cay.api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "brief"}})
    path = f"{AGENTS}/namespaces/brief/sandboxes"
    cay.api("POST", path, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "b"}, "spec": {"podTemplate": {"spec": {
        "containers": [{"name": "main", "image": "host", "command": ["python3", "-c", (BURN % 0.2) + "\ntime.sleep(10000)"]}]}}}})
    cay.wait_ready(path, "b")
    wait_until(lambda: cay.api("GET", "/apis/cay.dev/v1alpha1/namespaces/brief/ledgers")["items"])
    cay.api("DELETE", "/api/v1/namespaces/brief")
    cay.wait("/api/v1/namespaces", "brief", lambda o: o is None)
    wait_until(lambda: cay.metric("cay_usage_unsettled") == 0, timeout=60)


def test_kill_9_at_any_moment_neither_loses_nor_doubles(module_instance):
    """Two attachments that burn, and a server that is killed again and again."""
    cay = prepare(module_instance("--usage-interval", "1"))
    for name in ("one", "two"):
        agent(cay, name)
        sandbox = begin(cay, f"s-{name}", name)
        assert run(cay, name, sandbox, "sh", "-c", "python3 -c 'while True: pass' >/dev/null 2>&1 &").returncode == 0
    for _ in range(ROUNDS):
        seen = random.uniform(0, 1.5)
        wait_until(lambda: cay.metric("cay_usage_looks_total") >= seen)
        cay.kill()
        cay.start()
    for name in ("one", "two"):
        delete(cay, "sessions", f"s-{name}")
    cay.api("DELETE", f"{EXTENSIONS}/{NS}/sandboxclaims")
    wait_until(lambda: not cay.api("GET", SANDBOXES)["items"])
    wait_until(lambda: cay.metric("cay_usage_unsettled") == 0, timeout=60)
    measured(cay)
    wait_until(lambda: abs(cpu(cay) - cay.metric("cay_usage_cpu_seconds_total")) < 0.01, timeout=30)
    assert cpu(cay, agent="one") > 1 and cpu(cay, agent="two") > 1
    assert cpu(cay, agent="") < 0.05 * cpu(cay), ledgers(cay)
