/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/permits.h"

#include <limits.h>
#include <unistd.h>

enum {
	PER_CPU = 6, /* some are always on their way from one process to another */
};

static void on_again(void *arg)
{
	struct permits *p = arg;

	p->freed(p->arg);
}

static void forget(struct permits *p, struct permit *t)
{
	list_del(&t->on);
	t->of = NULL;
	p->n--;
}

static void arm(struct permits *p)
{
	usec left;

	if (list_empty(&p->held) || timer_armed(p->late))
		return;
	left = list_first(&p->held, struct permit, on)->since + PERMIT_MS * 1000 - clock_mono();
	timer_set(p->late, left > 0 ? (uint64_t)left / 1000 + 1 : 1);
}

static void on_late(void *arg)
{
	struct permits *p = arg;
	usec before = clock_mono() - PERMIT_MS * 1000;

	while (!list_empty(&p->held)) {
		struct permit *t = list_first(&p->held, struct permit, on);

		if (t->since > before)
			break;
		forget(p, t);
		deferred_call(&p->again);
	}
	arm(p);
}

void permits_init(struct permits *p, struct loop *l, void (*freed)(void *arg), void *arg)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*p = (struct permits){ .freed = freed, .arg = arg };
	list_init(&p->held);
	p->full = (unsigned)(cpus > 0 ? cpus : 1) * PER_CPU;
	p->yield = cpus > 2 ? (unsigned)cpus - 1 : 1;
	p->late = timer_new(l, on_late, p);
	deferred_init(&p->again, l, on_again, p);
}

void permits_done(struct permits *p)
{
	while (!list_empty(&p->held))
		forget(p, list_first(&p->held, struct permit, on));
	timer_free(take(p->late));
	deferred_cancel(&p->again);
}

unsigned permits_left(const struct permits *p, bool urgent)
{
	unsigned limit = p->yields && !urgent ? p->yield : p->full;

	if (p->unlimited)
		return UINT_MAX;
	return limit > p->n ? limit - p->n : 0;
}

void permit_take(struct permits *p, struct permit *t)
{
	if (t->of)
		return;
	t->of = p;
	t->since = clock_mono();
	list_add_tail(&p->held, &t->on);
	p->n++;
	arm(p);
}

void permit_put(struct permit *t)
{
	struct permits *p = t->of;

	if (!p)
		return;
	forget(p, t);
	deferred_call(&p->again);
}

void permits_yield(struct permits *p, bool yield)
{
	p->yields = yield;
	deferred_call(&p->again);
}

void permits_lift(struct permits *p)
{
	p->unlimited = true;
	deferred_call(&p->again);
}
