// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { amount, amountText, bytes, figure, gibHours, milliseconds, parseAmount } from "./amounts.ts";

test("quantities are exact in billionths", () => {
	for (const [text, nano] of [
		["0", 0n],
		["600", 600_000_000_000n],
		["1.5", 1_500_000_000n],
		[".5", 500_000_000n],
		["100m", 100_000_000n],
		["95963620n", 95_963_620n],
		["1Ki", 1_024_000_000_000n],
		["2k", 2_000_000_000_000n],
		["1e3", 1_000_000_000_000n],
		["12E", 12_000_000_000_000_000_000_000_000_000n],
		["25e-1", 2_500_000_000n],
		["-3", -3_000_000_000n],
		["0.0000000001", 1n], // rounded up, as Kubernetes does
	])
		assert.equal(parseAmount(text as string), nano, text as string);
	assert.equal(amount("512Mi"), 536_870_912);
	assert.equal(amount("250m"), 0.25);
	assert.equal(amount("3381u"), 0.003381);
	assert.equal(amount("x"), 0);
	assert.ok(Number.isNaN(amount(undefined, NaN)));
});

test("what is no quantity is none", () => {
	for (const text of ["", "x", "1q", "1 k", "--1", ".", "1e999", "0x10", "1Kib", undefined])
		assert.equal(parseAmount(text), undefined, String(text));
});

test("sums are written as the server writes them", () => {
	assert.equal(amountText(43_125_000n), "0.043125");
	assert.equal(amountText(600_000_000_000n), "600");
	assert.equal(amountText(parseAmount("0.000017969")! * 3n), "0.000053907");
});

test("numbers as people read them", () => {
	assert.deepEqual([0, 0.0033812, 12.34, 99.96, 100.4, 1234.5].map(figure), ["0", "0.00338", "12.3", "100", "100", "1,235"]);
	assert.deepEqual([0, 1023, 1536, 536_870_912].map(bytes), ["0 B", "1,023 B", "1.5 KiB", "512 MiB"]);
	assert.equal(gibHours(0.25), "0.25 GiB h");
	assert.deepEqual([figure, bytes, gibHours].map((f) => f(NaN)), ["", "", ""]);
	assert.deepEqual([4.2, 1500].map(milliseconds), ["4 ms", "1.50 s"]);
});
