# SPDX-License-Identifier: Apache-2.0
"""Who a sandbox is: the identity socket inside it, the tokens that it gives, how others check them, and what it refuses."""

import concurrent.futures
import errno
import json
import os
import shutil
import socket
import ssl
import subprocess
import urllib.request

import jwt
import pytest
from cay_local import wait_until
from gate_kit import CAY, SANDBOXES, agent, attach, box, patch, run, session
from gate_kit import acting as as_agent
from test_audit import lines
from test_doctor import ALLOW, EQUAL, ERRNO, LOAD, NR, RETURN, load_filter
from test_identity import ask

SOCKET = "/run/cay/identity.sock"


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    box(c, "desk")
    return c


def curl(path, *more):
    """The command that asks: the body, and on a line of its own the status."""
    return ["curl", "-sS", "-m", "30", "-w", "\n%{http_code}", "--unix-socket", SOCKET, *more, "http://cay" + path]


def inside(cay, sandbox, path, *more, as_agent=None):
    """Status and body, as the sandbox's own processes get it, or those of an agent."""
    command = curl(path, *more)
    r = run(cay, as_agent, sandbox, *command) if as_agent else cay.kubectl("exec", sandbox, "--", *command)
    assert r.returncode == 0, r.stderr
    body, status = r.stdout.rsplit("\n", 1)
    return int(status), json.loads(body) if body.startswith("{") else body


def token_of(cay, sandbox, audience="tests", as_agent=None):
    status, answer = inside(cay, sandbox, f"/token?audience={audience}", as_agent=as_agent)
    assert status == 200, answer
    return answer["token"]


def published(cay, path):
    """What anybody reads, who trusts the CA and has no credentials."""
    trust = ssl.create_default_context(cadata=cay.credentials()[0].decode())
    with urllib.request.urlopen(path, context=trust, timeout=30) as f:
        return json.load(f)


def verified(cay, token, audience="tests"):
    """The claims, checked as any library does it: from the issuer alone."""
    issuer = jwt.decode(token, options={"verify_signature": False})["iss"]
    found = published(cay, issuer + "/.well-known/openid-configuration")
    assert found["issuer"] == issuer
    keys = jwt.PyJWKSet.from_dict(published(cay, found["jwks_uri"]))
    key = keys[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key, algorithms=found["id_token_signing_alg_values_supported"], audience=audience, issuer=issuer,
                      options={"require": ["exp", "iat", "nbf", "jti", "sub", "aud", "iss"]})


def test_a_sandbox_gets_a_token_that_others_verify_from_the_issuer_alone(cay):
    claims = verified(cay, token_of(cay, "desk"))
    assert claims["sub"] == "spiffe://cluster.local/ns/default/sandbox/desk"
    assert claims["aud"] == ["tests"] and claims["exp"] - claims["iat"] == 300
    assert "act" not in claims


def acting(cay, name, user="", sandbox="desk", view="Shared", **more):
    """An agent with a session of this user and an attachment to the sandbox; its uid."""
    agent(cay, name, **more)
    session(cay, name, name, user=user)
    return attach(cay, name, name, sandbox, view=view)["metadata"]["uid"]


def test_it_is_told_who_it_is_without_a_secret(cay):
    assert inside(cay, "desk", "/identity") == (200, {
        "id": "spiffe://cluster.local/ns/default/sandbox/desk", "namespace": "default", "sandbox": "desk"})


def test_a_command_of_an_attachment_names_agent_session_and_user(cay):
    acting(cay, "coder", user="alice")
    act = verified(cay, token_of(cay, "desk", as_agent="coder"))["act"]
    assert act == {"sub": "cay:agent:default:coder", "session": "coder", "user": "alice"}
    status, who = inside(cay, "desk", "/identity", as_agent="coder")
    assert status == 200 and (who["agent"], who["session"], who["user"]) == ("coder", "coder", "alice")
    assert "act" not in verified(cay, token_of(cay, "desk"))  # the sandbox itself still acts for nobody


def test_two_agents_in_one_sandbox_are_told_apart(cay):
    acting(cay, "first", user="ann")
    acting(cay, "second")
    assert verified(cay, token_of(cay, "desk", as_agent="first"))["act"]["user"] == "ann"
    assert verified(cay, token_of(cay, "desk", as_agent="second"))["act"] == {"sub": "cay:agent:default:second", "session": "second"}


def test_a_scratch_asks_as_its_attachment_and_a_read_only_view_does_not_ask(cay):
    acting(cay, "builder", view="Scratch")
    assert verified(cay, token_of(cay, "desk", as_agent="builder"))["act"]["sub"] == "cay:agent:default:builder"
    acting(cay, "reader", view="ReadOnly")
    r = run(cay, "reader", "desk", *curl("/identity"))
    assert r.returncode != 0 and "200" not in r.stdout


# Waits until there is a file /tmp/go, then asks, and writes what it got.
WAITS = """
while ! test -e /tmp/go; do sleep 0.05; done
curl -sS -m 30 -w '\\n%%{http_code}' --unix-socket %s 'http://cay/token?audience=tests' > /tmp/got.tmp 2>&1
mv /tmp/got.tmp /tmp/got
""" % SOCKET


def still_waits(cay):
    look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q '[t]mp/go' && echo $p; done; true"
    return cay.kubectl("exec", "desk", "--", "sh", "-c", look).stdout.split()


def test_a_process_whose_attachment_is_no_longer_ready_ends(cay):
    acting(cay, "stays")
    started = run(cay, "stays", "desk", "python3", "-c", f"import subprocess; subprocess.Popen(['sh', '-c', {WAITS!r}], start_new_session=True,"
                  " stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)")
    assert started.returncode == 0, started.stderr
    assert still_waits(cay)
    patch(cay, "agents", "stays", {"spec": {"isolation": {"unverified": "runsc"}}})
    wait_until(lambda: any(c["type"] == "Ready" and c["status"] == "False" for c in
                           cay.api("GET", f"{CAY}/attachments/stays")["status"]["conditions"]))
    wait_until(lambda: not still_waits(cay))


def test_the_right_to_act_is_asked_each_time(cay):
    acting(cay, "shrinks")
    token_of(cay, "desk", as_agent="shrinks")
    patch(cay, "agents", "shrinks", {"spec": {"approval": {"default": "Deny", "rules": [{"action": "Allow", "argv": ["curl", "**"]}]}}})
    status, answer = inside(cay, "desk", "/token?audience=tests", as_agent="shrinks")
    assert status == 403 and "denies it" in answer["error"]
    patch(cay, "agents", "shrinks", {"spec": {"approval": {"default": "Ask", "rules": [{"action": "Allow", "argv": ["curl", "**"]}]}}})
    status, answer = inside(cay, "desk", "/token?audience=tests", as_agent="shrinks")
    assert status == 403 and "cannot be asked here" in answer["error"]


def made_for(cay, name, **labels):
    cay.api("POST", SANDBOXES, {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name, "labels": labels},
        "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, name)


def test_a_sandbox_that_was_made_for_a_session_acts_for_it_while_it_goes_on(cay):
    made_for(cay, "own", **{"cay.dev/session": "talk", "cay.dev/agent": "talker"})
    assert "act" not in verified(cay, token_of(cay, "own"))  # a label alone says nothing
    agent(cay, "talker")
    session(cay, "talk", "talker", user="bob")
    attach(cay, "talk-own", "talk", "own")
    wait_until(lambda: "act" in verified(cay, token_of(cay, "own")))
    assert verified(cay, token_of(cay, "own"))["act"] == {"sub": "cay:agent:default:talker", "session": "talk", "user": "bob"}
    patch(cay, "sessions", "talk", {"spec": {"ended": True}})
    wait_until(lambda: "act" not in verified(cay, token_of(cay, "own")))


def test_a_sandbox_of_an_agent_acts_for_it(cay):
    made_for(cay, "agents-own", **{"cay.dev/agent": "owner"})
    acting(cay, "owner", user="eve", sandbox="agents-own")
    wait_until(lambda: "act" in verified(cay, token_of(cay, "agents-own")))
    assert verified(cay, token_of(cay, "agents-own"))["act"]["sub"] == "cay:agent:default:owner"


# What is refused

@pytest.mark.parametrize("query, why", [
    ("", "say whom the token is for"),
    ("?audience=", "1 to 256 bytes"),
    ("?audience=" + "a" * 257, "1 to 256 bytes"),
    ("?audience=a%20b", "1 to 256 bytes"),
    ("?audience=a%0d%0aX:1", "1 to 256 bytes"),
    ("?audience=a&audience=a", "each audience once"),
    ("?audience=a&audience=b&audience=c&audience=d&audience=e", "at most 4"),
    ("?audience=https://kubernetes.default.svc", "this instance itself"),
    ("?audience=a&audience=https://kubernetes.default.svc", "this instance itself"),
])
def test_an_audience_is_named_and_is_somebody_else(cay, query, why):
    status, answer = inside(cay, "desk", "/token" + query)
    assert status == 400 and answer["error"].startswith("audience: ") and why in answer["error"]


def test_its_own_addresses_are_no_audiences(cay):
    instance = cay.cay("token", "audience", "--kubeconfig", cay.kubeconfig).stdout.strip()
    for own in (instance, f"https://127.0.0.1:{cay.port}", f"https://127.0.0.1:{cay.port}/identity"):
        status, answer = inside(cay, "desk", f"/token?audience={own}")
        assert status == 400 and "this instance itself" in answer["error"], own


def test_four_audiences_are_all_in_the_token(cay):
    token = token_of(cay, "desk", "a&audience=https://b.example/c?d&audience=c&audience=" + "d" * 256)
    assert verified(cay, token, "https://b.example/c?d")["aud"] == ["a", "https://b.example/c?d", "c", "d" * 256]


def test_nothing_in_a_request_changes_who_asks(cay):
    more = ["-H", "Host: other.default.sandbox", "-H", "X-Forwarded-For: 10.0.0.1", "-H", "Authorization: Bearer x",
            "-H", "X-Remote-User: cay:agent:default:coder"]
    status, answer = inside(cay, "desk", "/token?audience=tests&sub=other&sandbox=other&agent=coder", *more)
    assert status == 200
    claims = verified(cay, answer["token"])
    assert claims["sub"].endswith("/sandbox/desk") and "act" not in claims


@pytest.mark.parametrize("path, more, status", [("/", [], 404), ("/token/", [], 404), ("/token?audience=a", ["-X", "POST"], 405), ("/identity", ["-I"], 405)])
def test_there_is_nothing_else(cay, path, more, status):
    assert inside(cay, "desk", path, *more)[0] == status


def test_the_api_server_takes_no_token_of_a_sandbox(cay):
    token = token_of(cay, "desk")
    assert ask(cay, "/api/v1/namespaces/default/pods", token)[0] == 401
    review = cay.api("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, "audiences": ["tests"]}})
    assert not review["status"].get("authenticated")


def test_what_others_check_with_is_for_anybody_and_nothing_else_is(cay):
    assert ask(cay, "/identity/.well-known/openid-configuration")[0] == 200
    assert ask(cay, "/identity/jwks")[0] == 200
    assert ask(cay, "/identity/jwks", method="POST")[0] == 405
    for path in ("/identity/", "/identity/token?audience=a", "/identity/jwks/x", "/identity/../api"):
        assert ask(cay, path)[0] in (401, 403, 404), path


def test_a_pod_that_only_says_it_is_a_sandboxs_gets_nothing(cay):
    sandbox = cay.api("GET", f"{SANDBOXES}/desk")
    cay.api("POST", "/api/v1/namespaces/default/pods", {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "liar", "ownerReferences": [{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "name": "desk",
                                                          "uid": sandbox["metadata"]["uid"], "controller": True}]},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}})
    cay.wait_ready("/api/v1/namespaces/default/pods", "liar")
    status, answer = inside(cay, "liar", "/token?audience=tests")
    assert status == 403 and "not the one that a Sandbox has" in answer["error"]
    assert lines(cay, name="liar", resource="sandboxes", subresource="token", status=403)
    cay.kubectl("delete", "pod", "liar")


def test_plain_pods_and_those_that_want_none_have_no_socket(cay):
    cay.api("POST", SANDBOXES, {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "without"}, "spec": {"podTemplate": {
            "metadata": {"annotations": {"cay.dev/identity": "none"}},
            "spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, "without")
    cay.kubectl("run", "plain", "--image=host", "--restart=Never", "--command", "--", "sleep", "infinity")
    cay.wait_ready("/api/v1/namespaces/default/pods", "plain")
    for pod in ("without", "plain"):
        assert cay.kubectl("exec", pod, "--", "find", "/run/cay", check=False).stdout in ("", "/run/cay\n")
        assert " /run/cay " not in cay.kubectl("exec", pod, "--", "cat", "/proc/self/mountinfo").stdout
    cay.kubectl("delete", "pod", "plain", "--grace-period=0")


MOUNTS = {"exactly": "/run/cay", "below": "/run/cay/mine", "above": "/run", "read-only": "/run"}


@pytest.mark.parametrize("where", MOUNTS)
def test_a_volume_of_the_sandbox_comes_first(cay, where):
    name = "volume-" + where
    cay.kubectl("create", "configmap", name, "--from-literal=key=value")
    volume = {"configMap": {"name": name}} if where == "read-only" else {"emptyDir": {}}
    cay.api("POST", SANDBOXES, {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
            "volumes": [{"name": "v", **volume}],
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"], "volumeMounts": [{"name": "v", "mountPath": MOUNTS[where]}]}]}}}})
    cay.wait_ready(SANDBOXES, name)
    if where == "above":
        assert inside(cay, name, "/identity")[0] == 200
    elif where == "read-only":
        assert cay.kubectl("exec", name, "--", "cat", "/run/key").stdout == "value"
    else:
        assert cay.kubectl("exec", name, "--", "sh", "-c", f"echo mine > {MOUNTS[where]}/file && ls /run/cay").returncode == 0
    cay.kubectl("delete", "sandbox", name)


def test_the_directory_can_only_be_read(cay):
    mounts = [line.split() for line in cay.kubectl("exec", "desk", "--", "cat", "/proc/self/mountinfo").stdout.splitlines()]
    flags = next(set(m[5].split(",")) for m in mounts if m[4] == "/run/cay")
    assert {"ro", "nosuid", "nodev", "noexec"} <= flags
    for command in ("rm -f /run/cay/identity.sock", "touch /run/cay/x", "chmod 600 /run/cay/identity.sock", "mv /run/cay /run/elsewhere",
                    "umount /run/cay", "mount -o remount,rw /run/cay"):
        assert cay.kubectl("exec", "desk", "--", "sh", "-c", command, check=False).returncode != 0, command
    assert inside(cay, "desk", "/identity")[0] == 200


def test_a_user_without_rights_in_the_sandbox_asks_too(cay):
    cay.api("POST", SANDBOXES, {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "user"}, "spec": {"podTemplate": {"spec": {
            "securityContext": {"runAsUser": 1000}, "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, "user")
    assert inside(cay, "user", "/identity")[0] == 200


@pytest.mark.parametrize("runtime", ["crun", "runc", "runsc"])
def test_an_oci_runtime_has_the_socket_unless_it_has_a_kernel_of_its_own(cay, runtime):
    if not shutil.which(runtime):
        pytest.skip(f"{runtime} is not installed")
    name = "under-" + runtime
    cay.api("POST", SANDBOXES, {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
            "runtimeClassName": runtime, "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, name)
    if runtime == "runsc":
        assert cay.kubectl("exec", name, "--", "test", "-e", SOCKET, check=False).returncode != 0
    else:
        assert verified(cay, token_of(cay, name))["sub"].endswith("/sandbox/" + name)
    cay.kubectl("delete", "sandbox", name)


# Records

def test_what_is_given_and_refused_is_recorded(cay):
    acting(cay, "noted", user="carol")
    claims = verified(cay, token_of(cay, "desk", "ledger", as_agent="noted"), "ledger")
    line = lines(cay, user="cay:agent:default:noted", resource="sandboxes", subresource="token")[-1]
    assert line["verb"] == "create" and line["name"] == "desk" and line["status"] == 200
    text = json.dumps(line)
    assert claims["jti"] in text and "ledger" in text and "noted" in text
    token_of(cay, "desk", "quiet")
    assert lines(cay, user="spiffe://cluster.local/ns/default/sandbox/desk", resource="sandboxes", subresource="token", status=200)
    assert cay.metric("cay_identity_tokens_total") >= 2


# Peers that mean no good

def python(cay, sandbox, code):
    r = cay.kubectl("exec", "-i", sandbox, "--", "python3", "-", stdin=code)
    return json.loads(r.stdout)


MANY = """
import json, socket
conns, refused = [], 0
for i in range(60):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect("%s")
        conns.append(s)
        if i %% 3 == 1:
            s.send(b"GET /token?audience=a HTTP/1.1\\r\\nHost: c")
        elif i %% 3 == 2:
            s.shutdown(socket.SHUT_WR)
    except BlockingIOError:
        refused += 1
ends = []
for s in conns:
    s.setblocking(True)
    s.settimeout(60)
    got = b""
    try:
        while part := s.recv(4096):
            got += part
    except ConnectionResetError:
        pass
    ends.append(got[:12].decode())
print(json.dumps({"made": len(conns), "refused": refused, "ends": sorted(set(ends))}))
""" % SOCKET


def test_connections_that_say_nothing_are_few_and_are_cut_and_hold_nobody_else_up(cay):
    box(cay, "loud")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loud = pool.submit(python, cay, "loud", MANY)
        assert inside(cay, "desk", "/identity")[0] == 200
        found = loud.result()
    # Eight are accepted and eight, or one more, wait; of those that end at once others take the place.
    assert found["refused"] > 20 and set(found["ends"]) <= {"", "HTTP/1.1 400", "HTTP/1.1 408"}, found
    assert inside(cay, "loud", "/identity")[0] == 200


OFTEN = """
import http.client, json, socket, time
class Inside(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("%s")
began = time.monotonic()
codes, kept = [], 0
for i in range(28):
    c = Inside("cay", timeout=60)
    c.request("GET", "/identity", headers={"Connection": "keep-alive"})
    a = c.getresponse()
    a.read()
    codes.append(a.status)
    kept += not a.isclosed() or a.getheader("Connection") != "close"
print(json.dumps({"codes": sorted(set(codes)), "seconds": time.monotonic() - began, "kept": kept}))
""" % SOCKET


def test_who_asks_often_waits(cay):
    box(cay, "often")
    found = python(cay, "often", OFTEN)
    assert found["codes"] == [200] and found["kept"] == 0
    assert found["seconds"] > 1.5  # sixteen at once, and then four in each second


SENDS = """
import array, os, socket
s = socket.socket(socket.AF_UNIX)
s.bind("/shared/pass")
s.listen()
print("serves", flush=True)
while True:
    c = s.accept()[0]
    c.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/run/cay", os.O_PATH)]))])
"""
TAKES = """
import array, json, socket
s = socket.socket(socket.AF_UNIX)
s.connect("/shared/pass")
fds = array.array("i")
_, more, _, _ = s.recvmsg(1, socket.CMSG_SPACE(4))
fds.frombytes(more[0][2])
c = socket.socket(socket.AF_UNIX)
c.connect(f"/proc/self/fd/{fds[0]}/identity.sock")
c.sendall(b"GET /token?audience=tests HTTP/1.1\\r\\nHost: cay\\r\\n\\r\\n")
print(json.dumps(c.recv(4096).decode()))
"""


def test_a_process_of_another_sandbox_gets_nothing_though_it_was_handed_the_way(cay):
    cay.api("POST", "/api/v1/namespaces/default/persistentvolumeclaims", {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "shared"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Mi"}}}})
    for name, command in (("gives", ["python3", "-c", SENDS]), ("takes", ["sleep", "infinity"])):
        cay.api("POST", SANDBOXES, {
            "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}],
                "containers": [{"name": "main", "image": "host", "command": command, "volumeMounts": [{"name": "v", "mountPath": "/shared"}]}]}}}})
        cay.wait_ready(SANDBOXES, name)
    wait_until(lambda: "serves" in cay.kubectl("logs", "gives").stdout)
    answer = python(cay, "takes", TAKES)
    assert answer.startswith("HTTP/1.1 403") and "in another sandbox" in answer


# Kernels that do not tell which process connected, but only its number (before 6.5)

GETSOCKOPT = {"x86_64": 55, "aarch64": 209}[os.uname().machine]
SO_PEERPIDFD, OPTION = 77, 32  # where it is in struct seccomp_data
LAST_PID = "/proc/sys/kernel/ns_last_pid"


def without_peer_pidfd(number):
    """From here on this process, and all that it starts, gets this error when it asks for the process at the other end."""
    load_filter([(LOAD, 0, 0, NR), (EQUAL, 0, 3, GETSOCKOPT), (LOAD, 0, 0, OPTION), (EQUAL, 0, 1, SO_PEERPIDFD), (RETURN, 0, 0, ERRNO | number),
                 (RETURN, 0, 0, ALLOW)])


@pytest.fixture
def old_kernel(monkeypatch, fresh):
    def make(number=errno.ENOPROTOOPT):
        real = subprocess.Popen
        with monkeypatch.context() as m:
            m.setattr(subprocess, "Popen", lambda *a, **k: real(*a, preexec_fn=lambda: without_peer_pidfd(number), **k))
            return fresh()

    return make


def test_a_kernel_that_tells_only_the_number_of_a_process_tells_agents_apart_too(old_kernel):
    cay = old_kernel()
    box(cay, "desk")
    acting(cay, "first", user="ann")
    acting(cay, "second", view="Scratch")
    assert "act" not in verified(cay, token_of(cay, "desk"))
    assert verified(cay, token_of(cay, "desk", as_agent="first"))["act"]["user"] == "ann"
    assert verified(cay, token_of(cay, "desk", as_agent="second"))["act"]["sub"] == "cay:agent:default:second"


def test_a_process_that_the_kernel_says_is_gone_is_not_looked_for_by_its_number(old_kernel):
    cay = old_kernel(errno.ESRCH)
    box(cay, "desk")
    assert inside(cay, "desk", "/identity") == (403, "the process that connected is in no sandbox, or has ended\n")


# A child connects; this process has the connection too, and goes on with it after the child's end.
THIEF = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
told, tell = os.pipe()
connected, say = os.pipe()
child = os.fork()
if not child:
    s.connect("%s"); os.write(say, b"x"); os.read(told, 1); os._exit(0)
os.read(connected, 1)
print(child, flush=True)
sys.stdin.readline()
os.write(tell, b"x"); os.waitpid(child, 0)
print("dead", flush=True)
sys.stdin.readline()
s.sendall(b"GET /token?audience=tests HTTP/1.1\\r\\nHost: cay\\r\\n\\r\\n")
print(s.recv(65536).decode().replace("\\r\\n", " ").replace("\\n", " "), flush=True)
""" % SOCKET
# Starts processes, one for each line.
VICTIM = """
import os, signal, sys
print("ready", flush=True)
for line in sys.stdin:
    if not os.fork(): signal.pause()
    print("one more", flush=True)
"""


def talk(cay, name, script, mark):
    return subprocess.Popen(["kubectl", "--kubeconfig", cay.kubeconfig, *as_agent(name), "exec", "-i", "desk", "--", "python3", "-c", script, mark],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(p, word="go"):
    p.stdin.write(word + "\n")
    p.stdin.flush()
    return p.stdout.readline().strip()


def processes(mark):
    """Of the host: number on the host, number inside, of those that were started with this."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as f, open(f"/proc/{pid}/status") as g:
                if f.read().rstrip("\0").endswith("\0" + mark) and "kubectl" not in os.readlink(f"/proc/{pid}/exe"):
                    found[int(next(line for line in g if line.startswith("NSpid:")).split()[-1])] = int(pid)
        except OSError:
            pass  # it has ended
    return found


def give_number(pid, victim, mark):
    """Has the victim start a process that gets this number. False: somebody else was faster."""
    for _ in range(100):
        with open(LAST_PID, "w") as f:
            f.write(str(pid - 1))
        say(victim)
        if os.path.exists(f"/proc/{pid}"):
            return pid in processes(mark).values()
    return False


def steal(cay, n):
    """What a process gets whose child connected, ended, and left its number to a process of another agent. None: that did not come about."""
    with talk(cay, "thief", THIEF, f"thief-{n}") as thief, talk(cay, "victim", VICTIM, f"victim-{n}") as victim:
        try:
            inner = int(thief.stdout.readline())
            pid = processes(f"thief-{n}")[inner]
            assert victim.stdout.readline() == "ready\n"
            assert say(thief) == "dead"
            return say(thief) if give_number(pid, victim, f"victim-{n}") else None
        finally:
            thief.kill()
            victim.kill()


def test_nobody_is_answered_as_the_next_process_of_a_number(old_kernel):
    if not os.path.exists(LAST_PID):
        pytest.skip("needs a kernel with CONFIG_CHECKPOINT_RESTORE: it chooses the number of a process")
    cay = old_kernel()
    box(cay, "desk")
    acting(cay, "thief")
    acting(cay, "victim")
    answer = next(filter(None, (steal(cay, n) for n in range(10))))
    assert answer.startswith("HTTP/1.1 403 ") and "has ended" in answer, answer


# Life and death

def identity_dirs(cay):
    items, _ = cay.census()
    return [i["name"] for i in items if "/identity/" in i["name"]]


def test_a_server_that_was_killed_answers_the_same_sandbox_again(fresh):
    cay = fresh()
    box(cay, "desk")
    before = cay.api("GET", "/api/v1/namespaces/default/pods/desk")
    assert inside(cay, "desk", "/identity")[0] == 200
    cay.kill()
    left = f"{os.path.dirname(identity_dirs(cay)[0])}/12345678-gone"
    os.mkdir(left)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"{left}/identity.sock")
    assert [o["name"] for o in cay.census()[1] if "/identity/" in o["name"]] == [left, f"{left}/identity.sock"]
    cay.start()
    wait_until(lambda: not os.path.exists(left))
    after = cay.api("GET", "/api/v1/namespaces/default/pods/desk")
    assert after["status"]["containerStatuses"][0]["containerID"] == before["status"]["containerStatuses"][0]["containerID"]
    assert verified(cay, token_of(cay, "desk"))["sub"].endswith("/sandbox/desk")


def test_directory_and_socket_go_with_the_pod(fresh):
    cay = fresh()
    box(cay, "desk")
    assert sorted(os.path.basename(d) for d in identity_dirs(cay)) == sorted([
        cay.api("GET", "/api/v1/namespaces/default/pods/desk")["metadata"]["uid"], "identity.sock"])
    cay.api("PATCH", f"{SANDBOXES}/desk", {"spec": {"operatingMode": "Suspended"}}, content_type="application/merge-patch+json")
    wait_until(lambda: not identity_dirs(cay))
    cay.api("PATCH", f"{SANDBOXES}/desk", {"spec": {"operatingMode": "Running"}}, content_type="application/merge-patch+json")
    cay.wait_ready(SANDBOXES, "desk")
    assert inside(cay, "desk", "/identity")[0] == 200
    cay.kubectl("delete", "sandbox", "desk")
    wait_until(lambda: not identity_dirs(cay))


def test_domain_and_issuer_are_settings(fresh):
    cay = fresh("--identity-domain", "prod.example", "--identity-issuer", "https://cay.example/identity")
    box(cay, "desk")
    token = token_of(cay, "desk")
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["iss"] == "https://cay.example/identity" and claims["sub"] == "spiffe://prod.example/ns/default/sandbox/desk"
    found = published(cay, f"https://127.0.0.1:{cay.port}/identity/.well-known/openid-configuration")
    assert found["issuer"] == claims["iss"] and found["jwks_uri"] == "https://cay.example/identity/jwks"


@pytest.mark.parametrize("flag, value", [("domain", "Prod.Example"), ("domain", ""), ("issuer", "http://cay.example"), ("issuer", "https://cay.example/"),
                                         ("issuer", "https://cay.example/?x")])
def test_a_setting_that_cannot_be_is_refused_by_its_name(fresh, flag, value):
    cay = fresh(f"--identity-{flag}", value, start=False)
    with pytest.raises(RuntimeError, match=f"--identity-{flag}"):
        cay.start()
