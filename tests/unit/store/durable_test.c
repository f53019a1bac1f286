/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "faulty_disk.h"
#include "fixture.h"

/* What power cuts, full disks and broken disks leave of what was acknowledged. */
enum {
	BIG = 200 * 1000, /* some of these make a log that is moved into the file */
	N_BIG = 40,
	RESERVE = 1 << 20,
};

static char *text_of(size_t len)
{
	char *text = xmalloc(len + 1);

	memset(text, 'x', len);
	text[len] = '\0';
	return text;
}

static void key_of(char key[32], int n)
{
	(void)snprintf(key, 32, "k/%d", n);
}

/* Opens what a power cut now would leave, and looks at it. */
static void after_a_cut(struct fixture *f, void (*check)(struct store *s, int n), int n)
{
	struct fixture g = { .loop = f->loop };
	struct err *e;

	(void)snprintf(g.dir, sizeof(g.dir), "%.32s-cut", f->dir);
	(void)snprintf(g.path, sizeof(g.path), "%s/store.db", g.dir);
	faulty_disk_cut(g.dir);
	e = fixture_open(&g, NULL);
	works(e);
	check(g.store, n);
	fixture_close(&g);
	works(file_remove_tree(-100 /* AT_FDCWD */, g.dir));
}

static void has_all_up_to(struct store *s, int n)
{
	char key[32];

	for (int i = 0; i <= n; i++) {
		key_of(key, i);
		is_true((store_get(s, key) != NULL) == (i % 3 != 1));
	}
}

TEST(every_acknowledged_write_survives_a_power_cut)
{
	autofree char *big = text_of(BIG);
	struct fixture f;
	char key[32];

	fixture_init(&f, true);
	faulty_disk_watch(f.dir);
	works(fixture_open(&f, NULL));
	for (int i = 0; i < N_BIG; i++) {
		key_of(key, i);
		works(put(f.store, key, big, 0));
		if (i % 3 == 1)
			works(del(f.store, key, STORE_ANY));
		works(sync_now(&f));
		after_a_cut(&f, has_all_up_to, i);
	}
	fixture_close(&f);
	after_a_cut(&f, has_all_up_to, N_BIG - 1);
	faulty_disk_watch(NULL);
	fixture_done(&f);
}

/* Runs the loop until the store is in that state. */
static void await_state(struct fixture *f, enum store_state state)
{
	while (store_state(f->store) != state)
		(void)loop_turn(f->loop, 1000);
}

static int write_until_short(struct fixture *f, const char *value)
{
	char key[32];
	int n = 0;

	while (store_state(f->store) == STORE_WRITABLE) {
		key_of(key, n++);
		works(put(f->store, key, value, 0));
		works(sync_now(f));
		is_true(n < 10000);
	}
	return n;
}

TEST(a_full_disk_stops_no_deletion)
{
	struct store_spec spec = { .reserve = RESERVE };
	autofree char *value = text_of(4000), *reserve = NULL;
	struct store_stats st;
	struct fixture f;
	char key[32];
	int n;

	fixture_init(&f, true);
	reserve = xasprintf("%s.reserve", f.path);
	faulty_disk_watch(f.dir);
	works(fixture_open(&f, &spec));
	is_true(file_exists(-100, reserve));
	faulty_disk_fill(reserve, RESERVE / 2);
	n = write_until_short(&f, value);
	eq_int(store_state(f.store), STORE_SHORT);
	is_true(strstr(store_trouble(f.store), "no space") != NULL);
	is_true(!file_exists(-100, reserve));
	for (int i = 0; i < n; i++) {
		key_of(key, i);
		works(del(f.store, key, STORE_ANY));
		works(sync_now(&f));
	}
	store_stats(f.store, &st);
	eq_int(st.failed_commits, 0);
	eq_int(store_state(f.store), STORE_SHORT); /* deleting rows does not make the disk larger */

	faulty_disk_empty();
	await_state(&f, STORE_WRITABLE);
	is_true(file_exists(-100, reserve));
	works(put(f.store, "a", "1", 0));
	works(sync_now(&f));
	fixture_close(&f);
	works(fixture_open(&f, &spec));
	eq_int(store_len(f.store), 1);
	faulty_disk_watch(NULL);
	fixture_done(&f);
}

TEST(a_store_on_a_full_disk_opens_and_deletes)
{
	struct store_spec spec = { .reserve = RESERVE };
	autofree char *value = text_of(4000), *reserve = NULL;
	struct fixture f;
	char key[32];
	int n;

	fixture_init(&f, true);
	reserve = xasprintf("%s.reserve", f.path);
	faulty_disk_watch(f.dir);
	works(fixture_open(&f, &spec));
	faulty_disk_fill(reserve, RESERVE / 2);
	n = write_until_short(&f, value);
	fixture_close(&f);
	works(fixture_open(&f, &spec));
	eq_int(store_state(f.store), STORE_SHORT);
	eq_int(store_len(f.store), n);
	for (int i = 0; i < n; i++) {
		key_of(key, i);
		works(del(f.store, key, STORE_ANY));
		works(sync_now(&f));
	}
	faulty_disk_watch(NULL);
	fixture_done(&f);
}

static void has_only_a(struct store *s, int n unused)
{
	eq_int(store_len(s), 1);
	eq_str(value_of(s, "a"), "1");
}

/* How a disk fails: without head-room, a full one is as bad as a broken one. */
static void fail_and_mend(void (*disk_fails)(bool on))
{
	autofree char *big = text_of(BIG);
	autoptr(store_view) v = NULL;
	struct store_stats st;
	struct fixture f;

	fixture_init(&f, true);
	faulty_disk_watch(f.dir);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	works(sync_now(&f));
	disk_fails(true);
	works(put(f.store, "b", big, 0));
	fails(sync_now(&f), ERR_UNCERTAIN);
	eq_int(store_state(f.store), STORE_READ_ONLY);
	fails(put(f.store, "c", "3", 0), ERR_UNAVAILABLE);
	fails(del(f.store, "a", STORE_ANY), ERR_UNAVAILABLE);
	fails(sync_now(&f), ERR_UNCERTAIN);
	store_stats(f.store, &st);
	is_true(st.failed_commits > 0);
	eq_int(store_committed_rev(f.store), 1);
	works(store_view_new(f.store, "", store_committed_rev(f.store), &v));
	is_true(!store_view_get(v, "b")); /* nobody is shown what a crash would take back */
	store_view_free(take(v));
	after_a_cut(&f, has_only_a, 0);

	disk_fails(false);
	await_state(&f, STORE_WRITABLE);
	works(sync_now(&f));
	fixture_close(&f);
	works(fixture_open(&f, NULL));
	eq_int(store_len(f.store), 2);
	faulty_disk_watch(NULL);
	fixture_done(&f);
}

static void fill(bool on)
{
	if (on)
		faulty_disk_fill("", 0);
	else
		faulty_disk_empty();
}

TEST(a_commit_that_failed_on_a_full_disk_is_not_done)
{
	fail_and_mend(fill);
}

TEST(a_commit_that_failed_on_a_broken_disk_is_not_done)
{
	fail_and_mend(faulty_disk_break);
}

static void count_change(void *arg)
{
	(*(int *)arg)++;
}

TEST(each_change_of_state_is_told_once)
{
	struct fixture f;
	int n = 0;

	fixture_init(&f, true);
	faulty_disk_watch(f.dir);
	works(fixture_open(&f, NULL));
	store_on_state(f.store, count_change, &n);
	works(put(f.store, "a", "1", 0));
	works(sync_now(&f));
	eq_int(n, 0);
	faulty_disk_break(true);
	works(put(f.store, "a", "2", STORE_ANY));
	fails(sync_now(&f), ERR_UNCERTAIN);
	while (loop_turn(f.loop, 300) && n == 1) { /* a second failed attempt changes nothing */
		struct store_stats st;

		store_stats(f.store, &st);
		if (st.failed_commits > 1)
			break;
	}
	eq_int(n, 1);
	faulty_disk_break(false);
	await_state(&f, STORE_WRITABLE);
	eq_int(n, 2);
	faulty_disk_watch(NULL);
	fixture_done(&f);
}
