// SPDX-License-Identifier: Apache-2.0
// The pools as small multiples: one card each, of which only those in view are drawn.
import { Component } from "preact";
import { useMemo } from "preact/hooks";
import type { Snapshot } from "../../api/collection.ts";
import { pools as poolKind } from "../../api/kinds.ts";
import type { SandboxWarmPool } from "../../api/types.ts";
import { Badge, Missing, Panel } from "../../parts/common.tsx";
import { Lines } from "../../parts/chart.tsx";
import { now, span } from "../../state/clock.ts";
import { href, query, setQuery } from "../../state/location.ts";
import { text } from "../../text.ts";
import { chartStart, desiredOf, dryMs, historyOf } from "./history.ts";
import type { ServerPool, ServerSays } from "./server.ts";
import { SizeButton } from "./size.tsx";
import { Spark, useSeen } from "./spark.tsx";

const t = text.overview;
const RANGES: Record<string, number> = { "5m": 300_000, "15m": 900_000, "1h": 3_600_000 };
const byName = new Intl.Collator("en", { numeric: true }).compare;
const ORDERS = ["name", "ready", "claimed", "dry"] as const;

export function rangeMs(): number {
	return RANGES[query.value.get("range") ?? ""] ?? RANGES["5m"]!;
}

export function RangePicker() {
	return (
		<label class="pick">
			<span>{t.range}</span>
			<select value={query.value.get("range") ?? "5m"} onChange={(e) => setQuery({ range: e.currentTarget.value })}>
				{Object.keys(RANGES).map((r) => (
					<option key={r} value={r}>
						{t.ranges[r as keyof typeof t.ranges]}
					</option>
				))}
			</select>
		</label>
	);
}

/** How often and how long it was dry: since the server's start if it says so, else since the page was opened. */
function DryTimes(p: { uid: string; said: ServerPool | undefined }) {
	const h = historyOf(p.uid);
	const told = p.said?.dryTimes !== undefined;
	const long = told ? (p.said!.dryTotalSeconds ?? 0) : dryMs(h, now.value) / 1000;
	return (
		<p class="quiet small" title={told ? t.sinceServer : t.sincePage}>
			{t.dryTimes(told ? p.said!.dryTimes! : h.dry.length, seconds(long))}
		</p>
	);
}

function seconds(s: number): string {
	return s < 1 ? `${Math.round(s * 1000)} ms` : s < 60 ? `${s.toFixed(1)} s` : span(s);
}

/** Reads the clock, so it is drawn each second; only while it is seen. */
function Drawn(p: { uid: string; name: string; said: ServerPool | undefined; ms: number }) {
	const h = historyOf(p.uid);
	return (
		<>
			<Spark
				height={44}
				span={p.ms}
				bands={h.dry}
				label={t.chartReady(p.name)}
				series={[
					{ label: t.ready, points: h.ready, tone: 2, steps: true },
					{ label: t.desired, points: h.desired, tone: 1, steps: true },
				]}
			/>
			<Spark height={24} span={p.ms} label={t.chartClaimed(p.name)} series={[{ label: t.claimed, points: h.claimed, tone: 4, steps: true }]} />
			<DryTimes uid={p.uid} said={p.said} />
		</>
	);
}

interface CardProps {
	pool: SandboxWarmPool;
	claimed: number;
	said: ServerPool | undefined;
	ms: number;
	withNs: boolean;
}

function Card(p: CardProps) {
	const [at, seen] = useSeen<HTMLLIElement>();
	const { name, namespace = "", uid = "" } = p.pool.metadata;
	const ready = p.pool.status?.readyReplicas ?? 0;
	const desired = desiredOf(p.pool);
	const template = p.pool.spec?.sandboxTemplateRef?.name ?? "";
	return (
		<li class="pool" ref={at}>
			<div class="pool-head">
				<h3 title={`${namespace}/${name}`}>
					{p.withNs && <span class="quiet">{namespace}/</span>}
					{name}
				</h3>
				{desired === 0 ? <Badge tone="idle">{t.off}</Badge> : ready === 0 ? <Badge tone="bad">{t.dry}</Badge> : ready < desired ? <Badge tone="busy">{t.filling}</Badge> : <Badge tone="good">{t.full}</Badge>}
			</div>
			<p class="pool-figures">
				<span class="tone-2">●</span> {t.readyOf(ready, desired)} <span class="tone-4">●</span> {t.claimedNow(p.claimed)}
				{(p.said?.waiting ?? 0) > 0 && <span class="wrong"> {t.waiting(p.said!.waiting!)}</span>}
			</p>
			<div class="pool-charts">{seen && <Drawn uid={uid || `${namespace}/${name}`} name={name} said={p.said} ms={p.ms} />}</div>
			<div class="pool-foot">
				<a class="cut" href={href(["templates", namespace, template])} title={t.templateOf(template)}>
					{template}
				</a>
				<a href={href(["sandboxes"], { ns: namespace, q: name })} aria-label={t.sandboxesOf(name)}>
					{t.sandboxesLink}
				</a>
				{seen && <SizeButton pool={p.pool} />}
			</div>
		</li>
	);
}

const same = (a: ServerPool | undefined, b: ServerPool | undefined) =>
	a === b || (!!a && !!b && a.waiting === b.waiting && a.dryTimes === b.dryTimes && a.dryTotalSeconds === b.dryTotalSeconds);

/** Of many pools, those that changed are drawn again. */
class PoolCard extends Component<CardProps> {
	override shouldComponentUpdate(next: CardProps) {
		const p = this.props;
		return p.pool !== next.pool || p.claimed !== next.claimed || p.ms !== next.ms || p.withNs !== next.withNs || !same(p.said, next.said);
	}

	override render() {
		return <Card {...this.props} />;
	}
}

function Together(p: { ms: number }) {
	const h = historyOf("");
	const to = now.value;
	return (
		<Lines
			title={t.allPools}
			from={chartStart(to, p.ms)}
			to={to}
			height={140}
			format={(v) => String(Math.round(v * 10) / 10)}
			series={[
				{ label: t.ready, points: h.ready, tone: 2, steps: true },
				{ label: t.desired, points: h.desired, tone: 1, steps: true },
				{ label: t.claimed, points: h.claimed, tone: 4, steps: true },
			]}
		/>
	);
}

export function Pools(p: { snapshot: Snapshot<SandboxWarmPool>; claimed: ReadonlyMap<string, number>; server: ServerSays; ns: string }) {
	const find = query.value.get("q") ?? "";
	const by = query.value.get("by") ?? "name";
	const ms = rangeMs();
	const rows = useMemo(() => {
		const words = find.toLowerCase().split(/\s+/).filter(Boolean);
		const found = [...p.snapshot.objects].filter(([key, o]) => words.every((w) => `${key} ${o.spec?.sandboxTemplateRef?.name ?? ""}`.toLowerCase().includes(w)));
		const value = ([key, o]: [string, SandboxWarmPool]): number => {
			const ready = o.status?.readyReplicas ?? 0;
			if (by === "ready")
				return desiredOf(o) ? ready / desiredOf(o) : 2;
			if (by === "claimed")
				return -(p.claimed.get(key) ?? 0);
			if (by === "dry")
				return -(p.server.pools.get(key)?.dryTotalSeconds ?? dryMs(historyOf(o.metadata.uid ?? key), Date.now()) / 1000);
			return 0;
		};
		return found.sort((a, b) => value(a) - value(b) || byName(a[0], b[0]));
	}, [p.snapshot, find, by, by === "dry" ? p.server : undefined, by === "claimed" ? p.claimed : undefined]);
	return (
		<Panel title={t.pools} actions={<RangePicker />}>
			<Missing snapshot={p.snapshot} kind={poolKind} ns={p.ns} />
			{p.snapshot.state !== "refused" && p.snapshot.objects.size > 0 && (
				<>
					<Together ms={ms} />
					<div class="table-bar flat">
						<input type="search" class="find" data-find placeholder={t.findPool} aria-label={t.findPool} value={find} onInput={(e) => setQuery({ q: e.currentTarget.value })} />
						<span class="quiet" role="status">
							{text.list.rows(rows.length, p.snapshot.objects.size)}
						</span>
						<label class="pick">
							<span>{t.order}</span>
							<select value={by} onChange={(e) => setQuery({ by: e.currentTarget.value })}>
								{ORDERS.map((o) => (
									<option key={o} value={o}>
										{t.orders[o]}
									</option>
								))}
							</select>
						</label>
					</div>
					<p class="legend small">
						<span>
							<i class="tone-2" aria-hidden="true" />
							{t.ready}
						</span>
						<span>
							<i class="tone-1" aria-hidden="true" />
							{t.desired}
						</span>
						<span>
							<i class="tone-4" aria-hidden="true" />
							{t.claimed}
						</span>
						<span>
							<i class="band-key" aria-hidden="true" />
							{t.dryMeans}
						</span>
					</p>
					<ul class="pools">
						{rows.map(([key, o]) => (
							<PoolCard key={o.metadata.uid ?? key} pool={o} claimed={p.claimed.get(key) ?? 0} said={p.server.pools.get(key)} ms={ms} withNs={!p.ns} />
						))}
					</ul>
					{!rows.length && <p class="quiet pad">{text.list.noMatch}</p>}
				</>
			)}
			{p.snapshot.state === "live" && !p.snapshot.objects.size && <p class="quiet">{t.noPools}</p>}
		</Panel>
	);
}
