// SPDX-License-Identifier: Apache-2.0
// What a file's bytes are, as far as they can be shown. The name says nothing: only the bytes are believed.

export type Content =
	| { kind: "text"; text: string; crlf: boolean; mixed: boolean; bidi: number; long: boolean } // long: of many lines, the first
	| { kind: "image"; type: string }
	| { kind: "binary" };

const IMAGES: [string, number[], number[]?][] = [
	["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
	["image/jpeg", [0xff, 0xd8, 0xff]],
	["image/gif", [0x47, 0x49, 0x46, 0x38]],
	["image/webp", [0x52, 0x49, 0x46, 0x46], [0x57, 0x45, 0x42, 0x50]],
];

export const MAX_LINES = 20_000; // more of them stop the editor of a browser

/** UTF-8 without NUL. A character that was cut off at the end is left out. */
function textOf(bytes: Uint8Array, cut: boolean): string | undefined {
	if (bytes.includes(0))
		return undefined;
	const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
	try {
		return decoder.decode(bytes, { stream: cut });
	} catch {
		return undefined;
	}
}

export function contentOf(bytes: Uint8Array, cut: boolean): Content {
	for (const [type, magic, later] of IMAGES)
		if (magic.every((b, i) => bytes[i] === b) && (later ?? []).every((b, i) => bytes[i + 8] === b))
			return { kind: "image", type };
	const text = textOf(bytes, cut);
	if (text === undefined)
		return { kind: "binary" };
	const returns = text.match(/\r/g)?.length ?? 0;
	const pairs = text.match(/\r\n/g)?.length ?? 0;
	const lines = text.match(/\n/g)?.length ?? 0;
	return { kind: "text", text: lines > MAX_LINES ? text.split("\n", MAX_LINES).join("\n") : text, long: lines > MAX_LINES, crlf: pairs > 0, mixed: returns !== pairs || (pairs > 0 && pairs !== lines), bidi: text.match(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g)?.length ?? 0 };
}

/** An editor of a browser knows one line ending. */
export function bytesOf(edited: string, crlf: boolean): Uint8Array {
	return new TextEncoder().encode(crlf ? edited.replaceAll("\n", "\r\n") : edited);
}

export function hex(bytes: Uint8Array): string {
	const lines: string[] = [];
	for (let at = 0; at < bytes.length; at += 16) {
		const row = [...bytes.subarray(at, at + 16)];
		const codes = row.map((b) => b.toString(16).padStart(2, "0")).join(" ");
		lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.padEnd(47)}  ${row.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : ".")).join("")}`);
	}
	return lines.join("\n");
}

export function modeText(mode: number): string {
	return mode.toString(8).padStart(4, "0");
}
