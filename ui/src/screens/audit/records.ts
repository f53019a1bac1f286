// SPDX-License-Identifier: Apache-2.0
// The records of the audit log, as the server sends them: first the newest, then those that are written meanwhile; older
// ones when somebody asks. A stream that was lost goes on where it ended.
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ApiError, ask, readLines } from "../../api/http.ts";
import { follow } from "../../api/lines.ts";
import { currentToken } from "../../api/session.ts";

export const ROUTE = "/cay/v1/audit";
const FIRST = 300;
const PAGE = 500;
const KEPT = 20_000; // records in memory
const SILENCE_MS = 40_000; // bookmarks come every 15 seconds

export interface AuditRecord {
	n: number;
	prev?: string;
	time?: string;
	user?: string;
	as?: string;
	verb?: string;
	group?: string;
	resource?: string;
	subresource?: string;
	namespace?: string;
	name?: string;
	status?: number;
	note?: string;
	lost?: number;
	[member: string]: unknown;
}

export type Filters = Record<"user" | "agent" | "sandbox" | "namespace" | "verb" | "refused" | "since", string>;

export interface Log {
	/** The newest last. */
	records: AuditRecord[];
	state: "asking" | "live" | "lost" | "refused";
	error?: ApiError;
	/** There may be older ones, before this number. */
	before: number | undefined;
	/** Numbers that are not there any more. */
	gaps: { from: number; to: number }[];
}

interface Line extends Partial<AuditRecord> {
	bookmark?: { n?: number; before?: number; more?: boolean };
	gap?: { from: number; to: number };
	error?: string;
}

function queryOf(f: Filters, more: Record<string, string>): string {
	const q = new URLSearchParams();
	for (const [k, v] of Object.entries({ ...f, ...more }))
		if (v)
			q.set(k, v);
	return `${ROUTE}?${q}`;
}

class Reader {
	readonly log = signal<Log>({ records: [], state: "asking", before: undefined, gaps: [] });
	private records: AuditRecord[] = [];
	private last = -1; // all up to this number is here
	private drawn = 0;
	private began = false; // what is before is known
	private fresh = true; // the stream began with the newest
	private readonly stop = new AbortController();

	constructor(private readonly filters: Filters) {}

	private show(change: Partial<Log>): void {
		cancelAnimationFrame(this.drawn);
		this.drawn = 0;
		const { error: _old, ...rest } = this.log.value;
		this.log.value = { ...rest, records: this.records.slice(), ...change };
	}

	private showSoon(): void {
		if (!this.drawn)
			this.drawn = requestAnimationFrame(() => this.show({}));
	}

	private line(l: Line): void {
		if (typeof l.n === "number") {
			if (l.n <= this.last)
				return;
			this.last = l.n;
			this.records.push(l as AuditRecord);
			if (this.records.length > KEPT) {
				this.records.splice(0, KEPT / 10);
				this.show({ before: this.records[0]!.n });
			}
			this.showSoon();
		} else if (l.bookmark) {
			this.last = Math.max(this.last, l.bookmark.n ?? -1);
			// Only the first answer says what is before all that is here; one that was lost before it did says nothing.
			if (!this.began) {
				this.began = true;
				this.show({ before: this.fresh ? l.bookmark.before : this.records[0]?.n });
			}
		} else if (l.gap) {
			this.show({ gaps: [...this.log.value.gaps, l.gap].slice(-20) });
		} else if (l.error) {
			throw new ApiError(500, l.error);
		}
	}

	start(): () => void {
		void follow(
			{
				path: () => {
					this.fresh = this.last < 0;
					return queryOf(this.filters, { follow: "true", ...(this.fresh ? { limit: String(FIRST) } : { after: String(this.last) }) });
				},
				line: (o) => this.line(o as Line),
				state: (e) => {
					if (e?.code === 410) {
						// The log was begun anew: so is this.
						this.records = [];
						this.last = -1;
						this.began = false;
						this.show({ before: undefined, gaps: [] });
					}
					if (!e)
						this.show({ state: "live" });
					else
						this.show({ state: e.code === 403 || e.code === 404 || e.code === 400 ? "refused" : "lost", error: e });
				},
				silence: SILENCE_MS,
			},
			this.stop.signal,
		);
		return () => {
			cancelAnimationFrame(this.drawn);
			this.stop.abort();
		};
	}

	/** The page before what is here. Whoever has left is told nothing. */
	async older(): Promise<void> {
		try {
			await this.readOlder();
		} catch (e) {
			if (!this.stop.signal.aborted)
				throw e;
		}
	}

	private async readOlder(): Promise<void> {
		const before = this.log.value.before;
		if (before === undefined)
			return;
		const found: AuditRecord[] = [];
		let next: number | undefined;
		const answer = await ask(queryOf(this.filters, { before: String(before), limit: String(PAGE) }), { signal: this.stop.signal });
		await readLines(answer, (text) => {
			const l = JSON.parse(text) as Line;
			if (typeof l.n === "number")
				found.push(l as AuditRecord);
			else if (l.bookmark)
				next = l.bookmark.before;
			else if (l.error)
				throw new ApiError(500, l.error);
		});
		this.records = [...found, ...this.records];
		this.show({ before: next });
	}
}

export function useLog(f: Filters): { log: Log; older: () => Promise<void> } {
	const token = currentToken();
	const reader = useMemo(() => new Reader(f), [token, JSON.stringify(f)]);
	useEffect(() => reader.start(), [reader]);
	return { log: reader.log.value, older: () => reader.older() };
}

/** One record by its number; undefined: there is none, or it does not match. */
export async function oneRecord(n: number, namespace: string): Promise<AuditRecord | undefined> {
	let found: AuditRecord | undefined;
	const q = new URLSearchParams({ before: String(n + 1), limit: "1", ...(namespace ? { namespace } : {}) });
	await readLines(await ask(`${ROUTE}?${q}`), (text) => {
		const l = JSON.parse(text) as Line;
		if (l.n === n)
			found = l as AuditRecord;
	});
	return found;
}
