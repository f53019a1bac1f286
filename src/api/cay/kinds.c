/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent.h"
#include "api/cay/budget.h"
#include "api/cay/cay.h"
#include "api/cay/kinds_priv.h"
#include "api/cay/schema_priv.h"
#include "api/cay/session.h"
#include "api/cay/team.h"
#include "api/kinds_priv.h"

/*
 * The kinds of cay.dev, as constant descriptions. The rules are those of validate.c in CEL, as far
 * as they can be written there, for clusters that check them by themselves.
 */
#define CAY_KIND  IN_GROUP(GROUP_CAY, "v1alpha1")
#define CAY_FLAGS .flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_CRD

#define FIXED(member) \
	{ "properties.spec.properties." member, "self == oldSelf", member " is immutable", false }

static const struct kind_rule agent_rules[] = {
	{ "properties.spec.properties.approval.properties.rules.items",
	  "has(self.argv) || has(self.path) || has(self.host) || has(self.tool)",
	  "one of argv, path, host and tool is required", false },
	{ 0 },
};

const struct kind kind_agent = {
	CAY_KIND,
	NAMES("Agent", "agents", "agent"),
	.short_names = { "ag" },
	CAY_FLAGS,
	.type = &type_agent,
	.columns = columns_agent,
	.validate = validate_agent,
	.rules = agent_rules,
	.view = &agent_view_type,
	.help = "Agent is somebody who acts: by which keys it proves itself, which sandboxes its sessions get, and what it may do in them.",
};

static const struct kind_rule session_rules[] = {
	FIXED("agent"),
	{ 0 },
};

const struct kind kind_session = {
	CAY_KIND,
	NAMES("Session", "sessions", "session"),
	.short_names = { "sess" },
	CAY_FLAGS,
	.type = &type_session,
	.columns = columns_session,
	.validate = validate_session,
	.rules = session_rules,
	.view = &session_view_type,
	.help = "Session is one conversation with an Agent, or one run of it.",
};

static const struct kind_rule attachment_rules[] = {
	FIXED("session"),
	FIXED("sandbox"),
	{ "properties.spec",
	  "self.view != 'ReadOnly' || !has(self.rights) || !self.rights.exists(r, r == 'write')",
	  "a ReadOnly view cannot have the right write", false },
	{ 0 },
};

const struct kind kind_attachment = {
	CAY_KIND,
	NAMES("Attachment", "attachments", "attachment"),
	.short_names = { "att" },
	CAY_FLAGS,
	.type = &type_attachment,
	.columns = columns_attachment,
	.defaults = defaults_attachment,
	.validate = validate_attachment,
	.rules = attachment_rules,
	.view = &attachment_view_type,
	.help = "Attachment puts a Sandbox into a Session, with rights.",
};

static const struct kind_rule approval_rules[] = {
	{ "properties.spec", "self == oldSelf", "an Approval cannot be changed", false },
	{ "properties.status",
	  "!has(oldSelf.decision) || (has(self.decision) && self.decision == oldSelf.decision)",
	  "a decision that was made cannot be changed", false },
	{ "properties.status",
	  "!has(oldSelf.used) || !oldSelf.used || (has(self.used) && self.used)",
	  "what has been used stays used", false },
	{ "", "!has(oldSelf.status) || has(self.status)", "a decision cannot be taken away",
	  false },
	{ 0 },
};

const struct kind kind_approval = {
	CAY_KIND,
	NAMES("Approval", "approvals", "approval"),
	.short_names = { "appr" },
	CAY_FLAGS,
	.type = &type_approval,
	.columns = columns_approval,
	.validate = validate_approval,
	.validate_status = validate_approval_status,
	.rules = approval_rules,
	.view = &approval_view_type,
	.help = "Approval is a question to a person: whether an Agent may do exactly this.",
};

static const struct kind_rule budget_rules[] = {
	{ "properties.spec", "!has(self.period) || duration(self.period) >= duration('1m')",
	  "period must be one minute or more", false },
	{ 0 },
};

const struct kind kind_budget = {
	CAY_KIND,
	NAMES("Budget", "budgets", "budget"),
	.short_names = { "bud" },
	CAY_FLAGS,
	.type = &type_budget,
	.columns = columns_budget,
	.validate = validate_budget,
	.rules = budget_rules,
	.view = &budget_view_type,
	.help = "Budget says how much those who count against it may use, and what follows if they use it up.",
};

static const struct kind_rule credential_rules[] = {
	{ "properties.spec", "has(self.header) != has(self.query)",
	  "exactly one of header and query is required", false },
	{ 0 },
};

const struct kind kind_credential = {
	CAY_KIND,
	NAMES("Credential", "credentials", "credential"),
	.short_names = { "cred" },
	CAY_FLAGS,
	.type = &type_credential,
	.columns = columns_credential,
	.validate = validate_credential,
	.rules = credential_rules,
	.view = &credential_view_type,
	.help = "Credential is a secret that is put into requests on their way and never enters a sandbox.",
};

const struct kind kind_trigger = {
	CAY_KIND,
	NAMES("Trigger", "triggers", "trigger"),
	.short_names = { "trig" },
	CAY_FLAGS,
	.type = &type_trigger,
	.columns = columns_trigger,
	.view = &trigger_view_type,
	.help = "Trigger lets signed events start Sessions of an Agent, or wake them.",
};

static const struct kind_rule team_policy_rules[] = {
	{ "", "self.metadata.name == '" TEAM_POLICY "'",
	  "only the TeamPolicy named " TEAM_POLICY " counts", false },
	{ 0 },
};

const struct kind kind_team_policy = {
	CAY_KIND,
	NAMES("TeamPolicy", "teampolicies", "teampolicy"),
	.short_names = { "tp" },
	CAY_FLAGS,
	.type = &type_team_policy,
	.columns = columns_team_policy,
	.validate = validate_team_policy,
	.rules = team_policy_rules,
	.view = &team_policy_view_type,
	.help = "TeamPolicy sets limits that nothing in its namespace exceeds.",
};

/* Its status is all of it: one write changes rows and marks together, the first one too. */
const struct kind kind_ledger = {
	CAY_KIND,
	NAMES("Ledger", "ledgers", "ledger"),
	.short_names = { "ldg" },
	.flags = KIND_NAMESPACED | KIND_CRD,
	.type = &type_ledger,
	.columns = columns_ledger,
	.help = "Ledger says what was used in its namespace on the day that it is named after, and for whom. Only Cay writes it.",
};
