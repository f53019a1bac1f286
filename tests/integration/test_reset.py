# SPDX-License-Identifier: Apache-2.0
"""A pool member that a claim has used is wiped and put back: nothing of the first user is left for the second."""

import contextlib
import http.client
import json
import os
import random
import re
import select
import subprocess
import threading
import urllib.parse

import pytest
from gate_kit import agent, run, session
from router_kit import scoped_token, soon
from test_isolation import cgroup_file

from cay_local import AGENTS, EXTENSIONS, ApiError, Cay, is_ready, wait_until

CORE = "/api/v1/namespaces/default"
PODS, PVCS = f"{CORE}/pods", f"{CORE}/persistentvolumeclaims"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
CLAIMS, POOLS, TEMPLATES = (f"{EXTENSIONS}/namespaces/default/{kind}" for kind in ("sandboxclaims", "sandboxwarmpools", "sandboxtemplates"))
CAY = "/apis/cay.dev/v1alpha1/namespaces/default"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
MARK = "left-by-alice"
SECRET = b"a secret that the router shares."

# Says on each request which sandbox answers: a number that the process draws when it starts.
SERVER = """
import http.server, os, threading
NONCE = os.urandom(8).hex()
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = NONCE.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer.address_family = __import__('socket').AF_INET
http.server.ThreadingHTTPServer(('', 8000), Answer).serve_forever()
"""
# Leaves whatever a program can leave: a process with the mark in its name, a listener, a connection, files that it holds open.
LEAVE = f"""
import os, socket, sys
s = socket.create_server(("", 7000))
c = socket.create_connection(("127.0.0.1", 7000))
f = open("/work/{MARK}-open", "w")
os.unlink("/work/{MARK}-open")
print("left", flush=True)
os.close(1)
import time
while True:
    time.sleep(1000)
"""


def template(**annotations):
    container = {"name": "main", "image": "host", "command": ["python3", "-c", SERVER],
                 "ports": [{"containerPort": 8000}, {"containerPort": 8888}],
                 "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
                 "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
                 "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "cache", "mountPath": "/cache"}]}
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate",
            "metadata": {"name": "t", "annotations": {"cay.dev/reset": "true", **annotations}},
            "spec": {"networkPolicyManagement": "Unmanaged", "service": True, "envVarsInjectionPolicy": "Allowed",
                     "volumeClaimTemplates": [{"metadata": {"name": "work"}, "spec": {
                         "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}}],
                     "podTemplate": {"spec": {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": True,
                                              "volumes": [{"name": "cache", "emptyDir": {}}], "containers": [container]}}}}


def pool(replicas=1, refill="returned"):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
            "metadata": {"name": "p", "annotations": {"cay.dev/refill": refill}},
            "spec": {"replicas": replicas, "sandboxTemplateRef": {"name": "t"}}}


def full(replicas):
    return lambda p: p and p.get("status", {}).get("readyReplicas") == replicas


def open_pool(cay, replicas=1, refill="returned", **annotations):
    cay.api("POST", TEMPLATES, template(**annotations))
    cay.api("POST", POOLS, pool(replicas, refill))
    cay.wait(POOLS, "p", full(replicas))
    return cay


def claim(cay, name, **spec):
    """The Sandbox that the claim gets."""
    cay.api("POST", CLAIMS, {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "metadata": {"name": name},
                             "spec": {"warmPoolRef": {"name": "p"}, **spec}})
    o = cay.wait(CLAIMS, name, is_ready)
    return cay.api("GET", f"{SANDBOXES}/{o['status']['sandbox']['name']}")


def end(cay, name):
    cay.api("DELETE", f"{CLAIMS}/{name}")


def sh(cay, name, script, check=True):
    return cay.kubectl("exec", name, "-c", "main", "--", "sh", "-c", script, check=check).stdout


def uid(obj):
    return obj["metadata"]["uid"]


def returned(cay, was):
    """The next object of the name, once it is Ready in the pool."""
    return cay.wait(SANDBOXES, was["metadata"]["name"], lambda o: o and uid(o) != uid(was) and is_ready(o))


def facts(cay, name):
    """What tells one sandbox from another, read from inside it and from the host."""
    items = [i for i in cay.census()[0] if i["owner"] == f"default/{name}"]
    pid = int(next(i["name"].split()[0] for i in items if i["type"] == "process"))
    return {
        "namespaces": {n: os.stat(f"/proc/{pid}/ns/{n}").st_ino for n in ("ipc", "mnt", "net", "pid", "user", "uts")},
        "cgroups": sorted(line.split(":")[-1] for line in open(f"/proc/{pid}/cgroup").read().split() if "cay-" in line),
        "limit": int(cgroup_file(pid, "memory", "memory.max", "memory.limit_in_bytes")),
        "ids": open(f"/proc/{pid}/uid_map").read().split(),
        "pod": uid(cay.api("GET", f"{PODS}/{name}")),
        "volume": uid(cay.api("GET", f"{PVCS}/work-{name}")),
        "token": sh(cay, name, f"cat {TOKEN}"),
        "nonce": cay.route(name, "GET", "/", port=8000)[1],
    }


# What a user can change and see: printed as data, without what differs between any two sandboxes.
SHOWN = """
import glob, json, os
def read(path):
    try:
        return open(path, errors="replace").read()
    except OSError:
        return ""
own = os.getsid(0)
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
listening = [line.split()[1] for kind in ("tcp", "tcp6") for line in read(f"/proc/net/{kind}").splitlines()[1:] if line.split()[3] == "0A"]
connected = [line.split()[2] for kind in ("tcp", "tcp6") for line in read(f"/proc/net/{kind}").splitlines()[1:] if line.split()[3] == "01"]
print(json.dumps({
    "processes": sorted(read(f"/proc/{p}/cmdline").replace("\\0", " ") for p in pids if read(f"/proc/{p}/stat") and os.getsid(p) != own),
    "listening": sorted(listening),
    "connected to itself": sorted(c for c in connected if c.startswith("0100007F")),
    "hostname is the name": os.uname().nodename == os.environ.get("HOSTNAME", os.uname().nodename),
    "mounts": sorted(line.split()[4] for line in read("/proc/self/mountinfo").splitlines()),
    "environment": sorted(e.split("=")[0] for e in read("/proc/1/environ").split("\\0")),
    "profile": read("/etc/profile"),
}))
"""


def shown(cay, name):
    r = cay.kubectl("exec", "-i", name, "-c", "main", "--", "setsid", "-w", "python3", "-", stdin=SHOWN)
    return json.loads(r.stdout)


def marks(cay, name):
    """Files by their names, and by what is in those that a user could have written."""
    return sh(cay, name, f"find / -xdev -name '*{MARK}*' 2>/dev/null; for d in /work /cache /tmp /dev/shm /run /var/tmp /root /home; do "
                         f"find $d -name '*{MARK}*' 2>/dev/null; grep -rl {MARK} $d 2>/dev/null; done; true")


@contextlib.contextmanager
def started(cay, *args):
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir)
    with subprocess.Popen(["kubectl", *args], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        try:
            yield p
        finally:
            p.kill()


def answer(conn):
    conn.request("GET", "/")
    return conn.getresponse().read()


def leave_everything(cay, name):
    for where in ("/", "/work", "/cache", "/tmp", "/dev/shm", "/var/tmp", "/root"):
        sh(cay, name, f"echo {MARK} > {where}/{MARK}")
    sh(cay, name, f"echo '#{MARK}' >> /etc/profile; hostname {MARK} 2>/dev/null; mkdir -p /run/x && mount -t tmpfs x /run/x 2>/dev/null; true")
    sh(cay, name, f"python3 -c '{LEAVE}' {MARK} >/tmp/said 2>&1 & until grep -q left /tmp/said; do :; done; setsid sleep 98765 >/dev/null 2>&1 &")
    cay.kubectl("patch", "pod", name, "--subresource", "resize", "-p",
                json.dumps({"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "500m", "memory": "300Mi"}}}]}}))
    cay.kubectl("debug", name, "--image=host", "-c", "debugger", "--", "sleep", "1000")
    cay.wait(PODS, name, lambda o: any("running" in s["state"] for s in o["status"].get("ephemeralContainerStatuses", [])))
    wait_until(lambda: facts(cay, name)["limit"] == 300 << 20)


def test_nothing_of_the_first_user_is_left_for_the_second(fresh, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    cay = open_pool(fresh("--router-path-prefix", "/s", "--router-scoped-token-secret", str(secret)))
    first = claim(cay, "alice", additionalPodMetadata={"labels": {"sandbox.users.io/of": "alice"}})
    name = first["metadata"]["name"]
    clean, before = shown(cay, name), facts(cay, name)
    leave_everything(cay, name)
    dirty = shown(cay, name)
    assert MARK in marks(cay, name)
    assert all(dirty[what] != clean[what] for what in ("processes", "listening", "connected to itself", "profile")), dirty
    url = urllib.parse.urlsplit(cay.cay("url", name, "8000", "--via", "path", "--router", f"http://127.0.0.1:{cay.router_port}").stdout.strip())
    kept = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60)
    visit = lambda conn: (conn.request("GET", f"{url.path}?{url.query}"), (a := conn.getresponse()).status, a.read())[1:]
    assert visit(kept) == (200, before["nonce"])
    scoped = {"Authorization": f"Bearer {scoped_token(SECRET, 'default', name, soon())}"}
    assert cay.route(name, "GET", "/", port=8000, headers=scoped)[0] == 200
    review = lambda: cay.api("POST", REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": before["token"]}})["status"]
    assert review().get("authenticated")
    with started(cay, "exec", "-i", name, "-c", "main", "--", "cat") as session, \
            started(cay, "port-forward", f"pod/{name}", ":8000") as forward:
        session.stdin.write("there?\n")
        session.stdin.flush()
        assert session.stdout.readline() == "there?\n"
        port = int(re.match(r"Forwarding from 127.0.0.1:(\d+)", forward.stdout.readline()).group(1))
        stream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        assert answer(stream) == before["nonce"]
        stream.auto_open = 0
        end(cay, "alice")
        assert session.wait(60) != 0, "the exec outlived its sandbox"
        second = returned(cay, first)
        assert second["metadata"]["annotations"]["cay.dev/resets"] == "1"
        assert not [k for k in second["metadata"]["labels"] if "claim" in k]
        assert cay.route(name, "GET", "/", port=8000)[0] == cay.route("nobody", "GET", "/", port=8000)[0] != 200
        taken = claim(cay, "bob")
        assert taken["metadata"]["name"] == name and uid(taken) == uid(second)
        for conn in (stream, http.client.HTTPConnection("127.0.0.1", port, timeout=30)):
            with pytest.raises((OSError, http.client.HTTPException)):
                answer(conn)  # neither the connection nor the port that is still forwarded leads to the next user
    after = facts(cay, name)
    for what, value in before["namespaces"].items():
        assert after["namespaces"][what] != value, f"the same {what} namespace"
    assert after["limit"] == before["limit"] == 256 << 20
    assert before["cgroups"] and not set(after["cgroups"]) & set(before["cgroups"])
    for what in ("pod", "volume", "token", "nonce"):
        assert after[what] != before[what], what
    assert marks(cay, name) == ""
    assert shown(cay, name) == clean
    pod = cay.api("GET", f"{PODS}/{name}")
    assert "ephemeralContainers" not in pod["spec"] and "sandbox.users.io/of" not in pod["metadata"]["labels"]
    assert visit(kept)[0] == 403 and visit(http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60))[0] == 403
    status, body = cay.route(name, "GET", "/", port=8000, headers=scoped)
    assert status == 403 and b"cay.dev/resets" in body
    assert not review().get("authenticated"), "the first user's token is good"
    assert 'cay_sandbox_resets_total{outcome="returned"} 1' in cay.api("GET", "/metrics")
    events = lambda: {e["reason"] for e in cay.api("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"] if e["regarding"]["name"] == name}
    wait_until(lambda: "SandboxReturned" in events())


def test_a_pool_that_refills_at_once_takes_nothing_back(fresh):
    cay = open_pool(fresh(), refill="on")
    refilled = lambda: sum(is_ready(o) for o in cay.api("GET", SANDBOXES)["items"]) == 2
    first = claim(cay, "alice")
    wait_until(refilled)
    end(cay, "alice")
    cay.wait(SANDBOXES, first["metadata"]["name"], lambda o: o is None)
    assert 'cay_sandbox_resets_total{outcome="deleted"} 1' in cay.api("GET", "/metrics")
    # One that has lost another member by then has room for it.
    second = claim(cay, "bob")
    wait_until(refilled)
    cay.kubectl("annotate", "sandboxwarmpool", "p", "cay.dev/refill=off", "--overwrite")
    third = claim(cay, "carol")
    end(cay, "bob")
    returned(cay, second)
    assert third["metadata"]["name"] != second["metadata"]["name"]


def test_a_word_that_means_nothing_is_refused(cay):
    body = template()
    body["metadata"]["annotations"]["cay.dev/reset"] = "yes"
    with pytest.raises(ApiError) as refused:
        cay.api("POST", TEMPLATES, body)
    assert refused.value.code == 422
    assert [c["field"] for c in refused.value.status["details"]["causes"]] == ["metadata.annotations[cay.dev/reset]"]


def test_what_a_claim_brought_is_not_returned(fresh):
    """A claim with variables or volumes of its own starts a Sandbox of its own name, which is no member of any pool."""
    cay = open_pool(fresh())
    own = claim(cay, "alice", env=[{"name": "SECRET", "value": MARK}])
    assert own["metadata"]["name"] == "alice" and "finalizers" not in own["metadata"]
    end(cay, "alice")
    cay.wait(SANDBOXES, "alice", lambda o: o is None)


def test_who_entered_by_an_attachment_stays_outside(fresh):
    """Attachments go by the name of a Sandbox: while there is one, the name is not given to anybody else."""
    cay = open_pool(fresh())
    agent(cay, "helper", sandbox={"mode": "UserChooses"})
    first = claim(cay, "alice")
    name = first["metadata"]["name"]
    session(cay, "talk", "helper", sandbox=name)
    cay.wait(f"{CAY}/attachments", "talk", is_ready)
    assert run(cay, "helper", name, "true").returncode == 0
    end(cay, "alice")
    cay.wait(SANDBOXES, name, lambda o: o is None)
    cay.wait(POOLS, "p", full(1))
    assert name not in [o["metadata"]["name"] for o in cay.api("GET", SANDBOXES)["items"]]
    second = claim(cay, "bob")["metadata"]["name"]
    assert run(cay, "helper", second, "true").returncode != 0


def test_a_name_that_came_back_is_good_for_its_new_user_alone(fresh):
    """Again and again: each user finds the sandbox as the template makes it."""
    cay = open_pool(fresh(), replicas=2)
    seen = set()
    for i in range(6):
        o = claim(cay, f"user-{i}")
        name = o["metadata"]["name"]
        assert uid(o) not in seen
        seen.add(uid(o))
        assert marks(cay, name) == ""
        sh(cay, name, f"echo {MARK} | tee /{MARK} /work/{MARK} /cache/{MARK} >/dev/null")
        end(cay, f"user-{i}")
        back = returned(cay, o)
        assert back["metadata"]["annotations"]["cay.dev/resets"] == str(int(o["metadata"]["annotations"].get("cay.dev/resets", 0)) + 1)
    assert len({o["metadata"]["name"] for o in cay.api("GET", SANDBOXES)["items"]}) == 2


GONE = (OSError, http.client.HTTPException, ValueError, ApiError, RuntimeError)  # the server, in the middle of something
MEMBERS, ROUNDS = 3, 10


def use(client, name):
    """Claims, looks for what others have left, leaves something, and ends the claim; what was found."""
    found = client.api("POST", f"{CLAIMS}?wait=Ready", {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "metadata": {"name": name},
        "spec": {"warmPoolRef": {"name": "p"}}})
    box = found["status"]["sandbox"]["name"]
    left = client.execute(box, "sh -c 'ls / /work /cache | grep -c left || true'")["stdout"].strip()
    client.execute(box, "sh -c 'touch /left /work/left /cache/left'")
    client.api("DELETE", f"{CLAIMS}/{name}")
    return left


def test_a_crash_while_sandboxes_go_back_hands_out_none_that_was_used(fresh):
    cay = open_pool(fresh(), replicas=MEMBERS)
    rng, n_used = random.Random(9), 0
    for number in range(ROUNDS):
        wrong = []

        def user(lane):
            client = Cay.__new__(Cay)
            client.__dict__.update(cay.__dict__, _conn=None)
            with contextlib.suppress(GONE):
                for i in range(1000):
                    left = use(client, f"c-{number}-{lane}-{i}")
                    wrong.append(left)

        lanes = [threading.Thread(target=user, args=(lane,)) for lane in range(2)]
        for lane in lanes:
            lane.start()
        want = len(wrong) + rng.randrange(1, 4)
        wait_until(lambda: len(wrong) >= want or not any(lane.is_alive() for lane in lanes))
        select.select([], [], [], rng.random() * 0.2)  # somewhere in what follows
        cay.kill()
        for lane in lanes:
            lane.join(60)
        assert set(wrong) == {"0"}, wrong
        n_used += len(wrong)
        cay.start()
        for o in cay.api("GET", CLAIMS)["items"]:
            cay.api("DELETE", f"{CLAIMS}/{o['metadata']['name']}")
        cay.wait(POOLS, "p", full(MEMBERS))
    assert n_used >= ROUNDS
    settled = lambda: len(cay.api("GET", SANDBOXES)["items"]) == len(cay.api("GET", PODS)["items"]) == len(cay.api("GET", PVCS)["items"]) == MEMBERS
    wait_until(settled)
    for o in cay.api("GET", SANDBOXES)["items"]:
        assert sh(cay, o["metadata"]["name"], "ls / /work /cache | grep left || true") == ""
    wait_until(lambda: not cay.census()[1])
