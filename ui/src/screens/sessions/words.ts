// SPDX-License-Identifier: Apache-2.0
// Sessions in words.
import { amount } from "../../api/amounts.ts";
import type { Agent, Cost, Session } from "../../api/types.ts";
import type { Tone } from "../../parts/common.tsx";
import { now, span } from "../../state/clock.ts";
import { text } from "../../text.ts";
import { AMOUNTS, amountFormat } from "../budgets/amounts.ts";

const t = text.sessions;

export function phaseOf(s: Session): string {
	return s.status?.phase ?? "Pending";
}

export const PHASE_TONES: Record<string, Tone> = { Active: "good", Pending: "busy", Failed: "bad", Ended: "idle" };

/** Sandboxes of a session, its own first. */
export function sandboxesOf(s: Session): string[] {
	return [...new Set([s.status?.sandbox, ...(s.status?.attachments ?? []).map((a) => a.sandbox)].filter((x) => x !== undefined && x !== ""))] as string[];
}

/** "deleted in 21h"; "" if nothing will be. */
export function clockOf(s: Session): string {
	if (!s.status?.deleteAt || phaseOf(s) !== "Ended")
		return "";
	const left = (Date.parse(s.status.deleteAt) - now.value) / 1000;
	return left > 0 ? t.deletedIn(span(left)) : t.deletedNow;
}

/** Each amount that is not next to nothing; "" if nothing was used. */
export function costText(c: Cost | undefined): string {
	return AMOUNTS.filter((a) => amount(c?.[a]) >= 0.001)
		.map((a) => `${text.budgets.amounts[a]} ${amountFormat(a)(amount(c?.[a]))}`)
		.join(", ");
}

export function modeOf(a: Agent | undefined): string {
	return a?.spec?.sandbox?.mode ?? "FreshPerSession";
}

export function poolOf(a: Agent | undefined): string {
	return a?.spec?.sandbox?.warmPoolRef?.name ?? "";
}

export function retainOf(s: Session | undefined, a: Agent | undefined): string {
	return s?.spec?.retain ?? a?.spec?.sandbox?.retain ?? "24h";
}

/** What happens if nobody says which sandbox. */
export function byDefault(a: Agent | undefined): string {
	const mode = modeOf(a);
	const pool = poolOf(a);
	return mode !== "UserChooses" && !pool ? t.noPool : (t.modes[mode]?.(pool, retainOf(undefined, a)) ?? mode);
}
