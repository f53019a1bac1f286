// SPDX-License-Identifier: Apache-2.0
// One question: who asks, what exactly would happen, and the answers that can be given.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { useObjects } from "../../api/collection.ts";
import { approvals, attachments, sessions } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import type { Approval } from "../../api/types.ts";
import { Badge, Button, Facts, type Tone } from "../../parts/common.tsx";
import { confirm } from "../../parts/dialog.tsx";
import { moment, now, span } from "../../state/clock.ts";
import { useCommands } from "../../state/commands.ts";
import { href } from "../../state/location.ts";
import { say } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { Ago } from "../sessions/act.tsx";
import { type Decision, decide } from "./decide.ts";
import { type Outcome, inputOf, onceOnly, others, outcome, ruleOf } from "./logic.ts";
import { Lookalikes, Plain, Quoted, Raw, Words } from "./shown.tsx";

const t = text.approvals;
const TONES: Record<Outcome, Tone> = { Open: "busy", Once: "good", Always: "good", Deny: "bad", Expired: "idle" };
const SOON_S = 60;

export function OutcomeBadge(p: { of: Outcome }) {
	return <Badge tone={TONES[p.of]}>{t.outcome[p.of]}</Badge>;
}

/** How long it can still be answered. */
export function Left(p: { until: string | undefined }) {
	const s = (Date.parse(p.until ?? "") - now.value) / 1000;
	return (
		<time dateTime={p.until} title={moment(p.until)} class={s < SOON_S ? "soon" : ""}>
			{s > 0 ? t.left(span(s)) : t.outcome.Expired}
		</time>
	);
}

function About(p: { of: Approval }) {
	const s = p.of.spec ?? {};
	const ns = p.of.metadata.namespace ?? "";
	// Whole collections: one watch each serves all questions.
	const session = useObjects(sessions, ns).objects.get(`${ns}/${s.session ?? ""}`);
	const attached = useObjects(attachments, ns);
	const attachment = attached.objects.get(`${ns}/${s.attachment ?? ""}`);
	const view = attachment?.status?.view ?? attachment?.spec?.view;
	// An answer is bound to the very attachment; one that was made later has the same name and is another.
	const anew = (attachment?.metadata.creationTimestamp ?? "") > (p.of.metadata.creationTimestamp ?? "");
	const link = (screen: string, name: string | undefined): ComponentChildren => name && <a href={href([screen, ns, name])}>{name}</a>;
	const user = session?.spec?.user;
	return (
		<Facts
			of={[
				[t.agent, link("agents", s.agent)],
				[
					t.session,
					s.session && (
						<>
							{link("sessions", s.session)} {session?.spec?.title && <Plain text={session.spec.title} />}
						</>
					),
				],
				[t.user, user && <Plain text={user} />],
				[t.requestedBy, s.requestedBy && <Plain text={s.requestedBy} />],
				[t.sandbox, link("sandboxes", s.sandbox)],
				[
					t.view,
					s.attachment && (
						<>
							{view && !anew ? `${view}: ${text.sessions.views[view] ?? ""}` : attached.state === "live" ? t.detached : text.unknown}{" "}
							<span class="quiet">{t.through(s.attachment)}</span>
						</>
					),
				],
				[t.asked, <Ago of={p.of.metadata.creationTimestamp} />],
			]}
		/>
	);
}

function What(p: { of: Approval }) {
	const s = p.of.spec ?? {};
	const input = inputOf(p.of);
	const texts = [...(s.argv ?? []), s.path, s.host, s.tool, s.cwd].filter((x) => x !== undefined);
	return (
		<section class="what" aria-label={t.what}>
			<h3>{t.operations[s.operation ?? ""] ?? t.operation(s.operation ?? "")}</h3>
			{s.argv && <Words of={s.argv} label={t.words(s.argv.length)} />}
			<Facts
				of={[
					[t.tool, s.tool !== undefined && <Quoted text={s.tool} />],
					[t.path, s.path !== undefined && <Quoted text={s.path} />],
					[t.host, s.host !== undefined && <Quoted text={s.host} />],
					[t.cwd, s.cwd !== undefined ? <Quoted text={s.cwd} /> : s.argv && <span class="quiet">{t.noCwd}</span>],
					[
						t.input,
						input !== "absent" && (
							<>
								{t.inputs[input]} {input === "some" && <code class="wrap">{s.inputDigest}</code>}
							</>
						),
					],
					[t.environment, s.environmentDigest ? <code class="wrap">{s.environmentDigest}</code> : s.argv && <span class="quiet">{t.noEnvironment}</span>],
					...others(p.of).map(([k, v]): [string, ComponentChildren] => [k, <Quoted text={v} />]),
					[t.digest, <code class="wrap">{s.digest}</code>],
				]}
			/>
			<Lookalikes of={texts} />
		</section>
	);
}

/** What was decided, and what followed. */
function Became(p: { of: Approval; outcome: Outcome }) {
	const s = p.of.status;
	return (
		<p class="became" role="status">
			<OutcomeBadge of={p.outcome} />{" "}
			{p.outcome === "Expired" ? (
				t.expiredAt(moment(p.of.spec?.expires))
			) : (
				<>
					{t.by} <Plain text={s?.decidedBy ?? text.unknown} />, {moment(s?.decidedAt)}.{" "}
					{p.outcome === "Deny" ? t.denied : s?.used ? t.used : t.unused}
				</>
			)}
		</p>
	);
}

function why(ns: string): string {
	const approve = may("approve", approvals, ns);
	const write = may("patch", approvals, ns, "status");
	if (approve === false)
		return t.needs("approve", "approvals", ns);
	if (write === false)
		return t.needs("patch", "approvals/status", ns);
	return approve && write ? "" : text.loading;
}

function Answers(p: { of: Approval }) {
	const [busy, setBusy] = useState(false);
	const barred = why(p.of.metadata.namespace ?? "");
	const once = onceOnly(p.of);
	const rule = JSON.stringify(ruleOf(p.of));
	const agent = p.of.spec?.agent ?? "";
	const at = useRef<HTMLDivElement>(null);
	// The buttons stand below all that is asked about: who answers by a key has them in sight first.
	const byKey = (d: Decision) => {
		if (at.current && at.current.getBoundingClientRect().top > innerHeight - 24) {
			at.current.scrollIntoView({ block: "end" });
			return say(t.readFirst);
		}
		void answer(d);
	};
	const answer = async (d: Decision) => {
		if (barred || busy || (d === "Always" && once))
			return;
		setBusy(true);
		if (d !== "Always" || (await confirm({ title: t.alwaysTitle(agent), yes: t.always, body: <AlwaysBody agent={agent} rule={rule} /> })))
			await decide(p.of, d);
		setBusy(false);
	};
	useCommands(
		() =>
			barred
				? []
				: [
						{ id: "approve-once", title: t.keys.once, keys: "o", run: () => byKey("Once") },
						...(once ? [] : [{ id: "approve-always", title: t.keys.always, keys: "a", run: () => byKey("Always") }]),
						{ id: "approve-deny", title: t.keys.deny, keys: "d", run: () => byKey("Deny") },
					],
		[barred, once, busy, p.of],
	);
	return (
		<div class="answers" ref={at}>
			<div class="actions">
				<Button kind="main" disabled={!!barred || busy} title={barred || t.onceHint} onClick={() => void answer("Once")}>
					{t.once} <kbd>o</kbd>
				</Button>
				<Button disabled={!!barred || busy || !!once} title={barred || once || t.alwaysHint} onClick={() => void answer("Always")}>
					{t.always} <kbd>a</kbd>
				</Button>
				<Button kind="danger" disabled={!!barred || busy} title={barred || t.denyHint} onClick={() => void answer("Deny")}>
					{t.deny} <kbd>d</kbd>
				</Button>
				<Left until={p.of.spec?.expires} />
			</div>
			{barred && barred !== text.loading && <p class="quiet">{barred}</p>}
			{once ? (
				<p class="quiet">{once}</p>
			) : (
				<div class="rule">
					<p class="quiet">{t.adds(agent)}</p>
					<Rule text={rule} />
				</div>
			)}
		</div>
	);
}

/** A rule as JSON. Its backslashes and quotation marks are those of JSON already. */
function Rule(p: { text: string }) {
	return (
		<pre>
			<Raw text={p.text} />
		</pre>
	);
}

function AlwaysBody(p: { agent: string; rule: string }) {
	return (
		<>
			<p>{t.alwaysLead(p.agent)}</p>
			<Rule text={p.rule} />
			<p>{t.alwaysUndo}</p>
		</>
	);
}

export function Question(p: { of: Approval }) {
	const became = outcome(p.of, now.value);
	return (
		<article class="panel question" aria-label={t.question(p.of.metadata.name)} key={p.of.metadata.uid}>
			<div class="panel-head">
				<h2>{t.question(p.of.metadata.name)}</h2>
				<OutcomeBadge of={became} />
			</div>
			<About of={p.of} />
			<What of={p.of} />
			{became === "Open" ? <Answers of={p.of} /> : <Became of={p.of} outcome={became} />}
		</article>
	);
}
