# SPDX-License-Identifier: Apache-2.0
"""The story of tests/integration/test_story.py on a real kube-apiserver, with `cay controller` and simulated nodes, as far as they allow.

What they do not allow, and docs/guide/agents.md says of clusters: nothing stands between an agent and a sandbox but the cluster's own roles, so there are no
events, tokens of agents, questions, views or limits of the network; nothing runs in a simulated Pod; and nobody counts what it uses.
"""

import contextlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from control_plane import ControlPlane  # noqa: E402
from cay_local import AGENTS, BUILD, EXTENSIONS, ROOT, condition, is_ready, wait_until  # noqa: E402

CAY = "/apis/cay.dev/v1alpha1/namespaces/default"
SANDBOXES = f"{AGENTS}/namespaces/default/sandboxes"
CLAIMS = f"{EXTENSIONS}/namespaces/default/sandboxclaims"
MERGE = "application/merge-patch+json"


class World:
    def __init__(self, plane):
        self.plane = plane

    def get(self, path):
        return self.plane.api("GET", path)

    def patch(self, path, change):
        return self.plane.api("PATCH", path, change, content_type=MERGE)

    def put(self, plural, kind, name, **spec):
        self.plane.api("POST", f"{CAY}/{plural}", {"apiVersion": "cay.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})

    def session(self, name, phase):
        self.plane.await_(f"session {name} is {phase}", lambda: self.get(f"{CAY}/sessions/{name}").get("status", {}).get("phase") == phase)
        return self.get(f"{CAY}/sessions/{name}")

    def sandbox(self, name):
        return self.get(f"{SANDBOXES}/{self.get(f'{CAY}/sessions/{name}')['status']['sandbox']}")


def the_team_is_accepted(w):
    for i in range(6):  # nobody makes volumes here: claims take one of these
        w.plane.api("POST", "/api/v1/persistentvolumes", {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"v{i}"}, "spec": {
            "capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": f"/nowhere/{i}"}}})
    w.plane.kubectl("apply", "-f", os.path.join(ROOT, "examples", "agents.yaml"))
    for name in ("lead", "builder", "reviewer"):
        w.plane.await_(f"agent {name}", lambda: is_ready(w.get(f"{CAY}/agents/{name}")))
    assert w.get(f"{CAY}/agents/builder")["status"]["effective"]["egress"] == [{"host": "packages.example.org", "ports": [80]}]


def a_session_gets_a_sandbox_of_its_own(w):
    w.put("sessions", "Session", "pull-12", agent="builder", user="ann", title="Pull request 12")
    s = w.session("pull-12", "Active")
    box = w.sandbox("pull-12")
    assert is_ready(box) and box["metadata"]["labels"]["cay.dev/session"] == "pull-12"
    assert [a["sandbox"] for a in s["status"]["attachments"]] == [box["metadata"]["name"]]


def a_reviewer_is_attached_with_a_view(w):
    w.put("sessions", "Session", "review", agent="reviewer", sandbox="none")
    w.session("review", "Active")
    w.put("attachments", "Attachment", "look", session="review", sandbox=w.sandbox("pull-12")["metadata"]["name"], view="Scratch", rights=["exec", "read"])
    w.plane.await_("the attachment", lambda: is_ready(w.get(f"{CAY}/attachments/look")))
    assert w.get(f"{CAY}/attachments/look")["status"]["effectiveRights"] == ["exec", "read"]


def shrinking_the_parent_shrinks_the_children(w):
    w.patch(f"{CAY}/agents/lead", {"spec": {"capabilities": {"rights": ["read"], "egress": [{"host": "docs.example.org"}]}}})
    w.plane.await_("fewer rights", lambda: w.get(f"{CAY}/attachments/look")["status"]["effectiveRights"] == ["read"])
    w.plane.await_("no way out", lambda: not w.get(f"{CAY}/agents/builder")["status"]["effective"].get("egress"))


def the_end_suspends_and_the_next_run_wakes_the_same_sandbox(w):
    before = w.sandbox("pull-12")["metadata"]["uid"]
    w.patch(f"{CAY}/sessions/review", {"spec": {"ended": True}})
    w.patch(f"{CAY}/sessions/pull-12", {"spec": {"ended": True}})
    ended = w.session("pull-12", "Ended")
    assert ended["status"]["deleteAt"]
    claim = w.get(f"{CLAIMS}/{ended['status']['claim']}")
    box = claim["status"]["sandbox"]["name"]
    w.plane.await_("the sandbox sleeps", lambda: w.get(f"{SANDBOXES}/{box}")["spec"].get("operatingMode") == "Suspended")
    w.patch(f"{CAY}/sessions/pull-12", {"spec": {"ended": False}})
    w.session("pull-12", "Active")
    assert w.sandbox("pull-12")["metadata"]["uid"] == before


def a_controller_that_is_killed_goes_on(w):
    w.controller.kill()
    w.controller.wait()
    w.put("sessions", "Session", "pull-13", agent="builder")
    w.start()
    w.session("pull-13", "Active")
    assert w.sandbox("pull-13")["metadata"]["name"] != w.sandbox("pull-12")["metadata"]["name"]


def an_agent_that_goes_ends_its_sessions_and_keeps_their_sandboxes(w):
    box = w.sandbox("pull-12")["metadata"]["name"]
    w.plane.api("DELETE", f"{CAY}/agents/builder")
    w.plane.await_("the session ends", lambda: condition(w.get(f"{CAY}/sessions/pull-12"), "Ready")["reason"] == "AgentDeleted")
    assert w.get(f"{SANDBOXES}/{box}")


CHECKS = [
    the_team_is_accepted,
    a_session_gets_a_sandbox_of_its_own,
    a_reviewer_is_attached_with_a_view,
    shrinking_the_parent_shrinks_the_children,
    the_end_suspends_and_the_next_run_wakes_the_same_sandbox,
    a_controller_that_is_killed_goes_on,
    an_agent_that_goes_ends_its_sessions_and_keeps_their_sandboxes,
]


def run(plane: ControlPlane, work):
    """How many of the checks failed. Each goes on where the one before it ended."""
    w = World(plane)
    account = plane.account_kubeconfig("agent-sandbox-system", "cay-controller")
    log = open(os.path.join(work, "story.log"), "wb")

    def start():
        w.controller = subprocess.Popen([os.path.join(BUILD, "cay"), "controller", "--kubeconfig", account], stdout=log, stderr=log)
    w.start = start
    w.start()
    done = 0
    try:
        for check in CHECKS:
            check(w)
            done += 1
            print(f"  passed  {check.__name__}", file=sys.stderr)
    except Exception as e:
        print(f"  FAILED  {CHECKS[done].__name__}: {e!r}", file=sys.stderr)
    finally:
        w.controller.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            w.controller.wait(30)
        log.close()
    return len(CHECKS) - done
