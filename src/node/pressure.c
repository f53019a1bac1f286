/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/node_object_priv.h"
#include "node/pressure_priv.h"

enum {
	LOOK_MS = 30 * 1000,
	TRIM_EVERY = 20, /* looks; the first look trims too */
	POOL_PERCENT = 5,
	STORE_MIB = 512, /* left for the store, or this part of the whole where that is less: */
	STORE_PERCENT = 5,
};

struct pressure {
	const struct diskpool *disk;
	struct node_object *object;
	struct timer *timer;
	struct jobs jobs;
	unsigned n_looks;
	char *told; /* NULL: nothing yet */

	/* The job's own, while there is one. */
	struct diskpool_space pool, store;
	bool trim;
};

static void look(void *arg)
{
	struct pressure *p = arg;

	if (p->trim)
		diskpool_trim(p->disk);
	diskpool_space(p->disk, &p->pool, &p->store);
}

/* NULL: there is none. */
static char *trouble(const struct pressure *p)
{
	int64_t least = MIN((int64_t)STORE_MIB << 20, p->store.total / 100 * STORE_PERCENT);

	if (p->store.free < least)
		return xasprintf("the file system of the store has %lld MiB left",
				 (long long)(p->store.free >> 20));
	if (p->pool.free < p->pool.total / 100 * POOL_PERCENT)
		return xasprintf("the disk pool has %lld of %lld MiB left",
				 (long long)(p->pool.free >> 20), (long long)(p->pool.total >> 20));
	return NULL;
}

static void looked(void *arg)
{
	struct pressure *p = arg;
	autofree char *bad = trouble(p);
	const char *text = bad ? bad : "there is enough disk space";
	const struct condition c = { .type = "DiskPressure",
				     .status = bad ? "True" : "False",
				     .reason = bad ? "DiskIsNearlyFull" : "DiskHasSpace",
				     .message = text };

	if (!p->timer)
		return; /* it is being freed */
	timer_set(p->timer, LOOK_MS);
	if (str_eq(p->told, text))
		return;
	if (bad)
		log_warn("disk is nearly full, going on; delete what is not needed",
			 KV("err", bad));
	node_object_condition(p->object, &c);
	free(p->told);
	p->told = xstrdup(text);
}

static void on_timer(void *arg)
{
	struct pressure *p = arg;

	p->trim = p->n_looks++ % TRIM_EVERY == 0;
	jobs_run(&p->jobs, look, looked, p);
}

struct pressure *pressure_new(struct loop *l, const struct diskpool *d, struct node_object *o)
{
	struct pressure *p = xnew(struct pressure);

	p->disk = d;
	p->object = o;
	jobs_init(&p->jobs, l, NULL, NULL);
	p->timer = timer_new(l, on_timer, p);
	timer_set(p->timer, 0);
	return p;
}

void pressure_free(struct pressure *p)
{
	if (!p)
		return;
	timer_free(take(p->timer));
	jobs_wait(&p->jobs);
	free(p->told);
	free(p);
}
