# SPDX-License-Identifier: Apache-2.0
"""`cay image build`: images from Debian packages, without a registry. The packages are real ones where a program is run, and made here
where one must be wrong in a certain way."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile

import pytest
import yaml

from cay_local import BUILD, ROOT, is_ready, wait_until
from conftest import make_dir, needs_root

EXAMPLES = os.path.join(ROOT, "examples", "images")
FETCHED = os.path.join(ROOT, "build", "image-debs")
PODS = "/api/v1/namespaces/default/pods"
NAMES = ("base", "git", "node", "python")

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="there is no apt-get here, which finds the packages of a build")


def build(data_dir, recipe, *flags, env=None, **more):
    command = [os.path.join(BUILD, "cay"), "image", "build", "-f", str(recipe), "--data-dir", str(data_dir), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=dict(os.environ, **(env or {})), **more)


def digest(r):
    assert r.returncode == 0, r.stderr
    return r.stdout.split()[-1]


def recipe_of(tmp_path, **members):
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps({"name": "made:1", "packages": ["made"], **members}))
    return path


def layer(data_dir):
    """The only layer of a data directory."""
    found = os.listdir(f"{data_dir}/images/layers")
    assert len(found) == 1, found
    return os.path.join(str(data_dir), "images", "layers", found[0])


# -- packages made here -----------------------------------------------------------------------------------------------


def packed(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, more in members:
            info = tarfile.TarInfo(name)
            data = more.get("data", b"")
            info.size, info.mode = len(data), 0o755
            info.type, info.linkname = more.get("type", tarfile.REGTYPE), more.get("linkname", "")
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def ar(*members):
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def deb(*members, name="made", depends="", scripts=()):
    control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\nDescription: made\n"
    if depends:
        control += f"Depends: {depends}\n"
    files = [("./control", {"data": control.encode()}), *[(n, {"data": d}) for n, d in scripts]]
    return ar(("debian-binary", b"2.0\n"), ("control.tar.gz", packed(*files)), ("data.tar.gz", packed(*members)))


@pytest.fixture
def debs(tmp_path):
    """A directory of packages, and the data directory of the same test."""
    needs_root()
    (tmp_path / "debs").mkdir()

    def put(data, name="made_1_all.deb"):
        (tmp_path / "debs" / name).write_bytes(data)
        return tmp_path / "debs"

    return put


PLAIN = (("./etc/", {"type": tarfile.DIRTYPE}), ("./etc/made", {"data": b"made\n"}))


def work_left(data_dir):
    images = f"{data_dir}/images"
    return [n for n in os.listdir(images) if n.startswith(".")] if os.path.isdir(images) else []


def test_scripts_of_packages_are_not_run(debs, tmp_path):
    script = f"#!/bin/sh\ntouch {tmp_path}/ran\n".encode()
    found = debs(deb(*PLAIN, scripts=[(n, script) for n in ("preinst", "postinst", "config")]))
    digest(build(tmp_path / "data", recipe_of(tmp_path), "--debs", str(found)))
    assert not (tmp_path / "ran").exists()
    root = layer(tmp_path / "data")
    with open(f"{root}/etc/made") as f:
        assert f.read() == "made\n"
    assert os.listdir(f"{root}/var/lib/dpkg/status.d") == ["made"]
    assert not work_left(tmp_path / "data")


def test_what_a_recipe_says_is_in_the_image(debs, tmp_path):
    (tmp_path / "hello.sh").write_text("echo hello\n")
    recipe = recipe_of(tmp_path, env={"A": "1"}, user="worker", workdir="/srv", entrypoint=["/bin/x"], cmd=["y"], labels={"l": "m"},
                       ports=[80, "53/udp"], stopsignal="SIGINT",
                       files=[{"path": "/usr/local/bin/hello", "from": "hello.sh", "mode": "0750"}, {"path": "/etc/note", "content": "n"}])
    r = build(tmp_path / "data", recipe, "--debs", str(debs(deb(*PLAIN))), "-t", "other:2", "-o", "json")
    made, = json.loads(r.stdout)
    assert made["name"] == "docker.io/library/other:2"
    shown = subprocess.run([f"{BUILD}/cay", "image", "inspect", "other:2", "--data-dir", tmp_path / "data"], capture_output=True, check=True)
    config = json.loads(shown.stdout)["config"]
    assert (config["user"], config["uid"], config["home"], config["workdir"]) == ("worker", 1000, "/home/worker", "/srv")
    assert (config["entrypoint"], config["cmd"], config["labels"], config["stopsignal"]) == (["/bin/x"], ["y"], {"l": "m"}, signal.SIGINT)
    assert config["ports"] == ["80/tcp", "53/udp"] and "A=1" in config["env"]
    root = layer(tmp_path / "data")
    assert os.stat(f"{root}/usr/local/bin/hello").st_mode & 0o7777 == 0o750
    assert os.stat(f"{root}/home/worker").st_uid == 1000


def test_a_directory_of_a_package_does_not_replace_a_link(debs, tmp_path):
    """Packages still say ./bin/; in the image, /bin is a link."""
    digest(build(tmp_path / "data", recipe_of(tmp_path), "--debs", str(debs(deb(
        ("./bin/", {"type": tarfile.DIRTYPE}), ("./bin/tool", {"data": b"x"}), ("./usr/bin/", {"type": tarfile.DIRTYPE}))))))
    root = layer(tmp_path / "data")
    assert os.readlink(f"{root}/bin") == "usr/bin" and os.path.isfile(f"{root}/usr/bin/tool")


def test_a_link_in_a_package_does_not_lead_out_of_the_image(debs, tmp_path):
    (tmp_path / "outside").mkdir()
    digest(build(tmp_path / "data", recipe_of(tmp_path, files=[{"path": "/way/added", "content": "x"}]), "--debs", str(debs(deb(
        (f".{tmp_path}/outside/", {"type": tarfile.DIRTYPE}), ("./way", {"type": tarfile.SYMTYPE, "linkname": str(tmp_path / "outside")}),
        ("./way/", {"type": tarfile.DIRTYPE}), ("./way/out", {"data": b"x"}))))))
    assert not os.listdir(tmp_path / "outside")
    assert {"out", "added"} <= set(os.listdir(layer(tmp_path / "data") + str(tmp_path / "outside")))


HOSTILE = {
    "climbs": (deb(("../../up", {"data": b"x"})), '".." in its name'),
    "device": (deb(("./dev/sda", {"type": tarfile.BLKTYPE})), "devices and sockets"),
    "truncated": (deb(*PLAIN)[:-40], "made_1_all.deb"),
    "no-data": (ar(("debian-binary", b"2.0\n"), ("control.tar.gz", packed(("control", {"data": b"Package: made\nVersion: 1\nArchitecture: all\n"})))),
                "made_1_all.deb"),
    "not-a-package": (b"hello", "made_1_all.deb"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_package_that_is_malformed_or_hostile_is_refused_by_its_defect(case, debs, tmp_path):
    data, words = HOSTILE[case]
    r = build(tmp_path / "data", recipe_of(tmp_path), "--debs", str(debs(data)))
    assert r.returncode and words in r.stderr, r.stderr
    assert not work_left(tmp_path / "data") and not os.path.exists(f"{tmp_path}/data/images/layers")


def test_a_package_that_is_not_there_is_named_with_the_fix(debs, tmp_path):
    found = debs(deb(*PLAIN, depends="needed (>= 2)"))
    r = build(tmp_path / "data", recipe_of(tmp_path, packages=["absent"]), "--debs", str(found))
    assert r.returncode and "no package named absent in" in r.stderr and ".deb file there" in r.stderr
    r = build(tmp_path / "data", recipe_of(tmp_path), "--debs", str(found))
    assert r.returncode and "Depends: needed" in r.stderr and "--debs" in r.stderr
    r = build(tmp_path / "data", recipe_of(tmp_path), "--debs", str(tmp_path))
    assert r.returncode and "no .deb files" in r.stderr
    assert not work_left(tmp_path / "data")


WRONG = {
    "option": ({"packages": ["-oDir::Etc=/x"]}, "-oDir::Etc=/x"),
    "removal": ({"packages": ["bash-"]}, "bash-"),
    "path": ({"packages": ["./made.deb"]}, "./made.deb"),
    "suite": ({"suite": "-x"}, "suite"),
    "none": ({"packages": []}, "packages"),
    "unknown": ({"run": ["apt-get", "update"]}, "no member run"),
    "number": ({"env": {"A": 1}}, "env.A"),
    "climbing-file": ({"files": [{"path": "/etc/../x", "content": "x"}]}, "files[0]: path"),
    "two-sources": ({"files": [{"path": "/x", "content": "x", "from": "y"}]}, "files[0]"),
    "mode": ({"files": [{"path": "/x", "content": "x", "mode": 755}]}, "files[0]: mode"),
    "port": ({"ports": [70000]}, "ports"),
    "workdir": ({"workdir": "srv"}, "workdir"),
    "missing-file": ({"files": [{"path": "/x", "from": "absent"}]}, "absent"),
    "user": ({"user": "a/b"}, "user"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_recipe_that_is_wrong_is_refused_by_its_member(case, debs, tmp_path):
    members, words = WRONG[case]
    r = build(tmp_path / "data", recipe_of(tmp_path, **members), "--debs", str(debs(deb(*PLAIN))))
    assert r.returncode and words in r.stderr, r.stderr
    assert not work_left(tmp_path / "data")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except FileNotFoundError:
        return []


def test_an_interrupted_build_leaves_nothing(debs, tmp_path):
    """apt-get waits for a package that nobody writes."""
    found = debs(deb(*PLAIN))
    os.mkfifo(found / "never_1_all.deb")
    p = subprocess.Popen([f"{BUILD}/cay", "image", "build", "-f", str(recipe_of(tmp_path)), "--data-dir", str(tmp_path / "data"), "--debs", str(found)],
                         stderr=subprocess.PIPE, text=True)
    wait_until(lambda: children(p.pid))
    apt = children(p.pid)
    p.send_signal(signal.SIGINT)
    _, said = p.communicate(timeout=120)
    assert p.returncode == 1 and "stopped by a signal" in said
    assert not work_left(tmp_path / "data")
    wait_until(lambda: not any(os.path.exists(f"/proc/{c}") for c in apt))


def test_a_build_depends_on_nothing_but_its_input(debs, tmp_path):
    """Neither on the time, nor on the umask, nor on the order and the times of files."""
    found = debs(deb(*PLAIN, depends="other"))
    debs(deb(("./etc/other", {"data": b"o"}), name="other"), "other_1_all.deb")
    (tmp_path / "added").write_text("added\n")
    recipe = recipe_of(tmp_path, user="worker", files=[{"path": "/srv/a", "from": "added"}])
    first = digest(build(tmp_path / "one", recipe, "--debs", str(found)))
    os.utime(tmp_path / "added", (1, 1700000000))
    shutil.copytree(found, tmp_path / "again")
    again = build(tmp_path / "two", recipe, "--debs", str(tmp_path / "again"), umask=0o077, env={"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"})
    assert digest(again) == first
    dated = [build(tmp_path / n, recipe, "--debs", str(found), env={"SOURCE_DATE_EPOCH": "1700000000"}) for n in ("three", "four")]
    assert digest(dated[0]) == digest(dated[1]) != first
    (tmp_path / "added").write_text("changed\n")
    assert digest(build(tmp_path / "five", recipe, "--debs", str(found))) != first


def apt_source(tmp_path, found, scheme):
    """An apt source of this test alone, and the variables that make apt-get use it."""
    index = ""
    for path in sorted(found.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "-f", str(path)], capture_output=True, text=True, check=True).stdout
        index += f"{control}Filename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {hashlib.sha256(path.read_bytes()).hexdigest()}\n\n"
    (found / "Packages").write_text(index)
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] {scheme}:{found} ./\n")
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::sourcelist "{tmp_path}/sources.list"; Dir::Etc::sourceparts "/dev/null"; '
                                       f'Dir::State::lists "{tmp_path}/lists"; APT::Sandbox::User "root";\n')
    env = {"APT_CONFIG": str(tmp_path / "apt.conf")}
    subprocess.run(["apt-get", "update", "-o", f"Dir::Cache={tmp_path}/cache", "-o", "Debug::NoLocking=1"], env=dict(os.environ, **env),
                   capture_output=True, check=True)
    return env


def test_a_source_gives_the_same_image_as_a_directory(debs, tmp_path):
    found = debs(deb(*PLAIN, depends="other"))
    debs(deb(("./etc/other", {"data": b"o"}), name="other"), "other_1_all.deb")
    env = apt_source(tmp_path, found, "copy")
    first = digest(build(tmp_path / "one", recipe_of(tmp_path), env=env))
    assert first == digest(build(tmp_path / "two", recipe_of(tmp_path), "--debs", str(found)))


def test_no_package_of_a_build_goes_missing(debs, tmp_path):
    """apt-get does not copy packages of a source that is a directory."""
    env = apt_source(tmp_path, debs(deb(*PLAIN)), "file")
    r = build(tmp_path / "data", recipe_of(tmp_path), env=env)
    assert r.returncode and "chose 1 packages, and 0" in r.stderr and "--debs" in r.stderr, r.stderr


# -- real packages ----------------------------------------------------------------------------------------------------


def packages_of(*names):
    wanted = set()
    for name in names:
        with open(f"{EXAMPLES}/{name}.yaml") as f:
            wanted |= set(yaml.safe_load(f)["packages"])
    return sorted(wanted)


@pytest.fixture(scope="module")
def fetched():
    """Packages of the examples, fetched once for this tree."""
    stamp, wanted = f"{FETCHED}/stamp", "\n".join(packages_of(*NAMES))
    if not os.path.exists(stamp) or open(stamp).read() != wanted:
        shutil.rmtree(FETCHED, ignore_errors=True)
        os.makedirs(f"{FETCHED}/partial")
        open(f"{FETCHED}/status", "w").close()
        r = subprocess.run(["apt-get", "-q", "-y", "--no-install-recommends", "--download-only", "-o", f"Dir::Cache::archives={FETCHED}",
                            "-o", f"Dir::State::status={FETCHED}/status", "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root",
                            "install", *wanted.split()], capture_output=True, text=True)
        if r.returncode:
            pytest.skip(f"no apt source can be reached: {r.stderr.strip().splitlines()[-1]}")
        with open(stamp, "w") as f:
            f.write(wanted)
    return FETCHED


COMMANDS = {
    "base": ("id -u; awk 'BEGIN { print 6 * 7 }'; grep -c BEGIN.CERT /etc/ssl/certs/ca-certificates.crt | sed 's/[0-9].*/certs/'", ["0", "42", "certs"]),
    "git": ("id -un; pwd; git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git branch --show-current",
            ["agent", "/home/agent", "main"]),
    "node": ("node -e 'console.log(process.getuid(), require(\"crypto\").createHash(\"md5\").update(\"\").digest(\"hex\"))'",
             ["1000", "d41d8cd98f00b204e9800998ecf8427e"]),
    "python": ("python3 -c 'import os, sqlite3, ssl; print(os.getuid(), os.getcwd(), len(ssl.create_default_context().get_ca_certs()) > 50)';"
               " python3 -m venv v && v/bin/pip --version | cut -d' ' -f1", ["1000", "/home/agent", "True", "pip"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_builds_and_runs(name, cay, fetched):
    digest(build(cay.data_dir, f"{EXAMPLES}/{name}.yaml", "--debs", fetched))
    script, words = COMMANDS[name]
    cay.api("POST", PODS, {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
        {"name": "main", "image": f"example.com/cay/{name}:1", "command": ["sleep", "infinity"]}]}})
    cay.wait(PODS, name, is_ready)
    assert cay.kubectl("exec", name, "--", "bash", "-c", script, timeout=300).stdout.split() == words


def test_an_example_is_the_same_image_each_time(fetched):
    needs_root()
    made = []
    for _ in range(2):
        data_dir = make_dir()
        made.append(digest(build(data_dir, f"{EXAMPLES}/python.yaml", "--debs", fetched)))
        shutil.rmtree(data_dir)
    assert made[0] == made[1]


def test_packages_come_from_the_apt_sources_of_the_machine(fetched, tmp_path):
    needs_root()
    before = os.stat("/var/lib/dpkg/status").st_mtime_ns
    r = build(tmp_path / "data", recipe_of(tmp_path, packages=["base-files", "dash"]))
    if r.returncode and ("apt-get: Failed to fetch" in r.stderr or "no package named" in r.stderr):
        pytest.skip(f"no apt source can be reached: {r.stderr}")
    digest(r)
    root = layer(tmp_path / "data")
    assert os.readlink(f"{root}/usr/bin/sh") == "dash" and os.path.isfile(f"{root}/usr/bin/dash")
    assert os.stat("/var/lib/dpkg/status").st_mtime_ns == before
    r = build(tmp_path / "data", recipe_of(tmp_path, packages=["no-such-package-anywhere"]))
    assert r.returncode and "no package named no-such-package-anywhere" in r.stderr and "--debs" in r.stderr
