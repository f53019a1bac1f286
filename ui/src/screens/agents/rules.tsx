// SPDX-License-Identifier: Apache-2.0
// Approval rules in their order. Those that "Always" adds can be removed here: the agent is then asked about again.
import type { ComponentChildren } from "preact";
import { agents } from "../../api/kinds.ts";
import { patch } from "../../api/objects.ts";
import type { Agent, Approval, Rule, TeamPolicy } from "../../api/types.ts";
import { Badge, Facts, type Tone } from "../../parts/common.tsx";
import { confirm } from "../../parts/dialog.tsx";
import { moment } from "../../state/clock.ts";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { ruleOf } from "../approvals/logic.ts";
import { Plain, Quoted, Words } from "../approvals/shown.tsx";
import { Act } from "../sessions/act.tsx";

const t = text.agents;
const TONES: Record<string, Tone> = { Allow: "good", Ask: "warn", Deny: "bad" };
const ORDER = ["Allow", "Ask", "Deny"];

function canonical(r: Rule): string {
	return JSON.stringify([r.action, r.argv ?? null, r.path ?? null, r.host ?? null, r.tool ?? null, r.withoutInput ?? false]);
}

/** Whether "Always" may have added it: such a rule allows one exact thing. */
function isAlways(r: Rule): boolean {
	const texts = [...(r.argv ?? []), r.path ?? "", r.host ?? "", r.tool ?? ""];
	return r.action === "Allow" && !texts.some((x) => /[*\\]/.test(x)) && (!r.argv || r.withoutInput === true);
}

function Matches(p: { of: Rule }) {
	const r = p.of;
	const facts: [string, ComponentChildren][] = [
		[t.rule.argv, r.argv && <Words of={r.argv} label={t.rule.argv} />],
		[t.rule.tool, r.tool !== undefined && <Quoted text={r.tool} />],
		[t.rule.path, r.path !== undefined && <Quoted text={r.path} />],
		[t.rule.host, r.host !== undefined && <Quoted text={r.host} />],
	];
	return (
		<div>
			<Facts of={facts.map(([k, v]) => [k, v === false ? undefined : v])} />
			{r.withoutInput && <p class="quiet">{t.rule.withoutInput}</p>}
		</div>
	);
}

export function Rules(p: { of: Agent; decided: Approval[]; policy: TeamPolicy | undefined; parents: string[] }) {
	const { namespace: ns = "", name, resourceVersion } = p.of.metadata;
	const approval = p.of.spec?.approval;
	const rules = approval?.rules ?? [];
	const otherwise = approval?.default ?? "Allow";
	const floor = p.policy?.spec?.approvalDefault;
	const stricter = floor && ORDER.indexOf(floor) > ORDER.indexOf(otherwise) ? floor : "";
	const remove = async (at: number) => {
		const body = (
			<>
				<p>{t.removeLead(name)}</p>
				<Matches of={rules[at]!} />
			</>
		);
		if (await confirm({ title: t.removeTitle, body, yes: t.remove, danger: true }))
			await attempt(() => patch(agents, ns, name, { metadata: { resourceVersion }, spec: { approval: { rules: rules.filter((_, i) => i !== at) } } }), t.removed);
	};
	return (
		<>
			{rules.length > 0 ? (
				<ol class="rules" aria-label={t.rulesTitle}>
					{rules.map((r, i) => {
						const by = p.decided.find((a) => a.status?.decision === "Always" && canonical(ruleOf(a)) === canonical(r));
						return (
							<li key={`${i} ${canonical(r)}`}>
								<Badge tone={TONES[r.action] ?? "idle"}>{t.actions[r.action] ?? r.action}</Badge>
								<Matches of={r} />
								<div class="aside">
									{isAlways(r) && (
										<>
											<span class="quiet">
												{by ? (
													<>
														{t.addedBy} <Plain text={by.status?.decidedBy} />, {moment(by.status?.decidedAt)}
													</>
												) : (
													t.asAlways
												)}
											</span>
											<Act verb="patch" of={agents} ns={ns} kind="danger" label={t.removeOf(i + 1)} onClick={() => remove(i)}>
												{t.remove}
											</Act>
										</>
									)}
								</div>
							</li>
						);
					})}
				</ol>
			) : (
				<p class="quiet">{t.noRules}</p>
			)}
			<p>
				{t.otherwise} <Badge tone={TONES[stricter || otherwise] ?? "idle"}>{t.actions[stricter || otherwise] ?? otherwise}</Badge> {stricter && <span class="quiet">{t.stricter}</span>}
			</p>
			<p class="quiet">
				{t.timeout(approval?.timeout ?? "10m")} {p.parents.length > 0 && t.parentRules(p.parents.join(", "))}
			</p>
		</>
	);
}
