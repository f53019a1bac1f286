// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { ApiError, askJson, sentence } from "../api/http.ts";
import { ended, logIn, logInFirst, logOut } from "../api/session.ts";
import { whoIs } from "../api/user.ts";
import { Button, Field } from "../parts/common.tsx";
import { confirm } from "../parts/dialog.tsx";
import { complain, say } from "../state/notices.ts";
import { text } from "../text.ts";

async function exchange(code: string): Promise<string> {
	return (await askJson<{ token: string }>("/cay/v1/page/sessions", { method: "POST", body: { code }, open: true })).token;
}

const tooLate = (e: unknown) => e instanceof ApiError && e.code === 401;

/** Changes the code of a link for a token, in a tab where nobody is logged in. */
export async function logInByCode(code: string): Promise<void> {
	try {
		logInFirst(await exchange(code));
	} catch (e) {
		logOut(tooLate(e) ? "link" : "");
		if (!tooLate(e))
			throw e;
	}
}

/** The same where somebody is: a link of another user's must not change unnoticed whom they act as. */
export async function changeByCode(code: string): Promise<void> {
	try {
		const token = await exchange(code);
		const [was, now] = await Promise.all([whoIs(), whoIs(token)]);
		if (was.id === now.id || (await confirm({ title: text.login.change, body: text.login.changeBody(was.name, now.name), yes: text.login.changeYes(now.name) })))
			logIn(token, now.id);
	} catch (e) {
		if (tooLate(e))
			say(text.login.link);
		else
			complain(e);
	}
}

export function Login() {
	const [token, setToken] = useState("");
	const [wrong, setWrong] = useState("");
	const [busy, setBusy] = useState(false);
	const enter = async (e: Event) => {
		e.preventDefault();
		const said = token.trim();
		if (!said || /\s/.test(said))
			return setWrong(text.login.bad);
		setWrong("");
		setBusy(true);
		try {
			logIn(said, (await whoIs(said)).id);
		} catch (e) {
			setBusy(false);
			setWrong(e instanceof ApiError && e.code === 401 ? text.login.wrong : sentence(e));
		}
	};
	const why = ended.value === "expired" ? text.login.expired : ended.value === "link" ? text.login.link : "";
	return (
		<main class="login" id="main" tabIndex={-1}>
			<h1>{text.login.title}</h1>
			{why && (
				<p class="wrong" role="alert">
					{why}
				</p>
			)}
			<p>{text.login.lead}</p>
			<pre>
				<code>{text.login.command}</code>
			</pre>
			<form onSubmit={enter}>
				<h2>{text.login.or}</h2>
				<Field label={text.login.token} hint={text.login.hint} error={wrong}>
					<textarea rows={4} spellcheck={false} autocomplete="off" value={token} onInput={(e) => setToken(e.currentTarget.value)} />
				</Field>
				<Button type="submit" kind="main" disabled={busy || !token.trim()}>
					{text.login.enter}
				</Button>
			</form>
		</main>
	);
}
