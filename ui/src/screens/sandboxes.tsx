// SPDX-License-Identifier: Apache-2.0
// Sandboxes: the list of them, and the page of one.
import "./sandboxes.css";
import { SandboxList } from "./sandbox/list.tsx";
import { SandboxPage } from "./sandbox/page.tsx";

export function Sandboxes(p: { rest: string[] }) {
	const [ns, name] = p.rest;
	return ns && name ? <SandboxPage key={`${ns}/${name}`} ns={ns} name={name} /> : <SandboxList />;
}
