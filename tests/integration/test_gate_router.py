# SPDX-License-Identifier: Apache-2.0
"""What an agent has open through the router ends in the moment in which it would no longer be let in."""

import itertools
import socket

import pytest

from cay_local import wait_until
from gate_kit import CAY, attach, box, delete, patch, put
from test_agent_identity import Agent

number = itertools.count()

# Answers /ws with an upgrade and echoes, /stream with a beginning, and everything else with nothing.
SERVER = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if self.path == '/ws':
            self.send_response(101)
            self.send_header('Connection', 'Upgrade')
            self.send_header('Upgrade', 'websocket')
            self.end_headers()
            self.close_connection = True
            while data := self.connection.recv(100):
                self.connection.sendall(data)
        elif self.path == '/stream':
            self.send_response(200)
            self.send_header('Content-Length', '100')
            self.end_headers()
            self.wfile.write(b'beginning')
            self.connection.recv(1)
        else:
            open('/tmp/waiting', 'w').close()
            self.connection.recv(1)
http.server.ThreadingHTTPServer(('', 8000), H).serve_forever()
"""


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    box(c, "web", "python3", "-c", SERVER)
    return c


@pytest.fixture
def agent(cay):
    a = Agent(cay, f"r{next(number)}")
    return a.enters("web")


class Open:
    """One request on a connection of its own."""

    def __init__(self, cay, agent, path, sandbox="web", **headers):
        self.s = socket.create_connection(("127.0.0.1", cay.router_port), timeout=60)
        # Of somebody whom only the token lets in: we are root, and trusted without one.
        head = {"Host": "127.0.0.1", "X-Sandbox-ID": sandbox, "X-Sandbox-Namespace": "default", "X-Sandbox-Port": "8000", "Sec-Fetch-Site": "cross-site", **headers}
        if agent:
            head["Authorization"] = "Bearer " + agent.mint()
        else:
            del head["Sec-Fetch-Site"]
        self.s.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in head.items()) + "\r\n").encode())
        self.got = b""

    def until(self, text):
        while text not in self.got:
            data = self.s.recv(1000)
            assert data, self.got
            self.got += data
        return self

    def rest(self):
        """Until the end, however it comes."""
        try:
            while data := self.s.recv(1000):
                self.got += data
        except ConnectionResetError:
            pass
        self.s.close()
        return self.got

    def works(self):
        """Of an upgraded one."""
        self.s.sendall(b"ping")
        return self.s.recv(100) == b"ping"


def upgraded(cay, agent):
    return Open(cay, agent, "/ws", Connection="Upgrade", Upgrade="websocket").until(b"\r\n\r\n")


def everything(cay, agent):
    cay.kubectl("exec", "web", "--", "rm", "-f", "/tmp/waiting")
    a = [upgraded(cay, agent), Open(cay, agent, "/stream").until(b"beginning"), Open(cay, agent, "/wait")]
    wait_until(lambda: cay.kubectl("exec", "web", "--", "test", "-e", "/tmp/waiting", check=False).returncode == 0)
    return a


def all_ended(tunnel, stream, waiting):
    assert tunnel.got.startswith(b"HTTP/1.1 101") and tunnel.rest()
    assert len(stream.rest().split(b"\r\n\r\n")[1]) == len("beginning")  # cut, not ended as if it were complete
    assert waiting.until(b"no longer there").got.startswith(b"HTTP/1.1 403")
    waiting.s.close()


CHANGES = {
    "detach": lambda cay, a: delete(cay, "attachments", f"{a.name}-web"),
    "end": lambda cay, a: patch(cay, "sessions", a.name, {"spec": {"ended": True}}),
    "rights of the attachment": lambda cay, a: patch(cay, "attachments", f"{a.name}-web", {"spec": {"rights": ["exec"]}}),
    "rights of the agent": lambda cay, a: patch(cay, "agents", a.name, {"spec": {"capabilities": {"rights": ["exec", "read"]}}}),
    "rules": lambda cay, a: patch(cay, "agents", a.name, {"spec": {"approval": {"default": "Ask"}}}),
    "agent": lambda cay, a: delete(cay, "agents", a.name),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_open_ends_with_what_let_it_in(cay, agent, change):
    mine, admins = everything(cay, agent), upgraded(cay, None)
    CHANGES[change](cay, agent)
    all_ended(*mine)
    assert admins.works()  # who is no agent is not asked about
    admins.s.close()
    again = Open(cay, agent, "/stream").until(b"\r\n\r\n")
    assert again.got.startswith((b"HTTP/1.1 403", b"HTTP/1.1 401"))
    again.s.close()


def test_what_is_open_ends_with_a_right_of_a_parent(cay, agent):
    parent, other = Agent(cay, agent.name + "-parent"), Agent(cay, agent.name + "-other").enters("web")
    patch(cay, "agents", agent.name, {"spec": {"parent": parent.name}})
    mine, others = everything(cay, agent), upgraded(cay, other)
    patch(cay, "agents", parent.name, {"spec": {"capabilities": {"rights": ["exec", "read", "write"]}}})
    all_ended(*mine)
    assert others.works()
    others.s.close()


def test_what_is_open_ends_with_a_budget_that_suspends_and_no_other(cay, agent):
    name, is_used_up = f"{agent.name}-budget", lambda b: b and b.get("status", {}).get("exceeded")
    put(cay, "budgets", "Budget", name, limits={"networkBytes": 0}, onExceeded="Warn")
    cay.wait(f"{CAY}/budgets", name, is_used_up)
    mine = everything(cay, agent)
    patch(cay, "agents", agent.name, {"spec": {"budget": name}})
    patch(cay, "budgets", name, {"spec": {"onExceeded": "Deny"}})
    assert mine[0].works()
    refused = Open(cay, agent, "/stream").until(b"\r\n\r\n")
    assert refused.got.startswith(b"HTTP/1.1 403"), refused.got
    refused.s.close()
    assert mine[0].works()
    patch(cay, "budgets", name, {"spec": {"onExceeded": "Suspend"}})
    all_ended(*mine)


def test_what_another_attachment_allows_goes_on(cay, agent):
    attach(cay, f"{agent.name}-too", agent.name, "web")
    cay.wait(f"{CAY}/attachments", f"{agent.name}-too", lambda a: a and any(c["type"] == "Ready" and c["status"] == "True" for c in a.get("status", {}).get("conditions", [])))
    tunnel = upgraded(cay, agent)
    delete(cay, "attachments", f"{agent.name}-web")
    assert tunnel.works()
    delete(cay, "attachments", f"{agent.name}-too")
    assert tunnel.rest()


def test_a_tunnel_that_the_agent_leaves_is_not_looked_for_again(cay, agent):
    upgraded(cay, agent).s.close()
    stays = upgraded(cay, agent)
    patch(cay, "agents", agent.name, {"spec": {"visibility": "Private"}})
    assert stays.works()
    stays.s.close()
