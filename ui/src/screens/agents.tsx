// SPDX-License-Identifier: Apache-2.0
// Who acts: /agents, /agents/NAMESPACE/NAME.
import { useMemo } from "preact/hooks";
import { keyOf, useObjects } from "../api/collection.ts";
import { agents, approvals } from "../api/kinds.ts";
import { type Agent, condition } from "../api/types.ts";
import { Badge, Missing, Screen } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { now } from "../state/clock.ts";
import { href } from "../state/location.ts";
import { namespace } from "../state/prefs.ts";
import { text } from "../text.ts";
import { chainOf } from "./agents/capabilities.ts";
import { Page, Verified } from "./agents/page.tsx";
import { outcome } from "./approvals/logic.ts";
import { modeOf } from "./sessions/words.ts";
import "./agents/agents.css";

const t = text.agents;

function List() {
	const ns = namespace.value;
	const found = useObjects(agents, ns);
	const asked = useObjects(approvals, ns);
	const rows = useMemo(() => [...found.objects.values()], [found.objects, asked.objects]); // sorted by both
	const open = new Map<string, number>();
	for (const a of asked.objects.values())
		if (outcome(a, now.value) === "Open") {
			const key = `${a.metadata.namespace ?? ""}/${a.spec?.agent ?? ""}`;
			open.set(key, (open.get(key) ?? 0) + 1);
		}
	const columns: Column<Agent>[] = [
		{ id: "name", title: t.name, width: "1.5fr", show: (a) => a.metadata.name, by: (a) => a.metadata.name },
		...(ns ? [] : [{ id: "ns", title: text.bar.namespace, width: "1fr", show: (a: Agent) => a.metadata.namespace, by: (a: Agent) => a.metadata.namespace ?? "" }]),
		{
			id: "ready",
			title: t.state,
			width: "6.5rem",
			show: (a) => {
				const ready = condition(a, "Ready");
				return (
					<span title={ready?.message}>
						<Badge tone={ready?.status === "True" ? "good" : "warn"}>{ready?.status === "True" ? t.ready : t.notReady}</Badge>
					</span>
				);
			},
			by: (a) => condition(a, "Ready")?.status ?? "",
		},
		{ id: "verified", title: t.verified, width: "7rem", show: (a) => <Verified of={a} />, by: (a) => (a.status?.verified ? 1 : 0) },
		{ id: "parent", title: t.parent, width: "1fr", show: (a) => a.spec?.parent ?? text.none, by: (a) => a.spec?.parent ?? "" },
		{ id: "mode", title: t.mode, width: "2fr", show: (a) => <span title={modeOf(a)}>{text.sessions.modeNames[modeOf(a)] ?? modeOf(a)}</span>, by: modeOf },
		{
			id: "budget",
			title: t.budget,
			width: "1fr",
			show: (a) => {
				const payer = chainOf(a, found.objects).agents.find((x) => x.spec?.budget);
				return <span title={payer && payer !== a ? t.whose.parent(payer.metadata.name) : ""}>{payer?.spec?.budget ?? text.none}</span>;
			},
			by: (a) => chainOf(a, found.objects).agents.find((x) => x.spec?.budget)?.spec?.budget ?? "",
		},
		{ id: "sandboxes", title: t.sandboxes, width: "6rem", end: true, show: (a) => a.status?.sandboxes ?? text.none, by: (a) => a.status?.sandboxes ?? 0 },
		{ id: "open", title: t.questions, width: "8rem", end: true, show: (a) => open.get(keyOf(a)) ?? 0, by: (a) => open.get(keyOf(a)) ?? 0 },
	];
	return (
		<Screen title={text.nav.agents}>
			<Missing snapshot={found} kind={agents} ns={ns} />
			{(found.state === "live" || found.objects.size > 0) && (
				<Table
					label={text.nav.agents}
					rows={rows}
					columns={columns}
					keyOf={keyOf}
					href={(a) => href(["agents", a.metadata.namespace ?? "", a.metadata.name])}
					search={(a) => [a.metadata.name, a.spec?.parent, modeOf(a), a.spec?.budget].join(" ")}
					order="name"
					empty={t.empty}
				/>
			)}
		</Screen>
	);
}

export function Agents(p: { rest: string[] }) {
	const [ns = "", name = ""] = p.rest;
	return name ? <Page ns={ns} name={name} key={`${ns}/${name}`} /> : <List />;
}
