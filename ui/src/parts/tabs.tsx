// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";
import { query, setQuery } from "../state/location.ts";

export interface Tab {
	id: string;
	title: string;
	show: () => ComponentChildren;
}

/** Which one is shown is in the address (tab). */
export function Tabs(p: { label: string; tabs: Tab[] }) {
	const chosen = p.tabs.find((t) => t.id === query.value.get("tab")) ?? p.tabs[0]!;
	const choose = (t: Tab) => setQuery({ tab: t.id, ...(t === chosen ? {} : { q: "", by: "" }) }, false); // search and order are those of one list
	const onKey = (e: KeyboardEvent) => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
		if (!step)
			return;
		e.preventDefault();
		const next = p.tabs[(p.tabs.indexOf(chosen) + step + p.tabs.length) % p.tabs.length]!;
		choose(next);
		requestAnimationFrame(() => document.getElementById(`tab-${next.id}`)?.focus());
	};
	return (
		<div class="tabs">
			<div role="tablist" aria-label={p.label} onKeyDown={onKey}>
				{p.tabs.map((t) => (
					<button
						type="button"
						role="tab"
						key={t.id}
						id={`tab-${t.id}`}
						aria-selected={t === chosen}
						aria-controls={`panel-${t.id}`}
						tabIndex={t === chosen ? 0 : -1}
						onClick={() => choose(t)}
					>
						{t.title}
					</button>
				))}
			</div>
			<div role="tabpanel" id={`panel-${chosen.id}`} aria-labelledby={`tab-${chosen.id}`} key={chosen.id} tabIndex={-1}>
				{chosen.show()}
			</div>
		</div>
	);
}
