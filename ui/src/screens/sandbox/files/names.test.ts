// SPDX-License-Identifier: Apache-2.0
// npx esbuild --bundle --platform=node --format=cjs src/screens/sandbox/files/names.test.ts | node -
// @ts-nocheck: the types of node are no dependency of the page
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";
import { cksum } from "./cksum.ts";
import { badName, clean, join, parent, spell, unspell, visible, word } from "./names.ts";

const NASTY = ["a", "\n", "a\n\n", " a ", "-rf", "\\", "\\x41", "\\0101", "'\"`$(x)`", "<b>", "日本語", "🐋", "\u202e", "%s", "*"].map((s) => new TextEncoder().encode(s));
for (const bytes of [[0xff], [0xc3], [0xc3, 0x28], [0xf0, 0x9f], [0xed, 0xa0, 0x80], [0xef, 0xbb, 0xbf, 0x61], [0x5c, 0xff]])
	NASTY.push(Uint8Array.from(bytes));
NASTY.push(Uint8Array.from({ length: 255 }, (_, i) => (i + 1 === 0x2f ? 0x30 : i + 1)));

test("every name survives being spelled", () => {
	for (const n of NASTY)
		assert.deepEqual(unspell(spell(n)), n);
});

test("a shell gets every name as it is", () => {
	for (const n of NASTY) {
		const out = execFileSync("sh", ["-c", 'p=$(printf %b "$1"); p=${p%.}; printf %s "$p"', "sh", word(spell(n))], { env: { PATH: process.env.PATH, LC_ALL: "C" } });
		assert.deepEqual(new Uint8Array(out), n);
	}
});

test("nothing invisible is left", () => {
	assert.equal(visible("a\u202eb\nc\u001b"), "a\\u{202e}b⏎c\\u{1b}");
});

test("paths", () => {
	assert.equal(clean("/a/../../b//./c/"), "/b/c");
	assert.equal(join("/", "a"), "/a");
	assert.equal(parent("/a"), "/");
	assert.ok(badName("a/b") && badName("..") && badName("") && badName("é".repeat(128)) && !badName("..."));
});

test("cksum is that of POSIX", () => {
	for (const s of ["", "a", "hello\n", "x".repeat(70000)])
		assert.equal(cksum(new TextEncoder().encode(s)), execFileSync("cksum", { input: s }).toString().trim());
});
