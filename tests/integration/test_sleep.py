# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that nobody uses go to sleep, and whatever needs them wakes them once."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import urllib.request

import pytest
import websocket

from cay_local import AGENTS, BUILD, EXTENSIONS, ROOT, condition, is_ready, wait_until

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
CLAIMS = f"{EXTENSIONS}/namespaces/default/sandboxclaims"
POOLS = f"{EXTENSIONS}/namespaces/default/sandboxwarmpools"
TEMPLATES = f"{EXTENSIONS}/namespaces/default/sandboxtemplates"
PODS = "/api/v1/namespaces/default/pods"
CAY = os.path.join(BUILD, "cay")
MANY = 100
MOUNTS = pathlib.Path("/proc/self/mountinfo").read_text()
# Counts its requests in memory, and echoes lines on a second port.
SERVER = """
import http.server, socketserver, threading
n, lock = 0, threading.Lock()
class Count(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 4096
    def do_GET(self):
        global n
        with lock:
            n += 1
            body = str(n).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 101 Echo\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n")
        for line in self.rfile:
            self.wfile.write(line)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
class Echoes(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
threading.Thread(target=Echoes(("", 9000), Echo).serve_forever, daemon=True).start()
Server(("", 8000), Count).serve_forever()
"""


def pod_template(command=("python3", "-c", SERVER), port=8000, runtime=None):
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 10}
    start = {**probe, "failureThreshold": 300}  # Python takes long to start on a slow machine
    probe = {"startupProbe": start, "readinessProbe": probe, "livenessProbe": probe} if port else {}
    return {"metadata": {"annotations": {"cay.dev/runtime": "python"}}, "spec": {
        "terminationGracePeriodSeconds": 0, **({"runtimeClassName": runtime} if runtime else {}),
        "containers": [{"name": "c", "image": "host", "command": list(command), "stdin": True, **probe}]}}


def make(cay, name, after="1s", action=None, **spec):
    notes = {"cay.dev/idle-after": after, **({"cay.dev/idle-action": action} if action else {})}
    notes = {k: v for k, v in notes.items() if v}
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
                                "metadata": {"name": name, "annotations": notes},
                                "spec": {"podTemplate": pod_template(**spec)}})
    cay.wait_ready(SANDBOXES, name)


def asleep(reason):
    return lambda o: (condition(o, "Asleep") or {}).get("status") == "True" and condition(o, "Asleep")["reason"] == reason


def wait_asleep(cay, name, reason="Frozen"):
    return cay.wait(SANDBOXES, name, asleep(reason))


def awake(o):
    return (condition(o, "Asleep") or {}).get("status") == "False"


def delete(cay, name, path=SANDBOXES):
    cay.api("DELETE", f"{path}/{name}")
    cay.wait(path, name, lambda o: o is None)


def metrics(cay):
    return cay.api("GET", "/metrics", accept="text/plain")


def counted(cay, name, **labels):
    """The sum of the metric's values that have these labels."""
    total = 0
    for line in metrics(cay).splitlines():
        m = re.fullmatch(rf"{name}\{{(.*)\}} (\S+)", line)
        has = dict(re.findall(r'(\w+)="([^"]*)"', m[1])) if m else None
        if has is not None and all(has.get(k) == v for k, v in labels.items()):
            total += float(m[2])
    return total


def wakes(cay, **labels):
    return counted(cay, "cay_wakes_total", **labels)


def events(cay, name, reason):
    items = cay.api("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [e for e in items if e["regarding"].get("name") == name and e["reason"] == reason]


def get(cay, name, port=8000, timeout=60):
    return cay.route(name, "GET", "/", port=port, timeout=timeout)


def crowd(n, fn):
    start = threading.Barrier(n)

    def one(i):
        start.wait()
        return fn(i)

    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n)))


def test_a_frozen_sandbox_is_woken_once_by_100_requests_and_remembers(cay):
    make(cay, "cold", after="1s")
    assert get(cay, "cold")[0] == 200
    o = wait_asleep(cay, "cold")
    assert is_ready(o), o["status"]
    before = wakes(cay)
    answers = crowd(MANY, lambda i: get(cay, "cold"))
    assert [s for s, _ in answers] == [200] * MANY
    assert sorted(int(b) for _, b in answers) == list(range(2, MANY + 2))
    assert wakes(cay) - before == 1
    assert wakes(cay, tier="frozen", cause="packet") >= 1
    woken = wait_until(lambda: events(cay, "cold", "SandboxWoken"))
    assert re.search(r"Woken by packet in \d+\.\d+ ms", woken[0]["note"]), woken
    assert events(cay, "cold", "SandboxFrozen")
    delete(cay, "cold")


def test_u18_and_u41_a_suspended_sandbox_is_woken_once_by_100_requests(cay):
    make(cay, "off", after="1s", action="Suspend")
    wait_asleep(cay, "off", "Suspended")
    cay.wait(PODS, "off", lambda o: o is None)
    before = wakes(cay)
    answers = crowd(MANY, lambda i: get(cay, "off"))
    assert [s for s, _ in answers] == [200] * MANY
    o = cay.wait(SANDBOXES, "off", awake)
    assert o["spec"]["operatingMode"] == "Running" and "cay.dev/asleep-since" not in o["metadata"]["annotations"]
    assert wakes(cay) - before == 1 and wakes(cay, tier="suspended", cause="request") >= 1
    reasons = {c["reason"] for c in o["status"]["conditions"]}
    assert not reasons & {"PodFailed", "PodSucceeded", "SandboxExpired", "InvalidConfiguration"}, reasons
    delete(cay, "off")


def tunnel(cay, name):
    s = socket.create_connection(("127.0.0.1", cay.router_port), timeout=60)
    s.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-ID: {name}\r\nX-Sandbox-Port: 9000\r\n"
              "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n".encode())
    f = s.makefile("rwb", 0)
    assert b" 101 " in f.readline()
    while f.readline().strip():
        pass
    return f


def say(f, text):
    f.write(text + b"\n")
    return f.readline().strip()


def test_an_open_connection_survives_the_freeze_and_its_bytes_wake(cay):
    make(cay, "tied")
    f = tunnel(cay, "tied")
    assert say(f, b"one") == b"one"
    wait_asleep(cay, "tied")
    before = wakes(cay, tier="frozen", cause="packet")
    assert say(f, b"two") == b"two"
    assert wakes(cay, tier="frozen", cause="packet") - before == 1
    delete(cay, "tied")


def ws_exec(cay, name, *command, way="exec", flags="stdout=1&stderr=1"):
    return websocket.create_connection(
        f"wss://127.0.0.1:{cay.port}{PODS}/{name}/{way}?{flags}" + "".join("&command=" + c for c in command),
        sslopt={"context": cay.context()}, subprotocols=["v4.channel.k8s.io"], timeout=60)


def ws_output(ws):
    got = b""
    while True:
        opcode, data = ws.recv_data()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return got
        if data[:1] == b"\x01":
            got += data[1:]


@pytest.mark.parametrize("action, reason", [("Freeze", "Frozen"), ("Suspend", "Suspended")])
def test_100_execs_at_once_are_one_wake(cay, action, reason):
    name = f"execs-{action.lower()}"
    make(cay, name, after="5s", action=action, command=("sleep", "infinity"), port=None)  # not asleep again between two of them
    wait_asleep(cay, name, reason)
    if action == "Suspend":
        cay.wait(PODS, name, lambda o: o is None)
    before = wakes(cay)
    assert crowd(MANY, lambda i: ws_output(ws_exec(cay, name, "echo", str(i)))) == [f"{i}\n".encode() for i in range(MANY)]
    wait_until(lambda: wakes(cay) - before == 1)
    delete(cay, name)


def suspended(cay, name, **more):
    make(cay, name, action="Suspend", command=("sleep", "infinity"), port=None, **more)
    wait_asleep(cay, name, "Suspended")
    cay.wait(PODS, name, lambda o: o is None)


def test_kubectl_exec_and_cp_wake_what_is_suspended(cay, kubectl_version, tmp_path):
    """It asks for the Pod first, which is not there, and says in a header what for."""
    (tmp_path / "file").write_text("copied")
    suspended(cay, "kube", after="3s")
    for args in (("exec", "kube", "--", "true"), ("cp", f"{tmp_path}/file", "kube:/tmp/file")):
        before = wakes(cay, tier="suspended", cause="stream")
        cay.kubectl(*args)
        assert wakes(cay, tier="suspended", cause="stream") > before
        wait_asleep(cay, "kube", "Suspended")
        cay.wait(PODS, "kube", lambda o: o is None)
    delete(cay, "kube")


def test_looking_at_a_pod_wakes_nobody(cay):
    suspended(cay, "seen")
    before = wakes(cay)
    assert "not found" in cay.kubectl("get", "pod", "seen", check=False).stderr
    cay.kubectl("describe", "pod", "seen", check=False)
    cay.kubectl("get", "pods")
    assert wakes(cay) == before and asleep("Suspended")(cay.api("GET", f"{SANDBOXES}/seen"))
    delete(cay, "seen")


def test_whoever_may_only_look_wakes_nobody_by_saying_kubectl_exec(module_instance):
    cay = module_instance("--service-account-grants", "default/viewer=view")
    suspended(cay, "closed")
    cay.kubectl("create", "serviceaccount", "viewer")
    token = cay.kubectl("create", "token", "viewer").stdout.strip()
    headers = {"Authorization": f"Bearer {token}", "Kubectl-Command": "kubectl exec"}
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=60, context=ssl.create_default_context(cadata=cay.credentials()[0].decode()))
    conn.request("GET", f"{PODS}/closed", headers=headers)
    assert conn.getresponse().status == 404
    conn.close()
    assert wakes(cay) == 0
    delete(cay, "closed")


def test_input_of_an_attached_client_wakes(cay):
    make(cay, "cat", command=("cat",), port=None)
    ws = ws_exec(cay, "cat", way="attach", flags="stdin=1&stdout=1")
    wait_asleep(cay, "cat")  # nobody types
    ws.send_binary(b"\x00hello\n")
    got = b""
    while b"hello\n" not in got:
        got += ws.recv()[1:]
    assert wakes(cay, tier="frozen", cause="attach") == 1
    wait_until(lambda: events(cay, "cat", "SandboxWoken"))
    wait_asleep(cay, "cat")
    ws.close()
    assert ws_exec(cay, "cat", way="attach", flags="stdin=1&stdout=1").connected  # so does a new one
    assert wakes(cay, tier="frozen", cause="attach") == 2
    delete(cay, "cat")


def test_a_forwarded_port_wakes(cay, kubectl_version):
    make(cay, "fwd")
    wait_asleep(cay, "fwd")
    env = {"KUBECONFIG": cay.kubeconfig, "HOME": cay.data_dir, "PATH": "/usr/bin:/bin:/usr/local/bin"}
    with subprocess.Popen(["kubectl", "port-forward", "pod/fwd", ":8000"], stdout=subprocess.PIPE, text=True, env=env) as p:
        try:
            port = int(re.search(r"127.0.0.1:(\d+)", p.stdout.readline())[1])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                assert answer.read() == b"1"
            assert wakes(cay, tier="frozen", cause="dial") == 1
        finally:
            p.terminate()
    delete(cay, "fwd")


def test_a_running_command_and_an_unanswered_request_keep_it_awake(cay):
    make(cay, "busy", command=("sleep", "infinity"), port=None)
    before = counted(cay, "cay_sleeps_total", tier="frozen")
    assert cay.execute("busy", "sleep 4; echo done")["stdout"] == "done\n"
    assert counted(cay, "cay_sleeps_total", tier="frozen") == before
    wait_asleep(cay, "busy")
    assert counted(cay, "cay_sleeps_total", tier="frozen") == before + 1
    delete(cay, "busy")


def test_a_command_that_nobody_waits_for_keeps_it_awake(cay):
    """Started by its address or by a client that has left: only the guest knows."""
    make(cay, "left", command=("sleep", "infinity"), port=None)
    conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60)
    conn.request("POST", "/execute", json.dumps({"command": "sleep 3; touch /tmp/done; sleep 1"}),
                 {"X-Sandbox-ID": "left", "X-Sandbox-Port": "8888", "Content-Type": "application/json",
                  "Idempotency-Key": "k"})
    wait_until(lambda: "sleep 3" in ws_output(ws_exec(cay, "left", "sh", "-c", "cat+/proc/[0-9]*/cmdline")).decode().replace("\0", " "))
    before = counted(cay, "cay_sleeps_total", tier="frozen")
    conn.close()
    wait_asleep(cay, "left")
    assert counted(cay, "cay_sleeps_total", tier="frozen") == before + 1
    assert ws_output(ws_exec(cay, "left", "ls", "/tmp/done")) == b"/tmp/done\n"
    delete(cay, "left")


def test_1000_requests_write_nothing(cay):
    make(cay, "plain", after="1h")
    assert get(cay, "plain")[0] == 200
    wait_until(lambda: events(cay, "plain", "SandboxReady"))
    rows = cay.metric("cay_store_rows_total")
    conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60)
    for _ in range(1000):
        conn.request("GET", "/", headers={"X-Sandbox-ID": "plain", "X-Sandbox-Port": "8000"})
        answer = conn.getresponse()
        answer.read()
        assert answer.status == 200
    assert cay.metric("cay_store_rows_total") == rows
    delete(cay, "plain")


def test_a_user_s_own_suspend_is_left_alone(cay):
    make(cay, "mine", after=None)
    cay.api("PATCH", f"{SANDBOXES}/mine", {"spec": {"operatingMode": "Suspended"}}, "application/merge-patch+json")
    cay.wait(SANDBOXES, "mine", lambda o: (condition(o, "Suspended") or {}).get("status") == "True")
    status, body = get(cay, "mine")
    assert status == 502 and json.loads(body)["code"] == "SandboxSuspended"
    cay.api("PATCH", f"{SANDBOXES}/mine", {"metadata": {"annotations": {"cay.dev/wake": "OnRequest"}}},
            "application/merge-patch+json")
    assert get(cay, "mine") == (200, b"1")
    assert cay.api("GET", f"{SANDBOXES}/mine")["spec"]["operatingMode"] == "Running"
    delete(cay, "mine")


def listed(cay, name):
    out = subprocess.run([CAY, "ls", "--kubeconfig", cay.kubeconfig, "-o", "json"], capture_output=True, check=True).stdout
    return [(r["state"], r["asleep"]) for r in json.loads(out)["items"] if r["name"] == name]


def test_cay_suspend_keeps_one_suspended_that_idleness_suspended(cay):
    make(cay, "kept", after="1s", action="Suspend")
    wait_asleep(cay, "kept", "Suspended")
    assert listed(cay, "kept") == [("Asleep", True)]
    subprocess.run([CAY, "suspend", "--kubeconfig", cay.kubeconfig, "--wait", "kept"], check=True, stdout=subprocess.DEVNULL)
    cay.wait(SANDBOXES, "kept", awake)
    assert listed(cay, "kept") == [("Suspended", False)]
    status, body = get(cay, "kept")
    assert status == 502 and json.loads(body)["code"] == "SandboxSuspended"
    delete(cay, "kept")


def test_without_annotations_nothing_sleeps_and_bad_ones_are_told(cay):
    make(cay, "never", after=None)
    make(cay, "wrong", after="10 minutes")
    make(cay, "other", after="1s", action="Hibernate")
    for name, key, allowed in (("wrong", "cay.dev/idle-after", "a duration"), ("other", "cay.dev/idle-action", "Freeze, Suspend or Delete")):
        told = wait_until(lambda: events(cay, name, "InvalidIdlePolicy"))
        assert len(told) == 1 and key in told[0]["note"] and allowed in told[0]["note"], told
    make(cay, "mark")
    wait_asleep(cay, "mark")  # long after the others could have slept
    for name in ("never", "wrong", "other"):
        assert condition(cay.api("GET", f"{SANDBOXES}/{name}"), "Asleep") is None
        delete(cay, name)
    delete(cay, "mark")


def note(cay, path, name, **notes):
    cay.api("PATCH", f"{path}/{name}", {"metadata": {"annotations": {f"cay.dev/{k.replace('_', '-')}": v for k, v in notes.items()}}},
            "application/merge-patch+json")


def test_the_most_particular_of_four_objects_decides_and_unclaimed_ones_never_sleep(cay):
    def post(path, kind, name, spec, **meta):
        cay.api("POST", path, {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec})

    post(TEMPLATES, "SandboxTemplate", "t", {"podTemplate": pod_template()},
         annotations={"cay.dev/idle-after": "1s", "cay.dev/idle-action": "Suspend"})
    post(POOLS, "SandboxWarmPool", "p", {"replicas": 1, "sandboxTemplateRef": {"name": "t"}})
    cay.wait(POOLS, "p", lambda o: (o or {}).get("status", {}).get("readyReplicas") == 1)
    member = cay.api("GET", SANDBOXES)["items"][0]["metadata"]["name"]
    make(cay, "mark")
    wait_asleep(cay, "mark")
    assert condition(cay.api("GET", f"{SANDBOXES}/{member}"), "Asleep") is None
    post(CLAIMS, "SandboxClaim", "c", {"warmPoolRef": {"name": "p"}})
    box = cay.wait_ready(CLAIMS, "c")["status"]["sandbox"]["name"]
    wait_asleep(cay, box, "Suspended")  # by the template
    note(cay, POOLS, "p", idle_action="Freeze")
    assert get(cay, box)[0] == 200
    wait_asleep(cay, box, "Frozen")  # the time of the template, the action of the pool
    note(cay, CLAIMS, "c", idle_after="never")
    cay.wait(SANDBOXES, box, awake)  # by the claim
    note(cay, SANDBOXES, box, idle_after="2s", idle_action="Delete")
    cay.wait(CLAIMS, "c", lambda o: o is None)
    cay.wait(SANDBOXES, box, lambda o: o is None)
    for path, name in ((POOLS, "p"), (TEMPLATES, "t"), (SANDBOXES, "mark")):
        delete(cay, name, path)


def test_a_policy_that_asks_for_more_takes_effect_while_frozen(cay):
    for name in ("more", "most"):
        make(cay, name)
        wait_asleep(cay, name, "Frozen")
    note(cay, SANDBOXES, "more", idle_action="Suspend")
    note(cay, SANDBOXES, "most", idle_after="3s", idle_action="Delete")
    wait_asleep(cay, "more", "Suspended")
    cay.wait(SANDBOXES, "most", lambda o: o is None)
    assert get(cay, "more")[0] == 200  # by the controller, so a request wakes it
    delete(cay, "more")


def test_delete_deletes_a_sandbox_of_its_own(cay):
    make(cay, "gone", action="Delete")
    cay.wait(SANDBOXES, "gone", lambda o: o is None)
    cay.wait(PODS, "gone", lambda o: o is None)


def test_kill_9_while_frozen_and_while_waking(cay):
    make(cay, "kept")
    make(cay, "dropped")
    make(cay, "asked")
    assert get(cay, "kept") == (200, b"1") and get(cay, "asked") == (200, b"1")
    for name in ("kept", "dropped", "asked"):
        wait_asleep(cay, name)
    for _ in range(2):
        cay.kill()
        cay.start()
    assert counted(cay, "cay_wakes_total") == 0
    wait_until(lambda: counted(cay, "cay_sandboxes_asleep", tier="frozen") == 3)
    for name in ("kept", "dropped", "asked"):
        o = cay.api("GET", f"{SANDBOXES}/{name}")
        assert asleep("Frozen")(o) and is_ready(o)
        pod = cay.api("GET", f"{PODS}/{name}")
        assert is_ready(pod) and pod["status"]["containerStatuses"][0]["restartCount"] == 0, pod["status"]["containerStatuses"]
    delete(cay, "dropped")
    asking = threading.Thread(target=lambda: pytest.raises(OSError, get, cay, "asked"), daemon=True)
    asking.start()
    cay.kill()
    asking.join()
    cay.start()
    assert get(cay, "kept") == (200, b"2")
    assert int(get(cay, "asked")[1]) in (2, 3)
    assert ws_output(ws_exec(cay, "asked", "echo", "x")) == b"x\n"
    for name in ("kept", "asked"):
        assert cay.api("GET", f"{PODS}/{name}")["status"]["containerStatuses"][0]["restartCount"] == 0
        wait_asleep(cay, name)
        delete(cay, name)


@pytest.mark.parametrize("runtime", ["runc", *(pytest.param(r, marks=pytest.mark.long) for r in ("crun", "runsc"))])
def test_other_runtimes_freeze_the_same_way(cay, runtime):
    if not shutil.which(runtime):
        pytest.skip(f"{runtime} is not installed")
    if runtime == "crun" and " - cgroup2 " in MOUNTS and " - cgroup " in MOUNTS:
        pytest.skip("crun refuses a hybrid layout of control groups")
    make(cay, runtime, runtime=runtime)
    assert get(cay, runtime) == (200, b"1")
    wait_asleep(cay, runtime)
    before = wakes(cay)
    assert get(cay, runtime) == (200, b"2")
    assert wakes(cay) - before == 1
    delete(cay, runtime)


def test_the_example_of_the_guide_works(cay, kubectl_version):
    text = pathlib.Path(ROOT, "docs", "guide", "sleep.md").read_text()
    script = text.split("```sh\n")[1].split("```")[0]
    r = subprocess.run(["sh", "-e", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120,
                       env={**os.environ, "KUBECONFIG": cay.kubeconfig, "HOME": cay.data_dir})
    assert r.returncode == 0 and "\nawake\n" in r.stdout and "SandboxFrozen" in r.stdout, (r.stdout, r.stderr)
    cay.kubectl("delete", "--wait", "-f", "examples/sleep.yaml")


@pytest.fixture
def zram():
    """Compressed swap space, for as long as the test runs."""
    control = pathlib.Path("/sys/class/zram-control")
    if not control.is_dir():
        pytest.skip("NOT TESTED: this kernel has no zram, so nothing can be pushed out of memory here")
    number = int((control / "hot_add").read_text())
    disk = f"/dev/zram{number}"
    try:
        pathlib.Path(f"/sys/block/zram{number}/disksize").write_text("256M")
        if subprocess.run(["sh", "-c", f"mkswap {disk} && swapon {disk}"], capture_output=True).returncode:
            pytest.skip("NOT TESTED: swap space cannot be switched on here")
        yield disk
        subprocess.run(["swapoff", disk], check=True)
    finally:
        (control / "hot_remove").write_text(str(number))


@pytest.mark.alone
def test_the_memory_of_a_frozen_sandbox_goes_to_swap_space(cay, zram):
    big = SERVER.replace("import http", "import os\nkeep = os.urandom(1 << 20) * 48\nimport http", 1)
    make(cay, "big", command=("python3", "-c", big))
    assert get(cay, "big") == (200, b"1")
    wait_asleep(cay, "big")
    used = cay.metric("cay_page_outs_total")
    wait_until(lambda: cay.metric("cay_page_outs_total") > used)
    swapped = [int(m[1]) for p in pathlib.Path("/proc").glob("[0-9]*/status")
               if (m := re.search(r"Name:\tpython3\n.*VmSwap:\s+(\d+)", text_of(p), re.S))]
    assert max(swapped, default=0) > 40 << 10, swapped  # KiB
    assert get(cay, "big") == (200, b"2")
    delete(cay, "big")


def text_of(path):
    try:
        return path.read_text()
    except OSError:
        return ""  # it has ended


def mark(cay):
    """Of packets that may go from this machine to its sandboxes."""
    instance = re.search(r"instance=(\w+)", cay.log())[1]
    table = subprocess.run(["nft", "list", "table", "inet", f"cay_{instance}"], capture_output=True, text=True, check=True).stdout
    return struct.pack("I", int(re.search(r"meta mark (0x\w+) accept", table)[1], 16))


def direct(kind, address, port, its_mark):
    """A connection or a datagram to the Pod itself, on which nothing is said."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, its_mark)
        s.settimeout(60)
        s.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            s.send(b"x")
            s.send(b"y")


def test_a_direct_packet_wakes_and_what_the_kernel_answers_alone_does_not(cay):
    make(cay, "near", command=("python3", "-c", SERVER.replace('(("", 9000)', '(("::", 9000)').replace(
        "class Echoes(socketserver.ThreadingTCPServer):", "class Echoes(socketserver.ThreadingTCPServer):\n    address_family = 10")))
    addresses = cay.api("GET", f"{SANDBOXES}/near")["status"]["podIPs"]
    assert len(addresses) == 2, addresses
    woken = 0
    for address in addresses:
        for kind, port in ((socket.SOCK_STREAM, 9000), (socket.SOCK_DGRAM, 9)):
            wait_asleep(cay, "near")
            before = wakes(cay)
            direct(kind, address, port, mark(cay))
            wait_until(lambda: wakes(cay) > before)
            assert wakes(cay) - before == 1, (address, kind)
            woken += 1
            wait_until(lambda: len(events(cay, "near", "SandboxWoken")) == woken)
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark(cay))
        s.connect((addresses[0], 9000))
        wait_asleep(cay, "near")
        before = wakes(cay)
    # The end of the connection went there; a later freeze shows that it woke nobody.
    make(cay, "mark")
    wait_asleep(cay, "mark")
    assert wakes(cay) == before
    for name in ("near", "mark"):
        delete(cay, name)
