// SPDX-License-Identifier: Apache-2.0
// The kinds that the page knows, and where they are served.
import type * as T from "./types.ts";

declare const of: unique symbol;

export interface Kind<O extends T.KObject> {
	readonly base: string; // "/apis/agents.x-k8s.io/v1beta1"
	readonly group: string;
	readonly plural: string;
	readonly kind: string;
	readonly namespaced: boolean;
	readonly [of]?: O;
}

function kind<O extends T.KObject>(group: string, version: string, plural: string, name: string, namespaced = true): Kind<O> {
	return { base: group ? `/apis/${group}/${version}` : `/api/${version}`, group, plural, kind: name, namespaced };
}

const EXTENSIONS = "extensions.agents.x-k8s.io";
const CAY = "cay.dev";

export const sandboxes = kind<T.Sandbox>("agents.x-k8s.io", "v1beta1", "sandboxes", "Sandbox");
export const templates = kind<T.SandboxTemplate>(EXTENSIONS, "v1beta1", "sandboxtemplates", "SandboxTemplate");
export const pools = kind<T.SandboxWarmPool>(EXTENSIONS, "v1beta1", "sandboxwarmpools", "SandboxWarmPool");
export const claims = kind<T.SandboxClaim>(EXTENSIONS, "v1beta1", "sandboxclaims", "SandboxClaim");
export const agents = kind<T.Agent>(CAY, "v1alpha1", "agents", "Agent");
export const sessions = kind<T.Session>(CAY, "v1alpha1", "sessions", "Session");
export const attachments = kind<T.Attachment>(CAY, "v1alpha1", "attachments", "Attachment");
export const approvals = kind<T.Approval>(CAY, "v1alpha1", "approvals", "Approval");
export const budgets = kind<T.Budget>(CAY, "v1alpha1", "budgets", "Budget");
export const ledgers = kind<T.Ledger>(CAY, "v1alpha1", "ledgers", "Ledger");
export const policies = kind<T.TeamPolicy>(CAY, "v1alpha1", "teampolicies", "TeamPolicy");
export const pods = kind<T.Pod>("", "v1", "pods", "Pod");
export const events = kind<T.KEvent>("", "v1", "events", "Event");
export const nodes = kind<T.Node>("", "v1", "nodes", "Node", false);
export const namespaces = kind<T.KObject>("", "v1", "namespaces", "Namespace", false);
export const podMetrics = kind<T.PodMetrics>("metrics.k8s.io", "v1beta1", "pods", "PodMetrics");

/** The path of a collection, or of one object of it. ns "" is all namespaces. */
export function pathOf(k: Kind<T.KObject>, ns: string, name = "", sub = ""): string {
	const parts = [k.base];
	if (k.namespaced && ns)
		parts.push("namespaces", encodeURIComponent(ns));
	parts.push(k.plural);
	if (name)
		parts.push(encodeURIComponent(name));
	if (sub)
		parts.push(sub);
	return parts.join("/");
}
