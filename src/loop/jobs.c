/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/jobs.h"

#include "base/mem.h"
#include "loop/loop.h"

enum {
	TURN_MS = 20,
};

struct owned_job {
	struct jobs *of;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

static void job_work(void *arg)
{
	struct owned_job *o = arg;

	o->work(o->arg);
}

static void job_done(void *arg)
{
	struct owned_job *o = arg;
	struct jobs *j = o->of;

	j->n--;
	o->done(o->arg);
	free(o);
	if (j->ended)
		j->ended(j->arg);
}

void jobs_init(struct jobs *j, struct loop *l, void (*ended)(void *arg), void *arg)
{
	*j = (struct jobs){ .loop = l, .ended = ended, .arg = arg };
}

void jobs_run(struct jobs *j, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct owned_job *o = xnew(struct owned_job);

	*o = (struct owned_job){ j, work, done, arg };
	j->n++;
	job_run(j->loop, job_work, job_done, o);
}

void jobs_wait(struct jobs *j)
{
	while (j->n)
		(void)loop_turn(j->loop, TURN_MS);
}
