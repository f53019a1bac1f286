# SPDX-License-Identifier: Apache-2.0
"""Images from outside: what is recognised, what is refused and with which words, and what a Pod gets of them."""

import base64
import gzip
import hashlib
import io
import json
import lzma
import os
import select
import shutil
import signal
import socket
import subprocess
import tarfile
import zlib

import pytest

from cay_local import BUILD, free_port, wait_until
from conftest import make_dir, needs_root

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
OCI = "application/vnd.oci.image."
PODS = "/api/v1/namespaces/default/pods"


# -- making images ----------------------------------------------------------------------------------------------------


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def member(name, data=b"", kind=tarfile.REGTYPE, **more):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o755
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for info, data in members:
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def config(*layers, **more):
    return dict({"architecture": ARCH, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [sha(l) for l in layers]}}, **more)


def dump(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


ROOT = tar(member("etc", kind=tarfile.DIRTYPE), member("etc/motd", b"hello\n"))


def docker(layers=(ROOT,), conf=None, manifest=None, extra=(), leave=()):
    conf = dump(conf if conf is not None else config(*layers))
    name = hashlib.sha256(conf).hexdigest() + ".json"
    names = [f"{i}/layer.tar" for i in range(len(layers))]
    if manifest is None:
        manifest = [{"Config": name, "RepoTags": ["example.com/made:1"], "Layers": names}]
    files = [(name, conf), *zip(names, layers), ("manifest.json", dump(manifest))]
    return tar(*[member(n, d) for n, d in files if n not in leave], *extra)


class Layout:
    """An OCI layout, which a test may spoil before it is packed."""

    def __init__(self, layers=(ROOT,), conf=None, type_of=lambda l: OCI + "layer.v1.tar", media=OCI + "config.v1+json", **more):
        self.files = {"oci-layout": dump({"imageLayoutVersion": "1.0.0"})}
        conf = self.blob(dump(conf if conf is not None else config(*[plain(l) for l in layers])), media)
        self.manifest = self.blob(dump(dict({"schemaVersion": 2, "config": conf,
                                             "layers": [self.blob(l, type_of(l)) for l in layers]}, **more)), OCI + "manifest.v1+json")
        self.index(self.manifest)

    def blob(self, data, media):
        self.files["blobs/sha256/" + sha(data)[7:]] = data
        return {"mediaType": media, "digest": sha(data), "size": len(data)}

    def index(self, *manifests):
        self.files["index.json"] = dump({"schemaVersion": 2, "manifests": list(manifests)})
        return self

    def spoil(self, **files):
        self.files.update({n.replace("__", "/").replace("_", "-"): d for n, d in files.items()})
        return self

    def pack(self, prefix=""):
        return tar(*[member(prefix + n, d) for n, d in self.files.items()])


def plain(data):
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def import_file(tmp_path, data, *name, data_dir=None, file="archive"):
    path = tmp_path / file
    path.write_bytes(data)
    return image(data_dir or str(tmp_path / "data"), "import", str(path), *(name or ("made:1",)))


def image(data_dir, *args, check=False):
    r = subprocess.run([os.path.join(BUILD, "cay"), "image", *args, "--data-dir", data_dir], capture_output=True, text=True, timeout=300)
    assert not check or not r.returncode, r.stderr
    return r


def listed(data_dir):
    names = json.loads(image(data_dir, "ls", "-o", "json", check=True).stdout)
    return {i["name"]: i for i in names if i["source"] != "built-in"}


# -- what is refused --------------------------------------------------------------------------------------------------


def sparse(*sizes):
    """Files that have no data: pax headers of GNU tar."""
    return tar(*(member(f"huge-{i}", b"", pax_headers={"GNU.sparse.major": "0", "GNU.sparse.size": str(size), "GNU.sparse.map": "0,0"})
                 for i, size in enumerate(sizes)))


def wrong_blob():
    made = Layout()
    path = "blobs/sha256/" + sha(ROOT)[7:]
    made.files[path] = tar(member("etc/motd", b"evil!\n"))
    return made.pack()


def unlike(data):
    """The same tar, in which something else than the config says was packed."""
    return docker(layers=(data,), conf=config(ROOT))


def other_platform():
    made = Layout()
    return made.index(dict(made.manifest, platform={"os": "linux", "architecture": "mips64le"}),
                      dict(made.manifest, platform={"os": "windows", "architecture": ARCH})).pack()


HOSTILE = {
    "zip": (b"PK\x03\x04" + bytes(600), "it is a zip archive"),
    "squashfs": (b"hsqs" + bytes(600), "it is a squashfs file system"),
    "qcow2": (b"QFI\xfb" + bytes(600), "it is a qcow2 disk image"),
    "iso": (bytes(32769) + b"CD001" + bytes(600), "it is an ISO 9660 file system"),
    "deb": (b"!<arch>\ndebian-binary   " + bytes(600), "it is a Debian package"),
    "cpio": (b"070701" + b"0" * 600, "it is a cpio archive"),
    "cpio-gzip": (gzip.compress(b"070701" + b"0" * 600), "it is a cpio archive"),
    "ext4": (bytes(1080) + b"\x53\xef" + bytes(600), "it is an ext2, ext3 or ext4 file system"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(600), "it is an lz4 stream"),
    "elf": (b"\x7fELF" + bytes(600), "it is a program"),
    "text": (b"FROM debian\n" * 60, "it is not a tar archive"),
    "empty": (b"", "the file is empty"),
    "no-entries": (bytes(10240), "the archive has no entries"),
    "truncated-gzip": (gzip.compress(os.urandom(4096) + ROOT)[:2000], "truncated gzip"),
    "truncated-tar": (ROOT[:1300], "read archive"),
    "docker-v1": (tar(member("repositories", b"{}"), member("aa/json", b"{}"), member("aa/layer.tar", ROOT)), "Docker before 1.10"),
    "docker-and-root": (docker(extra=[member("etc/passwd", b"")]), "it has both manifest.json"),
    "docker-no-json": (docker(manifest=b"[{"), "read manifest.json"),
    "docker-not-a-list": (docker(manifest={"a": 1}), "not that of a docker-archive"),
    "docker-no-layers": (docker(manifest=[{"Config": "x"}]), "Config or Layers is missing"),
    "docker-layer-missing": (docker(leave=["0/layer.tar"]), "0/layer.tar is missing"),
    "docker-wrong-diff-id": (unlike(tar(member("x", b"y"))), "its diff-id is sha256:"),
    "docker-diff-ids": (docker(conf=config(ROOT, ROOT)), "has 2 diff_ids for 1 layers"),
    "docker-config-name": (docker(manifest=[{"Config": "ab" * 32 + ".json", "Layers": ["0/layer.tar"]}],
                                  extra=[member("ab" * 32 + ".json", dump(config(ROOT)))]), "has digest sha256:"),
    "docker-layer-climbs": (docker(manifest=[{"Config": "c.json", "Layers": ["../../../../etc/passwd"]}],
                                   extra=[member("c.json", dump(config(ROOT)))]), "etc/passwd"),
    "docker-layer-link": (docker(manifest=[{"Config": "c.json", "Layers": ["l.tar"]}],
                                 extra=[member("c.json", dump(config(ROOT))),
                                        member("l.tar", kind=tarfile.SYMTYPE, linkname="/etc/passwd")]), "l.tar"),
    "config-env": (docker(conf=config(ROOT, config={"Env": "A=b"})), "Env is not a list of texts"),
    "config-signal": (docker(conf=config(ROOT, config={"StopSignal": "SIGFOO"})), "StopSignal is not a signal"),
    "config-huge": (docker(conf=config(ROOT, config={"Labels": {"a": "b" * 300000}})), "more than 262144 bytes"),
    "platform": (docker(conf=dict(config(ROOT), architecture="mips64le")), "is for linux/mips64le, and this machine is linux/"),
    "oci-version": (Layout().spoil(oci_layout=dump({"imageLayoutVersion": "9"})).pack(), "version \"9\""),
    "oci-nested": (Layout().pack("dir/"), "the OCI layout is in its directory dir"),
    "oci-no-index": (tar(member("oci-layout", b"{}")), "without index.json"),
    "oci-no-images": (Layout().index().pack(), "names 0 images"),
    "oci-wrong-digest": (wrong_blob(), "and the manifest says sha256:"),
    "oci-size": ((lambda l: l.index(dict(l.manifest, size=7)).pack())(Layout()), "its descriptor says 7"),
    "oci-bad-digest": ((lambda l: l.index(dict(l.manifest, digest="sha256:../../../etc")).pack())(Layout()), "64 hexadecimal digits"),
    "oci-sha512": ((lambda l: l.index(dict(l.manifest, digest="sha512:" + "0" * 128)).pack())(Layout()), "only sha256"),
    "oci-encrypted": (Layout(type_of=lambda l: OCI + "layer.v1.tar+gzip+encrypted").pack(), "a layer is encrypted"),
    "oci-not-a-tar": (Layout(type_of=lambda l: "application/wasm").pack(), "not a tar but \"application/wasm\""),
    "oci-artifact": (Layout(media="application/vnd.cncf.helm.config.v1+json").pack(), "an artifact of type"),
    "oci-schema": (Layout(schemaVersion=1).pack(), "schema version 1"),
    "oci-platform": (other_platform(), "there is no image for linux/"),
    "device": (tar(member("dev/sda", kind=tarfile.BLKTYPE)), "devices and sockets are not allowed"),
    "dot-dot": (tar(member("../out", b"x")), "has \"..\" in its name"),
    "hard-link-out": (tar(member("x", kind=tarfile.LNKTYPE, linkname="../../../../etc/shadow")), "has \"..\" in its name"),
    "hard-link-nowhere": (tar(member("x", kind=tarfile.LNKTYPE, linkname="y")), "hard link to y"),
    "overlay-xattr": (tar(member("d", kind=tarfile.DIRTYPE, pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/etc"})),
                      "attribute trusted.overlay.redirect is not allowed"),
    "escape-sequence": (tar(member("\x1b[31m/../x", b"")), "entry ?[31m/../x has"),
    "whiteout": (tar(member("etc/.wh.passwd")), "this is one layer of an image"),
    "deep": (tar(member("/".join("d" * 300), b"x")), "more than 256 levels"),
    "sparse": (sparse(1 << 60), "root file system has more than"),
    "sparse, together": (sparse(40 << 30, 40 << 30), "root file system has more than"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_malformed_or_hostile_is_refused_by_its_defect(tmp_path, case):
    needs_root()
    data, says = HOSTILE[case]
    r = import_file(tmp_path, data)
    assert r.returncode in (1, 2) and says in r.stderr, (r.returncode, r.stdout, r.stderr)
    assert not listed(str(tmp_path / "data"))
    assert sorted(os.listdir(tmp_path / "data" / "images")) == ["lock"]
    assert sorted(os.listdir(tmp_path)) == ["archive", "data"]


def test_a_bomb_ends_at_the_limit_of_bytes(tmp_path):
    """A layer that would be 65 GiB of zeros; it is the header that says so, so nothing of it is written."""
    needs_root()
    info, _ = member("zeros")
    info.size = 65 << 30
    press = zlib.compressobj(wbits=31)
    r = import_file(tmp_path, press.compress(info.tobuf() + bytes(1 << 20)) + press.flush())
    assert r.returncode == 1 and "more than 68719476736 bytes" in r.stderr, r.stderr


@pytest.mark.parametrize("names", ["one", "many"])
def test_names_of_directories_take_little_memory(tmp_path, names):
    """Their times are set in the end, so they are remembered up to then: each once, and not without limit."""
    needs_root()
    where = "/".join(["d" * 250] * 15)
    entry = tar(member(f"{where}/000000", kind=tarfile.DIRTYPE))[:10 * 512]  # two headers, and between them the name
    press = zlib.compressobj(1, wbits=31)
    with open(tmp_path / "archive", "wb") as f:
        for i in range(40000):
            f.write(press.compress(entry if names == "one" else entry.replace(b"/000000", b"/%06d" % i)))
        f.write(press.compress(bytes(1024)) + press.flush())
    process = subprocess.Popen([os.path.join(BUILD, "cay"), "image", "import", str(tmp_path / "archive"), "dirs:1", "--data-dir", str(tmp_path / "data")])
    _, process.returncode, used = os.wait4(process.pid, 0)
    assert process.returncode == 0 and used.ru_maxrss < 110 << 10, used.ru_maxrss  # the names are 150 MB


# -- what is taken ----------------------------------------------------------------------------------------------------


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("press", [bytes, gzip.compress, lzma.compress, zstd])
def test_the_content_decides_and_not_the_name(tmp_path, press):
    """A misleading suffix changes nothing; layers are shared, whatever they came in."""
    needs_root()
    data = str(tmp_path / "data")
    for name, made in (("a:1", docker()), ("b:1", Layout().pack()), ("c:1", ROOT), ("d:1", Layout((gzip.compress(ROOT),),
                       type_of=lambda l: OCI + "layer.v1.tar+gzip").pack())):
        r = import_file(tmp_path, press(made), name, file="image.zip")
        assert not r.returncode, r.stderr
    assert os.listdir(os.path.join(data, "images", "layers")) == [sha(ROOT)[7:]]
    with open(os.path.join(data, "images", "layers", sha(ROOT)[7:], "etc", "motd")) as f:
        assert f.read() == "hello\n"


def test_an_index_gives_this_machine_its_image(tmp_path):
    needs_root()
    other, made = Layout((tar(member("other", b"x")),)), Layout()
    index = made.blob(dump({"schemaVersion": 2, "manifests": [
        dict(other.manifest, platform={"os": "linux", "architecture": "mips64le"}),
        dict(made.manifest, platform={"os": "linux", "architecture": ARCH})]}), OCI + "index.v1+json")
    made.index(dict(index, annotations={"org.opencontainers.image.ref.name": "example.com/many:2"}))
    r = import_file(tmp_path, made.pack(), "-o", "json")
    assert [i["name"] for i in json.loads(r.stdout)] == ["example.com/many:2"]
    assert json.loads(r.stdout)[0]["digest"] == made.manifest["digest"]


def test_an_archive_of_several_images_keeps_their_names(tmp_path):
    needs_root()
    conf = [config(ROOT, config={"Env": [f"N={i}"]}) for i in range(2)]
    both = tar(member("l.tar", ROOT), *[member(f"c{i}.json", dump(c)) for i, c in enumerate(conf)],
               member("manifest.json", dump([{"Config": f"c{i}.json", "RepoTags": [f"two/{i}:1"], "Layers": ["l.tar"]} for i in range(2)])))
    data = str(tmp_path / "data")
    r = import_file(tmp_path, both, "three:1")
    assert r.returncode == 2 and "two/0:1, two/1:1" in r.stderr, r.stderr
    assert not import_file(tmp_path, both, "two/1:1").returncode
    assert set(listed(data)) == {"docker.io/two/1:1"}
    assert not import_file(tmp_path, both, "-o", "json").returncode
    assert set(listed(data)) == {"docker.io/two/0:1", "docker.io/two/1:1"}


def test_a_layer_keeps_links_names_times_and_hides_what_it_says(tmp_path):
    needs_root()
    lower = tar(member("etc/gone", b"x"), member("old/a", b"x"), member("swap", b"x"))
    upper = tar(member("etc/.wh.gone"), member("old/.wh..wh..opq"), member("old/b", b"y"), member(".wh.swap"),
                member("swap", kind=tarfile.DIRTYPE, mtime=1000), member("swap/ő", b"z", pax_headers={"SCHILY.xattr.user.x": "1"}),
                member("hard", kind=tarfile.LNKTYPE, linkname="swap/ő"), member("set", b"", mode=0o4755))
    assert not import_file(tmp_path, docker((lower, upper))).returncode
    at = tmp_path / "data" / "images" / "layers" / sha(upper)[7:]
    assert os.stat(at / "etc" / "gone").st_rdev == 0 and (at / "etc" / "gone").is_char_device()
    assert os.getxattr(at / "old", "trusted.overlay.opaque") == b"y"
    assert os.getxattr(at / "swap", "trusted.overlay.opaque") == b"y"
    assert os.stat(at / "swap").st_mtime == 1000 and os.stat(at / "set").st_mode & 0o7777 == 0o4755
    assert os.stat(at / "hard").st_ino == os.stat(at / "swap" / "ő").st_ino
    assert os.getxattr(at / "hard", "user.x") == b"1"


def test_names_of_an_earlier_data_directory_work_on(tmp_path):
    needs_root()
    images = tmp_path / "data" / "images"
    (images / "0123456789abcdef" / "rootfs").mkdir(parents=True)
    (images / "names.json").write_text(json.dumps({
        "names": {"docker.io/library/old:1": "0123456789abcdef"},
        "images": {"0123456789abcdef": {"digest": sha(b"x"), "source": "x.tar", "size": 1, "layers": ["0123456789abcdef/rootfs"], "config": {}}}}))
    assert not image(str(tmp_path / "data"), "tag", "old:1", "new:1").returncode
    assert not import_file(tmp_path, docker()).returncode
    assert set(listed(str(tmp_path / "data"))) == {"docker.io/library/old:1", "docker.io/library/new:1", "docker.io/library/made:1"}


def test_a_kill_leaves_nothing_that_the_next_command_does_not_remove(tmp_path):
    needs_root()
    (tmp_path / "big").write_bytes(gzip.compress(tar(member("etc/big", bytes(400 << 20))), 1))
    images = tmp_path / "data" / "images"
    process = subprocess.Popen([os.path.join(BUILD, "cay"), "image", "import", str(tmp_path / "big"), "big:1", "--data-dir", str(tmp_path / "data")])
    wait_until(lambda: images.exists() and any((w / "tree" / "etc" / "big").exists() for w in images.glob(".import-*")))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not listed(str(tmp_path / "data")) and list(images.glob(".import-*"))
    assert not image(str(tmp_path / "data"), "tag", "host", "x:1").returncode
    assert sorted(os.listdir(images)) == ["lock", "names.json"]


# -- what a Pod gets of them ------------------------------------------------------------------------------------------

BUSYBOX = "/bin/busybox"
TELL = "id -u; id -g; pwd; echo $HOME $WHO; ls /etc/gone /old 2>&1; echo said"


def run(*command, cwd):
    subprocess.run(command, check=True, capture_output=True, cwd=cwd)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory with image.docker and image.oci: two layers with users, made by umoci and packed by skopeo."""
    needs_root()
    for program in ("skopeo", "umoci"):
        if not shutil.which(program):
            pytest.fail(f"{program} is missing; tools/setup test installs it")
    at = tmp_path_factory.mktemp("made")
    run("umoci", "init", "--layout", "lay", cwd=at)
    run("umoci", "new", "--image", "lay:t", cwd=at)
    run("umoci", "unpack", "--image", "lay:t", "one", cwd=at)
    root = at / "one" / "rootfs"
    for d in ("bin", "etc", "home/app", "old"):
        (root / d).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for name in ("sh", "id", "ls", "sleep"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1234:1235::/home/app:/bin/sh\n")
    (root / "etc" / "gone").write_text("x")
    (root / "old" / "a").write_text("x")
    run("umoci", "repack", "--image", "lay:t", "one", cwd=at)
    run("umoci", "unpack", "--image", "lay:t", "two", cwd=at)
    root = at / "two" / "rootfs"
    (root / "etc" / "group").write_text("root:x:0:\napp:x:1235:\nstaff:x:50:\n")
    (root / "etc" / "gone").unlink()
    shutil.rmtree(root / "old")
    run("umoci", "repack", "--image", "lay:t", "two", cwd=at)
    run("umoci", "config", "--image", "lay:t", "--config.user", "app:staff", "--config.entrypoint", "/bin/sh", "--config.entrypoint", "-c",
        "--config.cmd", TELL, "--config.workingdir", "/srv/made/here", "--config.env", "WHO=image", "--config.stopsignal", "SIGUSR1", cwd=at)
    run("skopeo", "copy", "-q", "oci:lay:t", "docker-archive:image.docker:example.com/made:docker", cwd=at)
    run("skopeo", "copy", "-q", "oci:lay:t", "oci-archive:image.oci:example.com/made:oci", cwd=at)
    return at


@pytest.fixture(scope="module")
def with_images(cay, made):
    cay.digests = {}
    for kind in ("docker", "oci"):
        out = image(cay.data_dir, "import", str(made / f"image.{kind}"), "-o", "json", check=True).stdout
        cay.digests[kind] = json.loads(out)[0]["digest"]
    return cay


def pod(name, image_name, **container):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "containers": [dict({"name": "main", "image": image_name}, **container)]}}


def state(obj):
    return ((obj or {}).get("status", {}).get("containerStatuses") or [{}])[0].get("state", {})


def states(obj):
    return [next(iter(c["state"]), None) for c in obj["status"].get("containerStatuses", [])]


def said(cay, name):
    cay.wait(PODS, name, lambda o: "terminated" in state(o))
    return cay.kubectl("logs", name).stdout.splitlines()


@pytest.mark.parametrize("kind", ["docker", "oci"])
def test_a_pod_runs_what_the_image_says_as_whom_it_says(with_images, kind):
    cay = with_images
    cay.api("POST", PODS, pod(f"says-{kind}", f"example.com/made:{kind}"))
    lines = said(cay, f"says-{kind}")
    assert lines[:4] == ["1234", "50", "/srv/made/here", "/home/app image"], lines
    assert lines[4:] == ["ls: /etc/gone: No such file or directory", "ls: /old: No such file or directory", "said"], lines
    assert cay.api("GET", f"{PODS}/says-{kind}")["status"]["containerStatuses"][0]["imageID"] == cay.digests[kind]


def test_a_pod_names_a_digest(with_images):
    cay = with_images
    cay.api("POST", PODS, pod("exact", f"example.com/made:gone@{cay.digests['oci']}", args=["echo by digest"]))
    assert said(cay, "exact") == ["by digest"]
    cay.api("POST", PODS, pod("other", f"example.com/made@{sha(b'x')}"))
    waiting = state(cay.wait(PODS, "other", lambda o: "waiting" in state(o) and state(o)["waiting"].get("reason") == "ErrImagePull"))["waiting"]
    assert sha(b"x") in waiting["message"]


def test_a_pod_overrides_what_the_image_says(with_images):
    cay = with_images
    cay.api("POST", PODS, pod("over", "example.com/made:oci", command=["/bin/sh", "-c", TELL], workingDir="/new/dir/",
                              env=[{"name": "WHO", "value": "pod"}], securityContext={"runAsUser": 77}))
    assert said(cay, "over")[:4] == ["77", "0", "/new/dir", "/root pod"]


def test_a_pod_is_asked_to_end_by_the_signal_of_its_image(with_images):
    cay = with_images
    cay.api("POST", PODS, pod("ask", "example.com/made:oci", args=["trap 'echo usr1; exit 7' USR1; echo up; while :; do sleep 0.1; done"]))
    cay.wait(PODS, "ask", lambda o: "running" in state(o))
    wait_until(lambda: "up" in cay.kubectl("logs", "ask").stdout)
    follow = subprocess.Popen(["kubectl", "logs", "-f", "ask"], stdout=subprocess.PIPE, text=True, env=dict(os.environ, KUBECONFIG=cay.kubeconfig))
    assert follow.stdout.readline() == "up\n"
    cay.kubectl("delete", "pod", "ask", "--wait=false")
    assert follow.communicate(timeout=120)[0].endswith("usr1\n")


@pytest.mark.parametrize("user, says", [("nobody-here", "is not in its /etc/passwd"), ("100000", "is beyond a sandbox's 65536 ids")])
def test_a_user_that_the_image_does_not_have_is_named(with_images, tmp_path, user, says):
    cay, name = with_images, f"user-{user}"
    r = import_file(tmp_path, docker(conf=config(ROOT, config={"User": user, "Cmd": ["/bin/true"]})), f"{name}:1", data_dir=cay.data_dir)
    assert not r.returncode, r.stderr
    cay.api("POST", PODS, pod(name, f"{name}:1"))
    waiting = state(cay.wait(PODS, name, lambda o: state(o).get("waiting", {}).get("reason") == "CreateContainerError"))["waiting"]
    assert user in waiting["message"] and says in waiting["message"]
    cay.api("DELETE", f"{PODS}/{name}")


# -- the commands -----------------------------------------------------------------------------------------------------


def layers_of(data_dir):
    at = os.path.join(data_dir, "images", "layers")
    return set(os.listdir(at)) if os.path.exists(at) else set()


def test_an_export_comes_back_as_the_same_image(made, tmp_path):
    """To the byte: what was exported, imported elsewhere and exported again is one file. skopeo reads it, too."""
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    image(first, "import", str(made / "image.oci"), check=True)
    image(first, "export", "example.com/made:oci", str(tmp_path / "one.tar"), check=True)
    image(second, "import", str(tmp_path / "one.tar"), check=True)
    image(second, "export", "example.com/made:oci", str(tmp_path / "two.tar"), check=True)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as t:
        assert {m.mtime for m in t} == {0}
    shown = [json.loads(image(d, "inspect", "example.com/made:oci", check=True).stdout) for d in (first, second)]
    assert shown[0]["config"] == shown[1]["config"] and shown[0]["config"]["uid"] == 1234
    seen = subprocess.run(["skopeo", "inspect", f"oci-archive:{tmp_path}/one.tar"], capture_output=True, text=True, check=True)
    assert json.loads(seen.stdout)["Env"] == ["WHO=image"]
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "one.tar", "two.tar"]


def test_only_what_has_no_name_is_removed(tmp_path):
    needs_root()
    data, other = str(tmp_path / "data"), tar(member("etc/other", b"x"))
    for name, made_of in (("one:1", (ROOT,)), ("two:1", (ROOT, other))):
        assert not import_file(tmp_path, docker(made_of), name).returncode
    image(data, "tag", "two:1", "three:1", check=True)
    image(data, "rm", "two:1", check=True)
    assert layers_of(data) == {sha(ROOT)[7:], sha(other)[7:]}
    image(data, "rm", "three:1", check=True)
    assert layers_of(data) == {sha(ROOT)[7:]}
    assert not import_file(tmp_path, docker((other,)), "one:1").returncode  # the old one has no name any more
    assert layers_of(data) == {sha(ROOT)[7:], sha(other)[7:]}
    assert json.loads(image(data, "prune", "-o", "json", check=True).stdout) == {"images": 1, "layers": 1, "bytes": 6}
    assert layers_of(data) == {sha(other)[7:]} and set(listed(data)) == {"docker.io/library/one:1"}
    assert sorted(os.listdir(tmp_path / "data" / "images")) == ["layers", "lock", "names.json"]


def test_what_a_sandbox_uses_stays(with_images, made):
    """With the daemon there, while it is away, and after it came back to a name that stands for another image by now."""
    cay, name = with_images, "example.com/made:used"
    image(cay.data_dir, "tag", "example.com/made:oci", name, check=True)
    uses = pod("uses", name, args=["sleep 1000"])
    uses["spec"]["containers"].append({"name": "side", "image": "host", "command": ["sleep", "1000"]})
    cay.api("POST", PODS, uses)
    cay.wait(PODS, "uses", lambda o: ["running"] * 2 == states(o))
    for other in ("example.com/made:oci", "example.com/made:docker"):
        image(cay.data_dir, "rm", other, check=True)
    cay.kill()
    r = image(cay.data_dir, "rm", name)
    assert r.returncode == 1 and "is used by Pod default/uses; delete that first" in r.stderr, r.stderr
    image(cay.data_dir, "tag", "host", name, check=True)  # the image has lost its name, but not its user
    assert json.loads(image(cay.data_dir, "prune", "-o", "json", check=True).stdout)["images"] == 0
    cay.start()
    wait_until(lambda: cay.kubectl("exec", "uses", "-c", "main", "--", "ls", "/home", check=False).stdout == "app\n")
    cay.kubectl("exec", "uses", "-c", "side", "--", "kill", "-9", "-1", check=False)  # its end is written down, and the rest with it
    cay.wait(PODS, "uses", lambda o: "terminated" in states(o))
    assert json.loads(image(cay.data_dir, "prune", "-o", "json", check=True).stdout)["images"] == 0
    cay.api("DELETE", f"{PODS}/uses?gracePeriodSeconds=0")
    cay.wait(PODS, "uses", lambda o: o is None)
    wait_until(lambda: json.loads(image(cay.data_dir, "prune", "-o", "json", check=True).stdout)["images"] == 1)
    for kind in ("docker", "oci"):
        image(cay.data_dir, "import", str(made / f"image.{kind}"), check=True)
    cay.api("POST", PODS, pod("again", "example.com/made:oci", args=["ls /home"]))
    assert said(cay, "again") == ["app"]


@pytest.mark.parametrize("verb", ["ls", "inspect", "import", "pull", "export", "tag", "rm", "prune"])
def test_every_verb_has_help(tmp_path, verb):
    r = image(str(tmp_path), verb, "--help", check=True)
    assert r.stdout.startswith(f"usage: cay image {verb}") and "--data-dir" in r.stdout


@pytest.mark.parametrize("args, says", [
    (("rm", "nope"), "no image named nope; see cay image ls"), (("inspect", "nope"), "no image named nope"),
    (("export", "nope", "f"), "no image named nope"), (("export", "host", "f"), "built-in"), (("tag", "host", "pause"), "choose another name"),
    (("import", "/nowhere", "x"), "No such file"), (("rm", "a b"), "not an image name"), (("export", "x"), "usage: cay image export NAME FILE")])
def test_an_error_says_what_to_do(tmp_path, args, says):
    needs_root()
    r = image(str(tmp_path / "data"), *args)
    assert r.returncode in (1, 2) and says in r.stderr, r.stderr


# -- registries -------------------------------------------------------------------------------------------------------

SECRET = "open-sesame"
HTPASSWD = "agent:$2b$04$e1oeGBtVqVyppM7hYzNR2eOqkLv8JPRLQehXLrjLlRsvcn8EXqc36\n"  # bcrypt of SECRET


class Registry:
    """Debian's docker-registry on loopback; with a password if wanted."""

    def __init__(self, at, locked):
        self.port, self.at = free_port(), at
        at.mkdir()
        auth = ""
        if locked:
            (at / "htpasswd").write_text(HTPASSWD)
            auth = f"auth: {{htpasswd: {{realm: test, path: {at}/htpasswd}}}}\n"
        (at / "config.yml").write_text(f"version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {at}/data}}}}\n"
                                       f"http: {{addr: '127.0.0.1:{self.port}'}}\n{auth}")
        self.authfile = at / "auth.json"
        token = base64.b64encode(f"agent:{SECRET}".encode()).decode()
        self.authfile.write_text(json.dumps({"auths": {f"127.0.0.1:{self.port}": {"auth": token}}}))
        with open(at / "log", "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(at / "config.yml")], stdout=log, stderr=log)
        wait_until(self.answers)

    def answers(self):
        assert self.process.poll() is None, (self.at / "log").read_text()
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def name(self, rest):
        return f"127.0.0.1:{self.port}/{rest}"

    def push(self, made):
        """The digest that the registry knows it by."""
        run("skopeo", "copy", "-q", "--dest-tls-verify=false", "--dest-authfile", str(self.authfile), "--digestfile", str(self.at / "digest"),
            "oci:lay:t", "docker://" + self.name("team/made:1"), cwd=made)
        return (self.at / "digest").read_text().strip()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


@pytest.fixture(scope="module")
def registries(made, tmp_path_factory):
    if not shutil.which("docker-registry"):
        pytest.fail("docker-registry is missing; tools/setup test installs it")
    at = tmp_path_factory.mktemp("registries")
    both = {"open": Registry(at / "open", False), "locked": Registry(at / "locked", True)}
    for registry in both.values():
        registry.digest = registry.push(made)
    yield both
    for registry in both.values():
        registry.stop()


def test_an_image_is_pulled_from_a_registry_and_runs(cay, registries):
    registry = registries["open"]
    out = image(cay.data_dir, "pull", registry.name("team/made:1"), "-o", "json", check=True).stdout
    assert json.loads(out) == [{"name": registry.name("team/made:1"), "digest": registry.digest}]
    cay.api("POST", PODS, pod("pulled", registry.name("team/made:1")))
    assert said(cay, "pulled")[:4] == ["1234", "50", "/srv/made/here", "/home/app image"]


def test_a_pull_by_digest_gives_exactly_that(cay, registries):
    registry = registries["open"]
    name = registry.name(f"team/made@{registry.digest}")
    assert json.loads(image(cay.data_dir, "pull", name, "-o", "json", check=True).stdout)[0]["name"] == name
    cay.api("POST", PODS, pod("pulled-exact", name, args=["echo exact"]))
    assert said(cay, "pulled-exact") == ["exact"]
    image(cay.data_dir, "rm", name, check=True)
    r = image(cay.data_dir, "pull", registry.name(f"team/made@{sha(b'x')}"))
    assert r.returncode == 1 and "manifest unknown" in r.stderr, r.stderr


def test_a_registry_with_a_password_wants_the_file_that_has_it(tmp_path, registries):
    """The password is an argument of no process and in no message."""
    registry, data = registries["locked"], str(tmp_path / "data")
    name = registry.name("team/made:1")
    refused = image(data, "pull", name)
    assert refused.returncode == 1 and "authentication required" in refused.stderr, refused.stderr
    assert sorted(os.listdir(tmp_path / "data" / "images")) == ["lock"]
    (tmp_path / "wrong.json").write_text(registry.authfile.read_text().replace(
        base64.b64encode(f"agent:{SECRET}".encode()).decode(), base64.b64encode(b"agent:wrong-word").decode()))
    wrong = image(data, "pull", name, "--authfile", str(tmp_path / "wrong.json"))
    assert wrong.returncode == 1 and "authentication required" in wrong.stderr and "wrong-word" not in wrong.stderr, wrong.stderr
    (tmp_path / "bin").mkdir()
    spy = tmp_path / "bin" / "skopeo"  # notes what it was given, and becomes the real one
    spy.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/seen\nenv >>{tmp_path}/seen\nexec {shutil.which("skopeo")} "$@"\n')
    spy.chmod(0o755)
    r = subprocess.run([os.path.join(BUILD, "cay"), "image", "pull", name, "--authfile", str(registry.authfile), "--data-dir", data],
                       capture_output=True, text=True, env=dict(os.environ, PATH=f"{tmp_path}/bin:{os.environ['PATH']}"))
    assert not r.returncode, r.stderr
    seen = (tmp_path / "seen").read_text()
    token = base64.b64encode(f"agent:{SECRET}".encode()).decode()
    assert f"docker://{name}" in seen
    assert not any(word in text for word in (SECRET, token) for text in (seen, r.stdout, r.stderr))
    assert set(listed(data)) == {name}


def test_a_mirror_stands_in_for_a_registry(tmp_path, registries):
    registry = registries["open"]
    (tmp_path / "registries.conf").write_text(
        f'[[registry]]\nprefix = "registry.invalid"\nlocation = "registry.invalid"\n'
        f'[[registry.mirror]]\nlocation = "{registry.name("team")}"\ninsecure = true\n')
    data = str(tmp_path / "data")
    r = image(data, "pull", "registry.invalid/made:1", "--registries-conf", str(tmp_path / "registries.conf"))
    assert not r.returncode, r.stderr
    assert set(listed(data)) == {"registry.invalid/made:1"}


@pytest.mark.parametrize("args, says", [
    (("pull", "127.0.0.1:1/x:1"), "connection refused"), (("pull", "host"), "built-in"), (("pull", "a b"), "not an image name"),
    (("pull", "x@sha256:short"), "not an image name"), (("pull", "127.0.0.1:1/x", "--authfile", "/nowhere"), "open /nowhere")])
def test_a_pull_that_fails_says_why(tmp_path, args, says):
    needs_root()
    r = image(str(tmp_path / "data"), *args)
    assert r.returncode in (1, 2) and says in r.stderr, r.stderr
    assert not (tmp_path / "data" / "images" / "names.json").exists()


def test_without_skopeo_a_pull_says_what_to_install(tmp_path):
    needs_root()
    r = subprocess.run([os.path.join(BUILD, "cay"), "image", "pull", "127.0.0.1:1/x", "--data-dir", str(tmp_path / "data")],
                       capture_output=True, text=True, env={"PATH": str(tmp_path)})
    assert r.returncode == 1 and "install the package skopeo" in r.stderr, r.stderr


# -- pulls by the node ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pulling(module_instance, registries):
    return module_instance("--pull-images")


def secret(name, registry, password):
    config_json = json.dumps({"auths": {f"127.0.0.1:{registry.port}": {"username": "agent", "password": password}}})
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(config_json.encode()).decode()}}


def secret_is_nowhere(cay):
    token = base64.b64encode(f"agent:{SECRET}".encode()).decode()
    told = cay.log() + json.dumps(cay.api("GET", "/api/v1/namespaces/default/events")) + json.dumps(cay.api("GET", PODS))
    run_dir = json.load(open(os.path.join(cay.data_dir, "node", "instance.json")))["runDir"]
    return SECRET not in told and token not in told and not [n for n in os.listdir(run_dir) if n.startswith(".auth")]


def test_the_node_pulls_what_a_pod_needs(pulling, registries):
    pulling.api("POST", PODS, pod("fetch", registries["open"].name("team/made:1")))
    assert said(pulling, "fetch")[:2] == ["1234", "50"]
    missing = pod("missing", registries["open"].name("team/none:1"))
    pulling.api("POST", PODS, missing)
    waiting = state(pulling.wait(PODS, "missing", lambda o: state(o).get("waiting", {}).get("reason") == "ErrImagePull"))["waiting"]
    assert "manifest unknown" in waiting["message"]
    waiting = state(pulling.wait(PODS, "missing", lambda o: state(o).get("waiting", {}).get("reason") == "ImagePullBackOff"))["waiting"]
    assert waiting["message"].startswith("Back-off pulling image") and "manifest unknown" in waiting["message"]
    image(pulling.data_dir, "tag", registries["open"].name("team/made:1"), registries["open"].name("team/none:1"), check=True)
    assert said(pulling, "missing")[:2] == ["1234", "50"]  # it is there now: no need to wait for the back-off
    pulling.api("POST", PODS, pod("never", registries["open"].name("team/other:1"), imagePullPolicy="Never"))
    pulling.wait(PODS, "never", lambda o: state(o).get("waiting", {}).get("reason") == "ErrImageNeverPull")


def test_a_name_given_to_a_local_image_is_not_asked_for_in_a_registry(pulling, registries):
    """Policy Always asks the registry for what came from there, and for nothing that the operator put in its place."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # whoever asks here waits, and would show in the back-log
        local = f"127.0.0.1:{silent.getsockname()[1]}/team/made:latest"
        image(pulling.data_dir, "tag", "host", local, check=True)
        pulling.api("POST", PODS, pod("local", local, imagePullPolicy="Always", command=["true"]))
        pulling.wait(PODS, "local", lambda o: o["status"].get("phase") == "Succeeded")
        assert not select.select([silent], [], [], 0)[0]
    name = registries["open"].name("team/moved:latest")
    image(pulling.data_dir, "tag", registries["open"].name("team/made:1"), name, check=True)
    image(pulling.data_dir, "pull", registries["open"].name("team/made:1"), check=True)
    registry = registries["open"].name("team/made:1")
    pulling.api("POST", PODS, pod("tagged", name, imagePullPolicy="Always"))
    assert said(pulling, "tagged")[:2] == ["1234", "50"]  # the registry has no such name
    pulling.api("POST", PODS, pod("asked", registry, imagePullPolicy="Always"))
    assert said(pulling, "asked")[:2] == ["1234", "50"]
    events = [e["message"] for e in pulling.api("GET", "/api/v1/namespaces/default/events")["items"]
              if e["involvedObject"]["name"] in ("local", "tagged", "asked") and e["reason"] == "Pulling"]
    assert events == [f'Pulling image "{registry}"']


def test_the_node_does_not_pull_with_the_credentials_of_the_machine(fresh, registries, tmp_path):
    """Those of the daemon's own user, as `docker login` leaves them, are for nobody's Pods."""
    registry = registries["locked"]
    home = tmp_path / "home"
    (home / ".docker").mkdir(parents=True)
    auth = base64.b64encode(f"agent:{SECRET}".encode()).decode()
    (home / ".docker" / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{registry.port}": {"auth": auth}}}))
    cay = fresh("--pull-images", start=False)
    cay.env = dict(os.environ, HOME=str(home))
    cay.start()
    cay.api("POST", PODS, pod("sly", registry.name("team/made:1")))
    waiting = state(cay.wait(PODS, "sly", lambda o: state(o).get("waiting", {}).get("reason") == "ErrImagePull"))["waiting"]
    assert "authentication required" in waiting["message"], waiting


def test_the_name_of_an_image_is_no_option(pulling):
    for n, name in enumerate(("--help", "-h", "--authfile")):
        pulling.api("POST", PODS, pod(f"option-{n}", name))
        waiting = state(pulling.wait(PODS, f"option-{n}", lambda o: "waiting" in state(o) and state(o)["waiting"]["reason"] != "ContainerCreating"))["waiting"]
        assert waiting["reason"] == "InvalidImageName", waiting


def test_the_node_pulls_with_the_secrets_of_the_pod(pulling, registries):
    registry = registries["locked"]
    pulling.api("POST", "/api/v1/namespaces/default/secrets", secret("wrong", registry, "wrong-word"))
    pulling.api("POST", "/api/v1/namespaces/default/secrets", secret("right", registry, SECRET))
    denied = pod("denied", registry.name("team/made:1"))
    denied["spec"]["imagePullSecrets"] = [{"name": "wrong"}, {"name": "not-there"}]
    pulling.api("POST", PODS, denied)
    waiting = state(pulling.wait(PODS, "denied", lambda o: state(o).get("waiting", {}).get("reason") == "ErrImagePull"))["waiting"]
    assert "authentication required" in waiting["message"]
    granted = pod("granted", registry.name("team/made:1"), imagePullPolicy="Always")
    granted["spec"]["imagePullSecrets"] = [{"name": "right"}]
    pulling.api("POST", PODS, granted)
    assert said(pulling, "granted")[:2] == ["1234", "50"]
    events = json.dumps(pulling.api("GET", "/api/v1/namespaces/default/events"))
    assert "Pulling image" in events and "Failed to pull image" in events
    assert secret_is_nowhere(pulling)


def test_a_pull_ends_with_the_last_pod_that_waits_for_it(pulling, registries):
    """As many as run at a time get no answer. Without them it is the turn of the next."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        stuck = f"127.0.0.1:{silent.getsockname()[1]}/x"
        for i in range(3):
            pulling.api("POST", PODS, pod(f"stuck-{i}", f"{stuck}:{i}"))
        pulling.api("POST", PODS, pod("stuck-too", f"{stuck}:0"))
        conns = [silent.accept()[0] for _ in range(3)]
        pulling.api("POST", PODS, pod("in-line", registries["open"].name("team/made:1"), imagePullPolicy="Always"))
        for name in ("stuck-0", "stuck-too"):
            pulling.api("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        assert said(pulling, "in-line")[:2] == ["1234", "50"]
        for i in (1, 2):
            pulling.api("DELETE", f"{PODS}/stuck-{i}?gracePeriodSeconds=0")
        for conn in conns:
            with conn:
                conn.settimeout(120)
                while conn.recv(4096):
                    pass  # up to its end


def processes_with(word):
    def arguments(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return f.read().decode(errors="replace")
        except OSError:
            return ""  # it has ended

    return [pid for pid in os.listdir("/proc") if pid.isdigit() and word in arguments(pid)]


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_the_end_of_the_daemon_ends_the_pulls_under_way(fresh, way):
    """A registry that takes connections and says nothing: its client is gone when the daemon is."""
    cay = fresh("--pull-images")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        name = f"127.0.0.1:{silent.getsockname()[1]}/x:1"
        cay.api("POST", PODS, pod("stuck", name))
        conn, _ = silent.accept()
        with conn:
            assert len(processes_with(name)) == 2  # cay image pull, and skopeo
            (cay.stop if way == "stop" else cay.kill)()
            assert cay.process.returncode == (0 if way == "stop" else -signal.SIGKILL)
            wait_until(lambda: not processes_with(name))
    if way == "kill":
        cay.start()  # it tidies up


def test_an_image_of_many_layers_runs(cay, tmp_path):
    with open(BUSYBOX, "rb") as f:
        base = tar(member("bin", kind=tarfile.DIRTYPE), member("bin/busybox", f.read()), member("etc", kind=tarfile.DIRTYPE))
    layers = [base, *[tar(member(f"layer-{i}", b"")) for i in range(126)], base]  # the first once more: it counts once
    conf = config(*layers, config={"Entrypoint": ["/bin/busybox", "sh", "-c"], "Cmd": ["set -- /layer-*; echo $#"]})
    r = import_file(tmp_path, docker(layers, conf), "many:1", data_dir=cay.data_dir)
    assert not r.returncode, r.stderr
    cay.api("POST", PODS, pod("many", "many:1"))
    assert said(cay, "many") == ["126"]
