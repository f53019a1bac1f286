// SPDX-License-Identifier: Apache-2.0
// Capabilities as a chain: the team's policy, the agents above, the agent itself, and what is left in the end. Each column shows
// what is left after its link, and what that link takes away.
import type { Agent, Capabilities, Place, TeamPolicy } from "../../api/types.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { Raw } from "../approvals/shown.tsx";
import { type Link, type Set, chainOf, links, meetPlaces, ofCeiling, placeText } from "./capabilities.ts";
import { meetPatterns } from "./patterns.ts";

const t = text.agents;

type Member = Exclude<keyof Set, "maxSandboxes">;
const MEMBERS: Member[] = ["rights", "egress", "credentials", "tools", "runtimeClasses"];
type Item = string | Place;

function label(i: Item): string {
	return typeof i === "string" ? i : placeText(i);
}

function overlap(a: Item, b: Item): boolean {
	return typeof a === "string" ? typeof b === "string" && meetPatterns(a, b).length > 0 : typeof b !== "string" && !!meetPlaces(a, b);
}

interface Mark {
	text: string;
	how: "kept" | "taken" | "narrowed" | "vain";
}

/** What a link does to what was left before it. undefined: everything. */
function marks(before: Item[] | undefined, own: Item[] | undefined, left: Item[] | undefined, first: boolean): Mark[] {
	const kept = (left ?? []).map(label);
	const found: Mark[] = kept.map((text) => ({ text, how: "kept" }));
	if (first)
		return found;
	for (const b of before ?? [])
		if (!kept.includes(label(b)) && left)
			found.push({ text: label(b), how: left.some((l) => overlap(l, b)) ? "narrowed" : "taken" });
	for (const o of own ?? [])
		if (before && !kept.includes(label(o)) && !before.some((b) => overlap(b, o)))
			found.push({ text: label(o), how: "vain" });
	return found;
}

function Items(p: { of: Mark[]; all: boolean; none: string }) {
	if (p.all)
		return <p>{t.everywhere}</p>;
	return (
		<ul class="marks">
			{!p.of.some((m) => m.how === "kept") && <li class="quiet">{p.none}</li>}
			{p.of.map((m, i) => (
				<li key={i}>
					{m.how === "kept" ? (
						m.text === "*" ? t.everything : <Raw text={m.text} />
					) : (
						<>
							<del>{m.text === "*" ? t.everything : <Raw text={m.text} />}</del> <span class="quiet">{t.marks[m.how]}</span>
						</>
					)}
				</li>
			))}
		</ul>
	);
}

function count(n: number | undefined): string {
	return n === undefined ? t.noLimit : String(n);
}

function Head(p: { link: Link; ns: string; last: boolean }) {
	return (
		<th scope="col">
			<span class="quiet">{p.link.kind === "policy" ? t.links.policy : p.last ? t.links.self : t.links.parent}</span>
			<br />
			{p.link.kind === "policy" || p.last ? p.link.name : <a href={href(["agents", p.ns, p.link.name])}>{p.link.name}</a>}
		</th>
	);
}

function sorted(s: Set): string {
	return JSON.stringify([...MEMBERS.map((m) => (s[m] as Item[] | undefined)?.map(label).sort() ?? "*"), s.maxSandboxes ?? -1]);
}

/** What the server says is left; the rest is the page's own explanation of it. */
function Truth(p: { effective: Capabilities | undefined; last: Link; broken: boolean }) {
	if (!p.effective)
		return <p class="wrong">{t.noEffective}</p>;
	if (!p.broken && sorted(ofCeiling(p.effective)) !== sorted(p.last.left))
		return <p class="quiet">{t.differs}</p>;
	return null;
}

export function Chain(p: { of: Agent; all: ReadonlyMap<string, Agent>; policy: TeamPolicy | undefined }) {
	const ns = p.of.metadata.namespace ?? "";
	const { agents, fault, at } = chainOf(p.of, p.all);
	const chain = links(agents, p.policy);
	const last = chain[chain.length - 1]!;
	const effective = p.of.status?.effective;
	const end = effective && ofCeiling(effective);
	return (
		<>
			{fault && <p class="wrong">{t.faults[fault]?.(at)}</p>}
			<Truth effective={effective} last={last} broken={fault !== ""} />
			<div class="chain-frame" role="region" aria-label={t.chainTitle} tabIndex={0}>
				<table class="chain">
					<thead>
						<tr>
							<th scope="col">
								<span class="hidden">{t.capability}</span>
							</th>
							{chain.map((l) => (
								<Head key={`${l.kind} ${l.name}`} link={l} ns={ns} last={l === last} />
							))}
							<th scope="col" class="effective">
								<span class="quiet">{t.links.left}</span>
								<br />
								{t.effective}
							</th>
						</tr>
					</thead>
					<tbody>
						{MEMBERS.map((m) => (
							<tr key={m}>
								<th scope="row">{t.members[m]}</th>
								{chain.map((l, i) => (
									<td key={i}>
										<Items
											of={marks(chain[i - 1]?.left[m], l.own[m], l.left[m], i === 0)}
											all={l.left[m] === undefined}
											none={t.none}
										/>
									</td>
								))}
								<td class="effective">{end ? <Items of={marks(undefined, undefined, end[m], true)} all={end[m] === undefined} none={t.none} /> : text.unknown}</td>
							</tr>
						))}
						<tr>
							<th scope="row">{t.members.maxSandboxes}</th>
							{chain.map((l, i) => {
								const before = chain[i - 1]?.left.maxSandboxes;
								const now = l.left.maxSandboxes;
								return (
									<td key={i}>
										{count(now)}{" "}
										{i > 0 && before !== now && (
											<>
												<del>{count(before)}</del> <span class="quiet">{t.marks.narrowed}</span>
											</>
										)}
									</td>
								);
							})}
							<td class="effective">{end ? count(end.maxSandboxes) : text.unknown}</td>
						</tr>
					</tbody>
				</table>
			</div>
		</>
	);
}
