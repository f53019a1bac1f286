# SPDX-License-Identifier: Apache-2.0
"""The server is killed at random moments while a team of agents works: no operation runs without its decision on record, no approval serves twice, no
event is taken twice, and no cost is lost or doubled."""

import collections
import concurrent.futures
import contextlib
import json
import os
import random
import threading
import time

import pytest

from cay_local import ApiError, wait_until
from gate_kit import patch
from story_kit import CAY, Groups, Team, operation_digest
from test_audit_chain import verify

ROUNDS = int(os.environ.get("CAY_CRASH_ROUNDS", "20")) // 4
MARK = 'echo "$0" >> /work/marks'
BURN = "import time\nwhile time.process_time() < 0.3: pass"

# Goes on in the background while servers come and go.
BURNER = "setsid nice sh -c 'echo $$ > /work/burner; while :; do :; done' > /dev/null 2>&1 &"


class Crowd:
    """What goes on in a round; each of them may find that the server is gone."""

    def __init__(self, team):
        self.team, self.sent = team, []

    def allowed(self, k):
        self.team.exec("builder", "sh", "-c", MARK, f"allowed-{k}")

    def asked(self, k):
        self.team.exec("builder", "sh", "-c", MARK, f"asked-{k}")

    def event(self, k):
        self.sent.append(f"e-{k}")
        self.team.event("synchronize", f"e-{k}")

    def review(self, k):
        self.team.exec("reviewer", "python3", "-c", BURN)

    def approve(self, over):
        """Whatever is asked, until the round is over."""
        while not over.wait(0.05):
            with contextlib.suppress(OSError, ApiError):
                for a in self.team.cay.api("GET", f"{CAY}/approvals")["items"]:
                    if not a.get("status", {}).get("decision"):
                        patch(self.team.cay, "approvals", a["metadata"]["name"], {"status": {"decision": "Once"}}, "/status")

    def round(self, k):
        """Everything at a time, and a kill in between; what was asked is asked again afterwards, as its client would."""
        cay, over = self.team.cay, threading.Event()
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            work = [pool.submit(f, k) for f in (self.allowed, self.asked, self.event, self.review)]
            approver = pool.submit(self.approve, over)
            time.sleep(random.uniform(0, 1.2))  # when the kill comes is what varies
            cay.kill()
            concurrent.futures.wait(work)
            cay.start()
            if k % 2:
                self.asked(k)
            over.set()
            approver.result()


def records(cay, agent):
    with open(os.path.join(cay.data_dir, "audit.log")) as f:
        lines = [json.loads(line) for line in f]
    return [r for r in lines if r.get("user") == f"cay:agent:default:{agent}" and r.get("subresource") == "exec"]


def check_marks(team, crowd):
    """What ran is on record, and what had to be approved ran at most once for each approval."""
    marks = collections.Counter(team.says("builder", "sh", "-c", "cat /work/marks 2>/dev/null || true").split())
    on_record = collections.Counter(r["annotations"]["digest"] for r in records(team.cay, "builder") if "note" not in r)
    attachment = next(a for a in team.cay.api("GET", f"{CAY}/attachments")["items"] if a["spec"]["session"] == team.session()["metadata"]["name"])
    used = collections.Counter(a["spec"]["argv"][-1] for a in team.cay.api("GET", f"{CAY}/approvals")["items"] if a.get("status", {}).get("used"))
    assert marks, "nothing ran in any round"
    for mark, n in marks.items():
        digest = operation_digest(attachment, "builder", "sh", "-c", MARK, mark)
        assert on_record[digest] >= n, f"{mark} ran {n} times and is {on_record[digest]} times on record"
        if mark.startswith("asked-"):
            assert n <= used[mark], f"{mark} ran {n} times by {used[mark]} approvals"
    return marks


def check_events(team, crowd):
    """Each was taken once at most; what was acknowledged as done was done."""
    def over():
        return all(d["outcome"] not in ("Accepted", "Waiting", "Running") for d in deliveries())

    def deliveries():
        return team.cay.api("GET", f"{CAY}/triggers/pulls").get("status", {}).get("deliveries", [])
    wait_until(over, timeout=120)
    ran = sum(d["outcome"] == "Ran" for d in deliveries())
    lines = [line for line in team.says("builder", "cat", "/work/events.jsonl").splitlines() if line]
    assert ran <= len(lines) <= len(crowd.sent) + 1


def check_cost(team, counted):
    """What it started with, as a member of its pool, is the team's, and very little beside the rest."""
    team.says("builder", "sh", "-c", "kill $(cat /work/burner)")
    for session in (team.session()["metadata"]["name"], "review"):
        patch(team.cay, "sessions", session, {"spec": {"ended": True}})
    wait_until(lambda: not team.groups(), timeout=120)
    kernel = counted.stop()

    def cost():
        rows = json.loads(team.cay.cay("cost", "--by", "agent", "-o", "json", "--kubeconfig", team.cay.kubeconfig).stdout)["items"]
        return sum(float(r["cpuSeconds"]) for r in rows if r["agent"] in ("builder", "reviewer"))
    wait_until(lambda: abs(cost() - kernel) < 0.01 * kernel, timeout=60)


def tell(fresh, rounds):
    team = Team(fresh("--usage-interval", "1")).prepare()
    rules = [{"action": "Ask", "argv": ["sh", "-c", "*", "asked-*"]}]
    patch(team.cay, "agents", "builder", {"spec": {"approval": {"rules": rules, "timeout": "1m"}}})
    team.event("opened", "e-first")
    assert team.delivered("e-first")["outcome"] == "Ran"
    counted = Groups(team)
    team.review()
    team.says("builder", "sh", "-c", BURNER)
    crowd = Crowd(team)
    for k in range(rounds):
        crowd.round(k)
    marks = check_marks(team, crowd)
    check_events(team, crowd)
    check_cost(team, counted)
    team.cay.stop()
    assert verify(team.cay.data_dir)["faults"] == 0
    team.cay.start()
    return marks


@pytest.mark.timeout(900)
def test_kills_while_agents_work_lose_and_double_nothing(fresh):
    tell(fresh, ROUNDS)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_fifty_kills_while_agents_work(fresh):
    marks = tell(fresh, 50)
    assert any(m.startswith("asked-") for m in marks) and any(m.startswith("allowed-") for m in marks)
