/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop_priv.h"

/*
 * Short jobs have threads of their own, made when first needed: jobs on libuv's pool may wait for a
 * disk for seconds, and somebody waits for each of these. There are no more threads than half of
 * the processors, so the loop and whoever talks to it keep the rest. Waiting jobs are taken in
 * order. Few have locks: base/ and store/, tls/verdict.c, which these threads call, and this
 * folder, because a queue that several threads take from needs one, and libuv's own has no threads
 * to spare.
 */
enum {
	CREW_MAX = 4,
	TURN_MS = 20,
};

struct short_job {
	struct list link;
	struct crew *crew;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

struct crew {
	struct loop *loop;
	size_t under_way; /* jobs whose done() has not been called; for the loop's thread alone */
	unsigned max;     /* threads */

	uv_mutex_t lock; /* for all that follows */
	uv_cond_t more;
	struct list waiting; /* struct short_job */
	size_t n_waiting;
	uv_thread_t threads[CREW_MAX];
	unsigned n_threads, n_idle;
	bool stopping;
};

static unsigned crew_size(void)
{
	long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	return (unsigned)MAX(1L, MIN(half, (long)CREW_MAX));
}

static void finished(void *arg)
{
	struct short_job *j = arg;
	void (*done)(void *arg) = j->done;

	arg = j->arg;
	j->crew->under_way--;
	free(j);
	done(arg);
}

/* NULL when the crew is to stop. */
static struct short_job *next_job(struct crew *c)
{
	struct short_job *j = NULL;

	uv_mutex_lock(&c->lock);
	c->n_idle++;
	while (list_empty(&c->waiting) && !c->stopping)
		uv_cond_wait(&c->more, &c->lock);
	c->n_idle--;
	if (!list_empty(&c->waiting)) {
		j = list_first(&c->waiting, struct short_job, link);
		list_del(&j->link);
		c->n_waiting--;
	}
	uv_mutex_unlock(&c->lock);
	return j;
}

static void crew_member(void *arg)
{
	struct crew *c = arg;
	struct short_job *j;

	while ((j = next_job(c))) {
		j->work(j->arg);
		loop_post(c->loop, finished, j);
	}
}

static struct crew *crew_new(struct loop *l)
{
	struct crew *c = xnew(struct crew);

	c->loop = l;
	c->max = crew_size();
	list_init(&c->waiting);
	if (uv_mutex_init(&c->lock) < 0 || uv_cond_init(&c->more) < 0)
		abort(); /* out of memory */
	return c;
}

/* Where the host has no more threads, there are fewer. */
static void crew_grow(struct crew *c)
{
	sigset_t all, old;

	if (c->n_threads == c->max)
		return;
	(void)sigfillset(&all); /* signals are for the loop's thread */
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!uv_thread_create(&c->threads[c->n_threads], crew_member, c))
		c->n_threads++;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void job_run_short(struct loop *l, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct crew *c = l->crew;
	struct short_job *j;

	if (!c)
		c = l->crew = crew_new(l);
	uv_mutex_lock(&c->lock);
	if (c->n_waiting >= c->n_idle)
		crew_grow(c);
	if (!c->n_threads) {
		uv_mutex_unlock(&c->lock);
		job_run(l, work, done, arg); /* late is better than never */
		return;
	}
	j = xnew(struct short_job);
	*j = (struct short_job){ .crew = c, .work = work, .done = done, .arg = arg };
	c->under_way++;
	list_add_tail(&c->waiting, &j->link);
	c->n_waiting++;
	uv_mutex_unlock(&c->lock);
	uv_cond_signal(&c->more); /* the thread that it wakes wants the lock first */
}

bool crew_works(const struct crew *c)
{
	return c && c->under_way;
}

void crew_free(struct crew *c)
{
	if (!c)
		return;
	while (c->under_way)
		(void)loop_turn(c->loop, TURN_MS);
	uv_mutex_lock(&c->lock);
	c->stopping = true;
	uv_cond_broadcast(&c->more);
	uv_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_threads; i++)
		(void)uv_thread_join(&c->threads[i]);
	uv_cond_destroy(&c->more);
	uv_mutex_destroy(&c->lock);
	free(c);
}
