# SPDX-License-Identifier: Apache-2.0
"""Root in a sandbox can do its work: become other users, install packages, run servers that change owners and ids.

The programs are real. Where this machine does not have them, tools/setup-root has fetched their packages.
"""

import os
import shutil
import subprocess

import pytest

from cay_local import ROOT, is_ready

PODS = "/api/v1/namespaces/default/pods"
FETCHED = os.path.join(ROOT, "build", "root")
GET = 'exec 3<>/dev/tcp/127.0.0.1/%d; printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3'
LIBRARIES = "LD_LIBRARY_PATH=/opt/usr/lib/$(uname -m)-linux-gnu"
# Of the base: neither what nobody reads in a test, nor what the machine's administrator put there.
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/zoneinfo/", "/usr/local/")


@pytest.fixture(scope="module")
def fetched():
    if not os.path.exists(f"{FETCHED}/stamp"):
        pytest.skip("build/root lacks the packages: tools/setup-root fetches them, on Debian")
    return FETCHED


class Box:
    """A sandbox whose command does nothing, and what is run in it as root."""

    def __init__(self, cay, name, image):
        self.cay, self.name = cay, name
        cay.api("POST", PODS, {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
            {"name": "main", "image": image, "command": ["sleep", "infinity"], "resources": {"limits": {"memory": "512Mi"}}}]}})
        cay.wait(PODS, name, is_ready)

    def run(self, script, timeout=180):
        r = self.cay.kubectl("exec", self.name, "--", "bash", "-c", f"exec 2>&1; {script}", check=False, timeout=timeout)
        assert r.returncode == 0, f"{script}: exit {r.returncode}: {r.stdout}{r.stderr}"
        return r.stdout


@pytest.fixture(scope="module")
def host_box(cay):
    return Box(cay, "on-host", "host")


def add(box, debs):
    """Unpacks packages below /opt of a sandbox, whose /usr is the machine's own and read-only."""
    tar = subprocess.run(["tar", "-C", debs, "-c", "--exclude=partial", "."], capture_output=True, check=True).stdout
    env = dict(os.environ, KUBECONFIG=box.cay.kubeconfig, HOME=box.cay.data_dir)
    subprocess.run(["kubectl", "exec", "-i", box.name, "--", "sh", "-c", "mkdir -p /debs && tar -C /debs -x && "
                    "for d in /debs/*.deb; do [ ! -e $d ] || dpkg -x $d /opt; done"], input=tar, env=env, check=True, timeout=120)


@pytest.fixture(scope="module")
def with_servers(host_box, fetched):
    add(host_box, f"{fetched}/host")
    return host_box


def users_of(box, command):
    """The users, by number, that processes of a program run as."""
    script = f"for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = {command} ] && stat -c %u $p; done; true"
    return set(box.run(script).split())


def test_su_makes_root_another_user(host_box):
    assert host_box.run("su agent -c 'id -u; id -g; grep CapEff /proc/self/status'").split() == [
        "1000", "1000", "CapEff:", "0000000000000000"]
    assert host_box.run("su - www-data -s /bin/sh -c 'cd /; id -un'").split()[-1] == "www-data"
    assert host_box.run("runuser -u agent -- id -un") == "agent\n"


def test_an_ordinary_user_does_not_become_root(host_box):
    """su is a setuid program: here that gives it nothing, whatever the password is."""
    out = host_box.run("echo root:secret | chpasswd; su agent -c 'echo secret | su root -c id || echo refused'")
    assert "refused" in out and "uid=0" not in out


def test_a_user_can_be_added(host_box):
    out = host_box.run("useradd -m -d /home/new -s /bin/sh new && su new -c 'cd && touch mine && stat -c %U mine'")
    assert out.split()[-1] == "new"


def test_nginx_serves_from_the_host_image(with_servers):
    """As its package sets it up: a master that is root, on port 80, and workers of www-data."""
    config = ("user www-data; worker_processes 1; pid /run/nginx.pid; error_log /var/log/nginx/error.log; events {} "
              "http { access_log /var/log/nginx/access.log; server { listen 80; root /srv/www; } }")
    with_servers.run(f"mkdir -p /var/log/nginx /var/lib/nginx /srv/www; echo hello > /srv/www/index.html; echo '{config}' > /etc/n.conf; "
                     f"{LIBRARIES} PATH=$PATH:/opt/usr/sbin nginx -c /etc/n.conf")
    assert with_servers.run(GET % 80).endswith("\n\nhello\n")
    assert users_of(with_servers, "nginx") == {"0", "33"}


def test_postgresql_answers_a_query_from_the_host_image(with_servers):
    box = with_servers
    find = "ls -d /usr/lib/postgresql/*/bin /opt/usr/lib/postgresql/*/bin 2>/dev/null | head -n 1"
    path = box.run(f"dirname $({find})/initdb").strip()
    as_postgres = f"su postgres -s /bin/bash -c 'cd /; export {LIBRARIES} PATH={path}:$PATH; %s'"
    box.run("useradd -r -m -d /var/lib/postgresql postgres; install -d -o postgres -g postgres /run/postgresql")
    box.run(as_postgres % "initdb -D /var/lib/postgresql/data --no-sync")
    box.run(as_postgres % "pg_ctl -w -t 120 -D /var/lib/postgresql/data -l /var/lib/postgresql/log -o \"-k /run/postgresql\" start")
    made = "create table t (n int); insert into t select * from generate_series(1, 100); select sum(n) from t"
    assert box.run(as_postgres % f"psql -h /run/postgresql -Atc \"{made}\"").split()[-1] == "5050"
    assert users_of(box, "postgres") == {box.run("id -u postgres").strip()}
    box.run(as_postgres % "pg_ctl -w -t 120 -D /var/lib/postgresql/data -m fast stop")


def test_apt_get_in_the_host_image_says_what_to_do_instead(host_box):
    """/usr is the machine's own: nothing can be installed, and nobody needs to guess why."""
    for command in ("apt-get install -y nginx", "apt -y install nginx", "apt-get -y upgrade"):
        out = host_box.run(f"{command}; echo $?")
        assert out.split()[-1] == "100" and "its /usr is the machine's own and read-only" in out and "host:writable" in out
    assert host_box.run("touch /usr/bin/x || true").strip().endswith("Read-only file system")
    assert host_box.run("apt-get --version").startswith("apt ")


def files_of(packages):
    """What the packages put on this machine, and what dpkg knows of them."""
    listed = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout.split("\n")
    info = [f"/var/lib/dpkg/info/{name}" for name in os.listdir("/var/lib/dpkg/info") if name.split(".")[0].split(":")[0] in packages
            or name.rsplit(".", 1)[0].split(":")[0] in packages]
    wanted = {f for f in listed + info if f.startswith("/") and f != "/." and not f.startswith(LEFT_OUT)}
    for top in ("bin", "sbin", "lib", "lib64"):  # packages name files by the old names of directories
        wanted = {f"/usr{f}" if f.startswith(f"/{top}/") and os.path.islink(f"/{top}") else f for f in wanted} | {f"/{top}"}
    return sorted(f for f in wanted if os.path.lexists(f))


@pytest.fixture(scope="module")
def debian(cay, fetched, tmp_path_factory):
    """The name of an image with Debian's base and apt, made of this machine's own files, and packages in /debs."""
    root = tmp_path_factory.mktemp("debian") / "root"
    root.mkdir()
    with open(f"{fetched}/base") as f:
        names = "\n".join(files_of(f.read().split()))
    copy = ["tar", "-C", "/", "-c", "--no-recursion", "-T", "-"]
    packed = subprocess.run(copy, input=names.encode(), capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", root, "-x", "-p"], input=packed, check=True)
    for made in ("etc/pam.d", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial", "var/log/apt",
                 "var/cache/apt/archives/partial", "tmp", "run", "debs", "root", "proc", "dev", "sys"):
        (root / made).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in ("usr/bin/awk", "etc/alternatives/awk"):  # no package has them: update-alternatives makes them
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(os.readlink(f"/{name}"))
    shutil.copy(f"{fetched}/status", root / "var/lib/dpkg/status")
    shutil.copytree(f"{fetched}/image", root / "debs", dirs_exist_ok=True, ignore=shutil.ignore_patterns("partial"))
    for name in ("passwd", "group"):
        shutil.copy(f"/usr/share/base-passwd/{name}.master", root / "etc" / name)
    for kind in ("account", "auth", "password", "session"):
        (root / f"etc/pam.d/common-{kind}").write_text(f"{kind} required pam_unix.so\n")
    subprocess.run(["pwconv", "--root", root], check=True)
    cay.cay("image", "import", str(root), "debian:base", "--data-dir", cay.data_dir)
    return "debian:base"


@pytest.fixture(scope="module")
def installed(cay, debian):
    """A sandbox of that image, with nginx and PostgreSQL as apt-get has installed them."""
    box = Box(cay, "on-debian", debian)
    box.run("su - nobody -s /bin/sh -c 'cd /; id -un'")
    box.run("DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /debs/*.deb")
    return box


def test_apt_get_installs_and_nginx_serves_from_an_imported_image(installed):
    box = installed
    assert "install ok installed" in box.run("dpkg -s nginx-light")
    assert box.run("stat -c %G /var/log/nginx") == "adm\n"
    box.run("[ -e /run/nginx.pid ] || nginx")
    assert "Welcome to nginx" in box.run(GET % 80)
    assert users_of(box, "nginx") == {"0", "33"}


def test_postgresql_answers_a_query_from_an_imported_image(installed):
    box = installed
    assert "install ok installed" in box.run("dpkg -s postgresql")
    path = box.run("dirname /usr/lib/postgresql/*/bin/initdb").strip()
    as_postgres = f"su postgres -s /bin/bash -c 'cd /; export PATH={path}:$PATH; %s'"
    box.run(as_postgres % "initdb -D /var/lib/postgresql/data --no-sync")
    box.run(as_postgres % "pg_ctl -w -t 120 -D /var/lib/postgresql/data -l /var/lib/postgresql/log -o \"-p 5544\" start")
    made = "create table t (n int); insert into t select * from generate_series(1, 100); select sum(n) from t"
    assert box.run(as_postgres % f"psql -p 5544 -Atc \"{made}\"").split()[-1] == "5050"
    assert users_of(box, "postgres") == {box.run("id -u postgres").strip()}
    box.run(as_postgres % "pg_ctl -w -t 120 -D /var/lib/postgresql/data -m fast stop")
