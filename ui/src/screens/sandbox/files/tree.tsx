// SPDX-License-Identifier: Apache-2.0
// Folders in folders. Each is read when it is unfolded; the way to what is shown is unfolded by itself.
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../../../api/http.ts";
import { text } from "../../../text.ts";
import { base, join, visible } from "./names.ts";
import { look, type Where } from "./scripts.ts";

const SHOWN = 200;

interface Place {
	at: Where;
	path: string; // what is shown
	hrefOf: (path: string) => string;
}

function Inside(p: Place & { folder: string }) {
	const [names, setNames] = useState<string[] | undefined>(undefined);
	const [error, setError] = useState("");
	useEffect(() => {
		let left = false;
		look(p.at, p.folder).then(
			(f) => !left && setNames(f.kind === "folder" ? f.entries.filter((e) => e.type === "folder").map((e) => e.name).sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : []),
			(e: unknown) => !left && setError(sentence(e)),
		);
		return () => {
			left = true;
		};
	}, [p.folder]);
	if (error)
		return <p class="wrong wrap">{error}</p>;
	if (!names)
		return <p class="quiet">{text.loading}</p>;
	if (!names.length)
		return <p class="quiet">{text.files.noFolders}</p>;
	// What is shown is among them, however many there are.
	const here = names.filter((n, i) => i < SHOWN || p.path === join(p.folder, n) || p.path.startsWith(`${join(p.folder, n)}/`));
	return (
		<ul>
			{here.map((n) => (
				<Node key={n} {...p} folder={join(p.folder, n)} />
			))}
			{names.length > here.length && <li class="quiet">{text.files.moreFolders(names.length - here.length)}</li>}
		</ul>
	);
}

function Node(p: Place & { folder: string }) {
	const above = p.folder === "/" ? p.path !== "/" : p.path.startsWith(`${p.folder}/`);
	const [open, setOpen] = useState(above || p.folder === "/");
	useEffect(() => {
		if (above)
			setOpen(true);
	}, [above]);
	const name = visible(base(p.folder)) || "/";
	return (
		<li>
			<span class="files-node">
				<button type="button" class="button plain" aria-expanded={open} aria-label={text.files.unfold(name)} onClick={() => setOpen(!open)}>
					{open ? "▾" : "▸"}
				</button>
				<a href={p.hrefOf(p.folder)} aria-current={p.folder === p.path ? "page" : undefined} title={name}>
					<bdi>{name}</bdi>
				</a>
			</span>
			{open && <Inside {...p} />}
		</li>
	);
}

export function Tree(p: Place) {
	return (
		<section class="panel files-tree" aria-label={text.files.tree}>
			<ul>
				<Node {...p} folder="/" />
			</ul>
		</section>
	);
}
