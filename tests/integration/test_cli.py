# SPDX-License-Identifier: Apache-2.0
"""The commands for people: run, exec, sh, claim, ls, cp, logs, port, suspend, resume, top, explain, delete, completion."""

import fcntl
import hashlib
import io
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import termios
import threading
import urllib.request

import pytest

from cay_local import AGENTS, BUILD, EXTENSIONS, wait_until

CAY = os.path.join(BUILD, "cay")
CLAIMS = f"{EXTENSIONS}/namespaces/default/sandboxclaims"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
POOLS = f"{EXTENSIONS}/namespaces/default/sandboxwarmpools"
TEMPLATES = f"{EXTENSIONS}/namespaces/default/sandboxtemplates"
MANY = 100 << 20


def env_of(cay, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAY_")}
    env.update(KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir, **more)
    return env


def run(cay, *args, **more):
    more.setdefault("timeout", 120)
    more.setdefault("stdin", None if "input" in more else subprocess.DEVNULL)
    if more["stdin"] is None:
        del more["stdin"]
    return subprocess.run([CAY, *args], capture_output=True, env=env_of(cay), **more)


def ok(cay, *args, **more):
    r = run(cay, *args, **more)
    assert r.returncode == 0, r.stderr.decode(errors="replace")
    return r.stdout.decode(errors="replace")


def template(name, **container):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [
                dict({"name": "main", "image": "host", "command": ["sh", "-c", "echo up; exec sleep infinity"]}, **container)]}}}}


@pytest.fixture(scope="module", autouse=True)
def pool(cay):
    """Before it there is no pool, which one test needs."""
    assert ok(cay, "run", "--", "python3", "-c", "print(1)") == "1\n"
    assert not cay.api("GET", SANDBOXES)["items"] or all(
        "deletionTimestamp" in s["metadata"] for s in cay.api("GET", SANDBOXES)["items"])
    cay.api("POST", TEMPLATES, template("tpl"))
    cay.api("POST", TEMPLATES, template("alone"))
    cay.api("POST", POOLS, {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
                            "metadata": {"name": "warm"}, "spec": {"replicas": 2, "sandboxTemplateRef": {"name": "tpl"}}})
    cay.wait(POOLS, "warm", lambda p: (p.get("status") or {}).get("readyReplicas") == 2)


@pytest.fixture(scope="module")
def box(cay):
    """A claim that stays for the module."""
    made = json.loads(ok(cay, "claim", "warm", "--name", "box", "-o", "json"))
    assert made["claim"] == "box" and made["ms"] > 0
    return made


def claims(cay):
    return [c["metadata"]["name"] for c in cay.api("GET", CLAIMS)["items"] if "deletionTimestamp" not in c["metadata"]]


def left(cay):
    """What `cay run` makes, in every namespace's namespace: claims, sandboxes and pools called run-…"""
    return [o["metadata"]["name"] for path in (CLAIMS, SANDBOXES, POOLS) for o in cay.api("GET", path)["items"]
            if o["metadata"]["name"].startswith("run-") and "deletionTimestamp" not in o["metadata"]]


# -- run ------------------------------------------------------------------------------------------


def test_run_passes_output_and_codes_on(cay):
    r = run(cay, "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (r.stdout, r.stderr, r.returncode) == (b"out\n", b"err\n", 7)
    assert run(cay, "run", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert run(cay, "run", "--", "no-such-program").returncode == 127
    assert run(cay, "run", "-i", "--", "cat", input=b"x" * 300000).stdout == b"x" * 300000
    assert ok(cay, "run", "-e", "A=1 2", "-e", "B=3", "--", "sh", "-c", "echo $A.$B") == "1 2.3\n"
    assert run(cay, "run", "--", "cat").stdout == b""  # without -i there is no input
    assert left(cay) == []


def test_run_from_a_template_without_a_pool(cay):
    name = ok(cay, "run", "--template", "alone", "--", "hostname").strip()
    assert name.startswith("run-")
    assert left(cay) == []
    r = run(cay, "run", "--template", "none", "--", "true")
    assert r.returncode == 1 and b"no template named none" in r.stderr


def test_run_says_what_is_wrong(cay):
    for args, text in (([], "no command"), (["--pool", "a", "--image", "b", "--", "true"], "exclude each other"),
                       (["-e", "x", "--", "true"], "NAME=VALUE"), (["--colour", "--", "true"], "no flag --colour")):
        r = run(cay, "run", *args)
        assert r.returncode == 2 and text in r.stderr.decode(), (args, r.stderr)
    r = run(cay, "run", "--image", "no-such", "--", "true")
    assert r.returncode == 1 and b"ErrImagePull" in r.stderr and b"cay image" in r.stderr
    assert left(cay) == []


def test_run_ends_a_command_that_lasts_too_long(cay):
    r = run(cay, "run", "--timeout", "500ms", "--", "sleep", "60")
    assert r.returncode == 124 and b"--timeout 500ms" in r.stderr
    assert left(cay) == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(cay, signum):
    p = subprocess.Popen([CAY, "run", "--", "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL, env=env_of(cay))
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signum)
    assert p.wait(30) == 128 + signum
    assert left(cay) == []


def test_output_that_is_lost_is_an_error(cay):
    for args in (["ls"], ["ls", "-o", "json"], ["get", "pods"], ["--help"], ["ls", "--help"], ["completion", "bash"]):
        with open("/dev/full", "w") as full:
            r = subprocess.run([CAY, *args], stdout=full, stderr=subprocess.PIPE, env=env_of(cay))
        assert r.returncode == 1 and b"write the output: No space left on device" in r.stderr, args


def test_a_signal_that_comes_twice_leaves_nothing(cay):
    """timeout(1) sends its signal to the command and then to the group."""
    for _ in range(8):
        p = subprocess.Popen([CAY, "run", "--", "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, env=env_of(cay))
        assert p.stdout.readline() == b"up\n"
        for _ in range(1000):  # some of them while it cleans up
            if p.poll() is not None:
                break
            p.send_signal(signal.SIGINT)
        assert b"is left" not in p.communicate(timeout=30)[1]
        assert p.returncode in (128 + signal.SIGINT, -signal.SIGINT)  # the last may have come when all was done
    assert left(cay) == []


def test_a_signal_before_it_is_ready_leaves_nothing(cay):
    p = subprocess.Popen([CAY, "run", "--image", "no-such-image", "--start-timeout", "60s", "--", "true"],
                         stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env_of(cay))
    wait_until(lambda: left(cay) or p.poll() is not None)
    p.send_signal(signal.SIGINT)
    assert p.wait(30) in (1, 128 + signal.SIGINT)  # the image was found missing first, or the signal came first
    assert left(cay) == []


def test_a_run_outlives_a_server_that_is_started_again(cay):
    p = subprocess.Popen([CAY, "run", "--", "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         stdin=subprocess.DEVNULL, env=env_of(cay))
    assert p.stdout.readline() == b"up\n"
    cay.kill()
    cay.start()
    assert p.wait(60) == 1 and b"is left" not in p.stderr.read()
    assert left(cay) == []


def test_a_lost_connection_is_a_failure_that_is_cleaned_up(cay):
    with Proxy(cay) as proxy:
        p = subprocess.Popen([CAY, "run", "--kubeconfig", proxy.kubeconfig(cay), "--", "sh", "-c", "echo up; exec sleep 60"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env_of(cay))
        assert p.stdout.readline() == b"up\n"
        proxy.cut()
        _, err = p.communicate(timeout=30)
        assert p.returncode == 1 and b"cut before the command ended" in err
        assert left(cay) == []


def test_keep_keeps(cay):
    r = run(cay, "run", "--keep", "--", "true")
    name = re.search(rb"cay delete (run-\w+)", r.stderr).group(1).decode()
    assert left(cay).count(name) >= 1
    ok(cay, "delete", name, "--wait")
    assert left(cay) == []


def test_output_that_nobody_reads_can_be_ended(cay):
    p = subprocess.Popen([CAY, "run", "--", "yes"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env_of(cay))
    assert p.stdout.read(1)  # the pipe is full from now on
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 128 + signal.SIGINT
    r = subprocess.run(f"{CAY} run -- yes | head -c 10", shell=True, capture_output=True, env=env_of(cay), timeout=60)
    assert r.stdout == b"y\n" * 5
    assert left(cay) == []


class Proxy:
    """Passes connections on to the server, until cut() drops those that are open."""

    def __init__(self, cay):
        self.to = cay.port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                a, _ = self.listener.accept()
            except OSError:
                return
            b = socket.create_connection(("127.0.0.1", self.to))
            self.open += [a, b]
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=self.pump, args=(x, y), daemon=True).start()

    @staticmethod
    def pump(x, y):
        try:
            while data := x.recv(65536):
                y.sendall(data)
            y.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        for s in self.open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.open = []

    def kubeconfig(self, cay):
        path = os.path.join(cay.data_dir, "proxy.kubeconfig")
        with open(path, "w") as f:
            f.write(open(cay.kubeconfig).read().replace(f":{cay.port}", f":{self.port}"))
        return path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()


# -- exec, sh -------------------------------------------------------------------------------------


def test_exec_takes_claims_and_sandboxes(cay, box):
    assert ok(cay, "exec", "box", "--", "echo", "hi") == "hi\n"
    assert ok(cay, "exec", box["sandbox"], "--", "echo", "hi") == "hi\n"
    assert run(cay, "exec", "box", "--", "sh", "-c", "exit 3").returncode == 3
    assert ok(cay, "exec", "-i", "box", "--", "wc", "-c", input=b"abc").strip() == "3"
    r = run(cay, "exec", "nobody", "--", "true")
    assert r.returncode == 1
    assert r.stderr == b"cay: exec: no claim or sandbox named nobody in namespace default; see cay ls\n"
    for redirect in ("</etc/hostname", "</dev/null", "<&-"):  # a file, a device, nothing at all
        r = subprocess.run(f"{CAY} exec -i box -- wc -c {redirect}", shell=True, capture_output=True, env=env_of(cay), timeout=60)
        assert int(r.stdout) == (os.path.getsize("/etc/hostname") if "hostname" in redirect else 0), r
    ours, theirs = socket.socketpair()
    with ours, theirs:
        p = subprocess.Popen([CAY, "exec", "-i", "box", "--", "wc", "-c"], stdin=theirs, stdout=subprocess.PIPE, env=env_of(cay))
        ours.sendall(b"1234")
        ours.shutdown(socket.SHUT_WR)
        assert int(p.communicate(timeout=60)[0]) == 4 and os.get_blocking(theirs.fileno())
    assert run(cay, "exec", "box").returncode == 2
    assert run(cay, "exec", "Not_A_Name", "--", "true").returncode == 2


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, cay, *args, size=(30, 90), **env):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execve(CAY, [CAY, *args], env_of(cay, TERM="xterm", **env))
        self.got = b""
        self.resize(*size)

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, what, timeout=60):
        """Reads on until what matches; returns the match."""
        def more():
            self.read()
            return re.search(what, self.got)
        return wait_until(more, timeout)

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return  # the other end is closed
            if not data:
                return
            self.got += data

    def raw(self):
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def wait(self):
        code = wait_until(lambda: (self.read(), os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))[1])
        self.read()
        cooked = not self.raw()
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        return code.si_status, cooked


def test_a_shell_has_our_terminal(cay, box):
    t = Terminal(cay, "sh", "box")
    t.send("echo $((6*7))-bash=${BASH_VERSION:+yes}\r")
    t.until(rb"42-bash=yes")
    assert t.raw()
    t.send("stty size\r")
    t.until(rb"30 90")
    t.resize(41, 101)
    t.send("stty size; echo again\r")
    wait_until(lambda: (t.send("stty size\r"), t.until(rb"\d+ \d+"), b"41 101" in t.got)[-1])
    t.send("sleep 600\r")
    wait_until(lambda: "sleep" in ok(cay, "exec", "box", "--", "sh", "-c", "cat /proc/[0-9]*/comm"))
    t.send("\x03")  # goes to the shell, not to us
    t.until(rb"\^C")
    t.send("exit 5\r")
    assert t.wait() == (5, True)


@pytest.mark.parametrize("signum,code", [(signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1), (signal.SIGABRT, signal.SIGABRT)])
def test_the_terminal_is_restored_after_a_signal(cay, box, signum, code):
    t = Terminal(cay, "sh", "box")
    t.send("echo $((40+2))\r")
    t.until(rb"42")
    os.kill(t.pid, signum)
    assert t.wait() == (code, True)


def test_a_shell_of_a_pipe_is_no_terminal(cay, box):
    assert ok(cay, "sh", "box", input=b"tty; echo done\n") == "not a tty\ndone\n"


# -- claim, ls, delete ----------------------------------------------------------------------------


def test_claims_come_and_go(cay):
    line = ok(cay, "claim")
    claim, sandbox, ms = re.fullmatch(r"claim/(\S+)  sandbox/(\S+)  ([\d.]+) ms\n", line).groups()
    assert claim.startswith("warm-") and float(ms) > 0
    rows = [r for r in json.loads(ok(cay, "ls", "-o", "json"))["items"] if r["name"] == sandbox]
    assert rows[0]["claim"] == claim and rows[0]["state"] == "Ready" and rows[0]["template"] == "tpl" and rows[0]["address"]
    assert claim in ok(cay, "ls", "-o", "name").split()
    assert ok(cay, "delete", claim, "--wait") == f"claim/{claim} deleted\n"
    assert sandbox not in ok(cay, "ls", "-o", "name").split()
    r = run(cay, "delete", claim)
    assert r.returncode == 1 and b"no claim or sandbox" in r.stderr


def test_a_claim_may_have_an_end(cay):
    name = json.loads(ok(cay, "claim", "warm", "--ttl", "1s", "-o", "json"))["claim"]
    life = cay.api("GET", f"{CLAIMS}/{name}")["spec"]["lifecycle"]
    assert life["shutdownPolicy"] == "Delete" and life["shutdownTime"]
    cay.wait(CLAIMS, name, lambda c: c is None)


def test_ls_shows_namespaces_and_changes(cay, box):
    text = ok(cay, "ls", "-A")
    assert text.splitlines()[0].split()[:3] == ["NAMESPACE", "NAME", "STATE"]
    assert re.search(rf"^default +{box['sandbox']} +Ready +box ", text, re.M)
    assert "\033" not in text
    p = subprocess.Popen([CAY, "ls", "-w"], stdout=subprocess.PIPE, env=env_of(cay), text=True)
    try:
        assert p.stdout.readline().startswith("NAME")
        name = json.loads(ok(cay, "claim", "warm", "-o", "json"))["sandbox"]
        while not re.match(rf"{name} +Ready ", p.stdout.readline()):
            pass
    finally:
        p.kill()
        p.wait()


def test_colours_are_for_terminals(cay, box):
    t = Terminal(cay, "ls")
    t.until(rb"\x1b\[32mReady")
    assert t.wait()[0] == 0
    t = Terminal(cay, "ls", NO_COLOR="1")
    t.until(rb"Ready")
    assert b"\x1b[" not in t.got and t.wait()[0] == 0


# -- sleep, logs, top, explain --------------------------------------------------------------------


def test_sleep_and_wake(cay):
    ok(cay, "claim", "warm", "--name", "sleeper")
    assert "suspended" in ok(cay, "suspend", "sleeper", "--wait")
    row = [r for r in json.loads(ok(cay, "ls", "-o", "json"))["items"] if r.get("claim") == "sleeper"][0]
    assert row["state"] == "Suspended" and not row["asleep"]
    r = run(cay, "exec", "sleeper", "--", "true")
    assert r.returncode == 1 and b"cay resume sleeper" in r.stderr
    assert "SandboxSuspended" in ok(cay, "explain", "sleeper")
    assert "resumed" in ok(cay, "resume", "sleeper", "--wait")
    assert ok(cay, "exec", "sleeper", "--", "echo", "awake") == "awake\n"
    ok(cay, "delete", "sleeper")


def test_logs(cay, box):
    assert ok(cay, "logs", "box") == "up\n"
    assert ok(cay, "logs", "box", "--tail", "0") == ""
    assert re.fullmatch(r"20\S+Z up\n", ok(cay, "logs", "box", "--timestamps"))
    p = subprocess.Popen([CAY, "logs", "-f", "box"], stdout=subprocess.PIPE, env=env_of(cay))
    assert p.stdout.readline() == b"up\n"
    ok(cay, "exec", "box", "--", "sh", "-c", "echo more >/proc/1/fd/1 || true")
    p.kill()
    p.wait()
    assert run(cay, "logs", "box", "-c", "other").returncode == 1


def test_top_shows_what_a_sandbox_uses(cay, box):
    def measured():
        return [r for r in json.loads(ok(cay, "top", "-o", "json"))["items"] if r.get("claim") == "box"]
    rows = wait_until(measured)
    assert rows[0]["name"] == box["sandbox"] and rows[0]["memory_bytes"] > 0
    assert re.search(rf"^{box['sandbox']} +box +\d+m +\d", ok(cay, "top", "--sort", "memory"), re.M)
    t = Terminal(cay, "top", "--interval", "100ms")
    t.until(rb"(?s)\x1b\[2J.*\x1b\[2J")  # drawn again
    os.kill(t.pid, signal.SIGTERM)
    assert t.wait()[0] == signal.SIGTERM


def test_explain_names_the_cause_and_the_fix(cay, box):
    good = json.loads(ok(cay, "explain", "box", "-o", "json"))
    assert good["ready"] and good["problems"] == [] and good["sandbox"] == box["sandbox"]
    assert any(s["object"] == "claim/box" and "Ready" in s["what"] for s in good["steps"])
    cay.api("POST", CLAIMS, {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
                             "metadata": {"name": "lost"}, "spec": {"warmPoolRef": {"name": "nowhere"}}})
    cay.wait(CLAIMS, "lost", lambda c: (c.get("status") or {}).get("conditions"))
    bad = json.loads(ok(cay, "explain", "lost", "-o", "json"))
    assert not bad["ready"] and bad["problems"][0]["reason"] == "WarmPoolNotFound" and "pool" in bad["problems"][0]["fix"]
    r = run(cay, "exec", "lost", "--", "true")
    assert r.returncode == 1 and b"has no sandbox yet" in r.stderr and b"cay explain lost" in r.stderr
    ok(cay, "delete", "lost")
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "no-image"},
                                "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "no-such"}]}}}})
    wait_until(lambda: "ErrImagePull" in ok(cay, "explain", "no-image"))
    assert "fix: cay image ls" in ok(cay, "explain", "no-image")
    ok(cay, "delete", "no-image")


def events_told(cay, name):
    return [s["what"] for s in json.loads(ok(cay, "explain", name, "-o", "json"))["steps"] if s["object"] == f"event/{name}"]


def test_explain_tells_of_this_sandbox_and_of_no_earlier_one_of_its_name(cay):
    def make(image, volume):
        spec = {"containers": [{"name": "main", "image": image}]}
        if volume:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "again-data"}}]
        return cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "again"},
                                           "spec": {"podTemplate": {"spec": spec}}})["metadata"]["uid"]

    def tell(kind, name, uid, reason):
        cay.api("POST", "/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": f"{name}."}, "reason": reason, "message": "by the test",
            "type": "Normal", "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"kind": kind, "name": name, "namespace": "default", "uid": uid}})

    def gone(path):
        return "again" not in [o["metadata"]["name"] for o in cay.api("GET", path)["items"]]
    pods, pvcs = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/persistentvolumeclaims"
    first = make("no-such-first", False)
    wait_until(lambda: any("no-such-first" in what for what in events_told(cay, "again")))  # of its Pod
    tell("Sandbox", "again", first, "OfTheFirst")
    assert "OfTheFirst: by the test" in events_told(cay, "again")
    ok(cay, "delete", "again")
    wait_until(lambda: gone(SANDBOXES) and gone(pods))
    pvc = cay.api("POST", pvcs, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "again-data"},
                                 "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}})
    second = make("no-such-second", True)
    wait_until(lambda: any("no-such-second" in what for what in events_told(cay, "again")))
    tell("Sandbox", "again", second, "OfTheSecond")
    tell("PersistentVolumeClaim", "again-data", pvc["metadata"]["uid"], "OfItsVolume")
    told = events_told(cay, "again")
    assert "OfTheSecond: by the test" in told
    assert not [what for what in told if "OfTheFirst" in what or "no-such-first" in what]
    assert "OfItsVolume" in ok(cay, "explain", "again")
    ok(cay, "delete", "again")
    cay.api("DELETE", f"{pvcs}/again-data")


# -- cp -------------------------------------------------------------------------------------------


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def test_much_goes_both_ways_and_nothing_is_kept(cay, box, tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as f:
        for _ in range(100):
            f.write(os.urandom(MANY // 100))

    def limited(*args):
        """Resident memory of one process, in KiB; a small one starts it, because it counts what it was before."""
        return int(subprocess.run([sys.executable, "-c", MEASURE, CAY, *args], env=env_of(cay), check=True, capture_output=True, text=True).stdout)
    assert limited("cp", str(big), "box:/tmp/") < 64 * 1024
    assert limited("cp", "box:/tmp/big", str(tmp_path / "back")) < 64 * 1024
    assert digest(big) == digest(tmp_path / "back")
    assert ok(cay, "exec", "box", "--", "sha256sum", "/tmp/big").split()[0] == digest(big)
    ok(cay, "exec", "box", "--", "rm", "/tmp/big")


def test_directories_go_both_ways(cay, box, tmp_path):
    tree = tmp_path / "tree"
    deep = tree / ("d" * 120) / "e"
    deep.mkdir(parents=True)
    (deep / ("f" * 120)).write_text("far")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "to").symlink_to("run.sh")
    (tree / "empty").mkdir()
    r = run(cay, "cp", str(tree), "box:/tmp/t")
    assert r.returncode == 2 and b"-r" in r.stderr
    ok(cay, "cp", "-r", str(tree), "box:/tmp/t")
    ok(cay, "exec", "box", "--", "ln", "/tmp/t/run.sh", "/tmp/t/twin")
    ok(cay, "cp", "-r", "box:/tmp/t", str(tmp_path / "out"))
    out = tmp_path / "out"
    assert (out / ("d" * 120) / "e" / ("f" * 120)).read_text() == "far"
    assert os.stat(out / "run.sh").st_mode & 0o777 == 0o755
    assert os.stat(out / "run.sh").st_ino == os.stat(out / "twin").st_ino
    assert os.readlink(out / "to") == "run.sh" and (out / "empty").is_dir()
    ok(cay, "cp", "-r", "box:/tmp/t/.", str(tmp_path / "into"))
    assert (tmp_path / "into" / "run.sh").exists()
    ok(cay, "cp", "box:/tmp/t/run.sh", str(tmp_path))  # into a directory that exists
    assert (tmp_path / "run.sh").read_text() == "#!/bin/sh\n"
    assert json.loads(ok(cay, "cp", "box:/tmp/t/run.sh", str(tmp_path / "other"), "-o", "json"))["bytes"] > 0
    for args in (("box:/tmp/t", str(tmp_path / "x")), ("box:/nothing", str(tmp_path / "x")), ("a", "b"), ("box:/a", "box:/b"),
                 ("box:", "x"), ("box:/tmp/t/run.sh", str(tmp_path / "none") + "/"), (str(tree / "run.sh"), "box:/none/")):
        assert run(cay, "cp", *args).returncode in (1, 2), args
    assert not (tmp_path / "x").exists()


def hostile(cay, entries):
    """Makes `tar` in the claim `evil` send these entries instead."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, kind, link, data in entries:
            i = tarfile.TarInfo(name)
            i.type, i.linkname, i.size = kind, link, len(data)
            t.addfile(i, io.BytesIO(data))
    ok(cay, "exec", "-i", "evil", "--", "sh", "-c", "cat >/tmp/evil.tar", input=out.getvalue())


@pytest.fixture(scope="module")
def evil(cay):
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "evil"},
                                "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [
                                    {"name": "main", "image": "host", "command": ["sleep", "infinity"],
                                     "env": [{"name": "PATH", "value": "/tmp/bin:/usr/bin:/bin"}]}]}}}})
    cay.wait_ready(SANDBOXES, "evil")
    ok(cay, "exec", "evil", "--", "sh", "-c", "mkdir /tmp/bin; printf '#!/bin/sh\\ncat /tmp/evil.tar\\n' >/tmp/bin/tar; chmod 755 /tmp/bin/tar")


@pytest.mark.parametrize("entries", [
    [("../out", tarfile.REGTYPE, "", b"x")],
    [("/out", tarfile.REGTYPE, "", b"x")],
    [("d/../../out", tarfile.REGTYPE, "", b"x")],
    [("other", tarfile.REGTYPE, "", b"x")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/l", tarfile.SYMTYPE, "..", b""), ("d/l/out", tarfile.REGTYPE, "", b"x")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/l", tarfile.SYMTYPE, "/", b"")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/l", tarfile.SYMTYPE, "a/../../out", b"")],
    [("d", tarfile.SYMTYPE, "out", b""), ("d", tarfile.REGTYPE, "", b"x")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/s", tarfile.DIRTYPE, "", b""), ("d/s/up", tarfile.SYMTYPE, "..", b""),
     ("d/l", tarfile.SYMTYPE, "s/up/../out", b"")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/a/b", tarfile.DIRTYPE, "", b""), ("d/a/up", tarfile.SYMTYPE, "..", b""),
     ("d/a/b/l", tarfile.SYMTYPE, "../up/../out", b"")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/h", tarfile.LNKTYPE, "../precious", b"")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/dev", tarfile.CHRTYPE, "", b"")],
    [("d", tarfile.DIRTYPE, "", b""), ("d/fifo", tarfile.FIFOTYPE, "", b"")],
], ids=range(13))
def test_a_hostile_sandbox_writes_nothing_elsewhere(cay, evil, tmp_path, entries):
    hostile(cay, entries)
    (tmp_path / "precious").write_text("mine")
    to = tmp_path / "to"
    to.mkdir()
    r = run(cay, "cp", "-r", "evil:/d", str(to))
    assert r.returncode == 1, r
    assert sorted(os.listdir(tmp_path)) == ["precious", "to"] and (tmp_path / "precious").read_text() == "mine"
    assert not any(os.path.islink(os.path.join(p, n)) and n != "up" for p, _, names in os.walk(to) for n in names + os.listdir(p))
    assert not [n for p, _, names in os.walk(to) for n in names if n.startswith(".cay-cp-")]


def test_a_link_that_was_there_leads_nowhere(cay, evil, tmp_path):
    hostile(cay, [("d", tarfile.DIRTYPE, "", b""), ("d/f", tarfile.REGTYPE, "", b"x")])
    (tmp_path / "away").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "d").symlink_to(tmp_path / "away")
    assert run(cay, "cp", "-r", "evil:/d", str(tmp_path / "to")).returncode == 1
    assert os.listdir(tmp_path / "away") == []


def test_an_archive_that_is_cut_or_nonsense_is_a_failure(cay, evil, tmp_path):
    ok(cay, "exec", "-i", "evil", "--", "sh", "-c", "cat >/tmp/evil.tar", input=b"nonsense" * 1000)
    r = run(cay, "cp", "evil:/d", str(tmp_path / "x"))
    assert r.returncode == 1 and b"checksum" in r.stderr
    hostile(cay, [("d", tarfile.REGTYPE, "", b"x" * 100000)])
    ok(cay, "exec", "evil", "--", "truncate", "-s", "50000", "/tmp/evil.tar")
    (tmp_path / "x").write_text("old")
    r = run(cay, "cp", "evil:/d", str(tmp_path / "x"))
    assert r.returncode == 1 and b"ends in the middle" in r.stderr
    assert (tmp_path / "x").read_text() == "old" and os.listdir(tmp_path) == ["x"]


def test_files_are_copied_without_tar(cay, tmp_path):
    """Its root has cat and a shell, and no tar."""
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "bare"},
                                "spec": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [
                                    {"name": "main", "image": "host", "command": ["/usr/bin/sleep", "infinity"],
                                     "env": [{"name": "PATH", "value": "/tmp/bin"}]}]}}}})
    cay.wait_ready(SANDBOXES, "bare")
    ok(cay, "exec", "bare", "--", "/usr/bin/mkdir", "/tmp/bin")
    for name in ("sh", "cat", "chmod"):
        ok(cay, "exec", "bare", "--", "/usr/bin/ln", "-s", f"/usr/bin/{name}", f"/tmp/bin/{name}")
    (tmp_path / "f").write_bytes(os.urandom(1 << 20))
    (tmp_path / "f").chmod(0o750)
    ok(cay, "cp", str(tmp_path / "f"), "bare:/tmp/g")
    assert ok(cay, "exec", "bare", "--", "/usr/bin/stat", "-c", "%a", "/tmp/g") == "750\n"
    ok(cay, "cp", "bare:/tmp/g", str(tmp_path / "h"))
    assert digest(tmp_path / "f") == digest(tmp_path / "h")
    r = run(cay, "cp", "-r", "bare:/tmp", str(tmp_path / "i"))
    assert r.returncode == 1 and b"no tar" in r.stderr
    ok(cay, "delete", "bare")


# -- port -----------------------------------------------------------------------------------------

SERVER = ("import http.server as h\n"
          "class H(h.BaseHTTPRequestHandler):\n"
          "    def do_GET(self):\n"
          "        self.send_response(200); self.end_headers(); self.wfile.write(b'x' * int(self.path[1:]))\n"
          "s = h.ThreadingHTTPServer(('', 8000), H)\n"
          "print('up', flush=True)\n"
          "s.serve_forever()\n")
ECHO = ("import socket\n"
        "s = socket.create_server(('', 8001))\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    n = 0\n"
        "    while d := c.recv(65536): n += len(d)\n"
        "    c.sendall(str(n).encode()); c.close()\n")


@pytest.fixture
def forward(cay, box):
    inside = [subprocess.Popen([CAY, "exec", "box", "--", "python3", "-c", code], stdout=subprocess.PIPE, env=env_of(cay))
              for code in (SERVER, ECHO)]
    for p in inside:
        assert p.stdout.readline() == b"up\n"
    p = subprocess.Popen([CAY, "port", "box", ":8000", ":8001", ":8002", "-o", "json"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=env_of(cay))
    text = b""
    while not text.rstrip().endswith(b"}\n  ]\n}"):
        text += p.stdout.readline()
    yield {e["port"]: e["address"] for e in json.loads(text)["ports"]}, p
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 0
    for q in inside:
        q.kill()
        q.wait()


def test_ports_are_forwarded(forward):
    at, process = forward
    assert all(a.startswith("127.0.0.1:") for a in at.values())
    for n in (10, 5000000):
        assert len(urllib.request.urlopen(f"http://{at[8000]}/{n}", timeout=60).read()) == n
    with pytest.raises(OSError):  # nobody listens there, and that ends this connection alone
        urllib.request.urlopen(f"http://{at[8002]}/1", timeout=60).read()
    assert b"port 8002" in process.stderr.readline()
    assert len(urllib.request.urlopen(f"http://{at[8000]}/7", timeout=60).read()) == 7
    host, port = at[8001].split(":")
    with socket.create_connection((host, int(port))) as s:  # what a half-close tells arrives
        s.settimeout(30)
        s.sendall(b"x" * 3000000)
        s.shutdown(socket.SHUT_WR)
        assert s.makefile("rb").read() == b"3000000"


def test_wrong_ports_are_named(cay, box):
    for port in ("x", "0", "70000", "1:2:3", "1:", ""):
        r = run(cay, "port", "box", port)
        assert r.returncode == 2 and b"LOCAL:REMOTE" in r.stderr, port
    with socket.create_server(("127.0.0.1", 0)) as s:
        r = run(cay, "port", "box", f"{s.getsockname()[1]}:80")
        assert r.returncode == 1 and b"in use" in r.stderr


# -- get, apply -----------------------------------------------------------------------------------


def test_objects_are_applied_and_shown(cay, tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text("---\n".join(json.dumps(o) + "\n" for o in (
        template("applied"), {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
                              "metadata": {"name": "applied"}, "spec": {"replicas": 0, "sandboxTemplateRef": {"name": "applied"}}})))
    assert ok(cay, "apply", "-f", str(path)) == "sandboxtemplate/applied created\nsandboxwarmpool/applied created\n"
    assert ok(cay, "apply", "-f", str(path)) == "sandboxtemplate/applied unchanged\nsandboxwarmpool/applied unchanged\n"
    path.write_text(path.read_text().replace('"replicas": 0', '"replicas": 1'))
    results = json.loads(ok(cay, "apply", "-f", "-", "-o", "json", input=path.read_bytes()))["items"]
    assert [r["result"] for r in results] == ["unchanged", "changed"]
    assert re.match(r"NAME +READY +DESIRED +AGE\napplied +\S +1 ", ok(cay, "get", "swp", "applied"))
    assert json.loads(ok(cay, "get", "SandboxWarmPool", "applied", "-o", "json"))["spec"]["replicas"] == 1
    assert "sandboxwarmpool/applied\n" in ok(cay, "get", "sandboxwarmpools", "-o", "name")
    assert ok(cay, "get", "pods", "-A").startswith("NAMESPACE ")
    for args, code in ((("get", "thing"), 2), (("get", "swp", "none"), 1), (("apply", "-f", "/none"), 1), (("apply",), 2)):
        assert run(cay, *args).returncode == code, args
    r = run(cay, "apply", "-f", "-", input=b"kind: Sandbox\napiVersion: agents.x-k8s.io/v1beta1\nmetadata: {name: x}\nspec: {podTemplate: 5}")
    assert r.returncode == 2 and b"spec.podTemplate" in r.stderr
    cay.api("DELETE", f"{POOLS}/applied")
    cay.api("DELETE", f"{TEMPLATES}/applied")


# -- the rest -------------------------------------------------------------------------------------


def test_completion_completes(cay, box, tmp_path):
    for shell in ("bash", "zsh", "fish"):
        script = tmp_path / shell
        script.write_text(ok(cay, "completion", shell))
        if shell == "bash":
            subprocess.run(["bash", "-n", script], check=True)
    assert run(cay, "completion", "tcsh").returncode == 2
    ask = "source {}; COMP_WORDS=(cay {}); COMP_CWORD={}; _cay; echo ${{COMPREPLY[@]}}"
    env = env_of(cay, PATH=f"{BUILD}:{os.environ['PATH']}")
    def complete(words, n):
        return subprocess.run(["bash", "-c", ask.format(tmp_path / "bash", words, n)], capture_output=True, text=True,
                              env=env, check=True).stdout.split()
    assert "box" in complete("exec b", 2)
    assert complete("suspen", 1) == ["suspend"]
    assert complete("ls --all", 2) == ["--all-namespaces"]
    assert complete("ls -o j", 3) == ["json"]
    assert "box:" in complete("cp b", 2)


def test_without_a_server_the_way_to_one_is_named(cay):
    env = dict(env_of(cay), HOME="/nowhere")
    del env["KUBECONFIG"]
    if os.path.exists("/var/lib/cay/admin.kubeconfig"):
        pytest.skip("this machine has a server of its own, which would be found")
    r = subprocess.run([CAY, "ls"], capture_output=True, env=env)
    assert r.returncode == 1 and b"cay serve" in r.stderr and b"--kubeconfig" in r.stderr


def test_namespaces_come_from_the_flag(cay):
    r = run(cay, "ls", "-n", "elsewhere", "-o", "json")
    assert json.loads(r.stdout) == {"items": []}
    r = run(cay, "exec", "-n", "elsewhere", "box", "--", "true")
    assert b"in namespace elsewhere" in r.stderr
