// SPDX-License-Identifier: Apache-2.0
// What is done with files, by small scripts for any POSIX sh with the tools of GNU, busybox or toybox. Names are words of
// the command, encoded for printf %b; none is ever part of a script.
import { execPath, type ExecSpec, run } from "../../../api/channels.ts";
import { ApiError } from "../../../api/http.ts";
import { text } from "../../../text.ts";
import { why } from "../why.ts";
import { cksum } from "./cksum.ts";
import { spell, word } from "./names.ts";

export interface Where {
	ns: string;
	pod: string;
	container: string;
}

export interface Entry {
	name: string; // spelled
	type: "folder" | "file" | "link" | "other";
	mode: number;
	size: number;
	time: number; // seconds
}

export type Found =
	| { kind: "folder"; entries: Entry[]; all: number; partial: string }
	| { kind: "file"; size: number; mode: number; time: number; bytes: Uint8Array; cut: boolean }
	| { kind: "other" | "missing" | "dangling" };

export const MAX_ENTRIES = 5000;
export const MAX_TEXT = 1024 * 1024;

const NAMES = `LC_ALL=C; export LC_ALL; p=$(printf %b "$1"); p=\${p%.}; `;

/** Exit codes of the scripts, beside those of what they run. */
const CHANGED = 75;
const EXISTS = 76;
const TORN = 77;
const FOLDER = 78;

/** The server did what it was asked, and the script could not. */
export class FileError extends ApiError {
	constructor(
		message: string,
		private readonly hint: string,
		readonly what: "" | "changed" | "exists" = "",
	) {
		super(200, message);
	}

	override get advice(): string {
		return this.hint;
	}
}

/** What a script complained of, and what can be done about it. */
export function failure(code: number | undefined, err: string, message: string): FileError {
	if (code === CHANGED)
		return new FileError(text.files.changed, "", "changed");
	if (code === EXISTS)
		return new FileError(text.files.exists, "", "exists");
	if (code === TORN)
		return new FileError(text.files.torn, text.files.tornHint);
	if (code === FOLDER)
		return new FileError(text.files.isFolder, "");
	const said = (err.trim() || message).replace(/[\u0000-\u0008\u000b-\u001f\u007f]+/g, " ").slice(0, 500);
	const advice = text.files.advice.find(([pattern]) => pattern.test(said))?.[1] ?? "";
	return new FileError(said || text.files.failed(code), advice);
}

export function spec(at: Where, script: string, words: string[]): ExecSpec {
	return { ...at, command: ["sh", "-c", NAMES + script, "sh", ...words] };
}

async function sh(at: Where, script: string, words: string[], input?: Uint8Array): Promise<{ out: Uint8Array; code: number | undefined; err: string; cut: boolean }> {
	const s = spec(at, script, words);
	let r;
	try {
		r = await run(s, input);
	} catch (e) {
		await why(execPath(s));
		throw e;
	}
	if (r.code === undefined && !r.cut)
		throw r.message === text.errors.streamLost ? new ApiError(0, r.message) : failure(undefined, r.err, r.message);
	return r;
}

async function done(at: Where, script: string, words: string[]): Promise<void> {
	const r = await sh(at, script, words);
	if (r.code)
		throw failure(r.code, r.err, "");
}

const LOOK = `
if [ -d "$p" ]; then
	cd "$p" || exit 1
	echo folder
	exec find . -mindepth 1 -maxdepth 1 -exec stat -c '%f %s %Y %n/' {} +
elif [ -f "$p" ]; then
	[ -r "$p" ] || { echo "$p: Permission denied" >&2; exit 1; }
	echo file
	stat -L -c '%f %s %Y' "$p" && exec head -c "$2" <"$p"
elif [ -e "$p" ]; then echo other
elif [ -L "$p" ]; then echo dangling
else
	d=\${p%/*}
	[ -z "$d" ] || [ -x "$d" ] || [ ! -d "$d" ] || { echo "$d: Permission denied" >&2; exit 1; }
	echo missing
fi`;

const TYPES: Record<number, Entry["type"]> = { 4: "folder", 8: "file", 10: "link" };

/** Entries as LOOK prints them. Whatever a name holds, a slash and a newline end it, because it holds no slash. */
export function entriesOf(out: Uint8Array): { entries: Entry[]; all: number } {
	const entries: Entry[] = [];
	const ascii = new TextDecoder("latin1");
	let all = 0;
	for (let at = 0; at < out.length; ) {
		const begin = out.indexOf(0x2f, at) + 1; // after "./"
		const end = begin ? out.indexOf(0x2f, begin) : -1;
		if (end < 0)
			break;
		if (++all <= MAX_ENTRIES) {
			const [mode = "", size, time] = ascii.decode(out.subarray(at, begin)).split(" ");
			const m = parseInt(mode, 16);
			entries.push({ name: spell(out.subarray(begin, end)), type: TYPES[m >> 12] ?? "other", mode: m & 0o7777, size: Number(size), time: Number(time) });
		}
		at = end + 2;
	}
	return { entries, all };
}

export async function look(at: Where, path: string): Promise<Found> {
	const r = await sh(at, LOOK, [word(path), String(MAX_TEXT + 1)]);
	const line = r.out.indexOf(0x0a);
	const kind = new TextDecoder().decode(r.out.subarray(0, Math.max(0, line)));
	const rest = r.out.subarray(line + 1);
	if (kind === "folder" && (!r.code || rest.length))
		return { kind, ...entriesOf(rest), partial: r.code || r.cut ? failure(r.code, r.err, "").message : "" };
	if (r.code)
		throw failure(r.code, r.err, "");
	if (kind === "file") {
		const end = rest.indexOf(0x0a);
		const [mode = "", size, time] = new TextDecoder().decode(rest.subarray(0, end)).split(" ");
		const bytes = rest.subarray(end + 1);
		return { kind, mode: parseInt(mode, 16) & 0o7777, size: Math.max(Number(size), bytes.length), time: Number(time), bytes: bytes.subarray(0, MAX_TEXT), cut: bytes.length > MAX_TEXT };
	}
	return { kind: kind === "other" || kind === "dangling" ? kind : "missing" };
}

/** Where a shell begins. */
export async function home(at: Where): Promise<string> {
	const r = await sh(at, `pwd`, [word("/")]);
	return spell(r.out.subarray(0, Math.max(0, r.out.length - 1))) || "/";
}

export const makeFolder = (at: Where, path: string) => done(at, `[ ! -e "$p" ] && [ ! -L "$p" ] || exit ${EXISTS}; exec mkdir "$p"`, [word(path)]);
export const makeFolders = (at: Where, path: string) => done(at, `exec mkdir -p "$p"`, [word(path)]);
export const remove = (at: Where, path: string) => done(at, `exec rm -rf "$p"`, [word(path)]);
export const rename = (at: Where, from: string, to: string) =>
	done(at, `q=$(printf %b "$2"); q=\${q%.}; [ ! -e "$q" ] && [ ! -L "$q" ] || exit ${EXISTS}; exec mv "$p" "$q"`, [word(from), word(to)]);

/** Writes what comes on its input to a file beside the one that is meant, which takes its place at the end: readers see the
 * old content or the new. Words: the path, the bytes to come, a name for the file beside it, and what may be there now: "any",
 * "none", or a checksum; where cksum is missing, size and time as in the last word. */
export const WRITE = `
n=$2 have=$4
if [ -L "$p" ] && r=$(readlink -f "$p" && echo .); then p=\${r%??}; fi
[ ! -d "$p" ] || exit ${FOLDER}
d=\${p%/*}; t="\${d:-}/$3"
case $have in
any) ;;
none) [ ! -e "$p" ] && [ ! -L "$p" ] || exit ${EXISTS} ;;
*)
	if [ ! -e "$p" ]; then :
	elif command -v cksum >/dev/null; then [ "$(cksum <"$p")" = "$have" ] || exit ${CHANGED}
	else [ "$(stat -c '%s %Y' "$p")" = "$5" ] || exit ${CHANGED}
	fi ;;
esac
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
old=$(stat -c '%a %u:%g' "$p" 2>/dev/null)
if [ "$old" ]; then umask 077; fi
set -C
: >"$t" || exit 1
set +C
head -c "$n" >"$t" || exit 1
[ "$(($(wc -c <"$t")))" = "$n" ] || exit ${TORN}
if [ "$old" ]; then
	chown "\${old#* }" "$t" 2>/dev/null
	chmod "\${old% *}" "$t" || exit 1
fi
mv -f "$t" "$p" || exit 1
trap - EXIT`;

export function besideName(): string {
	return `.cay-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
}

/** What was read, and when it had been written. */
export interface Before {
	bytes: Uint8Array;
	time: number;
}

/** before: what may be there now. */
export async function save(at: Where, path: string, bytes: Uint8Array, before: Before | "any" | "none"): Promise<void> {
	const words = [word(path), String(bytes.length), besideName(), ...(typeof before === "string" ? [before, ""] : [cksum(before.bytes), `${before.bytes.length} ${before.time}`])];
	const r = await sh(at, WRITE, words, bytes);
	if (r.code)
		throw failure(r.code, r.err, "");
}
