// SPDX-License-Identifier: Apache-2.0
// What was used, by day and by whom.
import { useMemo, useState } from "preact/hooks";
import { amountText } from "../../api/amounts.ts";
import { useObjects } from "../../api/collection.ts";
import { ledgers } from "../../api/kinds.ts";
import { saveBlob } from "../../api/save.ts";
import { Button, Missing, Panel } from "../../parts/common.tsx";
import { Bars, ceiling, useWidth } from "../../parts/chart.tsx";
import { now } from "../../state/clock.ts";
import { href, query, setQuery } from "../../state/location.ts";
import { namespace } from "../../state/prefs.ts";
import { text } from "../../text.ts";
import { type Amount, AMOUNTS, amountFormat } from "./amounts.ts";
import { addUp, type By, csv, lastDays, sortBy, type Sums } from "./costs.ts";

const t = text.budgets;
const RANGES = ["7", "30", "90"];
const BYS: By[] = ["agent", "user", "template"];
const SHOWN = 50;

const number = (n: bigint) => Number(n) / 1e9;

function Days(p: { days: { day: string; sums: Sums }[]; amount: Amount }) {
	const [at, width] = useWidth();
	const [near, setNear] = useState<number | undefined>(undefined);
	const format = amountFormat(p.amount);
	const values = p.days.map((d) => number(d.sums[p.amount]));
	const top = ceiling(Math.max(...values));
	const left = 84;
	const height = 150;
	const bottom = height - 18;
	const step = (width - left - 4) / values.length;
	const y = (v: number) => bottom - (v / top) * (bottom - 6);
	const shown = near ?? values.length - 1;
	return (
		<figure class="chart" ref={at}>
			<figcaption>
				<span>{t.amounts[p.amount]}</span>
				<span class="legend">
					<span>
						{p.days[shown]!.day} <b>{format(values[shown]!)}</b>
					</span>
				</span>
			</figcaption>
			<svg
				width={width}
				height={height}
				role="img"
				aria-label={t.perDayOf(t.amounts[p.amount], p.days.map((d, i) => `${d.day}: ${format(values[i]!)}`).join(", "))}
				onMouseMove={(e) => setNear(Math.max(0, Math.min(values.length - 1, Math.floor((e.clientX - e.currentTarget.getBoundingClientRect().left - left) / step))))}
				onMouseLeave={() => setNear(undefined)}
			>
				{[0, 0.5, 1].map((f) => (
					<g key={f} class="grid">
						<line x1={left} x2={width - 4} y1={y(top * f)} y2={y(top * f)} />
						<text x={left - 6} y={y(top * f) + 4} text-anchor="end">
							{format(top * f)}
						</text>
					</g>
				))}
				{values.map((v, i) => (
					<rect key={p.days[i]!.day} class={`column ${near === i ? "near" : ""}`} x={left + i * step + step * 0.12} width={Math.max(1, step * 0.76)} y={y(v)} height={Math.max(0, bottom - y(v))} />
				))}
				<text class="when" x={left} y={height - 3}>
					{p.days[0]!.day}
				</text>
				<text class="when" x={width - 4} y={height - 3} text-anchor="end">
					{p.days[p.days.length - 1]!.day}
				</text>
			</svg>
		</figure>
	);
}

function pick<V extends string>(name: string, all: readonly V[], otherwise: V): V {
	const said = query.value.get(name);
	return all.find((v) => v === said) ?? otherwise;
}

function Pick(p: { label: string; name: string; value: string; of: readonly string[]; show: (v: string) => string }) {
	return (
		<label class="pick">
			<span>{p.label}</span>
			<select value={p.value} onChange={(e) => setQuery({ [p.name]: e.currentTarget.value })}>
				{p.of.map((v) => (
					<option key={v} value={v}>
						{p.show(v)}
					</option>
				))}
			</select>
		</label>
	);
}

export function CostsTab() {
	const ns = namespace.value;
	const all = useObjects(ledgers, ns);
	const range = pick("days", RANGES, "30");
	const by = pick("group", BYS, "agent");
	const amount = pick("amount", AMOUNTS, "cpuSeconds");
	const today = new Date(now.value).toISOString().slice(0, 10);
	const days = useMemo(() => lastDays(Number(range), Date.parse(today)), [range, today]);
	const costs = useMemo(() => addUp(all.objects.values(), by, days), [all, by, days]);
	const rows = sortBy(costs.rows, amount);
	const format = amountFormat(amount);
	const leads = (who: string, rowNs: string) => (!who || who === "(others)" ? {} : by === "agent" ? { href: href(["agents", rowNs, who]) } : by === "template" ? { href: href(["templates", rowNs, who]) } : {});
	return (
		<>
			<div class="actions">
				<Pick label={t.range} name="days" value={range} of={RANGES} show={(v) => t.ranges(v)} />
				<Pick label={t.group} name="group" value={by} of={BYS} show={(v) => t.groups[v as By]} />
				<Pick label={t.amount} name="amount" value={amount} of={AMOUNTS} show={(v) => t.amounts[v as Amount]} />
				<Button disabled={!rows.length} onClick={() => saveBlob(new Blob([csv(rows, by, days[0]!, today)], { type: "text/csv" }), `cost-${by}-${days[0]}-${today}.csv`)}>
					{t.csv}
				</Button>
			</div>
			<Missing snapshot={all} kind={ledgers} ns={ns} />
			{all.state !== "refused" && all.state !== "loading" && (
				<>
					<dl class="totals" aria-label={t.total}>
						{AMOUNTS.map((a) => (
							<div key={a} class={a === amount ? "chosen" : ""}>
								<dt>{t.amounts[a]}</dt>
								<dd data-amount={a} title={amountText(costs.total[a])}>{amountFormat(a)(number(costs.total[a]))}</dd>
							</div>
						))}
					</dl>
					<Panel title={t.perDay}>
						<Days days={costs.days} amount={amount} />
					</Panel>
					<Panel title={t.groups[by]}>
						{rows.length ? (
							<Bars
								title=""
								format={format}
								rows={rows.slice(0, SHOWN).map((r) => ({ label: `${ns ? "" : `${r.ns}/`}${r.who || t.team}`, value: number(r.sums[amount]), ...leads(r.who, r.ns) }))}
							/>
						) : (
							<p class="quiet">{t.nothingUsed}</p>
						)}
						{rows.length > SHOWN && <p class="quiet">{t.moreRows(rows.length - SHOWN)}</p>}
						<p class="quiet small">
							{t.sameAs} <code>{t.command(by, days[0]!, ns)}</code>
						</p>
					</Panel>
				</>
			)}
		</>
	);
}
