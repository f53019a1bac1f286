# SPDX-License-Identifier: Apache-2.0
"""kubectl debug: ephemeral containers in a Pod that runs."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time

from cay_local import wait_until
from test_node_pods import PODS, create, events, pod, ready, sh

SERVER = "import http.server; http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()"
GET = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/').status)"


def debug(cay, name, container, *command, target=None):
    """As a user types it."""
    options = ["--target", target] if target else []
    return cay.kubectl("debug", name, "--image=host", "-c", container, *options, "--", *command)


def state(cay, name, container):
    statuses = cay.api("GET", f"{PODS}/{name}")["status"].get("ephemeralContainerStatuses", [])
    return next((s["state"] for s in statuses if s["name"] == container), {})


def test_a_debugger_shares_the_network_and_the_names_of_its_pod_and_has_a_root_of_its_own(cay):
    create(cay, pod("app", "/usr/bin/python3", "-c", SERVER, container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                    volumes=[{"name": "v", "emptyDir": {}}], hostname="the-host"))
    sh(cay, "app", "touch /only-there")
    debug(cay, "app", "look", "sleep", "1000", target="main")
    wait_until(lambda: "running" in state(cay, "app", "look"))
    wait_until(lambda: sh(cay, "app", f'/usr/bin/python3 -c "{GET}"', container="look", check=False).stdout == "200\n")
    assert sh(cay, "app", "hostname", container="look").stdout == "the-host\n"
    for namespace, shared in (("net", True), ("ipc", True), ("uts", True), ("pid", False), ("mnt", False), ("user", False)):
        ids = {sh(cay, "app", f"readlink /proc/self/ns/{namespace}", container=c).stdout for c in ("main", "look")}
        assert (len(ids) == 1) == shared, namespace
    assert sh(cay, "app", "ls /only-there", container="look", check=False).returncode != 0
    assert ready(cay.api("GET", f"{PODS}/app"))
    wait_until(lambda: "TargetNotShared" in events(cay, "app"))


def test_a_debugger_leaves_its_output_and_its_end_and_a_pod_may_have_several(cay):
    create(cay, pod("host", "sleep", "1000"))
    debug(cay, "host", "one", "sh", "-c", "echo found; exit 3")
    wait_until(lambda: state(cay, "host", "one").get("terminated", {}).get("exitCode") == 3)
    assert cay.kubectl("logs", "host", "-c", "one").stdout == "found\n"
    debug(cay, "host", "two", "sleep", "1000")
    wait_until(lambda: "running" in state(cay, "host", "two"))
    cay.kubectl("delete", "pod", "host")


def test_the_profile_of_newer_kubectl_works_and_that_for_administrators_does_not(cay):
    create(cay, pod("profiled", "sleep", "1000"))
    for profile, words in (("general", "running"), ("netadmin", "is not given to sandboxes")):
        cay.kubectl("debug", "profiled", "--image=host", "-c", profile, f"--profile={profile}", "--", "sleep", "1000")
        wait_until(lambda: words in str(state(cay, "profiled", profile)))
    bits = lambda c: sh(cay, "profiled", "grep CapEff /proc/self/status", container=c).stdout
    assert bits("general") == bits("main")
    cay.kubectl("delete", "pod", "profiled")


def test_a_daemon_that_was_killed_finds_its_debuggers_again(fresh):
    cay = fresh()
    create(cay, pod("app", "sleep", "1000"))
    debug(cay, "app", "done", "true")
    debug(cay, "app", "on", "sleep", "1000")
    wait_until(lambda: "terminated" in state(cay, "app", "done") and "running" in state(cay, "app", "on"))
    was = state(cay, "app", "done"), state(cay, "app", "on")
    cay.kill()
    cay.start()
    assert sh(cay, "app", "echo still there", container="on").stdout == "still there\n"
    wait_until(lambda: (state(cay, "app", "done"), state(cay, "app", "on")) == was)


class Terminal:
    """kubectl with a terminal of its own, as a user has one."""

    def __init__(self, cay, *args):
        self.master, slave = os.openpty()
        self.process = subprocess.Popen(["kubectl", *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        env=dict(os.environ, KUBECONFIG=os.path.join(cay.data_dir, "admin.kubeconfig")))
        os.close(slave)
        self.seen = ""

    def type(self, text):
        os.write(self.master, text.encode())

    def until(self, text, timeout=60):
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.seen!r}"
            if select.select([self.master], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    assert text in self.seen, self.seen
        self.seen = self.seen.partition(text)[2]

    def end(self):
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.master)


def test_a_debugger_is_typed_into_and_takes_the_size_of_the_terminal(cay):
    create(cay, pod("typed", "sleep", "1000"))
    terminal = Terminal(cay, "debug", "-it", "typed", "--image=host", "-c", "hands", "--profile=baseline", "--", "sh")
    terminal.until("press")  # "If you don't see a command prompt, try pressing enter."
    terminal.type("echo $((6 * 7)) answers; stty size\n")
    terminal.until("42 answers")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    os.kill(terminal.process.pid, signal.SIGWINCH)
    wait_until(lambda: sh(cay, "typed", "stty size < /dev/pts/0", container="hands", check=False).stdout == "33 77\n")
    terminal.type("exit 5\n")
    assert terminal.end() == 0
    wait_until(lambda: state(cay, "typed", "hands").get("terminated", {}).get("exitCode") == 5)


def test_run_feeds_its_input_to_the_command_and_ends_it_with_that(cay):
    done = cay.kubectl("run", "counts", "-i", "--rm", "--restart=Never", "--image=host", "--", "wc", "-c", stdin="12345")
    assert done.stdout.startswith("5\n"), done


def test_what_is_attached_twice_reads_the_same_and_one_that_leaves_ends_nothing(cay):
    body = pod("echo", "sh", "-c", "while read line; do echo got $line; done; echo over", container={"stdin": True}, restartPolicy="Never")
    create(cay, body)
    kubectl = ["kubectl", "attach", "-i", "echo"]
    env = dict(os.environ, KUBECONFIG=os.path.join(cay.data_dir, "admin.kubeconfig"))
    both = [subprocess.Popen(kubectl, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for _ in range(2)]
    try:
        for n, one in enumerate(both):
            one.stdin.write(f"first{n}\n")
            one.stdin.flush()
            while one.stdout.readline() != f"got first{n}\n":
                assert one.poll() is None
        both[0].stdin.write("second\n")
        both[0].stdin.flush()
        while both[1].stdout.readline() != "got second\n":
            assert both[1].poll() is None
        both[0].stdin.close()  # it is not stdinOnce: the command goes on
        both[1].stdin.write("third\n")
        both[1].stdin.flush()
        while both[1].stdout.readline() != "got third\n":
            assert both[1].poll() is None
        assert ready(cay.api("GET", f"{PODS}/echo"))
    finally:
        for one in both:
            one.kill()
            one.wait()
