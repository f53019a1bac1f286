// SPDX-License-Identifier: Apache-2.0
// What a reader prefers, kept in this browser: nothing of it is secret.
import { computed, effect, signal } from "@preact/signals";
import { query, setQuery } from "./location.ts";

export type Theme = "system" | "light" | "dark";

function read(key: string): string {
	try {
		return localStorage.getItem(key) ?? "";
	} catch {
		return "";
	}
}

function write(key: string, value: string): void {
	try {
		localStorage.setItem(key, value);
	} catch {
		// it lasts as long as the page
	}
}

const stored = read("cay.theme");
export const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "system");

effect(() => {
	if (theme.value === "system")
		delete document.documentElement.dataset["theme"];
	else
		document.documentElement.dataset["theme"] = theme.value;
	write("cay.theme", theme.value);
});

/** The namespace that lists show; "" is all of them. It is in the address, so that a link shows the same to everybody. */
export const namespace = computed(() => {
	const said = query.value.get("ns");
	const ns = said ?? (read("cay.namespace") || "default");
	return ns === "*" ? "" : ns;
});

export function setNamespace(ns: string): void {
	write("cay.namespace", ns || "*");
	setQuery({ ns: ns || "*" });
}
