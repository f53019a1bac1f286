// SPDX-License-Identifier: Apache-2.0
// How much the nodes have to bear: their conditions, what is used of them, and how long work waited.
import { useEffect, useState } from "preact/hooks";
import { amount, bytes, figure } from "../../api/amounts.ts";
import { useObjects } from "../../api/collection.ts";
import { askJson } from "../../api/http.ts";
import { nodes } from "../../api/kinds.ts";
import { condition, type KObject, type Node } from "../../api/types.ts";
import { Badge, Missing, Panel } from "../../parts/common.tsx";
import { Bars, Lines } from "../../parts/chart.tsx";
import { now } from "../../state/clock.ts";
import { text } from "../../text.ts";
import { chartStart } from "./history.ts";
import { rangeMs } from "./pools.tsx";
import { pressure, type ServerSays } from "./server.ts";

const t = text.overview;
const METRICS = "/apis/metrics.k8s.io/v1beta1/nodes";
const EVERY_MS = 10_000;
const CONDITIONS = ["MemoryPressure", "DiskPressure", "PIDPressure"] as const;
const SHOWN = 50;

interface NodeMetrics extends KObject {
	usage?: Record<string, string>;
}

/** metrics.k8s.io cannot be watched: it is asked for anew while somebody looks. */
function useUsage(): ReadonlyMap<string, Record<string, string>> {
	const [usage, setUsage] = useState<ReadonlyMap<string, Record<string, string>>>(new Map());
	useEffect(() => {
		const stop = new AbortController();
		let timer = 0;
		const look = async () => {
			try {
				if (!document.hidden) {
					const list = await askJson<{ items?: NodeMetrics[] }>(METRICS, { signal: stop.signal });
					setUsage(new Map((list.items ?? []).map((m) => [m.metadata.name, m.usage ?? {}])));
				}
			} catch {
				// without a right or the API, the conditions and capacities still are there
				if (!stop.signal.aborted)
					setUsage(new Map());
			}
			if (!stop.signal.aborted)
				timer = window.setTimeout(look, EVERY_MS);
		};
		void look();
		return () => {
			stop.abort();
			clearTimeout(timer);
		};
	}, []);
	return usage;
}

function Conditions(p: { node: Node }) {
	const ready = condition(p.node, "Ready");
	return (
		<p class="actions">
			<Badge tone={ready?.status === "True" ? "good" : "bad"}>{ready?.status === "True" ? t.nodeReady : t.nodeNotReady}</Badge>
			{CONDITIONS.map((type) => {
				const c = condition(p.node, type);
				return (
					c && (
						<span key={type} title={c.message}>
							<Badge tone={c.status === "False" ? "good" : c.status === "True" ? "bad" : "warn"}>{c.status === "False" ? t.noPressure[type] : t.pressure[type]}</Badge>
						</span>
					)
				);
			})}
		</p>
	);
}

/** Of a node, and as text of its own where a condition says that something is wrong. */
function OneNode(p: { node: Node; usage: Record<string, string> | undefined; server: ServerSays }) {
	const capacity = p.node.status?.capacity ?? {};
	const said = p.server.node?.name === p.node.metadata.name ? p.server.node : undefined;
	const rows: { label: string; value: number; of: number; bad: boolean; format: (v: number) => string }[] = [];
	const add = (label: string, value: number | undefined, of: number | undefined, format: (v: number) => string) => {
		if (value !== undefined && of)
			rows.push({ label, value, of, bad: value / of > 0.9, format });
	};
	add(t.cpu, p.usage?.["cpu"] === undefined ? undefined : amount(p.usage["cpu"]), amount(capacity["cpu"]), (v) => t.cpus(figure(v)));
	if (said?.memoryTotal)
		add(t.memory, said.memoryTotal - (said.memoryAvailable ?? 0), said.memoryTotal, bytes);
	else
		add(t.memory, p.usage?.["memory"] === undefined ? undefined : amount(p.usage["memory"]), amount(capacity["memory"]), bytes);
	if (said?.diskTotal)
		add(t.disk, said.diskTotal - (said.diskAvailable ?? 0), said.diskTotal, bytes);
	add(t.sandboxesRunning, said?.sandboxesRunning, said?.sandboxesMax, (v) => String(v));
	const wrong = (p.node.status?.conditions ?? []).filter((c) => (c.type === "Ready" ? c.status !== "True" : c.type.endsWith("Pressure") ? c.status === "True" : c.type.endsWith("Ready") && c.status === "False"));
	return (
		<li class="stack">
			<div class="pool-head">
				<h3>{p.node.metadata.name}</h3>
				<Conditions node={p.node} />
			</div>
			{wrong.map((c) => (
				<p key={c.type} class="wrong wrap">
					{c.message || c.reason}
				</p>
			))}
			{rows.map((r) => (
				<Bars key={r.label} title="" format={r.format} rows={[{ label: r.label, value: r.value, of: r.of, bad: r.bad }]} />
			))}
			{!rows.length && <p class="quiet">{t.capacity(capacity["cpu"] ?? text.unknown, bytes(amount(capacity["memory"])), capacity["pods"] ?? text.unknown)}</p>}
			{said?.loadavg && <p class="quiet small">{t.load(said.loadavg.map((n) => n.toFixed(2)).join(", "))}</p>}
		</li>
	);
}

function Waiting() {
	const to = now.value;
	return (
		<Lines
			title={t.psi}
			from={chartStart(to, rangeMs())}
			to={to}
			format={(v) => `${Math.round(v * 10) / 10} %`}
			series={[
				{ label: t.cpu, points: pressure.cpu, tone: 1 },
				{ label: t.memory, points: pressure.memory, tone: 4 },
				{ label: t.io, points: pressure.io, tone: 3 },
			]}
		/>
	);
}

export function Nodes(p: { server: ServerSays }) {
	const all = useObjects(nodes, "");
	const usage = useUsage();
	const rows = [...all.objects.values()].sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
	// Those in trouble first, so that they are among those shown.
	const trouble = (n: Node) => (condition(n, "Ready")?.status !== "True" || CONDITIONS.some((c) => condition(n, c)?.status === "True") ? 0 : 1);
	rows.sort((a, b) => trouble(a) - trouble(b));
	const psi = pressure.cpu.some(([, v]) => !Number.isNaN(v)) || pressure.memory.some(([, v]) => !Number.isNaN(v));
	return (
		<Panel title={t.nodes}>
			<Missing snapshot={all} kind={nodes} ns="" />
			<ul class="stack">
				{rows.slice(0, SHOWN).map((n) => (
					<OneNode key={n.metadata.name} node={n} usage={usage.get(n.metadata.name)} server={p.server} />
				))}
			</ul>
			{rows.length > SHOWN && <p class="quiet">{t.moreNodes(rows.length - SHOWN)}</p>}
			{psi ? <Waiting /> : p.server.state === "absent" && <p class="quiet small">{t.noServer}</p>}
		</Panel>
	);
}
