// SPDX-License-Identifier: Apache-2.0
// Who is logged in. The token is kept for this tab alone, in the storage of the page's own origin: no cookie, which would
// also go to sandboxes' pages on another port of the same host.
import { batch, computed, signal } from "@preact/signals";

const STORE = "cay.token";
const MINE = "cay."; // keys of this page

const token = signal(read());
/** Whom this page has shown things to; undefined: to nobody yet, "": it is not known whom. */
let whose: string | undefined = token.value ? "" : undefined;
/** Why somebody must log in again; "" when they have not been here yet. */
export const ended = signal<"" | "expired" | "link">("");
export const loggedIn = computed(() => token.value !== "");

function read(): string {
	try {
		return sessionStorage.getItem(STORE) ?? "";
	} catch {
		return ""; // storage is switched off: the token lasts as long as the page
	}
}

export function currentToken(): string {
	return token.value;
}

function keep(text: string): void {
	try {
		sessionStorage.setItem(STORE, text);
	} catch {
		// as above
	}
}

/** Nothing of whoever was here stays in the tab's storage. */
function forget(): void {
	try {
		for (const key of Object.keys(sessionStorage))
			if (key.startsWith(MINE))
				sessionStorage.removeItem(key);
	} catch {
		// as above
	}
}

/** Who the token of now belongs to, once it is known. */
export function belongsTo(user: string): void {
	whose = user;
}

/** user: whom the token was found to belong to. What this page knows belongs to whom it has shown it: for anybody else it is loaded anew. */
export function logIn(text: string, user: string): void {
	if (whose !== undefined && (!user || user !== whose)) {
		logOut();
		keep(text);
		location.reload();
		return;
	}
	whose = user;
	batch(() => {
		ended.value = "";
		token.value = text;
	});
	keep(text);
}

/** By the code of a link, before anything is shown. */
export function logInFirst(text: string): void {
	forget();
	whose = "";
	token.value = text;
	keep(text);
}

export function logOut(why: "" | "expired" | "link" = ""): void {
	batch(() => {
		ended.value = why;
		token.value = "";
	});
	if (why !== "expired")
		return forget();
	try {
		sessionStorage.removeItem(STORE); // the same user may come back to the rest
	} catch {
		// as above
	}
}

/** As somebody wishes: whoever comes next finds a page that knows nothing. */
export function leave(): void {
	logOut();
	location.reload();
}

/** The code of a signed link, which is taken out of the address before anything else happens. */
export function takeCode(): string {
	const found = /(?:^#|&)code=([A-Za-z0-9_-]+)/.exec(location.hash);
	if (location.hash)
		history.replaceState(history.state, "", location.pathname + location.search);
	return found?.[1] ?? "";
}

/** A token for the subprotocols of a WebSocket, which can send no header. */
export function tokenProtocol(): string {
	const bytes = new TextEncoder().encode(token.value);
	const text = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
	return `base64url.bearer.authorization.k8s.io.${text}`;
}
