// SPDX-License-Identifier: Apache-2.0
// The screens, in the order of the navigation: the first part of the path says which one is shown.
import type { ComponentChildren } from "preact";
import { text } from "../text.ts";
import { Agents } from "./agents.tsx";
import { Approvals } from "./approvals.tsx";
import { Audit } from "./audit.tsx";
import { Budgets } from "./budgets.tsx";
import { Overview } from "./overview.tsx";
import { Sandboxes } from "./sandboxes.tsx";
import { Sessions } from "./sessions.tsx";
import { Templates } from "./templates.tsx";

export interface ScreenEntry {
	id: string;
	title: string;
	key: string; // after "g"
	/** rest: the parts of the path after the first. */
	show: (rest: string[]) => ComponentChildren;
}

export const screens: ScreenEntry[] = [
	{ id: "overview", title: text.nav.overview, key: "o", show: () => <Overview /> },
	{ id: "sandboxes", title: text.nav.sandboxes, key: "s", show: (rest) => <Sandboxes rest={rest} /> },
	{ id: "sessions", title: text.nav.sessions, key: "e", show: (rest) => <Sessions rest={rest} /> },
	{ id: "approvals", title: text.nav.approvals, key: "p", show: (rest) => <Approvals rest={rest} /> },
	{ id: "agents", title: text.nav.agents, key: "a", show: (rest) => <Agents rest={rest} /> },
	{ id: "budgets", title: text.nav.budgets, key: "b", show: (rest) => <Budgets rest={rest} /> },
	{ id: "audit", title: text.nav.audit, key: "u", show: () => <Audit /> },
	{ id: "templates", title: text.nav.templates, key: "t", show: (rest) => <Templates rest={rest} /> },
];
