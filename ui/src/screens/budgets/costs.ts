// SPDX-License-Identifier: Apache-2.0
// What ledgers add up to: exact, and with the same rules as `cay cost`.
import { amountText, parseAmount } from "../../api/amounts.ts";
import type { Ledger } from "../../api/types.ts";
import { type Amount, AMOUNTS } from "./amounts.ts";

export type By = "agent" | "user" | "template";
export type Sums = Record<Amount, bigint>; // in billionths

export interface CostRow {
	ns: string;
	who: string; // "": the team's
	sums: Sums;
}

export interface Costs {
	total: Sums;
	rows: CostRow[];
	/** The oldest first; days on which nothing was used are there too. */
	days: { day: string; sums: Sums }[];
}

const zero = (): Sums => ({ cpuSeconds: 0n, memoryGiBHours: 0n, diskGiBHours: 0n, networkBytes: 0n });

/** The names of the last n days in UTC, today last. */
export function lastDays(n: number, at: number): string[] {
	return Array.from({ length: n }, (_, i) => new Date(at - (n - 1 - i) * 86_400_000).toISOString().slice(0, 10));
}

export function addUp(ledgers: Iterable<Ledger>, by: By, days: string[]): Costs {
	const total = zero();
	const rows = new Map<string, CostRow>();
	const perDay = new Map(days.map((d) => [d, zero()]));
	for (const l of ledgers) {
		if (l.metadata.name < days[0]!)
			continue;
		const day = perDay.get(l.metadata.name) ?? zero();
		for (const r of l.status?.rows ?? []) {
			const ns = l.metadata.namespace ?? "";
			const who = r[by] ?? "";
			let row = rows.get(`${ns}/${who}`);
			if (!row) {
				row = { ns, who, sums: zero() };
				rows.set(`${ns}/${who}`, row);
			}
			for (const a of AMOUNTS) {
				const n = parseAmount(r[a]) ?? 0n;
				row.sums[a] += n;
				total[a] += n;
				day[a] += n;
			}
		}
	}
	return { total, rows: [...rows.values()], days: [...perDay].map(([day, sums]) => ({ day, sums })) };
}

/** Those that used most first. */
export function sortBy(rows: CostRow[], a: Amount): CostRow[] {
	return [...rows].sort((x, y) => (x.sums[a] !== y.sums[a] ? (x.sums[a] > y.sums[a] ? -1 : 1) : `${x.ns}/${x.who}`.localeCompare(`${y.ns}/${y.who}`)));
}

/** A cell of CSV. A program that opens it shall not take a name for a formula. */
function cell(s: string): string {
	const safe = /^[=+\-@\t\r]/.test(s) ? `'${s}` : s;
	return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(rows: CostRow[], by: By, first: string, last: string): string {
	const lines = [["from", "to", "namespace", by, ...AMOUNTS]];
	for (const r of rows)
		lines.push([first, last, r.ns, r.who, ...AMOUNTS.map((a) => amountText(r.sums[a]))]);
	return lines.map((l) => l.map(cell).join(",")).join("\r\n") + "\r\n";
}
