# SPDX-License-Identifier: Apache-2.0
"""Every verb of a day with unmodified kubectl, by its output: the one of the system, and with make test-long those that
tests/clients/kubectl names, built from their modules."""

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import urllib.request

import pytest
import yaml

from cay_local import ROOT, free_port, is_ready
from clients_kit import BUILDS, built
from test_clients_python import SERVER

SOURCE = pathlib.Path(ROOT) / "tests" / "clients" / "kubectl"
VERSIONS = sorted((p.stem for p in SOURCE.glob("1.*.mod")), key=lambda v: int(v.split(".")[1]))
pytestmark = BUILDS
GROUP, EXTENSIONS = "agents.x-k8s.io/v1beta1", "extensions.agents.x-k8s.io/v1beta1"


def program(version):
    if version == "system":
        return "kubectl"
    patch = re.search(r"k8s.io/kubectl v0\.(\S+)", (SOURCE / f"{version}.mod").read_text()).group(1)
    return built(SOURCE, ".", f"kubectl-{version}", modfile=f"{version}.mod",
                 ldflags=f"-X k8s.io/component-base/version.gitVersion=v1.{patch}")


class Kubectl:
    """One version in a namespace of its own."""

    def __init__(self, cay, version):
        self.cay, self.version, self.ns = cay, version, "day-" + version.replace(".", "-")
        self.program = program(version)
        self.minor = int(re.search(r"v1\.(\d+)", self.run("version", "--client").stdout).group(1))

    @property
    def env(self):
        return dict(os.environ, KUBECONFIG=self.cay.kubeconfig, HOME=self.cay.data_dir)

    def argv(self, *args):
        return [self.program, *(("-n", self.ns) if "-A" not in args else ()), *args]

    def run(self, *args, stdin=None, check=True, env=None, timeout=120):
        stdin = json.dumps(stdin) if isinstance(stdin, dict) else stdin
        r = subprocess.run(self.argv(*args), capture_output=True, text=True, input=stdin, timeout=timeout, env=dict(self.env, **(env or {})))
        assert not check or r.returncode == 0, f"kubectl {' '.join(args)}: exit {r.returncode}: {r.stderr}{r.stdout}"
        return r

    def __call__(self, *args, **more):
        return self.run(*args, **more).stdout

    def refused(self, *args, **more):
        r = self.run(*args, check=False, **more)
        assert r.returncode == 1, r.stdout + r.stderr
        return r.stderr

    def get(self, *what):
        return json.loads(self("get", *what, "-o", "json"))

    def popen(self, *args, **more):
        return subprocess.Popen(self.argv(*args), env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def terminal(self, *args, say=b""):
        """Output and exit code of a command on a terminal of its own."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execvpe(self.program, self.argv(*args), self.env)
        os.write(fd, say)
        out = b""
        with contextlib.suppress(OSError):  # a terminal whose other side is gone
            while select.select([fd], [], [], 60)[0] and (piece := os.read(fd, 4096)):
                out += piece
        os.close(fd)
        return out.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def container(*command, **more):
    return dict({"name": "main", "image": "host", "command": list(command)}, **more)


def obj(api, kind, name, spec=None, labels=None, **more):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **({"labels": labels} if labels else {})}, **({"spec": spec} if spec else {}), **more}


def box(name, **labels):
    return obj(GROUP, "Sandbox", name, {"podTemplate": {"spec": {"containers": [container("sleep", "infinity")]}}}, labels)


def config_map(name, labels=None, **data):
    return obj("v1", "ConfigMap", name, labels=labels, **({"data": data} if data else {}))


def several(*objects):
    return "\n".join(json.dumps(o) for o in objects)


def pod(name, *command, labels=None, **spec):
    return obj("v1", "Pod", name, {"terminationGracePeriodSeconds": 1, "containers": [container(*command)], **spec}, labels)


@pytest.fixture(scope="module")
def server(module_instance):
    return module_instance()


@pytest.fixture(scope="module", params=["system", *(pytest.param(v, marks=pytest.mark.long) for v in VERSIONS)])
def k(server, request):
    kubectl = Kubectl(server, request.param)
    kubectl("create", "namespace", kubectl.ns)
    web = pod("web", "python3", "-c", SERVER, labels={"app": "web"})
    web["spec"]["containers"][0].update(workingDir="/etc", ports=[{"name": "http", "containerPort": 8000}],
                                        readinessProbe={"tcpSocket": {"port": 8000}, "periodSeconds": 1})
    template = obj(EXTENSIONS, "SandboxTemplate", "small", box("x")["spec"])
    pool = obj(EXTENSIONS, "SandboxWarmPool", "pool", {"replicas": 1, "sandboxTemplateRef": {"name": "small"}})
    claim = obj(EXTENSIONS, "SandboxClaim", "claim", {"warmPoolRef": {"name": "pool"}})
    service = obj("v1", "Service", "web", {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]})
    kubectl("apply", "-f", "-", stdin=several(web, service, template, pool, box("box", tier="gold", colour="red"), config_map("map", a="1")))
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=1", "swp/pool", "--timeout=60s")
    kubectl("apply", "-f", "-", stdin=claim)
    kubectl("wait", "--for=condition=Ready", "pod/web", "sandbox/box", "sandboxclaim/claim", "--timeout=60s")
    yield kubectl
    kubectl("delete", "namespace", kubectl.ns, "--timeout=120s", timeout=180)


def lines(text):
    return [line.split() for line in text.splitlines()]


# -- looking ----------------------------------------------------------------------------------------------------------


def test_get_table(k):
    assert lines(k("get", "sandbox", "box"))[0] == ["NAME", "READY", "REASON", "AGE"]
    assert lines(k("get", "pods", "web"))[1][:4] == ["web", "1/1", "Running", "0"]
    assert lines(k("get", "pods", "-o", "wide"))[0][-4:] == ["NOMINATED", "NODE", "READINESS", "GATES"]
    shown = k("get", "sandbox", "box", "--show-labels")
    assert shown.splitlines()[0].endswith("LABELS") and "colour=red,tier=gold" in shown
    assert lines(k("get", "sandbox", "box", "-L", "tier"))[1][-1] == "gold"
    assert "red" not in k("get", "sandbox", "box", "--no-headers", "--label-columns=tier")
    assert lines(k("get", "sandboxes", "-A"))[0][0] == "NAMESPACE"
    everything = k("get", "all")
    assert "pod/web" in everything and "service/web" in everything
    assert k("get", "sandbox/box", "cm/map", "-o", "name") == "sandbox.agents.x-k8s.io/box\nconfigmap/map\n"


def test_get_formats(k):
    assert yaml.safe_load(k("get", "sandbox", "box", "-o", "yaml"))["spec"]["operatingMode"] == "Running"
    assert k.get("sandbox", "box")["metadata"]["name"] == "box"
    assert "managedFields" not in k("get", "sandbox", "box", "-o", "yaml")
    assert "managedFields" in k("get", "sandbox", "box", "-o", "yaml", "--show-managed-fields")
    assert k("get", "pod", "web", "-o", "jsonpath={.status.phase}") == "Running"
    assert k("get", "pods", "web", "-o", "jsonpath-as-json={.metadata.labels.app}").split() == ["[", '"web"', "]"]
    assert k("get", "pod", "web", "-o", "go-template={{.metadata.name}}:{{.status.phase}}") == "web:Running"
    assert k("get", "pod", "-l", "app=web", "-o", "template={{len .items}}") == "1"
    columns = k("get", "sandbox", "box", "-o", "custom-columns=N:.metadata.name,M:.spec.operatingMode,X:.none")
    assert lines(columns) == [["N", "M", "X"], ["box", "Running", "<none>"]]


def test_get_selects_sorts_and_pages(k):
    for i in range(7):
        k("apply", "-f", "-", stdin=config_map(f"page-{6 - i}", {"n": str(i), "set": "pages"}))
    names = lambda *args: k("get", "cm", "-o", "name", *args).split()
    pages = [f"configmap/page-{i}" for i in range(7)]
    assert names("-l", "set=pages") == names("-l", "set in (pages, others),n") == pages
    assert names("-l", "set=pages", "--chunk-size=2") == pages
    assert names("-l", "set=pages,n notin (0,1)") == pages[:5] and not names("-l", "set=pages,!n")
    assert names("--field-selector", "metadata.name=page-3") == [pages[3]]
    ordered = k("get", "cm", "-l", "set=pages", "--sort-by=.metadata.labels.n", "--no-headers")
    assert [line[0] for line in lines(ordered)] == [f"page-{6 - i}" for i in range(7)]
    assert "page" in k.refused("get", "cm", "--field-selector", "page=x")
    assert k("get", "pods", "--field-selector=status.phase=Running,spec.restartPolicy!=Never", "-o", "name") != ""
    assert "deleted" in k("delete", "cm", "-l", "set=pages")


def test_get_subresource_and_missing(k):
    assert k("get", "swp", "pool", "--subresource=scale", "-o", "jsonpath={.kind}") == "Scale"
    assert k("get", "sandbox", "box", "--subresource=status", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}") == "True"
    assert 'sandboxes.agents.x-k8s.io "none" not found' in k.refused("get", "sandbox", "none")
    assert k("get", "sandbox", "none", "--ignore-not-found") == ""
    assert "the server doesn't have a resource type" in k.refused("get", "nonsense")
    assert f"No resources found in {k.ns} namespace." in k.run("get", "leases").stderr


def test_get_watch(k):
    with k.popen("get", "cm", "-w", "--output-watch-events", "--field-selector=metadata.name=seen") as p:
        k("create", "configmap", "seen")
        said = [p.stdout.readline().split()[:2], p.stdout.readline().split()[:2]]
        k("delete", "configmap", "seen")
        said.append(p.stdout.readline().split()[:2])
        p.terminate()
    assert said == [["EVENT", "NAME"], ["ADDED", "seen"], ["DELETED", "seen"]]
    with k.popen("get", "sandbox", "box", "--watch-only", "-o", "name") as p:
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(1)
        i = 0
        while not select.select([p.stdout], [], [], 0.2)[0]:
            i += 1
            k("annotate", "sandbox", "box", f"seen={i}", "--overwrite")
        assert p.stdout.readline() == "sandbox.agents.x-k8s.io/box\n"
        p.terminate()


def test_get_raw(k):
    assert k("get", "--raw", "/healthz") == "ok"
    assert "readyz check passed" in k("get", "--raw", "/readyz?verbose")
    assert json.loads(k("get", "--raw", f"/api/v1/namespaces/{k.ns}/pods/web"))["kind"] == "Pod"
    path = f"/api/v1/namespaces/{k.ns}/configmaps"
    assert json.loads(k("create", "--raw", path, "-f", "-", stdin=config_map("raw")))["metadata"]["name"] == "raw"
    assert json.loads(k("replace", "--raw", f"{path}/raw", "-f", "-", stdin=config_map("raw", a="b")))["data"] == {"a": "b"}
    assert json.loads(k("delete", "--raw", f"{path}/raw"))["status"] == "Success"


@pytest.mark.parametrize("what,words", [
    ("sandbox/box", ["Operating Mode:  Running", "DependenciesReady"]), ("sandboxclaim/claim", ["Warm Pool Ref", "Ready"]),
    ("swp/pool", ["Replicas:", "Sandbox Template Ref"]), ("sandboxtemplate/small", ["Pod Template"]),
    ("pod/web", ["Status:", "Running", "Readiness:", "Events:", "Started", "Node:"]), ("service/web", ["Endpoints:", "IP:", "80/TCP", ":8000"]),
    ("namespace/NS", ["Status:", "Active"]), ("configmap/map", ["Data", "a:\n----\n1"]),
    ("serviceaccount/default", ["Image pull secrets:"]), ("clusterrole/edit", ["PolicyRule:", "sandboxes.agents.x-k8s.io"]),
    ("clusterrolebinding/cluster-admin", ["Role:", "system:masters"]), ("crd/sandboxes.agents.x-k8s.io", ["Group:", "agents.x-k8s.io"])])
def test_describe(k, what, words):
    said = k("describe", what.replace("NS", k.ns))
    assert not [w for w in words if w not in said], said


def test_describe_node(k):
    node = k("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    said = k("describe", "node", node)
    for words in ("Capacity:", "Allocatable:", "Non-terminated Pods:", "Allocated resources:", "Ready", "Addresses:"):
        assert words in said, said


def test_explain(k):
    said = k("explain", "sandbox", "--recursive")
    assert "podTemplate" in said and "volumeClaimTemplates" in said and "containerPort" in said
    assert "KIND:" in k("explain", "sandboxclaim.spec") and "warmPoolRef" in k("explain", "sandboxclaim.spec")
    assert "grpc" in k("explain", "pod.spec.containers.livenessProbe", "--recursive")
    assert "Deprecated" not in k("explain", "sandboxes", "--api-version=agents.x-k8s.io/v1beta1")
    assert "does not exist" in k.refused("explain", "sandbox.spec.nonsense")


def test_discovery(k):
    rows = {line[0]: line for line in lines(k("api-resources", "--no-headers"))}
    assert {"sandboxes", "sandboxclaims", "pods", "leases", "customresourcedefinitions"} <= set(rows)
    assert "swp" in rows["sandboxwarmpools"]
    assert "sandboxes.agents.x-k8s.io" in k("api-resources", "--api-group=agents.x-k8s.io", "-o", "name", "--verbs=list,watch")
    assert "create" in k("api-resources", "--namespaced=true", "-o", "wide")
    assert {"v1", GROUP, EXTENSIONS} <= set(k("api-versions").split())
    assert "control plane" in k("cluster-info")
    said = yaml.safe_load(k("version", "-o", "yaml"))
    assert said["serverVersion"]["gitVersion"].startswith("v1.")


# -- making and changing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words,field,value", [
    (["configmap", "c1", "--from-literal=a=b"], "{.data.a}", "b"),
    (["secret", "generic", "s1", "--from-literal=a=b"], "{.data.a}", "Yg=="),
    (["secret", "docker-registry", "s2", "--docker-username=u", "--docker-password=p"], "{.type}", "kubernetes.io/dockerconfigjson"),
    (["service", "clusterip", "v1", "--tcp=80:8080"], "{.spec.ports[0].targetPort}", "8080"),
    (["service", "clusterip", "v2", "--clusterip=None"], "{.spec.clusterIP}", "None"),
    (["service", "nodeport", "v3", "--tcp=80"], "{.spec.type}", "NodePort"),
    (["service", "externalname", "v4", "--external-name=example.com"], "{.spec.externalName}", "example.com"),
    (["serviceaccount", "a1"], "{.kind}", "ServiceAccount"),
    (["role", "r1", "--verb=get,list", "--resource=sandboxes.agents.x-k8s.io,pods/log"], "{.rules[0].verbs[1]}", "list"),
    (["rolebinding", "b1", "--role=r1", "--serviceaccount=default:x", "--user=eve"], "{.subjects[0].name}", "eve"),
    (["quota", "q1", "--hard=count/configmaps=1000,pods=100"], "{.spec.hard.pods}", "100"),
    (["priorityclass", "p1-NS", "--value=10"], "{.value}", "10"),
    (["clusterrole", "cr-NS", "--verb=get", "--non-resource-url=/healthz"], "{.rules[0].nonResourceURLs[0]}", "/healthz"),
    (["clusterrolebinding", "cb-NS", "--clusterrole=view", "--group=g"], "{.roleRef.name}", "view"),
    (["ingress", "i1", "--rule=a.example/x=web:80"], "{.spec.rules[0].host}", "a.example"),
    (["poddisruptionbudget", "d1", "--selector=app=none", "--min-available=1"], "{.spec.minAvailable}", "1"),
    (["namespace", "NS-x"], "{.status.phase}", "Active")])
def test_create(k, words, field, value):
    words = [w.replace("NS", k.ns) for w in words]
    kind, name = words[0], next(w for w in words[1:] if w not in ("generic", "docker-registry", "clusterip", "nodeport", "externalname"))
    if k.run("get", kind, check=False).returncode:
        pytest.skip(f"{kind} is not served")
    assert "created (server dry run)" in k("create", *words, "--dry-run=server")
    assert "kind:" in k("create", *words, "--dry-run=client", "-o", "yaml")
    assert "created" in k("create", *words)
    assert k("get", kind, name, "-o", f"jsonpath={field}") == value
    assert "already exists" in k.refused("create", *words)
    assert "deleted" in k("delete", kind, name)


def test_apply(k):
    assert k("apply", "-f", "-", stdin=config_map("client", a="1", b="2")) == "configmap/client created\n"
    assert k("apply", "-f", "-", stdin=config_map("client", a="1", b="2")) == "configmap/client unchanged\n"
    assert k("apply", "-f", "-", stdin=config_map("client", a="3")) == "configmap/client configured\n"
    assert k.get("cm", "client")["data"] == {"a": "3"}
    assert json.loads(k("apply", "view-last-applied", "cm/client", "-o", "json"))["data"] == {"a": "3"}
    assert "serverside-applied" not in k("apply", "-f", "-", "--dry-run=server", stdin=config_map("client", a="4"))
    assert k.get("cm", "client")["data"] == {"a": "3"}
    k("apply", "set-last-applied", "-f", "-", stdin=config_map("client", a="9"))
    assert "unknown field" in k.refused("apply", "-f", "-", stdin={**box("bad"), "spec": {**box("x")["spec"], "colour": "blue"}})
    assert "unchanged" in k("apply", "-f", "-", stdin=box("box", tier="gold", colour="red"))


def test_apply_server_side(k):
    one, two = config_map("ssa", a="1", b="2"), config_map("ssa", a="9")
    apply = lambda o, who, *more, **kw: k.run("apply", "--server-side", f"--field-manager={who}", *more, "-f", "-", stdin=o, **kw)
    assert apply(one, "one").stdout == "configmap/ssa serverside-applied\n"
    told = apply(two, "two", check=False)
    assert told.returncode == 1 and 'conflict with "one": .data.a' in told.stderr and "--force-conflicts" in told.stderr
    apply(two, "two", "--force-conflicts")
    assert k.get("cm", "ssa")["data"] == {"a": "9", "b": "2"}
    apply(config_map("ssa"), "one")
    assert k.get("cm", "ssa")["data"] == {"a": "9"}
    managers = {(f["manager"], f["operation"]) for f in json.loads(k("get", "cm", "ssa", "-o", "json", "--show-managed-fields"))["metadata"]["managedFields"]}
    assert ("two", "Apply") in managers
    k("apply", "-f", "-", stdin=config_map("moved", a="1", b="2"))
    assert "serverside-applied" in k("apply", "--server-side", "-f", "-", stdin=config_map("moved", a="1"))
    assert k.get("cm", "moved")["data"] == {"a": "1"}  # the fields of client-side apply moved too
    apply(box("ssa-box"), "one", "--dry-run=server")
    assert "not found" in k.refused("get", "sandbox", "ssa-box")


def test_apply_prune(k):
    both = several(config_map("keep", {"set": "prune"}), config_map("drop", {"set": "prune"}))
    k("apply", "--prune", "-l", "set=prune", "-f", "-", "--prune-allowlist=core/v1/ConfigMap", stdin=both)
    said = k("apply", "--prune", "-l", "set=prune", "-f", "-", "--prune-allowlist=core/v1/ConfigMap", stdin=config_map("keep", {"set": "prune"}))
    assert "configmap/drop pruned" in said and "configmap/keep unchanged" in said
    env = {"KUBECTL_APPLYSET": "true"}
    both = several(config_map("keep2"), config_map("drop2"))
    k("apply", "--server-side", "--prune", "--applyset=set", "-f", "-", stdin=both, env=env)
    said = k("apply", "--server-side", "--prune", "--applyset=set", "-f", "-", stdin=config_map("keep2"), env=env)
    assert "configmap/drop2 pruned" in said
    assert k("get", "cm", "keep2", "drop2", "--ignore-not-found", "-o", "name") == "configmap/keep2\n"


def test_diff(k):
    k("apply", "-f", "-", stdin=config_map("diff", a="1"))
    assert k("diff", "-f", "-", stdin=config_map("diff", a="1")) == ""
    for flags in ([], ["--server-side", "--force-conflicts"]):
        r = k.run("diff", *flags, "-f", "-", stdin=config_map("diff", a="2"), check=False)
        assert r.returncode == 1 and "-  a: \"1\"" in r.stdout and "+  a: \"2\"" in r.stdout, r


def test_edit(k, tmp_path):
    k("apply", "-f", "-", stdin=config_map("edit", a="before"))
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/before/after/ \"$1\"\n")
    editor.chmod(0o755)
    assert k("edit", "cm", "edit", env={"KUBE_EDITOR": str(editor)}) == "configmap/edit edited\n"
    assert k.get("cm", "edit")["data"] == {"a": "after"}
    unedited = k.run("edit", "cm", "edit", env={"KUBE_EDITOR": "true"})
    assert "no changes made" in unedited.stdout + unedited.stderr
    editor.write_text("#!/bin/sh\nsed -i 's/operatingMode: Running/operatingMode: Sleepy/' \"$1\"\n")
    r = k.run("edit", "sandbox", "box", env={"KUBE_EDITOR": str(editor)}, check=False)
    assert r.returncode == 1 and '"box" is invalid' in r.stderr and "no valid changes were saved" in r.stderr


def test_replace(k):
    k("create", "-f", "-", stdin=config_map("replace", a="1"))
    assert k("replace", "-f", "-", stdin=config_map("replace", b="2")) == "configmap/replace replaced\n"
    uid = k.get("cm", "replace")["metadata"]["uid"]
    assert "replaced" in k("replace", "--force", "-f", "-", stdin=config_map("replace", c="3"))
    now = k.get("cm", "replace")
    assert now["data"] == {"c": "3"} and now["metadata"]["uid"] != uid
    stale = dict(now, metadata=dict(now["metadata"], resourceVersion="1"))
    assert "the object has been modified" in k.refused("replace", "-f", "-", stdin=stale)
    assert "not found" in k.refused("replace", "-f", "-", stdin=config_map("nowhere"))


def test_label_and_annotate(k):
    for verb, field in (("label", "labels"), ("annotate", "annotations")):
        assert f"box {verb}" in k(verb, "sandbox", "box", "x=1")
        assert "already has a value" in k.refused(verb, "sandbox", "box", "x=2")
        k(verb, "sandbox", "box", "x=2", "--overwrite")
        assert k.get("sandbox", "box")["metadata"][field]["x"] == "2"
        k(verb, "sandbox", "--all", "y=1", "--overwrite")
        k(verb, "sandbox", "box", "x-", "y-")
        assert not {"x", "y"} & set(k.get("sandbox", "box")["metadata"].get(field, {}))
    assert "colour=red" in k("label", "sandbox", "box", "--list")


def test_patch(k):
    web = ["patch", "pod", "web"]
    assert k(*web, "-p", '{"metadata":{"labels":{"p":"1"}}}') == "pod/web patched\n"
    assert "no change" in k(*web, "-p", '{"metadata":{"labels":{"p":"1"}}}')
    k("patch", "svc", "web", "--type=strategic", "-p", '{"spec":{"ports":[{"port":81,"name":"more"}]}}')
    assert [p["port"] for p in k.get("svc", "web")["spec"]["ports"]] == [81, 80]  # merged by port
    k("patch", "svc", "web", "--type=strategic", "-p", '{"spec":{"ports":[{"port":81,"$patch":"delete"}]}}')
    k("patch", "cm", "map", "--type=merge", "-p", '{"data":{"m":"1"}}')
    k("patch", "cm", "map", "--type=json", "-p", '[{"op":"test","path":"/data/m","value":"1"},{"op":"remove","path":"/data/m"}]')
    assert k.get("cm", "map")["data"] == {"a": "1"}
    assert k.run("patch", "cm", "map", "--type=json", "-p", '[{"op":"remove","path":"/data/none"}]', check=False).returncode == 1
    k("patch", "swp", "pool", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    assert k.get("swp", "pool")["spec"]["replicas"] == 2
    k("patch", "swp", "pool", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":1}}')
    k("patch", "-f", "-", "--type=merge", "-p", '{"data":{"local":"1"}}', "--dry-run=server", stdin=config_map("map"))


def test_scale(k):
    assert k("scale", "swp", "pool", "--replicas=2") == "sandboxwarmpool.extensions.agents.x-k8s.io/pool scaled\n"
    k("wait", "--for=jsonpath={.status.readyReplicas}=2", "swp/pool", "--timeout=60s")
    assert "Expected replicas to be 5" in k.refused("scale", "swp", "pool", "--current-replicas=5", "--replicas=1")
    k("scale", "swp", "pool", "--current-replicas=2", "--replicas=1")
    k("wait", "--for=jsonpath={.status.replicas}=1", "swp/pool", "--timeout=60s")
    assert k.run("scale", "cm", "map", "--replicas=1", check=False).returncode == 1


def test_wait(k):
    assert "condition met" in k("wait", "--for=condition=Ready", "sandbox/box")
    assert "condition met" in k("wait", "--for=jsonpath={.status.phase}=Running", "pod/web")
    assert "condition met" in k("wait", "--for=condition=Ready=true", "pod", "-l", "app=web")
    assert "timed out" in k.refused("wait", "--for=condition=Finished", "sandbox/box", "--timeout=1s")
    k("create", "configmap", "brief")
    with k.popen("wait", "--for=delete", "cm/brief", "--timeout=60s") as p:
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(0.3)
        k("delete", "cm", "brief")
        assert p.wait(60) == 0
    if k.minor >= 31:
        assert "condition met" in k("wait", "--for=create", "sandbox/box")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete(k, cascade):
    k("apply", "-f", "-", stdin=box("doomed"))
    k("wait", "--for=condition=Ready", "sandbox/doomed", "--timeout=60s")
    uid = k.get("pod", "doomed")["metadata"]["uid"]
    assert "deleted" in k("delete", "sandbox", "doomed", f"--cascade={cascade}")
    if cascade == "orphan":
        left = k.get("pod", "doomed")["metadata"]
        assert left["uid"] == uid and "ownerReferences" not in left
        k("delete", "pod", "doomed", "--now")
    k("wait", "--for=delete", "pod/doomed", "--timeout=60s")


def test_delete_forms(k):
    k("apply", "-f", "-", stdin=several(config_map("d1", {"d": "1"}), config_map("d2", {"d": "1"}), pod("d3", "sleep", "infinity")))
    assert "(server dry run)" in k("delete", "cm", "d1", "--dry-run=server")
    assert k("get", "cm", "d1", "-o", "name") == "configmap/d1\n"
    assert k("delete", "cm", "-l", "d=1", "--wait=false").count("deleted") == 2
    assert "immediate" in k.run("delete", "pod", "d3", "--force", "--grace-period=0").stderr.lower()
    assert "not found" in k.refused("delete", "cm", "d1")
    assert k("delete", "cm", "d1", "--ignore-not-found") == ""
    k("apply", "-f", "-", stdin=config_map("d4"))
    assert "deleted" in k("delete", "-f", "-", stdin=config_map("d4"))


# -- rights -----------------------------------------------------------------------------------------------------------


def test_auth(k):
    assert k("auth", "can-i", "create", "sandboxes").strip() == "yes"
    assert k("auth", "can-i", "--list").splitlines()[0].split()[0] == "Resources"
    who = ["--as=eve", "--as-group=visitors"]
    assert k.run("auth", "can-i", "get", "pods", *who, check=False).stdout.strip() == "no"
    k("create", "role", "looker", "--verb=get,list", "--resource=sandboxes.agents.x-k8s.io")
    k("create", "rolebinding", "looker", "--role=looker", "--group=visitors")
    assert k("auth", "can-i", "list", "sandboxes.agents.x-k8s.io", *who).strip() == "yes"
    assert k("auth", "can-i", "get", "sandboxes/box", "--subresource=status", *who, check=False).strip() == "no"
    assert "box" in k("get", "sandboxes", *who)
    said = k.refused("get", "pods", *who)
    assert f'User "eve" cannot list resource "pods" in API group "" in the namespace "{k.ns}"' in said
    listed = k("auth", "can-i", "--list", *who)
    assert re.search(r"sandboxes.agents.x-k8s.io\s+\[\]\s+\[\]\s+\[get list\]", listed), listed
    assert k("auth", "can-i", "get", "/healthz", "--as=eve").strip() == "yes"


def test_auth_whoami(k):
    if k.minor < 28:  # asks for versions that Kubernetes no longer serves either
        assert "selfsubjectreviews API is not enabled" in k.refused("auth", "whoami")
        return
    said = k("auth", "whoami")
    assert "system:masters" in said and "Username" in said
    assert "eve" in k("auth", "whoami", "--as=eve")
    assert json.loads(k("auth", "whoami", "-o", "json"))["status"]["userInfo"]["groups"]


def test_auth_reconcile(k):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "rec", "namespace": k.ns},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    assert "reconciled" in k("auth", "reconcile", "-f", "-", stdin=role)
    role["rules"][0]["verbs"] = ["list"]
    k("auth", "reconcile", "-f", "-", stdin=role)
    assert "get" in json.dumps(k.get("role", "rec")["rules"]) and "list" in json.dumps(k.get("role", "rec")["rules"])
    k("auth", "reconcile", "--remove-extra-permissions", "-f", "-", stdin=role)
    assert "get" not in json.dumps(k.get("role", "rec")["rules"])


def test_create_token(k):
    k("create", "serviceaccount", "robot")
    token = k("create", "token", "robot", "--duration=10m", "--audience=https://kubernetes.default.svc.cluster.local").strip()
    assert token.count(".") == 2
    token = k("create", "token", "robot").strip()
    bare = ["--kubeconfig=/dev/null", f"--server=https://127.0.0.1:{k.cay.port}", "--insecure-skip-tls-verify", f"--token={token}"]
    assert "cannot list" in k.refused(*bare, "get", "pods")
    k("create", "rolebinding", "robot", "--clusterrole=view", f"--serviceaccount={k.ns}:robot")
    assert "web" in k(*bare, "get", "pods")
    if k.minor >= 28:
        assert f"system:serviceaccount:{k.ns}:robot" in k(*bare, "auth", "whoami")
    assert json.loads(k("create", "token", "default", "--bound-object-kind=Pod", "--bound-object-name=web", "-o", "json"))["status"]["token"]


# -- inside -----------------------------------------------------------------------------------------------------------


def test_exec(k):
    r = k.run("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert (r.returncode, r.stdout) == (7, "out\n") and r.stderr.startswith("err\n")
    assert k("exec", "-i", "web", "-c", "main", "--", "wc", "-c", stdin="x" * 300_000).strip() == "300000"
    assert len(k("exec", "web", "--", "head", "-c", "3000000", "/dev/zero")) == 3_000_000
    assert k("exec", "svc/web", "--", "echo", "by service") == "by service\n"
    assert "not found" in k.refused("exec", "none", "--", "true")
    out, code = k.terminal("exec", "-it", "web", "--", "sh", say=b"stty size; echo sum=$((40+2)); exit 5\n")
    assert "sum=42" in out and code == 5


def test_logs(k):
    script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done"
    k("apply", "-f", "-", stdin=pod("talker", "sh", "-c", script, labels={"logs": "1"}, restartPolicy="Never"))
    k("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/talker", "--timeout=60s")
    said = [f"line {i}" for i in range(1, 6)]
    assert k("logs", "talker").splitlines() == k("logs", "-f", "talker").splitlines() == said
    assert k("logs", "talker", "--tail=2").splitlines() == said[3:]
    assert k("logs", "talker", "--limit-bytes=6") == "line 1"
    assert k("logs", "-l", "logs=1", "--tail=-1").splitlines() == said
    assert k("logs", "-l", "logs=1", "--prefix").splitlines()[0].startswith("[pod/talker/main] ")
    stamped = k("logs", "talker", "--timestamps").splitlines()
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d) line 1$", stamped[0])
    assert k("logs", "talker", f"--since-time={stamped[-1].split()[0]}").splitlines()[-1] == said[-1]
    assert k("logs", "talker", "--since=1h", "--all-containers").splitlines() == said
    assert "serving" in k("logs", "svc/web")
    assert "previous terminated container" in k.refused("logs", "web", "--previous")
    assert "is not valid for pod" in k.refused("logs", "web", "-c", "none")


def test_logs_previous(k):
    again = 'test -e /shared/x && exec sleep infinity; touch /shared/x; echo first'
    spec = pod("again", "sh", "-c", again, volumes=[{"name": "s", "emptyDir": {}}])
    spec["spec"]["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/shared"}]
    k("apply", "-f", "-", stdin=spec)
    k("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/again", "--timeout=60s")
    assert k("logs", "again", "-p") == "first\n"
    k("delete", "pod", "again")


def test_attach(k):
    spec = pod("listener", "sh", "-c", "while read x; do echo heard $x; [ $x = end ] && exit; done", restartPolicy="Never")
    spec["spec"]["containers"][0].update(stdin=True, stdinOnce=True)
    k("apply", "-f", "-", stdin=spec)
    k("wait", "--for=condition=Ready", "pod/listener", "--timeout=60s")
    said = k("attach", "-i", "listener", stdin="one\nend\n")
    k("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/listener", "--timeout=60s")
    assert said.endswith("heard end\n") or k("logs", "listener").endswith("heard one\nheard end\n")


def test_cp(k, tmp_path):
    data = os.urandom(300_000)
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "data").write_bytes(data)
    k("cp", str(tmp_path / "tree"), "web:/tmp/tree")
    k("cp", "web:/tmp/tree/sub/data", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    k("cp", "web:/tmp/tree", str(tmp_path / "tree2"), "-c", "main")
    assert (tmp_path / "tree2" / "sub" / "data").read_bytes() == data
    k.run("cp", "web:/no/such", str(tmp_path / "none"), check=False)  # it may end before tar has said why
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("what,remote", [("pod/web", 8000), ("service/web", 80)])
def test_port_forward(k, what, remote):
    with k.popen("port-forward", what, f":{remote}") as p:
        try:
            local = int(re.match(r"Forwarding from 127.0.0.1:(\d+)", p.stdout.readline()).group(1))
            for _ in range(3):
                assert urllib.request.urlopen(f"http://127.0.0.1:{local}/hostname", timeout=60).status == 200
        finally:
            p.terminate()


def test_proxy(k):
    port = free_port()
    with k.popen("proxy", f"--port={port}") as p:
        try:
            assert "Starting to serve" in p.stdout.readline()
            url = f"http://127.0.0.1:{port}/api/v1/namespaces/{k.ns}/pods/web"
            assert json.load(urllib.request.urlopen(url, timeout=60))["kind"] == "Pod"
        finally:
            p.terminate()


def test_debug(k):
    how = ["--image=host", "--attach=false"]
    k("debug", "web", *how, "-c", "look", "--", "sh", "-c", "echo seen; sleep infinity")
    running = lambda p: any("running" in c["state"] for c in p["status"].get("ephemeralContainerStatuses", []))
    k.cay.wait(f"/api/v1/namespaces/{k.ns}/pods", "web", running)
    assert k("logs", "web", "-c", "look") == "seen\n"
    k("debug", "web", *how, "--copy-to=web-copy", "--share-processes", "--", "true")
    assert k("get", "pod", "web-copy", "-o", "jsonpath={.spec.shareProcessNamespace}") == "true"
    k("delete", "pod", "web-copy", "--now")


def test_top(k):
    assert lines(k("top", "node"))[0][:2] == ["NAME", "CPU(cores)"]
    rows = lines(k("top", "pod", "web", "--containers"))
    assert rows[0] == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"] and rows[1][:2] == ["web", "main"]
    assert re.match(r"\d+m$", rows[1][2]) and re.match(r"\d+Mi$", rows[1][3])
    assert "web" in k("top", "pods", "-l", "app=web", "--sort-by=memory", "--no-headers")


def test_run(k):
    assert k("run", "once", "--image=host", "--restart=Never", "-i", "--rm", "-q", "--command", "--", "cat", stdin="through\n").startswith("through\n")
    assert "not found" in k.refused("get", "pod", "once")
    assert k("run", "stays", "--image=host", "--labels=a=b", "--env=X=1", "--port=80", "--command", "--", "sleep", "infinity") == "pod/stays created\n"
    assert k.get("pod", "stays")["spec"]["containers"][0]["env"] == [{"name": "X", "value": "1"}]
    k("delete", "pod", "stays", "--now")
    out, code = k.terminal("run", "typed", "--image=host", "--restart=Never", "-it", "--rm", "--command", "--", "sh", "-c",
                           "read x; echo got $x; exit 4", say=b"word\n")
    assert "got word" in out, out
    k("wait", "--for=delete", "pod/typed", "--timeout=60s")


def test_expose(k):
    assert k("expose", "pod", "web", "--name=exposed", "--port=8080", "--target-port=8000") == "service/exposed exposed\n"
    assert k.get("service", "exposed")["spec"]["selector"]["app"] == "web"
    k("delete", "service", "exposed")


def test_set(k):
    k("create", "service", "clusterip", "picked", "--tcp=80")
    assert k("set", "selector", "service", "picked", "app=web") == "service/picked selector updated\n"
    assert k.get("service", "picked")["spec"]["selector"] == {"app": "web"}
    k("delete", "service", "picked")
    assert "image updated" in k("set", "image", "pod/web", "main=busybox", "--dry-run=server")


def test_events(k):
    said = k("events", "--for", "pod/web")
    assert lines(said)[0][:5] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT"] and "Started" in said
    assert "Started" in k("events", "--types=Normal") and "Started" not in k("events", "--types=Warning")
    assert lines(k("get", "events", "--sort-by=.lastTimestamp"))[0][:3] == ["LAST", "SEEN", "TYPE"]


def test_node_verbs(k):
    node = k("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    try:
        assert "cordoned" in k("cordon", node)
        assert k.get("node", node)["spec"]["unschedulable"] is True
        assert "SchedulingDisabled" in k("get", "nodes")
        assert "uncordoned" in k("uncordon", node)
        assert "tainted" in k("taint", "node", node, "x=y:PreferNoSchedule")
        assert k.get("node", node)["spec"]["taints"][0]["key"] == "x"
        assert "untainted" in k("taint", "node", node, "x-")
        k("apply", "-f", "-", stdin=pod("leaver", "sleep", "infinity", labels={"drain": k.ns}))
        said = k("drain", node, f"--pod-selector=drain={k.ns}", "--force", "--timeout=60s")
        assert "evicted" in said, said
    finally:
        k("uncordon", node)


@pytest.mark.parametrize("verb", ["status", "restart", "history", "undo"])
def test_rollout_is_refused(k, verb):
    assert k.refused("rollout", verb, "sandbox/box")


def test_custom_kind(k):
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"toys.{k.ns}.example"},
           "spec": {"group": f"{k.ns}.example", "scope": "Namespaced", "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
                    "versions": [{"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                            "size": {"type": "integer", "maximum": 9, "description": "How large it is"}}}}}}}]}}
    k("apply", "-f", "-", stdin=crd)
    k("wait", "--for=condition=Established", f"crd/toys.{k.ns}.example", "--timeout=60s")
    toy = obj(f"{k.ns}.example/v1", "Toy", "bear", {"size": 3})
    assert "created" in k("apply", "-f", "-", stdin=toy)
    assert lines(k("get", f"toys.{k.ns}.example"))[1][:2] == ["bear", "3"]
    assert "How large" in k("explain", f"toys.spec.size", f"--api-version={k.ns}.example/v1")
    assert "less than or equal to 9" in k.refused("patch", f"toys.{k.ns}.example", "bear", "--type=merge", "-p", '{"spec":{"size":10}}')
    k("delete", "crd", f"toys.{k.ns}.example")
    assert "the server doesn't have a resource type" in k.refused("get", f"toys.{k.ns}.example")
