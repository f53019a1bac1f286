// SPDX-License-Identifier: Apache-2.0
// Small parts that every screen uses.
import type { ComponentChildren, VNode } from "preact";
import { cloneElement, Component } from "preact";
import { useId } from "preact/hooks";
import { sentence } from "../api/http.ts";
import type { Snapshot } from "../api/collection.ts";
import type { Kind } from "../api/kinds.ts";
import type { KObject } from "../api/types.ts";
import { age, moment } from "../state/clock.ts";
import { text } from "../text.ts";

export type Tone = "good" | "bad" | "busy" | "idle" | "warn";

export function Badge(p: { tone: Tone; children: ComponentChildren }) {
	return <span class={`badge ${p.tone}`}>{p.children}</span>;
}

/** How long ago, with the moment itself on a closer look. */
export function Age(p: { of: string | undefined }) {
	return (
		<time dateTime={p.of} title={moment(p.of)}>
			{age(p.of) || text.none}
		</time>
	);
}

export function Button(p: {
	children: ComponentChildren;
	onClick?: () => void;
	kind?: "main" | "danger" | "plain";
	disabled?: boolean;
	title?: string;
	type?: "button" | "submit";
	label?: string;
}) {
	return (
		<button type={p.type ?? "button"} class={`button ${p.kind ?? ""}`} disabled={p.disabled} title={p.title} aria-label={p.label} onClick={p.onClick}>
			{p.children}
		</button>
	);
}

/** A field of a form with its label, what it means, and what is wrong with it. */
export function Field(p: { label: string; hint?: string; error?: string; children: VNode<Record<string, unknown>> }) {
	const id = useId();
	const about = [p.hint && `${id}-hint`, p.error && `${id}-error`].filter(Boolean).join(" ");
	return (
		<div class="field">
			<label class="label" for={id}>
				{p.label}
			</label>
			{cloneElement(p.children, { id, "aria-describedby": about || undefined, "aria-invalid": p.error ? true : undefined })}
			{p.hint && (
				<span class="hint" id={`${id}-hint`}>
					{p.hint}
				</span>
			)}
			{p.error && (
				<span class="wrong" role="alert" id={`${id}-error`}>
					{p.error}
				</span>
			)}
		</div>
	);
}

export function Screen(p: { title: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
	return (
		<>
			<header class="screen-head">
				<h1>{p.title}</h1>
				<div class="actions">{p.actions}</div>
			</header>
			{p.children}
		</>
	);
}

export function Panel(p: { title?: string; children: ComponentChildren; class?: string; actions?: ComponentChildren }) {
	return (
		<section class={`panel ${p.class ?? ""}`}>
			{p.title && (
				<div class="panel-head">
					<h2>{p.title}</h2>
					{p.actions}
				</div>
			)}
			{p.children}
		</section>
	);
}

/** Names and values. */
export function Facts(p: { of: [string, ComponentChildren][] }) {
	return (
		<dl class="facts">
			{p.of
				.filter(([, v]) => v !== undefined && v !== null && v !== false && v !== "")
				.map(([k, v]) => (
					<div key={k}>
						<dt>{k}</dt>
						<dd>{v}</dd>
					</div>
				))}
		</dl>
	);
}

/** What stands in the place of a collection that cannot be shown; null if it can. */
export function Missing(p: { snapshot: Snapshot<KObject>; kind: Kind<KObject>; ns: string }) {
	const { state, error, objects } = p.snapshot;
	if (state === "loading")
		return <p class="quiet" role="status">{text.loading}</p>;
	if (state === "refused")
		return (
			<div class="refused" role="status">
				<p>
					<strong>{error?.code === 404 ? text.list.absent : text.list.refused}</strong>
				</p>
				<p>{error?.code === 404 ? text.list.absentHint : text.list.askFor("list", p.kind.plural, p.ns)}</p>
			</div>
		);
	if (state === "lost" && !objects.size)
		return (
			<div class="refused" role="status">
				<p>
					<strong>{error?.message ?? text.errors.unreachable}</strong>
				</p>
				<p>{error?.advice}</p>
			</div>
		);
	return null;
}

/** A fault in one part of the page leaves the others alone. */
export class Fence extends Component<{ children: ComponentChildren; for: string }, { error?: unknown }> {
	override state: { error?: unknown } = {};

	static override getDerivedStateFromError(error: unknown) {
		return { error };
	}

	override componentDidUpdate(before: { for: string }) {
		if (before.for !== this.props.for && this.state.error !== undefined)
			this.setState({ error: undefined });
	}

	override render() {
		if (this.state.error === undefined)
			return this.props.children;
		return (
			<div class="refused" role="alert">
				<p>
					<strong>{text.errors.crashed}</strong>
				</p>
				<pre>{sentence(this.state.error)}</pre>
			</div>
		);
	}
}
