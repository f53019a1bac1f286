// SPDX-License-Identifier: Apache-2.0
// Objects as YAML, for reading. What is not surely plain is quoted as in JSON, which is YAML too.
import { plain } from "../../parts/plain.ts";

const PLAIN = /^[A-Za-z_/.][A-Za-z0-9_/.@%+=-]*(?: [A-Za-z0-9_/.@%+=-]+)*$/;
const WORDS = /^(?:true|false|null|yes|no|on|off|y|n|\.nan|\.inf|~|\.+)$/i;

function scalar(v: unknown): string {
	if (typeof v !== "string")
		return JSON.stringify(v) ?? "null";
	if (PLAIN.test(v) && !WORDS.test(v))
		return v;
	return plain(JSON.stringify(v)); // JSON leaves marks that turn the direction of text as they are
}

export function yaml(v: unknown, indent = ""): string {
	if (Array.isArray(v)) {
		if (!v.length)
			return "[]";
		return v
			.map((e) => {
				const inner = yaml(e, `${indent}  `);
				return `${indent}- ${isBlock(e) ? inner.slice(indent.length + 2) : inner}`;
			})
			.join("\n");
	}
	if (v && typeof v === "object") {
		const members = Object.entries(v);
		if (!members.length)
			return "{}";
		return members
			.map(([k, e]) => {
				if (!isBlock(e))
					return `${indent}${scalar(k)}: ${yaml(e)}`;
				// The items of a list stand below its name, as kubectl writes them.
				return `${indent}${scalar(k)}:\n${yaml(e, Array.isArray(e) ? indent : `${indent}  `)}`;
			})
			.join("\n");
	}
	return scalar(v);
}

function isBlock(v: unknown): boolean {
	return !!v && typeof v === "object" && Object.keys(v).length > 0;
}
