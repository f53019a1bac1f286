# SPDX-License-Identifier: Apache-2.0
"""Names in sandboxes: those of objects, and those of the world through the host's name servers, which are a network namespace here."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import zipfile

import pytest
from cay_local import AGENTS, wait_until
from internet import Network, serve_names, sh
from test_node_pods import CORE, create, pod

NAMES = ("web.example.", "big.example.", "liar.example.", "pypi.example.", "git.example.", "deb.example.")
LOOK_UP = """
import socket, sys
for name in sys.argv[1:]:
    try:
        print(name, *sorted({a[4][0] for a in socket.getaddrinfo(name, 80, socket.AF_INET)}))
    except socket.gaierror as e:
        print(name, 'none' if e.errno in (socket.EAI_NONAME, -5) else e)
"""
# What is sent as it is, over UDP or TCP; prints the answers' codes. Whether something is dropped shows in the answer to the question
# that is sent right after it ("drop").
RAW = """
import socket, sys
for how, text in zip(sys.argv[2::2], sys.argv[3::2]):
    q = bytes.fromhex(text)
    try:
        if how in ('udp', 'drop'):
            s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(60); s.sendto(q, (sys.argv[1], 53))
            if how == 'drop':
                s.sendto(bytes.fromhex('777701000001000000000000017807636c7573746572056c6f63616c0000010001'), (sys.argv[1], 53))
            a = s.recv(2000)
            if how == 'drop' and a[:2] == b'ww':
                raise TimeoutError
        else:
            s = socket.create_connection((sys.argv[1], 53), timeout=60); s.sendall(len(q).to_bytes(2, 'big') + q)
            a = s.makefile('rb').read(int.from_bytes(s.recv(2, socket.MSG_WAITALL), 'big') or 1)
        print(a[3] & 15 if len(a) > 3 else 'closed')
    except TimeoutError:
        print('silent')
"""


def query(name, kind=1, class_=1, flags=0x0100, count=1):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"
    return b"".join(n.to_bytes(2, "big") for n in (0x1234, flags, count, 0, 0, 0)) + labels + kind.to_bytes(2, "big") + class_.to_bytes(2, "big")


class World:
    def __init__(self, tmp):
        self.net = Network(f"dns{os.getpid()}")
        self.log = os.path.join(tmp, "questions")
        self.conf = os.path.join(tmp, "resolv.conf")
        self.root = os.path.join(tmp, "www")
        os.mkdir(self.root)
        open(self.log, "w").close()
        self.write_conf(self.net.ip)

    def write_conf(self, *servers):
        with open(self.conf + ".new", "w") as f:
            f.write("".join(f"nameserver {s}\n" for s in servers) + "search corp.example\n")
        os.rename(self.conf + ".new", self.conf)

    def asked(self):
        return open(self.log).read().splitlines()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes network namespaces")
    w = World(str(tmp_path_factory.mktemp("names")))
    try:
        serve_names(w.net, {name: w.net.ip for name in NAMES}, w.log)
        w.net.spawn(sys.executable, "-m", "http.server", "80", "--directory", w.root)
        w.net.listens(80)
        yield w
    finally:
        w.net.close()


@pytest.fixture(scope="module")
def node(world, module_instance):
    cay = module_instance("--resolv-conf", world.conf)
    create(cay, pod("box", "sleep", "1000"))
    wait_until(lambda: world.net.forwards)
    return cay


def python(cay, name, script, *args):
    return cay.kubectl("exec", name, "--", "python3", "-c", script, *map(str, args)).stdout.strip()


def look_up(cay, name, *names):
    return dict(line.split(" ", 1) for line in python(cay, name, LOOK_UP, *names).splitlines())


def gateway(cay):
    return cay.kubectl("exec", "box", "--", "sed", "-n", "s/^nameserver //p", "/etc/resolv.conf").stdout.split()[0]


def test_names_of_the_world_are_passed_on_and_checked(node, world):
    found = look_up(node, "box", "web.example", "liar.example", "big.example", "nobody.example")
    assert found == {"nobody.example": "none", **{name: world.net.ip for name in ("web.example", "liar.example", "big.example")}}
    asked = world.asked()
    assert "udp big.example. 1" in asked and "tcp big.example. 1" in asked
    assert not any("cluster.local" in line for line in asked), "a name of ours was passed on"


def test_names_of_objects(node, world):
    node.api("POST", f"{CORE}/services", {"metadata": {"name": "db"}, "spec": {
        "clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}]}})
    body = pod("db-0", "sleep", "1000", hostname="first", subdomain="db")
    body["metadata"]["labels"] = {"app": "db"}
    ip = create(node, body)["status"]["podIP"]
    never = pod("db-1", "sleep", "1000", container={"readinessProbe": {"exec": {"command": ["false"]}}})
    never["metadata"]["labels"] = {"app": "db"}
    create(node, never, lambda o: o and o["status"].get("podIP") and o["status"]["phase"] == "Running")
    dashed = ip.replace(".", "-")
    # Names with a final dot are taken as they are; the others go through the search list.
    names = ["db", "db.default", "db.default.svc", "db.default.svc.cluster.local.", "DB.Default.svc.cluster.local.", "first.db",
             f"{dashed}.default.pod.cluster.local.", "db-0.default.pod.cluster.local.", f"{dashed}.db.default.svc.cluster.local."]
    assert look_up(node, "box", *names) == {name: ip for name in names}
    absent = ["second.db.default.svc.cluster.local.", "nobody.default.svc.cluster.local.", "a.b.c.d.e.f.g.h.i.svc.cluster.local.",
              "1-2-3-4.default.pod.cluster.local.", "db.other.svc.cluster.local."]
    assert look_up(node, "box", *absent) == {name: "none" for name in absent}
    assert python(node, "box", "import socket, sys; print(socket.gethostbyaddr(sys.argv[1])[0])", ip) == f"{dashed}.default.pod.cluster.local"
    assert not any("cluster.local" in line or "in-addr" in line for line in world.asked())
    node.api("DELETE", f"{CORE}/pods/db-0")
    node.wait(f"{CORE}/pods", "db-0", lambda o: o is None)
    assert look_up(node, "box", "db.default.svc.cluster.local.") == {"db.default.svc.cluster.local.": "none"}


def test_the_name_in_the_status_of_a_sandbox_resolves(node):
    boxes = f"{AGENTS}/namespaces/default/sandboxes"
    node.api("POST", boxes, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "agent"},
                             "spec": {"service": True, "podTemplate": {"spec": {"containers": [
                                 {"name": "main", "image": "host", "command": ["sleep", "1000"]}]}}}})
    made = node.wait_ready(boxes, "agent")
    name = made["status"]["serviceFQDN"]
    wait_until(lambda: look_up(node, "box", name) == {name: made["status"]["podIPs"][0]})


def test_resolv_conf_follows_the_policy(node):
    server = gateway(node)
    rows = {
        "first": ({}, [f"nameserver {server}", "search default.svc.cluster.local svc.cluster.local cluster.local corp.example", "options ndots:5"]),
        "hosts": ({"dnsPolicy": "Default"}, [f"nameserver {server}", "search corp.example"]),
        "none": ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["x.y"], "options": [{"name": "ndots", "value": "2"}]}},
                 ["nameserver 9.9.9.9", "search x.y", "options ndots:2"]),
        "both": ({"dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["x.y"], "options": [{"name": "ndots", "value": "2"}]}},
                 [f"nameserver {server}", "nameserver 9.9.9.9",
                  "search default.svc.cluster.local svc.cluster.local cluster.local corp.example x.y", "options ndots:2"]),
    }
    for name, (spec, want) in rows.items():
        create(node, pod(name, "sleep", "1000", **spec))
        assert node.kubectl("exec", name, "--", "cat", "/etc/resolv.conf").stdout.splitlines() == want, name


def test_what_cannot_be_answered_is_refused_or_dropped(node, world):
    rows = [
        ("udp", query("web.example"), "0"), ("tcp", query("web.example"), "0"),
        ("udp", query("nobody.default.svc.cluster.local"), "3"), ("tcp", query("nobody.default.svc.cluster.local"), "3"),
        ("udp", query("web.example", class_=3), "5"), ("udp", query("web.example", flags=0x2900), "4"),
        ("drop", query("web.example", flags=0x8100), "silent"), ("drop", query("web.example", count=2), "silent"),
        ("drop", query("web.example")[:-3], "silent"), ("drop", b"\0" * 11, "silent"),
        ("drop", query("")[:12] + b"\xc0\x0c\0\1\0\1", "silent"), ("tcp", query("web.example")[:-3], "closed"),
        ("udp", query("\x01\x02.default.svc.cluster.local"), "3"),
    ]
    said = python(node, "box", RAW, gateway(node), *(a for how, wire, _ in rows for a in (how, wire.hex()))).splitlines()
    assert said == [want for *_, want in rows]


def test_only_sandboxes_are_answered(node, world):
    """A process of the host can send to the address, and a neighbour in the network can try."""
    server = gateway(node)
    before = refused(node)
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.sendto(query("web.example"), (server, 53))
        wait_until(lambda: refused(node) > before)
        s.setblocking(False)
        with pytest.raises(BlockingIOError):
            s.recv(1000)
    world.net.run("ip", "route", "add", f"{server}/32", "via", world.net.host)
    before = refused(node)
    connect = f"import socket; socket.create_connection(({server!r}, 53), timeout=1)"
    assert "TimeoutError" in subprocess.run(["ip", "netns", "exec", world.net.name, sys.executable, "-c", connect], capture_output=True,
                                            text=True, timeout=60).stderr
    assert refused(node) == before, "the filter let it come so far"


def refused(cay):
    return int(next(line.split()[1] for line in cay.api("GET", "/metrics").splitlines() if line.startswith("cay_names_refused_total ")))


def test_a_flood_of_one_sandbox_leaves_the_others_their_names(node, world):
    flood = ("import socket, sys\ns = socket.socket(type=socket.SOCK_DGRAM)\n"
             "for i in range(5000): s.sendto(bytes.fromhex(sys.argv[2]), (sys.argv[1], 53))")
    before = refused(node)
    python(node, "box", flood, gateway(node), query("nobody.default.svc.cluster.local").hex())
    wait_until(lambda: refused(node) > before)
    create(node, pod("calm", "sleep", "1000"))
    assert look_up(node, "calm", "web.example.") == {"web.example.": world.net.ip}


def test_name_servers_that_change_are_followed(node, world):
    world.write_conf(world.net.nobody, world.net.ip)  # nobody is there
    wait_until(lambda: look_up(node, "calm", "web.example.") == {"web.example.": world.net.ip})
    world.write_conf()
    wait_until(lambda: look_up(node, "calm", "web.example.") != {"web.example.": world.net.ip})
    world.write_conf(world.net.ip)
    wait_until(lambda: look_up(node, "calm", "web.example.") == {"web.example.": world.net.ip})


def test_without_egress_only_names_of_objects_are_answered(fresh, world):
    cay = fresh("--egress", "none", "--resolv-conf", world.conf)
    create(cay, pod("box", "sleep", "1000"))
    rows = [("udp", query("web.example").hex(), "5"), ("udp", query("box.default.pod.cluster.local").hex(), "0")]
    said = python(cay, "box", RAW, gateway(cay), *(a for how, wire, _ in rows for a in (how, wire))).splitlines()
    assert said == ["5", "0"]


# -- an agent's first acts --------------------------------------------------------------------------------------------


def make_package(root):
    os.makedirs(f"{root}/simple/sandcastle")
    name = "sandcastle-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{root}/simple/sandcastle/{name}", "w") as z:
        z.writestr("sandcastle.py", "HEIGHT = 7\n")
        z.writestr("sandcastle-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sandcastle\nVersion: 1.0\n")
        z.writestr("sandcastle-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("sandcastle-1.0.dist-info/RECORD", "sandcastle.py,,\nsandcastle-1.0.dist-info/METADATA,,\n"
                   "sandcastle-1.0.dist-info/WHEEL,,\nsandcastle-1.0.dist-info/RECORD,,\n")
    with open(f"{root}/simple/sandcastle/index.html", "w") as f:
        f.write(f'<a href="{name}">{name}</a>')


def make_repository(root):
    work = f"{root}/work"
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    sh(*git, "init", "-q", work)
    with open(f"{work}/README", "w") as f:
        f.write("hello\n")
    sh(*git, "-C", work, "add", "README")
    sh(*git, "-C", work, "commit", "-qm", "first")
    sh("git", "clone", "-q", "--bare", work, f"{root}/repo.git")
    sh("git", "-C", f"{root}/repo.git", "update-server-info")


def make_mirror(root):
    """A package mirror with one package."""
    made, at = f"{root}/made", f"{root}/debian"
    os.makedirs(f"{made}/DEBIAN")
    os.makedirs(f"{made}/opt/sandcastle")
    os.mkdir(at)
    with open(f"{made}/opt/sandcastle/height", "w") as f:
        f.write("9\n")
    control = "Package: sandcastle\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <t@example.org>\nDescription: a test\n"
    with open(f"{made}/DEBIAN/control", "w") as f:
        f.write(control)
    deb = f"{at}/sandcastle_1.0_all.deb"
    sh("dpkg-deb", "--root-owner-group", "-b", made, deb)
    with open(deb, "rb") as f, open(f"{at}/Packages", "w") as index:
        data = f.read()
        index.write(f"{control}Filename: ./{os.path.basename(deb)}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n")


CLONE = "rm -rf /tmp/repo; git clone -q http://git.example/repo.git /tmp/repo && cat /tmp/repo/README"
PIP = ("python3 -m venv --clear /tmp/p; /tmp/p/bin/pip install -q --disable-pip-version-check --retries 0 --timeout 20 "
       "--index-url http://pypi.example/simple --trusted-host pypi.example sandcastle && /tmp/p/bin/python -c 'import sandcastle; print(sandcastle.HEIGHT)'")
APT = ("mkdir -p /etc/apt /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/lib/dpkg /tmp/a && touch /var/lib/dpkg/status && "
       "echo 'deb [trusted=yes] http://deb.example/debian ./' >/etc/apt/sources.list && apt-get -q -o Acquire::Retries=0 -o Acquire::http::Timeout=20 "
       "-o APT::Update::Error-Mode=any update >&2 && cd /tmp/a && apt-get -q download sandcastle >&2 && dpkg-deb -x sandcastle_*.deb . && cat opt/sandcastle/height")


def shell(cay, name, script, **more):
    return cay.kubectl("exec", name, "--", "sh", "-c", f"export HOME=/tmp; {script}", timeout=300, **more)


def test_pip_install_git_clone_and_apt_get_update(node, world):
    for program in ("git", "apt-get", "dpkg-deb"):
        if not shutil.which(program, path="/usr/bin"):
            pytest.fail(f"{program} is missing; tools/setup test installs it")
    make_package(world.root)
    make_repository(world.root)
    make_mirror(world.root)
    create(node, pod("agent-box", "sleep", "1000"))
    assert [shell(node, "agent-box", s).stdout for s in (PIP, CLONE, APT)] == ["7\n", "hello\n", "9\n"]


def test_a_policy_refuses_them(node, world):
    """Names still resolve, so that nothing but the policy can be the reason."""
    body = pod("kept-in", "sleep", "1000")
    body["metadata"]["labels"] = {"kept": "in"}
    create(node, body)
    assert shell(node, "kept-in", CLONE).stdout == "hello\n"
    node.api("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {
        "metadata": {"name": "kept-in"}, "spec": {"podSelector": {"matchLabels": {"kept": "in"}}, "policyTypes": ["Egress"],
                                                  "egress": [{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}]}})
    wait_until(lambda: shell(node, "kept-in", CLONE, check=False).returncode)
    assert look_up(node, "kept-in", "git.example.", "pypi.example.") == {n: world.net.ip for n in ("git.example.", "pypi.example.")}
    for script in (PIP, APT):
        assert shell(node, "kept-in", script, check=False).returncode, script
    assert shell(node, "agent-box", CLONE).stdout == "hello\n"
