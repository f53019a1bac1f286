/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/schema_priv.h"
#include "api/schema_agents_priv.h"

/*
 * The kinds of cay.dev/v1alpha1, field by field. Whatever a user writes has a limit here: on the
 * length of a text, or on the members of a list.
 */
#define CAY "dev.cay.v1alpha1."

static const int64_t zero = 0, one = 1, n_5 = 5, n_9 = 9, n_16 = 16, n_20 = 20, n_32 = 32,
		     n_64 = 64, n_128 = 128, n_256 = 256, n_512 = 512, n_1024 = 1024, n_4096 = 4096,
		     n_8192 = 8192, len_name = 253, len_path = 4096, len_arg = 32768,
		     port_max = 65535, minute_max = 6000, pending_max = 1024;

/* Texts */
static const struct type name = { TYPE_STRING, .min = &one, .max = &len_name,
				  .pattern = NAME_PATTERN, .check = check_name };
static const struct type duration = { TYPE_STRING, .min = &one, .max = &n_32,
				      .pattern = DURATION_PATTERN, .check = check_duration };
static const struct type host = { TYPE_STRING, .min = &one, .max = &len_name,
				  .pattern = HOST_PATTERN, .check = check_host };
static const struct type pattern = { TYPE_STRING, .min = &one, .max = &n_256,
				     .pattern = PATTERN_PATTERN, .check = check_pattern };
static const struct type path_pattern = { TYPE_STRING, .min = &one, .max = &n_1024,
					  .pattern = PATTERN_PATTERN, .check = check_pattern };
static const struct type digest = { TYPE_STRING, .max = &n_128, .pattern = DIGEST_PATTERN,
				    .check = check_digest };
static const struct type json_path = { TYPE_STRING, .min = &one, .max = &n_256,
				       .check = check_jsonpath };
static const struct type text_128 = { TYPE_STRING, .max = &n_128 };
static const struct type text_256 = { TYPE_STRING, .max = &n_256 };
static const struct type text_512 = { TYPE_STRING, .max = &n_512 };
static const struct type text_1024 = { TYPE_STRING, .max = &n_1024 };
static const struct type text_path = { TYPE_STRING, .max = &len_path };
static const struct type text_arg = { TYPE_STRING, .max = &len_arg };
static const struct type count = { TYPE_INT64, .min = &zero };

/* Lists */
static const struct type patterns = { TYPE_LIST, .elem = &pattern, .list = LIST_SET, .max = &n_32 };
static const struct type hosts = { TYPE_LIST, .elem = &host, .list = LIST_SET, .min = &one,
				   .max = &n_32 };
static const struct type arguments = { TYPE_LIST, .elem = &text_arg, .max = &n_1024 };

/* Shared parts */
static const char *const rights_known[] = { "exec", "read", "write", "ports", "lifecycle", NULL };
static const struct type right = { TYPE_STRING, .values = rights_known };
static const struct type rights = { TYPE_LIST, .elem = &right, .list = LIST_SET, .max = &n_5 };

static const char *const verdicts[] = { "Allow", "Ask", "Deny", NULL };
static const struct type verdict = { TYPE_STRING, .values = verdicts };

static const struct type secret_key = { TYPE_STRING, .min = &one, .max = &len_name,
					.pattern = SECRET_PATTERN, .check = check_secret_key };
static const struct field secret_ref_fields[] = {
	{ "name", &name, FIELD_REQUIRED, NULL, "A Secret in this namespace" },
	{ "key", &secret_key, FIELD_REQUIRED, NULL, "Which of its values" },
	{ 0 },
};
static const struct type secret_ref = { TYPE_OBJECT, CAY "SecretRef", secret_ref_fields,
					.atomic = true };

#define COSTS                                                                                     \
	{ "cpuSeconds", &type_quantity, 0, NULL, "Seconds of one processor" },                    \
		{ "memoryGiBHours", &type_quantity, 0, NULL, "Memory: GiB in use, times hours" }, \
		{ "diskGiBHours", &type_quantity, 0, NULL, "Disk: GiB in use, times hours" },     \
		{ "networkBytes", &type_quantity, 0, NULL, "Bytes received and sent" }

static const struct field cost_fields[] = { COSTS, { 0 } };
static const struct type cost = { TYPE_OBJECT, CAY "Cost", cost_fields };

#define CONDITIONS(help_) { "conditions", &type_conditions, 0, NULL, (help_) }
#define OBSERVED \
	{ "observedGeneration", &type_observed_generation, 0, NULL, "Generation last acted on" }

/* Capabilities. A ceiling is the same without defaults: what it leaves out it does not limit. */
static const struct type port = { TYPE_INT64, .min = &one, .max = &port_max };
static const struct type ports = { TYPE_LIST, .elem = &port, .list = LIST_SET, .max = &n_16 };
static const struct type method = { TYPE_STRING, .min = &one, .max = &n_16,
				    .pattern = METHOD_PATTERN, .check = check_method };
static const struct type methods = { TYPE_LIST, .elem = &method, .list = LIST_SET, .max = &n_9 };
static const struct type paths = { TYPE_LIST, .elem = &path_pattern, .list = LIST_SET,
				   .max = &n_16 };
static const struct field egress_fields[] = {
	{ "host", &host, FIELD_REQUIRED, NULL,
	  "A host name or address; *.example.org is every name below example.org, * every host" },
	{ "ports", &ports, 0, NULL, "Ports; 443 alone when unset" },
	{ "methods", &methods, 0, NULL, "HTTP methods in capitals; all when unset" },
	{ "paths", &paths, 0, NULL,
	  "Paths of URLs, in which one * stands for any text; all when unset" },
	{ 0 },
};
static const struct type egress = { TYPE_OBJECT, CAY "Egress", egress_fields };
static const struct type egress_list = { TYPE_LIST, .elem = &egress, .max = &n_32 };

#define CAPABILITIES(rights_, none_, all_)                                                       \
	{ "rights", &rights, 0, (rights_),                                                       \
	  "What may be done in sandboxes: exec, read, write, ports, lifecycle" },                \
		{ "egress", &egress_list, 0, (none_), "Places on the network" },                 \
		{ "credentials", &patterns, 0, (none_),                                          \
		  "Names of Credentials, in which one * stands for any text" },                  \
		{ "tools", &patterns, 0, (all_), "Names of MCP tools, like credentials" },       \
		{ "runtimeClasses", &patterns, 0, (all_), "Names of RuntimeClasses, likewise" }, \
		{ "maxSandboxes", &count, 0, NULL,                                               \
		  "How many sandboxes there may be at once; no limit of its own when unset" }

#define RIGHTS_FALLBACK "[\"exec\",\"read\",\"write\",\"ports\"]"

static const struct field capabilities_fields[] = {
	CAPABILITIES(RIGHTS_FALLBACK, "[]", "[\"*\"]"),
	{ 0 },
};
static const struct type capabilities = { TYPE_OBJECT, CAY "Capabilities", capabilities_fields };

static const struct field ceiling_fields[] = {
	CAPABILITIES(NULL, NULL, NULL),
	{ 0 },
};
static const struct type ceiling = { TYPE_OBJECT, CAY "Ceiling", ceiling_fields };

/* Agent */
static const struct type key_text = { TYPE_STRING, .pattern = KEY_PATTERN, .check = check_key };
static const struct field key_fields[] = {
	{ "name", &name, FIELD_REQUIRED, NULL, "Which key it is, for people" },
	{ "publicKey", &key_text, FIELD_REQUIRED, NULL,
	  "An Ed25519 public key: 32 bytes in base64" },
	{ "verified", &type_bool, 0, "false",
	  "Somebody with the verb verify has confirmed whose key it is" },
	{ 0 },
};
static const struct type key = { TYPE_OBJECT, CAY "AgentKey", key_fields };
static const struct type keys = { TYPE_LIST,           .elem = &key,
				  .list = LIST_MAP,    .merge_keys = { "name" },
				  .patch_key = "name", .max = &n_16 };

static const struct field pool_ref_fields[] = {
	{ "name", &name, FIELD_REQUIRED, NULL, "A SandboxWarmPool in this namespace" },
	{ 0 },
};
static const struct type pool_ref = { TYPE_OBJECT, CAY "WarmPoolRef", pool_ref_fields };

static const char *const modes[] = { "FreshPerSession", "UserChooses", "Shared", "PerAgent", NULL };
static const struct type mode = { TYPE_STRING, .values = modes };
static const struct field agent_sandbox_fields[] = {
	{ "mode", &mode, 0, "\"FreshPerSession\"",
	  "Which sandbox a new session gets: FreshPerSession, UserChooses, Shared or PerAgent" },
	{ "warmPoolRef", &pool_ref, 0, NULL, "The pool that gives the sandboxes" },
	{ "retain", &duration, 0, "\"24h\"",
	  "How long a session's own sandbox is kept, asleep, after the session has ended" },
	{ 0 },
};
static const struct type agent_sandbox = { TYPE_OBJECT, CAY "AgentSandbox", agent_sandbox_fields };

static const struct type arg_pattern = { TYPE_STRING, .max = &n_1024 };
static const struct type arg_patterns = { TYPE_LIST, .elem = &arg_pattern, .min = &one,
					  .max = &n_64 };
static const struct type rule_path = { TYPE_STRING, .min = &one, .max = &n_1024 };
static const struct type rule_tool = { TYPE_STRING, .min = &one, .max = &n_256 };
static const struct field rule_fields[] = {
	{ "action", &verdict, FIELD_REQUIRED, NULL, "Allow, Ask or Deny" },
	{ "argv", &arg_patterns, 0, NULL,
	  "A command: one pattern for each argument; a last ** is any number of arguments" },
	{ "path", &rule_path, 0, NULL, "Pattern of the path of a file" },
	{ "host", &host, 0, NULL, "Pattern of a host that a sandbox connects to" },
	{ "tool", &rule_tool, 0, NULL, "Pattern of the name of an MCP tool" },
	{ "withoutInput", &type_bool, 0, NULL,
	  "Only commands that read nothing and have no terminal" },
	{ 0 },
};
static const struct type rule = { TYPE_OBJECT, CAY "ApprovalRule", rule_fields };
static const struct type rules = { TYPE_LIST, .elem = &rule, .max = &n_256 };
static const struct field agent_approval_fields[] = {
	{ "default", &verdict, 0, "\"Allow\"", "What holds where no rule matches" },
	{ "timeout", &duration, 0, "\"10m\"", "How long a question stays open" },
	{ "rules", &rules, 0, NULL, "The first that matches decides" },
	{ 0 },
};
static const struct type agent_approval = { TYPE_OBJECT, CAY "AgentApproval",
					    agent_approval_fields };

static const struct field isolation_fields[] = {
	{ "verified", &name, 0, NULL, "RuntimeClass if the agent has a verified key" },
	{ "unverified", &name, 0, NULL, "RuntimeClass if it has none" },
	{ 0 },
};
static const struct type isolation = { TYPE_OBJECT, CAY "AgentIsolation", isolation_fields };

static const char *const visibilities[] = { "Private", "Team", "Global", NULL };
static const struct type visibility = { TYPE_STRING, .values = visibilities };

static const struct field agent_spec_fields[] = {
	{ "keys", &keys, 0, NULL, "By which the agent proves itself" },
	{ "parent", &name, 0, NULL,
	  "The Agent in this namespace within whose capabilities this one stays" },
	{ "sandbox", &agent_sandbox, 0, "{}", "Which sandboxes its sessions get" },
	{ "capabilities", &capabilities, 0, "{}", "What it may do" },
	{ "approval", &agent_approval, 0, "{}", "What a person is asked about first" },
	{ "budget", &name, 0, NULL, "The Budget that its use counts against" },
	{ "isolation", &isolation, 0, NULL, "Which wall its sandboxes are behind" },
	{ "visibility", &visibility, 0, "\"Team\"",
	  "Who sees it and may attach: Private, Team or Global" },
	{ 0 },
};
static const struct type agent_spec = { TYPE_OBJECT, CAY "AgentSpec", agent_spec_fields };

static const struct field agent_status_fields[] = {
	CONDITIONS("Ready"),
	OBSERVED,
	{ "sandboxes", &count, 0, NULL, "Sandboxes that it has now" },
	{ "effective", &ceiling, 0, NULL,
	  "What it may do once all its parents and the team's policy have been heard" },
	{ "verified", &type_bool, 0, NULL, "It has a key that is verified" },
	{ 0 },
};
static const struct type agent_status = { TYPE_OBJECT, CAY "AgentStatus", agent_status_fields };

#define WHOLE(spec_, flags_, fallback_, status_)                                   \
	OBJECT_HEAD, { "spec", (spec_), (flags_), (fallback_), "What is wanted" }, \
		{ "status", (status_), 0, NULL, "What is" }, { 0 }

static const struct field agent_fields[] = { WHOLE(&agent_spec, 0, "{}", &agent_status) };
const struct type type_agent = { TYPE_OBJECT, CAY "Agent", agent_fields, .structural = true };

/* Session */
static const struct field session_spec_fields[] = {
	{ "agent", &name, FIELD_REQUIRED, NULL,
	  "The Agent whose session it is; cannot be changed" },
	{ "user", &text_512, 0, NULL, "The user whom it is for" },
	{ "title", &text_256, 0, NULL, "What it is about, for people" },
	{ "sandbox", &name, 0, NULL,
	  "Name of a Sandbox, or new, or none; as the mode of the agent says when unset" },
	{ "retain", &duration, 0, NULL,
	  "How long its own sandbox is kept after the end; as the agent says when unset" },
	{ "ended", &type_bool, 0, NULL,
	  "It has ended; false again: it goes on, with its sandbox if that is still kept" },
	{ 0 },
};
static const struct type session_spec = { TYPE_OBJECT, CAY "SessionSpec", session_spec_fields };

static const struct field session_attachment_fields[] = {
	{ "name", &name, FIELD_REQUIRED, NULL, "An Attachment in this namespace" },
	{ "sandbox", &name, 0, NULL, "The Sandbox that it attaches" },
	{ 0 },
};
static const struct type session_attachment = { TYPE_OBJECT, CAY "SessionAttachment",
						session_attachment_fields };
static const struct type session_attachments = { TYPE_LIST,           .elem = &session_attachment,
						 .list = LIST_MAP,    .merge_keys = { "name" },
						 .patch_key = "name", .max = &n_64 };

static const char *const phases[] = { "Pending", "Active", "Ended", "Failed", NULL };
static const struct type phase = { TYPE_STRING, .values = phases };
static const struct field session_status_fields[] = {
	{ "phase", &phase, 0, NULL, "Pending, Active, Ended or Failed" },
	CONDITIONS("Ready"),
	{ "attachments", &session_attachments, 0, NULL, "The sandboxes that are in it" },
	{ "sandbox", &name, 0, NULL, "Its first sandbox" },
	{ "claim", &name, 0, NULL, "The SandboxClaim that was made for it" },
	{ "lastActivity", &type_time, 0, NULL, "When something was last done in it" },
	{ "endedAt", &type_time, 0, NULL, "When it ended" },
	{ "deleteAt", &type_time, 0, NULL, "When its sandbox is deleted" },
	{ "cost", &cost, 0, NULL, "What it has used" },
	OBSERVED,
	{ 0 },
};
static const struct type session_status = { TYPE_OBJECT, CAY "SessionStatus",
					    session_status_fields };

static const struct field session_fields[] = { WHOLE(&session_spec, FIELD_REQUIRED, NULL,
						     &session_status) };
const struct type type_session = { TYPE_OBJECT, CAY "Session", session_fields, .structural = true };

/* Attachment */
static const char *const views[] = { "Shared", "ReadOnly", "Scratch", NULL };
static const struct type view = { TYPE_STRING, .values = views };
static const struct field attachment_spec_fields[] = {
	{ "session", &name, FIELD_REQUIRED, NULL, "The Session; cannot be changed" },
	{ "sandbox", &name, FIELD_REQUIRED, NULL, "The Sandbox; cannot be changed" },
	{ "rights", &rights, 0, NULL,
	  "What the session may do in it; exec, read, write and ports when unset, without write "
	  "if the view is ReadOnly" },
	{ "view", &view, 0, "\"Shared\"",
	  "What commands see: Shared, the sandbox itself; ReadOnly; Scratch, where nothing stays" },
	{ 0 },
};
static const struct type attachment_spec = { TYPE_OBJECT, CAY "AttachmentSpec",
					     attachment_spec_fields };

static const struct field attachment_status_fields[] = {
	CONDITIONS("Ready"),
	{ "effectiveRights", &rights, 0, NULL, "What is left once the agent has been heard" },
	{ "view", &view, 0, NULL, "What commands see now" },
	{ "agent", &name, 0, NULL, "The Agent of the session" },
	{ "cost", &cost, 0, NULL, "What was used through it" },
	OBSERVED,
	{ 0 },
};
static const struct type attachment_status = { TYPE_OBJECT, CAY "AttachmentStatus",
					       attachment_status_fields };

static const struct field attachment_fields[] = { WHOLE(&attachment_spec, FIELD_REQUIRED, NULL,
							&attachment_status) };
const struct type type_attachment = { TYPE_OBJECT, CAY "Attachment", attachment_fields,
				      .structural = true };

/* Approval */
static const struct type operation = { TYPE_STRING, .min = &one, .max = &n_64 };
static const struct field approval_spec_fields[] = {
	{ "agent", &name, FIELD_REQUIRED, NULL, "The Agent that asks" },
	{ "session", &name, 0, NULL, "In which Session" },
	{ "attachment", &name, 0, NULL, "Through which Attachment" },
	{ "sandbox", &name, 0, NULL, "In which Sandbox" },
	{ "operation", &operation, FIELD_REQUIRED, NULL, "What is to be done, such as exec" },
	{ "argv", &arguments, 0, NULL, "The command" },
	{ "cwd", &text_path, 0, NULL, "Where it is to run" },
	{ "path", &text_path, 0, NULL, "The file" },
	{ "host", &text_256, 0, NULL, "The host" },
	{ "tool", &text_256, 0, NULL, "The MCP tool" },
	{ "environmentDigest", &digest, 0, NULL, "SHA-256 of the environment" },
	{ "inputDigest", &digest, 0, NULL, "SHA-256 of the input" },
	{ "digest", &digest, FIELD_REQUIRED, NULL,
	  "SHA-256 of the whole operation: what is approved, and nothing else" },
	{ "requestedBy", &text_512, 0, NULL, "The user who asked" },
	{ "expires", &type_time, FIELD_REQUIRED, NULL, "When the question is closed" },
	{ 0 },
};
static const struct type approval_spec = { TYPE_OBJECT, CAY "ApprovalSpec", approval_spec_fields };

static const char *const decisions[] = { "Once", "Always", "Deny", NULL };
static const struct type decision = { TYPE_STRING, .values = decisions };
static const struct field approval_status_fields[] = {
	{ "decision", &decision, 0, NULL,
	  "Once, Always or Deny; takes the verb approve, and cannot be changed" },
	{ "decidedBy", &text_512, 0, NULL, "Who decided; set by the server" },
	{ "decidedAt", &type_time, 0, NULL, "When; set by the server" },
	{ "used", &type_bool, 0, NULL, "What was allowed once has begun" },
	{ "usedAt", &type_time, 0, NULL, "When it began" },
	CONDITIONS("Decided"),
	{ 0 },
};
static const struct type approval_status = { TYPE_OBJECT, CAY "ApprovalStatus",
					     approval_status_fields };

static const struct field approval_fields[] = { WHOLE(&approval_spec, FIELD_REQUIRED, NULL,
						      &approval_status) };
const struct type type_approval = { TYPE_OBJECT, CAY "Approval", approval_fields,
				    .structural = true };

/* Budget */
#define AMOUNTS \
	COSTS, { "maxSandboxes", &type_quantity, 0, NULL, "Sandboxes at once; a whole number" }

static const struct field amount_fields[] = { AMOUNTS, { 0 } };
static const struct type amounts = { TYPE_OBJECT, CAY "Amounts", amount_fields };

static const char *const consequences[] = { "Suspend", "Deny", "Warn", NULL };
static const struct type consequence = { TYPE_STRING, .values = consequences };
static const struct field budget_spec_fields[] = {
	{ "limits", &amounts, 0, NULL,
	  "How much may be used; 0 is nothing at all, unset any amount" },
	{ "period", &duration, 0, NULL,
	  "After which counting begins anew, such as 24h; never when unset" },
	{ "onExceeded", &consequence, 0, "\"Suspend\"",
	  "What becomes of sandboxes then: Suspend them, Deny new work, or Warn" },
	{ 0 },
};
static const struct type budget_spec = { TYPE_OBJECT, CAY "BudgetSpec", budget_spec_fields };

static const struct field used_by_agent_fields[] = {
	{ "agent", &name, FIELD_REQUIRED, NULL, "The Agent" },
	AMOUNTS,
	{ 0 },
};
static const struct type used_by_agent = { TYPE_OBJECT, CAY "UsedByAgent", used_by_agent_fields };
static const struct type used_by_agents = { TYPE_LIST,
					    .elem = &used_by_agent,
					    .list = LIST_MAP,
					    .merge_keys = { "agent" },
					    .patch_key = "agent",
					    .max = &n_256 };
static const struct field budget_status_fields[] = {
	{ "used", &amounts, 0, NULL, "How much was used in this period" },
	{ "usedByAgent", &used_by_agents, 0, NULL, "By whom, those who used most first" },
	{ "exceeded", &type_bool, 0, NULL, "Something that has a limit is used up" },
	{ "periodStart", &type_time, 0, NULL, "When this period began" },
	CONDITIONS("Exceeded"),
	OBSERVED,
	{ 0 },
};
static const struct type budget_status = { TYPE_OBJECT, CAY "BudgetStatus", budget_status_fields };

static const struct field budget_fields[] = { WHOLE(&budget_spec, 0, "{}", &budget_status) };
const struct type type_budget = { TYPE_OBJECT, CAY "Budget", budget_fields, .structural = true };

/* Ledger. Its texts are names that were checked when they were given, or empty. */
static const struct type text_name = { TYPE_STRING, .max = &len_name };
static const struct type text_uid = { TYPE_STRING, .min = &one, .max = &n_64 };
#define PAYER                                                                              \
	{ "agent", &text_name, 0, NULL,                                                    \
	  "The Agent; empty: nobody's but the team's; (others): those beyond the first" }, \
		{ "user", &text_512, 0, NULL, "The user of its session" },                 \
		{ "template", &text_name, 0, NULL, "The SandboxTemplate of the sandbox" }

static const struct field ledger_row_fields[] = { PAYER, COSTS, { 0 } };
static const struct type ledger_row = { TYPE_OBJECT, CAY "LedgerRow", ledger_row_fields };
static const struct type ledger_rows = { TYPE_LIST, .elem = &ledger_row, .max = &n_1024 };

static const struct field ledger_mark_fields[] = {
	{ "uid", &text_uid, FIELD_REQUIRED, NULL, "Of the Attachment, or of the Pod" },
	{ "attachment", &type_bool, 0, NULL, "It is that of an Attachment" },
	PAYER,
	{ "session", &text_name, 0, NULL, "The Session" },
	{ "sessionUid", &text_uid, 0, NULL, "Its uid" },
	COSTS,
	{ 0 },
};
static const struct type ledger_mark = { TYPE_OBJECT, CAY "LedgerMark", ledger_mark_fields };
static const struct type ledger_marks = { TYPE_LIST,          .elem = &ledger_mark,
					  .list = LIST_MAP,   .merge_keys = { "uid" },
					  .patch_key = "uid", .max = &n_4096 };

static const struct field ledger_session_fields[] = {
	{ "uid", &text_uid, FIELD_REQUIRED, NULL, "Of the Session" },
	{ "name", &text_name, 0, NULL, "Its name" },
	COSTS,
	{ 0 },
};
static const struct type ledger_session = { TYPE_OBJECT, CAY "LedgerSession",
					    ledger_session_fields };
static const struct type ledger_sessions = { TYPE_LIST,          .elem = &ledger_session,
					     .list = LIST_MAP,   .merge_keys = { "uid" },
					     .patch_key = "uid", .max = &n_8192 };

static const struct field ledger_share_fields[] = {
	{ "agent", &text_name, 0, NULL, "The Agent" },
	COSTS,
	{ 0 },
};
static const struct type ledger_share = { TYPE_OBJECT, CAY "LedgerShare", ledger_share_fields };
static const struct type ledger_shares = { TYPE_LIST, .elem = &ledger_share, .max = &n_64 };
static const struct field ledger_budget_fields[] = {
	{ "uid", &text_uid, FIELD_REQUIRED, NULL, "Of the Budget" },
	{ "name", &text_name, 0, NULL, "Its name" },
	{ "periodStart", &type_time, 0, NULL, "When its period began" },
	{ "agents", &ledger_shares, 0, NULL, "By whom" },
	COSTS,
	{ 0 },
};
static const struct type ledger_budget = { TYPE_OBJECT, CAY "LedgerBudget", ledger_budget_fields };
static const struct type ledger_budgets = { TYPE_LIST,          .elem = &ledger_budget,
					    .list = LIST_MAP,   .merge_keys = { "uid" },
					    .patch_key = "uid", .max = &n_64 };

static const struct field ledger_status_fields[] = {
	{ "rows", &ledger_rows, 0, NULL, "What was used on this day, and for whom" },
	{ "marks", &ledger_marks, 0, NULL,
	  "What of each attachment and Pod is in the rows already; only those of the last ledger "
	  "count" },
	{ "sessions", &ledger_sessions, 0, NULL, "What sessions have used, from their beginning" },
	{ "budgets", &ledger_budgets, 0, NULL, "What counts against budgets, in their periods" },
	{ "counted", &type_time, 0, NULL, "When this was written" },
	{ 0 },
};
static const struct type ledger_status = { TYPE_OBJECT, CAY "LedgerStatus", ledger_status_fields };
static const struct field ledger_fields[] = { OBJECT_HEAD,
					      { "status", &ledger_status, 0, NULL, "What is" },
					      { 0 } };
const struct type type_ledger = { TYPE_OBJECT, CAY "Ledger", ledger_fields, .structural = true };

/* Credential */
static const struct type header = { TYPE_STRING, .min = &one, .max = &n_128,
				    .pattern = HEADER_PATTERN, .check = check_header };
static const struct type query = { TYPE_STRING, .min = &one, .max = &n_128,
				   .pattern = QUERY_PATTERN, .check = check_query };
static const struct type prefix = { TYPE_STRING, .max = &n_128, .pattern = PRINT_PATTERN,
				    .check = check_printable };
static const struct field credential_spec_fields[] = {
	{ "secretRef", &secret_ref, FIELD_REQUIRED, NULL, "Where the value is" },
	{ "hosts", &hosts, FIELD_REQUIRED, NULL,
	  "Hosts that it is sent to; *.example.org is every name below example.org" },
	{ "header", &header, 0, NULL, "The header of requests that it is put into" },
	{ "query", &query, 0, NULL, "Or the parameter of the URL" },
	{ "prefix", &prefix, 0, NULL, "What stands before the value, such as \"Bearer \"" },
	{ "agents", &patterns, 0, "[\"*\"]",
	  "Names of Agents for which it is used, in which one * stands for any text" },
	{ 0 },
};
static const struct type credential_spec = { TYPE_OBJECT, CAY "CredentialSpec",
					     credential_spec_fields };

static const struct field plain_status_fields[] = { CONDITIONS("Ready"), OBSERVED, { 0 } };
static const struct type credential_status = { TYPE_OBJECT, CAY "CredentialStatus",
					       plain_status_fields };

static const struct field credential_fields[] = { WHOLE(&credential_spec, FIELD_REQUIRED, NULL,
							&credential_status) };
const struct type type_credential = { TYPE_OBJECT, CAY "Credential", credential_fields,
				      .structural = true };

/* Trigger */
static const struct type filter_values = { TYPE_LIST, .elem = &text_256, .list = LIST_SET,
					   .min = &one, .max = &n_64 };
static const struct field filter_fields[] = {
	{ "path", &json_path, FIELD_REQUIRED, NULL, "A place in the event, as JSONPath" },
	{ "values", &filter_values, FIELD_REQUIRED, NULL, "What may stand there" },
	{ 0 },
};
static const struct type filter = { TYPE_OBJECT, CAY "TriggerFilter", filter_fields };
static const struct type filters = { TYPE_LIST, .elem = &filter, .max = &n_16 };

static const struct type per_minute = { TYPE_INT64, .min = &one, .max = &minute_max };
static const struct type max_pending = { TYPE_INT64, .min = &one, .max = &pending_max };
static const struct field trigger_limits_fields[] = {
	{ "perMinute", &per_minute, 0, "60", "Deliveries in a minute; more are turned away" },
	{ "maxPending", &max_pending, 0, "16", "Deliveries under way at once" },
	{ 0 },
};
static const struct type trigger_limits = { TYPE_OBJECT, CAY "TriggerLimits",
					    trigger_limits_fields };

static const char *const forms[] = { "Plain", "GitHub", NULL };
static const struct type form = { TYPE_STRING, .values = forms };
static const struct field trigger_spec_fields[] = {
	{ "agent", &name, FIELD_REQUIRED, NULL, "The Agent whose sessions are started" },
	{ "user", &text_512, 0, NULL, "The user whom the sessions are for" },
	{ "secretRef", &secret_ref, FIELD_REQUIRED, NULL, "The secret that signs events" },
	{ "form", &form, 0, "\"Plain\"", "How events are signed: Plain or GitHub" },
	{ "sessionKey", &json_path, 0, NULL,
	  "JSONPath into the event: events with the same value share a session; each has one of "
	  "its own when unset" },
	{ "filters", &filters, 0, NULL, "All must match, or the event is let go" },
	{ "command", &arguments, 0, NULL, "What runs, with the event on its standard input" },
	{ "limits", &trigger_limits, 0, "{}", "How many events are taken" },
	{ 0 },
};
static const struct type trigger_spec = { TYPE_OBJECT, CAY "TriggerSpec", trigger_spec_fields };

static const struct type outcome = { TYPE_STRING, .max = &n_64 };
static const struct type exit_code = { TYPE_INT64, .min = &zero };
static const struct type kept_output = { TYPE_STRING, .max = &len_path };
static const struct field delivery_fields[] = {
	{ "id", &text_128, FIELD_REQUIRED, NULL, "The sender's name for it" },
	{ "time", &type_time, 0, NULL, "When it came" },
	{ "session", &name, 0, NULL, "The Session that it started or woke" },
	{ "outcome", &outcome, 0, NULL, "What became of it, in one word" },
	{ "message", &text_1024, 0, NULL, "The same in a sentence" },
	{ "finished", &type_time, 0, NULL, "When it was over" },
	{ "approval", &name, 0, NULL, "The Approval that it waits for, or waited for" },
	{ "exitCode", &exit_code, 0, NULL, "How the command ended" },
	{ "output", &kept_output, 0, NULL, "The last that it wrote, 4 KiB at most" },
	{ 0 },
};
static const struct type delivery = { TYPE_OBJECT, CAY "TriggerDelivery", delivery_fields };
static const struct type deliveries = { TYPE_LIST, .elem = &delivery, .max = &n_20 };
static const struct field trigger_status_fields[] = {
	{ "deliveries", &deliveries, 0, NULL, "The last twenty, the latest first" },
	CONDITIONS("Ready"),
	OBSERVED,
	{ 0 },
};
static const struct type trigger_status = { TYPE_OBJECT, CAY "TriggerStatus",
					    trigger_status_fields };

static const struct field trigger_fields[] = { WHOLE(&trigger_spec, FIELD_REQUIRED, NULL,
						     &trigger_status) };
const struct type type_trigger = { TYPE_OBJECT, CAY "Trigger", trigger_fields, .structural = true };

/* TeamPolicy */
static const struct type classes = { TYPE_LIST, .elem = &name, .list = LIST_SET, .max = &n_32 };
static const struct field team_isolation_fields[] = {
	{ "classes", &classes, 0, NULL, "RuntimeClasses, the strongest wall first" },
	{ "floor", &name, 0, NULL,
	  "The weakest of them that an agent without a verified key may be put on" },
	{ 0 },
};
static const struct type team_isolation = { TYPE_OBJECT, CAY "TeamIsolation",
					    team_isolation_fields };
static const struct field team_policy_spec_fields[] = {
	{ "capabilities", &ceiling, 0, NULL,
	  "What agents may have at most; a member that is unset limits nothing" },
	{ "approvalDefault", &verdict, 0, NULL,
	  "No agent's approval.default may be weaker: Allow, then Ask, then Deny" },
	{ "isolation", &team_isolation, 0, NULL, "Which walls are strong enough" },
	{ "templates", &patterns, 0, NULL,
	  "Names of SandboxTemplates that agents may use; all when unset" },
	{ "retainMax", &duration, 0, NULL,
	  "The longest time that a sandbox is kept after the end of its session" },
	{ "budget", &name, 0, NULL, "The Budget that all use counts against" },
	{ 0 },
};
static const struct type team_policy_spec = { TYPE_OBJECT, CAY "TeamPolicySpec",
					      team_policy_spec_fields };
static const struct type team_policy_status = { TYPE_OBJECT, CAY "TeamPolicyStatus",
						plain_status_fields };

static const struct field team_policy_fields[] = { WHOLE(&team_policy_spec, 0, "{}",
							 &team_policy_status) };
const struct type type_team_policy = { TYPE_OBJECT, CAY "TeamPolicy", team_policy_fields,
				       .structural = true };
