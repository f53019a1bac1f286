// SPDX-License-Identifier: Apache-2.0
// One agent: what it may do and who limits it, what is asked about first, its keys, its budget, its sessions and children.
import { useObjects } from "../../api/collection.ts";
import { agents, approvals, budgets, policies, sessions } from "../../api/kinds.ts";
import { type Agent, condition } from "../../api/types.ts";
import { Badge, Facts, Missing, Panel, Screen } from "../../parts/common.tsx";
import { now } from "../../state/clock.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { outcome } from "../approvals/logic.ts";
import { Plain } from "../approvals/shown.tsx";
import { PHASE_TONES, modeOf, phaseOf, poolOf, retainOf } from "../sessions/words.ts";
import { BudgetBars } from "./budget.tsx";
import { chainOf } from "./capabilities.ts";
import { Chain } from "./chain.tsx";
import { Rules } from "./rules.tsx";

const t = text.agents;
const SESSIONS = 50;

export function Verified(p: { of: Agent }) {
	const yes = p.of.status?.verified ?? p.of.spec?.keys?.some((k) => k.verified);
	return <Badge tone={yes ? "good" : "idle"}>{yes ? t.verified : t.unverified}</Badge>;
}

function Keys(p: { of: Agent }) {
	const keys = p.of.spec?.keys ?? [];
	if (!keys.length)
		return <p class="quiet">{t.noKeys}</p>;
	return (
		<ul class="stack">
			{keys.map((k) => (
				<li key={k.publicKey}>
					<strong>{k.name}</strong> <Badge tone={k.verified ? "good" : "idle"}>{k.verified ? t.verified : t.unverified}</Badge>
					<br />
					<code class="wrap">{k.publicKey}</code>
				</li>
			))}
		</ul>
	);
}

function Budgets(p: { of: Agent; above: Agent[]; team: string | undefined }) {
	const ns = p.of.metadata.namespace ?? "";
	const found = useObjects(budgets, ns);
	const names = new Map<string, string>();
	if (p.of.spec?.budget)
		names.set(p.of.spec.budget, t.whose.own);
	for (const a of p.above)
		if (a.spec?.budget && !names.has(a.spec.budget))
			names.set(a.spec.budget, t.whose.parent(a.metadata.name));
	if (p.team && !names.has(p.team))
		names.set(p.team, t.whose.team);
	if (!names.size)
		return <p class="quiet">{t.noBudget}</p>;
	return (
		<div class="stack">
			<Missing snapshot={found} kind={budgets} ns={ns} />
			{[...names].map(([name, whose]) => {
				const b = found.objects.get(`${ns}/${name}`);
				return (
					<div key={name}>
						<BudgetBars name={name} of={b} ns={ns} agent={p.of.metadata.name} whose={whose} />
						{!b && found.state === "live" && <p class="wrong">{t.budgetMissing}</p>}
					</div>
				);
			})}
		</div>
	);
}

function Sessions(p: { of: Agent }) {
	const ns = p.of.metadata.namespace ?? "";
	const found = useObjects(sessions, ns);
	const mine = [...found.objects.values()]
		.filter((s) => s.spec?.agent === p.of.metadata.name)
		.sort((a, b) => Number(phaseOf(a) === "Ended") - Number(phaseOf(b) === "Ended") || (b.metadata.creationTimestamp ?? "").localeCompare(a.metadata.creationTimestamp ?? ""));
	return (
		<>
			<Missing snapshot={found} kind={sessions} ns={ns} />
			{found.state === "live" && !mine.length && <p class="quiet">{t.noSessions}</p>}
			<ul class="stack">
				{mine.slice(0, SESSIONS).map((s) => (
					<li key={s.metadata.uid}>
						<a href={href(["sessions", ns, s.metadata.name])}>
							<Plain text={s.spec?.title || s.metadata.name} />
						</a>{" "}
						<Badge tone={PHASE_TONES[phaseOf(s)] ?? "warn"}>{phaseOf(s)}</Badge>
					</li>
				))}
			</ul>
			{mine.length > SESSIONS && <a href={href(["sessions"], { ns, q: p.of.metadata.name, show: "all" })}>{t.allSessions(mine.length)}</a>}
		</>
	);
}

function Known(p: { of: Agent; all: ReadonlyMap<string, Agent> }) {
	const { namespace: ns = "", name, annotations } = p.of.metadata;
	const s = p.of.spec ?? {};
	const team = useObjects(policies, ns);
	const policy = team.objects.get(`${ns}/team`);
	const asked = useObjects(approvals, ns);
	const mine = [...asked.objects.values()].filter((a) => a.spec?.agent === name);
	const open = mine.filter((a) => outcome(a, now.value) === "Open").length;
	const above = chainOf(p.of, p.all).agents.slice(1);
	const children = [...p.all.values()].filter((a) => a.spec?.parent === name && a.metadata.namespace === ns);
	const ready = condition(p.of, "Ready");
	const link = (n: string) => <a href={href(["agents", ns, n])}>{n}</a>;
	return (
		<Screen
			title={name}
			actions={
				<a class="button" href={href(["sessions", "new"], { ns, agent: name })}>
					{text.sessions.new}
				</a>
			}
		>
			<div class="why" role="status">
				<p>
					<Badge tone={ready?.status === "True" ? "good" : "warn"}>{ready?.status === "True" ? t.ready : t.notReady}</Badge> <Verified of={p.of} /> {ready?.message ?? t.unseen}
				</p>
				{open > 0 && (
					<p class="waits">
						<a href={href(["approvals"], { ns })}>{t.openQuestions(open)}</a>
					</p>
				)}
			</div>
			<Panel title={t.chainTitle}>
				<p class="quiet lead">{t.chainLead}</p>
				<Chain of={p.of} all={p.all} policy={policy} />
				{team.state === "refused" && <p class="quiet">{t.policyUnseen}</p>}
			</Panel>
			<Panel title={t.rulesTitle}>
				<p class="quiet lead">{t.rulesLead}</p>
				<Rules of={p.of} decided={mine} policy={policy} parents={above.filter((a) => a.spec?.approval?.rules?.length || (a.spec?.approval?.default ?? "Allow") !== "Allow").map((a) => a.metadata.name)} />
			</Panel>
			<div class="grid-2">
				<Panel title={t.about}>
					<Facts
						of={[
							[t.parent, s.parent && link(s.parent)],
							[t.children, children.length > 0 && <span class="links">{children.map((c) => <span key={c.metadata.name}>{link(c.metadata.name)}</span>)}</span>],
							[t.mode, text.sessions.modeNames[modeOf(p.of)] ?? modeOf(p.of)],
							[t.pool, poolOf(p.of)],
							[t.retain, retainOf(undefined, p.of)],
							[t.sandboxes, String(p.of.status?.sandboxes ?? text.unknown)],
							[t.isolation, (s.isolation?.verified || s.isolation?.unverified) && t.isolationText(s.isolation.verified ?? t.any, s.isolation.unverified ?? t.any)],
							[t.visibility, t.visibilities[s.visibility ?? "Team"] ?? s.visibility],
							[t.owner, annotations?.["cay.dev/owner"] && <Plain text={annotations["cay.dev/owner"]} />],
						].map(([k, v]) => [k as string, v === false ? undefined : v])}
					/>
				</Panel>
				<Panel title={t.budget}>
					<Budgets of={p.of} above={above} team={policy?.spec?.budget} />
				</Panel>
				<Panel title={t.keys}>
					<Keys of={p.of} />
				</Panel>
				<Panel title={text.nav.sessions}>
					<Sessions of={p.of} />
				</Panel>
			</div>
		</Screen>
	);
}

export function Page(p: { ns: string; name: string }) {
	const found = useObjects(agents, p.ns);
	const agent = found.objects.get(`${p.ns}/${p.name}`);
	if (agent)
		return <Known of={agent} all={found.objects} key={agent.metadata.uid} />;
	return (
		<Screen title={p.name}>
			<Missing snapshot={found} kind={agents} ns={p.ns} />
			{found.state === "live" && (
				<p class="refused">
					{t.noSuch} <a href={href(["agents"])}>{t.back}</a>
				</p>
			)}
		</Screen>
	);
}
