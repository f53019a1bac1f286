# SPDX-License-Identifier: Apache-2.0
"""RuntimeClasses: what a person does with kubectl works alike under each runtime, and what is missing is said."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import urllib.request

import pytest

from cay_local import ApiError, wait_until

PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
RUNTIMES = ("native", "crun", "runc", "runsc")
MEMORY, CPU_MILLI = 256 << 20, 700
SERVE = "echo serving; mkdir -p /www && echo page of $(hostname) > /www/index.html && cd /www && exec python3 -m http.server 8000"


def installed(runtime):
    """gVisor of 2024 or later: before that, it traced every system call."""
    if runtime == "runsc" and shutil.which(runtime):
        version = subprocess.run(["runsc", "--version"], capture_output=True, text=True).stdout
        return not re.search(r"\b20(1\d|2[0-3])\d{4}", version)
    return runtime == "native" or shutil.which(runtime) is not None


def need(runtime):
    if not installed(runtime):
        pytest.skip(f"{runtime} IS NOT INSTALLED, so nothing is tested of it: tools/setup test")


def pod_of(name, runtime, *containers, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": dict({
        "runtimeClassName": runtime, "terminationGracePeriodSeconds": 0, "containers": list(containers)}, **spec)}


def container(command, name="main", **more):
    return dict({"name": name, "image": "host", "command": command}, **more)


def ready(obj):
    return obj is not None and any(c["type"] == "Ready" and c["status"] == "True"
                                   for c in obj.get("status", {}).get("conditions", []))


def work_pod(runtime):
    """Two containers, volumes, probes and limits: most of what a Pod can have."""
    mount = [{"name": "shared", "mountPath": "/shared"}, {"name": "conf", "mountPath": "/conf", "readOnly": True}]
    return pod_of(
        f"work-{runtime}", runtime,
        container(["sh", "-c", SERVE], volumeMounts=mount, ports=[{"containerPort": 8000}],
                  resources={"limits": {"memory": str(MEMORY), "cpu": f"{CPU_MILLI}m"}},
                  readinessProbe={"httpGet": {"port": 8000, "path": "/"}, "periodSeconds": 1},
                  livenessProbe={"exec": {"command": ["test", "-e", "/conf/key"]}, "periodSeconds": 5, "timeoutSeconds": 60}),
        container(["sh", "-c", "echo from-side > /shared/note; exec sleep infinity"], "side", volumeMounts=mount),
        volumes=[{"name": "shared", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}])


def strict_pod(runtime):
    """A user without rights on a read-only root, behind an init container."""
    volumes = [("data", "/data", {}), ("data", "/deep/er/sub", {"subPath": "sub/dir"}), ("data", "/data-ro", {"readOnly": True}),
               ("memory", "/memory", {}), ("conf", "/etc/one", {"subPath": "key"})]
    return pod_of(
        f"strict-{runtime}", runtime,
        container(["sleep", "infinity"], workingDir="/work/dir", env=[{"name": "X", "value": "y z"}],
                  securityContext={"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                  volumeMounts=[dict({"name": name, "mountPath": path}, **more) for name, path, more in volumes]),
        initContainers=[container(["sh", "-c", "echo init > /data/init"], "first", volumeMounts=[{"name": "data", "mountPath": "/data"}])],
        securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000},
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
                 {"name": "conf", "configMap": {"name": "conf"}}])


@pytest.fixture(scope="module")
def cay(module_instance):
    cay = module_instance("--usage-interval", "1", "--log-max-size", "256Ki", "--runtimes", "broken=/bin/false gone=/no/such/program,--x")
    cay.api("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "conf"}, "data": {"key": "value"}})
    for runtime in RUNTIMES:  # all at once: they take their time side by side
        if installed(runtime):
            cay.api("POST", PODS, work_pod(runtime))
            cay.api("POST", PODS, strict_pod(runtime))
    return cay


@pytest.fixture(params=RUNTIMES)
def runtime(request):
    need(request.param)
    return request.param


@pytest.fixture
def work(cay, runtime):
    cay.wait(PODS, f"work-{runtime}", ready)
    return f"work-{runtime}"


def run(cay, name, script, *flags, check=True):
    return cay.kubectl("exec", *flags, name, "--", "sh", "-c", script, check=check)


def environment(cay):
    return dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir)


def events_of(cay, name):
    items = cay.api("GET", "/api/v1/namespaces/default/events")["items"]
    return [e["message"] for e in items if e["involvedObject"]["name"] == name]


# -- the classes ------------------------------------------------------------------------------------------------------


def test_the_classes_are_there_from_the_start(cay):
    shown = cay.kubectl("get", "runtimeclass", "--no-headers").stdout.split("\n")
    assert {tuple(line.split()[:2]) for line in shown if line} == {
        (name, name) for name in ("native", "crun", "runc", "runsc", "kata", "broken", "gone")}


def test_a_class_that_does_not_exist_is_refused_as_kubernetes_does(cay):
    with pytest.raises(ApiError) as refused:
        cay.api("POST", PODS, pod_of("nowhere", "nope", container(["true"])))
    assert refused.value.code == 403
    assert refused.value.status["message"] == 'pods "nowhere" is forbidden: pod rejected: RuntimeClass "nope" not found'


@pytest.mark.parametrize("change,path", [({"handler": "Not A Name"}, "handler"), ({"overhead": {"podFixed": {"cpu": "1"}}}, "overhead"),
                                         ({"scheduling": {}}, "scheduling"), ({"handler": ""}, "handler")])
def test_a_bad_class_is_refused_by_its_field(cay, change, path):
    with pytest.raises(ApiError) as refused:
        cay.api("POST", CLASSES, dict({"metadata": {"name": "bad"}, "handler": "crun"}, **change))
    assert refused.value.code == 422 and [c["field"] for c in refused.value.status["details"]["causes"]] == [path]


def test_a_handler_does_not_change(cay):
    with pytest.raises(ApiError) as refused:
        cay.api("PATCH", f"{CLASSES}/crun", {"handler": "runc"}, content_type="application/merge-patch+json")
    assert refused.value.code == 422


@pytest.mark.parametrize("name,words", [("kata", ["kata", "kata-runtime", "cay doctor"]), ("gone", ["gone", "/no/such/program", "cay doctor"])])
def test_a_runtime_that_is_not_installed_is_named(cay, name, words):
    if name == "kata" and shutil.which("kata-runtime"):
        pytest.skip("kata-runtime is installed")
    cay.api("POST", PODS, pod_of(f"waits-{name}", name, container(["true"])))

    def message(pod):
        states = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
        return states[0].get("state", {}).get("waiting", {}).get("message", "")

    pod = cay.wait(PODS, f"waits-{name}", lambda p: "not installed" in message(p))
    assert all(word in message(pod) for word in words), message(pod)
    said = f'Failed to create pod sandbox: RuntimeClass "{name}": '
    wait_until(lambda: any(m.startswith(said) for m in events_of(cay, f"waits-{name}")))
    cay.kubectl("delete", "pod", f"waits-{name}")


def test_a_runtime_that_fails_says_how(cay):
    cay.api("POST", PODS, pod_of("fails", "broken", container(["true"]), restartPolicy="Never"))
    pod = cay.wait(PODS, "fails", lambda p: p and p["status"]["phase"] == "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "StartError" and "/false could not make the container (exit code 1)" in ended["message"]
    cay.kubectl("delete", "pod", "fails")


def test_a_class_of_ones_own_names_a_runtime(cay):
    need("crun")
    cay.api("POST", CLASSES, {"metadata": {"name": "fast"}, "handler": "crun"})
    cay.api("POST", PODS, pod_of("fast", "fast", container(["cat", "/proc/1/cmdline"]), restartPolicy="Never"))
    cay.wait(PODS, "fast", lambda p: p and p["status"]["phase"] == "Succeeded")
    assert cay.kubectl("logs", "fast").stdout.strip("\0\n") == "/dev/cay/init"
    cay.kubectl("delete", "pod", "fast")


def test_any_other_runtime_comes_by_configuration(module_instance):
    """One that is called as all are, and that is not below /usr: crun under another name."""
    need("crun")
    place = tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
    try:
        shutil.copy(shutil.which("crun"), f"{place}/other")
        cay = module_instance("--runtimes", f"other={place}/other,--cgroup-manager=disabled")
        cay.api("POST", PODS, pod_of("other", "other", container(["sleep", "infinity"])))
        cay.wait(PODS, "other", ready)
        assert run(cay, "other", "cat /proc/1/cmdline").stdout.strip("\0") == "/dev/cay/init"
        assert [c for c in json.loads(cay.cay("doctor", "-o", "json", "--data-dir", cay.data_dir, "--runtimes", f"other={place}/other",
                                              check=False).stdout)["checks"] if c["name"] == "runtime-other"][0]["status"] == "ok"
    finally:
        shutil.rmtree(place)


def test_doctor_knows_each_runtime(cay):
    r = json.loads(cay.cay("doctor", "-o", "json", "--data-dir", cay.data_dir, "--runtimes", "gone=/no/such/program", check=False).stdout)
    checks = {c["name"]: c for c in r["checks"] if c["name"].startswith("runtime-")}
    assert set(checks) == {"runtime-crun", "runtime-runc", "runtime-runsc", "runtime-kata", "runtime-gone"}
    assert checks["runtime-gone"]["status"] == "warn" and "/no/such/program" in checks["runtime-gone"]["message"]
    for name in ("crun", "runc", "runsc"):
        if shutil.which(name):
            assert checks[f"runtime-{name}"]["status"] == "ok"
        else:
            assert f"apt-get install {name}" in checks[f"runtime-{name}"]["fix"]


# -- what a person does -----------------------------------------------------------------------------------------------


def test_exec_passes_input_output_errors_and_the_exit_code(cay, work):
    r = cay.kubectl("exec", "-i", work, "-c", "main", "--", "sh", "-c", "wc -c; echo err >&2; exit 7", stdin="x" * 300000, check=False)
    assert (r.returncode, r.stdout.strip()) == (7, "300000") and "err\n" in r.stderr


def test_the_runtime_is_the_one_that_was_asked_for(cay, runtime, work):
    version = run(cay, work, "cat /proc/version").stdout
    assert ("4.4.0" in version) == (runtime == "runsc"), version
    first = run(cay, work, "tr '\\0' ' ' < /proc/1/cmdline").stdout.split()
    assert first == (["cay-init"] if runtime == "native" else ["/dev/cay/init"])


def read_until(fd, pattern, seconds=60):
    out, end = b"", time.monotonic() + seconds
    while not re.search(pattern, out) and time.monotonic() < end:
        if select.select([fd], [], [], 1)[0]:
            try:
                out += os.read(fd, 4096)
            except OSError:
                break
    assert re.search(pattern, out), out
    return out


def test_a_terminal_follows_its_window(cay, work):
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 33, 101, 0, 0))
        os.execvpe("kubectl", ["kubectl", "exec", "-it", work, "-c", "main", "--", "sh"], environment(cay))
    try:
        os.write(fd, b"tty; until [ \"$(stty size)\" = '33 101' ]; do sleep 0.1; done; echo first-$((40+2))\n")
        assert b"/dev/pts/" in read_until(fd, b"first-42")
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", 44, 77, 0, 0))
        os.kill(pid, signal.SIGWINCH)
        os.write(fd, b"until [ \"$(stty size)\" = '44 77' ]; do sleep 0.1; done; echo second-$((40+2)); exit 5\n")
        read_until(fd, b"second-42")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(fd)
    assert os.waitstatus_to_exitcode(status) == 5


def test_run_and_follow_the_log_to_the_end(cay, runtime):
    name = f"talker-{runtime}"
    cay.kubectl("run", name, "--image=host", "--restart=Never", "--overrides", json.dumps({"spec": {"runtimeClassName": runtime}}),
                "--command", "--", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.2; done; echo left > /dev/termination-log; exit 3")
    cay.wait(PODS, name, lambda p: p and p["status"].get("phase") in ("Running", "Failed"))
    assert cay.kubectl("logs", "-f", name).stdout.splitlines() == ["line 1", "line 2", "line 3"]
    pod = cay.wait(PODS, name, lambda p: p and p["status"]["phase"] == "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "left\n")
    cay.kubectl("delete", "pod", name)


def test_a_full_log_loses_its_older_half(cay, runtime):
    name = f"chatter-{runtime}"
    cay.api("POST", PODS, pod_of(name, runtime, container(["sh", "-c", "seq 1 20000; echo end"]), restartPolicy="Never"))
    cay.wait(PODS, name, lambda p: p and p["status"]["phase"] == "Succeeded")
    lines = cay.kubectl("logs", name).stdout.splitlines()
    assert lines[-1] == "end" and lines[:-1] == [str(n) for n in range(20001 - len(lines) + 1, 20001)]
    assert 2000 < len(lines) < 10000, len(lines)
    cay.kubectl("delete", "pod", name)


def test_cp_both_ways(cay, work, tmp_path):
    data = os.urandom(300000)
    (tmp_path / "there").write_bytes(data)
    cay.kubectl("cp", str(tmp_path / "there"), f"{work}:/shared/there", "-c", "main")
    cay.kubectl("cp", f"{work}:/shared/there", str(tmp_path / "back"), "-c", "side")
    assert (tmp_path / "back").read_bytes() == data


def test_port_forward(cay, work):
    with subprocess.Popen(["kubectl", "port-forward", f"pod/{work}", ":8000"], env=environment(cay), stdout=subprocess.PIPE, text=True) as p:
        try:
            port = re.search(r"127.0.0.1:(\d+)", p.stdout.readline()).group(1)
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).read().decode() == f"page of {work}\n"
        finally:
            p.kill()


def test_attach(cay, runtime):
    name = f"ticker-{runtime}"
    cay.api("POST", PODS, pod_of(name, runtime, container(["sh", "-c", "while :; do echo tick; sleep 0.2; done"])))
    cay.wait(PODS, name, ready)
    with subprocess.Popen(["kubectl", "attach", name], env=environment(cay), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as p:
        try:
            assert p.stdout.readline() == "tick\n"
        finally:
            p.kill()
    cay.kubectl("delete", "pod", name)


def test_top(cay, work):
    wait_until(lambda: cay.kubectl("top", "pod", work, "--containers", "--no-headers", check=False).stdout.count(work) == 2)
    for line in cay.kubectl("top", "pod", work, "--containers", "--no-headers").stdout.splitlines():
        assert re.fullmatch(rf"{work}\s+(main|side)\s+\d+m\s+[1-9]\d*Mi\s*", line) or " 0Mi" in line, line


# -- what a Pod has ---------------------------------------------------------------------------------------------------


def test_containers_share_network_volumes_and_names(cay, work):
    look = "cat /shared/note /conf/key; echo; hostname; python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8000/\").read())'"
    assert run(cay, work, look, "-c", "side").stdout.split("\n")[:4] == ["from-side", "value", work, f"b'page of {work}\\n'"]
    assert run(cay, work, "cat /shared/note", "-c", "main").stdout == "from-side\n"
    assert run(cay, work, "echo x > /conf/key", "-c", "main", check=False).returncode != 0


def test_users_volumes_and_a_read_only_root_are_those_of_the_spec(cay, runtime):
    name = f"strict-{runtime}"
    cay.wait(PODS, name, ready)
    look = ("pwd; id -u; id -g; id -G; echo $X; cat /data/init /etc/one; echo; df -k /memory | tail -1 | tr -s ' ' | cut -d' ' -f2; "
            "touch /data/x /memory/x && echo wrote; grep CapEff /proc/self/status | cut -f2; "
            "getent ahostsv4 NAME.default.pod.cluster.local | head -n 1 | cut -d' ' -f1; hostname -i | tr ' ' '\\n' | grep -F .")
    ip = cay.api("GET", f"{PODS}/{name}")["status"]["podIP"]
    assert run(cay, name, look.replace("NAME", name), "-c", "main").stdout.split("\n")[:12] == [
        "/work/dir", "1000", "1000", "1000 2000", "y z", "init", "value", "16384", "wrote", "0" * 16, ip, ip]
    for path in ("/x", "/work/dir/x", "/etc/one", "/data-ro/x"):
        assert run(cay, name, f"echo x > {path}", "-c", "main", check=False).returncode != 0, path


def groups_of(pid):
    with open(f"/proc/{pid}/cgroup") as f:
        return dict(line.strip().split(":", 2)[1:] for line in f)


def limit_of(pid, controller, *files):
    groups = groups_of(pid)
    for base, path in ((f"/sys/fs/cgroup/{controller}", groups.get(controller, "")), ("/sys/fs/cgroup", groups.get("", ""))):
        for file in files:
            if path and os.path.exists(f"{base}{path}/{file}"):
                with open(f"{base}{path}/{file}") as f:
                    return f.read().split()
    raise AssertionError(f"no group of {controller}")


def numbers(pid):
    """Those that a process has in the namespaces around it, the host's first; none when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return [int(n) for line in f if line.startswith("NSpid:") for n in line.split()[1:]]
    except (FileNotFoundError, ProcessLookupError):
        return []


def processes(cay, name):
    return [int(i["name"].split()[0]) for i in cay.census()[0] if i["type"] == "process" and i["owner"] == f"default/{name}"]


def first_processes(cay, name):
    """Those that are number 1 of a namespace: they stay as long as their container does."""
    return [p for p in processes(cay, name) if numbers(p)[-1:] == [1]]


def test_limits_are_those_of_the_pod(cay, work):
    found = {limit_of(p, "memory", "memory.limit_in_bytes", "memory.max")[0] for p in first_processes(cay, work)}
    assert str(MEMORY) in found
    quotas = [limit_of(p, "cpu", "cpu.cfs_quota_us", "cpu.max") for p in first_processes(cay, work)]
    assert any(int(q[0]) * 10 == CPU_MILLI * 1000 or q == [str(CPU_MILLI * 100), "100000"] for q in quotas if q[0].lstrip("-").isdigit()), quotas
    assert all(int(limit_of(p, "pids", "pids.max")[0]) <= 1024 for p in first_processes(cay, work))


def test_too_much_memory_is_told_and_the_container_restarted(cay, runtime):
    name = f"greedy-{runtime}"
    eat = "import os, time\nn = os.path.exists('/s/seen')\nopen('/s/seen', 'w').close()\nb = bytearray(0 if n else 512 << 20)\ntime.sleep(3600)\n"
    cay.api("POST", PODS, pod_of(name, runtime, container(
        ["python3", "-c", eat], resources={"limits": {"memory": "128Mi"}}, volumeMounts=[{"name": "s", "mountPath": "/s"}]),
        volumes=[{"name": "s", "emptyDir": {}}]))
    pod = cay.wait(PODS, name, lambda p: ready(p) and p["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "OOMKilled"
    cay.kubectl("delete", "pod", name)


def test_what_a_runtime_cannot_do_is_said(cay, runtime, work):
    wait_until(lambda: any(m.startswith("Started container side") for m in events_of(cay, work)))  # Events come in order
    said = [m for m in events_of(cay, work) if "IPC" in m]
    assert bool(said) == (runtime == "runsc"), said


def test_no_descriptor_of_the_host_is_open(cay, runtime, work):
    """The first process holds its socket and its log, and what supervises it holds nothing of the host."""
    assert run(cay, work, "ls /proc/self/fd | wc -l").stdout.strip() in ("4", "5")
    for pid in first_processes(cay, work):
        with open(f"/proc/{pid}/status") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        if runtime == "native" or len(numbers(pid)) != 2:
            continue
        targets = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        log = runtime == "runsc"  # whose kernel makes no holes in it
        assert all(t.endswith("/dev/null") or t.startswith("socket:") or (log and t.endswith("/logs/log")) for t in targets), targets
        assert int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"
        assert not os.path.exists(f"/proc/{pid}/root{cay.data_dir}") and not os.path.exists(f"/proc/{pid}/root/etc/shadow")


# -- the daemon goes and comes back; last, since it concerns every Pod ----------------------------------------------------


def test_kill_9_changes_nothing_and_labels_stay(cay):
    works = [f"work-{r}" for r in RUNTIMES if installed(r)]
    for name in works:
        cay.wait(PODS, name, ready)
        run(cay, name, "echo kept > /kept", "-c", "main")
    cay.kubectl("label", "runtimeclass", "crun", "mine=yes")
    before = {name: sorted(first_processes(cay, name)) for name in works}
    cay.kill()
    cay.start()
    for name in works:
        pod = cay.wait(PODS, name, ready)
        assert [c["restartCount"] for c in pod["status"]["containerStatuses"]] == [0, 0]
        assert run(cay, name, "cat /kept", "-c", "main").stdout == "kept\n"
        assert sorted(first_processes(cay, name)) == before[name]
    assert "mine=yes" in cay.kubectl("get", "runtimeclass", "crun", "--show-labels").stdout


def test_kill_9_while_they_start_runs_each_once(cay):
    names = {r: f"born-{r}" for r in RUNTIMES if installed(r)}
    for runtime, name in names.items():
        cay.api("POST", PODS, pod_of(
            name, runtime, container(["sh", "-c", "echo start >> /v/starts; exec sleep infinity"], volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            volumes=[{"name": "v", "emptyDir": {}}]))
    wait_until(lambda: any(processes(cay, name) for name in names.values()))
    cay.kill()
    cay.start()
    for name in names.values():
        pod = cay.wait(PODS, name, ready)
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert run(cay, name, "cat /v/starts").stdout == "start\n"


def test_deletion_leaves_nothing(cay):
    cay.kubectl("delete", "pod", "--all", timeout=120)
    wait_until(lambda: not any(str(i["owner"]).startswith("default/") for i in cay.census()[0]))
    assert not cay.census()[1]
