// SPDX-License-Identifier: Apache-2.0
// The time, for ages and clocks that are drawn: it goes on by whole seconds, and only while the page is seen.
import { signal } from "@preact/signals";

export const now = signal(Date.now());

function tick(): void {
	if (!document.hidden)
		now.value = Date.now();
	setTimeout(tick, 1000 - (Date.now() % 1000));
}
tick();
document.addEventListener("visibilitychange", () => (now.value = Date.now()));

const UNITS: [string, number][] = [
	["d", 86400],
	["h", 3600],
	["m", 60],
	["s", 1],
];

/** "3h 12m": the two largest units, as kubectl writes ages. */
export function span(seconds: number): string {
	let rest = Math.max(0, Math.floor(seconds));
	const parts: string[] = [];
	for (const [unit, size] of UNITS) {
		const n = Math.floor(rest / size);
		rest -= n * size;
		if (n || (unit === "s" && !parts.length))
			parts.push(`${n}${unit}`);
		else if (parts.length)
			break;
		if (parts.length === 2)
			break;
	}
	return parts.join(" ");
}

/** Seconds since a time of the API; NaN if there is none. */
export function since(time: string | undefined, at = now.value): number {
	return time ? (at - Date.parse(time)) / 1000 : NaN;
}

export function age(time: string | undefined): string {
	const s = since(time);
	return Number.isNaN(s) ? "" : span(s);
}

/** The moment itself, in the reader's own zone. */
export function moment(time: string | number | undefined): string {
	const d = time === undefined ? NaN : typeof time === "number" ? time : Date.parse(time);
	return Number.isNaN(d) ? "" : new Date(d).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}
