// SPDX-License-Identifier: Apache-2.0
// Lines of a log as they are shown: colours are kept, every other control sequence is taken out or made visible.
import { text } from "../../text.ts";

export const LINE_MAX = 16384; // characters that are shown of one line

export interface Segment {
	text: string;
	class: string;
}

export interface Line {
	/** With nine digits of a second, so that they compare as text; "" for a remark of the page. */
	at: string;
	raw: string;
	parsed?: Segment[];
	plain?: string;
}

/** The time that the server put before the line, and the line. */
export function splitStamp(line: string): Line {
	const m = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?/.exec(line);
	if (!m)
		return { at: "", raw: line };
	const whole = m[3] === "Z" ? m[1]! : new Date(`${m[1]}${m[3]}`).toISOString().slice(0, 19);
	return { at: `${whole}.${(m[2] ?? "").padEnd(9, "0")}Z`, raw: line.slice(m[0].length) };
}

// What is not text: sequences with a letter at the end, strings for a terminal, two-letter sequences, control characters,
// and marks that change the direction of what is around them or are not seen.
const ODD =
	// eslint-disable-next-line no-control-regex
	/(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]|([\x00-\x1f\x7f-\x9f])|([\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff])/g;

interface Style {
	colour: number; // 0 to 7; -1: as the page
	bold: boolean;
	dim: boolean;
	italic: boolean;
	under: boolean;
}

const PLAIN: Style = { colour: -1, bold: false, dim: false, italic: false, under: false };

function restyle(s: Style, codes: string): Style {
	const next = { ...s };
	const all = codes.split(/[;:]/).map((c) => Number(c || 0));
	for (let i = 0; i < all.length; i++) {
		const c = all[i]!;
		if (c === 0)
			Object.assign(next, PLAIN);
		else if (c === 1)
			next.bold = true;
		else if (c === 2)
			next.dim = true;
		else if (c === 3)
			next.italic = true;
		else if (c === 4)
			next.under = true;
		else if (c === 22)
			next.bold = next.dim = false;
		else if (c === 23)
			next.italic = false;
		else if (c === 24)
			next.under = false;
		else if (c >= 30 && c <= 37)
			next.colour = c - 30;
		else if (c >= 90 && c <= 97)
			next.colour = c - 90;
		else if (c === 39)
			next.colour = -1;
		else if (c === 38 || c === 48) {
			// 38;5;N and 38;2;R;G;B: the first sixteen have names, of the others the text is enough
			if (c === 38 && all[i + 1] === 5)
				next.colour = (all[i + 2] ?? 16) < 16 ? all[i + 2]! % 8 : -1;
			i += all[i + 1] === 5 ? 2 : all[i + 1] === 2 ? 4 : 0;
		}
	}
	return next;
}

function name(c: string): string {
	return `<U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;
}

function classOf(s: Style): string {
	return [s.colour >= 0 && `ansi-${s.colour}`, s.bold && "ansi-bold", s.dim && "ansi-dim", s.italic && "ansi-italic", s.under && "ansi-under"].filter(Boolean).join(" ");
}

export function segments(raw: string): Segment[] {
	const cut = raw.length > LINE_MAX;
	const line = (cut ? raw.slice(0, LINE_MAX) : raw).replace(/\r$/, "");
	const out: Segment[] = [];
	let style = PLAIN;
	let column = 0;
	const add = (s: string, cls = classOf(style)) => {
		if (!s)
			return;
		column += s.length;
		const last = out[out.length - 1];
		if (last?.class === cls)
			last.text += s;
		else
			out.push({ text: s, class: cls });
	};
	let at = 0;
	for (const m of line.matchAll(ODD)) {
		add(line.slice(at, m.index));
		at = m.index + m[0].length;
		if (m[2] === "m" && !/[<=>?]/.test(m[1]!))
			style = restyle(style, m[1]!);
		else if (m[3] === "\t")
			add(" ".repeat(8 - (column % 8)));
		else if (m[3] !== undefined) {
			const code = m[3].charCodeAt(0);
			add(code < 128 ? `^${String.fromCharCode(code ^ 64)}` : name(m[3]), "ansi-odd");
		} else if (m[4] !== undefined)
			add(name(m[4]), "ansi-odd");
	}
	add(line.slice(at));
	if (cut)
		add(text.sandbox.logs.cutLine, "ansi-odd");
	return out;
}

export function parsed(l: Line): Segment[] {
	return (l.parsed ??= l.at ? segments(l.raw) : [{ text: l.raw, class: "ansi-dim" }]);
}

export function plainText(l: Line): string {
	return (l.plain ??= parsed(l)
		.map((s) => s.text)
		.join(""));
}

// Characters that take two columns, roughly; combining ones take none.
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\ud83c-\ud83e][\udc00-\udfff]/;

/** Where a text is broken so that each part has at most that many columns: the ends of the parts. */
export function breaks(s: string, columns: number): number[] {
	if (s.length <= columns && !WIDE.test(s))
		return [s.length];
	const ends: number[] = [];
	let used = 0;
	for (let i = 0; i < s.length; ) {
		const long = s.charCodeAt(i) >= 0xd800 && s.charCodeAt(i) < 0xdc00 ? 2 : 1;
		const w = s.charCodeAt(i) < 0x1100 ? 1 : WIDE.test(s.slice(i, i + long)) ? 2 : 1;
		if (used + w > columns && used > 0) {
			ends.push(i);
			used = 0;
		}
		used += w;
		i += long;
	}
	ends.push(s.length);
	return ends;
}

/** The segments between two places of the text. */
export function between(all: Segment[], from: number, to: number): Segment[] {
	const out: Segment[] = [];
	let at = 0;
	for (const s of all) {
		const a = Math.max(from, at) - at;
		const b = Math.min(to, at + s.text.length) - at;
		if (a < b)
			out.push({ text: s.text.slice(a, b), class: s.class });
		at += s.text.length;
	}
	return out;
}
