/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "test.h"

/* What jobs have in common: a gate at which some of them wait, and counts. */
struct site {
	pthread_mutex_t gate;
	atomic_uint worked, at_once, most_at_once;
	unsigned done;
	pthread_t loop_thread;
};

static void wait_at_gate(void *arg)
{
	struct site *s = arg;

	pthread_mutex_lock(&s->gate);
	pthread_mutex_unlock(&s->gate);
}

static void nothing(unused void *arg)
{
}

static void work(void *arg)
{
	struct site *s = arg;
	unsigned now = atomic_fetch_add(&s->at_once, 1) + 1, most = atomic_load(&s->most_at_once);

	while (now > most && !atomic_compare_exchange_weak(&s->most_at_once, &most, now))
		;
	if (!pthread_equal(pthread_self(), s->loop_thread))
		atomic_fetch_add(&s->worked, 1);
	atomic_fetch_sub(&s->at_once, 1);
}

static void done(void *arg)
{
	struct site *s = arg;

	if (pthread_equal(pthread_self(), s->loop_thread))
		s->done++;
}

static struct site site_new(void)
{
	return (struct site){ .gate = PTHREAD_MUTEX_INITIALIZER, .loop_thread = pthread_self() };
}

static void turn_until(struct loop *l, const unsigned *count, unsigned want)
{
	usec end = clock_mono() + 10 * 1000000;

	while (*count < want) {
		if (clock_mono() > end)
			fail_msg("%u of %u jobs are done", *count, want);
		(void)loop_turn(l, 20);
	}
}

TEST(short_jobs_do_not_wait_for_jobs_that_block)
{
	struct site s = site_new();
	struct loop *l = NULL;

	works(loop_new(&l));
	pthread_mutex_lock(&s.gate);
	for (int i = 0; i < 64; i++) /* more than there are pool threads */
		job_run(l, wait_at_gate, nothing, &s);
	for (int i = 0; i < 20; i++)
		job_run_short(l, work, done, &s);
	turn_until(l, &s.done, 20);
	eq_int(s.worked, 20);
	pthread_mutex_unlock(&s.gate);
	loop_free(l);
}

TEST(only_a_few_short_jobs_run_at_once)
{
	struct site s = site_new();
	struct loop *l = NULL;

	works(loop_new(&l));
	for (int i = 0; i < 1000; i++)
		job_run_short(l, work, done, &s);
	turn_until(l, &s.done, 1000);
	eq_int(s.worked, 1000);
	is_true(s.most_at_once <= 4);
	loop_free(l);
}

TEST(a_loop_that_is_freed_waits_for_its_short_jobs)
{
	struct site s = site_new();
	struct loop *l = NULL;

	works(loop_new(&l));
	for (int i = 0; i < 100; i++)
		job_run_short(l, work, done, &s);
	is_true(loop_turn(l, 0) || s.done == 100); /* the loop is alive until they are done */
	loop_free(l);
	eq_int(s.done, 100);
	eq_int(s.worked, 100);
}

struct chain {
	struct loop *l;
	unsigned left;
};

static void next(void *arg)
{
	struct chain *c = arg;

	if (!c->left)
		return;
	c->left--;
	job_run_short(c->l, nothing, next, c);
}

TEST(a_short_job_may_ask_for_the_next)
{
	struct chain c = { .left = 50 };

	works(loop_new(&c.l));
	next(&c);
	loop_free(c.l);
	eq_int(c.left, 0);
}
