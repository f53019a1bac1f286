// SPDX-License-Identifier: Apache-2.0
// The Budgets that an agent's use counts against: its own, those of the agents above it, and the team's.
import { amount } from "../../api/amounts.ts";
import type { Budget } from "../../api/types.ts";
import { Badge } from "../../parts/common.tsx";
import { Bars } from "../../parts/chart.tsx";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { AMOUNTS, amountFormat } from "../budgets/amounts.ts";

const t = text.agents;

export function BudgetBars(p: { name: string; of: Budget | undefined; ns: string; agent: string; whose: string }) {
	const limits = p.of?.spec?.limits ?? {};
	const used = p.of?.status?.used ?? {};
	const limited = AMOUNTS.filter((a) => limits[a] !== undefined);
	const mine = p.of?.status?.usedByAgent?.find((u) => u.agent === p.agent);
	return (
		<div class="stack budget-bars">
			<p class="agent-budget">
				<a href={href(["budgets", p.ns, p.name])}>{p.name}</a> <span class="quiet">{p.whose}</span>{" "}
				{p.of?.status?.exceeded && <Badge tone="bad">{t.usedUp}</Badge>}
			</p>
			{limited.map((a) => {
				const [all, of] = [amount(used[a]), amount(limits[a])];
				return (
					<Bars
						key={a}
						title={text.budgets.amounts[a]}
						format={amountFormat(a)}
						rows={[
							{ label: t.byAll, value: all, of, bad: all >= of },
							...(mine ? [{ label: t.byThis, value: amount(mine[a]), of }] : []),
						]}
					/>
				);
			})}
			{p.of && !limited.length && <p class="quiet">{t.noLimits}</p>}
		</div>
	);
}
