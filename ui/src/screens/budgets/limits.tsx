// SPDX-License-Identifier: Apache-2.0
// Changing the limits of a budget.
import { useState } from "preact/hooks";
import { amount, amountText, parseAmount } from "../../api/amounts.ts";
import { budgets } from "../../api/kinds.ts";
import { patch } from "../../api/objects.ts";
import { may } from "../../api/rights.ts";
import type { Budget } from "../../api/types.ts";
import { Button, Field } from "../../parts/common.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { AMOUNTS, amountFormat } from "./amounts.ts";

const t = text.budgets;
const LIMITS = [...AMOUNTS, "maxSandboxes"] as const;
type Limit = (typeof LIMITS)[number];

/** What is wrong with a limit; "" is no limit, and fine. */
export function wrongLimit(of: Limit, said: string): string {
	if (!said.trim())
		return "";
	const n = parseAmount(said.trim());
	if (n === undefined)
		return t.noQuantity;
	if (n < 0n)
		return t.negative;
	return of === "maxSandboxes" && n % 1_000_000_000n ? t.notWhole : "";
}

function LimitsDialog(p: { budget: Budget; onClose: () => void }) {
	const { name, namespace = "" } = p.budget.metadata;
	const before = (l: Limit) => String(p.budget.spec?.limits?.[l] ?? "");
	const [said, setSaid] = useState(() => Object.fromEntries(LIMITS.map((l) => [l, before(l)])) as Record<Limit, string>);
	const [busy, setBusy] = useState(false);
	const bad = LIMITS.some((l) => wrongLimit(l, said[l]));
	const used = (l: Limit) => (l === "maxSandboxes" ? undefined : p.budget.status?.used?.[l]);
	const hint = (l: Limit) => {
		const now = used(l);
		const limit = parseAmount(said[l].trim());
		if (!said[l].trim())
			return t.emptyIsNone;
		if (limit !== undefined && now !== undefined && (parseAmount(now) ?? 0n) >= limit)
			return t.usedUpAt(amountFormat(l)(amount(now)));
		return now === undefined ? t.limitHints[l] : `${t.limitHints[l]} ${t.usedSoFar(amountFormat(l)(amount(now)))}`;
	};
	const save = async (e: Event) => {
		e.preventDefault();
		if (bad)
			return;
		const limits: Record<string, string | null> = {};
		for (const l of LIMITS)
			if (said[l].trim() !== before(l))
				limits[l] = said[l].trim() ? (l === "maxSandboxes" ? amountText(parseAmount(said[l].trim())!) : said[l].trim()) : null;
		setBusy(true);
		const done = !Object.keys(limits).length || (await attempt(() => patch(budgets, namespace, name, { spec: { limits } }), t.saved(name)));
		setBusy(false);
		if (done)
			p.onClose();
	};
	return (
		<Dialog title={t.limitsOf(name)} onClose={p.onClose}>
			<form onSubmit={save}>
				{LIMITS.map((l, i) => (
					<Field key={l} label={t.amounts[l]} hint={hint(l)} error={wrongLimit(l, said[l])}>
						<input autofocus={i === 0} inputMode="decimal" spellcheck={false} autocomplete="off" value={said[l]} onInput={(e) => setSaid({ ...said, [l]: e.currentTarget.value })} />
					</Field>
				))}
				<div class="actions end">
					<Button onClick={p.onClose}>{text.dialog.cancel}</Button>
					<Button type="submit" kind="main" disabled={busy || bad}>
						{t.save}
					</Button>
				</div>
			</form>
		</Dialog>
	);
}

export function LimitsButton(p: { budget: Budget }) {
	const [open, setOpen] = useState(false);
	const { name, namespace = "" } = p.budget.metadata;
	const allowed = may("patch", budgets, namespace);
	return (
		<>
			<Button disabled={!allowed} {...(allowed === false ? { title: t.right(namespace) } : {})} label={t.changeOf(name)} onClick={() => setOpen(true)}>
				{t.change}
			</Button>
			{open && <LimitsDialog budget={p.budget} onClose={() => setOpen(false)} />}
		</>
	);
}
