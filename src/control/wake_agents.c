/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/agents.h"
#include "api/cay/agent.h"
#include "api/cay/budget.h"
#include "api/cay/cay.h"
#include "api/cay/session.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "control/control_priv.h"
#include "control/cost/cost.h"
#include "control/index/links.h"
#include "control/pass/item.h"
#include "control/pass/pass.h"
#include "control/session/session.h"

/*
 * Which keys a change of, or around, an object of cay.dev wakes. Agents have time: what they may do
 * is computed at each use, and their status only repeats it.
 */
static void wake(struct control *c, enum control_kind kind, const struct object *o)
{
	item_wake(kind == CONTROL_AGENT ? c->ctx.chores : c->ctx.queue, kind, o->ns, o->name);
}

static void wake_all(struct control *c, enum control_kind kind, const struct map *objects)
{
	map_each(it, objects)
		wake(c, kind, it.value);
}

static void wake_link(struct control *c, enum control_kind kind, enum link which, const char *ns,
		      const char *name)
{
	if (!str_empty(name))
		wake_all(c, kind, links_of(c->ctx.links, which, ns, name));
}

static void wake_session_itself(struct control *c, const char *ns, const char *name)
{
	item_wake(c->ctx.queue, CONTROL_SESSION, ns, name);
}

static bool wake_budget(void *arg, struct object *o)
{
	struct control *c = arg;

	item_wake(c->ctx.chores, CONTROL_BUDGET, o->ns, o->name);
	return true;
}

static void wake_budgets(struct control *c, const char *ns)
{
	client_each(c->ctx.client, c->ctx.kinds.budget, ns, wake_budget, c);
}

/* Sessions of the agent and their attachments. waiting: only sessions that have no sandbox. */
static void wake_sessions_of(struct control *c, const char *ns, const char *agent, bool waiting)
{
	map_each(it, links_of(c->ctx.links, LINK_AGENT_SESSIONS, ns, agent)) {
		const struct object *session = it.value;
		enum session_phase phase = session_view(session)->phase;

		if (waiting && (phase == SESSION_ACTIVE || phase == SESSION_ENDED))
			continue;
		wake(c, CONTROL_SESSION, session);
		if (!waiting)
			wake_link(c, CONTROL_ATTACHMENT, LINK_SESSION_ATTACHMENTS, ns,
				  session->name);
	}
}

/* The agent, those below it, and all that depends on what they may do. */
static void wake_family(struct control *c, const char *ns, const char *agent, unsigned depth)
{
	item_wake(c->ctx.chores, CONTROL_AGENT, ns, agent);
	wake_sessions_of(c, ns, agent, false);
	if (depth == AGENT_PARENTS_MAX)
		return; /* whoever is further down has too many parents, or is in a circle */
	map_each(it, links_of(c->ctx.links, LINK_CHILDREN, ns, agent))
		wake_family(c, ns, ((const struct object *)it.value)->name, depth + 1);
}

static bool wake_agent_of_team(void *arg, struct object *agent)
{
	struct control *c = arg;

	wake(c, CONTROL_AGENT, agent);
	wake_sessions_of(c, agent->ns, agent->name, false);
	return true;
}

/* Also the budgets: others may count against them now. */
static void wake_team(struct control *c, const char *ns)
{
	client_each(c->ctx.client, c->ctx.kinds.agent, ns, wake_agent_of_team, c);
	wake_budgets(c, ns);
}

void team_policy_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	const struct object *any = now ? now : was;

	assert(any);
	if (str_eq(any->name, TEAM_POLICY) &&
	    (!was || !now || object_generation(was) != object_generation(now)))
		wake_team(c, any->ns);
}

/* Whoever has attached the agent's sandboxes: it may want to keep them to itself. */
static void wake_guests(struct control *c, const struct object *agent)
{
	char label[LINK_LABEL_MAX];

	link_label(agent->name, label);
	map_each(it, links_of(c->ctx.links, LINK_AGENT_CLAIMS, agent->ns, label))
		wake_link(c, CONTROL_ATTACHMENT, LINK_SANDBOX_ATTACHMENTS, agent->ns,
			  claim_view(it.value)->sandbox);
}

/* Its status and other metadata concern nobody. */
void agent_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	const struct object *any = now ? now : was;

	assert(any);
	links_agent(c->ctx.links, was, now);
	if (!was || !now || !str_eq(was->uid, now->uid) ||
	    agent_view(was)->generation != agent_view(now)->generation ||
	    agent_view(was)->deleting != agent_view(now)->deleting) {
		wake_family(c, any->ns, any->name, 0);
		wake_budgets(c, any->ns);
	}
	if (!was || !now || agent_view(was)->visibility != agent_view(now)->visibility)
		wake_guests(c, any);
}

/* The session whose own claim has the Sandbox may be waiting for it to be left alone. */
static void wake_owner_of(struct control *c, const char *ns, const char *sandbox)
{
	autoptr(object) o = NULL;

	if (c->n_synced < c->n_watches)
		return; /* everybody is awake */
	o = client_get(c->ctx.client, c->ctx.kinds.sandbox, ns, sandbox);
	if (o)
		wake_link(c, CONTROL_SESSION, LINK_LABEL_SESSIONS, ns,
			  object_label(o, KEY_SESSION));
}

/* Its attachments, and those who wait for it to leave their sandboxes alone. */
static void wake_attached(struct control *c, const struct object *session)
{
	map_each(it, links_of(c->ctx.links, LINK_SESSION_ATTACHMENTS, session->ns, session->name)) {
		wake(c, CONTROL_ATTACHMENT, it.value);
		wake_owner_of(c, session->ns, attachment_view(it.value)->sandbox);
	}
}

void session_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	const struct object *any = now ? now : was;

	assert(any);
	links_session(c->ctx.links, was, now);
	if (!was || !now || !pass_tells(&c->ctx, CONTROL_SESSION, now))
		wake(c, CONTROL_SESSION, any);
	if (!was || !now || !str_eq(was->uid, now->uid) ||
	    session_view(was)->phase != session_view(now)->phase ||
	    session_view(was)->ended != session_view(now)->ended ||
	    session_view(was)->deleting != session_view(now)->deleting)
		wake_attached(c, any);
}

void attachment_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	const struct object *any = now ? now : was;
	const struct attachment_view *v;

	assert(any);
	v = attachment_view(any);
	links_attachment(c->ctx.links, was, now);
	books_attachment_changed(c->books, was, now);
	if (!was || !now || !pass_tells(&c->ctx, CONTROL_ATTACHMENT, now))
		wake(c, CONTROL_ATTACHMENT, any);
	if (was && now && attachment_view(was)->deleting == v->deleting &&
	    attachment_view(was)->ready.is_true == v->ready.is_true)
		return;
	wake_session_itself(c, any->ns, v->session);
	wake_session_itself(c, any->ns, any->name); /* whose own it may be, or whose name it has */
	wake_owner_of(c, any->ns, v->sandbox);
}

void approval_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;

	links_approval(c->ctx.links, was, now);
	if (now)
		wake(c, CONTROL_APPROVAL, now);
}

/* Budgets */

static bool budget_stays(const struct object *was, const struct object *now)
{
	return was && now && str_eq(was->uid, now->uid) &&
	       budget_view(was)->exceeded == budget_view(now)->exceeded &&
	       budget_view(was)->deleting == budget_view(now)->deleting &&
	       budget_view(was)->generation == budget_view(now)->generation;
}

/* All agents of the team: few budgets change, and most are the team's. */
void budget_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	const struct object *any = now ? now : was;

	assert(any);
	if (!was || !now || !pass_tells(&c->ctx, CONTROL_BUDGET, now))
		item_wake(c->ctx.chores, CONTROL_BUDGET, any->ns, any->name);
	if (!budget_stays(was, now))
		wake_team(c, any->ns);
}

void ledger_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	const struct object *any = now ? now : was;

	assert(any);
	if (!was)
		item_wake(c->ctx.chores, CONTROL_LEDGER, any->ns, "");
	wake_budgets(c, any->ns);
}

/* Those that use, or wait for, what the claim gives. */
static void wake_users(struct control *c, const struct object *claim)
{
	const char *session = object_label(claim, KEY_SESSION), *agent;

	wake_link(c, CONTROL_SESSION, LINK_LABEL_SESSIONS, claim->ns, session);
	if (session)
		return;
	agent = object_label(claim, KEY_AGENT);
	if (agent)
		map_each(it, links_of(c->ctx.links, LINK_LABEL_AGENTS, claim->ns, agent))
			wake_sessions_of(c, claim->ns, ((const struct object *)it.value)->name,
					 false);
	if (str_eq(object_label(claim, KEY_SHARED), "true"))
		agents_pool_changed(c, claim->ns, claim_view(claim)->pool);
}

/* One claim less, or more, of an agent. */
static void count_changed(struct control *c, const struct object *claim)
{
	const char *agent = object_label(claim, KEY_AGENT);

	if (!agent)
		return;
	map_each(it, links_of(c->ctx.links, LINK_LABEL_AGENTS, claim->ns, agent)) {
		const struct object *o = it.value;

		wake(c, CONTROL_AGENT, o);
		wake_sessions_of(c, o->ns, o->name, true);
	}
}

void agents_claim_changed(struct control *c, struct object *was, struct object *now)
{
	const struct object *any = now ? now : was;

	assert(any);
	if (!c->ctx.opt.agents)
		return;
	links_claim(c->ctx.links, was, now);
	if (!was || !now)
		count_changed(c, any);
	if (links_idle(c->ctx.links))
		return;
	if (session_cares_claim(was, now))
		wake_users(c, any);
	/* A name that somebody else had may be free. */
	if (!now)
		wake_session_itself(c, any->ns, any->name);
}

/* Whether it runs, and whose it is. */
static bool budget_cares(const struct object *was, const struct object *now)
{
	return !was || sandbox_view(was)->suspended != sandbox_view(now)->suspended ||
	       !str_eq(object_label(was, KEY_AGENT), object_label(now, KEY_AGENT)) ||
	       !str_eq(object_annotation(was, KEY_ASLEEP_SINCE),
		       object_annotation(now, KEY_ASLEEP_SINCE));
}

void agents_sandbox_changed(struct control *c, const struct object *was, const struct object *now)
{
	const struct object *any = now ? now : was;

	assert(any);
	if (!c->ctx.opt.agents)
		return;
	books_sandbox_changed(c->books, was, now);
	if (now && object_label(now, KEY_AGENT) && budget_cares(was, now))
		wake_budgets(c, now->ns);
	if (links_idle(c->ctx.links) || !session_cares_sandbox(was, now))
		return;
	wake_link(c, CONTROL_SESSION, LINK_SANDBOX_SESSIONS, any->ns, any->name);
	wake_link(c, CONTROL_ATTACHMENT, LINK_SANDBOX_ATTACHMENTS, any->ns, any->name);
	if (sandbox_view(any)->owner.type == OWNER_CLAIM) {
		autoptr(object) claim = client_get(c->ctx.client, c->ctx.kinds.claim, any->ns,
						   sandbox_view(any)->owner.name);

		if (claim)
			wake_users(c, claim);
	}
}

/* Of the agents that name it, the sessions that have no sandbox yet. */
void agents_pool_changed(struct control *c, const char *ns, const char *pool)
{
	if (!c->ctx.opt.agents)
		return;
	map_each(it, links_of(c->ctx.links, LINK_POOL_AGENTS, ns, pool))
		wake_sessions_of(c, ns, ((const struct object *)it.value)->name, true);
}
