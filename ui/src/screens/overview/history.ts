// SPDX-License-Identifier: Apache-2.0
// What the page has seen of each pool since it was opened. The API has no history: it is collected while the overview is
// shown, and times in between are gaps.
import type { Snapshot } from "../../api/collection.ts";
import type { SandboxWarmPool } from "../../api/types.ts";

const POINTS = 3000; // of one line

export interface PoolHistory {
	ready: [number, number][];
	desired: [number, number][];
	claimed: [number, number][];
	/** Begin and end; the end of one that goes on is NaN. */
	dry: [number, number][];
}

const known = new Map<string, PoolHistory>(); // by uid, and "" for all of them together
let seenIn = ""; // the namespace that the sums are of

function line(points: [number, number][], t: number, v: number): void {
	const last = points[points.length - 1];
	if (last && (last[1] === v || (Number.isNaN(last[1]) && Number.isNaN(v))))
		return;
	points.push([t, v]);
	if (points.length > POINTS)
		points.splice(0, POINTS / 4);
}

export function desiredOf(p: SandboxWarmPool): number {
	return p.spec?.replicas ?? 1;
}

export function historyOf(uid: string): PoolHistory {
	let h = known.get(uid);
	if (!h) {
		h = { ready: [], desired: [], claimed: [], dry: [] };
		known.set(uid, h);
	}
	return h;
}

function note(uid: string, t: number, ready: number, desired: number, claimed: number): void {
	const h = historyOf(uid);
	line(h.ready, t, ready);
	line(h.desired, t, desired);
	line(h.claimed, t, claimed);
	const last = h.dry[h.dry.length - 1];
	const open = last !== undefined && Number.isNaN(last[1]);
	const dry = ready === 0 && desired > 0;
	if (dry && !open)
		h.dry.push([t, NaN]);
	else if (!dry && open)
		last[1] = t;
	if (h.dry.length > 500)
		h.dry.shift();
}

/** What is known now. claimed: how many claims have got a sandbox, by namespace/pool; undefined: that is not known. */
export function record(ns: string, s: Snapshot<SandboxWarmPool>, claimed: ReadonlyMap<string, number> | undefined, t = Date.now()): void {
	if (s.state !== "live")
		return gap(t);
	if (ns !== seenIn) {
		known.delete("");
		seenIn = ns;
	}
	const there = new Set<string>([""]);
	let [readySum, desiredSum, claimedSum] = [0, 0, 0];
	for (const [key, p] of s.objects) {
		const uid = p.metadata.uid ?? key;
		const ready = p.status?.readyReplicas ?? 0;
		const got = claimed ? (claimed.get(key) ?? 0) : NaN;
		there.add(uid);
		note(uid, t, ready, desiredOf(p), got);
		readySum += ready;
		desiredSum += desiredOf(p);
		claimedSum += got;
	}
	note("", t, readySum, desiredSum, claimedSum);
	for (const [uid, h] of known)
		if (!there.has(uid))
			stop(h, t);
	if (known.size > 4000)
		for (const uid of known.keys())
			if (!there.has(uid))
				known.delete(uid);
}

function stop(h: PoolHistory, t: number): void {
	for (const points of [h.ready, h.desired, h.claimed])
		if (points.length)
			line(points, t, NaN);
	const last = h.dry[h.dry.length - 1];
	if (last && Number.isNaN(last[1]))
		last[1] = t;
}

/** Nothing is known from now on. */
export function gap(t = Date.now()): void {
	for (const h of known.values())
		stop(h, t);
}

const OPENED = Date.now();
const LEAST_MS = 60_000;

/** Where charts begin: there is nothing from before the page was opened. */
export function chartStart(to: number, ms: number): number {
	return Math.max(to - ms, Math.min(OPENED, to - LEAST_MS));
}

export function dryMs(h: PoolHistory, at: number): number {
	return h.dry.reduce((n, [a, b]) => n + ((Number.isNaN(b) ? at : b) - a), 0);
}
