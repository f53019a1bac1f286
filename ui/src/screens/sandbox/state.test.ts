// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { clockOf, ownerOf, stateOf, why } from "./state.ts";

const cond = (type, status, reason = "", message = "") => ({ type, status, reason, message });
const box = (conditions, more = {}) => ({ metadata: { name: "x", ...more.metadata }, spec: { operatingMode: "Running", ...more.spec }, status: { conditions } });
const pending = (message) => box([cond("Suspended", "False", "NotSuspended"), cond("Ready", "False", "DependenciesNotReady", message)]);
const suspended = (annotations, pod = "True") => box([cond("Suspended", pod, "PodTerminated"), cond("Ready", "False", "SandboxSuspended")], { metadata: { annotations }, spec: { operatingMode: "Suspended" } });

test("the state of a sandbox", () => {
	assert.equal(stateOf(box([cond("Ready", "True")])), "ready");
	assert.equal(stateOf(box([])), "starting");
	assert.equal(stateOf(pending("Pod exists with phase: Pending")), "starting");
	assert.equal(stateOf(pending("Pod is Ready but has no podIPs yet; Service does not exist")), "starting");
	assert.equal(stateOf(pending("Pod exists with phase: Pending; container main: ContainerCreating")), "starting");
	assert.equal(stateOf(pending("Pod exists with phase: Pending; container main: ErrImagePull: no image")), "waiting");
	assert.equal(stateOf(pending("Pod is Running but not Ready; Service Exists; container main: CrashLoopBackOff: back-off")), "failed");
	assert.equal(stateOf(box([cond("Finished", "True", "PodFailed"), cond("Ready", "False", "PodFailed")])), "failed");
	assert.equal(stateOf(box([cond("Finished", "True", "PodSucceeded"), cond("Ready", "False", "PodSucceeded")])), "finished");
	assert.equal(stateOf(box([cond("Ready", "False", "SandboxExpired")])), "expired");
	assert.equal(stateOf(box([cond("Ready", "True"), cond("Asleep", "True", "Frozen")])), "asleep");
	assert.equal(stateOf(box([cond("Ready", "True")], { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })), "stopping");
});

test("whoever suspended it makes a difference", () => {
	assert.equal(stateOf(suspended({})), "suspended");
	assert.equal(stateOf(suspended({}, "False")), "stopping");
	assert.equal(stateOf(suspended({ "cay.dev/asleep-since": "2026-01-01T00:00:00Z" })), "asleep");
	assert.equal(stateOf(suspended({ "cay.dev/suspended-by": "budget/coders", "cay.dev/asleep-since": "2026-01-01T00:00:00Z" })), "suspended");
	assert.match(why(suspended({ "cay.dev/suspended-by": "budget/coders" })).sentence, /budget coders is used up/);
	assert.match(why(suspended({ "cay.dev/asleep-since": "x" })).sentence, /Nobody used it/);
	assert.match(why(suspended({})).sentence, /Somebody suspended it/);
	const kept = { ...suspended({}), metadata: { name: "x", labels: { "cay.dev/session": "work" } } };
	const work = (phase) => ({ metadata: { name: "work" }, status: { phase } });
	assert.match(why(kept, undefined, undefined, [work("Ended")]).sentence, /Its session has ended/);
	assert.match(why(kept, undefined, undefined, [work("Active")]).sentence, /Somebody suspended it/);
	assert.match(why(suspended({}), undefined, undefined, [work("Ended")]).sentence, /Somebody suspended it/);
});

test("why it is not Ready, from the Sandbox, its Pod, or the last warning", () => {
	assert.equal(why(box([cond("Ready", "True")])).sentence, "");
	const pull = why(pending("Pod exists with phase: Pending; container main: ErrImagePull: no image named x"));
	assert.equal(pull.sentence, "container main: ErrImagePull: no image named x");
	assert.match(pull.fix, /Pull, import or tag/);
	const crash = { metadata: { name: "x" }, status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } }, lastState: { terminated: { exitCode: 3, reason: "Error" } } }] } };
	assert.equal(why(pending("Pod is Running but not Ready"), crash).sentence, "container main: CrashLoopBackOff: it last ended with exit code 3");
	const creating = { metadata: { name: "x" }, status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "ContainerCreating" } } }] } };
	assert.equal(why(pending("Pod exists with phase: Pending"), creating, { metadata: { name: "e" }, reason: "FailedMount", message: "no such volume" }).sentence, "FailedMount: no such volume");
	assert.match(why(pending("Pod exists with phase: Pending"), creating).sentence, /being started/);
	const memory = box([cond("Finished", "True", "PodFailed", "Pod failed: OutOfmemory: it requests 9 bytes"), cond("Ready", "False", "PodFailed")]);
	assert.equal(why(memory).sentence, "OutOfmemory: it requests 9 bytes");
	assert.match(why(memory).fix, /less memory/);
	const ended = { metadata: { name: "x" }, status: { containerStatuses: [{ name: "main", state: { terminated: { exitCode: 3, reason: "Error" } } }] } };
	assert.equal(why(box([cond("Finished", "True", "PodFailed", "Pod failed"), cond("Ready", "False", "PodFailed")]), ended).sentence, "container main ended with exit code 3.");
});

test("the clock that ends first counts", () => {
	const s = box([cond("Ready", "True")], { spec: { shutdownTime: "2026-01-03T00:00:00Z", shutdownPolicy: "Retain" } });
	assert.deepEqual(clockOf(s), { at: "2026-01-03T00:00:00Z", then: "expires" });
	assert.deepEqual(clockOf(s, undefined, [{ metadata: { name: "s" }, status: { deleteAt: "2026-01-02T00:00:00Z" } }]), { at: "2026-01-02T00:00:00Z", then: "deleted" });
	const claim = { metadata: { name: "c" }, spec: { lifecycle: { shutdownTime: "2026-01-03T00:00:00Z", shutdownPolicy: "DeleteForeground" } } };
	assert.deepEqual(clockOf(s, claim), { at: "2026-01-03T00:00:00Z", then: "deleted" });
	assert.equal(clockOf(box([])), undefined);
	assert.equal(clockOf(box([], { spec: { shutdownTime: "nonsense" } })), undefined);
});

test("whose it is", () => {
	const session = { metadata: { name: "s" }, spec: { agent: "coder", user: "joe" } };
	assert.deepEqual(ownerOf(box([], { metadata: { labels: { "cay.dev/session": "s" } } }), undefined, [session]), { kind: "agent", name: "coder", of: "joe" });
	assert.deepEqual(ownerOf(box([]), { metadata: { name: "c", annotations: { "cay.dev/owner": "joe" } } }, []), { kind: "user", name: "joe" });
	assert.equal(ownerOf(box([]), undefined, []), undefined);
});
