# SPDX-License-Identifier: Apache-2.0
"""The walls of a sandbox, tried from inside: host files, capabilities, setuid, mounts, devices, networks, bombs."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from cay_local import ROOT
from internet import HAS6

PODS = "/api/v1/namespaces/default/pods"


def ready(obj):
    return obj is not None and any(c["type"] == "Ready" and c["status"] == "True"
                                   for c in obj.get("status", {}).get("conditions", []))


def start(cay, name, **container):
    cay.api("POST", PODS, {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
        dict({"name": "main", "image": "host", "command": ["sleep", "infinity"]}, **container)]}})
    return cay.wait(PODS, name, ready)["status"]["podIP"]


@pytest.fixture(scope="module")
def box(cay):
    return {"cay": cay, "ip": start(cay, "wall"), "other": start(cay, "other")}


def run(box, script, name="wall", timeout=60):
    r = box["cay"].kubectl("exec", name, "--", "sh", "-c", script, check=False, timeout=timeout)
    return r.returncode, r.stdout, r.stderr


def python(box, code, name="wall", timeout=60):
    r = box["cay"].kubectl("exec", "-i", name, "--", "python3", "-", stdin=code, check=False, timeout=timeout)
    return r.returncode, r.stdout, r.stderr


def test_no_host_file_is_visible(box):
    data = box["cay"].data_dir
    for path in (data, "/etc/gshadow", "/sys/fs/cgroup", "/sys/kernel", ROOT):
        assert os.path.exists(path), f"{path} would be no proof: the host has none"
        for seen in (path, "/proc/1/root" + path, "/proc/1/cwd" + path, "/.." + path):
            assert run(box, f"test -e {seen}")[0] != 0, f"{seen} is visible"
    assert os.listdir("/run/cay") and run(box, "ls -A /run/cay")[:2] == (0, ""), "of the host's directory there is the name alone"
    assert run(box, "cat /etc/hostname")[1] == "wall\n"
    with open("/etc/shadow") as f:
        assert run(box, "cat /etc/shadow")[1] not in ("", f.read()), "the image has one of its own, without a password"


def test_the_hosts_usr_cannot_be_written(box):
    assert run(box, "echo x > /usr/bin/cay-test")[0] != 0
    assert run(box, "touch /usr/local/mine && find /usr/local -type f | sort")[1].split() == [
        *(f"/usr/local/bin/{name}" for name in ("apt", "apt-get") if os.path.exists(f"/usr/bin/{name}")), "/usr/local/mine"]
    assert not os.path.exists("/usr/local/mine")


# What the capabilities of root in a sandbox could be tried for: each attack, and the error that meets it. An attack returns
# when it succeeds.
ATTACKS = {
    "CHOWN: to an id of the host": ("os.chown(mine, 70000, 0)", "EINVAL"),
    "CHOWN: of a file of the host": ("os.chown('/usr/bin/id', 0, 0)", "EROFS"),
    "CHOWN: of a file of the kernel": ("os.chown('/proc/stat', 0, 0)", "EPERM"),
    "DAC_OVERRIDE: into a directory of the host's root": ("open('/dev/mine', 'w')", "EACCES"),
    "DAC_OVERRIDE: core pattern": ("open('/proc/sys/kernel/core_pattern', 'w')", "EROFS"),
    "DAC_OVERRIDE: memory of process 1": ("open('/proc/1/mem', 'rb')", "EACCES"),
    "DAC_OVERRIDE: a descriptor of process 1": ("os.open('/proc/1/fd/3', os.O_RDWR)", "EACCES"),
    "DAC_OVERRIDE: about a descriptor of process 1": ("open('/proc/1/fdinfo/3')", "EACCES"),
    "DAC_OVERRIDE: root of process 1": ("os.readlink('/proc/1/root')", "EACCES"),
    "FOWNER: mode of a file of the kernel": ("os.chmod('/proc/stat', 0o666)", "EPERM"),
    "FOWNER: what an overlay trusts": ("os.setxattr(mine, 'trusted.overlay.metacopy', b'')", "EPERM"),
    "KILL: a process number of another sandbox": ("os.kill(%(other)d, 9)", "ESRCH"),
    "SETUID: an id of the host": ("os.setresuid(70000, 70000, 70000)", "EINVAL"),
    "SETGID: a group of the host": ("os.setgroups([70000])", "EINVAL"),
    "SETUID: another map of ids": ("put('/proc/self/uid_map', b'0 0 1')", "EPERM"),
    "SETPCAP: more capabilities": ("call(126, capabilities, ctypes.byref(more))", "EPERM"),
    "SETFCAP: a capability for a file of the host": ("os.setxattr('/usr/bin/id', 'security.capability', some)", "EROFS"),
    "SYS_CHROOT: a namespace of process 1": ("os.open('/proc/1/ns/mnt', os.O_RDONLY)", "EACCES"),
    "SYS_CHROOT: setns": ("call(308, os.open('/proc/self/ns/mnt', os.O_RDONLY), 0)", "EPERM"),
    "SYS_CHROOT: mount in a root of its own": ("os.mkdir('/tmp/jail'); os.chroot('/tmp/jail'); call(165, b'x', b'/', b'tmpfs', 0, 0)", "EPERM"),
    "AUDIT_WRITE: the audit log": ("socket.socket(16, socket.SOCK_RAW, 9)", "EPROTONOSUPPORT"),
    "MKNOD: a disk": ("os.mknod('/tmp/disk', 0o60600, os.makedev(254, 0))", "EPERM"),
    "MKNOD: memory": ("os.mknod('/tmp/memory', 0o20600, os.makedev(1, 1))", "EPERM"),
    "SYS_RESOURCE: more open files": ("limit(resource.RLIMIT_NOFILE)", "EPERM"),
    "SYS_RESOURCE: more locked memory": ("limit(resource.RLIMIT_MEMLOCK)", "EPERM"),
    "SYS_RESOURCE: more namespaces": ("open('/proc/sys/user/max_user_namespaces', 'w')", "EROFS"),
    "SYS_RESOURCE: a better OOM score": ("put('/proc/self/oom_score_adj', b'-1000')", "EACCES"),
    "NET_ADMIN: an address": ("fcntl.ioctl(socket.socket(), 0x8916, b'eth0'.ljust(16, b'\\0') + bytes(24))", "EPERM"),
    "NET_RAW: a raw socket": ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "EPERM"),
    "none: connections over several ways": ("socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)", "ENOSYS"),
    "none: the same of IPv6": ("socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262)", "ENOSYS"),
    "SYS_NICE: a better priority": ("os.setpriority(os.PRIO_PROCESS, 0, -5)", "EACCES"),
    "IPC_LOCK: huge pages": ("call(29, 1, 1 << 21, 0o5600)", "EPERM"),
}
ATTACKER = """
import ctypes, errno, fcntl, json, os, resource, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
some = struct.pack('<5I', 0x02000001, 1 << 21, 0, 0, 0)  # CAP_SYS_ADMIN
capabilities = ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0))
more = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
mine = '/tmp/mine'
open(mine, 'w').close()
def call(nr, *args):
    if libc.syscall(nr, *args) < 0:
        raise OSError(ctypes.get_errno(), 'syscall')
def put(path, data):
    os.write(os.open(path, os.O_WRONLY), data)
def limit(what):
    most = (ctypes.c_ulong * 2)(1 << 40, 1 << 40)
    call(160, what, ctypes.byref(most))
def tried(code):
    r, w = os.pipe()
    if os.fork() == 0:  # some of them change the process for good
        try:
            exec(code)
            result = 'done'
        except OSError as e:
            result = errno.errorcode[e.errno]
        os.write(w, result.encode())
        os._exit(0)
    os.close(w)
    os.wait()
    return os.read(r, 100).decode()
print(json.dumps({name: tried(code) for name, code in json.loads(sys.argv[1]).items()}))
"""


@pytest.fixture(scope="module")
def attacks(box):
    other = int(process_of(box, "other"))
    table = {name: code % {"other": other} if "%(" in code else code for name, (code, _) in ATTACKS.items()}
    r = box["cay"].kubectl("exec", "-i", "wall", "--", "python3", "-", json.dumps(table), stdin=ATTACKER, check=False)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


only_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")


@only_x86_64
@pytest.mark.parametrize("name", ATTACKS)
def test_a_capability_gives_nothing_beyond_the_sandbox(attacks, name):
    assert attacks[name] == ATTACKS[name][1]


# What the same capabilities are for: without these, the errors above would prove little.
RIGHTS = {
    "CHOWN": "os.chown(mine, 1000, 1000)", "FOWNER": "os.chown(mine, 1000, 1000); os.chmod(mine, 0o600)",
    "DAC_OVERRIDE": "os.chown(mine, 1000, 1000); os.chmod(mine, 0); open(mine, 'r+')",
    "SETUID": "os.setresuid(1000, 1000, 1000)", "SETGID": "os.setgroups([7]); os.setresgid(1000, 1000, 1000)",
    "SETPCAP": "call(157, 24, 7, 0, 0, 0)", "SETFCAP": "os.setxattr(mine, 'security.capability', some)",
    "SYS_CHROOT": "os.chroot('/tmp')", "NET_BIND_SERVICE": "socket.socket().bind(('0.0.0.0', 81))",
    "KILL": "pid = os.fork() or (os.setresuid(1000, 1000, 1000), signal.pause()); os.kill(pid, 9)",
}


@only_x86_64
def test_root_has_the_rights_of_root_inside(box):
    table = {name: "import signal; " + code for name, code in RIGHTS.items()}
    r = box["cay"].kubectl("exec", "-i", "wall", "--", "python3", "-", json.dumps(table), stdin=ATTACKER, check=False)
    assert json.loads(r.stdout) == dict.fromkeys(RIGHTS, "done"), r.stderr


ESCAPE = """
import os
where = lambda path: (os.stat(path).st_dev, os.stat(path).st_ino)
before = where('/')
os.makedirs('/tmp/cell', exist_ok=True)
out = os.open('/', os.O_RDONLY)
os.chroot('/tmp/cell')
os.fchdir(out)
for _ in range(100):
    os.chdir('..')
os.chroot('.')
print('same' if where('/') == before else os.listdir('/'))
"""


def test_a_chroot_is_left_for_the_sandboxs_own_root_alone(box):
    assert python(box, ESCAPE)[1] == "same\n"


SHOW_CAPS = ["grep", "Cap[PE]", "/proc/self/status"]


def on_host_as_nobody(path, *argv):
    """Runs a file of the host as a user without rights, who need not be able to reach it by its name."""
    with open(path, "rb") as f:
        os.set_inheritable(f.fileno(), True)
        r = subprocess.run([f"/proc/self/fd/{f.fileno()}", *argv], user=65534, group=65534, extra_groups=[], pass_fds=[f.fileno()],
                           capture_output=True, text=True)
    return r.stdout


def test_capabilities_of_files_count_neither_on_the_host_nor_in_another_sandbox(box):
    """Root of a sandbox gives a program in a volume capabilities; whoever runs it has none of them."""
    cay, core = box["cay"], "/api/v1/namespaces/default"
    cay.api("POST", f"{core}/persistentvolumeclaims", {"metadata": {"name": "programs"}, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "64Mi"}}}})
    volume = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "programs"}}]}
    for name, user in (("giver", 0), ("taker", 1000)):
        cay.api("POST", PODS, {"metadata": {"name": name}, "spec": dict(volume, terminationGracePeriodSeconds=0, containers=[
            {"name": "main", "image": "host", "command": ["sleep", "infinity"], "securityContext": {"runAsUser": user},
             "volumeMounts": [{"name": "v", "mountPath": "/v"}]}])})
        cay.wait(PODS, name, ready)
    give = ("import os, shutil, struct\nshutil.copy('/usr/bin/grep', '/v/tool')\n"
            "os.setxattr('/v/tool', 'security.capability', struct.pack('<5I', 0x02000001, 0xa00405fb, 0, 0, 0))\n")
    code, _, err = python(box, give, "giver")
    assert code == 0, err
    shown = cay.kubectl("exec", "taker", "--", "/v/tool", *SHOW_CAPS[1:]).stdout
    assert [int(word, 16) for word in shown.split()[1::2]] == [0, 0]
    path, = subprocess.run(["find", cay.pool("."), "-name", "tool", "-size", "+1"], capture_output=True, text=True, check=True).stdout.split()
    assert os.getxattr(path, "security.capability"), "would be no proof"
    if os.stat(cay.pool()).st_dev == os.stat(cay.data_dir).st_dev:
        assert os.stat(cay.data_dir).st_mode & 0o077 == 0, "a pool of plain directories, and everybody may enter it"
    else:
        shown = on_host_as_nobody(path, *SHOW_CAPS[1:])
        assert [int(word, 16) for word in shown.split()[1::2]] == [0, 0]
    cay.kubectl("delete", "pod", "giver", "taker", timeout=60)


def test_no_new_privileges_and_a_filter(box):
    status = dict(line.split(":\t", 1) for line in run(box, "cat /proc/self/status")[1].splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


def test_ids_are_those_of_nobody_on_the_host(box):
    base = int(run(box, "cat /proc/self/uid_map")[1].split()[1])
    assert base >= 1 << 20
    assert run(box, "id -u")[1] == "0\n"
    bases = {run(box, "cat /proc/self/uid_map", name)[1].split()[1] for name in ("wall", "other")}
    assert len(bases) == 2, "two sandboxes share their ids"


def test_setuid_gives_nothing(box):
    """Root of one container leaves a setuid program for the user of another, in a volume of both."""
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    make = "cp /usr/bin/id /shared/id && chmod 6755 /shared/id && touch /shared/done && exec sleep infinity"
    box["cay"].api("POST", PODS, {"metadata": {"name": "setuid"}, "spec": {
        "terminationGracePeriodSeconds": 0, "volumes": [{"name": "shared", "emptyDir": {}}], "containers": [
            dict(mount, name="root", image="host", command=["sh", "-c", make],
                 readinessProbe={"exec": {"command": ["test", "-e", "/shared/done"]}, "periodSeconds": 1}),
            dict(mount, name="user", image="host", command=["sleep", "infinity"],
                 securityContext={"runAsUser": 1000, "runAsGroup": 1000})]}})
    box["cay"].wait(PODS, "setuid", ready)
    inside = lambda *command: box["cay"].kubectl("exec", "setuid", "-c", "user", "--", *command).stdout.split()
    assert inside("stat", "-c", "%u %g %a", "/shared/id") == ["0", "0", "6755"], "would be no proof"
    assert inside("/shared/id", "-u") == inside("/shared/id", "-g") == ["1000"]
    box["cay"].kubectl("delete", "pod", "setuid", timeout=30)


ACTS = {  # what would do it, and what root of the host has to take away before: a second wall
    "mount -t tmpfs x /tmp": "", "mount --bind /usr /tmp": "", "mount -o remount,bind,rw /usr": "", "umount /proc/sys": "",
    "umount -l /usr": "", "unshare -m true": "", "unshare -U true": "", "unshare -p true": "", "unshare -n true": "",
    "unshare -i true": "", "unshare -u true": "", "unshare -C true": "", "chroot / mount -t proc x /tmp": "",
    "hostname other": "", "nsenter -t 1 -m true": "", "nsenter -t 1 -n true": "",
    "sysctl -w kernel.domainname=x": "umount /proc/sys", "echo 1 > /proc/sys/net/ipv4/ip_forward": "umount /proc/sys",
    "dmesg": "", "mknod /dev/shm/d b 254 0": "", "mknod /dev/d c 1 1": "", "ip addr add 10.9.9.9/32 dev eth0": "",
    "ip route add 10.0.0.0/8 dev lo": "", "ip link set eth0 down": "",
}


@pytest.fixture(scope="module")
def victim(box):
    """The first process, on the host, of a sandbox to which root of the host may do anything."""
    start(box["cay"], "victim")
    return process_of(box, "victim")


def process_of(box, name):
    return next(i["name"].split()[0] for i in box["cay"].census()[0] if i["type"] == "process" and i["owner"] == f"default/{name}")


@pytest.mark.parametrize("script", ACTS)
def test_privileged_acts_are_refused(box, victim, script):
    """What root of the host can do in the very namespaces of a sandbox, the sandbox cannot."""
    before = ACTS[script] or "true"
    r = subprocess.run(["nsenter", "-t", victim, "-m", "-u", "-i", "-n", "-p", "unshare", "-m", "-u", "sh", "-c", f"{before} && {script}"],
                       capture_output=True, text=True)
    assert r.returncode == 0, f"would be no proof: root of the host cannot either: {r.stderr}"
    code, out, _ = run(box, script)
    assert code not in (0, 126, 127), f"{script}: exit {code}: {out}"


def test_no_device_can_be_found(box):
    found = run(box, "find /dev -type b -o -type c | sort")[1].split()
    assert set(found) <= {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts/ptmx"}, found
    assert run(box, "cat /proc/kcore | head -c 16 | wc -c")[1].strip() in ("", "0")


SYSCALLS = """
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *a):
    ctypes.set_errno(0)
    r = libc.syscall(nr, *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return 0 if r >= 0 else ctypes.get_errno()
want = (errno.EPERM, errno.ENOSYS)
names = dict(mount=165, umount2=166, pivot_root=155, bpf=321, perf_event_open=298, keyctl=250, add_key=248, userfaultfd=323,
             kexec_load=246, init_module=175, finit_module=313, delete_module=176, open_by_handle_at=304, setns=308, reboot=169,
             swapon=167, acct=163, iopl=172, ioperm=173, io_uring_setup=425, quotactl=179, clone3=435, fsopen=430, open_tree=428,
             move_mount=429, mount_setattr=442, settimeofday=164, clock_settime=227, sethostname=170, syslog=103,
             fanotify_init=300, lookup_dcookie=212, unknown=1000, x32_getpid=0x40000000 + 39)
for name, nr in names.items():
    e = call(nr, 0, 0, 0, 0, 0)
    if e not in want:
        print(name, errno.errorcode.get(e, e))
for flags in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000):
    if call(272, flags) not in want:
        print('unshare', hex(flags))
    if call(56, flags | 17, 0, 0, 0, 0) not in want:
        print('clone', hex(flags)); os._exit(1)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_system_calls_outside_the_profile_are_refused(box):
    code, out, err = python(box, SYSCALLS)
    assert code == 0 and out == "", out + err


def connect_code(address, port):
    return f"""
import socket
s = socket.socket(); s.settimeout(1)
try:
    s.connect(({address!r}, {port})); print('reached')
except OSError as e:
    print('refused', e)
"""


@pytest.fixture
def metadata_address():
    """The address at which clouds tell machines their secrets, on a link of this test."""
    link = f"md{os.getpid()}"
    ip = lambda *args: subprocess.run(["ip", *args], check=True)
    ip("link", "add", link, "type", "veth", "peer", "name", link + "p")
    try:
        ip("addr", "add", "169.254.169.254/32", "dev", link)
        ip("link", "set", link, "up")
        yield "169.254.169.254"
    finally:
        ip("link", "del", link)


def host_addresses():
    links = json.loads(subprocess.run(["ip", "-j", "-4", "addr"], capture_output=True, text=True, check=True).stdout)
    return [a["local"] for link in links if link["ifname"] != "lo" for a in link["addr_info"]]


def test_neither_host_nor_control_plane_nor_metadata_is_reached(fresh, metadata_address):
    """Something listens at each address, and the host reaches it."""
    cay = fresh()
    cay.stop()
    cay.flags += ["--listen", f"0.0.0.0:{cay.port}", "--router-listen", f"0.0.0.0:{cay.router_port}"]
    cay.start()
    box = {"cay": cay, "ip": start(cay, "wall")}
    gateway = run(box, "ip route show default")[1].split()[2]
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        targets = [(gateway, cay.port), (gateway, cay.router_port), (gateway, port)]
        targets += [(address, port) for address in host_addresses()]
        assert (metadata_address, port) in targets
        for address, port in targets:
            socket.create_connection((address, port), timeout=5).close()
            assert python(box, connect_code(address, port))[1].startswith("refused"), (address, port)


def forward_between(*addresses):
    """Lets the host pass on what comes from these sandboxes: without that, nothing would be proven of the filter."""
    for address in addresses:
        route = json.loads(subprocess.run(["ip", "-j", "route", "get", address], capture_output=True, text=True, check=True).stdout)
        with open(f"/proc/sys/net/ipv4/conf/{route[0]['dev']}/forwarding", "w") as f:
            f.write("1")


def test_another_sandbox_is_not_reached_but_each_reaches_itself(box):
    forward_between(box["ip"], box["other"])
    for name in ("wall", "other"):
        run(box, "python3 -m http.server 8000 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; "
                 "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null && break; done", name)
    for name, address in (("wall", box["ip"]), ("other", box["other"])):
        assert python(box, connect_code(address, 8000), name)[1] == "reached\n"
    assert python(box, connect_code(box["other"], 8000))[1].startswith("refused")


def test_two_instances_do_not_reach_each_other(box, fresh):
    second = fresh()
    address = start(second, "foreign", command=["python3", "-m", "http.server", "8000"])
    wait_for_port(second, "foreign", address)
    forward_between(box["ip"], address)
    assert python(box, connect_code(address, 8000))[1].startswith("refused")


def wait_for_port(cay, name, address):
    """From inside: the host's processes cannot connect to sandboxes."""
    for _ in range(100):
        if "reached" in cay.kubectl("exec", "-i", name, "--", "python3", "-", stdin=connect_code(address, 8000)).stdout:
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"{address}:8000 never came")


def test_raw_and_packet_sockets_are_refused(box):
    for family, kind in (("AF_INET", "SOCK_RAW"), ("AF_PACKET", "SOCK_RAW"), ("AF_PACKET", "SOCK_DGRAM"), ("AF_INET6", "SOCK_RAW")):
        out = python(box, f"import socket\ntry:\n socket.socket(socket.{family}, socket.{kind}, 1); print('made')\n"
                          "except OSError: print('refused')\n")[1]
        assert out == "refused\n", (family, kind)


def spoofed_packets(box):
    """What the packet filter dropped for a source address that is not the sandbox's."""
    with open(f"{box['cay'].data_dir}/node/instance.json") as f:
        chain = ["inet", "cay_" + json.load(f)["id"], "spoof"]
    listed = json.loads(subprocess.run(["nft", "-j", "list", "chain", *chain], capture_output=True, text=True, check=True).stdout)
    return sum(part["counter"]["packets"] for item in listed["nftables"] for part in item.get("rule", {}).get("expr", []) if "counter" in part)


def test_a_foreign_source_address_goes_nowhere(box):
    """Code inside cannot send from another's address at all; what the host's root sends so from its network is dropped."""
    send = """
import socket
v6, option, source, target = %r
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP, option, 1)
s.bind((source, 0))
for i in range(5):
    s.sendto(b'x', (target, 9))
print('sent')
"""
    others = [one["ip"] for one in box["cay"].api("GET", f"{PODS}/other")["status"]["podIPs"]]
    free_bind, transparent = (15, 78), (19, 75)  # of IPv4 and of IPv6
    families = [(False, others[0], "198.51.100.1")]
    if HAS6:  # that of another sandbox, one of the Internet, and the gateway's
        families += [(True, source, "2d00::1") for source in (others[1], "2d00::2", others[1].rsplit("::")[0] + "::1")]
    for v6, source, target in families:
        for option in (free_bind, transparent):
            assert python(box, send % ((v6, option[v6], source, target),))[1] == ""
    start(box["cay"], "spoofer")
    pid = process_of(box, "spoofer")
    inside = lambda *argv: subprocess.run(["nsenter", "-t", pid, "-n", *argv], capture_output=True, text=True)
    for v6, source, target in families:
        r = inside(sys.executable, "-c", send % ((v6, transparent[v6], source, target),))
        assert "Operation not permitted" in r.stderr, "the filter inside let it out"
    assert inside("nft", "delete", "table", "inet", "cay").returncode == 0
    for v6, source, target in families:
        before = spoofed_packets(box)
        r = inside(sys.executable, "-c", send % ((v6, transparent[v6], source, target),))
        assert r.stdout == "sent\n", r.stderr
        assert spoofed_packets(box) >= before + 5, source


def test_the_private_socket_is_out_of_reach(box):
    code = """
import os, socket
for fd in range(3, 64):
    for pid in (1,):
        try:
            os.open(f'/proc/{pid}/fd/{fd}', os.O_RDWR); print('opened', fd)
        except OSError:
            pass
try:
    os.kill(1, 9); os.kill(1, 19)
except OSError as e:
    print('kill', e)
"""
    assert len(os.listdir(f"/proc/{process_of(box, 'wall')}/fd")) > 3, "would be no proof"
    code, out, err = python(box, code)
    assert code == 0 and "opened" not in out, out + err
    assert run(box, "true")[0] == 0, "the guest is still there"


def test_a_fork_bomb_stays_inside(box):
    code = """
import os, sys
n = 0
try:
    while True:
        if os.fork() == 0:
            import time; time.sleep(30); os._exit(0)
        n += 1
except OSError as e:
    print(n)
    sys.stdout.flush()
os._exit(0)
"""
    out = python(box, code, "other")[1]
    assert 0 < int(out.split()[0]) <= 1024
    assert run(box, "echo fine")[1] == "fine\n"
    box["cay"].kubectl("delete", "pod", "other", timeout=30)


def test_a_memory_bomb_stays_inside(box):
    cay = box["cay"]
    start(cay, "greedy", resources={"limits": {"memory": "64Mi"}},
          command=["python3", "-c", "import time; time.sleep(1); b = bytearray(512 << 20)"])
    obj = cay.wait(PODS, "greedy", lambda o: o is not None and any(
        "terminated" in c.get("lastState", {}) or "terminated" in c.get("state", {})
        for c in o.get("status", {}).get("containerStatuses", [])))
    status = obj["status"]["containerStatuses"][0]
    ended = status["lastState"].get("terminated") or status["state"]["terminated"]
    assert ended["reason"] == "OOMKilled" and ended["exitCode"] == 137
    assert run(box, "echo fine")[1] == "fine\n"
    cay.kubectl("delete", "pod", "greedy")


def test_a_cpu_limit_holds(box):
    cay = box["cay"]
    start(cay, "busy", resources={"limits": {"cpu": "200m"}})
    out = python(box, "import time\nt = time.monotonic()\nwhile time.monotonic() - t < 2: pass\nprint(time.process_time())", "busy")[1]
    assert float(out) < 1.0
    cay.kubectl("delete", "pod", "busy")
