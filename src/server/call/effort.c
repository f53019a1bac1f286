/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/effort.h"

#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "server/call/call.h"

enum {
	WINDOW_US = 1000 * 1000,
	BUSY_US = WINDOW_US / 2, /* below that there is enough for everybody */
	SHARER_MAX = 128,
};

void effort_init(struct effort *e)
{
	*e = (struct effort){ .now = map_new(NULL), .before = map_new(NULL) };
}

void effort_done(struct effort *e)
{
	map_free(take(e->now));
	map_free(take(e->before));
}

static void next_window(struct effort *e)
{
	map_free(e->before);
	e->before = e->now;
	e->now = map_new(NULL);
	e->total_before = e->total_now;
	e->total_now = 0;
	e->n_users = map_len(e->before);
}

static void advance(struct effort *e, usec now)
{
	if (now < e->began + WINDOW_US)
		return;
	next_window(e);
	if (now >= e->began + 2 * WINDOW_US)
		next_window(e); /* nothing happened in the last one */
	e->began = now - now % WINDOW_US;
}

/* Of the time in the last second, as far as the windows tell. */
static usec recent(const struct effort *e, usec in_now, usec in_before, usec now)
{
	return in_now + in_before * (e->began + WINDOW_US - now) / WINDOW_US;
}

/* Whose share it is. The accounts of a namespace have one: whoever may make accounts would have as
 * many as they like. */
static const char *sharer(const struct user *u, char buf[SHARER_MAX])
{
	static const char account[] = "system:serviceaccount:";
	const char *name = user_payer(u);
	const char *ns = str_starts(name, account) ? name + strlen(account) : NULL;

	if (!ns)
		return name;
	(void)snprintf(buf, SHARER_MAX, "%s%.*s", account, (int)strcspn(ns, ":"), ns);
	return buf;
}

static usec time_of(const struct map *m, const char *who)
{
	return (usec)(uintptr_t)map_get(m, who);
}

struct err *effort_check(struct effort *e, const struct user *u, usec now)
{
	char buf[SHARER_MAX];
	const char *who;
	usec share, mine;

	advance(e, now);
	if (e->n_users < 2 || recent(e, e->total_now, e->total_before, now) < BUSY_US)
		return NULL; /* as nearly always: nobody is looked up */
	if (str_in("system:masters", u->groups))
		return NULL;
	share = WINDOW_US / (usec)e->n_users;
	who = sharer(u, buf);
	mine = recent(e, time_of(e->now, who), time_of(e->before, who), now);
	if (mine < share)
		return NULL;
	return err_new(ERR_EXHAUSTED,
		       "too many requests, please try again later: those of user \"%s\" took %d %% "
		       "of the server's time, which %zu users share",
		       u->name, (int)(mine * 100 / WINDOW_US), e->n_users);
}

void effort_add(struct effort *e, const struct user *u, usec now, usec took)
{
	char buf[SHARER_MAX];
	const char *who = sharer(u, buf);
	usec mine;

	advance(e, now);
	mine = time_of(e->now, who);
	if (!mine && !time_of(e->before, who))
		e->n_users++;
	map_put(e->now, who, (void *)(uintptr_t)(mine + MAX(took, (usec)1)));
	e->total_now += took;
}
