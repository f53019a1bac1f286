/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"
#include "node/network/policy_priv.h"

/* What policies select by: labels and blocks of addresses. */

void policy_ranges_add(struct policy_ranges *r, struct arena *a, const struct ip *from,
		       const struct ip *to)
{
	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 4;
		struct policy_range *list = arena_new_n(a, struct policy_range, cap);

		if (r->n)
			memcpy(list, r->list, r->n * sizeof(*list));
		r->list = list;
		r->cap = cap;
	}
	r->list[r->n++] = (struct policy_range){ *from, *to };
}

void policy_ranges_add_all(struct policy_ranges *r, struct arena *a)
{
	const struct ip first4 = ip_from4(0), last4 = ip_from4(0xffffffffu), first = { { 0 } };
	struct ip last, before = first4, behind = last4;

	memset(&last, 0xff, sizeof(last));
	(void)ip_prev(&before); /* IPv4 is somewhere in the middle */
	(void)ip_next(&behind);
	policy_ranges_add(r, a, &first, &before);
	policy_ranges_add(r, a, &first4, &last4);
	policy_ranges_add(r, a, &behind, &last);
}

static int by_start(const void *a, const void *b)
{
	const struct policy_range *x = a, *y = b;

	return ip_cmp(&x->from, &y->from);
}

/* Where IPv4 begins or ends among the addresses of IPv6, there is a border. */
static bool adjoins(const struct policy_range *last, const struct policy_range *next)
{
	struct ip behind = last->to;

	if (ip_cmp(&next->from, &last->to) <= 0)
		return true;
	return ip_is4(&last->to) == ip_is4(&next->from) && ip_next(&behind) &&
	       !ip_cmp(&behind, &next->from);
}

void policy_ranges_merge(struct policy_ranges *r)
{
	size_t n = 0;

	if (!r->n)
		return;
	qsort(r->list, r->n, sizeof(*r->list), by_start);
	for (size_t i = 1; i < r->n; i++) {
		struct policy_range *last = &r->list[n];

		if (!adjoins(last, &r->list[i]))
			r->list[++n] = r->list[i];
		else if (ip_cmp(&r->list[i].to, &last->to) > 0)
			last->to = r->list[i].to;
	}
	r->n = n + 1;
}

bool policy_ranges_hold(const struct policy_range *list, size_t n, const struct ip *from,
			const struct ip *to)
{
	for (size_t i = 0; i < n; i++)
		if (ip_cmp(&list[i].from, from) <= 0 && ip_cmp(to, &list[i].to) <= 0)
			return true;
	return false;
}

/* What is left of a block: cut is in order. */
static void add_rest(struct policy_ranges *ret, struct arena *a, const struct policy_range *block,
		     const struct policy_ranges *cut)
{
	struct ip at = block->from;

	for (size_t i = 0; i < cut->n && ip_cmp(&at, &block->to) <= 0; i++) {
		struct ip before = cut->list[i].from;

		if (ip_cmp(&cut->list[i].to, &at) < 0)
			continue;
		if (ip_cmp(&cut->list[i].from, &block->to) > 0)
			break;
		if (ip_cmp(&cut->list[i].from, &at) > 0 && ip_prev(&before))
			policy_ranges_add(ret, a, &at, &before);
		at = cut->list[i].to;
		if (!ip_next(&at))
			return;
	}
	if (ip_cmp(&at, &block->to) <= 0)
		policy_ranges_add(ret, a, &at, &block->to);
}

/* An exception that cannot be read, or is of the other family, takes the whole block with it: it
 * allows too little rather than too much. */
bool policy_block(struct policy_ranges *ret, struct arena *a, const struct json *block)
{
	const char *cidr = json_get_str(block, "cidr");
	struct policy_ranges cut = { 0 };
	struct policy_range whole, part;

	if (!cidr || !ip_parse_block(cidr, &whole.from, &whole.to))
		return false;
	if (!ip_is4(&whole.from)) { /* IPv4 has a place among these, but is no part of them */
		part = (struct policy_range){ ip_from4(0), ip_from4(0xffffffffu) };
		policy_ranges_add(&cut, a, &part.from, &part.to);
	}
	json_each(it, json_get(block, "except")) {
		if (!json_str(it.val) || !ip_parse_block(json_str(it.val), &part.from, &part.to) ||
		    ip_is4(&part.from) != ip_is4(&whole.from))
			return false;
		policy_ranges_add(&cut, a, &part.from, &part.to);
	}
	policy_ranges_merge(&cut);
	add_rest(ret, a, &whole, &cut);
	return true;
}
