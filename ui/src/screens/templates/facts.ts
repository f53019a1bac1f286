// SPDX-License-Identifier: Apache-2.0
// What is known of a template beyond its fields: what was made from it, from which version, and how long that took.
import { condition, type Container, type KObject, type PodSpec, type Sandbox, type SandboxTemplate, type SandboxWarmPool } from "../../api/types.ts";

const REF = "agents.x-k8s.io/sandbox-template-ref";
const HASH = "agents.x-k8s.io/sandbox-template-hash"; // of the blueprint; until a claim takes the sandbox

export interface Volume {
	name: string;
	[kind: string]: unknown;
}

export interface FullContainer extends Container {
	volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
}

export interface FullTemplate extends Omit<SandboxTemplate, "spec"> {
	spec?: Omit<NonNullable<SandboxTemplate["spec"]>, "volumeClaimTemplates"> & {
		podTemplate?: { spec?: PodSpec & { containers?: FullContainer[]; initContainers?: FullContainer[]; volumes?: Volume[] } };
		volumeClaimTemplates?: { metadata?: { name?: string }; spec?: { accessModes?: string[]; storageClassName?: string; resources?: { requests?: Record<string, string> } } }[];
		networkPolicy?: { ingress?: unknown[]; egress?: unknown[] };
		envVarsInjectionPolicy?: string;
		volumeClaimTemplatesPolicy?: string;
	};
}

interface Owner {
	manager?: string;
	operation?: string;
	time?: string;
	subresource?: string;
}

/** When and by whom it was changed last, as far as its managedFields tell; else when it was made. */
export function lastChange(o: KObject): { at: string | undefined; by: string } {
	const owners = ((o.metadata as { managedFields?: Owner[] }).managedFields ?? []).filter((f) => !f.subresource && f.time);
	owners.sort((a, b) => (a.time! < b.time! ? 1 : -1));
	return { at: owners[0]?.time ?? o.metadata.creationTimestamp, by: owners[0]?.manager ?? "" };
}

export function poolsOf(t: SandboxTemplate, pools: Iterable<SandboxWarmPool>): SandboxWarmPool[] {
	return [...pools]
		.filter((p) => p.metadata.namespace === t.metadata.namespace && p.spec?.sandboxTemplateRef?.name === t.metadata.name)
		.sort((a, b) => a.metadata.name.localeCompare(b.metadata.name, "en", { numeric: true }));
}

export function sandboxesOf(t: SandboxTemplate, all: Iterable<Sandbox>): Sandbox[] {
	return [...all].filter((s) => s.metadata.namespace === t.metadata.namespace && s.metadata.annotations?.[REF] === t.metadata.name);
}

export interface Version {
	hash: string; // "": a claim has taken them, and with that the label went
	count: number;
	first: string;
	last: string;
	state: "current" | "older" | "before" | "since";
	names: string[];
}

/** By the hash of the blueprint. Its value is the controllers' own, so the newest sandbox tells which one is current. */
export function versions(t: SandboxTemplate, made: Sandbox[]): Version[] {
	const changed = lastChange(t).at ?? "";
	const found = new Map<string, Version>();
	for (const s of made) {
		const hash = s.metadata.labels?.[HASH] ?? "";
		const at = s.metadata.creationTimestamp ?? "";
		// Those without a hash are told apart by time alone.
		const key = hash || (at < changed ? "before" : "since");
		const v = found.get(key) ?? { hash, count: 0, first: at, last: at, state: "since", names: [] };
		v.count++;
		v.names.push(s.metadata.name);
		v.first = at < v.first ? at : v.first;
		v.last = at > v.last ? at : v.last;
		found.set(key, v);
	}
	const rows = [...found.values()].sort((a, b) => (a.last < b.last ? 1 : -1));
	const newest = rows.find((v) => v.hash);
	for (const v of rows)
		if (v.hash)
			v.state = v !== newest ? "older" : v.last >= changed ? "current" : "before";
		else
			v.state = v.last < changed ? "before" : "since";
	return rows;
}

/** Seconds from its creation until it was Ready, where nothing tells that it slept meanwhile. */
export function startSeconds(s: Sandbox): number | undefined {
	const made = Date.parse(s.metadata.creationTimestamp ?? "");
	const ready = condition(s, "Ready");
	const at = Date.parse(ready?.lastTransitionTime ?? "");
	const slept = Date.parse(condition(s, "Suspended")?.lastTransitionTime ?? "");
	if (ready?.status !== "True" || Number.isNaN(made) || Number.isNaN(at) || slept - made > 60_000)
		return undefined;
	return Math.max(0, (at - made) / 1000);
}

export function images(t: SandboxTemplate): string[] {
	return [...new Set((t.spec?.podTemplate?.spec?.containers ?? []).map((c) => c.image ?? ""))].filter(Boolean);
}
