// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { Thinner } from "./thinner.ts";

const bytes = (s: string) => new TextEncoder().encode(s);

test("marks that a text uses are kept", () => {
	const t = new Thinner();
	const s = "e\u0301 \u{1f469}\u200d\u{1f467} n\u0303o\u0308";
	assert.equal(t.take(bytes(s)), s);
});

test("thousands of marks become a few, however they are cut into pieces", () => {
	const data = bytes(`a${"\u0301".repeat(20_000)}b`);
	for (const size of [1, 2, 3, 7, 4096, data.length]) {
		const t = new Thinner();
		let out = "";
		for (let at = 0; at < data.length; at += size)
			out += t.take(data.subarray(at, at + size));
		assert.equal(out, `a${"\u0301".repeat(16)}b`, `pieces of ${size}`);
	}
});
