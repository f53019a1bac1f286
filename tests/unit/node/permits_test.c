/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/permits.h"

#include "base/macros.h"
#include "test.h"

struct desk {
	struct loop *loop;
	struct permits permits;
	unsigned n_freed;
};

static void on_freed(void *arg)
{
	((struct desk *)arg)->n_freed++;
}

static void open_desk(struct desk *d)
{
	*d = (struct desk){ 0 };
	works(loop_new(&d->loop));
	permits_init(&d->permits, d->loop, on_freed, d);
	d->permits.full = 4;
	d->permits.yield = 1;
}

static void close_desk(struct desk *d)
{
	permits_done(&d->permits);
	(void)loop_turn(d->loop, 0);
	loop_free(d->loop);
}

static void turn(struct desk *d)
{
	(void)loop_turn(d->loop, 0);
}

TEST(there_are_as_many_permits_as_the_pace_allows)
{
	struct permit t[4] = { 0 };
	struct desk d;

	open_desk(&d);
	eq_int(permits_left(&d.permits, false), 4);
	permit_take(&d.permits, &t[0]);
	permit_take(&d.permits, &t[0]); /* one holder has one */
	permit_take(&d.permits, &t[1]);
	eq_int(permits_left(&d.permits, false), 2);
	permits_yield(&d.permits, true);
	eq_int(permits_left(&d.permits, false), 0); /* not below it, though two are held */
	eq_int(permits_left(&d.permits, true), 2);  /* for somebody who waits */
	permit_put(&t[0]);
	permit_put(&t[1]);
	permit_put(&t[1]);
	eq_int(permits_left(&d.permits, false), 1);
	permits_yield(&d.permits, false);
	eq_int(permits_left(&d.permits, false), 4);
	close_desk(&d);
}

TEST(whoever_waits_for_a_permit_is_told_later_in_the_turn)
{
	struct permit t[2] = { 0 };
	struct desk d;

	open_desk(&d);
	permit_take(&d.permits, &t[0]);
	permit_take(&d.permits, &t[1]);
	turn(&d);
	eq_int(d.n_freed, 0);
	permit_put(&t[0]);
	permit_put(&t[1]);
	eq_int(d.n_freed, 0); /* never from within a call */
	turn(&d);
	eq_int(d.n_freed, 1);
	permits_yield(&d.permits, true);
	turn(&d);
	permits_yield(&d.permits, false); /* there are more now */
	turn(&d);
	eq_int(d.n_freed, 3);
	close_desk(&d);
}

TEST(whoever_hangs_does_not_keep_a_permit_for_ever)
{
	struct permit t[2] = { 0 };
	struct desk d;

	open_desk(&d);
	permit_take(&d.permits, &t[0]);
	t[0].since -= PERMIT_MS * 1000;
	timer_set(d.permits.late, 1);
	permit_take(&d.permits, &t[1]);
	while (!d.n_freed)
		(void)loop_turn(d.loop, 100);
	eq_int(permits_left(&d.permits, false), 3); /* the other one counts */
	permit_put(&t[0]);                          /* it ended after all */
	eq_int(permits_left(&d.permits, false), 3);
	permit_put(&t[1]);
	close_desk(&d);
}

TEST(at_the_end_everything_may_go_at_once)
{
	struct permit t[5] = { 0 };
	struct desk d;

	open_desk(&d);
	permits_yield(&d.permits, true);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		permit_take(&d.permits, &t[i]);
	permits_lift(&d.permits);
	is_true(permits_left(&d.permits, false) > 1000);
	close_desk(&d);
	is_true(!t[0].of);
}
