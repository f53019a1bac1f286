# SPDX-License-Identifier: Apache-2.0
"""The page in a browser, on a cluster: `cay ui` serves it, kube-apiserver answers, `cay controller` does the work."""

import contextlib
import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "page"))
from cay_local import AGENTS, BUILD, EXTENSIONS  # noqa: E402
from page_kit import Chromium, Visitor, expect  # noqa: E402

CAY = os.path.join(BUILD, "cay")
POD = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}


@contextlib.contextmanager
def running(*argv, **options):
    p = subprocess.Popen([CAY, *argv], stdin=subprocess.DEVNULL, text=True, **options)
    try:
        yield p
    finally:
        p.send_signal(signal.SIGINT)
        p.wait(60)


def post(plane, group, plural, kind, name, spec):
    plane.api("POST", f"{group}/namespaces/default/{plural}", {"apiVersion": group.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, "spec": spec})


def screens(me):
    for path in ("", "sandboxes", "sessions", "approvals", "agents", "budgets", "audit", "templates"):
        me.go(path)
        expect(me.page.locator("main h1")).to_be_visible()
        expect(me.page.locator("main")).not_to_contain_text("Loading…")
        expect(me.page.locator("main")).not_to_contain_text("This server does not have this kind")
        me.framed().unharmed().shot("cluster-" + (path or "overview"))


def lists_live(plane, me):
    me.go("agents")
    me.see("There is no agent here yet")
    post(plane, "/apis/cay.dev/v1alpha1", "agents", "Agent", "page-walker", {"sandbox": {"mode": "UserChooses"}})
    me.see("page-walker")
    plane.api("DELETE", "/apis/cay.dev/v1alpha1/namespaces/default/agents/page-walker")
    me.see("There is no agent here yet")


def makes_one(plane, me):
    post(plane, EXTENSIONS, "sandboxtemplates", "SandboxTemplate", "page-walk", {"podTemplate": {"spec": POD}})
    post(plane, EXTENSIONS, "sandboxwarmpools", "SandboxWarmPool", "page-walk", {"replicas": 1, "sandboxTemplateRef": {"name": "page-walk"}})
    plane.await_("the pool", lambda: plane.api("GET", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools/page-walk").get("status", {}).get("readyReplicas") == 1)
    me.go("sandboxes?new=1")
    dialog = me.page.get_by_role("dialog", name="New sandbox")
    dialog.get_by_text("page-walk", exact=True).click()
    dialog.get_by_label("Name").fill("walked")
    dialog.get_by_role("button", name="Create").click()
    expect(me.page.locator("h1")).to_contain_text("walked")
    expect(me.page.locator("h1")).to_contain_text("Ready")


def says_why_not(plane, me):
    """Nothing runs on simulated nodes, so nobody can be entered: the page says so, and keeps trying nothing for ever."""
    me.page.get_by_role("tab", name="Terminal").click()
    said = me.page.locator("main [role=alert], main [role=status]").filter(has_text=re.compile("Not possible|not open the stream|lost|refused|cannot", re.I)).first
    expect(said).to_be_visible(timeout=60_000)
    me.framed().shot("cluster-terminal")
    me.page.get_by_role("tab", name="Ports").click()
    me.framed()


def away(plane, me):
    me.button("Delete…").click()
    me.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    me.heading("Sandboxes")
    plane.await_("its end", lambda: "walked" not in [o["metadata"]["name"] for o in plane.api("GET", f"{EXTENSIONS}/namespaces/default/sandboxclaims")["items"]])
    for plural in ("sandboxwarmpools", "sandboxtemplates"):
        plane.api("DELETE", f"{EXTENSIONS}/namespaces/default/{plural}/page-walk")
    plane.await_("the pool's end", lambda: not plane.api("GET", f"{AGENTS}/namespaces/default/sandboxes")["items"])


def walk(plane, work):
    account = plane.account_kubeconfig("agent-sandbox-system", "cay-controller")
    with open(os.path.join(work, "page-controller.log"), "wb") as log, running("controller", "--kubeconfig", account, stdout=log, stderr=log), \
            running("ui", "--print", "--kubeconfig", plane.kubeconfig, stdout=subprocess.PIPE) as desk, Chromium() as chromium:
        link = desk.stdout.readline().strip()
        me = Visitor(chromium, re.match(r"http://[^/]+", link)[0])
        try:
            me.log_in(link)
            screens(me)
            lists_live(plane, me)
            makes_one(plane, me)
            says_why_not(plane, me)
            away(plane, me)
        finally:
            wrong = me.close()
    assert not wrong, wrong
