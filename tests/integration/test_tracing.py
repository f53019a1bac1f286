# SPDX-License-Identifier: Apache-2.0
"""Spans over OTLP/HTTP: a claim's way as one trace, and collectors that are dead, slow or hostile."""

import http.server
import json
import os
import re
import subprocess
import threading

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cay_local import AGENTS, BUILD, EXTENSIONS, free_port, is_ready, wait_until

NS = f"{EXTENSIONS}/namespaces/default"
CLAIMS, POOLS = f"{NS}/sandboxclaims", f"{NS}/sandboxwarmpools"
MAPS = "/api/v1/namespaces/default/configmaps"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KEY = "opentelemetry.io/trace-context"


class Collector:
    """Takes OTLP in JSON, and decodes it with OpenTelemetry's own messages. answers: statuses to give first."""

    def __init__(self, *answers, body=b"{}", wait=None):
        self.requests, self.spans, self.resources, self.answers = 0, [], [], list(answers)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                outer.requests += 1
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if wait:
                    wait.wait(60)
                status = outer.answers.pop(0) if outer.answers else 200
                if status == 200:
                    outer.take(self, data)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, request, data):
        assert request.path == "/v1/traces" and request.headers["Content-Type"] == "application/json"
        doc = json.loads(data)
        for batch in doc["resourceSpans"]:  # JSON has ids in hexadecimal, where protobuf's own mapping has base64
            for scope in batch["scopeSpans"]:
                for span in scope["spans"]:
                    assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
                    self.spans.append(span)
                    for key in ("traceId", "spanId", "parentSpanId"):
                        span[key] = span.get(key, "")
        plain = json.loads(data, object_hook=lambda o: {k: v for k, v in o.items() if k not in ("traceId", "spanId", "parentSpanId")})
        message = json_format.ParseDict(plain, ExportTraceServiceRequest())
        self.resources.append({a.key: a.value.string_value for a in message.resource_spans[0].resource.attributes})
        for span in message.resource_spans[0].scope_spans[0].spans:
            assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano and span.kind in (1, 2)

    def named(self, name, trace=None):
        return [s for s in self.spans if s["name"] == name and trace in (None, s["traceId"])]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(span):
    return {a["key"]: a["value"].get("stringValue", a["value"].get("intValue")) for a in span["attributes"]}


@pytest.fixture
def collector():
    made = []

    def make(*args, **more):
        made.append(Collector(*args, **more))
        return made[-1]

    yield make
    for c in made:
        c.close()


def extension(kind, name, spec, **meta):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def make_pool(cay):
    pod = {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}
    cay.api("POST", f"{NS}/sandboxtemplates", extension("SandboxTemplate", "t", pod))
    cay.api("POST", POOLS, extension("SandboxWarmPool", "p", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}}))
    cay.wait(POOLS, "p", lambda pool: pool and (pool.get("status") or {}).get("readyReplicas") == 1)


def post(cay, path, body, traceparent):
    conn = cay.connect()
    conn.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "traceparent": traceparent})
    answer = conn.getresponse()
    decoded = json.loads(answer.read())
    conn.close()
    assert answer.status == 201, decoded
    return decoded


def test_a_claims_way_is_one_trace_from_the_client_to_ready(fresh, collector):
    c = collector()
    cay = fresh("--otlp-endpoint", f"{c.url}/", "--otel-service-name", "here", "--otel-resource-attributes", "deployment.environment=test,a=b")
    make_pool(cay)
    made = post(cay, CLAIMS, extension("SandboxClaim", "c", {"warmPoolRef": {"name": "p"}}, labels={"agents.x-k8s.io/created-by": "odd"}), f"00-{TRACE}-{PARENT}-01")
    cay.wait(CLAIMS, "c", is_ready)
    wait_until(lambda: c.named("SandboxClaimReady", TRACE) and c.named("ReconcileSandbox", TRACE))
    request, = c.named("create sandboxclaims", TRACE)
    assert request["parentSpanId"] == PARENT and request["kind"] == 2
    assert attributes(request)["http.response.status_code"] == "201" and attributes(request)["enduser.id"] == "cay-admin"
    admission, = c.named("admission", TRACE)
    assert admission["parentSpanId"] == request["spanId"]
    assert json.loads(made["metadata"]["annotations"][KEY]) == {"traceparent": f"00-{TRACE}-{request['spanId']}-01"}
    passes = c.named("ReconcileSandboxClaim", TRACE)
    assert passes and all(s["parentSpanId"] == request["spanId"] for s in passes)
    assert {attributes(s)["agents.x-k8s.io/created-by"] for s in passes} == {"unknown"}, "case 281"
    assert "SandboxAdopted" in {e["name"] for s in passes for e in s["events"]}
    way, = c.named("SandboxClaimReady", TRACE)
    assert attributes(way)["launch_type"] == "warm" and way["parentSpanId"] in {s["spanId"] for s in passes}
    name = cay.api("GET", f"{CLAIMS}/c")["status"]["sandbox"]["name"]
    assert cay.api("GET", f"{SANDBOXES}/{name}")["metadata"]["annotations"][KEY] == made["metadata"]["annotations"][KEY], "case 187"
    sandbox = c.named("ReconcileSandbox", TRACE)[0]
    assert attributes(sandbox)["sandbox.name"] == name and attributes(sandbox)["sandbox.namespace"] == "default"
    parts = {s["name"] for s in c.spans if s["parentSpanId"] == sandbox["spanId"]}
    assert {"reconcilePod", "reconcilePVCs"} <= parts
    assert c.named("ReconcileSandboxTemplate")
    assert c.resources[0]["service.name"] == "here" and c.resources[0]["deployment.environment"] == "test"
    wait_until(lambda: cay.metric("cay_trace_spans_sent_total") > 0)
    assert cay.metric("cay_trace_spans_dropped_total") == 0


def test_what_a_client_says_about_its_trace_counts(fresh, collector):
    c = collector()
    cay = fresh("--otlp-traces-endpoint", f"{c.url}/v1/traces", "--otlp-endpoint", "http://127.0.0.1:9")
    other = "00-11111111111111111111111111111111-2222222222222222-01"
    mine = post(cay, SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "mine", "annotations": {KEY: json.dumps({"traceparent": other})}},
                                 "spec": {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}}, f"00-{TRACE}-{PARENT}-01")
    assert json.loads(mine["metadata"]["annotations"][KEY])["traceparent"] == other, "it is the user's"
    unsampled = post(cay, MAPS, {"metadata": {"name": "quiet"}}, f"00-{'3' * 32}-{PARENT}-00")
    assert "annotations" not in unsampled["metadata"]
    for i, bad in enumerate(("", "nonsense", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-more", "0" * 5000)):
        post(cay, MAPS, {"metadata": {"name": f"bad-{i}"}}, bad)
    wait_until(lambda: len([s for s in c.named("create configmaps") if not s["parentSpanId"]]) == 7)
    wait_until(lambda: c.named("ReconcileSandbox", "1" * 32))
    assert not c.named("create configmaps", "3" * 32) and not c.named("create configmaps", TRACE)
    assert not [s for s in c.spans if s["name"].startswith("watch")]


def test_nothing_is_written_or_sent_without_an_endpoint(fresh):
    cay = fresh()
    made = post(cay, SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "plain"},
                                 "spec": {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}}, f"00-{TRACE}-{PARENT}-01")
    assert KEY not in (made["metadata"].get("annotations") or {})
    assert cay.metric("cay_trace_spans_sent_total") == 0


def test_a_collector_that_comes_back_gets_what_waited(fresh, collector):
    c = collector(503, 429)
    cay = fresh("--otlp-endpoint", c.url)
    cay.api("POST", MAPS, {"metadata": {"name": "kept"}})
    wait_until(lambda: c.named("create configmaps"))
    assert c.requests >= 3


def test_what_a_collector_refuses_for_good_is_dropped(fresh, collector):
    c = collector(*[400] * 50)
    cay = fresh("--otlp-endpoint", c.url)
    cay.api("POST", MAPS, {"metadata": {"name": "lost"}})
    wait_until(lambda: cay.metric("cay_trace_spans_dropped_total") > 0)
    assert "spans are not taken" in cay.log()


@pytest.mark.parametrize("how", ["dead", "silent", "endless"])
def test_no_collector_holds_anything_up(fresh, collector, how):
    """Requests are answered as ever, more spans than may wait are dropped, and the end comes soon."""
    never = threading.Event()
    url = f"http://127.0.0.1:{free_port()}" if how == "dead" else collector(wait=never).url if how == "silent" else collector(body=b"x" * (32 << 20)).url
    cay = fresh("--otlp-endpoint", url)
    for _ in range(200 if how == "endless" else 1500):
        cay.api("POST", MAPS, {"metadata": {"generateName": "m-"}})
    assert cay.metric("cay_trace_spans_waiting") <= 2048
    if how != "endless":
        assert cay.metric("cay_trace_spans_dropped_total") > 0
    cay.stop()
    never.set()


@pytest.mark.parametrize("flags, name", [(("--otlp-endpoint", "collector:4318"), "--otlp-endpoint"), (("--otlp-traces-endpoint", "http:///v1"), "--otlp-traces-endpoint"),
                                         (("--otlp-endpoint", "http://127.0.0.1:9", "--otel-resource-attributes", "novalue"), "--otel-resource-attributes")])
def test_a_setting_that_is_none_is_named(fresh, flags, name):
    cay = fresh(*flags, start=False)
    argv = [os.path.join(BUILD, "cay"), "serve", "--data-dir", cay.data_dir, "--listen", "127.0.0.1:0", "--router-listen", "127.0.0.1:0", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode and name in done.stderr


def test_the_standard_variables_name_the_collector(collector, cay):
    """`cay controller` continues the traces of a cluster's claims, and stamps those that have none."""
    c = collector()
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_SERVICE_NAME": "controller"}
    process = subprocess.Popen([os.path.join(BUILD, "cay"), "controller", "--kubeconfig", os.path.join(cay.data_dir, "admin.kubeconfig")], env=env, stderr=subprocess.DEVNULL)
    try:
        cay.api("POST", f"{NS}/sandboxtemplates", extension("SandboxTemplate", "t", {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "pause"}]}}}))
        wait_until(lambda: c.named("ReconcileSandboxTemplate"))
        assert c.resources[0]["service.name"] == "controller"
    finally:
        process.terminate()
        assert process.wait(60) == 0
