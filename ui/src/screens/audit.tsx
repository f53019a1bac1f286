// SPDX-License-Identifier: Apache-2.0
// Who did what: the audit log as it grows, with filters that are in the address.
import "./audit.css";
import { useMemo, useRef, useState } from "preact/hooks";
import { Badge, Button, Screen } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { plain } from "../parts/plain.ts";
import { moment } from "../state/clock.ts";
import { useCommands } from "../state/commands.ts";
import { href, query, setQuery } from "../state/location.ts";
import { attempt } from "../state/notices.ts";
import { namespace } from "../state/prefs.ts";
import { text } from "../text.ts";
import { RecordDialog } from "./audit/record.tsx";
import { type AuditRecord, type Filters, type Log, useLog } from "./audit/records.ts";
import { useVerify, VerdictPanel, VerifyButton } from "./audit/verify.tsx";

const t = text.audit;
const TEXTS = ["user", "agent", "sandbox"] as const;
const VERBS = ["create", "update", "patch", "delete", "deletecollection", "connect"];
const SINCE = ["", "15m", "1h", "24h", "168h"];

function filtersNow(): Filters {
	const q = query.value;
	const said = (k: string) => (q.get(k) ?? "").trim();
	return { user: said("user"), agent: said("agent"), sandbox: said("sandbox"), namespace: namespace.value, verb: said("verb"), refused: said("refused") === "true" ? "true" : "", since: said("since") };
}

/** What a record is about, in the words of a Role. */
function about(r: AuditRecord): string {
	if (r.lost !== undefined)
		return t.lostHere(r.lost);
	if (!r.verb && !r.resource)
		return Object.keys(r).includes("torn") ? t.torn : t.ofTheChain;
	const what = [r.resource, r.subresource].filter(Boolean).join("/");
	return plain(`${what}${r.name ? ` ${r.namespace ? `${r.namespace}/` : ""}${r.name}` : r.namespace ? ` ${r.namespace}` : ""}`);
}

function Status(p: { of: AuditRecord }) {
	const { status } = p.of;
	if (status === undefined)
		return <>{text.none}</>;
	return <Badge tone={status >= 500 ? "warn" : status >= 400 ? "bad" : "good"}>{status >= 400 ? t.refusedWith(status) : String(status)}</Badge>;
}

/** To the millisecond: many records are of one second. */
function short(time: string | undefined): string {
	const d = new Date(time ?? NaN);
	return Number.isNaN(d.getTime()) ? "" : d.toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
}

const columns: Column<AuditRecord>[] = [
	{ id: "n", title: t.number, width: "5.5rem", show: (r) => String(r.n), by: (r) => r.n },
	{
		id: "time",
		title: t.time,
		width: "11.5rem",
		show: (r) => (
			<time dateTime={r.time} title={moment(r.time)}>
				{short(r.time)}
			</time>
		),
	},
	{ id: "user", title: t.user, width: "1.4fr", show: (r) => <bdi title={plain(r.user ?? "")}>{plain(r.user ?? "")}{r.as ? ` ${t.as(plain(r.as))}` : ""}</bdi> },
	{ id: "verb", title: t.verb, width: "6.5rem", show: (r) => plain(r.verb ?? "") },
	{ id: "what", title: t.what, width: "2.4fr", show: (r) => <bdi title={about(r)}>{about(r)}</bdi> },
	{ id: "status", title: t.status, width: "8.5rem", show: (r) => <Status of={r} /> },
	{ id: "note", title: t.note, width: "1.4fr", show: (r) => <bdi title={plain(r.note ?? "")}>{plain(r.note ?? "")}</bdi> },
];

function FilterBar(p: { filters: Filters }) {
	const f = p.filters;
	const some = f.user || f.agent || f.sandbox || f.verb || f.refused || f.since;
	return (
		<div class="audit-filters" role="search" aria-label={t.filters}>
			{TEXTS.map((k) => (
				<label class="pick" key={k}>
					<span>{t[k]}</span>
					<input value={f[k]} spellcheck={false} autocomplete="off" onChange={(e) => setQuery({ [k]: e.currentTarget.value.trim() })} />
				</label>
			))}
			<label class="pick">
				<span>{t.verb}</span>
				<select value={f.verb} onChange={(e) => setQuery({ verb: e.currentTarget.value })}>
					<option value="">{t.anyVerb}</option>
					{[...new Set([...VERBS, ...(f.verb ? [f.verb] : [])])].map((v) => (
						<option key={v} value={v}>
							{v}
						</option>
					))}
				</select>
			</label>
			<label class="pick">
				<span>{t.since}</span>
				<select value={f.since} onChange={(e) => setQuery({ since: e.currentTarget.value })}>
					{[...new Set([...SINCE, f.since])].map((s) => (
						<option key={s} value={s}>
							{t.sinces[s as keyof typeof t.sinces] ?? s}
						</option>
					))}
				</select>
			</label>
			<label class="pick">
				<input type="checkbox" checked={!!f.refused} onChange={(e) => setQuery({ refused: e.currentTarget.checked ? "true" : "" })} />
				<span>{t.onlyRefused}</span>
			</label>
			{some && <Button onClick={() => setQuery({ user: "", agent: "", sandbox: "", verb: "", refused: "", since: "" })}>{t.clear}</Button>}
		</div>
	);
}

function Refused(p: { log: Log; ns: string }) {
	const code = p.log.error?.code;
	return (
		<div class="refused" role="status">
			<p>
				<strong>{code === 404 ? t.noLog : code === 403 ? t.notAllowed : t.wrongFilter}</strong>
			</p>
			<p>{code === 404 ? t.noLogHint : code === 403 ? (p.ns ? t.rightIn(p.ns) : t.rightAll) : ""}</p>
			<p class="quiet wrap">{plain(p.log.error?.message ?? "")}</p>
		</div>
	);
}

export function Audit() {
	const filters = filtersNow();
	const { log, older } = useLog(filters);
	const verify = useVerify();
	const [asking, setAsking] = useState(false);
	const paused = query.value.get("live") === "off";
	const frozen = useRef<AuditRecord[] | undefined>(undefined);
	if (!paused)
		frozen.current = undefined;
	else if (!frozen.current || (frozen.current[0] && log.records[0] && log.records[0].n < frozen.current[0].n))
		frozen.current = frozen.current ? [...log.records.filter((r) => r.n < frozen.current![0]!.n), ...frozen.current] : log.records;
	const shown = frozen.current ?? log.records;
	const rows = useMemo(() => [...shown].reverse(), [shown]);
	const waiting = paused ? log.records.length - shown.length : 0;
	const n = Number(query.value.get("n") ?? NaN);
	const more = async () => {
		setAsking(true);
		await attempt(older);
		setAsking(false);
	};
	useCommands(() => [{ id: "audit-verify", title: t.verify, run: verify.start }], []);
	const link = (r: AuditRecord) => {
		const q = Object.fromEntries(query.value);
		return href(["audit"], { ...q, n: String(r.n) });
	};
	return (
		<Screen title={text.nav.audit} actions={<VerifyButton verify={verify} />}>
			<VerdictPanel verify={verify} />
			<FilterBar filters={filters} />
			{log.state === "refused" ? (
				<Refused log={log} ns={filters.namespace} />
			) : (
				<Table
					label={text.nav.audit}
					rows={rows}
					columns={columns}
					keyOf={(r) => String(r.n)}
					href={link}
					search={(r) => JSON.stringify(r)}
					empty={log.state === "asking" ? text.loading : log.before !== undefined ? t.noneYetOlder : t.nothing}
					actions={
						<>
							<span class="quiet" role="status">
								{log.state === "live" ? (paused ? t.pausedWith(Math.max(0, waiting)) : t.live) : log.state === "lost" ? t.lost : ""}
							</span>
							<Button onClick={() => setQuery({ live: paused ? "" : "off" })}>{paused ? t.goOn : t.pause}</Button>
							<Button disabled={asking || log.before === undefined} onClick={more}>
								{log.before === undefined ? t.allShown : asking ? text.loading : t.older}
							</Button>
						</>
					}
				/>
			)}
			{log.gaps.map((g) => (
				<p key={g.from} class="wrong">
					{t.gap(g.from, g.to)}
				</p>
			))}
			{Number.isInteger(n) && n >= 0 && query.value.get("n") && <RecordDialog n={n} known={log.records.find((r) => r.n === n)} namespace={filters.namespace} onClose={() => setQuery({ n: "" })} />}
		</Screen>
	);
}
