/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store_priv.h"

/*
 * Watches are grouped by prefix. When events become durable, the groups that cover their keys are
 * found through the keys' own prefixes ("a/", "a/b/", "a/b/c"), so that a thousand watches of
 * single objects cost nothing while other objects change. A watch that has seen everything sleeps
 * without a position; the first event that concerns it gives it one.
 */
struct watch_group {
	struct list watches;
};

struct store_watch {
	struct store *s;
	struct list in_group, in_woken;
	uint64_t pos; /* the newest revision seen, while not idle */
	bool idle;    /* has seen everything that is durable */
	struct store_wake wake;
	char prefix[];
};

static struct watch_group *group_need(struct store *s, const char *prefix)
{
	struct watch_group *g = map_get(s->watched, prefix);

	if (!g) {
		g = xnew(struct watch_group);
		list_init(&g->watches);
		map_put(s->watched, prefix, g);
	}
	return g;
}

static struct err *in_reach(const struct store *s, uint64_t rev)
{
	if (rev < s->base)
		return err_new(ERR_GONE,
			       "revision %llu is older than the history, which begins at %llu",
			       (unsigned long long)rev, (unsigned long long)s->base);
	if (rev > s->rev)
		return err_new(ERR_INVALID, "revision %llu is in the future; the newest is %llu",
			       (unsigned long long)rev, (unsigned long long)s->rev);
	return NULL;
}

struct err *store_watch_new(struct store *s, const char *prefix, uint64_t from_rev,
			    struct store_wake wake, struct store_watch **ret)
{
	struct err *e = in_reach(s, from_rev);
	struct store_watch *w;

	if (e)
		return e;
	w = xcalloc(1, sizeof(*w) + strlen(prefix) + 1);
	w->s = s;
	memcpy(w->prefix, prefix, strlen(prefix) + 1);
	w->pos = from_rev;
	w->wake = wake;
	list_init(&w->in_woken);
	list_add_tail(&group_need(s, prefix)->watches, &w->in_group);
	s->n_watches++;
	*ret = w;
	return NULL;
}

struct err *store_watch_next(struct store_watch *w, struct store_event *ret, bool *ret_have)
{
	struct store *s = w->s;
	struct store_event *ev;

	if (!w->idle && w->pos < s->base)
		return err_new(ERR_GONE,
			       "the watch fell behind: revision %llu is older than the history",
			       (unsigned long long)w->pos);
	while (!w->idle && w->pos < s->committed) {
		ev = store_slot(s, ++w->pos);
		if (!store_prefix_means(w->prefix, ev->entry->key))
			continue;
		*ret = *ev;
		*ret_have = true;
		return NULL;
	}
	w->idle = w->pos <= s->committed;
	*ret_have = false;
	return NULL;
}

uint64_t store_watch_rev(const struct store_watch *w)
{
	return w->idle ? w->s->committed : w->pos;
}

void store_watch_free(struct store_watch *w)
{
	struct watch_group *g;

	if (!w)
		return;
	list_del(&w->in_group);
	list_del(&w->in_woken);
	g = map_get(w->s->watched, w->prefix);
	if (list_empty(&g->watches)) {
		(void)map_take(w->s->watched, w->prefix);
		free(g);
	}
	w->s->n_watches--;
	free(w);
}

static void group_note(struct watch_group *g, uint64_t rev, struct list *woken)
{
	struct store_watch *w;

	list_each(w, &g->watches, in_group) {
		if (w->idle)
			w->pos = rev - 1;
		w->idle = false;
		if (list_empty(&w->in_woken))
			list_add_tail(woken, &w->in_woken);
	}
}

/* Notes the event for every group that covers its key: "", each part up to a '/', and the key. */
static void note_event(struct store *s, const struct store_event *ev, struct list *woken)
{
	size_t len = strlen(ev->entry->key);
	struct watch_group *g;
	char part[1025 + 1];

	assert(len < sizeof(part));
	memcpy(part, ev->entry->key, len + 1);
	for (size_t n = len + 1; n-- > 0;) {
		if (n != 0 && n != len && part[n - 1] != '/')
			continue;
		part[n] = '\0';
		g = map_get(s->watched, part);
		if (g)
			group_note(g, ev->entry->rev, woken);
	}
}

void store_watches_wake(struct store *s, uint64_t from, uint64_t to)
{
	struct store_watch *w;
	LIST_HEAD(woken);

	if (!s->n_watches)
		return;
	for (uint64_t r = from + 1; r <= to; r++)
		note_event(s, store_slot(s, r), &woken);
	while (!list_empty(&woken)) {
		w = list_first(&woken, struct store_watch, in_woken);
		list_del(&w->in_woken);
		w->wake.fn(w->wake.arg); /* may free this and any other watch */
	}
}
