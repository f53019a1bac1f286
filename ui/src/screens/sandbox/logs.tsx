// SPDX-License-Identifier: Apache-2.0
// The log of a container, followed. Only the rows that are seen are in the document; long lines are broken into rows of one
// height by counting columns.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask } from "../../api/http.ts";
import { saveBlob } from "../../api/save.ts";
import type { ContainerStatus, Pod } from "../../api/types.ts";
import { Button } from "../../parts/common.tsx";
import { query, setQuery } from "../../state/location.ts";
import { complain } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { KEPT, LogFeed, logPath, type LogChoice } from "./logfeed.ts";
import { between, breaks, parsed, plainText, type Line, type Segment } from "./logtext.ts";

const t = text.sandbox.logs;
const ROW = 18; // pixels, as in sandboxes.css
const SPARE = 20;
const DOWNLOAD_MAX = 64 * 1024 * 1024;

interface Visual {
	line: number;
	from: number;
	to: number;
}

function stamp(l: Line): string {
	return l.at.length > 1 ? `${l.at.slice(0, 23)}Z ` : "";
}

function visuals(lines: Line[], columns: number, wrap: boolean, times: boolean): Visual[] {
	const all: Visual[] = [];
	lines.forEach((l, line) => {
		if (!wrap) {
			all.push({ line, from: 0, to: Infinity });
			return;
		}
		const lead = times ? stamp(l).length : 0;
		let from = 0;
		for (const to of breaks(" ".repeat(lead) + plainText(l), columns)) {
			all.push({ line, from, to });
			from = to;
		}
	});
	return all;
}

function statusOf(pod: Pod, container: string): ContainerStatus | undefined {
	return [...(pod.status?.containerStatuses ?? []), ...(pod.status?.initContainerStatuses ?? [])].find((c) => c.name === container);
}

/** The feed of what is chosen. It begins anew with another choice, and hears of the container's next run. */
function useFeed(choice: LogChoice, pod: Pod): LogFeed | undefined {
	const [, draw] = useState(0);
	const feed = useRef<LogFeed | undefined>(undefined);
	const latest = useRef(pod);
	latest.current = pod;
	useEffect(() => {
		const f = new LogFeed(
			choice,
			() => !!statusOf(latest.current, choice.container)?.state?.["running"],
			() => draw((n) => n + 1),
		);
		feed.current = f;
		draw((n) => n + 1);
		return () => f.end();
	}, [choice.ns, choice.pod, choice.container, choice.previous]);
	const s = statusOf(pod, choice.container);
	const running = s?.state?.["running"] ? (s.containerID ?? s.state["running"].startedAt ?? "") : "";
	const last = useRef("");
	useEffect(() => {
		if (!running)
			return;
		if (last.current && last.current !== running && !choice.previous)
			feed.current?.remark(t.started);
		last.current = running;
		feed.current?.wake();
	}, [running]);
	return feed.current;
}

async function download(choice: LogChoice): Promise<void> {
	try {
		const blob = await (await ask(logPath(choice, { limitBytes: String(DOWNLOAD_MAX) }))).blob();
		saveBlob(blob, `${choice.pod}-${choice.container}${choice.previous ? "-previous" : ""}.log`);
	} catch (e) {
		complain(e);
	}
}

function LogRow(p: { line: Line; part: Visual; top: number; times: boolean; mark: "" | "hit" | "here" }) {
	const lead: Segment[] = p.times ? [{ text: stamp(p.line), class: "quiet" }] : [];
	const shown = between([...lead, ...parsed(p.line)], p.part.from, p.part.to);
	return (
		<div class={`log-row ${p.mark}`} style={{ top: `${p.top}px` }}>
			{shown.map((s, i) => (
				<span key={i} class={s.class}>
					{s.text}
				</span>
			))}
		</div>
	);
}

/** The first row of a line. */
function rowOfLine(rows: Visual[], line: number): number {
	let low = 0;
	let high = rows.length;
	while (low < high) {
		const mid = (low + high) >> 1;
		if (rows[mid]!.line < line)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

interface ViewProps {
	lines: Line[];
	dropped: number; // lines that were before the first of them
	version: number; // of the lines
	wrap: boolean;
	times: boolean;
	hits: number[];
	here: number; // the line that was found last; -1: none
	follow: boolean;
	setFollow: (on: boolean) => void;
}

/** The rows that are seen. Whoever reads on stays where they are while lines come and go. */
function LogView(p: ViewProps) {
	const box = useRef<HTMLDivElement>(null);
	const probe = useRef<HTMLSpanElement>(null);
	const [view, setView] = useState({ top: 0, height: 400, columns: 120 });
	const rows = useMemo(() => visuals(p.lines, view.columns, p.wrap, p.times), [p.version, view.columns, p.wrap, p.times]);
	const latest = useRef({ rows, dropped: p.dropped, follow: p.follow });
	const put = useRef(-1); // where the page itself scrolled to last
	const anchor = useRef({ line: 0, offset: 0 }); // what is at the top, counted from the first line that ever came
	latest.current = { rows, dropped: p.dropped, follow: p.follow };
	const scrollTo = (top: number) => {
		box.current!.scrollTop = top;
		put.current = box.current!.scrollTop;
	};
	useLayoutEffect(() => {
		const b = box.current!;
		const look = () => {
			const letter = probe.current!.getBoundingClientRect().width / 100 || 8;
			setView({ top: b.scrollTop, height: b.clientHeight, columns: Math.max(20, Math.floor((b.clientWidth - 24) / letter)) });
		};
		const resized = () => {
			if (latest.current.follow)
				scrollTo(b.scrollHeight);
			look();
		};
		const scrolled = () => {
			look();
			const now = latest.current;
			const line = now.rows[Math.min(now.rows.length - 1, Math.floor(b.scrollTop / ROW))]?.line ?? 0;
			anchor.current = { line: line + now.dropped, offset: b.scrollTop - rowOfLine(now.rows, line) * ROW };
			// The event comes with the next frame, when the box may have another height: only a reader who moves lets go of the end.
			if (b.scrollTop === put.current)
				return;
			put.current = -1;
			p.setFollow(b.scrollTop + b.clientHeight >= b.scrollHeight - 2 * ROW);
		};
		look();
		b.addEventListener("scroll", scrolled, { passive: true });
		const size = new ResizeObserver(resized);
		size.observe(b);
		return () => {
			b.removeEventListener("scroll", scrolled);
			size.disconnect();
		};
	}, []);
	useLayoutEffect(() => {
		scrollTo(p.follow ? box.current!.scrollHeight : rowOfLine(rows, anchor.current.line - p.dropped) * ROW + anchor.current.offset);
	}, [rows, p.follow]);
	useLayoutEffect(() => {
		if (p.here >= 0)
			box.current!.scrollTop = Math.max(0, rowOfLine(rows, p.here - p.dropped) * ROW - box.current!.clientHeight / 2); // as a reader would
	}, [p.here]);
	const hits = useMemo(() => new Set(p.hits), [p.hits]);
	const first = Math.max(0, Math.floor(view.top / ROW) - SPARE);
	const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + SPARE);
	return (
		<div class="log" ref={box} tabIndex={0} role="region" aria-label={t.label}>
			<span class="log-probe" aria-hidden="true" ref={probe}>
				{"m".repeat(100)}
			</span>
			<div class="log-body" style={{ height: `${rows.length * ROW}px` }}>
				{rows.slice(first, last).map((r, i) => (
					<LogRow
						key={first + i}
						line={p.lines[r.line]!}
						part={r}
						top={(first + i) * ROW}
						times={p.times}
						mark={r.line + p.dropped === p.here ? "here" : hits.has(r.line + p.dropped) ? "hit" : ""}
					/>
				))}
			</div>
		</div>
	);
}

function feedText(feed: LogFeed | undefined): string {
	return !feed ? t.states.connecting : feed.state === "refused" ? feed.error : t.states[feed.state];
}

export function Logs(p: { ns: string; pod: Pod }) {
	const names = [...(p.pod.spec?.containers ?? []), ...(p.pod.spec?.initContainers ?? [])].map((c) => c.name);
	const said = query.value.get("container") ?? "";
	const container = names.includes(said) ? said : (names[0] ?? "");
	const previous = query.value.get("previous") === "yes";
	const wrap = query.value.get("wrap") !== "no";
	const times = query.value.get("times") === "yes";
	const find = query.value.get("find") ?? "";
	const choice = { ns: p.ns, pod: p.pod.metadata.name, container, previous };
	const feed = useFeed(choice, p.pod);
	const [follow, setFollow] = useState(true);
	const [here, setHere] = useState(-1);
	const lines = feed?.lines ?? [];
	const dropped = feed?.dropped ?? 0;
	const version = useVersion(feed);
	const hits = useMemo(() => {
		const word = find.toLowerCase();
		return word ? lines.flatMap((l, i) => (plainText(l).toLowerCase().includes(word) ? [i + dropped] : [])) : [];
	}, [find, version]);
	const step = (by: number) => {
		if (!hits.length)
			return;
		setFollow(false);
		const at = hits.indexOf(here);
		setHere(hits[at < 0 ? (by > 0 ? 0 : hits.length - 1) : (at + by + hits.length) % hits.length]!);
	};
	const check = (label: string, on: boolean, set: (on: boolean) => void) => (
		<label class="pick">
			<input type="checkbox" checked={on} onChange={(e) => set(e.currentTarget.checked)} />
			<span>{label}</span>
		</label>
	);
	return (
		<div class="log-frame">
			<div class="log-bar">
				<label class="pick">
					<span>{t.container}</span>
					<select value={container} onChange={(e) => setQuery({ container: e.currentTarget.value })}>
						{names.map((n) => (
							<option key={n} value={n}>
								{n}
							</option>
						))}
					</select>
				</label>
				{check(t.previous, previous, (on) => setQuery({ previous: on ? "yes" : "" }))}
				{check(t.wrap, wrap, (on) => setQuery({ wrap: on ? "" : "no" }))}
				{check(t.times, times, (on) => setQuery({ times: on ? "yes" : "" }))}
				{check(t.follow, follow, setFollow)}
				<span class="log-find">
					<input
						type="search"
						data-find
						placeholder={t.find}
						aria-label={t.find}
						value={find}
						onInput={(e) => {
							setQuery({ find: e.currentTarget.value });
							setHere(-1);
						}}
						onKeyDown={(e) => {
							if (e.key === "Enter") {
								e.preventDefault();
								step(e.shiftKey ? -1 : 1);
							}
						}}
					/>
					{find && (
						<>
							<span class="quiet" role="status">{t.found(hits.indexOf(here) + 1, hits.length)}</span>
							<Button kind="plain" label={t.before} title={t.before} onClick={() => step(-1)}>
								↑
							</Button>
							<Button kind="plain" label={t.next} title={t.next} onClick={() => step(1)}>
								↓
							</Button>
						</>
					)}
				</span>
				<Button onClick={() => void download(choice)}>{t.download}</Button>
			</div>
			<LogView lines={lines} dropped={dropped} wrap={wrap} times={times} hits={hits} here={here} follow={follow} setFollow={setFollow} version={version} />
			<p class="quiet log-foot" role="status">
				{[feedText(feed), lines.length ? t.lines(lines.length) : feed?.state === "live" ? t.empty : "", dropped ? t.cut(KEPT) : ""].filter(Boolean).join(" · ")}
			</p>
		</div>
	);
}

/** A number that changes with the lines: they are added in place. */
function useVersion(feed: LogFeed | undefined): number {
	const last = useRef<{ feed: LogFeed | undefined; lines: Line[] | undefined; n: number; version: number }>({ feed: undefined, lines: undefined, n: 0, version: 0 });
	const l = last.current;
	if (l.feed !== feed || l.lines !== feed?.lines || l.n !== feed?.lines.length)
		last.current = { feed, lines: feed?.lines, n: feed?.lines.length ?? 0, version: l.version + 1 };
	return last.current.version;
}
