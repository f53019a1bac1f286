// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { failure } from "./http.ts";

const answer = (body: BodyInit | null, status = 400) => new Response(body, { status });

test("a Status says what is wrong", async () => {
	const e = await failure(answer(JSON.stringify({ kind: "Status", message: "no", reason: "Invalid", details: { causes: [{ field: "spec.x", message: "is odd" }] } }), 422));
	assert.deepEqual([e.code, e.message, e.reason, e.causes], [422, "no", "Invalid", [{ field: "spec.x", message: "is odd" }]]);
	assert.match((await failure(answer(null, 503))).message, /^503/);
});

test("an answer without an end is read no further than it helps", async () => {
	let sent = 0;
	let over = false;
	const endless = new ReadableStream<Uint8Array>({
		pull: (c) => c.enqueue(new Uint8Array((sent += 16384) && 16384).fill(0x41)),
		cancel: () => void (over = true),
	});
	const e = await failure(answer(endless, 401));
	assert.equal(e.message.length, 500);
	assert.ok(over && sent <= 128 * 1024, `${sent} bytes were read`);
});

test("what has not the form of a Status is not taken for one", async () => {
	for (const body of ['{"message": {"toString": 1}, "reason": [], "details": {"causes": 7}}', '{"message": 5, "details": null}', '{"details": {"causes": [null, {"field": {}}]}}', "{", "[]"]) {
		const e = await failure(answer(body));
		assert.equal(typeof e.message, "string");
		assert.equal(typeof e.reason, "string");
		assert.ok(e.causes.every((c) => typeof c.field === "string" && typeof c.message === "string"), body);
	}
	assert.ok((await failure(answer(JSON.stringify({ message: "x".repeat(50_000) })))).message.length <= 2001);
});
