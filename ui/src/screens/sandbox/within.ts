// SPDX-License-Identifier: Apache-2.0
import type { Pod, Sandbox } from "../../api/types.ts";

/** What the tabs of a sandbox get. */
export interface Within {
	ns: string;
	name: string;
	sandbox: Sandbox;
	pod: Pod | undefined; // there is none while it sleeps, or has not begun
}
