# SPDX-License-Identifier: Apache-2.0
"""A network for a browser alone. Chromium ends its requests whenever an interface or address of its machine comes or goes, which sandboxes
of other tests do all the time: so it gets a network namespace with a loopback and nothing else, and the ports that it may reach on this
machine are passed on, byte for byte.
"""
import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
import threading

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def enter(path):
    with open(path) as ns:
        if libc.setns(ns.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"enter {path}")


class Island:
    def __init__(self):
        self.keeper = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"], stdout=subprocess.PIPE,
                                       text=True, start_new_session=True)
        if self.keeper.stdout.readline() != "up\n":
            raise RuntimeError("no network namespace can be made")
        self.ns = f"/proc/{self.keeper.pid}/ns/net"
        self.dir = tempfile.mkdtemp(prefix="cay-island-")
        self.listeners = {}

    def program(self, path):
        """A program that starts another one there."""
        wrapper = os.path.join(self.dir, os.path.basename(path))
        with open(wrapper, "w") as f:
            f.write(f'#!/bin/sh\necho $$ >{wrapper}.pid\nexec nsenter --net={self.ns} {path} "$@"\n')
        os.chmod(wrapper, 0o755)
        return wrapper

    def pid(self, path):
        """Of the program there that was started last."""
        with open(os.path.join(self.dir, os.path.basename(path) + ".pid")) as f:
            return int(f.read())

    def reach(self, *ports):
        """127.0.0.1:PORT there is 127.0.0.1:PORT here."""
        for port in ports:
            if port in self.listeners:
                continue
            made = []
            # A socket belongs to the namespace of the thread that made it, wherever it is used.
            maker = threading.Thread(target=lambda: (enter(self.ns), made.append(socket.create_server(("127.0.0.1", port), backlog=128))))
            maker.start()
            maker.join()
            self.listeners[port] = made[0]
            threading.Thread(target=self.accept, args=(made[0], port), daemon=True).start()

    def accept(self, listener, port):
        while True:
            try:
                theirs, _ = listener.accept()
            except OSError:
                return  # closed
            try:
                ours = socket.create_connection(("127.0.0.1", port), timeout=30)
            except OSError:
                theirs.close()  # nobody listens here
                continue
            ours.settimeout(None)
            for one, other in ((theirs, ours), (ours, theirs)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=pump, args=(one, other), daemon=True).start()

    def close(self):
        for listener in self.listeners.values():
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.keeper.kill()
        self.keeper.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone already
