// SPDX-License-Identifier: Apache-2.0
// The tab with shells of a sandbox.
import "@xterm/xterm/css/xterm.css";
import "./terminal.css";
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { pods } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import { Badge, Button, type Tone } from "../../parts/common.tsx";
import { confirm } from "../../parts/dialog.tsx";
import { moment } from "../../state/clock.ts";
import { useCommands } from "../../state/commands.ts";
import { query, setQuery } from "../../state/location.ts";
import { attempt } from "../../state/notices.ts";
import { theme } from "../../state/prefs.ts";
import { text } from "../../text.ts";
import { NotRunning, running } from "./asleep.tsx";
import { readerMode } from "./terminal/reader.ts";
import { type Desk, deskOf } from "./terminal/desk.ts";
import type { Session, State } from "./terminal/session.ts";
import type { Within } from "./within.ts";

const TONES: Record<State["phase"], Tone> = { starting: "busy", open: "good", lost: "warn", ended: "idle", failed: "bad" };

function stateText(s: State): string {
	if (s.phase === "ended")
		return s.exitCode === undefined ? text.terminal.phase.gone : text.terminal.ended(s.exitCode);
	return text.terminal.phase[s.phase];
}

function Frame(p: { session: Session; hint: string; onLeave: () => void }) {
	const at = useRef<HTMLDivElement>(null);
	const { screen } = p.session;
	useLayoutEffect(() => {
		const hide = screen.show(at.current!, p.hint);
		if (!document.activeElement || document.activeElement === document.body || document.activeElement.id === "main")
			screen.term.focus();
		const dark = matchMedia("(prefers-color-scheme: dark)");
		const recolour = () => screen.recolour();
		dark.addEventListener("change", recolour);
		return () => {
			dark.removeEventListener("change", recolour);
			hide();
		};
	}, [screen]);
	screen.onLeave = p.onLeave;
	const chosen = theme.value;
	useEffect(() => screen.recolour(), [screen, chosen]);
	const reader = readerMode.value;
	useEffect(() => {
		screen.reader = reader;
	}, [screen, reader]);
	return <div class="term-frame" ref={at} />;
}

function Picker(p: { desk: Desk; id: string }) {
	const { sessions, current, running: all } = p.desk;
	const idOf = (s: Session) => (s.process && s.process !== "new" ? s.process.id : undefined);
	const known = new Set(sessions.value.map(idOf));
	const others = (all.value ?? []).filter((r) => !known.has(r.id));
	const choose = (value: string) => {
		const [kind, n] = value.split(":");
		const s = sessions.value.find((o) => kind === "s" && o.key === Number(n));
		const r = others.find((o) => kind === "p" && o.id === Number(n));
		if (s)
			p.desk.choose(s);
		else if (r)
			p.desk.join(r);
	};
	return (
		<label class="pick">
			<span>{text.terminal.which}</span>
			<select
				id={p.id}
				value={current.value ? `s:${current.value.key}` : ""}
				disabled={!sessions.value.length && !others.length}
				onFocus={() => void p.desk.refresh()}
				onChange={(e) => choose(e.currentTarget.value)}
			>
				{!current.value && <option value="">{text.terminal.noneOpen}</option>}
				{sessions.value.map((s, i) => (
					<option key={s.key} value={`s:${s.key}`}>
						{text.terminal.name(i + 1, moment(s.process && s.process !== "new" ? s.process.started : s.began), s.alive)}
					</option>
				))}
				{others.map((r) => (
					<option key={`p${r.id}`} value={`p:${r.id}`}>
						{text.terminal.elsewhere(r.id, moment(r.started), r.what)}
					</option>
				))}
			</select>
		</label>
	);
}

export function Terminal(p: Within) {
	const desk = useMemo(() => deskOf(p.ns, p.name), [p.ns, p.name]);
	const containers = (p.pod?.spec?.containers ?? []).map((c) => c.name);
	const said = query.value.get("container") ?? "";
	const container = containers.includes(said) ? said : (containers[0] ?? "");
	const runs = running(p);
	const allowed = may("create", pods, p.ns, "exec") !== false;
	desk.reader = readerMode.value;
	useEffect(() => {
		if (runs && allowed)
			desk.arrive(p.pod!, container);
		else
			desk.depart();
	}, [desk, p.pod?.metadata.uid, runs, container, allowed]);

	const s = desk.current.value;
	const state = s?.state.value;
	useEffect(() => desk.remember(), [s, state?.phase]);

	const hint = useId();
	const picker = useId();
	const begin = () => {
		void desk.begin().then(() => desk.current.value?.screen.term.focus());
	};
	const close = async () => {
		if (!s)
			return;
		if (!s.alive || (await confirm({ title: text.terminal.closeTitle, body: text.terminal.closeBody, yes: text.terminal.close, danger: true })))
			await attempt(() => desk.close(s));
	};
	useCommands(
		() => [
			{ id: "terminal-new", title: text.terminal.fresh, run: begin },
			{ id: "terminal-focus", title: text.terminal.focus, run: () => desk.current.value?.screen.term.focus() },
		],
		[desk],
	);

	if (!allowed)
		return (
			<div class="refused" role="status">
				<strong>{text.terminal.refused}</strong>
				<p>{text.list.askFor("create", "pods/exec", p.ns)}</p>
			</div>
		);
	return (
		<section class="term" aria-label={text.terminal.title}>
			{!runs && <NotRunning {...p} />}
			<div class="term-bar">
				{containers.length > 1 && (
					<label class="pick">
						<span>{text.terminal.container}</span>
						<select value={container} onChange={(e) => setQuery({ container: e.currentTarget.value })}>
							{containers.map((c) => (
								<option key={c}>{c}</option>
							))}
						</select>
					</label>
				)}
				<Picker desk={desk} id={picker} />
				<span role="status" class="term-state">
					{desk.looking.value ? <Badge tone="busy">{text.terminal.phase.starting}</Badge> : state && <Badge tone={TONES[state.phase]}>{stateText(state)}</Badge>}
				</span>
				<div class="actions">
					<Button onClick={begin} disabled={!runs || desk.looking.value}>
						{s && !s.alive ? text.terminal.again : text.terminal.fresh}
					</Button>
					<Button onClick={() => void close()} disabled={!s}>
						{text.terminal.close}
					</Button>
				</div>
			</div>
			{state?.phase === "failed" && (
				<p class="wrong" role="alert">
					{state.message} {state.advice}
				</p>
			)}
			{s ? <Frame session={s} hint={hint} onLeave={() => document.getElementById(picker)?.focus()} /> : <div class="term-frame" />}
			<p class="quiet term-hint" id={hint}>
				{text.terminal.keys} {s && s.alive && (s.process ? text.terminal.staysOn : text.terminal.endsWith)}
				<label>
					<input type="checkbox" checked={readerMode.value} onChange={(e) => (readerMode.value = e.currentTarget.checked)} /> {text.terminal.reader}
				</label>
			</p>
		</section>
	);
}
