# SPDX-License-Identifier: Apache-2.0
"""TLS handshakes: many at once, peers that stall in theirs, ends in the middle, and sessions that are resumed."""

import contextlib
import selectors
import socket
import ssl
import time

from cay_local import wait_until
from test_crowd import connect, start_limited

REQUEST = b"GET /api/v1/namespaces/default HTTP/1.1\r\nHost: a\r\n\r\n"
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
CROWD = 300


class Client:
    """A connection that never blocks: it shakes hands, asks, and reads the first line of the answer."""

    def __init__(self, cay):
        self.socket = cay.context().wrap_socket(connect(cay.port), server_hostname="127.0.0.1", do_handshake_on_connect=False)
        self.asked, self.answer = False, b""

    def step(self):
        """What it waits for, or None when it has its answer."""
        try:
            if not self.asked:
                self.socket.do_handshake()
                self.socket.send(REQUEST)
                self.asked = True
            self.answer = self.socket.recv(4096)
            return None
        except ssl.SSLWantReadError:
            return selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            return selectors.EVENT_WRITE
        except OSError:  # not connected yet
            return selectors.EVENT_WRITE


def step_all(clients, enough=0, timeout=60):
    """Goes on until no more than that many are without an answer."""
    end = time.monotonic() + timeout
    left = len(clients)
    with selectors.DefaultSelector() as s:
        for c in clients:
            s.register(c.socket, selectors.EVENT_WRITE, c)
        while left > enough:
            assert time.monotonic() < end, f"{left} of {len(clients)} have no answer"
            for key, _ in s.select(1):
                want = key.data.step()
                if want is None:
                    s.unregister(key.fileobj)
                    left -= 1
                elif want != key.events:
                    s.modify(key.fileobj, want, key.data)


def test_many_clients_at_once_are_all_answered(fresh):
    cay = fresh()
    clients = [Client(cay) for _ in range(CROWD)]
    step_all(clients)
    assert [c.answer.split(b"\r\n")[0] for c in clients] == [b"HTTP/1.1 200 OK"] * CROWD
    for c in clients:
        c.socket.close()
    wait_until_all_are_gone(cay)


def connections(cay):
    """How many sockets of its API port the daemon holds open."""
    with open("/proc/net/tcp") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(1 for r in rows if r[1].endswith(f":{cay.port:04X}") and r[3] != "0A" and r[9] != "0")


def wait_until_all_are_gone(cay):
    cay.close()
    wait_until(lambda: not connections(cay))


def test_peers_that_stall_keep_nobody_out(fresh):
    """More of them than there may be connections: silent, after half a ClientHello, and after a whole one."""
    cay = fresh(start=False)
    start_limited(cay, 128, 256)
    crowd = [connect(cay.port) for _ in range(200)]
    whole = [Client(cay) for _ in range(100)]
    try:
        for i, s in enumerate(crowd):
            if i % 2:
                s.setblocking(True)
                with contextlib.suppress(OSError):  # one that had to make room for another
                    s.send(HALF_HELLO)
        for c in whole:
            c.step()  # the ClientHello leaves; nothing more does
        for _ in range(5):
            cay.close()  # each through a connection of its own
            assert cay.api("GET", "/api/v1/namespaces/default")["metadata"]["name"] == "default"
    finally:
        for s in crowd + [c.socket for c in whole]:
            s.close()


def test_connections_that_end_in_their_handshake_leave_nothing(fresh):
    cay = fresh()
    for _ in range(3):
        clients = [Client(cay) for _ in range(100)]
        step_all(clients, enough=90)
        for c in clients:
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
            c.socket.close()
    wait_until_all_are_gone(cay)


def test_the_daemon_stops_in_the_middle_of_handshakes(fresh):
    cay = fresh()
    clients = [Client(cay) for _ in range(CROWD)]
    step_all(clients, enough=CROWD - 5)
    assert cay.stop() == 0
    for c in clients:
        c.socket.close()


def resumed(cay, context, session):
    """Whether a connection resumed the session, what it was answered, and the session for the next."""
    with socket.create_connection(("127.0.0.1", cay.port), timeout=60) as s:
        with context.wrap_socket(s, server_hostname="127.0.0.1", session=session) as t:
            t.sendall(REQUEST)
            answer = t.recv(4096)
            return t.session_reused, answer.split(b" ")[1], t.session


def test_a_session_is_resumed_until_the_daemon_ends(fresh):
    cay = fresh()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = cay.context()
        context.maximum_version = version
        reused, status, session = resumed(cay, context, None)
        assert (reused, status) == (False, b"200")
        reused, status, session = resumed(cay, context, session)
        assert (reused, status) == (True, b"200")
        cay.stop()
        cay.start()
        assert resumed(cay, context, session)[:2] == (False, b"200")
