# SPDX-License-Identifier: Apache-2.0
"""Disk is bounded: sandboxes write into a pool of their own, and each part of it has a limit."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

from cay_local import ApiError, wait_until
from test_node_pods import CORE, PODS, create, phase, pod, sh, status_of

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def needs_pool():
    if os.geteuid() != 0:
        pytest.skip("needs root: a loop device is mounted")
    if not shutil.which("mkfs.btrfs", path="/usr/sbin:/sbin:/usr/bin:/bin"):
        pytest.fail("mkfs.btrfs is missing; tools/setup run installs it")


def limits(cay):
    """Path in the pool: (bytes used, limit or None), as the kernel has them."""
    top = cay.pool()
    os.sync()
    text = subprocess.run(["btrfs", "qgroup", "show", "-re", "--raw", top], capture_output=True, text=True, check=True).stdout
    groups = {m[1]: (int(m[2]), None if m[3] == "none" else int(m[3]))
              for m in re.finditer(r"^0/(\d+)\s+(\d+)\s+\d+\s+(\S+)", text, re.M)}
    listed = subprocess.run(["btrfs", "subvolume", "list", top], capture_output=True, text=True, check=True).stdout
    return {m[2]: groups[m[1]] for m in re.finditer(r"^ID (\d+) .* path (.+)$", listed, re.M) if m[1] in groups}


def slot_of(obj, name="main"):
    return status_of(obj, name)["containerID"].removeprefix("cay://")


def claim(cay, name, size, **spec):
    return cay.api("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": dict({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}, **spec)})["metadata"]["uid"]


def clone_of(name):
    return {"kind": "PersistentVolumeClaim", "name": name}


def user_of(name, volume):
    """A Pod that mounts a claim at /v."""
    return pod(name, "sleep", "1000", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
               volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": volume}}])


def fill(cay, name, path, mib):
    """What a program inside is told when it writes that much: (whole MiB that fitted, what went wrong)."""
    script = ("import errno,os\nn=0\nf=os.open('%s',os.O_WRONLY|os.O_CREAT)\ntry:\n"
              "  while n<%d:\n    n+=os.write(f,b'x'*1048576)//1048576\nexcept OSError as e:\n"
              "  print(n,errno.errorcode[e.errno])\nelse:\n  print(n,'none')" % (path, mib))
    n, what = cay.kubectl("exec", name, "--", "python3", "-c", script).stdout.split()
    return int(n), what


@pytest.fixture(scope="module")
def bounded(cay):
    """A Pod with a limit of each kind, and what the kernel says of it."""
    uid = claim(cay, "small", "20Mi")
    mounts = [{"name": "e", "mountPath": "/e"}, {"name": "free", "mountPath": "/free"}, {"name": "v", "mountPath": "/v"}]
    obj = create(cay, pod("bounded", "sleep", "1000", container={
        "resources": {"limits": {"ephemeral-storage": "50Mi"}}, "volumeMounts": mounts}, volumes=[
            {"name": "e", "emptyDir": {"sizeLimit": "30Mi"}}, {"name": "free", "emptyDir": {}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "small"}}]))
    create(cay, pod("neighbour", "sleep", "1000"))
    return obj, uid


def test_the_pool_is_not_the_file_system_of_the_store(cay):
    assert os.stat(cay.pool("volumes")).st_dev != os.stat(os.path.join(cay.data_dir, "store.db")).st_dev
    kinds = {i["type"]: i["owner"] for i in cay.census()[0]}
    assert kinds["loop"] == "instance" and kinds["mount"] == "instance"


def test_limits_are_those_of_the_pod(cay, bounded):
    obj, uid = bounded
    have = limits(cay)
    slot, pod_uid = slot_of(obj), obj["metadata"]["uid"]
    assert have[f"roots/{slot}/disk"][1] == 50 * MIB
    assert have[f"pods/{pod_uid}/e"][1] == 30 * MIB
    assert have[f"pods/{pod_uid}/free"][1] == 50 * MIB
    assert have[f"volumes/{uid}"][1] == 20 * MIB
    other = cay.api("GET", f"{PODS}/neighbour")
    assert have[f"roots/{slot_of(other)}/disk"][1] == 10 << 30


def test_every_subvolume_has_a_limit(cay, bounded):
    assert not [path for path, (_, limit) in limits(cay).items() if limit is None]


def test_the_layer_is_full_at_its_limit(cay, bounded):
    n, what = fill(cay, "bounded", "/big", 100)
    assert what == "EDQUOT" and 40 <= n <= 50


def test_an_empty_dir_is_full_at_its_limit(cay, bounded):
    n, what = fill(cay, "bounded", "/e/big", 100)
    assert what == "EDQUOT" and 25 <= n <= 30


def test_a_volume_is_full_at_its_limit(cay, bounded):
    n, what = fill(cay, "bounded", "/v/big", 100)
    assert what == "EDQUOT" and 15 <= n <= 20


def test_neighbours_go_on_beside_one_that_is_full(cay, bounded):
    fill(cay, "bounded", "/big", 100)
    assert fill(cay, "neighbour", "/fine", 60) == (60, "none")
    assert cay.api("POST", f"{CORE}/configmaps", {"metadata": {"generateName": "still-"}, "data": {"a": "b"}})
    assert sh(cay, "bounded", "echo it still runs").stdout == "it still runs\n"


def test_a_million_empty_files_reach_the_limit_too(cay):
    obj = create(cay, pod("bomb", "sleep", "1000", container={"resources": {"limits": {"ephemeral-storage": "16Mi"}}}))
    script = ("import errno\nn=0\ntry:\n  while True:\n    open('/f%d'%n,'x').close(); n+=1\n"
              "except OSError as e:\n  print(n,errno.errorcode[e.errno])")
    n, what = cay.kubectl("exec", "bomb", "--", "python3", "-c", script).stdout.split()
    assert what == "EDQUOT" and 1000 < int(n) < 200000
    cay.kubectl("delete", "pod", "bomb")
    wait_until(lambda: not os.path.exists(cay.pool("roots", slot_of(obj))))


def test_a_full_pod_can_be_removed_and_nothing_of_it_stays(cay):
    obj = create(cay, pod("full", "sleep", "1000", container={
        "resources": {"limits": {"ephemeral-storage": "20Mi"}}, "volumeMounts": [{"name": "e", "mountPath": "/e"}]},
        volumes=[{"name": "e", "emptyDir": {"sizeLimit": "20Mi"}}]))
    assert fill(cay, "full", "/big", 40)[1] == fill(cay, "full", "/e/big", 40)[1] == "EDQUOT"
    cay.kubectl("delete", "pod", "full")
    wait_until(lambda: not os.path.exists(cay.pool("roots", slot_of(obj))))
    wait_until(lambda: not os.path.exists(cay.pool("pods", obj["metadata"]["uid"])))


SUBVOL_CREATE, SNAP_CREATE_V2 = 0x5000940E, 0x50009417
FICLONE, FICLONERANGE = 0x40049409, 0x4020940D


def test_a_sandbox_makes_no_subvolumes_and_no_shared_copies(cay, bounded):
    """A subvolume inside a volume would have a quota group of its own, without a limit; and copies that share blocks
    are counted too late."""
    script = ("import errno,fcntl,os\nfd=os.open('/v',os.O_RDONLY)\nfor nr in (%d,%d,%d,%d):\n  try:\n"
              "    fcntl.ioctl(fd,nr,bytearray(bytes(8)+b'sub'+bytes(4085)))\n    print('made')\n  except OSError as e:\n"
              "    print(errno.errorcode[e.errno])" % (SUBVOL_CREATE, SNAP_CREATE_V2, FICLONE, FICLONERANGE))
    assert cay.kubectl("exec", "bounded", "--", "python3", "-c", script).stdout.split() == 4 * ["ENOSYS"]
    assert not [path for path in limits(cay) if path.endswith("/sub")]


def test_a_plain_pool_refuses_limits_that_nothing_enforces(fresh):
    cay = fresh("--disk-pool", "none")
    assert "DISK IS NOT LIMITED" in cay.log() and not os.path.exists(os.path.join(cay.data_dir, "pool.img"))
    claim(cay, "c", "1Gi")
    bodies = {
        "spec.volumes[0].emptyDir.sizeLimit": pod("a", volumes=[{"name": "e", "emptyDir": {"sizeLimit": "1Mi"}}]),
        "spec.volumes[0].persistentVolumeClaim": pod("b", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        "spec.containers[0].resources.limits.ephemeral-storage": pod("c", container={
            "resources": {"limits": {"ephemeral-storage": "1Gi"}}}),
    }
    for path, body in bodies.items():
        obj = create(cay, body, phase("Failed"))
        assert path in obj["status"]["message"] and "--allow-unenforced-disk-limits" in obj["status"]["message"]
    create(cay, pod("d", "sleep", "1000", volumes=[{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                                                   {"name": "e", "emptyDir": {}}]))


def test_a_plain_pool_can_be_told_to_take_limits(fresh):
    cay = fresh("--disk-pool", "none", "--allow-unenforced-disk-limits")
    create(cay, pod("a", "sleep", "1000", volumes=[{"name": "e", "emptyDir": {"sizeLimit": "1Mi"}}]))


def test_a_pool_with_volumes_in_it_is_not_passed_over(fresh):
    cay = fresh()
    cay.stop()
    cay.flags += ["--disk-pool", "none"]
    with pytest.raises(RuntimeError, match="pool.img"):
        cay.start()


def test_an_operators_btrfs_is_used(fresh, tmp_path):
    """A file system that exists already, with quotas off."""
    image, at = str(tmp_path / "img"), str(tmp_path / "at")
    os.mkdir(at)
    with open(image, "wb") as f:
        f.truncate(512 * MIB)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    # Shared, so that the end of the mount reaches the namespaces that sandboxes have made meanwhile.
    subprocess.run(["mount", "--bind", "--make-shared", tmp_path, tmp_path], check=True)
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    try:
        cay = fresh("--disk-pool", at)
        obj = create(cay, pod("a", "sleep", "1000", container={"resources": {"limits": {"ephemeral-storage": "20Mi"}}}))
        assert cay.pool().startswith(at)
        assert fill(cay, "a", "/big", 40)[1] == "EDQUOT"
        cay.kubectl("delete", "pod", "a")
        wait_until(lambda: not os.path.exists(cay.pool("roots", slot_of(obj))))
        cay.stop()
    finally:
        subprocess.run(["umount", at], check=True)
        # The loop device lets go of the image when the last namespace that had the mount is gone.
        wait_until(lambda: subprocess.run(["umount", tmp_path], capture_output=True).returncode == 0)


def mounts_of(cay):
    with open("/proc/self/mountinfo") as f:
        return [line.split()[4] for line in f if line.split()[4].startswith(cay.data_dir)]


def test_the_pool_outlives_kill_9_and_goes_with_a_clean_stop(fresh):
    cay = fresh()
    uid = claim(cay, "v", "20Mi")
    obj = create(cay, pod("a", "sleep", "1000", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                          volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]))
    sh(cay, "a", "echo kept > /v/f")
    cay.kill()
    assert mounts_of(cay) == [os.path.join(cay.data_dir, "pool"), cay.pool()]
    cay.start()
    assert sh(cay, "a", "cat /v/f").stdout == "kept\n"
    assert slot_of(cay.api("GET", f"{PODS}/a")) == slot_of(obj)
    cay.stop()
    assert mounts_of(cay) == [] and "loop" not in {i["type"] for i in cay.census()[0]}
    cay.start()
    cay.wait(PODS, "a", lambda o: status_of(o).get("ready"))
    assert sh(cay, "a", "cat /v/f").stdout == "kept\n"
    assert limits(cay)[f"volumes/{uid}"][1] == 20 * MIB


def test_a_start_that_was_killed_while_it_made_the_pool_begins_anew(fresh):
    """Every moment of it: the file appears under its name only when it is whole."""
    for delay in (0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08):
        cay = fresh(start=False)
        image = os.path.join(cay.data_dir, "pool.img")
        os.makedirs(cay.data_dir, exist_ok=True)
        process = cay.spawn()
        wait_until(lambda: os.path.exists(image + ".new") or os.path.exists(image))
        threading.Event().wait(delay)
        process.kill()
        process.wait()
        cay.start()
        assert not os.path.exists(image + ".new")
        wait_until(lambda: limits(cay))
        cay.stop()


@pytest.mark.parametrize("kib", [64, 256, 1024])
def test_a_log_stays_within_its_limit_and_its_end_is_there(fresh, kib):
    cay = fresh("--log-max-size", f"{kib}Ki")
    script = "i=0; while [ $i -lt 60000 ]; do echo $i-%s; i=$((i+1)); done; echo the end; sleep 1000" % ("x" * 100)
    obj = create(cay, pod("chatty", "sh", "-c", script))
    wait_until(lambda: cay.kubectl("logs", "chatty", "--tail=1").stdout == "the end\n")
    log = os.stat(cay.pool("roots", slot_of(obj), "logs", "log"))
    assert log.st_size > 5 * MIB and log.st_blocks * 512 <= (kib + 64) << 10
    used, limit = limits(cay)[f"roots/{slot_of(obj)}/logs"]
    assert limit == (2 * kib << 10) + MIB and used <= limit
    lines = cay.kubectl("logs", "chatty").stdout.splitlines()
    numbers = [int(line.split("-")[0]) for line in lines[:-1]]
    assert numbers == list(range(numbers[0], 60000)) and len(numbers) > kib


def test_a_full_layer_does_not_stop_the_log(cay):
    create(cay, pod("full-log", "sh", "-c", "head -c 100M /dev/zero > /big; echo it is full; sleep 1000", container={
        "resources": {"limits": {"ephemeral-storage": "20Mi"}}}))
    wait_until(lambda: "it is full" in cay.kubectl("logs", "full-log").stdout)


def test_a_volume_grows_with_its_claim_while_a_pod_uses_it(cay):
    uid = claim(cay, "grows", "16Mi")
    create(cay, pod("grower", "sleep", "1000", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "grows"}}]))
    assert fill(cay, "grower", "/v/a", 30)[1] == "EDQUOT"
    cay.api("PATCH", f"{CORE}/persistentvolumeclaims/grows", {"spec": {"resources": {"requests": {"storage": "64Mi"}}}},
            content_type="application/merge-patch+json")
    cay.wait(f"{CORE}/persistentvolumeclaims", "grows", lambda o: o["status"]["capacity"]["storage"] == "64Mi")
    assert limits(cay)[f"volumes/{uid}"][1] == 64 * MIB
    assert fill(cay, "grower", "/v/b", 30) == (30, "none")


@pytest.mark.parametrize("size,spec,field", [
    ("1", {}, "spec.resources.requests.storage"), ("1023Ki", {}, "spec.resources.requests.storage"),
    ("65Ti", {}, "spec.resources.requests.storage"), ("8Ei", {}, "spec.resources.requests.storage"),
    ("1Mi", {"volumeMode": "Block"}, "spec.volumeMode"),
    ("1Mi", {"selector": {"matchLabels": {"a b": "c"}}}, "spec.selector.matchLabels"),
    ("1Mi", {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, "spec.accessModes"),
    ("1Mi", {"dataSource": clone_of("x"), "dataSourceRef": clone_of("y")}, "spec"),
    ("1Mi", {"dataSource": {"kind": "VolumeSnapshot", "apiGroup": "snapshot.storage.k8s.io", "name": "x"}}, "spec.dataSource.kind"),
    ("1Mi", {"dataSourceRef": dict(clone_of("x"), namespace="other")}, "spec.dataSourceRef.namespace"),
    ("1Mi", {}, None), ("64Ti", {}, None),
])
def test_a_claim_for_what_nobody_can_give_is_refused_by_its_field(cay, size, spec, field):
    body = {"metadata": {"generateName": "c-"}, "spec": dict({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}, **spec)}
    path = f"{CORE}/persistentvolumeclaims?dryRun=All"
    if not field:
        cay.api("POST", path, body)
        return
    with pytest.raises(ApiError) as refused:
        cay.api("POST", path, body)
    assert refused.value.code == 422
    assert [c["field"] for c in refused.value.status["details"]["causes"]] == [field]


def test_a_clone_has_what_its_source_had_and_goes_its_own_way(cay):
    claim(cay, "origin", "32Mi")
    create(cay, user_of("writer", "origin"))
    sh(cay, "writer", "head -c 10M /dev/urandom > /v/data; chown 7:8 /v/data; mkdir /v/d; ln -s ../data /v/d/link; echo 1 > /v/n")
    sums = sh(cay, "writer", "cd /v; sha256sum data; stat -c %u:%g data; readlink d/link").stdout
    uid = claim(cay, "copy", "48Mi", dataSource=clone_of("origin"))
    cay.wait(f"{CORE}/persistentvolumeclaims", "copy", lambda o: o["status"]["phase"] == "Bound")
    create(cay, user_of("reader", "copy"))
    assert sh(cay, "reader", "cd /v; sha256sum data; stat -c %u:%g data; readlink d/link").stdout == sums
    used, limit = limits(cay)[f"volumes/{uid}"]
    assert limit == 48 * MIB and used > 10 * MIB  # what is shared counts, as if it had been copied
    sh(cay, "reader", "echo 2 > /v/n")
    assert fill(cay, "reader", "/v/more", 64)[1] == "EDQUOT"
    assert sh(cay, "writer", "cat /v/n; ls /v").stdout == "1\nd\ndata\nn\n"
    cay.api("DELETE", f"{PODS}/writer")
    cay.api("DELETE", f"{CORE}/persistentvolumeclaims/origin")
    cay.wait(f"{CORE}/persistentvolumeclaims", "origin", lambda o: o is None)
    assert sh(cay, "reader", "cd /v; sha256sum data; stat -c %u:%g data; readlink d/link").stdout == sums


def test_half_a_clone_is_gone_after_the_next_start(fresh):
    cay = fresh()
    claim(cay, "origin", "32Mi")
    create(cay, user_of("writer", "origin"))
    half = cay.pool("volumes", ".clone-half")
    cay.kill()
    subprocess.run(["btrfs", "subvolume", "create", half], check=True, stdout=subprocess.DEVNULL)
    cay.start()
    assert not os.path.exists(half)


def message(obj):
    return status_of(obj or {}).get("state", {}).get("waiting", {}).get("message", "")


def test_a_clone_waits_for_its_source_and_says_so(cay):
    claim(cay, "early", "16Mi", dataSource=clone_of("late"))
    create(cay, user_of("patient", "early"), lambda o: '"late", is not there' in message(o))
    claim(cay, "late", "32Mi")
    wait_until(lambda: "spec.resources.requests.storage: 16777216 bytes are less" in message(cay.api("GET", f"{PODS}/patient")))


def test_a_plain_pool_clones_nothing_and_says_why(fresh):
    cay = fresh("--disk-pool", "none", "--allow-unenforced-disk-limits")
    claim(cay, "origin", "16Mi")
    claim(cay, "copy", "16Mi", dataSource=clone_of("origin"))
    create(cay, user_of("reader", "copy"), lambda o: "volumes are cloned in a disk pool on btrfs only" in message(o))
    assert cay.api("GET", f"{CORE}/persistentvolumeclaims/copy")["status"]["phase"] == "Pending"


FILL_OLD = """
set -e
cd /v; mkdir d; echo one > d/one; ln d/one d/two; ln -s one d/link
truncate -s 100M sparse; echo end >> sparse; head -c %d /dev/urandom > data
python3 -c 'import os; os.setxattr("d/one", "user.x", b"y")'
"""


def fingerprint(top):
    """Everything that a copy must keep."""
    seen, first = {}, {}
    for where, dirs, files in os.walk(top):
        for name in [".", *dirs, *files]:
            path = os.path.join(where, name)
            st = os.lstat(path)
            kind = os.readlink(path) if os.path.islink(path) else open(path, "rb").read() if os.path.isfile(path) else None
            xattrs = {n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False)}
            same = first.setdefault(st.st_ino, path) if st.st_nlink > 1 and not os.path.isdir(path) else path
            mtime = st.st_mtime_ns if os.path.isfile(path) else 0
            seen[os.path.relpath(path, top)] = (st.st_mode, st.st_uid, st.st_gid, mtime, kind, xattrs, os.path.relpath(same, top))
    return seen


def old_instance(fresh, mib=1):
    """One whose volume is where volumes were before there was a pool, with a Pod that runs."""
    cay = fresh("--disk-pool", "none", "--allow-unenforced-disk-limits")
    uid = claim(cay, "old", "400Mi")
    create(cay, pod("a", "sleep", "1000", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "e", "mountPath": "/e"}]},
                    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "old"}}, {"name": "e", "emptyDir": {}}]))
    sh(cay, "a", FILL_OLD % (mib * MIB))
    sh(cay, "a", "echo here > /e/f")
    cay.flags = ["--stop-sandboxes"]
    old = os.path.join(cay.data_dir, "volumes", uid)
    os.chown(os.path.join(old, "d/one"), 12, 34)
    os.chmod(os.path.join(old, "d/one"), 0o6755)
    return cay, uid, old


def test_volumes_move_into_the_pool_by_themselves(fresh):
    cay, uid, old = old_instance(fresh)
    cay.stop()
    before = fingerprint(old)
    assert before["d/two"][6] == "d/one" or before["d/one"][6] == "d/two"
    cay.start()
    wait_until(lambda: not os.path.exists(old))
    assert fingerprint(cay.pool("volumes", uid)) == before
    assert os.stat(cay.pool("volumes", uid, "sparse")).st_blocks * 512 < MIB
    assert limits(cay)[f"volumes/{uid}"][1] == 400 * MIB
    wait_until(lambda: sh(cay, "a", "cat /v/d/one", check=False).stdout == "one\n")


def test_a_pod_that_runs_keeps_its_old_directories_until_it_ends(fresh):
    cay, uid, old = old_instance(fresh)
    cay.kill()
    cay.start()
    assert sh(cay, "a", "cat /v/d/one /e/f; echo more > /v/more").stdout == "one\nhere\n"
    assert os.path.exists(os.path.join(old, "more"))
    cay.kubectl("delete", "pod", "a")
    wait_until(lambda: not os.path.exists(old))
    assert os.path.exists(cay.pool("volumes", uid, "more"))
    assert not [i for i in cay.census()[0] if i["name"].startswith((os.path.join(cay.data_dir, "roots"), os.path.join(cay.data_dir, "pods")))]


def test_kill_9_while_a_volume_moves_loses_nothing(fresh):
    cay, uid, old = old_instance(fresh, mib=64)
    cay.stop()
    before = fingerprint(old)
    for delay in (0.02, 0.1, 0.2, 0.4, 0.8):
        cay.start()
        threading.Event().wait(delay)
        cay.kill()
    cay.start()
    wait_until(lambda: not os.path.exists(old))
    assert fingerprint(cay.pool("volumes", uid)) == before
    assert not [n for n in os.listdir(cay.pool("volumes")) if n.startswith(".")]


def test_a_volume_that_cannot_move_is_not_tried_without_a_pause(fresh):
    cay, uid, old = old_instance(fresh, mib=300)
    cay.stop()
    cay.flags = ["--stop-sandboxes", "--disk-pool-size", "260Mi"]
    cay.start()
    wait_until(lambda: "volume stays where it was" in cay.log())
    create(cay, pod("b", "sleep", "1000"))
    assert cay.log().count("volume stays where it was") < 5 and os.path.exists(old)
    wait_until(lambda: not os.listdir(cay.pool("volumes")))  # the part that was copied is gone


def copier(cay):
    """The process that copies a volume into the pool, stopped before it is done."""
    found = []

    def look():
        for task in os.listdir(f"/proc/{cay.process.pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{cay.process.pid}/task/{task}/children") as f:
                for pid in map(int, f.read().split()):
                    with open(f"/proc/{pid}/comm") as comm:
                        if comm.read() == "cp\n":
                            os.kill(pid, signal.SIGSTOP)
                            found.append(pid)
        return found

    cay.start()
    wait_until(look)
    return found[0]


def test_a_claim_that_is_deleted_while_its_volume_moves_leaves_nothing(fresh):
    cay, uid, old = old_instance(fresh, mib=300)
    cay.kubectl("delete", "pod", "a")
    cay.stop()
    pid = copier(cay)
    try:
        other = claim(cay, "other", "1Mi")
        os.mkdir(cay.pool("volumes", other))
        cay.kubectl("delete", "pvc", "old", "other")
        wait_until(lambda: not os.path.exists(cay.pool("volumes", other)))  # the removal of "old" would have begun before
        assert os.path.exists(os.path.join(old, "d/one"))
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not os.path.exists(old) and not os.listdir(cay.pool("volumes")))
    assert "volume stays where it was" not in cay.log()


def doctor(cay, *more):
    r = cay.cay("doctor", "--data-dir", cay.data_dir, "-o", "json", *more, check=False)
    return r.returncode, {c["name"]: c for c in json.loads(r.stdout)["checks"]}


def test_the_doctor_tells_whether_limits_are_enforced(fresh):
    cay = fresh(start=False)
    code, checks = doctor(cay)
    assert code == 0 and checks["disk-pool"]["status"] == checks["seccomp"]["status"] == "ok"
    cay.start()
    code, checks = doctor(cay)
    assert code == 0 and "are enforced" in checks["disk-pool"]["message"]
    plain = fresh("--disk-pool", "none")
    code, checks = doctor(plain)
    assert code == 0 and checks["disk-pool"]["status"] == "warn" and "--disk-pool" in checks["disk-pool"]["fix"]
    assert all(c["status"] == "ok" or c["fix"] for c in checks.values())


def test_a_full_pool_can_be_emptied_and_serves_again(fresh):
    """Limits may add up to more than the pool. Removal needs metadata too, and must work when there is no space left."""
    cay = fresh("--disk-pool-size", "300Mi", "--sandbox-disk", "1Gi")
    slots = {name: slot_of(create(cay, pod(name, "sleep", "1000"))) for name in ("one", "two")}
    assert fill(cay, "one", "/big", 400)[1] == "ENOSPC"
    script = ("import errno\nn=0\ntry:\n  while n<300000:\n    open('/f%d'%n,'x').close(); n+=1\n  print('none')\n"
              "except OSError as e:\n  print(errno.errorcode[e.errno])")
    assert cay.kubectl("exec", "two", "--", "python3", "-c", script).stdout.strip() == "ENOSPC"
    cay.wait("/api/v1/nodes", cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"], lambda n: any(
        c["type"] == "DiskPressure" and c["status"] == "True" for c in n["status"]["conditions"]), timeout=90)
    assert cay.api("POST", f"{CORE}/configmaps", {"metadata": {"name": "still"}, "data": {"a": "b"}})
    cay.kubectl("delete", "pod", "one")
    wait_until(lambda: not os.path.exists(cay.pool("roots", slots["one"])))
    wait_until(lambda: sh(cay, "two", "echo more > /more && cat /more", check=False).stdout == "more\n")
    create(cay, pod("three", "sleep", "1000"))
    assert fill(cay, "three", "/big", 30) == (30, "none")


def test_a_pool_that_is_full_keeps_no_server_from_starting(fresh):
    """Whoever makes room in it, and whoever is asked to, is in the server."""
    cay = fresh("--disk-pool-size", "300Mi", "--sandbox-disk", "1Gi", "--pressure-interval", "600")
    slot = slot_of(create(cay, pod("one", "sleep", "1000")))
    assert fill(cay, "one", "/big", 400)[1] == "ENOSPC"
    script = ("n=0\ntry:\n  while n<300000:\n    open('/f%d'%n,'x').close(); n+=1\nexcept OSError: pass")
    cay.kubectl("exec", "one", "--", "python3", "-c", script)
    cay.kill()
    cay.start()
    cay.kubectl("delete", "pod", "one")
    wait_until(lambda: not os.path.exists(cay.pool("roots", slot)))
    create(cay, pod("two", "sleep", "1000"))


def with_empty_dir(name, **more):
    return pod(name, "sleep", "1000", container=dict({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, **more),
               volumes=[{"name": "v", "emptyDir": {}}])


@pytest.mark.parametrize("path, says", [("/big", "Container main was using"), ("/v/big", "The Pod's emptyDirs and older logs had")])
def test_a_pool_that_stays_full_evicts_the_pod_that_fills_it(fresh, path, says):
    """Whether by its layer or by an emptyDir. The modest one has more in its layer than one that fills an emptyDir."""
    cay = fresh("--disk-pool-size", "300Mi", "--sandbox-disk", "1Gi", "--usage-interval", "1", "--pressure-interval", "1")
    for name in ("modest", "greedy"):
        create(cay, with_empty_dir(name))
    fill(cay, "modest", "/little", 20)
    assert fill(cay, "greedy", path, 400)[1] == "ENOSPC"
    status = cay.wait(PODS, "greedy", lambda o: o["status"]["phase"] == "Failed", timeout=180)["status"]
    assert status["reason"] == "Evicted" and "ephemeral-storage" in status["message"] and says in status["message"]
    node = cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    cay.wait("/api/v1/nodes", node, lambda n: all(c["status"] == "False" for c in n["status"]["conditions"] if c["type"].endswith("Pressure")), timeout=180)
    assert cay.api("GET", f"{PODS}/modest")["status"]["phase"] == "Running"
    assert [e for e in cay.api("GET", f"{CORE}/events")["items"] if e["reason"] == "Evicted" and e["involvedObject"]["name"] == "greedy"]


def test_a_pod_that_keeps_to_its_request_is_not_evicted_for_a_full_pool(fresh):
    """The one that requested what it has stays, although it has more; emptyDirs count against the request."""
    cay = fresh("--disk-pool-size", "300Mi", "--sandbox-disk", "1Gi", "--usage-interval", "1", "--pressure-interval", "1")
    asks = {"resources": {"requests": {"ephemeral-storage": "200Mi"}}}
    create(cay, with_empty_dir("asked", **asks))
    create(cay, with_empty_dir("did-not"))
    assert fill(cay, "asked", "/v/big", 150) == (150, "none")
    assert fill(cay, "did-not", "/v/big", 400)[1] == "ENOSPC"
    status = cay.wait(PODS, "did-not", lambda o: o["status"]["phase"] == "Failed", timeout=180)["status"]
    assert status["reason"] == "Evicted"
    assert cay.api("GET", f"{PODS}/asked")["status"]["phase"] == "Running"


def test_a_directory_that_is_used_again_has_nothing_but_its_new_limit(fresh):
    """The parts of a slot that left little behind are emptied and taken by another: its own limit, and no trace."""
    cay = fresh()
    seen, used_again = set(), 0
    for n in range(64):  # slots are made ahead: it takes a few until one has the parts of another
        name, resources = f"p{n}", {} if n % 2 else {"resources": {"limits": {"ephemeral-storage": "30Mi"}}}
        obj = create(cay, pod(name, "sleep", "1000", container=resources))
        path = cay.pool("roots", slot_of(obj), "disk")
        subvolume = subprocess.run(["btrfs", "inspect-internal", "rootid", path], capture_output=True, text=True, check=True).stdout
        if subvolume in seen:
            used_again += 1
            assert limits(cay)[f"roots/{slot_of(obj)}/disk"][1] == (10 << 30 if n % 2 else 30 * MIB)
        seen.add(subvolume)
        assert "left" not in sh(cay, name, "ls -A / /root /tmp /etc").stdout + cay.kubectl("logs", name).stdout
        sh(cay, name, "echo x | tee /left /root/left /tmp/left /etc/left; echo left > /proc/1/fd/1; chmod 777 /etc")
        cay.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        wait_until(lambda: not os.path.exists(os.path.dirname(path)))
        if used_again > 3:
            break
    assert used_again > 3
    create(cay, pod("last", "sleep", "1000"))
    sh(cay, "last", "echo x | tee /left /etc/left")
    path = cay.pool("roots", slot_of(cay.api("GET", f"{PODS}/last")))
    cay.api("DELETE", f"{PODS}/last?gracePeriodSeconds=0")
    cay.kill()  # maybe while it is emptied
    cay.start()
    wait_until(lambda: not os.path.exists(path) and not cay.census()[1])
    for n in range(3):
        create(cay, pod(f"q{n}", "sleep", "1000"))
        assert "left" not in sh(cay, f"q{n}", "ls -A / /etc").stdout
