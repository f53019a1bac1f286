// SPDX-License-Identifier: Apache-2.0
// The frame of the page: who is here, which screen, and what belongs to all of them.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useObjects } from "./api/collection.ts";
import { approvals, namespaces } from "./api/kinds.ts";
import { useSelf } from "./api/self.ts";
import { belongsTo, leave, loggedIn } from "./api/session.ts";
import { whoIs } from "./api/user.ts";
import { Fence } from "./parts/common.tsx";
import { Questions } from "./parts/dialog.tsx";
import { Notices } from "./parts/notices.tsx";
import { Palettes } from "./parts/palette.tsx";
import { outcome } from "./screens/approvals/logic.ts";
import { Login } from "./screens/login.tsx";
import { type ScreenEntry, screens } from "./screens/index.tsx";
import { now } from "./state/clock.ts";
import { helpOpen, onKey, paletteOpen, useCommands } from "./state/commands.ts";
import { followLinks, go, href, path } from "./state/location.ts";
import { namespace, setNamespace, theme, type Theme } from "./state/prefs.ts";
import { text } from "./text.ts";

const THEMES: Theme[] = ["system", "light", "dark"];

function toggleTheme(): void {
	const dark = theme.value === "dark" || (theme.value === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
	theme.value = dark ? "light" : "dark";
}

/** Namespaces by name. Whoever may not list them still can type one. */
function NamespacePicker() {
	const all = useObjects(namespaces, "");
	const names = [...all.objects.values()].map((o) => o.metadata.name).sort();
	const ns = namespace.value;
	if (all.state === "refused")
		return (
			<label class="pick">
				<span>{text.bar.namespace}</span>
				<input value={ns} onChange={(e) => setNamespace(e.currentTarget.value.trim())} />
			</label>
		);
	return (
		<label class="pick">
			<span>{text.bar.namespace}</span>
			<select value={ns} onChange={(e) => setNamespace(e.currentTarget.value)}>
				<option value="">{text.all}</option>
				{[...new Set([...names, ...(ns ? [ns] : [])])].map((n) => (
					<option key={n} value={n}>
						{n}
					</option>
				))}
			</select>
		</label>
	);
}

/** Questions of agents that nobody has answered. */
function useOpenQuestions(): number {
	const all = useObjects(approvals, namespace.value);
	return [...all.objects.values()].filter((a) => outcome(a, now.value) === "Open").length;
}

const withoutAudit = screens.filter((s) => s.id !== "audit");

/** Those that this server has something to show in. */
function useScreens(): ScreenEntry[] {
	return useSelf().audit === false ? withoutAudit : screens;
}

function Nav(p: { current: string }) {
	const open = useOpenQuestions();
	const shown = useScreens();
	return (
		<nav aria-label={text.nav.label}>
			<a class="brand" href={href([])}>
				{text.product}
			</a>
			<ul>
				{shown.map((s) => (
					<li key={s.id}>
						<a href={href([s.id])} aria-current={s.id === p.current ? "page" : undefined}>
							{s.title}
							{s.id === "approvals" && open > 0 && (
								<span class="count" title={text.bar.open(open)} aria-label={text.bar.open(open)}>
									{open}
								</span>
							)}
						</a>
					</li>
				))}
			</ul>
		</nav>
	);
}

function Bar(p: { lost: boolean }) {
	const user = useSignal("");
	useEffect(() => {
		let here = true; // and with the token that it was asked for
		whoIs().then(
			(u) => {
				user.value = u.name;
				if (here)
					belongsTo(u.id);
			},
			() => undefined, // whatever else is asked for says why
		);
		return () => {
			here = false;
		};
	}, []);
	return (
		<header class="bar">
			<NamespacePicker />
			{p.lost && (
				<p class="lost" role="status">
					{text.bar.lost}
				</p>
			)}
			<div class="actions">
				<button type="button" class="button plain" onClick={() => (paletteOpen.value = true)}>
					{text.bar.palette} <kbd>{text.palette.key}</kbd>
				</button>
				<label class="pick">
					<span>{text.bar.theme}</span>
					<select value={theme.value} onChange={(e) => (theme.value = e.currentTarget.value as Theme)}>
						{THEMES.map((t) => (
							<option key={t} value={t}>
								{text.bar.themes[t]}
							</option>
						))}
					</select>
				</label>
				<span class="quiet user" title={text.bar.user(user.value)}>
					{user.value}
				</span>
				<button type="button" class="button plain" onClick={leave}>
					{text.bar.logOut}
				</button>
			</div>
		</header>
	);
}

function Inside() {
	const [first = "overview", ...rest] = path.value;
	const shown = useScreens();
	const screen = screens.find((s) => s.id === first);
	// The list of namespaces is watched wherever one is, so it tells of a lost server.
	const lost = useObjects(namespaces, "").state === "lost";
	useCommands(
		() => [
			...shown.map((s) => ({ id: `go-${s.id}`, title: text.palette.goTo(s.title), keys: `g ${s.key}`, run: () => go(href([s.id])) })),
			{ id: "theme", title: text.palette.theme, run: toggleTheme },
			{ id: "keys", title: text.palette.keys, keys: "?", run: () => (helpOpen.value = true) },
			{ id: "find", title: text.list.find, keys: "/", run: () => document.querySelector<HTMLElement>("[data-find]")?.focus() },
			{ id: "log-out", title: text.palette.logOut, run: leave },
		],
		[shown],
	);
	useEffect(() => {
		document.title = [rest[rest.length - 1], screen?.title, text.product].filter(Boolean).join(" · ");
	}, [screen?.id, rest.join("/")]);
	return (
		<div class="frame" onClick={followLinks}>
			<a class="skip" href="#main">
				{text.skip}
			</a>
			<Nav current={first} />
			<div class="right">
				<Bar lost={lost} />
				<main id="main" tabIndex={-1}>
					<Fence for={path.value.join("/")}>{screen ? screen.show(rest) : <p>{text.errors.notFound}</p>}</Fence>
				</main>
			</div>
			<Palettes />
		</div>
	);
}

export function App() {
	useEffect(() => {
		addEventListener("keydown", onKey);
		return () => removeEventListener("keydown", onKey);
	}, []);
	return (
		<>
			{loggedIn.value ? <Inside /> : <Login />}
			<Questions />
			<Notices />
		</>
	);
}
