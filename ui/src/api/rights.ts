// SPDX-License-Identifier: Apache-2.0
// What the user may do, so that buttons that cannot work are not offered. The server decides in any case.
import { type Signal, signal } from "@preact/signals";
import { askJson } from "./http.ts";
import type { Kind } from "./kinds.ts";
import { currentToken } from "./session.ts";
import type { KObject } from "./types.ts";

const known = new Map<string, Signal<boolean | undefined>>();

interface Review {
	status?: { allowed?: boolean };
}

/** undefined: not known yet. Read in a component, it is drawn again when it is known. */
export function may(verb: string, k: Kind<KObject>, ns: string, sub = "", name = ""): boolean | undefined {
	const key = [currentToken(), verb, k.group, k.plural, ns, sub, name].join(" ");
	let s = known.get(key);
	if (!s) {
		s = signal<boolean | undefined>(undefined);
		known.set(key, s);
		const resourceAttributes = { verb, group: k.group, resource: k.plural, subresource: sub, namespace: ns, name };
		askJson<Review>("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
			method: "POST",
			body: { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } },
		}).then(
			(r) => (s!.value = r.status?.allowed === true),
			() => known.delete(key),
		);
	}
	return s.value;
}
