/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pace/pace.h"

#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "loop/loop.h"
#include "test.h"

#define MS *1000LL

TEST(launches_yield_while_claims_come_in_and_no_pool_of_theirs_runs_low)
{
	static const struct {
		struct pace_seen seen;
		bool yield;
		usec until;
	} rows[] = {
		{ { .now = 1000 MS }, false, 0 },
		{ { .now = 1000 MS, .claimed_at = 1000 MS }, true, 1100 MS },
		{ { .now = 1000 MS, .claimed_at = 901 MS }, true, 1001 MS },
		{ { .now = 1000 MS, .claimed_at = 900 MS }, false, 0 },
		{ { .now = 1000 MS, .claimed_at = 1000 MS, .low_at = 950 MS }, false, 1050 MS },
		{ { .now = 1000 MS, .claimed_at = 1000 MS, .low_at = 900 MS }, true, 1100 MS },
		{ { .now = 1000 MS, .claimed_at = 900 MS, .low_at = 900 MS }, false, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		eq_int(pace_decide(&rows[i].seen), rows[i].yield);
		eq_int(pace_stands_until(&rows[i].seen), rows[i].until);
	}
}

struct listener {
	struct loop *loop;
	unsigned n;
	bool yield;
};

static void on_changed(void *arg, bool yield)
{
	struct listener *l = arg;

	l->n++;
	l->yield = yield;
}

static void until(struct listener *l, unsigned n)
{
	while (l->n < n)
		(void)loop_turn(l->loop, 1000);
}

TEST(yielding_begins_with_a_claim_and_ends_by_itself)
{
	struct listener l = { 0 };
	struct pace *p;
	autobuf text = { 0 };

	works(loop_new(&l.loop));
	p = pace_new(l.loop, on_changed, &l);
	for (int i = 0; i < 3; i++)
		pace_claim(p, false);
	eq_int(l.n, 1); /* not once for each claim */
	is_true(l.yield);
	pace_claim(p, true);
	eq_int(l.n, 2);
	is_false(l.yield);
	pace_claim(p, false); /* it goes on at full speed for a while */
	eq_int(l.n, 2);
	while (l.n < 3) { /* while claims keep coming, until the pool has been full for a while */
		pace_claim(p, false);
		(void)loop_turn(l.loop, 10);
	}
	is_true(l.yield);
	until(&l, 4); /* without another claim */
	is_false(l.yield);
	pace_metrics(p, &text);
	is_true(strstr(buf_str(&text), "cay_launches_yield_changes_total 4\n"));
	is_true(strstr(buf_str(&text), "cay_launches_yield 0\n"));
	pace_free(p);
	(void)loop_turn(l.loop, 0);
	loop_free(l.loop);
}

TEST(a_pace_that_nobody_listens_to_is_kept_all_the_same)
{
	struct loop *l;
	struct pace *p;

	works(loop_new(&l));
	p = pace_new(l, NULL, NULL);
	pace_claim(p, false);
	pace_free(p);
	(void)loop_turn(l, 0);
	loop_free(l);
}
