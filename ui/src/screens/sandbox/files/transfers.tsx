// SPDX-License-Identifier: Apache-2.0
import { bytes } from "../../../api/amounts.ts";
import { Button } from "../../../parts/common.tsx";
import { text } from "../../../text.ts";
import { visible } from "./names.ts";
import { drop, dropDone, replace, stopAll, transfers } from "./transfer.ts";

const SHOWN = 50;

export function Transfers() {
	const all = transfers.value;
	if (!all.length)
		return null;
	const busy = all.some((t) => t.state === "running" || t.state === "waiting");
	// What runs or needs an answer is at the top.
	const rank = { running: 0, failed: 1, waiting: 2, stopped: 3, done: 4 };
	const shown = [...all].sort((a, b) => rank[a.state] - rank[b.state] || b.id - a.id).slice(0, SHOWN);
	return (
		<section class="panel files-transfers" aria-label={text.files.transfers}>
			<div class="panel-head">
				<h2>
					{text.files.transfers} <span class="quiet">{text.list.rows(shown.length, all.length)}</span>
				</h2>
				<div class="actions">
					{busy && <Button onClick={stopAll}>{text.files.stopAll}</Button>}
					<Button onClick={dropDone}>{text.files.clear}</Button>
				</div>
			</div>
			<ul>
				{shown.map((t) => (
					<li key={t.id}>
						<span class="files-path" title={visible(t.path)}>
							<span aria-hidden="true">{t.up ? "↑ " : "↓ "}</span>
							<span class="hidden">{t.up ? text.files.uploading : text.files.downloading} </span>
							<bdi>{visible(t.path)}</bdi>
						</span>
						<progress max={Math.max(1, t.of)} {...(t.of || t.state === "done" ? { value: t.state === "done" ? Math.max(1, t.of) : t.moved } : t.state === "running" ? {} : { value: 0 })} aria-label={visible(t.path)} />
						<span class="quiet">
							{text.files.state[t.state]}, {text.files.moved(bytes(t.moved), t.of ? bytes(t.of) : "")}
						</span>
						<span class="actions">
							{t.state === "failed" && t.exists && (
								<Button label={text.files.of(text.files.replace, visible(t.path))} onClick={() => replace(t.id)}>
									{text.files.replace}
								</Button>
							)}
							<Button kind="plain" label={text.files.of(t.state === "running" ? text.files.stop : text.errors.dismiss, visible(t.path))} onClick={() => drop(t.id)}>
								✕
							</Button>
						</span>
						{t.error && (
							<span class="wrong wrap" role="alert">
								{t.error}
							</span>
						)}
					</li>
				))}
			</ul>
		</section>
	);
}
