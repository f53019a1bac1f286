// SPDX-License-Identifier: Apache-2.0
// What can be done from here, for the command palette and for keys. Screens add theirs while they are shown.
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export interface Command {
	id: string;
	title: string;
	hint?: string;
	/** A letter, or two after each other ("g s"). */
	keys?: string;
	run: () => void;
}

const groups = signal<ReadonlyMap<symbol, Command[]>>(new Map());

export function commands(): Command[] {
	return [...groups.value.values()].flat();
}

/** deps: what the commands depend on. A key works as soon as the button that names it is seen to. */
export function useCommands(make: () => Command[], deps: unknown[]): void {
	useLayoutEffect(() => {
		const me = Symbol();
		groups.value = new Map(groups.value).set(me, make());
		return () => {
			const rest = new Map(groups.value);
			rest.delete(me);
			groups.value = rest;
		};
	}, deps);
}

export const paletteOpen = signal(false);
export const helpOpen = signal(false);

function typing(e: KeyboardEvent): boolean {
	const t = e.target as HTMLElement | null;
	return !!t && (t.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(t.tagName) || !!t.closest(".terminal"));
}

let before = ""; // the first of two keys
let forget = 0;

export function onKey(e: KeyboardEvent): void {
	if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
		// A terminal has its own use for Ctrl-K; there the palette is Ctrl-Shift-K.
		if ((e.target as Element | null)?.closest?.(".terminal") && !e.shiftKey)
			return;
		e.preventDefault();
		if (!e.repeat)
			paletteOpen.value = !paletteOpen.value;
		return;
	}
	// A key that is held down was meant once.
	if (e.repeat || e.ctrlKey || e.metaKey || e.altKey || typing(e) || document.querySelector("dialog[open]"))
		return;
	if (e.key === "?") {
		helpOpen.value = true;
		return;
	}
	const pressed = before ? `${before} ${e.key}` : e.key;
	const found = commands().find((c) => c.keys === pressed);
	clearTimeout(forget);
	before = "";
	if (found) {
		e.preventDefault();
		found.run();
	} else if (commands().some((c) => c.keys?.startsWith(`${pressed} `))) {
		before = pressed;
		forget = window.setTimeout(() => (before = ""), 1000);
	}
}
