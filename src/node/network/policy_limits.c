/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "node/network/policy_priv.h"

/*
 * What policies cost together is limited, and whoever writes many must not shut those of others. So
 * namespaces share what there is: up to a level that all of them can have at once, each has what it
 * needs. Beyond it, policies of the namespace itself are shut. Only those count that select a Pod
 * of this node; no others make rules.
 */
struct share {
	size_t wants, has;
	unsigned n; /* policies */
};

static struct share *share_of(struct map *shares, struct arena *a, const struct policy *p)
{
	struct share *s = map_get(shares, p->object->ns);

	if (!s) {
		s = arena_alloc(a, sizeof(*s));
		map_put(shares, p->object->ns, s);
	}
	return s;
}

static bool all_can_have(const struct map *shares, size_t level, size_t total)
{
	size_t sum = 0;

	map_each(it, shares) {
		const struct share *s = it.value;

		sum += MIN(s->wants, level);
	}
	return sum <= total;
}

static size_t find_level(const struct map *shares, size_t total)
{
	size_t from = 0, to = total;

	while (from < to) {
		size_t mid = from + (to - from + 1) / 2;

		if (all_can_have(shares, mid, total))
			from = mid;
		else
			to = mid - 1;
	}
	return from;
}

void policy_limit_number(struct policy_compile *c, struct policy_plan *plan)
{
	autoptr(map) shares = map_new(NULL);

	for (size_t i = 0; i < plan->n_policies; i++) {
		struct policy *p = &plan->policies[i];

		if (p->selects && ++share_of(shares, c->a, p)->n > POLICY_NUMBER_MAX)
			policy_shut(p, "its namespace has more than 256 policies that select Pods, "
				       "so nothing passes by this one");
	}
}

void policy_limit_cost(struct policy_compile *c, struct policy_plan *plan,
		       const struct policy_limit *l)
{
	autoptr(map) shares = map_new(NULL);
	size_t level;

	for (size_t i = 0; i < plan->n_policies; i++)
		if (plan->policies[i].selects)
			share_of(shares, c->a, &plan->policies[i])->wants +=
				l->cost(&plan->policies[i]);
	level = find_level(shares, l->total);
	for (size_t i = 0; i < plan->n_policies; i++) {
		struct policy *p = &plan->policies[i];
		struct share *s = p->selects ? share_of(shares, c->a, p) : NULL;

		if (s && s->has + l->cost(p) > level)
			policy_shut(p, l->notice);
		else if (s)
			s->has += l->cost(p);
	}
}
