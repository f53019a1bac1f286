/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/budget.h"

#include <assert.h>

#include "base/map.h"
#include "base/share.h"
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

/* Requests that only administrators may have, when all others are taken. */
enum {
	CALLS_KEPT = 64,
};

void budget_init(struct budget *b, size_t max_calls)
{
	*b = (struct budget){ .spent = map_new(NULL),
			      .calls = map_new(NULL),
			      .max_calls = max_calls };
}

void budget_done(struct budget *b)
{
	map_free(take(b->spent));
	map_free(take(b->calls));
}

static size_t count_of(const struct map *m, const struct user *u)
{
	return (size_t)(uintptr_t)map_get(m, user_payer(u));
}

static void set_count(struct map *m, const struct user *u, size_t n)
{
	if (n)
		map_put(m, user_payer(u), (void *)(uintptr_t)n);
	else
		(void)map_take(m, user_payer(u));
}

struct err *budget_enter(struct budget *b, const struct user *u)
{
	size_t mine = count_of(b->calls, u);
	bool room = str_in("system:masters", u->groups)
			    ? b->n_calls < b->max_calls + CALLS_KEPT
			    : share_has_room(mine, b->n_calls, b->max_calls);

	if (!room)
		return err_new(ERR_EXHAUSTED,
			       "too many requests, please try again later: user \"%s\" has %zu "
			       "under way, of %zu in all",
			       u->name, mine, b->n_calls);
	set_count(b->calls, u, mine + 1);
	b->n_calls++;
	return NULL;
}

void budget_leave(struct budget *b, const struct user *u)
{
	size_t mine = count_of(b->calls, u);

	assert(mine && b->n_calls);
	set_count(b->calls, u, mine - 1);
	b->n_calls--;
}

struct err *budget_check(const struct budget *b, const struct user *u)
{
	size_t spent = count_of(b->spent, u);

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
	size_t spent = count_of(b->spent, u);

	assert(spent >= from && b->total >= from);
	b->total = b->total - from + to;
	set_count(b->spent, u, spent - from + to);
}
