// SPDX-License-Identifier: Apache-2.0
// Which sandbox a session gets: as its agent says, a new one, one that exists, or none.
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { useObjects } from "../../api/collection.ts";
import { pools, sandboxes } from "../../api/kinds.ts";
import type { Agent } from "../../api/types.ts";
import { Badge } from "../../parts/common.tsx";
import { text } from "../../text.ts";
import { isSpare, stateOf, TONES } from "../sandbox/state.ts";
import { byDefault, modeOf, poolOf } from "./words.ts";

const t = text.sessions;
const LISTED = 50;

/** The Sandboxes of a namespace with a search. taken: why one cannot be chosen. */
export function SandboxList(p: { ns: string; chosen: string; onChoose: (name: string) => void; taken?: (name: string) => string }) {
	const [find, setFind] = useState("");
	const group = useId();
	const found = useObjects(sandboxes, p.ns);
	if (found.state === "refused")
		return (
			<label class="field">
				<span class="label">{t.sandboxName}</span>
				<input value={p.chosen} spellcheck={false} onInput={(e) => p.onChoose(e.currentTarget.value.trim())} />
				<span class="hint">{t.noList}</span>
			</label>
		);
	const all = [...found.objects.values()].filter((b) => !isSpare(b)).sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
	const rows = all.filter((b) => b.metadata.name.includes(find.trim().toLowerCase()));
	return (
		<div class="picker-list">
			<input type="search" class="find" aria-label={t.findSandbox} placeholder={t.findSandbox} value={find} onInput={(e) => setFind(e.currentTarget.value)} />
			{found.state === "loading" && <p class="quiet">{text.loading}</p>}
			{found.state !== "loading" && !rows.length && <p class="quiet">{all.length ? text.list.noMatch : t.noSandboxes}</p>}
			<ul>
				{rows.slice(0, LISTED).map((b) => {
					const state = stateOf(b);
					const taken = p.taken?.(b.metadata.name) ?? "";
					return (
						<li key={b.metadata.uid}>
							<label title={taken}>
								<input type="radio" name={group} checked={p.chosen === b.metadata.name} disabled={!!taken} onChange={() => p.onChoose(b.metadata.name)} />
								<span class="name">{b.metadata.name}</span>
								<Badge tone={TONES[state]}>{text.sandboxes.states[state]}</Badge>
								{taken && <span class="quiet">{taken}</span>}
							</label>
						</li>
					);
				})}
			</ul>
			{rows.length > LISTED && <p class="quiet">{t.more(rows.length - LISTED)}</p>}
		</div>
	);
}

/** "": as the agent says; "new", "none", or the name of a Sandbox; "?": an existing one, not chosen yet. */
export type Choice = string;

function Option(p: { group: string; checked: boolean; onChoose: () => void; label: string; hint: ComponentChildren; barred?: string; children?: ComponentChildren }) {
	return (
		<div class="option">
			<label>
				<input type="radio" name={p.group} checked={p.checked} disabled={!!p.barred} onChange={p.onChoose} />
				<span>
					<strong>{p.label}</strong>
					<span class="quiet"> {p.barred || p.hint}</span>
				</span>
			</label>
			{p.checked && p.children}
		</div>
	);
}

export function Picker(p: { ns: string; agent: Agent | undefined; value: Choice; onChange: (c: Choice) => void }) {
	const group = useId();
	const pool = poolOf(p.agent);
	const warm = useObjects(pools, p.ns);
	const ready = warm.objects.get(`${p.ns}/${pool}`);
	const named = !["", "new", "none"].includes(p.value);
	const chooses = modeOf(p.agent) === "UserChooses";
	const fresh = chooses ? t.freshYours(pool) : modeOf(p.agent) === "FreshPerSession" ? t.freshKept(pool) : t.fresh(pool);
	const counts = ready ? t.poolReady(ready.status?.readyReplicas ?? 0) : warm.state === "live" && pool ? t.poolMissing(pool) : "";
	return (
		<fieldset class="picker">
			<legend>{t.which}</legend>
			<Option
				group={group}
				checked={p.value === ""}
				onChoose={() => p.onChange("")}
				label={t.asAgent}
				hint={p.agent ? byDefault(p.agent) : t.modeDecides}
				{...(p.agent && chooses ? { barred: t.mustChoose } : {})}
			/>
			<Option
				group={group}
				checked={p.value === "new"}
				onChoose={() => p.onChange("new")}
				label={t.newSandbox}
				hint={
					<>
						{p.agent ? fresh : t.freshUnknown} {counts}
					</>
				}
				{...(p.agent && !pool ? { barred: t.noPool } : {})}
			/>
			<Option group={group} checked={named} onChoose={() => p.onChange("?")} label={t.existing} hint={t.existingHint}>
				<SandboxList ns={p.ns} chosen={p.value} onChoose={p.onChange} />
			</Option>
			<Option group={group} checked={p.value === "none"} onChoose={() => p.onChange("none")} label={t.without} hint={t.withoutHint} />
		</fieldset>
	);
}
