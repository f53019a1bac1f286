# SPDX-License-Identifier: Apache-2.0
"""Faults while clients write, watch and claim: one order of writes must explain everything that any of them ever saw.

CAY_HISTORY_FAULTS sets the number of faults (20; make test-long: 1,000).
"""

import copy
import os
import random
import signal
import subprocess
import threading

import pytest

from cay_local import EXTENSIONS, is_ready
from history import DONE, HERE, PATHS, REFUSED, Claimer, Door, History, Op, Watcher, Writer, blank, explain

FAULTS = int(os.environ.get("CAY_HISTORY_FAULTS", "20"))
WRITERS = 4
POOL = 4


def prepare(cay):
    pod = blank("Sandbox", "x")["spec"]["podTemplate"]
    for kind, plural, spec in (("SandboxTemplate", "sandboxtemplates", {"podTemplate": pod}),
                               ("SandboxWarmPool", "sandboxwarmpools",
                                {"replicas": POOL, "sandboxTemplateRef": {"name": "pool"}})):
        cay.api("POST", f"{EXTENSIONS}/{HERE}/{plural}", {
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": "pool"}, "spec": spec})


# -- faults -----------------------------------------------------------------------------------------------------------


def crash(cay, _pause):
    cay.kill()
    cay.start()


def restart(cay, _pause):
    assert cay.stop() == 0
    cay.start()


def hang(cay, pause):
    cay.process.send_signal(signal.SIGSTOP)
    pause(0.3)
    cay.process.send_signal(signal.SIGCONT)


def launchers(cay):
    """The daemon's children; slots and sandboxes are theirs."""
    return subprocess.run(["pgrep", "-P", str(cay.process.pid)], capture_output=True, text=True).stdout.split()


def lose_launchers(cay, pause):
    tries = 1000
    while not launchers(cay):  # they come back a moment after the last loss
        tries -= 1
        assert tries, "there are no launchers"
        pause(0.01)
    for pid in launchers(cay):
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


KINDS = (crash, crash, crash, restart, hang, lose_launchers)


# -- a run ------------------------------------------------------------------------------------------------------------


def record(cay, faults):
    """A history with as many faults in it."""
    history, stop = History(), threading.Event()
    args = (Door(cay), history, stop)
    clients = [Writer(*args, f"w{n}") for n in range(WRITERS)] + [Claimer(*args, "claim")]
    clients += [Watcher(*args, f"watch-{n}-{kind}", kind) for kind in PATHS for n in range(2)]
    for c in clients:
        c.start()
    chance = random.Random(faults)
    plan = [KINDS[n % len(KINDS)] for n in range(faults)]
    chance.shuffle(plan)
    try:
        for fault in plan:
            stop.wait(chance.uniform(0.05, 0.5))
            fault(cay, stop.wait)
        stop.wait(0.5)
    finally:
        stop.set()
        for c in clients:
            c.join(30)
    assert not [c.name for c in clients if c.is_alive()], "clients hang"
    assert not [c.failure for c in clients if c.failure]
    look_back(cay, history)
    return history


def look_back(cay, history):
    """One more list of every kind, when all is quiet: the end of the history is part of it."""
    for kind in PATHS:
        last = Watcher(Door(cay), history, threading.Event(), f"last-{kind}", kind)
        last.begin()
        last.line.close()


def check_claims(cay):
    claims = cay.api("GET", PATHS["SandboxClaim"])["items"]
    bound = {}
    for claim in claims:
        name = claim["metadata"]["name"]
        held = cay.wait(PATHS["SandboxClaim"], name, is_ready)["status"]["sandbox"]["name"]
        assert bound.setdefault(held, name) == name, f"{held} is bound to {name} and {bound[held]}"


def run(cay, faults):
    prepare(cay)
    history = record(cay, faults)
    wrong = explain(history)
    assert not wrong, f"{len(wrong)} contradictions:\n" + "\n".join(wrong[:10])
    check_claims(cay)
    done = [op for op in history.ops if op.outcome == DONE]
    for verb in ("create", "update", "delete"):
        assert sum(op.verb == verb for op in done) >= faults, f"hardly any {verb} was acknowledged"
    assert any(op.outcome == REFUSED for op in history.ops), "writers never met"
    assert history.bindings, "no claim was bound"
    print({"faults": faults, "acknowledged": len(done), "writes": len(history.ops), "reads": len(history.reads),
           "events": sum(len(s.events) for s in history.segments), "lists": len(history.segments)})
    return history


def test_one_order_of_writes_explains_everything_that_anybody_saw(fresh):
    history = run(fresh(), FAULTS)
    for plant, complaint in PLANTS.items():
        wrong = explain(plant(copy.deepcopy(history)))
        assert any(complaint in text for text in wrong), f"{plant.__name__} went unnoticed: {wrong[:3]}"


@pytest.mark.long
def test_a_thousand_faults_are_explained(fresh):
    run(fresh(), 50 * FAULTS)


# -- histories of a server that broke a promise -----------------------------------------------------------------------
# Each takes a true history and makes it one that a faulty server could have caused.


def pick(ops, right):
    return next(i for i, op in enumerate(ops) if right(op))


def lose_an_acknowledged_creation(h):
    """The object is created, acknowledged and never seen again."""
    last = h.segments[-1]
    h.ops.append(Op("create", last.kind, "lost", "lost", "lost", 0, DONE, last.rev + 1, last.ended, last.ended))
    h.segments.append(last._replace(rev=last.rev + 1))
    return h


def lose_an_event(h):
    revs = {op.rev for op in h.ops if op.rev}
    for s in h.segments:
        for n, (_, state) in enumerate(s.events[:-1]):
            if state.rev in revs:
                del s.events[n]
                return h
    raise AssertionError("no watch saw any write")


def show_an_event_twice(h):
    s = next(s for s in h.segments if s.events)
    s.events.append(s.events[0])
    return h


def let_two_writers_replace_one_state(h):
    op = h.ops[pick(h.ops, lambda op: op.verb == "update" and op.outcome == DONE)]
    h.ops.append(op._replace(token="other", rev=10 ** 9))
    return h


def carry_out_a_refused_write(h):
    refused = pick(h.ops, lambda op: op.outcome == DONE and op.verb == "update")
    h.ops[refused] = h.ops[refused]._replace(outcome=REFUSED, rev=0)
    return h


def give_a_revision_out_twice(h):
    a, b = [i for i, op in enumerate(h.ops) if op.rev][:2]
    h.ops[b] = h.ops[b]._replace(rev=h.ops[a].rev)
    return h


def start_revisions_anew(h):
    """As a store would that forgot how far it had come."""
    late = max((op for op in h.ops if op.rev), key=lambda op: op.began)
    h.ops.append(late._replace(token="late", rev=1, uid="late", name="late", began=late.ended + 1, ended=late.ended + 2))
    return h


def read_an_old_state(h):
    late = max((op for op in h.ops if op.rev and op.verb == "update"), key=lambda op: op.ended)
    read = next(r for r in h.reads if r.state and r.state.uid == late.uid and r.state.rev < late.rev)
    h.reads.append(read._replace(began=late.ended + 1, ended=late.ended + 2))
    return h


def bring_a_deleted_object_back(h):
    gone = h.ops[pick(h.ops, lambda op: op.verb == "delete" and op.outcome == DONE and op.kind == "Secret")]
    read = next(r for r in h.reads if r.state and r.state.uid == gone.uid)
    h.reads.append(read._replace(began=gone.ended + 1, ended=gone.ended + 2))
    return h


def lose_an_object(h):
    """It is gone, and nobody deleted it."""
    gone = h.ops[pick(h.ops, lambda op: op.verb == "delete" and op.outcome == DONE and op.kind == "ConfigMap")]
    h.ops[:] = [op for op in h.ops if not (op.verb == "delete" and op.uid == gone.uid)]
    return h


def bind_a_claim_again(h):
    next(iter(h.bindings.values())).add("another")
    return h


def give_a_sandbox_to_two_claims(h):
    next(iter(h.owners.values())).add("another")
    return h


PLANTS = {
    lose_an_acknowledged_creation: "and nobody deleted it",
    lose_an_event: "and missed",
    show_an_event_twice: "after revision",
    let_two_writers_replace_one_state: "replaced revision",
    carry_out_a_refused_write: "shows a write that was refused",
    give_a_revision_out_twice: "says the answer to",
    start_revisions_anew: "had been given out",
    read_an_old_state: "had been answered",
    bring_a_deleted_object_back: "after its deletion had been answered",
    lose_an_object: "and nobody deleted it",
    bind_a_claim_again: "was bound to",
    give_a_sandbox_to_two_claims: "was bound to claims",
}
