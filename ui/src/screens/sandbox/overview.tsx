// SPDX-License-Identifier: Apache-2.0
// What there is to know about a sandbox.
import type { ComponentChildren } from "preact";
import { amount, seconds } from "../../api/amounts.ts";
import type { Snapshot } from "../../api/collection.ts";
import { attachments as attachmentKind } from "../../api/kinds.ts";
import type { Attachment, Condition, Pod, Sandbox, Session } from "../../api/types.ts";
import { Age, Facts, Missing, Panel } from "../../parts/common.tsx";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { ownerText, TimeLeft } from "./list.tsx";
import type { Row } from "./rows.ts";

const t = text.sandbox;

function list(all: (string | undefined)[]): ComponentChildren {
	const there = all.filter((s) => s);
	return there.length ? there.map((s, i) => <div key={i}>{s}</div>) : undefined;
}

function About(p: { row: Row; sandbox: Sandbox; pod: Pod | undefined }) {
	const { row, sandbox, pod } = p;
	const notes = { ...row.claim?.metadata.annotations, ...sandbox.metadata.annotations };
	const spec = pod?.spec ?? sandbox.spec?.podTemplate?.spec;
	const containers = spec?.containers ?? [];
	const ports = containers.flatMap((c) => (c.ports ?? []).map((x) => `${x.containerPort}/${(x.protocol ?? "TCP").toLowerCase()}${x.name ? ` ${x.name}` : ""}`));
	const restarts = (pod?.status?.containerStatuses ?? []).reduce((n, c) => n + (c.restartCount ?? 0), 0);
	const template = row.template && <a href={href(["templates", row.ns, row.template])}>{row.template}</a>;
	const owner = row.owner?.kind === "agent" ? <a href={href(["agents", row.ns, row.owner.name])}>{ownerText(row.owner)}</a> : ownerText(row.owner);
	return (
		<Panel title={t.facts.title}>
			<Facts
				of={[
					[t.facts.addresses, list(sandbox.status?.podIPs ?? [])],
					[t.facts.service, sandbox.status?.serviceFQDN],
					[t.facts.node, sandbox.status?.nodeName ?? pod?.spec?.nodeName],
					[t.facts.template, template],
					[t.facts.pool, row.pool],
					[t.facts.claim, row.claimName],
					[t.facts.owner, owner],
					[t.facts.visibility, notes["cay.dev/visibility"]],
					[t.facts.runtime, spec?.runtimeClassName ?? t.facts.noRuntime],
					[t.facts.ports, ports.join(", ")],
					[t.facts.images, list(containers.map((c) => (containers.length > 1 ? `${c.name}: ${c.image ?? ""}` : c.image)))],
					[t.facts.volumes, (sandbox.spec?.volumeClaimTemplates ?? []).map((v) => v.metadata?.name).join(", ")],
					[t.facts.restarts, restarts ? String(restarts) : ""],
					[t.facts.idle, notes["cay.dev/idle-after"] && t.facts.idleFor(notes["cay.dev/idle-after"], notes["cay.dev/idle-action"] ?? "Freeze")],
					[t.facts.asleepSince, notes["cay.dev/asleep-since"] && <Age of={notes["cay.dev/asleep-since"]} />],
					[t.facts.made, <Age of={sandbox.metadata.creationTimestamp} />],
					[t.facts.ends, row.clock && <TimeLeft clock={row.clock} />],
					[t.facts.uid, <span class="mono">{sandbox.metadata.uid}</span>],
				]}
			/>
		</Panel>
	);
}

export function Conditions(p: { of: Condition[] }) {
	const c = t.conditions;
	return (
		<Panel title={c.title}>
			{!p.of.length && <p class="quiet">{c.none}</p>}
			{p.of.length > 0 && (
				<div class="scroll-x" tabIndex={0} role="region" aria-label={c.title}>
					<table class="plain-table">
						<thead>
							<tr>
								<th scope="col">{c.type}</th>
								<th scope="col">{c.status}</th>
								<th scope="col">{c.reason}</th>
								<th scope="col">{c.message}</th>
								<th scope="col">{c.since}</th>
							</tr>
						</thead>
						<tbody>
							{p.of.map((x) => (
								<tr key={x.type}>
									<th scope="row">{x.type}</th>
									<td>{x.status}</td>
									<td>{x.reason}</td>
									<td class="wrap-any">{x.message}</td>
									<td>
										<Age of={x.lastTransitionTime} />
									</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
		</Panel>
	);
}

function SessionsIn(p: { row: Row; attachments: Snapshot<Attachment>; sessions: Snapshot<Session> }) {
	const s = t.sessions;
	const { row } = p;
	const blocked = p.attachments.state === "refused" || p.attachments.state === "loading";
	return (
		<Panel title={s.title}>
			{blocked ? (
				<Missing snapshot={p.attachments} kind={attachmentKind} ns={row.ns} />
			) : !row.attached.length ? (
				<p class="quiet">{s.none}</p>
			) : (
				<div class="scroll-x" tabIndex={0} role="region" aria-label={s.title}>
					<table class="plain-table">
						<thead>
							<tr>
								<th scope="col">{s.session}</th>
								<th scope="col">{s.agent}</th>
								<th scope="col">{s.rights}</th>
								<th scope="col">{s.view}</th>
								<th scope="col">{s.cpu}</th>
							</tr>
						</thead>
						<tbody>
							{row.attached.map((a) => {
								const of = p.sessions.objects.get(`${row.ns}/${a.spec?.session}`);
								const agent = a.status?.agent ?? of?.spec?.agent ?? "";
								return (
									<tr key={a.metadata.name}>
										<th scope="row">
											<a href={href(["sessions", row.ns, a.spec?.session ?? ""])}>{of?.spec?.title || a.spec?.session}</a>
										</th>
										<td>{agent && <a href={href(["agents", row.ns, agent])}>{agent}</a>}</td>
										<td>{(a.status?.effectiveRights ?? a.spec?.rights ?? []).join(", ")}</td>
										<td>{a.status?.view ?? a.spec?.view}</td>
										<td>{seconds(amount(a.status?.cost?.cpuSeconds, NaN))}</td>
									</tr>
								);
							})}
						</tbody>
					</table>
				</div>
			)}
		</Panel>
	);
}

export function Overview(p: { row: Row; sandbox: Sandbox; pod: Pod | undefined; sessions: Snapshot<Session>; attachments: Snapshot<Attachment> }) {
	return (
		<div class="grid-2">
			<About row={p.row} sandbox={p.sandbox} pod={p.pod} />
			<div class="stack">
				<SessionsIn row={p.row} attachments={p.attachments} sessions={p.sessions} />
				<Conditions of={p.sandbox.status?.conditions ?? []} />
			</div>
		</div>
	);
}
