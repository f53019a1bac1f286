# SPDX-License-Identifier: Apache-2.0
"""hostPath: nothing of the host is mounted that the operator has not named, and a sandbox is a stranger in what it is given."""

import os
import shutil
import socket
import stat
import subprocess
import tempfile

import pytest

from cay_local import ApiError, Cay
from conftest import make_dir, needs_root
from test_node_pods import PODS, create, phase, pod, sh, status_of


def put(path, text="", mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


@pytest.fixture(scope="module")
def host():
    """Directories of the host: shared (read-only), out (writable), keep (read-only) and secret, which is not allowed."""
    needs_root()
    top = tempfile.mkdtemp(prefix="cay-test-host-", dir="/var/tmp")
    os.chmod(top, 0o755)
    for name, mode in (("shared", 0o755), ("out", 0o1777), ("keep", 0o777), ("out/private", 0o700), ("secret", 0o755), ("shared-too", 0o755), ("shared/proc", 0o755)):
        os.mkdir(f"{top}/{name}")
        os.chmod(f"{top}/{name}", mode)
    put(f"{top}/shared/data", "for all\n")
    put(f"{top}/shared/open", mode=0o666)
    put(f"{top}/shared/key", "for root\n", 0o600)
    put(f"{top}/secret/file", "secret\n")
    put(f"{top}/keep/file", "kept\n", 0o666)
    os.symlink("../secret", f"{top}/out/to-secret")
    os.symlink("../keep", f"{top}/out/to-keep")
    put(f"{top}/out/private/file", "private\n", 0o666)
    os.mkfifo(f"{top}/shared/fifo")
    os.mknod(f"{top}/shared/device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{top}/shared/socket")
    subprocess.run(["mount", "-t", "proc", "proc", f"{top}/shared/proc"], check=True)
    yield top
    subprocess.run(["umount", "-l", f"{top}/shared/proc"], check=True)
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def cay(host, module_instance):
    return module_instance("--host-path", f"{host}/shared:ro,{host}/out:rw,{host}/keep:ro")


def start_error(obj):
    """What the container could not be started for."""
    status = status_of(obj or {})
    ends = [status.get(s, {}).get("terminated", {}) for s in ("state", "lastState")]
    return next((e.get("message", "") for e in ends if e.get("reason") == "StartError"), "")


def mounting(name, path, kind=None, read_only=False, **mount):
    source = {"path": path, **({"type": kind} if kind is not None else {})}
    return pod(name, "sleep", "1000", container={"volumeMounts": [dict({"name": "h", "mountPath": "/h", "readOnly": read_only}, **mount)]},
               volumes=[{"name": "h", "hostPath": source}])


@pytest.mark.parametrize("path,read_only,kind,field", [
    ("/", True, None, "spec.volumes[0].hostPath.path: / is not allowed"),
    pytest.param("/etc", True, None, "spec.volumes[0].hostPath.path: /etc is not allowed", id="etc"),
    ("{data}", True, None, "spec.volumes[0].hostPath.path"),
    ("{host}", True, None, "spec.volumes[0].hostPath.path"),
    ("{host}/secret", True, None, "spec.volumes[0].hostPath.path"),
    ("{host}/shared-too", True, None, "spec.volumes[0].hostPath.path"),
    ("shared", True, None, "spec.volumes[0].hostPath.path"),
    ("{host}/shared", False, None, "spec.containers[0].volumeMounts[0].readOnly: must be true"),
    ("{host}/keep", False, None, "spec.containers[0].volumeMounts[0].readOnly: must be true"),
    ("{host}/shared/new", True, "DirectoryOrCreate", "spec.volumes[0].hostPath.type: DirectoryOrCreate: nothing is created"),
    ("{host}/shared/socket", True, "Socket", "spec.volumes[0].hostPath.type"),
    ("{host}/shared/device", True, "CharDevice", "spec.volumes[0].hostPath.type"),
])
def test_what_the_operator_has_not_allowed_is_refused_by_its_field(cay, host, path, read_only, kind, field):
    body = mounting("no", path.format(host=host, data=cay.data_dir), kind, read_only)
    obj = create(cay, body, lambda o: phase("Failed")(o) or status_of(o).get("ready"))
    assert obj["status"].get("reason") == "UnsupportedField" and field in obj["status"]["message"]
    if "is not allowed" in obj["status"]["message"]:
        assert "--host-path" in obj["status"]["message"]
    cay.api("DELETE", f"{PODS}/no")
    cay.wait(PODS, "no", lambda o: o is None)


def test_a_path_that_climbs_is_refused_by_the_api(cay, host):
    with pytest.raises(ApiError) as e:
        cay.api("POST", PODS, mounting("no", f"{host}/shared/../secret", None, True))
    assert e.value.code == 422 and "spec.volumes[0].hostPath.path" in e.value.status["message"]


@pytest.mark.parametrize("path,kind,why", [
    pytest.param("out/to-secret", None, "leads over a symbolic link", id="link"), ("out/to-secret/file", None, "leads over a symbolic link"),
    ("out/to-keep", None, "leads over a symbolic link"), ("out/to-secret", "DirectoryOrCreate", "leads over a symbolic link"),
    ("shared/fifo", None, "is not a directory or regular file"), ("shared/socket", "", "is not a directory or regular file"),
    ("shared/device", None, "is not a directory or regular file"), ("shared/proc", None, "leads to another file system"),
    ("shared/proc/1", None, "leads to another file system"),
    ("out/private/file", None, "Permission denied"), ("out/private/made", "DirectoryOrCreate", "Permission denied"),
    ("shared/data", "Directory", "is not a directory"), ("shared", "File", "is not a regular file"),
    ("shared/absent", "Directory", "No such file or directory"), ("out/a/b", "DirectoryOrCreate", "No such file or directory"),
])
def test_what_is_no_file_or_directory_of_the_allowed_ones_is_not_mounted(cay, host, path, kind, why):
    body = mounting("odd", f"{host}/{path}", kind, read_only=path.startswith("shared"))
    obj = create(cay, body, lambda o: start_error(o) or status_of(o).get("ready"))
    assert why in start_error(obj)
    cay.api("DELETE", f"{PODS}/odd")
    cay.wait(PODS, "odd", lambda o: o is None)


def test_a_sandbox_is_a_stranger_in_what_it_may_read(cay, host):
    create(cay, mounting("reader", f"{host}/shared/", read_only=True))
    assert sh(cay, "reader", "id -u; cat /h/data; stat -c %u:%g /h/data").stdout == "0\nfor all\n65534:65534\n"
    for script in ("cat /h/key", "echo x > /h/data", "echo x > /h/open", "touch /h/new", "chown 0 /h/data", "chmod 777 /h/data", "mount -o remount,rw /h",
                   "cat /h/device", "ls /h/proc/1"):
        assert sh(cay, "reader", script, check=False).returncode != 0, script
    create(cay, mounting("file", f"{host}/shared/data", "File", read_only=True))
    assert sh(cay, "file", "cat /h").stdout == "for all\n"


def test_what_a_sandbox_writes_is_not_roots(cay, host):
    create(cay, mounting("writer", f"{host}/out", "Directory"))
    sh(cay, "writer", "echo mine > /h/file; cp /bin/sh /h/sh; chmod 4755 /h/sh; ln -s /etc/shadow /h/link")
    for name in ("file", "sh"):
        st = os.stat(f"{host}/out/{name}")
        assert st.st_uid >= 65536 and st.st_gid >= 65536, name
    assert sh(cay, "writer", "rm /h/to-secret", check=False).returncode != 0  # the directory is sticky
    # A link that a sandbox has put there leads nobody anywhere.
    create(cay, mounting("victim", f"{host}/out/link"), lambda o: "leads over a symbolic link" in start_error(o))
    assert os.stat(f"{host}/out").st_uid == 0 and stat.S_IMODE(os.stat(f"{host}/out").st_mode) == 0o1777


def test_what_is_to_be_created_is_there_for_all_sandboxes(cay, host):
    create(cay, mounting("maker", f"{host}/out/made", "DirectoryOrCreate"))
    sh(cay, "maker", "echo 1 > /h/file; mkdir /h/sub")
    create(cay, mounting("second", f"{host}/out/made", "DirectoryOrCreate", subPath="sub"))
    sh(cay, "second", "test -d /h && ! test -e /h/file")
    create(cay, mounting("one-file", f"{host}/out/note", "FileOrCreate"))
    sh(cay, "one-file", "echo text > /h")
    assert open(f"{host}/out/note").read() == "text\n" and os.stat(f"{host}/out/note").st_uid >= 65536
    assert stat.S_IMODE(os.stat(f"{host}/out/made").st_mode) == 0o1777


def test_what_is_there_already_is_left_as_it_is(cay, host):
    create(cay, mounting("asker", f"{host}/out/private", "DirectoryOrCreate"))
    assert stat.S_IMODE(os.stat(f"{host}/out/private").st_mode) == 0o700
    assert sh(cay, "asker", "ls /h", check=False).returncode != 0


def test_nothing_is_made_in_directories_of_the_host_for_other_mounts(cay, host):
    """The node could do there what the sandbox cannot."""
    os.mkdir(f"{host}/out/conf", 0o755)
    body = mounting("planter", f"{host}/out")
    body["spec"]["containers"][0]["workingDir"] = "/h/conf/work"
    create(cay, body, lambda o: start_error(o) or status_of(o).get("restartCount"))
    body = mounting("digger", f"{host}/out")
    body["spec"]["volumes"].append({"name": "e", "emptyDir": {}})
    body["spec"]["containers"][0]["volumeMounts"].append({"name": "e", "mountPath": "/h/conf/below"})
    create(cay, body, lambda o: "directory of the host" in start_error(o))
    assert os.listdir(f"{host}/out/conf") == []


@pytest.mark.parametrize("value,why", [
    ("/", "/ cannot be allowed"), ("/proc/sys:ro", "cannot be allowed because of /proc"), ("/sys", "cannot be allowed because of /sys"),
    ("/run:ro", "cannot be allowed because of /run"), ("srv:ro", "is not an absolute path"), ("{host}/absent", "No such file or directory"),
    ("{host}/out/to-keep", "is another name of"), ("{host}/out:rw,{host}/out/private:ro", "one is in the other"), ("{data}", "cannot be allowed because of"), ("{parent}", "cannot be allowed because of"),
])
def test_a_start_that_would_allow_too_much_is_refused(host, value, why):
    data = make_dir()
    instance = Cay(data, flags=["--host-path", value.format(host=host, data=data, parent=os.path.dirname(data))])
    process = instance.spawn()
    (process or instance.process).wait(60)
    assert why in instance.log() and "--host-path" in instance.log()
    shutil.rmtree(data)
