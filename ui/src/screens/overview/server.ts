// SPDX-License-Identifier: Apache-2.0
// What the server itself tells of its pools, claims and node (GET /cay/v1/overview). Another server has no such route, and
// the overview then shows what the objects say.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { follow } from "../../api/lines.ts";
import { currentToken } from "../../api/session.ts";
import { rememberRecent } from "./claims.ts";

export interface ServerPool {
	namespace: string;
	name: string;
	waiting?: number;
	claimed?: number;
	dry?: boolean;
	dryTimes?: number;
	dryTotalSeconds?: number;
}

export interface ServerNode {
	name?: string;
	cpus?: number;
	loadavg?: number[];
	cpuPressure?: number;
	memoryPressure?: number;
	ioPressure?: number;
	memoryTotal?: number;
	memoryAvailable?: number;
	diskTotal?: number;
	diskAvailable?: number;
	sandboxesRunning?: number;
	sandboxesMax?: number;
}

interface Told {
	time?: string;
	pools?: ServerPool[];
	claims?: { lastMinute?: number; recent?: Parameters<typeof rememberRecent>[0] };
	node?: ServerNode;
}

export interface ServerSays {
	state: "asking" | "live" | "lost" | "absent";
	pools: ReadonlyMap<string, ServerPool>;
	lastMinute: number | undefined;
	node: ServerNode | undefined;
}

const NOTHING: ServerSays = { state: "asking", pools: new Map(), lastMinute: undefined, node: undefined };
const says = signal<ServerSays>(NOTHING);

const KEPT_MS = 3_600_000;
/** Percent of time in which something waited; what was collected while the overview was shown. */
export const pressure: Record<"cpu" | "memory" | "io", [number, number][]> = { cpu: [], memory: [], io: [] };

function note(points: [number, number][], t: number, v: number): void {
	points.push([t, v]);
	if (points.length > 4000 || (points[0] && points[0][0] < t - 2 * KEPT_MS))
		points.splice(0, points.length / 4);
}

function heard(o: Told): void {
	const t = Date.parse(o.time ?? "") || Date.now();
	says.value = {
		state: "live",
		pools: new Map((o.pools ?? []).map((p) => [`${p.namespace}/${p.name}`, p])),
		lastMinute: o.claims?.lastMinute,
		node: o.node,
	};
	rememberRecent(o.claims?.recent ?? []);
	if (o.node) {
		note(pressure.cpu, t, o.node.cpuPressure ?? NaN);
		note(pressure.memory, t, o.node.memoryPressure ?? NaN);
		note(pressure.io, t, o.node.ioPressure ?? NaN);
	}
}

function silence(): void {
	for (const points of Object.values(pressure))
		if (points.length)
			note(points, Date.now(), NaN);
}

export function useServer(): ServerSays {
	const token = currentToken();
	useEffect(() => {
		const stop = new AbortController();
		void follow(
			{
				path: () => "/cay/v1/overview?follow=true",
				line: (o) => heard(o as Told),
				state: (e) => {
					if (e) {
						silence();
						says.value = e.code === 403 || e.code === 404 ? { ...NOTHING, state: "absent" } : { ...says.value, state: "lost" };
					}
				},
				silence: 20_000,
			},
			stop.signal,
		);
		return () => {
			stop.abort();
			silence();
			says.value = NOTHING;
		};
	}, [token]);
	return says.value;
}
