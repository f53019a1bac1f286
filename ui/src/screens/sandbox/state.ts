// SPDX-License-Identifier: Apache-2.0
// What state a sandbox is in, why it is not Ready, whose it is and how long it has: read from objects alone.
import { condition, type Attachment, type KEvent, type KObject, type Pod, type Sandbox, type SandboxClaim, type Session } from "../../api/types.ts";
import type { Tone } from "../../parts/common.tsx";
import { text } from "../../text.ts";

export const STATES = ["ready", "starting", "waiting", "failed", "finished", "asleep", "suspended", "stopping", "expired"] as const;
export type State = (typeof STATES)[number];

export const TONES: Record<State, Tone> = {
	ready: "good",
	starting: "busy",
	waiting: "warn",
	failed: "bad",
	finished: "idle",
	asleep: "idle",
	suspended: "idle",
	stopping: "busy",
	expired: "warn",
};

const SUSPENDED_BY = "cay.dev/suspended-by";
const ASLEEP_SINCE = "cay.dev/asleep-since";
const TEMPLATE = "agents.x-k8s.io/sandbox-template-ref";
const POD_NAME = "agents.x-k8s.io/pod-name";
/** The label with the session that it was made for, also when that has ended. */
export const SESSION = "cay.dev/session";
const AGENT = "cay.dev/agent";
const OWNER = "cay.dev/owner";

/** Reasons of containers and Pods that pass by themselves: nothing is wrong yet. */
const PASSING = new Set(["ContainerCreating", "PodInitializing", "Pulling", "ContainersNotReady", "ContainersNotInitialized"]);
/** Reasons that stay until somebody changes something. */
const LASTING = new Set(["CrashLoopBackOff", "InvalidImageName", "ErrImageNeverPull", "InvalidConfiguration", "MultiplePods", "OOMKilled"]);

function note(o: KObject | undefined, key: string): string {
	return o?.metadata.annotations?.[key] ?? "";
}

export function podName(s: Sandbox): string {
	return note(s, POD_NAME) || s.metadata.name;
}

export function claimOf(s: Sandbox): string {
	return s.metadata.ownerReferences?.find((o) => o.kind === "SandboxClaim")?.name ?? "";
}

export function poolOf(s: Sandbox | undefined, claim?: SandboxClaim): string {
	return claim?.spec?.warmPoolRef?.name ?? s?.metadata.ownerReferences?.find((o) => o.kind === "SandboxWarmPool")?.name ?? "";
}

export function templateOf(s: Sandbox | undefined): string {
	return note(s, TEMPLATE);
}

/** In a pool, and nobody's yet. */
export function isSpare(s: Sandbox): boolean {
	return s.metadata.ownerReferences?.some((o) => o.kind === "SandboxWarmPool") ?? false;
}

export function wantsToRun(s: Sandbox): boolean {
	return s.spec?.operatingMode !== "Suspended";
}

/** The budget that suspended it, or "". */
export function budgetOf(s: Sandbox): string {
	return wantsToRun(s) ? "" : note(s, SUSPENDED_BY).replace(/^budget\//, "");
}

/** The reason and what it says, of the first container that is in trouble or of the Pod. */
function troubleOf(pod: Pod | undefined): { reason: string; message: string } | undefined {
	for (const c of [...(pod?.status?.initContainerStatuses ?? []), ...(pod?.status?.containerStatuses ?? [])]) {
		const waiting = c.state?.["waiting"];
		if (waiting?.reason && !PASSING.has(waiting.reason)) {
			const last = c.lastState?.["terminated"];
			const message = last ? text.sandbox.why.endedBefore(last.reason ?? "", last.exitCode) : (waiting.message ?? "");
			return { reason: waiting.reason, message: text.sandbox.why.container(c.name, waiting.reason, message) };
		}
		const ended = c.state?.["terminated"];
		if (ended?.exitCode)
			return { reason: ended.reason ?? "PodFailed", message: text.sandbox.why.ended(c.name, ended.reason ?? "", ended.exitCode) };
	}
	const placed = condition(pod, "PodScheduled");
	if (placed?.status === "False")
		return { reason: placed.reason ?? "FailedScheduling", message: placed.message ?? placed.reason ?? "" };
	return undefined;
}

/** "Pod exists with phase: Pending; container main: ErrImagePull: …" has the reason after its first part. */
function tail(message: string): string {
	const at = message.indexOf("; ");
	return at < 0 ? "" : message.slice(at + 2).replace(/^Service (Exists|does not exist)(; )?/, "");
}

function reasonIn(message: string): string {
	return /^(?:Pod failed|container [^:]+): ([A-Z][A-Za-z]+)\b/.exec(message)?.[1] ?? (message.includes("probe failed") ? "Unhealthy" : "");
}

export function stateOf(s: Sandbox): State {
	const ready = condition(s, "Ready");
	if (s.metadata.deletionTimestamp)
		return "stopping";
	if (ready?.reason === "SandboxExpired")
		return "expired";
	if (!wantsToRun(s)) {
		if (condition(s, "Suspended")?.status !== "True")
			return "stopping";
		return note(s, ASLEEP_SINCE) && !budgetOf(s) ? "asleep" : "suspended";
	}
	const finished = condition(s, "Finished");
	if (finished?.status === "True")
		return finished.reason === "PodFailed" ? "failed" : "finished";
	if (ready?.status === "True") {
		const asleep = condition(s, "Asleep");
		return asleep?.status === "True" && asleep.reason === "Frozen" ? "asleep" : "ready";
	}
	const why = tail(ready?.message ?? "");
	const reason = reasonIn(why);
	if (LASTING.has(ready?.reason ?? "") || LASTING.has(reason))
		return "failed";
	const inTrouble = (reason && !PASSING.has(reason)) || ready?.reason === "ReconcilerError" || condition(s, "PodScheduled")?.status === "False";
	return inTrouble ? "waiting" : "starting";
}

export interface Why {
	/** One sentence; "" if there is nothing to say. */
	sentence: string;
	/** What can be done about it, or "". */
	fix: string;
}

function because(sentence: string, reason = ""): Why {
	return { sentence, fix: text.sandbox.fixes[reason] ?? "" };
}

/** Why somebody's hand suspended it: the session that it was made for has ended, or nobody knows. */
function whySuspended(s: Sandbox, sessions: Session[]): Why {
	const own = sessions.find((x) => x.metadata.name === s.metadata.labels?.[SESSION]);
	return own?.status?.phase === "Ended" ? because(text.sandbox.why.sessionEnded, "SessionEnded") : because(text.sandbox.why.suspended, "SandboxSuspended");
}

/** Why it is not Ready. pod, warning (its last event of that type) and sessions are used where the Sandbox itself does not say. */
export function why(s: Sandbox, pod?: Pod, warning?: KEvent, sessions: Session[] = []): Why {
	const w = text.sandbox.why;
	const ready = condition(s, "Ready");
	const state = stateOf(s);
	if (state === "ready")
		return because("");
	if (s.metadata.deletionTimestamp)
		return because(w.deleted);
	if (state === "expired")
		return because(w.expired, "SandboxExpired");
	if (!wantsToRun(s)) {
		const budget = budgetOf(s);
		if (budget)
			return because(w.budget(budget), "Budget");
		if (condition(s, "Suspended")?.reason === "PodNotOwned")
			return because(condition(s, "Suspended")!.message ?? "");
		return state === "stopping" ? because(w.suspending) : state === "asleep" ? because(w.asleep, "Asleep") : whySuspended(s, sessions);
	}
	if (state === "asleep")
		return because(w.frozen, "Asleep");
	const trouble = troubleOf(pod);
	if (state === "finished")
		return because(w.finished, "PodSucceeded");
	if (state === "failed" && condition(s, "Finished")) {
		const said = (condition(s, "Finished")!.message ?? "").replace(/^Pod failed(: )?/, "");
		return because(said || trouble?.message || w.failed, reasonIn(condition(s, "Finished")!.message ?? "") || trouble?.reason || "PodFailed");
	}
	const said = tail(ready?.message ?? "");
	if (said)
		return because(said, reasonIn(said));
	if (trouble)
		return because(trouble.message, trouble.reason);
	if (ready && ["MultiplePods", "InvalidConfiguration", "ReconcilerError"].includes(ready.reason ?? ""))
		return because(ready.message ?? "", ready.reason);
	const placed = condition(s, "PodScheduled");
	if (placed?.status === "False")
		return because(placed.message || w.unplaced, "FailedScheduling");
	if (warning?.message)
		return because(w.event(warning.reason ?? "", warning.message), warning.reason);
	return because(ready?.message?.startsWith("Pod is Running") ? w.notReady : w.starting);
}

/** Why a claim has no sandbox. */
export function whyClaim(c: SandboxClaim): Why {
	const ready = condition(c, "Ready");
	return because(ready?.message || text.sandbox.why.claim, ready?.reason);
}

export interface Clock {
	at: string;
	/** What happens then. */
	then: "deleted" | "expires";
}

/** What ends it first, if anything does. */
export function clockOf(s: Sandbox | undefined, claim?: SandboxClaim, sessions: Session[] = []): Clock | undefined {
	const all: Clock[] = [];
	const add = (at: string | undefined, then: Clock["then"]) => at && !Number.isNaN(Date.parse(at)) && all.push({ at, then });
	const then = (policy: string | undefined) => (policy?.startsWith("Delete") ? "deleted" : "expires");
	if (!s || stateOf(s) !== "expired") {
		add(s?.spec?.shutdownTime, then(claim ? claim.spec?.lifecycle?.shutdownPolicy : s?.spec?.shutdownPolicy));
		add(claim?.spec?.lifecycle?.shutdownTime, then(claim?.spec?.lifecycle?.shutdownPolicy));
	}
	for (const one of sessions)
		add(one.status?.deleteAt, "deleted");
	return all.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))[0];
}

export interface Owner {
	kind: "session" | "agent" | "user";
	name: string;
	/** Whose session it is. */
	of?: string;
}

export function ownerOf(s: Sandbox | undefined, claim: SandboxClaim | undefined, sessions: Session[]): Owner | undefined {
	const label = (key: string) => s?.metadata.labels?.[key] ?? claim?.metadata.labels?.[key] ?? "";
	const session = label(SESSION);
	const found = sessions.find((x) => x.metadata.name === session);
	const agent = label(AGENT) || found?.spec?.agent;
	if (agent)
		return { kind: "agent", name: agent, ...(found?.spec?.user ? { of: found.spec.user } : {}) };
	if (session)
		return { kind: "session", name: session };
	const user = note(claim, OWNER) || note(s, OWNER);
	return user ? { kind: "user", name: user } : undefined;
}

/** Processor seconds that sessions have used in it; NaN if nobody counts. */
export function cpuSecondsOf(attached: Attachment[], made: Session[], sandbox: string): number {
	const own = made.filter((x) => x.status?.sandbox === sandbox && x.status.claim).map((x) => x.status?.cost?.cpuSeconds);
	const others = attached.filter((a) => !made.some((x) => x.metadata.name === a.spec?.session && x.status?.sandbox === sandbox && x.status.claim)).map((a) => a.status?.cost?.cpuSeconds);
	const counted = [...own, ...others].map(Number).filter((n) => !Number.isNaN(n));
	return counted.length ? counted.reduce((a, b) => a + b, 0) : NaN;
}
