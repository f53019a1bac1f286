// SPDX-License-Identifier: Apache-2.0
// Events of a sandbox, of its Pod and of its claim, the newest first.
import { useMemo } from "preact/hooks";
import { useObjects } from "../../api/collection.ts";
import { events } from "../../api/kinds.ts";
import type { KEvent } from "../../api/types.ts";
import { Age, Badge, Missing } from "../../parts/common.tsx";
import { Table, type Column } from "../../parts/table.tsx";
import { text } from "../../text.ts";
import { eventTime } from "./rows.ts";

const t = text.sandbox.events;
const KINDS = ["Sandbox", "Pod", "SandboxClaim"];

const COLUMNS: Column<KEvent>[] = [
	{ id: "when", title: t.when, width: "6rem", by: (e) => -eventTime(e), show: (e) => <Age of={e.lastTimestamp ?? e.eventTime ?? e.firstTimestamp ?? e.metadata.creationTimestamp} /> },
	{ id: "type", title: t.type, width: "6rem", by: (e) => e.type ?? "", show: (e) => <Badge tone={e.type === "Warning" ? "warn" : "idle"}>{e.type ?? text.unknown}</Badge> },
	{ id: "reason", title: t.reason, width: "1fr", by: (e) => e.reason ?? "", show: (e) => <span title={e.reason}>{e.reason}</span> },
	{ id: "object", title: t.object, width: "1.2fr", by: (e) => e.involvedObject?.kind ?? "", show: (e) => <span title={e.involvedObject?.name}>{`${e.involvedObject?.kind ?? ""} ${e.involvedObject?.name ?? ""}`}</span> },
	{ id: "message", title: t.message, width: "4fr", show: (e) => <span title={e.message}>{e.message}</span> },
	{ id: "count", title: t.count, width: "4rem", end: true, by: (e) => e.count ?? 1, show: (e) => e.count ?? 1 },
];

export function Events(p: { ns: string; name: string; podName: string; claimName: string }) {
	const own = useObjects(events, p.ns, { fields: `involvedObject.name=${p.name}` });
	const pod = useObjects(events, p.ns, { fields: `involvedObject.name=${p.podName}` });
	const claim = useObjects(events, p.ns, { fields: `involvedObject.name=${p.claimName || p.name}` });
	const rows = useMemo(() => {
		const all = new Map([...own.objects, ...pod.objects, ...claim.objects]);
		return [...all.values()].filter((e) => KINDS.includes(e.involvedObject?.kind ?? ""));
	}, [own.objects, pod.objects, claim.objects]);
	if (own.state !== "live" && !rows.length)
		return <Missing snapshot={own} kind={events} ns={p.ns} />;
	return <Table label={t.label} rows={rows} columns={COLUMNS} keyOf={(e) => e.metadata.name} search={(e) => [e.reason, e.message, e.type, e.involvedObject?.kind].join(" ")} order="when" empty={t.none} />;
}
