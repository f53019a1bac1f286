// SPDX-License-Identifier: Apache-2.0
// Charts, drawn as SVG: lines over time, and bars. What they show is also there as text for those who cannot see it.
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { text } from "../text.ts";

export interface Series {
	label: string;
	/** Milliseconds and value, oldest first. */
	points: [number, number][];
	tone?: 1 | 2 | 3 | 4;
	/** Holds its value until the next point. */
	steps?: boolean;
}

export function useWidth(): [RefObject<HTMLElement | null>, number] {
	const at = useRef<HTMLElement>(null);
	const [width, setWidth] = useState(320);
	useLayoutEffect(() => {
		const o = new ResizeObserver(([e]) => setWidth(Math.max(80, Math.round(e!.contentRect.width))));
		o.observe(at.current!);
		return () => o.disconnect();
	}, []);
	return [at, width];
}

/** A round number that is not below n. */
export function ceiling(n: number): number {
	if (n <= 0)
		return 1;
	const power = 10 ** Math.floor(Math.log10(n));
	return ([1, 2, 5, 10].find((f) => f * power >= n) ?? 10) * power;
}

/** The last value at or before t; NaN where nothing is known. */
export function valueAt(points: [number, number][], t: number): number {
	let low = 0;
	let high = points.length;
	while (low < high) {
		const mid = (low + high) >> 1;
		if (points[mid]![0] <= t)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? points[low - 1]![1] : NaN;
}

/** The d of a path. NaN is a gap; what is before the left edge is cut off there. */
export function trace(s: Series, from: number, to: number, x: (t: number) => number, y: (v: number) => number): string {
	let d = "";
	let down = false; // the pen
	let last = NaN;
	const first = s.points.findIndex(([t]) => t >= from);
	for (let i = Math.max(0, (first < 0 ? s.points.length : first) - 1); i < s.points.length; i++) {
		const [t, v] = s.points[i]!;
		const px = x(Math.max(from, t)).toFixed(1);
		if (Number.isNaN(v)) {
			if (down && s.steps)
				d += `H${px}`;
			down = false;
			continue;
		}
		d += !down ? `M${px} ${y(v).toFixed(1)}` : s.steps ? `H${px}V${y(v).toFixed(1)}` : `L${px} ${y(v).toFixed(1)}`;
		down = true;
		last = v;
	}
	return s.steps && down && !Number.isNaN(last) ? `${d}H${x(to).toFixed(1)}` : d;
}

export interface LinesProps {
	title: string;
	series: Series[];
	unit?: string;
	from: number;
	to: number;
	height?: number;
	format?: (v: number) => string;
	/** Times that stand out, with what they are called. */
	bands?: { label: string; of: [number, number][] };
	/** What the times at the edges and at the pointer look like. */
	when?: (t: number) => string;
}

/** Under the pointer, the legend shows the values of that moment. */
export function Lines(p: LinesProps) {
	const [at, width] = useWidth();
	const [hover, setHover] = useState<number | undefined>(undefined);
	const height = p.height ?? 120;
	const left = 44;
	const bottom = height - 18;
	const format = p.format ?? ((v: number) => `${Math.round(v * 100) / 100}${p.unit ? ` ${p.unit}` : ""}`);
	const when = p.when ?? ((t: number) => new Date(t).toLocaleTimeString());
	let most = 0;
	for (const s of p.series) {
		most = Math.max(most, valueAt(s.points, p.from) || 0);
		for (const [t, v] of s.points)
			if (t >= p.from && v > most)
				most = v;
	}
	const top = ceiling(most);
	const x = (t: number) => left + ((t - p.from) / Math.max(1, p.to - p.from)) * (width - left - 4);
	const y = (v: number) => bottom - (v / top) * (bottom - 6);
	const read = (s: Series) => {
		const v = hover === undefined ? (s.points[s.points.length - 1]?.[1] ?? NaN) : valueAt(s.points, hover);
		return Number.isNaN(v) ? text.none : format(v);
	};
	const point = (e: MouseEvent) => {
		const px = e.clientX - (e.currentTarget as Element).getBoundingClientRect().left;
		setHover(px < left ? undefined : Math.min(p.to, p.from + ((px - left) / Math.max(1, width - left - 4)) * (p.to - p.from)));
	};
	const said = p.series.map((s) => `${s.label}: ${s.points.length ? format(s.points[s.points.length - 1]![1]) : text.none}`).join(", ");
	return (
		<figure class="chart" ref={at}>
			<figcaption>
				<span>
					{p.title}
					{hover !== undefined && <span class="quiet"> {when(hover)}</span>}
				</span>
				<span class="legend">
					{p.series.map((s, i) => (
						<span key={s.label}>
							<i class={`tone-${s.tone ?? i + 1}`} aria-hidden="true" />
							{s.label} <b>{read(s)}</b>
						</span>
					))}
					{p.bands && (
						<span>
							<i class="band-key" aria-hidden="true" />
							{p.bands.label}
						</span>
					)}
				</span>
			</figcaption>
			<svg width={width} height={height} role="img" aria-label={`${p.title}. ${said}`} onMouseMove={point} onMouseLeave={() => setHover(undefined)}>
				{p.bands?.of.map(([a, b]) =>
					b < p.from ? null : <rect key={a} class="band" x={x(Math.max(a, p.from))} width={Math.max(1.5, x(Math.min(b, p.to)) - x(Math.max(a, p.from)))} y={6} height={bottom - 6} />,
				)}
				{[0, 0.5, 1].map((f) => (
					<g key={f} class="grid">
						<line x1={left} x2={width - 4} y1={y(top * f)} y2={y(top * f)} />
						<text x={left - 6} y={y(top * f) + 4} text-anchor="end">
							{format(top * f)}
						</text>
					</g>
				))}
				{[p.from, p.to].map((t, i) => (
					<text key={i} class="when" x={i ? width - 4 : left} y={height - 3} text-anchor={i ? "end" : "start"}>
						{when(t)}
					</text>
				))}
				{p.series.map((s, i) => (
					<path key={s.label} class={`line tone-${s.tone ?? i + 1}`} d={trace(s, p.from, p.to, x, y)} />
				))}
				{hover !== undefined && <line class="cross" x1={x(hover)} x2={x(hover)} y1={6} y2={bottom} />}
			</svg>
		</figure>
	);
}

/** Bars beside their names; the widest is the largest value, or what it is part of. */
export function Bars(p: { title: string; rows: { label: string; value: number; of?: number; bad?: boolean; href?: string }[]; format: (v: number) => string }) {
	const top = Math.max(1e-9, ...p.rows.map((r) => r.of ?? r.value));
	const share = (r: { value: number; of?: number }) => {
		const whole = r.of ?? top;
		return whole > 0 ? Math.min(100, (r.value / whole) * 100) : 100;
	};
	return (
		<figure class="bars">
			{p.title && <figcaption>{p.title}</figcaption>}
			<table>
				<tbody>
					{p.rows.map((r, i) => (
						<tr key={i}>
							<th scope="row">
								<div class="bar-label" title={r.label}>
									{r.href ? <a href={r.href}>{r.label}</a> : r.label}
								</div>
							</th>
							<td class="bar-cell">
								<div class="bar-track" aria-hidden="true">
									<div class={`bar-fill ${r.bad ? "bad" : ""}`} style={{ width: `${share(r)}%` }} />
								</div>
							</td>
							<td class="end">
								{p.format(r.value)}
								{r.of !== undefined && <span class="quiet"> / {p.format(r.of)}</span>}
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</figure>
	);
}
