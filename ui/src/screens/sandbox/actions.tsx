// SPDX-License-Identifier: Apache-2.0
// What can be done with a sandbox: suspend, resume, delete. For the list, the page and the palette.
import { useLayoutEffect, useRef } from "preact/hooks";
import { patch, remove } from "../../api/objects.ts";
import { claims, sandboxes } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import { confirm } from "../../parts/dialog.tsx";
import { go, href } from "../../state/location.ts";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";
import type { Row } from "./rows.ts";
import { isSpare, poolOf, stateOf, wantsToRun } from "./state.ts";

const t = text.sandboxes;

export interface Action {
	id: string;
	title: string;
	danger?: boolean;
	/** Why it cannot be done now; undefined: it can. */
	unless: string | undefined;
	run: () => void;
}

export function suspend(r: Row): Promise<boolean> {
	// The mark of idleness would let the next request wake it.
	const body = { metadata: { annotations: { "cay.dev/asleep-since": null } }, spec: { operatingMode: "Suspended" } };
	return attempt(() => patch(sandboxes, r.ns, r.sandbox!.metadata.name, body), t.suspended(r.name));
}

export function resume(r: Row): Promise<boolean> {
	return attempt(() => patch(sandboxes, r.ns, r.sandbox!.metadata.name, { spec: { operatingMode: "Running" } }), t.resumed(r.name));
}

/** Asks, and deletes it with the claim that it belongs to. True: it was done. */
export async function removeAfterAsking(r: Row): Promise<boolean> {
	const volumes = (r.sandbox?.spec?.volumeClaimTemplates ?? []).map((v) => v.metadata?.name ?? "").filter(Boolean);
	const users = r.attached.map((a) => a.spec?.session ?? "").filter(Boolean);
	const body = (
		<>
			{r.sandbox ? <p>{t.ask.processes}</p> : <p>{t.ask.noSandbox}</p>}
			{volumes.length > 0 && <p>{t.ask.volumes(volumes)}</p>}
			{r.claimName && r.sandbox && <p>{t.ask.claim(r.claimName)}</p>}
			{users.length > 0 && <p>{users.length === 1 ? t.ask.session(users[0]!) : t.ask.sessions(users)}</p>}
			{r.sandbox && isSpare(r.sandbox) && <p>{t.ask.pool(poolOf(r.sandbox))}</p>}
			<p>{t.ask.final}</p>
		</>
	);
	if (!(await confirm({ title: t.ask.title(r.name), body, yes: t.ask.yes, danger: true })))
		return false;
	const claim = r.claim?.metadata.uid ?? r.sandbox?.metadata.ownerReferences?.find((o) => o.kind === claims.kind)?.uid;
	return attempt(() => (r.claimName ? remove(claims, r.ns, r.claimName, claim) : remove(sandboxes, r.ns, r.name, r.sandbox?.metadata.uid)), t.removed(r.name));
}

/** Suspend or resume, and delete, with what keeps them from being done. */
export function actionsOf(r: Row, after?: () => void): Action[] {
	const mayPatch = may("patch", sandboxes, r.ns) !== false;
	const kind = r.claimName ? claims : sandboxes;
	const mayDelete = may("delete", kind, r.ns) !== false;
	const state = r.sandbox ? stateOf(r.sandbox) : "waiting";
	const busy = !r.sandbox || r.sandbox.metadata.deletionTimestamp || state === "expired" ? t.notNow : undefined;
	const noPatch = mayPatch ? undefined : t.noRight("patch", sandboxes.plural);
	const power: Action = r.sandbox && !wantsToRun(r.sandbox)
		? { id: "resume", title: t.resume, unless: noPatch ?? busy, run: () => void resume(r) }
		: { id: "suspend", title: t.suspend, unless: noPatch ?? busy, run: () => void suspend(r) };
	return [
		power,
		{
			id: "delete",
			title: t.remove,
			danger: true,
			unless: mayDelete ? (r.sandbox?.metadata.deletionTimestamp ? t.notNow : undefined) : t.noRight("delete", kind.plural),
			run: () => void removeAfterAsking(r).then((done) => done && after?.()),
		},
	];
}

/** The menu of one row, over the list. */
export function RowMenu(p: { row: Row; at: DOMRect; onClose: () => void }) {
	const box = useRef<HTMLDivElement>(null);
	const open = (tab: string) => () => go(href(["sandboxes", p.row.ns, p.row.link], { tab }));
	const items: Action[] = [
		{ id: "open", title: t.open, unless: undefined, run: open("") },
		{ id: "terminal", title: t.terminal, unless: undefined, run: open("terminal") },
		{ id: "logs", title: t.logs, unless: undefined, run: open("logs") },
		...actionsOf(p.row),
	];
	useLayoutEffect(() => {
		const b = box.current!;
		const back = document.activeElement as HTMLElement | null;
		b.showPopover();
		const below = p.at.bottom + 4 + b.offsetHeight < innerHeight;
		b.style.top = `${below ? p.at.bottom + 4 : Math.max(4, p.at.top - 4 - b.offsetHeight)}px`;
		b.style.left = `${Math.max(4, p.at.right - b.offsetWidth)}px`;
		b.querySelector<HTMLElement>("[role=menuitem]")?.focus();
		const toggled = (e: Event) => (e as ToggleEvent).newState === "closed" && p.onClose();
		b.addEventListener("toggle", toggled);
		return () => {
			b.removeEventListener("toggle", toggled);
			if (b.contains(document.activeElement) || document.activeElement === document.body)
				back?.focus?.();
		};
	}, []);
	const onKey = (e: KeyboardEvent) => {
		const all = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
		const at = all.indexOf(document.activeElement as HTMLElement);
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key];
		if (to !== undefined)
			all[(to + all.length) % all.length]?.focus();
		else if (e.key === "Escape" || e.key === "Tab")
			p.onClose();
		else
			return;
		e.preventDefault();
		e.stopPropagation();
	};
	return (
		<div ref={box} popover="auto" class="row-menu" role="menu" aria-label={t.actionsOf(p.row.name)} onKeyDown={onKey}>
			{items.map((a) => (
				<button
					type="button"
					role="menuitem"
					key={a.id}
					tabIndex={-1}
					class={a.danger ? "danger" : ""}
					aria-disabled={a.unless !== undefined}
					title={a.unless}
					onClick={() => {
						if (a.unless !== undefined)
							return;
						p.onClose();
						a.run();
					}}
				>
					{a.title}
				</button>
			))}
		</div>
	);
}
