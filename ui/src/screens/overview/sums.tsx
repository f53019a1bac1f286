// SPDX-License-Identifier: Apache-2.0
// The figures at the top, each a link to where they come from.
import type { ComponentChildren } from "preact";
import { type Snapshot, useObjects } from "../../api/collection.ts";
import { approvals, budgets } from "../../api/kinds.ts";
import type { KObject, Sandbox, SandboxWarmPool } from "../../api/types.ts";
import { now } from "../../state/clock.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { outcome } from "../approvals/logic.ts";
import { isSpare, type State, STATES, stateOf } from "../sandbox/state.ts";
import { desiredOf } from "./history.ts";

const t = text.overview;

/** "3 in use, 2 ready in pools, 1 suspended". */
function counted(all: Iterable<Sandbox>): string {
	const n = Object.fromEntries(STATES.map((s) => [s, 0])) as Record<State, number>;
	let spare = 0;
	for (const s of all) {
		const state = stateOf(s);
		if (state === "ready" && isSpare(s))
			spare++;
		else
			n[state]++;
	}
	const others = STATES.filter((s) => s !== "ready" && n[s]).map((s) => `${n[s]} ${text.sandboxes.states[s].toLowerCase()}`);
	return [t.used(n.ready), t.spare(spare), ...others].join(", ");
}

function Sum(p: { to: string; title: string; value: ComponentChildren; detail?: string; bad?: boolean }) {
	return (
		<li>
			<a class={`sum ${p.bad ? "bad" : ""}`} href={p.to}>
				<span class="sum-title">{p.title}</span>
				<span class="sum-value">{p.value}</span>
				<span class="sum-detail">{p.detail}</span>
			</a>
		</li>
	);
}

const known = (s: Snapshot<KObject>) => s.state !== "loading" && s.state !== "refused";

export function Sums(p: { ns: string; sandboxes: Snapshot<Sandbox>; pools: Snapshot<SandboxWarmPool> }) {
	const questions = useObjects(approvals, p.ns);
	const limits = useObjects(budgets, p.ns);
	const open = [...questions.objects.values()].filter((a) => outcome(a, now.value) === "Open").length;
	const over = [...limits.objects.values()].filter((b) => b.status?.exceeded).length;
	const dry = [...p.pools.objects.values()].filter((o) => desiredOf(o) > 0 && !o.status?.readyReplicas).length;
	const show = (s: Snapshot<KObject>, n: number) => (known(s) ? n : text.none);
	const why = (s: Snapshot<KObject>, said: string) => (s.state === "refused" ? t.notSeen : said);
	return (
		<ul class="sums" aria-label={t.sums}>
			<Sum to={href(["sandboxes"])} title={text.nav.sandboxes} value={show(p.sandboxes, p.sandboxes.objects.size)} detail={why(p.sandboxes, counted(p.sandboxes.objects.values()))} />
			<Sum to={href(["overview"], { by: "ready" })} title={t.dryPools} value={show(p.pools, dry)} detail={why(p.pools, t.ofPools(p.pools.objects.size))} bad={dry > 0} />
			<Sum to={href(["approvals"])} title={t.questions} value={show(questions, open)} detail={why(questions, open ? t.questionsWait : t.questionsNone)} bad={open > 0} />
			<Sum to={href(["budgets"])} title={t.exceeded} value={show(limits, over)} detail={why(limits, t.ofBudgets(limits.objects.size))} bad={over > 0} />
		</ul>
	);
}
