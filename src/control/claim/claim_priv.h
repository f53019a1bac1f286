/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/object.h"
#include "api/view_claim.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/index/index.h"
#include "control/pass/pass.h"
#include "json/json.h"

/*
 * The SandboxClaim controller (docs/reference/agent-sandbox.md §6).
 *
 * A pass observes (observe.c), decides (decide.c, pure), acts (act.c) and reports (claim.c). What a
 * claim may ask for, what its Sandbox looks like and what its status says are pure functions in
 * policy.c, build.c and status.c.
 *
 * The controller reference of the Sandbox is the whole truth of an adoption: one guarded patch sets
 * it, so two claims can never have one Sandbox, and after a crash the index by owner finds it
 * again. Status and annotations of the claim only repeat it.
 */

/* What the passes write. */
enum claim_write {
	CLAIM_WRITE_ADOPT,    /* the patch that makes a warm Sandbox the claim's */
	CLAIM_WRITE_CREATE,   /* a cold Sandbox */
	CLAIM_WRITE_FOLLOW,   /* the patch that keeps its Sandbox in line */
	CLAIM_WRITE_UNASSIGN, /* the patch that removes an assigned Sandbox's name from the claim */
	CLAIM_WRITE_STATUS,   /* the claim's status, and its annotations */
	CLAIM_WRITE_CLEAN_UP, /* the deletion of an expired claim's Sandbox */
	CLAIM_WRITE_DELETE,   /* the deletion of the expired claim */
	CLAIM_WRITE_LEGACY_POLICY, /* the deletion of a policy that older controllers made */
	CLAIM_WRITE_MAX_,
};
_Static_assert(CLAIM_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* What keeps a claim from its Sandbox, in the order of §6.2. */
enum trouble_kind {
	TROUBLE_NONE,
	TROUBLE_TEMPLATE, /* not found */
	TROUBLE_POOL,     /* not found */
	TROUBLE_CONFLICT, /* others were faster, again and again */
	TROUBLE_LAG,      /* created, but not visible yet */
	TROUBLE_METADATA, /* refused permanently, as are the next two */
	TROUBLE_ENV,
	TROUBLE_NOT_OWNED, /* expired, and the recorded Sandbox belongs to another owner */
	TROUBLE_VCT,
	TROUBLE_OTHER,
};
struct trouble {
	enum trouble_kind kind;
	struct err *e; /* its text is the message, or part of it */
};
void trouble_done(struct trouble *t);

/* Observing */

/* Everything that a decision depends on. It owns all references; what does not exist is NULL. */
struct claim_seen {
	struct object *claim;
	struct object *pool, *template;
	struct object *by_status, *assigned, *by_owner, *by_name; /* Sandboxes */
	struct object *legacy_policy;
	enum pick pick;             /* what the pool's roster has for it */
	struct object *member;      /* with PICK_MEMBER */
	struct err *bad_metadata;   /* why its metadata is refused */
	struct err *adopt_e;        /* why the last adoption failed; NULL: it did not */
	struct err *create_e;       /* the same for a create */
	const struct err *follow_e; /* these two rest in this pass if they failed in the last */
	const struct err *unassign_e;
	unsigned conflicts; /* adoptions in a row that were lost to others, the last not counted */
	uint64_t grace_ms;  /* how long members without an address are worth waiting for */
	usec now;
};
/* A claim that was called does without the member: the next in line may have it. */
void claim_pass_on(struct context *c, const struct object *claim);
/* False when there is no such claim. seen must be zero before, and be passed to claim_seen_done()
 * in any case. */
bool claim_observe(struct pass *p, struct claim_seen *seen);
void claim_seen_done(struct claim_seen *seen);

/* Deciding */

enum claim_step {
	CLAIM_STEP_NONE,     /* it is being deleted */
	CLAIM_STEP_REPORT,   /* write the status */
	CLAIM_STEP_ADOPT,    /* patch member with doc */
	CLAIM_STEP_CREATE,   /* create doc */
	CLAIM_STEP_WAIT,     /* for a member to get an address, or for wait_ms */
	CLAIM_STEP_UNASSIGN, /* forget the assigned Sandbox, which is not available */
	CLAIM_STEP_FOLLOW,   /* patch sandbox with doc, if there is one; report */
	CLAIM_STEP_EXPIRE,   /* say that it has expired; the next pass does the rest */
	CLAIM_STEP_CLEAN_UP, /* delete sandbox */
	CLAIM_STEP_DELETE,   /* delete the claim */
};
struct claim_plan {
	enum claim_step step;
	struct object *sandbox; /* the claim's own, borrowed; NULL: it has none */
	struct object *member;  /* to be adopted, borrowed */
	struct json_doc *doc;
	struct trouble trouble;
	uint64_t wait_ms;
	unsigned conflicts; /* to be remembered */
	bool expired;
	bool drop_policy; /* delete the legacy policy, whatever the step is */
};
struct claim_plan claim_decide(const struct claim_seen *seen);
void claim_plan_done(struct claim_plan *plan);

/* Which of the Sandboxes a claim has (§6.7 b to d). */
enum find {
	FIND_USE,       /* it has *ret */
	FIND_COMPLETE,  /* it was assigned *ret, which still belongs to the pool */
	FIND_FORGET,    /* the Sandbox that it was assigned is not available */
	FIND_NAME_USED, /* a Sandbox of its name has another owner */
	FIND_NEW,
};
enum find claim_find(const struct claim_seen *seen, struct object **ret);
/* The Sandbox is a member that the claim may take. */
bool member_fits_claim(const struct object *sandbox, const struct object *claim);

/* Acting */

/* Starts the writes of the plan, whose doc it takes over. */
void claim_act(struct pass *p, const struct claim_seen *seen, struct claim_plan *plan);
/* Has the mark counted once the write has worked. */
struct tally_mark;
void claim_counts(struct write *w, struct tally_mark *mark);
/* An Event about the claim; NULL when they are switched off. */
struct json_doc *claim_event(struct pass *p, const struct object *claim, const char *reason,
			     const char *action, const char *note);

/* Policy (§6.4 to §6.6) */

/* additionalPodMetadata by itself; domains are those whose labels a claim may set. */
struct err *claim_check_metadata(const struct object *claim, const char *const *domains);
/* Adds it to labels and annotations; a key with another value is an error. */
struct err *claim_merge_metadata(struct json_doc *d, struct json *metadata,
				 const struct object *claim);
/* The volumeClaimTemplates of template and claim together. */
struct err *claim_merge_vcts(struct json_doc *d, const struct object *template,
			     const struct object *claim, struct json **ret);
/* Puts spec.env into the containers. ERR_FORBIDDEN: the template's policy says no. */
struct err *claim_inject_env(struct json_doc *d, struct json *pod_spec,
			     const struct object *template, const struct object *claim);

/* Building (§6.7 h, §6.8, §6.10) */

/* podTemplate.metadata as the claim wants it. */
struct err *claim_pod_metadata(struct json_doc *d, const struct object *claim,
			       const struct object *template, struct json **ret);
struct trouble claim_build_cold(const struct object *claim, const struct object *template,
				struct json_doc **ret);
/* The guarded patch that makes the Sandbox the claim's, its status included. template NULL: cannot
 * be read. */
struct err *claim_build_adoption(const struct object *claim, const struct object *sandbox,
				 const struct object *template, struct json_doc **ret);
/* What a Sandbox that is the claim's needs to follow claim and template; *ret NULL: nothing. */
struct err *claim_build_sync(const struct object *claim, const struct object *sandbox,
			     const struct object *template, struct json_doc **ret);
/* The patch that removes the assigned Sandbox's name from a claim. */
struct json_doc *claim_build_unassign(void);

/* Status (§6.2) */

struct claim_facts {
	const struct object *claim;
	const struct object *sandbox; /* NULL: it has none */
	const struct trouble *trouble;
	bool expired;
	usec now;
};
struct json_doc *claim_status(const struct claim_facts *f);
void claim_mark_expired(struct json_doc *status, const struct object *claim, usec now);
/* The guarded merge patch for /status; NULL when it is as it should be. */
struct json_doc *claim_status_patch(const struct object *claim, const struct json *want);

/* Annotations that go with the status. */
struct claim_stamps {
	const struct object *claim, *sandbox; /* sandbox may be NULL */
	usec first_seen, ready_at;            /* ready_at 0: not known */
	bool ready;                           /* it is Ready with this write, if not before */
	bool observability;
	const char *trace; /* the annotation that the claim lacks; NULL: it lacks none */
};
/* The patch of the whole claim: the status that it should have, with its guards, and the
 * annotations that are missing; NULL when all is as it should be. */
struct json_doc *claim_report(const struct json *want, const struct claim_stamps *s);
