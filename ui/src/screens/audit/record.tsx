// SPDX-License-Identifier: Apache-2.0
// One record, with everything that is in it.
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../../api/http.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { plain } from "../../parts/plain.ts";
import { moment } from "../../state/clock.ts";
import { href } from "../../state/location.ts";
import { text } from "../../text.ts";
import { type AuditRecord, oneRecord } from "./records.ts";

const t = text.audit;
const FIRST = ["n", "time", "user", "as", "from", "verb", "group", "resource", "subresource", "namespace", "name", "status", "note"];

/** All members by name, those of objects with a point: annotations.digest. */
function members(r: AuditRecord): [string, unknown][] {
	const rest = Object.keys(r).filter((k) => !FIRST.includes(k) && k !== "prev");
	const found: [string, unknown][] = [];
	for (const k of [...FIRST, ...rest, "prev"]) {
		const v = r[k];
		if (v && typeof v === "object" && !Array.isArray(v))
			for (const [inner, value] of Object.entries(v))
				found.push([`${k}.${inner}`, value]);
		else if (v !== undefined)
			found.push([k, v]);
	}
	return found;
}

export function RecordDialog(p: { n: number; known: AuditRecord | undefined; namespace: string; onClose: () => void }) {
	const [fetched, setFetched] = useState<AuditRecord | undefined>(undefined);
	const [wrong, setWrong] = useState("");
	const r = p.known ?? (fetched?.n === p.n ? fetched : undefined);
	useEffect(() => {
		if (p.known)
			return;
		setWrong("");
		oneRecord(p.n, p.namespace).then(
			(found) => (found ? setFetched(found) : setWrong(t.noRecord(p.n))),
			(e) => setWrong(sentence(e)),
		);
	}, [p.n, p.known === undefined]);
	const sandbox = r && (r.resource === "sandboxes" || r.resource === "pods") && r.namespace && r.name;
	return (
		<Dialog title={t.record(p.n)} onClose={p.onClose} class="record">
			{!r && <p role="status">{wrong ? plain(wrong) : text.loading}</p>}
			{r && (
				<dl class="facts">
					{members(r).map(([k, v]) => (
						<div key={k}>
							<dt title={plain(k)}>{t.members[k as keyof typeof t.members] ?? plain(k)}</dt>
							<dd class={k === "prev" || k.startsWith("annotations.") ? "mono" : ""}>
								<bdi>{plain(v)}</bdi>
								{k === "time" && <span class="quiet"> {moment(String(v))}</span>}
							</dd>
						</div>
					))}
				</dl>
			)}
			{sandbox && (
				<p>
					<a href={href(["sandboxes", r.namespace!, r.name!])}>{t.openSandbox}</a>
				</p>
			)}
		</Dialog>
	);
}
