// SPDX-License-Identifier: Apache-2.0
// What a sandbox of a template is made of.
import type { ComponentChildren } from "preact";
import { Facts, Panel } from "../../parts/common.tsx";
import { text } from "../../text.ts";
import type { FullContainer, FullTemplate, Volume } from "./facts.ts";
import { yaml } from "./yaml.ts";

const t = text.templates;

function Code(p: { of: string[] | undefined }) {
	return p.of?.length ? <code class="wrap">{p.of.map((w) => (/^[\w/.:=@%+,-]+$/.test(w) ? w : JSON.stringify(w))).join(" ")}</code> : null;
}

function amounts(r: Record<string, string> | undefined): string | undefined {
	return r && Object.keys(r).length ? Object.entries(r).map(([k, v]) => `${k} ${v}`).join(", ") : undefined;
}

function One(p: { of: FullContainer; first: boolean }) {
	const c = p.of;
	const rows: [string, ComponentChildren][] = [
		[t.image, c.image && <code class="wrap">{c.image}</code>],
		[t.command, <Code of={c.command} />],
		[t.args, <Code of={c.args} />],
		[t.workingDir, c.workingDir],
		[t.ports, c.ports?.map((o) => `${o.containerPort}${o.protocol && o.protocol !== "TCP" ? `/${o.protocol}` : ""}${o.name ? ` (${o.name})` : ""}`).join(", ")],
		[t.limits, amounts(c.resources?.limits)],
		[t.requests, amounts(c.resources?.requests)],
		[t.env, c.env?.length ? <ul>{c.env.map((e) => <li key={e.name}><code class="wrap">{e.name}{e.value === undefined ? ` ${t.fromElsewhere}` : `=${e.value}`}</code></li>)}</ul> : undefined],
		[t.mounts, c.volumeMounts?.map((m) => `${m.mountPath} ${t.from(m.name)}${m.readOnly ? ` (${t.readOnly})` : ""}`).join(", ")],
	];
	return (
		<Panel title={p.first ? t.initContainer(c.name) : t.container(c.name)}>
			<Facts of={rows.filter(([k, v]) => v && !(k === t.command && !c.command?.length) && !(k === t.args && !c.args?.length))} />
		</Panel>
	);
}

function volumeKind(v: Volume): string {
	const kind = Object.keys(v).find((k) => k !== "name") ?? "emptyDir";
	return `${v.name}: ${kind}`;
}

export function Contents(p: { of: FullTemplate }) {
	const spec = p.of.spec ?? {};
	const pod = spec.podTemplate?.spec ?? {};
	const managed = spec.networkPolicyManagement !== "Unmanaged";
	return (
		<>
			<div class="grid-2">
				{(pod.initContainers ?? []).map((c) => (
					<One key={c.name} of={c} first />
				))}
				{(pod.containers ?? []).map((c) => (
					<One key={c.name} of={c} first={false} />
				))}
				<Panel title={t.around}>
					<Facts
						of={[
							[t.runtimeClass, pod.runtimeClassName ?? t.nodeDefault],
							[t.volumes, pod.volumes?.map(volumeKind).join(", ")],
							[t.claims, spec.volumeClaimTemplates?.map((v) => `${v.metadata?.name ?? ""}: ${v.spec?.resources?.requests?.["storage"] ?? text.unknown}${v.spec?.accessModes?.length ? `, ${v.spec.accessModes.join(", ")}` : ""}`).join("; ")],
							[t.envPolicy, t.policies[(spec.envVarsInjectionPolicy ?? "Disallowed") as keyof typeof t.policies] ?? spec.envVarsInjectionPolicy],
							[t.claimsPolicy, t.policies[(spec.volumeClaimTemplatesPolicy ?? "Disallowed") as keyof typeof t.policies] ?? spec.volumeClaimTemplatesPolicy],
						]}
					/>
				</Panel>
				<Panel title={t.network}>
					<p>{!managed ? t.networkUnmanaged : spec.networkPolicy ? t.networkGiven(spec.networkPolicy.ingress?.length, spec.networkPolicy.egress?.length) : t.networkDefault}</p>
					{managed && spec.networkPolicy && <pre class="object">{yaml(spec.networkPolicy)}</pre>}
				</Panel>
			</div>
		</>
	);
}

/** The whole object, without what only servers read. */
export function AsText(p: { of: FullTemplate }) {
	const { managedFields: _owners, ...metadata } = p.of.metadata as FullTemplate["metadata"] & { managedFields?: unknown };
	const { annotations, ...rest } = metadata;
	const { "kubectl.kubernetes.io/last-applied-configuration": _applied, ...notes } = annotations ?? {};
	return (
		<pre class="object" tabIndex={0} aria-label={t.tabObject}>
			{yaml({ ...p.of, metadata: { ...rest, ...(Object.keys(notes).length ? { annotations: notes } : {}) } })}
		</pre>
	);
}
