# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: booted by qemu without KVM and without a network, spoken to through its agent (see `agent`)."""

import json
import os
import pathlib
import queue
import re
import socket
import subprocess
import threading
import time
import typing

# One thread for all processors of the machine: with one for each, Linux 6.12 panics now and then in its scheduler (int3), because an
# emulated processor runs code that another is patching.
ACCEL = "tcg,thread=single"
CPUS = os.environ.get("VM_CPUS", "2")
MEMORY_MB = os.environ.get("VM_MEMORY", "4096")
BOOT_S = 600
LOOK_S = 5  # how often a machine that says nothing is looked at
ANSWER_S = 60  # beyond a command's own time limit, which the agent sees to


class MachineFailed(Exception):
    """The machine itself: it did not boot, or answers no more."""


class Done(typing.NamedTuple):
    rc: typing.Union[int, str]  # "timeout" where its time limit ended it
    text: str


class Machine:
    """root: a directory of make-root; tree: an image that is mounted at /root/main; place: a directory for sockets and the console.

    What the machine writes to its root is gone when it ends; a reboot keeps it.
    """

    def __init__(self, root, tree, place):
        self.root, self.tree, self.place = root, tree, place
        self.console = place / "console.log"
        self.process = self.socket = None
        self.boots = queue.Queue()
        self.answers = {}  # id of a command → queue of the agent's messages
        self.last_id = 0

    def start(self):
        self.place.mkdir(parents=True, exist_ok=True)
        agent = self.place / "agent.sock"
        agent.unlink(missing_ok=True)
        self.console.unlink(missing_ok=True)
        command = ["nice", "qemu-system-x86_64", "-accel", ACCEL, "-cpu", "max", "-smp", CPUS, "-m", MEMORY_MB,
                   "-display", "none", "-monitor", "none", "-nic", "none", "-serial", f"file:{self.console}",
                   "-kernel", self.root / "kernel", "-initrd", self.root / "initrd", "-append", "root=/dev/vda rw console=ttyS0",
                   "-drive", f"file={self.root / 'root.img'},format=raw,if=virtio,cache=unsafe,snapshot=on",
                   "-drive", f"file={self.tree},format=raw,if=virtio,cache=unsafe,snapshot=on",
                   "-device", "virtio-rng-pci", "-device", "virtio-serial",
                   "-chardev", f"socket,id=agent,path={agent},server=on,wait=off", "-device", "virtserialport,chardev=agent,name=agent"]
        with open(self.place / "qemu.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            env=dict(os.environ, TMPDIR=str(self.place)))
        self.connect(agent)
        self.wait_boot()

    def connect(self, path):
        """At once, and for good: what the agent says while nobody is connected is lost."""
        end = time.monotonic() + ANSWER_S
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(str(path))
                break
            except OSError as e:
                self.socket.close()
                if self.process.poll() is not None or time.monotonic() > end:
                    raise MachineFailed(f"qemu did not start: {(self.place / 'qemu.log').read_text()[-500:]}") from e
                time.sleep(0.05)
        threading.Thread(target=self.read, args=(self.socket.makefile("r", errors="replace"),), daemon=True).start()

    def read(self, lines):
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # the first bytes after a reboot may be the rest of a line
            if "boot" in message:
                self.boots.put(message["boot"])
            elif message["id"] in self.answers:
                self.answers[message["id"]].put(message)

    def wait_boot(self):
        try:
            return self.boots.get(timeout=BOOT_S)
        except queue.Empty:
            raise MachineFailed(f"not up after {BOOT_S} s: {self.console_text()[-500:]}") from None

    def sh(self, command, timeout, on_text=lambda text: None):
        """Runs a command in bash, in the tree; on_text gets its output as it comes."""
        answers, number = self.ask(command, timeout)
        text = []
        while True:
            message = self.await_answer(answers, timeout + ANSWER_S)
            if "out" in message:
                text.append(message["out"])
                on_text(message["out"])
            else:
                del self.answers[number]
                return Done(message["rc"], "".join(text))

    def await_answer(self, answers, wait_s):
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            try:
                return answers.get(timeout=LOOK_S)
            except queue.Empty:
                if panic := self.panic():
                    raise MachineFailed(f"its kernel ended: {panic}; what led to it is in {self.console}") from None
        raise MachineFailed(f"no answer for {wait_s} s")

    def panic(self):
        """The line of the console with which the kernel gave up. An emulated processor may be what was at fault."""
        found = re.search(r"Kernel panic.*", self.console_text())
        return found and found[0]

    def ask(self, command, timeout):
        self.last_id += 1
        answers = self.answers[self.last_id] = queue.Queue()
        self.socket.sendall((json.dumps({"id": self.last_id, "sh": command, "timeout": timeout}) + "\n").encode())
        return answers, self.last_id

    def reboot(self):
        """Orderly; returns what the console showed of the end and the new start."""
        shown = len(self.console_text())
        self.ask("systemctl reboot --no-block", ANSWER_S)
        self.wait_boot()
        return self.console_text()[shown:]

    def console_text(self):
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)

    def stop(self):
        if self.socket:
            self.socket.close()
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(ANSWER_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def missing():
    """What has to be installed, as a sentence, or None."""
    for program in ("qemu-system-x86_64", "mmdebstrap", "mkfs.ext4"):
        if not any((pathlib.Path(d) / program).exists() for d in [*os.get_exec_path(), "/usr/sbin", "/sbin"]):
            return f"{program} is missing; tools/setup vm"
    return None if os.geteuid() == 0 else "not root: a root of Debian cannot be made"
