// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { between, latest, percentiles, remember, rememberRecent, tookOf } from "./claims.ts";

const claim = (name: string, from: string, to: string) => ({
	metadata: { name, namespace: "default", annotations: { "agents.x-k8s.io/controller-first-observed-at": from, "agents.x-k8s.io/claim-first-ready-at": to, "agents.x-k8s.io/sandbox-name": "agents-x" } },
	spec: { warmPoolRef: { name: "agents" } },
});

test("a claim's time is known to the microsecond", () => {
	assert.equal(between("2026-11-18T01:40:49.605709000Z", "2026-11-18T01:40:49.605808000Z"), 0.099);
	assert.equal(between("2026-11-18T01:40:49.999999999Z", "2026-11-18T01:40:51.000000000Z")!.toFixed(6), "1000.000001");
	assert.equal(between("2026-11-18T01:40:49Z", "2026-11-18T02:40:49+01:00"), 0);
	assert.equal(between(undefined, "2026-11-18T01:40:49Z"), undefined);
	assert.equal(between("yesterday", "2026-11-18T01:40:49Z"), undefined);
	assert.equal(tookOf(claim("a", "2026-11-18T01:40:50Z", "2026-11-18T01:40:49Z")), undefined);
});

test("the same claim from both sources is one", () => {
	rememberRecent([{ namespace: "default", name: "a", ms: 0.1, warm: true, at: "2026-11-18T01:40:49.606100Z" }]);
	remember([claim("a", "2026-11-18T01:40:49.605709000Z", "2026-11-18T01:40:49.605808000Z")]);
	rememberRecent([{ namespace: "default", name: "a", ms: 0.1, warm: true, at: "2026-11-18T01:40:49.606100Z" }]);
	assert.deepEqual(latest("default", 10).map((t) => [t.name, t.pool, t.ms]), [["a", "agents", 0.099]]);
	assert.equal(latest("other", 10).length, 0);
});

test("percentiles are values that were measured", () => {
	const p = percentiles(Array.from({ length: 100 }, (_, i) => 100 - i));
	assert.deepEqual(p, { p50: 50, p95: 95, p99: 99 });
	assert.deepEqual(percentiles([7]), { p50: 7, p95: 7, p99: 7 });
	assert.ok(Number.isNaN(percentiles([]).p50));
});
