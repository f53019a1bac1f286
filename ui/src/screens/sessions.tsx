// SPDX-License-Identifier: Apache-2.0
// Conversations with agents: /sessions, /sessions/new, /sessions/NAMESPACE/NAME.
import { List } from "./sessions/list.tsx";
import { New } from "./sessions/new.tsx";
import { Page } from "./sessions/page.tsx";
import "./sessions/sessions.css";

export function Sessions(p: { rest: string[] }) {
	const [first = "", name = ""] = p.rest;
	if (name)
		return <Page ns={first} name={name} key={`${first}/${name}`} />;
	return first === "new" ? <New /> : <List />;
}
