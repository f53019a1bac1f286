# SPDX-License-Identifier: Apache-2.0
"""tools/setup installs packages without the services that they bring. apt and dpkg are stand-ins here: nothing is installed."""

import os
import shutil
import signal
import socket
import subprocess

import pytest

from cay_local import ROOT

# "Installs" nginx: notes what a package would be allowed to start, and starts a program if the test wants a package that does not ask.
APT = """#!/bin/sh
case "$*" in *install*) ;; *) exit 0 ;; esac
if [ -e "$CAY_POLICY_RC_D" ]; then sh "$CAY_POLICY_RC_D" nginx start; echo $? >"$STATE/policy"; fi
echo nginx >>"$STATE/installed"
if [ -n "$LISTEN" ]; then
	"$STATE/busybox" httpd -f -p "127.0.0.1:$LISTEN" </dev/null >/dev/null 2>&1 &
	echo $! >"$STATE/pid"
	until grep -q "$(printf ':%04X 00000000:0000 0A' "$LISTEN")" /proc/net/tcp; do kill -0 $! || exit 1; sleep 0.05; done
fi
[ -z "$FAIL" ] || exit 100
"""
QUERY = """#!/bin/sh
case "$*" in
*'\\n'*) sed 's/$/:installed/' "$STATE/installed" ;;
*Package*) sed 's/$/:installed/' "$STATE/installed" | tr '\\n' ' ' ;;
esac
"""
POLICY_CACHE = """#!/bin/sh
shift
for p in "$@"; do printf '%s:\\n  Candidate: 1\\n' "$p"; done
"""


class Machine:
    def __init__(self, path):
        self.path, self.policy = path, path / "policy-rc.d"
        (path / "bin").mkdir()
        (path / "installed").write_text("".join(f"{p}\n" for p in ("busybox-static bubblewrap crun runc runsc podman skopeo umoci haproxy").split()))
        for name, text in {"apt-get": APT, "dpkg-query": QUERY, "apt-cache": POLICY_CACHE, "systemctl": "#!/bin/sh\necho $* >>$STATE/systemctl\n",
                           "dpkg": f"#!/bin/sh\n[ $1 = -L ] && echo {path}/busybox\n"}.items():
            (path / "bin" / name).write_text(text)
            (path / "bin" / name).chmod(0o755)

    def setup(self, **more):
        env = dict(os.environ, PATH=f"{self.path}/bin:{os.environ['PATH']}", STATE=str(self.path), CAY_POLICY_RC_D=str(self.policy),
                   **{"LISTEN": "", "FAIL": "", **more})
        return subprocess.run([os.path.join(ROOT, "tools", "setup"), "bench"], env=env, capture_output=True, text=True, timeout=120)

    def said(self):
        return (self.path / "policy").read_text()


@pytest.fixture
def machine(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: tools/setup installs packages")
    m = Machine(tmp_path)
    yield m
    if (tmp_path / "pid").exists():
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_no_service_may_start_while_packages_are_installed(machine):
    r = machine.setup()
    assert r.returncode == 0, r.stderr
    assert machine.said() == "101\n" and not machine.policy.exists()
    assert "nothing that was installed is listening" in r.stderr


def test_the_policy_is_removed_when_the_installation_fails(machine):
    r = machine.setup(FAIL="1")
    assert r.returncode == 100
    assert machine.said() == "101\n" and not machine.policy.exists()


def test_a_policy_of_the_administrator_stays(machine):
    machine.policy.write_text("exit 104\n")
    assert machine.setup().returncode == 0
    assert machine.said() == "104\n" and machine.policy.read_text() == "exit 104\n"


def test_a_new_program_that_listens_is_named(machine):
    busybox = shutil.which("busybox")
    if not busybox:
        pytest.skip("needs busybox")
    shutil.copy(busybox, machine.path / "busybox")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    r = machine.setup(LISTEN=str(port))
    assert r.returncode == 1 and f"{machine.path}/busybox, which is listening" in r.stderr, r.stderr
    assert not machine.policy.exists()


def test_with_everything_in_place_nothing_is_done(machine):
    (machine.path / "installed").write_text((machine.path / "installed").read_text() + "nginx\n")
    r = machine.setup()
    assert (r.returncode, r.stderr) == (0, "") and not (machine.path / "policy").exists()
