// SPDX-License-Identifier: Apache-2.0
// Texts of others, taken apart so that what is shown can stand for one text only.

export interface Piece {
	/** plain: ASCII that shows itself; escape: written as in JSON, because it would not be seen, or would change how the rest is seen;
	 * foreign: a character that shows itself, and may look like another. */
	kind: "plain" | "escape" | "foreign";
	text: string;
	point?: number;
}

const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f" };
// Control and format characters (bidi marks among them), blanks other than the common one, what is drawn over its neighbour, and
// what is drawn as nothing.
const UNSEEN = /[\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800]/u;
// Of these, what could deceive in a title or a name, where letters of every language are welcome.
const MISLEADING = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u;
const ASCII = /^[\x21-\x7e]$/;

function escape(c: string): string {
	const n = c.codePointAt(0)!;
	return SHORT[c] ?? (n > 0xffff ? `\\u{${n.toString(16)}}` : `\\u${n.toString(16).padStart(4, "0")}`);
}

/** A single blank between other characters is left as it is; all others are escaped. quoted: for a text between quotation marks. */
export function pieces(s: string, quoted: boolean): Piece[] {
	const all: Piece[] = [];
	const add = (kind: Piece["kind"], text: string, point?: number) => {
		const last = all[all.length - 1];
		if (last && last.kind === kind && kind !== "foreign" && last.text !== SHORT["\n"] && text !== SHORT["\n"])
			last.text += text;
		else
			all.push(point === undefined ? { kind, text } : { kind, text, point });
	};
	const cs = [...s];
	cs.forEach((c, i) => {
		const alone = i > 0 && i < cs.length - 1 && cs[i - 1] !== " " && cs[i + 1] !== " ";
		if (c === " " && (alone || !quoted))
			add("plain", c);
		else if (quoted && (c === "\\" || c === '"'))
			add("escape", `\\${c}`);
		else if (ASCII.test(c))
			add("plain", c);
		else if (UNSEEN.test(c))
			add("escape", escape(c));
		else
			add("foreign", c, c.codePointAt(0)!);
	});
	return all;
}

/** Characters that may be taken for others, each once: "р U+0440". */
export function foreign(texts: string[]): string[] {
	const found = new Map<number, string>();
	for (const t of texts)
		for (const p of pieces(t, true))
			if (p.kind === "foreign")
				found.set(p.point!, p.text);
	return [...found].map(([n, c]) => `${c} U+${n.toString(16).toUpperCase().padStart(4, "0")}`);
}

/** For titles and names of people: only what would mislead is escaped. */
export function gentle(s: string): Piece[] {
	return s
		.split(/([^\P{C}\u200c\u200d]|[\p{Zl}\p{Zp}])/u)
		.filter(Boolean)
		.map((x) => (MISLEADING.test(x) ? { kind: "escape", text: escape(x) } : { kind: "plain", text: x }));
}

/** On one line, for lists: cut, and escaped like the whole. */
export function brief(s: string, max = 120): string {
	const text = pieces(s.slice(0, max), false)
		.map((p) => p.text)
		.join("");
	return s.length > max ? `${text}…` : text;
}

export function words(argv: string[], max = 120): string {
	const parts: string[] = [];
	let size = 0;
	for (const w of argv) {
		parts.push(/^[\w@%+=:,./-]+$/.test(w) ? w : `"${pieces(w.slice(0, max), true).map((p) => p.text).join("")}${w.length > max ? "…" : ""}"`);
		size += w.length + 1;
		if (size > max)
			return `${parts.join(" ")} …`;
	}
	return parts.join(" ");
}
