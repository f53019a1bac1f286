# SPDX-License-Identifier: Apache-2.0
"""A day of the published Python client: day.py SCENARIO NAMESPACE. Whichever version of `kubernetes` is on the path does it,
with the kubeconfig that KUBECONFIG names. The namespace has a Pod `web`, which serves HTTP on 8000, greets on 8001 and echoes
on 8002. Says what went wrong and exits with 1."""

import ast
import http.client
import json
import socket
import sys
import threading

import kubernetes
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream

GROUP, EXTENSIONS, VERSION = "agents.x-k8s.io", "extensions.agents.x-k8s.io", "v1beta1"
ROUNDS = 200
PATIENCE_S = 60  # a client that hangs is what this looks for
MAJOR = int(kubernetes.__version__.split(".")[0])


def refused(status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as e:
        assert e.status == status, e
        body = json.loads(e.body)
        assert body["kind"] == "Status" and body["code"] == status, body
        return body
    raise AssertionError(f"{call.__name__} was not refused")


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"made-by": "python"}), data=data)


def sandbox(name):
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}}


# -- typed objects ----------------------------------------------------------------------------------------------------


def typed(ns):
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(ns, config_map("typed", a="1"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo
    assert refused(409, core.create_namespaced_config_map, ns, config_map("typed"))["reason"] == "AlreadyExists"
    assert refused(404, core.read_namespaced_config_map, "none", ns)["details"]["kind"] == "configmaps"

    merged = core.patch_namespaced_config_map("typed", ns, {"data": {"b": "2"}})
    assert merged.data == {"a": "1", "b": "2"}
    removed = core.patch_namespaced_config_map("typed", ns, [{"op": "remove", "path": "/data/a"}])
    assert removed.data == {"b": "2"}
    removed.data["c"] = "3"
    assert core.replace_namespaced_config_map("typed", ns, removed).data == {"b": "2", "c": "3"}
    assert refused(409, core.replace_namespaced_config_map, "typed", ns, removed)["reason"] == "Conflict"

    core.create_namespaced_secret(ns, client.V1Secret(metadata=client.V1ObjectMeta(name="typed"), string_data={"k": "v"}))
    assert core.read_namespaced_secret("typed", ns).data == {"k": "dg=="}
    pod = core.read_namespaced_pod("web", ns)
    assert pod.status.phase == "Running" and pod.spec.containers[0].image == "host" and pod.status.container_statuses[0].ready
    assert log_of(core, "web", ns) == "serving\n"
    assert client.VersionApi().get_code().major == "1"
    client.RbacAuthorizationV1Api().create_namespaced_role(ns, client.V1Role(
        metadata=client.V1ObjectMeta(name="typed"), rules=[client.V1PolicyRule(api_groups=[""], resources=["pods"], verbs=["get"])]))
    review = client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods", namespace=ns))))
    assert review.status.allowed
    pages(core, ns)
    core.delete_collection_namespaced_config_map(ns, label_selector="made-by=python")
    assert not core.list_namespaced_config_map(ns, label_selector="made-by=python").items


def log_of(core, pod, ns):
    """The last line."""
    text = core.read_namespaced_pod_log(pod, ns, tail_lines=1)
    return ast.literal_eval(text).decode() if MAJOR == 36 else text  # 36 returns the text "b'...'" (kubernetes-client/python#2596)


def pages(core, ns):
    for i in range(25):
        core.create_namespaced_config_map(ns, config_map(f"page-{i:02}"))
    seen, more = [], None
    while True:
        page = core.list_namespaced_config_map(ns, limit=10, _continue=more, label_selector="made-by=python")
        seen += [o.metadata.name for o in page.items]
        more = page.metadata._continue
        if not more:
            break
    assert seen == sorted(set(seen)) and len(seen) == 26, seen


# -- custom objects ---------------------------------------------------------------------------------------------------


def custom(ns):
    objects = client.CustomObjectsApi()
    boxes = (GROUP, VERSION, ns, "sandboxes")
    objects.create_namespaced_custom_object(*boxes, sandbox("custom"))
    box = wait_for_object(ns, "custom", lambda o: condition(o, "Ready") == "True")
    assert box["spec"]["operatingMode"] == "Running"
    assert refused(404, objects.get_namespaced_custom_object, *boxes, "none")["details"]["group"] == GROUP
    patched = objects.patch_namespaced_custom_object(*boxes, "custom", {"metadata": {"labels": {"tier": "gold"}}})
    assert patched["metadata"]["labels"]["tier"] == "gold"
    assert objects.get_namespaced_custom_object_status(*boxes, "custom")["status"]["conditions"]
    listed = objects.list_namespaced_custom_object(*boxes, label_selector="tier=gold")
    assert [o["metadata"]["name"] for o in listed["items"]] == ["custom"]
    assert any(o["metadata"]["namespace"] == ns for o in objects.list_cluster_custom_object(GROUP, VERSION, "sandboxes")["items"])

    current = objects.get_namespaced_custom_object(*boxes, "custom")
    current["metadata"]["annotations"] = {"who": "python"}
    assert objects.replace_namespaced_custom_object(*boxes, "custom", current)["metadata"]["annotations"]["who"] == "python"
    bad = sandbox("bad")
    bad["spec"]["operatingMode"] = "Sleepy"
    assert refused(422, objects.create_namespaced_custom_object, *boxes, bad)["details"]["causes"][0]["field"] == "spec.operatingMode"

    pools = (EXTENSIONS, VERSION, ns, "sandboxwarmpools")
    objects.create_namespaced_custom_object(EXTENSIONS, VERSION, ns, "sandboxtemplates", {
        "apiVersion": f"{EXTENSIONS}/{VERSION}", "kind": "SandboxTemplate", "metadata": {"name": "custom"}, "spec": sandbox("x")["spec"]})
    objects.create_namespaced_custom_object(*pools, {
        "apiVersion": f"{EXTENSIONS}/{VERSION}", "kind": "SandboxWarmPool", "metadata": {"name": "custom"},
        "spec": {"replicas": 1, "sandboxTemplateRef": {"name": "custom"}}})
    assert objects.get_namespaced_custom_object_scale(*pools, "custom")["spec"]["replicas"] == 1
    assert objects.patch_namespaced_custom_object_scale(*pools, "custom", {"spec": {"replicas": 0}})["spec"].get("replicas", 0) == 0
    objects.delete_namespaced_custom_object(*pools, "custom")
    utils.create_from_dict(client.ApiClient(), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-dict", "namespace": ns}})
    objects.delete_namespaced_custom_object(*boxes, "custom", body=client.V1DeleteOptions(propagation_policy="Foreground"))
    wait_gone(lambda: objects.get_namespaced_custom_object(*boxes, "custom"))


def condition(obj, kind):
    return next((c["status"] for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), None)


def wait_for_object(ns, name, good):
    read = client.CustomObjectsApi().list_namespaced_custom_object
    for event in watch.Watch().stream(read, GROUP, VERSION, ns, "sandboxes", field_selector=f"metadata.name={name}", timeout_seconds=PATIENCE_S):
        if event["type"] != "DELETED" and good(event["object"]):
            return event["object"]
    raise AssertionError(f"{name} did not become what it should")


def wait_gone(read):
    ticks = threading.Event()
    for _ in range(PATIENCE_S * 10):
        try:
            read()
        except ApiException as e:
            assert e.status == 404
            return
        ticks.wait(0.1)
    raise AssertionError("it stays")


# -- watches ----------------------------------------------------------------------------------------------------------


def watches(ns):
    """A program that follows objects, is cut off for too long, is told so, lists and goes on; it misses nothing."""
    core = client.CoreV1Api()
    core.create_namespaced_config_map(ns, config_map("w-0"))
    listed = core.list_namespaced_config_map(ns)
    old = listed.metadata.resource_version
    core.create_namespaced_config_map(ns, config_map("w-1"))
    core.patch_namespaced_config_map("w-1", ns, {"data": {"a": "b"}})
    core.delete_namespaced_config_map("w-1", ns)
    seen = []
    w = watch.Watch()
    for event in w.stream(core.list_namespaced_config_map, ns, resource_version=old, timeout_seconds=PATIENCE_S):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            w.stop()
    assert seen == [("ADDED", "w-1"), ("MODIFIED", "w-1"), ("DELETED", "w-1")], seen

    for i in range(40):  # more than the server was told to remember
        core.patch_namespaced_config_map("w-0", ns, {"data": {"big": chr(97 + i % 26) * 100_000}})
    try:
        for event in watch.Watch().stream(core.list_namespaced_config_map, ns, resource_version=old, timeout_seconds=5):
            raise AssertionError(f"an expired version was served: {event['type']}")
        raise AssertionError("an expired version was served with silence")
    except ApiException as e:
        assert e.status == 410 and "Expired" in str(e.reason) + str(e.body), e

    listed = core.list_namespaced_config_map(ns)
    core.create_namespaced_config_map(ns, config_map("w-2"))
    for event in watch.Watch().stream(core.list_namespaced_config_map, ns, resource_version=listed.metadata.resource_version,
                                      timeout_seconds=PATIENCE_S):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "w-2")
        break


# -- streams ----------------------------------------------------------------------------------------------------------


def open_exec(ns, *argv, **more):
    wishes = dict(command=list(argv), stderr=True, stdin=False, stdout=True, tty=False, _preload_content=False)
    return stream(client.CoreV1Api().connect_get_namespaced_pod_exec, "web", ns, **{**wishes, **more})


def finish(ws):
    ws.run_forever(timeout=PATIENCE_S)
    assert not ws.is_open(), "exec hangs: " + repr(ws.read_all()[-100:])
    out = ws.read_stdout() if ws.peek_stdout() else ""
    code = ws.returncode
    ws.close()
    return out, code


def execute(ns):
    assert stream(client.CoreV1Api().connect_get_namespaced_pod_exec, "web", ns, command=["sh", "-c", "echo out; echo err >&2"],
                  stderr=True, stdin=False, stdout=True, tty=False) in ("out\nerr\n", "err\nout\n")
    assert finish(open_exec(ns, "sh", "-c", "echo some; exit 7")) == ("some\n", 7)
    out, code = finish(open_exec(ns, "head", "-c", "5000000", "/dev/zero"))
    assert (len(out), code) == (5_000_000, 0), len(out)
    many = "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"
    assert finish(open_exec(ns, "sh", "-c", many)) == ("".join(f"{i}\n" for i in range(2000)), 0)

    ws = open_exec(ns, "sh", stdin=True)
    for i in range(20):
        ws.write_stdin(f"echo answer {i}; echo aside {i} >&2\n")
        assert ws.readline_stdout(timeout=PATIENCE_S) == f"answer {i}"
        assert ws.readline_stderr(timeout=PATIENCE_S) == f"aside {i}"
    ws.write_stdin("exit 3\n")
    assert finish(ws)[1] == 3
    ws = open_exec(ns, "sh", "-c", "stty size; read x; echo got $x", stdin=True, tty=True)
    ws.write_channel(4, json.dumps({"Width": 132, "Height": 50}))
    ws.write_stdin("word\n")
    assert "got word" in finish(ws)[0]
    refused_exec(ns)


def refused_exec(ns):
    try:
        stream(client.CoreV1Api().connect_get_namespaced_pod_exec, "none", ns, command=["true"], stdout=True)
    except ApiException as e:
        assert "404" in str(e.reason), e
        return
    except AttributeError as e:  # 36 decodes the body of its own error, which has none
        assert MAJOR == 36 and "404" in str(e.__context__.reason), e
        return
    raise AssertionError("exec into no Pod")


def execute_often(ns):
    """Output, status and close follow each other at once: whoever leaves one of them in a buffer waits for ever."""
    for i in range(ROUNDS):
        assert finish(open_exec(ns, "sh", "-c", f"echo a; echo b >&2; echo {i}"))[0].split() == ["a", str(i)], i


def until_end(sock):
    sock.settimeout(PATIENCE_S)
    got = b""
    while piece := sock.recv(65536):
        got += piece
    return got


def open_ports(ns, *ports):
    return portforward(client.CoreV1Api().connect_get_namespaced_pod_portforward, "web", ns, ports=",".join(map(str, ports)))


def http_get(sock):
    conn = http.client.HTTPConnection("web", 8000, timeout=PATIENCE_S)
    conn.sock = sock
    sock.settimeout(PATIENCE_S)
    conn.request("GET", "/")
    answer = conn.getresponse()
    return answer.status, len(answer.read())


def forward(ns):
    pf = open_ports(ns, 8000, 8002)
    status, size = http_get(pf.socket(8000))
    assert status == 200 and size > 0 and pf.error(8000) is None
    sock = pf.socket(8002)
    sock.settimeout(PATIENCE_S)
    data = bytes(range(256)) * 4096
    threading.Thread(target=sock.sendall, args=(data,)).start()
    got = b""
    while len(got) < len(data):
        piece = sock.recv(65536)
        assert piece, (len(got), pf.error(8002))
        got += piece
    assert got == data
    pf.close()

    pf = open_ports(ns, 8003)  # nobody listens
    pf.socket(8003).settimeout(PATIENCE_S)
    assert pf.socket(8003).recv(10) == b"" and "8003" in pf.error(8003), pf.error(8003)


def forward_often(ns):
    """The server greets and hangs up: greeting, end and close come in one go."""
    for i in range(ROUNDS):
        sock = open_ports(ns, 8001).socket(8001)
        assert until_end(sock) == b"hello\n", i
        sock.close()


# -- server-side apply ------------------------------------------------------------------------------------------------


def apply(ns):
    dyn = dynamic.DynamicClient(client.ApiClient())
    maps = dyn.resources.get(api_version="v1", kind="ConfigMap")

    def put(manager, data, **more):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}
        return maps.server_side_apply(namespace=ns, body=body, field_manager=manager, **more).to_dict()

    made = put("one", {"a": "1", "b": "2"})
    assert [(f["manager"], f["operation"]) for f in made["metadata"]["managedFields"]] == [("one", "Apply")]
    told = refused(409, put, "two", {"a": "9"})
    assert told["details"]["causes"] == [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}], told
    assert put("two", {"a": "9"}, force_conflicts=True)["data"] == {"a": "9", "b": "2"}
    assert put("one", {})["data"] == {"a": "9"}

    boxes = dyn.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Sandbox")
    box = sandbox("applied")
    box["spec"]["operatingMode"] = "Suspended"
    assert boxes.server_side_apply(namespace=ns, body=box, field_manager="dynamic").metadata.name == "applied"
    assert boxes.get(name="applied", namespace=ns).spec.operatingMode == "Suspended"
    boxes.delete(name="applied", namespace=ns)


SCENARIOS = {f.__name__: f for f in (typed, custom, watches, execute, execute_often, forward, forward_often, apply)}

if __name__ == "__main__":
    socket.setdefaulttimeout(PATIENCE_S * 2)
    config.load_kube_config()
    SCENARIOS[sys.argv[1]](sys.argv[2])
