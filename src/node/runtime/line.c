/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/line.h"

#include "base/str.h"
#include "loop/loop.h"

enum {
	SOON_MS = 1, /* not 0, which libuv may take for this same turn */
};

static void on_next(void *arg);

void line_init(struct line *l, struct loop *loop, unsigned (*stock)(void *arg, bool later),
	       void *arg)
{
	*l = (struct line){ .stock = stock, .arg = arg, .next_ticket = 1, .round = 1 };
	list_init(&l->waiting);
	l->next = timer_new(loop, on_next, l);
}

void line_done(struct line *l)
{
	timer_free(take(l->next));
	while (l->waiting.next && !list_empty(&l->waiting))
		list_del(l->waiting.next);
	free(take(l->trouble));
}

static void later(struct line *l, unsigned ms)
{
	if (l->next && !timer_armed(l->next))
		timer_set(l->next, ms);
}

static struct runtime_wait *first(const struct line *l)
{
	return list_empty(&l->waiting) ? NULL : list_first(&l->waiting, struct runtime_wait, on);
}

static void call(struct line *l)
{
	struct runtime_wait *w;

	while ((w = first(l)) && l->n_called < l->stock(l->arg, w->later)) {
		list_del(&w->on);
		if (!l->n_called || w->ticket < l->first_called)
			l->first_called = w->ticket;
		l->n_called++;
		w->round = l->round;
		later(l, LINE_ANSWER_MS); /* for the next, should this one not want it */
		w->ready(w);              /* may free w */
	}
}

/* Whoever asks again meanwhile stands in the line, not among those who are to be called. */
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
	l->round++;
	if (l->call_all)
		call_everybody(l);
	call(l);
}

/* One that never stood in a line may be all zeroes. */
static bool in_line(struct runtime_wait *w)
{
	if (!w->on.next)
		list_init(&w->on);
	return !list_empty(&w->on);
}

/* Nothing is set aside for w any more. */
static void heard(struct line *l, struct runtime_wait *w)
{
	if (w->round == l->round && l->n_called)
		l->n_called--;
	w->round = 0;
}

static bool goes_before(const struct runtime_wait *a, const struct runtime_wait *b)
{
	return a->later != b->later ? b->later : a->ticket < b->ticket;
}

static bool may_take(struct line *l, const struct runtime_wait *w)
{
	const struct runtime_wait self = { .ticket = w && w->ticket ? w->ticket : l->next_ticket,
					   .later = w && w->later };
	unsigned ahead = l->n_called && l->first_called < self.ticket ? l->n_called : 0;

	if (first(l) && goes_before(first(l), &self))
		return false;
	return l->stock(l->arg, self.later) > ahead;
}

bool line_ask(struct line *l, struct runtime_wait *w)
{
	if (w)
		heard(l, w);
	if (may_take(l, w)) {
		line_leave(l, w);
		return true;
	}
	if (w)
		line_join(l, w);
	return false;
}

bool line_would_serve(struct line *l, struct runtime_wait *w)
{
	heard(l, w);
	if (may_take(l, w)) {
		if (!list_empty(&l->waiting))
			later(l, LINE_ANSWER_MS);
		return true;
	}
	line_join(l, w);
	return false;
}

void line_join(struct line *l, struct runtime_wait *w)
{
	struct list *after;

	if (in_line(w))
		return; /* it keeps its place */
	if (!w->ticket)
		w->ticket = l->next_ticket++;
	for (after = l->waiting.prev; after != &l->waiting; after = after->prev)
		if (goes_before(list_item(after, struct runtime_wait, on), w))
			break;
	list_add_head(after, &w->on);
	if (l->call_all || l->stock(l->arg, w->later))
		later(l, SOON_MS);
}

void line_leave(struct line *l, struct runtime_wait *w)
{
	if (!w)
		return;
	heard(l, w);
	if (in_line(w))
		list_del(&w->on);
	w->ticket = 0;
}

void line_stocked(struct line *l)
{
	call(l);
}

bool line_hurries(const struct line *l)
{
	return first(l) && !first(l)->later;
}

unsigned line_len(const struct line *l, unsigned enough)
{
	unsigned n = l->n_called;
	const struct runtime_wait *w;

	list_each(w, &l->waiting, on) {
		if (n >= enough)
			break;
		n++;
	}
	return MIN(n, enough);
}

bool line_trouble_is(struct line *l, const char *text)
{
	if (str_eq(l->trouble, text))
		return false;
	free(l->trouble);
	l->trouble = xstrdup(text);
	l->call_all = text;
	if (text && !list_empty(&l->waiting))
		later(l, SOON_MS);
	return text;
}
