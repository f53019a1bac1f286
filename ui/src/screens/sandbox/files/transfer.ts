// SPDX-License-Identifier: Apache-2.0
// Files that come and go as streams, a few at a time, with their progress.
import { effect, signal } from "@preact/signals";
import { type Channels, exec, execPath, type ExecSpec } from "../../../api/channels.ts";
import { ApiError, sentence } from "../../../api/http.ts";
import { saveBlob } from "../../../api/save.ts";
import { loggedIn } from "../../../api/session.ts";
import { text } from "../../../text.ts";
import { why } from "../why.ts";
import { base, join, localName, parent, word } from "./names.ts";
import { besideName, failure, FileError, makeFolders, remove, spec, type Where, WRITE } from "./scripts.ts";

const PIECE = 256 * 1024;
const AHEAD = 1024 * 1024; // bytes that wait in the browser
const AT_ONCE = 2;
export const MAX_UPLOAD = 1024 * 1024 * 1024;
const MAX_PART = 1024 * 1024 * 1024; // a larger file is saved as several
const MAX_TAR = 2 * 1024 * 1024 * 1024;
const MAX_WAITING = 10_000;
const MAX_OVER = 100; // that are shown when they are over

export interface Transfer {
	id: number;
	up: boolean;
	path: string;
	of: number; // bytes; 0: it is not known
	moved: number;
	state: "waiting" | "running" | "done" | "failed" | "stopped";
	error?: string;
	/** The name is taken: it may be done once more, and replace what is there. */
	exists?: boolean;
}

interface Job {
	transfer: Transfer;
	work: (job: Job) => Promise<void>;
	open?: Channels;
	stopped: boolean;
	after: () => void;
}

export const transfers = signal<Transfer[]>([]);
const jobs = new Map<number, Job>();
let last = 0;
let drawn = 0;

function change(job: Job, to: Partial<Transfer>): void {
	Object.assign(job.transfer, to);
	drawn ||= window.setTimeout(() => {
		drawn = 0;
		transfers.value = [...jobs.values()].map((j) => ({ ...j.transfer }));
	}, 100);
}

const isOver = (j: Job) => j.transfer.state !== "running" && j.transfer.state !== "waiting";

function next(): void {
	const all = [...jobs.values()];
	if (all.filter((j) => j.transfer.state === "running").length >= AT_ONCE)
		return;
	const job = all.find((j) => j.transfer.state === "waiting");
	if (!job)
		return;
	change(job, { state: "running" });
	job.work(job)
		.then(
			() => change(job, { state: job.stopped ? "stopped" : "done" }),
			(e: unknown) => {
				const advice = e instanceof ApiError ? e.advice : "";
				change(job, job.stopped ? { state: "stopped" } : { state: "failed", error: [sentence(e), advice].filter(Boolean).join(" "), exists: e instanceof FileError && e.what === "exists" });
			},
		)
		.finally(() => {
			for (const old of [...jobs.values()].filter(isOver).slice(0, -MAX_OVER))
				jobs.delete(old.transfer.id);
			job.after();
			next();
		});
	next();
}

function add(t: Pick<Transfer, "up" | "path" | "of">, work: Job["work"], after: () => void): void {
	if (jobs.size >= MAX_WAITING && [...jobs.values()].filter((j) => !isOver(j)).length >= MAX_WAITING)
		throw new FileError(text.files.tooMany(MAX_WAITING), "");
	const transfer: Transfer = { ...t, id: ++last, moved: 0, state: "waiting" };
	const job: Job = { transfer, work, stopped: false, after };
	jobs.set(transfer.id, job);
	change(job, {});
	next();
}

/** Stops one, or removes it from the list when it is over. */
export function drop(id: number): void {
	const job = jobs.get(id);
	if (!job)
		return;
	if (job.transfer.state === "running") {
		job.stopped = true;
		job.open?.close();
	} else {
		jobs.delete(id);
		change(job, {});
	}
}

export function dropDone(): void {
	for (const [id, j] of jobs)
		if (isOver(j))
			drop(id);
}

export function stopAll(): void {
	for (const [id, j] of jobs)
		if (!isOver(j))
			drop(id);
}

effect(() => {
	if (!loggedIn.value) {
		stopAll();
		dropDone();
	}
});

/** Once more, over what is there. */
export function replace(id: number): void {
	const job = jobs.get(id);
	if (!job)
		return;
	change(job, { state: "waiting", moved: 0, exists: true });
	delete job.transfer.error;
	next();
}

async function open(job: Job, s: ExecSpec, output: (data: Uint8Array) => void, err: string[]): Promise<Channels> {
	const decoder = new TextDecoder();
	try {
		job.open = await exec(s, (data, stderr) => {
			if (!stderr)
				output(data);
			else if (err.length < 16)
				err.push(decoder.decode(data));
		});
	} catch (e) {
		await why(execPath(s));
		throw e;
	}
	if (job.stopped)
		job.open.close();
	return job.open;
}

async function finish(open: Channels, err: string[], job: Job): Promise<void> {
	const end = await open.end;
	if (job.stopped)
		return;
	if (end.lost)
		throw new FileError(end.message, text.files.tornHint);
	if (end.exitCode !== 0)
		throw failure(end.exitCode, err.join(""), end.message);
}

export function upload(at: Where, path: string, file: File, after: () => void): void {
	add({ up: true, path, of: file.size }, async (job) => {
		if (file.size > MAX_UPLOAD)
			throw new FileError(text.files.tooLarge, text.files.tooLargeHint);
		await makeFolders(at, parent(path));
		const beside = besideName();
		const err: string[] = [];
		const channels = await open(job, { ...spec(at, WRITE, [word(path), String(file.size), beside, job.transfer.exists ? "any" : "none"]), stdin: true }, () => undefined, err);
		let over = false;
		void channels.end.then(() => (over = true));
		for (let begin = 0; begin < file.size && !over && !job.stopped; begin += PIECE) {
			channels.write(new Uint8Array(await file.slice(begin, begin + PIECE).arrayBuffer()));
			while (channels.waiting > AHEAD && !over)
				await new Promise((r) => setTimeout(r, 5));
			change(job, { moved: Math.max(0, Math.min(file.size, begin + PIECE) - channels.waiting) });
		}
		channels.closeInput();
		try {
			await finish(channels, err, job);
			change(job, { moved: file.size });
		} finally {
			// A script that was killed cannot clean up.
			if (job.stopped)
				await remove(at, join(parent(path), beside)).catch(() => undefined);
		}
	}, after);
}

/** Output of a script as a Blob, which the browser may keep on disk. */
async function gather(job: Job, s: ExecSpec, max: number): Promise<Blob> {
	const err: string[] = [];
	const blobs: Blob[] = [];
	let parts: Uint8Array[] = [];
	let held = 0;
	let size = 0;
	const before = job.transfer.moved;
	const channels = await open(job, s, (data) => {
		size += data.length;
		if (size > max) {
			job.open?.close();
			return;
		}
		parts.push(data.slice());
		held += data.length;
		if (held > 4 * 1024 * 1024) {
			blobs.push(new Blob(parts as BlobPart[]));
			parts = [];
			held = 0;
		}
		change(job, { moved: before + size });
	}, err);
	const end = await channels.end;
	if (size > max)
		throw new FileError(text.files.tarTooLarge, text.files.tooLargeHint);
	if (end.lost || end.exitCode !== 0)
		await finish(channels, err, job);
	return new Blob([...blobs, ...(parts as BlobPart[])], { type: "application/octet-stream" });
}

export function download(at: Where, path: string, size: number): void {
	add({ up: false, path, of: size }, async (job) => {
		const count = Math.max(1, Math.ceil(size / MAX_PART));
		for (let n = 0; n < count && !job.stopped; n++) {
			const script = `[ -f "$p" ] || exit 1; if [ "$2" = 1 ]; then exec head -c "$3" <"$p"; fi; tail -c "+$2" <"$p" | head -c "$3"`;
			// Files of the system say that they are empty, and are not.
			const blob = await gather(job, spec(at, script, [word(path), String(n * MAX_PART + 1), String(size ? Math.min(MAX_PART, size - n * MAX_PART) : MAX_PART)]), MAX_PART + 1);
			if (!job.stopped)
				saveBlob(blob, localName(base(path)) + (count > 1 ? `.part${n + 1}` : ""));
		}
		if (!job.stopped && job.transfer.moved < size)
			throw new FileError(text.files.shrunk, "");
	}, () => undefined);
}

export function downloadFolder(at: Where, path: string): void {
	add({ up: false, path, of: 0 }, async (job) => {
		const blob = await gather(job, spec(at, `cd "$p" && exec tar cf - .`, [word(path)]), MAX_TAR);
		if (!job.stopped)
			saveBlob(blob, `${localName(base(path) || "root")}.tar`);
	}, () => undefined);
}

/** What was dropped or chosen, with the folders that it was in. */
export async function filesOf(data: DataTransfer): Promise<{ file: File; path: string }[]> {
	const found: { file: File; path: string }[] = [];
	const walk = async (entry: FileSystemEntry, folder: string): Promise<void> => {
		if (found.length >= MAX_WAITING)
			return;
		const path = folder ? `${folder}/${entry.name}` : entry.name;
		if (entry.isFile) {
			found.push({ path, file: await new Promise<File>((ok, no) => (entry as FileSystemFileEntry).file(ok, no)) });
		} else if (entry.isDirectory) {
			const reader = (entry as FileSystemDirectoryEntry).createReader();
			for (;;) {
				const some = await new Promise<FileSystemEntry[]>((ok, no) => reader.readEntries(ok, no));
				if (!some.length)
					break;
				for (const e of some)
					await walk(e, path);
			}
		}
	};
	const entries = [...data.items].filter((i) => i.kind === "file").map((i) => i.webkitGetAsEntry?.() ?? i.getAsFile());
	for (const e of entries)
		if (e instanceof File)
			found.push({ path: e.name, file: e });
		else if (e)
			await walk(e, "");
	return found;
}
