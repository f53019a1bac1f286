# SPDX-License-Identifier: Apache-2.0
"""Files and commands of a sandbox under attack, through the router: a program inside that renames what is being opened, clients that leave at any byte,
forms that are none, and clients that are very slow."""

import contextlib
import http.client
import json
import os
import random
import socket
import time

import pytest

from cay_local import AGENTS, wait_until

SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
LEGACY, REST = 8888, 8080
FORM = {"Content-Type": "multipart/form-data; boundary=XX"}

# Exchanges directories, files, links and pipes for each other as fast as it can, below /data/base. Whatever its links lead to outside, nobody may follow.
RENAMER = r"""
import contextlib, ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
os.chdir("/data/base")
LINKS = {"absolute": "/data/outside", "relative": "../outside", "twice": "absolute", "above": "..", "file": "/data/outside/f"}
rename = libc.renameat2
def put_back():                      # d, if a request came between two exchanges: through a link we would rename what is outside ourselves
    for path in ("d", "d/sub"):
        for name in LINKS:
            if os.path.islink(path) and not os.path.islink(name):
                rename(-100, path.encode(), -100, name.encode(), 2)
        with contextlib.suppress(OSError):
            if os.path.islink(path):
                os.unlink(path)
def make_again():                    # what requests have deleted, or replaced
    for name, target in LINKS.items():
        with contextlib.suppress(OSError):
            os.symlink(target, name)
    for make in (lambda: os.mkfifo("pipe"), lambda: os.makedirs("deep/er/still"), lambda: os.makedirs("d/sub")):
        with contextlib.suppress(OSError):
            make()
PAIRS = [("d", other) for other in ("absolute", "relative", "twice", "above")]   # a directory and a link
PAIRS += [("d/sub", other) for other in ("absolute", "relative")]                # deeper, so that ".." of the link means something else
PAIRS += [("d/f", "file"), ("d/f", "pipe"), ("d", "deep/er/still")]              # a file and a link; a pipe, which must not be waited for
while True:
    for a, b in PAIRS:
        put_back()
        make_again()
        a, b, until = a.encode(), b.encode(), time.monotonic() + 0.1
        while time.monotonic() < until:
            for _ in range(50):      # nothing but this: the other side has some microseconds between two looks
                rename(-100, a, -100, b, 2)
                rename(-100, a, -100, b, 2)
"""

PREPARE = r"""
set -e; cd /data; mkdir -p base/d/sub outside/sub; chmod 777 outside outside/sub
for f in outside/f outside/sub/f; do echo secret >$f; chmod 666 $f; done
touch outside/outsider outside/sub/outsider
"""
STATE = "cd /data/outside && find . -printf '%p %y %m %T@ %C@ %i\\n' | sort && cat f sub/f"


@pytest.fixture(scope="module")
def world(cay):
    env = {"SANDBOX_BASE_DIR": "/data/base", "SANDBOXD_ROOT_DIR": "/data/base", "SANDBOX_REATTACH_SECONDS": "0"}
    container = {"name": "c", "image": "host", "command": ["sh", "-c", PREPARE + "exec sleep infinity"], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                 "env": [{"name": k, "value": v} for k, v in env.items()],
                 "readinessProbe": {"exec": {"command": ["test", "-e", "/data/outside/sub/outsider"]}, "periodSeconds": 1}}
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box"}, "spec": {"podTemplate": {
        "metadata": {"annotations": {"cay.dev/runtime": "python,sandboxd"}}, "spec": {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}}}})
    cay.wait_ready(SANDBOXES, "box")
    return cay


def ask(cay, method, path, body=None, headers=None, port=LEGACY):
    return cay.route("box", method, path, body, port=port, headers=headers)


class Line:
    """A kept connection: more requests in the same time."""

    def __init__(self, cay):
        self.conn = http.client.HTTPConnection("127.0.0.1", cay.router_port, timeout=60)

    def ask(self, method, path, body=None, headers=None, port=LEGACY):
        self.conn.request(method, path, body, {"X-Sandbox-ID": "box", "X-Sandbox-Port": str(port), **(headers or {})})
        answer = self.conn.getresponse()
        return answer.status, answer.read()


def shell(cay, command):
    r = cay.execute("box", command)
    assert r["exit_code"] == 0, r
    return r["stdout"]


def form(name, data):
    return f'--XX\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n--XX--\r\n"


@contextlib.contextmanager
def running(cay, program):
    status, made = ask(cay, "POST", "/v1/processes", json.dumps({"argv": ["python3", "-c", program], "background": True}))
    assert status == 201, made
    process = f"/v1/processes/{json.loads(made)['id']}"
    try:
        yield lambda: json.loads(ask(cay, "GET", process)[1])
    finally:
        assert ask(cay, "DELETE", process)[0] == 204


REQUESTS = [
    ("upload", "POST", "/upload", lambda p: form(p, b"inside"), LEGACY),
    ("download", "GET", "/download/{}", None, LEGACY),
    ("list", "GET", "/list/{}", None, LEGACY),
    ("exists", "GET", "/exists/{}", None, LEGACY),
    ("put", "PUT", "/v1/files/{}", lambda p: b"inside", REST),
    ("get", "GET", "/v1/files/{}", None, REST),
    ("delete", "DELETE", "/v1/files/{}?recursive=true", None, REST),
]
PATHS = ("d/f", "d/sub/f", "d/sub/new/f", "d/outside/f", "d/sub", "d")
ONLY_OUTSIDE = ("d/outsider", "d/sub/outsider")


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_a_renaming_program_leads_nobody_outside(world, seconds):
    """Nothing outside the base directory is read, created, changed or deleted, and nothing waits for a pipe."""
    before = shell(world, STATE)
    rng, seen, line = random.Random(seconds), {}, Line(world)
    with running(world, RENAMER) as process:
        until, n = time.monotonic() + seconds, 0
        while time.monotonic() < until or n < 500:
            n += 1
            name, method, path, body, port = rng.choice(REQUESTS)
            target = rng.choice(PATHS if body else PATHS + ONLY_OUTSIDE)
            status, got = line.ask(method, path.format(target), body(target) if body else None, FORM if name == "upload" else None, port)
            assert b"secret" not in got, (name, target, status)
            if name in ("list", "get"):
                assert b'"outsider"' not in got, (name, target, got)
            if name == "exists" and target.endswith("outsider"):
                assert b"true" not in got, (name, target, got)
            seen.setdefault(name, set()).add(status)
            if rng.random() < 0.03:
                status, got = line.ask("POST", "/execute", json.dumps({"command": "ls; pwd -P", "cwd": target}))
                assert status in (200, 403) and not {"outsider", "/data/outside"} & {*json.loads(got).get("stdout", "").split()}, (target, status, got)
                seen.setdefault("cwd", set()).add(status)
            if rng.random() < 0.05:  # what was deleted must be there again
                for f in ("d/f", "d/sub/f"):
                    line.ask("PUT", f"/v1/files/{f}", b"inside", port=REST)
        assert process()["state"] == "running"
    assert shell(world, STATE) == before
    assert all(200 in seen[k] for k in ("download", "list", "exists", "get")) and 204 in seen["put"] & seen["delete"] and 200 in seen["upload"], seen
    assert 403 in set.union(*seen.values()), seen  # it was caught in the act
    shell(world, "rm -rf /data/base/*")


def processes(cay):
    return [int(i["name"].split()[0]) for i in cay.census()[0] if i["type"] == "process" and i["owner"] == "default/box"]


def descriptors(pids):
    return sum(len(os.listdir(f"/proc/{p}/fd")) for p in pids)


def kinds_of_requests(rng):
    data = rng.randbytes(200_000)
    execute = json.dumps({"command": "head -c 1000000 /dev/zero; sleep 4747", "timeout_seconds": 60}).encode()
    return [
        (LEGACY, "POST", "/upload", form("in/up", data), "Content-Type: multipart/form-data; boundary=XX\r\n"),
        (LEGACY, "GET", "/download/big", b"", ""),
        (LEGACY, "POST", "/execute", execute, ""),
        (LEGACY, "POST", "/execute", execute, "Accept: text/event-stream\r\n"),
        (LEGACY, "GET", "/list/many", b"", ""),
        (REST, "PUT", "/v1/files/in/put", data, ""),
        (REST, "GET", "/v1/files/big", b"", ""),
        (REST, "GET", "/v1/files/many", b"", ""),
    ]


def cut_off(cay, rng, request):
    port, method, path, body, headers = request
    text = (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: {port}\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    cut = rng.choice([rng.randrange(len(text)), rng.randrange(len(text)), len(text)])
    with socket.create_connection(("127.0.0.1", cay.router_port), timeout=60) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(text[:cut])
            if cut == len(text) and path != "/execute":
                sock.recv(rng.randrange(1, 100_000))
        if rng.random() < 0.5:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # RST instead of FIN


def complete(cay, rng):
    """One of each, to its end: the connections to both ports are then there, and kept."""
    for port, method, path, body, _ in kinds_of_requests(rng):
        if path != "/execute":
            assert ask(cay, method, path, body, FORM if path == "/upload" else None, port)[0] in (200, 204)


@pytest.mark.parametrize("rounds", [160, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_that_leave_at_any_byte_leave_nothing(world, rounds):
    """No process, descriptor or file in the sandbox, and no descriptor in the daemon."""
    rng = random.Random(rounds)
    shell(world, "rm -rf /data/base/* && cd /data/base && mkdir -p many in && head -c 3000000 /dev/urandom >big && cd many && seq -f 'file-number-%g' 3000 | xargs touch")
    complete(world, rng)
    inside, daemon = processes(world), world.process.pid
    before = descriptors(inside), descriptors([daemon])
    for i in range(rounds):
        requests = kinds_of_requests(rng)
        cut_off(world, rng, requests[i % len(requests)])
    wait_until(lambda: sorted(processes(world)) == sorted(inside))
    complete(world, rng)
    wait_until(lambda: descriptors(inside) <= before[0], timeout=20)  # a runtime that nobody uses ends after a minute, with all that it has
    wait_until(lambda: descriptors([daemon]) <= before[1])
    # What was being uploaded is there as far as it came, as upstream's runtime leaves it; what was put is there as a whole, or not at all.
    names = shell(world, "cd /data/base && find . -path ./many -prune -o -type f -print | sort").split()
    assert set(names) <= {"./big", "./in/up", "./in/put"}, names
    assert shell(world, "stat -c %s /data/base/in/put").strip() == "200000"


WRONG_FORMS = {
    "no boundary at all": b"nothing",
    "no end": b'--XX\r\nContent-Disposition: form-data; name="file"; filename="torn"\r\n\r\nabc',
    "another boundary": b'--YY\r\nContent-Disposition: form-data; name="file"; filename="other"\r\n\r\nabc\r\n--YY--\r\n',
    "no disposition": b"--XX\r\nContent-Type: text/plain\r\n\r\nabc\r\n--XX--\r\n",
    "another name": b'--XX\r\nContent-Disposition: form-data; name="elif"; filename="x"\r\n\r\nabc\r\n--XX--\r\n',
    "no file name": b'--XX\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc\r\n--XX--\r\n',
    "a quote that does not end": b'--XX\r\nContent-Disposition: form-data; name="file"; filename="never\r\n\r\nabc\r\n--XX--\r\n',
    "a header of a megabyte": b"--XX\r\nContent-Disposition: " + b"x" * (1 << 20) + b"\r\n\r\nabc\r\n--XX--\r\n",
    "a megabyte of headers": b"--XX\r\n" + b"A: b\r\n" * 150_000 + b"\r\nabc\r\n--XX--\r\n",
    "a file name of a megabyte": b'--XX\r\nContent-Disposition: form-data; name="file"; filename="' + b"n" * (1 << 20) + b'"\r\n\r\nabc\r\n--XX--\r\n',
    "a NUL in its name": b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a\0b"\r\n\r\nabc\r\n--XX--\r\n',
    "parts without end": b'--XX\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' * 30_000 + b"--XX--\r\n",
    "bare line feeds": b'--XX\nContent-Disposition: form-data; name="file"; filename="lf"\n\nabc\n--XX--\n',
}


@pytest.mark.parametrize("what", WRONG_FORMS)
def test_a_form_that_is_none_is_refused_and_leaves_nothing(world, what):
    body = WRONG_FORMS[what]
    files = shell(world, "find /data/base -name 'big' -o -name 'many' -prune -o -type f -print")
    status, got = ask(world, "POST", "/upload", body, FORM)
    assert status in (400, 403, 422), (status, got[:300])
    json.loads(got)
    assert len(got) < 8192, "what was sent does not come back whole"
    torn = {"no end": "/data/base/torn\n"}.get(what, "")
    assert shell(world, "find /data/base -name 'big' -o -name 'many' -prune -o -type f -print").replace(torn, "") == files.replace(torn, "")
    put, _ = ask(world, "PUT", "/v1/files/by-form", body, FORM, REST)
    assert put == (204 if what in ("no file name", "a quote that does not end") else 400), put  # it needs no file name


def dribble(cay, text, n):
    """n clients that have sent the beginning of a request."""
    socks = []
    for _ in range(n):
        sock = socket.create_connection(("127.0.0.1", cay.router_port), timeout=60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(text)
        socks.append(sock)
    return socks


def test_slow_clients_hold_nobody_up_and_lose_nothing(world):
    """Writers that send a byte at a time, and readers that take one: others are answered beside them, and each gets the whole in the end."""
    n, size = 24, 4_000_000
    shell(world, f"head -c {size} /dev/zero | tr '\\0' z >/data/base/slow")
    head = "{} HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: {}\r\n{}\r\n"
    body = form("drop/{}", b"0123456789" * 10)
    writers = [dribble(world, head.format("POST /upload", LEGACY, f"Content-Type: {FORM['Content-Type']}\r\nContent-Length: {len(body) + len(str(i)) - 2}\r\n").encode(), 1)[0]
               for i in range(n)]
    readers = dribble(world, head.format("GET /download/slow", LEGACY, "Connection: close\r\n").encode(), n)
    texts = [body.replace(b"{}", str(i).encode()) for i in range(n)]
    for at in range(max(map(len, texts))):
        for sock, text in zip(writers, texts):
            sock.sendall(text[at:at + 1])
        if at % 32 == 0:
            assert world.execute("box", f"echo {at}")["stdout"] == f"{at}\n"
            for sock in readers:
                assert len(sock.recv(1)) == 1
    for sock in writers:
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert answer.status == 200, answer.read()
        sock.close()
    assert shell(world, "cat /data/base/drop/* | wc -c").strip() == str(100 * n)
    for sock in readers:
        got = sum(iter(lambda s=sock: len(s.recv(1 << 20)), 0))
        assert got > size
        sock.close()
