// SPDX-License-Identifier: Apache-2.0
// What is attached to a session, with which rights, and who else is in the same sandboxes.
import { attachments, policies, sessions } from "../../api/kinds.ts";
import { useObjects } from "../../api/collection.ts";
import { patch, remove } from "../../api/objects.ts";
import type { Agent, Attachment, Session } from "../../api/types.ts";
import { condition } from "../../api/types.ts";
import { Badge, Facts } from "../../parts/common.tsx";
import { confirm } from "../../parts/dialog.tsx";
import { attempt } from "../../state/notices.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { RIGHTS, chainOf, withoutRight } from "../agents/capabilities.ts";
import { Act } from "./act.tsx";
import { costText } from "./words.ts";

const t = text.sessions;

export function granted(a: Attachment): string[] {
	return a.spec?.rights ?? ["exec", "read", "write", "ports"].filter((r) => r !== "write" || a.spec?.view !== "ReadOnly");
}

/** The one that the session's own sandbox is attached by: the controller makes it again when it is deleted. */
function isOwn(a: Attachment, s: Session): boolean {
	return a.metadata.name === s.metadata.name;
}

/** Rights that were granted: those in effect, and those that are not, struck through, with who takes them away. */
function Rights(p: { of: Attachment; agents: ReadonlyMap<string, Agent> }) {
	const ns = p.of.metadata.namespace ?? "";
	const policy = useObjects(policies, ns).objects.get(`${ns}/team`);
	const agent = p.agents.get(`${ns}/${p.of.status?.agent ?? ""}`);
	const effective = p.of.status?.effectiveRights;
	const asked = RIGHTS.filter((r) => granted(p.of).includes(r));
	const lost = effective ? asked.filter((r) => !effective.includes(r)) : [];
	const chain = agent ? chainOf(agent, p.agents).agents : [];
	return (
		<>
			<span class="rights">
				{asked.map((r) => (lost.includes(r) ? <del key={r}>{r}</del> : <span key={r}>{r}</span>))}
			</span>
			{!effective && <span class="quiet"> {t.notYetEffective}</span>}
			{lost.map((r) => (
				<p key={r} class="quiet">
					{t.lost(r, withoutRight(r, chain, policy))}
				</p>
			))}
		</>
	);
}

function Ready(p: { of: Attachment }) {
	const ready = condition(p.of, "Ready");
	if (ready?.status === "True")
		return <Badge tone="good">{t.ready}</Badge>;
	return (
		<>
			<Badge tone="warn">{t.notReady}</Badge> <span>{ready?.message ?? t.unseen}</span>
		</>
	);
}

function detach(a: Attachment, s: Session): Promise<unknown> {
	const { namespace: ns = "", name, uid } = a.metadata;
	return isOwn(a, s) ? patch(sessions, ns, s.metadata.name, { spec: { sandbox: "none" } }) : remove(attachments, ns, name, uid);
}

export function Attached(p: { session: Session; of: Attachment; agents: ReadonlyMap<string, Agent> }) {
	const a = p.of;
	const ns = a.metadata.namespace ?? "";
	const box = a.spec?.sandbox ?? "";
	const view = a.status?.view ?? a.spec?.view ?? "Shared";
	const agent = a.status?.agent ?? p.session.spec?.agent ?? "";
	const own = isOwn(a, p.session);
	const ask = async () => {
		const body = (
			<>
				<p>{t.detachLead}</p>
				{view === "Scratch" && <p>{t.detachScratch}</p>}
				<p>{own ? t.detachOwn : t.detachStays}</p>
			</>
		);
		if (await confirm({ title: t.detachTitle(box), body, yes: t.detach, danger: true }))
			await attempt(() => detach(a, p.session), t.detached(box));
	};
	return (
		<li class="attached">
			<div class="panel-head">
				<h3>
					<a href={href(["sandboxes", ns, box])}>{box}</a>
				</h3>
				<Act verb={own ? "patch" : "delete"} of={own ? sessions : attachments} ns={ns} kind="danger" label={t.detachOf(box)} onClick={ask}>
					{t.detach}
				</Act>
			</div>
			<Facts
				of={[
					[t.state, <Ready of={a} />],
					[t.agent, <a href={href(["agents", ns, agent])}>{agent}</a>],
					[t.view, `${view}: ${t.views[view] ?? ""}`],
					[t.rights, <Rights of={a} agents={p.agents} />],
					[t.costTitle, costText(a.status?.cost)],
					[t.attachment, a.metadata.name],
				]}
			/>
		</li>
	);
}

/** Attachments of other sessions to the same sandboxes. */
export function Others(p: { of: Attachment[] }) {
	return (
		<table class="others">
			<thead>
				<tr>
					{[t.sandbox, t.agent, t.session, t.view, t.rights, t.state].map((h) => (
						<th key={h} scope="col">
							{h}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				{p.of.map((a) => {
					const ns = a.metadata.namespace ?? "";
					const view = a.status?.view ?? a.spec?.view ?? "Shared";
					return (
						<tr key={a.metadata.uid}>
							<td>
								<a href={href(["sandboxes", ns, a.spec?.sandbox ?? ""])}>{a.spec?.sandbox}</a>
							</td>
							<td>{a.status?.agent ? <a href={href(["agents", ns, a.status.agent])}>{a.status.agent}</a> : text.none}</td>
							<td>
								<a href={href(["sessions", ns, a.spec?.session ?? ""])}>{a.spec?.session}</a>
							</td>
							<td title={t.views[view]}>{view}</td>
							<td>{(a.status?.effectiveRights ?? granted(a)).join(", ") || text.none}</td>
							<td>
								<Ready of={a} />
							</td>
						</tr>
					);
				})}
			</tbody>
		</table>
	);
}
