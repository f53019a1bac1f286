/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/capability.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/agent/wall.h"
#include "control/budget/under.h"
#include "control/session/session_priv.h"

/*
 * What becomes of a session: pure, and one step at a time. Each step repairs one difference between
 * what there is and what there should be, so a pass after a crash continues where the last one
 * stopped.
 *
 * At the end the order is what keeps anything from being left without a clock: first the time of
 * the end is written down, then the claim gets its clock, and only then is the sandbox detached and
 * suspended and the session let go.
 */
enum {
	FULL_RECHECK_MS = 10 * 1000,
};
#define SECOND         ((usec)1000000)
#define RETAIN_DEFAULT (24 * 3600 * SECOND)

/* What can be written on a claim and read again: whole seconds, and a time with a year of four
 * digits. */
#define RETAIN_LONGEST (INT32_MAX * SECOND)

enum target session_target(const struct session_view *v, const struct agent_view *agent)
{
	if (str_eq(v->sandbox, SANDBOX_NONE))
		return TARGET_WITHOUT;
	if (str_eq(v->sandbox, SANDBOX_NEW))
		return TARGET_OWN;
	if (!str_empty(v->sandbox))
		return TARGET_NAMED;
	switch (agent->mode) {
	case MODE_FRESH_PER_SESSION:
		return TARGET_OWN;
	case MODE_USER_CHOOSES:
		return TARGET_UNDECIDED;
	case MODE_SHARED:
		return TARGET_SHARED;
	case MODE_PER_AGENT:
		return TARGET_AGENT;
	case MODE_MAX_:
		break;
	}
	return TARGET_UNDECIDED;
}

usec session_retain(const struct session_view *v, const struct agent_view *agent,
		    const struct team_policy_view *policy, usec known)
{
	usec retain = v->retain;

	if (retain < 0)
		retain = agent ? agent->retain : known;
	if (retain < 0)
		retain = RETAIN_DEFAULT;
	retain = MIN(retain, RETAIN_LONGEST) / SECOND * SECOND;
	return policy && policy->retain_max ? MIN(retain, policy->retain_max) : retain;
}

static void say(struct session_plan *plan, enum session_phase phase, const char *reason,
		char *message)
{
	plan->step = SESSION_STEP_REPORT;
	plan->phase = phase;
	plan->reason = reason;
	free(plan->message);
	plan->message = message;
}

/* Ending */

static bool had_agent(const struct session_seen *s)
{
	return !str_empty(s->reason) && !str_eq(s->reason, "AgentNotFound");
}

/* Why it is over; NULL: it is not. What its agent's deletion has ended stays so, even if there is
 * an agent of that name again, until its user ends it too and takes that back. */
static const char *over(const struct session_seen *s)
{
	if (s->v->ended || s->v->deleting)
		return "Ended";
	if (s->v->phase == SESSION_ENDED && str_eq(s->reason, "AgentDeleted"))
		return "AgentDeleted";
	return !s->agent && had_agent(s) ? "AgentDeleted" : NULL;
}

static bool is_put_away(const struct session_seen *s)
{
	return s->own.v && !s->own.v->deleting && s->own_retain >= 0;
}

static char *last_words(const struct session_seen *s, const char *why)
{
	const char *who =
		str_eq(why, "AgentDeleted") ? "The agent was deleted" : "The session ended";

	if (is_put_away(s))
		return xasprintf("%s; SandboxClaim %s keeps its sandbox until deleteAt", who,
				 s->own.name);
	return xstrdup(who);
}

static void decide_end(const struct session_seen *s, const char *why, struct session_plan *plan)
{
	const struct claim_seen_by *own = &s->own;

	say(plan, SESSION_ENDED, why, last_words(s, why));
	plan->ended_at = s->v->ended_at ? s->v->ended_at : s->now / SECOND * SECOND;
	if (is_put_away(s))
		plan->delete_at = (plan->ended_at +
				   session_retain(s->v, s->agent, s->policy, s->own_retain)) /
				  SECOND * SECOND;
	if (!s->v->ended_at)
		plan->step = SESSION_STEP_STAMP;
	else if (is_put_away(s) &&
		 (own->v->shutdown_at != plan->delete_at || own->v->on_shutdown != CLAIM_DELETE))
		plan->step = SESSION_STEP_CLOCK;
	else if (s->attachment && !s->attachment->deleting)
		plan->step = SESSION_STEP_DETACH;
	else if (is_put_away(s) && own->sandbox && !own->sandbox->deleting && !s->own_shared &&
		 (!own->sandbox->suspended || own->asleep))
		plan->step = SESSION_STEP_SUSPEND;
	else if (s->v->deleting)
		plan->step = s->finalizer ? SESSION_STEP_RELEASE : SESSION_STEP_NONE;
}

/* Open */

/* It cannot have its sandbox: what it has of one is taken away. Takes message over. */
static void refuse(const struct session_seen *s, struct session_plan *plan, const char *reason,
		   char *message)
{
	say(plan, SESSION_PENDING, reason, message);
	plan->sandbox = NULL;
	if (s->attachment && !s->attachment->deleting)
		plan->step = SESSION_STEP_DETACH;
}

static void decide_attach(const struct session_seen *s, struct session_plan *plan,
			  const char *sandbox)
{
	char *why = wall_refuses(s->agent, s->caps, s->policy, s->class);

	if (why) {
		refuse(s, plan, WALL_REASON, why);
		return;
	}
	plan->sandbox = sandbox;
	if (s->attachment_taken) {
		say(plan, SESSION_PENDING, "AttachmentNameTaken",
		    xstrdup("An Attachment of the session's name belongs to somebody else"));
		return;
	}
	if (!s->attachment) {
		say(plan, SESSION_PENDING, "Attaching",
		    xasprintf("Sandbox %s is being attached", sandbox));
		plan->step = SESSION_STEP_ATTACH;
		return;
	}
	if (s->attachment->deleting || !str_eq(s->attachment->sandbox, sandbox)) {
		say(plan, SESSION_PENDING, "Detaching",
		    xasprintf("Sandbox %s is being detached first", s->attachment->sandbox));
		if (!s->attachment->deleting)
			plan->step = SESSION_STEP_DETACH;
		return;
	}
	if (!s->attachment->ready.is_true) { /* nobody gets in by it: say its reason */
		say(plan, SESSION_PENDING, "Attaching",
		    s->attachment->ready.message
			    ? xstrdup(s->attachment->ready.message)
			    : xasprintf("Sandbox %s is being attached", sandbox));
		return;
	}
	say(plan, SESSION_ACTIVE, "Attached", xasprintf("Sandbox %s is attached", sandbox));
}

/* Why there can be no claim; NULL: there can. */
static char *claim_refused(const struct session_seen *s, const struct session_plan *plan,
			   const char **ret_reason)
{
	const char *pool = s->agent->pool;

	*ret_reason = "NoPool";
	if (str_empty(pool))
		return xstrdup("The agent names no pool: spec.sandbox.warmPoolRef");
	*ret_reason = "PoolNotFound";
	if (!s->template)
		return xasprintf("There is no SandboxWarmPool %s", pool);
	*ret_reason = "TemplateNotFound";
	if (!s->template_class)
		return xasprintf("There is no SandboxTemplate %s, which SandboxWarmPool %s names",
				 s->template, pool);
	*ret_reason = "TemplatePrivate";
	if (s->template_shut)
		return xasprintf("SandboxTemplate %s is Private, and its owner is not the agent's",
				 s->template);
	*ret_reason = "TemplateNotAllowed";
	if (s->policy && s->policy->templates &&
	    !capabilities_list_has(s->policy->templates, s->template))
		return xasprintf("The team's policy does not allow SandboxTemplate %s",
				 s->template);
	*ret_reason = BUDGET_REASON;
	if (s->used_up)
		return xstrdup(s->used_up);
	*ret_reason = "MaxSandboxes";
	if (s->no_space)
		return xstrdup(s->no_space);
	if (plan->target != TARGET_SHARED && s->caps->max_sandboxes >= 0 &&
	    s->n_claims >= s->caps->max_sandboxes)
		return xasprintf("The agent may have %lld sandboxes at once, and has as many",
				 (long long)s->caps->max_sandboxes);
	*ret_reason = WALL_REASON;
	return wall_refuses(s->agent, s->caps, s->policy, s->template_class);
}

static void decide_claim(const struct session_seen *s, struct session_plan *plan)
{
	const char *reason;
	char *why = claim_refused(s, plan, &reason);

	if (why) {
		refuse(s, plan, reason, why);
		if (str_eq(reason, "MaxSandboxes"))
			plan->look_ms = FULL_RECHECK_MS; /* a creation under way may fail */
		return;
	}
	if (!s->claim.name) {
		refuse(s, plan, "ClaimNameTaken",
		       xstrdup("SandboxClaims of somebody else have the names that are meant for "
			       "this session"));
		return;
	}
	if (s->create_e) {
		refuse(s, plan, "ClaimRefused",
		       xasprintf("The SandboxClaim could not be made: %s", err_text(s->create_e)));
		if (err_is(s->create_e, ERR_INVALID))
			plan->phase = SESSION_FAILED;
		return;
	}
	say(plan, SESSION_PENDING, "Claiming",
	    xasprintf("SandboxClaim %s is being made", s->claim.name));
	plan->step = plan->retain >= 0 && !s->finalizer ? SESSION_STEP_GUARD : SESSION_STEP_CLAIM;
}

static void decide_wait(const struct session_seen *s, struct session_plan *plan)
{
	const struct condition_view *ready = &s->claim.v->ready;

	refuse(s, plan, str_or(ready->reason, "ClaimNotReady"),
	       xasprintf("SandboxClaim %s is not ready%s%s", s->claim.name,
			 str_empty(ready->message) ? "" : ": ", str_or(ready->message, "")));
}

/* The claim is there. Whatever the end has done to it is undone first. */
static void decide_claimed(const struct session_seen *s, struct session_plan *plan)
{
	const struct claim_seen_by *c = &s->claim;
	bool own = plan->target == TARGET_OWN, ended = s->v->ended_at;

	plan->ended_at = own ? s->v->ended_at : 0; /* until nothing is left of the end */
	if (c->v->deleting) {
		refuse(s, plan, "ClaimDeleting",
		       xasprintf("SandboxClaim %s is being deleted", c->name));
		return;
	}
	say(plan, SESSION_PENDING, "Claiming", xasprintf("SandboxClaim %s is there", c->name));
	if (plan->retain >= 0 && !s->finalizer) {
		plan->step = SESSION_STEP_GUARD;
		return;
	}
	if (own && ended && s->own_retain >= 0 && c->v->shutdown_at) {
		plan->step = SESSION_STEP_CLOCK;
		return;
	}
	if (own && s->own_retain != plan->retain) {
		plan->step = SESSION_STEP_NOTE;
		return;
	}
	if (own && ended && c->sandbox && c->sandbox->suspended) {
		if (s->used_up)
			refuse(s, plan, BUDGET_REASON, xstrdup(s->used_up));
		else
			plan->step = SESSION_STEP_RESUME;
		return;
	}
	if (c->sandbox)
		plan->ended_at = 0;
	if (!c->sandbox_name || !c->sandbox || c->sandbox->deleting ||
	    (!s->attachment && !c->v->ready.is_true && !c->sandbox->suspended)) {
		decide_wait(s, plan);
		return;
	}
	if (!c->labelled) {
		plan->step = SESSION_STEP_LABEL;
		return;
	}
	decide_attach(s, plan, c->sandbox_name);
}

static void decide_named(const struct session_seen *s, struct session_plan *plan)
{
	if (!s->named || s->named->deleting)
		refuse(s, plan, s->named ? "SandboxDeleting" : "SandboxNotFound",
		       xasprintf(s->named ? "Sandbox %s is being deleted"
					  : "There is no Sandbox %s",
				 s->v->sandbox));
	else
		decide_attach(s, plan, s->v->sandbox);
}

static void decide_without(const struct session_seen *s, struct session_plan *plan)
{
	refuse(s, plan, "WithoutSandbox", xstrdup("The session goes without a sandbox"));
	plan->phase = SESSION_ACTIVE;
}

static void decide_open(const struct session_seen *s, struct session_plan *plan)
{
	if (!s->agent) {
		refuse(s, plan, "AgentNotFound", xasprintf("There is no Agent %s", s->v->agent));
		return;
	}
	if (s->fault != CHAIN_WHOLE) {
		refuse(s, plan, "AgentNotReady",
		       xasprintf("A parent of Agent %s is missing, or there are too many; see its "
				 "status",
				 s->v->agent));
		return;
	}
	plan->target = session_target(s->v, s->agent);
	if (plan->target == TARGET_OWN && s->agent->mode == MODE_FRESH_PER_SESSION)
		plan->retain = session_retain(s->v, s->agent, NULL, -1);
	switch (plan->target) {
	case TARGET_UNDECIDED:
		refuse(s, plan, "NoSandboxChosen",
		       xstrdup("Name a Sandbox in spec.sandbox, or say new or none"));
		break;
	case TARGET_WITHOUT:
		decide_without(s, plan);
		break;
	case TARGET_NAMED:
		decide_named(s, plan);
		break;
	case TARGET_OWN:
	case TARGET_AGENT:
	case TARGET_SHARED:
		if (s->claim.v)
			decide_claimed(s, plan);
		else
			decide_claim(s, plan);
		break;
	}
}

struct session_plan session_decide(const struct session_seen *s)
{
	struct session_plan plan = { .retain = -1 };
	const char *why = over(s);

	plan.claim = s->own.v ? s->own.name : NULL;
	plan.budgeted = s->budgeted;
	plan.used_up = s->used_up;
	if (why)
		decide_end(s, why, &plan);
	else
		decide_open(s, &plan);
	return plan;
}

void session_plan_done(struct session_plan *plan)
{
	free(plan->message);
}
