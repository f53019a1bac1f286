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

/* From the agent to its last parent. */
static void follow(struct context *c, const char *ns, const char *name, struct chain *ch)
{
	while (!str_empty(name)) {
		struct object *o = ch->n <= AGENT_PARENTS_MAX
					   ? client_get(c->client, c->kinds.agent, ns, name)
					   : NULL;

		if (!o) {
			ch->fault = ch->n > AGENT_PARENTS_MAX ? CHAIN_TOO_LONG : CHAIN_NO_PARENT;
			ch->missing = name;
			return;
		}
		ch->agents[ch->n++] = o;
		name = agent_view(o)->parent;
	}
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
