/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/deferred_priv.h"
#include "loop/loop.h"

/*
 * The same loop without libuv, for a program of one thread that starts with every sandbox:
 * cay-init. libuv would begin with pipes, a descriptor to be woken by and a lock for its signals,
 * and try each descriptor out before it watches it. There are descriptors, timers, deferred and
 * posted calls here; no jobs, no signals, no children, no flush hooks, and no other thread.
 *
 * The kernel is told what a watch wants just before the loop sleeps, so what changes and changes
 * back within a turn costs nothing.
 */
enum {
	EVENTS = 64,             /* per turn; the rest is reported in the next */
	WAIT_MAX_MS = 60 * 1000, /* a longer sleep is made of pieces */
};

struct loop {
	int fd;
	struct list deferred; /* struct deferred; first in, first out */
	struct list posted;   /* struct posted; first in, first out */
	struct list timers;   /* struct timer, the next one first */
	struct list changed;  /* struct watch */
	unsigned n_alive;     /* watches that want something */
	bool stopping;
	int n_events; /* of this turn */
	struct epoll_event events[EVENTS];
};

struct watch {
	struct loop *loop;
	struct list changed; /* what the kernel knows is not what is wanted */
	int fd;
	unsigned want, known;
	void (*fn)(void *arg, unsigned ready);
	void *arg;
};

struct timer {
	struct loop *loop;
	struct list on; /* the loop's, or those that fire now; empty: not armed */
	usec at;
	void (*fn)(void *arg);
	void *arg;
};

struct posted {
	struct list on;
	void (*fn)(void *arg);
	void *arg;
};

struct err *loop_new(struct loop **ret)
{
	struct loop *l = xnew(struct loop);

	l->fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->fd < 0) {
		free(l);
		return err_sys(errno, "create an event loop");
	}
	list_init(&l->deferred);
	list_init(&l->posted);
	list_init(&l->timers);
	list_init(&l->changed);
	*ret = l;
	return NULL;
}

/* Moves everything from one list to another, which is empty. */
static void list_move(struct list *from, struct list *to)
{
	list_init(to);
	if (list_empty(from))
		return;
	list_add_head(from, to); /* to takes the place of from among its elements */
	list_del(from);
}

/* What is posted by these calls waits for the next turn. */
static void run_posted(struct loop *l)
{
	struct list now;

	list_move(&l->posted, &now);
	while (!list_empty(&now)) {
		struct posted *p = list_first(&now, struct posted, on);

		list_del(&p->on);
		p->fn(p->arg);
		free(p);
	}
}

/* A timer that is set by these calls, even to 0 ms, waits for the next turn. */
static void run_timers(struct loop *l)
{
	struct list now;
	struct timer *t, *next;
	usec time;

	if (list_empty(&l->timers))
		return;
	list_init(&now);
	time = clock_mono();
	list_each_safe(t, next, &l->timers, on) {
		if (t->at > time)
			break;
		list_del(&t->on);
		list_add_tail(&now, &t->on);
	}
	while (!list_empty(&now)) {
		t = list_first(&now, struct timer, on);
		list_del(&t->on);
		t->fn(t->arg);
	}
}

static uint32_t epoll_bits(unsigned want)
{
	return (want & WATCH_READ ? EPOLLIN : 0) | (want & WATCH_WRITE ? EPOLLOUT : 0);
}

/* A watch that wants nothing is unknown to the kernel, which would report errors even then. */
static void tell_kernel(struct loop *l)
{
	while (!list_empty(&l->changed)) {
		struct watch *w = list_first(&l->changed, struct watch, changed);
		struct epoll_event e = { .events = epoll_bits(w->want), .data.ptr = w };
		int op = !w->want ? EPOLL_CTL_DEL : w->known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
		int r = epoll_ctl(l->fd, op, w->fd, &e);

		assert(r == 0); /* closed, watched already, or of a kind that is always ready */
		w->known = w->want;
		list_del(&w->changed);
	}
}

static int wait_ms(const struct loop *l, int most)
{
	usec left;

	if (l->stopping || !list_empty(&l->posted))
		return 0;
	if (list_empty(&l->timers))
		return most;
	left = list_first(&l->timers, struct timer, on)->at - clock_mono();
	if (left <= 0)
		return 0;
	return (int)MIN((left + 999) / 1000, most < 0 ? (usec)WAIT_MAX_MS : (usec)most);
}

/* What happened, of what is wanted. A hang-up alone counts as all of it. */
static unsigned ready_of(const struct watch *w, uint32_t events)
{
	unsigned ready = 0;

	if (events & EPOLLERR)
		return WATCH_READ | WATCH_WRITE;
	if (events & EPOLLIN)
		ready |= WATCH_READ;
	if (events & EPOLLOUT)
		ready |= WATCH_WRITE;
	return ready ? ready & w->want : w->want;
}

static void sleep_and_call(struct loop *l, int most_ms)
{
	tell_kernel(l);
	l->n_events = epoll_wait(l->fd, l->events, EVENTS, wait_ms(l, most_ms));
	for (int i = 0; i < l->n_events; i++) {
		struct watch *w = l->events[i].data.ptr;
		unsigned ready = w && w->want ? ready_of(w, l->events[i].events) : 0;

		l->events[i].data.ptr = NULL;
		if (ready)
			w->fn(w->arg, ready);
	}
	l->n_events = 0;
}

static void turn(struct loop *l, int most_ms)
{
	run_timers(l);
	run_posted(l);
	deferred_run(&l->deferred);
	sleep_and_call(l, most_ms);
}

void loop_run(struct loop *l)
{
	while (!l->stopping)
		turn(l, -1);
	l->stopping = false;
	deferred_run(&l->deferred);
}

void loop_stop(struct loop *l)
{
	l->stopping = true;
}

bool loop_turn(struct loop *l, unsigned wait)
{
	turn(l, (int)wait);
	run_timers(l);
	deferred_run(&l->deferred);
	return l->n_alive || !list_empty(&l->timers) || !list_empty(&l->posted);
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	run_posted(l);
	deferred_run(&l->deferred);
	assert(!l->n_alive && list_empty(&l->timers)); /* one has outlived its loop */
	(void)close(l->fd);
	free(l);
}

struct list *loop_deferred(struct loop *l)
{
	return &l->deferred;
}

void loop_post(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct posted *p = xnew(struct posted);

	p->fn = fn;
	p->arg = arg;
	list_add_tail(&l->posted, &p->on);
}

struct watch *watch_new(struct loop *l, int fd, void (*fn)(void *arg, unsigned ready), void *arg)
{
	struct watch *w = xnew(struct watch);
	int on = 1;

	(void)ioctl(fd, FIONBIO, &on);
	w->loop = l;
	list_init(&w->changed);
	w->fd = fd;
	w->fn = fn;
	w->arg = arg;
	return w;
}

void watch_want(struct watch *w, unsigned want)
{
	w->loop->n_alive += !!want - !!w->want;
	w->want = want;
	list_del(&w->changed);
	if (want != w->known)
		list_add_tail(&w->loop->changed, &w->changed);
}

/* The number of its descriptor may be used again at once, so the kernel is told now. */
void watch_free(struct watch *w)
{
	if (!w)
		return;
	watch_want(w, 0);
	list_del(&w->changed);
	if (w->known)
		(void)epoll_ctl(w->loop->fd, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = 0; i < w->loop->n_events; i++)
		if (w->loop->events[i].data.ptr == w)
			w->loop->events[i].data.ptr = NULL;
	free(w);
}

struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct timer *t = xnew(struct timer);

	t->loop = l;
	list_init(&t->on);
	t->fn = fn;
	t->arg = arg;
	return t;
}

/* Most are set to the same span, so the place is near the end. */
void timer_set(struct timer *t, uint64_t in_ms)
{
	struct list *before;

	list_del(&t->on);
	t->at = clock_mono() + (usec)MIN(in_ms, (uint64_t)INT32_MAX * 1000) * 1000;
	before = t->loop->timers.prev;
	while (before != &t->loop->timers && list_item(before, struct timer, on)->at > t->at)
		before = before->prev;
	list_add_head(before, &t->on);
}

void timer_clear(struct timer *t)
{
	list_del(&t->on);
}

bool timer_armed(const struct timer *t)
{
	return !list_empty(&t->on);
}

void timer_free(struct timer *t)
{
	if (!t)
		return;
	list_del(&t->on);
	free(t);
}
