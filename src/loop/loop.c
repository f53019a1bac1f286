/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/mem.h"
#include "loop/loop_priv.h"

/*
 * The turn. libuv runs timers and I/O callbacks, then its prepare handles, then sleeps in poll.
 * Ours is the one prepare handle: it runs deferred calls and flush hooks there, so that whatever
 * callbacks of this round asked for is done, and flushed once, before the thread goes to sleep.
 *
 * Posted calls are a stack that producers push to with one compare-and-swap; the loop takes all of
 * it in one exchange and turns it round. No lock is needed.
 */
struct loop_flush {
	struct list link;
	struct loop *loop;
	void (*fn)(void *arg);
	void *arg;
};

static void run_deferred(struct loop *l)
{
	struct call *c;

	while ((c = l->deferred)) {
		struct call now = *c;

		l->deferred = c->next;
		if (!l->deferred)
			l->deferred_tail = &l->deferred;
		if (l->spare)
			free(c);
		else
			l->spare = c;
		now.fn(now.arg);
	}
}

/* A hook may remove itself or any other: loop_del_flush() moves next_flush along. */
static void flush_all(struct loop *l)
{
	struct loop_flush *f;

	l->next_flush = l->flushes.next;
	while (l->next_flush != &l->flushes) {
		f = list_item(l->next_flush, struct loop_flush, link);
		l->next_flush = f->link.next;
		f->fn(f->arg);
	}
}

/* Deferred calls, then flushes; again if a flush deferred something. */
static void settle(struct loop *l)
{
	do {
		run_deferred(l);
		flush_all(l);
	} while (l->deferred);
}

static void on_prepare(uv_prepare_t *h)
{
	settle(h->data);
}

static struct call *reversed(struct call *c)
{
	struct call *before = NULL, *next;

	for (; c; c = next) {
		next = c->next;
		c->next = before;
		before = c;
	}
	return before;
}

static void run_posted(struct loop *l)
{
	struct call *c = reversed(atomic_exchange(&l->posted, NULL)), *next;

	for (; c; c = next) {
		next = c->next;
		c->fn(c->arg);
		free(c);
	}
}

static void on_wake(uv_async_t *h)
{
	struct loop *l = h->data;

	run_posted(l);
	if (atomic_load(&l->stopping))
		uv_stop(&l->uv);
}

/* It may be due before the poll that it should end: that one must not wait then. */
static void on_turn_end(uv_timer_t *h)
{
	uv_stop(h->loop);
}

struct err *loop_new(struct loop **ret)
{
	struct loop *l = xnew(struct loop);
	int r = uv_loop_init(&l->uv);

	if (r < 0) {
		free(l);
		return err_sys(-r, "make an event loop");
	}
	r = uv_async_init(&l->uv, &l->wake, on_wake);
	if (r < 0) {
		(void)uv_loop_close(&l->uv);
		free(l);
		return err_sys(-r, "make the wake-up of an event loop");
	}
	(void)uv_prepare_init(&l->uv, &l->prepare);
	(void)uv_timer_init(&l->uv, &l->turn_end);
	uv_unref((uv_handle_t *)&l->prepare);
	uv_unref((uv_handle_t *)&l->turn_end);
	l->prepare.data = l->wake.data = l->turn_end.data = l;
	l->deferred_tail = &l->deferred;
	list_init(&l->flushes);
	l->next_flush = &l->flushes;
	(void)uv_prepare_start(&l->prepare, on_prepare);
	*ret = l;
	return NULL;
}

static void check_closing(uv_handle_t *h, unused void *arg)
{
	assert(uv_is_closing(h)); /* a watch, timer, child or signal outlives its loop */
}

void loop_free(struct loop *l)
{
	int r;

	if (!l)
		return;
	run_posted(l);
	settle(l);
	uv_close((uv_handle_t *)&l->prepare, NULL);
	uv_close((uv_handle_t *)&l->wake, NULL);
	uv_close((uv_handle_t *)&l->turn_end, NULL);
	uv_walk(&l->uv, check_closing, NULL);
	(void)uv_run(&l->uv, UV_RUN_DEFAULT); /* jobs end, handles close */
	run_deferred(l);
	assert(list_empty(&l->flushes));
	r = uv_loop_close(&l->uv);
	assert(r == 0);
	free(l->spare);
	free(l);
}

void loop_run(struct loop *l)
{
	while (!atomic_load(&l->stopping))
		(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	atomic_store(&l->stopping, false);
	settle(l); /* what the last callbacks asked for */
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stopping, true);
	(void)uv_async_send(&l->wake);
}

/* Whether anything but our own wake-up could still happen. */
static bool alive(struct loop *l)
{
	bool any;

	if (l->deferred || atomic_load(&l->posted))
		return true;
	uv_unref((uv_handle_t *)&l->wake);
	any = uv_loop_alive(&l->uv);
	uv_ref((uv_handle_t *)&l->wake);
	return any;
}

bool loop_turn(struct loop *l, unsigned wait_ms)
{
	if (wait_ms) {
		uv_update_time(&l->uv);
		(void)uv_timer_start(&l->turn_end, on_turn_end, wait_ms, 0);
		(void)uv_run(&l->uv, UV_RUN_ONCE);
		(void)uv_timer_stop(&l->turn_end);
	} else {
		(void)uv_run(&l->uv, UV_RUN_NOWAIT);
	}
	settle(l);
	return alive(l);
}

void loop_defer(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct call *c = l->spare ? take(l->spare) : xnew(struct call);

	*c = (struct call){ .fn = fn, .arg = arg };
	*l->deferred_tail = c;
	l->deferred_tail = &c->next;
}

void loop_post(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct call *c = xnew(struct call);

	c->fn = fn;
	c->arg = arg;
	c->next = atomic_load(&l->posted);
	while (!atomic_compare_exchange_weak(&l->posted, &c->next, c))
		;
	(void)uv_async_send(&l->wake);
}

struct loop_flush *loop_add_flush(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct loop_flush *f = xnew(struct loop_flush);

	f->loop = l;
	f->fn = fn;
	f->arg = arg;
	list_add_tail(&l->flushes, &f->link);
	return f;
}

void loop_del_flush(struct loop_flush *f)
{
	if (!f)
		return;
	if (f->loop->next_flush == &f->link)
		f->loop->next_flush = f->link.next;
	list_del(&f->link);
	free(f);
}
