# SPDX-License-Identifier: Apache-2.0
"""`cay bench`: every scenario in its smallest size. What is checked is the report, never a time."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess

import pytest
from cay_local import ROOT

SMALL = ["--runs", "10", "--pool", "6", "--rate", "20", "--clients", "1,2", "--members", "12", "--bursts", "4", "--sizes", "4,8"]
ROWS = ["growth 4", "growth 8", "cell refill=off delete=off", "cell refill=off delete=on", "cell refill=on delete=off",
        "cell refill=on delete=on", "loop clients=1", "loop clients=2", "sustained", "burst 4 open", "burst 4 new", "cold clients=1",
        "cold clients=8", "exec", "first output"]
PEERS = ["bwrap", "crun"]  # only where they are installed


def bench(cay, *args, suite="claim", **more):
    argv = [os.path.join(cay.build, "cay"), "bench", suite, "--kubeconfig", cay.kubeconfig, "--router",
            f"127.0.0.1:{cay.router_port}", *args]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def finished(cay, *args, **more):
    with bench(cay, *args, **more) as p:
        out, err = p.communicate(timeout=540)
    return p.returncode, out, err


def namespaces(cay):
    return [n["metadata"]["name"] for n in cay.api("GET", "/api/v1/namespaces")["items"]
            if n["metadata"]["name"].startswith("bench-") and not n["metadata"].get("deletionTimestamp")]


@pytest.fixture(scope="module")
def report(cay):
    code, out, err = finished(cay, *SMALL, "-o", "json")
    assert code == 0, err
    return json.loads(out)


def test_every_scenario_has_its_rows_and_no_failure(report):
    names = [r["name"] for r in report["rows"]]
    assert [n for n in names if n not in PEERS] == ROWS
    for row in report["rows"]:
        assert row["failures"] == 0, row
        assert row["n"] > 0 and 0 < row["min_us"] <= row["p50_us"] <= row["max_us"], row


def test_the_api_has_rows_for_writes_lists_and_watches(cay):
    code, out, err = finished(cay, "--runs", "5", "--objects", "50", "--watches", "20", "--api-clients", "1,4", "-o", "json", suite="api")
    assert code == 0, err
    rows = {r["name"]: r for r in json.loads(out)["rows"]}
    assert list(rows) == ["create clients=1", "create clients=4", "fill", "list", "list as Table", "get", "get beside lists", "fan-out"]
    assert all(r["failures"] == 0 and r["n"] > 0 and r["server_cpu_us"] > 0 for r in rows.values()), rows
    assert rows["create clients=4"]["n"] == 50 and rows["create clients=4"]["requests_per_s"] > 0
    assert rows["get beside lists"]["lists"] > 0 and rows["fan-out"]["watches"] == 20


def test_a_process_id_that_is_none_is_refused(cay):
    code, _, err = finished(cay, "--server-pid", "12,x", suite="api")
    assert code != 0 and '--server-pid: "x": give at most 8 process ids' in err


def test_the_router_has_rows_beside_every_proxy_that_is_installed(cay):
    code, out, err = finished(cay, "--runs", "1", "-o", "json", suite="router")
    assert code == 0, err
    here = ["cay", *(p for p in ("nginx", "haproxy") if shutil.which(p))]
    rows = {r["name"]: r for r in json.loads(out)["rows"]}
    for program in ["direct", *here, *(f"{p} tls" for p in here)]:
        for conns in (1, 10, 50, 200, 1000):
            assert rows.pop(f"router {program} connections={conns}")["n"] > 0, (program, conns)
    assert not rows, "a program that is not installed has rows"


def test_percentiles_that_so_few_runs_do_not_have_are_left_out(report):
    for row in report["rows"]:
        assert ("p90_us" in row) == (row["n"] >= 10), row
        assert ("p99_us" in row) == (row["n"] >= 100), row
        assert "p999_us" not in row


def test_the_conditions_and_the_floors_are_part_of_the_report(report):
    conditions = report["conditions"]
    for key in ("version", "build", "kernel", "cores", "filesystem", "image", "load_before", "load_after"):
        assert conditions[key] not in (None, ""), key
    assert conditions["server_pid"] > 0
    for floor in ("tls", "fdatasync", "launch", "exec"):
        assert report["floors"][floor]["p50_us"] > 0
    claim = next(r for r in report["rows"] if r["name"] == ROWS[2])
    assert claim["floor"] == "tls+fdatasync"
    assert claim["floor_us"] == pytest.approx(report["floors"]["tls"]["p50_us"] + report["floors"]["fdatasync"]["p50_us"])
    assert claim["p50_to_floor"] == pytest.approx(claim["p50_us"] / claim["floor_us"])


def test_what_a_claim_costs_the_server_is_in_the_report(report):
    rows = {r["name"]: r for r in report["rows"]}
    for name in ROWS[2:9]:
        assert rows[name]["loop_cpu_us"] > 0 and rows[name]["server_cpu_us"] >= rows[name]["loop_cpu_us"], name
        assert rows[name]["writes"] >= 2, name  # the claim and its Sandbox at least
    for name in ("loop clients=1", "loop clients=2", "cold clients=1"):
        assert 0 < rows[name]["bench_cpu_us"]
        assert rows[name]["cycles_per_s"] == pytest.approx(rows[name]["n"] / rows[name]["wall_us"] * 1e6)
    for name in ("burst 4 open", "burst 4 new"):
        assert rows[name]["bench_cpu_us"] > 0 and rows[name]["server_cpu_us"] >= rows[name]["loop_cpu_us"] > 0
        assert rows[name]["beside_ratio"] == pytest.approx(rows[name]["exec_during_us"] / rows[name]["exec_alone_us"])
    assert rows["growth 8"]["server_rss_mib"] > 0


def test_claims_are_warm_and_a_pool_that_is_not_refilled_makes_no_members(report):
    for row in report["rows"]:
        if "refill=off" in row["name"] or row["name"] in ("sustained", "growth 4", "growth 8"):
            assert row["cold_claims"] == 0, row
        if "refill=off" in row["name"] or row["name"] == "sustained":
            assert row["refilled"] == 0, row


def test_a_rate_is_kept_whether_or_not_earlier_claims_are_ready(report):
    row = next(r for r in report["rows"] if r["name"] == "cell refill=on delete=off")
    assert row["rate"] == 20 and row["n"] == 10


def test_nothing_is_left_afterwards(cay, report):
    assert not namespaces(cay)


@pytest.mark.parametrize("args,words", [(["cells"], "usage: cay bench"), (["--kubeconfig", "/nonexistent"], "/nonexistent")])
def test_bad_input_is_refused_before_anything_is_measured(cay, args, words):
    code, out, err = finished(cay, *args)
    assert code != 0 and words in err and not out


def test_an_interrupted_bench_removes_what_it_made(cay):
    with bench(cay, "--only", "sustained", "--members", "40") as p:
        while not namespaces(cay):
            assert p.poll() is None
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=400)
    assert p.returncode == 1 and "interrupted" in err
    assert not namespaces(cay)


def test_failed_claims_are_counted_and_end_the_bench_with_1(cay):
    code, out, err = finished(cay, "--only", "cold", "--runs", "3", "--image", "no\"json", "-o", "json")
    assert code == 1, err
    assert next(r for r in json.loads(out)["rows"] if r["name"] == "cold clients=1")["failures"] == 3


@pytest.mark.parametrize("args, names", [
    (["--only", "cells,nope"], "--only"),
    (["--only", "loops", "--clients", "1,x"], "--clients"),
    (["--only", "burst", "--bursts", "0"], "--bursts"),
    (["--runs", "0"], "--runs"),
])
def test_a_wrong_flag_is_named(cay, args, names):
    code, out, err = finished(cay, *args)
    assert code == 2 and names in err and not out.strip().startswith("{")
    assert not namespaces(cay)


@pytest.mark.parametrize("only", ["cells", "cold"])
def test_an_image_that_is_not_there_is_named(cay, only):
    """With the Pod's own reason, and not after a wait for it to start by itself."""
    code, out, err = finished(cay, "--only", only, "--runs", "3", "--image", "nope")
    assert code == 1 and "ErrImagePull" in err and "nope" in err and "no progress" not in err, err
    assert not namespaces(cay)


def test_a_router_that_is_not_there_is_named(cay):
    code, out, err = finished(cay, "--only", "burst", "--bursts", "2", "--runs", "1", "--router", "127.0.0.1:1")
    assert code == 1 and "127.0.0.1:1" in err and "--router" in err, err
    assert not namespaces(cay)


def test_one_scenario_as_text(cay):
    code, out, err = finished(cay, "--only", "cold", "--runs", "8")
    assert code == 0, err
    assert "cold clients=1" in out and "floor fdatasync" in out and "cell" not in out


# -- cay bench node -----------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def node_report(cay):
    code, out, err = finished(cay, "--only", "runtimes,policy,import", "--runs", "3", "--pool", "2", "--import-mb", "2", "-o", "json",
                              suite="node")
    assert code == 0, err
    return {r["name"]: r for r in json.loads(out)["rows"]}, err


def test_the_node_is_measured_by_runtime_class_and_beside_other_programs(node_report):
    rows, said = node_report
    for doing in ("start", "exec", "remove"):
        assert rows[f"{doing} native"]["n"] == 3 and rows[f"{doing} native"]["p50_us"] > 0
        peers = [n for n in rows if n.startswith(f"{doing} by ")]
        for name in peers:
            assert rows[name]["cay_to_this"] == pytest.approx(rows[f"{doing} native"]["p50_us"] / rows[name]["p50_us"]), name
    for name in ("bwrap", "crun", "runc", "runsc", "podman"):  # each is there, or said to be left out
        assert (f"start by {name}" in rows) != (f"{name} is left out" in said), said


def test_the_effect_of_a_policy_is_seen_from_inside(node_report):
    rows, _ = node_report
    for name in ("policy shuts", "policy opens"):
        assert rows[name]["n"] == 3 and rows[name]["min_us"] > 0


def test_an_import_is_measured_in_megabytes_a_second(node_report):
    rows, said = node_report
    row = rows["import by cay"]
    assert row["mb"] >= 2 and row["mb_per_s"] == pytest.approx(row["mb"] * 1e6 / row["p50_us"])
    assert ("import by skopeo+umoci" in rows) != ("skopeo+umoci is left out" in said)


def test_sandboxes_that_sleep_are_woken_beside_some_that_are_awake(cay):
    woken = cay.api("GET", "/metrics").count("cay_wakes_total{")
    code, out, err = finished(cay, "--runs", "8", "-o", "json", suite="wake")
    assert code == 0, err
    rows = {r["name"]: r for r in json.loads(out)["rows"]}
    assert [rows[f"wake {what}"]["n"] for what in ("awake", "frozen", "suspended")] == [16, 8, 8], rows
    assert not woken and cay.api("GET", "/metrics").count("cay_wakes_total{") == 2  # of each tier


def test_a_scenario_of_the_other_suite_is_refused(cay):
    code, out, err = finished(cay, "--only", "cells", suite="node")
    assert code == 2 and "cells" in err and not out


# -- cay bench exec, cay bench tti --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exec_report(cay):
    code, out, err = finished(cay, "--runs", "6", "--exec-clients", "1,3", "--file-mb", "2", "-o", "json", suite="exec")
    assert code == 0, err
    return {r["name"]: r for r in json.loads(out)["rows"]}


def test_commands_are_measured_by_clients_one_shot_and_streamed(exec_report):
    for clients in (1, 3):
        for name in ("exec", "stream", "first event"):
            row = exec_report[f"{name} clients={clients}"]
            assert row["n"] == 6 and row["failures"] == 0 and row["floor"] == "exec", row
        assert exec_report[f"exec clients={clients}"]["commands_per_s"] > 0
        assert exec_report[f"first event clients={clients}"]["min_us"] <= exec_report[f"stream clients={clients}"]["max_us"]


def test_an_event_does_not_wait_for_the_acknowledgement_of_the_head(exec_report):
    """Held back by Nagle's algorithm it would take forty times as long as the command."""
    assert exec_report["stream clients=1"]["min_us"] < 10 * exec_report["exec clients=1"]["min_us"]


def test_files_are_measured_beside_cp(exec_report):
    for name in ("upload", "download", "cp"):
        row = exec_report[name]
        assert row["n"] == 5 and row["mb_per_s"] == pytest.approx(2 / (row["p50_us"] / 1e6)), row


def test_the_time_to_interactive_has_the_score_of_the_boards(cay):
    code, out, err = finished(cay, "--runs", "5", "--pool", "6", "-o", "json", suite="tti")
    assert code == 0, err
    rows = {r["name"]: r for r in json.loads(out)["rows"]}
    assert list(rows) == ["sequential", "staggered", "burst"]
    for row in rows.values():
        assert row["n"] == 5 and row["failures"] == 0, row
        worst = row["max_us"]  # five runs have no p95 and no p99: the slowest stands for them
        assert row["score"] == pytest.approx(100 - 100 * (0.6 * row["p50_us"] + 0.4 * worst) / 10e6)


def test_the_router_is_measured_beside_other_proxies(cay):
    code, out, err = finished(cay, "--runs", "1", "-o", "json", suite="router")
    rows = {r["name"]: r for r in json.loads(out)["rows"]}
    assert code == 0
    for n in (1, 10, 50, 200, 1000):
        for program in ("cay", "cay tls", "direct"):
            row = rows[f"router {program} connections={n}"]
            assert row["requests_per_s"] > 0 and row["cpu_us"] >= 0, row
    for other in ("nginx", "haproxy"):
        assert (f"router {other} connections=10" in rows) != (f"{other} is left out" in err)


# -- cay bench gate -----------------------------------------------------------------------------------------------------------

DOORS = ["exec", "execute", "get", "review"]
WARM_UP = 3  # turns of each row that are not counted


@pytest.fixture(scope="module")
def gate_report(cay):
    began = os.path.getsize(os.path.join(cay.data_dir, "audit.log"))
    code, out, err = finished(cay, "--runs", "10", "--agents", "9", "--agent-sessions", "12", "-o", "json", suite="gate")
    assert code == 0, err
    with open(os.path.join(cay.data_dir, "audit.log")) as f:
        f.seek(began)
        entries = [r for r in map(json.loads, f) if r.get("verb") == "connect"]
    return {r["name"]: r for r in json.loads(out)["rows"]}, entries


@pytest.mark.parametrize("where", ["", ", beside 9 agents", ", among 3 attachments"])
@pytest.mark.parametrize("door", DOORS)
def test_each_door_is_measured_by_a_user_and_by_an_agent(gate_report, door, where):
    user, agent = (gate_report[0][f"{door} by {who}{where}"] for who in ("a user", "an agent"))
    for row in (user, agent):
        assert row["n"] == 10 and row["failures"] == 0 and 0 < row["p10_us"] <= row["p50_us"] and row["loop_cpu_us"] > 0, row
    assert not {"p10_ratio", "p50_ratio", "loop_cpu_ratio"} & set(user)
    for key in ("p10", "p50", "loop_cpu"):
        assert agent[f"{key}_ratio"] == pytest.approx(agent[f"{key}_us"] / user[f"{key}_us"]), key


@pytest.mark.parametrize("scenario,name", [("doors", "doors"), ("crowd", "visitor")])
def test_both_come_in_as_who_they_are_and_equally_often(gate_report, scenario, name):
    """At the router too, which would let in root without asking who it is."""
    rows, entries = gate_report
    measured = [r for r in rows.values() if r["scenario"] == scenario]
    came = {who: [e for e in entries if e["user"].startswith(f"{who}:bench-") and e["user"].endswith(f":{name}")]
            for who in ("system:serviceaccount", "cay:agent")}
    for who, word in (("system:serviceaccount", "by a user"), ("cay:agent", "by an agent")):
        turns = sum(r["n"] + WARM_UP for r in measured if word in r["name"] and not r["name"].startswith("review"))
        assert turns and len(came[who]) == turns, (who, turns, len(came[who]))
        assert {e["resource"] for e in came[who]} == {"pods", "sandboxes"}


def test_a_crowd_has_its_memory_and_its_time_and_a_change_is_measured(gate_report):
    rows, _ = gate_report
    for name, n in (("agents", 9), ("sessions", 12), ("attachments", 12)):
        row = rows[f"crowd of {name}"]
        assert row["n"] == n and row["failures"] == 0 and row["complete_us"] > 0 and "kib_each" in row, row
    changed = [rows[f"{door} by an agent, after a change"] for door in ("exec", "review")]
    assert all(r["n"] == 10 and r["p50_ratio"] > 0 for r in changed)
    assert rows["change of an agent"]["n"] == sum(r["n"] + WARM_UP for r in changed)


def test_without_a_router_the_gate_is_measured_at_the_api_alone(cay):
    code, out, err = finished(cay, "--runs", "10", "--only", "doors", "--router", "", "-o", "json", suite="gate")
    assert code == 0 and "execute: left out, because --router is empty" in err, err
    assert [r["name"] for r in json.loads(out)["rows"]] == [f"{d} by {w}" for d in ("exec", "review") for w in ("a user", "an agent")]


def test_a_router_that_trusts_everybody_is_not_measured(module_instance):
    trusting = module_instance("--open-to-local-users")
    code, out, err = finished(trusting, "--runs", "10", "--only", "doors", suite="gate")
    assert code == 1 and "the router lets us in without a token" in err, err
    assert not namespaces(trusting)


# -- tools/bench-compare ------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def tool():
    loader = importlib.machinery.SourceFileLoader("bench_compare", os.path.join(ROOT, "tools/bench-compare"))
    spec = importlib.util.spec_from_loader("bench_compare", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("base, tree, sign, verdict", [
    ([10, 11, 10], [10, 11, 12], -1, ""),          # the ranges overlap
    ([10, 11, 10], [20, 21, 20], -1, "worse"),
    ([10, 11, 10], [20, 21, 20], 1, "better"),     # a rate
    ([20, 21, 20], [10, 11, 10], -1, "better"),
    ([10, 18, 14], [19, 25, 20], -1, ""),          # apart, but by less than runs of the same tree differ
    ([10], [20], -1, ""),                          # one run has no spread
    ([0, 0], [3, 3], -1, "worse"),                 # failures where there were none
])
def test_a_difference_counts_only_beyond_the_noise(tool, base, tree, sign, verdict):
    assert tool.judge(base, tree, sign)[1] == verdict


def test_what_is_compared(tool):
    assert [tool.better(k) for k in ("p50_us", "loop_cpu_us", "cycles_per_s", "writes", "failures", "n", "floor_us", "p50_to_floor")] == \
        [-1, -1, 1, -1, -1, 0, 0, 0]
    rows = list(tool.compare([{"a": {"p50_us": 1.0, "n": 5}}] * 2, [{"a": {"p50_us": 3.0, "n": 5}, "new": {"p50_us": 1.0}}] * 2))
    assert rows == [("a", "p50_us", 1.0, 3.0, 3.0, "worse")]
