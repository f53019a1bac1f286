/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/kinds_priv.h"

/* The columns of `kubectl get`; those with priority 1 appear with -o wide. */
#define AGE          { "Age", "date", ".metadata.creationTimestamp", "Time since the object was created" }
#define READY(field) ".status.conditions[?(@.type=='Ready')]." field

const struct column columns_agent[] = {
	{ "Mode", "string", ".spec.sandbox.mode", "Which sandbox a new session gets" },
	{ "Verified", "boolean", ".status.verified", "Whether it has a verified key" },
	{ "Sandboxes", "integer", ".status.sandboxes", "Sandboxes that it has now" },
	AGE,
	{ "Parent", "string", ".spec.parent", "Within whose capabilities it stays", 1 },
	{ "Budget", "string", ".spec.budget", "What its use counts against", 1 },
	{ "Visibility", "string", ".spec.visibility", "Who sees it and may attach", 1 },
	{ 0 },
};

const struct column columns_session[] = {
	{ "Agent", "string", ".spec.agent", "Whose session it is" },
	{ "Phase", "string", ".status.phase", "Pending, Active, Ended or Failed" },
	{ "Sandbox", "string", ".status.sandbox", "Its first sandbox" },
	AGE,
	{ "User", "string", ".spec.user", "Whom it is for", 1 },
	{ "Title", "string", ".spec.title", "What it is about", 1 },
	{ "Delete-At", "string", ".status.deleteAt", "When its sandbox is deleted", 1 },
	{ 0 },
};

const struct column columns_attachment[] = {
	{ "Session", "string", ".spec.session", "The session" },
	{ "Sandbox", "string", ".spec.sandbox", "The sandbox" },
	{ "View", "string", ".spec.view", "What commands see" },
	{ "Ready", "string", READY("status"), "Whether it can be used" },
	AGE,
	{ "Agent", "string", ".status.agent", "The agent of the session", 1 },
	{ "Rights", "string", ".status.effectiveRights", "What it may be used for", 1 },
	{ 0 },
};

const struct column columns_approval[] = {
	{ "Agent", "string", ".spec.agent", "Who asks" },
	{ "Operation", "string", ".spec.operation", "What is to be done" },
	{ "Decision", "string", ".status.decision",
	  "Once, Always or Deny; empty while it is open" },
	{ "By", "string", ".status.decidedBy", "Who decided" },
	AGE,
	{ "Sandbox", "string", ".spec.sandbox", "Where it is to be done", 1 },
	{ "Expires", "string", ".spec.expires", "When the question is closed", 1 },
	{ "Used", "boolean", ".status.used", "Whether what was allowed has begun", 1 },
	{ 0 },
};

const struct column columns_budget[] = {
	{ "CPU-Seconds", "string", ".status.used.cpuSeconds", "Used of processors" },
	{ "CPU-Limit", "string", ".spec.limits.cpuSeconds", "How much of that may be used" },
	{ "Memory-GiBh", "string", ".status.used.memoryGiBHours", "Used of memory" },
	{ "Memory-Limit", "string", ".spec.limits.memoryGiBHours", "How much of that may be used" },
	{ "Exceeded", "boolean", ".status.exceeded", "Whether something is used up" },
	{ "On-Exceeded", "string", ".spec.onExceeded", "What follows from that" },
	AGE,
	{ "Period", "string", ".spec.period", "After which counting begins anew", 1 },
	{ "Disk-GiBh", "string", ".status.used.diskGiBHours", "Used of the disk", 1 },
	{ "Network", "string", ".status.used.networkBytes", "Bytes received and sent", 1 },
	{ 0 },
};

const struct column columns_ledger[] = {
	{ "Counted", "date", ".status.counted", "When it was last written" },
	AGE,
	{ 0 },
};

const struct column columns_credential[] = {
	{ "Secret", "string", ".spec.secretRef.name", "Where the value is" },
	{ "Header", "string", ".spec.header", "The header that it is put into" },
	{ "Query", "string", ".spec.query", "Or the parameter" },
	AGE,
	{ "Hosts", "string", ".spec.hosts", "Where it is sent to", 1 },
	{ "Agents", "string", ".spec.agents", "For whom it is used", 1 },
	{ 0 },
};

const struct column columns_trigger[] = {
	{ "Agent", "string", ".spec.agent", "Whose sessions are started" },
	{ "Form", "string", ".spec.form", "How events are signed" },
	{ "Last", "string", ".status.deliveries[0].outcome", "What became of the last event" },
	AGE,
	{ "Session-Key", "string", ".spec.sessionKey", "Which events share a session", 1 },
	{ 0 },
};

const struct column columns_team_policy[] = {
	{ "Approval", "string", ".spec.approvalDefault", "The weakest default of an agent" },
	{ "Floor", "string", ".spec.isolation.floor", "The weakest wall without a verified key" },
	{ "Retain-Max", "string", ".spec.retainMax", "The longest retention" },
	{ "Budget", "string", ".spec.budget", "What all use counts against" },
	AGE,
	{ 0 },
};
