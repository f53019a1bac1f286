// SPDX-License-Identifier: Apache-2.0
// A small chart without axes, one of many; its figures stand beside it as text. It draws only what can be seen.
import { useEffect, useRef, useState } from "preact/hooks";
import { ceiling, type Series, trace, useWidth, valueAt } from "../../parts/chart.tsx";
import { now } from "../../state/clock.ts";
import { text } from "../../text.ts";
import { chartStart } from "./history.ts";

/** Whether an element is in view, or nearly. */
export function useSeen<E extends HTMLElement>(): [{ current: E | null }, boolean] {
	const at = useRef<E>(null);
	const [seen, setSeen] = useState(false);
	useEffect(() => {
		const o = new IntersectionObserver(([e]) => setSeen(e!.isIntersecting), { rootMargin: "200px" });
		o.observe(at.current!);
		return () => o.disconnect();
	}, []);
	return [at, seen];
}

export function Spark(p: { series: Series[]; bands?: [number, number][]; span: number; height: number; label: string }) {
	const [at, width] = useWidth();
	const [hover, setHover] = useState<number | undefined>(undefined);
	const to = now.value;
	const from = chartStart(to, p.span);
	let most = 0;
	for (const s of p.series) {
		most = Math.max(most, valueAt(s.points, from) || 0);
		for (const [t, v] of s.points)
			if (t >= from && v > most)
				most = v;
	}
	const top = ceiling(most);
	const x = (t: number) => ((t - from) / (to - from)) * width;
	const y = (v: number) => p.height - 2 - (v / top) * (p.height - 5);
	const read = (t: number) => p.series.map((s) => `${s.label} ${Number.isNaN(valueAt(s.points, t)) ? text.none : valueAt(s.points, t)}`).join(", ");
	return (
		<div class="spark" ref={at as never}>
			<svg
				width={width}
				height={p.height}
				role="img"
				aria-label={p.label}
				onMouseMove={(e) => setHover(from + ((e.clientX - e.currentTarget.getBoundingClientRect().left) / width) * (to - from))}
				onMouseLeave={() => setHover(undefined)}
			>
				{p.bands?.map(([a, b]) => {
					const end = Number.isNaN(b) ? to : b;
					return end < from ? null : <rect key={a} class="band" x={x(Math.max(a, from))} width={Math.max(1.5, x(end) - x(Math.max(a, from)))} y={0} height={p.height} />;
				})}
				<line class="base" x1={0} x2={width} y1={p.height - 1.5} y2={p.height - 1.5} />
				{p.series.map((s, i) => (
					<path key={s.label} class={`line tone-${s.tone ?? i + 1} ${i ? "dashed" : ""}`} d={trace(s, from, to, x, y)} />
				))}
				{hover !== undefined && <line class="cross" x1={x(hover)} x2={x(hover)} y1={0} y2={p.height} />}
			</svg>
			{hover !== undefined && (
				<span class="spark-read">
					{new Date(hover).toLocaleTimeString()} · {read(hover)}
				</span>
			)}
		</div>
	);
}
