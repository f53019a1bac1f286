/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "fixture.h"

static void count_wakes(void *arg)
{
	(*(int *)arg)++;
}

/* "+a ~a -b " for the events that a watch has to report now. */
static char *told(struct store_watch *w)
{
	static const char signs[STORE_EVENT_TYPE_MAX_] = { '+', '~', '-' };
	struct store_event ev;
	struct buf b = { 0 };
	bool have = true;

	for (;;) {
		works(store_watch_next(w, &ev, &have));
		if (!have)
			return buf_steal(&b, NULL);
		buf_printf(&b, "%c%s ", signs[ev.type], ev.entry->key);
	}
}

#define eq_told(w, text)               \
	do {                           \
		char *told_ = told(w); \
		eq_str(told_, text);   \
		free(told_);           \
	} while (0)

TEST(a_watch_reports_committed_events_of_its_prefix_in_order)
{
	struct store_watch *all, *one;
	int n_all = 0, n_one = 0;
	struct fixture f;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(store_watch_new(f.store, "p/", 0, (struct store_wake){ count_wakes, &n_all }, &all));
	works(store_watch_new(f.store, "p/a", 0, (struct store_wake){ count_wakes, &n_one }, &one));
	works(put(f.store, "p/a", "1", 0));
	works(put(f.store, "p/ab", "1", 0));
	works(put(f.store, "q/a", "1", 0));
	works(put(f.store, "p/a", "2", STORE_ANY));
	eq_told(all, ""); /* nothing is durable yet */
	works(sync_now(&f));
	eq_int(n_all, 1);
	eq_told(all, "+p/a +p/ab ~p/a ");
	eq_told(one, "+p/a ~p/a ");
	eq_int(store_watch_rev(one), 4);

	works(put(f.store, "p/ab", "2", STORE_ANY));
	works(sync_now(&f));
	eq_int(n_one, 1); /* other objects do not wake it */
	eq_int(store_watch_rev(one), 5);
	works(del(f.store, "p/a", STORE_ANY));
	works(sync_now(&f));
	eq_told(one, "-p/a ");
	eq_told(all, "~p/ab -p/a ");
	store_watch_free(all);
	store_watch_free(one);
	fixture_done(&f);
}

TEST(a_watch_from_before_the_history_is_gone)
{
	struct store_spec spec = { .max_history = 8 };
	struct store_watch *w, *idle;
	struct store_event ev;
	struct fixture f;
	int n = 0;
	bool have;

	fixture_init(&f, false);
	works(fixture_open(&f, &spec));
	works(store_watch_new(f.store, "", 0, (struct store_wake){ count_wakes, &n }, &w));
	works(store_watch_new(f.store, "other", 0, (struct store_wake){ count_wakes, &n }, &idle));
	eq_told(idle, "");
	for (int i = 0; i < 20; i++) {
		works(put(f.store, "a", "x", STORE_ANY));
		works(sync_now(&f));
	}
	eq_int(store_oldest_rev(f.store), 12);
	fails(store_watch_next(w, &ev, &have), ERR_GONE);
	eq_told(idle, ""); /* nothing that concerns it was lost */
	store_watch_free(w);
	fails(store_watch_new(f.store, "", 11, (struct store_wake){ count_wakes, &n }, &w),
	      ERR_GONE);
	fails(store_watch_new(f.store, "", 21, (struct store_wake){ count_wakes, &n }, &w),
	      ERR_INVALID);
	works(store_watch_new(f.store, "", 12, (struct store_wake){ count_wakes, &n }, &w));
	eq_told(w, "~a ~a ~a ~a ~a ~a ~a ~a ");
	store_watch_free(w);
	store_watch_free(idle);
	fixture_done(&f);
}

TEST(uncommitted_events_are_never_dropped)
{
	struct store_spec spec = { .max_history = 4, .max_history_bytes = 1 };
	struct store_watch *w;
	struct fixture f;
	int n = 0;

	fixture_init(&f, false);
	works(fixture_open(&f, &spec));
	works(store_watch_new(f.store, "", 0, (struct store_wake){ count_wakes, &n }, &w));
	for (int i = 0; i < 9; i++)
		works(put(f.store, "a", "x", STORE_ANY));
	works(sync_now(&f));
	eq_told(w, "+a ~a ~a ~a ~a ~a ~a ~a ~a ");
	store_watch_free(w);
	fixture_done(&f);
}

/* Tags for tests: a C string, read seldom if it begins with 's'. */
enum {
	TAG_BYTES = 1000,
};

static size_t tag_bytes(const void *tag unused)
{
	return TAG_BYTES;
}

static bool tag_seldom(const void *tag)
{
	return *(const char *)tag == 's';
}

static struct err *tag_decode(void *arg unused, const char *key unused, struct bytes *value,
			      uint64_t rev unused, void **ret_tag)
{
	*ret_tag = xstrdup(value->data);
	return NULL;
}

static const struct store_tags test_tags = { tag_decode, free, tag_bytes, tag_seldom };

static void put_tagged(struct fixture *f, const char *key, const char *text)
{
	autoptr(bytes) b = bytes_new(text, strlen(text));

	works(store_put(f->store, key, b, xstrdup(text), STORE_ANY));
	works(sync_now(f));
}

static size_t held(const struct fixture *f)
{
	struct store_stats st;

	store_stats(f->store, &st);
	return st.history_bytes;
}

enum {
	STILL_WARM = 128, /* WARM of store.c */
};

TEST(the_history_counts_every_past_state_and_no_live_one)
{
	struct store_spec spec = { .tags = &test_tags };
	struct fixture f;
	size_t one;

	fixture_init(&f, false);
	works(fixture_open(&f, &spec));
	put_tagged(&f, "a", "x1");
	put_tagged(&f, "b", "x1");
	eq_int(held(&f), 0); /* both are live */
	put_tagged(&f, "a", "x2");
	one = held(&f);
	is_true(one > TAG_BYTES + sizeof(struct store_entry) + strlen("x1"));
	put_tagged(&f, "a", "x2");
	eq_int(held(&f), 2 * one);
	for (int i = 0; i < STILL_WARM; i++)
		put_tagged(&f, "b", "x2");
	/* The two past states of a have lost their tags by now, and so have no others. */
	eq_int(held(&f), (2 + STILL_WARM) * one - 2 * TAG_BYTES);
	works(del(f.store, "a", STORE_ANY));
	works(sync_now(&f));
	/* One more past state is warm and one no longer, and the last one has the text "gone". */
	eq_int(held(&f), (3 + STILL_WARM) * one - 3 * TAG_BYTES + one - TAG_BYTES + 2);
	fixture_done(&f);
}

TEST(the_history_keeps_exactly_what_fits_its_bytes)
{
	struct store_spec spec = { .tags = &test_tags };
	struct fixture f;
	size_t one;

	fixture_init(&f, false);
	works(fixture_open(&f, &spec));
	put_tagged(&f, "a", "x");
	put_tagged(&f, "a", "x");
	one = held(&f);
	fixture_close(&f);

	spec.max_history_bytes = 10 * one;
	works(fixture_open(&f, &spec));
	for (int i = 0; i < 12; i++) { /* the first has no past state */
		eq_int(store_oldest_rev(f.store), MAX(i - 11, 0));
		put_tagged(&f, "a", "x");
	}
	/* Eleven past states: the oldest goes, and with it the event that created the key. */
	eq_int(held(&f), 10 * one);
	eq_int(store_oldest_rev(f.store), 2);
	fixture_close(&f);

	spec.max_history_bytes = 10 * one - 1;
	works(fixture_open(&f, &spec));
	for (int i = 0; i < 12; i++)
		put_tagged(&f, "a", "x");
	eq_int(held(&f), 9 * one);
	fixture_done(&f);
}

TEST(what_is_seldom_read_stays_as_text_alone)
{
	struct store_spec spec = { .tags = &test_tags };
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, &spec));
	put_tagged(&f, "s", "seldom");
	put_tagged(&f, "o", "often");
	for (int i = 0; i < STILL_WARM - 2; i++)
		put_tagged(&f, "x", "x");
	eq_str(store_get(f.store, "s")->tag, "seldom"); /* it was just written */
	put_tagged(&f, "x", "x");
	is_true(!store_get(f.store, "s")->tag);
	eq_str(value_of(f.store, "s"), "seldom");
	put_tagged(&f, "x", "x");
	eq_str(store_get(f.store, "o")->tag, "often");
	fixture_close(&f);

	works(fixture_open(&f, &spec));
	is_true(!store_get(f.store, "s")->tag);
	eq_str(value_of(f.store, "s"), "seldom");
	eq_str(store_get(f.store, "o")->tag, "often");
	fixture_done(&f);
}

TEST(states_that_wait_for_a_commit_lose_their_decoded_form_after_it)
{
	struct store_spec spec = { .tags = &test_tags };
	struct fixture f;

	fixture_init(&f, false);
	works(fixture_open(&f, &spec));
	for (int i = 0; i < 2 * STILL_WARM; i++) { /* one commit for all of them */
		autoptr(bytes) b = bytes_new("x", 1);

		works(store_put(f.store, "a", b, xstrdup("x"), STORE_ANY));
	}
	is_true(held(&f) > (2 * STILL_WARM - 1) * (size_t)TAG_BYTES);
	works(sync_now(&f));
	put_tagged(&f, "a", "x");
	is_true(held(&f) < (STILL_WARM + 50) * (size_t)TAG_BYTES);
	fixture_done(&f);
}

static void free_next_watch(void *arg)
{
	struct store_watch **other = arg;

	store_watch_free(*other);
	*other = NULL;
}

TEST(a_wake_may_free_another_watch)
{
	struct store_watch *a, *b = NULL;
	struct fixture f;
	int n = 0;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(store_watch_new(f.store, "", 0, (struct store_wake){ free_next_watch, &b }, &a));
	works(store_watch_new(f.store, "", 0, (struct store_wake){ count_wakes, &n }, &b));
	works(put(f.store, "a", "x", 0));
	works(sync_now(&f));
	eq_int(n, 0);
	store_watch_free(a);
	fixture_done(&f);
}

static char *seen_at(struct store *s, const char *prefix, uint64_t rev)
{
	autoptr(store_view) v = NULL;
	struct store_entry *e = NULL;
	struct buf b = { 0 };

	works(store_view_new(s, prefix, rev, &v));
	while ((e = store_view_next(v, e ? e->key : NULL)))
		buf_printf(&b, "%s=%s ", e->key, e->value->data);
	return buf_steal(&b, NULL);
}

static char *seen_in(const struct store_view *v)
{
	struct store_entry *e = NULL;
	struct buf b = { 0 };

	while ((e = store_view_next(v, e ? e->key : NULL)))
		buf_printf(&b, "%s=%s ", e->key, e->value->data);
	buf_printf(&b, "%zu", store_view_count(v));
	return buf_steal(&b, NULL);
}

TEST(a_view_stays_as_it_is_while_others_write)
{
	struct store_view *v, *same, *later;
	struct fixture f;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(put(f.store, "p/b", "1", 0));
	works(put(f.store, "p/c", "1", 0));
	works(put(f.store, "q/x", "1", 0));
	works(store_view_new(f.store, "p/", store_rev(f.store), &v));
	works(store_view_new(f.store, "p/", store_rev(f.store), &same));
	is_true(v == same);
	works(put(f.store, "p/a", "new", 0));
	works(del(f.store, "p/a", STORE_ANY)); /* it came and went */
	works(put(f.store, "p/bb", "new", 0));
	works(put(f.store, "p/c", "2", STORE_ANY));
	works(put(f.store, "p/c", "3", STORE_ANY));
	works(del(f.store, "p/b", STORE_ANY));
	works(store_view_new(f.store, "p/", store_rev(f.store), &later));
	works(put(f.store, "p/b", "4", 0));
	{
		autofree char *a = seen_in(v), *b = seen_in(later);

		eq_str(a, "p/b=1 p/c=1 2");
		eq_str(b, "p/bb=new p/c=3 2");
		eq_int(store_count(f.store, "p/"), 3);
		eq_int(store_count(f.store, "q/"), 1);
		eq_int(store_count(f.store, "r/"), 0);
	}
	store_view_free(v);
	store_view_free(same);
	store_view_free(later);
	fixture_done(&f);
}

TEST(a_view_that_would_hold_too_much_is_given_up)
{
	struct store_view *v, *other;
	struct fixture f;
	char key[32];

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(store_view_new(f.store, "p/", store_rev(f.store), &v));
	works(store_view_new(f.store, "q/", store_rev(f.store), &other));
	for (int i = 0; i < 8192; i++) {
		(void)snprintf(key, sizeof(key), "p/%d", i);
		works(put(f.store, key, "x", 0));
	}
	is_true(!store_view_lost(v));
	works(put(f.store, "p/one-more", "x", 0));
	is_true(store_view_lost(v) && !store_view_lost(other));
	store_view_free(v);
	store_view_free(other);
	fixture_done(&f);
}

TEST(a_view_shows_the_state_at_a_revision)
{
	static const char *const at[] = {
		"",       "p/b=1 ", "p/b=1 p/c=1 ", "p/b=2 p/c=1 ",
		"p/c=1 ", "p/c=1 ", "p/a=1 p/c=1 ", "p/a=1 p/b=3 p/c=1 "
	};
	struct fixture f;
	char *seen;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(put(f.store, "p/b", "1", 0));
	works(put(f.store, "p/c", "1", 0));
	works(put(f.store, "p/b", "2", STORE_ANY));
	works(del(f.store, "p/b", STORE_ANY));
	works(put(f.store, "q", "1", 0));
	works(put(f.store, "p/a", "1", 0));
	works(put(f.store, "p/b", "3", 0));
	for (size_t rev = 0; rev < ARRAY_LEN(at); rev++) {
		seen = seen_at(f.store, "p/", rev);
		eq_str(seen, at[rev]);
		free(seen);
	}
	fixture_done(&f);
}

static void note_change(void *arg, const struct store_event *ev)
{
	buf_printf(arg, "%d%s%s ", (int)ev->type, ev->entry->key, ev->prev ? "'" : "");
}

TEST(a_follower_sees_writes_at_once)
{
	struct buf b = { 0 };
	struct fixture f;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	store_on_change(f.store, note_change, &b);
	works(put(f.store, "a", "1", 0));
	works(put(f.store, "a", "2", STORE_ANY));
	works(del(f.store, "a", STORE_ANY));
	eq_str(buf_str(&b), "0a 1a' 2a' ");
	buf_done(&b);
	fixture_done(&f);
}
