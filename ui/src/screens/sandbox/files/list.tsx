// SPDX-License-Identifier: Apache-2.0
// What is in a folder.
import { useRef, useState } from "preact/hooks";
import { bytes } from "../../../api/amounts.ts";
import { Button, Field } from "../../../parts/common.tsx";
import { confirm, Dialog } from "../../../parts/dialog.tsx";
import { Table } from "../../../parts/table.tsx";
import { moment } from "../../../state/clock.ts";
import { attempt, complain } from "../../../state/notices.ts";
import { text } from "../../../text.ts";
import { modeText } from "./content.ts";
import { badName, clean, join, spell, unspell, visible } from "./names.ts";
import { type Entry, type Found, makeFolder, remove, rename, save, type Where } from "./scripts.ts";
import { download, downloadFolder, filesOf, upload } from "./transfer.ts";

/** Names that people type are plain text: a backslash is one. */
const typed = (name: string) => spell(new TextEncoder().encode(name));

function NameDialog(p: { title: string; yes: string; value: string; onDone: (name: string | undefined) => void }) {
	const [name, setName] = useState(p.value);
	const wrong = name !== "" && badName(name);
	return (
		<Dialog title={p.title} onClose={() => p.onDone(undefined)}>
			<form
				onSubmit={(e) => {
					e.preventDefault();
					if (!badName(name))
						p.onDone(name);
				}}
			>
				<Field label={text.files.nameLabel} {...(wrong ? { error: text.files.badName } : {})}>
					<input autofocus value={name} onInput={(e) => setName(e.currentTarget.value)} />
				</Field>
				<div class="actions end">
					<Button onClick={() => p.onDone(undefined)}>{text.dialog.cancel}</Button>
					<Button type="submit" kind="main" disabled={badName(name)}>
						{p.yes}
					</Button>
				</div>
			</form>
		</Dialog>
	);
}

type Asking = { what: "folder" | "file" } | { what: "rename"; entry: Entry };

export function List(p: { at: Where; path: string; found: Found & { kind: "folder" }; hrefOf: (path: string) => string; onChange: () => void; onOpen: (path: string) => void }) {
	const [asking, setAsking] = useState<Asking | undefined>(undefined);
	const [over, setOver] = useState(false);
	const files = useRef<HTMLInputElement>(null);
	const folder = useRef<HTMLInputElement>(null);

	const send = (found: { file: File; path: string }[]) =>
		void attempt(async () => {
			for (const f of found)
				upload(p.at, join(p.path, clean(typed(f.path)).slice(1)), f.file, p.onChange);
		});
	const chosen = (input: HTMLInputElement) => {
		send([...(input.files ?? [])].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
		input.value = "";
	};
	const answer = async (name: string | undefined) => {
		const a = asking!;
		setAsking(undefined);
		if (name === undefined)
			return;
		const to = join(p.path, typed(name));
		if (a.what === "rename")
			await attempt(() => rename(p.at, join(p.path, a.entry.name), to));
		else if (a.what === "folder")
			await attempt(() => makeFolder(p.at, to));
		else if (p.found.entries.some((e) => e.name === typed(name)))
			complain(new Error(text.files.exists));
		else if (await attempt(() => save(p.at, to, new Uint8Array(0), "none")))
			p.onOpen(to);
		p.onChange();
	};
	const ask = async (e: Entry) => {
		const name = visible(e.name);
		const yes = await confirm({ title: text.files.removeTitle(name), body: e.type === "folder" ? text.files.removeFolder : text.files.removeFile, yes: text.files.remove, danger: true });
		if (yes) {
			await attempt(() => remove(p.at, join(p.path, e.name)), text.files.removed(name));
			p.onChange();
		}
	};
	const fetchIt = (e: Entry) => void attempt(async () => (e.type === "folder" ? downloadFolder(p.at, join(p.path, e.name)) : download(p.at, join(p.path, e.name), e.type === "link" ? 0 : e.size)));

	return (
		<div
			class={`files-list ${over ? "over" : ""}`}
			onDragOver={(e) => {
				if (e.dataTransfer?.types.includes("Files")) {
					e.preventDefault();
					setOver(true);
				}
			}}
			onDragLeave={(e) => !(e.currentTarget as Element).contains(e.relatedTarget as Node | null) && setOver(false)}
			onDrop={(e) => {
				e.preventDefault();
				setOver(false);
				if (e.dataTransfer)
					void attempt(async () => send(await filesOf(e.dataTransfer!)));
			}}
		>
			{p.found.all > p.found.entries.length && <p class="quiet">{text.files.first(p.found.entries.length, p.found.all)}</p>}
			{p.found.partial && <p class="wrong">{text.files.partial(p.found.partial)}</p>}
			<Table<Entry>
				label={text.files.title}
				rows={p.found.entries}
				keyOf={(e) => e.name}
				order="name"
				href={(e) => p.hrefOf(join(p.path, e.name))}
				search={(e) => e.name}
				empty={text.files.empty}
				columns={[
					{
						id: "name",
						title: text.files.name,
						width: "3fr",
						by: (e) => `${e.type === "folder" ? 0 : 1}${e.name}`,
						show: (e) => (
							<bdi title={visible(e.name)} class={`files-name ${e.type}`}>
								{visible(e.name)}
							</bdi>
						),
					},
					{ id: "type", title: text.files.type, width: "4rem", by: (e) => e.type, show: (e) => text.files.types[e.type] },
					{ id: "size", title: text.files.size, width: "6rem", end: true, by: (e) => e.size, show: (e) => (e.type === "file" ? bytes(e.size) : text.none) },
					{ id: "time", title: text.files.changedAt, width: "14rem", by: (e) => e.time, show: (e) => moment(e.time * 1000) },
					{ id: "mode", title: text.files.mode, width: "4rem", show: (e) => <span class="mono">{modeText(e.mode)}</span> },
					{
						id: "actions",
						title: text.files.actions,
						width: "17rem",
						show: (e) => (
							<span class="files-actions">
								<Button kind="plain" disabled={e.type === "other"} label={text.files.of(text.files.download, visible(e.name))} onClick={() => fetchIt(e)}>
									{text.files.download}
								</Button>
								<Button kind="plain" label={text.files.of(text.files.rename, visible(e.name))} onClick={() => setAsking({ what: "rename", entry: e })}>
									{text.files.rename}
								</Button>
								<Button kind="plain" label={text.files.of(text.files.remove, visible(e.name))} onClick={() => void ask(e)}>
									{text.files.remove}
								</Button>
							</span>
						),
					},
				]}
				actions={
					<>
						<Button onClick={() => files.current!.click()}>{text.files.upload}</Button>
						<Button onClick={() => folder.current!.click()}>{text.files.uploadFolder}</Button>
						<Button onClick={() => setAsking({ what: "file" })}>{text.files.newFile}</Button>
						<Button onClick={() => setAsking({ what: "folder" })}>{text.files.newFolder}</Button>
						<Button onClick={() => void attempt(async () => downloadFolder(p.at, p.path))}>{text.files.downloadTar}</Button>
					</>
				}
			/>
			<input ref={files} type="file" multiple hidden aria-label={text.files.upload} onChange={(e) => chosen(e.currentTarget)} />
			<input
				ref={(el) => {
					folder.current = el;
					el?.setAttribute("webkitdirectory", "");
				}}
				type="file"
				multiple
				hidden
				aria-label={text.files.uploadFolder}
				onChange={(e) => chosen(e.currentTarget)}
			/>
			<p class="quiet">{text.files.dropHere}</p>
			{asking && (
				<NameDialog
					title={asking.what === "rename" ? text.files.of(text.files.rename, visible(asking.entry.name)) : asking.what === "folder" ? text.files.newFolder : text.files.newFile}
					yes={asking.what === "rename" ? text.files.rename : text.files.create}
					value={asking.what === "rename" ? new TextDecoder().decode(unspell(asking.entry.name)) : ""}
					onDone={(name) => void answer(name)}
				/>
			)}
		</div>
	);
}
