// SPDX-License-Identifier: Apache-2.0
// How long claims took from the moment that a controller saw them until they were ready.
import type { SandboxClaim } from "../../api/types.ts";

const OBSERVED = "agents.x-k8s.io/controller-first-observed-at";
const READY = "agents.x-k8s.io/claim-first-ready-at";
const GIVEN = "agents.x-k8s.io/sandbox-name"; // the member of a pool
const KEPT = 2000;

export interface Took {
	ns: string;
	name: string;
	pool: string;
	sandbox: string;
	warm: boolean | undefined;
	ms: number;
	at: number; // ms since 1970 of being ready
}

/** Whole seconds and the rest in nanoseconds: a Date knows milliseconds alone. */
export function exactTime(s: string | undefined): [number, number] | undefined {
	const m = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(s ?? "");
	const seconds = m ? Date.parse(m[1]! + m[3]!) : NaN;
	return m && !Number.isNaN(seconds) ? [seconds / 1000, Number((m[2] ?? "").padEnd(9, "0"))] : undefined;
}

/** Milliseconds between two times of the API. */
export function between(a: string | undefined, b: string | undefined): number | undefined {
	const from = exactTime(a);
	const to = exactTime(b);
	return from && to ? (to[0] - from[0]) * 1000 + (to[1] - from[1]) / 1e6 : undefined;
}

export function tookOf(c: SandboxClaim): Took | undefined {
	const notes = c.metadata.annotations;
	const ms = between(notes?.[OBSERVED], notes?.[READY]);
	if (ms === undefined || ms < 0)
		return undefined;
	return {
		ns: c.metadata.namespace ?? "",
		name: c.metadata.name,
		pool: c.spec?.warmPoolRef?.name ?? "",
		sandbox: c.status?.sandbox?.name ?? "",
		warm: notes?.[GIVEN] !== undefined,
		ms,
		at: Date.parse(notes![READY]!),
	};
}

const read = new WeakMap<SandboxClaim, Took | null>();
// Also those that are gone: claims are often short.
const seen = new Map<string, Took>();

const SAME_MS = 1000; // the server's time of a claim and that of its annotation differ by less
const newest = new Map<string, string>(); // namespace/name to a key of seen

const keyOf = (t: Pick<Took, "ns" | "name" | "at">) => `${t.ns}/${t.name}@${t.at}`;

/** The same claim from the other source, if there is one. */
function twin(t: Took): [string, Took] | undefined {
	const key = newest.get(`${t.ns}/${t.name}`) ?? "";
	const other = seen.get(key);
	return other && Math.abs(other.at - t.at) < SAME_MS ? [key, other] : undefined;
}

function keep(t: Took): void {
	const key = keyOf(t);
	seen.set(key, t);
	newest.set(`${t.ns}/${t.name}`, key);
	if (seen.size > KEPT * 2) {
		const old = [...seen].sort((a, b) => a[1].at - b[1].at).slice(0, KEPT);
		for (const [k] of old)
			seen.delete(k);
		for (const [name, k] of newest)
			if (!seen.has(k))
				newest.delete(name);
	}
}

export function remember(claims: Iterable<SandboxClaim>): void {
	for (const c of claims) {
		let t = read.get(c);
		if (t === undefined) {
			t = tookOf(c) ?? null;
			read.set(c, t);
			if (t) {
				const other = twin(t);
				if (other)
					seen.delete(other[0]);
				keep(t);
			}
		}
	}
}

/** Those that the server tells of, which may have come and gone between two looks. */
export function rememberRecent(recent: { namespace?: string; name?: string; ms?: number; warm?: boolean; at?: string }[]): void {
	for (const r of recent) {
		const at = Date.parse(r.at ?? "");
		if (Number.isNaN(at) || typeof r.ms !== "number")
			continue;
		const t: Took = { ns: r.namespace ?? "", name: r.name ?? "", pool: "", sandbox: "", warm: r.warm, ms: r.ms, at };
		if (!twin(t))
			keep(t);
	}
}

/** The last n in a namespace ("": in all), the newest first. */
export function latest(ns: string, n: number, pool?: (t: Took) => boolean): Took[] {
	return [...seen.values()]
		.filter((t) => (!ns || t.ns === ns) && (!pool || pool(t)))
		.sort((a, b) => b.at - a.at)
		.slice(0, n);
}

/** The smallest value that at least q of all are not above. */
export function percentile(sorted: number[], q: number): number {
	return sorted.length ? sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))]! : NaN;
}

export function percentiles(of: number[]): { p50: number; p95: number; p99: number } {
	const sorted = [...of].sort((a, b) => a - b);
	return { p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), p99: percentile(sorted, 0.99) };
}

export function ms(n: number): string {
	return Number.isNaN(n) ? "–" : `${n.toFixed(3)} ms`;
}
