# SPDX-License-Identifier: Apache-2.0
"""Peers of the runtime that stop in the middle, in either direction, are cut after a minute."""

import os
import pathlib

import pytest

from cay_local import wait_until
from guest_kit import PORT, REST_PORT, guest, link  # noqa: F401: fixtures
from runtime_kit import base, rest  # noqa: F401: fixtures
from test_websocket_exec import alive

FORM = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="n"\r\n\r\n'
HALF = {
    "upload": (PORT, b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=XX\r\n"
                     b"Content-Length: 100000\r\n\r\n" + FORM),
    "put": (REST_PORT, b"PUT /v1/files/half HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nbeginning"),
    "archive": (REST_PORT, b"PUT /v1/archive/half HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"\0" * 300),
    "execute": (PORT, b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"),
    "head": (REST_PORT, b"GET /v1/fi"),
}
UNREAD = {
    "download": (PORT, "/download/big"), "get": (REST_PORT, "/v1/files/big"), "archive": (REST_PORT, "/v1/archive/dir"),
}


def read_to_end(sock):
    n = 0
    try:
        while data := sock.recv(1 << 20):
            n += len(data)
    except ConnectionError:
        pass
    return n


@pytest.mark.long
def test_who_stops_in_the_middle_is_cut(rest, base):
    size = 256 << 20
    (base / "dir").mkdir()
    for path in (base / "big", base / "dir/big"):
        with open(path, "wb") as f:
            f.truncate(size)
    waiting = {}
    for name, (port, data) in HALF.items():
        sock = waiting[name] = rest.guest.tcp(port)
        sock.sendall(data)
    for name, (port, path) in UNREAD.items():
        sock = waiting[f"unread {name}"] = rest.guest.tcp(port)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    key = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    sock = waiting["websocket"] = rest.guest.tcp(REST_PORT)
    sock.sendall(f"GET /v1/exec?command=sh&command=-c&command=yes+7501 HTTP/1.1\r\nHost: x\r\n{key}".encode())
    wait_until(lambda: alive("7501"))
    for name in HALF:  # they have their answer, if any, and then the end
        waiting[name].settimeout(200)
        assert read_to_end(waiting[name]) < 1000, name
    wait_until(lambda: not alive("7501"), timeout=200)
    # What a peer has not taken hides from it that it was cut: the runtime's side tells.
    wait_until(lambda: not opened(base / "big") and not opened(base / "dir/big"), timeout=200)
    for name in UNREAD:
        assert read_to_end(waiting[f"unread {name}"]) < size, name
    # An upload is written in place, and an archive has made its directory; a PUT leaves nothing.
    assert sorted(p.name for p in base.iterdir()) == ["big", "dir", "half", "n"] and not any((base / "half").iterdir())


def opened(path):
    """Whether anybody has the file open."""
    for fd in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(fd) == str(path):
                return True
        except OSError:
            pass
    return False
