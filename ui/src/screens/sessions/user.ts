// SPDX-License-Identifier: Apache-2.0
// Whose agents can be used: those that are not Private, one's own, and all with the verb use-private.
import { agents } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import type { Agent } from "../../api/types.ts";

export function usable(a: Agent, user: string): boolean {
	if (a.metadata.deletionTimestamp)
		return false;
	if (a.spec?.visibility !== "Private" || (user !== "" && a.metadata.annotations?.["cay.dev/owner"] === user))
		return true;
	return may("use-private", agents, a.metadata.namespace ?? "", "", a.metadata.name) === true;
}
