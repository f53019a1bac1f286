# SPDX-License-Identifier: Apache-2.0
"""`cay serve` in a privileged container: namespaces of its own for control groups, processes, mounts and network.

The container is made by unshare(1) and not by a container engine, so that the test needs none. As in one of theirs, the
processes are in the root of the container's control groups.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import uuid

import pytest

from cay_local import BUILD, Cay, wait_until
from conftest import make_dir, needs_root
from test_node_pods import create, pod

# Says what it finds in lines that begin with a word. Whatever it has started ends with its process namespace.
INSIDE = """
echo up; read go
umount -R /sys; mount -t sysfs sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tmpfs tmpfs /run || exit 1
ip link set lo up
sleep infinity &
"$1/cay" serve --data-dir "$2" --stop-sandboxes > "$2.log" 2>&1 &
server=$!
until [ -e "$2/admin.kubeconfig" ]; do kill -0 $server || exit 1; sleep 0.1; done
"$1/cay" run --kubeconfig "$2/admin.kubeconfig" -- echo sandbox runs || exit 1
echo controllers $(cat /sys/fs/cgroup/cgroup.controllers)
echo enabled $(cat /sys/fs/cgroup/cgroup.subtree_control)
echo root $(cat /sys/fs/cgroup/cgroup.procs)
kill $server; wait $server; echo ended $?
"""


# Takes its time to end once it is asked to.
ASKED = "trap 'sleep 1; touch /out/ended; exit 0' TERM; touch /out/armed; while :; do sleep 0.05; done"


def find_v2():
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(f"{place}/cgroup.controllers") and os.access(place, os.W_OK):
            return place
    pytest.skip("needs a writable cgroup2")


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


@pytest.fixture
def group():
    """A control group as a container has one, with whatever was made in it."""
    needs_root()
    root = find_v2()
    path = os.path.join(root, f"cay-test-{uuid.uuid4().hex[:8]}")
    os.mkdir(path)
    yield root, path
    for below, _, _ in os.walk(path, topdown=False):
        os.rmdir(below)


@pytest.fixture
def place():
    path = make_dir()
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_a_sandbox_runs_in_a_container_with_control_groups_of_its_own(group, place):
    root, path = group
    data = os.path.join(place, "data")
    argv = ["unshare", "--cgroup", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts",
            "bash", "-c", INSIDE, "bash", BUILD, data]
    p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         preexec_fn=lambda: write(f"{path}/cgroup.procs", "0"))  # noqa: PLW1509
    assert p.stdout.readline() == "up\n"
    write(f"{root}/cgroup.procs", str(p.pid))  # unshare itself is outside, as an engine's monitor is
    out, _ = p.communicate("go\n", timeout=300)
    with open(data + ".log") as f:
        assert p.returncode == 0, out + f.read()
    said = {words[0]: words[1:] for words in map(str.split, out.splitlines())}
    assert said["sandbox"] == ["runs"] and said["ended"] == ["0"]
    wanted = {"memory", "cpu", "pids"} & set(said["controllers"])
    assert wanted <= set(said["enabled"])  # which takes a root without processes
    if wanted:
        assert said["root"] == []


def in_overlay(place, *argv):
    """The place is on an overlay, as everything in a container is that is not a volume; and there are no loop devices."""
    script = """mount -t tmpfs tmpfs /mnt && mkdir /mnt/lower /mnt/upper /mnt/work /mnt/dev &&
        cp -a /dev/null /dev/zero /dev/random /dev/urandom /mnt/dev && mount --bind /mnt/dev /dev &&
        mount -t overlay overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work "$0" && exec "$@\""""
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, place, *argv], capture_output=True, text=True, timeout=120)


def test_a_data_directory_on_the_containers_own_root_needs_a_disk_pool_or_a_volume(place):
    needs_root()
    cay, data = os.path.join(BUILD, "cay"), f"{place}/data"
    r = in_overlay(place, "timeout", "--kill-after=30", "60", cay, "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--router-listen", "127.0.0.1:0", "--stop-sandboxes")
    assert r.returncode == 1 and f"{data} is on an overlay file system" in r.stderr and f"-v cay:{data}" in r.stderr, r
    said = in_overlay(place, cay, "doctor", "--data-dir", data, "-o", "json")
    check = next(c for c in json.loads(said.stdout)["checks"] if c["name"] == "data-dir")
    assert check["status"] == "fail" and "-v cay:" in check["message"]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def states_below(pid):
    """One letter for each child: Z is a zombie."""
    found = []
    for child in children(pid):
        with contextlib.suppress(OSError), open(f"/proc/{child}/stat") as f:
            found.append(f.read().rpartition(")")[2].split()[0])
    return found


def test_as_the_first_process_of_a_container_it_collects_what_others_leave_and_ends_sandboxes_in_order(place):
    needs_root()
    out = os.path.join(place, "out")
    os.mkdir(out)
    os.chmod(out, 0o777)  # the sandbox is a stranger there
    cay = Cay(os.path.join(place, "data"), flags=["--host-path", f"{out}:rw"], prefix=["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount"])
    cay.start()
    try:
        first = children(cay.process.pid)[0]
        for _ in range(3):
            subprocess.run(["nsenter", "-t", str(first), "-p", "sh", "-c", "sleep 0.1 & :"], check=True, stdout=subprocess.DEVNULL)
        assert len(children(first)) > 1  # the server, and those that were left
        wait_until(lambda: len(children(first)) == 1)
        assert "Z" not in states_below(first)
        cay.cay("run", "--kubeconfig", cay.kubeconfig, "--", "true")
        create(cay, pod("asked", "sh", "-c", ASKED, container={"volumeMounts": [{"name": "out", "mountPath": "/out"}]},
                        volumes=[{"name": "out", "hostPath": {"path": out}}], terminationGracePeriodSeconds=60))
        wait_until(lambda: os.path.exists(f"{out}/armed"))
        os.kill(first, signal.SIGTERM)
        assert cay.process.wait(120) == 0
        assert os.path.exists(f"{out}/ended")
    finally:
        cay.kill()
