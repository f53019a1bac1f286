# SPDX-License-Identifier: Apache-2.0
"""A `cay serve` of one's own: started in a directory, spoken to over its API, stopped or killed. Standard library only.

Used by tools/demo and by the tests.
"""

import base64
import glob
import http.client
import json
import os
import random
import re
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse

import durations

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CAY_BUILD", os.path.join(ROOT, "build"))

AGENTS = "/apis/agents.x-k8s.io/v1beta1"
EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"


class ApiError(Exception):
    """A Status answer; code, reason and the whole body."""

    def __init__(self, code, body):
        self.code = code
        self.status = body if isinstance(body, dict) else {}
        self.reason = self.status.get("reason")
        super().__init__(f"{code} {self.reason}: {self.status.get('message', body)}")


def free_port():
    """Below the ports that the kernel gives to connections, or one could take it before the server does."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.SystemRandom().randrange(10000, 32000)))
                return s.getsockname()[1]
            except OSError:
                pass  # somebody has it


class Cay:
    """One instance. `data_dir` stays after stop(); start() again continues it."""

    def __init__(self, data_dir, build=BUILD, flags=(), env=None, prefix=()):
        self.data_dir = data_dir
        self.build = build
        self.flags = list(flags)
        self.env = env
        self.prefix = list(prefix)  # a command that runs the server
        self.port = free_port()
        self.router_port = free_port()
        self.kubeconfig = os.path.join(data_dir, "admin.kubeconfig")
        self.log_path = os.path.join(data_dir, "serve.log")
        self.process = None
        self._ssl = None
        self._kept = threading.local()  # a connection for each thread

    # -- life ---------------------------------------------------------------------------------

    def start(self, timeout=120):
        os.makedirs(self.data_dir, exist_ok=True)
        offset = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        began = time.monotonic()
        self.spawn()
        deadline = time.monotonic() + timeout
        while not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"cay serve ended with {self.process.returncode}:\n{self.log(offset)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"cay serve is not ready after {timeout} s:\n{self.log(offset)}")
            select.select([], [], [], 0.005)
        durations.note("start", os.environ.get("PYTEST_CURRENT_TEST", self.data_dir), time.monotonic() - began)
        self._ssl = None
        return self

    def spawn(self):
        """The process alone, which may not be ready yet."""
        argv = [*self.prefix, os.path.join(self.build, "cay"), "serve", "--data-dir", self.data_dir,
                "--listen", f"127.0.0.1:{self.port}", "--router-listen", f"127.0.0.1:{self.router_port}"] + self.flags
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(argv, stderr=log, stdout=log, stdin=subprocess.DEVNULL, env=self.env,
                                            start_new_session=True)
        return self.process

    def ready(self):
        try:
            conn = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5,
                                               context=ssl._create_unverified_context())
            conn.request("GET", "/readyz")
            return conn.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def log(self, offset=0):
        with open(self.log_path, "rb") as f:
            f.seek(offset)
            return f.read().decode(errors="replace")

    def stop(self, timeout=120):
        """SIGTERM; returns the exit code. Sandboxes stay unless started with --stop-sandboxes."""
        self.close()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout)
        return self.process.returncode if self.process else None

    def kill(self):
        self.close()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def close(self):
        if getattr(self._kept, "conn", None):
            self._kept.conn.close()
            self._kept.conn = None

    # -- the command line ---------------------------------------------------------------------

    def cay(self, *args, check=True):
        r = subprocess.run([os.path.join(self.build, "cay"), *args], capture_output=True, text=True, timeout=300)
        if check and r.returncode:
            raise RuntimeError(f"cay {' '.join(args)}: exit {r.returncode}: {r.stderr}{r.stdout}")
        return r

    def image_tag(self, source, *names):
        for name in names:
            self.cay("image", "tag", source, name, "--data-dir", self.data_dir)

    def census(self):
        """(items, orphans)"""
        r = self.cay("census", "--data-dir", self.data_dir, "-o", "json", check=False)
        if r.returncode not in (0, 1) or not r.stdout.strip():
            raise RuntimeError(f"cay census: exit {r.returncode}: {r.stderr}")
        items = json.loads(r.stdout)["items"]
        return items, [i for i in items if not i.get("owner")]

    def groups(self):
        """The directories of its control groups, one in each hierarchy, that of version 2 first (src/node/host/scope.h)."""
        with open(os.path.join(self.data_dir, "node", "instance.json")) as f:
            name = "cay-" + json.load(f)["id"]
        found = [os.path.join(top, place) for top in ("/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*"))
                 for place in (name, f"cay.slice/{name}.scope/sandboxes")]
        return sorted(filter(os.path.isdir, found), key=lambda d: not os.path.exists(os.path.join(d, "cgroup.controllers")))

    def pool(self, *path):
        """A path in the disk pool."""
        return os.path.join(os.readlink(os.path.join(self.data_dir, "node", "pool")), *path)

    def kubectl(self, *args, stdin=None, check=True, timeout=120):
        env = dict(os.environ, KUBECONFIG=self.kubeconfig, HOME=self.data_dir)
        r = subprocess.run(["kubectl", *args], capture_output=True, text=True, input=stdin, timeout=timeout, env=env)
        if check and r.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: exit {r.returncode}: {r.stderr}{r.stdout}")
        return r

    # -- the API ------------------------------------------------------------------------------

    def credentials(self):
        text = open(self.kubeconfig).read()
        field = lambda name: base64.b64decode(re.search(name + r":\s*\"?([A-Za-z0-9+/=]+)", text).group(1))
        return field("certificate-authority-data"), field("client-certificate-data"), field("client-key-data")

    def context(self):
        made = self._ssl
        if made is None:
            ca, cert, key = self.credentials()
            made = ssl.create_default_context(cadata=ca.decode())
            with tempfile.NamedTemporaryFile() as f:
                f.write(cert + b"\n" + key)
                f.flush()
                made.load_cert_chain(f.name)
            self._ssl = made  # whole: other threads use it at once
        return made

    def connect(self, timeout=60):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context())

    def metric(self, name):
        """The value of a metric without labels."""
        return next(float(line.split()[1]) for line in self.api("GET", "/metrics").splitlines() if line.startswith(name + " "))

    def api(self, method, path, body=None, content_type="application/json", accept="application/json"):
        """One request on a kept connection; the decoded answer, or ApiError."""
        data = None if body is None else json.dumps(body) if not isinstance(body, (str, bytes)) else body
        headers = {"Accept": accept}
        if data is not None and content_type:
            headers["Content-Type"] = content_type
        for attempt in (0, 1):
            if getattr(self._kept, "conn", None) is None:
                self._kept.conn = self.connect()
            try:
                self._kept.conn.request(method, path, data, headers)
                answer = self._kept.conn.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.close()
                if attempt or method == "POST":
                    raise
        try:
            decoded = json.loads(text) if text else None
        except ValueError:
            decoded = text.decode(errors="replace")
        if answer.status >= 400:
            raise ApiError(answer.status, decoded)
        return decoded

    def watch(self, path, resource_version=None, timeout=60, **params):
        """Yields (type, object) until the stream or the time ends."""
        params.update(watch="true", timeoutSeconds=str(timeout))
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        conn = self.connect(timeout + 5)
        try:
            conn.request("GET", path + "?" + urllib.parse.urlencode(params))
            answer = conn.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, json.loads(answer.read() or b"{}"))
            for line in answer:
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            conn.close()

    def wait(self, path, name, until, timeout=120):
        """The object called name under path once until(object or None) holds; watches, and lists again when the server no
        longer has the revision to go on from."""
        deadline = time.monotonic() + timeout
        one = f"metadata.name={name}"
        version = seen = None
        while time.monotonic() < deadline:
            if version is None:
                listed = self.api("GET", path + "?" + urllib.parse.urlencode({"fieldSelector": one}))
                version, seen = listed["metadata"]["resourceVersion"], (listed["items"] or [None])[0]
                if until(seen):
                    return seen
            left = max(1, int(deadline - time.monotonic()))
            for kind, obj in self.watch(path, version, left, fieldSelector=one):
                if kind == "ERROR":
                    version = None
                    break
                version = obj["metadata"]["resourceVersion"]
                if kind == "BOOKMARK":
                    continue
                seen = None if kind == "DELETED" else obj
                if until(seen):
                    return seen
        raise TimeoutError(f"{path}/{name} after {timeout} s: {json.dumps(seen and seen.get('status'))}")

    def wait_ready(self, path, name, timeout=120):
        return self.wait(path, name, is_ready, timeout)

    # -- the router ---------------------------------------------------------------------------

    def route(self, sandbox, method, path, body=None, namespace="default", port=8888, headers=None, timeout=60):
        conn = http.client.HTTPConnection("127.0.0.1", self.router_port, timeout=timeout)
        try:
            head = {"X-Sandbox-ID": sandbox, "X-Sandbox-Namespace": namespace, "X-Sandbox-Port": str(port)}
            head.update(headers or {})
            conn.request(method, path, body, head)
            answer = conn.getresponse()
            return answer.status, answer.read()
        finally:
            conn.close()

    def execute(self, sandbox, command, namespace="default", **more):
        status, body = self.route(sandbox, "POST", "/execute", json.dumps(dict(command=command, **more)), namespace,
                                  headers={"Content-Type": "application/json"})
        if status != 200:
            raise ApiError(status, body.decode(errors="replace"))
        return json.loads(body)


def wait_until(holds, timeout=60):
    """Polls for what has no event to wait for, such as files and processes; returns what holds() did."""
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() > deadline
        result = holds()
        if result:
            return result
        assert not late, f"waited in vain for {timeout} s"
        select.select([], [], [], 0.05)


def condition(obj, kind):
    for c in ((obj or {}).get("status") or {}).get("conditions") or []:
        if c["type"] == kind:
            return c
    return None


def is_ready(obj):
    c = condition(obj, "Ready")
    return bool(c) and c["status"] == "True"
