# SPDX-License-Identifier: Apache-2.0
"""A suspended sandbox keeps its address, whatever happens meanwhile, and a packet to it wakes one that idleness suspended."""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time

import pytest
from cay_local import ApiError, condition, is_ready, wait_until
from test_node_pods import create, pod
from test_policy import out, policy
from test_policy_between import into, of
from test_sleep import CAY, MANY, PODS, SANDBOXES, awake, crowd, delete, events, get, mark, note, pod_template, wait_asleep, wakes

# Answers each connection with one line, over both families.
LISTEN = """
import socket, sys
s = socket.create_server(("::", 8000), family=socket.AF_INET6, backlog=512, dualstack_ipv6=True)
while True:
    c, _ = s.accept()
    c.sendall(b"here\\n"); c.close()
"""
# Connects to an address as often as it is told to, at once, and says how often a line came back and what else did.
CALL = """
import concurrent.futures, socket, sys
ip, n, timeout = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def call(_):
    try:
        with socket.create_connection((ip, 8000), timeout=timeout) as s:
            return s.recv(10).decode()
    except OSError as e:
        return type(e).__name__
with concurrent.futures.ThreadPoolExecutor(n) as pool:
    answers = list(pool.map(call, range(n)))
print(answers.count("here\\n"), *set(answers) - {"here\\n"})
"""


def make(cay, name, idle=True, **notes):
    """A Sandbox that idleness suspends, or one that never sleeps by itself."""
    notes = {f"cay.dev/{k.replace('_', '-')}": v for k, v in notes.items()}
    if idle:
        notes = {"cay.dev/idle-after": "1s", "cay.dev/idle-action": "Suspend", **notes}
    template = pod_template(command=("python3", "-c", LISTEN))
    template["metadata"]["labels"] = {"role": name}
    template["spec"]["containers"][0].pop("livenessProbe")
    template["spec"]["containers"][0]["ports"] = [{"name": "line", "containerPort": 8000}]
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
                                "metadata": {"name": name, "annotations": notes}, "spec": {"podTemplate": template}})
    o = cay.wait_ready(SANDBOXES, name)
    assert len(o["status"]["podIPs"]) == 2, o["status"]
    return o["status"]["podIPs"]


def suspended(cay, name):
    wait_asleep(cay, name, "Suspended")
    cay.wait(PODS, name, lambda o: o is None)
    wait_until(lambda: name in held(cay))


def set_mode(cay, name, mode):
    cay.api("PATCH", f"{SANDBOXES}/{name}", {"spec": {"operatingMode": mode}}, "application/merge-patch+json")


def runs_at(cay, name):
    """Its addresses, once it runs again."""
    o = cay.wait(SANDBOXES, name, lambda o: is_ready(o) and o["status"].get("podIPs"))
    return o["status"]["podIPs"]


def record(cay):
    return pathlib.Path(cay.data_dir, "node", "holds.json")


def held(cay):
    """Which Sandbox holds which address, as it was written down."""
    with contextlib.suppress(FileNotFoundError):
        return {h["name"]: h["address"] for h in json.loads(record(cay).read_text()).get("holds", [])}
    return {}


def routes(cay):
    """The addresses that lead to the link where packets are heard."""
    return {i["name"].split("/")[0] for i in cay.census()[0]
            if i["type"] == "route" and i["name"].endswith(("/32", "/128"))}


def call(address, its_mark, timeout=60):
    """One connection from this machine to the sandbox itself. It may be awake before its server listens, on a busy machine."""
    for _ in range(5):
        with contextlib.suppress(ConnectionRefusedError):
            return connected(address, its_mark, timeout)
        time.sleep(1)
    return connected(address, its_mark, timeout)


def connected(address, its_mark, timeout):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, its_mark)
        s.settimeout(timeout)
        s.connect((address, 8000))
        return s.recv(10)


@pytest.mark.parametrize("way", ["idleness", "its user"])
def test_a_suspended_sandbox_keeps_its_address_and_nobody_else_gets_it(cay, way):
    before = make(cay, "kept", idle=way == "idleness")
    if way == "idleness":
        suspended(cay, "kept")
    else:
        set_mode(cay, "kept", "Suspended")
        cay.wait(PODS, "kept", lambda o: o is None)
    wait_until(lambda: held(cay) == {"kept": before[0]})
    others = {create(cay, pod(f"other-{i}", "sleep", "1000"))["status"]["podIP"] for i in range(20)}
    assert before[0] not in others and len(others) == 20
    if way == "idleness":
        assert get(cay, "kept", timeout=60)[0] != 503  # it wakes; what it says is no HTTP
    else:
        set_mode(cay, "kept", "Running")
    assert runs_at(cay, "kept") == before
    wait_until(lambda: held(cay) == {})
    for i in range(20):
        cay.api("DELETE", f"{PODS}/other-{i}?gracePeriodSeconds=0")
    delete(cay, "kept")


def test_a_pod_that_somebody_deleted_comes_back_at_its_address(cay):
    before = make(cay, "again", idle=False)
    uid = cay.api("GET", f"{PODS}/again")["metadata"]["uid"]
    cay.api("DELETE", f"{PODS}/again?gracePeriodSeconds=0")
    cay.wait(PODS, "again", lambda o: o and o["metadata"]["uid"] != uid and is_ready(o))
    assert runs_at(cay, "again") == before
    delete(cay, "again")
    wait_until(lambda: held(cay) == {})


@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
def test_a_packet_wakes_it_and_its_connection_is_answered(cay, family):
    addresses = make(cay, "called")
    suspended(cay, "called")
    wait_until(lambda: set(addresses) <= routes(cay))
    before = wakes(cay)
    assert call(addresses[family], mark(cay)) == b"here\n"
    o = cay.wait(SANDBOXES, "called", awake)
    assert o["spec"]["operatingMode"] == "Running" and runs_at(cay, "called") == addresses
    wait_until(lambda: wakes(cay) - before == 1)
    assert wakes(cay, tier="suspended", cause="packet") >= 1
    assert "Woken by packet" in wait_until(lambda: events(cay, "called", "SandboxWoken"))[0]["note"]
    delete(cay, "called")
    wait_until(lambda: not routes(cay) and held(cay) == {})


def test_a_packet_wakes_nothing_that_is_not_to_be_woken(cay):
    addresses = make(cay, "mine", idle=False)[0], make(cay, "never", wake="Never")[0]
    suspended(cay, "never")
    set_mode(cay, "mine", "Suspended")
    cay.wait(PODS, "mine", lambda o: o is None)
    make(cay, "marker")
    suspended(cay, "marker")
    before = wakes(cay)
    for address in addresses:
        with pytest.raises(OSError):
            call(address, mark(cay), timeout=3)
    assert call(runs_or_held(cay, "marker"), mark(cay)) == b"here\n"  # long after the others could have woken
    wait_until(lambda: wakes(cay) - before == 1)
    for name in ("mine", "never"):
        assert cay.api("GET", f"{SANDBOXES}/{name}")["spec"]["operatingMode"] == "Suspended"
        delete(cay, name)
    delete(cay, "marker")


def runs_or_held(cay, name):
    return held(cay).get(name) or runs_at(cay, name)[0]


def test_kill_9_and_a_restart_leave_the_address_and_the_way_to_it(fresh):
    cay = fresh()
    before = make(cay, "kept"), make(cay, "mine", idle=False)
    set_mode(cay, "mine", "Suspended")
    suspended(cay, "kept")
    cay.wait(PODS, "mine", lambda o: o is None)
    for end in (cay.kill, cay.stop, cay.kill):
        end()
        assert not routes(cay) and held(cay) == {"kept": before[0][0], "mine": before[1][0]}
        cay.start()
        wait_until(lambda: set(before[0]) <= routes(cay))
        other = create(cay, pod("other", "sleep", "1000"))["status"]["podIP"]
        assert other not in (before[0][0], before[1][0])
        cay.api("DELETE", f"{PODS}/other?gracePeriodSeconds=0")
        cay.wait(PODS, "other", lambda o: o is None)
    assert call(before[0][0], mark(cay)) == b"here\n"
    set_mode(cay, "mine", "Running")
    assert (runs_at(cay, "kept"), runs_at(cay, "mine")) == before


def test_kill_9_in_the_middle_of_a_suspension_loses_no_address(fresh):
    cay = fresh()
    for _ in range(3):
        addresses = make(cay, "cut", idle=False)
        set_mode(cay, "cut", "Suspended")
        cay.kill()
        cay.start()
        cay.wait(PODS, "cut", lambda o: o is None)
        wait_until(lambda: held(cay) == {"cut": addresses[0]})
        set_mode(cay, "cut", "Running")
        assert runs_at(cay, "cut") == addresses
        delete(cay, "cut")


def test_deletion_lets_the_address_go_also_while_the_daemon_is_away(fresh):
    cay = fresh()
    make(cay, "gone")
    make(cay, "later")
    for name in ("gone", "later"):
        suspended(cay, name)
    assert set(held(cay)) == {"gone", "later"}
    delete(cay, "gone")
    wait_until(lambda: set(held(cay)) == {"later"})
    # What nobody has any more, because the store was put back or the file is another's, is dropped at the start.
    cay.stop()
    lost = json.loads(record(cay).read_text())
    lost["holds"].append({**lost["holds"][0], "uid": "no-such-uid", "address": lost["holds"][0]["address"].rsplit(".", 1)[0] + ".77"})
    record(cay).write_text(json.dumps(lost))
    cay.start()
    wait_until(lambda: set(held(cay)) == {"later"} and len(json.loads(record(cay).read_text())["holds"]) == 1)
    assert "the sandbox of an address that was held is gone" in cay.log()
    delete(cay, "later")
    wait_until(lambda: held(cay) == {} and not routes(cay))


def test_a_damaged_record_is_told_of_and_costs_only_what_was_in_it(fresh):
    cay = fresh()
    before = make(cay, "one", idle=False)
    make(cay, "runs", idle=False)
    set_mode(cay, "one", "Suspended")
    cay.wait(PODS, "one", lambda o: o is None)
    wait_until(record(cay).exists)
    whole = record(cay).read_text()
    good = json.loads(whole)["holds"][0]
    for text, said in ((whole[:len(whole) // 2], "holds.json: "), ("\0garbage", "holds.json: "), ('{"holds": 7}', "holds.json: ")):
        cay.kill()
        record(cay).write_text(text)
        offset = len(cay.log())
        cay.start()
        line = next(line for line in cay.log(offset).splitlines() if "addresses of suspended sandboxes cannot be read" in line)
        assert said in line, line
        cay.wait_ready(SANDBOXES, "runs")  # its guest may not have answered yet
    cay.kill()
    record(cay).write_text(json.dumps({"holds": [
        {**good, "uid": "a", "address": "10.0.0.1"}, {**good, "uid": "b", "address": "nonsense"}, {**good, "uid": ""},
        good, {**good, "uid": "c"}]}))  # the last claims the same address
    offset = len(cay.log())
    cay.start()
    refused = [line for line in cay.log(offset).splitlines() if "cannot be held" in line]
    assert [n for n in range(5) if any(f"entry={n} " in line for line in refused)] == [0, 1, 2, 4], refused
    set_mode(cay, "one", "Running")
    assert runs_at(cay, "one") == before


def test_nothing_that_users_write_takes_the_address_of_a_sleeping_sandbox(cay):
    addresses = make(cay, "victim")
    suspended(cay, "victim")
    victim = cay.api("GET", f"{SANDBOXES}/victim")
    owner = {"apiVersion": victim["apiVersion"], "kind": "Sandbox", "name": "victim", "uid": victim["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}
    notes = {"cay.dev/asleep-since": "2020-01-01T00:00:00Z", "cay.dev/address": addresses[0], "agents.x-k8s.io/pod-name": "victim"}
    seen = []
    for name in ("thief", "victim"):  # the second has the name as well, and is removed by the controller
        body = pod(name, "sleep", "1000")
        body["metadata"].update(ownerReferences=[owner], annotations=notes, labels={"role": "victim"})
        body["status"] = {"podIP": addresses[0], "phase": "Running"}
        with contextlib.suppress(ApiError):
            cay.api("POST", PODS, body)
        if name == "thief":
            seen.append(cay.wait_ready(PODS, name)["status"]["podIP"])
            cay.api("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        cay.wait(PODS, name, lambda o: o is None)
    # A Sandbox of the same name in another namespace, and one that claims the Pod of this one, are others.
    other = make(cay, "pretender", **{"asleep_since": "2020-01-01T00:00:00Z"})
    seen += other
    assert addresses[0] not in seen and held(cay).get("victim") == addresses[0], (seen, held(cay))
    assert call(addresses[0], mark(cay)) == b"here\n"
    assert runs_at(cay, "victim") == addresses
    for name in ("victim", "pretender"):
        delete(cay, name)


def calls(cay, name, address, n=1, timeout=60):
    """How many connections of a Pod to an address were answered, and what became of the others."""
    return cay.kubectl("exec", name, "--", "python3", "-c", CALL, address, str(n), str(timeout)).stdout.split()


@pytest.fixture
def neighbours(cay):
    for name in ("friend", "stranger"):
        body = pod(name, "sleep", "1000")
        body["metadata"]["labels"] = {"role": name}
        create(cay, body)
    yield
    for name in ("friend", "stranger"):
        cay.api("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        cay.wait(PODS, name, lambda o: o is None)


@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
def test_a_neighbour_that_may_reach_it_wakes_it_once_and_one_that_may_not_does_not(cay, neighbours, family):
    if family and pathlib.Path("/proc/sys/net/ipv6/conf/all/forwarding").read_text() == "0\n" and \
            not pathlib.Path("/proc/sys/net/ipv6/conf/lo/force_forwarding").exists():
        pytest.skip("this kernel forwards IPv6 for all links or for none, and the host has it off")
    port = {"ports": [{"port": "line"}]}
    with policy(cay, "out", out({}, {"to": [of("server")]})), \
            policy(cay, "in", into({"role": "server"}, {"from": [of("friend")], **port})):
        # Long enough that it does not fall asleep again between two tries of one TCP connection.
        address = make(cay, "server", idle_after="8s")[family]
        wait_until(lambda: calls(cay, "friend", address, timeout=5) == ["1"])
        suspended(cay, "server")
        wait_until(lambda: address in routes(cay))
        before = wakes(cay)
        assert calls(cay, "stranger", address, 5, timeout=4)[0] == "0"
        assert wakes(cay) == before
        assert cay.api("GET", f"{SANDBOXES}/server")["spec"]["operatingMode"] == "Suspended"
        assert calls(cay, "friend", address, MANY) == [str(MANY)]
        wait_until(lambda: wakes(cay) - before == 1)
        assert runs_at(cay, "server")[family] == address
        # Its labels decide while it sleeps as well: with others, the friend is a stranger.
        suspended(cay, "server")
        cay.api("PATCH", f"{SANDBOXES}/server", {"spec": {"podTemplate": {"metadata": {"labels": {"role": "hermit"}}}}},
                "application/merge-patch+json")
        before = wakes(cay)
        wait_until(lambda: calls(cay, "friend", address, timeout=2)[0] == "0")
        assert wakes(cay) == before
        delete(cay, "server")


# All addresses of a name, or nothing.
RESOLVE = """
import socket, sys
try:
    print(*sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], 80)}))
except OSError:
    pass
"""


def test_its_name_leads_to_its_address_while_it_sleeps_and_nowhere_while_its_user_has_suspended_it(cay, neighbours):
    addresses = make(cay, "named")
    cay.api("PATCH", f"{SANDBOXES}/named", {"spec": {"service": True}}, "application/merge-patch+json")
    name = cay.wait(SANDBOXES, "named", lambda o: o["status"].get("serviceFQDN"))["status"]["serviceFQDN"]

    def resolved():
        return cay.kubectl("exec", "friend", "--", "python3", "-c", RESOLVE, name).stdout.split()

    suspended(cay, "named")
    assert addresses[0] in (found := resolved()) and set(found) <= set(addresses)
    subprocess.run([CAY, "suspend", "--kubeconfig", cay.kubeconfig, "--wait", "named"], check=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: resolved() == [])
    delete(cay, "named")


def test_cay_suspend_of_one_that_sleeps_does_not_say_that_it_was_woken(cay):
    addresses = make(cay, "both")
    suspended(cay, "both")
    subprocess.run([CAY, "suspend", "--kubeconfig", cay.kubeconfig, "--wait", "both"], check=True, stdout=subprocess.DEVNULL)
    o = cay.wait(SANDBOXES, "both", awake)
    assert condition(o, "Asleep")["reason"] == "SuspendedByUser", o["status"]
    wait_until(lambda: addresses[0] not in routes(cay))  # nothing is to be heard there any more
    assert held(cay)["both"] == addresses[0]
    set_mode(cay, "both", "Running")
    assert runs_at(cay, "both") == addresses
    delete(cay, "both")
