// SPDX-License-Identifier: Apache-2.0
// The tab with ports of a sandbox: what its containers declare, and what listens now.
import "./ports.css";
import { useEffect, useState } from "preact/hooks";
import { run } from "../../api/channels.ts";
import { ApiError, askJson, sentence } from "../../api/http.ts";
import { pods } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import { useSelf } from "../../api/self.ts";
import { Badge, Button, Field, Panel } from "../../parts/common.tsx";
import { moment, now } from "../../state/clock.ts";
import { useCommands } from "../../state/commands.ts";
import { attempt, complain } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { NotRunning, running } from "./asleep.tsx";
import { type Listening, listeningOf } from "./ports/listening.ts";
import type { Within } from "./within.ts";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];

interface Opened {
	port: number;
	url?: string;
	until?: string;
	command?: string;
	why?: string;
}

interface Row {
	port: number;
	names: string[];
	containers: string[];
	listening: Listening | undefined;
}

/** A URL of the web, and nothing else that a link can be. */
function webUrl(said: unknown): string {
	const url = new URL(String(said));
	if (url.protocol !== "http:" && url.protocol !== "https:")
		throw new Error(text.ports.badUrl);
	return url.href;
}

function useListening(p: Within, ask: boolean): [Listening[] | undefined, string, () => void] {
	const [found, setFound] = useState<Listening[] | undefined>(undefined);
	const [error, setError] = useState("");
	const [round, setRound] = useState(0);
	useEffect(() => {
		if (!ask)
			return setFound(undefined);
		let left = false;
		let timer = 0;
		let failures = 0;
		const look = async () => {
			let lost = false;
			let said = "";
			// Containers share one network: the first that has a shell tells.
			for (const c of p.pod?.spec?.containers ?? []) {
				try {
					const r = await run({ ns: p.ns, pod: p.pod!.metadata.name, container: c.name, command: ["cat", "/proc/net/tcp", "/proc/net/tcp6"] }, undefined, 4 * 1024 * 1024);
					if (left)
						return;
					if (r.out.length) {
						setFound(listeningOf(new TextDecoder("latin1").decode(r.out)));
						setError("");
						return;
					}
					lost = r.code === undefined && r.message === text.errors.streamLost;
					said = r.err || r.message;
				} catch (e) {
					lost = true;
					said = sentence(e);
				}
			}
			if (left)
				return;
			setError(said.slice(0, 300));
			if (lost)
				timer = window.setTimeout(() => void look(), RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
		};
		void look();
		return () => {
			left = true;
			clearTimeout(timer);
		};
	}, [p.ns, p.pod?.metadata.uid, ask, round]);
	return [found, error, () => setRound((n) => n + 1)];
}

function rowsOf(p: Within, listening: Listening[]): Row[] {
	const rows = new Map<number, Row>();
	const row = (port: number) => {
		const r = rows.get(port) ?? { port, names: [], containers: [], listening: undefined };
		rows.set(port, r);
		return r;
	};
	const containers = p.pod?.spec?.containers ?? p.sandbox.spec?.podTemplate?.spec?.containers ?? [];
	for (const c of containers)
		for (const d of c.ports ?? [])
			if ((d.protocol ?? "TCP") === "TCP") {
				row(d.containerPort).containers.push(c.name);
				if (d.name)
					row(d.containerPort).names.push(d.name);
			}
	for (const l of listening)
		row(l.port).listening = l;
	return [...rows.values()].sort((a, b) => a.port - b.port);
}

function Answer(p: { of: Opened; onClose: () => void }) {
	const { port, url, until, command, why } = p.of;
	const copy = (what: string) => void attempt(() => navigator.clipboard.writeText(what), text.ports.copied);
	const over = until !== undefined && Date.parse(until) <= now.value;
	return (
		<div class="refused" role="status">
			<strong>{text.ports.portNumber(port)}</strong>
			{url && (
				<>
					<p>{over ? text.ports.expired : text.ports.who(moment(until))}</p>
					<p class="wrap">
						{over ? (
							<code>{url}</code>
						) : (
							<a href={url} target="_blank" rel="noopener noreferrer">
								{url}
							</a>
						)}
					</p>
				</>
			)}
			{command && (
				<>
					<p class="wrap">{why}</p>
					<p>{text.ports.forward}</p>
					<pre>{command}</pre>
				</>
			)}
			<div class="actions">
				<Button onClick={() => copy(url ?? command ?? "")}>{url ? text.ports.copyUrl : text.ports.copyCommand}</Button>
				<Button kind="plain" onClick={p.onClose}>
					{text.dialog.close}
				</Button>
			</div>
		</div>
	);
}

export function Ports(p: Within) {
	const runs = running(p);
	const { urls } = useSelf();
	const mayExec = may("create", pods, p.ns, "exec") !== false;
	const [listening, error, again] = useListening(p, runs && mayExec);
	const [opened, setOpened] = useState<Opened | undefined>(undefined);
	const [other, setOther] = useState("");
	const [busy, setBusy] = useState(false);
	useCommands(() => [{ id: "ports-refresh", title: text.ports.refresh, keys: "r", run: again }], []);

	const forward = (port: number, why: string) => {
		const local = port < 1024 ? 8000 + port : port;
		setOpened({ port, why, command: `kubectl port-forward -n ${p.ns} pod/${p.pod?.metadata.name ?? p.name} ${local}:${port}` });
	};
	const open = async (port: number) => {
		if (urls === false)
			return forward(port, text.ports.noUrls);
		setBusy(true);
		try {
			const answer = await askJson<{ url?: string; expirationTimestamp?: string }>("/cay/v1/page/urls", { method: "POST", body: { namespace: p.ns, sandbox: p.name, port } });
			const url = webUrl(answer.url);
			setOpened({ port, url, ...(answer.expirationTimestamp ? { until: answer.expirationTimestamp } : {}) });
			window.open(url, "_blank", "noopener,noreferrer");
		} catch (e) {
			if (e instanceof ApiError && (e.code === 404 || e.code === 403))
				forward(port, e.message);
			else
				complain(e);
		}
		setBusy(false);
	};
	const n = /^\d{1,5}$/.test(other) ? Number(other) : 0;
	const good = n >= 1 && n <= 65535;
	const rows = rowsOf(p, listening ?? []);
	return (
		<div class="stack">
			{!runs && <NotRunning {...p} />}
			{opened && <Answer of={opened} onClose={() => setOpened(undefined)} />}
			<Panel title={text.ports.title} actions={<Button onClick={again} disabled={!runs}>{text.ports.refresh}</Button>}>
				{!mayExec && <p class="quiet">{text.ports.mayNot}</p>}
				{error && (
					<p class="quiet wrap" role="status">
						{text.ports.notKnown(error)}
					</p>
				)}
				{rows.length ? (
					<div class="ports-scroll">
						<table class="ports">
							<thead>
								<tr>
									<th scope="col">{text.ports.port}</th>
									<th scope="col">{text.ports.declared}</th>
									<th scope="col">{text.ports.listens}</th>
									<th scope="col">{text.ports.open}</th>
								</tr>
							</thead>
							<tbody>
								{rows.map((r) => (
									<tr key={r.port}>
										<th scope="row">
											{r.port} {r.names.length > 0 && <span class="quiet">{r.names.join(", ")}</span>}
										</th>
										<td>{r.containers.join(", ") || text.none}</td>
										<td>
											{r.listening ? (
												<Badge tone="good">{r.listening.local ? text.ports.local : text.ports.yes}</Badge>
											) : listening ? (
												<Badge tone="idle">{text.ports.no}</Badge>
											) : (
												text.unknown
											)}
										</td>
										<td>
											<Button disabled={!runs || busy} label={text.ports.openPort(r.port)} onClick={() => void open(r.port)}>
												{text.ports.open}
											</Button>
										</td>
									</tr>
								))}
							</tbody>
						</table>
					</div>
				) : (
					<p class="quiet">{text.ports.none}</p>
				)}
			</Panel>
			<form
				class="ports-other"
				onSubmit={(e) => {
					e.preventDefault();
					if (good)
						void open(n);
				}}
			>
				<Field label={text.ports.other} {...(other && !good ? { error: text.ports.badPort } : {})}>
					<input inputMode="numeric" value={other} onInput={(e) => setOther(e.currentTarget.value.trim())} />
				</Field>
				<Button type="submit" disabled={!good || !runs || busy}>
					{text.ports.open}
				</Button>
			</form>
			<p class="quiet">{text.ports.hint}</p>
		</div>
	);
}
