/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/deferred_priv.h"
#include "loop/loop.h"

/* Deferred calls, the same in both loops. */

void deferred_init(struct deferred *d, struct loop *l, void (*fn)(void *arg), void *arg)
{
	list_init(&d->on);
	d->loop = l;
	d->fn = fn;
	d->arg = arg;
}

void deferred_call(struct deferred *d)
{
	if (!deferred_pending(d))
		list_add_tail(loop_deferred(d->loop), &d->on);
}

void deferred_cancel(struct deferred *d)
{
	if (deferred_pending(d))
		list_del(&d->on);
}

bool deferred_pending(const struct deferred *d)
{
	return d->loop && !list_empty(&d->on);
}

/* A call is taken off the list before it runs: it may ask for itself again, or be freed. */
void deferred_run(struct list *line)
{
	while (!list_empty(line)) {
		struct deferred *d = list_first(line, struct deferred, on);

		list_del(&d->on);
		d->fn(d->arg);
	}
}
