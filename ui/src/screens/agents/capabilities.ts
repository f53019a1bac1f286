// SPDX-License-Identifier: Apache-2.0
// What is left of capabilities along a chain: the same intersection as the server's, for display. What counts is status.effective.
import type { Agent, Capabilities, Place, TeamPolicy } from "../../api/types.ts";
import { hostContains, listHas, meetPatterns, patternMatches } from "./patterns.ts";

export const RIGHTS = ["exec", "read", "write", "ports", "lifecycle"];
const DEFAULT_RIGHTS = ["exec", "read", "write", "ports"];
const PARENTS_MAX = 8;
const MEET_MAX = 64;

/** A set that limits each member; undefined: everything. */
export interface Set {
	rights: string[];
	egress: Place[] | undefined;
	credentials: string[];
	tools: string[];
	runtimeClasses: string[];
	maxSandboxes: number | undefined;
}

export function ofAgent(c: Capabilities = {}): Set {
	return {
		rights: c.rights ?? DEFAULT_RIGHTS,
		egress: c.egress ?? [],
		credentials: c.credentials ?? [],
		tools: c.tools ?? ["*"],
		runtimeClasses: c.runtimeClasses ?? ["*"],
		maxSandboxes: c.maxSandboxes,
	};
}

/** Of a policy, what is unset is not limited; in status.effective only a missing egress is. */
export function ofCeiling(c: Capabilities = {}): Set {
	return { ...ofAgent(c), rights: c.rights ?? RIGHTS, egress: c.egress, credentials: c.credentials ?? ["*"] };
}

function addPattern(list: string[], p: string): string[] {
	if (listHas(list, p))
		return list;
	const kept = list.filter((x) => !patternMatches(p, x));
	return kept.length < MEET_MAX ? [...kept, p] : kept;
}

export function meetLists(x: readonly string[], y: readonly string[]): string[] {
	let all: string[] = [];
	for (const a of x)
		for (const b of y)
			for (const p of meetPatterns(a, b))
				all = addPattern(all, p);
	return all;
}

/** undefined: they have nothing in common. */
export function meetPlaces(x: Place, y: Place): Place | undefined {
	const host = hostContains(x.host, y.host) ? y.host : hostContains(y.host, x.host) ? x.host : undefined;
	const others = y.ports?.length ? y.ports : [443];
	const ports = (x.ports?.length ? x.ports : [443]).filter((p) => others.includes(p));
	const methods = x.methods?.length && y.methods?.length ? x.methods.filter((m) => y.methods!.includes(m)) : x.methods?.length ? x.methods : (y.methods ?? []);
	const paths = x.paths?.length && y.paths?.length ? meetLists(x.paths, y.paths) : x.paths?.length ? x.paths : (y.paths ?? []);
	const none = (both: unknown[], a?: unknown[], b?: unknown[]) => !both.length && !!a?.length && !!b?.length;
	if (host === undefined || !ports.length || none(methods, x.methods, y.methods) || none(paths, x.paths, y.paths))
		return undefined;
	return { host, ports, ...(methods.length ? { methods } : {}), ...(paths.length ? { paths } : {}) };
}

/** The same text for places that mean the same. */
export function placeText(p: Place): string {
	const ports = [...(p.ports?.length ? p.ports : [443])].sort((x, y) => x - y);
	const paths = p.paths?.includes("*") ? [] : [...(p.paths ?? [])];
	return [`${p.host.toLowerCase()}:${ports.join(",")}`, [...(p.methods ?? [])].sort().join(","), paths.sort().join(",")].filter(Boolean).join(" ");
}

function placeWithin(inner: Place, outer: Place): boolean {
	const both = meetPlaces(inner, outer);
	return !!both && placeText(both) === placeText(inner);
}

function meetEgress(x: Place[], y: Place[]): Place[] {
	let all: Place[] = [];
	for (const a of x)
		for (const b of y) {
			const both = meetPlaces(a, b);
			if (!both || all.some((p) => placeWithin(both, p)))
				continue;
			all = all.filter((p) => !placeWithin(p, both));
			if (all.length < MEET_MAX)
				all.push(both);
		}
	return all;
}

export function meet(x: Set, y: Set): Set {
	return {
		rights: x.rights.filter((r) => y.rights.includes(r)),
		egress: x.egress && y.egress ? meetEgress(x.egress, y.egress) : (x.egress ?? y.egress),
		credentials: meetLists(x.credentials, y.credentials),
		tools: meetLists(x.tools, y.tools),
		runtimeClasses: meetLists(x.runtimeClasses, y.runtimeClasses),
		maxSandboxes: x.maxSandboxes === undefined || y.maxSandboxes === undefined ? (x.maxSandboxes ?? y.maxSandboxes) : Math.min(x.maxSandboxes, y.maxSandboxes),
	};
}

export type Fault = "" | "missing" | "loop" | "long" | "deleting";

/** The agent and those above it, itself first. */
export function chainOf(agent: Agent, all: ReadonlyMap<string, Agent>): { agents: Agent[]; fault: Fault; at: string } {
	const agents: Agent[] = [];
	let next: Agent | undefined = agent;
	while (next) {
		agents.push(next);
		const name: string | undefined = next.spec?.parent;
		if (!name)
			return { agents, fault: agents.some((a) => a.metadata.deletionTimestamp) ? "deleting" : "", at: "" };
		if (agents.some((a) => a.metadata.name === name))
			return { agents, fault: "loop", at: name };
		if (agents.length > PARENTS_MAX)
			return { agents, fault: "long", at: name };
		next = all.get(`${agent.metadata.namespace ?? ""}/${name}`);
		if (!next)
			return { agents, fault: "missing", at: name };
	}
	return { agents, fault: "", at: "" };
}

export interface Link {
	kind: "policy" | "agent";
	name: string;
	own: Set;
	/** What is left of all links up to this one. */
	left: Set;
}

/** From the team's policy, if it limits anything, by the last parent to the agent itself. */
export function links(agents: Agent[], policy: TeamPolicy | undefined): Link[] {
	const found: Link[] = [];
	const add = (kind: Link["kind"], name: string, own: Set) => {
		const before = found[found.length - 1];
		found.push({ kind, name, own, left: before ? meet(before.left, own) : own });
	};
	if (policy?.spec?.capabilities)
		add("policy", policy.metadata.name, ofCeiling(policy.spec.capabilities));
	for (const a of [...agents].reverse())
		add("agent", a.metadata.name, ofAgent(a.spec?.capabilities));
	return found;
}

/** Who in the chain does not have a right: names of agents, and of the policy as "". */
export function withoutRight(right: string, agents: Agent[], policy: TeamPolicy | undefined): string[] {
	const lack = agents.filter((a) => !ofAgent(a.spec?.capabilities).rights.includes(right)).map((a) => a.metadata.name);
	return policy?.spec?.capabilities && !ofCeiling(policy.spec.capabilities).rights.includes(right) ? [...lack, ""] : lack;
}
