// SPDX-License-Identifier: Apache-2.0
// One more sandbox in a session: which, with which rights, and what commands see of it.
import { useId, useState } from "preact/hooks";
import { attachments, sessions } from "../../api/kinds.ts";
import { create, patch } from "../../api/objects.ts";
import type { Agent, Attachment, Session } from "../../api/types.ts";
import { Button } from "../../parts/common.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { RIGHTS } from "../agents/capabilities.ts";
import { Act } from "./act.tsx";
import { type Choice, Picker, SandboxList } from "./picker.tsx";
import { modeOf } from "./words.ts";

const t = text.sessions;
const VIEWS = ["Shared", "ReadOnly", "Scratch"];

export function AttachDialog(p: { session: Session; agent: Agent | undefined; attached: string[]; onClose: () => void }) {
	const [box, setBox] = useState("");
	const [view, setView] = useState("Shared");
	const [rights, setRights] = useState(["exec", "read", "write", "ports"]);
	const group = useId();
	const { namespace: ns = "", name } = p.session.metadata;
	const effective = p.agent?.status?.effective?.rights;
	const granted = RIGHTS.filter((r) => rights.includes(r) && !(view === "ReadOnly" && r === "write"));
	const barred = !box ? t.chooseFirst : !granted.length ? t.oneRight : "";
	const attach = async () => {
		const spec = { session: name, sandbox: box, view, rights: granted };
		if (await attempt(() => create<Attachment>(attachments, ns, { metadata: { name: `${name}-${box}` }, spec }), t.attachedNow(box)))
			p.onClose();
	};
	return (
		<Dialog title={t.attachTitle} onClose={p.onClose}>
			<SandboxList ns={ns} chosen={box} onChoose={setBox} taken={(b) => (p.attached.includes(b) ? t.already : "")} />
			<fieldset class="choices">
				<legend>{t.view}</legend>
				{VIEWS.map((v) => (
					<label key={v}>
						<input type="radio" name={group} checked={view === v} onChange={() => setView(v)} />
						<span>
							<strong>{v}</strong>
							<span class="quiet">: {t.views[v]}</span>
						</span>
					</label>
				))}
			</fieldset>
			<fieldset class="choices">
				<legend>{t.rights}</legend>
				{RIGHTS.map((r) => {
					const shut = view === "ReadOnly" && r === "write";
					return (
						<label key={r}>
							<input type="checkbox" checked={granted.includes(r)} disabled={shut} onChange={(e) => setRights(e.currentTarget.checked ? [...rights, r] : rights.filter((x) => x !== r))} />
							<span>
								<strong>{r}</strong>
								<span class="quiet">
									: {t.rightWords[r]}
									{shut ? ` ${t.notReadOnly}` : effective && !effective.includes(r) ? ` ${t.agentLacks}` : ""}
								</span>
							</span>
						</label>
					);
				})}
			</fieldset>
			<div class="actions end">
				<Button onClick={p.onClose}>{text.dialog.cancel}</Button>
				<Act verb="create" of={attachments} ns={ns} kind="main" onClick={attach} barred={barred}>
					{t.attachNow}
				</Act>
			</div>
		</Dialog>
	);
}

/** Another sandbox as the session's own. */
export function ChangeDialog(p: { session: Session; agent: Agent | undefined; onClose: () => void }) {
	const [choice, setChoice] = useState<Choice>(p.session.spec?.sandbox ?? "");
	const { namespace: ns = "", name } = p.session.metadata;
	const barred = choice === "?" || (choice === "" && modeOf(p.agent) === "UserChooses") ? t.chooseFirst : "";
	const change = async () => {
		if (await attempt(() => patch(sessions, ns, name, { spec: { sandbox: choice || null } }), t.changed))
			p.onClose();
	};
	return (
		<Dialog title={t.changeTitle} onClose={p.onClose}>
			<p class="quiet">{t.changeLead}</p>
			<Picker ns={ns} agent={p.agent} value={choice} onChange={setChoice} />
			<div class="actions end">
				<Button onClick={p.onClose}>{text.dialog.cancel}</Button>
				<Act verb="patch" of={sessions} ns={ns} kind="main" onClick={change} barred={barred}>
					{t.change}
				</Act>
			</div>
		</Dialog>
	);
}
