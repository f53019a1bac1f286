// SPDX-License-Identifier: Apache-2.0
// Answers that go on for as long as somebody looks: JSON lines of the server's own routes. A lost one is asked for again.
import { ApiError, ask, readLines, sentence } from "./http.ts";

const RETRY_MS = [20, 250, 500, 1000, 2000, 4000]; // the first is for a network that only changed
const REFUSED_MS = 30_000;

export interface Following {
	/** Where it goes on; asked anew each time. */
	path: () => string;
	line: (o: Record<string, unknown>) => void;
	/** undefined: it is live. What is over at once is not told. 400, 403 and 404 are tried again seldom, everything else soon. */
	state: (error: ApiError | undefined) => void;
	/** Milliseconds of silence after which it counts as lost. */
	silence: number;
}

/** Until the signal is aborted. */
export async function follow(f: Following, signal: AbortSignal): Promise<void> {
	let failures = 0;
	while (!signal.aborted) {
		const one = new AbortController();
		const stop = () => one.abort();
		signal.addEventListener("abort", stop);
		let silent = false;
		let timer = 0;
		const heard = () => {
			clearTimeout(timer);
			timer = window.setTimeout(() => {
				silent = true;
				stop();
			}, f.silence);
		};
		let error: ApiError | undefined;
		try {
			heard();
			const answer = await ask(f.path(), { signal: one.signal, accept: "application/x-ndjson, application/json" });
			f.state(undefined);
			await readLines(answer, (text) => {
				heard();
				failures = 0;
				f.line(JSON.parse(text) as Record<string, unknown>);
			});
			error = new ApiError(0, "");
		} catch (e) {
			error = e instanceof ApiError ? e : new ApiError(0, silent ? "" : sentence(e));
		}
		clearTimeout(timer);
		one.abort();
		signal.removeEventListener("abort", stop);
		if (signal.aborted)
			return;
		if (failures || error.code)
			f.state(error);
		if (error.code === 401)
			return;
		await pause(signal, [400, 403, 404].includes(error.code) ? REFUSED_MS : RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]!);
	}
}

function pause(signal: AbortSignal, ms: number): Promise<void> {
	return new Promise((done) => {
		const end = () => {
			clearTimeout(timer);
			removeEventListener("online", end);
			signal.removeEventListener("abort", end);
			done();
		};
		const timer = setTimeout(end, ms * (0.75 + Math.random() / 2));
		addEventListener("online", end);
		signal.addEventListener("abort", end);
	});
}
