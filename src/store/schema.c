/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <string.h>

#include "base/random.h"
#include "base/str.h"
#include "store/sql_priv.h"

/*
 * The tables of a store file, by their version, the schema:
 *
 *   1  objects(key, rev, create_rev, value)
 *      meta(name, value)   'schema', 'rev' → the newest committed revision; later files also have
 *                          'id' → a random number by which the node knows whose sandboxes it runs
 *   2  objects has a column sum, and every file an id
 *
 * A file of an earlier version is brought up to date by its first start, in one transaction: a
 * crash, or a disk that is full, leaves the old file. A file of a later version is not opened.
 *
 * SQLite does not notice a bit that has changed inside a value. The sum does. A row without one was
 * written by hand, and is taken as it is.
 */
#define APP_ID 0x43617931 /* "Cay1" */

/* One word at a time. Each step can be undone, so damage within one word is noticed for certain. */
static uint64_t mix(uint64_t h, const void *p, size_t len)
{
	const char *at = p;
	uint64_t word;

	h = (h ^ len) * 0x9e3779b97f4a7c15;
	while (len) {
		size_t n = len < sizeof(word) ? len : sizeof(word);

		word = 0;
		memcpy(&word, at, n);
		h ^= le64toh(word);
		h = (h << 29 | h >> 35) * 0x9e3779b97f4a7c15;
		at += n;
		len -= n;
	}
	return h ^ h >> 32;
}

uint64_t schema_sum(const struct schema_row *r)
{
	uint64_t h = mix(r->rev, r->key, strlen(r->key));

	return mix(h ^ (r->create_rev << 32 | r->create_rev >> 32), r->value, r->len);
}

struct schema_row schema_row(sqlite3_stmt *st)
{
	return (struct schema_row){
		.key = str_or((const char *)sqlite3_column_text(st, 0), ""),
		.rev = (uint64_t)sqlite3_column_int64(st, 1),
		.create_rev = (uint64_t)sqlite3_column_int64(st, 2),
		.value = sqlite3_column_blob(st, 3),
		.len = (size_t)sqlite3_column_bytes(st, 3),
		.has_sum = sqlite3_column_type(st, 4) != SQLITE_NULL,
		.sum = (uint64_t)sqlite3_column_int64(st, 4),
	};
}

struct err *schema_make(struct sql *s)
{
	autofree char *sql = xasprintf(
		"BEGIN IMMEDIATE;"
		"CREATE TABLE objects(key TEXT PRIMARY KEY NOT NULL, rev INTEGER NOT NULL,"
		" create_rev INTEGER NOT NULL, value BLOB NOT NULL, sum INTEGER);"
		"CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL);"
		"INSERT INTO meta VALUES('schema', %d), ('rev', 0), ('id', %lld);"
		"PRAGMA application_id = %d;"
		"COMMIT;",
		SCHEMA, (long long)(random_u64() >> 1 | 1), APP_ID);

	return sql_run(s, sql);
}

static struct err *read_facts(struct sql *s, struct schema_facts *ret)
{
	int64_t rev = 0, id = 0;
	struct err *e = sql_ask(s, "SELECT value FROM meta WHERE name = 'schema'", 0, &ret->schema);

	if (!e)
		e = sql_ask(s, "SELECT value FROM meta WHERE name = 'rev'", 0, &rev);
	if (!e)
		e = sql_ask(s, "SELECT value FROM meta WHERE name = 'id'", 0, &id);
	ret->rev = (uint64_t)rev;
	ret->id = (uint64_t)id;
	return e;
}

struct err *schema_check(struct sql *s, struct schema_facts *ret, bool *ret_empty)
{
	int64_t app = 0, tables = 0;
	struct err *e = sql_ask(s, "PRAGMA application_id", 0, &app);

	if (!e)
		e = sql_ask(s, "SELECT count(*) FROM sqlite_schema", 0, &tables);
	if (e)
		return e;
	*ret_empty = app == 0 && tables == 0;
	if (*ret_empty)
		return NULL;
	if (app != APP_ID)
		return err_new(ERR_UNSUPPORTED,
			       "open store %s: it belongs to another program; "
			       "choose another data directory",
			       s->path);
	e = read_facts(s, ret);
	if (e)
		return e;
	if (ret->schema > SCHEMA)
		return err_new(
			ERR_UNSUPPORTED,
			"open store %s: it was written by a newer Cay (schema %lld, this one supports "
			"%d); use that version, or a backup from before the upgrade",
			s->path, (long long)ret->schema, SCHEMA);
	if (ret->schema < 1)
		return err_new(ERR_CORRUPT,
			       "open store %s: it has no schema version; restore a backup",
			       s->path);
	return NULL;
}

struct err *schema_check_whole(struct sql *s)
{
	sqlite3_stmt *st = NULL;
	struct err *e = sql_prepare(s, "PRAGMA quick_check(1)", &st);
	const char *text;

	if (e)
		return e;
	if (sqlite3_step(st) != SQLITE_ROW) {
		e = sql_err(s, "check store");
	} else {
		text = (const char *)sqlite3_column_text(st, 0);
		if (!str_eq(text, "ok"))
			e = err_new(ERR_CORRUPT,
				    "check store %s: %s; keep a copy of the file, and restore a "
				    "backup (`cay restore`) or try `sqlite3 %s .recover`",
				    s->path, text ? text : "no answer", s->path);
	}
	(void)sqlite3_finalize(st);
	return e;
}

/* Migration */

/* cay_sum(key, rev, create_rev, value), for statements of a migration. */
static void sum_of_row(sqlite3_context *c, int n unused, sqlite3_value **v)
{
	const struct schema_row r = {
		.key = str_or((const char *)sqlite3_value_text(v[0]), ""),
		.rev = (uint64_t)sqlite3_value_int64(v[1]),
		.create_rev = (uint64_t)sqlite3_value_int64(v[2]),
		.value = sqlite3_value_blob(v[3]),
		.len = (size_t)sqlite3_value_bytes(v[3]),
	};

	sqlite3_result_int64(c, (sqlite3_int64)schema_sum(&r));
}

/* What leads from schema i + 1 to the next. A row here is for ever: files of that age exist. */
static const char *const steps[SCHEMA - 1] = {
	"ALTER TABLE objects ADD COLUMN sum INTEGER;"
	"UPDATE objects SET sum = cay_sum(key, rev, create_rev, value);"
	"INSERT OR IGNORE INTO meta VALUES('id', abs(random() / 2) + 1);",
};

static struct err *run_steps(struct sql *s, int64_t from)
{
	autofree char *done =
		xasprintf("UPDATE meta SET value = %d WHERE name = 'schema'; COMMIT;", SCHEMA);
	struct err *e = sql_run(s, "BEGIN IMMEDIATE");

	for (int64_t i = from; !e && i < SCHEMA; i++)
		e = sql_run(s, steps[i - 1]);
	if (!e)
		e = sql_run(s, done);
	if (e && !sqlite3_get_autocommit(s->db))
		(void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* e says enough */
	return e;
}

struct err *schema_migrate(struct sql *s, const struct schema_facts *facts)
{
	struct err *e;

	if (facts->schema == SCHEMA)
		return NULL;
	if (sqlite3_create_function_v2(s->db, "cay_sum", 4,
				       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
				       sum_of_row, NULL, NULL, NULL) != SQLITE_OK)
		return sql_err(s, "prepare to migrate store");
	e = run_steps(s, facts->schema);
	return err_wrap(e,
			"migrate from schema %lld to %d, which needs about as much free space "
			"as the file has; the file is unchanged",
			(long long)facts->schema, SCHEMA);
}
