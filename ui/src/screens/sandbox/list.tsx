// SPDX-License-Identifier: Apache-2.0
// All sandboxes of a namespace, or of all of them.
import { useMemo, useState } from "preact/hooks";
import { figure } from "../../api/amounts.ts";
import { keyOf, useObjects } from "../../api/collection.ts";
import { attachments, claims, events, podMetrics, sandboxes, sessions } from "../../api/kinds.ts";
import { Age, Badge, Button, Missing, Screen } from "../../parts/common.tsx";
import { Table, type Column } from "../../parts/table.tsx";
import { moment, since, span } from "../../state/clock.ts";
import { useCommands } from "../../state/commands.ts";
import { go, href, query, setQuery } from "../../state/location.ts";
import { namespace } from "../../state/prefs.ts";
import { text } from "../../text.ts";
import { RowMenu } from "./actions.tsx";
import { CreateDialog } from "./create.tsx";
import { lastWarnings, rowsOf, type Row } from "./rows.ts";
import { STATES, TONES, type Clock, type Owner, type State } from "./state.ts";

const t = text.sandboxes;
const WARNINGS = { fields: "type=Warning" };
const PALETTE_MAX = 500; // the palette draws what it finds, and nobody reads more

export function StateBadge(p: { state: State }) {
	return <Badge tone={TONES[p.state]}>{t.states[p.state]}</Badge>;
}

export function TimeLeft(p: { clock: Clock | undefined }) {
	if (!p.clock)
		return null;
	const left = -since(p.clock.at);
	const said = p.clock.then === "expires" ? t.expiresIn : t.deletedIn;
	return (
		<time dateTime={p.clock.at} title={moment(p.clock.at)}>
			{left > 0 ? said(span(left)) : t.deletedNow}
		</time>
	);
}

export function ownerText(o: Owner | undefined): string {
	return o ? `${t.owners[o.kind]} ${o.name}${o.of ? ` ${t.of(o.of)}` : ""}` : "";
}

function columns(allNamespaces: boolean, menu: (r: Row, at: DOMRect) => void): Column<Row>[] {
	const all: (Column<Row> | false)[] = [
		{
			id: "name",
			title: t.name,
			width: "2.6fr",
			by: (r) => r.name,
			show: (r) => (
				<span title={r.sandbox && r.name !== r.sandbox.metadata.name ? `${r.name} (${r.sandbox.metadata.name})` : r.name}>
					{r.name}
					{r.sandbox && r.name !== r.sandbox.metadata.name && <span class="quiet"> {r.sandbox.metadata.name}</span>}
				</span>
			),
		},
		allNamespaces && { id: "ns", title: t.namespace, width: "1fr", by: (r) => r.ns, show: (r) => <span title={r.ns}>{r.ns}</span> },
		{ id: "state", title: t.state, width: "6.2rem", by: (r) => STATES.indexOf(r.state), show: (r) => <StateBadge state={r.state} /> },
		{ id: "why", title: t.why, width: "2.2fr", show: (r) => <span title={[r.why.sentence, r.why.fix].filter(Boolean).join("\n")}>{r.spare && r.state === "ready" ? t.spare : r.why.sentence}</span> },
		{ id: "owner", title: t.owner, width: "1.4fr", by: (r) => ownerText(r.owner), show: (r) => <span title={ownerText(r.owner)}>{ownerText(r.owner)}</span> },
		{
			id: "template",
			title: t.template,
			width: "1fr",
			by: (r) => r.template || r.pool,
			show: (r) => (
				<span title={[r.template && `${t.template}: ${r.template}`, r.pool && `${t.pool}: ${r.pool}`].filter(Boolean).join("\n")}>
					{r.template}
					{r.pool && r.pool !== r.template && <span class="quiet"> {r.pool}</span>}
				</span>
			),
		},
		{ id: "cpu", title: t.cpu, width: "4.4rem", end: true, by: (r) => (Number.isNaN(r.cpu) ? -1 : r.cpu), show: (r) => !Number.isNaN(r.cpu) && <span title={t.cpuHint(String(r.cpu))}>{r.cpu > 0 && r.cpu < 0.01 ? "<0.01" : r.cpu < 100 ? r.cpu.toFixed(2) : figure(r.cpu)} s</span> },
		{ id: "clock", title: t.clock, width: "10.6rem", by: (r) => (r.clock ? Date.parse(r.clock.at) : Infinity), show: (r) => <TimeLeft clock={r.clock} /> },
		{ id: "age", title: t.age, width: "4.6rem", end: true, by: (r) => -(Date.parse(r.made) || 0), show: (r) => <Age of={r.made} /> },
		{
			id: "do",
			title: t.actions,
			width: "2.2rem",
			show: (r) => (
				<button type="button" class="button plain dots" aria-haspopup="menu" aria-label={t.actionsOf(r.name)} title={t.actionsOf(r.name)} onClick={(e) => menu(r, e.currentTarget.getBoundingClientRect())}>
					⋯
				</button>
			),
		},
	];
	return all.filter((c) => c !== false);
}

/** The rows, live. Claims, sessions and measurements may be missing or refused: then what they tell is. */
function useRows(ns: string) {
	const boxes = useObjects(sandboxes, ns);
	const c = useObjects(claims, ns).objects;
	const s = useObjects(sessions, ns).objects;
	const a = useObjects(attachments, ns).objects;
	const m = useObjects(podMetrics, ns).objects;
	const e = useObjects(events, ns, WARNINGS).objects;
	const warnings = useMemo(() => lastWarnings(e.values()), [e]);
	const rows = useMemo(() => rowsOf(boxes.objects, { claims: c, sessions: s, attachments: a, metrics: m, warnings }), [boxes.objects, c, s, a, m, warnings]);
	return { boxes, rows };
}

export function SandboxList() {
	const ns = namespace.value;
	const { boxes, rows } = useRows(ns);
	const [menu, setMenu] = useState<{ row: Row; at: DOMRect } | undefined>();
	const state = query.value.get("state") ?? "";
	const pool = query.value.get("show") === "pool";
	const creating = query.value.has("new");
	const shown = useMemo(() => rows.filter((r) => (pool || !r.spare) && (!state || r.state === state)), [rows, pool, state]);
	const cols = useMemo(() => columns(!ns, (row, at) => setMenu({ row, at })), [ns]);
	const make = () => setQuery({ new: "1" }, false);
	useCommands(
		() => [
			{ id: "new-sandbox", title: t.make, keys: "n", run: make },
			...rows
				.filter((r) => !r.spare)
				.slice(0, PALETTE_MAX)
				.map((r) => ({ id: `open-${r.ns}-${r.link}`, title: t.openOne(r.name), hint: t.states[r.state], run: () => go(href(["sandboxes", r.ns, r.link])) })),
		],
		[rows],
	);
	const inState = (s: State) => rows.filter((r) => r.state === s && (pool || !r.spare)).length;
	const filters = (
		<>
			<label class="pick">
				<span>{t.filter}</span>
				<select value={state} onChange={(e) => setQuery({ state: e.currentTarget.value })}>
					<option value="">{t.anyState}</option>
					{STATES.map((s) => (
						<option key={s} value={s}>
							{t.states[s]} ({inState(s)})
						</option>
					))}
				</select>
			</label>
			<label class="pick">
				<input type="checkbox" checked={pool} onChange={(e) => setQuery({ show: e.currentTarget.checked ? "pool" : "" })} />
				<span>{t.showPool}</span>
			</label>
		</>
	);
	const blocked = boxes.state !== "live" && !rows.length;
	return (
		<Screen
			title={text.nav.sandboxes}
			actions={
				<Button kind="main" onClick={make}>
					{t.make} <kbd aria-hidden="true">n</kbd>
				</Button>
			}
		>
			{blocked ? (
				<Missing snapshot={boxes} kind={sandboxes} ns={ns} />
			) : (
				<div class="sandbox-list">
					<Table
						label={t.label}
						rows={shown}
						columns={cols}
						keyOf={(r) => (r.sandbox ? keyOf(r.sandbox) : `${r.ns}/${r.name}?`)}
						href={(r) => href(["sandboxes", r.ns, r.link])}
						search={(r) => [r.name, r.link, r.ns, t.states[r.state], r.why.sentence, ownerText(r.owner), r.template, r.pool].join(" ")}
						order="age"
						actions={filters}
						empty={rows.some((r) => r.spare) && !state ? t.onlyPool : state ? text.list.noMatch : t.empty}
					/>
				</div>
			)}
			{menu && <RowMenu key={`${menu.row.ns}/${menu.row.link}`} row={menu.row} at={menu.at} onClose={() => setMenu(undefined)} />}
			{creating && <CreateDialog ns={ns} chosen={query.value.get("from") ?? ""} onClose={() => setQuery({ new: "", from: "" })} />}
		</Screen>
	);
}
