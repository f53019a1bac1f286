/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/approval.h"
#include "api/cay/capability.h"
#include "api/cay/visibility.h"
#include "api/view.h"

struct arena;

enum {
	AGENT_KEY_LEN = 32,    /* bytes of an Ed25519 public key */
	AGENT_KEYS_MAX = 16,   /* of one agent */
	AGENT_PARENTS_MAX = 8, /* from an agent to the last of its parents */
};

/* Whether, and which, sandbox a new session gets. */
enum session_mode {
	MODE_FRESH_PER_SESSION,
	MODE_USER_CHOOSES,
	MODE_SHARED,
	MODE_PER_AGENT,
	MODE_MAX_,
};
const char *session_mode_name(enum session_mode m); /* "FreshPerSession" */

struct agent_key {
	const char *name;
	unsigned char key[AGENT_KEY_LEN];
	bool verified; /* an administrator has confirmed it */
};
/* From a member of spec.keys; false: it is no key. */
bool agent_key_read(const struct json *key, struct agent_key *ret);

/* An Agent. */
struct agent_view {
	const char *parent; /* "": none */
	const struct agent_key *keys;
	size_t n_keys;
	bool verified; /* one of them is */
	enum session_mode mode;
	const char *pool; /* "": none */
	usec retain;
	struct capabilities capabilities;
	struct approval_rules approval;
	const char *budget;                                  /* "": none */
	const char *class_if_verified, *class_if_unverified; /* RuntimeClasses; "": the default */
	enum visibility visibility;
	const char *owner; /* user who made it; "": not known */
	int64_t generation;
	bool deleting;
	struct arena *arena; /* of the above */
};
extern const struct view_type agent_view_type;
const struct agent_view *agent_view(const struct object *o);
