/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/node_object_priv.h"
#include "node/pod/pod.h"
#include "node/pressure_priv.h"

enum {
	INTERVAL_MS = 10 * 1000,   /* between looks while something is short */
	LOOK_RARELY = 3,           /* times that, while nothing is */
	EVICT_REST_MS = 30 * 1000, /* between two: what one leaves behind is not free at once */
	EVICT_LOOKS = 3,     /* in a row that found the same short: it does not pass by itself */
	MEMORY_PERCENT = 95, /* of what sandboxes may use together */
	TRIM_US = 600 * 1000 * 1000, /* between two; the first look trims too */
	POOL_PERCENT = 5,
	STORE_MIB = 512, /* left for the store, or this part of the whole where that is less: */
	STORE_PERCENT = 5,
};

static const struct {
	const char *type, *bad, *good, *fine;
} conditions[PODS_LACK_MAX_] = {
	[PODS_LACK_DISK] = { "DiskPressure", "DiskIsNearlyFull", "DiskHasSpace",
			     "there is enough disk space" },
	[PODS_LACK_MEMORY] = { "MemoryPressure", "MemoryIsNearlyUsed", "MemoryIsFree",
			       "there is enough memory" },
};

struct pressure {
	const struct diskpool *disk;
	struct node_object *object;
	struct pods *pods;
	int64_t memory; /* that sandboxes may use together; 0: not limited */
	uint64_t interval_ms;
	struct timer *timer;
	struct jobs jobs;
	usec next_trim;
	unsigned n_bad[PODS_LACK_MAX_];  /* looks in a row */
	usec rest_until[PODS_LACK_MAX_]; /* clock_mono(): nobody is evicted before */
	char *told[PODS_LACK_MAX_];      /* NULL: nothing yet */

	/* The job's own, while there is one. */
	struct diskpool_space pool, store;
	bool trim;
};

static bool pool_is_short(const struct pressure *p)
{
	return p->pool.free < p->pool.total / 100 * POOL_PERCENT;
}

static void look(void *arg)
{
	struct pressure *p = arg;

	if (p->trim)
		diskpool_trim(p->disk);
	diskpool_space(p->disk, &p->pool, &p->store);
	if (pool_is_short(p))
		diskpool_sync(p->disk);
}

/* NULL: there is none. *ret: it is of the pool, where the end of a Pod helps. */
static char *disk_trouble(const struct pressure *p, bool *ret)
{
	int64_t least = MIN((int64_t)STORE_MIB << 20, p->store.total / 100 * STORE_PERCENT);

	*ret = pool_is_short(p);
	if (p->store.free < least)
		return xasprintf("the file system of the store has %lld MiB left",
				 (long long)(p->store.free >> 20));
	if (*ret)
		return xasprintf("the disk pool has %lld of %lld MiB left",
				 (long long)(p->pool.free >> 20), (long long)(p->pool.total >> 20));
	return NULL;
}

static char *memory_trouble(const struct pressure *p)
{
	int64_t used = pods_memory(p->pods);

	if (!p->memory || used < p->memory / 100 * MEMORY_PERCENT)
		return NULL;
	return xasprintf("sandboxes use %lld of %lld MiB", (long long)(used >> 20),
			 (long long)(p->memory >> 20));
}

static void tell(struct pressure *p, enum pods_lack lack, const char *bad)
{
	const char *text = bad ? bad : conditions[lack].fine;
	const struct condition c = { .type = conditions[lack].type,
				     .status = bad ? "True" : "False",
				     .reason = bad ? conditions[lack].bad : conditions[lack].good,
				     .message = text };

	if (str_eq(p->told[lack], text))
		return;
	if (bad)
		log_warn("node is short of something, going on; Pods are evicted if that lasts",
			 KV("condition", c.type), KV("err", bad));
	node_object_condition(p->object, &c);
	free(p->told[lack]);
	p->told[lack] = xstrdup(text);
}

/* bad NULL: nothing is short. helps: the end of a Pod would be of use. */
static void handle(struct pressure *p, enum pods_lack lack, const char *bad, bool helps)
{
	tell(p, lack, bad);
	p->n_bad[lack] = bad ? p->n_bad[lack] + 1 : 0;
	if (bad)
		pods_measure(p->pods); /* for the next look, and who goes then */
	if (!helps || p->n_bad[lack] < EVICT_LOOKS || clock_mono() < p->rest_until[lack] ||
	    !pods_evict(p->pods, lack, bad))
		return;
	p->n_bad[lack] = 0;
	p->rest_until[lack] = clock_mono() + (usec)EVICT_REST_MS * 1000;
}

static void looked(void *arg)
{
	struct pressure *p = arg;
	bool pool = false;
	autofree char *disk = disk_trouble(p, &pool), *memory = NULL;

	if (!p->timer)
		return; /* it is being freed */
	memory = memory_trouble(p);
	timer_set(p->timer, p->interval_ms * (disk || memory ? 1 : LOOK_RARELY));
	handle(p, PODS_LACK_DISK, disk, pool);
	handle(p, PODS_LACK_MEMORY, memory, memory);
}

static void on_timer(void *arg)
{
	struct pressure *p = arg;

	p->trim = clock_mono() >= p->next_trim;
	if (p->trim)
		p->next_trim = clock_mono() + TRIM_US;
	jobs_run(&p->jobs, look, looked, p);
}

struct pressure *pressure_new(const struct pressure_spec *spec)
{
	struct pressure *p = xnew(struct pressure);

	p->disk = spec->disk;
	p->object = spec->object;
	p->pods = spec->pods;
	p->memory = spec->memory;
	p->interval_ms = spec->interval_ms ? spec->interval_ms : INTERVAL_MS;
	jobs_init(&p->jobs, spec->loop, NULL, NULL);
	p->timer = timer_new(spec->loop, on_timer, p);
	timer_set(p->timer, 0);
	return p;
}

void pressure_free(struct pressure *p)
{
	if (!p)
		return;
	timer_free(take(p->timer));
	jobs_wait(&p->jobs);
	for (size_t i = 0; i < ARRAY_LEN(p->told); i++)
		free(p->told[i]);
	free(p);
}
