/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sqlite3.h>

#include "faulty_disk.h"
#include "fixture.h"

/* A store file over the years: migrated, copied, restored, inspected. */
enum {
	OLD_REV = 31, /* of tests/data/store/schema-1.db */
	OLD_OBJECTS = 21,
	BIG = 100 * 1000,
	N_BIG = 40, /* about a thousand pages: the copy takes several steps */
	SKIP = 1000,
};

static void old_store(struct fixture *f)
{
	autofree char *data = NULL;
	size_t len;

	fixture_init(f, true);
	works(file_read(AT_FDCWD, CAY_TEST_DATA "/store/schema-1.db", 1 << 20, &data, &len));
	works(file_write_atomic(AT_FDCWD, f->path, data, len, 0600));
}

/* From outside, as `sqlite3 store.db` would. */
static void sql(const char *path, const char *statement)
{
	sqlite3 *db = NULL;

	eq_int(sqlite3_open(path, &db), SQLITE_OK);
	eq_int(sqlite3_exec(db, statement, NULL, NULL, NULL), SQLITE_OK);
	eq_int(sqlite3_close(db), SQLITE_OK);
}

static int number(const char *path, const char *statement)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int n;

	eq_int(sqlite3_open(path, &db), SQLITE_OK);
	eq_int(sqlite3_prepare_v2(db, statement, -1, &st, NULL), SQLITE_OK);
	eq_int(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int(st, 0);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(db);
	return n;
}

static int columns(const char *path)
{
	return number(path, "SELECT count(*) FROM pragma_table_info('objects')");
}

static void count(void *arg, const char *key unused, const char *text unused)
{
	++*(size_t *)arg;
}

static void look(void *arg unused, const char *key unused, uint64_t rev unused,
		 struct bytes *value unused)
{
}

static size_t n_faults(const char *path)
{
	size_t n = 0;
	const struct store_inspector i = { .fault = count, .row = look, .arg = &n, .log = true };
	struct store_facts facts;

	works(store_inspect(path, &i, &facts));
	return n;
}

TEST(a_store_of_the_oldest_schema_is_migrated)
{
	struct store_facts facts;
	struct fixture f;
	uint64_t id;

	old_store(&f);
	eq_int(n_faults(f.path), 0);
	works(fixture_open(&f, NULL));
	eq_int(store_rev(f.store), OLD_REV);
	eq_int(store_len(f.store), OLD_OBJECTS);
	is_true(strstr(value_of(f.store, "configmaps/default/changed"), "changed by schema 1"));
	is_true(!store_get(f.store, "configmaps/default/gone"));
	id = store_id(f.store);
	is_true(id);
	works(put(f.store, "a", "1", 0));
	works(sync_now(&f));
	fixture_close(&f);

	eq_int(number(f.path, "SELECT value FROM meta WHERE name = 'schema'"), 2);
	eq_int(number(f.path, "SELECT count(*) FROM objects WHERE sum IS NULL"), 0);
	eq_int(n_faults(f.path), 0);
	works(fixture_open(&f, NULL));
	eq_int(store_rev(f.store), OLD_REV + 1);
	is_true(store_id(f.store) == id);
	fixture_close(&f);
	works(store_adopt(f.path, SKIP, &facts));
	eq_int(facts.rev, OLD_REV + 1 + SKIP);
	fixture_done(&f);
}

TEST(a_migration_that_fails_leaves_the_old_file)
{
	struct fixture f;

	old_store(&f);
	sql(f.path, "CREATE TRIGGER no BEFORE UPDATE ON meta WHEN NEW.name = 'schema'"
		    " BEGIN SELECT RAISE(ABORT, 'not today'); END");
	fails(fixture_open(&f, NULL), ERR_UNAVAILABLE);
	eq_int(number(f.path, "SELECT value FROM meta WHERE name = 'schema'"), 1);
	eq_int(columns(f.path), 4);
	sql(f.path, "DROP TRIGGER no");
	works(fixture_open(&f, NULL));
	eq_int(store_len(f.store), OLD_OBJECTS);
	eq_int(columns(f.path), 5);
	fixture_done(&f);
}

TEST(a_full_disk_keeps_the_old_file_until_there_is_space)
{
	autofree char *reserve = NULL;
	struct fixture f;

	old_store(&f);
	reserve = xasprintf("%s.reserve", f.path);
	faulty_disk_watch(f.dir);
	faulty_disk_fill(reserve, 0);
	fails(fixture_open(&f, NULL), ERR_EXHAUSTED);
	faulty_disk_empty();
	eq_int(columns(f.path), 4);
	works(fixture_open(&f, NULL));
	eq_int(store_len(f.store), OLD_OBJECTS);
	fixture_close(&f);
	eq_int(columns(f.path), 5);
	faulty_disk_watch(NULL);
	fixture_done(&f);
}

TEST(a_value_that_has_changed_on_disk_is_noticed)
{
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "hello world, hello sum", 0));
	works(put(f.store, "b", "1", 0));
	works(sync_now(&f));
	fixture_close(&f);
	eq_int(n_faults(f.path), 0);
	sql(f.path, "UPDATE objects SET value = CAST('hellp world, hello sum' AS BLOB) "
		    "WHERE key = 'a'");
	eq_int(n_faults(f.path), 1);
	fails(fixture_open(&f, NULL), ERR_CORRUPT);
	fixture_close(&f);
	sql(f.path, "UPDATE objects SET sum = NULL WHERE key = 'a'"); /* repaired by hand */
	works(fixture_open(&f, NULL));
	fixture_done(&f);
}

TEST(revisions_that_cannot_be_are_found)
{
	static const char *const wrong[] = {
		"UPDATE objects SET rev = 999, sum = NULL WHERE key = 'a'",
		"UPDATE objects SET rev = 2, create_rev = 2, sum = NULL WHERE key = 'a'",
		"UPDATE objects SET create_rev = 7, rev = 1, sum = NULL WHERE key = 'a'",
		"UPDATE objects SET create_rev = 0, rev = 1, sum = NULL WHERE key = 'a'",
	};
	struct fixture f;

	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	works(put(f.store, "a", "1", 0));
	works(put(f.store, "b", "1", 0));
	works(sync_now(&f));
	fixture_close(&f);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		sql(f.path, wrong[i]);
		eq_int(n_faults(f.path), 1);
	}
	fixture_done(&f);
}

/* Somebody writes between any two steps of a copy. */
struct busy {
	const char *path;
	unsigned steps;
};

static void write_meanwhile(void *arg, uint64_t done unused, uint64_t all)
{
	struct busy *b = arg;
	autofree char *more =
		xasprintf("INSERT INTO objects VALUES('late/%u', 1, 1, 'x', NULL)", b->steps);

	is_true(++b->steps < 100 && all > 512); /* it would begin anew for ever */
	sql(b->path, more);
}

TEST(a_copy_ends_while_others_write_and_has_one_commit)
{
	struct busy busy = { 0 };
	struct store_facts facts;
	struct fixture f, g;
	struct store_copy c;
	char *big = xmalloc(BIG + 1), key[32];

	memset(big, 'x', BIG);
	big[BIG] = '\0';
	fixture_init(&f, true);
	fixture_init(&g, true);
	works(fixture_open(&f, NULL));
	for (int i = 0; i < N_BIG; i++) {
		(void)snprintf(key, sizeof(key), "k/%d", i);
		works(put(f.store, key, big, 0));
		works(sync_now(&f));
	}
	busy.path = f.path;
	c = (struct store_copy){ f.path, g.path, write_meanwhile, &busy };
	works(store_copy(&c, &facts));
	is_true(busy.steps > 2);
	eq_int(facts.objects, N_BIG);
	eq_int(facts.rev, N_BIG);
	is_true(facts.id == store_id(f.store));
	fixture_close(&f);

	works(store_adopt(g.path, SKIP, &facts));
	works(fixture_open(&g, NULL));
	eq_int(store_rev(g.store), N_BIG + SKIP); /* what came after the copy is not used again */
	eq_int(store_len(g.store), N_BIG);
	eq_str(value_of(g.store, "k/7"), big);
	fixture_done(&g);
	fixture_done(&f);
	free(big);
}

TEST(what_is_no_store_is_neither_copied_nor_adopted)
{
	struct store_facts facts;
	struct fixture f;
	autofree char *to = NULL;
	struct store_copy c;

	fixture_init(&f, true);
	to = xasprintf("%s/copy", f.dir);
	c = (struct store_copy){ .from = f.path, .to = to };
	fails(store_copy(&c, &facts), ERR_NOT_FOUND);
	works(file_write_atomic(AT_FDCWD, f.path, "garbage, and more of it", 23, 0600));
	fails(store_adopt(f.path, SKIP, &facts), ERR_CORRUPT);
	fails(store_copy(&c, &facts), ERR_CORRUPT);
	fixture_done(&f);
}
