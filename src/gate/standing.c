/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/cay/team.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "gate/gate_priv.h"

/*
 * The standing of an agent: its capabilities met with those of each of its parents and with its
 * team's ceiling. It is computed when it is first asked for and kept until any agent or policy
 * changes, which is seldom compared with what is asked.
 */
static void standing_free(void *p)
{
	struct standing *s = p;

	for (size_t i = 0; i < s->n_chain; i++)
		object_unref(s->chain[i]);
	arena_free(s->arena);
	free(s);
}

void standings_forget(struct gate *g)
{
	map_free(g->standings);
	g->standings = map_new(standing_free);
}

static bool is_in(const struct standing *s, const char *name)
{
	for (size_t i = 0; i < s->n_chain; i++)
		if (str_eq(s->chain[i]->name, name))
			return true;
	return false;
}

/* A chain that cannot be followed to its end grants nothing. */
static void read_chain(struct gate *g, struct standing *s, struct object *agent)
{
	const char *parent;

	s->chain[s->n_chain++] = agent;
	for (;;) {
		agent = s->chain[s->n_chain - 1];
		parent = agent_view(agent)->parent;
		if (agent_view(agent)->deleting)
			s->broken = true;
		if (str_empty(parent) || s->broken)
			return;
		if (s->n_chain > AGENT_PARENTS_MAX || is_in(s, parent)) {
			s->broken = true;
			return;
		}
		agent = client_get(g->client, g->agent, agent->ns, parent);
		if (!agent) {
			s->broken = true;
			return;
		}
		s->chain[s->n_chain++] = agent;
	}
}

static void meet(struct standing *s, const struct capabilities *with)
{
	struct capabilities both;

	capabilities_meet(&s->capabilities, with, s->arena, &both);
	s->capabilities = both;
}

static void read_policy(struct gate *g, struct standing *s, const char *ns)
{
	autoptr(object) policy = client_get(g->client, g->policy, ns, TEAM_POLICY);
	const struct team_policy_view *v = policy ? team_policy_view(policy) : NULL;
	struct capabilities ceiling;

	if (!v)
		return;
	s->at_least = v->approval_default;
	if (!v->has_capabilities)
		return;
	/* The result outlives the policy's tree. */
	capabilities_read_ceiling(json_get(object_spec(policy), "capabilities"), s->arena,
				  &ceiling);
	meet(s, &ceiling);
}

static struct standing *standing_new(struct gate *g, struct object *agent)
{
	struct standing *s = xnew(struct standing);

	s->arena = arena_new();
	read_chain(g, s, agent);
	s->capabilities = agent_view(agent)->capabilities;
	for (size_t i = 1; i < s->n_chain; i++)
		meet(s, &agent_view(s->chain[i])->capabilities);
	read_policy(g, s, agent->ns);
	if (s->broken)
		s->capabilities.rights = 0;
	return s;
}

const struct standing *standing_of(struct gate *g, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s", ns, name);
	struct standing *s = map_get(g->standings, key);
	struct object *agent;

	if (s)
		return s;
	agent = client_get(g->client, g->agent, ns, name);
	if (!agent)
		return NULL;
	s = standing_new(g, agent);
	map_put(g->standings, key, s);
	return s;
}

enum verdict standing_judges(const struct standing *s, const struct deed *d)
{
	enum verdict v = VERDICT_ALLOW, said;
	int rule;

	for (size_t i = 0; i < s->n_chain; i++) {
		said = approval_rules_decide(&agent_view(s->chain[i])->approval, d, &rule);
		/* What a rule names was meant; the policy is about what none does. */
		if (rule < 0)
			said = verdict_stricter(said, s->at_least);
		v = verdict_stricter(v, said);
	}
	return v;
}
