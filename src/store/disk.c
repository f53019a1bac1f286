/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/str.h"
#include "store/store_priv.h"

/*
 * The file: one row per object, and the newest revision, which outlives the objects.
 *
 *   objects(key, rev, create_rev, value)
 *   meta(name, value)     'schema' → 1, 'rev' → the newest committed revision
 *
 * WAL and synchronous=FULL: a commit appends to the log and syncs it once. The log is moved into
 * the file (which costs two more syncs) between commits, by disk_tidy(), never inside one.
 */
#define APP_ID 0x43617931 /* "Cay1" */
enum {
	SCHEMA = 1,
	PAGES_LONG = 1000,     /* tidy when idle */
	PAGES_TOO_LONG = 8000, /* tidy even if there is work */
};

struct disk {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *put, *del, *set_rev, *begin, *commit, *rollback;
	int log_pages;
};

static struct err *disk_err(const struct disk *d, const char *what)
{
	int rc = sqlite3_extended_errcode(d->db);
	const char *text = sqlite3_errmsg(d->db);

	switch (rc & 0xff) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return err_new(ERR_CORRUPT,
			       "%s %s: %s; stop the server, keep a copy of the file, and restore "
			       "a backup or try `sqlite3 %s .recover`",
			       what, d->path, text, d->path);
	case SQLITE_FULL:
		return err_new(ERR_EXHAUSTED, "%s %s: %s", what, d->path, text);
	}
	return err_new(ERR_UNAVAILABLE, "%s %s: %s (%d)", what, d->path, text, rc);
}

static struct err *run(struct disk *d, const char *sql)
{
	if (sqlite3_exec(d->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return disk_err(d, "prepare store");
	return NULL;
}

static struct err *prepare(struct disk *d, const char *sql, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) != SQLITE_OK)
		return disk_err(d, "prepare store");
	return NULL;
}

/* The first column of the first row, or otherwise if there is no row. */
static struct err *ask(struct disk *d, const char *sql, int64_t otherwise, int64_t *ret)
{
	sqlite3_stmt *st = NULL;
	struct err *e = NULL;
	int rc;

	e = prepare(d, sql, &st);
	if (e)
		return e;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	else if (rc == SQLITE_DONE)
		*ret = otherwise;
	else
		e = disk_err(d, "read store");
	(void)sqlite3_finalize(st);
	return e;
}

static struct err *make_tables(struct disk *d)
{
	autofree char *sql = xasprintf(
		"BEGIN IMMEDIATE;"
		"CREATE TABLE objects(key TEXT PRIMARY KEY NOT NULL, rev INTEGER NOT NULL,"
		" create_rev INTEGER NOT NULL, value BLOB NOT NULL);"
		"CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL);"
		"INSERT INTO meta VALUES('schema', %d), ('rev', 0);"
		"PRAGMA application_id = %d;"
		"COMMIT;",
		SCHEMA, APP_ID);

	return run(d, sql);
}

/* The file must be ours and of this version; an empty file becomes ours. */
static struct err *check_file(struct disk *d)
{
	int64_t app = 0, tables = 0, schema = 0;
	struct err *e;

	e = ask(d, "PRAGMA application_id", 0, &app);
	if (!e)
		e = ask(d, "SELECT count(*) FROM sqlite_schema", 0, &tables);
	if (e)
		return e;
	if (app == 0 && tables == 0)
		return make_tables(d);
	if (app != APP_ID)
		return err_new(ERR_UNSUPPORTED,
			       "open store %s: it belongs to another program; "
			       "choose another data directory",
			       d->path);
	e = ask(d, "SELECT value FROM meta WHERE name = 'schema'", 0, &schema);
	if (e)
		return e;
	if (schema > SCHEMA)
		return err_new(
			ERR_UNSUPPORTED,
			"open store %s: it was written by a newer Cay (schema %lld, this one supports "
			"%d); use that version, or a backup from before the upgrade",
			d->path, (long long)schema, SCHEMA);
	if (schema < 1)
		return err_new(ERR_CORRUPT,
			       "open store %s: it has no schema version; restore a backup",
			       d->path);
	return NULL;
}

static struct err *check_whole(struct disk *d)
{
	sqlite3_stmt *st = NULL;
	struct err *e;
	const char *text;

	e = prepare(d, "PRAGMA quick_check(1)", &st);
	if (e)
		return e;
	if (sqlite3_step(st) != SQLITE_ROW) {
		e = disk_err(d, "check store");
	} else {
		text = (const char *)sqlite3_column_text(st, 0);
		if (!str_eq(text, "ok"))
			e = err_new(ERR_CORRUPT,
				    "check store %s: %s; keep a copy of the file, and restore a "
				    "backup or try `sqlite3 %s .recover`",
				    d->path, text ? text : "no answer", d->path);
	}
	(void)sqlite3_finalize(st);
	return e;
}

static struct err *prepare_all(struct disk *d)
{
	const struct {
		const char *sql;
		sqlite3_stmt **st;
	} rows[] = {
		{ "INSERT INTO objects VALUES(?1, ?2, ?3, ?4) ON CONFLICT(key) DO UPDATE SET"
		  " rev = ?2, create_rev = ?3, value = ?4",
		  &d->put },
		{ "DELETE FROM objects WHERE key = ?1", &d->del },
		{ "UPDATE meta SET value = ?1 WHERE name = 'rev'", &d->set_rev },
		{ "BEGIN IMMEDIATE", &d->begin },
		{ "COMMIT", &d->commit },
		{ "ROLLBACK", &d->rollback },
	};
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		e = prepare(d, rows[i].sql, rows[i].st);
		if (e)
			return e;
	}
	return NULL;
}

/* Records how long the log is after each commit, and leaves moving it to disk_tidy(). */
static int on_commit(void *arg, sqlite3 *db unused, const char *name unused, int pages)
{
	struct disk *d = arg;

	d->log_pages = pages;
	return SQLITE_OK;
}

static struct err *set_up(struct disk *d)
{
	struct err *e;

	(void)sqlite3_busy_timeout(d->db, 2000);
	e = check_file(d);
	if (!e)
		e = run(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			   "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -4096;");
	if (!e)
		e = check_whole(d);
	if (!e)
		e = prepare_all(d);
	if (!e)
		(void)sqlite3_wal_hook(d->db, on_commit, d);
	return e;
}

struct err *disk_open(const char *path, struct disk **ret)
{
	autoptr(disk) d = xnew(struct disk);
	struct err *e;
	mode_t old;
	int rc;

	d->path = xstrdup(path);
	old = umask(0077);
	rc = sqlite3_open_v2(path, &d->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				     SQLITE_OPEN_NOFOLLOW,
			     NULL);
	if (rc != SQLITE_OK)
		e = d->db ? disk_err(d, "open store")
			  : err_new(ERR_UNAVAILABLE, "open store %s: out of memory", path);
	else
		e = set_up(d);
	(void)umask(old);
	if (e)
		return e;
	*ret = take(d);
	return NULL;
}

static struct err *load_row(sqlite3_stmt *st,
			    struct err *(*fn)(void *arg, const struct disk_row *row), void *arg)
{
	autoptr(bytes) value =
		bytes_new(sqlite3_column_blob(st, 3), (size_t)sqlite3_column_bytes(st, 3));
	struct disk_row row = {
		.key = (const char *)sqlite3_column_text(st, 0),
		.rev = (uint64_t)sqlite3_column_int64(st, 1),
		.create_rev = (uint64_t)sqlite3_column_int64(st, 2),
		.value = value,
	};

	return fn(arg, &row);
}

struct err *disk_load(struct disk *d, struct err *(*fn)(void *arg, const struct disk_row *row),
		      void *arg, uint64_t *ret_rev)
{
	sqlite3_stmt *st = NULL;
	int64_t rev = 0;
	struct err *e;
	int rc;

	e = ask(d, "SELECT value FROM meta WHERE name = 'rev'", 0, &rev);
	if (!e)
		e = prepare(d, "SELECT key, rev, create_rev, value FROM objects", &st);
	if (e)
		return e;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW && !e)
		e = load_row(st, fn, arg);
	if (!e && rc != SQLITE_DONE)
		e = disk_err(d, "read store");
	(void)sqlite3_finalize(st);
	if (!e)
		*ret_rev = (uint64_t)rev;
	return e;
}

static bool step(sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	(void)sqlite3_reset(st); /* repeats the error of the step */
	return rc == SQLITE_DONE;
}

static bool write_op(struct disk *d, const struct batch_op *op)
{
	const struct store_entry *en = op->entry;
	sqlite3_stmt *st = op->deleted ? d->del : d->put;

	(void)sqlite3_bind_text(st, 1, en->key, -1, SQLITE_STATIC);
	if (!op->deleted) {
		(void)sqlite3_bind_int64(st, 2, (sqlite3_int64)en->rev);
		(void)sqlite3_bind_int64(st, 3, (sqlite3_int64)en->create_rev);
		(void)sqlite3_bind_blob64(st, 4, en->value->data, en->value->len, SQLITE_STATIC);
	}
	return step(st);
}

static bool write_batch(struct disk *d, const struct batch *b)
{
	if (!step(d->begin))
		return false;
	for (size_t i = 0; i < b->n; i++)
		if (!write_op(d, &b->ops[i]))
			return false;
	(void)sqlite3_bind_int64(d->set_rev, 1, (sqlite3_int64)b->rev);
	return step(d->set_rev) && step(d->commit);
}

struct err *disk_commit(struct disk *d, const struct batch *b)
{
	struct err *e;

	if (write_batch(d, b))
		return NULL;
	e = disk_err(d, "commit to store");
	if (!sqlite3_get_autocommit(d->db))
		(void)step(d->rollback); /* the next attempt finds the same state either way */
	return e;
}

void disk_tidy(struct disk *d, bool pressing)
{
	if (d->log_pages < (pressing ? PAGES_TOO_LONG : PAGES_LONG))
		return;
	/*
	 * If this fails, the log merely stays long: nothing is lost, and the next call tries again.
	 */
	(void)sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	d->log_pages = 0;
}

void disk_free(struct disk *d)
{
	sqlite3_stmt *all[] = { d ? d->put : NULL,   d ? d->del : NULL,    d ? d->set_rev : NULL,
				d ? d->begin : NULL, d ? d->commit : NULL, d ? d->rollback : NULL };

	if (!d)
		return;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		(void)sqlite3_finalize(all[i]);
	(void)sqlite3_close(d->db);
	free(d->path);
	free(d);
}
