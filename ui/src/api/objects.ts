// SPDX-License-Identifier: Apache-2.0
// Reading and writing one object.
import { ApiError, ask, askJson } from "./http.ts";
import { type Kind, pathOf } from "./kinds.ts";
import type { KObject } from "./types.ts";

export function get<O extends KObject>(k: Kind<O>, ns: string, name: string, signal?: AbortSignal): Promise<O> {
	return askJson<O>(pathOf(k, ns, name), signal ? { signal } : {});
}

type New<O extends KObject> = Omit<O, "apiVersion" | "kind" | "metadata"> & { metadata: Partial<O["metadata"]> & { name: string } };

/** A name that nothing else has: names are made here, so that a request that is sent again makes nothing twice. */
export function newName(prefix: string): string {
	const letters = "bcdfghjklmnpqrstvwxz2456789";
	const random = crypto.getRandomValues(new Uint8Array(6));
	return `${prefix}-${[...random].map((n) => letters[n % letters.length]).join("")}`;
}

export async function create<O extends KObject>(k: Kind<O>, ns: string, o: New<O>): Promise<O> {
	const apiVersion = k.base.replace(/^\/apis?\//, "");
	const body = { apiVersion, kind: k.kind, ...o };
	const made = (once: boolean) => askJson<O>(pathOf(k, ns), { method: "POST", body, once });
	try {
		return await made(true);
	} catch (e) {
		if (!(e instanceof ApiError) || e.code !== 0)
			throw e;
	}
	try {
		return await made(false);
	} catch (e) {
		// The first may have been heard, and only its answer lost.
		if (e instanceof ApiError && e.reason === "AlreadyExists")
			return get(k, ns, o.metadata.name);
		throw e;
	}
}

/** A merge patch; null removes a member. */
export function patch<O extends KObject>(k: Kind<O>, ns: string, name: string, body: object, sub = ""): Promise<O> {
	return askJson<O>(pathOf(k, ns, name, sub), { method: "PATCH", body, type: "application/merge-patch+json" });
}

/** uid: of the one that is meant, so that another which got its name meanwhile stays. */
export async function remove(k: Kind<KObject>, ns: string, name: string, uid: string | undefined): Promise<void> {
	const body = { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: "Background", ...(uid ? { preconditions: { uid } } : {}) };
	const removed = (once: boolean) => ask(pathOf(k, ns, name), { method: "DELETE", body, once });
	try {
		await removed(true);
		return;
	} catch (e) {
		if (!(e instanceof ApiError) || e.code !== 0)
			throw e;
	}
	try {
		await removed(false);
	} catch (e) {
		// The first may have been heard, and only its answer lost.
		if (!(e instanceof ApiError && (e.code === 404 || (uid && e.code === 409))))
			throw e;
	}
}
