// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { dryMs, historyOf, record } from "./history.ts";

const at = (state: string, ready: number, desired = 5) => ({
	state,
	objects: new Map([["default/p", { metadata: { name: "p", namespace: "default", uid: "u" }, spec: { replicas: desired }, status: { readyReplicas: ready } }]]),
});

test("dry times begin and end with what was seen, and a lost server is a gap", () => {
	const got = new Map([["default/p", 2]]);
	record("default", at("live", 5) as never, got, 1000);
	record("default", at("live", 0) as never, got, 2000);
	assert.equal(dryMs(historyOf("u"), 2500), 500);
	record("default", at("live", 3) as never, got, 3000);
	assert.equal(dryMs(historyOf("u"), 9000), 1000);
	record("default", at("live", 0) as never, got, 4000);
	record("default", at("lost", 0) as never, got, 4500);
	assert.equal(dryMs(historyOf("u"), 9000), 1500);
	record("default", at("live", 0, 0) as never, undefined, 5000);
	assert.equal(dryMs(historyOf("u"), 9000), 1500); // empty by choice
	const { ready, claimed } = historyOf("u");
	assert.deepEqual(ready.map(([t]) => t), [1000, 2000, 3000, 4000, 4500, 5000]);
	assert.ok(Number.isNaN(ready[4]![1]));
	assert.equal(claimed[0]![1], 2);
});
