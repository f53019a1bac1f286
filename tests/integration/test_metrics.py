# SPDX-License-Identifier: Apache-2.0
"""/metrics: read by Prometheus' own parser, with the names, labels and buckets of upstream."""

import collections
import json
import os
import subprocess
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cay_local import AGENTS, BUILD, EXTENSIONS, ROOT, ApiError, free_port, is_ready, wait_until

NS = f"{EXTENSIONS}/namespaces/default"
CLAIMS = f"{NS}/sandboxclaims"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
MAPS = "/api/v1/namespaces/default/configmaps"
with open(os.path.join(ROOT, "tests/data/metrics/upstream.json")) as f:
    UPSTREAM = {name: spec for part in json.load(f).values() for name, spec in part.items()}


def extension(kind, name, spec, **meta):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def suspended(name, **meta):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name, **meta},
            "spec": {"operatingMode": "Suspended", "podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}}


def read(text):
    """{family: Metric}; a family that is told of twice is an error."""
    families = {}
    for family in text_string_to_metric_families(text):
        name = family.name + "_total" * (family.type == "counter")
        assert name not in families, f"{name} is there twice"
        families[name] = family
    return families


def page(cay):
    return read(cay.api("GET", "/metrics", accept="text/plain"))


def value(families, family, sample=None, **labels):
    """The sum of the samples with these labels; 0: there is none."""
    found = families[family].samples if family in families else ()
    return sum(s.value for s in found if s.name == (sample or family) and labels.items() <= s.labels.items())


def check_histogram(family):
    """Buckets that grow, and whose last is the count; a sum beside each."""
    series = collections.defaultdict(dict)
    for s in family.samples:
        key = tuple(sorted((k, v) for k, v in s.labels.items() if k != "le"))
        series[key].setdefault(s.name.removeprefix(family.name), []).append((float(s.labels.get("le", "nan")), s.value))
    for key, parts in series.items():
        bounds, counts = zip(*parts["_bucket"])
        assert list(bounds) == sorted(bounds) and list(counts) == sorted(counts), (family.name, key)
        assert bounds[-1] == float("inf") and counts[-1] == parts["_count"][0][1] and len(parts["_sum"]) == 1
    return series


@pytest.fixture(scope="module")
def used(cay):
    """A server with a pool and two claims of it: one warm, one cold; both have become Ready."""
    pod = {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "host", "command": ["sleep", "infinity"]}]}}}
    template = {**pod, "envVarsInjectionPolicy": "Allowed"}
    cay.api("POST", f"{NS}/sandboxtemplates", extension("SandboxTemplate", "t", template))
    cay.api("POST", f"{NS}/sandboxwarmpools", extension("SandboxWarmPool", "p", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}}))
    cay.wait(f"{NS}/sandboxwarmpools", "p", lambda pool: pool and (pool.get("status") or {}).get("readyReplicas") == 1)
    cay.api("POST", CLAIMS, extension("SandboxClaim", "warm", {"warmPoolRef": {"name": "p"}}, labels={"agents.x-k8s.io/created-by": "python-client"},
                                      annotations={"agents.x-k8s.io/client-first-requested-at": "2026-01-01T00:00:00.5Z"}))
    cay.wait(CLAIMS, "warm", is_ready)
    cay.api("POST", CLAIMS, extension("SandboxClaim", "cold", {"warmPoolRef": {"name": "p"}, "env": [{"name": "A", "value": "b"}]}))
    cay.wait(CLAIMS, "cold", is_ready)
    return cay


def test_the_page_is_read_by_prometheus_own_parser(used):
    families = page(used)
    for name, family in families.items():
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), name
        series = [(s.name, tuple(sorted(s.labels.items()))) for s in family.samples]
        assert len(series) == len(set(series)), f"{name} has a series twice"
        if family.type == "histogram":
            check_histogram(family)
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples), f"{name} is a counter"


@pytest.mark.parametrize("name", UPSTREAM)
def test_cases_272_to_279_names_labels_and_buckets_are_upstreams(used, name):
    want, family = UPSTREAM[name], page(used)[name]
    assert family.type == want["type"]
    if name == "agent_sandbox_claim_startup_latency_ms":
        assert not family.samples, "nobody has set the webhook's annotation"
        return
    for s in family.samples:
        assert set(s.labels) - {"le"} == set(want["labels"])
    if "buckets" in want:
        bounds = [float(s.labels["le"]) for s in family.samples if s.name.endswith("_bucket")]
        n = len(want["buckets"])
        assert bounds[:n] == want["buckets"] and bounds[n] == float("inf")
    assert family.samples


def test_cases_272_275_276_claims_are_counted_by_how_they_started(used):
    families = page(used)
    mine = {"namespace": "default", "sandbox_template": "t", "warmpool_name": "p"}
    assert value(families, "agent_sandbox_claim_creation_total", launch_type="warm", pod_condition="ready", created_by="python-client", **mine) == 1
    assert value(families, "agent_sandbox_claim_creation_total", launch_type="cold", pod_condition="not_ready", created_by="unknown", **mine) == 1
    for launch in ("warm", "cold"):
        for name in ("agent_sandbox_claim_controller_startup_latency_ms", "agent_sandbox_creation_latency_ms"):
            assert value(families, name, f"{name}_count", launch_type=launch, sandbox_template="t") == 1, (name, launch)
        assert value(families, "cay_claim_ready_seconds", "cay_claim_ready_seconds_count", launch_type=launch) == 1
    name = "agent_sandbox_client_claim_startup_latency_ms"
    assert value(families, name, f"{name}_count", launch_type="warm") == 1 and value(families, name, f"{name}_count", launch_type="cold") == 0


def test_case_278_U25_sandboxes_are_counted_by_what_they_are(used):
    wait_until(lambda: value(page(used), "agent_sandboxes", owned_by="SandboxWarmPool", ready_condition="true") == 1)
    families = page(used)
    assert value(families, "agent_sandboxes", owned_by="SandboxClaim", ready_condition="true", operating_mode="Running") == 2
    assert value(families, "cay_sandboxes", state="ready", member="false") == 2 and value(families, "cay_sandboxes", state="ready", member="true") == 1
    used.api("POST", SANDBOXES, suspended("down"))
    assert value(page(used), "agent_sandboxes", operating_mode="Suspended", owned_by="None", sandbox_template="unknown") == 1
    assert value(page(used), "cay_sandboxes", state="suspended", member="false") == 1
    used.api("DELETE", f"{SANDBOXES}/down")
    wait_until(lambda: value(page(used), "agent_sandboxes", operating_mode="Suspended") == 0)


def test_pools_tell_what_they_have_and_how_long_they_had_nothing(used):
    families = page(used)
    pool = {"namespace": "default", "pool": "p"}
    assert value(families, "cay_pool_desired", **pool) == 1
    assert value(families, "cay_pool_dry_seconds_total", **pool) > 0, "it was dry while it was filled for the first time"
    wait_until(lambda: value(page(used), "cay_pool_ready", **pool) == 1 and value(page(used), "cay_pool_dry", **pool) == 0)
    used.api("PATCH", f"{NS}/sandboxwarmpools/p", {"spec": {"replicas": 0}}, content_type="application/merge-patch+json")
    wait_until(lambda: value(page(used), "cay_pool_members", **pool) == 0)
    assert value(page(used), "cay_pool_dry", **pool) == 0, "it shall have none"


def test_requests_are_counted_by_verb_kind_and_answer(used):
    def count(code, **labels):
        return value(page(used), "apiserver_request_total", component="apiserver", code=code, **labels)

    made = {"verb": "POST", "group": "", "version": "v1", "resource": "configmaps", "scope": "resource"}
    before, conflicts = count("201", **made), count("409", **made)
    used.api("POST", MAPS, {"metadata": {"name": "counted"}})
    with pytest.raises(ApiError):
        used.api("POST", MAPS, {"metadata": {"name": "counted"}})
    used.api("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "tried"}})
    assert count("201", dry_run="", **made) == before + 1 and count("409", **made) == conflicts + 1
    assert count("201", dry_run="All", **made) == 1
    used.api("PATCH", f"{MAPS}/counted?fieldManager=me", {"apiVersion": "v1", "kind": "ConfigMap"}, content_type="application/apply-patch+yaml")
    assert count("200", verb="APPLY", resource="configmaps") == 1
    used.api("GET", MAPS)
    assert count("200", verb="LIST", resource="configmaps", scope="namespace") == 1
    for _ in used.watch(MAPS, resource_version="0"):
        break
    wait_until(lambda: count("200", verb="WATCH", resource="configmaps", scope="namespace") == 1)
    used.api("DELETE", MAPS)
    assert count("200", verb="DELETECOLLECTION", resource="configmaps") == 1
    families = page(used)
    name = "apiserver_request_duration_seconds"
    assert value(families, name, f"{name}_count", **made) == sum(count(code, **made) for code in ("201", "409"))
    assert value(families, "cay_api_request_seconds", "cay_api_request_seconds_count", verb="APPLY") == 1


def test_nobody_can_make_up_labels(used):
    def ask(i):
        for path in (f"/apis/made.up{i}/v1/things", f"/api/v1/namespaces/default/made{i}", f"/api/v1/namespaces/default/pods/x/made{i}", f"/made/up/{i}"):
            with pytest.raises(ApiError):
                used.api("GET", path)

    def series():
        return {(s.name, *s.labels.items()) for family in page(used).values() for s in family.samples if family.name.startswith("apiserver")}

    ask(0)
    page(used)
    before = series()
    for i in range(1, 20):
        ask(i)
    assert series() == before and "made" not in str(before)


def test_templates_without_number_are_counted_together(used):
    """Each Sandbox may name a template of its own; the series end, the count goes on."""
    count = 1100
    for i in range(count):
        used.api("POST", SANDBOXES, suspended(f"many-{i}", annotations={"agents.x-k8s.io/sandbox-template-ref": f"t-{i}"}))
    try:
        families = page(used)
        assert value(families, "agent_sandboxes") >= count
        assert len(families["agent_sandboxes"].samples) == 1001
        assert value(families, "agent_sandboxes", sandbox_template="other", namespace="other") >= count - 1000
    finally:
        used.api("DELETE", SANDBOXES)


def test_commits_are_measured(used):
    families = page(used)
    commits = value(families, "cay_store_commits_total")
    assert value(families, "cay_store_commit_seconds", "cay_store_commit_seconds_count") == commits > 0
    assert value(families, "cay_store_commit_seconds", "cay_store_commit_seconds_sum") > 0
    assert value(families, "cay_store_commit_rows", "cay_store_commit_rows_sum") == value(families, "cay_store_rows_total")


def test_ways_into_pods_are_counted(used):
    name = used.api("GET", f"{CLAIMS}/warm")["status"]["sandbox"]["name"]
    before = page(used)
    used.kubectl("exec", name, "--", "true")
    wait_until(lambda: value(page(used), "cay_entry_seconds", "cay_entry_seconds_count", way="exec") ==
               value(before, "cay_entry_seconds", "cay_entry_seconds_count", way="exec") + 1)
    assert value(page(used), "cay_entries_total", way="exec", result="allowed") == value(before, "cay_entries_total", way="exec", result="allowed") + 1
    assert value(page(used), "apiserver_request_total", verb="CONNECT", resource="pods", subresource="exec", code="101") >= 1


def test_the_controllers_alone_show_the_same(used):
    port, health = free_port(), free_port()
    argv = [os.path.join(BUILD, "cay"), "controller", "--kubeconfig", os.path.join(used.data_dir, "admin.kubeconfig"),
            "--metrics-bind-address", f"127.0.0.1:{port}", "--health-probe-bind-address", f"127.0.0.1:{health}"]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def show(port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except OSError as e:
            return getattr(e, "code", 0), ""

    try:
        wait_until(lambda: process.poll() is not None or show(health, "/readyz")[0] == 200)
        families = read(show(port, "/metrics")[1])
        assert {name for name in UPSTREAM if name.startswith("agent_")} <= set(families)
        assert value(families, "agent_sandboxes", owned_by="SandboxClaim", ready_condition="true") == 2
        assert value(families, "agent_sandbox_build_info") == 1
        assert show(health, "/healthz")[0] == 200 and show(health, "/metrics")[0] == 404
    finally:
        process.terminate()
        assert process.wait(60) == 0, process.stderr.read()


@pytest.mark.parametrize("flag", ["--metrics-bind-address", "--health-probe-bind-address"])
def test_an_address_that_is_none_is_named(used, flag):
    argv = [os.path.join(BUILD, "cay"), "controller", "--kubeconfig", os.path.join(used.data_dir, "admin.kubeconfig"), flag, "here"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode and f"{flag}: an address has the form" in done.stderr
