// SPDX-License-Identifier: Apache-2.0
// Streams into a Pod over WebSocket, with the channels of Kubernetes (v5.channel.k8s.io, or v4 where v5 is unknown).
import { ApiError } from "./http.ts";
import { pathOf, pods } from "./kinds.ts";
import { tokenProtocol } from "./session.ts";
import { text } from "../text.ts";

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;
const RESIZE = 4;
const CLOSE = 255;

export interface ExecSpec {
	ns: string;
	pod: string;
	container?: string;
	command: string[];
	stdin?: boolean;
	tty?: boolean;
}

/** How a command ended. */
export interface Ending {
	exitCode: number | undefined; // undefined: it is not known
	message: string;
	lost: boolean; // the connection ended before the command was said to have
}

export interface Channels {
	write(data: Uint8Array | string): void;
	resize(cols: number, rows: number): void;
	closeInput(): void;
	close(): void;
	/** Bytes that wait to be sent. */
	readonly waiting: number;
	/** Whether the server knows an end of input. */
	readonly canCloseInput: boolean;
	readonly end: Promise<Ending>;
}

interface Status {
	status?: string;
	message?: string;
	reason?: string;
	code?: number;
	details?: { causes?: { reason?: string; message?: string }[] };
}

function ending(s: Status): Ending {
	if (s.status === "Success")
		return { exitCode: 0, message: "", lost: false };
	const code = s.details?.causes?.find((c) => c.reason === "ExitCode")?.message;
	return { exitCode: code === undefined ? undefined : Number(code), message: s.message ?? "", lost: false };
}

export function webSocketUrl(path: string): string {
	return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
}

/** Opens channels at a path of this server; the promise is settled when they are open, or cannot be. other: messages on channels that Kubernetes
 * does not have. */
export function openChannels(path: string, output: (data: Uint8Array, stderr: boolean) => void, other?: (channel: number, data: Uint8Array) => void): Promise<Channels> {
	const socket = new WebSocket(webSocketUrl(path), ["v5.channel.k8s.io", "v4.channel.k8s.io", tokenProtocol()]);
	socket.binaryType = "arraybuffer";
	let opened = false;
	let status: Status | undefined;
	let over!: (e: Ending) => void;
	const end = new Promise<Ending>((done) => (over = done));
	const send = (channel: number, data: Uint8Array) => {
		if (socket.readyState !== WebSocket.OPEN)
			return;
		const message = new Uint8Array(data.length + 1);
		message[0] = channel;
		message.set(data, 1);
		socket.send(message);
	};
	const encode = (s: string) => new TextEncoder().encode(s);
	return new Promise((done, fail) => {
		socket.onopen = () => {
			opened = true;
			done({
				write: (data) => {
					const bytes = typeof data === "string" ? encode(data) : data;
					for (let at = 0; at < bytes.length || at === 0; at += 65536)
						send(STDIN, bytes.subarray(at, at + 65536));
				},
				resize: (cols, rows) => send(RESIZE, encode(JSON.stringify({ Width: cols, Height: rows }))),
				closeInput: () => socket.protocol === "v5.channel.k8s.io" && send(CLOSE, Uint8Array.of(STDIN)),
				close: () => socket.close(),
				get waiting() {
					return socket.bufferedAmount;
				},
				canCloseInput: socket.protocol === "v5.channel.k8s.io",
				end,
			});
		};
		socket.onmessage = (m) => {
			const bytes = new Uint8Array(m.data as ArrayBuffer);
			const rest = bytes.subarray(1);
			if (bytes[0] === STDOUT || bytes[0] === STDERR) {
				if (rest.length)
					output(rest, bytes[0] === STDERR);
			} else if (bytes[0] === STATUS) {
				try {
					status = JSON.parse(new TextDecoder().decode(rest)) as Status;
				} catch {
					// the connection's end says the rest
				}
			} else if (bytes.length) {
				other?.(bytes[0]!, rest);
			}
		};
		socket.onclose = (c) => {
			// A browser does not tell why a WebSocket was refused; whoever asks by HTTP learns it.
			if (!opened)
				fail(new ApiError(0, text.errors.noStream));
			over(status ? ending(status) : { exitCode: undefined, message: c.reason || text.errors.streamLost, lost: true });
		};
	});
}

export function execPath(s: ExecSpec): string {
	const query = new URLSearchParams({ stdout: "true", stderr: s.tty ? "false" : "true", stdin: String(!!s.stdin), tty: String(!!s.tty) });
	if (s.container)
		query.set("container", s.container);
	for (const word of s.command)
		query.append("command", word);
	return `${pathOf(pods, s.ns, s.pod, "exec")}?${query}`;
}

export function exec(s: ExecSpec, output: (data: Uint8Array, stderr: boolean) => void): Promise<Channels> {
	return openChannels(execPath(s), output);
}

/** Runs a command to its end. Output beyond max bytes ends it. */
export async function run(s: ExecSpec, input?: Uint8Array, max = 64 * 1024 * 1024): Promise<{ code: number | undefined; out: Uint8Array; err: string; cut: boolean; message: string }> {
	const out: Uint8Array[] = [];
	const err: Uint8Array[] = [];
	let size = 0;
	let cut = false;
	let open: Channels | undefined;
	open = await exec({ ...s, stdin: input !== undefined }, (data, stderr) => {
		size += data.length;
		if (size > max) {
			cut = true;
			open?.close();
			return;
		}
		(stderr ? err : out).push(data.slice());
	});
	let over = false; // what waits in a socket that has closed waits for ever
	void open.end.then(() => (over = true));
	if (input) {
		for (let at = 0; at < input.length && !over; at += 65536) {
			open.write(input.subarray(at, at + 65536));
			while (open.waiting > 1024 * 1024 && !over)
				await new Promise((r) => setTimeout(r, 10));
		}
		open.closeInput();
	}
	const end = await open.end;
	const joined = new Uint8Array(out.reduce((n, b) => n + b.length, 0));
	let at = 0;
	for (const b of out) {
		joined.set(b, at);
		at += b.length;
	}
	return { code: end.exitCode, out: joined, err: await new Blob(err as BlobPart[]).text(), cut, message: end.message };
}
