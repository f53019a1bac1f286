/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "control/queue_priv.h"
#include "fixture.h"
#include "loop/loop.h"

/* The work queue on a real loop. */

struct bench {
	struct loop *loop;
	struct queue *q;
	struct buf ran; /* names, in order */
	struct again (*next)(struct bench *b, struct item *it);
	struct item *writing;
	unsigned n;
};

static struct again run(void *arg, struct item *it)
{
	struct bench *b = arg;

	buf_printf(&b->ran, "%s ", it->key.name);
	b->n++;
	return b->next ? b->next(b, it) : again_never();
}

static void bench_open(struct bench *b)
{
	*b = (struct bench){ 0 };
	works(loop_new(&b->loop));
	b->q = queue_new(b->loop, run, b);
	queue_open(b->q);
}

static void bench_done(struct bench *b)
{
	queue_free(b->q);
	while (loop_turn(b->loop, 0))
		;
	loop_free(b->loop);
	buf_done(&b->ran);
}

static void turn(struct bench *b)
{
	(void)loop_turn(b->loop, 0);
}

TEST(queue_runs_each_key_once_in_the_order_they_came)
{
	struct bench b;

	bench_open(&b);
	queue_add(b.q, CONTROL_CLAIM, "ns", "a");
	queue_add(b.q, CONTROL_CLAIM, "ns", "b");
	queue_add(b.q, CONTROL_CLAIM, "ns", "a");
	turn(&b);
	eq_str(buf_str(&b.ran), "a b ");
	eq_int(queue_len(b.q), 0);
	bench_done(&b);
}

static struct again add_for_ever(struct bench *b, struct item *it unused)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", b->n);
	queue_add(b->q, CONTROL_POOL, "ns", name);
	return again_never();
}

static void note_time(void *arg)
{
	*(bool *)arg = true;
}

TEST(queue_that_never_empties_leaves_the_loop_to_others)
{
	struct bench b;
	bool came = false;
	struct timer *t;

	bench_open(&b);
	t = timer_new(b.loop, note_time, &came);
	timer_set(t, 1);
	b.next = add_for_ever;
	queue_add(b.q, CONTROL_POOL, "ns", "y");
	while (!came)
		turn(&b);
	is_true(b.n > 2);
	timer_free(t);
	bench_done(&b);
}

static struct again add_more(struct bench *b, struct item *it unused)
{
	if (b->n < 150)
		queue_add(b->q, CONTROL_POOL, "ns", b->n % 2 ? "x" : "y");
	return again_never();
}

TEST(queue_drains_in_one_turn_what_passes_add)
{
	struct bench b;

	bench_open(&b);
	b.next = add_more;
	queue_add(b.q, CONTROL_POOL, "ns", "y");
	turn(&b);
	eq_int(b.n, 150);
	bench_done(&b);
}

static struct again add_self(struct bench *b, struct item *it)
{
	queue_add(b->q, it->key.kind, it->key.ns, it->key.name);
	return again_never();
}

TEST(queue_slows_a_key_down_that_never_rests)
{
	struct bench b;

	bench_open(&b);
	b.next = add_self;
	queue_add(b.q, CONTROL_POOL, "ns", "y");
	turn(&b);
	eq_int(b.n, 200);
	bench_done(&b);
}

static struct again retry(struct bench *b unused, struct item *it unused)
{
	return again_retry(err_new(ERR_SYS, "no"));
}

TEST(queue_backs_off_and_doubles)
{
	struct bench b;

	eq_int(queue_backoff_ms(1), 5);
	eq_int(queue_backoff_ms(2), 10);
	eq_int(queue_backoff_ms(9), 1280);
	eq_int(queue_backoff_ms(60), 1000000);
	bench_open(&b);
	b.next = retry;
	queue_add(b.q, CONTROL_POOL, "ns", "y");
	turn(&b);
	eq_int(b.n, 1);
	queue_step(b.q, 5);
	turn(&b);
	turn(&b);
	eq_int(b.n, 2);
	bench_done(&b);
}

static struct again write_once(struct bench *b, struct item *it)
{
	if (b->writing)
		return again_never();
	b->writing = it;
	queue_write_begin(b->q, it);
	return again_wait();
}

TEST(queue_holds_a_key_while_its_writes_are_under_way)
{
	struct bench b;

	bench_open(&b);
	b.next = write_once;
	queue_add(b.q, CONTROL_SANDBOX, "ns", "y");
	turn(&b);
	queue_add(b.q, CONTROL_SANDBOX, "ns", "y");
	turn(&b);
	eq_int(b.n, 1);
	queue_write_end(b.q, b.writing, false);
	turn(&b);
	eq_int(b.n, 2); /* for what came meanwhile */
	eq_int(queue_len(b.q), 0);
	bench_done(&b);
}

static struct again later(struct bench *b unused, struct item *it unused)
{
	return b->n < 3 ? again_after(1000) : again_never();
}

TEST(queue_runs_a_key_again_when_its_time_comes)
{
	struct bench b;

	bench_open(&b);
	b.next = later;
	queue_add(b.q, CONTROL_SANDBOX, "ns", "y");
	turn(&b);
	eq_int(b.n, 1);
	queue_step(b.q, 1000);
	turn(&b);
	turn(&b);
	eq_int(b.n, 2);
	bench_done(&b);
}
