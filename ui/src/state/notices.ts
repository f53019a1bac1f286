// SPDX-License-Identifier: Apache-2.0
// Short notices of what was done, or could not be.
import { signal } from "@preact/signals";
import { ApiError, sentence } from "../api/http.ts";

export interface Notice {
	id: number;
	bad: boolean;
	text: string;
	advice?: string;
}

const SHOWN_MS = 6000;
const MAX = 5;
const MAX_LINE = 600; // of a text that somebody else wrote: the button below it must stay within reach
const MAX_LINES = 5;
let last = 0;

export const notices = signal<Notice[]>([]);

export function dismiss(id: number): void {
	notices.value = notices.value.filter((n) => n.id !== id);
}

function add(n: Omit<Notice, "id">): void {
	const id = ++last;
	notices.value = [...notices.value, { ...n, id }].slice(-MAX);
	if (!n.bad)
		setTimeout(() => dismiss(id), SHOWN_MS);
}

export function say(text: string): void {
	add({ bad: false, text });
}

export function complain(e: unknown): void {
	const causes = e instanceof ApiError ? e.causes.map((c) => [c.field, c.message].filter(Boolean).join(": ")).filter(Boolean) : [];
	const advice = e instanceof ApiError ? e.advice : "";
	const lines = [sentence(e), ...causes.filter((c) => !sentence(e).includes(c))].slice(0, MAX_LINES);
	add({ bad: true, text: lines.map((l) => (l.length > MAX_LINE ? `${l.slice(0, MAX_LINE)}…` : l)).join("\n"), ...(advice ? { advice } : {}) });
}

/** Does something, and says what became of it. True: it was done. */
export async function attempt(what: () => Promise<unknown>, done?: string): Promise<boolean> {
	try {
		await what();
	} catch (e) {
		complain(e);
		return false;
	}
	if (done)
		say(done);
	return true;
}
