/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/pools.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/host/reserved.h"
#include "node/network/policy_priv.h"

/* The private networks that the operator lets policies open (--policy-may-open). */

/* This host, links, clouds' metadata, sandboxes of any instance, multicast: for nobody. */
static const char *const never[] = {
	"0.0.0.0/8",      SANDBOX_NET4,    "127.0.0.0/8", "168.63.129.16/32",
	"169.254.0.0/16", "192.0.0.0/24",  "224.0.0.0/3", "::/8",
	SANDBOX_NET6,     "fd00:ec2::/32", "fe80::/10",   "ff00::/8",
};

bool policy_has_public(const struct ip *from, const struct ip *to)
{
	uint32_t first, rest;

	if (!ip_is4(from)) /* 2000::/3 */
		return from->octet[0] <= 0x3f && to->octet[0] >= 0x20;
	first = ip_to4(from);
	rest = first ^ ip_to4(to);
	return !reserved_holds(first, 32 - (unsigned)__builtin_popcount(rest));
}

static bool overlap(const struct policy_range *a, const struct policy_range *b)
{
	return ip_is4(&a->from) == ip_is4(&b->from) && ip_cmp(&a->from, &b->to) <= 0 &&
	       ip_cmp(&b->from, &a->to) <= 0;
}

static struct err *check(const char *text, const struct policy_range *r)
{
	struct policy_range n;

	if (policy_has_public(&r->from, &r->to))
		return err_new(ERR_INVALID,
			       "policies may not open %s: it has public addresses, for which they "
			       "need no permission",
			       text);
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (ip_parse_block(never[i], &n.from, &n.to) && overlap(r, &n))
			return err_new(ERR_INVALID,
				       "policies may not open %s: %s is for no sandbox", text,
				       never[i]);
	return NULL;
}

struct err *policy_may_open_read(const char *text, struct policy_may_open *ret)
{
	autofree char *copy = xstrdup(str_or(text, ""));
	struct policy_may_open m = { .n = 0 };
	char *rest = NULL;

	for (char *t = strtok_r(copy, ",", &rest); t; t = strtok_r(NULL, ",", &rest)) {
		struct policy_range *r = &m.list[m.n];
		struct err *e;

		if (m.n == POLICY_MAY_OPEN_MAX)
			return err_new(ERR_INVALID, "policies may open at most %d networks",
				       POLICY_MAY_OPEN_MAX);
		if (!ip_parse_block(t, &r->from, &r->to))
			return err_new(ERR_INVALID,
				       "policies may not open %s: not a network such as "
				       "10.20.0.0/16",
				       t);
		e = check(t, r);
		if (e)
			return e;
		m.n++;
	}
	*ret = m;
	return NULL;
}

bool policy_may_open(const struct policy_may_open *m, const struct ip *a)
{
	return policy_ranges_hold(m->list, m->n, a, a);
}

bool policy_may_open_part(const struct policy_may_open *m, const struct policy_range *r)
{
	for (size_t i = 0; i < m->n; i++)
		if (overlap(&m->list[i], r))
			return true;
	return false;
}

/* What two ranges that overlap have in common. */
static void add_common(struct policy_ranges *ret, struct arena *a, const struct policy_range *x,
		       const struct policy_range *y)
{
	policy_ranges_add(ret, a, ip_cmp(&x->from, &y->from) > 0 ? &x->from : &y->from,
			  ip_cmp(&x->to, &y->to) < 0 ? &x->to : &y->to);
}

static void add_opened(struct policy_ranges *ret, struct arena *a, const struct policy_may_open *m,
		       const struct policy_rule *rule)
{
	for (size_t i = 0; i < rule->n_ranges; i++)
		for (size_t n = 0; n < m->n; n++)
			if (overlap(&m->list[n], &rule->ranges[i]))
				add_common(ret, a, &m->list[n], &rule->ranges[i]);
}

void policy_opened(struct policy_ranges *ret, struct arena *a, const struct policy_may_open *m,
		   const struct policy_group *g)
{
	for (size_t i = 0; i < g->n; i++)
		for (size_t k = 0; k < g->policies[i]->n_rules; k++)
			add_opened(ret, a, m, &g->policies[i]->rules[k]);
	policy_ranges_merge(ret);
}
