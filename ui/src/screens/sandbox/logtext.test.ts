// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { lineReader, Seen } from "./logfeed.ts";
import { between, breaks, LINE_MAX, segments, splitStamp } from "./logtext.ts";
import { badName, makeUpName } from "./make.ts";

const plain = (s) => segments(s).map((x) => x.text).join("");

test("colours stay, and nothing else that a terminal would obey", () => {
	assert.deepEqual(segments("a\x1b[31mred\x1b[0m b"), [
		{ text: "a", class: "" },
		{ text: "red", class: "ansi-1" },
		{ text: " b", class: "" },
	]);
	assert.deepEqual(segments("\x1b[1;38;5;2mx")[0], { text: "x", class: "ansi-2 ansi-bold" });
	assert.deepEqual(segments("\x1b[38;2;1;2;3;4mx")[0], { text: "x", class: "ansi-under" });
	assert.equal(plain("a\x1b[2J\x1b[10;3Hb\x1b]0;title\x07c\x1b]8;;http://x\x1b\\d\x1bPq#0\x1b\\e\x1b7f\x1b(Bg"), "abcdefg");
	assert.equal(plain("never ends \x1b]0;abc"), "never ends ");
	assert.equal(plain("\x1b[?1049hx\x1b[>4;2my"), "xy");
	assert.equal(plain("a\x00b\x07c\x7f"), "a^@b^Gc^?");
	assert.equal(plain("a\x85b"), "a<U+0085>b");
	assert.equal(plain("user\u202etxt.exe"), "user<U+202E>txt.exe");
	assert.equal(plain("<b>&amp;</b>\r"), "<b>&amp;</b>");
	assert.equal(plain("a\tb"), "a       b");
	assert.equal(plain("x".repeat(LINE_MAX + 5)).startsWith("x".repeat(LINE_MAX)), true);
	assert.ok(plain("x".repeat(LINE_MAX * 4)).length < LINE_MAX + 50);
	for (let c = 0; c < 0x100; c++)
		assert.doesNotMatch(plain(`a${String.fromCharCode(c)}b`), /[\x00-\x1f\x7f-\x9f]/);
});

test("lines are broken by columns", () => {
	assert.deepEqual(breaks("", 10), [0]);
	assert.deepEqual(breaks("abcdefghij", 10), [10]);
	assert.deepEqual(breaks("abcdefghijk", 10), [10, 11]);
	assert.deepEqual(breaks("漢字漢字", 5), [2, 4]);
	assert.deepEqual(breaks("😀😀😀", 4), [4, 6]);
	assert.deepEqual(between([{ text: "abc", class: "x" }, { text: "def", class: "y" }], 2, 4), [
		{ text: "c", class: "x" },
		{ text: "d", class: "y" },
	]);
});

test("times are compared with all their digits", () => {
	assert.deepEqual(splitStamp("2026-01-01T00:00:00.1Z hello"), { at: "2026-01-01T00:00:00.100000000Z", raw: "hello" });
	assert.deepEqual(splitStamp("2026-01-01T01:00:00+01:00 x"), { at: "2026-01-01T00:00:00.000000000Z", raw: "x" });
	assert.deepEqual(splitStamp("no time"), { at: "", raw: "no time" });
});

test("a line that is read again is not shown again", () => {
	const s = new Seen();
	const at = (n) => `2026-01-01T00:00:0${n}.000000000Z`;
	assert.equal(s.since, "");
	for (const n of [1, 2, 2])
		assert.ok(s.take(at(n)));
	assert.equal(s.since, "2026-01-01T00:00:02Z");
	s.again();
	assert.deepEqual([1, 2, 2, 2, 3].map((n) => s.take(at(n))), [false, false, false, true, true]);
	s.again();
	assert.deepEqual([3, 3, 4].map((n) => s.take(at(n))), [false, true, true]);
});

test("a line without an end is cut once", () => {
	const got = [];
	const take = lineReader((l) => got.push(l.length));
	take("ab");
	take("c\nde\n");
	for (let i = 0; i < 40; i++)
		take("x".repeat(8192));
	take("x\nend\n");
	assert.deepEqual(got, [3, 2, 73728, 3]);
});

test("names", () => {
	assert.equal(badName("good-1"), "");
	assert.match(badName("Bad"), /“B”/);
	assert.match(badName("a b"), /“␣”/);
	assert.match(badName("-a"), /begin/);
	assert.match(badName("a-"), /end/);
	assert.match(badName("a".repeat(64)), /64/);
	assert.equal(badName(makeUpName("x".repeat(300))), "");
	assert.equal(badName(makeUpName("a.b")), "");
});
