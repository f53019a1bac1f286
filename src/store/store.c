/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/loop.h"
#include "store/store_priv.h"

/*
 * The store in memory. A write puts a new entry into the tree, an event into the ring of history
 * and the key into the batch that is being gathered. At the end of the loop's turn the batch goes
 * to the writer, unless the writer is still busy with the previous one: then gathering continues,
 * and the next commit is larger.
 */
enum {
	KEY_MAX = 1024,
};

struct store_entry *store_entry_ref(struct store_entry *e)
{
	if (e)
		e->refs++;
	return e;
}

void store_entry_drop_tag(struct store_entry *e)
{
	if (e->tag && e->tags)
		e->tags->free(e->tag);
	e->tag = NULL;
}

void store_entry_unref(struct store_entry *e)
{
	if (!e || --e->refs)
		return;
	store_entry_drop_tag(e);
	bytes_unref(e->value);
	free(e);
}

static struct store_entry *entry_new(const struct store *s, const char *key, struct bytes *value,
				     void *tag)
{
	size_t len = strlen(key) + 1;
	struct store_entry *e = xcalloc(1, sizeof(*e) + len);

	e->refs = 1;
	e->value = bytes_ref(value);
	e->tag = tag;
	e->tags = s->tags;
	memcpy(e->key, key, len);
	return e;
}

bool store_prefix_means(const char *prefix, const char *key)
{
	if (!*prefix || str_ends(prefix, "/"))
		return str_starts(key, prefix);
	return str_eq(prefix, key);
}

/* Batches */

/* The state before, if it waits in this batch too: e takes its place. */
static bool in_batch(const struct batch *b, const struct store_entry *prev)
{
	return prev && prev->op < b->n && b->ops[prev->op].entry == prev;
}

static void batch_add(struct batch *b, const struct store_event *ev)
{
	struct store_entry *e = ev->entry;

	b->rev = e->rev;
	if (in_batch(b, ev->prev)) {
		e->op = ev->prev->op;
		store_entry_unref(ev->prev);
	} else {
		if (b->n == b->cap) {
			b->cap = b->cap ? b->cap * 2 : 64;
			b->ops = xrealloc(b->ops, b->cap * sizeof(*b->ops));
		}
		e->op = (unsigned)b->n++;
	}
	b->ops[e->op] = (struct batch_op){ store_entry_ref(e), ev->type == STORE_DELETED };
}

static void batch_clear(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		store_entry_unref(b->ops[i].entry);
	b->n = 0;
}

/* Takes ownership of both references. */
static void record(struct store *s, enum store_event_type type, struct store_entry *entry,
		   struct store_entry *prev)
{
	struct store_event ev = { .type = type, .entry = entry, .prev = prev };
	struct store_hook *h;

	batch_add(&s->batches[s->gathering], &ev);
	history_add(s, &ev);
	if (type != STORE_MODIFIED)
		store_count_change(s, entry->key, type == STORE_ADDED ? 1 : -1);
	store_views_note(s, &ev);
	list_each(h, &s->hooks, link)
		h->fn(h->arg, &ev);
}

/* Reading */

uint64_t store_rev(const struct store *s)
{
	return s->rev;
}

uint64_t store_committed_rev(const struct store *s)
{
	return s->committed;
}

uint64_t store_oldest_rev(const struct store *s)
{
	return s->base;
}

size_t store_len(const struct store *s)
{
	return tree_len(s->live);
}

uint64_t store_id(const struct store *s)
{
	return s->id;
}

enum store_state store_state(const struct store *s)
{
	if (s->broken)
		return STORE_READ_ONLY;
	return s->short_of_space ? STORE_SHORT : STORE_WRITABLE;
}

const char *store_trouble(const struct store *s)
{
	switch (store_state(s)) {
	case STORE_READ_ONLY:
		return err_text(s->broken);
	case STORE_SHORT:
		return "no space left on device for more than deletions";
	case STORE_WRITABLE:
	case STORE_STATE_MAX_:
		break;
	}
	return "";
}

void store_on_state(struct store *s, void (*changed)(void *arg), void *arg)
{
	s->state_changed = changed;
	s->state_arg = arg;
}

struct store_entry *store_get(const struct store *s, const char *key)
{
	return map_get(s->by_key, key);
}

struct store_entry *store_next(const struct store *s, const char *prefix, const char *after)
{
	const char *key = NULL;
	struct store_entry *e = tree_seek(s->live, after ? after : prefix, after != NULL, &key);

	return e && str_starts(key, prefix) ? e : NULL;
}

void store_stats(const struct store *s, struct store_stats *ret)
{
	*ret = s->stats;
	ret->pending = s->rev - s->committed;
	ret->history = s->rev - s->base;
	ret->history_bytes = s->history_bytes;
}

/* Writing */

static struct err *may_write(const struct store *s, const char *key, const struct store_entry *old,
			     uint64_t if_rev)
{
	if (s->broken)
		return err_new(ERR_UNAVAILABLE,
			       "the store is read-only until a commit "
			       "succeeds; the last one ended with: %s",
			       err_text(s->broken));
	if (strlen(key) > KEY_MAX)
		return err_new(ERR_TOO_LARGE, "the key has %zu bytes, more than %d", strlen(key),
			       KEY_MAX);
	if (if_rev == STORE_ANY)
		return NULL;
	if (if_rev == 0 && old)
		return err_new(ERR_EXISTS, "%s exists already", key);
	if (if_rev != 0 && (!old || old->rev != if_rev))
		return err_new(ERR_CONFLICT, "%s is at revision %llu, not %llu", key,
			       old ? (unsigned long long)old->rev : 0ULL,
			       (unsigned long long)if_rev);
	return NULL;
}

struct err *store_put(struct store *s, const char *key, struct bytes *value, void *tag,
		      uint64_t if_rev)
{
	struct store_entry *old = map_get(s->by_key, key), *now;
	struct err *e = may_write(s, key, old, if_rev);

	now = entry_new(s, key, value, tag);
	if (e) {
		store_entry_unref(now);
		return e;
	}
	now->rev = s->rev + 1;
	now->create_rev = old ? old->create_rev : now->rev;
	now->place = tree_put_at(s->live, old ? old->place : NULL, now->key, store_entry_ref(now));
	map_put(s->by_key, now->key, now);
	record(s, old ? STORE_MODIFIED : STORE_ADDED, now, old);
	return NULL;
}

struct err *store_delete(struct store *s, const char *key, struct bytes *value, void *tag,
			 uint64_t if_rev)
{
	struct store_entry *old = map_get(s->by_key, key), *last;
	struct err *e = may_write(s, key, old, if_rev);

	if (!e && !old)
		e = err_new(ERR_NOT_FOUND, "there is no %s", key);
	last = entry_new(s, key, value, tag);
	if (e) {
		store_entry_unref(last);
		return e;
	}
	last->rev = s->rev + 1;
	last->create_rev = old->create_rev;
	(void)tree_take(s->live, key);
	(void)map_take(s->by_key, key);
	record(s, STORE_DELETED, last, old);
	return NULL;
}

void store_on_change(struct store *s, void (*fn)(void *arg, const struct store_event *ev),
		     void *arg)
{
	struct store_hook *h = xnew(struct store_hook);

	h->fn = fn;
	h->arg = arg;
	list_add_tail(&s->hooks, &h->link);
}

/* Committing */

/*
 * For what is in memory and in a batch that was not committed yet: it will be retried, and a crash
 * decides otherwise.
 */
static struct err *uncertain(const struct err *why)
{
	return err_new(ERR_UNCERTAIN,
		       "it is unknown whether this write will last; read the object before you "
		       "write it again: %s",
		       err_text(why));
}

void store_sync(struct store *s, void (*fn)(void *arg, struct err *e), void *arg)
{
	struct store_sync_wait *w;

	if (s->rev == s->committed) {
		fn(arg, NULL);
		return;
	}
	if (s->broken) {
		fn(arg, uncertain(s->broken));
		return;
	}
	w = xnew(struct store_sync_wait);
	w->rev = s->rev;
	w->fn = fn;
	w->arg = arg;
	list_add_tail(&s->syncs, &w->link);
}

/*
 * Calls back everybody who waits for a revision up to this one; with e (borrowed), everybody who
 * waits now.
 */
static void fire_syncs(struct store *s, uint64_t up_to, const struct err *e)
{
	struct store_sync_wait *w;

	while (!list_empty(&s->syncs)) {
		w = list_first(&s->syncs, struct store_sync_wait, link);
		if (w->rev > up_to)
			return;
		list_del(&w->link);
		w->fn(w->arg, e ? uncertain(e) : NULL);
		free(w);
	}
}

/* The batch in flight is on disk. */
static void committed(struct store *s, usec took)
{
	struct batch *b = &s->batches[!s->gathering];
	uint64_t from = s->committed;

	s->in_flight = false;
	s->committed = b->rev;
	s->stats.commits++;
	s->stats.rows += b->n;
	meter_commit(s->meter, took, b->n);
	batch_clear(b);
	err_free(take(s->broken));
	fire_syncs(s, s->committed, NULL);
	store_watches_wake(s, from, s->committed);
}

static void on_report(void *arg, struct writer_report r)
{
	struct store *s = arg;
	enum store_state was = store_state(s);

	s->stats.failed_commits += r.failures;
	s->short_of_space = r.short_of_space;
	if (r.done) {
		err_free(r.e); /* an earlier failure, overcome since */
		committed(s, r.took);
	} else if (r.e) {
		err_free(s->broken);
		s->broken = r.e;
		fire_syncs(s, s->rev, s->broken);
	}
	if (store_state(s) != was && s->state_changed)
		s->state_changed(s->state_arg);
}

static void on_flush(void *arg)
{
	struct store *s = arg;
	struct batch *b = &s->batches[s->gathering];

	if (s->in_flight || !b->n)
		return;
	s->gathering = !s->gathering;
	s->in_flight = true;
	writer_give(s->writer, b);
}

struct err *store_commit_now(struct store *s)
{
	while (s->committed < s->rev && !s->broken) {
		on_flush(s);
		writer_wait(s->writer);
	}
	return err_copy(s->broken);
}

/* Opening */

struct loading {
	struct store *s;
	const struct store_spec *spec;
};

static struct err *load_row(void *arg, const struct disk_row *row)
{
	struct loading *load = arg;
	const struct store_tags *tags = load->s->tags;
	struct store_entry *e;
	void *tag = NULL;
	struct err *err = NULL;

	if (tags && tags->decode)
		err = tags->decode(load->spec->arg, row->key, row->value, row->rev, &tag);
	if (err)
		return err_recode(err_wrap(err,
					   "read %s from store %s (restore a backup, or delete its "
					   "row from the table objects)",
					   row->key, load->spec->path),
				  ERR_CORRUPT);
	e = entry_new(load->s, row->key, row->value, tag);
	e->rev = row->rev;
	e->create_rev = row->create_rev;
	if (e->tag && tags->seldom && tags->seldom(e->tag))
		store_entry_drop_tag(e);
	e->place = tree_put(load->s->live, e->key, e);
	map_put(load->s->by_key, e->key, e);
	store_count_change(load->s, row->key, 1);
	return NULL;
}

static struct store *store_new(struct loop *l, const struct store_spec *spec)
{
	struct store *s = xnew(struct store);

	s->loop = l;
	s->tags = spec->tags;
	s->live = tree_new_borrowing(NULL);
	s->by_key = map_new_borrowing(NULL);
	history_init(s, spec);
	list_init(&s->hooks);
	list_init(&s->syncs);
	list_init(&s->views);
	s->counts = map_new(NULL);
	s->watched = map_new(NULL);
	s->meter = meter_new();
	return s;
}

struct err *store_open(struct loop *l, const struct store_spec *spec, struct store **ret)
{
	autoptr(store) s = store_new(l, spec);
	struct loading load = { s, spec };
	struct err *e;

	e = disk_open(spec, &s->disk);
	if (!e)
		e = disk_load(s->disk, load_row, &load, &s->rev);
	if (e)
		return e;
	s->committed = s->base = s->rev;
	s->id = disk_id(s->disk);
	s->short_of_space = disk_short(s->disk);
	e = writer_start(l, s->disk, on_report, s, &s->writer);
	if (e)
		return e;
	s->flush = loop_add_flush(l, on_flush, s);
	*ret = take(s);
	return NULL;
}

/*
 * The thread has ended. What it could not write and what came later is committed now; nobody would
 * hear of it later.
 */
static void commit_rest(struct store *s)
{
	struct batch *now = &s->batches[s->gathering];
	struct err *e = writer_stop(s->writer);

	if (s->in_flight && !e)
		s->committed = s->batches[!s->gathering].rev;
	if (!e && now->n)
		e = disk_commit(s->disk, now);
	if (!e)
		s->committed = s->rev;
	fire_syncs(s, s->rev, e);
	err_free(e);
}

void store_free(struct store *s)
{
	struct store_hook *h, *next;
	struct store_entry *e;
	const char *key;

	if (!s)
		return;
	loop_del_flush(s->flush);
	if (s->writer)
		commit_rest(s);
	writer_free(s->writer);
	disk_free(s->disk);
	assert(!s->n_watches);
	assert(list_empty(&s->views));
	map_free(s->counts);
	map_free(s->watched);
	list_each_safe(h, next, &s->hooks, link)
		free(h);
	history_done(s);
	meter_free(s->meter);
	for (size_t i = 0; i < ARRAY_LEN(s->batches); i++) {
		batch_clear(&s->batches[i]);
		free(s->batches[i].ops);
	}
	while ((e = tree_seek(s->live, "", false, &key))) {
		(void)tree_take(s->live, key);
		store_entry_unref(e);
	}
	tree_free(s->live);
	map_free(s->by_key);
	err_free(s->broken);
	free(s);
}
