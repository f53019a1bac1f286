# SPDX-License-Identifier: Apache-2.0
"""The end of a node with its Pods: two rounds, hooks, what the objects say meanwhile, and that all of it comes back."""

import os
import shutil
import signal
import tempfile

import pytest

from cay_local import Cay, wait_until
from conftest import needs_root
from test_node_pods import PODS, condition, create, pod, ready, status_of

NODES = "/api/v1/nodes"
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
SHUT_DOWN = "Pod was terminated in response to imminent node shutdown."
# Says in /out what happens to it, and ends only when the file "go" is there.
PATIENT = "trap 'echo $NAME asked >>/out/log; until test -e /out/go; do sleep 0.05; done; echo $NAME ended >>/out/log; exit 0' TERM; touch /armed; while :; do sleep 0.05; done"
STUBBORN = "trap '' TERM; touch /armed; while :; do sleep 1; done"


@pytest.fixture
def out():
    """A directory that Pods share. It is asked for before the instance, which needs it to the end."""
    needs_root()
    top = tempfile.mkdtemp(prefix="cay-test-host-", dir="/var/tmp")
    os.chmod(top, 0o1777)
    open(f"{top}/log", "w").close()
    os.chmod(f"{top}/log", 0o666)  # sandboxes are strangers to each other
    yield top
    shutil.rmtree(top)


def patient(name, out, script=PATIENT, **spec):
    container = {"env": [{"name": "NAME", "value": name}], "volumeMounts": [{"name": "out", "mountPath": "/out"}],
                 "readinessProbe": {"exec": {"command": ["test", "-e", "/armed"]}, "periodSeconds": 1},
                 "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", f"echo {name} hook >>/out/log"]}}}}
    return pod(name, "sh", "-c", script, container=container, volumes=[{"name": "out", "hostPath": {"path": out}}],
               **dict({"terminationGracePeriodSeconds": 600}, **spec))


def log(out):
    return open(f"{out}/log").read().splitlines()


def go(out):
    open(f"{out}/go", "w").close()


def node(cay):
    return cay.api("GET", NODES)["items"][0]


def is_up_again(cay, name, was):
    """Ready, in a container other than the one it had, and without a word about the shutdown."""
    obj = cay.wait(PODS, name, lambda p: ready(p) and status_of(p)["containerID"] != was)
    assert "reason" not in obj["status"] and "message" not in obj["status"]
    assert condition(obj, "DisruptionTarget") is None and status_of(obj)["restartCount"] == 0


def begin(fresh, out, *flags):
    cay = fresh("--host-path", f"{out}:rw", *flags)
    first = {"critical": create(cay, patient("critical", out, priorityClassName="system-cluster-critical")),
             "ordinary": create(cay, patient("ordinary", out, restartPolicy="Never"))}
    ids = {name: status_of(obj)["containerID"] for name, obj in first.items()}
    cay.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "ordinary asked" in log(out))
    return cay, ids


def test_ordinary_pods_end_before_critical_ones_and_all_come_back(out, fresh):
    cay, ids = begin(fresh, out, "--shutdown-grace", "300s", "--shutdown-grace-critical", "150s")
    says = next(c for c in node(cay)["status"]["conditions"] if c["type"] == "Ready")
    assert (says["status"], says["message"]) == ("False", "node is shutting down")
    ending = cay.api("GET", f"{PODS}/ordinary")
    assert ending["status"]["phase"] == "Running" and (ending["status"]["reason"], ending["status"]["message"]) == ("Terminated", SHUT_DOWN)
    assert condition(ending, "Ready") == "False" and condition(ending, "DisruptionTarget") == "True"
    assert ready(cay.api("GET", f"{PODS}/critical"))
    assert cay.kubectl("exec", "critical", "--", "echo", "alive").stdout == "alive\n"
    go(out)
    assert cay.process.wait(120) == 0
    assert log(out) == [f"{n} {what}" for n in ("ordinary", "critical") for what in ("hook", "asked", "ended")]
    assert not [i for i in cay.census()[0] if i["type"] == "process"]
    cay.start()
    for name, was in ids.items():
        is_up_again(cay, name, was)
    assert condition(node(cay), "Ready") == "True"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_end_that_is_cut_short_loses_and_leaves_nothing(out, fresh, how):
    cay, ids = begin(fresh, out)
    cay.close()
    cay.process.send_signal(how)
    assert cay.process.wait(120) == (-how if how == signal.SIGKILL else 0)
    assert "critical hook" not in log(out)
    go(out)
    cay.start()
    is_up_again(cay, "ordinary", ids["ordinary"])
    assert log(out)[-1] == "ordinary ended"  # it was not killed to make place for the next
    obj = cay.wait_ready(PODS, "critical")
    assert status_of(obj)["containerID"] == ids["critical"]  # its turn had not come


def test_each_round_has_an_end(out, fresh):
    cay = fresh("--host-path", f"{out}:rw", "--shutdown-grace", "4s", "--shutdown-grace-critical", "2s")
    create(cay, patient("ordinary", out, STUBBORN))
    create(cay, patient("critical", out, STUBBORN, priorityClassName="system-node-critical"))
    assert cay.stop() == 0
    assert "do not end in time" not in cay.log()
    assert log(out) == ["ordinary hook", "critical hook"]
    assert not [i for i in cay.census()[0] if i["type"] == "process"]


def test_the_pod_of_a_sandbox_comes_back(fresh):
    cay = fresh()
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "s"}, "spec": {"podTemplate": {"spec": {
        "containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(SANDBOXES, "s")
    obj = cay.wait_ready(PODS, "s")
    assert cay.stop() == 0
    cay.start()
    is_up_again(cay, "s", status_of(obj)["containerID"])
    again = cay.wait_ready(SANDBOXES, "s")
    assert condition(again, "Finished") is None


@pytest.mark.parametrize("flags, says", [
    (["--shutdown-grace", "5s"], "--shutdown-grace-critical 10s must not exceed --shutdown-grace 5s"),
    (["--shutdown-grace", "2h"], "at most 3600000 ms"),
])
def test_times_that_cannot_be_are_refused(tmp_path, flags, says):
    r = Cay(str(tmp_path)).cay("serve", "--data-dir", str(tmp_path), *flags, check=False)
    assert r.returncode != 0 and says in r.stderr
