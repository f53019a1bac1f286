// SPDX-License-Identifier: Apache-2.0
import "./style.css";
import { render } from "preact";
import { loggedIn, takeCode } from "./api/session.ts";
import { App } from "./app.tsx";
import { changeByCode, logInByCode } from "./screens/login.tsx";
import { complain } from "./state/notices.ts";

const somebody = loggedIn.value;
const code = takeCode();
if (code && !somebody)
	await logInByCode(code).catch(complain);
render(<App />, document.getElementById("page")!);
if (code && somebody)
	void changeByCode(code);
// A link that is followed where the page is already open changes the fragment alone.
addEventListener("hashchange", () => location.hash.includes("code=") && location.reload());
