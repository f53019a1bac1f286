// SPDX-License-Identifier: Apache-2.0
// What was changed and not saved. It stays while other parts of the page are shown; whoever leaves the page is asked.
import { effect, signal } from "@preact/signals";
import { ended, loggedIn } from "../../../api/session.ts";
import type { Before } from "./scripts.ts";

export interface Draft {
	text: string;
	before: Before;
	crlf: boolean;
}

export const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

export function draftKey(ns: string, name: string, container: string, path: string): string {
	return [ns, name, container, path].join("\n");
}

export function setDraft(key: string, d: Draft | undefined): void {
	const next = new Map(drafts.value);
	if (d)
		next.set(key, d);
	else
		next.delete(key);
	drafts.value = next;
}

function ask(e: BeforeUnloadEvent): void {
	e.preventDefault();
}

effect(() => {
	if (drafts.value.size)
		addEventListener("beforeunload", ask);
	else
		removeEventListener("beforeunload", ask);
});

// Whose time was over logs in again, and goes on; who left has left.
effect(() => {
	if (!loggedIn.value && !ended.value)
		drafts.value = new Map();
});
