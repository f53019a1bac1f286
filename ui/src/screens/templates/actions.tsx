// SPDX-License-Identifier: Apache-2.0
// Making pools of a template, and deleting both.
import { useState } from "preact/hooks";
import { pools, templates } from "../../api/kinds.ts";
import { create, remove } from "../../api/objects.ts";
import { may } from "../../api/rights.ts";
import type { SandboxTemplate, SandboxWarmPool } from "../../api/types.ts";
import { Button, Field } from "../../parts/common.tsx";
import { confirm, Dialog } from "../../parts/dialog.tsx";
import { go, href } from "../../state/location.ts";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";

const t = text.templates;
const NAME = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const MOST = 100_000;

function PoolDialog(p: { template: SandboxTemplate; taken: Set<string>; onClose: () => void }) {
	const { name: template, namespace = "" } = p.template.metadata;
	const [name, setName] = useState(() => (p.taken.has(template) ? "" : template));
	const [size, setSize] = useState("3");
	const [busy, setBusy] = useState(false);
	const wrongName = !name ? t.nameNeeded : name.length > 200 || !NAME.test(name) ? t.nameForm : p.taken.has(name) ? t.nameTaken : "";
	const wrongSize = /^\d+$/.test(size.trim()) && Number(size) <= MOST ? "" : text.overview.sizeWrong(MOST);
	const save = async (e: Event) => {
		e.preventDefault();
		if (wrongName || wrongSize)
			return;
		setBusy(true);
		const done = await attempt(() => create(pools, namespace, { metadata: { name }, spec: { replicas: Number(size), sandboxTemplateRef: { name: template } } }), t.poolMade(name));
		setBusy(false);
		if (done)
			p.onClose();
	};
	return (
		<Dialog title={t.newPoolOf(template)} onClose={p.onClose}>
			<form onSubmit={save}>
				<Field label={t.poolName} error={wrongName}>
					<input autofocus spellcheck={false} autocomplete="off" value={name} onInput={(e) => setName(e.currentTarget.value.trim())} />
				</Field>
				<Field label={text.overview.size} hint={text.overview.sizeHint} error={wrongSize}>
					<input type="number" min={0} max={MOST} value={size} onInput={(e) => setSize(e.currentTarget.value)} />
				</Field>
				<div class="actions end">
					<Button onClick={p.onClose}>{text.dialog.cancel}</Button>
					<Button type="submit" kind="main" disabled={busy || !!wrongName || !!wrongSize}>
						{t.makePool}
					</Button>
				</div>
			</form>
		</Dialog>
	);
}

export function PoolButton(p: { template: SandboxTemplate; taken: Set<string> }) {
	const [open, setOpen] = useState(false);
	const ns = p.template.metadata.namespace ?? "";
	const allowed = may("create", pools, ns);
	return (
		<>
			<Button disabled={!allowed} {...(allowed === false ? { title: t.right("create", "sandboxwarmpools", ns) } : {})} onClick={() => setOpen(true)}>
				{t.newPool}
			</Button>
			{open && <PoolDialog template={p.template} taken={p.taken} onClose={() => setOpen(false)} />}
		</>
	);
}

export function DeletePool(p: { pool: SandboxWarmPool }) {
	const { name, namespace = "" } = p.pool.metadata;
	const allowed = may("delete", pools, namespace);
	const ask = async () => {
		if (await confirm({ title: t.deletePoolTitle(name), body: <p>{t.deletePoolBody(p.pool.status?.replicas ?? 0)}</p>, yes: t.deletePool, danger: true }))
			await attempt(() => remove(pools, namespace, name, p.pool.metadata.uid), t.poolGone(name));
	};
	return (
		<Button kind="danger" disabled={!allowed} {...(allowed === false ? { title: t.right("delete", "sandboxwarmpools", namespace) } : {})} label={t.deletePoolOf(name)} onClick={ask}>
			{t.delete}
		</Button>
	);
}

export function DeleteTemplate(p: { template: SandboxTemplate; pools: SandboxWarmPool[]; sandboxes: number }) {
	const { name, namespace = "" } = p.template.metadata;
	const allowed = may("delete", templates, namespace);
	const ask = async () => {
		const body = (
			<>
				<p>{t.deleteBody}</p>
				{p.pools.length > 0 && <p>{t.deletePools(p.pools.map((o) => o.metadata.name).slice(0, 10).join(", "), p.pools.length)}</p>}
				{p.sandboxes > 0 && <p>{t.deleteSandboxes(p.sandboxes)}</p>}
			</>
		);
		const { uid } = p.template.metadata; // of the one that was asked about
		if (!(await confirm({ title: t.deleteTitle(name), body, yes: t.delete, danger: true })))
			return;
		if (await attempt(() => remove(templates, namespace, name, uid), t.gone(name)))
			go(href(["templates"]));
	};
	return (
		<Button kind="danger" disabled={!allowed} {...(allowed === false ? { title: t.right("delete", "sandboxtemplates", namespace) } : {})} onClick={ask}>
			{t.delete}
		</Button>
	);
}
