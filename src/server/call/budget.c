/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/budget.h"

#include <assert.h>

#include "base/map.h"
#include "base/str.h"
#include "server/call/call.h"

#define MIB (1024 * 1024)

/* By the first group that fits. The sum of all is bounded too, with something left for the
 * administrator, who must be able to look and to act. */
static const struct {
	const char *group;
	size_t max, max_total;
} rows[] = {
	{ "system:masters", 32 * MIB, 64 * MIB },
	{ "system:authenticated", 4 * MIB, 32 * MIB },
	{ "system:unauthenticated", 1 * MIB, 32 * MIB },
};

void budget_init(struct budget *b)
{
	*b = (struct budget){ .spent = map_new(NULL) };
}

void budget_done(struct budget *b)
{
	map_free(take(b->spent));
}

struct err *budget_check(const struct budget *b, const struct user *u)
{
	size_t spent = (size_t)(uintptr_t)map_get(b->spent, user_payer(u));

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!str_in(rows[i].group, u->groups))
			continue;
		if (spent < rows[i].max && b->total < rows[i].max_total)
			return NULL;
		return err_new(ERR_EXHAUSTED,
			       "too many requests, please try again later: %zu bytes of answers to "
			       "user \"%s\" have not been read",
			       spent, u->name);
	}
	return NULL;
}

void budget_change(struct budget *b, const struct user *u, size_t from, size_t to)
{
	size_t spent = (size_t)(uintptr_t)map_get(b->spent, user_payer(u));

	assert(spent >= from && b->total >= from);
	spent = spent - from + to;
	b->total = b->total - from + to;
	if (spent)
		map_put(b->spent, user_payer(u), (void *)(uintptr_t)spent);
	else
		(void)map_take(b->spent, user_payer(u));
}
