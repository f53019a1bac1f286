# SPDX-License-Identifier: Apache-2.0
"""The Debian package in a clean Debian: installed by apt, run by the line of its unit, upgraded below sandboxes, purged.

systemd is not pid 1 where these tests run, so the very line ExecStart of the unit is started in the root, and stopped and
started again where systemd would. Packages come from the sources that apt has on this machine.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time

import pytest

from cay_local import ROOT, free_port
from conftest import needs_root

# With nothing beside them: the libnftables of a newer Debian writes sets that the one of Debian 12 cannot read, and
# every program that uses the latter crashes while such a set is there.
pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(3600)]
ROOTS = os.path.join(ROOT, "build", "deb-roots")
POOL = """
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: small}
spec: {podTemplate: {spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: host, command: [sleep, infinity]}]}}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: small}
spec: {replicas: 1, sandboxTemplateRef: {name: small}}
"""


def build(version, *flags):
    r = subprocess.run([os.path.join(ROOT, "packaging", "build-deb"), "--version", version, *flags], capture_output=True, text=True, timeout=3000)
    assert r.returncode == 0, r.stderr[-2000:]
    return os.path.join(ROOT, r.stdout.strip())


@pytest.fixture(scope="module")
def debs():
    """Two builds of different versions."""
    for program in ("dpkg-deb", "dpkg-shlibdeps", "meson", "ninja"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing: apt-get install dpkg-dev, and tools/setup build")
    return [build("0.1.0+test1"), build("0.1.0+test2")]


def sources_of(suite):
    """The file of this machine's apt that names the suite."""
    for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources") + ["/etc/apt/sources.list"] + glob.glob("/etc/apt/sources.list.d/*.list")):
        if os.path.exists(path) and any(re.search(rf"\b{suite}\b", line) for line in open(path) if not line.startswith("#")):
            return path
    pytest.skip(f"no source of apt on this machine has {suite}")


def clean_root(suite):
    """A minimal root of that release; made once, and copied for each test."""
    needs_root()
    path = os.path.join(ROOTS, suite)
    if not os.path.exists(os.path.join(path, "etc", "debian_version")):
        if not shutil.which("mmdebstrap"):
            pytest.skip("mmdebstrap is missing: apt-get install mmdebstrap")
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(ROOTS, exist_ok=True)
        r = subprocess.run(["mmdebstrap", "--variant=minbase", suite, path + ".new", sources_of(suite)], capture_output=True, text=True, timeout=1800)
        assert r.returncode == 0, r.stderr[-2000:]
        os.rename(path + ".new", path)
    return path


class Machine:
    """A root with mounts of its own, which end with their holder."""

    def __init__(self, clean):
        self.root = tempfile.mkdtemp(prefix="cay-deb-", dir="/var/tmp")
        subprocess.run(["cp", "-a", "--reflink=auto", f"{clean}/.", self.root], check=True)
        shutil.copy("/etc/resolv.conf", f"{self.root}/etc/resolv.conf")
        # Its root is pivoted to and not only changed: the kernel makes no user namespaces for who is in a chroot.
        mounts = f"""set -e; cd {self.root}
            mount --bind . . && cd {self.root}
            mount --rbind /dev dev && mount --rbind /sys sys && mount -t proc proc proc && mount -t tmpfs -o mode=755 run run
            mkdir run/old && pivot_root . run/old && umount -l /run/old && rmdir /run/old && touch /run/there
            exec sleep infinity"""
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts])
        wait_until(lambda: self.try_run("test", "-e", "/run/there").returncode == 0, "the mounts of the root")
        self.server = None

    def argv(self, *args):
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "--wd=/", *args]

    def try_run(self, *args, **options):
        return subprocess.run(self.argv(*args), capture_output=True, text=True, timeout=1200, env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}, **options)

    def run(self, *args, **options):
        r = self.try_run(*args, **options)
        assert r.returncode == 0, (args, r.returncode, r.stdout[-3000:], r.stderr[-3000:])
        return r.stdout

    def apt(self, *args):
        return self.run("apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0", "-o", "Acquire::Check-Valid-Until=false", *args)

    def copy_in(self, path):
        shutil.copy(path, self.root + "/root/")
        return "/root/" + os.path.basename(path)

    def path(self, path):
        return self.root + path

    def start(self):
        """What systemd would run, without the capabilities that the unit takes away."""
        unit = open(self.path("/usr/lib/systemd/system/cay.service")).read()
        line = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M).group(1))
        gone = re.search(r"^CapabilityBoundingSet=~(.*)$", unit, re.M).group(1).lower().replace("cap_", "-").split()
        self.log = tempfile.TemporaryFile()
        self.server = subprocess.Popen(self.argv("setpriv", "--bounding-set", ",".join(gone), *line), umask=0o077,
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        wait_until(self.ready, "the server", self.server_log)

    def ready(self):
        assert self.server.poll() is None, self.server_log()
        return self.try_run("cay", "get", "nodes", "--kubeconfig", "/var/lib/cay/admin.kubeconfig").returncode == 0

    def server_log(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    def restart(self):
        self.server.terminate()
        assert self.server.wait(120) == 0
        self.start()

    def processes(self):
        """Those of the machine itself; what runs in sandboxes is in control groups of the instance."""
        mine = mounts_of(self.holder.pid)
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != self.holder.pid and mounts_of(pid) == mine]

    def end(self):
        if self.server and self.server.poll() is None:
            self.try_run("cay", "stop", "--sandboxes")
            self.server.kill()
            self.server.wait()
        self.holder.kill()
        self.holder.wait()
        subprocess.run(["rm", "-rf", "--one-file-system", self.root], check=True)


def mounts_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None


def wait_until(holds, what, log=lambda: "", timeout=180):
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end, f"{what}: not after {timeout} s\n{log()}"
        time.sleep(0.1)


def traces(instance):
    """What an instance has on the host."""
    run = lambda *argv: subprocess.run(argv, capture_output=True, text=True).stdout
    groups = [d for _, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if d in (f"cay-{instance}", f"cay-{instance}.scope")]
    lines = run("nft", "list", "tables").splitlines() + run("ip", "-o", "link").splitlines()
    return groups + [line for line in lines if f"cay_{instance}" in line or f"cay{instance}" in line]


@pytest.fixture
def machine(request):
    made = []

    def make(suite):
        made.append(Machine(clean_root(suite)))
        return made[-1]

    yield make
    for m in made:
        m.end()


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_package_installs_serves_upgrades_and_leaves_nothing(machine, debs, suite):
    m = machine(suite)
    m.apt("update")
    before = set(m.run("find", "/etc", "/usr", "/var/lib", "-xdev", "-not", "-path", "/var/lib/apt/*", "-not", "-path", "/var/lib/dpkg/*").splitlines())
    m.apt("install", "--no-install-recommends", m.copy_in(debs[0]))
    assert m.run("cay", "version").strip()
    assert "not found" not in m.run("ldd", "/usr/bin/cay", "/usr/libexec/cay/cay-launch")
    for path in ("/usr/share/man/man1/cay.1.gz", "/usr/share/man/man8/cay-serve.8.gz", "/usr/share/man/man5/cay.yaml.5.gz", "/usr/share/bash-completion/completions/cay", "/usr/share/zsh/vendor-completions/_cay",
                 "/usr/share/fish/vendor_completions.d/cay.fish", "/usr/libexec/cay/cay-init", "/usr/share/doc/cay/copyright"):
        assert os.path.exists(m.path(path)), path
    assert os.path.islink(m.path("/etc/systemd/system/multi-user.target.wants/cay.service"))

    with open(m.path("/etc/cay/cay.yaml"), "a") as f:
        f.write(f"\nlisten: 127.0.0.1:{free_port()}\nrouter-listen: 127.0.0.1:{free_port()}\nlog-levle: debug\n")
    r = m.try_run("cay", "serve", "--config", "/etc/cay/cay.yaml")
    assert r.returncode == 2 and re.search(r"/etc/cay/cay.yaml:\d+: log-levle: there is no such key", r.stderr), r.stderr
    text = open(m.path("/etc/cay/cay.yaml")).read().replace("log-levle", "log-level")
    open(m.path("/etc/cay/cay.yaml"), "w").write(text)

    m.start()
    cay = lambda *args, **o: m.run("cay", *args, "--kubeconfig", "/var/lib/cay/admin.kubeconfig", **o)
    open(m.path("/root/pool.yaml"), "w").write(POOL)
    cay("apply", "-f", "/root/pool.yaml")
    claim = cay("claim", "small").split()[0].removeprefix("claim/")
    m.run("cay", "exec", claim, "--kubeconfig", "/var/lib/cay/admin.kubeconfig", "--", "sh", "-c", "echo before >/tmp/mark")
    instance = json.load(open(m.path("/var/lib/cay/node/instance.json")))["id"]
    assert traces(instance)

    m.apt("install", "--no-install-recommends", m.copy_in(debs[1]))
    assert m.run("dpkg-query", "-W", "-f", "${Version}", "cay") == "0.1.0+test2"
    assert open(m.path("/etc/cay/cay.yaml")).read() == text
    assert m.server.poll() is None  # until it is restarted, as postinst does where systemd runs
    m.restart()
    mark = m.run("cay", "exec", claim, "--kubeconfig", "/var/lib/cay/admin.kubeconfig", "--", "cat", "/tmp/mark")
    assert mark == "before\n"
    m.run("cay", "backup", "/root/b")
    assert m.try_run("cay", "fsck").returncode == 0

    m.apt("remove", "cay")
    assert m.server.wait(120) == 0, m.server_log()
    wait_until(lambda: not m.processes(), "the end of all processes", lambda: str(m.processes()))
    wait_until(lambda: not traces(instance), "an empty host", lambda: str(traces(instance)))
    assert os.path.exists(m.path("/var/lib/cay/store.db")) and os.path.exists(m.path("/etc/cay/cay.yaml"))
    m.apt("purge", "cay")
    m.apt("autoremove", "--purge")
    after = set(m.run("find", "/etc", "/usr", "/var/lib", "-xdev", "-not", "-path", "/var/lib/apt/*", "-not", "-path", "/var/lib/dpkg/*").splitlines())
    new = {p for p in after - before if "cay" in p}
    assert not new and not os.path.exists(m.path("/run/cay")), sorted(new)[:20]
    assert not [line for line in m.run("cat", "/proc/self/mountinfo").splitlines() if "/cay" in line.split()[4]]


def test_removal_ends_sandboxes_that_no_server_looks_after(machine, debs):
    m = machine("bookworm")
    m.apt("update")
    m.apt("install", "--no-install-recommends", m.copy_in(debs[0]))
    with open(m.path("/etc/cay/cay.yaml"), "a") as f:
        f.write(f"\nlisten: 127.0.0.1:{free_port()}\nrouter-listen: 127.0.0.1:{free_port()}\n")
    m.start()
    m.run("cay", "run", "--keep", "--kubeconfig", "/var/lib/cay/admin.kubeconfig", "--", "true")
    instance = json.load(open(m.path("/var/lib/cay/node/instance.json")))["id"]
    m.server.kill()
    m.server.wait()
    assert traces(instance)
    m.apt("purge", "cay")
    wait_until(lambda: not m.processes(), "the end of all processes", lambda: str(m.processes()))
    wait_until(lambda: not traces(instance), "an empty host", lambda: str(traces(instance)))
    assert not os.path.exists(m.path("/var/lib/cay"))


def test_the_unit_is_understood_by_systemd(debs, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is missing")
    subprocess.run(["dpkg-deb", "-x", debs[0], str(tmp_path)], check=True)
    unit = str(tmp_path / "usr/lib/systemd/system/cay.service")
    text = open(unit).read()
    open(unit, "w").write(text.replace("/usr/bin/cay", str(tmp_path / "usr/bin/cay")))
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert r.returncode == 0 and unit not in r.stderr and "cay.service:" not in r.stderr, r.stderr
    assert re.search(r"^KillMode=process$", text, re.M) and re.search(r"^Delegate=yes$", text, re.M)
    r = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=90", unit], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout[-500:]


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_demo_runs_on_a_system_that_has_only_make(machine, suite):
    """What README promises for a fresh machine: set-up, build and demo, with whatever the release lacks installed on the way."""
    m = machine(suite)
    m.apt("update")
    m.apt("install", "--no-install-recommends", "make")
    os.makedirs(m.path("/root/cay"))
    tree = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", m.path("/root/cay")], input=tree, check=True)
    said = m.run("make", "-C", "/root/cay", "demo")
    assert "hello from" in said and "sum of squares: 385" in said, said[-3000:]


AARCH64 = 183  # e_machine of ELF


def contents(deb, to):
    """The files in a package, with the machine of those that are programs or libraries."""
    subprocess.run(["dpkg-deb", "-x", deb, to], check=True)
    found = {}
    for where, _, names in os.walk(to):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                head = f.read(20)
            found[os.path.relpath(path, to)] = int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else None
    return found


def depends(deb):
    return subprocess.run(["dpkg-deb", "-f", deb, "Depends"], check=True, capture_output=True, text=True).stdout


def test_the_package_for_arm64_differs_in_its_programs_alone(debs, tmp_path):
    if not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("aarch64-linux-gnu-gcc IS NOT INSTALLED, so no package for arm64 is built: tools/setup cross-arm64")
    deb = build("0.1.0+test1", "--arch", "arm64")
    native, cross = contents(debs[0], tmp_path / "native"), contents(deb, tmp_path / "cross")
    assert {path for path, machine in cross.items() if machine} == {path for path, machine in native.items() if machine}
    assert {machine for machine in cross.values() if machine} == {AARCH64}
    assert depends(deb) == depends(debs[0])
    for path in native.keys() | cross.keys():
        if not native.get(path):
            assert (tmp_path / "native" / path).read_bytes() == (tmp_path / "cross" / path).read_bytes(), path
