/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store_priv.h"

/*
 * A view of the past: the live entries, corrected by what has changed since. For a key that has
 * changed since, its past state is the `prev` of the first event after that revision. A view takes
 * a reference to it, from the history when it is made and with each write from then on, so a reader
 * may take its time; what all of that holds has a limit. Readers of one revision share a view.
 */
enum {
	PAST_KEYS_MAX = 8192,
	PAST_BYTES_MAX = 16 << 20,
};

struct store_view {
	struct list link; /* of store->views */
	struct store *s;
	unsigned refs;
	uint64_t rev;
	/* key → its state at rev, a reference, or &absent; NULL if nothing has changed */
	struct tree *then;
	size_t bytes; /* that then holds */
	bool lost;
	char prefix[];
};

static struct store_entry absent;

static void past_free(void *value)
{
	if (value != &absent)
		store_entry_unref(value);
}

static void view_keep(struct store_view *v, const char *key, struct store_entry *was)
{
	if (!v->then)
		v->then = tree_new(past_free);
	if (was)
		v->bytes += was->value->len;
	tree_put(v->then, key, was ? store_entry_ref(was) : &absent);
}

static void view_lose(struct store_view *v)
{
	v->lost = true;
	tree_free(take(v->then));
}

void store_views_note(struct store *s, const struct store_event *ev)
{
	struct store_view *v;

	list_each(v, &s->views, link) {
		if (v->lost || !str_starts(ev->entry->key, v->prefix) ||
		    (v->then && tree_get(v->then, ev->entry->key)))
			continue;
		view_keep(v, ev->entry->key, ev->prev);
		if (tree_len(v->then) > PAST_KEYS_MAX || v->bytes > PAST_BYTES_MAX)
			view_lose(v);
	}
}

/* One that another reader of the same state has; NULL: none. */
static struct store_view *view_shared(const struct store *s, const char *prefix, uint64_t rev)
{
	struct store_view *v;

	list_each(v, &s->views, link)
		if (v->rev == rev && !v->lost && str_eq(v->prefix, prefix))
			return v;
	return NULL;
}

static struct store_view *view_new(struct store *s, const char *prefix, uint64_t rev)
{
	struct store_view *v = xcalloc(1, sizeof(*v) + strlen(prefix) + 1);
	const struct store_event *ev;

	v->s = s;
	v->rev = rev;
	memcpy(v->prefix, prefix, strlen(prefix) + 1);
	for (uint64_t r = s->rev; r > rev; r--) { /* backwards, so that the first change wins */
		ev = store_slot(s, r);
		if (str_starts(ev->entry->key, prefix))
			view_keep(v, ev->entry->key, ev->prev);
	}
	list_add_tail(&s->views, &v->link);
	return v;
}

struct err *store_view_new(struct store *s, const char *prefix, uint64_t rev,
			   struct store_view **ret)
{
	struct store_view *v;

	if (rev < s->base)
		return err_new(ERR_GONE,
			       "revision %llu is older than the history, which begins at %llu",
			       (unsigned long long)rev, (unsigned long long)s->base);
	if (rev > s->rev)
		return err_new(ERR_INVALID, "revision %llu is in the future; the newest is %llu",
			       (unsigned long long)rev, (unsigned long long)s->rev);
	v = view_shared(s, prefix, rev);
	if (!v)
		v = view_new(s, prefix, rev);
	v->refs++;
	*ret = v;
	return NULL;
}

bool store_view_lost(const struct store_view *v)
{
	return v->lost;
}

struct store_entry *store_view_get(const struct store_view *v, const char *key)
{
	struct store_entry *was = v->then ? tree_get(v->then, key) : NULL;

	if (!was)
		return store_get(v->s, key);
	return was == &absent ? NULL : was;
}

/* The next key of either map; where both have it, the past decides. */
struct store_entry *store_view_next(const struct store_view *v, const char *after)
{
	struct store_entry *now, *was;
	const char *key;

	if (!v->then)
		return store_next(v->s, v->prefix, after);
	for (;;) {
		now = store_next(v->s, v->prefix, after);
		was = tree_seek(v->then, after ? after : v->prefix, after != NULL, &key);
		if (!was || (now && strcmp(now->key, key) < 0))
			return now;
		if (was != &absent)
			return was;
		after = key; /* it did not exist at that time */
	}
}

size_t store_view_count(const struct store_view *v)
{
	size_t n = store_count(v->s, v->prefix);
	struct store_entry *was;
	const char *key = v->prefix;
	bool after = false;

	while (v->then && (was = tree_seek(v->then, key, after, &key))) {
		n += was != &absent;
		n -= store_get(v->s, key) != NULL;
		after = true;
	}
	return n;
}

void store_view_free(struct store_view *v)
{
	if (!v || --v->refs)
		return;
	list_del(&v->link);
	tree_free(v->then);
	free(v);
}

size_t store_count(const struct store *s, const char *prefix)
{
	return *prefix ? (size_t)(uintptr_t)map_get(s->counts, prefix) : store_len(s);
}

void store_count_change(struct store *s, const char *key, int change)
{
	char part[1024 + 2];
	const char *slash = key;

	while ((slash = strchr(slash, '/'))) {
		size_t len = (size_t)(++slash - key);
		uintptr_t n;

		assert(len < sizeof(part));
		memcpy(part, key, len);
		part[len] = '\0';
		n = (uintptr_t)map_get(s->counts, part) + (uintptr_t)change;
		if (n)
			map_put(s->counts, part, (void *)n);
		else
			(void)map_take(s->counts, part);
	}
}
