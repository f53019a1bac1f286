// SPDX-License-Identifier: Apache-2.0
// One template: its pools, how fast it starts, which sandboxes are of which version, and what is in it.
import { useMemo } from "preact/hooks";
import { useObject, useObjects } from "../../api/collection.ts";
import { claims, pools, sandboxes, templates } from "../../api/kinds.ts";
import type { Sandbox, SandboxTemplate, SandboxWarmPool } from "../../api/types.ts";
import { Age, Badge, Facts, Missing, Panel, Screen, type Tone } from "../../parts/common.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { moment } from "../../state/clock.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { latest, ms, percentiles, remember } from "../overview/claims.ts";
import { desiredOf } from "../overview/history.ts";
import { LatencyChart } from "../overview/latency.tsx";
import { SizeButton } from "../overview/size.tsx";
import { DeletePool, DeleteTemplate, PoolButton } from "./actions.tsx";
import { AsText, Contents } from "./contents.tsx";
import { type FullTemplate, lastChange, poolsOf, sandboxesOf, startSeconds, type Version, versions } from "./facts.ts";

const t = text.templates;
const LAST = 500;
const TONES: Record<Version["state"], Tone> = { current: "good", older: "warn", before: "warn", since: "good" };

function Pools(p: { of: SandboxWarmPool[] }) {
	return (
		<Panel title={t.pools}>
			{p.of.length ? (
				<table class="figures">
					<thead>
						<tr>
							<th scope="col">{text.overview.pool}</th>
							<th scope="col">{t.readyDesired}</th>
							<th scope="col">
								<span class="hidden">{t.actions}</span>
							</th>
						</tr>
					</thead>
					<tbody>
						{p.of.map((o) => {
							const ready = o.status?.readyReplicas ?? 0;
							return (
								<tr key={o.metadata.uid}>
									<td class="cut" title={o.metadata.name}>
										<a href={href(["overview"], { ns: o.metadata.namespace, q: o.metadata.name })}>{o.metadata.name}</a>
									</td>
									<td>
										{text.overview.readyOf(ready, desiredOf(o))} {!ready && desiredOf(o) > 0 && <Badge tone="bad">{text.overview.dry}</Badge>}
									</td>
									<td class="end">
										<span class="actions end">
											<SizeButton pool={o} />
											<DeletePool pool={o} />
										</span>
									</td>
								</tr>
							);
						})}
					</tbody>
				</table>
			) : (
				<p class="quiet">{t.noPools}</p>
			)}
		</Panel>
	);
}

const seconds = (n: number) => (Number.isNaN(n) ? text.none : n < 1 ? t.belowSecond : `${n} s`);

function Starts(p: { template: SandboxTemplate; pools: SandboxWarmPool[]; made: Sandbox[]; seen: unknown }) {
	const names = new Set(p.pools.map((o) => o.metadata.name));
	const took = useMemo(() => latest(p.template.metadata.namespace ?? "", LAST, (c) => names.has(c.pool)), [p.seen, p.pools]);
	const warm = percentiles(took.filter((c) => c.warm).map((c) => c.ms));
	const cold = took.filter((c) => c.warm === false);
	const coldOf = percentiles(cold.map((c) => c.ms));
	const whole = p.made.map(startSeconds).filter((n) => n !== undefined);
	const wholeOf = percentiles(whole);
	return (
		<Panel title={t.starts}>
			<table class="figures">
				<thead>
					<tr>
						<th scope="col">{t.start}</th>
						<th scope="col" class="end">
							{t.measured}
						</th>
						<th scope="col" class="end">
							p50
						</th>
						<th scope="col" class="end">
							p95
						</th>
					</tr>
				</thead>
				<tbody>
					<tr>
						<td>{t.warmStart}</td>
						<td class="end">{took.length - cold.length}</td>
						<td class="end mono">{ms(warm.p50)}</td>
						<td class="end mono">{ms(warm.p95)}</td>
					</tr>
					{cold.length > 0 && (
						<tr>
							<td>{t.coldClaim}</td>
							<td class="end">{cold.length}</td>
							<td class="end mono">{ms(coldOf.p50)}</td>
							<td class="end mono">{ms(coldOf.p95)}</td>
						</tr>
					)}
					<tr>
						<td>{t.coldStart}</td>
						<td class="end">{whole.length}</td>
						<td class="end mono">{seconds(wholeOf.p50)}</td>
						<td class="end mono">{seconds(wholeOf.p95)}</td>
					</tr>
				</tbody>
			</table>
			<p class="quiet small">{t.startsMean}</p>
			{took.length > 1 && <LatencyChart of={took} height={120} />}
		</Panel>
	);
}

function Versions(p: { template: SandboxTemplate; made: Sandbox[] }) {
	const rows = useMemo(() => versions(p.template, p.made), [p.template, p.made]);
	const changed = lastChange(p.template);
	return (
		<Panel title={t.versions}>
			<Facts
				of={[
					[t.generation, String(p.template.metadata.generation ?? text.unknown)],
					[t.resourceVersion, p.template.metadata.resourceVersion],
					[t.made, moment(p.template.metadata.creationTimestamp)],
					[t.changed, changed.by ? t.changedBy(moment(changed.at), changed.by) : moment(changed.at)],
				]}
			/>
			{rows.length > 0 && (
				<table class="figures versions">
					<caption class="hidden">{t.versionsOf}</caption>
					<thead>
						<tr>
							<th scope="col">{t.hash}</th>
							<th scope="col" class="end">
								{text.nav.sandboxes}
							</th>
							<th scope="col">{t.state}</th>
							<th scope="col" class="end">
								{t.newest}
							</th>
						</tr>
					</thead>
					<tbody>
						{rows.map((v) => (
							<tr key={v.hash + v.state}>
								<td class="mono">{v.hash || t.claimed}</td>
								<td class="end">
									<span title={v.names.slice(0, 50).join("\n")}>{v.count}</span>
								</td>
								<td>
									<Badge tone={TONES[v.state]}>{t.states[v.state]}</Badge>
								</td>
								<td class="end">
									<Age of={v.last} />
								</td>
							</tr>
						))}
					</tbody>
				</table>
			)}
			<p class="quiet small">{rows.length ? t.versionsMean : t.noneMade}</p>
		</Panel>
	);
}

export function OneTemplate(p: { ns: string; name: string }) {
	const found = useObject(templates, p.ns, p.name);
	const allPools = useObjects(pools, p.ns);
	const allSandboxes = useObjects(sandboxes, p.ns);
	const allClaims = useObjects(claims, p.ns);
	useMemo(() => remember(allClaims.objects.values()), [allClaims]);
	const o = found.object as FullTemplate | undefined;
	const mine = useMemo(() => (o ? poolsOf(o, allPools.objects.values()) : []), [o, allPools]);
	const made = useMemo(() => (o ? sandboxesOf(o, allSandboxes.objects.values()) : []), [o, allSandboxes]);
	if (!o)
		return (
			<Screen title={p.name}>
				<Missing snapshot={found} kind={templates} ns={p.ns} />
				{found.state === "live" && <p class="refused">{t.notThere}</p>}
			</Screen>
		);
	const taken = new Set([...allPools.objects.values()].map((x) => x.metadata.name));
	return (
		<Screen
			title={p.name}
			actions={
				<>
					<a class="button main" href={href(["sandboxes"], { ns: p.ns, new: "1", from: `template/${p.ns}/${p.name}` })}>
						{t.newSandbox}
					</a>
					<PoolButton template={o} taken={taken} />
					<DeleteTemplate template={o} pools={mine} sandboxes={made.length} />
				</>
			}
		>
			<Tabs
				label={p.name}
				tabs={[
					{
						id: "use",
						title: t.tabUse,
						show: () => (
							<div class="grid-2">
								<Pools of={mine} />
								<Starts template={o} pools={mine} made={made} seen={allClaims} />
								<Versions template={o} made={made} />
							</div>
						),
					},
					{ id: "contents", title: t.tabContents, show: () => <Contents of={o} /> },
					{ id: "object", title: t.tabObject, show: () => <AsText of={o} /> },
				]}
			/>
		</Screen>
	);
}
