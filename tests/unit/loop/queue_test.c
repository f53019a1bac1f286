/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/queue.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"
#include "loop/loop.h"
#include "test.h"

/* The work queue on a real loop. */

struct bench {
	struct loop *loop;
	struct queue *q;
	struct buf ran; /* keys, in order */
	struct again (*next)(struct bench *b, struct queue_item *it);
	struct queue_item *held;
	unsigned n;
};

static struct again run(void *arg, struct queue_item *it)
{
	struct bench *b = arg;

	buf_printf(&b->ran, "%s ", it->key);
	b->n++;
	return b->next ? b->next(b, it) : again_never();
}

static void bench_open(struct bench *b)
{
	*b = (struct bench){ 0 };
	works(loop_new(&b->loop));
	b->q = queue_new(&(struct queue_spec){ .loop = b->loop, .run = run, .arg = b });
	queue_hold_time(b->q); /* what a slow machine takes for a test is no time in it */
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
	queue_add(b.q, "a");
	queue_add(b.q, "b");
	queue_add(b.q, "a");
	turn(&b);
	eq_str(buf_str(&b.ran), "a b ");
	eq_int(queue_len(b.q), 0);
	bench_done(&b);
}

static struct again add_for_ever(struct bench *b, struct queue_item *it unused)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", b->n);
	queue_add(b->q, name);
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
	queue_add(b.q, "y");
	while (!came)
		turn(&b);
	is_true(b.n > 2);
	timer_free(t);
	bench_done(&b);
}

static struct again add_more(struct bench *b, struct queue_item *it unused)
{
	if (b->n < 150)
		queue_add(b->q, b->n % 2 ? "x" : "y");
	return again_never();
}

TEST(queue_drains_in_one_turn_what_passes_add)
{
	struct bench b;

	bench_open(&b);
	b.next = add_more;
	queue_add(b.q, "y");
	turn(&b);
	eq_int(b.n, 150);
	bench_done(&b);
}

static struct again add_self(struct bench *b, struct queue_item *it)
{
	queue_add(b->q, it->key);
	return again_never();
}

TEST(queue_slows_a_key_down_that_never_rests)
{
	struct bench b;

	bench_open(&b);
	b.next = add_self;
	queue_add(b.q, "y");
	for (int turns = 0; b.n < 200 && turns < 200; turns++)
		turn(&b); /* one, unless passes are so slow that they use up its time */
	eq_int(b.n, 200);
	bench_done(&b);
}

static struct again retry(struct bench *b unused, struct queue_item *it unused)
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
	queue_add(b.q, "y");
	turn(&b);
	eq_int(b.n, 1);
	queue_step(b.q, 5);
	turn(&b);
	turn(&b);
	eq_int(b.n, 2);
	bench_done(&b);
}

static struct again hold_once(struct bench *b, struct queue_item *it)
{
	if (b->held)
		return again_never();
	b->held = it;
	queue_hold(it);
	return again_wait();
}

TEST(queue_holds_a_key_while_its_operations_are_under_way)
{
	struct bench b;

	bench_open(&b);
	b.next = hold_once;
	queue_add(b.q, "y");
	turn(&b);
	queue_add(b.q, "y");
	turn(&b);
	eq_int(b.n, 1);
	queue_release(b.held, false);
	turn(&b);
	eq_int(b.n, 2); /* for what came meanwhile */
	eq_int(queue_len(b.q), 0);
	bench_done(&b);
}

static struct again later(struct bench *b unused, struct queue_item *it unused)
{
	return b->n < 3 ? again_after(1000) : again_never();
}

TEST(queue_runs_a_key_again_when_its_time_comes)
{
	struct bench b;

	bench_open(&b);
	b.next = later;
	queue_add(b.q, "y");
	turn(&b);
	eq_int(b.n, 1);
	queue_step(b.q, 1000);
	turn(&b);
	turn(&b);
	eq_int(b.n, 2);
	bench_done(&b);
}

TEST(queue_runs_nothing_before_it_is_opened)
{
	struct bench b = { 0 };

	works(loop_new(&b.loop));
	b.q = queue_new(&(struct queue_spec){ .loop = b.loop, .run = run, .arg = &b });
	queue_add(b.q, "a");
	turn(&b);
	eq_int(b.n, 0);
	queue_open(b.q);
	turn(&b);
	eq_str(buf_str(&b.ran), "a ");
	bench_done(&b);
}

static struct again in_their_time(struct bench *b, struct queue_item *it)
{
	int ms = 0;

	(void)sscanf(it->key, "%d", &ms);
	return b->n <= 4 ? again_after((uint64_t)ms) : again_never();
}

TEST(queue_runs_waiting_keys_in_the_order_of_their_time)
{
	struct bench b;

	bench_open(&b);
	b.next = in_their_time;
	queue_add(b.q, "3000");
	queue_add(b.q, "1000");
	queue_add(b.q, "4000");
	queue_add(b.q, "2000");
	turn(&b);
	queue_step(b.q, 5000);
	turn(&b);
	turn(&b);
	eq_str(buf_str(&b.ran), "3000 1000 4000 2000 1000 2000 3000 4000 ");
	bench_done(&b);
}

TEST(queue_does_not_make_a_key_wait_that_is_added)
{
	struct bench b;

	bench_open(&b);
	b.next = later;
	queue_add(b.q, "y");
	turn(&b);
	queue_step(b.q, 500);
	queue_add(b.q, "y");
	turn(&b);
	eq_int(b.n, 2);
	queue_step(b.q, 600); /* the second pass set the time anew */
	turn(&b);
	turn(&b);
	eq_int(b.n, 2);
	bench_done(&b);
}

TEST(queue_runs_what_was_added_for_later_once_and_not_before)
{
	struct bench b;

	bench_open(&b);
	queue_add_later(b.q, "a", 1000);
	queue_add_later(b.q, "a", 3000); /* the sooner counts */
	queue_add_later(b.q, "b", 1000);
	turn(&b);
	eq_str(buf_str(&b.ran), "");
	queue_add(b.q, "b"); /* a pass before is as good */
	turn(&b);
	eq_str(buf_str(&b.ran), "b ");
	queue_step(b.q, 999);
	queue_add_later(b.q, "c", 1);
	queue_step(b.q, 1);
	turn(&b);
	turn(&b);
	eq_str(buf_str(&b.ran), "b a c ");
	queue_step(b.q, 10000);
	turn(&b);
	eq_str(buf_str(&b.ran), "b a c ");
	eq_int(queue_len(b.q), 0);
	bench_done(&b);
}

TEST(queue_forgets_a_key_when_its_last_operation_ends_and_nothing_came)
{
	struct bench b;

	bench_open(&b);
	b.next = hold_once;
	queue_add(b.q, "y");
	turn(&b);
	queue_hold(b.held); /* one operation may begin another */
	queue_release(b.held, false);
	is_true(queue_find(b.q, "y") == b.held);
	queue_release(b.held, false);
	is_true(queue_find(b.q, "y") == NULL);
	turn(&b);
	eq_int(b.n, 1);
	bench_done(&b);
}

TEST(queue_runs_a_key_that_its_operation_wakes)
{
	struct bench b;

	bench_open(&b);
	b.next = hold_once;
	queue_add(b.q, "y");
	turn(&b);
	queue_hold(b.held);
	queue_release(b.held, true);
	turn(&b);
	eq_int(b.n, 1); /* the other is still under way */
	queue_release(b.held, false);
	turn(&b);
	eq_int(b.n, 2);
	bench_done(&b);
}

/* A user with an item of its own. */
struct own {
	struct queue_item q;
	unsigned n_runs;
	char *text;
};

struct shop {
	struct bench b;
	unsigned n_done, n_slowed;
	enum err_code why;
};

static struct again own_run(void *arg unused, struct queue_item *it)
{
	struct own *own = container_of(it, struct own, q);

	eq_str(own->text, it->key);
	return own->n_runs++ ? again_retry(err_new(ERR_CONFLICT, "no")) : again_after(1000);
}

static void own_init(void *arg unused, struct queue_item *it)
{
	struct own *own = container_of(it, struct own, q);

	eq_int(own->n_runs, 0);
	own->text = xstrdup(it->key);
}

static void own_done(void *arg, struct queue_item *it)
{
	free(container_of(it, struct own, q)->text);
	((struct shop *)arg)->n_done++;
}

static void own_slowed(void *arg, const struct queue_item *it, const struct err *e)
{
	struct shop *s = arg;

	eq_str(it->key, "y");
	eq_int(it->n_failures, 1);
	s->n_slowed++;
	s->why = err_code(e);
}

TEST(queue_keeps_what_the_user_has_in_its_items)
{
	struct shop s = { 0 };

	works(loop_new(&s.b.loop));
	s.b.q = queue_new(&(struct queue_spec){ .loop = s.b.loop,
						.item_size = sizeof(struct own),
						.run = own_run,
						.item_init = own_init,
						.item_done = own_done,
						.slowed = own_slowed,
						.arg = &s });
	queue_open(s.b.q);
	queue_add(s.b.q, "y");
	turn(&s.b);
	eq_int(s.n_slowed, 0);
	eq_int(s.n_done, 0);
	queue_add(s.b.q, "y");
	turn(&s.b);
	eq_int(s.n_slowed, 1);
	eq_int(s.why, ERR_CONFLICT);
	bench_done(&s.b); /* frees it while it waits */
	eq_int(s.n_done, 1);
}
