/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/budget.h"

#include "base/arena.h"
#include "base/str.h"
#include "gate/gate_priv.h"

/*
 * An agent whose budget is used up begins nothing new, and what it has begun ends if the budget
 * suspends. Which budgets count is part of its standing; whether one is used up stands in its
 * status, where its controller has written it. One that is named and does not exist counts as used
 * up for what is new, and ends nothing: there may be a mistake, or it is not known yet.
 */
bool budget_suspends(const struct object *o)
{
	const struct budget_view *v = o ? budget_view(o) : NULL;

	return v && !v->deleting && v->exceeded && v->on_exceeded == EXCEEDED_SUSPEND;
}

void standing_pays(struct standing *s, const char *budget)
{
	if (str_empty(budget))
		return;
	for (size_t i = 0; i < s->n_budgets; i++)
		if (str_eq(s->budgets[i], budget))
			return;
	s->budgets[s->n_budgets++] = arena_strdup(s->arena, budget);
}

static struct err *judge(struct gate *g, const char *ns, const char *name)
{
	autoptr(object) o = client_get(g->client, g->budget, ns, name);
	const struct budget_view *v = o ? budget_view(o) : NULL;

	if (!v || v->deleting)
		return err_new(ERR_FORBIDDEN,
			       "there is no budget %s, which the agent, a parent of it or the "
			       "team's policy names",
			       name);
	if (v->exceeded && v->on_exceeded != EXCEEDED_WARN)
		return err_new(ERR_FORBIDDEN, "budget %s is used up: %s", name, v->says);
	return NULL;
}

static struct err *standing_owes(struct gate *g, const char *ns, const struct standing *s)
{
	struct err *e = NULL;

	for (size_t i = 0; i < s->n_budgets && !e; i++)
		e = judge(g, ns, s->budgets[i]);
	return e;
}

bool standing_is_suspended(struct gate *g, const char *ns, const struct standing *s)
{
	for (size_t i = 0; i < s->n_budgets; i++) {
		autoptr(object) o = client_get(g->client, g->budget, ns, s->budgets[i]);

		if (budget_suspends(o))
			return true;
	}
	return false;
}

struct err *standing_refuses(struct gate *g, const struct gate_ask *ask, const char *ns,
			     const struct standing *s)
{
	if (ask->begun ? !standing_is_suspended(g, ns, s)
		       : ask->door == GATE_TOOL && !tool_begins(ask->deed.tool))
		return NULL;
	return standing_owes(g, ns, s);
}
