/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/ends.h"

#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop.h"

/* Credentials end by the wall clock. That may be set, and goes on while the machine sleeps, when
 * the timer's does not: so it is looked at now and then. */
enum {
	LOOK_MS = 10 * 1000,
};

static void arm(struct ends *e)
{
	usec left = (usec)e->next * 1000000 - clock_wall();

	timer_set(e->timer, left > 0 ? (uint64_t)MIN(left / 1000 + 1, (usec)LOOK_MS) : 0);
}

static void on_timer(void *arg)
{
	struct ends *e = arg;

	if ((usec)e->next * 1000000 > clock_wall()) {
		arm(e);
		return;
	}
	e->next = 0;
	e->reached(e->arg);
}

void ends_init(struct ends *e, struct loop *l, void (*reached)(void *arg), void *arg)
{
	*e = (struct ends){ .reached = reached, .arg = arg };
	e->timer = timer_new(l, on_timer, e);
}

void ends_done(struct ends *e)
{
	timer_free(take(e->timer));
}

void ends_name(struct ends *e, int64_t at)
{
	if (!e->timer || !at || (e->next && e->next <= at))
		return;
	e->next = at;
	arm(e);
}
