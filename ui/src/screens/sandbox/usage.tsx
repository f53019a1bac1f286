// SPDX-License-Identifier: Apache-2.0
// What a sandbox uses: measured every few seconds, drawn for as long as somebody looks.
import { useEffect, useState } from "preact/hooks";
import { amount, bytes, figure, gibHours, seconds, unitFor } from "../../api/amounts.ts";
import { ApiError, ask, askJson, readLines, sentence } from "../../api/http.ts";
import { pathOf, podMetrics } from "../../api/kinds.ts";
import type { Pod, PodMetrics } from "../../api/types.ts";
import { Lines } from "../../parts/chart.tsx";
import { Facts, Panel } from "../../parts/common.tsx";
import { moment } from "../../state/clock.ts";
import { text } from "../../text.ts";

const t = text.sandbox.usage;
const ASK_MS = 10_000;
const KEPT = 1080; // three hours

interface Measured {
	samples: PodMetrics[];
	error: string;
}

/** Of the Pod that was looked at last: another tab and back does not lose it. */
let kept: { uid: string; samples: PodMetrics[] } = { uid: "", samples: [] };

function pause(ms: number, signal: AbortSignal): Promise<void> {
	return new Promise((done) => {
		const timer = setTimeout(done, ms);
		signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
	});
}

/** By a watch where the server has one, else by asking. */
async function measure(ns: string, name: string, signal: AbortSignal, took: (m: PodMetrics) => void, failed: (e: string) => void): Promise<void> {
	const watch = new URLSearchParams({ watch: "true", fieldSelector: `metadata.name=${name}` });
	let watchable = true;
	while (!signal.aborted) {
		try {
			if (watchable) {
				const answer = await ask(`${pathOf(podMetrics, ns)}?${watch}`, { signal, once: true });
				failed("");
				await readLines(answer, (line) => {
					const { type, object } = JSON.parse(line) as { type: string; object: PodMetrics };
					if (type === "ADDED" || type === "MODIFIED")
						took(object);
				});
				await pause(1000, signal);
			} else {
				if (!document.hidden)
					took(await askJson<PodMetrics>(pathOf(podMetrics, ns, name), { signal }));
				await pause(ASK_MS, signal);
			}
		} catch (e) {
			if (signal.aborted)
				return;
			const code = e instanceof ApiError ? e.code : 0;
			if (watchable && code >= 400 && code < 500 && code !== 401 && code !== 429) {
				watchable = false;
				continue;
			}
			// 404 with a reason: there is no measurement yet; without one, nobody measures.
			if (code === 404)
				failed((e as ApiError).reason === "NotFound" ? "" : t.unsupported);
			else
				failed(code ? sentence(e) : text.errors.unreachable);
			await pause(code ? ASK_MS : 2000, signal);
		}
	}
}

function useMeasurements(ns: string, pod: Pod): Measured {
	const uid = pod.metadata.uid ?? "";
	const [all, setAll] = useState<Measured>(() => ({ samples: kept.uid === uid ? kept.samples : [], error: "" }));
	useEffect(() => {
		const stop = new AbortController();
		void measure(
			ns,
			pod.metadata.name,
			stop.signal,
			(m) =>
				setAll((before) => {
					const last = before.samples[before.samples.length - 1];
					if (last?.timestamp === m.timestamp)
						return before.error ? { ...before, error: "" } : before;
					const samples = [...before.samples, m].slice(-KEPT);
					kept = { uid, samples };
					return { samples, error: "" };
				}),
			(error) => setAll((before) => ({ ...before, error })),
		);
		return () => stop.abort();
	}, [ns, uid]);
	return all;
}

function sum(m: PodMetrics, name: string): number {
	const all = (m.containers ?? []).map((c) => amount(c.usage[name], NaN)).filter((n) => !Number.isNaN(n));
	return all.length ? all.reduce((a, b) => a + b, 0) : NaN;
}

function limit(pod: Pod, name: string): number {
	const all = (pod.spec?.containers ?? []).map((c) => amount(c.resources?.limits?.[name], NaN));
	return all.length ? all.reduce((a, b) => a + b, 0) : NaN; // one without a limit: the Pod has none
}

function over(byteSeconds: number): string {
	return gibHours(byteSeconds / 2 ** 30 / 3600);
}

function share(value: number, of: number, format: (n: number) => string): string {
	return Number.isNaN(of) ? t.noLimit : `${format(of)} (${Math.round((value / of) * 100)} %)`;
}

export function Usage(p: { ns: string; pod: Pod }) {
	const { samples, error } = useMeasurements(p.ns, p.pod);
	const last = samples[samples.length - 1];
	if (!last)
		return (
			<p class="quiet" role="status">
				{error || t.waiting}
			</p>
		);
	const time = (m: PodMetrics) => Date.parse(m.timestamp ?? "") || 0;
	const points = (name: string): [number, number][] => samples.map((m) => [time(m), sum(m, name)]);
	const to = time(last);
	const from = Math.min(time(samples[0]!), to - 60_000);
	const notes = last.metadata.annotations ?? {};
	// An axis has room for a number; the unit stands in the title.
	const unit = unitFor(Math.max(...samples.map((m) => sum(m, "memory"))));
	const cores = (n: number) => `${figure(n)} ${t.cores}`;
	return (
		<div class="stack usage">
			{error && (
				<p class="lost" role="status">
					{error}
				</p>
			)}
			<div class="grid-2">
				<Panel>
					<Lines title={t.cpu} from={from} to={to} format={figure} series={[{ label: t.cores, points: points("cpu"), tone: 1 }]} />
				</Panel>
				<Panel>
					<Lines title={t.memory} from={from} to={to} format={figure} series={[{ label: unit.name, points: points("memory").map(([at, v]) => [at, v / unit.size]), tone: 2 }]} />
				</Panel>
			</div>
			<p class="quiet">{t.since(moment(samples[0]!.timestamp))}</p>
			<div class="grid-2">
				<Panel title={t.totals}>
					<Facts
						of={[
							[t.cpuSeconds, seconds(sum(last, "cay.dev/cpu-seconds"))],
							[t.memoryHours, over(sum(last, "cay.dev/memory-byte-seconds"))],
							[t.disk, bytes(sum(last, "cay.dev/disk"))],
							[t.diskHours, over(sum(last, "cay.dev/disk-byte-seconds"))],
							[t.received, bytes(amount(notes["cay.dev/network-received-bytes"], NaN))],
							[t.sent, bytes(amount(notes["cay.dev/network-sent-bytes"], NaN))],
						]}
					/>
				</Panel>
				<Panel title={t.limits}>
					<Facts
						of={[
							[t.cpuLimit, share(sum(last, "cpu"), limit(p.pod, "cpu"), cores)],
							[t.memoryLimit, share(sum(last, "memory"), limit(p.pod, "memory"), bytes)],
							[t.window, last.window],
						]}
					/>
				</Panel>
			</div>
		</div>
	);
}
