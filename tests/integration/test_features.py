# SPDX-License-Identifier: Apache-2.0
"""What the kernel can do is tried at the start, and without a feature that is not needed sandboxes work all the same."""

import glob
import json
import os
import re
import signal
import subprocess
import tarfile

import pytest

from cay_local import Cay, wait_until
from conftest import needs_root
from kernels import lacks
from test_doctor import ALLOW, EQUAL, ERRNO, LOAD, NR, RETURN, load_filter
from test_images import BUSYBOX, PODS, config, docker, import_file, member, pod, said, tar

SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
NOBODY = "65534"
FSCONFIG, EINVAL, ENOSPC = 431, 22, 28
CLONE, FLAGS, NEW_USER = {"x86_64": 56, "aarch64": 220}[os.uname().machine], 16, 0x10000000 | signal.SIGCHLD
OLD_KERNELS_LACK = ("overlay-append", "idmap-tmpfs", "peer-pidfd")
COMMAND, CREATE = 24, 6  # where fsconfig's command is in struct seccomp_data, and the one that creates
LOOK = """
cat /proc/self/mountinfo; echo ---
stat -c %u /etc/passwd; echo ---
cat /conf/text; echo ---
echo written > /new && cat /new; echo kept > /kept/file; echo ---
tty 2>/dev/null; script -qc 'test -t 0 && echo terminal' /dev/null; echo ---
curl -s -o /dev/null -w '%{http_code}' --unix-socket /run/cay/identity.sock http://cay/identity
"""


def box(cay, name="box"):
    cay.api("POST", "/api/v1/namespaces/default/configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "from a map"}})
    cay.api("POST", "/api/v1/namespaces/default/persistentvolumeclaims", {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}})
    cay.api("POST", SANDBOXES, {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name}, "spec": {"podTemplate": {"spec": {
            "volumes": [{"name": "c", "configMap": {"name": name, "defaultMode": 0o400}}, {"name": "v", "persistentVolumeClaim": {"claimName": name}}],
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"],
                            "volumeMounts": [{"name": "c", "mountPath": "/conf"}, {"name": "v", "mountPath": "/kept"}]}]}}}})
    cay.wait_ready(SANDBOXES, name)


class Inside:
    """What a sandbox sees of itself, and what is on disk of it."""

    def __init__(self, cay, name="box"):
        box(cay, name)
        text = cay.kubectl("exec", name, "--", "sh", "-c", LOOK).stdout
        mounts, owner, conf, new, terminal, identity = (t.strip() for t in text.split("---"))
        lines = [line.split(" ") for line in mounts.splitlines()]
        self.mounts = {f[4]: (f[5].split(","), f[-1]) for f in lines}  # options of the mount, and of the file system
        self.kinds = {f[4]: f[f.index("-") + 1] for f in lines}
        self.root = self.mounts["/"][1]
        self.image_owner, self.conf, self.new, self.identity = owner, conf, new, identity
        self.terminal = "terminal" in terminal
        slots = [os.path.join(cay.pool("roots"), s, "disk/upper/new") for s in os.listdir(cay.pool("roots"))]
        self.new_owner = next(os.stat(s).st_uid for s in slots if os.path.exists(s))
        kept = [os.path.join(cay.pool("volumes"), s, "file") for s in os.listdir(cay.pool("volumes"))]
        self.kept_owner = next(os.stat(s).st_uid for s in kept if os.path.exists(s))

    def mapped(self, at):
        return "idmapped" in self.mounts[at][0]


def lines_about(cay, message):
    return [line for line in cay.log().splitlines() if message in line]


def usual(seen):
    """What every sandbox can do, whatever the kernel lacks."""
    assert seen.conf == "from a map" and seen.new == "written" and seen.terminal


def test_a_kernel_that_has_everything_is_used_so(fresh):
    cay = fresh()
    assert lines_about(cay, "kernel features")
    assert len(lines_about(cay, "the kernel lacks a feature")) == len([f for f in OLD_KERNELS_LACK if lacks(f)])
    seen = Inside(cay)
    usual(seen)
    assert "volatile" in seen.root and ("lowerdir+=" in seen.root) != lacks("overlay-append")
    assert seen.mapped("/conf") and seen.mapped("/kept") and (seen.kinds["/conf"] == "tmpfs") != lacks("idmap-tmpfs")
    assert (seen.image_owner, seen.new_owner, seen.kept_owner, seen.identity) == ("0", 0, 0, "200")


def joined(seen):
    assert "lowerdir+=" not in seen.root and "lowerdir=" in seen.root


def synced(seen):
    assert "volatile" not in seen.root and "upperdir=" in seen.root


def plain_layers(seen):
    assert seen.image_owner == NOBODY and seen.new_owner >= 1 << 20
    assert seen.mapped("/kept") and seen.kept_owner == 0


def plain_disk(seen):
    """The image's layers are on the file system of the data directory, which is another: they are mapped."""
    assert seen.image_owner == "0" and seen.new_owner >= 1 << 20
    assert not seen.mapped("/kept") and seen.kept_owner >= 1 << 20


def plain_memory(seen):
    """What only its owner may read was read: so it has the owner that it would have in a tmpfs."""
    assert seen.mapped("/conf") and seen.kinds["/conf"] == "ext4"


def answered(seen):
    assert seen.identity == "200"


def unanswered(seen):
    assert seen.identity == "403"


@pytest.mark.parametrize("names,proof", [
    ("overlay-append", joined),
    ("idmap-tmpfs", plain_memory),
    pytest.param("overlay-volatile", synced, marks=pytest.mark.long),
    pytest.param("overlay-idmap", plain_layers, marks=pytest.mark.long),
    pytest.param("idmap-disk", plain_disk, marks=pytest.mark.long),
    ("cgroup-kill,peer-pidfd", answered),
    pytest.param("peer-pidfd,unix-diag", unanswered, marks=pytest.mark.long),
    ("overlay-append,overlay-volatile,overlay-idmap,idmap-disk,idmap-tmpfs,cgroup-kill,peer-pidfd", answered),
], ids=lambda v: v if isinstance(v, str) else "")
def test_without_a_feature_sandboxes_work(fresh, names, proof):
    cay = fresh("--without-features", names)
    for name in names.split(","):
        assert any(f'"{name}"' in line or f"feature={name}" in line for line in lines_about(cay, "the kernel lacks a feature")), cay.log()
    seen = Inside(cay)
    usual(seen)
    proof(seen)


def test_a_file_system_in_memory_outlives_the_server_that_made_it(fresh):
    cay = fresh("--without-features", "idmap-tmpfs")
    box(cay)
    cay.kill()
    cay.start()
    assert not lines_about(cay, "no file system in memory")
    cay.api("PATCH", "/api/v1/namespaces/default/configmaps/box", {"data": {"text": "changed"}}, "application/merge-patch+json")
    wait_until(lambda: cay.kubectl("exec", "box", "--", "cat", "/conf/text").stdout == "changed")


def test_an_image_of_many_layers_needs_no_appending(fresh, tmp_path):
    """One option of fsconfig() holds the names of 66."""
    cay = fresh("--without-features", "overlay-append")
    with open(BUSYBOX, "rb") as f:
        base = tar(member("bin", kind=tarfile.DIRTYPE), member("bin/busybox", f.read()), member("etc", kind=tarfile.DIRTYPE))
    layers = [base, *[tar(member(f"layer-{i}", b"")) for i in range(126)]]
    conf = config(*layers, config={"Entrypoint": ["/bin/busybox", "sh", "-c"], "Cmd": ["set -- /layer-*; echo $#"]})
    imported = import_file(tmp_path, docker(layers, conf), "many:1", data_dir=cay.data_dir)
    assert not imported.returncode, imported.stderr
    cay.api("POST", PODS, pod("many", "many:1"))
    assert said(cay, "many") == ["126"]


def test_what_cannot_be_killed_at_once_is_killed_one_by_one(fresh):
    """The end of the instance counts what is left of them."""
    cay = fresh("--without-features", "cgroup-kill")
    box(cay)
    cay.kubectl("exec", "box", "--", "sh", "-c", "for i in 1 2 3 4 5; do setsid sleep infinity </dev/null >/dev/null 2>&1 & done")
    cay.kubectl("delete", "sandbox", "box", "--wait")


def serve(cay, *flags, before=None):
    argv = [os.path.join(cay.build, "cay"), "serve", "--data-dir", cay.data_dir, "--listen", f"127.0.0.1:{cay.port}", "--router-listen",
            f"127.0.0.1:{cay.router_port}", "--stop-sandboxes", *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, preexec_fn=before)  # noqa: PLW1509


@pytest.mark.parametrize("name,fix", [("overlay", "modprobe overlay"), ("pty", "CONFIG_UNIX98_PTYS")])
def test_without_what_is_needed_the_server_does_not_start_and_says_why(fresh, name, fix):
    failed = serve(fresh(start=False), "--without-features", name)
    assert failed.returncode != 0 and fix in failed.stderr


def test_a_feature_that_does_not_exist_is_refused_with_those_that_do(fresh):
    cay = fresh(start=False)
    failed = serve(cay, "--without-features", "overlay-append,warp")
    assert failed.returncode != 0 and '"warp"' in failed.stderr and "idmap-tmpfs" in failed.stderr
    doctor = cay.cay("doctor", "--data-dir", cay.data_dir, "--without-features", "warp", check=False)
    assert doctor.returncode != 0 and "idmap-tmpfs" in doctor.stderr


def late_refusal():
    """From here on overlays take any option, as before Linux 6.5, and are refused when they are created."""
    load_filter([(LOAD, 0, 0, NR), (EQUAL, 0, 3, FSCONFIG), (LOAD, 0, 0, COMMAND), (EQUAL, 0, 1, CREATE), (RETURN, 0, 0, ERRNO | EINVAL),
                 (RETURN, 0, 0, ALLOW)])


@pytest.fixture
def place(tmp_path):
    needs_root()
    return tmp_path


def version2():
    """Where control groups of version 2 are, alone or beside those of version 1."""
    return next(os.path.dirname(p) for p in glob.glob("/sys/fs/cgroup/cgroup.controllers") + glob.glob("/sys/fs/cgroup/*/cgroup.controllers"))


def probe(place, last_id=(1 << 31) - 1, before=None, prefix=()):
    argv = [*prefix, os.path.join(Cay(str(place)).build, "cay-launch"), "--probe", str(place), str(last_id), version2()]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, preexec_fn=before).stdout)  # noqa: PLW1509


def test_an_option_counts_only_if_an_overlay_can_be_created_with_it(place):
    found = probe(place, before=late_refusal)
    assert found["overlay-append"] == "create overlay: Invalid argument" and found["overlay"] is True


def test_a_probe_leaves_nothing(place):
    def groups():
        return [d for d, _, _ in os.walk("/sys/fs/cgroup") if re.search(r"/probe-\d+$", d)]

    with open("/proc/self/mountinfo") as f:
        before = f.read()
    assert probe(place)["pty"] is True
    with open("/proc/self/mountinfo") as f:
        assert f.read() == before
    assert not os.listdir(place) and not groups()


def test_a_file_system_that_maps_no_ids_is_the_only_thing_missing(place):
    usual = probe(place)
    found = probe("/proc")
    # Where no tmpfs maps ids either, there is nothing to try an overlay of mapped layers with.
    for name in ["idmap-disk"] + (["overlay-idmap"] if lacks("idmap-tmpfs") else []):
        usual.pop(name)
        assert found.pop(name) == "map the ids of a mount: Invalid argument"
    assert found == usual


def no_user_namespace():
    """From here on the probe's is refused, as with user.max_user_namespaces=0."""
    load_filter([(LOAD, 0, 0, NR), (EQUAL, 0, 3, CLONE), (LOAD, 0, 0, FLAGS), (EQUAL, 0, 1, NEW_USER), (RETURN, 0, 0, ERRNO | ENOSPC), (RETURN, 0, 0, ALLOW)])


def test_where_nothing_can_be_tried_no_feature_is_called_missing(fresh):
    assert probe("/nope") == {"untried": "open directory /nope: No such file or directory"}
    cay = fresh(start=False)
    failed = serve(cay, before=no_user_namespace)
    assert failed.returncode != 0 and "user.max_user_namespaces" in failed.stderr and "modprobe" not in failed.stderr


FULL = 'mount -t tmpfs -o nr_inodes=1 tmpfs "$0" && exec "$@"'
NEARLY_FULL = 'mount -t tmpfs -o nr_inodes=4 tmpfs "$0" && exec "$@"'
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@pytest.mark.parametrize("mounts", [
    pytest.param(READ_ONLY, id="read-only"),
    *[pytest.param(m, id=i, marks=pytest.mark.skipif(lacks("idmap-tmpfs"), reason="needs a tmpfs that maps ids"))
      for m, i in ((FULL, "full"), (NEARLY_FULL, "nearly-full"))],
])
def test_a_disk_that_cannot_be_written_to_says_nothing_about_the_kernel(place, mounts):
    assert probe(place, prefix=["unshare", "-m", "sh", "-c", mounts, str(place)]) == probe(place)


def test_a_disk_that_fills_up_while_it_is_tried_says_nothing_about_the_kernel(place):
    """An ext4 with so many blocks left that first no directory can be made, then no file, then not what the overlay makes itself."""
    usual = probe(place)
    script = """set -e; truncate -s 16M "$0/img"; mkfs.ext4 -q -m 0 -b 4096 "$0/img"; mkdir "$0/fs"; mount -o loop "$0/img" "$0/fs"
        dd if=/dev/zero of="$0/fs/fill" bs=4096 2>/dev/null || :
        truncate -s -$((BLOCKS * 4096)) "$0/fs/fill"; exec "$@\""""
    for blocks in range(2, 40, 4):
        found = probe(f"{place}/fs", prefix=["env", f"BLOCKS={blocks}", "unshare", "-m", "sh", "-c", script, str(place)])
        assert found == usual, blocks
        subprocess.run(["rm", "-rf", f"{place}/fs", f"{place}/img"], check=True)
