/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/str.h"
#include "store/sql_priv.h"
#include "store/store.h"

/*
 * Copies of a store file, for backups.
 *
 * A read transaction is held while the pages are copied. In it the file stays as it was at one
 * commit, whatever the server commits meanwhile: nothing has to begin anew, and the server does not
 * wait. Its log cannot start over before we are done, and grows by what is written in that time.
 */
enum {
	STEP_PAGES = 256, /* between two reports of progress */
	BUSY_MS = 10000,
};

static struct err *read_facts(struct sql *s, struct store_facts *ret)
{
	struct schema_facts facts = { 0 };
	bool empty = false;
	int64_t n = 0;
	struct err *e = schema_check(s, &facts, &empty);

	if (!e && empty)
		e = err_new(ERR_INVALID, "%s is not a store: it has no tables", s->path);
	if (!e)
		e = sql_ask(s, "SELECT count(*) FROM objects", 0, &n);
	if (!e)
		*ret = (struct store_facts){ facts.rev, facts.id, (unsigned)facts.schema,
					     (size_t)n };
	return e;
}

static struct err *copy_pages(struct sql *from, struct sql *to, const struct store_copy *c)
{
	sqlite3_backup *b = sqlite3_backup_init(to->db, "main", from->db, "main");
	int rc;

	if (!b)
		return sql_err(to, "copy store to");
	do {
		rc = sqlite3_backup_step(b, STEP_PAGES);
		if (c->progress)
			c->progress(c->arg,
				    (uint64_t)(sqlite3_backup_pagecount(b) -
					       sqlite3_backup_remaining(b)),
				    (uint64_t)sqlite3_backup_pagecount(b));
	} while (rc == SQLITE_OK);
	(void)sqlite3_backup_finish(b); /* repeats the error of the step */
	if (rc == SQLITE_DONE)
		return NULL;
	return sqlite3_errcode(to->db) == SQLITE_OK ? sql_err(from, "copy store")
						    : sql_err(to, "copy store to");
}

static struct err *copy(struct sql *from, struct sql *to, const struct store_copy *c)
{
	int64_t any = 0;
	struct err *e;

	(void)sqlite3_busy_timeout(from->db, BUSY_MS);
	e = sql_run(from, "BEGIN");
	if (!e)
		e = sql_ask(from, "SELECT count(*) FROM meta", 0, &any); /* begins the reading */
	if (!e)
		e = sql_run(to, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
	if (!e)
		e = copy_pages(from, to, c);
	/* A copy is one file: the mark of a log goes. */
	return e ? e : sql_run(to, "PRAGMA journal_mode = DELETE");
}

struct err *store_copy(const struct store_copy *c, struct store_facts *ret)
{
	struct sql from = { 0 }, to = { 0 };
	struct err *e = access(c->from, R_OK) < 0
				? err_new(ERR_NOT_FOUND, "there is no store at %s", c->from)
				: sql_open(&from, sql_resolve(c->from), SQLITE_OPEN_READONLY);

	if (!e)
		e = sql_open(&to, sql_resolve(c->to),
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW);
	if (!e)
		e = copy(&from, &to, c);
	if (!e)
		e = schema_check_whole(&to);
	if (!e)
		e = read_facts(&to, ret);
	sql_close(&to);
	sql_close(&from);
	return e;
}

struct err *store_adopt(const char *path, uint64_t skip, struct store_facts *ret)
{
	autofree char *advance = xasprintf(
		"UPDATE meta SET value = value + %lld WHERE name = 'rev'", (long long)skip);
	struct schema_facts facts = { 0 };
	struct sql s = { 0 };
	struct err *e =
		sql_open(&s, sql_resolve(path), SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW);

	if (!e)
		e = read_facts(&s, ret);
	if (!e)
		e = schema_check_whole(&s);
	if (!e) {
		facts.schema = ret->schema;
		e = schema_migrate(&s, &facts);
	}
	if (!e)
		e = sql_run(&s, advance);
	if (!e)
		e = read_facts(&s, ret);
	sql_close(&s);
	return e;
}
