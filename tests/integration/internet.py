# SPDX-License-Identifier: Apache-2.0
"""A network namespace that stands in for the Internet, or for any other network beside the host.

It has a link to the host and addresses that are routed there and nowhere else, so that nothing of a test ever leaves the machine.
"""

import subprocess
import sys

from cay_local import wait_until

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


class Network:
    """name: of the namespace and of its link on the host; net: the first three numbers of its /24, of which .1 is the host's."""

    def __init__(self, name, net):
        self.name, self.host, self.ip = name, f"{net}.1", f"{net}.2"
        self.processes = []
        sh("ip", "netns", "add", name)
        try:
            sh("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            sh("ip", "addr", "add", f"{self.host}/24", "dev", name)
            sh("ip", "link", "set", name, "up")
            for args in (("link", "set", "lo", "up"), ("addr", "add", f"{self.ip}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
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
