/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/line.h"

#include "loop/loop.h"

enum {
	ANSWER_MS = 1, /* not 0, which libuv may take for this same turn */
};

static void on_next(void *arg);

void line_init(struct line *l, struct loop *loop, unsigned (*stock)(void *arg), void *arg)
{
	*l = (struct line){ .stock = stock, .arg = arg };
	list_init(&l->waiting);
	l->next = timer_new(loop, on_next, l);
}

void line_done(struct line *l)
{
	timer_free(take(l->next));
	while (l->waiting.next && !list_empty(&l->waiting))
		list_del(l->waiting.next);
}

static void later(struct line *l)
{
	if (l->next && !timer_armed(l->next))
		timer_set(l->next, ANSWER_MS);
}

static void call(struct line *l)
{
	struct runtime_wait *w;

	while (!list_empty(&l->waiting) && l->n_called < LINE_CALLED_MAX &&
	       l->n_called < l->stock(l->arg)) {
		w = list_first(&l->waiting, struct runtime_wait, on);
		list_del(&w->on);
		l->called[l->n_called++] = w;
		later(l);    /* for the next waiter, in case this one does not ask */
		w->ready(w); /* may free w */
	}
}

/* A waiter that asks again meanwhile joins the line, not those that are being called. */
static void call_everybody(struct line *l)
{
	LIST_HEAD(now);
	struct runtime_wait *w;

	l->call_all = false;
	while (!list_empty(&l->waiting)) {
		struct list *first = l->waiting.next;

		list_del(first);
		list_add_tail(&now, first);
	}
	while (!list_empty(&now)) {
		w = list_first(&now, struct runtime_wait, on);
		list_del(&w->on);
		w->ready(w);
	}
}

static void on_next(void *arg)
{
	struct line *l = arg;

	l->n_called = 0;
	if (l->call_all)
		call_everybody(l);
	call(l);
}

/* Whether w was called; if so, it has now responded. */
static bool heard(struct line *l, const struct runtime_wait *w)
{
	for (unsigned i = 0; w && i < l->n_called; i++) {
		if (l->called[i] != w)
			continue;
		l->called[i] = l->called[--l->n_called];
		return true;
	}
	return false;
}

/* A waiter that was never in a line may be all zeroes. */
static bool in_line(struct runtime_wait *w)
{
	if (!w->on.next)
		list_init(&w->on);
	return !list_empty(&w->on);
}

bool line_ask(struct line *l, struct runtime_wait *w)
{
	bool first = list_empty(&l->waiting) || (w && l->waiting.next == &w->on);
	bool called = heard(l, w);

	if ((called || first) && l->stock(l->arg) > l->n_called) {
		if (w && in_line(w))
			list_del(&w->on);
		return true;
	}
	if (!w || in_line(w))
		return false; /* it keeps its place */
	if (called)
		list_add_head(&l->waiting, &w->on);
	else
		list_add_tail(&l->waiting, &w->on);
	if (l->stock(l->arg))
		later(l);
	return false;
}

void line_stocked(struct line *l)
{
	call(l);
}

void line_call_all(struct line *l)
{
	l->call_all = true;
	if (!list_empty(&l->waiting))
		later(l);
}
