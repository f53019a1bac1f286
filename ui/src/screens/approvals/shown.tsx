// SPDX-License-Identifier: Apache-2.0
// Texts of others as they are: from left to right, with nothing hidden.
import { text } from "../../text.ts";
import { type Piece, foreign, gentle, pieces } from "./exact.ts";
import "./exact.css";

/** lines: a line break follows where the text has one; its escape is shown as well, so that none can be made up. */
function Pieces(p: { of: Piece[]; lines?: boolean }) {
	return (
		<>
			{p.of.map((x, i) =>
				x.kind === "plain" ? (
					x.text
				) : x.kind === "escape" ? (
					<span key={i} class="escape">
						{x.text}
						{x.text === "\\n" && p.lines && <br />}
					</span>
				) : (
					<span key={i} class="foreign" title={`U+${x.point!.toString(16).toUpperCase().padStart(4, "0")}`}>
						{x.text}
					</span>
				),
			)}
		</>
	);
}

/** A title, a user's name: text of any language. */
export function Plain(p: { text: string | undefined }) {
	return (
		<bdi class="plain">
			<Pieces of={gentle(p.text ?? "")} />
		</bdi>
	);
}

/** Exactly this text, without quotation marks. */
export function Raw(p: { text: string }) {
	return (
		<span class="exact" dir="ltr">
			<Pieces of={pieces(p.text, false)} />
		</span>
	);
}

/** A text between quotation marks, escaped as in JSON. */
export function Quoted(p: { text: string }) {
	return (
		<code class="exact word" dir="ltr">
			"<Pieces of={pieces(p.text, true)} lines />"
		</code>
	);
}

/** A command, word by word: each in a box of its own. */
export function Words(p: { of: string[]; label: string }) {
	return (
		<ol class="words" aria-label={p.label}>
			{p.of.map((w, i) => (
				<li key={i}>
					<Quoted text={w} />
				</li>
			))}
		</ol>
	);
}

/** Says which characters of these texts may be taken for others. */
export function Lookalikes(p: { of: string[] }) {
	const found = foreign(p.of);
	if (!found.length)
		return null;
	return (
		<p class="lookalikes" role="note">
			{text.approvals.foreign} <span class="exact">{found.slice(0, 12).join(", ")}</span>
			{found.length > 12 ? " …" : ""}
		</p>
	);
}
