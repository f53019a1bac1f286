# SPDX-License-Identifier: Apache-2.0
"""A team of agents as examples/agents.yaml has it, and what its people and programs do: each with an unmodified client, the MCP client, kubectl,
the Python client, a sender of signed events. test_story.py tells the story once, test_story_crash.py between kills of the server."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import time
import uuid

import kubernetes
import yaml

from cay_local import AGENTS, ROOT, wait_until
from internet import DNS, Network
from mcp_kit import connect as mcp
from test_hooks import outcome, post

CAY = "/apis/cay.dev/v1alpha1/namespaces/default"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
MANIFEST = os.path.join(ROOT, "examples", "agents.yaml")
SECRET = b"what the sender and the trigger share"
PULL = "https://git.example.org/x/pull/12"
PACKAGES = "packages.example.org"

APP = "def double(n):\n    return 2 * n\n"
TEST = "import app\nassert app.double(21) == 42\nprint('tests passed')\n"

# Ways to change /work/app.py; whoever may write changes it by each of them.
WAYS = {
    "append": "echo broken >> /work/app.py",
    "truncate": ": > /work/app.py",
    "edit in place": "sed -i s/2/3/ /work/app.py",
    "remove": "rm -f /work/app.py",
    "rename": "mv /work/app.py /work/other.py",
    "replace": "cp /etc/hostname /work/app.py",
    "mode": "chmod 777 /work/app.py; touch -d @1 /work/app.py",
    "hard link": "ln /work/app.py /work/hard && echo broken >> /work/hard",
    "descriptor": "exec 3< /work/app.py; echo broken >> /proc/self/fd/3",
    "remount": "mount -o remount,rw,bind /work; mount -o remount,rw /; echo broken >> /work/app.py",
    "root of another": "for p in /proc/[0-9]*; do echo broken >> $p/root/work/app.py; done",
    "namespace of another": "for p in /proc/[0-9]*; do nsenter -m -t ${p#/proc/} sh -c 'echo broken >> /work/app.py'; done",
    "runtime": "python3 -c \"import urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:8888/execute', b'{\\\"command\\\": \\\"rm /work/app.py\\\"}', "
               "{'Content-Type': 'application/json'}), timeout=5)\"",
}


def operation_digest(attachment, agent, *argv):
    """What docs/guide/audit.md says of it, for an exec without input or terminal."""
    spec = attachment["spec"]
    parts = [("agent", agent), ("sandbox", spec["sandbox"]), ("attachment", attachment["metadata"]["uid"]), ("view", spec.get("view", "Shared")),
             ("operation", "exec"), ("container", "main"), ("tool", ""), ("path", ""), ("terminal", "no"), ("input", "sha256:" + hashlib.sha256(b"").hexdigest()), *(("arg", a) for a in argv)]
    return "sha256:" + hashlib.sha256("".join(f"{name}:{len(text.encode())}:{text}" for name, text in parts).encode()).hexdigest()


# Sends back whatever it is sent, for as long as that goes on.
ECHO = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(4096):
            self.request.sendall(data)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("0.0.0.0", 80), Echo).serve_forever()
"""


class World:
    """Stands in for the Internet: a name server, and somebody who answers at each of two names."""

    def __init__(self, tmp):
        self.net = Network(f"st{uuid.uuid4().hex[:8]}")
        self.net.spawn(sys.executable, "-c", ECHO)
        self.net.listens(80)
        self.log = os.path.join(tmp, "dns.log")
        open(self.log, "w").close()
        names = {PACKAGES + ".": self.net.ip, "elsewhere.example.org.": self.net.ip}
        self.net.spawn(sys.executable, "-c", DNS, self.net.ip, json.dumps(names), self.log)
        self.net.listens(53, "-u")
        self.conf = os.path.join(tmp, "resolv.conf")
        with open(self.conf, "w") as f:
            f.write(f"nameserver {self.net.ip}\n")

    def close(self):
        self.net.close()


class Groups(threading.Thread):
    """Adds up what control groups count, as long as they live: the processor time of a team's sandbox, in seconds. What a group had at
    its end is gone with it, so all of the instance's are read again and again, by a process that nothing else keeps waiting; whose
    they were is asked for beside that."""

    READER = """
import os, select, sys, time
top, last = sys.argv[1], {}
while not select.select([sys.stdin], [], [], 0.005)[0]:
    for name in os.listdir(top):
        try:
            with open(f"{top}/{name}/cpu.stat") as f:
                last[name] = next(line for line in f if line.startswith("usage_usec")).split()[1]
        except OSError:
            pass
for name, usec in last.items():
    print(name, usec)
"""

    def __init__(self, team):
        super().__init__(daemon=True)
        self.team, self.over = team, threading.Event()
        self.reader = subprocess.Popen([sys.executable, "-c", self.READER, team.cay.groups()[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.start()

    def run(self):
        while not self.over.wait(0.1):
            self.team.note_tasks()

    def stop(self):
        self.over.set()
        self.join()
        said, _ = self.reader.communicate("end\n", timeout=60)
        return sum(int(usec) / 1e6 for name, usec in map(str.split, said.splitlines()) if name in self.team.tasks)


class Team:
    def __init__(self, cay):
        self.cay = cay
        self.agents = {}
        self.tasks = set()

    def prepare(self):
        self.cay.api("POST", "/api/v1/namespaces/default/secrets",
                     {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pulls-hook"}, "stringData": {"key": SECRET.decode()}})
        self.cay.kubectl("apply", "-f", MANIFEST)
        for name in ("builder", "reviewer"):
            self.give_key(name)
        self.cay.kubectl("wait", "--for=jsonpath={.status.readyReplicas}=1", "sandboxwarmpool/workshops", "--timeout=60s")
        return self

    # Agents prove themselves with keys of their own.

    def give_key(self, name):
        key = os.path.join(self.cay.data_dir, name + ".pem")
        made = subprocess.run([os.path.join(self.cay.build, "cay"), "token", "key", key, "-o", "json"], check=True, capture_output=True, text=True)
        self.cay.kubectl("patch", "agent", name, "--type", "merge", "-p", json.dumps({"spec": json.loads(made.stdout)}))
        self.agents[name] = key

    def token(self, name):
        return subprocess.run([os.path.join(self.cay.build, "cay"), "token", "mint", "--key", self.agents[name], "--agent", "default/" + name,
                               "--kubeconfig", self.cay.kubeconfig], check=True, capture_output=True, text=True).stdout.strip()

    def kubeconfig(self, name):
        """With a token that is good for five minutes."""
        with open(self.cay.kubeconfig) as f:
            config = yaml.safe_load(f)
        config["users"][0]["user"] = {"token": self.token(name)}
        path = os.path.join(self.cay.data_dir, name + ".kubeconfig")
        with open(path, "w") as f:
            json.dump(config, f)
        return path

    def exec_command(self, name, *argv, stdin=False):
        return ["kubectl", "--kubeconfig", self.kubeconfig(name), "exec", *(["-i"] if stdin else []), self.pod(), "--", *argv]

    def exec(self, name, *argv, stdin=None):
        return subprocess.run(self.exec_command(name, *argv, stdin=stdin is not None), input=stdin, capture_output=True, text=True, timeout=120)

    def says(self, name, *argv):
        done = self.exec(name, *argv)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def running(self, name, *argv):
        p = subprocess.Popen(self.exec_command(name, *argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield p
        finally:
            p.kill()
            p.communicate()

    def review(self):
        """The reviewer's own session, attached to the builder's sandbox; nothing it writes stays."""
        config = ("--kubeconfig", self.cay.kubeconfig)
        self.cay.cay("session", "new", "reviewer", "--name", "review", "--sandbox", "none", *config)
        self.cay.cay("attach", "review", self.sandbox(), "--view", "Scratch", "--right", "exec", "--right", "read", *config)

    async def with_tools(self, name, work):
        async with mcp(self.cay, self.token(name), "?namespace=default") as tools:
            return await work(tools)

    def tools(self, name, work):
        return asyncio.run(self.with_tools(name, work))

    # Events

    def event(self, action, delivery):
        body = json.dumps({"action": action, "pull_request": {"html_url": PULL}}).encode()
        sign = {"X-Hub-Signature-256": "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest(), "X-GitHub-Delivery": delivery}
        status, answer, _ = post(self.cay, "pulls", body, sign)
        assert status in (200, 202), answer
        return answer

    def delivered(self, delivery, *wanted):
        return outcome(self.cay, "pulls", delivery, *wanted)

    # What there is

    def session(self):
        return next(s for s in self.cay.api("GET", f"{CAY}/sessions")["items"] if s["spec"]["agent"] == "builder")

    def sandbox(self):
        return self.session()["status"]["sandbox"]

    def pod(self):
        """Of the builder's sandbox: its annotation, or its own name."""
        box = self.cay.api("GET", f"{SANDBOXES}/{self.sandbox()}")
        return box["metadata"].get("annotations", {}).get("agents.x-k8s.io/pod-name", self.sandbox())

    def note_tasks(self):
        """The containers that the builder's sandbox has had."""
        with contextlib.suppress(Exception):  # the server may be away, or the session not there yet
            pod = self.cay.api("GET", f"/api/v1/namespaces/default/pods/{self.pod()}")
            self.tasks |= {c["containerID"].split("//")[-1] for c in pod["status"].get("containerStatuses", []) if c.get("containerID")}

    def groups(self):
        """Their control groups that are there."""
        return [p for p in (os.path.join(self.cay.groups()[0], task) for task in self.tasks) if os.path.exists(p)]

    def question(self, *argv):
        """The one about this very command that is open."""
        found = []

        def there():
            found[:] = [a for a in self.cay.api("GET", f"{CAY}/approvals")["items"]
                        if a["spec"].get("argv") == list(argv) and not a.get("status", {}).get("decision")]
            return len(found) == 1
        wait_until(there)
        return found[0]["metadata"]["name"]

    def python(self):
        """The Python client of Kubernetes."""
        return kubernetes.config.new_client_from_config(self.cay.kubeconfig)

    def state_of_files(self):
        return self.says("builder", "sh", "-c", "cd /work && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 stat -c '%n %s %Y %a %i' && sha256sum app.py test.py")
