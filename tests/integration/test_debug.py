# SPDX-License-Identifier: Apache-2.0
"""kubectl debug: ephemeral containers in a Pod that runs."""

from cay_local import wait_until
from test_node_pods import PODS, create, events, pod, ready, sh

SERVER = "import http.server; http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()"
GET = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/').status)"


def debug(cay, name, container, *command, target=None):
    """As a user types it."""
    options = ["--target", target] if target else []
    return cay.kubectl("debug", name, "--image=host", "-c", container, *options, "--", *command)


def state(cay, name, container):
    statuses = cay.api("GET", f"{PODS}/{name}")["status"].get("ephemeralContainerStatuses", [])
    return next((s["state"] for s in statuses if s["name"] == container), {})


def test_a_debugger_shares_the_network_and_the_names_of_its_pod_and_has_a_root_of_its_own(cay):
    create(cay, pod("app", "/usr/bin/python3", "-c", SERVER, container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                    volumes=[{"name": "v", "emptyDir": {}}], hostname="the-host"))
    sh(cay, "app", "touch /only-there")
    debug(cay, "app", "look", "sleep", "1000", target="main")
    wait_until(lambda: "running" in state(cay, "app", "look"))
    wait_until(lambda: sh(cay, "app", f'/usr/bin/python3 -c "{GET}"', container="look", check=False).stdout == "200\n")
    assert sh(cay, "app", "hostname", container="look").stdout == "the-host\n"
    for namespace, shared in (("net", True), ("ipc", True), ("uts", True), ("pid", False), ("mnt", False), ("user", False)):
        ids = {sh(cay, "app", f"readlink /proc/self/ns/{namespace}", container=c).stdout for c in ("main", "look")}
        assert (len(ids) == 1) == shared, namespace
    assert sh(cay, "app", "ls /only-there", container="look", check=False).returncode != 0
    assert ready(cay.api("GET", f"{PODS}/app"))
    wait_until(lambda: "TargetNotShared" in events(cay, "app"))


def test_a_debugger_leaves_its_output_and_its_end_and_a_pod_may_have_several(cay):
    create(cay, pod("host", "sleep", "1000"))
    debug(cay, "host", "one", "sh", "-c", "echo found; exit 3")
    wait_until(lambda: state(cay, "host", "one").get("terminated", {}).get("exitCode") == 3)
    assert cay.kubectl("logs", "host", "-c", "one").stdout == "found\n"
    debug(cay, "host", "two", "sleep", "1000")
    wait_until(lambda: "running" in state(cay, "host", "two"))
    cay.kubectl("delete", "pod", "host")


def test_a_daemon_that_was_killed_finds_its_debuggers_again(fresh):
    cay = fresh()
    create(cay, pod("app", "sleep", "1000"))
    debug(cay, "app", "done", "true")
    debug(cay, "app", "on", "sleep", "1000")
    wait_until(lambda: "terminated" in state(cay, "app", "done") and "running" in state(cay, "app", "on"))
    was = state(cay, "app", "done"), state(cay, "app", "on")
    cay.kill()
    cay.start()
    assert sh(cay, "app", "echo still there", container="on").stdout == "still there\n"
    wait_until(lambda: (state(cay, "app", "done"), state(cay, "app", "on")) == was)
