// SPDX-License-Identifier: Apache-2.0
// What is shown is in the address: a path below /ui for the screen and its object, a query for filters, order and tabs.
import { computed, signal } from "@preact/signals";

const BASE = "/ui";

const here = signal(location.pathname + location.search);
addEventListener("popstate", () => (here.value = location.pathname + location.search));

const url = computed(() => new URL(here.value, location.origin));
/** The parts of the path below /ui, decoded. */
export const path = computed(() =>
	url.value.pathname
		.replace(/^\/ui\/?/, "")
		.split("/")
		.filter(Boolean)
		.map((s) => {
			try {
				return decodeURIComponent(s);
			} catch {
				return s;
			}
		}),
);
export const query = computed(() => url.value.searchParams);

/** The address of a screen: href("sandboxes", ns, name). Empty parts are left out, and so are empty values. */
export function href(parts: string[], q: Record<string, string | undefined> = {}): string {
	const search = new URLSearchParams();
	for (const [k, v] of Object.entries(q))
		if (v)
			search.set(k, v);
	const text = search.toString();
	return `${BASE}/${parts.filter(Boolean).map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(to: string, replace = false): void {
	if (to === here.value)
		return;
	if (replace)
		history.replaceState(null, "", to);
	else
		history.pushState(null, "", to);
	here.value = to;
}

/** Changes parameters of the address and keeps the rest; "" removes one. */
export function setQuery(changes: Record<string, string>, replace = true): void {
	const next = new URL(url.value);
	for (const [k, v] of Object.entries(changes))
		if (v)
			next.searchParams.set(k, v);
		else
			next.searchParams.delete(k);
	go(next.pathname + next.search, replace);
}

/** Links inside the page change what is shown, and load nothing. */
export function followLinks(e: MouseEvent): void {
	const a = (e.target as Element | null)?.closest?.("a");
	if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || a.target || a.hasAttribute("download"))
		return;
	if (a.origin !== location.origin || !(a.pathname === BASE || a.pathname.startsWith(`${BASE}/`)))
		return;
	e.preventDefault();
	go(a.pathname + a.search);
	document.getElementById("main")?.focus();
}
