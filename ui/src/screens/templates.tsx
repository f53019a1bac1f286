// SPDX-License-Identifier: Apache-2.0
// Templates: what sandboxes are made from, and how that goes.
import "./overview.css";
import "./templates.css";
import { useMemo } from "preact/hooks";
import { keyOf, useObjects } from "../api/collection.ts";
import { claims, pools, sandboxes, templates } from "../api/kinds.ts";
import type { SandboxTemplate } from "../api/types.ts";
import { Age, Missing, Screen } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { href } from "../state/location.ts";
import { namespace } from "../state/prefs.ts";
import { text } from "../text.ts";
import { latest, ms, percentiles, remember } from "./overview/claims.ts";
import { desiredOf } from "./overview/history.ts";
import { images, lastChange } from "./templates/facts.ts";
import { OneTemplate } from "./templates/template.tsx";

const t = text.templates;
const REF = "agents.x-k8s.io/sandbox-template-ref";

interface Row {
	of: SandboxTemplate;
	images: string;
	pools: number;
	ready: number;
	desired: number;
	sandboxes: number;
	p50: number;
}

function List() {
	const ns = namespace.value;
	const all = useObjects(templates, ns);
	const allPools = useObjects(pools, ns);
	const allSandboxes = useObjects(sandboxes, ns);
	const allClaims = useObjects(claims, ns);
	const rows = useMemo(() => {
		remember(allClaims.objects.values());
		const byKey = new Map<string, Row>();
		for (const [key, o] of all.objects)
			byKey.set(key, { of: o, images: images(o).join(", "), pools: 0, ready: 0, desired: 0, sandboxes: 0, p50: NaN });
		const templateOf = new Map<string, string>(); // by pool
		for (const [key, p] of allPools.objects) {
			const template = `${p.metadata.namespace}/${p.spec?.sandboxTemplateRef?.name ?? ""}`;
			const row = byKey.get(template);
			templateOf.set(key, template);
			if (row) {
				row.pools++;
				row.ready += p.status?.readyReplicas ?? 0;
				row.desired += desiredOf(p);
			}
		}
		for (const s of allSandboxes.objects.values()) {
			const row = byKey.get(`${s.metadata.namespace}/${s.metadata.annotations?.[REF] ?? ""}`);
			if (row)
				row.sandboxes++;
		}
		const took = new Map<string, number[]>();
		for (const c of latest(ns, 2000)) {
			const template = templateOf.get(`${c.ns}/${c.pool}`) ?? "";
			if (c.warm)
				took.set(template, [...(took.get(template) ?? []), c.ms]);
		}
		for (const [key, row] of byKey)
			row.p50 = percentiles(took.get(key) ?? []).p50;
		return [...byKey.values()];
	}, [all, allPools, allSandboxes, allClaims]);
	const columns: Column<Row>[] = [
		{ id: "name", title: t.name, width: "1.5fr", show: (r) => r.of.metadata.name, by: (r) => r.of.metadata.name },
		...(ns ? [] : [{ id: "ns", title: text.bar.namespace, width: "1fr", show: (r: Row) => r.of.metadata.namespace, by: (r: Row) => r.of.metadata.namespace ?? "" }]),
		{ id: "image", title: t.image, width: "2fr", show: (r) => <bdi title={r.images}>{r.images || text.none}</bdi>, by: (r) => r.images },
		{ id: "pools", title: t.pools, width: "9rem", show: (r) => (r.pools ? t.poolsReady(r.pools, r.ready, r.desired) : text.none), by: (r) => r.desired, end: true },
		{ id: "sandboxes", title: text.nav.sandboxes, width: "6rem", show: (r) => String(r.sandboxes), by: (r) => r.sandboxes, end: true },
		{ id: "p50", title: t.warmP50, width: "8rem", show: (r) => ms(r.p50), by: (r) => (Number.isNaN(r.p50) ? Infinity : r.p50), end: true },
		{ id: "generation", title: t.version, width: "5rem", show: (r) => String(r.of.metadata.generation ?? text.none), by: (r) => r.of.metadata.generation ?? 0, end: true },
		{ id: "changed", title: t.changed, width: "7rem", show: (r) => <Age of={lastChange(r.of).at} />, by: (r) => -Date.parse(lastChange(r.of).at ?? ""), end: true },
	];
	return (
		<Screen title={text.nav.templates}>
			<Missing snapshot={all} kind={templates} ns={ns} />
			{all.state !== "refused" && all.state !== "loading" && (
				<Table
					label={text.nav.templates}
					rows={rows}
					columns={columns}
					keyOf={(r) => keyOf(r.of)}
					href={(r) => href(["templates", r.of.metadata.namespace ?? "", r.of.metadata.name])}
					search={(r) => `${keyOf(r.of)} ${r.images}`}
					order="name"
					empty={t.none}
				/>
			)}
		</Screen>
	);
}

export function Templates(p: { rest: string[] }) {
	const [ns, name] = p.rest;
	return ns && name ? <OneTemplate ns={ns} name={name} /> : <List />;
}
