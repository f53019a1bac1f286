// SPDX-License-Identifier: Apache-2.0
// A list of any length: only the rows that are seen are in the document. Rows are of one height.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, query, setQuery } from "../state/location.ts";
import { text } from "../text.ts";

const ROW = 41; // pixels, as in style.css
const SPARE = 8; // rows above and below what is seen
const SAY_MS = 600;

export interface Column<R> {
	id: string;
	title: string;
	/** A share of the width ("2fr"), or one of its own ("7rem"). */
	width: string;
	show: (row: R) => ComponentChildren;
	/** What it is sorted by; without it the column cannot be. */
	by?: (row: R) => string | number;
	end?: boolean; // numbers stand at the end
}

export interface TableProps<R> {
	label: string;
	rows: R[];
	columns: Column<R>[];
	keyOf: (row: R) => string;
	/** Where a row leads; the first column becomes the link. */
	href?: (row: R) => string;
	/** What the search looks through. */
	search?: (row: R) => string;
	empty?: ComponentChildren;
	/** The column that it is sorted by at first; with "-" in front, the largest first. */
	order?: string;
	actions?: ComponentChildren;
}

const collator = new Intl.Collator("en", { numeric: true }); // many times faster than localeCompare with options

function compare(a: string | number, b: string | number): number {
	return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
}

/** Search and order are in the address (q, by). */
export function Table<R>(p: TableProps<R>) {
	const find = query.value.get("q") ?? "";
	const by = query.value.get("by") ?? p.order ?? "";
	const rows = useMemo(() => {
		const words = find.toLowerCase().split(/\s+/).filter(Boolean);
		const found = words.length && p.search ? p.rows.filter((r) => words.every((w) => p.search!(r).toLowerCase().includes(w))) : [...p.rows];
		const column = p.columns.find((c) => c.id === by.replace(/^-/, ""));
		if (column?.by) {
			const sign = by.startsWith("-") ? -1 : 1;
			found.sort((a, b) => sign * compare(column.by!(a), column.by!(b)) || compare(p.keyOf(a), p.keyOf(b)));
		}
		return found;
	}, [p.rows, find, by]);

	const box = useRef<HTMLDivElement>(null);
	const [view, setView] = useState({ top: 0, height: 800 });
	// The row with the focus, or that had it last: it stays the same one when others come and go around it.
	const [active, setActive] = useState({ key: "", at: 0 });
	useLayoutEffect(() => {
		const b = box.current!;
		const look = () => setView({ top: b.scrollTop, height: b.clientHeight });
		look();
		b.addEventListener("scroll", look, { passive: true });
		const size = new ResizeObserver(look);
		size.observe(b);
		return () => {
			b.removeEventListener("scroll", look);
			size.disconnect();
		};
	}, []);

	const first = Math.max(0, Math.floor(view.top / ROW) - SPARE);
	const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + SPARE);
	const layout = { gridTemplateColumns: p.columns.map((c) => (c.width.endsWith("fr") ? `minmax(0, ${c.width})` : c.width)).join(" ") };

	const at = useMemo(() => {
		const found = active.key ? rows.findIndex((r) => p.keyOf(r) === active.key) : -1;
		return found >= 0 ? found : Math.min(active.at, rows.length - 1);
	}, [rows, active]);
	// One row can always be reached with Tab, also when the one that had the focus is not in the document.
	const stop = Math.max(first, Math.min(last - 1, at));

	const activate = (n: number) => setActive({ key: rows[n] ? p.keyOf(rows[n]) : "", at: n });
	const move = (to: number) => {
		const at = Math.max(0, Math.min(rows.length - 1, to));
		const b = box.current!;
		activate(at);
		if (at * ROW < b.scrollTop)
			b.scrollTop = at * ROW;
		else if ((at + 2) * ROW > b.scrollTop + b.clientHeight)
			b.scrollTop = (at + 2) * ROW - b.clientHeight;
		requestAnimationFrame(() => b.querySelector<HTMLElement>(`[data-row="${at}"]`)?.focus({ preventScroll: true }));
	};
	const onKey = (e: KeyboardEvent) => {
		const row = (e.target as HTMLElement).dataset["row"];
		const here = Number(row);
		const steps: Record<string, number> = {
			ArrowDown: here + 1,
			ArrowUp: here - 1,
			PageDown: here + Math.floor(view.height / ROW),
			PageUp: here - Math.floor(view.height / ROW),
			Home: 0,
			End: rows.length - 1,
		};
		if (row === undefined)
			return;
		if (e.key in steps) {
			e.preventDefault();
			move(steps[e.key]!);
		} else if (e.key === "Enter" && p.href && rows[here]) {
			e.preventDefault();
			go(p.href(rows[here]));
		}
	};
	// Read out once somebody has typed what they look for, and not with each row that comes or goes.
	const [said, setSaid] = useState("");
	const counts = useRef("");
	counts.current = find ? text.list.rows(rows.length, p.rows.length) : "";
	useEffect(() => {
		const timer = setTimeout(() => setSaid(counts.current), SAY_MS);
		return () => clearTimeout(timer);
	}, [find]);
	const sortBy = (c: Column<R>) => setQuery({ by: by === c.id ? `-${c.id}` : c.id });

	return (
		<div class="table-frame">
			<div class="table-bar">
				{p.search && (
					<input
						type="search"
						class="find"
						data-find
						placeholder={text.list.find}
						aria-label={text.list.find}
						value={find}
						onInput={(e) => setQuery({ q: e.currentTarget.value })}
						onKeyDown={(e) => {
							if (e.key === "ArrowDown") {
								e.preventDefault();
								move(0);
							}
						}}
					/>
				)}
				<span class="quiet">{text.list.rows(rows.length, p.rows.length)}</span>
				<span class="hidden" role="status">
					{said}
				</span>
				<div class="actions">{p.actions}</div>
			</div>
			<div class="table" role="table" aria-label={p.label} aria-rowcount={rows.length + 1} ref={box} onKeyDown={onKey}>
				<div role="rowgroup" class="table-head">
					<div role="row" class="row head" style={layout} aria-rowindex={1}>
						{p.columns.map((c) => {
							const order = by === c.id ? "ascending" : by === `-${c.id}` ? "descending" : "none";
							return (
								<div role="columnheader" key={c.id} class={c.end ? "end" : ""} aria-sort={order}>
									{c.by ? (
										<button type="button" class="sort" title={text.list.sort(c.title)} onClick={() => sortBy(c)}>
											{c.title}
											<span aria-hidden="true">{order === "ascending" ? " ↑" : order === "descending" ? " ↓" : ""}</span>
										</button>
									) : (
										c.title
									)}
								</div>
							);
						})}
					</div>
				</div>
				<div role="rowgroup" class="table-body" style={{ height: `${rows.length * ROW}px` }}>
					{rows.slice(first, last).map((r, i) => (
						<div
							role="row"
							key={p.keyOf(r)}
							class="row"
							aria-rowindex={first + i + 2}
							data-row={first + i}
							tabIndex={first + i === stop ? 0 : -1}
							style={{ ...layout, top: `${(first + i) * ROW}px` }}
							onFocus={() => activate(first + i)}
						>
							{p.columns.map((c, n) => (
								<div role="cell" key={c.id} class={c.end ? "end" : ""}>
									{n === 0 && p.href ? (
										<a href={p.href(r)} tabIndex={-1}>
											{c.show(r)}
										</a>
									) : (
										c.show(r)
									)}
								</div>
							))}
						</div>
					))}
				</div>
			</div>
			{!rows.length && <div class="quiet pad">{p.rows.length ? text.list.noMatch : (p.empty ?? text.list.nothing)}</div>}
		</div>
	);
}
