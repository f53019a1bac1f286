# SPDX-License-Identifier: Apache-2.0
"""The image host:writable: root installs, replaces and removes packages over this machine's /usr, and reads no more of it than anybody may."""

import hashlib
import os
import shutil
import subprocess

import pytest

from cay_local import ROOT, is_ready, wait_until
from test_runtimes import need

PODS = "/api/v1/namespaces/default/pods"
FETCHED = os.path.join(ROOT, "build", "root")
NAME = f"cay-test-{os.getpid()}"
CLOSED, SECRET = f"/usr/share/{NAME}-closed", f"/usr/share/{NAME}-secret"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends"
MIRROR = "http://127.0.0.1:8099"
GET = 'exec 3<>/dev/tcp/127.0.0.1/%d; printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3'

pytestmark = pytest.mark.skipif(not os.path.exists("/var/lib/dpkg/status"), reason="needs a machine with dpkg and apt")


class Box:
    def __init__(self, cay, name, image="host:writable", runtime=None, **container):
        self.cay, self.name = cay, name
        spec = {"terminationGracePeriodSeconds": 0, "containers": [
            dict({"name": "main", "image": image, "command": ["sleep", "infinity"]}, **container)]}
        if runtime:
            spec["runtimeClassName"] = runtime
        cay.api("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        cay.wait(PODS, name, is_ready)

    def run(self, script, stdin=None):
        env = dict(os.environ, KUBECONFIG=self.cay.kubeconfig, HOME=self.cay.data_dir)
        argv = ["kubectl", "exec", *(["-i"] if stdin else []), self.name, "--", "bash", "-c", f"exec 2>&1; {script}"]
        r = subprocess.run(argv, input=stdin, capture_output=True, env=env, timeout=300)
        out = r.stdout.decode(errors="replace")
        assert r.returncode == 0, f"{script}: exit {r.returncode}: {out}{r.stderr.decode(errors='replace')}"
        return out

    def delete(self):
        self.cay.kubectl("delete", "pod", self.name, timeout=60)


def write(path, text, mode=0o644):
    with open(path, "w") as f:
        os.fchmod(f.fileno(), mode)
        f.write(text)


@pytest.fixture(scope="module")
def machine():
    """What this machine has besides its own, when the image is made of it."""
    apt = {f"/etc/apt/apt.conf.d/{NAME}-url.off": 'Cay::Test "http://name:word@example.invalid/";\n',
           f"/etc/apt/apt.conf.d/{NAME}-key.off": "-----BEGIN PRIVATE KEY-----\n",
           f"/etc/apt/apt.conf.d/{NAME}-good.off": 'Cay::Test "http://example.invalid/a@b";\n',
           f"/etc/apt/auth.conf.d/{NAME}.off": "machine example.invalid login name word secret\n",
           f"/etc/apt/sources.list.d/{NAME}-closed.off": "# for root alone\n"}
    try:
        os.mkdir(CLOSED)
        write(f"{CLOSED}/file", "closed")
        os.mkdir(f"{CLOSED}/below")
        os.chmod(CLOSED, 0o700)
        write(SECRET, "secret", 0o600)
        for path, text in apt.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write(path, text, 0o600 if "closed" in path else 0o644)
        yield
    finally:
        shutil.rmtree(CLOSED, ignore_errors=True)
        for path in (SECRET, *apt):
            if os.path.exists(path):
                os.unlink(path)


@pytest.fixture(scope="module")
def box(cay, machine):
    return Box(cay, "writable")


def build_deb(to, name, version, files, scripts=None):
    """A package, and what an index says of it."""
    tree = to / f"{name}-tree"
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test\nDescription: test\n"
    for path, (text, mode) in {"DEBIAN/control": (control, 0o644), **files,
                               **{f"DEBIAN/{k}": (v, 0o755) for k, v in (scripts or {}).items()}}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        write(tree / path, text, mode)
    deb = to / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, deb], check=True, capture_output=True)
    shutil.rmtree(tree)
    data = deb.read_bytes()
    return f"{control}Filename: ./{name}.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"


def program_of(package):
    """A small program of this machine's, as its package calls it."""
    listed = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True, check=True).stdout.split()
    return next(f for f in listed if f.endswith(f"bin/{package}"))


@pytest.fixture(scope="module")
def mirror(box, tmp_path_factory):
    """A mirror in the sandbox, which apt asks over HTTP as its own user, with a new package and a newer one of the machine's."""
    to = tmp_path_factory.mktemp("mirror")
    index = build_deb(to, "cay-probe", "1", {"usr/bin/cay-probe": ("#!/bin/sh\necho probed by $(id -un)\n", 0o755),
                                             "usr/share/cay-probe/new/file": ("x", 0o644),
                                             "etc/cay-probe.conf": ("as packaged\n", 0o644), "DEBIAN/conffiles": ("/etc/cay-probe.conf\n", 0o644)},
                      {"postinst": "#!/bin/sh -e\nadduser --system --group --quiet cayprobe\nchown cayprobe /usr/share/cay-probe/new\n",
                       "postrm": "#!/bin/sh -e\necho gone >/srv/postrm\n"})
    index += build_deb(to, "hostname", "999", {program_of("hostname").lstrip("/"): ("#!/bin/sh\necho newer\n", 0o755)})
    (to / "Packages").write_text(index)
    tar = subprocess.run(["tar", "-C", to, "-c", "."], capture_output=True, check=True).stdout
    box.run("mkdir -p /srv/mirror && tar -C /srv/mirror -x", stdin=tar)
    box.run(f"rm -rf /etc/apt/sources.list.d/* /etc/apt/sources.list; echo 'deb [trusted=yes] {MIRROR}/ ./' >/etc/apt/sources.list; "
            "cd /srv/mirror && (python3 -m http.server --bind 127.0.0.1 8099 >/dev/null 2>&1 &)")
    wait_until(lambda: "up" in box.run(f"(exec 3<>{MIRROR.replace('http:/', '/dev/tcp').replace(':8099', '/8099')}) 2>/dev/null && echo up; true"))
    box.run(f"{APT} update")
    return box


def test_apt_get_installs_from_a_mirror_and_runs_the_packages_scripts(mirror):
    mirror.run(f"{APT} install cay-probe")
    assert mirror.run("cay-probe") == "probed by root\n"
    assert mirror.run("su cayprobe -s /bin/sh -c cay-probe") == "probed by cayprobe\n"
    assert mirror.run("stat -c %U /usr/share/cay-probe/new; cat /etc/cay-probe.conf") == "cayprobe\nas packaged\n"
    mirror.run(f"{APT} purge cay-probe")
    assert mirror.run("cat /srv/postrm; ls -d /usr/bin/cay-probe /usr/share/cay-probe /etc/cay-probe.conf 2>/dev/null; true") == "gone\n"


def test_a_package_of_the_machines_is_upgraded_and_only_in_the_sandbox(cay, mirror):
    program = program_of("hostname")
    before = os.stat(program)
    mirror.run(f"{APT} install hostname")
    assert mirror.run(f"{program}; dpkg-query -W hostname").split() == ["newer", "hostname", "999"]
    mirror.run("dpkg --force-all --remove hostname")
    assert mirror.run(f"[ -e {program} ] || echo removed") == "removed\n"
    assert os.stat(program) == before
    other = Box(cay, "other")
    assert other.run(program) == "other\n"
    other.delete()


@pytest.fixture(scope="module")
def installed(cay, machine):
    """nginx and PostgreSQL, with apt-get: those that the machine lacks are new, those that it has become newer, or are installed again."""
    if not os.path.exists(f"{FETCHED}/stamp"):
        pytest.skip("build/root lacks the packages: tools/setup-root fetches them, on Debian")
    box = Box(cay, "servers", resources={"limits": {"memory": "512Mi"}})
    tar = subprocess.run(["tar", "-C", FETCHED, "-c", "--exclude=partial", "host", "image"], capture_output=True, check=True).stdout
    box.run("mkdir /debs && tar -C /debs -x", stdin=tar)
    newest = "/debs/image/{postgresql,postgresql-common,postgresql-client-common,nginx,nginx-common,nginx-light}_*.deb"
    box.run(f"{APT} install --reinstall --allow-downgrades $(ls {newest} /debs/host/*.deb | sort -t/ -k4 -u)")
    return box


def test_nginx_serves_a_page_as_apt_get_installed_it(installed):
    assert "install ok installed" in installed.run("dpkg -s nginx-light")
    assert installed.run("stat -c %U $(readlink -f /usr/sbin/nginx)") == "root\n"
    assert not installed.run("ls /run/nginx.pid 2>/dev/null; true")  # nobody starts it but who wants it
    # Where the machine has nginx, dpkg knows its configuration, takes it for removed on purpose, and leaves it so.
    site = "/etc/nginx/sites-enabled"
    installed.run(f"ls {site}/* 2>/dev/null || {{ mkdir -p {site}; echo 'server {{ listen 80; root /usr/share/nginx/html; }}' >{site}/default; }}")
    installed.run("nginx")
    assert "Welcome to nginx" in installed.run(GET % 80)


def test_postgresql_answers_a_query_as_apt_get_installed_it(installed):
    assert "install ok installed" in installed.run("dpkg -s postgresql-common")
    assert installed.run("stat -c %U /usr/share/postgresql-common/pg_wrapper") == "root\n"
    path = installed.run("dirname /usr/lib/postgresql/*/bin/initdb | tail -n 1").strip()
    as_postgres = f"su postgres -s /bin/bash -c 'cd /; export PATH={path}:$PATH; %s'"
    installed.run("install -d -o postgres -g postgres /run/postgresql")
    installed.run(as_postgres % "initdb -D /var/lib/postgresql/data --no-sync")
    installed.run(as_postgres % "pg_ctl -w -t 120 -D /var/lib/postgresql/data -l /var/lib/postgresql/log -o \"-p 5544\" start")
    made = "create table t (n int); insert into t select * from generate_series(1, 100); select sum(n) from t"
    assert installed.run(as_postgres % f"psql -p 5544 -Atc \"{made}\"").split()[-1] == "5050"
    installed.run(as_postgres % "pg_ctl -w -t 120 -D /var/lib/postgresql/data -m fast stop")


READ = ("import os, errno\nfor what in (lambda: open('%s').read(), lambda: os.listdir('%s'), lambda: open('%s/file').read(), "
        "lambda: open('%s/new', 'w'), lambda: open('/usr/bin/ls', 'a'), lambda: os.chmod('/usr/bin/ls', 0o777), "
        "lambda: os.link('/usr/bin/ls', '/usr/bin/ls2')):\n"
        "  try: print(what())\n  except OSError as e: print(errno.errorcode[e.errno])\n") % (SECRET, CLOSED, CLOSED, CLOSED)


@pytest.mark.parametrize("runtime", ["native", "crun", "runc", "runsc"])
def test_what_only_root_of_the_machine_may_read_stays_closed(cay, machine, runtime):
    """Directories are root's, files are not. The next sandbox reads the same file, once everybody may."""
    need(runtime)
    one = Box(cay, f"walls-{runtime}", runtime=runtime)
    tried = one.run("python3 -", stdin=READ.encode()).split()
    assert tried[:4] == ["EACCES"] * 4, tried
    assert set(tried[4:]) <= {"EACCES", "EPERM", "EOVERFLOW"}, tried
    assert one.run("stat -c '%U %a' /usr /usr/bin /usr/lib").splitlines() == ["root 755"] * 3
    one.delete()
    try:
        os.chmod(SECRET, 0o644)
        one = Box(cay, f"walls-{runtime}", runtime=runtime)
        assert one.run(f"cat {SECRET}") == "secret"
    finally:
        os.chmod(SECRET, 0o600)
    one.delete()


def test_no_credential_of_apt_is_in_the_image(box):
    """Nor a file that not everybody may read. What has nothing to hide is there."""
    found = box.run(f"find / -xdev -name '{NAME}*' -path '/etc/*'").split()
    assert found == [f"/etc/apt/apt.conf.d/{NAME}-good.off"]


def test_what_is_written_into_usr_counts_against_the_limit(cay, machine):
    one = Box(cay, "bounded", resources={"limits": {"ephemeral-storage": "48Mi"}})
    fill = ("import errno\nn=0\ntry:\n  f=open('/usr/lib/big','wb',0)\n  while n<100:\n    f.write(bytes(1<<20)); n+=1\n"
            "except OSError as e:\n  print(n,errno.errorcode[e.errno])")
    n, what = one.run("python3 -", stdin=fill.encode()).split()
    assert what == "EDQUOT" and 40 <= int(n) <= 50
    one.delete()


def test_a_read_only_root_has_a_read_only_usr(cay, machine):
    one = Box(cay, "fixed", securityContext={"readOnlyRootFilesystem": True})
    assert one.run("for d in /usr /usr/bin /usr/local; do touch $d/x || true; done").count("Read-only file system") == 3
    one.delete()


def made_of(cay):
    return {d for d in os.listdir(f"{cay.data_dir}/images") if d.startswith("host-writable-")}


def test_a_changed_machine_makes_a_new_image_and_a_running_sandbox_keeps_its_own(fresh):
    """Each time that the server starts. A directory that was opened is root's, one that was closed is nobody's."""
    top = f"/usr/share/{NAME}-changing"
    cay = fresh()
    assert not made_of(cay)  # who does not ask for it does not pay for it
    try:
        os.makedirs(f"{top}/deep")
        before = Box(cay, "before")
        first = made_of(cay)
        before.run("echo kept >/usr/bin/cay-kept")
        cay.kill()
        os.mkdir(f"{top}/deep/er")
        write(f"{top}/deep/file", "open")
        cay.start()
        after = Box(cay, "after")
        second = made_of(cay) - first
        assert len(first) == 1 and len(second) == 1 and first < made_of(cay)
        assert after.run(f"touch {top}/deep/er/x; stat -c %U {top}/deep/er; cat {top}/deep/file") == "root\nopen"
        assert before.run("cat /usr/bin/cay-kept; touch /usr/share/doc/x; ls /usr/share/doc | wc -l").startswith("kept\n")
        after.delete()
        before.delete()
        cay.kill()
        os.chmod(f"{top}/deep", 0o700)
        cay.start()
        last = Box(cay, "last")
        assert last.run(f"cat {top}/deep/file || ls {top}/deep || true").count("Permission denied") == 2
    finally:
        shutil.rmtree(top, ignore_errors=True)
    wait_until(lambda: len(made_of(cay)) == 1)  # nobody uses the others
    assert not made_of(cay) & (first | second)


def test_the_image_is_listed_and_cannot_be_given_away(cay):
    listed = cay.cay("image", "ls", "--data-dir", cay.data_dir).stdout
    assert any(line.split()[0] == "host:writable" for line in listed.splitlines())
    assert '"source": "built-in"' in cay.cay("image", "inspect", "host:writable", "--data-dir", cay.data_dir, "-o", "json").stdout
    r = cay.cay("image", "tag", "pause", "host:writable", "--data-dir", cay.data_dir, check=False)
    assert r.returncode and "built-in" in r.stderr
