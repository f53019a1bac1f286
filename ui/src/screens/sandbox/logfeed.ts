// SPDX-License-Identifier: Apache-2.0
// The lines of a container's log, as they come. After a lost connection it goes on where it was, and no line comes twice.
import { ApiError, ask, sentence } from "../../api/http.ts";
import { pathOf, pods } from "../../api/kinds.ts";
import { text } from "../../text.ts";
import { LINE_MAX, splitStamp, type Line } from "./logtext.ts";

export const KEPT = 10_000;
const TAIL = 1000;
const KEPT_CHARACTERS = 8 * 1024 * 1024; // of all lines together
const PART_MAX = 65_536; // of a line that does not end
const RETRY_MS = [500, 1000, 2000, 4000];

export interface LogChoice {
	ns: string;
	pod: string;
	container: string;
	previous: boolean;
}

export type FeedState = "connecting" | "live" | "lost" | "ended" | "waiting" | "refused";

export function logPath(c: LogChoice, more: Record<string, string>): string {
	const query = new URLSearchParams({ container: c.container, timestamps: "true", ...(c.previous ? { previous: "true" } : {}), ...more });
	return `${pathOf(pods, c.ns, c.pod, "log")}?${query}`;
}

/** Lines that were read already, when they are read again from a whole second on. */
export class Seen {
	private last = "";
	private times = 0; // how many lines have that time
	private skip = 0;

	/** From where to ask again; "" at the beginning. */
	get since(): string {
		return this.last && `${this.last.slice(0, 19)}Z`;
	}

	again(): void {
		this.skip = this.times;
	}

	/** Whether the line is new. */
	take(at: string): boolean {
		if (at && at < this.last)
			return false;
		if (at === this.last) {
			if (this.skip > 0) {
				this.skip--;
				return false;
			}
			this.times++;
		} else if (at) {
			this.last = at;
			this.times = 1;
			this.skip = 0;
		}
		return true;
	}
}

/** Text in pieces becomes lines; one without an end is cut. */
export function lineReader(line: (s: string) => void): (piece: string) => void {
	let rest = "";
	let skipping = false;
	return (piece) => {
		const parts = (rest + piece).split("\n");
		rest = parts.pop()!;
		for (const p of parts) {
			if (!skipping)
				line(p);
			skipping = false;
		}
		if (rest.length > PART_MAX) {
			if (!skipping)
				line(rest);
			skipping = true;
			rest = "";
		}
	};
}

/** As much of a line as is shown. A part of a string keeps the whole of it in memory, so a long one is copied. */
function shortened(raw: string): string {
	return raw.length > LINE_MAX ? new TextDecoder().decode(new TextEncoder().encode(raw.slice(0, LINE_MAX + 1))) : raw;
}

export class LogFeed {
	lines: Line[] = [];
	state: FeedState = "connecting";
	error = "";
	dropped = 0; // how many older lines were let go
	private readonly seen = new Seen();
	private readonly stop = new AbortController();
	private timer = 0;
	private wakeUp: (() => void) | undefined;
	private failures = 0;
	private size = 0; // characters in lines

	constructor(
		private readonly choice: LogChoice,
		private readonly runs: () => boolean,
		private readonly changed: () => void,
	) {
		void this.run();
	}

	end(): void {
		this.stop.abort();
		clearTimeout(this.timer);
		this.wakeUp?.();
	}

	/** The container may run again. */
	wake(): void {
		if (this.state !== "live")
			this.wakeUp?.();
	}

	remark(s: string): void {
		this.add({ at: "", raw: s });
	}

	private tell(): void {
		if (!this.timer)
			this.timer = window.setTimeout(() => {
				this.timer = 0;
				if (!this.stop.signal.aborted)
					this.changed();
			}, 50);
	}

	private become(state: FeedState, error = ""): void {
		this.state = state;
		this.error = error;
		this.tell();
	}

	private add(l: Line): void {
		this.lines.push(l);
		this.size += l.raw.length;
		// Some more than are kept, so that not every line moves all others.
		if (this.lines.length > KEPT + 1000 || this.size > KEPT_CHARACTERS * 1.25)
			this.forget();
		this.tell();
	}

	private forget(): void {
		let from = this.lines.length;
		let size = 0;
		while (from > Math.max(0, this.lines.length - KEPT) && size <= KEPT_CHARACTERS)
			size += this.lines[--from]!.raw.length;
		this.dropped += from;
		this.lines = this.lines.slice(from);
		this.size = size;
	}

	private async read(): Promise<void> {
		const since = this.seen.since;
		this.seen.again();
		const from: Record<string, string> = since ? { sinceTime: since, tailLines: String(KEPT) } : { tailLines: String(TAIL) };
		const answer = await ask(logPath(this.choice, { ...from, ...(this.choice.previous ? {} : { follow: "true" }) }), { signal: this.stop.signal, once: true });
		this.become("live");
		const take = lineReader((s) => {
			const l = splitStamp(s);
			this.failures = 0;
			if ((l.at || l.raw) && this.seen.take(l.at))
				this.add({ at: l.at || "0", raw: shortened(l.raw) });
		});
		const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
		for (;;) {
			const { value, done } = await reader.read();
			if (done)
				return take("\n");
			take(value);
		}
	}

	private pause(ms: number): Promise<void> {
		return new Promise((done) => {
			const timer = ms ? setTimeout(done, ms) : 0;
			this.wakeUp = () => {
				clearTimeout(timer);
				done();
			};
		});
	}

	private async run(): Promise<void> {
		while (!this.stop.signal.aborted) {
			try {
				await this.read();
				if (this.choice.previous)
					return this.become("ended");
				// It ends with the container; one that runs on was cut off.
				if (this.runs()) {
					await this.pause(RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)]!);
				} else {
					this.become("waiting");
					await this.pause(0);
				}
			} catch (e) {
				if (this.stop.signal.aborted)
					return;
				const code = e instanceof ApiError ? e.code : 0;
				if (code === 403 || (this.choice.previous && code >= 400 && code < 500))
					return this.become("refused", code === 403 ? sentence(e) : text.sandbox.logs.noPrevious);
				if (code === 400 || code === 404) {
					this.become("waiting", sentence(e));
					await this.pause(5000);
				} else {
					if (this.failures)
						this.become("lost"); // the first time, it may only be the network that changes
					await this.pause(RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)]!);
				}
			}
		}
	}
}
