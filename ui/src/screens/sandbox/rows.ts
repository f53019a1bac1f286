// SPDX-License-Identifier: Apache-2.0
// Sandboxes with what belongs to them: a claim, sessions, what they cost. One row for each, also for a claim that waits.
import { amount } from "../../api/amounts.ts";
import { condition, type Attachment, type KEvent, type PodMetrics, type Sandbox, type SandboxClaim, type Session } from "../../api/types.ts";
import { claimOf, clockOf, cpuSecondsOf, isSpare, ownerOf, podName, poolOf, SESSION, stateOf, templateOf, why, whyClaim, type Clock, type Owner, type State, type Why } from "./state.ts";

export interface Row {
	ns: string;
	/** What people call it: its claim, or itself. */
	name: string;
	/** In the address. */
	link: string;
	sandbox: Sandbox | undefined;
	claim: SandboxClaim | undefined;
	claimName: string;
	attached: Attachment[];
	sessions: Session[];
	spare: boolean;
	state: State;
	why: Why;
	owner: Owner | undefined;
	template: string;
	pool: string;
	clock: Clock | undefined;
	cpu: number; // seconds; NaN: nobody counts
	made: string;
}

export interface Around {
	claims: ReadonlyMap<string, SandboxClaim>;
	sessions: ReadonlyMap<string, Session>;
	attachments: ReadonlyMap<string, Attachment>;
	metrics: ReadonlyMap<string, PodMetrics>;
	warnings: ReadonlyMap<string, KEvent>;
}

export function eventTime(e: KEvent): number {
	return Date.parse(e.lastTimestamp ?? e.eventTime ?? e.firstTimestamp ?? e.metadata.creationTimestamp ?? "") || 0;
}

/** The last warning about each object, by its uid. */
export function lastWarnings(events: Iterable<KEvent>): Map<string, KEvent> {
	const last = new Map<string, KEvent>();
	for (const e of events) {
		const uid = e.involvedObject?.uid;
		const before = uid && last.get(uid);
		if (uid && e.type === "Warning" && (!before || eventTime(before) < eventTime(e)))
			last.set(uid, e);
	}
	return last;
}

export function podCpuSeconds(m: PodMetrics | undefined): number {
	const all = (m?.containers ?? []).map((c) => amount(c.usage["cay.dev/cpu-seconds"], NaN)).filter((n) => !Number.isNaN(n));
	return all.length ? all.reduce((a, b) => a + b, 0) : NaN;
}

function groupBy<O>(all: Iterable<O>, key: (o: O) => string[]): Map<string, O[]> {
	const groups = new Map<string, O[]>();
	for (const o of all)
		for (const k of new Set(key(o))) {
			const g = groups.get(k);
			if (g)
				g.push(o);
			else
				groups.set(k, [o]);
		}
	return groups;
}

export function rowOf(s: Sandbox, a: Around, attached: Attachment[], sessions: Session[]): Row {
	const ns = s.metadata.namespace ?? "";
	const claimName = claimOf(s);
	const claim = claimName ? a.claims.get(`${ns}/${claimName}`) : undefined;
	const counted = cpuSecondsOf(attached, sessions, s.metadata.name);
	return {
		ns,
		name: claimName || s.metadata.name,
		link: s.metadata.name,
		sandbox: s,
		claim,
		claimName,
		attached,
		sessions,
		spare: isSpare(s),
		state: stateOf(s),
		why: why(s, undefined, a.warnings.get(s.metadata.uid ?? ""), sessions),
		owner: ownerOf(s, claim, sessions),
		template: templateOf(s),
		pool: poolOf(s, claim),
		clock: clockOf(s, claim, sessions),
		cpu: Number.isNaN(counted) ? podCpuSeconds(a.metrics.get(`${ns}/${podName(s)}`)) : counted,
		made: claim?.metadata.creationTimestamp ?? s.metadata.creationTimestamp ?? "",
	};
}

export function waitingRow(c: SandboxClaim): Row {
	const ns = c.metadata.namespace ?? "";
	const name = c.metadata.name;
	return {
		ns,
		name,
		link: name,
		sandbox: undefined,
		claim: c,
		claimName: name,
		attached: [],
		sessions: [],
		spare: false,
		state: c.metadata.deletionTimestamp ? "stopping" : condition(c, "Ready")?.reason === "ClaimExpired" ? "expired" : "waiting",
		why: whyClaim(c),
		owner: ownerOf(undefined, c, []),
		template: "",
		pool: poolOf(undefined, c),
		clock: clockOf(undefined, c),
		cpu: NaN,
		made: c.metadata.creationTimestamp ?? "",
	};
}

export function rowsOf(sandboxes: ReadonlyMap<string, Sandbox>, a: Around): Row[] {
	const attached = groupBy(a.attachments.values(), (x) => (x.spec?.sandbox ? [`${x.metadata.namespace}/${x.spec.sandbox}`] : []));
	const sessions = groupBy(a.sessions.values(), (x) =>
		[x.status?.sandbox, ...(x.status?.attachments ?? []).map((y) => y.sandbox)].filter((n) => !!n).map((n) => `${x.metadata.namespace}/${n}`),
	);
	const rows: Row[] = [];
	for (const [key, s] of sandboxes) {
		const within = sessions.get(key) ?? [];
		const own = a.sessions.get(`${s.metadata.namespace}/${s.metadata.labels?.[SESSION] ?? ""}`);
		rows.push(rowOf(s, a, attached.get(key) ?? [], own && !within.includes(own) ? [...within, own] : within));
	}
	for (const c of a.claims.values())
		if (!c.status?.sandbox?.name || !sandboxes.has(`${c.metadata.namespace}/${c.status.sandbox.name}`))
			rows.push(waitingRow(c));
	return rows;
}
