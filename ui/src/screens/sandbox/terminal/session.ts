// SPDX-License-Identifier: Apache-2.0
// One shell and its screen, which stays connected by itself. A process of the runtime API outlives its connections, and is
// joined again where its output was left. A plain exec ends with its connection; then a new shell begins below.
import { type Signal, signal } from "@preact/signals";
import { type Channels, exec, execPath, openChannels } from "../../../api/channels.ts";
import { ApiError, sentence } from "../../../api/http.ts";
import { loggedIn } from "../../../api/session.ts";
import { text } from "../../../text.ts";
import { why } from "../why.ts";
import { attachPath, DROPPED, droppedTo, endTerminal, getTerminal, type Process, startTerminal } from "./processes.ts";
import type { Screen } from "./screen.ts";
import { SHELL } from "./shell.ts";

export interface Place {
	ns: string;
	pod: string;
	uid: string;
	container: string;
}

export type State =
	| { phase: "starting" | "open" | "lost" }
	| { phase: "ended"; exitCode: number | undefined } // undefined: it went away with its sandbox
	| { phase: "failed"; message: string; advice: string };

const RETRY_MS = [250, 500, 1000, 2000, 4000, 8000];
const MAX_MESSAGE = 600; // of a text that may come from the sandbox

let last = 0;

const LATE = 64 * 1024; // bytes that are kept of what is left out

export class Session {
	readonly key = ++last;
	readonly began = new Date().toISOString();
	readonly state: Signal<State> = signal({ phase: "starting" });
	private channels: Channels | undefined;
	private stopped = false;
	private failures = 0;
	private offset = -1; // of the output that has been seen; -1: none yet
	private wake: (() => void) | undefined;
	private late: Uint8Array[] = []; // the end of what came faster than it could be drawn
	private lateSize = 0;
	private skipped = 0; // bytes before that

	constructor(
		readonly place: Place,
		readonly screen: Screen,
		/** undefined: a plain exec. "new": a process that is yet to be started. */
		public process: Process | "new" | undefined,
	) {
		screen.onInput = (data) => {
			// What waits for a connection that is lost would surprise when it is back.
			if (this.state.value.phase === "open")
				this.channels?.write(data);
		};
		screen.onSize = (cols, rows) => this.channels?.resize(cols, rows);
		screen.onLow = () => this.drawn();
		addEventListener("online", this.again);
		document.addEventListener("visibilitychange", this.again);
		void this.run();
	}

	get alive(): boolean {
		return this.state.value.phase !== "ended" && this.state.value.phase !== "failed";
	}

	private readonly again = () => !document.hidden && this.wake?.();

	private async run(): Promise<void> {
		while (!this.stopped) {
			try {
				if (await (this.process ? this.join(this.process) : this.execute()))
					return;
			} catch (e) {
				if (this.stopped)
					return;
				const error = e instanceof ApiError ? e : new ApiError(0, sentence(e));
				if (error.code === 401 || !loggedIn.value)
					return this.over({ phase: "failed", message: error.message, advice: error.advice });
				// This user, or a rule, allows no processes: exec may be allowed.
				if (this.process === "new" && [403, 405, 503].includes(error.code)) {
					this.process = undefined;
					continue;
				}
				// The server gives a reason; the runtime, when it has no such program, gives none.
				if (error.code === 404 && this.process === "new" && !error.reason)
					return this.over({ phase: "failed", message: error.message, advice: text.terminal.noShell });
				if (error.code === 404)
					return this.gone();
				if (error.code >= 400 && error.code < 500 && error.code !== 429)
					return this.over({ phase: "failed", message: error.message, advice: error.advice });
				if (this.state.value.phase !== "starting" || this.failures > 2)
					this.state.value = { phase: "lost" };
			}
			if (!this.stopped)
				await this.pause();
		}
	}

	/** True: there is nothing more to do. */
	private async join(process: Process | "new"): Promise<boolean> {
		const { ns, pod } = this.place;
		const now = process === "new" ? await startTerminal(ns, pod, this.screen.size) : await getTerminal(ns, pod, process.id);
		if (this.stopped)
			return true;
		if (process !== "new" && now.started !== process.started)
			throw new ApiError(404, ""); // numbers begin anew with the sandbox
		this.process = now;
		let replay = false;
		if (this.offset < 0) {
			this.offset = now.from;
			replay = now.to > now.from;
			if (replay)
				this.screen.mute();
			if (now.from > 0)
				this.screen.note(text.terminal.earlierGone);
		}
		const heard = () => {
			if (replay && this.offset >= now.to) {
				replay = false;
				this.screen.unmute();
			}
		};
		try {
			this.channels = await openChannels(
				attachPath(ns, pod, now.id, this.offset),
				(data) => {
					this.offset += data.length;
					this.show(data);
					heard();
				},
				(channel, data) => {
					if (channel === DROPPED)
						this.offset = droppedTo(data) ?? this.offset;
					heard();
				},
			);
			if (this.stopped)
				this.channels.close();
			this.opened();
			const end = await this.channels.end;
			if (!end.lost) {
				this.over({ phase: "ended", exitCode: end.exitCode });
				return true;
			}
		} finally {
			this.channels = undefined;
			if (replay)
				this.screen.unmute();
		}
		if (!this.stopped)
			this.state.value = { phase: "lost" };
		return false;
	}

	private async execute(): Promise<boolean> {
		const spec = { ns: this.place.ns, pod: this.place.pod, container: this.place.container, command: SHELL, stdin: true, tty: true };
		try {
			this.channels = await exec(spec, (data) => this.show(data));
		} catch (e) {
			if (e instanceof ApiError && !this.stopped)
				await why(execPath(spec));
			throw e;
		}
		if (this.stopped)
			this.channels.close();
		this.opened();
		const began = Date.now();
		const end = await this.channels.end;
		this.channels = undefined;
		if (!end.lost) {
			this.over(end.exitCode === undefined ? { phase: "failed", message: end.message, advice: text.terminal.noShell } : { phase: "ended", exitCode: end.exitCode });
			return true;
		}
		if (this.stopped)
			return true;
		this.screen.note(text.terminal.endedWithConnection);
		if (Date.now() - began < 2000)
			this.failures++;
		this.state.value = { phase: "lost" };
		return false;
	}

	private opened(): void {
		this.failures = 0;
		if (this.state.value.phase === "lost" && !this.process)
			this.screen.note(text.terminal.newShell);
		this.state.value = { phase: "open" };
		const { cols, rows } = this.screen.size;
		this.channels?.resize(cols, rows);
	}

	/** A browser cannot make a server wait, so what comes faster than it can be drawn is left out, but for its end. */
	private show(data: Uint8Array): void {
		if (!this.screen.full)
			return this.screen.feed(data);
		this.late.push(data.slice());
		this.lateSize += data.length;
		while (this.late.length > 1 && this.lateSize > LATE) {
			const n = this.late.shift()!.length;
			this.lateSize -= n;
			this.skipped += n;
		}
	}

	private drawn(): void {
		const late = this.late;
		if (this.skipped)
			this.screen.gap(text.terminal.skipped(this.skipped));
		this.skipped = this.lateSize = 0;
		this.late = [];
		for (const data of late)
			this.screen.feed(data);
	}

	private pause(): Promise<void> {
		const ms = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)]! * (0.75 + Math.random() / 2);
		this.failures++;
		return new Promise((done) => {
			const timer = setTimeout(done, ms);
			this.wake = () => {
				clearTimeout(timer);
				done();
			};
		});
	}

	private over(state: State): void {
		if (state.phase === "failed" && state.message.length > MAX_MESSAGE)
			state = { ...state, message: `${state.message.slice(0, MAX_MESSAGE)}…` };
		this.state.value = state;
		if (state.phase === "ended" && state.exitCode !== undefined)
			this.screen.note(text.terminal.ended(state.exitCode));
		else if (state.phase === "failed")
			this.screen.note(state.message);
		this.stop();
	}

	/** Its sandbox has been put to sleep, restarted or deleted. */
	gone(): void {
		if (!this.alive)
			return;
		this.screen.note(text.terminal.gone);
		this.over({ phase: "ended", exitCode: undefined });
	}

	private stop(): void {
		this.stopped = true;
		removeEventListener("online", this.again);
		document.removeEventListener("visibilitychange", this.again);
		this.channels?.close();
		this.wake?.();
	}

	/** Leaves it; a process goes on. */
	leave(): void {
		this.stop();
	}

	/** Ends the shell and what runs in it. */
	async end(): Promise<void> {
		if (this.process && this.process !== "new" && this.alive)
			await endTerminal(this.place.ns, this.place.pod, this.process.id).catch((e: unknown) => {
				if (!(e instanceof ApiError && e.code === 404))
					throw e;
			});
		this.stop();
	}
}
