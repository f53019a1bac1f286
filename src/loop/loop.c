/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/deferred_priv.h"
#include "loop/loop_priv.h"

/*
 * The turn. libuv runs timers and I/O callbacks, then its prepare handles, then sleeps in poll.
 * We have one prepare handle, which runs deferred calls and flush hooks, so that whatever the
 * callbacks of this round asked for is done, and flushed once, before the thread goes to sleep.
 *
 * Posted calls are a stack that producers push to with one compare-and-swap; the loop takes
 * the whole stack in one exchange and reverses it. No lock is needed. Who pushes to an empty stack
 * wakes the loop, by a descriptor of our own: a loop that is woken by libuv's uv_async_send() spins
 * until the sender has returned from its write, which on a busy machine has just lost its CPU to
 * the loop.
 */
struct loop_flush {
	struct list link;
	struct loop *loop;
	void (*fn)(void *arg);
	void *arg;
};

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

/* Deferred calls, then flushes; again if a flush asked for a deferred call. */
static void settle(struct loop *l)
{
	do {
		deferred_run(&l->deferred);
		flush_all(l);
	} while (!list_empty(&l->deferred));
}

static void on_prepare(uv_prepare_t *h)
{
	settle(h->data);
}

static struct posted *reversed(struct posted *c)
{
	struct posted *before = NULL, *next;

	for (; c; c = next) {
		next = c->next;
		c->next = before;
		before = c;
	}
	return before;
}

static void run_posted(struct loop *l)
{
	struct posted *c = reversed(atomic_exchange(&l->posted, NULL)), *next;

	for (; c; c = next) {
		next = c->next;
		c->fn(c->arg);
		free(c);
	}
}

static void wake(struct loop *l)
{
	/* Fails only if the counter is full, and then the loop is awake anyway. */
	(void)eventfd_write(l->wake_fd, 1);
}

/* The wake-ups are taken before the calls: a call that comes in between brings another one. */
static void on_wake(uv_poll_t *h, unused int status, unused int events)
{
	struct loop *l = h->data;
	eventfd_t n;

	(void)eventfd_read(l->wake_fd, &n);
	run_posted(l);
	if (atomic_load(&l->stopping))
		uv_stop(&l->uv);
}

/* The timer may fire before the poll that it bounds; that poll must not wait then. */
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
		return err_sys(-r, "create an event loop");
	}
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0) {
		r = errno;
		(void)uv_loop_close(&l->uv);
		free(l);
		return err_sys(r, "create the wake-up descriptor of an event loop");
	}
	r = uv_poll_init(&l->uv, &l->wake, l->wake_fd);
	assert(r == 0); /* it is new, and can be polled */
	(void)uv_prepare_init(&l->uv, &l->prepare);
	(void)uv_timer_init(&l->uv, &l->turn_end);
	uv_unref((uv_handle_t *)&l->prepare);
	uv_unref((uv_handle_t *)&l->turn_end);
	l->prepare.data = l->wake.data = l->turn_end.data = l;
	list_init(&l->deferred);
	list_init(&l->flushes);
	l->next_flush = &l->flushes;
	(void)uv_poll_start(&l->wake, UV_READABLE, on_wake);
	(void)uv_prepare_start(&l->prepare, on_prepare);
	*ret = l;
	return NULL;
}

static void check_closing(uv_handle_t *h, unused void *arg)
{
	assert(uv_is_closing(h)); /* a watch, timer, child or signal watch has outlived its loop */
}

void loop_free(struct loop *l)
{
	int r;

	if (!l)
		return;
	crew_free(l->crew);
	l->crew = NULL;
	run_posted(l);
	settle(l);
	uv_close((uv_handle_t *)&l->prepare, NULL);
	uv_close((uv_handle_t *)&l->wake, NULL);
	uv_close((uv_handle_t *)&l->turn_end, NULL);
	uv_walk(&l->uv, check_closing, NULL);
	(void)uv_run(&l->uv, UV_RUN_DEFAULT); /* jobs end, handles close */
	deferred_run(&l->deferred);
	assert(list_empty(&l->flushes));
	r = uv_loop_close(&l->uv);
	assert(r == 0);
	(void)close(l->wake_fd);
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
	wake(l);
}

/* Whether anything but our own wake-up could still happen. */
static bool alive(struct loop *l)
{
	bool any;

	if (!list_empty(&l->deferred) || atomic_load(&l->posted) || crew_works(l->crew))
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

struct list *loop_deferred(struct loop *l)
{
	return &l->deferred;
}

void loop_post(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct posted *c = xnew(struct posted), *before = atomic_load(&l->posted);

	c->fn = fn;
	c->arg = arg;
	do /* once it is pushed, it may run and be freed at any time */
		c->next = before;
	while (!atomic_compare_exchange_weak(&l->posted, &before, c));
	if (!before)
		wake(l);
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
