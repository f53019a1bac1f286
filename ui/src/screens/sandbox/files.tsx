// SPDX-License-Identifier: Apache-2.0
// The tab with the files of a sandbox. Which one is shown is in the address (path).
import "./files.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, sentence } from "../../api/http.ts";
import { pods } from "../../api/kinds.ts";
import { may } from "../../api/rights.ts";
import { Button } from "../../parts/common.tsx";
import { useCommands } from "../../state/commands.ts";
import { go, href, query, setQuery } from "../../state/location.ts";
import { text } from "../../text.ts";
import { NotRunning, running } from "./asleep.tsx";
import { draftKey, drafts } from "./files/drafts.ts";
import { List } from "./files/list.tsx";
import { base, clean, join, parent, visible } from "./files/names.ts";
import { type Found, home, look, type Where } from "./files/scripts.ts";
import { Transfers } from "./files/transfers.tsx";
import { Tree } from "./files/tree.tsx";
import { View } from "./files/view.tsx";
import type { Within } from "./within.ts";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];

interface Seen {
	path: string;
	found?: Found;
	error?: { message: string; advice: string; again: boolean };
}

/** What is at a path. It is asked for again when the server was away. */
function useFound(at: Where, uid: string | undefined, path: string, runs: boolean): [Seen, () => void] {
	const [seen, setSeen] = useState<Seen>({ path });
	const [round, setRound] = useState(0);
	useEffect(() => {
		if (!runs)
			return;
		let left = false;
		let timer = 0;
		let failures = 0;
		const ask = async () => {
			try {
				if (!path) {
					const start = await home(at);
					if (!left)
						setQuery({ path: start });
					return;
				}
				const found = await look(at, path);
				if (!left)
					setSeen({ path, found });
			} catch (e) {
				if (left)
					return;
				const again = e instanceof ApiError && (e.code === 0 || e.code >= 500);
				const advice = e instanceof ApiError ? e.advice : "";
				setSeen((s) => ({ path, ...(again && s.path === path && s.found ? { found: s.found } : {}), error: { message: sentence(e), advice, again } }));
				if (again)
					timer = window.setTimeout(() => void ask(), RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
			}
		};
		void ask();
		return () => {
			left = true;
			clearTimeout(timer);
		};
	}, [at.ns, at.pod, at.container, uid, path, runs, round]);
	return [seen, () => setRound((n) => n + 1)];
}

function Crumbs(p: { path: string; hrefOf: (path: string) => string }) {
	const parts = p.path.split("/").filter(Boolean);
	return (
		<nav class="files-crumbs" aria-label={text.files.crumbs}>
			<ol>
				<li>
					<a href={p.hrefOf("/")}>/</a>
				</li>
				{parts.map((part, i) => {
					const to = `/${parts.slice(0, i + 1).join("/")}`;
					return (
						<li key={to}>
							{i > 0 && <span aria-hidden="true">/</span>}
							<a href={p.hrefOf(to)} aria-current={i === parts.length - 1 ? "page" : undefined} title={visible(part)}>
								<bdi>{visible(part)}</bdi>
							</a>
						</li>
					);
				})}
			</ol>
		</nav>
	);
}

export function Files(p: Within) {
	const containers = (p.pod?.spec?.containers ?? []).map((c) => c.name);
	const said = query.value.get("container") ?? "";
	const container = containers.includes(said) ? said : (containers[0] ?? "");
	const at: Where = { ns: p.ns, pod: p.pod?.metadata.name ?? p.name, container };
	const given = query.value.get("path") ?? "";
	const path = given ? clean(given) : "";
	const allowed = may("create", pods, p.ns, "exec") !== false;
	const runs = running(p) && allowed;
	const [seen, again] = useFound(at, p.pod?.metadata.uid, path, runs);
	const tree = query.value.get("tree") === "1";
	const hrefOf = (to: string) => href(["sandboxes", p.ns, p.name], { tab: "files", path: to, container: said, tree: tree ? "1" : "", ns: query.value.get("ns") ?? "" });
	const field = useRef<HTMLInputElement>(null);
	useCommands(() => [{ id: "files-refresh", title: text.files.refresh, keys: "r", run: again }], []);

	// After an upload the list is as it should be only if this is still the folder.
	const shown = useRef(path);
	shown.current = path;
	const changed = () => seen.path === shown.current && again();

	if (!allowed)
		return (
			<div class="refused" role="status">
				<strong>{text.terminal.refused}</strong>
				<p>{text.list.askFor("create", "pods/exec", p.ns)}</p>
			</div>
		);
	const found = seen.path === path ? seen.found : undefined;
	const error = seen.path === path ? seen.error : undefined;
	const mine = [...drafts.value.keys()].map((k) => k.split("\n")).filter(([ns, name, c, ...rest]) => ns === p.ns && name === p.name && c === container && rest.join("\n") !== path);
	return (
		<div class="files">
			{!running(p) && <NotRunning {...p} />}
			<div class="files-bar">
				{containers.length > 1 && (
					<label class="pick">
						<span>{text.terminal.container}</span>
						<select value={container} onChange={(e) => setQuery({ container: e.currentTarget.value, path: "" })}>
							{containers.map((c) => (
								<option key={c}>{c}</option>
							))}
						</select>
					</label>
				)}
				<button type="button" class="button" aria-pressed={tree} onClick={() => setQuery({ tree: tree ? "" : "1" })}>
					{text.files.tree}
				</button>
				<Crumbs path={path} hrefOf={hrefOf} />
				<form
					class="actions"
					onSubmit={(e) => {
						e.preventDefault();
						const to = field.current!.value;
						if (to)
							go(hrefOf(clean(to.startsWith("/") ? to : join(path, to))));
					}}
				>
					<input ref={field} key={path} class="mono" aria-label={text.files.path} defaultValue={path} />
					<Button type="submit">{text.files.go}</Button>
					<Button disabled={path === "/" || !path} onClick={() => go(hrefOf(parent(path)))}>
						{text.files.up}
					</Button>
					<Button onClick={again} disabled={!runs}>
						{text.files.refresh}
					</Button>
				</form>
			</div>
			{mine.length > 0 && (
				<p class="files-drafts">
					{text.files.drafts(mine.length)}{" "}
					{mine.map(([, , , ...rest]) => {
						const to = rest.join("\n");
						return (
							<a key={to} href={hrefOf(to)}>
								<bdi>{visible(base(to))}</bdi>
							</a>
						);
					})}
				</p>
			)}
			{error && (
				<div class="refused" role="alert">
					<strong class="wrap">{error.message}</strong>
					{(error.advice || error.again) && <p>{error.again ? text.files.again : error.advice}</p>}
				</div>
			)}
			{runs && !found && !error && (
				<p class="quiet" role="status">
					{text.loading}
				</p>
			)}
			<div class={tree ? "files-main with-tree" : "files-main"}>
				{tree && runs && path && <Tree key={`${at.pod} ${container}`} at={at} path={path} hrefOf={hrefOf} />}
				{found?.kind === "folder" && <List key={path} at={at} path={path} found={found} hrefOf={hrefOf} onChange={changed} onOpen={(to) => go(hrefOf(to))} />}
				{found?.kind === "file" && <View key={path} at={at} path={path} found={found} draftKey={draftKey(p.ns, p.name, container, path)} onSaved={again} />}
				{(found?.kind === "other" || found?.kind === "missing" || found?.kind === "dangling") && <p role="status">{text.files[found.kind]}</p>}
			</div>
			<Transfers />
		</div>
	);
}
