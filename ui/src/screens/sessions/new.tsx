// SPDX-License-Identifier: Apache-2.0
// A new session: with which agent, about what, and in which sandbox. The agent can be in the address (agent).
import { useState } from "preact/hooks";
import { useObjects } from "../../api/collection.ts";
import { agents, sessions } from "../../api/kinds.ts";
import { create, newName } from "../../api/objects.ts";
import { useSelf } from "../../api/self.ts";
import type { Session } from "../../api/types.ts";
import { Field, Missing, Panel, Screen } from "../../parts/common.tsx";
import { complain } from "../../state/notices.ts";
import { go, href, query, setQuery } from "../../state/location.ts";
import { namespace } from "../../state/prefs.ts";
import { text } from "../../text.ts";
import { Act } from "./act.tsx";
import { type Choice, Picker } from "./picker.tsx";
import { usable } from "./user.ts";
import { modeOf, retainOf } from "./words.ts";

const t = text.sessions;
const DURATION = /^(\d+(\.\d+)?(h|m|s|ms|us))+$/;

export function New() {
	const [typed, setTyped] = useState("default");
	const ns = namespace.value || typed;
	const user = useSelf().user?.username ?? "";
	const found = useObjects(agents, ns);
	const mine = [...found.objects.values()].filter((a) => usable(a, user)).sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
	const hidden = found.objects.size - mine.length;
	const name = query.value.get("agent") ?? "";
	const agent = mine.find((a) => a.metadata.name === name);
	const [title, setTitle] = useState("");
	const [forUser, setForUser] = useState("");
	const [retain, setRetain] = useState("");
	const [choice, setChoice] = useState<Choice>("");
	const listed = found.state === "live" || found.objects.size > 0;
	const chooses = modeOf(agent) === "UserChooses";
	const wrongRetain = retain && !DURATION.test(retain) ? t.badDuration : "";
	const barred = !name ? t.agentFirst : choice === "?" || (agent && chooses && choice === "") ? t.chooseFirst : wrongRetain;
	const make = async () => {
		const spec: NonNullable<Session["spec"]> = { agent: name };
		if (title.trim())
			spec.title = title.trim();
		if (forUser.trim())
			spec.user = forUser.trim();
		if (retain)
			spec.retain = retain;
		if (choice)
			spec.sandbox = choice;
		try {
			const made = await create<Session>(sessions, ns, { metadata: { name: newName(name) }, spec });
			go(href(["sessions", ns, made.metadata.name]), true);
		} catch (e) {
			complain(e);
		}
	};
	return (
		<Screen title={t.new}>
			<form class="new-session stack" onSubmit={(e) => e.preventDefault()}>
				<Panel>
					{!namespace.value && (
						<Field label={text.bar.namespace}>
							<input value={typed} onChange={(e) => setTyped(e.currentTarget.value.trim() || "default")} />
						</Field>
					)}
					{listed ? (
						<Field label={t.agent} hint={hidden ? t.hiddenAgents(hidden) : ""}>
							<select value={agent ? name : ""} onChange={(e) => setQuery({ agent: e.currentTarget.value })}>
								<option value="">{t.chooseAgent}</option>
								{mine.map((a) => (
									<option key={a.metadata.name} value={a.metadata.name}>
										{a.metadata.name} ({t.modeNames[modeOf(a)] ?? modeOf(a)})
									</option>
								))}
							</select>
						</Field>
					) : found.state === "refused" ? (
						<Field label={t.agent} hint={t.typeAgent}>
							<input value={name} spellcheck={false} onInput={(e) => setQuery({ agent: e.currentTarget.value.trim() })} />
						</Field>
					) : (
						<Missing snapshot={found} kind={agents} ns={ns} />
					)}
					{listed && !mine.length && <p class="quiet">{t.noAgents}</p>}
					<Field label={t.title} hint={t.titleHint}>
						<input value={title} maxLength={256} onInput={(e) => setTitle(e.currentTarget.value)} />
					</Field>
					<Field label={t.user} hint={t.userHint}>
						<input value={forUser} maxLength={512} spellcheck={false} onInput={(e) => setForUser(e.currentTarget.value)} />
					</Field>
				</Panel>
				<Panel>
					<Picker ns={ns} agent={agent} value={choice} onChange={setChoice} />
					<Field label={t.retain} hint={t.retainHint(retainOf(undefined, agent))} error={wrongRetain}>
						<input value={retain} placeholder={retainOf(undefined, agent)} onInput={(e) => setRetain(e.currentTarget.value.trim())} />
					</Field>
				</Panel>
				<div class="actions">
					<Act verb="create" of={sessions} ns={ns} kind="main" onClick={make} barred={barred}>
						{t.start}
					</Act>
					<a class="button" href={href(["sessions"])}>
						{text.dialog.cancel}
					</a>
					{barred && <span class="quiet">{barred}</span>}
				</div>
			</form>
		</Screen>
	);
}
