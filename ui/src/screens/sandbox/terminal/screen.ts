// SPDX-License-Identifier: Apache-2.0
// The screen of a terminal. What programs write is hostile: it is drawn inside the frame, and changes nothing outside of it.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { colours } from "./colours.ts";
import { Thinner } from "./thinner.ts";

const SCROLLBACK = 5000; // lines
const PIECE = 16 * 1024; // bytes that are drawn before the page gets its turn
const FULL = 1024 * 1024; // bytes that wait to be drawn
const LOW = 64 * 1024;

// Operating system commands that do nothing here: 8 makes links of text, 9 and 777 are notices, 52 reads and writes the
// clipboard, 1337 sends files. Titles (0, 1, 2) have nobody who listens; they are taken too, because they may be long.
const IGNORED = [0, 1, 2, 8, 9, 52, 777, 1337];
// Colours of the terminal itself belong to the reader. Programs may ask for them, but not set them.
const COLOURS = [4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 104, 105, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119];

// Sequences that do something as often as their number says, one step after the other: more than a screen holds is done by
// nobody but who wants to stop the page.
const REPEATED = "@ILMPSTXZb";

/** Text of servers and of ours for a line of the screen: no control characters. */
function harmless(s: string): string {
	return s.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").slice(0, 500);
}

export class Screen {
	readonly term: Terminal;
	/** Keys and pastes of the reader, and what the terminal answers to programs that ask it something. */
	onInput: (data: Uint8Array) => void = () => undefined;
	onSize: (cols: number, rows: number) => void = () => undefined;
	/** The reader wants to leave the terminal with the keyboard. */
	onLeave: () => void = () => undefined;
	/** More waited than should, and has been drawn. */
	onLow: () => void = () => undefined;

	private readonly label: string;
	private readonly fitter = new FitAddon();
	private readonly thinner = new Thinner();
	private readonly queue: (string | (() => Uint8Array | undefined))[] = [];
	private queued = 0;
	private drawing = false;
	private overfull = false;
	private muted = 0;
	private observer: ResizeObserver | undefined;

	constructor(label: string, reader: boolean) {
		this.term = new Terminal({
			allowProposedApi: false,
			convertEol: false,
			cursorBlink: false,
			fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
			fontSize: 13,
			logLevel: "off", // each byte that is wrong would be a line in the console
			linkHandler: { activate: () => undefined, allowNonHttpProtocols: false },
			macOptionClickForcesSelection: true,
			minimumContrastRatio: 4.5,
			screenReaderMode: reader,
			scrollback: SCROLLBACK,
		});
		this.term.loadAddon(this.fitter);
		for (const n of IGNORED)
			this.term.parser.registerOscHandler(n, () => true);
		for (const n of COLOURS)
			this.term.parser.registerOscHandler(n, (data) => !/^(\d+;)?\?$/.test(data));
		for (const final of REPEATED)
			this.term.parser.registerCsiHandler({ final }, ([n]) => typeof n === "number" && n > 2 * Math.max(this.term.cols, this.term.rows));
		for (const final of "@A")
			this.term.parser.registerCsiHandler({ intermediates: " ", final }, ([n]) => typeof n === "number" && n > 2 * this.term.cols);
		for (const final of "}~")
			this.term.parser.registerCsiHandler({ intermediates: "'", final }, ([n]) => typeof n === "number" && n > 2 * this.term.cols);
		const bytes = new TextEncoder();
		this.term.onData((s) => !this.muted && this.onInput(bytes.encode(s)));
		this.term.onBinary((s) => !this.muted && this.onInput(Uint8Array.from(s, (c) => c.charCodeAt(0))));
		this.term.onResize(({ cols, rows }) => this.onSize(cols, rows));
		this.term.attachCustomKeyEventHandler((e) => this.key(e));
		this.label = label;
	}

	/** False: the terminal does not take this key. */
	private key(e: KeyboardEvent): boolean {
		if (!e.ctrlKey || !e.shiftKey || e.altKey)
			return true;
		switch (e.key.toLowerCase()) {
			case "c":
				e.preventDefault();
				if (e.type === "keydown" && this.term.hasSelection())
					document.execCommand("copy"); // works without TLS too; xterm gives the selection
				return false;
			case "v":
				return false; // the browser pastes
			case "k":
				return false; // the commands of the page
			case "l":
			case "escape":
				e.preventDefault();
				if (e.type === "keydown")
					this.onLeave();
				return false;
		}
		return true;
	}

	/** Shows it in an element, also again in another one. */
	show(at: HTMLElement, describedBy: string): () => void {
		if (this.term.element)
			at.append(this.term.element);
		else
			this.term.open(at);
		this.term.textarea?.setAttribute("aria-label", this.label);
		this.term.textarea?.setAttribute("aria-describedby", describedBy);
		this.recolour();
		const fit = () => at.clientWidth > 0 && at.clientHeight > 0 && this.fitter.fit();
		fit();
		this.observer = new ResizeObserver(() => requestAnimationFrame(fit));
		this.observer.observe(at);
		return () => {
			this.observer?.disconnect();
			this.term.element?.remove();
		};
	}

	recolour(): void {
		if (this.term.element?.parentElement)
			this.term.options.theme = colours(this.term.element.parentElement);
	}

	set reader(on: boolean) {
		this.term.options.screenReaderMode = on;
	}

	get size(): { cols: number; rows: number } {
		return { cols: this.term.cols, rows: this.term.rows };
	}

	/** Whether it has enough to draw, and should get no more until onLow. */
	get full(): boolean {
		return this.overfull;
	}

	/** Output of a program. */
	feed(data: Uint8Array): void {
		for (let at = 0; at < data.length; at += PIECE) {
			const piece = this.thinner.take(data.subarray(at, at + PIECE));
			this.queue.push(piece);
			this.queued += piece.length;
		}
		if (this.queued > FULL)
			this.overfull = true;
		this.draw();
	}

	/** Output of long ago: answers to what it asks would come late, and be taken for keys. */
	mute(): void {
		this.muted++;
	}

	/** When all that was fed so far has been drawn. */
	unmute(): void {
		this.queue.push(() => {
			this.muted = Math.max(0, this.muted - 1);
			return undefined;
		});
		this.draw();
	}

	private draw(): void {
		while (!this.drawing) {
			const next = this.queue.shift();
			if (next === undefined)
				return;
			const fed = typeof next !== "function";
			const data = fed ? next : next();
			if (!data)
				continue;
			this.drawing = true;
			this.term.write(data, () => {
				this.drawing = false;
				if (fed)
					this.queued -= data.length;
				if (this.overfull && this.queued < LOW) {
					this.overfull = false;
					this.onLow();
				}
				this.draw();
			});
		}
	}

	/** A line of ours, set apart from what programs write. Whatever they left switched on is switched off. */
	note(s: string): void {
		this.queue.push(() => {
			const { type, cursorX } = this.term.buffer.active;
			const reset = `\x18${type === "alternate" ? "\x1b[?1049l" : ""}\x1b[!p\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[0m`;
			const below = type === "alternate" || cursorX > 0 ? "\r\n" : "";
			return new TextEncoder().encode(`${reset}${below}\x1b[3m── ${harmless(s)} ──\x1b[0m\r\n`);
		});
		this.draw();
	}

	/** Says that something is missing here. A program that draws the whole screen will draw it again, so nothing is written there. */
	gap(s: string): void {
		this.queue.push(() => {
			const { type, cursorX } = this.term.buffer.active;
			return new TextEncoder().encode(type === "alternate" ? "\x18" : `\x18${cursorX > 0 ? "\r\n" : ""}\x1b[0;3m── ${harmless(s)} ──\x1b[0m\r\n`);
		});
		this.draw();
	}

	dispose(): void {
		this.observer?.disconnect();
		this.queue.length = 0;
		this.term.dispose();
	}
}
