/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/slices.h"

#include <assert.h>

#include "loop/loop.h"
#include "server/call/call.h"

/* The timer of 0 ms fires once in each turn of the loop, between two looks at the sockets. */
enum {
	TURN_US = 200,
};

static void run_first(struct slices *ss, usec since, usec until)
{
	struct slice *s = list_first(&ss->ready, struct slice, link);
	struct call *c = call_ref(s->call); /* the slice may be gone afterwards */

	list_del(&s->link);
	if (s->run(s, until)) {
		assert(list_empty(&s->link)); /* nobody woke it while it ran */
		list_add_tail(&ss->ready, &s->link);
	}
	call_spent(c, since);
	call_unref(c);
}

static void on_turn(void *arg)
{
	struct slices *ss = arg;
	usec now = clock_mono(), until = now + TURN_US;

	do {
		if (list_empty(&ss->ready))
			return;
		run_first(ss, now, until);
		now = clock_mono();
	} while (now < until);
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

void slice_init(struct slice *s, struct call *c, bool (*run)(struct slice *s, usec until))
{
	list_init(&s->link);
	s->call = c;
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
