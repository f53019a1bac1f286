// SPDX-License-Identifier: Apache-2.0
// What a question is about, what became of it, and what "Always" would mean. The rules are those of the server's gate.
import type { Approval, Rule } from "../../api/types.ts";
import { condition } from "../../api/types.ts";
import { text } from "../../text.ts";

export type Outcome = "Open" | "Once" | "Always" | "Deny" | "Expired";

const NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; // SHA-256 of no bytes
const RULE_WORDS = 64;
const RULE_TEXT = 1024;
const RULE_TOOL = 256;

export function outcome(a: Approval, now: number): Outcome {
	const said = a.status?.decision;
	if (said === "Once" || said === "Always" || said === "Deny")
		return said;
	return condition(a, "Expired")?.status === "True" || !(Date.parse(a.spec?.expires ?? "") > now) ? "Expired" : "Open";
}

export type Input = "none" | "some" | "terminal" | "absent";

/** What it reads. A question about a host has no input. */
export function inputOf(a: Approval): Input {
	const digest = a.spec?.inputDigest?.replace(/^sha256:/, "");
	if (digest === undefined)
		return a.spec?.host ? "absent" : "terminal";
	return digest === NOTHING ? "none" : "some";
}

function tooLong(s: string, max: number): boolean {
	return new TextEncoder().encode(s).length > max;
}

/** Why "Always" would be good for once only; "": it would not. */
export function onceOnly(a: Approval): string {
	const s = a.spec ?? {};
	const t = text.approvals.onceOnly;
	const texts = [s.path, s.tool, ...(s.path ? [] : (s.argv ?? []))].filter((x) => x !== undefined);
	if (inputOf(a) === "terminal")
		return t.terminal;
	if (inputOf(a) === "some" && !s.path)
		return t.input;
	if (!s.path && !s.tool && !s.host && !s.argv?.length)
		return t.nothing;
	if (texts.some((x) => /[*\\]/.test(x)) || s.host?.includes("*"))
		return t.pattern;
	if ((!s.path && (s.argv?.length ?? 0) > RULE_WORDS) || tooLong(s.tool ?? "", RULE_TOOL) || texts.some((x) => tooLong(x, RULE_TEXT)))
		return t.long;
	return "";
}

/** The rule that "Always" adds in front of the agent's own, with its members in the server's order. */
export function ruleOf(a: Approval): Rule {
	const { tool, path, host, argv } = a.spec ?? {};
	return {
		action: "Allow",
		...(tool ? { tool } : {}),
		...(path ? { path } : {}),
		...(host ? { host } : {}),
		...(!path && argv?.length ? { withoutInput: true, argv } : {}),
	};
}

const SHOWN = new Set(["agent", "session", "attachment", "sandbox", "operation", "argv", "cwd", "path", "host", "tool", "environmentDigest", "inputDigest", "digest", "requestedBy", "expires"]);

/** Members of the question that this page does not know: who decides must see them too. */
export function others(a: Approval): [string, string][] {
	return Object.entries(a.spec ?? {})
		.filter(([k]) => !SHOWN.has(k))
		.map(([k, v]) => [k, JSON.stringify(v)]);
}

export function byAge(a: Approval, b: Approval): number {
	return (a.metadata.creationTimestamp ?? "").localeCompare(b.metadata.creationTimestamp ?? "") || a.metadata.name.localeCompare(b.metadata.name);
}
