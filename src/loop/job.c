/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/mem.h"
#include "loop/loop_priv.h"

struct job {
	uv_work_t uv;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

static void on_work(uv_work_t *req)
{
	struct job *j = container_of(req, struct job, uv);

	j->work(j->arg);
}

static void on_done(uv_work_t *req, unused int status)
{
	struct job *j = container_of(req, struct job, uv);
	void (*done)(void *arg) = j->done;
	void *arg = j->arg;

	free(j);
	if (done)
		done(arg);
}

void job_run(struct loop *l, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct job *j = xnew(struct job);
	int r;

	j->work = work;
	j->done = done;
	j->arg = arg;
	r = uv_queue_work(&l->uv, &j->uv, on_work, on_done);
	assert(r == 0); /* fails only without work */
}
