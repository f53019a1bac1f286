// SPDX-License-Identifier: Apache-2.0
// The answer to a question. It is about the very object that was shown: one of the same name that came after it is not meant.
import { ApiError } from "../../api/http.ts";
import { approvals } from "../../api/kinds.ts";
import { get, patch } from "../../api/objects.ts";
import type { Approval } from "../../api/types.ts";
import { complain, say } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { outcome } from "./logic.ts";

export type Decision = "Once" | "Always" | "Deny";

function write(a: Approval, decision: Decision): Promise<Approval> {
	const { uid, resourceVersion, namespace = "", name } = a.metadata;
	return patch(approvals, namespace, name, { metadata: { uid, resourceVersion }, status: { decision } }, "status");
}

/** Why an answer came too late; "": it did not. */
function tooLate(shown: Approval, found: Approval | undefined): string {
	const t = text.approvals.late;
	if (!found || found.metadata.uid !== shown.metadata.uid)
		return t.gone;
	const became = outcome(found, Date.now());
	if (became === "Open")
		return "";
	return became === "Expired" ? t.expired : t.decided(found.status?.decidedBy ?? text.unknown, text.approvals.outcome[became]);
}

export async function decide(a: Approval, decision: Decision): Promise<void> {
	let shown = a;
	for (let tries = 0; ; tries++) {
		try {
			await write(shown, decision);
			return say(text.approvals.done[decision](a.spec?.agent ?? ""));
		} catch (e) {
			if (!(e instanceof ApiError) || ![404, 409, 422].includes(e.code))
				return complain(e);
			const found = await get(approvals, a.metadata.namespace ?? "", a.metadata.name).catch(() => undefined);
			const why = tooLate(a, found);
			if (why)
				return complain(new Error(why));
			if (e.code !== 409 || tries)
				return complain(e);
			shown = found!; // its status alone can have changed: a question never does
		}
	}
}
