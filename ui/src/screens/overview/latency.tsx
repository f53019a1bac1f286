// SPDX-License-Identifier: Apache-2.0
// How long the last claims took: a point for each, on a logarithmic scale, and the latest as a list.
import { useState } from "preact/hooks";
import type { Snapshot } from "../../api/collection.ts";
import { claims as claimKind } from "../../api/kinds.ts";
import { condition, type SandboxClaim } from "../../api/types.ts";
import { Age, Badge, Missing, Panel } from "../../parts/common.tsx";
import { useWidth } from "../../parts/chart.tsx";
import { moment } from "../../state/clock.ts";
import { href, query, setQuery } from "../../state/location.ts";
import { text } from "../../text.ts";
import { latest, ms, percentiles, type Took } from "./claims.ts";
import type { ServerSays } from "./server.ts";

const t = text.overview;
const COUNTS = ["100", "500", "2000"];
const LISTED = 50;

export function LatencyChart(p: { of: Took[]; height?: number }) {
	const [at, width] = useWidth();
	const [near, setNear] = useState<Took | undefined>(undefined);
	const rows = [...p.of].reverse(); // the oldest at the left
	const height = p.height ?? 160;
	const left = 60;
	const bottom = height - 8;
	const values = rows.map((r) => Math.max(r.ms, 1e-3));
	const low = Math.floor(Math.log10(values.reduce((a, b) => Math.min(a, b), Infinity)));
	const high = Math.max(low + 1, Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b), 0))));
	const x = (i: number) => left + 6 + (i / Math.max(1, rows.length - 1)) * (width - left - 14);
	const y = (v: number) => bottom - ((Math.log10(Math.max(v, 1e-3)) - low) / (high - low)) * (bottom - 8);
	const pc = percentiles(values);
	// One path for all of a kind: a line of no length is drawn as its cap.
	const dots = (warm: boolean) => rows.map((r, i) => ((r.warm !== false) === warm ? `M${x(i).toFixed(1)} ${y(r.ms).toFixed(1)}h0` : "")).join("");
	const point = (e: MouseEvent) => {
		const box = (e.currentTarget as Element).getBoundingClientRect();
		const i = Math.round(((e.clientX - box.left - left - 6) / Math.max(1, width - left - 14)) * (rows.length - 1));
		setNear(rows[Math.max(0, Math.min(rows.length - 1, i))]);
	};
	return (
		<figure class="chart" ref={at}>
			<figcaption>
				<span>{near ? t.claimRead(near.name, ms(near.ms), moment(near.at)) : t.latencyOf(rows.length)}</span>
				<span class="legend">
					<span>
						p50 <b>{ms(pc.p50)}</b>
					</span>
					<span>
						p95 <b>{ms(pc.p95)}</b>
					</span>
					<span>
						p99 <b>{ms(pc.p99)}</b>
					</span>
				</span>
			</figcaption>
			<svg width={width} height={height} role="img" aria-label={`${t.latencyOf(rows.length)}: p50 ${ms(pc.p50)}, p95 ${ms(pc.p95)}, p99 ${ms(pc.p99)}`} onMouseMove={point} onMouseLeave={() => setNear(undefined)}>
				{Array.from({ length: high - low + 1 }, (_, i) => low + i).map((e) => (
					<g key={e} class="grid">
						<line x1={left} x2={width - 4} y1={y(10 ** e)} y2={y(10 ** e)} />
						<text x={left - 6} y={y(10 ** e) + 4} text-anchor="end">
							{10 ** e >= 1 ? 10 ** e : (10 ** e).toFixed(-e)} ms
						</text>
					</g>
				))}
				{[pc.p50, pc.p95, pc.p99].map((v, i) => (
					<line key={i} class={`percent percent-${i}`} x1={left} x2={width - 4} y1={y(v)} y2={y(v)} />
				))}
				<path class="claim-dots tone-1" d={dots(true)} />
				<path class="claim-dots square tone-3" d={dots(false)} />
				{near && <circle class="dot-near" cx={x(rows.indexOf(near))} cy={y(near.ms)} r={5} />}
			</svg>
		</figure>
	);
}

export function Claims(p: { snapshot: Snapshot<SandboxClaim>; server: ServerSays; ns: string }) {
	const said = query.value.get("last") ?? "";
	const count = Number(COUNTS.includes(said) ? said : "500");
	const took = latest(p.ns, count);
	const waiting = [...p.snapshot.objects.values()].filter((c) => condition(c, "Ready")?.status !== "True" && !c.status?.sandbox?.name);
	return (
		<Panel
			title={t.claims}
			actions={
				<label class="pick">
					<span>{t.last}</span>
					<select value={String(count)} onChange={(e) => setQuery({ last: e.currentTarget.value })}>
						{COUNTS.map((n) => (
							<option key={n} value={n}>
								{n}
							</option>
						))}
					</select>
				</label>
			}
		>
			<Missing snapshot={p.snapshot} kind={claimKind} ns={p.ns} />
			{took.length > 0 && <LatencyChart of={took} />}
			{took.length > 0 && (
				<p class="legend small">
					<span>
						<i class="tone-1" aria-hidden="true" />
						{t.warm}
					</span>
					<span>
						<i class="tone-3 square" aria-hidden="true" />
						{t.cold}
					</span>
					{p.server.lastMinute !== undefined && <span>{t.lastMinute(p.server.lastMinute)}</span>}
					<span>{t.latencyMeans}</span>
				</p>
			)}
			{waiting.length > 0 && (
				<>
					<h3>{t.waitingClaims(waiting.length)}</h3>
					<ul class="plain-list">
						{waiting.slice(0, 20).map((c) => (
							<li key={c.metadata.uid} class="wrap">
								<b>{c.metadata.name}</b> <Age of={c.metadata.creationTimestamp} /> <span class="quiet">{condition(c, "Ready")?.message ?? ""}</span>
							</li>
						))}
					</ul>
				</>
			)}
			{took.length > 0 && (
				<div class="scrolled" tabIndex={0} role="region" aria-label={t.latest}>
					<table class="figures">
						<caption class="hidden">{t.latest}</caption>
						<thead>
							<tr>
								<th scope="col">{t.claim}</th>
								<th scope="col">{t.pool}</th>
								<th scope="col">{t.start}</th>
								<th scope="col" class="end">
									{t.took}
								</th>
								<th scope="col" class="end">
									{t.ago}
								</th>
							</tr>
						</thead>
						<tbody>
							{took.slice(0, LISTED).map((r) => (
								<tr key={`${r.ns}/${r.name}@${r.at}`}>
									<td class="cut" title={`${r.ns}/${r.name}`}>
										{r.sandbox ? <a href={href(["sandboxes", r.ns, r.sandbox])}>{r.name}</a> : r.name}
									</td>
									<td class="cut" title={r.pool}>
										{r.pool || text.none}
									</td>
									<td>{r.warm === undefined ? text.none : r.warm ? <Badge tone="good">{t.warm}</Badge> : <Badge tone="warn">{t.cold}</Badge>}</td>
									<td class="end mono">{ms(r.ms)}</td>
									<td class="end">
										<Age of={new Date(r.at).toISOString()} />
									</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
			{p.snapshot.state === "live" && !took.length && !waiting.length && <p class="quiet">{t.noClaims}</p>}
		</Panel>
	);
}
