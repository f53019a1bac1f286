// SPDX-License-Identifier: Apache-2.0
// Who is logged in, and what this server has for the page: asked once for each token.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { askJson } from "./http.ts";
import { currentToken } from "./session.ts";

export interface Self {
	user?: { username?: string };
	/** There is a router that makes URLs for ports. */
	urls?: boolean;
	/** There is an audit log. */
	audit?: boolean;
}

const known = signal<{ token: string; self: Self }>({ token: "", self: {} });
let asked = "";

/** Empty until it is known. */
export function useSelf(): Self {
	const token = currentToken();
	useEffect(() => {
		if (asked === token)
			return;
		asked = token;
		askJson<Self>("/cay/v1/page").then(
			(self) => (known.value = { token, self }),
			() => (asked = ""), // whatever else is asked for says why
		);
	}, [token]);
	return known.value.token === token ? known.value.self : {};
}
