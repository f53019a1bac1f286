/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/cay/agent.h"
#include "api/cay/session.h"
#include "api/cay/team.h"
#include "api/view_sandbox.h"
#include "control/agent/chain.h"
#include "control/pass/pass.h"

/*
 * The Attachment controller: what a pass sees, and what follows from it.
 */
enum attachment_write {
	ATTACHMENT_WRITE_OWNER,
	ATTACHMENT_WRITE_DELETE,
	ATTACHMENT_WRITE_STATUS,
	ATTACHMENT_WRITE_MAX_,
};
_Static_assert(ATTACHMENT_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* Whether the attachment is owned by its session. */
enum owned {
	OWNED_NOT,
	OWNED_YES,
	OWNED_BY_ANOTHER, /* by a session of the same name, which is gone */
};

struct attachment_seen {
	const struct attachment_view *v;
	const struct session_view *session; /* NULL: there is none */
	enum owned owned;
	const struct sandbox_view *sandbox; /* NULL: there is none */
	const char *class;                  /* of the Sandbox */
	const struct agent_view *agent;     /* of the session; NULL: none, or a broken chain */
	const struct capabilities *caps;
	const struct team_policy_view *policy; /* NULL: none */
	const char *private_to; /* the Sandbox is of this Private agent, another than the session's;
				   NULL: it is not */
	bool shut;              /* the Sandbox is Private, and not the agent's owner's */
};

enum attachment_step {
	ATTACHMENT_STEP_REPORT,
	ATTACHMENT_STEP_OWN,    /* make it the session's */
	ATTACHMENT_STEP_DELETE, /* what it attached, or whom, is gone */
	ATTACHMENT_STEP_NONE,
};
struct attachment_plan {
	enum attachment_step step;
	bool ready;
	const char *reason;
	char *message;   /* malloc'd */
	unsigned rights; /* in effect */
};
struct attachment_plan attachment_decide(const struct attachment_seen *s);
void attachment_plan_done(struct attachment_plan *plan);
