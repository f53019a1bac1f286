// SPDX-License-Identifier: Apache-2.0
// How the whole is doing: sums, pools, claims, nodes. It lives on watches alone, and knows more where the server tells more.
import "./overview.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useObjects } from "../api/collection.ts";
import { claims, pools, sandboxes } from "../api/kinds.ts";
import { Screen } from "../parts/common.tsx";
import { namespace } from "../state/prefs.ts";
import { text } from "../text.ts";
import { remember } from "./overview/claims.ts";
import { gap, record } from "./overview/history.ts";
import { Claims } from "./overview/latency.tsx";
import { Nodes } from "./overview/nodes.tsx";
import { Pools } from "./overview/pools.tsx";
import { useServer } from "./overview/server.ts";
import { Sums } from "./overview/sums.tsx";

const CALM_MS = 250;

/** What is new, at once if nothing was new just before, else a little later. key: with another one it is always new. */
function useCalm<V extends object>(value: V, key: string): V {
	const [, draw] = useState(0);
	const held = useRef({ value, key, at: 0, timer: 0, next: value });
	const h = held.current;
	const changed = (Object.keys(value) as (keyof V)[]).some((k) => value[k] !== h.next[k]);
	if (changed)
		h.next = value;
	const now = performance.now();
	if (key !== h.key || (h.next !== h.value && now - h.at >= CALM_MS)) {
		h.value = h.next;
		h.key = key;
		h.at = now;
	} else if (h.next !== h.value && !h.timer) {
		h.timer = window.setTimeout(
			() => {
				h.timer = 0;
				draw((n) => n + 1);
			},
			h.at + CALM_MS - now + 1,
		);
	}
	useEffect(() => () => clearTimeout(h.timer), []);
	return h.value;
}

export function Overview() {
	const ns = namespace.value;
	const poolsNow = useObjects(pools, ns);
	const claimsNow = useObjects(claims, ns);
	const sandboxesNow = useObjects(sandboxes, ns);
	const server = useServer();
	const claimed = useMemo(() => {
		const counts = new Map<string, number>();
		for (const c of claimsNow.objects.values()) {
			const key = `${c.metadata.namespace}/${c.spec?.warmPoolRef?.name ?? ""}`;
			if (c.status?.sandbox?.name)
				counts.set(key, (counts.get(key) ?? 0) + 1);
		}
		remember(claimsNow.objects.values());
		return counts;
	}, [claimsNow]);
	useMemo(() => record(ns, poolsNow, claimsNow.state === "live" ? claimed : undefined), [ns, poolsNow, claimed]);
	useEffect(() => () => gap(), []);
	// Every change is recorded; many in a moment are drawn a few times a second.
	const shown = useCalm({ pools: poolsNow, claims: claimsNow, sandboxes: sandboxesNow, server, claimed }, ns);
	return useMemo(
		() => (
			<Screen title={text.nav.overview}>
				<Sums ns={ns} sandboxes={shown.sandboxes} pools={shown.pools} />
				<Pools snapshot={shown.pools} claimed={shown.claimed} server={shown.server} ns={ns} />
				<div class="grid-2">
					<Claims snapshot={shown.claims} server={shown.server} ns={ns} />
					<Nodes server={shown.server} />
				</div>
			</Screen>
		),
		[shown, ns],
	);
}
