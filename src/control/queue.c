/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "control/queue_priv.h"
#include "loop/loop.h"

/*
 * Keys that are ready stand in a list; keys whose time comes later in a heap by that time, with one
 * timer for the first. A key that is neither, has nothing under way and did not fail is forgotten.
 */
#define RUN_BUDGET 64 /* keys before other deferred calls get their turn */
#define TURN_USEC \
	20000 /* of one turn of the loop: work without end must not keep it from its peers */
#define PASSES_MOST 200 /* of one key while the queue never empties: then it rests a little */

struct queue {
	struct loop *loop;
	queue_run run;
	void *arg;
	struct map *items; /* id → struct item, owned */
	struct list ready;
	struct item **heap; /* by due, heap[0] first */
	size_t n_heap, heap_cap;
	struct timer *timer;
	struct timer *more; /* armed: this turn had its share, the next goes on */
	struct loop_flush *turn_end;
	usec spent; /* in this turn */
	usec skew;
	unsigned epoch;
	struct deferred drain;
	bool open;
};

static const char *const kind_names[CONTROL_KIND_MAX_] = { "sandbox", "template", "pool", "claim" };

struct again again_never(void)
{
	return (struct again){ AGAIN_NEVER };
}

struct again again_after(uint64_t ms)
{
	return (struct again){ AGAIN_AFTER, .ms = ms };
}

struct again again_retry(struct err *e)
{
	return (struct again){ AGAIN_RETRY, .e = e };
}

struct again again_wait(void)
{
	return (struct again){ AGAIN_WAIT };
}

uint64_t queue_backoff_ms(unsigned n_failures)
{
	uint64_t ms = BACKOFF_MIN_MS;

	while (n_failures-- > 1 && ms < BACKOFF_MAX_MS)
		ms *= 2;
	return MIN(ms, (uint64_t)BACKOFF_MAX_MS);
}

static usec queue_now(const struct queue *q)
{
	return clock_mono() + q->skew;
}

/* The heap */

static void heap_set(struct queue *q, size_t i, struct item *it)
{
	q->heap[i] = it;
	it->heap_at = i + 1;
}

static void heap_up(struct queue *q, size_t i)
{
	struct item *it = q->heap[i];

	for (; i > 0 && q->heap[(i - 1) / 2]->due > it->due; i = (i - 1) / 2)
		heap_set(q, i, q->heap[(i - 1) / 2]);
	heap_set(q, i, it);
}

static void heap_down(struct queue *q, size_t i)
{
	struct item *it = q->heap[i];

	for (size_t child; (child = 2 * i + 1) < q->n_heap; i = child) {
		if (child + 1 < q->n_heap && q->heap[child + 1]->due < q->heap[child]->due)
			child++;
		if (q->heap[child]->due >= it->due)
			break;
		heap_set(q, i, q->heap[child]);
	}
	heap_set(q, i, it);
}

static void heap_add(struct queue *q, struct item *it)
{
	if (q->n_heap == q->heap_cap) {
		q->heap_cap = q->heap_cap ? 2 * q->heap_cap : 16;
		q->heap = xrealloc(q->heap, q->heap_cap * sizeof(*q->heap));
	}
	q->heap[q->n_heap++] = it;
	heap_up(q, q->n_heap - 1);
}

static void heap_del(struct queue *q, struct item *it)
{
	size_t i = it->heap_at - 1;
	struct item *last = q->heap[--q->n_heap];

	it->heap_at = 0;
	if (last == it)
		return;
	heap_set(q, i, last);
	heap_up(q, i);
	heap_down(q, last->heap_at - 1);
}

static void timer_arm(struct queue *q)
{
	usec left;

	if (!q->n_heap || !q->open) {
		timer_clear(q->timer);
		return;
	}
	left = q->heap[0]->due - queue_now(q);
	timer_set(q->timer, left > 0 ? (uint64_t)(left + 999) / 1000 : 0);
}

static void item_forget_time(struct queue *q, struct item *it)
{
	if (it->heap_at)
		heap_del(q, it);
}

/* Items */

static void item_free(void *p)
{
	struct item *it = p;

	for (size_t i = 0; i < SLOT_MAX_; i++)
		err_free(it->outcomes[i].e);
	free(it->ns);
	free(it->name);
	free(it->id);
	free(it);
}

static struct item *item_need(struct queue *q, const struct key *key)
{
	autofree char *id = xasprintf("%s/%s/%s", kind_names[key->kind], key->ns, key->name);
	struct item *it = map_get(q->items, id);

	if (it)
		return it;
	it = xnew(struct item);
	it->id = take(id);
	it->ns = xstrdup(key->ns);
	it->name = xstrdup(key->name);
	it->key = (struct key){ key->kind, it->ns, it->name };
	list_init(&it->link);
	map_put(q->items, it->id, it);
	return it;
}

static void item_drop_if_idle(struct queue *q, struct item *it)
{
	if (it->queued || it->running || it->n_writes || it->heap_at || it->n_failures)
		return;
	for (size_t i = 0; i < SLOT_MAX_; i++)
		if (it->outcomes[i].e || it->outcomes[i].n_ok || it->outcomes[i].n_failed)
			return;
	map_del(q->items, it->id);
}

static void queue_kick(struct queue *q)
{
	if (!q->open || timer_armed(q->more) || list_empty(&q->ready))
		return;
	if (q->spent >= TURN_USEC)
		timer_set(q->more, 0);
	else
		deferred_call(&q->drain);
}

static void item_make_ready(struct queue *q, struct item *it)
{
	if (it->running || it->n_writes) {
		it->dirty = true;
		return;
	}
	if (it->queued)
		return;
	it->queued = true;
	list_add_tail(&q->ready, &it->link);
	queue_kick(q);
}

static void item_wait(struct queue *q, struct item *it, uint64_t ms)
{
	usec due = queue_now(q) + (usec)ms * 1000;

	if (it->heap_at && it->due <= due)
		return;
	item_forget_time(q, it);
	it->due = due;
	heap_add(q, it);
	timer_arm(q);
}

void queue_add(struct queue *q, enum control_kind kind, const char *ns, const char *name)
{
	item_make_ready(q, item_need(q, &(struct key){ kind, ns, name }));
}

static void on_timer(void *arg)
{
	struct queue *q = arg;
	usec now = queue_now(q);

	while (q->n_heap && q->heap[0]->due <= now) {
		struct item *it = q->heap[0];

		heap_del(q, it);
		item_make_ready(q, it);
	}
	timer_arm(q);
}

/* Running */

static void item_settle(struct queue *q, struct item *it, struct again again)
{
	switch (again.how) {
	case AGAIN_NEVER:
		it->n_failures = 0;
		break;
	case AGAIN_AFTER:
		it->n_failures = 0;
		item_wait(q, it, again.ms);
		break;
	case AGAIN_RETRY:
		it->n_failures++;
		item_wait(q, it, queue_backoff_ms(it->n_failures));
		log_warn("reconcile pass did not end well, trying again later", KV("key", it->id),
			 KV("failures", it->n_failures), KV("err", again.e));
		err_free(again.e);
		break;
	case AGAIN_WAIT:
		break;
	}
}

static void item_run(struct queue *q, struct item *it)
{
	struct again again;

	list_del(&it->link);
	it->queued = false;
	if (it->epoch != q->epoch)
		it->n_passes = 0;
	it->epoch = q->epoch;
	if (++it->n_passes > PASSES_MOST) {
		it->n_passes = 0;
		log_warn("key never comes to rest, slowing it down", KV("key", it->id));
		item_wait(q, it, BACKOFF_MIN_MS * 4);
		return;
	}
	item_forget_time(q, it); /* each pass says anew when the next is due */
	it->running = true;
	it->dirty = false;
	again = q->run(q->arg, it);
	it->running = false;
	item_settle(q, it, again);
	if (it->dirty && !it->n_writes) {
		it->dirty = false;
		item_make_ready(q, it);
	}
	item_drop_if_idle(q, it);
}

static void on_turn_end(void *arg)
{
	((struct queue *)arg)->spent = 0;
}

static void on_more(void *arg)
{
	queue_kick(arg);
}

static void queue_drain(void *arg)
{
	struct queue *q = arg;
	usec since = clock_mono(), spent = q->spent;

	for (unsigned n = 0; n < RUN_BUDGET && q->spent < TURN_USEC && !list_empty(&q->ready);
	     n++) {
		item_run(q, list_first(&q->ready, struct item, link));
		q->spent = spent + clock_mono() - since;
	}
	if (list_empty(&q->ready))
		q->epoch++;
	queue_kick(q);
}

void queue_write_begin(struct queue *q unused, struct item *it)
{
	assert(it->running);
	it->n_writes++;
}

void queue_write_end(struct queue *q, struct item *it, bool wake)
{
	assert(it->n_writes);
	it->n_writes--;
	it->dirty = it->dirty || wake;
	if (it->n_writes || it->running)
		return;
	if (it->dirty) {
		it->dirty = false;
		item_make_ready(q, it);
	}
	item_drop_if_idle(q, it);
}

struct queue *queue_new(struct loop *l, queue_run run, void *arg)
{
	struct queue *q = xnew(struct queue);

	q->loop = l;
	q->run = run;
	q->arg = arg;
	q->items = map_new(item_free);
	list_init(&q->ready);
	deferred_init(&q->drain, l, queue_drain, q);
	q->timer = timer_new(l, on_timer, q);
	q->more = timer_new(l, on_more, q);
	q->turn_end = loop_add_flush(l, on_turn_end, q);
	return q;
}

void queue_open(struct queue *q)
{
	q->open = true;
	queue_kick(q);
	timer_arm(q);
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	timer_free(q->timer);
	timer_free(q->more);
	loop_del_flush(q->turn_end);
	deferred_cancel(&q->drain);
	map_free(q->items);
	free(q->heap);
	free(q);
}

void queue_step(struct queue *q, uint64_t ms)
{
	q->skew += (usec)ms * 1000;
	timer_arm(q);
}

size_t queue_len(const struct queue *q)
{
	return map_len(q->items);
}
