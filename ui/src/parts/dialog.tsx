// SPDX-License-Identifier: Apache-2.0
// Dialogs over the page, and questions before something that cannot be taken back.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { text } from "../text.ts";
import { Button } from "./common.tsx";

/** Shown while it is rendered. Esc and the button close it; the browser keeps the focus inside. */
export function Dialog(p: { title: string; onClose: () => void; children: ComponentChildren; class?: string }) {
	const at = useRef<HTMLDialogElement>(null);
	const id = useId();
	useEffect(() => {
		const d = at.current!;
		const back = document.activeElement as HTMLElement | null;
		d.showModal();
		return () => {
			d.close();
			back?.focus?.();
		};
	}, []);
	return (
		<dialog
			ref={at}
			class={p.class}
			aria-labelledby={id}
			onCancel={(e) => {
				e.preventDefault();
				p.onClose();
			}}
			onMouseDown={(e) => e.target === at.current && p.onClose()}
		>
			<div class="dialog-body">
				<div class="dialog-head">
					<h2 id={id}>{p.title}</h2>
					<Button kind="plain" label={text.dialog.close} onClick={p.onClose}>
						✕
					</Button>
				</div>
				{p.children}
			</div>
		</dialog>
	);
}

interface Question {
	id: number;
	title: string;
	body: ComponentChildren;
	yes: string;
	danger: boolean;
	done: (answer: boolean) => void;
}

let last = 0;
const question = signal<Question | undefined>(undefined);

/** Asks, and says whether the answer was yes. A question that nobody has answered yet gives way, and counts as answered with no. */
export function confirm(q: { title: string; body: ComponentChildren; yes: string; danger?: boolean }): Promise<boolean> {
	question.value?.done(false);
	return new Promise((done) => (question.value = { danger: false, ...q, id: ++last, done }));
}

/** Once in the page. */
export function Questions() {
	const q = question.value;
	if (!q)
		return null;
	const answer = (yes: boolean) => {
		if (question.value === q)
			question.value = undefined;
		q.done(yes);
	};
	return (
		<Dialog key={q.id} title={q.title} onClose={() => answer(false)}>
			<div class="prose">{q.body}</div>
			<div class="actions end">
				<Button onClick={() => answer(false)}>{text.dialog.cancel}</Button>
				<Button kind={q.danger ? "danger" : "main"} onClick={() => answer(true)}>
					{q.yes}
				</Button>
			</div>
		</Dialog>
	);
}
