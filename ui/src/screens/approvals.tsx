// SPDX-License-Identifier: Apache-2.0
// What agents wait for: the open questions, oldest first, and what became of the others. The one that is shown is in the address,
// and stays shown when it has been answered, so that no answer meant for it reaches the next.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { keyOf, useObjects } from "../api/collection.ts";
import { approvals } from "../api/kinds.ts";
import type { Approval } from "../api/types.ts";
import { Age, Missing, Screen } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { moment, now } from "../state/clock.ts";
import { useCommands } from "../state/commands.ts";
import { go, href, query } from "../state/location.ts";
import { namespace } from "../state/prefs.ts";
import { text } from "../text.ts";
import { brief, words } from "./approvals/exact.ts";
import { byAge, outcome } from "./approvals/logic.ts";
import { Left, OutcomeBadge, Question } from "./approvals/question.tsx";
import "./approvals/approvals.css";

const t = text.approvals;

function where(a: Approval): string {
	const q = query.value;
	return href(["approvals", a.metadata.namespace ?? "", a.metadata.name], { tab: q.get("tab") ?? "", ns: q.get("ns") ?? "", q: q.get("q") ?? "", by: q.get("by") ?? "" });
}

/** In a few words, for lists. */
function gist(a: Approval): string {
	const s = a.spec ?? {};
	return [s.tool && brief(s.tool), s.host && brief(s.host), s.path && brief(s.path), s.argv && words(s.argv)].filter(Boolean).join(" ") || (s.operation ?? "");
}

function Queue(p: { rows: Approval[]; chosen: string; at: number }) {
	const list = useRef<HTMLUListElement>(null);
	const move = (by: number) => {
		const next = p.rows[Math.max(0, Math.min(p.rows.length - 1, p.at < 0 ? 0 : p.at + by))];
		if (!next)
			return;
		go(where(next), true);
		requestAnimationFrame(() => list.current?.querySelector<HTMLElement>("[aria-current]")?.focus());
	};
	useCommands(
		() => [
			{ id: "next-question", title: t.keys.next, keys: "j", run: () => move(1) },
			{ id: "last-question", title: t.keys.before, keys: "k", run: () => move(-1) },
		],
		[p.rows, p.at],
	);
	const onKey = (e: KeyboardEvent) => {
		if (e.key !== "ArrowDown" && e.key !== "ArrowUp")
			return;
		e.preventDefault();
		move(e.key === "ArrowDown" ? 1 : -1);
	};
	return (
		<ul class="queue" aria-label={t.queue} ref={list} onKeyDown={onKey}>
			{p.rows.map((a) => {
				const became = outcome(a, now.value);
				return (
					<li key={a.metadata.uid ?? keyOf(a)}>
						<a href={where(a)} aria-current={keyOf(a) === p.chosen ? "true" : undefined} title={gist(a)}>
							<span class="who">
								<strong>{a.spec?.agent}</strong> {became === "Open" ? <Left until={a.spec?.expires} /> : <OutcomeBadge of={became} />}
							</span>
							<code class="exact">{gist(a)}</code>
							<span class="quiet">
								{namespace.value ? "" : `${a.metadata.namespace} · `}
								{a.spec?.sandbox ?? ""}
							</span>
						</a>
					</li>
				);
			})}
		</ul>
	);
}

function Open(p: { all: Approval[]; chosen: Approval | undefined; gone: boolean }) {
	const open = p.all.filter((a) => outcome(a, now.value) === "Open").sort(byAge);
	// The shown one keeps its place among them, whatever became of it.
	const rows = p.chosen && !open.some((a) => keyOf(a) === keyOf(p.chosen!)) ? [...open, p.chosen].sort(byAge) : open;
	const first = open[0];
	useEffect(() => {
		if (!p.chosen && !p.gone && first)
			go(where(first), true);
	}, [p.chosen === undefined, p.gone, first && keyOf(first)]);
	const key = p.chosen ? keyOf(p.chosen) : "";
	const at = rows.findIndex((a) => keyOf(a) === key);
	if (!rows.length && !p.gone)
		return <p class="refused">{t.empty}</p>;
	return (
		<div class="questions">
			<Queue rows={rows} chosen={key} at={at} />
			<div>{p.gone ? <p class="refused">{t.gone}</p> : p.chosen && <Question of={p.chosen} key={p.chosen.metadata.uid} />}</div>
		</div>
	);
}

const columns: Column<Approval>[] = [
	{ id: "what", title: t.what, width: "3fr", show: (a) => <code class="exact" title={gist(a)}>{gist(a)}</code>, by: gist },
	{ id: "agent", title: t.agent, width: "1fr", show: (a) => a.spec?.agent, by: (a) => a.spec?.agent ?? "" },
	{ id: "outcome", title: t.answer, width: "9rem", show: (a) => <OutcomeBadge of={outcome(a, now.value)} />, by: (a) => outcome(a, now.value) },
	{ id: "by", title: t.decidedBy, width: "1.5fr", show: (a) => (a.status?.decidedBy ? brief(a.status.decidedBy) : text.none), by: (a) => a.status?.decidedBy ?? "" },
	{
		id: "when",
		title: t.when,
		width: "6rem",
		show: (a) => <Age of={a.status?.decidedAt ?? a.spec?.expires} />,
		by: (a) => Date.parse(a.status?.decidedAt ?? a.spec?.expires ?? "") || 0,
	},
	{ id: "used", title: t.usedTitle, width: "6rem", show: (a) => (a.status?.used ? <span title={moment(a.status.usedAt)}>{t.yes}</span> : t.no), by: (a) => (a.status?.used ? 1 : 0) },
];

function Decided(p: { all: Approval[]; chosen: Approval | undefined }) {
	const rows = useMemo(() => p.all.filter((a) => outcome(a, now.value) !== "Open"), [p.all, Math.floor(now.value / 5000)]);
	return (
		<>
			{p.chosen && outcome(p.chosen, now.value) !== "Open" && <Question of={p.chosen} key={p.chosen.metadata.uid} />}
			<Table
				label={t.decided}
				rows={rows}
				columns={columns}
				keyOf={keyOf}
				href={where}
				search={(a) => [gist(a), a.spec?.agent, a.spec?.session, a.spec?.sandbox, a.status?.decidedBy].join(" ")}
				order="-when"
				empty={t.noneDecided}
			/>
		</>
	);
}

/** The question of the address, also if lists are shown of another namespace. */
function useChosen(rest: string[]): { chosen: Approval | undefined; gone: boolean } {
	const [ns = "", name = ""] = rest;
	const near = useObjects(approvals, ns || namespace.value); // the list itself, as a rule
	const chosen = name ? near.objects.get(`${ns}/${name}`) : undefined;
	return { chosen, gone: !!name && !chosen && near.state === "live" };
}

export function Approvals(p: { rest: string[] }) {
	const ns = namespace.value;
	const found = useObjects(approvals, ns);
	const { chosen, gone } = useChosen(p.rest);
	const all = useMemo(() => [...found.objects.values()], [found.objects]);
	const shown = found.state === "live" || (found.state === "lost" && found.objects.size > 0);
	return (
		<Screen title={text.nav.approvals}>
			<Missing snapshot={found} kind={approvals} ns={ns} />
			{shown && (
				<Tabs
					label={text.nav.approvals}
					tabs={[
						{ id: "open", title: t.open, show: () => <Open all={all} chosen={chosen} gone={gone} /> },
						{ id: "decided", title: t.decided, show: () => <Decided all={all} chosen={chosen} /> },
					]}
				/>
			)}
			{!shown && chosen && <Question of={chosen} key={chosen.metadata.uid} />}
		</Screen>
	);
}
