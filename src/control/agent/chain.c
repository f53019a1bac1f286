/* SPDX-License-Identifier: Apache-2.0 */
#include "control/agent/chain.h"

#include "api/cay/cay.h"
#include "api/cay/team.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"
#include "client/client.h"
#include "control/pass/context.h"

void chain_nothing(struct capabilities *ret)
{
	static const char *const none[] = { NULL };

	*ret = (struct capabilities){ .credentials = none, .tools = none, .runtime_classes = none };
}

void chain_meet(const struct agent_view *const *agents, size_t n,
		const struct team_policy_view *policy, struct arena *a, struct capabilities *ret)
{
	struct capabilities both, so_far = agents[0]->capabilities;

	for (size_t i = 1; i < n; i++) {
		capabilities_meet(&so_far, &agents[i]->capabilities, a, &both);
		so_far = both;
	}
	if (policy && policy->has_capabilities) {
		capabilities_meet(&so_far, &policy->capabilities, a, &both);
		so_far = both;
	}
	*ret = so_far;
}

const struct agent_view *chain_agent(const struct chain *ch)
{
	return ch->n ? agent_view(ch->agents[0]) : NULL;
}

const struct team_policy_view *chain_policy(const struct chain *ch)
{
	return ch->policy ? team_policy_view(ch->policy) : NULL;
}

struct finder {
	struct context *context;
	const char *ns;
};

static struct object *find_agent(void *arg, const char *name)
{
	const struct finder *f = arg;

	return client_get(f->context->client, f->context->kinds.agent, f->ns, name);
}

static void follow(struct context *c, const char *ns, const char *name, struct chain *ch)
{
	struct agent_chain found;

	agent_chain_follow(name, find_agent, &(struct finder){ c, ns }, &found);
	for (size_t i = 0; i < found.n; i++)
		ch->agents[i] = found.agents[i];
	ch->n = found.n;
	ch->fault = found.fault;
	ch->missing = found.broken_at;
}

bool chain_load(struct context *c, const char *ns, const char *agent, struct chain *ret)
{
	const struct agent_view *views[AGENT_PARENTS_MAX + 1];

	ret->arena = arena_new();
	ret->policy = client_get(c->client, c->kinds.team_policy, ns, TEAM_POLICY);
	follow(c, ns, agent, ret);
	for (size_t i = 0; i < ret->n; i++)
		views[i] = agent_view(ret->agents[i]);
	if (ret->n && ret->fault == CHAIN_WHOLE)
		chain_meet(views, ret->n, chain_policy(ret), ret->arena, &ret->caps);
	else
		chain_nothing(&ret->caps);
	return ret->n;
}

void chain_done(struct chain *ch)
{
	for (size_t i = 0; i < ch->n; i++)
		object_unref(ch->agents[i]);
	object_unref(ch->policy);
	arena_free(ch->arena);
}
