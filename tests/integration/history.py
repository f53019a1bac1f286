# SPDX-License-Identifier: Apache-2.0
"""What clients did and saw, and whether one order of writes explains all of it.

Writers change objects of several kinds under optimistic locking, watchers list, watch and resume; each remembers what it
asked, what it was answered and when. explain() then reads the whole history. It knows nothing about the server but its
promises:

  - an acknowledged write happened, once; a refused one never did; one without an answer did or did not
  - a revision belongs to one state of one object, and later writes have higher ones
  - a write that names a revision replaces exactly that state: no other state lies between
  - an object ends only if somebody deleted it, and a deletion that was acknowledged is final
  - a read shows a state that was written, and no older one than was acknowledged before it began
  - a watch shows every state after its list exactly once and in order, however often it was resumed
  - a claim that was bound stays bound to the same Sandbox, and a Sandbox to the same claim
"""

import bisect
import collections
import http.client
import itertools
import json
import random
import threading
import time
import typing

from cay_local import AGENTS, EXTENSIONS

TOKEN = "history"  # the annotation that says which write made a state
HERE = "namespaces/default"
PATHS = {
    "ConfigMap": f"/api/v1/{HERE}/configmaps",
    "Secret": f"/api/v1/{HERE}/secrets",
    "Sandbox": f"{AGENTS}/{HERE}/sandboxes",
    "SandboxClaim": f"{EXTENSIONS}/{HERE}/sandboxclaims",
}
WRITTEN = ("ConfigMap", "Secret", "Sandbox")  # by writers; claims have a lane of their own
NAMES = 4  # of each kind: few, so that writers meet

DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"


class Op(typing.NamedTuple):
    """One write. rev: that of the state it made; 0 for a deletion, whose answer does not tell."""
    verb: str  # create, update, delete
    kind: str
    name: str
    uid: str  # of the object; "" for a creation that was not answered
    token: str
    expects: int
    outcome: str
    rev: int
    began: float
    ended: float


class Read(typing.NamedTuple):
    kind: str
    name: str
    state: typing.Optional["State"]  # None: there was no such object
    began: float
    ended: float


class State(typing.NamedTuple):
    kind: str
    name: str
    uid: str
    rev: int
    token: str


class Segment(typing.NamedTuple):
    """A list and the events that followed it, over as many connections as it took."""
    watcher: str
    kind: str
    rev: int  # of the list
    items: list  # of State
    began: float
    ended: float  # of the list
    events: list  # of (type, State)


class History:
    def __init__(self):
        self.ops, self.reads, self.segments = [], [], []
        self.bindings = collections.defaultdict(set)  # uid of a claim → names of Sandboxes
        self.owners = collections.defaultdict(set)  # uid of a Sandbox → uids of claims


def state_of(kind, obj):
    meta = obj["metadata"]
    token = meta.get("annotations", {}).get(TOKEN, "")
    return State(kind, meta["name"], meta["uid"], int(meta["resourceVersion"]), token)


# -- clients ----------------------------------------------------------------------------------------------------------


class Lost(Exception):
    """The request may have been carried out, or not."""


class Door:
    """How to reach an instance, which keeps its port and its keys when it is started anew."""

    def __init__(self, cay):
        self.port, self.context = cay.port, cay.context()

    def connect(self, timeout=60):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)


class Line:
    """A connection of one thread's own; never sends a request twice."""

    def __init__(self, door):
        self.door, self.conn = door, None

    def ask(self, method, path, body=None):
        """(HTTP status, decoded answer)"""
        try:
            self.conn = self.conn or self.door.connect()
            self.conn.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            answer = self.conn.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as what:
            self.close()
            raise Lost from what

    def close(self):
        if self.conn:
            self.conn.close()
            self.conn = None


def blank(kind, name):
    obj = {"metadata": {"name": name}}
    if kind == "Sandbox":
        pod = {"spec": {"containers": [{"name": "main", "image": "pause"}]}}
        obj.update(apiVersion="agents.x-k8s.io/v1beta1", kind=kind,
                   spec={"operatingMode": "Suspended", "podTemplate": pod})
    if kind == "SandboxClaim":
        obj.update(apiVersion="extensions.agents.x-k8s.io/v1beta1", kind=kind, spec={"warmPoolRef": {"name": "pool"}})
    return obj


class Client(threading.Thread):
    """Runs turn() until it is told to stop; a turn that lost the server is followed by another."""

    def __init__(self, door, history, stop, name):
        super().__init__(name=name, daemon=True)
        self.history, self.stop, self.line = history, stop, Line(door)
        self.random = random.Random(name)
        self.failure = None

    def run(self):
        try:
            while not self.stop.is_set():
                try:
                    self.turn()
                except Lost:
                    self.stop.wait(0.01)
        except Exception as what:  # pylint: disable=broad-except
            self.failure = what
        self.line.close()


class Writer(Client):
    def __init__(self, *args):
        super().__init__(*args)
        self.numbers = itertools.count()

    def turn(self):
        kind, name = self.random.choice(WRITTEN), f"o{self.random.randrange(NAMES)}"
        obj = self.read(kind, name)
        if obj is None:
            self.create(kind, name)
        elif self.random.random() < 0.15:
            self.delete(kind, obj)
        else:
            self.update(kind, obj)

    def read(self, kind, name):
        began = time.monotonic()
        status, obj = self.line.ask("GET", f"{PATHS[kind]}/{name}")
        if status not in (200, 404):
            raise AssertionError(f"GET of {kind} {name}: {status} {obj}")
        found = obj if status == 200 else None
        self.history.reads.append(Read(kind, name, found and state_of(kind, found), began, time.monotonic()))
        return found

    def create(self, kind, name):
        obj = blank(kind, name)
        self.write("create", kind, obj, ("POST", PATHS[kind]))

    def update(self, kind, obj):
        self.write("update", kind, obj, ("PUT", f"{PATHS[kind]}/{obj['metadata']['name']}"))

    def write(self, verb, kind, obj, request):
        token = f"{self.name}-{next(self.numbers)}"
        meta = obj["metadata"]
        meta.setdefault("annotations", {})[TOKEN] = token
        expects, uid = int(meta.get("resourceVersion", 0)), meta.get("uid", "")
        began = time.monotonic()
        outcome, answer = self.outcome(*request, obj)
        rev = 0
        if outcome == DONE:
            rev, uid = int(answer["metadata"]["resourceVersion"]), answer["metadata"]["uid"]
        self.history.ops.append(Op(verb, kind, meta["name"], uid, token, expects, outcome, rev, began, time.monotonic()))

    def delete(self, kind, obj):
        meta = obj["metadata"]
        began = time.monotonic()
        body = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        outcome, _ = self.outcome("DELETE", f"{PATHS[kind]}/{meta['name']}", body)
        self.history.ops.append(Op("delete", kind, meta["name"], meta["uid"], "", int(meta["resourceVersion"]), outcome,
                                   0, began, time.monotonic()))

    def outcome(self, method, path, body):
        try:
            status, answer = self.line.ask(method, path, body)
        except Lost:
            return UNKNOWN, None
        if status < 300:
            return DONE, answer
        if status in (404, 409, 503):
            return REFUSED, answer
        if status == 504:
            return UNKNOWN, answer
        raise AssertionError(f"{method} {path}: {status} {answer}")


class Claimer(Writer):
    """Claims from the pool, and gives back what it claimed a while ago."""

    def __init__(self, *args):
        super().__init__(*args)
        self.names, self.held = (f"{self.name}-{n}" for n in itertools.count()), collections.deque()

    def turn(self):
        if len(self.held) < 3:
            name = next(self.names)
            self.held.append(name)
            self.create("SandboxClaim", name)
        else:
            self.give_back(self.held[0])
            self.held.popleft()  # not if the server was lost: then once more

    def give_back(self, name):
        while obj := self.read("SandboxClaim", name):
            self.delete("SandboxClaim", obj)  # its status changes meanwhile, so this may be refused
            if self.stop.is_set():
                return


class Watcher(Client):
    """Lists, watches, resumes from the last revision it saw; lists anew only when it is told that this is gone."""

    def __init__(self, door, history, stop, name, kind):
        super().__init__(door, history, stop, name)
        self.door, self.kind = door, kind
        self.segment = self.resume_at = None

    def turn(self):
        if not self.segment:
            self.begin()
        self.follow()

    def begin(self):
        began = time.monotonic()
        status, answer = self.line.ask("GET", PATHS[self.kind])
        if status != 200:
            raise AssertionError(f"list of {self.kind}: {status} {answer}")
        self.resume_at = answer["metadata"]["resourceVersion"]
        items = [self.note(obj) for obj in answer["items"]]
        self.segment = Segment(self.name, self.kind, int(self.resume_at), items, began, time.monotonic(), [])
        self.history.segments.append(self.segment)

    def follow(self):
        path = f"{PATHS[self.kind]}?watch=true&allowWatchBookmarks=true&resourceVersion={self.resume_at}"
        conn = self.door.connect(5)
        try:
            conn.request("GET", path)
            answer = conn.getresponse()
            if answer.status == 410:
                self.segment = None
                return
            for line in answer if answer.status == 200 else ():
                self.take(json.loads(line))
                if not self.segment or self.stop.is_set():
                    return
        except (OSError, http.client.HTTPException, ValueError) as what:  # ValueError: cut within a line
            raise Lost from what
        finally:
            conn.close()

    def take(self, event):
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            assert obj["code"] == 410, obj
            self.segment = None
            return
        self.resume_at = obj["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            self.segment.events.append((kind, self.note(obj)))

    def note(self, obj):
        meta = obj["metadata"]
        bound = obj.get("status", {}).get("sandbox", {}).get("name")
        if self.kind == "SandboxClaim" and bound:
            self.history.bindings[meta["uid"]].add(bound)
        for owner in meta.get("ownerReferences", ()) if self.kind == "Sandbox" else ():
            if owner["kind"] == "SandboxClaim":
                self.history.owners[meta["uid"]].add(owner["uid"])
        return state_of(self.kind, obj)


# -- the explanation --------------------------------------------------------------------------------------------------


class Explainer:
    """Everything that is known about each object, and what contradicts it."""

    def __init__(self, history):
        self.history = history
        self.wrong = []
        self.by_rev = {}  # revision → State; deletions have revisions of their own
        self.lives = collections.defaultdict(dict)  # uid → revision → State
        self.ended = {}  # uid → revision of the deletion, where an event told
        self.over = {}  # uid → a revision at which it was no more: that, or the first of its successor's
        self.deletes = collections.defaultdict(list)  # uid → deletions that may have happened
        self.wrote = {op.token: op for op in history.ops if op.verb != "delete"}

    def complain(self, text):
        self.wrong.append(text)

    def run(self):
        self.gather()
        self.check_tokens()
        self.check_order()
        self.check_replacements()
        self.check_ends()
        self.check_reads()
        for kind in PATHS:
            self.check_lists(kind)
            self.check_watches(kind)
        self.check_bindings()
        return self.wrong

    # what is known

    def gather(self):
        for op in self.history.ops:
            if op.verb == "delete" and op.outcome != REFUSED:
                self.deletes[op.uid].append(op)
            elif op.outcome == DONE:
                self.know(State(op.kind, op.name, op.uid, op.rev, op.token), f"the answer to {op.token}")
        for read in self.history.reads:
            if read.state:
                self.know(read.state, "a read")
        for segment in self.history.segments:
            for state in segment.items:
                self.know(state, f"a list of {segment.watcher}")
            for kind, state in segment.events:
                self.know(state, f"a watch of {segment.watcher}", kind == "DELETED")

    def know(self, state, source, deleted=False):
        known = self.by_rev.setdefault(state.rev, (state, deleted))
        if known != (state, deleted):
            self.complain(f"revision {state.rev} is {known[0]} and, says {source}, {state}")
        elif deleted:
            self.ended[state.uid] = state.rev
        else:
            self.lives[state.uid][state.rev] = state

    # what must hold

    def check_tokens(self):
        made = collections.defaultdict(list)  # token → its first states, one for each object that carries it
        for states in self.lives.values():
            for token, same in itertools.groupby(sorted(states.values(), key=lambda s: s.rev), lambda s: s.token):
                made[token].append(next(same))
        for token, firsts in made.items():
            op = self.wrote.get(token)
            if not token:
                continue  # made by the server
            if not op or op.outcome == REFUSED:
                self.complain(f"{firsts[0]} shows a write that was {op.outcome if op else 'never sent'}")
            elif len(firsts) > 1:
                self.complain(f"{token} was carried out more than once: {firsts}")

    def check_order(self):
        done = sorted((op for op in self.history.ops if op.rev), key=lambda op: op.ended)
        ends, highest = [op.ended for op in done], list(itertools.accumulate((op.rev for op in done), max))
        for op in done:
            before = bisect.bisect_left(ends, op.began)
            if before and highest[before - 1] >= op.rev:
                self.complain(f"{op.token} got revision {op.rev} after {highest[before - 1]} had been given out")

    def happened(self, op):
        """The revision that an update or creation made, 0 if nobody saw it happen."""
        if op.outcome == DONE:
            return op.rev
        revs = [r for r, s in self.lives.get(op.uid, {}).items() if s.token == op.token]
        return min(revs, default=0)

    def check_replacements(self):
        taken = {}  # (uid, revision) → the write that replaced it
        for op in self.history.ops:
            if op.verb == "create" or op.outcome == REFUSED:
                continue
            rev = 0 if op.verb == "delete" else self.happened(op)
            if not rev and not (op.verb == "delete" and op.outcome == DONE):
                continue
            other = taken.setdefault((op.uid, op.expects), op)
            if other is not op:
                self.complain(f"both {other} and {op} replaced revision {op.expects}")
            between = [r for r in self.lives[op.uid] if op.expects < r < rev]
            if between:
                self.complain(f"{op} replaced {op.expects}, and {between} lie between")

    def check_ends(self):
        names = collections.defaultdict(list)  # (kind, name) → (first revision, uid)
        self.over = dict(self.ended)
        for uid, states in self.lives.items():
            first = min(states)
            names[states[first].kind, states[first].name].append((first, uid))
            if uid in self.ended:
                self.must_be_deletable(uid, f"was deleted at {self.ended[uid]}")
                if max(states) > self.ended[uid]:
                    self.complain(f"{states[max(states)]} was seen after its deletion at {self.ended[uid]}")
        for lives in names.values():
            lives.sort()
            for (_, uid), (first, _) in zip(lives, lives[1:]):
                self.must_be_deletable(uid, f"was replaced at {first}")
                if max(self.lives[uid]) > first:
                    self.complain(f"{self.lives[uid][max(self.lives[uid])]} lived on after {first}")
                self.over.setdefault(uid, first)

    def must_be_deletable(self, uid, why):
        state = next(iter(self.lives[uid].values()))
        if not self.deletes[uid] and self.by_writers(uid):
            self.complain(f"{state.kind} {state.name} {uid} {why}, and nobody deleted it")

    def by_writers(self, uid):
        """Sandboxes of the pool end without us."""
        return any(s.token for s in self.lives[uid].values())

    def must_be_newest(self, what, state, floor, deadline):
        """state is what somebody saw who began after everything up to floor was answered."""
        for op in floor:
            gone = any(d.began < deadline for d in self.deletes[op.uid])
            if state and state.uid == op.uid and state.rev < op.rev:
                self.complain(f"{what} shows {state}, and {op} had been answered")
            elif (not state or state.uid != op.uid) and not gone:
                self.complain(f"{what} shows {state}, and {op} had been answered and was not deleted")

    def check_reads(self):
        acks = collections.defaultdict(list)
        for op in sorted((op for op in self.history.ops if op.rev), key=lambda op: op.ended):
            acks[op.kind, op.name].append(op)
        ends = {key: [op.ended for op in ops] for key, ops in acks.items()}
        finals = collections.defaultdict(list)
        for uid, ops in self.deletes.items():
            finals[uid] = [op.ended for op in ops if op.outcome == DONE]
        for read in self.history.reads:
            key = (read.kind, read.name)
            n = bisect.bisect_left(ends.get(key, []), read.began)
            self.must_be_newest("a read", read.state, acks[key][n - 1:n], read.ended)
            if read.state and any(end < read.began for end in finals[read.state.uid]):
                self.deleted_may_linger(read.state)

    def deleted_may_linger(self, state):
        if state.kind in ("ConfigMap", "Secret"):  # nothing holds these back
            self.complain(f"a read shows {state} after its deletion had been answered")

    def check_lists(self, kind):
        """In the order of their revisions, beside the objects that may be alive at each."""
        coming = sorted(((min(states), uid) for uid, states in self.lives.items()
                         if next(iter(states.values())).kind == kind), reverse=True)
        alive = set()
        for segment in sorted((s for s in self.history.segments if s.kind == kind), key=lambda s: s.rev):
            while coming and coming[-1][0] <= segment.rev:
                alive.add(coming.pop()[1])
            shown = {state.uid: state for state in segment.items}
            for state in segment.items:
                self.check_shown(segment, state)
            alive -= {uid for uid in alive if self.over.get(uid, segment.rev + 1) <= segment.rev}
            for uid in alive - shown.keys():
                self.check_absent(segment, uid)

    def newest(self, uid, rev):
        return self.lives[uid][max(r for r in self.lives[uid] if r <= rev)]

    def check_shown(self, segment, state):
        newest = self.newest(state.uid, segment.rev)
        if state.rev != newest.rev:
            self.complain(f"a list at {segment.rev} shows {state} instead of {newest}")
        if self.over.get(state.uid, segment.rev + 1) <= segment.rev:
            self.complain(f"a list at {segment.rev} shows {state}, which was gone at {self.over[state.uid]}")

    def check_absent(self, segment, uid):
        if uid in self.ended:
            self.complain(f"a list at {segment.rev} lacks {self.newest(uid, segment.rev)}, deleted at {self.ended[uid]}")
        elif self.by_writers(uid) and not self.deletes[uid]:
            self.complain(f"a list at {segment.rev} lacks {self.newest(uid, segment.rev)}, and nobody deleted it")

    def check_watches(self, kind):
        known = sorted(rev for rev, (state, _) in self.by_rev.items() if state.kind == kind)
        for segment in self.history.segments:
            if segment.kind == kind:
                self.check_watch(segment, known)

    def check_watch(self, segment, known):
        last = segment.rev
        for _, state in segment.events:
            if state.rev <= last:
                self.complain(f"{segment.watcher} saw {state} after revision {last}")
            last = max(last, state.rev)
        passed = known[bisect.bisect_right(known, segment.rev):bisect.bisect_right(known, last)]
        missed = set(passed) - {state.rev for _, state in segment.events}
        if missed:
            self.complain(f"{segment.watcher} listed at {segment.rev}, watched until {last} and missed {sorted(missed)}")

    def check_bindings(self):
        for claim, names in self.history.bindings.items():
            if len(names) > 1:
                self.complain(f"claim {claim} was bound to {sorted(names)}")
        for uid, claims in self.history.owners.items():
            if len(claims) > 1:
                self.complain(f"Sandbox {uid} was bound to claims {sorted(claims)}")
        holders = collections.defaultdict(set)
        for uid, claims in self.history.owners.items():
            for claim in claims:
                holders[claim].add(uid)
        for claim, uids in holders.items():
            if len(uids) > 1:
                self.complain(f"claim {claim} owned Sandboxes {sorted(uids)}")


def explain(history):
    """What no order of writes can explain; empty if all is well."""
    return Explainer(history).run()
