/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/cay/agent.h"
#include "api/cay/cay.h"
#include "api/cay/session.h"
#include "api/cay/team.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_sandbox.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/agent/chain.h"
#include "control/pass/pass.h"
#include "json/json.h"

/*
 * The Session controller.
 *
 * A pass observes (observe.c), decides (decide.c, pure), acts (act.c) and reports (session.c).
 *
 * The claim outlives the session: it has no owner, and what is needed to put its sandbox away is
 * written on it. A claim is the session's own by its label and the session's uid in its annotation,
 * so that a later session of the same name does not find somebody else's files.
 */
struct map;
struct sessions;

#define FINALIZER_SESSION "cay.dev/session"
/* Annotation of a claim: if its sandbox is to be kept for some time only after the end, for how
 * long. */
#define KEY_RETAIN "cay.dev/retain"

#define SANDBOX_NEW  "new"
#define SANDBOX_NONE "none"

/* What the passes write. */
enum session_write {
	SESSION_WRITE_FINALIZER,
	SESSION_WRITE_CLAIM,   /* its creation */
	SESSION_WRITE_CLOCK,   /* a patch of the claim */
	SESSION_WRITE_SANDBOX, /* a patch of the Sandbox */
	SESSION_WRITE_ATTACH,
	SESSION_WRITE_DETACH,
	SESSION_WRITE_STATUS,
	SESSION_WRITE_MAX_,
};
_Static_assert(SESSION_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* Which sandbox the session is to have. */
enum target {
	TARGET_UNDECIDED, /* the user has not chosen yet */
	TARGET_WITHOUT,   /* none, by choice */
	TARGET_NAMED,     /* the Sandbox that its spec names */
	TARGET_OWN,       /* that of a claim of its own */
	TARGET_AGENT,     /* that of its agent's claim */
	TARGET_SHARED,    /* that of the claim that the team shares */
};
enum target session_target(const struct session_view *v, const struct agent_view *agent);

/* Observing */

struct claim_seen_by {
	const struct claim_view *v; /* NULL: there is none */
	const char *name;           /* what it is called, or would be; NULL: no name is free */
	const struct sandbox_view *sandbox; /* NULL: it has none */
	const char *sandbox_name;           /* NULL: likewise */
	bool labelled;                      /* the Sandbox says whom it is for */
	bool asleep;                        /* the Sandbox was suspended for want of use */
};

/* Everything that a decision depends on. */
struct session_seen {
	const struct session_view *v;
	const char *reason; /* of its Ready condition; "" */
	bool finalizer;
	const struct agent_view *agent;        /* NULL: there is none, or it is being deleted */
	const struct team_policy_view *policy; /* NULL: none */
	const struct capabilities *caps;
	enum chain_fault fault;
	bool budgeted;                    /* its use counts against a budget */
	const char *used_up;              /* why nothing may begin, in a sentence; NULL: it may */
	const char *no_space;             /* why there may be no further sandbox; NULL: there may */
	const char *template;             /* of the agent's pool; NULL: there is no such pool */
	const char *template_class;       /* NULL: there is no such template; "": native */
	bool template_shut;               /* it is Private, and not the agent's owner's */
	int64_t n_claims;                 /* that the agent has, or is about to get */
	struct claim_seen_by claim;       /* that its target means */
	struct claim_seen_by own;         /* made for this session, whatever it has now */
	usec own_retain;                  /* as the own claim says; < 0: it is not put away */
	bool own_shared;                  /* sessions that are open use its Sandbox too */
	const struct sandbox_view *named; /* TARGET_NAMED; NULL: no such Sandbox */
	const char *class;                /* of the Sandbox of the target; NULL: there is none */
	const struct attachment_view *attachment; /* its own; NULL: none */
	bool attachment_taken;                    /* its name is used by another */
	const struct err *create_e;               /* why the claim could not be made */
	usec now;
};

/* Deciding */

enum session_step {
	SESSION_STEP_REPORT,
	SESSION_STEP_GUARD,   /* the finalizer */
	SESSION_STEP_CLAIM,   /* make the claim */
	SESSION_STEP_STAMP,   /* note that it ends now */
	SESSION_STEP_CLOCK,   /* its claim ends at delete_at; 0: not of itself */
	SESSION_STEP_NOTE,    /* write on the claim how long it is to be kept */
	SESSION_STEP_SUSPEND, /* the Sandbox of its own claim */
	SESSION_STEP_RESUME,  /* the same */
	SESSION_STEP_LABEL,   /* the Sandbox of the target's claim */
	SESSION_STEP_ATTACH,
	SESSION_STEP_DETACH,
	SESSION_STEP_RELEASE, /* the finalizer */
	SESSION_STEP_NONE,    /* it is being deleted, and nothing is left to do */
};
struct session_plan {
	enum session_step step;
	enum target target;
	enum session_phase phase;
	const char *reason; /* of the condition Ready, which is true while it is Active */
	char *message;      /* malloc'd */
	bool budgeted;
	const char *used_up; /* as in struct session_seen */
	const char *claim;   /* that was made for it; NULL: none */
	const char *sandbox; /* that is in it, or will be; NULL: none */
	usec ended_at;       /* 0: it has not ended */
	usec delete_at;      /* 0: never */
	usec retain;         /* of a sandbox of its own; < 0: it is not put away */
	uint64_t look_ms;    /* when to look again; 0: when something changes */
};
struct session_plan session_decide(const struct session_seen *seen);
void session_plan_done(struct session_plan *plan);

/* How long its own sandbox is kept. known: as was written on the claim; < 0: nothing was. */
usec session_retain(const struct session_view *v, const struct agent_view *agent,
		    const struct team_policy_view *policy, usec known);

/* Everything that the views of a struct session_seen live in. */
struct session_objects {
	struct object *session, *claim, *own, *sandbox, *own_sandbox, *attachment;
	struct chain chain;
	struct object *pool, *template;
	char *names[2];           /* of claims */
	char *used_up, *no_space; /* sentences of struct session_seen */
};
/* False: there is no such session. Both must be zero before; session_objects_done() in any case. */
bool session_observe(struct pass *p, struct session_objects *o, struct session_seen *ret);
void session_objects_done(struct session_objects *o);

/* Starts the write of the plan's step. */
void session_act(struct pass *p, const struct session_objects *o, const struct session_seen *seen,
		 const struct session_plan *plan);
/* The claims of the agent whose creation is under way. */
int64_t sessions_creating(const struct sessions *s, const char *ns, const char *agent);
int64_t sessions_creating_all(const struct sessions *s, const char *ns); /* of the namespace */

struct json_doc *session_status(const struct session_objects *o, const struct session_plan *plan,
				const struct map *attachments, usec now);
