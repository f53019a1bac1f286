// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { lastChange, startSeconds, versions } from "./facts.ts";
import { yaml } from "./yaml.ts";

const template = { metadata: { name: "t", namespace: "default", creationTimestamp: "2026-11-18T00:00:00Z", managedFields: [{ manager: "kubectl", time: "2026-11-18T00:00:00Z" }, { manager: "alice", time: "2026-11-18T10:00:00Z" }] } };
const made = (name: string, at: string, hash?: string) => ({ metadata: { name, creationTimestamp: at, labels: hash ? { "agents.x-k8s.io/sandbox-template-hash": hash } : {} } });

test("which sandboxes are of an older version", () => {
	assert.deepEqual(lastChange(template), { at: "2026-11-18T10:00:00Z", by: "alice" });
	const rows = versions(template, [made("a", "2026-11-18T09:00:00Z", "old"), made("b", "2026-11-18T11:00:00Z", "new"), made("c", "2026-11-18T09:30:00Z"), made("d", "2026-11-18T12:00:00Z")]);
	assert.deepEqual(Object.fromEntries(rows.map((v) => [v.names[0], v.state])), { a: "older", b: "current", c: "before", d: "since" });
	assert.equal(versions(template, [made("a", "2026-11-18T09:00:00Z", "old")])[0]!.state, "before");
});

test("a start is not measured where the sandbox slept", () => {
	const box = (ready: string, slept = "2026-11-18T00:00:00Z") => ({
		metadata: { name: "s", creationTimestamp: "2026-11-18T00:00:00Z" },
		status: { conditions: [{ type: "Ready", status: "True", lastTransitionTime: ready }, { type: "Suspended", status: "False", lastTransitionTime: slept }] },
	});
	assert.equal(startSeconds(box("2026-11-18T00:00:02Z") as never), 2);
	assert.equal(startSeconds(box("2026-11-18T02:00:00Z", "2026-11-18T02:00:00Z") as never), undefined);
});

test("YAML quotes what could be taken for something else", () => {
	assert.equal(yaml({ a: "yes", b: "1", c: "plain text", d: "a: b", e: "# x", f: "", g: [], h: {}, i: null, j: 3, k: true }), 'a: "yes"\nb: "1"\nc: plain text\nd: "a: b"\ne: "# x"\nf: ""\ng: []\nh: {}\ni: null\nj: 3\nk: true');
	assert.equal(yaml({ l: [{ x: 1, w: ["a", ["b"]] }, "z"] }), "l:\n- x: 1\n  w:\n  - a\n  - - b\n- z");
	assert.equal(yaml({ m: "a\nb", o: "\u202e" }), 'm: "a\\nb"\no: "\\u202e"');
});
