# SPDX-License-Identifier: Apache-2.0
"""cay serve as a program: settings, files, certificates, one instance a directory, several side by side."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys

import pytest
from conftest import make_dir

from cay_local import AGENTS, BUILD, ROOT, ApiError, Cay, free_port

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"


def box(name, **container):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [
                dict({"name": "main", "image": "host", "command": ["sleep", "infinity"]}, **container)]}}}}


def raw(cay, path, headers=None, context=None):
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=60, context=context or ssl._create_unverified_context())
    conn.request("GET", path, headers=headers or {})
    answer = conn.getresponse()
    return answer.status, answer.read()


def test_first_start_makes_keys_that_only_root_can_read(fresh):
    cay = fresh()
    for name in ("admin.kubeconfig", "ca.key", "sa.key"):
        assert stat.S_IMODE(os.stat(os.path.join(cay.data_dir, name)).st_mode) == 0o600
    assert cay.kubectl("get", "nodes").stdout.count("Ready") == 1


@pytest.mark.parametrize("named", ["link", "."])
def test_a_data_directory_may_be_a_link_or_relative(named):
    place = make_dir()
    os.mkdir(f"{place}/data")
    os.symlink("data", f"{place}/link")
    cay = Cay(f"{place}/data", flags=["--stop-sandboxes"])
    cay.data_dir = f"{place}/link" if named == "link" else "."
    cay.prefix = ["env", "-C", f"{place}/data"]
    try:
        cay.start()
        cay.api("POST", SANDBOXES, box("there"))
        cay.wait_ready(SANDBOXES, "there")
        assert subprocess.run([f"{BUILD}/cay", "stop", "--sandboxes", "--data-dir", cay.data_dir], cwd=f"{place}/data").returncode == 0
        assert cay.process.wait(120) == 0
    finally:
        cay.kill()
        shutil.rmtree(place)


def test_a_parent_that_ignores_the_end_of_its_children_is_no_reason_to_fail():
    place = make_dir()
    ignore = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    cay = Cay(f"{place}/data", flags=["--stop-sandboxes"], prefix=["/usr/bin/env", sys.executable, "-c", ignore])
    try:
        cay.start()
        cay.api("POST", SANDBOXES, box("there"))
        cay.wait_ready(SANDBOXES, "there")
        assert cay.stop() == 0
    finally:
        cay.kill()
        shutil.rmtree(place)


def test_stop_is_clean_and_leaves_sandboxes_running(fresh):
    cay = fresh()
    cay.flags = []
    cay.stop()
    cay.start()
    cay.api("POST", SANDBOXES, box("stays"))
    before = cay.wait_ready(SANDBOXES, "stays")
    assert cay.stop() == 0
    items, orphans = cay.census()
    assert any(i["type"] == "process" for i in items) and not orphans
    cay.flags = ["--stop-sandboxes"]
    cay.start()
    after = cay.wait_ready(SANDBOXES, "stays")
    assert after["status"]["podIPs"] == before["status"]["podIPs"]
    assert cay.stop() == 0
    items, orphans = cay.census()
    assert not [i for i in items if i["type"] in ("process", "cgroup", "mount", "link")], items


def test_second_instance_is_refused_and_told_who_holds_the_directory(fresh):
    cay = fresh()
    r = subprocess.run([os.path.join(BUILD, "cay"), "serve", "--data-dir", cay.data_dir, "--listen", "127.0.0.1:0",
                        "--router-listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=120)
    assert r.returncode == 1
    assert cay.data_dir in r.stderr and str(cay.process.pid) in r.stderr
    assert cay.ready()


def test_two_instances_live_side_by_side(fresh):
    one, two = fresh(), fresh()
    for cay in (one, two):
        cay.api("POST", SANDBOXES, box("same-name"))
    ips = [cay.wait_ready(SANDBOXES, "same-name")["status"]["podIPs"][0] for cay in (one, two)]
    assert ips[0] != ips[1]
    one.stop()
    assert two.ready()
    assert two.kubectl("exec", "same-name", "--", "echo", "alive").stdout == "alive\n"
    assert not two.census()[1]


def test_settings_come_from_flag_variable_and_file_in_that_order(fresh, tmp_path):
    port_env, port_flag = free_port(), free_port()
    config = tmp_path / "config.yaml"
    config.write_text("log-format: json\nlisten: 127.0.0.1:1\n")
    cay = fresh("--config", str(config), start=False)
    cay.env = dict(os.environ, CAY_LISTEN=f"127.0.0.1:{port_env}")
    cay.port = port_flag
    cay.start()
    assert json.loads(cay.log().splitlines()[-1])
    assert not socket.socket().connect_ex(("127.0.0.1", port_flag))


@pytest.mark.parametrize("argv,words", [
    (["serve", "--listen", "nonsense"], ["--listen", "HOST:PORT"]),
    (["serve", "--colour"], ["--colour", "--help"]),
    (["serve", "--network-pool", "0"], ["--network-pool"]),
    (["sevre"], ["sevre", "cay help"]),
    (["image", "tag", "host"], ["FROM TO"]),
])
def test_wrong_arguments_name_the_flag_and_exit_with_2(argv, words):
    r = subprocess.run([os.path.join(BUILD, "cay"), *argv], capture_output=True, text=True, timeout=120)
    assert r.returncode == 2
    for word in words:
        assert word in r.stderr


def test_every_command_has_help():
    out = subprocess.run([os.path.join(BUILD, "cay"), "help"], capture_output=True, text=True).stdout
    names = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert {"serve", "controller", "manifests", "image", "census", "bench", "version"} <= set(names)
    for name in names:
        r = subprocess.run([os.path.join(BUILD, "cay"), name, "--help"], capture_output=True, text=True)
        assert r.returncode == 0 and r.stdout.startswith(f"usage: cay {name}")


def test_man_page_is_current():
    page = subprocess.run([os.path.join(BUILD, "cay"), "man"], capture_output=True, text=True).stdout
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    assert open(os.path.join(root, "docs/man/cay.1")).read() == page, "make docs/man/cay.1 anew: build/cay man >docs/man/cay.1"


@pytest.mark.parametrize("page", ["livez", "readyz", "healthz"])
def test_health_has_the_forms_of_a_kube_apiserver(cay, page):
    context = cay.context()

    def shown(path):
        status, body = raw(cay, path, context=context)
        return status, body.decode()
    assert shown(f"/{page}") == shown(f"/{page}?exclude=ping") == shown(f"/{page}/ping") == shown(f"/{page}/store?verbose") == (200, "ok")
    assert shown(f"/{page}?verbose") == (200, f"[+]ping ok\n[+]store ok\n[+]start ok\n{page} check passed\n")
    assert shown(f"/{page}?verbose&exclude=store&exclude=nope&exclude=zip") == (
        200, '[+]ping ok\n[+]store excluded: ok\n[+]start ok\n'
        f'warn: some health checks cannot be excluded: no matches for "nope","zip"\n{page} check passed\n')
    assert shown(f"/{page}/nope") == (404, "404 page not found\n")


def run_cay(*argv):
    return subprocess.run([os.path.join(BUILD, "cay"), *argv], capture_output=True, text=True, timeout=60)


def test_every_command_has_a_page_and_every_page_is_clean(tmp_path):
    pages = run_cay("man", "--list").stdout.split()
    assert {"cay.1", "cay-serve.8", "cay.yaml.5"} <= set(pages)
    texts = {page: run_cay("man", page.rsplit(".", 1)[0]).stdout for page in pages}
    commands = [line.split()[0] for line in run_cay("help").stdout.splitlines() if line.startswith("  ")]
    for name in commands:
        assert any(f".SS cay {name} " in text for page, text in texts.items() if page != "cay.1"), f"{name} is in no page of its own"
    flags = [line.split()[0].rstrip(",") for line in run_cay("serve", "--help").stdout.splitlines() if line.startswith("  --")]
    for flag in flags:
        assert f".BR {flag}" in texts["cay-serve.8"] and (flag == "--config" or f".BR {flag[2:]} " in texts["cay.yaml.5"])
    for page, text in texts.items():
        file = tmp_path / page
        file.write_text(text)
        r = subprocess.run(["groff", "-man", "-ww", "-z", "-K", "utf8", "-T", "utf8", file], capture_output=True, text=True)
        assert r.returncode == 0 and not r.stderr, (page, r.stderr)
    r = run_cay("man", "nothing")
    assert r.returncode == 2 and "cay-serve.8" in r.stderr


def test_who_may_do_what(fresh):
    cay = fresh("--service-account-grants", "default/default=view")
    assert raw(cay, "/readyz")[0] == raw(cay, "/healthz")[0] == raw(cay, "/version")[0] == 200
    status, body = raw(cay, "/api/v1/namespaces/default/pods")
    assert status == 403 and "system:anonymous" in json.loads(body)["message"]
    assert raw(cay, "/api/v1/pods", {"Authorization": "Bearer nonsense"})[0] == 401
    other = Cay(make_dir(), flags=["--stop-sandboxes"])
    try:
        other.start()
        ca, cert, key = other.credentials()
        context = ssl._create_unverified_context()
        pem = os.path.join(other.data_dir, "client.pem")
        open(pem, "wb").write(cert + b"\n" + key)
        context.load_cert_chain(pem)
        assert raw(cay, "/api/v1/pods", context=context)[0] == 401
    finally:
        other.stop()
    token = cay.kubectl("create", "token", "default").stdout.strip()
    assert raw(cay, "/api/v1/namespaces/default/pods", {"Authorization": "Bearer " + token})[0] == 200
    assert raw(cay, "/api/v1/namespaces/kube-system/secrets", {"Authorization": "Bearer " + token})[0] == 403


def test_bad_requests_get_a_status_and_nothing_is_half_written(fresh):
    cay = fresh()
    before = cay.api("GET", SANDBOXES)["metadata"]["resourceVersion"]
    for body, code in (("{", 400), ("[]", 400), (json.dumps(box("Bad_Name")), 422), ("x" * 4_000_000, 413),
                       ("[" * 5000, 400), ("\0" * 2_900_000, 400), (json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}), 400)):
        with pytest.raises(ApiError) as e:
            cay.api("POST", SANDBOXES, body)
        assert e.value.code == code, (body[:40], str(e.value))
        cay.close()
    assert cay.api("GET", SANDBOXES)["items"] == []
    assert cay.ready() and before


def test_openapi_v2_tells_old_kubectl_that_fields_are_validated(fresh):
    cay = fresh()
    conn = cay.connect()
    conn.request("GET", "/openapi/v2", headers={"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"})
    body = conn.getresponse().read()
    kinds = [b"kind: Sandbox\n", b"kind: SandboxClaim\n", b"kind: Pod\n", b"kind: Namespace\n"]
    assert body.startswith(b"\x0a\x032.0") and all(k in body for k in kinds)
    assert body.count(b"fieldValidation") == body.count(b"x-kubernetes-group-version-kind") >= 18


def test_a_volume_claim_in_use_waits_for_its_pod(fresh):
    cay = fresh()
    claims, pods = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods"
    cay.api("POST", claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    cay.api("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": {
        "containers": [{"name": "c", "image": "host", "command": ["sleep", "inf"], "volumeMounts": [{"name": "v", "mountPath": "/data"}]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}})
    cay.kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=60s")
    cay.kubectl("delete", "pvc", "data", "--wait=false")
    claim = cay.api("GET", claims + "/data")["metadata"]
    assert claim["deletionTimestamp"] and claim["finalizers"] == ["kubernetes.io/pvc-protection"]
    cay.kubectl("exec", "user", "--", "sh", "-c", "echo kept > /data/file")
    assert cay.kubectl("exec", "user", "--", "cat", "/data/file").stdout == "kept\n"
    cay.kubectl("delete", "pod", "user", "--grace-period=1")
    cay.kubectl("wait", "--for=delete", "pvc/data", "--timeout=60s")


def children(pid):
    return [int(child) for task in os.listdir(f"/proc/{pid}/task") for child in open(f"/proc/{pid}/task/{task}/children").read().split()]


def test_a_service_manager_is_told_when_it_serves_and_when_it_ends(fresh):
    cay = fresh(start=False)
    os.makedirs(cay.data_dir, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0cay-test-{os.getpid()}-{cay.port}")
        manager.settimeout(120)
        cay.env = dict(os.environ, NOTIFY_SOCKET=f"@cay-test-{os.getpid()}-{cay.port}")
        cay.spawn()
        said = manager.recv(4096).decode().split("\n")
        # From here on nothing has to be tried again: what a `systemctl start` has returned from, works.
        assert said[0] == "READY=1" and f"127.0.0.1:{cay.port}" in said[1], said
        assert os.path.exists(cay.kubeconfig) and cay.ready()
        socket.create_connection(("127.0.0.1", cay.router_port), timeout=5).close()
        cay.api("POST", SANDBOXES, box("asked"))
        seen = []
        for child in children(cay.process.pid):
            with contextlib.suppress(OSError), open(f"/proc/{child}/environ", "rb") as f:  # it may have ended meanwhile
                seen.append(f.read())
        assert any(seen) and not any(b"NOTIFY_SOCKET" in environ for environ in seen)
        cay.process.send_signal(signal.SIGTERM)
        assert manager.recv(4096).decode().split("\n")[0] == "STOPPING=1"
        assert cay.process.wait(120) == 0


def test_the_unit_waits_for_that():
    with open(os.path.join(ROOT, "packaging", "cay.service")) as f:
        unit = f.read().split("\n")
    assert "Type=notify" in unit and "NotifyAccess=main" in unit
