# SPDX-License-Identifier: Apache-2.0
"""Pods on the node: containers, volumes, environment, restarts, logs, probes, limits."""

import json
import os
import threading

import pytest

from cay_local import ApiError, wait_until

PODS = "/api/v1/namespaces/default/pods"
CORE = "/api/v1/namespaces/default"


def pod(name, *command, container=None, **spec):
    main = dict({"name": "main", "image": "host"}, **(container or {}))
    if command:
        main["command"] = list(command)
    return {"metadata": {"name": name}, "spec": dict({"terminationGracePeriodSeconds": 1, "containers": [main]}, **spec)}


def condition(obj, kind):
    return next((c["status"] for c in obj["status"].get("conditions", []) if c["type"] == kind), None)


def ready(obj):
    return obj is not None and condition(obj, "Ready") == "True"


def status_of(obj, name="main"):
    status = obj.get("status", {})
    return next((c for c in status.get("containerStatuses", []) + status.get("initContainerStatuses", []) if c["name"] == name), {})


def create(cay, body, until=ready):
    cay.api("POST", PODS, body)
    return cay.wait(PODS, body["metadata"]["name"], until)


def phase(*names):
    return lambda obj: obj is not None and obj.get("status", {}).get("phase") in names


def sh(cay, name, script, container=None, check=True):
    where = ["-c", container] if container else []
    return cay.kubectl("exec", name, *where, "--", "sh", "-c", script, check=check)


def events(cay, name):
    listed = cay.api("GET", f"{CORE}/events")["items"]
    return {e["reason"]: e["message"] for e in listed if e["involvedObject"]["name"] == name}


def test_volumes_environment_and_containers_of_one_pod(cay):
    cay.api("POST", f"{CORE}/configmaps", {"metadata": {"name": "cm"}, "data": {"a.txt": "from map", "b": "2"}})
    cay.api("POST", f"{CORE}/secrets", {"metadata": {"name": "sec"}, "stringData": {"pw": "s3cret"}})
    cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    body = pod("multi", "sleep", "1000", container={
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(NOPE)-$$(A)"},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "pw"}}}],
        "envFrom": [{"prefix": "CM_", "configMapRef": {"name": "cm"}}],
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shared", "mountPath": "/shared"},
                         {"name": "mem", "mountPath": "/mem"}, {"name": "cm", "mountPath": "/cm"},
                         {"name": "cm", "mountPath": "/etc/one", "subPath": "a.txt"},
                         {"name": "all", "mountPath": "/all"}]})
    spec = body["spec"]
    spec["containers"].append({"name": "side", "image": "host",
                               "command": ["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1", "-d", "/shared"],
                               "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]})
    spec["initContainers"] = [{"name": "prepare", "image": "host", "command": ["sh", "-c", "echo done > /data/init; echo said"],
                               "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "shared", "emptyDir": {}},
                       {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "10Mi"}},
                       {"name": "cm", "configMap": {"name": "cm"}},
                       {"name": "all", "projected": {"sources": [{"secret": {"name": "sec"}}, {"downwardAPI": {"items": [
                           {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]
    obj = create(cay, body)
    ip = obj["status"]["podIP"]
    env = dict(line.split("=", 1) for line in sh(cay, "multi", "env", "main").stdout.splitlines() if "=" in line)
    assert env["B"] == "1-$(NOPE)-$(A)" and env["IP"] == ip and env["PW"] == "s3cret" and env["CM_b"] == "2"
    assert sh(cay, "multi", "cat /data/init /cm/a.txt /etc/one /all/pw /all/name", "main").stdout == \
        "done\nfrom mapfrom maps3cretmulti"
    assert sh(cay, "multi", "id -u; echo x > /shared/f; echo y > /mem/f; touch /cm/no 2>/dev/null || echo refused",
              "main").stdout.split() == ["1000", "refused"]
    assert sh(cay, "multi", "cat /shared/f; hostname", "side").stdout == "x\nmulti\n"
    assert "10M" in sh(cay, "multi", "df -h /mem", "main").stdout
    assert cay.kubectl("logs", "multi", "-c", "prepare").stdout == "said\n"
    # The containers share one network: what one binds, the other reaches.
    fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/f').read().decode(), end='')"
    wait_until(lambda: sh(cay, "multi", f'python3 -c "{fetch}"', "main", check=False).stdout == "x\n")


def test_volumes_follow_their_objects_at_once_and_all_files_together(cay):
    """While a sandbox reads both files again and again, it never sees one of the old state beside one of the new."""
    for plural, name, data in (("configmaps", "live", {"data": {"a": "0", "b": "0"}}),
                               ("secrets", "live", {"stringData": {"s": "0"}})):
        cay.api("POST", f"{CORE}/{plural}", dict({"metadata": {"name": name}}, **data))
    watch = ('echo $A > /tmp/a; cd /v; n=0; while :; do d=$(readlink ..data); x=$(cat $d/a $d/b); '
             'case $x in "") ;; *) [ "${x%?}" = "${x#?}" ] || echo torn >> /tmp/torn;; esac; n=$((n+1)); echo $n > /tmp/n; done')
    body = pod("live", "sh", "-c", watch, container={
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "live", "key": "a", "optional": True}}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/one", "subPath": "a"},
                         {"name": "w", "mountPath": "/w"}]})
    body["metadata"]["labels"] = {"l": "0"}
    body["spec"]["volumes"] = [
        {"name": "v", "configMap": {"name": "live"}},
        {"name": "w", "projected": {"sources": [{"secret": {"name": "live"}}, {"downwardAPI": {"items": [
            {"path": "l", "fieldRef": {"fieldPath": "metadata.labels['l']"}}]}}]}}]
    create(cay, body)

    def patch(path, change):
        cay.api("PATCH", path, change, content_type="application/merge-patch+json")
    for n in range(1, 6):
        patch(f"{CORE}/configmaps/live", {"data": {"a": str(n), "b": str(n)}})
        wait_until(lambda n=n: sh(cay, "live", "cat /v/a /v/b").stdout == f"{n}{n}")
    patch(f"{CORE}/secrets/live", {"stringData": {"s": "5", "more": "m"}})
    patch(f"{PODS}/live", {"metadata": {"labels": {"l": "5"}}})
    wait_until(lambda: sh(cay, "live", "cat /w/s /w/l /w/more", check=False).stdout == "55m")
    assert sh(cay, "live", "cat /one /tmp/a").stdout == "00\n"  # a subPath stays as it was
    assert sh(cay, "live", "[ -s /tmp/n ] && [ ! -e /tmp/torn ] && ! touch /v/x 2>&1 && ! rm /v/..data 2>&1").stdout
    cay.api("DELETE", f"{CORE}/configmaps/live")
    wait_until(lambda: 'configmap "live" not found' in events(cay, "live").get("FailedMount", ""))
    assert sh(cay, "live", "cat /v/a").stdout == "5"  # what was there stays


def test_sub_paths_are_made_and_stay_in_their_volume(cay):
    mounts = [{"name": "v", "mountPath": "/whole"}, {"name": "v", "mountPath": "/part", "subPath": "a/b"},
              {"name": "v", "mountPath": "/whole/ro", "subPath": "c", "readOnly": True}]
    create(cay, pod("sub", "sleep", "1000", container={"volumeMounts": mounts}, volumes=[{"name": "v", "emptyDir": {}}]))
    assert sh(cay, "sub", "echo in > /part/f; cat /whole/a/b/f; ls -ldn /whole/a | cut -d' ' -f3,4; "
                          "touch /whole/ro/x 2>/dev/null || echo refused").stdout.split() == ["in", "0", "0", "refused"]


def test_sub_paths_are_made_of_the_environment_and_stay_in_their_volume(cay):
    def body(name, expression, **env):
        return pod(name, "sleep", "1000", volumes=[{"name": "v", "emptyDir": {}}], container={
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    *({"name": k, "value": v} for k, v in env.items())],
            "volumeMounts": [{"name": "v", "mountPath": "/all"},
                             {"name": "v", "mountPath": "/mine", "subPathExpr": expression, "readOnly": True,
                              "recursiveReadOnly": "Enabled"}]})

    def waits(words):
        return lambda o: words in status_of(o or {}).get("state", {}).get("waiting", {}).get("message", "")
    create(cay, body("expressed", "$(POD)/$$(X)-$(A)", A="a"))
    assert sh(cay, "expressed", "ls -d /all/*/*; ! touch /mine/x 2>/dev/null").stdout == "/all/expressed/$(X)-a\n"
    create(cay, body("unexpressed", "$(NOPE)/x"), waits("subPathExpr names $(NOPE), which is not in the environment"))
    for name, value in (("up", "../../etc"), ("away", "/etc"), ("nothing", "")):
        create(cay, body(f"leads-{name}", "$(A)", A=value), waits("which is not a path below the volume"))


def test_memory_volumes_count_as_memory_of_their_container(cay):
    """Whoever fills one reaches the container's limit, whatever the volume's own."""
    obj = create(cay, pod("full-memory", "sh", "-c", "head -c 100M /dev/zero > /m/x", restartPolicy="Never", container={
        "resources": {"limits": {"memory": "40Mi"}}, "volumeMounts": [{"name": "m", "mountPath": "/m"}]},
        volumes=[{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]), phase("Failed", "Succeeded"))
    assert obj["status"]["phase"] == "Failed"
    assert status_of(obj)["state"]["terminated"]["reason"] == "OOMKilled" or status_of(obj)["state"]["terminated"]["exitCode"] == 137


def test_security_context_is_honoured(cay):
    create(cay, pod("strict", "sleep", "1000", container={"securityContext": {
        "readOnlyRootFilesystem": True, "runAsUser": 1234, "runAsGroup": 4321, "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"}, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}}, securityContext={"supplementalGroups": [77], "fsGroup": 88}))
    out = sh(cay, "strict", "id -u; id -g; id -G; touch /x 2>/dev/null || echo refused").stdout.split("\n")
    assert out[:2] == ["1234", "4321"] and set(out[2].split()) == {"4321", "77", "88"} and out[3] == "refused"
    create(cay, pod("rooted", "sleep", "1000", container={"securityContext": {"runAsNonRoot": True}}), lambda o: o is not None and
           "runAsNonRoot" in status_of(o).get("state", {}).get("waiting", {}).get("message", ""))


def test_a_pod_ends_at_its_deadline(cay):
    obj = create(cay, pod("timed", "sleep", "1000", activeDeadlineSeconds=1), phase("Failed"))
    assert obj["status"]["reason"] == "DeadlineExceeded"


def test_a_claims_directory_outlives_pods_and_goes_with_the_claim(cay):
    cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "keep"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "keep"}}]
    create(cay, pod("first", "sleep", "1000", container=mount, volumes=volumes))
    sh(cay, "first", "echo kept > /v/f")
    cay.kubectl("delete", "pod", "first")
    create(cay, pod("second", "sleep", "1000", container=mount, volumes=volumes))
    assert sh(cay, "second", "cat /v/f").stdout == "kept\n"
    uid = cay.api("GET", f"{CORE}/persistentvolumeclaims/keep")["metadata"]["uid"]
    directory = cay.pool("volumes", uid)
    assert os.path.exists(os.path.join(directory, "f"))
    cay.kubectl("delete", "pod", "second")
    cay.kubectl("delete", "pvc", "keep")
    wait_until(lambda: not os.path.exists(directory))


def test_a_pod_that_never_restarts_ends_with_its_exit_code(cay):
    obj = create(cay, pod("seven", "sh", "-c", "echo bye; exit 7", restartPolicy="Never"), phase("Failed"))
    ended = status_of(obj)["state"]["terminated"]
    assert ended["exitCode"] == 7 and ended["reason"] == "Error"
    assert cay.kubectl("logs", "seven").stdout == "bye\n"
    obj = create(cay, pod("fine", "true", restartPolicy="OnFailure"), phase("Succeeded"))
    assert status_of(obj)["state"]["terminated"]["reason"] == "Completed"


def test_a_crashing_container_is_started_again_and_then_held_back(cay):
    obj = create(cay, pod("crash", "sh", "-c", "echo life; exit 1"), lambda o: o is not None and
                 status_of(o).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")
    assert status_of(obj)["restartCount"] >= 1
    assert status_of(obj)["lastState"]["terminated"]["exitCode"] == 1
    assert cay.kubectl("logs", "-p", "crash").stdout == "life\n"


def test_a_failing_init_container_keeps_the_others_from_starting(cay):
    body = pod("noinit", "sleep", "1000", restartPolicy="Never")
    body["spec"]["initContainers"] = [{"name": "no", "image": "host", "command": ["false"]}]
    obj = create(cay, body, phase("Failed"))
    assert status_of(obj, "no")["state"]["terminated"]["exitCode"] == 1
    assert "terminated" not in status_of(obj)["state"]


def noted(name, script, **more):
    """A container that notes what happens to it in /d/log, and its end if it is asked to end."""
    return dict({"name": name, "image": "host", "volumeMounts": [{"name": "d", "mountPath": "/d"}], "command": [
        "sh", "-c", f"exec 2>/dev/null; trap 'echo {name}-end >> /d/log; cat /d/log; exit 0' TERM; echo {name} >> /d/log; {script}"]}, **more)


SAYS_BYE = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open('/d/log', 'a') as f:
            f.write(self.path + chr(10))
        self.send_response(404)  # a hook has done its part when it was heard
        self.end_headers()
http.server.HTTPServer(('', 8000), Handler).serve_forever()
"""


def test_hooks_run_after_the_start_and_before_the_end(cay):
    cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "hooks"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "hooks"}}]
    note = lambda text: {"exec": {"command": ["sh", "-c", f"echo {text} >> /d/log"]}}
    body = pod("hooked", volumes=volumes, terminationGracePeriodSeconds=60)
    body["spec"]["containers"] = [
        noted("main", RUN_ON, lifecycle={"postStart": note("after-start"), "preStop": note("before-end")}),
        noted("web", "exec python3 -c \"$SERVER\"", env=[{"name": "SERVER", "value": SAYS_BYE}], lifecycle={
            "postStart": {"sleep": {"seconds": 1}}, "preStop": {"httpGet": {"port": 8000, "path": "/bye"}}})]
    create(cay, body)
    cay.kubectl("delete", "pod", "hooked", timeout=60)
    create(cay, pod("hook-reader", "sleep", "1000", volumes=volumes, container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]}))
    log = sh(cay, "hook-reader", "cat /d/log").stdout.split()
    assert [word for word in log if word in ("main", "after-start")] in (["main", "after-start"], ["after-start", "main"])
    assert [word for word in log if word in ("before-end", "main-end")] == ["before-end", "main-end"]
    assert "/bye" in log, "the hook that is a request arrived before the container was ended"


def test_a_failing_post_start_hook_ends_the_container(cay):
    body = pod("unhooked", "sleep", "1000", restartPolicy="Never", terminationGracePeriodSeconds=1,
               container={"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}})
    obj = create(cay, body, phase("Failed", "Succeeded"))
    assert obj["status"]["phase"] == "Failed" and status_of(obj)["state"]["terminated"]["exitCode"] in (137, 143)
    wait_until(lambda: "exit code 1" in events(cay, "unhooked").get("FailedPostStartHook", ""))


LAST_WORDS = {  # a container, and the message of its end
    "file": ({"command": ["sh", "-c", "echo why > /dev/termination-log"]}, "why\n"),
    "user": ({"command": ["sh", "-c", "echo why > /dev/termination-log; exit 3"], "securityContext": {"runAsUser": 1000}}, "why\n"),
    "own-path": ({"command": ["sh", "-c", "printf x > /tmp/last"], "terminationMessagePath": "/tmp/last"}, "x"),
    "tail": ({"command": ["sh", "-c", "seq 3000 > /dev/termination-log; echo end >> /dev/termination-log"]}, ...),
    "bytes": ({"command": ["sh", "-c", "printf 'a\\377b\\000c' > /dev/termination-log"]}, "a?b?c"),
    "no-place": ({"command": ["true"], "terminationMessagePath": "/tmp/none/last"}, None),
    "swapped": ({"command": ["sh", "-c", "rm /tmp/last; ln -s /etc/passwd /tmp/last"], "terminationMessagePath": "/tmp/last"}, None),
    "link-on-the-way": ({"command": ["sh", "-c", "ln -s /etc /tmp/way"], "terminationMessagePath": "/tmp/way/passwd"}, None),
    "second-name": ({"command": ["sh", "-c", "rm /tmp/last; ln /etc/group /tmp/last"], "terminationMessagePath": "/tmp/last"}, None),
    "pipe": ({"command": ["sh", "-c", "rm /tmp/last; mkfifo /tmp/last"], "terminationMessagePath": "/tmp/last"}, None),
    "log": ({"command": ["sh", "-c", "seq 100; echo oops >&2; exit 1"], "terminationMessagePolicy": "FallbackToLogsOnError"}, ...),
    "log-unused": ({"command": ["sh", "-c", "echo fine"], "terminationMessagePolicy": "FallbackToLogsOnError"}, None),
    "silent": ({"command": ["sh", "-c", "echo oops; exit 1"]}, None),
}


def test_a_container_leaves_a_message(cay):
    body = pod("words", restartPolicy="Never")
    body["spec"]["containers"] = [dict({"name": name, "image": "host"}, **more) for name, (more, _) in LAST_WORDS.items()]
    obj = create(cay, body, phase("Failed", "Succeeded"))
    said = {name: status_of(obj, name)["state"]["terminated"].get("message") for name in LAST_WORDS}
    assert {n: m for n, m in said.items() if LAST_WORDS[n][1] is not ...} == {n: m for n, (_, m) in LAST_WORDS.items() if m is not ...}
    assert len(said["tail"]) == 4096 and said["tail"].endswith("3000\nend\n")
    assert said["log"].endswith("100\noops\n") and len(said["log"].splitlines()) <= 80


# In its first life the user turns the way to the message into a link, in its second it looks what has become of the file there.
WAY = "if test -e /v/d; then stat -c %s:%a /etc/group; else ln -s /etc /v/d; exit 1; fi"


def test_a_message_is_no_way_to_the_files_of_root(cay):
    create(cay, pod("way", "sh", "-c", WAY, restartPolicy="OnFailure", volumes=[{"name": "v", "emptyDir": {}}], container={
        "terminationMessagePath": "/v/d/group", "securityContext": {"runAsUser": 1000},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}), phase("Succeeded"))
    size, mode = cay.kubectl("logs", "way").stdout.strip().split(":")
    assert int(size) > 0 and mode == "644"


SIDECAR = {"restartPolicy": "Always", "startupProbe": {"exec": {"command": ["test", "-e", "/d/up"]}, "periodSeconds": 1}}
RUN_ON = "touch /d/up; while :; do sleep 0.05; done"


def test_a_sidecar_starts_before_the_others_and_ends_after_them(cay):
    body = pod("job", restartPolicy="Never", volumes=[{"name": "d", "emptyDir": {}}], terminationGracePeriodSeconds=60)
    body["spec"]["initContainers"] = [noted("first", "sleep 0.2; " + RUN_ON, **SIDECAR), noted("init", "true"), noted("second", RUN_ON, **SIDECAR)]
    body["spec"]["containers"] = [noted("main", "true")]
    obj = create(cay, body, phase("Succeeded", "Failed"))
    assert obj["status"]["phase"] == "Succeeded" and condition(obj, "Initialized") == "True"
    assert cay.kubectl("logs", "job", "-c", "first").stdout.split() == ["first", "init", "second", "main", "second-end", "first-end"]
    assert {status_of(obj, n)["state"]["terminated"]["reason"] for n in ("first", "second", "main")} == {"Completed"}


def test_a_sidecar_is_restarted_whatever_the_policy_and_counts_for_readiness(cay):
    body = pod("helped", "sleep", "1000", restartPolicy="Never", volumes=[{"name": "d", "emptyDir": {}}])
    body["spec"]["initContainers"] = [noted("side", RUN_ON, restartPolicy="Always", readinessProbe={
        "exec": {"command": ["test", "-e", "/d/ok"]}, "periodSeconds": 1})]
    create(cay, body, lambda o: o is not None and status_of(o).get("started"))
    obj = cay.api("GET", f"{PODS}/helped")
    assert condition(obj, "Ready") == "False" and condition(obj, "Initialized") == "True" and not status_of(obj, "side")["ready"]
    sh(cay, "helped", "touch /d/ok", "side")
    cay.wait(PODS, "helped", ready)
    sh(cay, "helped", "kill -9 -1", "side", check=False)
    obj = cay.wait(PODS, "helped", lambda o: status_of(o, "side").get("restartCount") == 1 and ready(o))
    assert status_of(obj)["restartCount"] == 0 and "running" in status_of(obj)["state"]


def test_deletion_asks_the_sidecars_last_and_in_reverse_order(cay):
    cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "order"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "order"}}]
    body = pod("leaving", volumes=volumes, terminationGracePeriodSeconds=60)
    body["spec"]["initContainers"] = [noted("first", RUN_ON, **SIDECAR), noted("second", RUN_ON, **SIDECAR)]
    body["spec"]["containers"] = [noted("main", RUN_ON)]
    create(cay, body)
    cay.kubectl("delete", "pod", "leaving", timeout=60)
    create(cay, pod("reader", "sleep", "1000", volumes=volumes, container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]}))
    assert sh(cay, "reader", "tail -n 3 /d/log").stdout.split() == ["main-end", "second-end", "first-end"]


@pytest.mark.parametrize("name,change,path", [
    ("priv", {"container": {"securityContext": {"privileged": True}}}, "spec.containers[0].securityContext.privileged"),
    ("hostnet", {"hostNetwork": True}, "spec.hostNetwork"),
    ("hostpid", {"hostPID": True}, "spec.hostPID"),
    ("hostpath", {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, "spec.volumes[0].hostPath"),
    ("cap", {"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}}, "capabilities.add[0]: SYS_ADMIN"),
    ("seccomp", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "spec.securityContext.seccompProfile.type"),
    ("sysctl", {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]}},
     "spec.securityContext.sysctls"),
    ("hostusers", {"hostUsers": True}, "spec.hostUsers"),
    ("podlimits", {"resources": {"limits": {"memory": "1Gi"}}}, "spec.resources.limits"),
    ("probehost", {"container": {"readinessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}},
     "spec.containers[0].readinessProbe.httpGet.host"),
    ("sidecar", {"initContainers": [{"name": "s", "image": "host", "restartPolicy": "Never"}]},
     "spec.initContainers[0].restartPolicy"),
], ids=lambda v: v if isinstance(v, str) and "." not in v else "")
def test_what_the_node_does_not_do_is_refused_by_its_path(cay, name, change, path):
    try:
        obj = create(cay, pod(name, "sleep", "1000", **change), phase("Failed", "Running"))
    except ApiError as e:
        assert e.code in (403, 422)  # the API may refuse it first
        return
    assert obj["status"]["phase"] == "Failed" and path in obj["status"]["message"]
    assert not obj["status"].get("containerStatuses")  # a kubelet says nothing of the containers of a Pod that it rejects
    wait_until(lambda: path in events(cay, name).get("UnsupportedField", ""))


@pytest.mark.parametrize("name,change,words", [
    ("refused", {"hostUsers": True}, "Pod failed: UnsupportedField: this node does not support spec.hostUsers"),
    ("toobig", {"container": {"resources": {"requests": {"memory": "1Ei"}}}}, "Pod failed: OutOfmemory: "),
    ("noimage", {"container": {"image": "example.com/none:1"}},
     "Pod exists with phase: Pending; container main: ErrImagePull: no image named example.com/none:1"),
    ("noconfig", {"container": {"envFrom": [{"configMapRef": {"name": "absent"}}]}},
     'configmap "absent" not found'),
    ("novolume", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]},
     'container main: ContainerCreating: prepare volume v: persistentvolumeclaim "absent" not found'),
    ("nocommand", {"container": {"command": ["/no/such/program"]}}, "/no/such/program"),
    ("crashing", {"container": {"command": ["sh", "-c", "exit 7"]}},
     "CrashLoopBackOff: back-off 10s restarting failed container=main pod=crashing; it last ended with Error, exit code 7"),
    ("unready", {"container": {"command": ["sleep", "1000"], "readinessProbe": {
        "exec": {"command": ["sh", "-c", "exit 3"]}, "periodSeconds": 1, "failureThreshold": 1}}},
     "Pod is Running but not Ready; containers with unready status: [main]: Readiness probe failed: "),
], ids=lambda v: v if isinstance(v, str) and " " not in v and "/" not in v else "")
def test_sandbox_and_claim_say_what_keeps_their_pod_from_running(cay, name, change, words):
    spec = pod(name, **change)["spec"]
    agents, extensions = "agents.x-k8s.io/v1beta1", "extensions.agents.x-k8s.io/v1beta1"
    for kind, plural, body in (
            ("SandboxTemplate", "sandboxtemplates", {"podTemplate": {"spec": spec}}),
            ("SandboxWarmPool", "sandboxwarmpools", {"replicas": 0, "sandboxTemplateRef": {"name": name}}),
            ("SandboxClaim", "sandboxclaims", {"warmPoolRef": {"name": name}})):
        cay.api("POST", f"/apis/{extensions}/namespaces/default/{plural}",
                {"apiVersion": extensions, "kind": kind, "metadata": {"name": name}, "spec": body})

    def says_why(obj):
        return obj is not None and any(c["type"] == "Ready" and c["status"] == "False" and words in c["message"]
                                       for c in obj.get("status", {}).get("conditions", []))
    cay.wait(f"/apis/{agents}/namespaces/default/sandboxes", name, says_why)
    cay.wait(f"/apis/{extensions}/namespaces/default/sandboxclaims", name, says_why)
    for kind in ("sandbox", "sandboxclaim"):
        assert words in cay.kubectl("get", kind, name, "-o", "wide").stdout
    cay.api("DELETE", f"/apis/{extensions}/namespaces/default/sandboxclaims/{name}")


def test_a_pod_waits_for_its_configmap_and_then_starts(cay):
    body = pod("later", "sh", "-c", "echo $X; sleep 1000", container={
        "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]})
    create(cay, body, lambda o: o is not None and
           status_of(o).get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError")
    cay.api("POST", f"{CORE}/configmaps", {"metadata": {"name": "late"}, "data": {"x": "came"}})
    cay.wait(PODS, "later", ready)
    wait_until(lambda: cay.kubectl("logs", "later").stdout == "came\n")


def test_a_pod_goes_to_the_node_with_its_last_gate(cay):
    made = cay.api("POST", PODS, pod("gated", "sleep", "inf", schedulingGates=[{"name": "a/one"}, {"name": "a/two"}]))
    assert "nodeName" not in made["spec"]
    for left in ([{"name": "a/two"}], []):
        assert "nodeName" not in cay.api("GET", f"{PODS}/gated")["spec"]
        cay.api("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": left}}, content_type="application/merge-patch+json")
    assert cay.wait(PODS, "gated", ready)["spec"]["nodeName"]
    cay.api("DELETE", f"{PODS}/gated?gracePeriodSeconds=0")


def test_a_pod_starts_when_its_image_gets_its_name(cay):
    create(cay, pod("named", "sleep", "1000", container={"image": "registry.example.com/team/tool:9"}),
           lambda o: o is not None and status_of(o).get("state", {}).get("waiting", {}).get("reason") == "ErrImagePull")
    cay.image_tag("host", "registry.example.com/team/tool:9")
    cay.wait(PODS, "named", ready)


def test_logs_tail_timestamps_and_follow(cay):
    create(cay, pod("talk", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; echo oops >&2; "
                    "until [ -e /tmp/go ]; do sleep 0.1; done; echo last", restartPolicy="Never"))
    wait_until(lambda: "oops" in cay.kubectl("logs", "talk").stdout)
    assert cay.kubectl("logs", "talk", "--tail=2").stdout.splitlines()[-1] == "oops"
    stamped = cay.kubectl("logs", "talk", "--timestamps", "--tail=1").stdout
    assert stamped[:2] == "20" and stamped.rstrip().endswith("oops")
    sh(cay, "talk", "touch /tmp/go")
    assert cay.kubectl("logs", "-f", "talk").stdout.splitlines()[-1] == "last"


def test_logs_of_the_attempt_before_since_a_time_and_up_to_a_size(cay):
    script = "[ -e /d/x ] && echo third && exec sleep 1000; touch /d/x; echo first; sleep 1.1; echo second"
    body = pod("twice", "sh", "-c", script, container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
               volumes=[{"name": "d", "emptyDir": {}}])
    create(cay, body, lambda o: ready(o) and status_of(o)["restartCount"] == 1)
    logs = lambda *options: cay.kubectl("logs", "twice", *options).stdout
    wait_until(lambda: logs() == "third\n")
    assert logs("--previous") == "first\nsecond\n"
    assert logs("--previous", "--limit-bytes=4") == "firs"
    when = logs("--previous", "--timestamps", "--tail=1").split()[0]  # kubectl sends whole seconds
    assert logs("--previous", f"--since-time={when}") == "second\n"
    assert logs("--since=1h") == "third\n"


def test_a_readiness_probe_decides_when_a_pod_is_ready(cay):
    body = pod("probed", "sh", "-c", "sleep 1000", container={
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/go"]}, "periodSeconds": 1}})
    obj = create(cay, body, lambda o: o is not None and "running" in status_of(o).get("state", {}))
    assert not ready(obj)
    sh(cay, "probed", "touch /tmp/go")
    cay.wait(PODS, "probed", ready)
    body = pod("http", "python3", "-m", "http.server", "8000", container={
        "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1}})
    create(cay, body)


def test_a_failing_liveness_probe_restarts_the_container(cay):
    body = pod("sick", "sleep", "1000", container={
        "livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}})
    create(cay, body, lambda o: o is not None and status_of(o).get("restartCount", 0) >= 1)


def test_grace_is_given_and_then_it_is_over(cay):
    """What each command did when it was asked to end is in a volume that outlives it."""
    cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "last-words"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "last-words"}}]
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    said = "trap 'echo asked > /v/{0}; sleep 1; echo done >> /v/{0}; {1}' TERM; touch /v/{0}; while :; do sleep 0.1; done"
    for name, then, grace in (("kind", "exit 0", 60), ("stubborn", ":", 4)):
        create(cay, pod(name, "sh", "-c", said.format(name, then), container=mounts, volumes=volumes,
                        terminationGracePeriodSeconds=grace))
    create(cay, pod("witness", "sleep", "1000", container=mounts, volumes=volumes))
    wait_until(lambda: sh(cay, "witness", "ls /v").stdout == "kind\nstubborn\n")
    cay.kubectl("delete", "pod", "kind", "stubborn", timeout=50)  # less than the grace of the kind one
    assert sh(cay, "witness", "cat /v/kind").stdout == "asked\ndone\n"
    assert sh(cay, "witness", "cat /v/stubborn").stdout == "asked\ndone\n"


def test_images_from_a_directory_and_from_a_tar(cay, tmp_path):
    root = tmp_path / "root"
    for d in ("etc", "usr/bin", "tmp"):
        (root / d).mkdir(parents=True)
    (root / "etc/motd").write_text("of the image\n")
    os.link(os.path.join(cay.build, "cay-init"), root / "usr/bin/tool") if os.stat(cay.build).st_dev == os.stat(root).st_dev \
        else (root / "usr/bin/tool").write_bytes(open(os.path.join(cay.build, "cay-init"), "rb").read())
    os.system(f"tar -C {root} -czf {tmp_path}/root.tar.gz .")
    cay.cay("image", "import", str(root), "fromdir:1", "--data-dir", cay.data_dir)
    cay.cay("image", "import", f"{tmp_path}/root.tar.gz", "fromtar:1", "--data-dir", cay.data_dir)
    names = json.loads(cay.cay("image", "ls", "--data-dir", cay.data_dir, "-o", "json").stdout)
    digests = {i["name"]: i["digest"] for i in names}
    assert digests["docker.io/library/fromtar:1"].startswith("sha256:")
    for name in ("fromdir", "fromtar"):
        # Neither has a command: the container idles, and its root is the image's.
        obj = create(cay, pod(name, container={"image": f"{name}:1"}))
        assert status_of(obj)["imageID"].startswith("sha256:")
        slot = status_of(obj)["containerID"].split("//")[1]
        assert os.path.isdir(cay.pool("roots", slot))


@pytest.mark.parametrize("spoil", ["etc/resolv.conf", "etc", "dev", "proc"])
@pytest.mark.parametrize("how", ["dangling", "host", "file"])
def test_an_image_with_something_else_where_a_mount_belongs_starts(cay, tmp_path, spoil, how):
    """A link, be it to a place of the machine's own, or a plain file; a file is right for resolv.conf, a directory is not."""
    root, name = tmp_path / "root", f"odd-{spoil.split('/')[-1].replace('.', '-')}-{how}"
    for d in ("etc", "dev", "proc", "usr/bin", "tmp"):
        (root / d).mkdir(parents=True)
    if spoil in ("etc", "dev", "proc"):
        (root / spoil).rmdir()
    if how == "file":
        (root / spoil).mkdir() if "." in spoil else (root / spoil).write_text("in the way\n")
    else:
        (root / spoil).symlink_to("../run/nowhere" if how == "dangling" else f"/{spoil}")
    cay.cay("image", "import", str(root), f"{name}:1", "--data-dir", cay.data_dir)
    obj = create(cay, pod(name, container={"image": f"{name}:1"}))
    assert status_of(obj)["restartCount"] == 0
    cay.kubectl("delete", "pod", name)


def test_two_exits_in_a_row_are_learned_after_a_restart(fresh):
    cay = fresh()
    cay.flags = []
    cay.stop()
    cay.start()
    create(cay, pod("short", "sh", "-c", "while ! test -e /tmp/end; do sleep 0.05; done; exit 3", restartPolicy="Never"))
    cay.kubectl("exec", "short", "--", "sh", "-c", "(sleep 0.5; touch /tmp/end) >/dev/null 2>&1 &")
    cay.kill()
    threading.Event().wait(1)
    cay.flags = ["--stop-sandboxes"]
    cay.start()
    obj = cay.wait(PODS, "short", phase("Failed"))
    assert status_of(obj)["state"]["terminated"]["exitCode"] == 3


@pytest.mark.parametrize("path", ["/dev", "/./dev//", "/dev/cay", "/proc", "/proc/sys"])
def test_a_volume_does_not_take_the_place_of_devices_or_processes(cay, path):
    body = pod("covers", "sleep", "1000", container={"volumeMounts": [{"name": "v", "mountPath": path}]}, volumes=[{"name": "v", "emptyDir": {}}])
    obj = create(cay, body, phase("Failed"))
    assert obj["status"]["reason"] == "UnsupportedField" and "mountPath" in obj["status"]["message"]
    cay.api("DELETE", f"{PODS}/covers")
    cay.wait(PODS, "covers", lambda o: o is None)


def test_a_link_does_not_lead_a_volume_over_the_devices(cay):
    """What a container's first descriptors are opened from would be somebody else's."""
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v/link"}]
    body = pod("linked", "sleep", "1000", container={"volumeMounts": mounts}, volumes=[{"name": n, "emptyDir": {}} for n in "vw"],
               initContainers=[{"name": "first", "image": "host", "command": ["ln", "-s", "/dev", "/v/link"], "volumeMounts": mounts[:1]}])
    obj = create(cay, body, lambda o: o and "place of /dev" in str(o["status"].get("containerStatuses")))
    assert not ready(obj)


@pytest.mark.parametrize("name, container, see, want", [
    ("absent", {"command": ["/no/such/program"]}, "terminated", {"reason": "StartError", "exitCode": 127}),
    ("three", {"command": ["sh", "-c", "exit 3"]}, "terminated", {"reason": "Error", "exitCode": 3}),
    ("killed", {"command": ["/usr/bin/python3", "-c", "import os; os.kill(os.getpid(), 9)"]}, "terminated", {"reason": "Error", "exitCode": 137, "signal": 9}),
    ("fine", {"command": ["true"]}, "terminated", {"reason": "Completed", "exitCode": 0}),
])
def test_a_container_says_why_it_does_not_run(cay, name, container, see, want):
    obj = create(cay, pod(f"why-{name}", container=container, restartPolicy="Never"),
                 lambda o: o is not None and status_of(o).get("state", {}).get(see, {}).get("reason") == want["reason"])
    assert {k: status_of(obj)["state"][see].get(k) for k in want} == want


def test_the_class_of_a_pod_follows_from_its_resources(cay):
    both = {"cpu": "10m", "memory": "16Mi"}
    for name, resources, want in (("best", {}, "BestEffort"), ("burst", {"requests": both}, "Burstable"),
                                  ("sure", {"limits": both}, "Guaranteed")):
        obj = create(cay, pod(f"class-{name}", "sleep", "1000", container={"resources": resources}))
        assert obj["status"]["qosClass"] == want
        cay.api("DELETE", f"{PODS}/class-{name}?gracePeriodSeconds=0")
