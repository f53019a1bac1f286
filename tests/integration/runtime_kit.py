# SPDX-License-Identifier: Apache-2.0
"""The runtime of cay-init: how its ports are asked, and the fixtures `base` and `rt`."""

import base64
import http.client
import json
import os
import pathlib
import tempfile

import pytest

from guest_kit import LOG_STDOUT, PATH, PORT, REST_NOW, REST_PORT, RUNTIME_HTTP, RUNTIME_NOW, RUNTIME_REST


class Runtime:
    def __init__(self, guest, link, base, env=(), now=True, **kw):
        self.guest, self.base = guest, base
        kw.setdefault("uid", 1000)
        kw.setdefault("gid", 1000)
        os.chown(base, kw["uid"], kw["gid"])
        base.chmod(0o755)
        link.start(flags=LOG_STDOUT | RUNTIME_HTTP | (RUNTIME_NOW if now else 0), port=PORT,
                   env=[PATH, f"SANDBOX_BASE_DIR={base}", *env], **kw)

    port = PORT

    def ask(self, method, target, body=None, headers=None, **kw):
        conn = http.client.HTTPConnection("127.0.0.1", self.port)
        conn.sock = self.guest.tcp(self.port)
        conn.request(method, target, body, headers or {}, **kw)
        answer = conn.getresponse()
        data = answer.read()
        conn.close()
        return answer, data

    def get(self, target, headers=None):
        answer, data = self.ask("GET", target, headers=headers)
        return answer.status, json.loads(data)

    def execute(self, command, **more):
        answer, data = self.ask("POST", "/execute", json.dumps({"command": command, **more}),
                                {"Content-Type": "application/json"})
        return answer.status, json.loads(data)

    def upload(self, disposition, data=b"data", extra="", chunked=False):
        head = f"--XX\r\nContent-Disposition: form-data; {disposition}\r\n{extra}\r\n".encode()
        body = head + data + b"\r\n--XX--\r\n"
        headers = {"Content-Type": "multipart/form-data; boundary=XX"}
        if chunked:
            pieces = (body[i:i + 50_000] for i in range(0, len(body), 50_000))
            answer, got = self.ask("POST", "/upload", pieces, headers, encode_chunked=True)
        else:
            answer, got = self.ask("POST", "/upload", body, headers)
        return answer.status, json.loads(got)


class Rest(Runtime):
    """The sandboxd REST API, beside the other."""

    port = REST_PORT

    def __init__(self, guest, link, base, env=(), **kw):
        self.guest, self.base = guest, base
        os.chown(base, 1000, 1000)
        base.chmod(0o755)
        link.start(flags=LOG_STDOUT | RUNTIME_REST | REST_NOW | RUNTIME_HTTP | RUNTIME_NOW, port=PORT, uid=1000, gid=1000,
                   env=[PATH, f"SANDBOXD_ROOT_DIR={base}", f"SANDBOX_BASE_DIR={base}", *env], **kw)

    def put(self, path, data=b"", query="", headers=None):
        answer, got = self.ask("PUT", f"/v1/files/{path}{query}", data, headers)
        return answer.status, json.loads(got)["code"] if got else None

    def files(self, method, path, headers=None):
        answer, got = self.ask(method, f"/v1/files/{path}", headers=headers)
        return answer.status, json.loads(got) if got.startswith(b"{") else got


@pytest.fixture
def rest(guest, link, base):
    return Rest(guest, link, base)


@pytest.fixture
def base():
    """Not below pytest's own directory: every pytest that starts closes that to other users."""
    with tempfile.TemporaryDirectory(prefix="cay-base-", dir="/var/tmp") as path:
        yield pathlib.Path(path)


@pytest.fixture
def rt(guest, link, base):
    return Runtime(guest, link, base)


def read_events(answer):
    """[(event, id, data)] of an answer in events, until its end."""
    while True:
        event = {}
        while line := answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            event[name] = value
        if not event:
            return
        if "event" in event:
            yield event["event"], event.get("id"), json.loads(event["data"])


class Events:
    """Of POST /execute with Accept: text/event-stream."""

    def __init__(self, rt, command, **more):
        body = json.dumps({"command": command, **more})
        self.sock = rt.guest.tcp()
        self.sock.sendall("POST /execute HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self.answer = None

    def read(self):
        """[(event, data)] until the end."""
        if not self.answer:
            self.answer = http.client.HTTPResponse(self.sock)
            self.answer.begin()
            assert self.answer.getheader("Content-Type") == "text/event-stream"
        for event, _, data in read_events(self.answer):
            yield event, data


def bytes_of(data):
    return data["text"].encode() if "text" in data else base64.b64decode(data["base64"])


def joined(events, name):
    return b"".join(bytes_of(d) for e, d in events if e == name)
