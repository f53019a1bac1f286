// SPDX-License-Identifier: Apache-2.0
// Quantities of Kubernetes, exact in billionths as the server counts them, and how people read them.

const NANO = 1_000_000_000n;
const SUFFIXES: Record<string, [bigint, bigint]> = {
	n: [1n, 1_000_000_000n],
	u: [1n, 1_000_000n],
	m: [1n, 1000n],
	"": [1n, 1n],
	k: [1000n, 1n],
	M: [10n ** 6n, 1n],
	G: [10n ** 9n, 1n],
	T: [10n ** 12n, 1n],
	P: [10n ** 15n, 1n],
	E: [10n ** 18n, 1n],
	Ki: [1024n, 1n],
	Mi: [1024n ** 2n, 1n],
	Gi: [1024n ** 3n, 1n],
	Ti: [1024n ** 4n, 1n],
	Pi: [1024n ** 5n, 1n],
	Ei: [1024n ** 6n, 1n],
};
const FORM = /^([+-]?)(\d{1,30})?(?:\.(\d{0,30}))?(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)$/;

/** Billionths; undefined: it is no quantity. What is smaller than a billionth is rounded up, as Kubernetes does. */
export function parseAmount(q: string | number | undefined): bigint | undefined {
	const m = FORM.exec(String(q ?? ""));
	if (!m || (!m[2] && !m[3]))
		return undefined;
	const fraction = m[3] ?? "";
	let [times, over] = SUFFIXES[m[5] ?? ""]!;
	const exponent = Number(m[4] ?? 0);
	if (exponent > 0)
		times *= 10n ** BigInt(exponent);
	else
		over *= 10n ** BigInt(-exponent);
	over *= 10n ** BigInt(fraction.length);
	const scaled = BigInt(`${m[2] ?? ""}${fraction}`) * times * NANO;
	const nano = (scaled + over - 1n) / over;
	return m[1] === "-" ? -nano : nano;
}

/** As a number, for bars and charts; none if it is no quantity. */
export function amount(q: string | number | undefined, none = 0): number {
	const nano = parseAmount(q);
	return nano === undefined ? none : Number(nano) / 1e9;
}

/** Billionths as decimal text, as the server writes it. */
export function amountText(nano: bigint): string {
	const sign = nano < 0n ? "-" : "";
	const n = nano < 0n ? -nano : nano;
	const rest = (n % NANO).toString().padStart(9, "0").replace(/0+$/, "");
	return `${sign}${n / NANO}${rest ? `.${rest}` : ""}`;
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** The largest unit that n has at least one of. */
export function unitFor(n: number): { name: string; size: number } {
	let at = 0;
	while (Math.abs(n) >= 1024 ** (at + 1) && at < BINARY.length - 1)
		at++;
	return { name: BINARY[at]!, size: 1024 ** at };
}

export function bytes(n: number): string {
	const unit = unitFor(n);
	return Number.isNaN(n) ? "" : `${figure(n / unit.size)} ${unit.name}`;
}

export function gibHours(n: number): string {
	return Number.isNaN(n) ? "" : `${figure(n)} GiB h`;
}

export function seconds(n: number): string {
	return Number.isNaN(n) ? "" : `${figure(n)} s`;
}

export function milliseconds(ms: number): string {
	return ms < 1000 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

/** With as many digits as help: 1,234, 12.3, 0.0042. */
export function figure(n: number): string {
	return Number.isNaN(n) ? "" : n.toLocaleString("en", Math.abs(n) < 100 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 });
}
