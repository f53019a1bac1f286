// SPDX-License-Identifier: Apache-2.0
// Requests to the API, and errors that say what to do.
import { text } from "../text.ts";
import { currentToken, logOut } from "./session.ts";

export class ApiError extends Error {
	constructor(
		readonly code: number, // 0: the server was not reached
		message: string,
		readonly reason = "",
		readonly causes: { field?: string; message?: string }[] = [],
	) {
		super(message);
		this.name = "ApiError";
	}

	/** What the reader can do about it. */
	get advice(): string {
		return text.advice[this.code] ?? (this.code >= 500 ? text.advice[500]! : "");
	}
}

export interface Ask {
	method?: string;
	body?: unknown; // sent as JSON, unless it is bytes
	type?: string;
	signal?: AbortSignal;
	accept?: string;
	open?: boolean; // for requests that need no token
	token?: string; // in the place of the session's own
	foreign?: boolean; // the answer may be that of a program in a sandbox, and says nothing of the session
	once?: boolean; // must not be sent again
}

/* Browsers end requests under way whenever the machine's network changes, which on the machine of the sandboxes each of them does when it
 * comes or goes. So a request that got no answer is sent again, a little later each time. */
const AGAIN_MS = [50, 300, 1000];
const MAX_FAILURE = 64 * 1024; // bytes of an answer that tells what is wrong
const MAX_MESSAGE = 2000; // letters
const MAX_CAUSES = 100;

interface Status {
	message?: string;
	reason?: string;
	details?: { causes?: { field?: string; message?: string }[] };
}

/** The start of an answer, as text. */
async function beginning(answer: Response, max: number): Promise<string> {
	const reader = answer.body?.getReader();
	const decoder = new TextDecoder();
	let said = "";
	for (let size = 0; reader && size < max; ) {
		const { value, done } = await reader.read();
		if (done)
			return said;
		said += decoder.decode(value.subarray(0, max - size), { stream: true });
		size += value.length;
	}
	void reader?.cancel().catch(() => undefined);
	return said;
}

/** Whatever answered may have written anything: only what has the form of a Status is taken for one. */
export async function failure(answer: Response): Promise<ApiError> {
	let status: Status = {};
	try {
		const said = await beginning(answer, MAX_FAILURE);
		status = said.startsWith("{") ? (JSON.parse(said) as Status) : { message: said.slice(0, 500) };
	} catch {
		// the status alone says enough
	}
	const text = (v: unknown) => (typeof v === "string" ? (v.length > MAX_MESSAGE ? `${v.slice(0, MAX_MESSAGE)}…` : v) : "");
	const causes = Array.isArray(status.details?.causes) ? status.details.causes : [];
	return new ApiError(
		answer.status,
		text(status.message) || `${answer.status} ${text(answer.statusText)}`,
		text(status.reason),
		causes.slice(0, MAX_CAUSES).map((c) => ({ field: text(c?.field), message: text(c?.message) })),
	);
}

async function send(path: string, init: RequestInit, pauses: number[]): Promise<Response> {
	for (let n = 0; ; n++) {
		try {
			return await fetch(path, init);
		} catch (e) {
			if (init.signal?.aborted)
				throw e;
			if (n >= pauses.length)
				throw new ApiError(0, text.errors.unreachable);
		}
		await new Promise((done) => setTimeout(done, pauses[n]));
	}
}

/** The answer to a request that succeeded. It may have been sent more than once: whoever creates something gives it a name. */
export async function ask(path: string, a: Ask = {}): Promise<Response> {
	const headers: Record<string, string> = { Accept: a.accept ?? "application/json" };
	let body: BodyInit | null = null;
	if (a.body !== undefined) {
		body = a.body instanceof Blob || a.body instanceof Uint8Array ? (a.body as BodyInit) : JSON.stringify(a.body);
		headers["Content-Type"] = a.type ?? "application/json";
	}
	const shown = a.token ?? currentToken();
	if (!a.open)
		headers["Authorization"] = `Bearer ${shown}`;
	const answer = await send(path, { method: a.method ?? "GET", headers, body, signal: a.signal ?? null, cache: "no-store", credentials: "omit", redirect: "error" }, a.once ? [] : AGAIN_MS);
	if (answer.ok)
		return answer;
	if (answer.status === 401 && !a.open && !a.foreign && a.token === undefined && shown === currentToken())
		logOut("expired");
	throw await failure(answer);
}

export async function askJson<R>(path: string, a: Ask = {}): Promise<R> {
	return (await (await ask(path, a)).json()) as R;
}

/** The lines of an answer that goes on; returns when it ends. */
export async function readLines(answer: Response, line: (text: string) => void): Promise<void> {
	const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done)
			return;
		rest += value;
		let at = 0;
		for (let end = rest.indexOf("\n", at); end >= 0; end = rest.indexOf("\n", at)) {
			if (end > at)
				line(rest.slice(at, end));
			at = end + 1;
		}
		rest = rest.slice(at);
	}
}

/** Whatever was thrown, as one sentence for the reader. */
export function sentence(e: unknown): string {
	return e instanceof Error ? e.message : String(e);
}
