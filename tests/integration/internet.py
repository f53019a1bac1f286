# SPDX-License-Identifier: Apache-2.0
"""A network namespace that stands in for the Internet, or for any other network beside the host.

It has a link to the host and addresses that are routed there and nowhere else, so that nothing of a test ever leaves the machine.
"""

import ipaddress
import json
import random
import subprocess
import sys

from cay_local import wait_until

def setting(name):
    try:
        with open(f"/proc/sys/net/{name}") as f:
            return f.read().strip()
    except FileNotFoundError:
        return None


HAS6 = setting("ipv6/conf/all/disable_ipv6") == "0"
FORWARDS6 = HAS6 and setting("ipv6/conf/all/force_forwarding") is not None  # link by link, since Linux 6.17


# Answers every request with the address that it came from.
WEB = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.client_address[0].encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *args): pass
class Server(http.server.ThreadingHTTPServer):
    def server_bind(self): socketserver.TCPServer.server_bind(self)  # looks up no name
Server(('0.0.0.0', int(sys.argv[1])), Handler).serve_forever()
"""


def sh(*argv, check=True, **more):
    return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=60, **more).stdout


def free_net():
    """A small network of addresses that look public, which no route of this machine mentions: other tests may run beside this one."""
    nets = [n for documentation in ("198.51.100.0/24", "203.0.113.0/24") for n in ipaddress.ip_network(documentation).subnets(new_prefix=28)]
    used = [ipaddress.ip_network(r["dst"]) for r in json.loads(sh("ip", "-j", "route")) if r["dst"] != "default"]
    return random.SystemRandom().choice([n for n in nets if not any(n.overlaps(u) for u in used)])


class Network:
    """name: of the namespace and of its link on the host."""

    def __init__(self, name):
        self.net = free_net()
        self.name, self.host, self.ip, self.nobody = name, *(str(self.net[n]) for n in (1, 2, 14))
        self.processes = []
        sh("ip", "netns", "add", name)
        try:
            sh("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            sh("ip", "addr", "add", f"{self.host}/28", "dev", name)
            sh("ip", "link", "set", name, "up")
            for args in (("link", "set", "lo", "up"), ("addr", "add", f"{self.ip}/28", "dev", "eth0"), ("link", "set", "eth0", "up")):
                sh("ip", "-n", name, *args)
        except BaseException:
            self.close()
            raise

    def add(self, ip):
        """One more address inside, and the host's route to it."""
        sh("ip", "-n", self.name, "addr", "add", f"{ip}/32", "dev", "eth0")
        sh("ip", "route", "add", f"{ip}/32", "dev", self.name)

    def run(self, *argv, check=True):
        return sh("ip", "netns", "exec", self.name, *argv, check=check)

    def spawn(self, *argv, **more):
        self.processes.append(subprocess.Popen(["ip", "netns", "exec", self.name, *argv], stdin=subprocess.DEVNULL,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more))
        return self.processes[-1]

    def listens(self, port, *kind):
        """Waits until something inside listens there."""
        wait_until(lambda: f":{port} " in self.run("ss", "-Hln", *(kind or ("-t",))))

    def serve_web(self, port=80):
        self.spawn(sys.executable, "-c", WEB, str(port))
        self.listens(port)

    @property
    def forwards(self):
        with open(f"/proc/sys/net/ipv4/conf/{self.name}/forwarding") as f:
            return f.read().strip() == "1"

    def close(self):
        for p in self.processes:
            p.kill()
            p.wait()
        sh("ip", "link", "del", self.name, check=False)  # at once; the namespace takes its time
        sh("ip", "netns", "del", self.name, check=False)


# A name server for a few names, given as JSON: {"a.example.": "203.0.113.2"}. "big.example." has too many addresses for a datagram,
# and for "liar.example." every datagram comes with a wrong id first.
DNS = """
import json, socket, struct, sys, threading
ip, names, log = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
def answer(q, tcp):
    at, labels = 12, []
    while q[at]:
        labels.append(q[at + 1:at + 1 + q[at]].decode()); at += 1 + q[at]
    name, kind, question = '.'.join(labels).lower() + '.', struct.unpack('>H', q[at + 1:at + 3])[0], q[12:at + 5]
    with open(log, 'a') as f: f.write(f"{'tcp' if tcp else 'udp'} {name} {kind}\\n")
    many = 60 if name == 'big.example.' else 1
    found = names.get(name)
    records = [] if not found or kind != 1 else [b'\\xc0\\x0c' + struct.pack('>HHIH', 1, 1, 60, 4) + socket.inet_aton(found)] * many
    cut = many > 1 and not tcp
    flags = 0x8180 | (0x200 if cut else 0) | (0 if found else 3)
    return struct.pack('>2sHHHHH', q[:2], flags, 1, 0 if cut else len(records), 0, 0) + question + (b'' if cut else b''.join(records)), name
def udp():
    s = socket.socket(type=socket.SOCK_DGRAM); s.bind((ip, 53))
    while True:
        q, peer = s.recvfrom(2000)
        a, name = answer(q, False)
        if name == 'liar.example.':
            s.sendto(bytes([a[0] ^ 1]) + a[1:-4] + socket.inet_aton('192.0.9.9'), peer)
        s.sendto(a, peer)
def tcp():
    s = socket.create_server((ip, 53))
    while True:
        c = s.accept()[0]
        with c, c.makefile('rb') as f:
            n = f.read(2)
            if len(n) == 2:
                a, _ = answer(f.read(int.from_bytes(n, 'big')), True)
                c.sendall(len(a).to_bytes(2, 'big') + a)
threading.Thread(target=udp, daemon=True).start()
tcp()
"""


def serve_names(network, names, log):
    """log: a file that gets a line for each question."""
    network.spawn(sys.executable, "-c", DNS, network.ip, json.dumps(names), log)
    network.listens(53)
    network.listens(53, "-u")
