/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/queue.h"

#include <assert.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "loop/loop.h"

/*
 * Keys that are ready stand in a list; keys whose time comes later are in a heap ordered by that
 * time, with one timer for the first. An item and its key are one block of memory.
 */
enum {
	RUN_BUDGET = 64,  /* keys before other deferred calls get their turn */
	TURN_MS = 20,     /* of one turn of the loop */
	PASSES_MAX = 200, /* of one key while the queue never empties: then it must pause */
	PAUSE_MS = 20,
	BACKOFF_MIN_MS = 5,
	BACKOFF_MAX_MS = 1000 * 1000,
};

struct queue {
	struct queue_spec spec;
	struct map *items;        /* key → struct queue_item */
	struct list ready;        /* struct queue_item.on_ready */
	struct queue_item **heap; /* by due, the earliest first */
	size_t n_heap, heap_cap;
	struct timer *timer;
	struct timer *more; /* armed: this turn had its share, the next goes on */
	struct deferred drain;
	struct loop_flush *turn_end;
	usec share; /* of each turn */
	usec spent; /* in this turn */
	usec skew;
	usec held; /* queue_hold_time(): what the clock said then; 0: it goes on */
	unsigned epoch;
	bool open;
};

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
	return (q->held ? q->held : clock_mono()) + q->skew;
}

/* The heap */

static void heap_set(struct queue *q, size_t i, struct queue_item *it)
{
	q->heap[i] = it;
	it->heap_at = i + 1;
}

static void heap_up(struct queue *q, size_t i)
{
	struct queue_item *it = q->heap[i];

	for (; i > 0 && q->heap[(i - 1) / 2]->due > it->due; i = (i - 1) / 2)
		heap_set(q, i, q->heap[(i - 1) / 2]);
	heap_set(q, i, it);
}

static void heap_down(struct queue *q, size_t i)
{
	struct queue_item *it = q->heap[i];

	for (size_t child; (child = 2 * i + 1) < q->n_heap; i = child) {
		if (child + 1 < q->n_heap && q->heap[child + 1]->due < q->heap[child]->due)
			child++;
		if (q->heap[child]->due >= it->due)
			break;
		heap_set(q, i, q->heap[child]);
	}
	heap_set(q, i, it);
}

static void heap_add(struct queue *q, struct queue_item *it)
{
	if (q->n_heap == q->heap_cap) {
		q->heap_cap = q->heap_cap ? 2 * q->heap_cap : 16;
		q->heap = xrealloc(q->heap, q->heap_cap * sizeof(*q->heap));
	}
	q->heap[q->n_heap++] = it;
	heap_up(q, q->n_heap - 1);
}

static void heap_del(struct queue *q, struct queue_item *it)
{
	size_t i = it->heap_at - 1;
	struct queue_item *last = q->heap[--q->n_heap];

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

static void item_forget_time(struct queue *q, struct queue_item *it)
{
	if (it->heap_at)
		heap_del(q, it);
}

/* Items */

static struct queue_item *item_new(struct queue *q, const char *key)
{
	size_t len = strlen(key) + 1;
	char *block = xcalloc(1, q->spec.item_size + len);
	struct queue_item *it = (void *)block;

	it->key = memcpy(block + q->spec.item_size, key, len);
	it->queue = q;
	list_init(&it->on_ready);
	map_put(q->items, key, it);
	if (q->spec.item_init)
		q->spec.item_init(q->spec.arg, it);
	return it;
}

static void item_free(struct queue_item *it)
{
	const struct queue_spec *spec = &it->queue->spec;

	if (spec->item_done)
		spec->item_done(spec->arg, it);
	free(it);
}

static void queue_kick(struct queue *q)
{
	if (!q->open || timer_armed(q->more) || list_empty(&q->ready))
		return;
	if (q->spent >= q->share)
		timer_set(q->more, 0);
	else
		deferred_call(&q->drain);
}

static void item_make_ready(struct queue *q, struct queue_item *it)
{
	if (it->running || it->n_held) {
		it->dirty = true;
		return;
	}
	if (it->queued)
		return;
	it->queued = true;
	list_add_tail(&q->ready, &it->on_ready);
	queue_kick(q);
}

static void item_wait(struct queue *q, struct queue_item *it, uint64_t ms)
{
	usec due = queue_now(q) + (usec)ms * 1000;

	if (it->heap_at && it->due <= due)
		return;
	item_forget_time(q, it);
	it->due = due;
	heap_add(q, it);
	timer_arm(q);
}

struct queue_item *queue_add(struct queue *q, const char *key)
{
	struct queue_item *it = queue_find(q, key);

	if (!it)
		it = item_new(q, key);
	item_make_ready(q, it);
	return it;
}

void queue_add_later(struct queue *q, const char *key, uint64_t ms)
{
	struct queue_item *it = queue_find(q, key);

	if (!it)
		it = item_new(q, key);
	if (!it->queued)
		item_wait(q, it, ms);
}

static void on_timer(void *arg)
{
	struct queue *q = arg;
	usec now = queue_now(q);

	while (q->n_heap && q->heap[0]->due <= now) {
		struct queue_item *it = q->heap[0];

		heap_del(q, it);
		item_make_ready(q, it);
	}
	timer_arm(q);
}

/* Running */

/* Takes e over. */
static void item_slowed(struct queue *q, const struct queue_item *it, struct err *e)
{
	if (q->spec.slowed)
		q->spec.slowed(q->spec.arg, it, e);
	err_free(e);
}

static uint64_t retry_ms(const struct queue_item *it, const struct again *again)
{
	uint64_t ms = queue_backoff_ms(it->n_failures);

	return again->ms ? MIN(ms, again->ms) : ms;
}

static void item_settle(struct queue *q, struct queue_item *it, struct again again)
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
		item_wait(q, it, retry_ms(it, &again));
		item_slowed(q, it, again.e);
		break;
	case AGAIN_WAIT:
		break;
	}
}

/* True when the key had so many passes since the queue was last empty that it has to pause. */
static bool item_never_rests(struct queue *q, struct queue_item *it)
{
	if (it->epoch != q->epoch)
		it->n_passes = 0;
	it->epoch = q->epoch;
	if (++it->n_passes <= PASSES_MAX)
		return false;
	it->n_passes = 0;
	item_wait(q, it, PAUSE_MS);
	item_slowed(q, it, err_new(ERR_EXHAUSTED, "key had %d passes without a pause", PASSES_MAX));
	return true;
}

/* What came while the key was busy gets its pass; a key with nothing more to do is forgotten. */
static void item_rested(struct queue *q, struct queue_item *it)
{
	if (it->running || it->n_held)
		return;
	if (it->dirty) {
		it->dirty = false;
		item_make_ready(q, it);
	}
	if (it->queued || it->heap_at || it->n_failures)
		return;
	(void)map_take(q->items, it->key);
	item_free(it);
}

static void item_run(struct queue *q, struct queue_item *it)
{
	struct again again;

	list_del(&it->on_ready);
	it->queued = false;
	if (item_never_rests(q, it))
		return;
	item_forget_time(q, it); /* each pass decides when the next is due */
	it->running = true;
	it->dirty = false;
	again = q->spec.run(q->spec.arg, it);
	it->running = false;
	item_settle(q, it, again);
	item_rested(q, it);
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

	for (unsigned n = 0; n < RUN_BUDGET && q->spent < q->share && !list_empty(&q->ready); n++) {
		item_run(q, list_first(&q->ready, struct queue_item, on_ready));
		q->spent = spent + clock_mono() - since;
	}
	if (list_empty(&q->ready))
		q->epoch++;
	queue_kick(q);
}

void queue_hold(struct queue_item *it)
{
	assert(it->running || it->n_held);
	it->n_held++;
}

void queue_release(struct queue_item *it, bool wake)
{
	assert(it->n_held);
	it->n_held--;
	it->dirty = it->dirty || wake;
	item_rested(it->queue, it);
}

struct queue *queue_new(const struct queue_spec *spec)
{
	struct queue *q = xnew(struct queue);

	q->spec = *spec;
	if (!q->spec.item_size)
		q->spec.item_size = sizeof(struct queue_item);
	q->share = (usec)(spec->turn_ms ? spec->turn_ms : TURN_MS) * 1000;
	q->items = map_new(NULL);
	list_init(&q->ready);
	deferred_init(&q->drain, spec->loop, queue_drain, q);
	q->timer = timer_new(spec->loop, on_timer, q);
	q->more = timer_new(spec->loop, on_more, q);
	q->turn_end = loop_add_flush(spec->loop, on_turn_end, q);
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
	map_each(i, q->items)
		item_free(i.value);
	map_free(q->items);
	free(q->heap);
	free(q);
}

struct queue_item *queue_find(const struct queue *q, const char *key)
{
	return map_get(q->items, key);
}

void queue_hold_time(struct queue *q)
{
	q->held = clock_mono();
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
