/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"

/*
 * The policy of claims (docs/reference/agent-sandbox.md §6.3, §6.7 to §6.9). All of it is pure: the
 * same observations give the same plan.
 */
#define CONFLICTS_MOST 5
#define MEMBER_WAIT_MS 500

void claim_plan_done(struct claim_plan *plan)
{
	json_doc_free(plan->doc);
	trouble_done(&plan->trouble);
}

/* Finding */

bool member_fits_claim(const struct object *sandbox, const struct object *claim)
{
	const struct sandbox_view *v = sandbox_view(sandbox);

	return !v->deleting && str_eq(sandbox->ns, claim->ns) && v->adoptable && v->in_pool &&
	       str_eq(v->owner.name, claim_view(claim)->pool);
}

static bool owns(const struct claim_seen *seen, const struct object *sandbox)
{
	return sandbox && object_controlled_by(sandbox, seen->claim->uid);
}

enum find claim_find(const struct claim_seen *seen, struct object **ret)
{
	struct object *const mine[] = { seen->by_status, seen->assigned, seen->by_owner,
					seen->by_name };

	for (size_t i = 0; i < ARRAY_LEN(mine); i++)
		if (owns(seen, mine[i])) {
			*ret = mine[i];
			return FIND_USE;
		}
	if (seen->assigned && member_fits_claim(seen->assigned, seen->claim)) {
		*ret = seen->assigned;
		return FIND_COMPLETE;
	}
	if (claim_view(seen->claim)->assigned)
		return FIND_FORGET;
	return seen->by_name ? FIND_NAME_USED : FIND_NEW;
}

/* The Sandbox that the status names, or else one of the claim's name. */
static struct object *recorded(const struct claim_seen *seen)
{
	return str_empty(claim_view(seen->claim)->sandbox) ? seen->by_name : seen->by_status;
}

/* Deciding */

static void fail(struct claim_plan *plan, enum trouble_kind kind, struct err *e)
{
	json_doc_free(take(plan->doc));
	plan->step = CLAIM_STEP_REPORT;
	plan->trouble = (struct trouble){ kind, e };
}

static struct err *pool_missing(const struct claim_seen *seen)
{
	return err_new(ERR_NOT_FOUND, "SandboxWarmPool \"%s\" not found",
		       claim_view(seen->claim)->pool);
}

static void decide_expired(const struct claim_seen *seen, struct claim_plan *plan)
{
	const struct claim_view *claim = claim_view(seen->claim);
	struct object *sandbox = recorded(seen);

	if (!claim_says_expired(claim)) {
		plan->step = CLAIM_STEP_EXPIRE;
		return;
	}
	plan->expired = true;
	plan->step = CLAIM_STEP_REPORT;
	if (claim->on_shutdown != CLAIM_RETAIN) {
		plan->step = CLAIM_STEP_DELETE;
	} else if (owns(seen, sandbox)) {
		plan->sandbox = sandbox;
		if (!object_deleting(sandbox))
			plan->step = CLAIM_STEP_CLEAN_UP;
	} else if (sandbox) {
		fail(plan, TROUBLE_NOT_OWNED,
		     err_new(ERR_CONFLICT,
			     "sandbox not owned by this claim: sandbox \"%s\" is not owned by "
			     "claim \"%s\"",
			     sandbox->name, seen->claim->name));
	}
}

/* Metadata that is refused changes nothing about the Sandbox that the claim may have. */
static void decide_refused(const struct claim_seen *seen, struct claim_plan *plan)
{
	struct object *sandbox = recorded(seen);

	plan->sandbox = owns(seen, sandbox) ? sandbox : NULL;
	fail(plan, TROUBLE_METADATA, err_copy(seen->bad_metadata));
}

/* The claim has its Sandbox, which follows claim and template. */
static void decide_follow(const struct claim_seen *seen, struct claim_plan *plan,
			  struct object *sandbox)
{
	struct err *e;

	plan->step = CLAIM_STEP_FOLLOW;
	plan->sandbox = sandbox;
	plan->conflicts = 0;
	if (!seen->template && claim_view(seen->claim)->has_metadata) {
		if (!seen->pool)
			fail(plan, TROUBLE_POOL, pool_missing(seen));
		else
			fail(plan, TROUBLE_TEMPLATE,
			     err_new(ERR_NOT_FOUND,
				     "failed to get template for metadata propagation: "
				     "SandboxTemplate \"%s\" not found",
				     pool_view(seen->pool)->template));
		return;
	}
	e = claim_build_sync(seen->claim, sandbox, seen->template, &plan->doc);
	if (e)
		fail(plan, TROUBLE_OTHER, e);
	else if (plan->doc && seen->follow_e)
		fail(plan, TROUBLE_OTHER, err_copy(seen->follow_e));
}

static void decide_unassign(const struct claim_seen *seen, struct claim_plan *plan)
{
	plan->step = CLAIM_STEP_UNASSIGN;
	plan->doc = claim_build_unassign();
	if (seen->unassign_e)
		fail(plan, TROUBLE_OTHER, err_copy(seen->unassign_e));
}

/* Losing a member to another claim is fine, unless it happens too many times in a row. */
static void judge_lost(const struct claim_seen *seen, struct claim_plan *plan)
{
	if (++plan->conflicts < CONFLICTS_MOST)
		return; /* the next member, at once */
	plan->conflicts = 0;
	fail(plan, TROUBLE_CONFLICT,
	     err_new(ERR_CONFLICT,
		     "adoption write conflict: cannot take a member of SandboxWarmPool "
		     "\"%s\" (conflicting concurrent write); the next pass retries "
		     "from a converged view",
		     claim_view(seen->claim)->pool));
}

/* What the last pass's adoption or create came to. */
static void judge_last(const struct claim_seen *seen, struct claim_plan *plan)
{
	const struct err *e = seen->adopt_e;

	if (err_is(e, ERR_CONFLICT) || err_is(e, ERR_NOT_FOUND))
		judge_lost(seen, plan);
	else if (e)
		fail(plan, TROUBLE_OTHER, err_copy(e));
	else if (err_is(seen->create_e, ERR_EXISTS))
		fail(plan, TROUBLE_LAG,
		     err_new(ERR_EXISTS, "Sandbox already created; waiting for cache to converge"));
	else if (seen->create_e)
		fail(plan, TROUBLE_OTHER, err_copy(seen->create_e));
}

static void decide_adopt(const struct claim_seen *seen, struct claim_plan *plan,
			 struct object *member)
{
	struct err *e = claim_build_adoption(seen->claim, member, seen->template, &plan->doc);

	plan->step = CLAIM_STEP_ADOPT;
	plan->member = member;
	if (e)
		fail(plan, TROUBLE_OTHER, e);
}

static void decide_create(const struct claim_seen *seen, struct claim_plan *plan)
{
	struct trouble t;

	if (!seen->template) {
		fail(plan, TROUBLE_TEMPLATE,
		     err_new(ERR_NOT_FOUND, "SandboxTemplate \"%s\" not found",
			     pool_view(seen->pool)->template));
		return;
	}
	plan->step = CLAIM_STEP_CREATE;
	t = claim_build_cold(seen->claim, seen->template, &plan->doc);
	if (t.kind != TROUBLE_NONE)
		fail(plan, t.kind, t.e);
}

/* Warm if it may be, after a short wait if members are about to get their addresses; else cold. */
static void decide_new(const struct claim_seen *seen, struct claim_plan *plan)
{
	usec until = claim_view(seen->claim)->created + (usec)seen->grace_ms * 1000;

	if (!seen->pool && !seen->template) {
		fail(plan, TROUBLE_POOL, pool_missing(seen));
	} else if (seen->pick == PICK_MEMBER) {
		decide_adopt(seen, plan, seen->member);
	} else if (seen->pick == PICK_PENDING && until > seen->now) {
		plan->step = CLAIM_STEP_WAIT;
		plan->wait_ms =
			MIN((uint64_t)(until - seen->now + 999) / 1000, (uint64_t)MEMBER_WAIT_MS);
	} else {
		decide_create(seen, plan);
	}
}

static void decide_living(const struct claim_seen *seen, struct claim_plan *plan)
{
	struct object *found = NULL;
	enum find how = claim_find(seen, &found);

	if (how == FIND_USE || how == FIND_FORGET) {
		if (found)
			decide_follow(seen, plan, found); /* despite the trouble: it has one */
		else
			decide_unassign(seen, plan);
		return;
	}
	judge_last(seen, plan);
	if (how == FIND_NAME_USED) {
		trouble_done(&plan->trouble);
		fail(plan, TROUBLE_OTHER,
		     err_new(ERR_EXISTS,
			     "sandbox \"%s\" is not controlled by claim \"%s\". Please use a "
			     "different claim name or delete the sandbox manually",
			     seen->claim->name, seen->claim->name));
	}
	if (plan->trouble.kind != TROUBLE_NONE)
		return;
	if (how == FIND_COMPLETE)
		decide_adopt(seen, plan, found);
	else
		decide_new(seen, plan);
}

/* Older controllers made a policy for each claim; the template's is enough. */
static bool policy_is_legacy(const struct claim_seen *seen)
{
	const struct object *policy = seen->legacy_policy;

	return policy && !object_deleting(policy) &&
	       object_controlled_by(policy, seen->claim->uid) &&
	       owner_view_of(policy).type == OWNER_CLAIM;
}

struct claim_plan claim_decide(const struct claim_seen *seen)
{
	const struct claim_view *claim = claim_view(seen->claim);
	struct claim_plan plan = { .step = CLAIM_STEP_NONE,
				   .conflicts = seen->conflicts,
				   .drop_policy = policy_is_legacy(seen) };
	usec ends = claim_expires_at(claim, &claim->finished);

	if (claim->deleting)
		return plan;
	if (ends && ends <= seen->now)
		decide_expired(seen, &plan);
	else if (seen->bad_metadata)
		decide_refused(seen, &plan);
	else
		decide_living(seen, &plan);
	return plan;
}
