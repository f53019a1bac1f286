// SPDX-License-Identifier: Apache-2.0
// What stands above a tab that needs a sandbox which runs.
import { useState } from "preact/hooks";
import { sandboxes } from "../../api/kinds.ts";
import { patch } from "../../api/objects.ts";
import { may } from "../../api/rights.ts";
import { condition } from "../../api/types.ts";
import { Button } from "../../parts/common.tsx";
import { attempt } from "../../state/notices.ts";
import { text } from "../../text.ts";
import type { Within } from "./within.ts";

export function running(p: Within): boolean {
	return p.sandbox.spec?.operatingMode !== "Suspended" && p.pod?.status?.phase === "Running" && !p.pod.metadata.deletionTimestamp;
}

export function NotRunning(p: Within) {
	const [asked, setAsked] = useState(false);
	const suspended = p.sandbox.spec?.operatingMode === "Suspended";
	const allowed = may("patch", sandboxes, p.ns) !== false;
	const ready = condition(p.sandbox, "Ready");
	const resume = async () => {
		setAsked(true);
		await attempt(() => patch(sandboxes, p.ns, p.name, { spec: { operatingMode: "Running" } }));
		setAsked(false);
	};
	if (suspended)
		return (
			<div class="refused" role="status">
				<strong>{text.terminal.suspended}</strong>
				<p>{text.terminal.suspendedHint}</p>
				<div class="actions">
					<Button kind="main" disabled={!allowed || asked} {...(allowed ? {} : { title: text.list.askFor("patch", "sandboxes", p.ns) })} onClick={() => void resume()}>
						{text.terminal.resume}
					</Button>
				</div>
			</div>
		);
	return (
		<div class="refused" role="status">
			<strong>{p.sandbox.metadata.deletionTimestamp ? text.terminal.deleting : text.terminal.notYet}</strong>
			{ready?.status !== "True" && ready?.message && <p class="wrap">{ready.message}</p>}
		</div>
	);
}
