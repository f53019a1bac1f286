// SPDX-License-Identifier: Apache-2.0
// Collections that stay up to date: a list, then a watch from where it ended, and again from the beginning when the server
// has forgotten where that was. All who look at the same collection share one watch; it ends a moment after the last left.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { webSocketUrl } from "./channels.ts";
import { ApiError, ask, askJson, readLines, sentence } from "./http.ts";
import { type Kind, pathOf } from "./kinds.ts";
import { currentToken, tokenProtocol } from "./session.ts";
import type { KObject } from "./types.ts";

export interface Snapshot<O extends KObject> {
	/** By namespace/name. */
	readonly objects: ReadonlyMap<string, O>;
	/** loading: nothing is known yet; live: as the server has it; lost: it was, and is being asked for again;
	 * refused: this user may not, or the server has no such kind. */
	readonly state: "loading" | "live" | "lost" | "refused";
	readonly error?: ApiError;
}

export interface Selection {
	labels?: string;
	fields?: string;
}

interface List<O> {
	metadata?: { resourceVersion?: string; continue?: string };
	items?: O[];
}

interface Change<O> {
	type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
	object: O & { code?: number; message?: string };
}

const PAGE = 500;
const LINGER_MS = 3000;
const SILENCE_MS = 150_000; // servers send a bookmark each minute
const STEADY_MS = 1000;
const RETRY_MS = [20, 250, 500, 1000, 2000, 4000]; // the first is for a network that only changed

export function keyOf(o: KObject): string {
	return `${o.metadata.namespace ?? ""}/${o.metadata.name}`;
}

/** Ends a stream that says nothing for too long: its connection may have died without a word. */
class Silence {
	private timer = 0;

	constructor(private readonly tooLong: () => void) {
		this.broken();
	}

	broken(): void {
		clearTimeout(this.timer);
		this.timer = window.setTimeout(this.tooLong, SILENCE_MS);
	}

	end(): void {
		clearTimeout(this.timer);
	}
}

class Collection<O extends KObject> {
	readonly snapshot: Signal<Snapshot<O>> = signal({ objects: new Map<string, O>(), state: "loading" });
	private users = 0;
	private objects = new Map<string, O>();
	private drawing: (() => void) | undefined; // what changed will be shown soon; ends that
	private version = "";
	private failures = 0;
	private opened = 0; // when the watch of now was
	private stop: AbortController | undefined;
	private linger = 0;
	private wake: (() => void) | undefined;
	// Over plain HTTP a browser has six connections to a server, and each watch would take one of them; WebSockets are not counted.
	private sockets = location.protocol === "http:";

	constructor(
		private readonly path: string,
		private readonly query: URLSearchParams,
		private readonly gone: () => void,
	) {}

	use(): () => void {
		clearTimeout(this.linger);
		if (!this.users++ && !this.stop)
			this.start();
		return () => {
			if (!--this.users)
				this.linger = window.setTimeout(() => this.end(), LINGER_MS);
		};
	}

	private start(): void {
		this.stop = new AbortController();
		void this.run(this.stop.signal);
	}

	private end(): void {
		this.stop?.abort();
		this.stop = undefined;
		this.drawing?.();
		this.gone();
	}

	private show(state: Snapshot<O>["state"], error?: ApiError): void {
		this.drawing?.();
		this.snapshot.value = { objects: new Map(this.objects), state, ...(error ? { error } : {}) };
	}

	/** Many changes in a moment are drawn once. A page in the background draws none, so a timer does it there. */
	private showSoon(): void {
		if (this.drawing)
			return;
		const draw = () => this.show("live");
		const hidden = document.hidden;
		const id = hidden ? window.setTimeout(draw, 200) : requestAnimationFrame(draw);
		this.drawing = () => {
			(hidden ? clearTimeout : cancelAnimationFrame)(id);
			this.drawing = undefined;
		};
	}

	private async list(signal: AbortSignal): Promise<void> {
		const found = new Map<string, O>();
		let next = "";
		do {
			const query = new URLSearchParams(this.query);
			query.set("limit", String(PAGE));
			if (next)
				query.set("continue", next);
			const page: List<O> = await askJson(`${this.path}?${query}`, { signal, once: true });
			for (const o of page.items ?? [])
				found.set(keyOf(o), o);
			this.version = page.metadata?.resourceVersion ?? "";
			next = page.metadata?.continue ?? "";
		} while (next);
		this.objects = found;
		this.show("live");
	}

	private change(line: string): void {
		const { type, object } = JSON.parse(line) as Change<O>;
		if (type === "ERROR")
			throw new ApiError(object.code ?? 500, object.message ?? "");
		this.version = object.metadata.resourceVersion ?? this.version;
		if (type === "BOOKMARK")
			return;
		if (type === "DELETED")
			this.objects.delete(keyOf(object));
		else
			this.objects.set(keyOf(object), object);
		this.showSoon();
	}

	private async watch(signal: AbortSignal): Promise<void> {
		const query = new URLSearchParams(this.query);
		query.set("watch", "true");
		query.set("allowWatchBookmarks", "true");
		query.set("resourceVersion", this.version);
		if (this.sockets && (await this.watchBySocket(`${this.path}?${query}`, signal)))
			return;
		const one = new AbortController();
		const stop = () => one.abort();
		signal.addEventListener("abort", stop);
		const silence = new Silence(stop);
		try {
			const answer = await ask(`${this.path}?${query}`, { signal: one.signal, once: true });
			this.sockets = false; // it is only there in this form
			this.live();
			await readLines(answer, (line) => {
				silence.broken();
				this.change(line);
			});
		} finally {
			silence.end();
			stop(); // also where a line was none
			signal.removeEventListener("abort", stop);
		}
	}

	private live(): void {
		this.opened = Date.now();
		if (this.snapshot.value.state !== "live")
			this.show("live");
	}

	/** False: there was no such stream, and a request may tell why. */
	private watchBySocket(path: string, signal: AbortSignal): Promise<boolean> {
		return new Promise((done, fail) => {
			const socket = new WebSocket(webSocketUrl(path), ["watch.k8s.io", tokenProtocol()]);
			let opened = false;
			const close = () => {
				socket.close();
				over(); // a server that is silent does not answer that either
			};
			const over = () => {
				silence.end();
				signal.removeEventListener("abort", close);
				done(opened);
			};
			const silence = new Silence(close);
			signal.addEventListener("abort", close, { once: true });
			socket.onopen = () => {
				opened = true;
				this.live();
			};
			socket.onmessage = (m) => {
				if (socket.readyState !== WebSocket.OPEN)
					return;
				silence.broken();
				try {
					this.change(String(m.data));
				} catch (e) {
					fail(e);
					socket.close();
				}
			};
			socket.onclose = over;
		});
	}

	private async run(signal: AbortSignal): Promise<void> {
		while (!signal.aborted) {
			this.opened = 0;
			try {
				if (!this.version)
					await this.list(signal);
				await this.watch(signal);
				if (!this.steady())
					await this.pause(signal, this.nextPause());
			} catch (e) {
				if (signal.aborted)
					return;
				this.steady();
				const error = e instanceof ApiError ? e : new ApiError(0, sentence(e));
				if (error.code === 410 || error.code === 400)
					this.version = "";
				if (error.code === 403 || error.code === 404 || error.code === 401 || error.code === 405) {
					this.show("refused", error);
					if (error.code === 401) {
						// The next who log in begin anew.
						this.stop = undefined;
						this.gone();
						return;
					}
				} else if (error.code !== 410 && this.failures) {
					this.show("lost", error);
				}
				if (error.code === 405)
					this.version = ""; // it can be listed and not watched
				await this.pause(signal, [403, 404, 405].includes(error.code) ? 30_000 : this.nextPause());
			}
		}
	}

	/** Whether the watch that has ended lasted; one that ends as soon as it begins counts as a failure, however it ended. */
	private steady(): boolean {
		const lasted = this.opened > 0 && Date.now() - this.opened >= STEADY_MS;
		if (lasted)
			this.failures = 0;
		return lasted;
	}

	private nextPause(): number {
		return RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)]!;
	}

	/** Until the time is over, or somebody knows that the server may be back. */
	private pause(signal: AbortSignal, ms: number): Promise<void> {
		return new Promise((done) => {
			const timer = setTimeout(done, ms * (0.75 + Math.random() / 2));
			this.wake = () => {
				clearTimeout(timer);
				done();
			};
			signal.addEventListener("abort", this.wake, { once: true });
		});
	}

	again(): void {
		this.wake?.();
	}
}

const open = new Map<string, Collection<KObject>>();

window.addEventListener("online", () => open.forEach((c) => c.again()));

function collection<O extends KObject>(k: Kind<O>, ns: string, s: Selection): Collection<O> {
	const query = new URLSearchParams();
	if (s.labels)
		query.set("labelSelector", s.labels);
	if (s.fields)
		query.set("fieldSelector", s.fields);
	const path = pathOf(k, ns);
	const key = `${currentToken()} ${path}?${query}`;
	let c = open.get(key) as Collection<O> | undefined;
	if (!c) {
		const made = new Collection<O>(path, query, () => open.get(key) === (made as unknown) && open.delete(key));
		open.set(key, made as unknown as Collection<KObject>);
		c = made;
	}
	return c;
}

/** The objects of a kind in a namespace ("": in all), while a component that asks is shown. */
export function useObjects<O extends KObject>(k: Kind<O>, ns: string, s: Selection = {}): Snapshot<O> {
	const token = currentToken();
	const c = useMemo(() => collection(k, ns, s), [k, ns, s.labels, s.fields, token]);
	useEffect(() => c.use(), [c]);
	return c.snapshot.value;
}

/** One object, which may come and go. */
export function useObject<O extends KObject>(k: Kind<O>, ns: string, name: string): Snapshot<O> & { object: O | undefined } {
	const s = useObjects(k, ns, { fields: `metadata.name=${name}` });
	return { ...s, object: s.objects.get(`${k.namespaced ? ns : ""}/${name}`) };
}
