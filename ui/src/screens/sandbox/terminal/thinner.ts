// SPDX-License-Identifier: Apache-2.0
// Marks that belong to the character before them are joined with it, one by one: thousands of them stop the page.
const MARKS_MAX = 16;
const MARKS = /[\p{M}\u200b-\u200f\u2060-\u2064\ufeff]+/gu;

/** Text in pieces, with no more marks after each other than a character can use. */
export class Thinner {
	private readonly decoder = new TextDecoder();
	private marks = 0; // at the end of what came before

	take(data: Uint8Array): string {
		const s = this.decoder.decode(data, { stream: true });
		let end = 0; // where the last run ended, and how long it was
		let run = 0;
		const thin = s.replace(MARKS, (found: string, at: number) => {
			const before = at ? 0 : this.marks;
			const all = [...found];
			end = at + found.length;
			run = before + all.length;
			return all.slice(0, Math.max(0, MARKS_MAX - before)).join("");
		});
		if (s)
			this.marks = end === s.length ? run : 0;
		return thin;
	}
}
