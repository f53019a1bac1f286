# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes control plane with one simulated node, on loopback, in a directory of its own.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs that `setup` built. KWOK plays the
node: Pods that are bound to it are Ready at once and gone at once when they are deleted, so what is measured is the control
plane alone.
"""

import base64
import os
import random
import select
import socket
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools", "pylib"))
from cay_local import ApiError, Cay, is_ready  # noqa: E402

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: cay, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority-data: {ca}}}}}]
users: [{{name: user, user: {{{user}}}}}]
contexts: [{{name: cay, context: {{cluster: cay, user: user}}}}]
current-context: cay
"""

# The defaults of 20 and 50 requests per second would be what limits a load test.
SCHEDULER_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {dir}/kube-scheduler.kubeconfig, qps: 5000, burst: 10000}}
leaderElection: {{leaderElect: false}}
"""

# KWOK 0.8.0 refuses to start unless all four are set.
KWOK_CONFIG = """\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {podPlayStageParallelism: 16, podsOnNodeSyncParallelism: 16, nodePlayStageParallelism: 4, nodeLeaseParallelism: 4}
"""

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: None, nonResourceURLs: ["*"]}, {level: Metadata}]
"""

NODE = {"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-0", "annotations": {"kwok.x-k8s.io/node": "fake"},
                     "labels": {"kubernetes.io/hostname": "node-0", "kubernetes.io/os": "linux"}}}


def low_port():
    """A free port below the ephemeral range: no outgoing connection can take it before it is used."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.randrange(20000, 32000)))
                return s.getsockname()[1]
            except OSError:
                continue


def encoded(path):
    with open(path, "rb") as f:
        return base64.b64encode(f.read()).decode()


def built_programs():
    """Where `setup` put them; it builds what is missing."""
    return subprocess.run([os.path.join(HERE, "setup")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class ControlPlane(Cay):
    """It speaks the same API as `cay serve`, so it is used by the same methods: api(), watch(), wait()."""

    def __init__(self, data_dir, programs):
        super().__init__(os.path.abspath(data_dir))
        self.programs = programs
        self.port, self.etcd_port = low_port(), low_port()
        self.audit_log = self.path("audit.log")
        self.children = {}

    def path(self, *names):
        return os.path.join(self.data_dir, *names)

    # -- files --------------------------------------------------------------------------------

    def openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def certificate(self, name, subject, *extensions, ca=False):
        signed = [] if ca else ["-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key")]
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
                     "-subj", subject, *signed, *(x for e in extensions for x in ("-addext", e)),
                     "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.crt"))

    def write(self, name, text):
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(text)
        return self.path(name)

    def write_kubeconfig(self, name, user):
        return self.write(f"{name}.kubeconfig",
                          KUBECONFIG.format(port=self.port, ca=encoded(self.path("ca.crt")), user=user))

    def user(self, name, subject):
        """A client certificate, and a kubeconfig that uses it."""
        self.certificate(name, subject, "extendedKeyUsage=clientAuth")
        self.write_kubeconfig(name, f"client-certificate-data: {encoded(self.path(name + '.crt'))}, "
                                    f"client-key-data: {encoded(self.path(name + '.key'))}")

    def write_files(self):
        os.makedirs(self.data_dir, mode=0o700, exist_ok=True)
        self.certificate("ca", "/CN=cay-cluster", ca=True)
        self.certificate("server", "/CN=kube-apiserver", "extendedKeyUsage=serverAuth",
                         "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc")
        self.user("admin", "/O=system:masters/CN=admin")
        self.user("kwok", "/O=system:masters/CN=kwok")
        self.user("kube-controller-manager", "/CN=system:kube-controller-manager")
        self.user("kube-scheduler", "/CN=system:kube-scheduler")
        self.openssl("genrsa", "-out", self.path("sa.key"), "2048")
        self.openssl("rsa", "-in", self.path("sa.key"), "-pubout", "-out", self.path("sa.pub"))
        self.write("scheduler.yaml", SCHEDULER_CONFIG.format(dir=self.data_dir))
        self.write("kwok.yaml", KWOK_CONFIG)
        self.write("audit-policy.yaml", AUDIT_POLICY)

    # -- processes ----------------------------------------------------------------------------

    def run(self, program, **flags):
        argv = [os.path.join(self.programs, "bin", program)]
        argv += [f"--{name.replace('_', '-')}={value}" for name, values in flags.items()
                 for value in (values if isinstance(values, list) else [values])]
        with open(self.path(f"{program}.log"), "ab") as log:
            self.children[program] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def await_(self, what, holds, timeout=120):
        deadline = time.monotonic() + timeout
        while not holds():
            for program, child in self.children.items():
                if child.poll() is not None:
                    raise RuntimeError(f"{program} ended with {child.returncode}; see {self.path(program + '.log')}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} is not there after {timeout} s; the logs are in {self.data_dir}")
            select.select([], [], [], 0.05)

    def etcd_healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.etcd_port}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def exists(self, path, until=bool):
        try:
            return until(self.api("GET", path))
        except (ApiError, OSError):
            return False

    def start(self, timeout=120):
        self.write_files()
        etcd, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{low_port()}"
        self.run("etcd", data_dir=self.path("etcd"), log_level="warn", listen_client_urls=etcd, advertise_client_urls=etcd,
                 listen_peer_urls=peer, initial_advertise_peer_urls=peer, initial_cluster=f"default={peer}")
        self.await_("etcd", self.etcd_healthy, timeout)
        # A loopback address is not valid in Endpoints, hence no endpoint reconciler.
        self.run("kube-apiserver", etcd_servers=etcd, bind_address="127.0.0.1", advertise_address="127.0.0.1",
                 secure_port=self.port, endpoint_reconciler_type="none", authorization_mode="Node,RBAC",
                 tls_cert_file=self.path("server.crt"), tls_private_key_file=self.path("server.key"),
                 client_ca_file=self.path("ca.crt"), service_cluster_ip_range="10.96.0.0/12",
                 service_account_issuer="https://kubernetes.default.svc", service_account_key_file=self.path("sa.pub"),
                 service_account_signing_key_file=self.path("sa.key"), audit_policy_file=self.path("audit-policy.yaml"),
                 audit_log_path=self.audit_log, audit_log_mode="batch", audit_log_maxsize=10000)
        self.await_("the API server", self.ready, timeout)
        self.start_controllers()
        self.api("POST", "/api/v1/nodes", NODE)
        self.await_("the simulated node", lambda: self.exists("/api/v1/nodes/node-0", is_ready), timeout)
        self.await_("the default service account",
                    lambda: self.exists("/api/v1/namespaces/default/serviceaccounts/default"), timeout)
        return self

    def start_controllers(self):
        config = self.path("kube-controller-manager.kubeconfig")
        self.run("kube-controller-manager", kubeconfig=config, authentication_kubeconfig=config,
                 authorization_kubeconfig=config, bind_address="127.0.0.1", secure_port=low_port(),
                 cert_dir=self.path("kube-controller-manager"), service_account_private_key_file=self.path("sa.key"),
                 root_ca_file=self.path("ca.crt"), use_service_account_credentials="true", leader_elect="false",
                 kube_api_qps=5000, kube_api_burst=10000)
        config = self.path("kube-scheduler.kubeconfig")
        self.run("kube-scheduler", config=self.path("scheduler.yaml"), authentication_kubeconfig=config,
                 authorization_kubeconfig=config, bind_address="127.0.0.1", secure_port=low_port(),
                 cert_dir=self.path("kube-scheduler"))
        self.run("kwok", kubeconfig=self.path("kwok.kubeconfig"), manage_all_nodes="true", node_ip="127.0.0.1",
                 config=[self.path("kwok.yaml"), os.path.join(self.programs, "stages.yaml")], cidr="10.64.0.1/10",
                 node_lease_duration_seconds=40, server_address=f"127.0.0.1:{low_port()}")

    def stop(self, timeout=30):
        """Ends the programs in the reverse order of their start."""
        self.close()
        for child in reversed(self.children.values()):
            child.terminate()
            try:
                child.wait(timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children = {}

    def account_kubeconfig(self, namespace, name):
        """A kubeconfig of a service account: a controller has the rights and the priority that it would have as a Pod."""
        answer = self.api("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
                          {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        return self.write_kubeconfig(f"{namespace}.{name}", f"token: {answer['status']['token']}")
