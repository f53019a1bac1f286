// SPDX-License-Identifier: Apache-2.0
// All sessions: those that go on at first, and ended ones if they are asked for.
import { useMemo } from "preact/hooks";
import { keyOf, useObjects } from "../../api/collection.ts";
import { sessions } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import type { Session } from "../../api/types.ts";
import { Age, Badge, Missing, Screen } from "../../parts/common.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { moment } from "../../state/clock.ts";
import { useCommands } from "../../state/commands.ts";
import { go, href, query, setQuery } from "../../state/location.ts";
import { namespace } from "../../state/prefs.ts";
import { text } from "../../text.ts";
import { Plain } from "../approvals/shown.tsx";
import { PHASE_TONES, clockOf, costText, phaseOf, sandboxesOf } from "./words.ts";

const t = text.sessions;
const SHOWN = ["open", "ended", "all"] as const;

function Clock(p: { of: Session }) {
	return <span title={moment(p.of.status?.deleteAt)}>{clockOf(p.of) || text.none}</span>;
}

const columns: Column<Session>[] = [
	{
		id: "title",
		title: t.title,
		width: "2.5fr",
		show: (s) => (
			<span title={s.metadata.name}>
				<Plain text={s.spec?.title || s.metadata.name} />
			</span>
		),
		by: (s) => s.spec?.title || s.metadata.name,
	},
	{ id: "agent", title: t.agent, width: "1.2fr", show: (s) => s.spec?.agent, by: (s) => s.spec?.agent ?? "" },
	{ id: "user", title: t.user, width: "1fr", show: (s) => (s.spec?.user ? <Plain text={s.spec.user} /> : text.none), by: (s) => s.spec?.user ?? "" },
	{ id: "phase", title: t.phase, width: "6.5rem", show: (s) => <Badge tone={PHASE_TONES[phaseOf(s)] ?? "warn"}>{t.phases[phaseOf(s)] ?? phaseOf(s)}</Badge>, by: phaseOf },
	{
		id: "sandbox",
		title: t.sandboxes,
		width: "1.5fr",
		show: (s) => <span title={sandboxesOf(s).join(", ")}>{sandboxesOf(s).join(", ") || text.none}</span>,
		by: (s) => sandboxesOf(s).join(),
	},
	{
		id: "active",
		title: t.lastActivity,
		width: "6.5rem",
		show: (s) => <Age of={s.status?.lastActivity ?? s.metadata.creationTimestamp} />,
		by: (s) => -(Date.parse(s.status?.lastActivity ?? s.metadata.creationTimestamp ?? "") || 0),
	},
	{
		id: "cost",
		title: t.costTitle,
		width: "1.3fr",
		show: (s) => <span title={costText(s.status?.cost)}>{costText(s.status?.cost) || text.none}</span>,
		by: (s) => Number(s.status?.cost?.cpuSeconds ?? 0),
	},
	{ id: "clock", title: t.clock, width: "9rem", show: (s) => <Clock of={s} />, by: (s) => Date.parse(s.status?.deleteAt ?? "") || Infinity },
];
const space: Column<Session> = { id: "ns", title: text.bar.namespace, width: "1fr", show: (s) => s.metadata.namespace, by: (s) => s.metadata.namespace ?? "" };

export function List() {
	const ns = namespace.value;
	const found = useObjects(sessions, ns);
	const shown = SHOWN.find((s) => s === query.value.get("show")) ?? "open";
	const rows = useMemo(() => [...found.objects.values()].filter((s) => shown === "all" || (phaseOf(s) === "Ended") === (shown === "ended")), [found.objects, shown]);
	const allowed = ns ? may("create", sessions, ns) : true;
	useCommands(() => (allowed ? [{ id: "new-session", title: t.new, keys: "n", run: () => go(href(["sessions", "new"])) }] : []), [allowed]);
	const missing = <Missing snapshot={found} kind={sessions} ns={ns} />;
	return (
		<Screen
			title={text.nav.sessions}
			actions={
				allowed === false ? (
					<button type="button" class="button" disabled title={t.needs("create", "sessions", ns)}>
						{t.new}
					</button>
				) : (
					<a class="button" href={href(["sessions", "new"])}>
						{t.new} <kbd>n</kbd>
					</a>
				)
			}
		>
			{missing}
			{(found.state === "live" || found.objects.size > 0) && (
				<Table
					label={text.nav.sessions}
					rows={rows}
					columns={ns ? columns : [columns[0]!, space, ...columns.slice(1)]}
					keyOf={keyOf}
					href={(s) => href(["sessions", s.metadata.namespace ?? "", s.metadata.name])}
					search={(s) => [s.metadata.name, s.spec?.title, s.spec?.agent, s.spec?.user, phaseOf(s), ...sandboxesOf(s)].join(" ")}
					order="active"
					empty={t.empty[shown]}
					actions={
						<label class="pick">
							<span>{t.show}</span>
							<select value={shown} onChange={(e) => setQuery({ show: e.currentTarget.value === "open" ? "" : e.currentTarget.value })}>
								{SHOWN.map((s) => (
									<option key={s} value={s}>
										{t.shown[s]}
									</option>
								))}
							</select>
						</label>
					}
				/>
			)}
		</Screen>
	);
}
