// SPDX-License-Identifier: Apache-2.0
// Names of files are bytes, of any kind but NUL and slash. They are spelled reversibly as text: what is not UTF-8 becomes
// \xHH, and a backslash two of them. Paths are spelled so too, and are absolute.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

function decode(bytes: Uint8Array): string | undefined {
	try {
		return decoder.decode(bytes);
	} catch {
		return undefined;
	}
}

export function spell(bytes: Uint8Array): string {
	const whole = decode(bytes);
	if (whole !== undefined)
		return whole.replaceAll("\\", "\\\\");
	let out = "";
	for (let at = 0; at < bytes.length; ) {
		const lead = bytes[at]!;
		const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
		const piece = decode(bytes.subarray(at, at + length));
		if (piece === undefined || at + length > bytes.length) {
			out += `\\x${lead.toString(16).padStart(2, "0")}`;
			at++;
		} else {
			out += piece === "\\" ? "\\\\" : piece;
			at += length;
		}
	}
	return out;
}

export function unspell(text: string): Uint8Array {
	const out: number[] = [];
	for (const [piece, , hex] of text.matchAll(/\\(\\|x([0-9a-f]{2}))|[^\\]+|\\/g)) {
		if (hex !== undefined)
			out.push(parseInt(hex, 16));
		else if (piece === "\\\\")
			out.push(0x5c);
		else
			for (const b of encoder.encode(piece))
				out.push(b);
	}
	return Uint8Array.from(out.filter((b) => b !== 0));
}

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** For the reader's eyes: everything that cannot be seen, or turns text around, is shown by its number. */
export function visible(spelled: string): string {
	return spelled.replace(CONTROL, (c) => (c === "\n" ? "⏎" : `\\u{${c.codePointAt(0)!.toString(16)}}`));
}

/** A word for printf %b, which a script turns back into the bytes. The dot at its end keeps newlines before it. */
export function word(spelled: string): string {
	let out = "";
	for (const b of unspell(spelled)) {
		const c = String.fromCharCode(b);
		out += /[A-Za-z0-9_.\/,:=@+-]/.test(c) ? c : `\\0${b.toString(8).padStart(3, "0")}`;
	}
	return `${out}.`;
}

/** An absolute path without empty parts, "." and "..". */
export function clean(path: string): string {
	const parts: string[] = [];
	for (const part of path.split("/"))
		if (part === "..")
			parts.pop();
		else if (part && part !== ".")
			parts.push(part);
	return `/${parts.join("/")}`;
}

export function join(folder: string, name: string): string {
	return `${folder === "/" ? "" : folder}/${name}`;
}

export function parent(path: string): string {
	return path.slice(0, path.lastIndexOf("/")) || "/";
}

export function base(path: string): string {
	return path.slice(path.lastIndexOf("/") + 1);
}

/** What is wrong with a name that somebody typed. */
export function badName(name: string): boolean {
	return !name || name === "." || name === ".." || /[\/\u0000]/.test(name) || encoder.encode(name).length > 255;
}

/** For a file of the reader's own machine. */
export function localName(spelled: string): string {
	return visible(spelled).replace(/[\\\/:*?"<>|{}]/g, "_").slice(0, 120) || "download";
}
