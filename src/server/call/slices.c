/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/slices.h"

#include <assert.h>

#include "loop/loop.h"

/* The timer of 0 ms fires once in each turn of the loop, between two looks at the sockets. */
enum {
	TURN_US = 200,
};

static void on_turn(void *arg)
{
	struct slices *ss = arg;
	usec until = clock_mono() + TURN_US;
	struct slice *s;

	do {
		if (list_empty(&ss->ready))
			return;
		s = list_first(&ss->ready, struct slice, link);
		list_del(&s->link);
		if (s->run(s, until)) {
			assert(list_empty(&s->link)); /* nobody woke it while it ran */
			list_add_tail(&ss->ready, &s->link);
		}
	} while (clock_mono() < until);
	if (!list_empty(&ss->ready))
		timer_set(ss->timer, 0);
}

void slices_init(struct slices *ss, struct loop *l)
{
	ss->timer = timer_new(l, on_turn, ss);
	list_init(&ss->ready);
}

void slices_done(struct slices *ss)
{
	timer_free(ss->timer);
	ss->timer = NULL;
}

void slice_init(struct slice *s, bool (*run)(struct slice *s, usec until))
{
	list_init(&s->link);
	s->run = run;
}

void slice_wake(struct slices *ss, struct slice *s)
{
	if (!list_empty(&s->link))
		return;
	list_add_tail(&ss->ready, &s->link);
	if (!timer_armed(ss->timer))
		timer_set(ss->timer, 0);
}

void slice_cancel(struct slice *s)
{
	list_del(&s->link);
}
