/* SPDX-License-Identifier: Apache-2.0 */
#include "control/budget/under.h"

#include "api/cay/cay.h"
#include "api/cay/team.h"
#include "api/object.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/index/links.h"
#include "control/pass/context.h"

static void add(struct context *c, const char *ns, const char *name, struct budgets *b)
{
	struct object *o;

	if (str_empty(name) || budgets_has(b, name))
		return;
	o = client_get(c->client, c->kinds.budget, ns, name);
	if (o && !budget_view(o)->deleting) {
		b->of[b->n++] = o;
		return;
	}
	object_unref(o);
	if (!b->missing)
		b->missing = name;
}

struct finder {
	struct context *c;
	const char *ns;
};

static struct object *find_agent(void *arg, const char *name)
{
	const struct finder *f = arg;

	return client_get(f->c->client, f->c->kinds.agent, f->ns, name);
}

/* A chain that is broken grants nothing anyway. */
void budgets_of(struct context *c, const char *ns, const char *agent, struct budgets *ret)
{
	struct finder f = { c, ns };

	*ret = (struct budgets){ 0 };
	if (!str_empty(agent))
		agent_chain_follow(agent, find_agent, &f, &ret->chain);
	for (size_t i = 0; i < ret->chain.n; i++)
		add(c, ns, agent_view(ret->chain.agents[i])->budget, ret);
	ret->policy = client_get(c->client, c->kinds.team_policy, ns, TEAM_POLICY);
	if (ret->policy)
		add(c, ns, team_policy_view(ret->policy)->budget, ret);
}

void budgets_done(struct budgets *b)
{
	for (size_t i = 0; i < b->n; i++)
		object_unref(b->of[i]);
	for (size_t i = 0; i < b->chain.n; i++)
		object_unref(b->chain.agents[i]);
	object_unref(b->policy);
}

bool budgets_has(const struct budgets *b, const char *name)
{
	for (size_t i = 0; i < b->n; i++)
		if (str_eq(b->of[i]->name, name))
			return true;
	return false;
}

char *budgets_refuse(const struct budgets *b)
{
	if (b->missing)
		return xasprintf("There is no Budget %s, which the agent, a parent of it or the "
				 "team's policy names",
				 b->missing);
	for (size_t i = 0; i < b->n; i++) {
		const struct budget_view *v = budget_view(b->of[i]);

		if (v->exceeded && v->on_exceeded != EXCEEDED_WARN)
			return xasprintf("Budget %s is used up: %s", b->of[i]->name, v->says);
	}
	return NULL;
}

struct tally_up {
	struct context *c;
	const char *budget;
	int64_t n;
};

static bool add_claims(void *arg, struct object *agent)
{
	struct tally_up *t = arg;
	struct budgets b;
	char label[LINK_LABEL_MAX];

	budgets_of(t->c, agent->ns, agent->name, &b);
	if (budgets_has(&b, t->budget)) {
		link_label(agent->name, label);
		t->n += (int64_t)links_count(t->c->links, LINK_AGENT_CLAIMS, agent->ns, label);
	}
	budgets_done(&b);
	return true;
}

char *budgets_full(struct context *c, const char *ns, const struct budgets *b, int64_t creating)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct budget_view *v = budget_view(b->of[i]);
		struct tally_up t = { .c = c, .budget = b->of[i]->name, .n = creating };

		if (v->max_sandboxes < 0 || v->on_exceeded == EXCEEDED_WARN)
			continue;
		client_each(c->client, c->kinds.agent, ns, add_claims, &t);
		if (t.n >= v->max_sandboxes)
			return xasprintf("Budget %s allows %lld sandboxes at once, and there are "
					 "as many",
					 b->of[i]->name, (long long)v->max_sandboxes);
	}
	return NULL;
}
