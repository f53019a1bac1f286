// SPDX-License-Identifier: Apache-2.0
// Patterns of names and hosts, with the meaning that the server gives them. A pattern that is read as a text, in which * is a
// character like no other, says whether another pattern contains it.

export function patternMatches(pattern: string, text: string): boolean {
	let p = 0;
	let t = 0;
	let star = -1;
	let from = 0;
	while (t < text.length) {
		if (pattern[p] === "*") {
			star = p++;
			from = t;
		} else if (p < pattern.length && pattern[p] === text[t]) {
			p++;
			t++;
		} else if (star >= 0) {
			p = star + 1;
			t = ++from;
		} else {
			return false;
		}
	}
	while (pattern[p] === "*")
		p++;
	return p === pattern.length;
}

export function listHas(patterns: readonly string[], name: string): boolean {
	return patterns.some((p) => patternMatches(p, name));
}

/** What two patterns with at most one * each both match. */
export function meetPatterns(x: string, y: string): string[] {
	if (patternMatches(x, y))
		return [y];
	if (patternMatches(y, x))
		return [x];
	const [a, b] = [x.split("*"), y.split("*")];
	if (a.length !== 2 || b.length !== 2)
		return [];
	const [headA, tailA, headB, tailB] = [a[0]!, a[1]!, b[0]!, b[1]!];
	if (!(headA.startsWith(headB) || headB.startsWith(headA)) || !(tailA.endsWith(tailB) || tailB.endsWith(tailA)))
		return [];
	const head = headA.length > headB.length ? headA : headB;
	const tail = tailA.length > tailB.length ? tailA : tailB;
	const found = [`${head}*${tail}`];
	for (let n = 1; n <= Math.min(head.length, tail.length); n++) {
		const text = head + tail.slice(n);
		if (head.endsWith(tail.slice(0, n)) && patternMatches(x, text) && patternMatches(y, text))
			found.push(text);
	}
	return found;
}

function plain(host: string): string {
	return (host.length > 1 && host.endsWith(".") ? host.slice(0, -1) : host).toLowerCase();
}

function isBelow(pattern: string): boolean {
	return pattern.length > 2 && pattern.startsWith("*.");
}

function isAddress(host: string): boolean {
	return host.includes(":") || /(^|\.)\d+$/.test(host);
}

function hostMatches(pattern: string, host: string): boolean {
	const h = plain(host);
	if (!h || h.includes("*"))
		return false;
	if (pattern === "*")
		return true;
	if (!isBelow(pattern))
		return plain(pattern) === h;
	const end = plain(pattern).slice(1);
	return h.length > end.length && !h.startsWith(".") && !isAddress(h) && h.endsWith(end);
}

export function hostContains(outer: string, inner: string): boolean {
	if (outer === "*" || outer === inner)
		return true;
	if (!inner.includes("*"))
		return hostMatches(outer, inner);
	return isBelow(inner) && isBelow(outer) && plain(inner).endsWith(plain(outer).slice(1));
}
