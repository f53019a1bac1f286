# SPDX-License-Identifier: Apache-2.0
"""Upstream's own end-to-end tests, from its published Go module and unmodified: what each of them comes to is what docs/reference/upstream-e2e.md
says, and every one of them is on that page."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import xml.etree.ElementTree

import pytest

from cay_local import BUILD, EXTENSIONS, ROOT
from clients_kit import BUILD_S
from test_client_modes import free_address
from test_go_client import SOURCE, too_old
from test_python_sdk import python_of

PAGE = pathlib.Path(ROOT) / "docs" / "reference" / "upstream-e2e.md"
PROGRAMS = pathlib.Path(ROOT) / "build" / "upstream"
MODULE = "sigs.k8s.io/agent-sandbox"
PACKAGES = {"framework": "./test/e2e/framework", "e2e": "./test/e2e", "extensions": "./test/e2e/extensions", "client": "./clients/go/sandbox"}
PYTHON = "test/e2e/clients/python"
ATTEMPTS = 10  # at a test whose outcome is a race of its own

# Compiling takes minutes, which are not counted, and upstream's tests sleep.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1700, func_only=True)]

# What a cluster with Gateways has: upstream's manifest creates one beside the Gateway. Here the router behind the Gateway is ours.
HTTP_ROUTE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: httproutes.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/4101"}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {plural: httproutes, singular: httproute, kind: HTTPRoute, listKind: HTTPRouteList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"""
# Between sandboxes nothing passes that no policy allows, and upstream's router, which one test deploys, is a Pod like any other.
ROUTER_POLICY = {
    "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "router"},
    "spec": {"podSelector": {"matchLabels": {"app": "sandbox-router"}}, "policyTypes": ["Egress"],
             "egress": [{"to": [{"podSelector": {}}]}]}}
# Upstream's router in Python, in an image like that of its Dockerfile.
ROUTER_RECIPE = {
    "name": "kind.local/sandbox-router:latest",
    "packages": ["base-files", "base-passwd", "dash", "python3", "python3-fastapi", "python3-uvicorn", "python3-httpx", "python3-websockets"],
    "files": [{"path": "/app/sandbox_router.py", "from": "sandbox_router.py"}], "workdir": "/app",
    "entrypoint": ["python3", "-m", "uvicorn", "sandbox_router:app", "--host", "0.0.0.0", "--port", "8080"]}


def listed():
    """What the page says: suite → test → (result, reason)."""
    rows = collections.defaultdict(dict)
    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0].strip("`") in ("framework", "e2e", "extensions", "runtimes", "client", "benchmarks", "python"):
            rows[cells[0].strip("`")][cells[1].strip("`")] = (cells[2], cells[3])
    return rows


def differences(suite, came):
    """What the page and the run say differently. A test whose parts have rows has one itself."""
    page = {name: result for name, (result, _) in listed()[suite].items()}
    wanted = {name: {"pass, race": "pass"}.get(result, result) for name, result in page.items() if result != "not run"}
    return {name: (wanted.get(name, "not listed"), came.get(name, "did not run")) for name in {*wanted, *came}
            if wanted.get(name) != came.get(name)}


def test_every_row_that_is_no_pass_has_a_reason():
    rows = listed()
    assert sum(len(r) for r in rows.values()) > 50
    bad = [(s, n) for s, r in rows.items() for n, (result, reason) in r.items()
           if result not in ("pass", "pass, race", "fail", "skip", "not run") or (result != "pass" and not reason)]
    assert not bad


@pytest.fixture(scope="module")
def module():
    """Where the module's files are; they cannot be written to."""
    if why := too_old():
        pytest.skip(f"upstream's tests cannot be built: {why}")
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/local/go/bin", GOTOOLCHAIN="local")
    found = subprocess.run(["go", "list", "-m", "-json", MODULE], cwd=SOURCE, env=env, capture_output=True, text=True)
    version = json.loads(found.stdout)["Version"]
    got = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{version}"], cwd=SOURCE, env=env, capture_output=True, text=True, timeout=300)
    if got.returncode:
        pytest.skip(f"the module cannot be had: {got.stdout} {got.stderr}")
    assert version in PAGE.read_text(), "the page is about another version"
    return pathlib.Path(json.loads(got.stdout)["Dir"])


@pytest.fixture(scope="module")
def programs(module):
    """Upstream's tests as programs, built where they are."""
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/local/go/bin", GOTOOLCHAIN="local", GOFLAGS="-mod=readonly -buildvcs=false")
    PROGRAMS.mkdir(exist_ok=True)
    for name, package in PACKAGES.items():
        path = PROGRAMS / f"{module.name}-{name}.test"
        if not path.exists():
            made = subprocess.run(["nice", "go", "test", "-c", "-p=2", "-tags=integration", "-o", path, package], cwd=module, env=env,
                                  capture_output=True, text=True, timeout=BUILD_S)
            assert made.returncode == 0, made.stderr
    return lambda name: PROGRAMS / f"{module.name}-{name}.test"


@pytest.fixture(scope="module")
def world(module_instance, module, tmp_path_factory):
    """What upstream's scripts make of a new cluster: images under their names, and the Deployment of a controller. Cay has that controller
    built in; the Pod of this one does nothing."""
    cay = module_instance("--gateway-listen", free_address())
    cay.image_tag("host", "busybox:1.36", "kind.local/python-runtime-sandbox:latest")
    cay.image_tag("pause", "registry.k8s.io/pause:3.10")
    manifest = (module / "k8s" / "controller.yaml").read_text()
    manifest, n = re.subn(r"( *)image: ko://.*", r"\1image: busybox:1.36\n\1command: [sh, -c, exec sleep infinity]", manifest)
    assert n == 1
    cay.kubectl("apply", "-f", "-", stdin=manifest)
    cay.kubectl("rollout", "status", "-n", "agent-sandbox-system", "deployment/agent-sandbox-controller", "--timeout=110s")
    cay.artifacts = str(tmp_path_factory.mktemp("artifacts"))
    return cay


def outcomes(text):
    """Of the lines that go test and pytest write: name → pass, fail or skip."""
    return {name: word.lower() for word, name in re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", text, re.M)}


def run(world, program, module, *flags, **env):
    at = module / PACKAGES[program.name.rsplit("-", 1)[1].removesuffix(".test")]
    r = subprocess.run([program, "-test.v", "-test.parallel=1", "-test.timeout=25m", *flags], cwd=at, capture_output=True, text=True,
                       env=dict(os.environ, KUBECONFIG=world.kubeconfig, ARTIFACTS=world.artifacts, **env))
    return r.stdout + r.stderr


def run_with_races(world, program, module, suite, *flags):
    """Those whose outcome is a race are tried again, one part at a time."""
    text = run(world, program, module, *flags)
    came = outcomes(text)
    races = [n for n, (result, _) in listed()[suite].items() if result == "pass, race"]
    for _ in range(ATTEMPTS):
        for name in [n for n in races if came.get(n) == "fail" and not any(r.startswith(n + "/") for r in races)]:
            again = outcomes(run(world, program, module, "-test.run", "/".join(f"^{re.escape(p)}$" for p in name.split("/"))))
            came[name] = again.get(name, "fail")
    for name in races:  # a test passes when its parts do
        parts = [came[n] for n in came if n.startswith(name + "/")]
        came[name] = ("pass" if set(parts) == {"pass"} else "fail") if parts else came[name]
    return came, text


@pytest.mark.parametrize("suite", ["framework", "e2e", "extensions"])
def test_the_suite(world, programs, module, suite):
    skipped = "|".join(f"^{n}$" for n, (result, _) in listed()[suite].items() if result == "not run")
    came, text = run_with_races(world, programs(suite), module, suite, *(["-test.skip", skipped] if skipped else []))
    assert not differences(suite, came), text[-20000:]


def test_every_test_of_upstream_is_on_the_page(programs):
    rows = listed()
    for suite in ("framework", "e2e", "extensions"):
        names = subprocess.run([programs(suite), "-test.list", "."], capture_output=True, text=True, check=True).stdout.split()
        assert {n for n in names if n.startswith("Test")} == {n for n in rows[suite] if "/" not in n}
        assert {n for n in names if n.startswith("Benchmark")} <= {n.split("/")[0] for n in rows["benchmarks"]}


def test_with_a_runtime_class(world, programs, module):
    """Which upstream leaves out unless it is given one."""
    text = run(world, programs("extensions"), module, "-test.run", "RuntimeClass", SANDBOX_RUNTIME_CLASS="native", SANDBOX_POOL_SIZES="2",
               SANDBOX_WORKLOAD_SEC="2", SANDBOX_SETTLE_SEC="1", SANDBOX_REPORT_DIR=world.artifacts)
    assert not differences("runtimes", outcomes(text)), text[-20000:]


def test_the_benchmarks(world, programs, module):
    flags = ["-test.run=^$", "-test.benchtime=2x"]
    text = run(world, programs("e2e"), module, "-test.bench=WarmPool", *flags)
    text += run(world, programs("extensions"), module, "-test.bench=.", *flags, SANDBOX_RUNTIME_CLASS="native", SANDBOX_POOL_SIZES="2")
    came = {name: "pass" for name in re.findall(r"^(Benchmark\S+?)(?:-\d+)?\s+\d+\s.* ns/op", text, re.M)}
    print("\n".join(line for line in text.splitlines() if " ns/op" in line))
    assert not differences("benchmarks", {n.split("/")[0]: "pass" for n in came}), text[-20000:]


@pytest.mark.parametrize("mode", ["direct", "tunnel", "gateway"])
def test_the_go_client(world, programs, module, mode):
    for name in ("template", "warmpool"):
        world.kubectl("apply", "-f", os.path.join(ROOT, "examples", name + ".yaml"))
    world.wait(f"{EXTENSIONS}/namespaces/default/sandboxwarmpools", "agents", lambda p: p and p.get("status", {}).get("readyReplicas"))
    way = {"direct": [f"-api-url=http://127.0.0.1:{world.router_port}"], "tunnel": [], "gateway": ["-gateway-name=external-http-gateway"]}[mode]
    text = run(world, programs("client"), module, "-test.run=TestIntegration", "-warmpool-name=agents", *way, INTEGRATION_TEST="1")
    assert not differences("client", outcomes(text)), text


def give_policies(world, stop):
    """Each namespace of the Python tests gets the policy of its router as soon as it exists."""
    done = set()
    while not stop.wait(0.2):
        for n in world.api("GET", "/api/v1/namespaces")["items"]:
            name = n["metadata"]["name"]
            if name.startswith("py-sdk-e2e-") and name not in done and "deletionTimestamp" not in n["metadata"]:
                done.add(name)
                world.api("POST", f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies", ROUTER_POLICY)


@pytest.mark.skipif(not shutil.which("apt-get"), reason="there is no apt-get here, which finds the packages of the router's image")
def test_the_python_client(world, module, tmp_path):
    """The published one, of the same version as the tests."""
    source = module / "clients" / "python" / "agentic-sandbox-client" / "sandbox-router" / "sandbox_router.py"
    (tmp_path / "sandbox_router.py").write_bytes(source.read_bytes())
    (tmp_path / "router.yaml").write_text(json.dumps(ROUTER_RECIPE))
    subprocess.run([os.path.join(BUILD, "cay"), "image", "build", "-f", tmp_path / "router.yaml", "--data-dir", world.data_dir], check=True, timeout=600)
    world.kubectl("apply", "-f", "-", stdin=HTTP_ROUTE)
    stop = threading.Event()
    thread = threading.Thread(target=give_policies, args=(world, stop))
    thread.start()
    try:
        r = subprocess.run([python_of("venv-0.5.6"), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={tmp_path}/out.xml", PYTHON], cwd=module,
                           capture_output=True, text=True, env=dict(os.environ, KUBECONFIG=world.kubeconfig, PYTHONDONTWRITEBYTECODE="1"))
    finally:
        stop.set()
        thread.join()
    came = {case.get("name"): "fail" if case.find("failure") is not None or case.find("error") is not None else "pass"
            for case in xml.etree.ElementTree.parse(tmp_path / "out.xml").iter("testcase")}
    assert not differences("python", came), r.stdout[-20000:]
