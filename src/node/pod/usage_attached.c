/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "node/pod/usage_priv.h"
#include "node/runtime/runtime.h"

enum {
	ATTACHED_MAX = 20000, /* beyond that, those that were used longest ago are forgotten */
};

static void attached_drop(void *p)
{
	struct attached *a = p;

	for (size_t i = 0; i < a->n_meters; i++) {
		meter_done(&a->meters[i].meter);
		free(a->meters[i].task);
	}
	free(a->meters);
	free(a->uid);
	free(a->ns);
	free(a->sandbox);
	free(a);
}

struct map *attached_new(void)
{
	return map_new(attached_drop);
}

static bool forget_oldest(struct map *m)
{
	const struct attached *oldest = NULL;

	map_each(it, m) {
		const struct attached *a = it.value;

		if (!a->n_meters && (!oldest || a->seen < oldest->seen))
			oldest = a;
	}
	return oldest && map_del(m, oldest->uid);
}

size_t attached_trim(struct map *m)
{
	size_t n = 0;

	while (map_len(m) > ATTACHED_MAX && forget_oldest(m))
		n++;
	return n;
}

static struct attached *attached_of(struct map *m, const char *uid)
{
	struct attached *a = map_get(m, uid);

	if (a) {
		a->settled = a->leaving = false;
		return a;
	}
	a = xnew(struct attached);
	a->uid = xstrdup(uid);
	map_put(m, uid, a);
	return a;
}

static struct meter *add_meter(struct attached *a, const char *task, int64_t at)
{
	a->meters = xrealloc(a->meters, (a->n_meters + 1) * sizeof(*a->meters));
	a->meters[a->n_meters] = (struct attached_meter){ .task = xstrdup(task), .meter.at = at };
	return &a->meters[a->n_meters++].meter;
}

static struct meter *find_meter(const struct attached *a, const char *task)
{
	for (size_t i = 0; i < a->n_meters; i++)
		if (str_eq(a->meters[i].task, task))
			return &a->meters[i].meter;
	return NULL;
}

void attached_begin(struct map *m, const char *task, const char *uid, struct attached_time t)
{
	struct attached *a = attached_of(m, uid);

	a->seen = t.wall;
	if (!find_meter(a, task))
		(void)add_meter(a, task, t.now);
}

/* Of this task, and of this part of it: one that was made anew counts from zero. */
static struct meter *meter_of(struct attached *a, const struct runtime_usage *u, int64_t now)
{
	struct meter *m = find_meter(a, u->id);
	char part[128];

	if (!m) /* nobody saw it begin; a look counts from a moment before it */
		m = add_meter(a, u->id, now - 1);
	(void)snprintf(part, sizeof(part), "%s#%llu", u->id, (unsigned long long)u->born);
	if (!m->task) {
		m->task = xstrdup(part);
		return m;
	}
	if (!str_eq(m->task, part))
		meter_task(m, part, now - 1);
	return m;
}

bool attached_counts(const struct map *m, const char *task, const char *uid)
{
	const struct attached *a = map_get(m, uid);

	return a && find_meter(a, task);
}

void attached_look(struct map *m, const struct runtime_usage *u, struct attached_time t)
{
	struct attached *a = attached_of(m, u->key);
	struct meter *meter = meter_of(a, u, t.now);

	meter_look(meter, u, t.now);
	meter->looked = a->seen = t.wall;
}

static void close_meter(struct attached *a, size_t i)
{
	struct attached_meter *m = &a->meters[i];

	a->cpu_usec += m->meter.cpu_usec + m->meter.task_cpu_usec;
	a->memory_byte_s += m->meter.memory_byte_s;
	a->disk_byte_s += m->meter.disk_byte_s;
	meter_done(&m->meter);
	free(m->task);
	*m = a->meters[--a->n_meters];
}

/* The meter stays until the part is gone: it may be told of once more, by the end of its task, and
 * one that is over counts nothing. */
void attached_end(struct map *m, const struct runtime_usage *u, struct attached_time t)
{
	struct attached *a = attached_of(m, u->key);
	struct meter *meter = u->known ? meter_of(a, u, t.now) : find_meter(a, u->id);

	a->seen = t.wall;
	if (meter)
		meter_end(meter, u, t.now);
}

void attached_close(struct map *m, bool (*stands)(void *arg, const char *task, const char *uid),
		    void *arg, struct attached_time t)
{
	map_each(it, m) {
		struct attached *a = it.value;

		for (size_t i = a->n_meters; i-- > 0;)
			if (!stands(arg, a->meters[i].task, a->uid)) {
				a->seen = t.wall;
				close_meter(a, i);
			}
	}
}

bool attached_sum(const struct map *m, const char *uid, struct access_usage *ret)
{
	const struct attached *a = map_get(m, uid);
	struct access_usage sum;

	if (!a)
		return false;
	sum = (struct access_usage){ .at_us = a->seen,
				     .cpu_us = a->cpu_usec,
				     .memory_byte_s = a->memory_byte_s,
				     .disk_byte_s = a->disk_byte_s };
	for (size_t i = 0; i < a->n_meters; i++) {
		const struct meter *one = &a->meters[i].meter;

		sum.cpu_us += one->cpu_usec + one->task_cpu_usec;
		sum.memory_byte_s += one->memory_byte_s;
		sum.disk_byte_s += one->disk_byte_s;
		sum.memory += one->memory;
		sum.disk += one->disk;
		sum.cpu_nano += one->cpu_nano;
		sum.window_us = MAX(sum.window_us, one->window_usec);
	}
	*ret = sum;
	return true;
}

void attached_restore(struct map *m, const struct attached *from)
{
	struct attached *a = attached_of(m, from->uid);

	a->ns = xstrdup(from->ns);
	a->sandbox = xstrdup(from->sandbox);
	a->cpu_usec = from->cpu_usec;
	a->memory_byte_s = from->memory_byte_s;
	a->disk_byte_s = from->disk_byte_s;
	a->seen = from->seen;
	for (size_t i = 0; i < from->n_meters; i++) {
		struct meter *meter = add_meter(a, from->meters[i].task, 0);

		*meter = from->meters[i].meter;
		meter->task = meter->task ? xstrdup(meter->task) : NULL;
	}
}
