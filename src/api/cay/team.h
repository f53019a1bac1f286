/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/approval.h"
#include "api/cay/capability.h"
#include "api/view.h"

struct arena;
struct json;

/* Credentials, triggers, and the policy that limits all of a namespace. */
struct credential_view {
	const char *secret, *key;   /* where the value is */
	const char *const *hosts;   /* patterns; ends with NULL */
	const char *header, *query; /* what it is put into; "": not there */
	const char *prefix;         /* before the value, such as "Bearer " */
	const char *const *agents;  /* patterns of names; ends with NULL */
	struct arena *arena;
};
extern const struct view_type credential_view_type;
const struct credential_view *credential_view(const struct object *o);

enum trigger_form {
	TRIGGER_PLAIN,  /* X-Cay-Signature: sha256=HEX of the body */
	TRIGGER_GITHUB, /* X-Hub-Signature-256 */
	TRIGGER_FORM_MAX_,
};
struct trigger_view {
	const char *agent, *user;
	const char *secret, *key;
	enum trigger_form form;
	const char *session_key;         /* JSONPath into the event; "": one session for each */
	const char *const *command;      /* ends with NULL; empty: none */
	const struct json *filters;      /* [{path, values}] */
	int64_t per_minute, max_pending; /* limits */
	bool deleting;
	struct arena *arena;
};
extern const struct view_type trigger_view_type;
const struct trigger_view *trigger_view(const struct object *o);

struct team_policy_view {
	bool has_capabilities; /* false: no ceiling */
	struct capabilities capabilities;
	enum verdict approval_default;      /* no agent's default may be weaker */
	const char *const *runtime_classes; /* strongest first; an unverified agent gets none after
					       the floor */
	const char *floor;                  /* "": none */
	const char *const *templates;       /* patterns; ends with NULL; NULL: all */
	usec retain_max;                    /* 0: none */
	const char *budget;                 /* that everything counts against; "": none */
	struct arena *arena;
};
extern const struct view_type team_policy_view_type;
const struct team_policy_view *team_policy_view(const struct object *o);
/* Whether an agent without a verified key may be put on a RuntimeClass. */
bool team_policy_strong_enough(const struct team_policy_view *v, const char *class);
