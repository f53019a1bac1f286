// SPDX-License-Identifier: Apache-2.0
// The page of one sandbox. The name in the address may also be that of its claim.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useObject, useObjects } from "../../api/collection.ts";
import { attachments, claims, events, pods, sandboxes, sessions } from "../../api/kinds.ts";
import type { Sandbox, SandboxClaim } from "../../api/types.ts";
import { Age, Button, Facts, Missing, Panel, Screen } from "../../parts/common.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { useCommands } from "../../state/commands.ts";
import { go, href, query } from "../../state/location.ts";
import { text } from "../../text.ts";
import { actionsOf, resume, type Action } from "./actions.tsx";
import { Events } from "./events.tsx";
import { Files } from "./files.tsx";
import { ownerText, StateBadge, TimeLeft } from "./list.tsx";
import { Logs } from "./logs.tsx";
import { Conditions, Overview } from "./overview.tsx";
import { Ports } from "./ports.tsx";
import { lastWarnings, rowOf, waitingRow, type Row } from "./rows.ts";
import { claimOf, isSpare, podName, SESSION, wantsToRun, why } from "./state.ts";
import { Terminal } from "./terminal.tsx";
import { Usage } from "./usage.tsx";

const t = text.sandbox;
const NOTHING = new Map<string, never>();

function toList(): void {
	go(href(["sandboxes"]));
}

function Actions(p: { of: Action[] }) {
	return (
		<>
			{p.of.map((a) => (
				<Button key={a.id} onClick={a.run} disabled={a.unless !== undefined} {...(a.unless ? { title: a.unless } : {})} {...(a.danger ? { kind: "danger" as const } : {})}>
					{a.title}
				</Button>
			))}
		</>
	);
}

function useRowCommands(row: Row, actions: Action[]): void {
	const titles = { suspend: text.sandboxes.suspendOne, resume: text.sandboxes.resumeOne, delete: text.sandboxes.removeOne } as Record<string, (n: string) => string>;
	useCommands(
		() => [
			{ id: "new-sandbox", title: text.sandboxes.make, keys: "n", run: () => go(href(["sandboxes"], { new: "1" })) },
			...actions.filter((a) => a.unless === undefined).map((a) => ({ id: `${a.id}-this`, title: titles[a.id]!(row.name), run: a.run })),
		],
		[row.sandbox, row.claim, actions.map((a) => a.unless ?? a.id).join()],
	);
}

function Head(p: { row: Row; sentence: string; fix: string; actions: Action[] }) {
	const { row } = p;
	const title = (
		<>
			{row.name} <StateBadge state={row.state} />
		</>
	);
	const box = row.sandbox?.metadata.name;
	return (
		<Screen title={title} actions={<Actions of={p.actions} />}>
			<div class="why-line" role="status">
				{p.sentence && (
					<p>
						<bdi>{p.fix ? `${p.sentence.replace(/[.;\s]+$/, "")}.` : p.sentence}</bdi> {p.fix}
					</p>
				)}
				<p class="quiet">
					{[box && box !== row.name ? t.sandboxNamed(box) : "", row.spare ? text.sandboxes.spare : ""].filter(Boolean).join(", ")} <TimeLeft clock={row.clock} />
				</p>
			</div>
		</Screen>
	);
}

/** A claim that has no sandbox yet. */
function ClaimPage(p: { claim: SandboxClaim }) {
	const row = waitingRow(p.claim);
	const actions = actionsOf(row, toList).filter((a) => a.id === "delete");
	useRowCommands(row, actions);
	const facts: [string, ComponentChildren][] = [
		[t.facts.pool, row.pool],
		[t.facts.owner, ownerText(row.owner)],
		[t.facts.made, <Age of={row.made} />],
	];
	return (
		<>
			<Head row={row} sentence={row.why.sentence} fix={row.why.fix} actions={actions} />
			<div class="grid-2">
				<Panel title={t.facts.title}>
					<Facts of={facts} />
				</Panel>
				<Conditions of={p.claim.status?.conditions ?? []} />
			</div>
			<Events ns={row.ns} name={row.name} podName={row.name} claimName={row.name} />
		</>
	);
}

/** What stands above the tabs while there is no Pod. */
function Asleep(p: { row: Row }) {
	const s = p.row.sandbox!;
	const waking = actionsOf(p.row).find((a) => a.id === "resume");
	if (wantsToRun(s))
		return <p class="no-pod">{t.noPodYet}</p>;
	return (
		<div class="no-pod">
			<p>{t.asleep}</p>
			<Button kind="main" onClick={() => void resume(p.row)} disabled={waking?.unless !== undefined} {...(waking?.unless ? { title: waking.unless } : {})}>
				{text.sandboxes.resume}
			</Button>
		</div>
	);
}

function Whole(p: { ns: string; sandbox: Sandbox }) {
	const { ns, sandbox } = p;
	const name = sandbox.metadata.name;
	const claimName = claimOf(sandbox);
	const podNamed = podName(sandbox);
	const pod = useObject(pods, ns, podNamed).object;
	const claim = useObject(claims, ns, claimName || name);
	const allSessions = useObjects(sessions, ns);
	const allAttachments = useObjects(attachments, ns);
	const about = useObjects(events, ns, { fields: `involvedObject.name=${name}` }).objects;
	const ownPod = pod?.metadata.ownerReferences?.some((o) => o.uid === sandbox.metadata.uid) === false ? undefined : pod;

	const row = useMemo(() => {
		const attached = [...allAttachments.objects.values()].filter((a) => a.spec?.sandbox === name);
		const used = new Set(attached.map((a) => a.spec?.session));
		const own = [...allSessions.objects.values()].filter((s) => s.status?.sandbox === name || used.has(s.metadata.name) || s.metadata.name === sandbox.metadata.labels?.[SESSION]);
		return rowOf(sandbox, { claims: claim.objects, sessions: NOTHING, attachments: NOTHING, metrics: NOTHING, warnings: NOTHING }, attached, own);
	}, [sandbox, claim.objects, allSessions.objects, allAttachments.objects]);
	const warnings = useMemo(() => lastWarnings(about.values()), [about]);
	const said = why(sandbox, ownPod, warnings.get(ownPod?.metadata.uid ?? "") ?? warnings.get(sandbox.metadata.uid ?? ""), row.sessions);
	const actions = actionsOf(row, toList);
	useRowCommands(row, actions);

	const within = { ns, name, sandbox, pod: ownPod };
	// The other tabs say by themselves what they lack.
	const onlyWithPod = (show: () => ComponentChildren) => () => (ownPod ? show() : <Asleep row={row} />);
	return (
		<>
			<Head row={row} sentence={said.sentence} fix={said.fix} actions={actions} />
			<Tabs
				label={t.tabs.label}
				tabs={[
					{ id: "overview", title: t.tabs.overview, show: () => <Overview row={row} sandbox={sandbox} pod={ownPod} sessions={allSessions} attachments={allAttachments} /> },
					{ id: "terminal", title: t.tabs.terminal, show: () => <Terminal {...within} /> },
					{ id: "files", title: t.tabs.files, show: () => <Files {...within} /> },
					{ id: "logs", title: t.tabs.logs, show: onlyWithPod(() => <Logs key={ownPod!.metadata.uid} ns={ns} pod={ownPod!} />) },
					{ id: "ports", title: t.tabs.ports, show: () => <Ports {...within} /> },
					{ id: "events", title: t.tabs.events, show: () => <Events ns={ns} name={name} podName={podNamed} claimName={claimName} /> },
					{ id: "usage", title: t.tabs.usage, show: onlyWithPod(() => <Usage key={ownPod!.metadata.uid} ns={ns} pod={ownPod!} />) },
				]}
			/>
		</>
	);
}

export function SandboxPage(p: { ns: string; name: string }) {
	const found = useObject(sandboxes, p.ns, p.name);
	const claim = useObject(claims, p.ns, p.name);
	const made = claim.object?.status?.sandbox?.name;
	const seen = useRef<Sandbox | undefined>(undefined);
	useEffect(() => {
		if (found.state === "live" && !found.object && made && made !== p.name)
			go(href(["sandboxes", p.ns, made], Object.fromEntries(query.value)), true);
	}, [found.state, found.object, made]);
	if (found.object) {
		seen.current = found.object;
		return <Whole key={found.object.metadata.uid} ns={p.ns} sandbox={found.object} />;
	}
	if (claim.object && !(made && made !== p.name))
		return <ClaimPage claim={claim.object} />;
	const unsure = found.state === "loading" || claim.state === "loading" || (made && made !== p.name);
	return (
		<Screen title={p.name}>
			{unsure ? (
				<p class="quiet" role="status">{text.loading}</p>
			) : found.state === "live" ? (
				<div class="refused" role="status">
					<p>
						<strong>{seen.current ? t.gone(seen.current && !isSpare(seen.current) ? claimOf(seen.current) || p.name : p.name) : t.missing(p.name, p.ns)}</strong>
					</p>
					<p>
						{!seen.current && t.missingHint} <a class="in-text" href={href(["sandboxes"])}>{t.toList}</a>
					</p>
				</div>
			) : (
				<Missing snapshot={found} kind={sandboxes} ns={p.ns} />
			)}
		</Screen>
	);
}
