// SPDX-License-Identifier: Apache-2.0
// The amounts that budgets limit and ledgers count, and what follows from a budget.
import { bytes, gibHours, seconds } from "../../api/amounts.ts";
import type { Agent, Budget, TeamPolicy } from "../../api/types.ts";

export type Amount = "cpuSeconds" | "memoryGiBHours" | "diskGiBHours" | "networkBytes";
export const AMOUNTS: Amount[] = ["cpuSeconds", "memoryGiBHours", "diskGiBHours", "networkBytes"];

export function amountFormat(a: Amount | "maxSandboxes"): (v: number) => string {
	if (a === "networkBytes")
		return bytes;
	if (a === "cpuSeconds")
		return seconds;
	return a === "maxSandboxes" ? String : gibHours;
}

/** Milliseconds of a duration as Go writes it ("1h30m"); undefined: it is none. */
export function duration(s: string | undefined): number | undefined {
	const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 0.001, µs: 0.001 };
	let ms = 0;
	let rest = s ?? "";
	while (rest) {
		const m = /^(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|h|m|s)/.exec(rest);
		if (!m)
			return undefined;
		ms += Number(m[1]) * units[m[2]!]!;
		rest = rest.slice(m[0].length);
	}
	return s ? ms : undefined;
}

/** When counting begins anew, if it ever does. */
export function until(b: Budget): number | undefined {
	const ms = duration(b.spec?.period);
	const from = Date.parse(b.status?.periodStart ?? "");
	return ms && !Number.isNaN(from) ? from + ms : undefined;
}

/** The agents whose use counts against a budget: those that name it, their children, or all if the team's policy names it. */
export function agentsOf(b: Budget, agents: Iterable<Agent>, policies: Iterable<TeamPolicy>): Agent[] {
	const ns = b.metadata.namespace;
	const here = new Map<string, Agent>();
	for (const a of agents)
		if (a.metadata.namespace === ns)
			here.set(a.metadata.name, a);
	for (const p of policies)
		if (p.metadata.namespace === ns && p.metadata.name === "team" && p.spec?.budget === b.metadata.name)
			return [...here.values()];
	const under = (a: Agent | undefined, depth: number): boolean => !!a && depth < 10 && (a.spec?.budget === b.metadata.name || under(here.get(a.spec?.parent ?? ""), depth + 1));
	return [...here.values()].filter((a) => under(a, 0));
}
