# SPDX-License-Identifier: Apache-2.0
"""Another user of the same machine, who has neither a credential nor a group, tries to get into sandboxes.

Every attack runs as uid 65534 against something that is really there: at the same moment root, or the daemon, gets it.
"""

import glob
import json
import os
import socket
import stat
import subprocess
import threading
import time

import pytest

from cay_local import AGENTS, is_ready

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
NOBODY = 65534
PYTHON = "/usr/bin/python3"  # one that every user can run

# Serves what it was asked, with all headers, on port 8000.
ECHO = """
import http.server, os, socket
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(self.headers).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if os.path.exists('/proc/net/if_inet6') else socket.AF_INET  # of both families then
Server(('', 8000), Echo).serve_forever()
"""


def as_user(code, uid=NOBODY, **values):
    """Runs Python as another user; what it printed."""
    r = subprocess.run([PYTHON, "-c", "\n".join(f"{k} = {v!r}" for k, v in values.items()) + "\n" + code], capture_output=True,
                       text=True, user=uid, group=uid, extra_groups=[], cwd="/", env={"PATH": "/usr/bin:/bin"}, timeout=60)
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


REQUEST = """
import http.client, json
c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
c.request('GET', '/', headers=dict({'X-Sandbox-ID': 'box', 'X-Sandbox-Port': '8000'}, **headers))
a = c.getresponse()
print(json.dumps([a.status, dict(a.getheaders()), a.read().decode()]))
"""


def request_as(cay, uid, **headers):
    status, head, body = json.loads(as_user(REQUEST, uid, port=cay.router_port, headers=headers))
    return status, head, body


def request(cay, **headers):
    return cay.route("box", "GET", "/", port=8000, headers=headers)[0]


def open_box(cay):
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box"},
                                "spec": {"podTemplate": {"spec": {"containers": [
                                    {"name": "main", "image": "host", "command": ["python3", "-c", ECHO],
                                     "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}]}}}})
    return cay.wait(SANDBOXES, "box", is_ready)["status"]["podIPs"][0]


@pytest.fixture(scope="module")
def box(module_instance):
    cay = module_instance("--service-account-grants", "default/runner=edit,elsewhere/runner=edit",
                          "--router-access-log", "--router-host", "other.example, gate.example")
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    for ns in ("default", "elsewhere"):
        cay.kubectl("create", "serviceaccount", "runner", "-n", ns)
    cay.kubectl("create", "serviceaccount", "powerless")
    return cay, open_box(cay)


def token(cay, account, ns="default"):
    return cay.kubectl("create", "token", account, "-n", ns).stdout.strip()


# -- the router -------------------------------------------------------------------------------


def test_the_router_knows_who_asks(box):
    cay, _ = box
    status, head, body = request_as(cay, NOBODY)
    assert status == 401 and head["WWW-Authenticate"].startswith("Bearer")
    assert "--router-group" in json.loads(body)["detail"]
    assert request(cay) == 200
    assert request_as(cay, 0)[0] == 200


def test_a_token_opens_what_exec_would(box):
    cay, _ = box
    status, _, seen = request_as(cay, NOBODY, Authorization=f"Bearer {token(cay, 'runner')}")
    assert status == 200 and "x-sandbox-id: box" in seen.lower()
    assert "authorization" not in seen.lower(), "the sandbox was told the token"
    for bad in ("Bearer nonsense", "Basic cm9vdDpyb290", "Bearer", token(cay, "runner")):
        assert request_as(cay, NOBODY, Authorization=bad)[0] == 401, bad
    for forbidden in (token(cay, "powerless"), token(cay, "runner", "elsewhere")):
        assert request_as(cay, NOBODY, Authorization=f"Bearer {forbidden}")[0] == 403


def test_leaving_at_once_makes_nobody_root(box):
    """The kernel says uid 0 of a socket that was closed: whoever sends and leaves must not be taken for root."""
    cay, _ = box
    cay.kubectl("exec", "box", "--", "sh", "-c", "rm -f /tmp/*")
    attack = """
import socket, struct
for i in range(200):
    s = socket.create_connection(('127.0.0.1', port))
    if i % 2:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.sendall(b'GET /came-from-nobody HTTP/1.1\\r\\nHost: localhost\\r\\nX-Sandbox-ID: box\\r\\nX-Sandbox-Port: 8000\\r\\n\\r\\n')
    s.close()
print('sent')
"""
    assert as_user(attack, port=cay.router_port) == "sent"
    assert cay.route("box", "GET", "/came-from-root", port=8000)[0] == 200
    deadline = time.monotonic() + 60  # a request is logged when it has ended
    while not cay.log().count("/came-from-root") and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert cay.log().count("/came-from-root") == 1, "the access log shows who got through"
    let_in = [line for line in cay.log().splitlines() if "/came-from-nobody" in line and " status=401 " not in line and " status=403 " not in line]
    assert not let_in


def test_host_must_be_ours(box):
    cay, _ = box
    for host in ("evil.example", f"evil.example:{cay.router_port}", "localhost.evil.example", "0.0.0.0"):
        assert request(cay, Host=host) == 421, host
    for host in ("localhost", f"LOCALHOST:{cay.router_port}", "127.0.0.1", "[::1]:80", socket.gethostname(), "gate.example"):
        assert request(cay, Host=host) == 200, host


# -- packets ----------------------------------------------------------------------------------

CONNECT = """
import socket
try:
    socket.create_connection((address, 8000), timeout=3).close(); print('reached')
except OSError as e:
    print('refused', e)
"""


def test_only_the_daemon_sends_packets_to_sandboxes(box):
    cay, _ = box
    for address in cay.wait(SANDBOXES, "box", is_ready)["status"]["podIPs"]:
        for uid in (NOBODY, 0):
            assert as_user(CONNECT, uid, address=address).startswith("refused"), (uid, address)
    assert request(cay) == 200, "the daemon reaches the same port"


def test_the_host_sends_no_datagram_either(box):
    """The sandbox would see it: there is a listener, and the same datagram from inside arrives."""
    cay, address = box
    wait = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 8001)); print('bound', flush=True); " \
           "print(s.recv(99).decode(), flush=True)"
    send = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ntry:\n    s.connect((address, 8001))\n" \
           "    s.send(b'from outside'); s.send(b'from outside')\nexcept OSError as e:\n    print(e)\n"
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig)
    listener = subprocess.Popen(["kubectl", "exec", "box", "--", "python3", "-c", wait], stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert listener.stdout.readline() == "bound\n"
        for uid in (NOBODY, 0):
            as_user(send, uid, address=address)
        cay.kubectl("exec", "box", "--", "python3", "-c",
                    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'from inside', ('127.0.0.1', 8001))")
        assert listener.stdout.readline() == "from inside\n"
    finally:
        listener.terminate()
        listener.wait()


# -- everything else that the machine shows ---------------------------------------------------


def test_the_api_tells_nothing(box):
    cay, _ = box
    code = """
import http.client, ssl
for path in paths:
    c = http.client.HTTPSConnection('127.0.0.1', port, context=ssl._create_unverified_context(), timeout=20)
    c.request('GET', path)
    print(c.getresponse().status)
"""
    paths = [SANDBOXES, "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods/box/exec?command=id", "/metrics"]
    assert set(as_user(code, port=cay.port, paths=paths).split()) <= {"401", "403"}
    assert cay.api("GET", SANDBOXES)["items"]


def test_no_file_and_no_socket_of_ours_can_be_opened(box):
    cay, _ = box
    run_dir = json.load(open(f"{cay.data_dir}/node/instance.json"))["runDir"]
    for directory in (cay.data_dir, run_dir):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700 and os.stat(directory).st_uid == 0
    sockets = glob.glob(f"{run_dir}/*.sock")
    paths = [cay.kubeconfig, f"{cay.data_dir}/store.db", f"{cay.data_dir}/sa.key", *glob.glob(f"{run_dir}/state/*"), *sockets]
    assert len(sockets) >= 1 and all(os.path.exists(p) for p in paths)
    code = """
import os, socket
for path in paths:
    try:
        if path.endswith('.sock'):
            socket.socket(socket.AF_UNIX).connect(path)
        else:
            open(path)
        print('opened', path)
    except PermissionError:
        pass
for directory in directories:
    try:
        print(os.listdir(directory))
    except PermissionError:
        pass
"""
    assert as_user(code, paths=paths, directories=[cay.data_dir, run_dir]) == ""


def test_the_processes_of_a_sandbox_cannot_be_touched(box):
    cay, _ = box
    pids = [int(i["name"].split()[0]) for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "default/box"]
    code = """
import os
for pid in pids:
    for act in (lambda: os.kill(pid, 18), lambda: os.listdir(f'/proc/{pid}/root/'), lambda: open(f'/proc/{pid}/environ').read(),
                lambda: open(f'/proc/{pid}/mem', 'r+b'), lambda: os.readlink(f'/proc/{pid}/ns/net')):
        try:
            act(); print('done to', pid)
        except PermissionError:
            pass
"""
    assert pids and as_user(code, pids=pids) == ""
    assert os.listdir(f"/proc/{pids[0]}/root/")


# -- flags ------------------------------------------------------------------------------------


def test_members_of_a_group_pass_and_others_do_not(fresh):
    cay = fresh("--router-group", str(NOBODY))
    open_box(cay)
    assert request_as(cay, NOBODY)[0] == 200  # the group of user 65534
    assert request_as(cay, 64999)[0] == 401
    assert request(cay) == 200


def test_a_group_that_does_not_exist_is_an_error(fresh):
    with pytest.raises(RuntimeError, match="no group named nonsense"):
        fresh("--router-group", "nonsense")


def test_it_can_be_opened_which_is_said_aloud(fresh):
    cay = fresh("--open-to-local-users")
    open_box(cay)
    assert "EVERY USER OF THIS MACHINE" in cay.log()
    assert request_as(cay, NOBODY)[0] == 200
    for address in cay.wait(SANDBOXES, "box", is_ready)["status"]["podIPs"]:
        assert as_user(CONNECT, address=address) == "reached"
    assert request(cay, Host="evil.example") == 421
