// SPDX-License-Identifier: Apache-2.0
// How many sandboxes a pool keeps ready.
import { useState } from "preact/hooks";
import { pools } from "../../api/kinds.ts";
import { patch } from "../../api/objects.ts";
import { may } from "../../api/rights.ts";
import type { SandboxWarmPool } from "../../api/types.ts";
import { Button, Field } from "../../parts/common.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { desiredOf } from "./history.ts";

const t = text.overview;
const MOST = 100_000;

function SizeDialog(p: { pool: SandboxWarmPool; sub: string; onClose: () => void }) {
	const { name, namespace = "" } = p.pool.metadata;
	const [said, setSaid] = useState(String(desiredOf(p.pool)));
	const [busy, setBusy] = useState(false);
	const n = /^\d+$/.test(said.trim()) ? Number(said) : NaN;
	const wrong = Number.isNaN(n) || n > MOST ? t.sizeWrong(MOST) : "";
	const save = async (e: Event) => {
		e.preventDefault();
		if (wrong)
			return;
		setBusy(true);
		const done = await attempt(() => patch(pools, namespace, name, { spec: { replicas: n } }, p.sub), t.sizeDone(name, n));
		setBusy(false);
		if (done)
			p.onClose();
	};
	return (
		<Dialog title={t.sizeTitle(name)} onClose={p.onClose}>
			<form onSubmit={save} class="stack">
				<Field label={t.size} hint={n === 0 ? t.sizeZero : t.sizeHint} error={wrong}>
					<input type="number" min={0} max={MOST} autofocus value={said} onInput={(e) => setSaid(e.currentTarget.value)} />
				</Field>
				<div class="actions end">
					<Button onClick={p.onClose}>{text.dialog.cancel}</Button>
					<Button type="submit" kind="main" disabled={busy || !!wrong}>
						{t.sizeSave}
					</Button>
				</div>
			</form>
		</Dialog>
	);
}

export function SizeButton(p: { pool: SandboxWarmPool }) {
	const [open, setOpen] = useState(false);
	const { name, namespace = "" } = p.pool.metadata;
	const scale = may("patch", pools, namespace, "scale");
	const whole = may("patch", pools, namespace);
	const allowed = scale || whole;
	return (
		<>
			<Button disabled={!allowed} {...(allowed === false ? { title: t.sizeRight(namespace) } : {})} label={t.sizeOf(name)} onClick={() => setOpen(true)}>
				{t.sizeButton}
			</Button>
			{open && <SizeDialog pool={p.pool} sub={scale ? "scale" : ""} onClose={() => setOpen(false)} />}
		</>
	);
}
