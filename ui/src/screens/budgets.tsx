// SPDX-License-Identifier: Apache-2.0
// Budgets, and what was used altogether.
import "./budgets.css";
import { keyOf, useObjects } from "../api/collection.ts";
import { agents, budgets, policies } from "../api/kinds.ts";
import { Missing, Screen } from "../parts/common.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { href, query, setQuery } from "../state/location.ts";
import { namespace } from "../state/prefs.ts";
import { text } from "../text.ts";
import { means, OneBudget, period, State, Uses } from "./budgets/budget.tsx";
import { CostsTab } from "./budgets/costs.tsx";
import { LimitsButton } from "./budgets/limits.tsx";

const t = text.budgets;
const SHOWN = 100;

function List() {
	const ns = namespace.value;
	const all = useObjects(budgets, ns);
	const of = useObjects(agents, ns);
	const team = useObjects(policies, ns);
	const find = query.value.get("q") ?? "";
	const rows = [...all.objects.values()]
		.filter((b) => keyOf(b).toLowerCase().includes(find.toLowerCase()))
		.sort((a, b) => Number(!!b.status?.exceeded) - Number(!!a.status?.exceeded) || keyOf(a).localeCompare(keyOf(b), "en", { numeric: true }));
	return (
		<>
			<Missing snapshot={all} kind={budgets} ns={ns} />
			{all.objects.size > 0 && (
				<div class="table-bar flat">
					<input type="search" class="find" data-find placeholder={text.list.find} aria-label={text.list.find} value={find} onInput={(e) => setQuery({ q: e.currentTarget.value })} />
					<span class="quiet" role="status">
						{text.list.rows(rows.length, all.objects.size)}
					</span>
				</div>
			)}
			<ul class="budgets">
				{rows.slice(0, SHOWN).map((b) => (
					<li key={keyOf(b)} class="panel stack">
						<div class="budget-head">
							<h2>
								<a href={href(["budgets", b.metadata.namespace ?? "", b.metadata.name])}>
									{!ns && <span class="quiet">{b.metadata.namespace}/</span>}
									{b.metadata.name}
								</a>
							</h2>
							<State budget={b} />
							<LimitsButton budget={b} />
						</div>
						<Uses budget={b} all={[...of.objects.values()]} policies={[...team.objects.values()]} />
						<p class="quiet small">
							{t.whenExceeded}: {means(b)} {period(b)}
						</p>
					</li>
				))}
			</ul>
			{rows.length > SHOWN && <p class="quiet">{t.more(rows.length - SHOWN)}</p>}
			{all.state === "live" && !all.objects.size && <p class="refused">{t.none}</p>}
			{all.objects.size > 0 && !rows.length && <p class="quiet">{text.list.noMatch}</p>}
		</>
	);
}

export function Budgets(p: { rest: string[] }) {
	const [ns, name] = p.rest;
	if (ns && name)
		return <OneBudget ns={ns} name={name} />;
	return (
		<Screen title={text.nav.budgets}>
			<Tabs
				label={text.nav.budgets}
				tabs={[
					{ id: "budgets", title: t.tabBudgets, show: () => <List /> },
					{ id: "costs", title: t.tabCosts, show: () => <CostsTab /> },
				]}
			/>
		</Screen>
	);
}
