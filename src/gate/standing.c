/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent_chain.h"
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

struct finder {
	struct gate *gate;
	const char *ns;
};

static struct object *find_agent(void *arg, const char *name)
{
	const struct finder *f = arg;

	return client_get(f->gate->client, f->gate->agent, f->ns, name);
}

/* A chain that cannot be followed to its end grants nothing. */
static void read_chain(struct gate *g, struct standing *s, const char *ns, const char *agent)
{
	struct agent_chain c;

	agent_chain_follow(agent, find_agent, &(struct finder){ g, ns }, &c);
	for (size_t i = 0; i < c.n; i++)
		s->chain[i] = c.agents[i];
	s->n_chain = c.n;
	s->broken = c.fault != CHAIN_WHOLE || c.deleting;
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
	standing_pays(s, v->budget);
	if (!v->has_capabilities)
		return;
	/* The result outlives the policy's tree. */
	capabilities_read_ceiling(json_get(object_spec(policy), "capabilities"), s->arena,
				  &ceiling);
	meet(s, &ceiling);
}

/* NULL: there is no such agent. */
static struct standing *standing_new(struct gate *g, const char *ns, const char *agent)
{
	struct standing *s = xnew(struct standing);

	s->arena = arena_new();
	read_chain(g, s, ns, agent);
	if (!s->n_chain) {
		standing_free(s);
		return NULL;
	}
	s->capabilities = agent_view(s->chain[0])->capabilities;
	for (size_t i = 1; i < s->n_chain; i++)
		meet(s, &agent_view(s->chain[i])->capabilities);
	for (size_t i = 0; i < s->n_chain; i++)
		standing_pays(s, agent_view(s->chain[i])->budget);
	read_policy(g, s, ns);
	if (s->broken)
		s->capabilities.rights = 0;
	return s;
}

const struct standing *standing_of(struct gate *g, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s", ns, name);
	struct standing *s = map_get(g->standings, key);

	if (s)
		return s;
	s = standing_new(g, ns, name);
	if (s)
		map_put(g->standings, key, s);
	return s;
}

/* What such a rule says of a deed depends on the path, once all else matches. */
static bool minds_path(const struct approval_rule *r, const struct deed *d)
{
	return r->path && !r->argv && !r->host &&
	       (!r->tool || (d->tool && pattern_matches(r->tool, d->tool)));
}

static bool looks(const struct approval_rule *r, const struct deed *d unused)
{
	return r->action != VERDICT_ALLOW && (r->argv || r->path || r->tool);
}

static bool has_rule(const struct standing *s, const struct deed *d,
		     bool (*is)(const struct approval_rule *r, const struct deed *d))
{
	for (size_t i = 0; i < s->n_chain; i++) {
		const struct approval_rules *rules = &agent_view(s->chain[i])->approval;

		for (size_t k = 0; k < rules->n_rules; k++)
			if (is(&rules->rules[k], d))
				return true;
	}
	return false;
}

bool standing_minds_path(const struct standing *s, const struct deed *d)
{
	return d->path && (has_rule(s, d, minds_path) || standing_judges(s, d) == VERDICT_ASK);
}

bool standing_looks(const struct standing *s)
{
	return has_rule(s, NULL, looks);
}

bool standing_has_tool(const struct standing *s, const char *tool)
{
	return !s->broken && capabilities_list_has(s->capabilities.tools, tool);
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
