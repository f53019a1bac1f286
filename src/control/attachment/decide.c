/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "control/agent/wall.h"
#include "control/attachment/attachment_priv.h"

/*
 * Whether an attachment holds. What it once had and has lost ends it; what it has never had it
 * waits for, so that objects may be made in any order.
 */
#define NO_SESSION "SessionNotFound"
#define NO_SANDBOX "SandboxNotFound"

static struct attachment_plan fail(const char *reason, char *message)
{
	return (struct attachment_plan){ .reason = reason, .message = message };
}

/* Its status tells that there was a Sandbox: reasons that come after that one are given only then.
 */
static bool had_sandbox(const struct attachment_view *v)
{
	return !str_empty(v->ready.reason) && !str_eq(v->ready.reason, NO_SESSION) &&
	       !str_eq(v->ready.reason, NO_SANDBOX);
}

static struct attachment_plan decide_sandbox(const struct attachment_seen *s)
{
	struct attachment_plan plan =
		fail(NO_SANDBOX, xasprintf("There is no Sandbox %s", s->v->sandbox));

	if (had_sandbox(s->v))
		plan.step = ATTACHMENT_STEP_DELETE;
	return plan;
}

static struct attachment_plan decide_rights(const struct attachment_seen *s)
{
	char *wall = wall_refuses(s->agent, s->caps, s->policy, s->class);

	if (wall)
		return fail(WALL_REASON, wall);
	if (!(s->v->rights & s->caps->rights))
		return fail("NoRights", xasprintf("Agent %s may have none of the rights that the "
						  "attachment asks for",
						  s->session->agent));
	return (struct attachment_plan){
		.ready = true,
		.reason = "Attached",
		.message = xasprintf("Sandbox %s is attached", s->v->sandbox),
		.rights = s->v->rights & s->caps->rights,
	};
}

static bool is_over(const struct session_view *v)
{
	return v->ended || v->deleting || v->phase == SESSION_ENDED;
}

static struct attachment_plan decide(const struct attachment_seen *s)
{
	if (!s->session)
		return fail(NO_SESSION, xasprintf("There is no Session %s", s->v->session));
	if (!s->sandbox)
		return decide_sandbox(s);
	if (is_over(s->session))
		return fail("SessionEnded", xasprintf("Session %s has ended", s->v->session));
	if (s->sandbox->deleting)
		return fail("SandboxDeleting",
			    xasprintf("Sandbox %s is being deleted", s->v->sandbox));
	if (!s->agent)
		return fail("AgentNotFound",
			    xasprintf("There is no Agent %s, or a parent of it is missing",
				      s->session->agent));
	if (s->private_to)
		return fail("SandboxPrivate", xasprintf("Sandbox %s is that of Agent %s, which is "
							"Private",
							s->v->sandbox, s->private_to));
	if (s->shut)
		return fail("SandboxPrivate",
			    xasprintf("Sandbox %s is Private, and its owner is not the agent's",
				      s->v->sandbox));
	return decide_rights(s);
}

struct attachment_plan attachment_decide(const struct attachment_seen *s)
{
	struct attachment_plan plan;

	if (s->v->deleting)
		return (struct attachment_plan){ .step = ATTACHMENT_STEP_NONE };
	plan = decide(s);
	if (s->owned == OWNED_BY_ANOTHER)
		plan.step = ATTACHMENT_STEP_DELETE;
	else if (plan.step == ATTACHMENT_STEP_REPORT && s->session && s->owned == OWNED_NOT &&
		 !s->session->deleting)
		plan.step = ATTACHMENT_STEP_OWN;
	return plan;
}

void attachment_plan_done(struct attachment_plan *plan)
{
	free(plan->message);
}
