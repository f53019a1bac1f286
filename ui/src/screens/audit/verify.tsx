// SPDX-License-Identifier: Apache-2.0
// Whether anybody changed the log.
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes } from "../../api/amounts.ts";
import { ApiError, askJson, sentence } from "../../api/http.ts";
import { Badge, Button, Facts, Panel } from "../../parts/common.tsx";
import { plain } from "../../parts/plain.ts";
import { moment } from "../../state/clock.ts";
import { text } from "../../text.ts";
import { ROUTE } from "./records.ts";

const t = text.audit;

interface Verdict {
	ok?: boolean;
	records?: number;
	segments?: number;
	from?: string;
	to?: string;
	checkpoints?: number;
	signedUpTo?: number;
	faults?: number;
	findings?: { file?: string; line?: number; fault?: string }[];
	checkedAt?: string;
	tookSeconds?: number;
	running?: boolean;
	checkedBytes?: number;
	totalBytes?: number;
}

/** The answer, and what asks for it. A long check is asked for again until it is done. */
export function useVerify(): { verdict: Verdict | undefined; error: unknown; busy: boolean; start: () => void } {
	const [verdict, setVerdict] = useState<Verdict | undefined>(undefined);
	const [error, setError] = useState<unknown>(undefined);
	const [busy, setBusy] = useState(false);
	const stop = useRef<AbortController | undefined>(undefined);
	useEffect(() => () => stop.current?.abort(), []);
	const start = async () => {
		stop.current?.abort();
		const mine = new AbortController();
		stop.current = mine;
		setBusy(true);
		setError(undefined);
		try {
			for (;;) {
				const v = await askJson<Verdict>(`${ROUTE}/verify`, { signal: mine.signal });
				setVerdict(v);
				if (!v.running)
					break;
				await new Promise((r) => setTimeout(r, 1000));
			}
		} catch (e) {
			if (mine.signal.aborted)
				return;
			setVerdict(undefined);
			setError(e);
		}
		setBusy(false);
	};
	return { verdict, error, busy, start: () => void start() };
}

export function VerifyButton(p: { verify: ReturnType<typeof useVerify> }) {
	return (
		<Button disabled={p.verify.busy} onClick={p.verify.start}>
			{p.verify.busy ? t.verifying : t.verify}
		</Button>
	);
}

export function VerdictPanel(p: { verify: ReturnType<typeof useVerify> }) {
	const { verdict: v, error } = p.verify;
	if (error !== undefined)
		return (
			<div class="refused" role="alert">
				<p>
					<strong>{t.notVerified}</strong>
				</p>
				<p class="wrap">{plain(sentence(error))}</p>
				{error instanceof ApiError && <p>{error.code === 403 ? t.verifyRight : error.advice}</p>}
			</div>
		);
	if (!v)
		return null;
	if (v.running)
		return (
			<p class="refused" role="status">
				{t.verifyRuns(bytes(v.checkedBytes ?? 0), bytes(v.totalBytes ?? 0))}
			</p>
		);
	const findings = v.findings ?? [];
	return (
		<Panel class="verdict">
			<div role="status" class="stack">
				<p>
					<Badge tone={v.ok ? "good" : "bad"}>{v.ok ? t.intact : t.changed}</Badge> <strong>{v.ok ? t.nothingChanged(v.records ?? 0, v.segments ?? 0) : t.faults(v.faults ?? findings.length, v.records ?? 0)}</strong>
				</p>
				{findings.length > 0 && (
					<ul class="findings">
						{findings.map((f, i) => (
							<li key={i}>{t.finding(plain(f.file ?? ""), f.line ?? 0, plain(f.fault ?? ""))}</li>
						))}
					</ul>
				)}
				{(v.faults ?? 0) > findings.length && <p class="quiet">{t.moreFaults((v.faults ?? 0) - findings.length)}</p>}
			</div>
			<Facts
				of={[
					[t.covers, v.from && v.to ? `${moment(v.from)} – ${moment(v.to)}` : undefined],
					[t.signed, v.signedUpTo ? t.signedUpTo(v.signedUpTo, v.checkpoints ?? 0) : t.notSigned],
					[t.checked, v.checkedAt ? t.checkedAt(moment(v.checkedAt), (v.tookSeconds ?? 0).toFixed(2)) : undefined],
				]}
			/>
		</Panel>
	);
}
