/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store_priv.h"

/*
 * A view of the past: the live entries, corrected by the events since. For a key that has changed
 * since, its past state is the `prev` of the first event after that revision.
 */
struct store_view {
	const struct store *s;
	/* key → struct store_event of the first change since, borrowed; NULL if nothing changed */
	struct tree *then;
	char prefix[];
};

struct err *store_view_new(const struct store *s, const char *prefix, uint64_t rev,
			   struct store_view **ret)
{
	struct store_view *v;
	struct store_event *ev;

	if (rev < s->base)
		return err_new(ERR_GONE,
			       "revision %llu is older than the history, which begins at %llu",
			       (unsigned long long)rev, (unsigned long long)s->base);
	if (rev > s->rev)
		return err_new(ERR_INVALID, "revision %llu is in the future; the newest is %llu",
			       (unsigned long long)rev, (unsigned long long)s->rev);
	v = xcalloc(1, sizeof(*v) + strlen(prefix) + 1);
	v->s = s;
	memcpy(v->prefix, prefix, strlen(prefix) + 1);
	for (uint64_t r = s->rev; r > rev; r--) { /* backwards, so that the first change wins */
		ev = store_slot(s, r);
		if (!str_starts(ev->entry->key, prefix))
			continue;
		if (!v->then)
			v->then = tree_new(NULL);
		tree_put(v->then, ev->entry->key, ev);
	}
	*ret = v;
	return NULL;
}

struct store_entry *store_view_get(const struct store_view *v, const char *key)
{
	const struct store_event *ev = v->then ? tree_get(v->then, key) : NULL;

	return ev ? ev->prev : store_get(v->s, key);
}

/* The next key of either map; where both have it, the past decides. */
struct store_entry *store_view_next(const struct store_view *v, const char *after)
{
	const struct store_event *ev;
	struct store_entry *now;
	const char *key;

	if (!v->then)
		return store_next(v->s, v->prefix, after);
	for (;;) {
		now = store_next(v->s, v->prefix, after);
		ev = tree_seek(v->then, after ? after : v->prefix, after != NULL, &key);
		if (!ev || (now && strcmp(now->key, key) < 0))
			return now;
		if (ev->prev)
			return ev->prev;
		after = ev->entry->key; /* it did not exist at that time */
	}
}

void store_view_free(struct store_view *v)
{
	if (!v)
		return;
	tree_free(v->then);
	free(v);
}
