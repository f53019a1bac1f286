/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "fixture.h"

TEST(second_create_conflicts)
{
	struct fixture f;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	fails(put(f.store, "a", "2", 0), ERR_EXISTS);
	eq_str(value_of(f.store, "a"), "1");
	fixture_done(&f);
}

TEST(write_at_an_old_revision_conflicts)
{
	struct fixture f;
	uint64_t rev;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	rev = store_rev(f.store);
	works(put(f.store, "a", "2", rev));
	fails(put(f.store, "a", "3", rev), ERR_CONFLICT);
	fails(del(f.store, "a", rev), ERR_CONFLICT);
	fails(del(f.store, "b", STORE_ANY), ERR_NOT_FOUND);
	works(del(f.store, "a", STORE_ANY));
	is_true(store_get(f.store, "a") == NULL);
	fixture_done(&f);
}

TEST(what_was_synced_is_there_after_reopening)
{
	struct fixture f;
	uint64_t rev;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	works(put(f.store, "a", "2", STORE_ANY));
	works(put(f.store, "b/c", "3", 0));
	works(put(f.store, "d", "4", 0));
	works(del(f.store, "d", STORE_ANY));
	works(sync_now(&f));
	rev = store_rev(f.store);
	eq_int(store_committed_rev(f.store), rev);
	fixture_close(&f);

	works(fixture_open(&f, NULL));
	eq_int(store_rev(f.store), rev); /* the deletion was the newest write, and it counts */
	eq_int(store_len(f.store), 2);
	eq_str(value_of(f.store, "a"), "2");
	eq_int(store_get(f.store, "a")->create_rev, 1);
	eq_int(store_get(f.store, "a")->rev, 2);
	eq_str(value_of(f.store, "b/c"), "3");
	fixture_done(&f);
}

TEST(closing_commits_what_is_pending)
{
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	fixture_close(&f);
	works(fixture_open(&f, NULL));
	eq_str(value_of(f.store, "a"), "1");
	fixture_done(&f);
}

TEST(committing_now_needs_no_loop)
{
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(store_commit_now(f.store));
	works(put(f.store, "a", "1", 0));
	works(store_commit_now(f.store));
	eq_int(store_committed_rev(f.store), 1);
	works(put(f.store, "a", "2", STORE_ANY));
	works(sync_now(&f));
	fixture_done(&f);
}

TEST(writes_of_one_turn_share_a_commit)
{
	struct fixture f;
	struct store_stats st;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	for (int i = 0; i < 100; i++)
		works(put(f.store, i % 2 ? "odd" : "even", "x", STORE_ANY));
	works(sync_now(&f));
	store_stats(f.store, &st);
	eq_int(st.commits, 1);
	eq_int(st.rows, 2);
	eq_int(st.pending, 0);
	eq_int(st.history, 100);
	fixture_done(&f);
}

/* Deleted and created within a turn, in either order, and beside others whose place in the batch
 * must stay theirs. */
TEST(the_last_write_of_a_turn_is_what_a_commit_keeps)
{
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(put(f.store, "old", "1", 0));
	works(put(f.store, "again", "1", 0));
	works(sync_now(&f));

	works(put(f.store, "first", "1", 0));
	works(del(f.store, "again", STORE_ANY));
	works(put(f.store, "old", "2", STORE_ANY));
	works(put(f.store, "again", "2", 0));
	works(put(f.store, "brief", "1", 0));
	works(del(f.store, "brief", STORE_ANY));
	works(put(f.store, "again", "3", STORE_ANY));
	works(put(f.store, "old", "3", STORE_ANY));
	works(sync_now(&f));
	fixture_close(&f);

	works(fixture_open(&f, NULL));
	eq_int(store_len(f.store), 3);
	eq_str(value_of(f.store, "first"), "1");
	eq_str(value_of(f.store, "again"), "3");
	eq_str(value_of(f.store, "old"), "3");
	fixture_done(&f);
}

TEST(listing_goes_in_order_of_keys_under_a_prefix)
{
	static const char *const keys[] = { "p/b/2", "p/a/1", "q/a/1", "p/b/1", "o/z" };
	struct store_entry *e = NULL;
	struct fixture f;
	char seen[64] = "";
	size_t n = 0;

	fixture_init(&f, false);
	works(fixture_open(&f, NULL));
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		works(put(f.store, keys[i], "x", 0));
	while ((e = store_next(f.store, "p/", e ? e->key : NULL)))
		n += (size_t)snprintf(seen + n, sizeof(seen) - n, "%s ", e->key);
	eq_str(seen, "p/a/1 p/b/1 p/b/2 ");
	fixture_done(&f);
}

TEST(a_foreign_database_is_rejected)
{
	struct fixture f;
	sqlite3 *db;

	fixture_init(&f, true);
	eq_int(sqlite3_open(f.path, &db), SQLITE_OK);
	eq_int(sqlite3_exec(db, "CREATE TABLE t(a)", NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(db);
	fails(fixture_open(&f, NULL), ERR_UNSUPPORTED);
	fixture_done(&f);
}

TEST(a_newer_schema_is_rejected)
{
	struct fixture f;
	sqlite3 *db;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	fixture_close(&f);
	eq_int(sqlite3_open(f.path, &db), SQLITE_OK);
	eq_int(sqlite3_exec(db, "UPDATE meta SET value = 99 WHERE name = 'schema'", NULL, NULL,
			    NULL),
	       SQLITE_OK);
	(void)sqlite3_close(db);
	fails(fixture_open(&f, NULL), ERR_UNSUPPORTED);
	fixture_done(&f);
}

TEST(a_damaged_file_is_reported)
{
	struct fixture f;
	struct err *e;
	char junk[8192];
	int fd;

	fixture_init(&f, true);
	memset(junk, 'x', sizeof(junk));
	fd = open(f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	works(fd_write_all(fd, junk, sizeof(junk)));
	(void)close(fd);
	e = fixture_open(&f, NULL);
	is_true(err_is(e, ERR_CORRUPT));
	is_true(strstr(err_text(e), f.path) != NULL);
	err_free(e);
	fixture_done(&f);
}

static struct err *decode_or_refuse(void *arg unused, const char *key unused, struct bytes *value,
				    uint64_t rev unused, void **ret_tag)
{
	if (!strcmp(value->data, "bad"))
		return err_new(ERR_MALFORMED, "the value cannot be decoded");
	*ret_tag = xstrdup(value->data);
	return NULL;
}

TEST(tags_are_decoded_at_startup)
{
	static const struct store_tags tags = { .decode = decode_or_refuse, .free = free };
	struct store_spec spec = { .tags = &tags };
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, &spec));
	works(put(f.store, "a", "good", 0));
	fixture_close(&f);
	works(fixture_open(&f, &spec));
	eq_str(store_get(f.store, "a")->tag, "good");
	works(put(f.store, "a", "bad", STORE_ANY));
	fixture_close(&f);
	fails(fixture_open(&f, &spec), ERR_CORRUPT);
	fixture_done(&f);
}

static void limit_files(rlim_t max)
{
	struct rlimit r;

	(void)getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = max;
	eq_int(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* A file that must not grow simulates a full disk. */
TEST(a_failing_disk_makes_it_read_only_until_it_works_again)
{
	char big[65536];
	struct fixture f;
	uint64_t was;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	works(sync_now(&f));
	was = store_committed_rev(f.store);

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	(void)signal(SIGXFSZ, SIG_IGN);
	limit_files(32768);
	works(put(f.store, "b", big, 0));
	fails(sync_now(&f), ERR_UNCERTAIN);
	fails(put(f.store, "c", "3", 0), ERR_UNAVAILABLE);
	fails(sync_now(&f), ERR_UNCERTAIN);
	eq_int(store_committed_rev(f.store), was);
	eq_str(value_of(f.store, "a"), "1");

	limit_files(RLIM_INFINITY);
	while (store_committed_rev(f.store) == was)
		(void)loop_turn(f.loop, 1000);
	works(put(f.store, "c", "3", 0));
	works(sync_now(&f));
	fixture_close(&f);
	works(fixture_open(&f, NULL));
	eq_int(store_len(f.store), 3);
	fixture_done(&f);
}

TEST(only_the_owner_can_read_the_file)
{
	struct fixture f;
	struct stat st;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	eq_int(stat(f.path, &st), 0);
	eq_int(st.st_mode & 0777, 0600);
	fixture_done(&f);
}
