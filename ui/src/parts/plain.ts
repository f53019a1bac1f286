// SPDX-License-Identifier: Apache-2.0

/** What must not be drawn as it is: controls, and marks that turn the direction of text. */
export function plain(v: unknown): string {
	const s = typeof v === "string" ? v : JSON.stringify(v);
	return (s ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
