// SPDX-License-Identifier: Apache-2.0
// A new sandbox: from a pool, or from a template that has none.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { milliseconds } from "../../api/amounts.ts";
import { useObjects } from "../../api/collection.ts";
import { ApiError } from "../../api/http.ts";
import { claims, pools, sandboxes, templates } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import type { SandboxTemplate, SandboxWarmPool } from "../../api/types.ts";
import { Button, Field } from "../../parts/common.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { go, href } from "../../state/location.ts";
import { complain, say } from "../../state/notices.ts";
import { text } from "../../text.ts";
import { badName, makeUpName, makeFromPool, makeFromTemplate, untilReady } from "./make.ts";

const t = text.sandboxes.create;
const PATIENCE_MS = 1500; // then its page is shown, which says what it waits for

interface Source {
	id: string;
	ns: string;
	name: string;
	pool?: SandboxWarmPool;
	template?: SandboxTemplate;
}

function sourcesOf(p: Iterable<SandboxWarmPool>, all: Iterable<SandboxTemplate>): Source[] {
	const sources: Source[] = [];
	const served = new Set<string>();
	for (const pool of p) {
		const ns = pool.metadata.namespace ?? "";
		served.add(`${ns}/${pool.spec?.sandboxTemplateRef?.name}`);
		if (!pool.metadata.deletionTimestamp)
			sources.push({ id: `pool/${ns}/${pool.metadata.name}`, ns, name: pool.metadata.name, pool });
	}
	for (const template of all) {
		const ns = template.metadata.namespace ?? "";
		if (!served.has(`${ns}/${template.metadata.name}`))
			sources.push({ id: `template/${ns}/${template.metadata.name}`, ns, name: template.metadata.name, template });
	}
	return sources.sort((a, b) => Number(!a.pool) - Number(!b.pool) || a.ns.localeCompare(b.ns) || a.name.localeCompare(b.name));
}

function about(s: Source): string {
	return s.pool
		? `${t.pool(s.pool.spec?.sandboxTemplateRef?.name ?? text.unknown)}, ${t.ready(s.pool.status?.readyReplicas ?? 0, s.pool.spec?.replicas ?? 0)}`
		: t.template;
}

function Nothing() {
	return (
		<div class="stack">
			<p>{t.none}</p>
			<p>
				{t.noneHint} <a class="in-text" href={href(["templates"])}>{t.goTemplates}</a>
			</p>
		</div>
	);
}

/** chosen: "pool/NS/NAME" or "template/NS/NAME", or "". */
export function CreateDialog(p: { ns: string; chosen: string; onClose: () => void }) {
	const allPools = useObjects(pools, p.ns);
	const allTemplates = useObjects(templates, p.ns);
	const sources = useMemo(() => sourcesOf(allPools.objects.values(), allTemplates.objects.values()), [allPools.objects, allTemplates.objects]);
	const [picked, setPicked] = useState(p.chosen);
	const [name, setName] = useState("");
	const [wrong, setWrong] = useState("");
	const [busy, setBusy] = useState(false);
	const source = sources.find((s) => s.id === picked) ?? sources.find((s) => s.pool && picked === `template/${s.ns}/${s.pool.spec?.sandboxTemplateRef?.name}`) ?? sources[0];
	const loading = allPools.state === "loading" || allTemplates.state === "loading";
	const kind = source?.pool ? claims : sandboxes;
	const allowed = !source || may("create", kind, source.ns) !== false;

	const here = useRef(true); // whoever has closed it has gone elsewhere
	useEffect(
		() => () => {
			here.current = false;
		},
		[],
	);
	const form = useRef<HTMLFormElement>(null);
	useEffect(() => form.current?.querySelector<HTMLElement>("input:checked")?.focus(), [sources.length > 0]);

	const submit = async (e: Event) => {
		e.preventDefault();
		const begin = performance.now();
		const fault = name ? badName(name) : "";
		setWrong(fault);
		if (fault || !source || busy)
			return;
		setBusy(true);
		const called = name || makeUpName(source.name);
		const ready = untilReady(kind, source.ns, called);
		try {
			await (source.pool ? makeFromPool(source.ns, called, source.pool) : makeFromTemplate(source.ns, called, source.template!));
		} catch (x) {
			ready.stop();
			setBusy(false);
			const about = x instanceof ApiError ? x.causes.find((c) => c.field?.startsWith("metadata.name")) : undefined;
			if (x instanceof ApiError && x.code === 409 && x.reason === "AlreadyExists")
				setWrong(t.taken(called));
			else if (about?.message)
				setWrong(about.message);
			else
				complain(x);
			return;
		}
		const tell = ready.done.then((sandbox) => {
			say(t.ready_in(called, milliseconds(performance.now() - begin)));
			return sandbox;
		});
		const first = await Promise.race([tell.catch(() => ""), new Promise<undefined>((r) => setTimeout(r, PATIENCE_MS))]);
		if (!first)
			ready.stop();
		if (!here.current)
			return;
		if (!first)
			say(t.notYet(called));
		go(href(["sandboxes", source.ns, first || called]));
	};

	return (
		<Dialog title={t.title} onClose={p.onClose} class="create">
			{!sources.length ? (
				loading ? (
					<p class="quiet" role="status">{t.loading}</p>
				) : allPools.state === "refused" && allTemplates.state === "refused" && allPools.error?.code === 403 ? (
					<p>{t.refused}</p>
				) : (
					<Nothing />
				)
			) : (
				<form ref={form} onSubmit={submit} class="stack">
					<fieldset class="sources">
						<legend>{t.from}</legend>
						{sources.map((s) => (
							<label key={s.id} class="source">
								<input type="radio" name="source" value={s.id} checked={s === source} onChange={() => setPicked(s.id)} />
								<span class="wrap-any">
									<strong>{s.name}</strong> {!p.ns && <span class="quiet">{s.ns}</span>}
									<br />
									<span class="quiet">{about(s)}</span>
								</span>
							</label>
						))}
					</fieldset>
					<Field label={t.name} hint={t.nameHint} {...(wrong ? { error: wrong } : {})}>
						<input
							value={name}
							maxLength={300}
							autocomplete="off"
							spellcheck={false}
							aria-invalid={wrong !== ""}
							onInput={(e) => {
								setName(e.currentTarget.value);
								setWrong(e.currentTarget.value && wrong ? badName(e.currentTarget.value) : "");
							}}
						/>
					</Field>
					<div class="actions end">
						<Button onClick={p.onClose}>{text.dialog.cancel}</Button>
						<Button kind="main" type="submit" disabled={busy || !allowed} {...(allowed ? {} : { title: text.sandboxes.noRight("create", kind.plural) })}>
							{busy ? t.making : t.make}
						</Button>
					</div>
				</form>
			)}
		</Dialog>
	);
}
