// SPDX-License-Identifier: Apache-2.0
// One session: how it is and why, what is attached to it, and its end.
import { useState } from "preact/hooks";
import { useObjects } from "../../api/collection.ts";
import { agents, approvals, attachments, sessions } from "../../api/kinds.ts";
import { patch } from "../../api/objects.ts";
import { type Agent, type Condition, type Session, condition } from "../../api/types.ts";
import { Age, Badge, Facts, Missing, Panel, Screen } from "../../parts/common.tsx";
import { confirm } from "../../parts/dialog.tsx";
import { moment, now } from "../../state/clock.ts";
import { attempt } from "../../state/notices.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { outcome } from "../approvals/logic.ts";
import { Plain } from "../approvals/shown.tsx";
import { Act, Ago } from "./act.tsx";
import { AttachDialog, ChangeDialog } from "./attach.tsx";
import { Attached, Others } from "./attached.tsx";
import { PHASE_TONES, byDefault, clockOf, costText, modeOf, phaseOf, retainOf } from "./words.ts";

const t = text.sessions;

function Conditions(p: { of: Condition[] }) {
	return (
		<ul class="conditions">
			{p.of.map((c) => (
				<li key={c.type}>
					<strong>{t.conditions[c.type]?.[c.status] ?? `${c.type}: ${c.status}`}</strong> {c.message}{" "}
					<span class="quiet">
						({c.reason}, {t.since} <Age of={c.lastTransitionTime} />)
					</span>
				</li>
			))}
		</ul>
	);
}

/** Its phase, and why, in one sentence; and what can be done about it. */
function Why(p: { of: Session }) {
	const ready = condition(p.of, "Ready");
	const advice = t.advice[ready?.reason ?? ""];
	const said = ready?.reason === "Ended" ? t.over : (ready?.message ?? t.unseen); // the clock says the rest
	return (
		<div class="why" role="status">
			<p>
				<Badge tone={PHASE_TONES[phaseOf(p.of)] ?? "warn"}>{t.phases[phaseOf(p.of)] ?? phaseOf(p.of)}</Badge> {said}
				{said.endsWith(".") ? "" : "."} {clockOf(p.of) && <strong>{t.clockSentence(clockOf(p.of))}</strong>}
			</p>
			{advice && <p class="quiet">{advice}</p>}
		</div>
	);
}

function wish(s: Session, agent: Agent | undefined): string {
	const said = s.spec?.sandbox;
	if (!said)
		return agent ? byDefault(agent) : t.asAgent;
	return said === "new" ? t.newSandbox : said === "none" ? t.without : said;
}

function EndButton(p: { of: Session; agent: Agent | undefined }) {
	const { namespace: ns = "", name } = p.of.metadata;
	const ended = p.of.spec?.ended === true;
	const fresh = !!p.of.status?.claim && modeOf(p.agent) === "FreshPerSession";
	const end = async () => {
		const body = (
			<>
				<p>{t.endLead}</p>
				<p>{fresh ? t.endKept(retainOf(p.of, p.agent)) : t.endDetached}</p>
			</>
		);
		if (await confirm({ title: t.endTitle, body, yes: t.end, danger: true }))
			await attempt(() => patch(sessions, ns, name, { spec: { ended: true } }), t.endedNow);
	};
	const resume = () => attempt(() => patch(sessions, ns, name, { spec: { ended: false } }), t.resumed);
	return ended ? (
		<Act verb="patch" of={sessions} ns={ns} kind="main" onClick={resume}>
			{t.resume}
		</Act>
	) : (
		<Act verb="patch" of={sessions} ns={ns} kind="danger" onClick={end}>
			{t.end}
		</Act>
	);
}

function Known(p: { of: Session }) {
	const s = p.of;
	const { namespace: ns = "", name } = s.metadata;
	const [dialog, setDialog] = useState<"" | "attach" | "change">("");
	const team = useObjects(agents, ns);
	const all = useObjects(attachments, ns);
	const questions = useObjects(approvals, ns);
	const agent = team.objects.get(`${ns}/${s.spec?.agent ?? ""}`);
	const mine = [...all.objects.values()].filter((a) => a.spec?.session === name).sort((a, b) => Number(b.metadata.name === name) - Number(a.metadata.name === name) || a.metadata.name.localeCompare(b.metadata.name));
	const boxes = mine.map((a) => a.spec?.sandbox ?? "");
	const others = [...all.objects.values()].filter((a) => a.spec?.session !== name && boxes.includes(a.spec?.sandbox ?? ""));
	const open = [...questions.objects.values()].filter((q) => q.spec?.session === name && outcome(q, now.value) === "Open").length;
	const over = phaseOf(s) === "Ended" ? t.overBarred : "";
	const close = () => setDialog("");
	return (
		<Screen
			title={<Plain text={s.spec?.title || name} />}
			actions={<EndButton of={s} agent={agent} />}
		>
			<Why of={s} />
			{open > 0 && (
				<p class="waits">
					<a href={href(["approvals"], { ns })}>{t.openQuestions(open)}</a>
				</p>
			)}
			<div class="session-page">
				<Panel
					title={t.attachedTitle}
					actions={
						<div class="actions">
							<Act verb="patch" of={sessions} ns={ns} onClick={() => setDialog("change")} barred={over}>
								{t.change}
							</Act>
							<Act verb="create" of={attachments} ns={ns} onClick={() => setDialog("attach")} barred={over}>
								{t.attach}
							</Act>
						</div>
					}
				>
					<Missing snapshot={all} kind={attachments} ns={ns} />
					{all.state !== "refused" && all.state !== "loading" && (mine.length ? (
						<ul class="stack">
							{mine.map((a) => (
								<Attached key={a.metadata.uid} session={s} of={a} agents={team.objects} />
							))}
						</ul>
					) : (
						<p class="quiet">{t.nothingAttached}</p>
					))}
				</Panel>
				<Panel title={t.about}>
					<Facts
						of={[
							[t.name, name],
							[t.agent, <a href={href(["agents", ns, s.spec?.agent ?? ""])}>{s.spec?.agent}</a>],
							[t.user, s.spec?.user && <Plain text={s.spec.user} />],
							[t.wanted, wish(s, agent)],
							[t.started, <Ago of={s.metadata.creationTimestamp} />],
							[t.lastActivity, s.status?.lastActivity && <Ago of={s.status.lastActivity} />],
							[t.endedAt, s.status?.endedAt && <Ago of={s.status.endedAt} />],
							[t.deleteAt, s.status?.deleteAt && moment(s.status.deleteAt)],
							[t.retain, retainOf(s, agent)],
							[t.costTitle, costText(s.status?.cost) || text.none],
						]}
					/>
				</Panel>
			</div>
			{others.length > 0 && (
				<Panel title={t.others}>
					<Others of={others} />
				</Panel>
			)}
			{s.status?.conditions && (
				<Panel title={t.conditionsTitle}>
					<Conditions of={s.status.conditions} />
				</Panel>
			)}
			{dialog === "attach" && <AttachDialog session={s} agent={agent} attached={boxes} onClose={close} />}
			{dialog === "change" && <ChangeDialog session={s} agent={agent} onClose={close} />}
		</Screen>
	);
}

export function Page(p: { ns: string; name: string }) {
	const found = useObjects(sessions, p.ns);
	const session = found.objects.get(`${p.ns}/${p.name}`);
	if (session)
		return <Known of={session} key={session.metadata.uid} />;
	return (
		<Screen title={p.name}>
			<Missing snapshot={found} kind={sessions} ns={p.ns} />
			{found.state === "live" && (
				<p class="refused">
					{t.noSuch} <a href={href(["sessions"])}>{t.back}</a>
				</p>
			)}
		</Screen>
	);
}
