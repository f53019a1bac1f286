// SPDX-License-Identifier: Apache-2.0
// The terminals of a sandbox that this page has open. They stay while another tab is shown, until the page is left.
import { effect, type Signal, signal } from "@preact/signals";
import { ApiError } from "../../../api/http.ts";
import { loggedIn } from "../../../api/session.ts";
import type { Pod } from "../../../api/types.ts";
import { text } from "../../../text.ts";
import { listTerminals, type Process, runtimeContainer } from "./processes.ts";
import { Screen } from "./screen.ts";
import { type Place, Session } from "./session.ts";

const MAX_OPEN = 8;
const LOOK_MS = [200, 400, 800, 1600, 3200, 6400];

interface Memory {
	uid: string;
	id: number;
	started: string;
}

export class Desk {
	readonly sessions: Signal<Session[]> = signal([]);
	readonly current: Signal<Session | undefined> = signal(undefined);
	/** Terminals that run in the sandbox, also those of other pages; undefined: it has no runtime API. */
	readonly running: Signal<Process[] | undefined> = signal(undefined);
	readonly looking = signal(false);
	reader = false;
	private place: Place | undefined;
	private pod: Pod | undefined;
	private round = 0;

	constructor(
		private readonly ns: string,
		private readonly name: string,
	) {}

	private get storeKey(): string {
		return `cay.terminal ${this.ns}/${this.name}`;
	}

	private recall(): Memory | undefined {
		try {
			return JSON.parse(sessionStorage.getItem(this.storeKey) ?? "null") ?? undefined;
		} catch {
			return undefined;
		}
	}

	/** So that the page finds it again after it was loaded anew. */
	remember(): void {
		const s = this.current.value;
		const p = s?.process;
		try {
			if (s && p && p !== "new" && s.alive)
				sessionStorage.setItem(this.storeKey, JSON.stringify({ uid: s.place.uid, id: p.id, started: p.started } satisfies Memory));
			else if (s && !s.alive)
				sessionStorage.removeItem(this.storeKey);
		} catch {
			// it lasts as long as the page
		}
	}

	/** The sandbox runs: join what is there, or begin. */
	arrive(pod: Pod, container: string): void {
		const uid = pod.metadata.uid ?? "";
		const same = this.place?.uid === uid && this.place.container === container;
		this.pod = pod;
		if (same)
			return;
		this.place = { ns: this.ns, pod: pod.metadata.name, uid, container };
		for (const s of this.sessions.value)
			if (s.place.uid !== uid)
				s.gone();
		const there = this.sessions.value.find((s) => s.alive && s.place.container === container);
		if (there)
			this.current.value = there;
		else
			void this.begin(true);
	}

	/** The sandbox sleeps, or is gone. */
	depart(): void {
		this.place = undefined;
		this.round++;
		this.looking.value = false;
		this.running.value = undefined;
		for (const s of this.sessions.value)
			s.gone();
	}

	/** rejoin: the terminal that this page had before it was loaded anew. */
	async begin(rejoin = false): Promise<void> {
		const place = this.place;
		if (!place)
			return;
		const round = ++this.round;
		this.looking.value = true;
		const found = await this.look(place, round);
		if (round !== this.round)
			return;
		this.looking.value = false;
		this.running.value = found;
		const was = rejoin ? this.recall() : undefined;
		const process = was?.uid === place.uid ? found?.find((p) => p.id === was.id && p.started === was.started) : undefined;
		this.add(place, found ? (process ?? "new") : undefined);
	}

	/** Terminals that run; undefined: only exec is possible. */
	private async look(place: Place, round: number): Promise<Process[] | undefined> {
		if (!this.pod || runtimeContainer(this.pod) !== place.container)
			return undefined;
		for (let n = 0; round === this.round; n++) {
			try {
				return await listTerminals(place.ns, place.pod);
			} catch (e) {
				const code = e instanceof ApiError ? e.code : 0;
				// 503: nobody listens, perhaps not yet. 502 is what a program of its own on that port answers; 0 that the server is away.
				const away = code === 0 || code === 500 || code === 504;
				if (!away && !(code === 503 && n < 3) && !(code === 502 && n < 2))
					return undefined;
			}
			await new Promise((done) => setTimeout(done, LOOK_MS[Math.min(n, LOOK_MS.length - 1)]));
		}
		return undefined;
	}

	private add(place: Place, process: Process | "new" | undefined): void {
		// A shell that has ended leaves its screen to the next one.
		const before = this.current.value;
		const reuse = before && !before.alive ? before : undefined;
		const screen = reuse?.screen ?? new Screen(text.terminal.label(this.name), this.reader);
		const s = new Session(place, screen, process);
		const rest = this.sessions.value.filter((o) => o !== reuse);
		const oldest = rest.length >= MAX_OPEN ? (rest.find((o) => !o.alive) ?? rest.find((o) => o.process) ?? rest[0]) : undefined;
		if (oldest) {
			oldest.leave();
			oldest.screen.dispose();
		}
		this.sessions.value = [...rest.filter((o) => o !== oldest), s];
		this.current.value = s;
	}

	choose(s: Session): void {
		this.current.value = s;
	}

	join(p: Process): void {
		if (this.place)
			this.add(this.place, p);
	}

	async refresh(): Promise<void> {
		const place = this.place;
		if (!place || !this.running.value)
			return;
		try {
			const found = await listTerminals(place.ns, place.pod);
			if (place === this.place)
				this.running.value = found;
		} catch {
			// what was known stays
		}
	}

	clear(): void {
		this.round++;
		this.place = undefined;
		for (const s of this.sessions.value) {
			s.leave();
			s.screen.dispose();
		}
		this.sessions.value = [];
		this.current.value = undefined;
	}

	async close(s: Session): Promise<void> {
		await s.end();
		s.screen.dispose();
		this.sessions.value = this.sessions.value.filter((o) => o !== s);
		const p = s.process;
		if (p && p !== "new")
			this.running.value = this.running.value?.filter((r) => r.id !== p.id);
		if (this.current.value === s)
			this.current.value = this.sessions.value[this.sessions.value.length - 1];
		this.remember();
	}
}

const desks = new Map<string, Desk>();

// Whoever comes next sees nothing of it. Processes go on, and are found again by those who may.
effect(() => {
	if (!loggedIn.value) {
		desks.forEach((d) => d.clear());
		desks.clear();
	}
});

export function deskOf(ns: string, name: string): Desk {
	const key = `${ns}/${name}`;
	let d = desks.get(key);
	if (!d) {
		d = new Desk(ns, name);
		desks.set(key, d);
	}
	return d;
}
