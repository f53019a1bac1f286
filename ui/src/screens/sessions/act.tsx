// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Kind } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import type { KObject } from "../../api/types.ts";
import { Button } from "../../parts/common.tsx";
import { age, moment } from "../../state/clock.ts";
import { text } from "../../text.ts";

/** A button for something that takes a right. Without it, it says which. */
export function Act(p: {
	verb: string;
	of: Kind<KObject>;
	ns: string;
	children: ComponentChildren;
	onClick: () => Promise<unknown> | void;
	kind?: "main" | "danger" | "plain";
	label?: string;
	/** Another reason why it cannot be done. */
	barred?: string;
}) {
	const [busy, setBusy] = useState(false);
	const allowed = may(p.verb, p.of, p.ns);
	const why = allowed === false ? text.sessions.needs(p.verb, p.of.plural, p.ns) : p.barred;
	const run = async () => {
		setBusy(true);
		try {
			await p.onClick();
		} finally {
			setBusy(false);
		}
	};
	return (
		<Button disabled={!allowed || !!p.barred || busy} onClick={() => void run()} {...(p.kind ? { kind: p.kind } : {})} {...(why ? { title: why } : {})} {...(p.label ? { label: p.label } : {})}>
			{p.children}
		</Button>
	);
}

/** "3h 12m ago", with the moment itself on a closer look. */
export function Ago(p: { of: string | undefined }) {
	return (
		<time dateTime={p.of} title={moment(p.of)}>
			{p.of ? text.approvals.ago(age(p.of)) : text.none}
		</time>
	);
}
