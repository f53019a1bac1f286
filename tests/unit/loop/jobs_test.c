/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/jobs.h"

#include "loop/loop.h"
#include "test.h"

struct count {
	struct jobs jobs;
	unsigned worked, done, ended;
	unsigned n_at_end; /* under way when the first end was told */
};

static void work(void *arg)
{
	__atomic_add_fetch(&((struct count *)arg)->worked, 1, __ATOMIC_SEQ_CST);
}

static void done(void *arg)
{
	((struct count *)arg)->done++;
}

static void ended(void *arg)
{
	struct count *c = arg;

	if (!c->ended++)
		c->n_at_end = c->jobs.n;
}

TEST(an_owner_waits_for_its_jobs)
{
	autoptr(loop) l = NULL;
	struct count c = { 0 };

	works(loop_new(&l));
	jobs_init(&c.jobs, l, ended, &c);
	for (int i = 0; i < 3; i++)
		jobs_run(&c.jobs, work, done, &c);
	eq_int(c.jobs.n, 3);
	jobs_wait(&c.jobs);
	eq_int(c.worked, 3);
	eq_int(c.done, 3);
	eq_int(c.ended, 3);
	eq_int(c.n_at_end, 2);
}
