// SPDX-License-Identifier: Apache-2.0
// One file: text to read and edit, an image, or the beginning of anything else.
import { useEffect, useMemo, useState } from "preact/hooks";
import { bytes } from "../../../api/amounts.ts";
import { Button, Facts } from "../../../parts/common.tsx";
import { confirm } from "../../../parts/dialog.tsx";
import { moment } from "../../../state/clock.ts";
import { attempt, complain, say } from "../../../state/notices.ts";
import { text } from "../../../text.ts";
import { bytesOf, contentOf, hex, MAX_LINES, modeText } from "./content.ts";
import { drafts, setDraft } from "./drafts.ts";
import { base, visible } from "./names.ts";
import { FileError, type Found, save, type Where } from "./scripts.ts";
import { download } from "./transfer.ts";

function Picture(p: { bytes: Uint8Array; type: string; name: string }) {
	const [url, setUrl] = useState("");
	const [broken, setBroken] = useState(false);
	useEffect(() => {
		const made = URL.createObjectURL(new Blob([p.bytes as BlobPart], { type: p.type }));
		setUrl(made);
		return () => URL.revokeObjectURL(made);
	}, [p.bytes, p.type]);
	if (broken)
		return <p class="quiet">{text.files.imageBroken}</p>;
	return url ? <img class="files-image" src={url} alt={text.files.imageOf(p.name)} onError={() => setBroken(true)} /> : null;
}

export function View(p: { at: Where; path: string; draftKey: string; found: Found & { kind: "file" }; onSaved: () => void }) {
	const { found } = p;
	const content = useMemo(() => contentOf(found.bytes, found.cut), [found]);
	const draft = drafts.value.get(p.draftKey);
	const [busy, setBusy] = useState(false);
	const name = visible(base(p.path));
	const editable = content.kind === "text" && !content.mixed && !content.long && !found.cut;

	const store = async (force: boolean) => {
		const d = drafts.value.get(p.draftKey);
		if (!d || busy)
			return;
		setBusy(true);
		try {
			await save(p.at, p.path, bytesOf(d.text, d.crlf), force ? "any" : d.before);
			setDraft(p.draftKey, undefined);
			say(text.files.saved);
			p.onSaved();
		} catch (e) {
			if (!(e instanceof FileError && e.what === "changed"))
				complain(e);
			else if (await confirm({ title: text.files.changedTitle, body: text.files.changedBody, yes: text.files.overwrite, danger: true })) {
				setBusy(false);
				return void store(true);
			}
		}
		setBusy(false);
	};
	const discard = async () => {
		if (await confirm({ title: text.files.discardTitle, body: text.files.discardBody, yes: text.files.discard, danger: true }))
			setDraft(p.draftKey, undefined);
	};

	return (
		<section class="files-view" aria-label={name}>
			<div class="files-bar">
				<Facts
					of={[
						[text.files.size, bytes(found.size)],
						[text.files.changedAt, moment(found.time * 1000)],
						[text.files.mode, modeText(found.mode)],
					]}
				/>
				<div class="actions">
					{draft && <span class="badge warn">{text.files.unsaved}</span>}
					{editable && (
						<Button kind="main" disabled={!draft || busy} onClick={() => void store(false)}>
							{text.files.save}
						</Button>
					)}
					{draft && <Button onClick={() => void discard()}>{text.files.discard}</Button>}
					<Button onClick={() => void attempt(async () => download(p.at, p.path, found.size))}>{text.files.download}</Button>
				</div>
			</div>
			{content.kind === "text" && content.bidi > 0 && <p class="wrong">{text.files.bidi(content.bidi)}</p>}
			{content.kind === "text" && found.cut && <p class="quiet">{text.files.cut(bytes(found.size))}</p>}
			{content.kind === "text" && content.long && !found.cut && <p class="quiet">{text.files.manyLines(MAX_LINES)}</p>}
			{content.kind === "text" && content.mixed && <p class="quiet">{text.files.mixed}</p>}
			{content.kind === "text" && (
				<textarea
					class="files-text"
					aria-label={text.files.content(name)}
					spellcheck={false}
					autocomplete="off"
					wrap="off"
					readOnly={!editable || busy}
					value={draft ? draft.text : content.text.replaceAll("\r\n", "\n")}
					onInput={(e) => setDraft(p.draftKey, { before: { bytes: found.bytes, time: found.time }, crlf: content.crlf, ...draft, text: e.currentTarget.value })}
					onKeyDown={(e) => {
						if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "s") {
							e.preventDefault();
							void store(false);
						}
					}}
				/>
			)}
			{content.kind === "image" && (found.cut ? <p class="quiet">{text.files.imageCut}</p> : <Picture bytes={found.bytes} type={content.type} name={name} />)}
			{content.kind === "binary" && (
				<>
					<p class="quiet">{text.files.binary(bytes(found.size))}</p>
					<pre class="files-hex" tabIndex={0} aria-label={text.files.content(name)}>
						{hex(found.bytes.subarray(0, 1024))}
					</pre>
				</>
			)}
		</section>
	);
}
