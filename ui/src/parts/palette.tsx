// SPDX-License-Identifier: Apache-2.0
// The command palette, and the list of keys.
import { useState } from "preact/hooks";
import { commands, helpOpen, paletteOpen } from "../state/commands.ts";
import { text } from "../text.ts";
import { Dialog } from "./dialog.tsx";

const SHOWN = 12;

function Palette() {
	const [find, setFind] = useState("");
	const [at, setAt] = useState(0);
	const words = find.toLowerCase().split(/\s+/).filter(Boolean);
	const found = commands()
		.filter((c) => words.every((w) => `${c.title} ${c.hint ?? ""}`.toLowerCase().includes(w)))
		.slice(0, SHOWN);
	const close = () => (paletteOpen.value = false);
	const run = (n: number) => {
		const c = found[n];
		close();
		if (c)
			setTimeout(c.run); // after the focus has gone back
	};
	const onKey = (e: KeyboardEvent) => {
		if (e.key === "ArrowDown" || e.key === "ArrowUp") {
			e.preventDefault();
			setAt((at + (e.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length));
		} else if (e.key === "Enter") {
			e.preventDefault();
			run(at);
		}
	};
	return (
		<Dialog title={text.palette.title} onClose={close} class="palette">
			<input
				class="find"
				autofocus
				role="combobox"
				aria-expanded="true"
				aria-controls="palette-list"
				aria-activedescendant={found[at] ? `command-${at}` : undefined}
				aria-label={text.palette.find}
				placeholder={text.palette.find}
				value={find}
				onInput={(e) => {
					setFind(e.currentTarget.value);
					setAt(0);
				}}
				onKeyDown={onKey}
			/>
			<ul id="palette-list" role="listbox" aria-label={text.palette.title}>
				{found.map((c, i) => (
					<li key={c.id} id={`command-${i}`} role="option" aria-selected={i === at} onMouseEnter={() => setAt(i)} onClick={() => run(i)}>
						<span>{c.title}</span>
						{c.hint && <span class="quiet">{c.hint}</span>}
						{c.keys && <kbd>{c.keys}</kbd>}
					</li>
				))}
			</ul>
			{!found.length && <p class="quiet pad">{text.palette.nothing}</p>}
		</Dialog>
	);
}

function Help() {
	const close = () => (helpOpen.value = false);
	return (
		<Dialog title={text.keys.title} onClose={close}>
			<dl class="facts keys">
				<div>
					<dt>
						<kbd>{text.palette.key}</kbd>
					</dt>
					<dd>{text.palette.title}</dd>
				</div>
				{commands()
					.filter((c) => c.keys)
					.map((c) => (
						<div key={c.id}>
							<dt>
								<kbd>{c.keys}</kbd>
							</dt>
							<dd>{c.title}</dd>
						</div>
					))}
			</dl>
			<p class="quiet">{text.keys.also}</p>
		</Dialog>
	);
}

export function Palettes() {
	return (
		<>
			{paletteOpen.value && <Palette />}
			{helpOpen.value && <Help />}
		</>
	);
}
