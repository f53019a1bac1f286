// SPDX-License-Identifier: Apache-2.0
// A budget: what is used of it, by whom, and what follows when it is used up.
import { amount } from "../../api/amounts.ts";
import { useObject, useObjects } from "../../api/collection.ts";
import { agents, budgets, policies } from "../../api/kinds.ts";
import { type Agent, type Budget, condition, type TeamPolicy } from "../../api/types.ts";
import { Badge, Facts, Missing, Panel, Screen } from "../../parts/common.tsx";
import { Bars } from "../../parts/chart.tsx";
import { moment, now, span } from "../../state/clock.ts";
import { href, query, setQuery } from "../../state/location.ts";
import { text } from "../../text.ts";
import { type Amount, AMOUNTS, agentsOf, amountFormat, until } from "./amounts.ts";
import { LimitsButton } from "./limits.tsx";

const t = text.budgets;

/** A bar for each amount that has a limit, and what is used of the others. */
export function Uses(p: { budget: Budget; all: Agent[]; policies: TeamPolicy[]; everything?: boolean }) {
	const limits = p.budget.spec?.limits ?? {};
	const used = p.budget.status?.used ?? {};
	const counted = agentsOf(p.budget, p.all, p.policies).reduce((n, a) => n + (a.status?.sandboxes ?? 0), 0);
	const limited = AMOUNTS.filter((a) => limits[a] !== undefined);
	const open = AMOUNTS.filter((a) => limits[a] === undefined);
	return (
		<div class="uses">
			{limited.map((a) => (
				<Bars key={a} title="" format={amountFormat(a)} rows={[{ label: t.amounts[a], value: amount(used[a]), of: amount(limits[a]), bad: amount(used[a]) >= amount(limits[a]) }]} />
			))}
			{limits.maxSandboxes !== undefined && (
				<Bars title="" format={amountFormat("maxSandboxes")} rows={[{ label: t.amounts.maxSandboxes, value: counted, of: amount(limits.maxSandboxes), bad: counted >= amount(limits.maxSandboxes) }]} />
			)}
			{p.everything && open.length > 0 && <p class="quiet">{t.unlimited(open.map((a) => `${t.amounts[a]} ${amountFormat(a)(amount(used[a]))}`).join(", "))}</p>}
			{!limited.length && limits.maxSandboxes === undefined && !p.everything && <p class="quiet">{t.noLimits}</p>}
		</div>
	);
}

export function State(p: { budget: Budget }) {
	if (p.budget.status?.exceeded === undefined)
		return <Badge tone="idle">{t.notCounted}</Badge>;
	return p.budget.status.exceeded ? <Badge tone="bad">{t.exceeded}</Badge> : <Badge tone="good">{t.within}</Badge>;
}

export function period(b: Budget): string {
	const end = until(b);
	if (!b.spec?.period)
		return t.forever;
	return end === undefined ? t.every(b.spec.period) : t.untilWhen(b.spec.period, moment(end), span(Math.max(0, end - now.value) / 1000));
}

export function means(b: Budget): string {
	const action = (b.spec?.onExceeded ?? "Suspend") as keyof typeof t.actions;
	return t.actions[action] ?? action;
}

function ByAgent(p: { budget: Budget; ns: string }) {
	const said = query.value.get("amount");
	const chosen: Amount = AMOUNTS.find((a) => a === said) ?? "cpuSeconds";
	const rows = (p.budget.status?.usedByAgent ?? []).map((r) => ({ label: r.agent || t.team, value: amount(r[chosen]), ...(r.agent ? { href: href(["agents", p.ns, r.agent]) } : {}) })).sort((a, b) => b.value - a.value);
	return (
		<Panel
			title={t.byAgent}
			actions={
				<label class="pick">
					<span>{t.amount}</span>
					<select value={chosen} onChange={(e) => setQuery({ amount: e.currentTarget.value })}>
						{AMOUNTS.map((a) => (
							<option key={a} value={a}>
								{t.amounts[a]}
							</option>
						))}
					</select>
				</label>
			}
		>
			{rows.length ? <Bars title="" format={amountFormat(chosen)} rows={rows} /> : <p class="quiet">{t.nobodyYet}</p>}
		</Panel>
	);
}

export function OneBudget(p: { ns: string; name: string }) {
	const found = useObject(budgets, p.ns, p.name);
	const all = useObjects(agents, p.ns);
	const team = useObjects(policies, p.ns);
	const b = found.object;
	if (!b)
		return (
			<Screen title={p.name}>
				<Missing snapshot={found} kind={budgets} ns={p.ns} />
				{found.state === "live" && <p class="refused">{t.gone}</p>}
			</Screen>
		);
	const says = condition(b, "Exceeded");
	const counted = agentsOf(b, all.objects.values(), team.objects.values());
	return (
		<Screen
			title={
				<>
					{p.name} <State budget={b} />
				</>
			}
			actions={<LimitsButton budget={b} />}
		>
			<div class="grid-2">
				<Panel title={t.used}>
					<Uses budget={b} all={[...all.objects.values()]} policies={[...team.objects.values()]} everything />
				</Panel>
				<Panel title={t.whatItMeans}>
					<Facts
						of={[
							[t.state, says?.message],
							[t.whenExceeded, means(b)],
							[t.periodTitle, period(b)],
							[t.countedSince, b.status?.periodStart && moment(b.status.periodStart)],
							[
								t.whoCounts,
								counted.length ? (
									<span class="names">
										{counted.slice(0, 30).map((a) => (
											<a key={a.metadata.name} href={href(["agents", p.ns, a.metadata.name])}>
												{a.metadata.name}
											</a>
										))}
										{counted.length > 30 && <span>{t.andMore(counted.length - 30)}</span>}
									</span>
								) : (
									t.nobodyNames
								),
							],
						]}
					/>
				</Panel>
			</div>
			<ByAgent budget={b} ns={p.ns} />
		</Screen>
	);
}
