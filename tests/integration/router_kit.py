# SPDX-License-Identifier: Apache-2.0
"""A `cay router` of its own, against whichever API server a kubeconfig names."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request

from cay_local import BUILD, free_port, wait_until


class Router:
    """The process, which may run as another user: it needs no rights of its own."""

    def __init__(self, kubeconfig, *flags, uid=None, env=None):
        self.dir = tempfile.mkdtemp(prefix="cay-router-", dir="/var/tmp")
        self.port, self.tls_port, self.metrics_port, self.probe_port = (free_port() for _ in range(4))
        self.uid, self.env, self.process = uid, env, None
        self.log_path = os.path.join(self.dir, "log")
        program = shutil.copy(os.path.join(BUILD, "cay"), self.dir)  # where every user can run it
        own = shutil.copy(kubeconfig, os.path.join(self.dir, "kubeconfig"))
        if uid:
            os.chmod(self.dir, 0o755)
            os.chown(own, uid, uid)
        self.argv = [program, "router", "--kubeconfig", own, "--http-bind-address", f"127.0.0.1:{self.port}",
                     "--metrics-bind-address", f"127.0.0.1:{self.metrics_port}",
                     "--health-probe-bind-address", f"127.0.0.1:{self.probe_port}", *flags]

    def spawn(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self.uid,
                                            group=self.uid, extra_groups=[] if self.uid else None, cwd="/",
                                            env=dict(os.environ, **(self.env or {})))
        return self

    def start(self):
        self.spawn()
        wait_until(lambda: self.process.poll() is not None or self.ready() == 200)
        assert self.process.poll() is None, self.log()
        return self

    def stop(self, sig=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(60)

    def finish(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir)

    def log(self):
        with open(self.log_path) as f:
            return f.read()

    def show(self, port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def ready(self):
        try:
            return self.show(self.probe_port, "/readyz")[0]
        except OSError:
            return 0

    def metrics(self):
        return self.show(self.metrics_port, "/metrics")[1]

    def metric(self, line):
        """The value of the line that begins with this name and labels; 0: there is none."""
        return next((float(found.rsplit(" ", 1)[1]) for found in self.metrics().splitlines() if found.startswith(line)), 0)

    def connect(self, tls=None, timeout=60):
        if tls:
            return http.client.HTTPSConnection("127.0.0.1", self.tls_port, timeout=timeout, context=tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, sandbox, path="/", token=None, port=8000, tls=None, method="GET", body=None, **headers):
        """Status, headers and body of the answer."""
        conn = self.connect(tls)
        head = {"X-Sandbox-ID": sandbox, "X-Sandbox-Port": str(port)}
        head.update({name.replace("_", "-"): value for name, value in headers.items()})
        if token:
            head["Authorization"] = f"Bearer {token}"
        try:
            conn.request(method, path, body, head)
            answer = conn.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            conn.close()

    def status(self, *args, **more):
        return self.ask(*args, **more)[0]


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def scoped_token(secret, namespace, name, expires, version="v1", domain="agent-sandbox/scoped-token/v1."):
    payload = encoded(json.dumps({"ns": namespace, "name": name, "exp": int(expires)}).encode())
    return f"{version}.{payload}.{encoded(hmac.new(secret, (domain + payload).encode(), hashlib.sha256).digest())}"


class Authority:
    """Certificates from a CA of the test's own."""

    def __init__(self, directory):
        self.dir = directory
        self.issue("ca", "/CN=test-ca", ca=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, name, subject, *extensions, ca=False):
        signed = [] if ca else ["-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", subject, *signed, *(x for e in extensions for x in ("-addext", e)),
                        "-keyout", self.path(f"{name}.key.new"), "-out", self.path(f"{name}.crt.new")],
                       check=True, capture_output=True)
        os.chmod(self.path(f"{name}.key.new"), 0o644)  # for a router that is another user
        for kind in ("key", "crt"):
            os.replace(self.path(f"{name}.{kind}.new"), self.path(f"{name}.{kind}"))

    def server(self, name="server"):
        self.issue(name, f"/CN={name}", "subjectAltName=IP:127.0.0.1", "extendedKeyUsage=serverAuth")

    def client(self, name, subject, *extensions):
        self.issue(name, subject, "extendedKeyUsage=clientAuth", *extensions)
        return self.context(name)

    def context(self, client=None):
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        if client:
            context.load_cert_chain(self.path(f"{client}.crt"), self.path(f"{client}.key"))
        return context


def soon():
    return time.time() + 600
