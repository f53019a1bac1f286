// SPDX-License-Identifier: Apache-2.0
// Making a sandbox, and waiting until it is Ready.
import { ApiError, ask, readLines } from "../../api/http.ts";
import { type Kind, pathOf, claims, sandboxes } from "../../api/kinds.ts";
import { create, newName } from "../../api/objects.ts";
import { condition, type Sandbox, type SandboxClaim, type SandboxTemplate, type SandboxWarmPool } from "../../api/types.ts";
import { text } from "../../text.ts";

const t = text.sandboxes.create;
const GIVE_UP_MS = 10 * 60 * 1000;
const AGAIN_MS = 250;

/** What is wrong with a name, or "". It becomes a host name, so it is one label. */
export function badName(name: string): string {
	const odd = /[^a-z0-9-]/u.exec(name)?.[0];
	if (odd !== undefined)
		return t.letter(odd === " " ? "␣" : odd);
	if (name.length > 63)
		return t.long(name.length);
	return name.startsWith("-") ? t.first : name.endsWith("-") ? t.last : "";
}

export function makeUpName(from: string): string {
	return newName(from.replaceAll(".", "-").slice(0, 56).replace(/-+$/, ""));
}

export function makeFromPool(ns: string, name: string, pool: SandboxWarmPool): Promise<SandboxClaim> {
	return create(claims, ns, { metadata: { name }, spec: { warmPoolRef: { name: pool.metadata.name } } });
}

/** As a claim would make it, as far as a Sandbox can say it: no token of the API unless the template wants one. */
export function makeFromTemplate(ns: string, name: string, template: SandboxTemplate): Promise<Sandbox> {
	const { podTemplate, volumeClaimTemplates } = template.spec ?? {};
	return create(sandboxes, ns, {
		metadata: { name, annotations: { "agents.x-k8s.io/sandbox-template-ref": template.metadata.name } },
		spec: {
			podTemplate: { ...podTemplate, spec: { automountServiceAccountToken: false, ...podTemplate?.spec } },
			...(volumeClaimTemplates ? { volumeClaimTemplates } : {}),
		},
	});
}

type Waiting = Sandbox & SandboxClaim;

/** One watch; "" if it ended before. */
async function watchOnce(path: string, name: string, stop: AbortController): Promise<string> {
	let found = "";
	try {
		await readLines(await ask(path, { signal: stop.signal, once: true }), (line) => {
			const { type, object } = JSON.parse(line) as { type: string; object: Waiting };
			if (!found && (type === "ADDED" || type === "MODIFIED") && condition(object, "Ready")?.status === "True") {
				found = object.status?.sandbox?.name ?? name;
				stop.abort();
			}
		});
	} catch (e) {
		if (!found && (stop.signal.aborted || (e instanceof ApiError && e.code >= 400 && e.code < 500)))
			throw e;
	}
	return found;
}

/** Watches from before it exists. done: the name of its sandbox, once that is Ready. */
export function untilReady(k: Kind<Sandbox> | Kind<SandboxClaim>, ns: string, name: string): { done: Promise<string>; stop: () => void } {
	const stop = new AbortController();
	const timer = setTimeout(() => stop.abort(), GIVE_UP_MS);
	const query = new URLSearchParams({ watch: "true", fieldSelector: `metadata.name=${name}` });
	const done = (async () => {
		try {
			for (;;) {
				const found = await watchOnce(`${pathOf(k, ns)}?${query}`, name, stop);
				if (found)
					return found;
				await new Promise((r) => setTimeout(r, AGAIN_MS));
			}
		} finally {
			clearTimeout(timer);
		}
	})();
	done.catch(() => undefined); // whoever waits is told; nobody has to
	return { done, stop: () => stop.abort() };
}
