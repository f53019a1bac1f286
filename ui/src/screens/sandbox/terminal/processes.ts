// SPDX-License-Identifier: Apache-2.0
// Processes of the runtime API, which outlive connections. It answers from inside the sandbox: whatever listens there may
// answer anything, so nothing of it is believed before it was looked at.
import { ApiError, ask } from "../../../api/http.ts";
import { pathOf, pods } from "../../../api/kinds.ts";
import type { Pod } from "../../../api/types.ts";
import { text } from "../../../text.ts";
import { SHELL } from "./shell.ts";

const PORT = 8888;
const MAX_ANSWER = 1024 * 1024;
const MAX_LISTED = 64;

export interface Process {
	id: number;
	running: boolean;
	started: string;
	from: number; // output is kept from here
	to: number; // up to here
	exitCode: number | undefined;
	what: string;
}

/** The container that the runtime API serves, if there is one. */
export function runtimeContainer(pod: Pod): string | undefined {
	const all = pod.spec?.containers ?? [];
	const said = pod.metadata.annotations?.["cay.dev/runtime"];
	const declares = all.find((c) => c.ports?.some((p) => p.containerPort === PORT))?.name;
	if (said !== undefined)
		return said.split(",").some((w) => w.trim() === "python") ? (declares ?? (all.length === 1 ? all[0]!.name : undefined)) : undefined;
	return declares;
}

function at(ns: string, pod: string, rest: string): string {
	return `${pathOf(pods, ns, `${pod}:${PORT}`, "proxy").replace("%3A", ":")}/v1/processes${rest}`;
}

/** The start of an answer, read no further than any answer of the real API reaches. */
async function read(answer: Response): Promise<unknown> {
	const reader = answer.body!.getReader();
	const parts: Uint8Array[] = [];
	let size = 0;
	for (;;) {
		const { value, done } = await reader.read();
		if (done)
			break;
		size += value.length;
		if (size > MAX_ANSWER) {
			void reader.cancel();
			throw new ApiError(502, text.terminal.notTheRuntime);
		}
		parts.push(value);
	}
	try {
		return JSON.parse(await new Blob(parts as BlobPart[]).text());
	} catch {
		throw new ApiError(502, text.terminal.notTheRuntime);
	}
}

function process(o: unknown): Process {
	const p = (o ?? {}) as Record<string, unknown>;
	if (!Number.isSafeInteger(p["id"]) || typeof p["state"] !== "string")
		throw new ApiError(502, text.terminal.notTheRuntime);
	const number = (name: string) => (Number.isSafeInteger(p[name]) ? Math.max(0, p[name] as number) : 0);
	const words = Array.isArray(p["argv"]) ? p["argv"].map(String).join(" ") : String(p["command"] ?? "");
	return {
		id: p["id"] as number,
		running: p["state"] === "running",
		started: typeof p["started_at"] === "string" ? p["started_at"].slice(0, 40) : "",
		from: number("output_from"),
		to: number("output_bytes"),
		exitCode: Number.isSafeInteger(p["exit_code"]) ? (p["exit_code"] as number) : undefined,
		what: words === SHELL.join(" ") ? "" : words.slice(0, 60),
	};
}

/** Terminals that are running. */
export async function listTerminals(ns: string, pod: string, signal?: AbortSignal): Promise<Process[]> {
	const body = (await read(await ask(at(ns, pod, ""), { foreign: true, ...(signal ? { signal } : {}) }))) as { processes?: unknown };
	if (!Array.isArray(body?.processes))
		throw new ApiError(502, text.terminal.notTheRuntime);
	return (body.processes as { pty?: unknown }[])
		.filter((p) => p?.pty === true)
		.slice(0, MAX_LISTED)
		.map(process)
		.filter((p) => p.running);
}

export async function startTerminal(ns: string, pod: string, size: { cols: number; rows: number }): Promise<Process> {
	const body = { argv: SHELL, pty: size, background: true, env: { TERM: "xterm-256color", COLORTERM: "truecolor" } };
	return process(await read(await ask(at(ns, pod, ""), { method: "POST", body, foreign: true })));
}

export async function getTerminal(ns: string, pod: string, id: number): Promise<Process> {
	return process(await read(await ask(at(ns, pod, `/${id}`), { foreign: true })));
}

export async function endTerminal(ns: string, pod: string, id: number): Promise<void> {
	await ask(at(ns, pod, `/${id}`), { method: "DELETE", foreign: true });
}

export function attachPath(ns: string, pod: string, id: number, from: number): string {
	return at(ns, pod, `/${id}/attach?from=${from}`);
}

/** Where output was lost, of a message on channel 5. */
export function droppedTo(data: Uint8Array): number | undefined {
	try {
		const to = (JSON.parse(new TextDecoder().decode(data)) as { dropped?: { to?: unknown } }).dropped?.to;
		return Number.isSafeInteger(to) ? (to as number) : undefined;
	} catch {
		return undefined;
	}
}

export const DROPPED = 5;
