// SPDX-License-Identifier: Apache-2.0
import { dismiss, notices } from "../state/notices.ts";
import { text } from "../text.ts";

export function Notices() {
	return (
		<div class="notices" role="region" aria-label={text.errors.notices}>
			{notices.value.map((n) => (
				<div key={n.id} class={`notice ${n.bad ? "bad" : ""}`} role={n.bad ? "alert" : "status"}>
					<div>
						{n.text.split("\n").map((line, i) => (
							<p key={i}>{line}</p>
						))}
						{n.advice && <p class="quiet">{n.advice}</p>}
					</div>
					<button type="button" class="button plain" aria-label={text.errors.dismiss} onClick={() => dismiss(n.id)}>
						✕
					</button>
				</div>
			))}
		</div>
	);
}
