/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/str.h"
#include "store/sql_priv.h"
#include "store/store.h"
#include "store/wal_priv.h"

/*
 * Looks at a store file from outside and tells all that is wrong with it, instead of stopping at
 * the first thing as a start does. One read transaction: while a server writes, this is one of its
 * commits.
 */
struct inspection {
	const struct store_inspector *with;
	struct sql sql;
	struct schema_facts facts;
	size_t n;
};

static void fault(struct inspection *in, const char *key, const char *fmt, ...) printf_like(3, 4);
static void fault(struct inspection *in, const char *key, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	in->with->fault(in->with->arg, key, buf_str(&text));
}

/* What ended a part of the inspection is one more thing that is wrong. */
static void fault_err(struct inspection *in, struct err *e)
{
	if (e)
		fault(in, NULL, "%s", err_text(e));
	err_free(e);
}

static void look_at_pages(struct inspection *in)
{
	sqlite3_stmt *st = NULL;
	struct err *e = sql_prepare(&in->sql, "PRAGMA integrity_check(50)", &st);
	int rc = SQLITE_DONE;

	while (!e && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(st, 0);

		if (!str_eq(text, "ok"))
			fault(in, NULL, "SQLite: %s", str_or(text, "no answer"));
	}
	if (!e && rc != SQLITE_DONE)
		e = sql_err(&in->sql, "check store");
	(void)sqlite3_finalize(st);
	fault_err(in, e);
}

static void look_at_row(struct inspection *in, sqlite3_stmt *st)
{
	const struct schema_row r = schema_row(st);
	autoptr(bytes) value = bytes_new(r.value, r.len);

	in->n++;
	if (r.has_sum && schema_sum(&r) != r.sum)
		fault(in, r.key, "it does not match its checksum");
	if (!r.rev || r.rev > in->facts.rev)
		fault(in, r.key, "its revision %llu is not one of the store, which is at %llu",
		      (unsigned long long)r.rev, (unsigned long long)in->facts.rev);
	if (!r.create_rev || r.create_rev > r.rev)
		fault(in, r.key, "it was created at revision %llu, after its last change at %llu",
		      (unsigned long long)r.create_rev, (unsigned long long)r.rev);
	in->with->row(in->with->arg, r.key, r.rev, value);
}

static void each(struct inspection *in, const char *statement,
		 void (*fn)(struct inspection *in, sqlite3_stmt *st))
{
	sqlite3_stmt *st = NULL;
	struct err *e = sql_prepare(&in->sql, statement, &st);
	int rc = SQLITE_DONE;

	while (!e && (rc = sqlite3_step(st)) == SQLITE_ROW)
		fn(in, st);
	if (!e && rc != SQLITE_DONE)
		e = sql_err(&in->sql, "read store");
	(void)sqlite3_finalize(st);
	fault_err(in, e);
}

static void look_at_twins(struct inspection *in, sqlite3_stmt *st)
{
	fault(in, (const char *)sqlite3_column_text(st, 0),
	      "%lld objects have its revision %lld; each change has one of its own",
	      (long long)sqlite3_column_int64(st, 2), (long long)sqlite3_column_int64(st, 1));
}

static void inspect(struct inspection *in)
{
	const char *rows = in->facts.schema < SCHEMA ? SCHEMA_ROWS_1 : SCHEMA_ROWS;

	look_at_pages(in);
	if (in->facts.schema == SCHEMA && !in->facts.id)
		fault(in, NULL, "the store has no id");
	each(in, rows, look_at_row);
	each(in, "SELECT min(key), rev, count(*) FROM objects GROUP BY rev HAVING count(*) > 1",
	     look_at_twins);
}

static struct err *open_for_reading(struct inspection *in, const char *path)
{
	bool empty = false;
	struct err *e = sql_open(&in->sql, sql_resolve(path), SQLITE_OPEN_READONLY);

	if (e)
		return e;
	(void)sqlite3_busy_timeout(in->sql.db, 5000);
	e = sql_run(&in->sql, "BEGIN");
	if (!e)
		e = schema_check(&in->sql, &in->facts, &empty);
	if (!e && empty)
		e = err_new(ERR_CORRUPT, "open store %s: it is empty; restore a backup", path);
	return e;
}

struct err *store_inspect(const char *path, const struct store_inspector *i,
			  struct store_facts *ret)
{
	struct inspection in = { .with = i };
	autofree char *log = xasprintf("%s-wal", path);
	struct err *e;

	if (access(path, R_OK) < 0)
		return err_new(ERR_NOT_FOUND, "there is no store at %s", path);
	if (i->log)
		fault_err(&in, wal_check(log));
	e = open_for_reading(&in, path);
	if (!e)
		inspect(&in);
	sql_close(&in.sql);
	*ret = (struct store_facts){ in.facts.rev, in.facts.id, (unsigned)in.facts.schema, in.n };
	return e;
}
