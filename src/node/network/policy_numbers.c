/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "node/network/policy_priv.h"

/*
 * What the packet filter calls a policy or a group must not change while other policies come and
 * go, or every element that names it would change as well.
 */
struct policy_numbers {
	struct map *now, *before; /* key → struct number, owned */
	unsigned next;
};

struct number {
	unsigned n;
};

struct policy_numbers *policy_numbers_new(void)
{
	struct policy_numbers *n = xnew(struct policy_numbers);

	n->now = map_new(free);
	n->before = map_new(free);
	return n;
}

void policy_numbers_free(struct policy_numbers *n)
{
	if (!n)
		return;
	map_free(n->now);
	map_free(n->before);
	free(n);
}

unsigned policy_number(struct policy_numbers *n, const char *key)
{
	struct number *have = map_get(n->now, key);

	if (have)
		return have->n;
	have = map_take(n->before, key);
	if (!have) {
		have = xnew(struct number);
		have->n = n->next++;
	}
	map_put(n->now, key, have);
	return have->n;
}

void policy_numbers_turn(struct policy_numbers *n)
{
	map_free(n->before);
	n->before = n->now;
	n->now = map_new(free);
}
