/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/str.h"
#include "store/store_priv.h"
#include "store/wal_priv.h"

/*
 * The file: one row per object, and the newest revision, which outlives the objects.
 *
 *   objects(key, rev, create_rev, value)
 *   meta(name, value)     'schema' → 1, 'rev' → the newest committed revision, 'id' → a random
 *                         number by which the node knows whose sandboxes it runs
 *
 * WAL and synchronous=FULL: a commit appends to the log and syncs it once. The log is moved into
 * the file (which costs two more syncs) between commits, by disk_tidy(), never inside one. The log
 * and its index stay when the file is closed, so that opening it again needs no space.
 */
#define APP_ID 0x43617931 /* "Cay1" */
enum {
	SCHEMA = 1,
	PAGE = 4096,
	PAGES_LONG = 1000,     /* tidy when idle */
	PAGES_TOO_LONG = 2000, /* tidy even if there is work */
	PAGES_SHORT = 100,     /* tidy at this length while the disk is full */
	LOG_KEEP = 16 << 20,   /* a log that was longer than this is cut when it starts over */
	RESTORE_US = 500000,   /* how often to look for space again */
};

struct disk {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *put, *del, *set_rev, *begin, *commit, *rollback;
	int log_pages;
	uint64_t id;
	struct reserve reserve;
	bool is_short; /* the disk was full, and the head-room is not complete again */
	usec looked;   /* for space */
};

static bool is_full(const struct disk *d)
{
	int rc = sqlite3_extended_errcode(d->db), sys = sqlite3_system_errno(d->db);

	if ((rc & 0xff) == SQLITE_FULL || rc == SQLITE_IOERR_SHMSIZE)
		return true;
	return ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN) &&
	       (sys == ENOSPC || sys == EDQUOT);
}

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
	}
	if (is_full(d))
		return err_new(ERR_EXHAUSTED, "%s %s: no space left on device", what, d->path);
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
		"INSERT INTO meta VALUES('schema', %d), ('rev', 0), ('id', %lld);"
		"PRAGMA application_id = %d;"
		"COMMIT;",
		SCHEMA, (long long)(random_u64() >> 1 | 1), APP_ID);

	return run(d, sql);
}

/* Files of earlier versions have none. On a full disk they stay without one for now. */
static struct err *find_id(struct disk *d)
{
	autofree char *sql = xasprintf("INSERT OR IGNORE INTO meta VALUES('id', %lld)",
				       (long long)(random_u64() >> 1 | 1));
	int64_t id = 0;
	struct err *e = ask(d, "SELECT value FROM meta WHERE name = 'id'", 0, &id);

	if (!e && !id) {
		e = run(d, sql);
		if (err_is(e, ERR_EXHAUSTED)) {
			err_free(e);
			return NULL;
		}
		if (!e)
			e = ask(d, "SELECT value FROM meta WHERE name = 'id'", 0, &id);
	}
	d->id = (uint64_t)id;
	return e;
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
	autofree char *limit = xasprintf("PRAGMA journal_size_limit = %lld",
					 (long long)MAX(d->reserve.bytes, (uint64_t)LOG_KEEP));
	int keep = 1;
	struct err *e;

	(void)sqlite3_busy_timeout(d->db, 2000);
	e = check_file(d);
	if (!e)
		e = run(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			   "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -512;");
	if (!e)
		e = run(d, limit);
	if (!e)
		e = check_whole(d);
	if (!e)
		e = find_id(d);
	if (!e)
		e = prepare_all(d);
	if (e)
		return e;
	(void)sqlite3_wal_hook(d->db, on_commit, d);
	(void)sqlite3_file_control(d->db, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep);
	return NULL;
}

static struct err *open_file(struct disk *d)
{
	mode_t old = umask(0077);
	int rc = sqlite3_open_v2(d->path, &d->db,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
					 SQLITE_OPEN_NOFOLLOW,
				 NULL);
	struct err *e;

	if (rc != SQLITE_OK)
		e = d->db ? disk_err(d, "open store")
			  : err_new(ERR_UNAVAILABLE, "open store %s: out of memory", d->path);
	else
		e = set_up(d);
	(void)umask(old);
	return e;
}

static void close_file(struct disk *d);

/* SQLite is told to follow no links, for the file's sake; its directory may well be behind one. */
static char *resolve_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	autofree char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
	autofree char *real = dir && *dir ? realpath(dir, NULL) : NULL;

	return real ? xasprintf("%s%s", real, slash) : xstrdup(path);
}

struct err *disk_open(const struct store_spec *spec, struct disk **ret)
{
	autoptr(disk) d = xnew(struct disk);
	struct err *e;

	d->path = resolve_directory(spec->path);
	reserve_init(&d->reserve, d->path, str_eq(d->path, ":memory:") ? 0 : spec->reserve);
	e = spec->accept_damaged_log ? NULL : wal_check(d->reserve.log);
	if (!e)
		e = open_file(d);
	if (err_is(e, ERR_EXHAUSTED) && reserve_release(&d->reserve)) {
		err_free(e);
		close_file(d);
		d->is_short = true;
		e = open_file(d);
	}
	if (e)
		return e;
	/* Without head-room on a disk that is nearly full already, it is short from the start. */
	if (!reserve_make(&d->reserve))
		d->is_short = true;
	*ret = take(d);
	return NULL;
}

uint64_t disk_id(const struct disk *d)
{
	return d->id;
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

static struct err *commit_once(struct disk *d, const struct batch *b)
{
	struct err *e;

	if (write_batch(d, b))
		return NULL;
	e = disk_err(d, "commit to store");
	if (!sqlite3_get_autocommit(d->db))
		(void)step(d->rollback); /* the next attempt finds the same state either way */
	return e;
}

/*
 * Moves the log into the file. If this fails, the log merely stays long: nothing is lost, and the
 * next call tries again.
 */
static bool move_log(struct disk *d)
{
	if (sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) !=
	    SQLITE_OK)
		return false;
	d->log_pages = 0;
	return true;
}

/* The disk is full: from now on we live on the head-room. True if that changed anything. */
static bool spend(struct disk *d)
{
	bool freed = reserve_release(&d->reserve);

	d->is_short = true;
	d->looked = clock_mono();
	return freed && move_log(d);
}

struct err *disk_commit(struct disk *d, const struct batch *b)
{
	struct err *e = commit_once(d, b);

	if (!err_is(e, ERR_EXHAUSTED) || !spend(d))
		return e;
	err_free(e);
	return commit_once(d, b);
}

bool disk_short(const struct disk *d)
{
	return d->is_short;
}

/* The head-room is made again only if there is space for all of it, and for the log before that. */
static void restore(struct disk *d)
{
	if (clock_mono() - d->looked < RESTORE_US)
		return;
	d->looked = clock_mono();
	if (d->log_pages && !move_log(d))
		return;
	d->is_short = !reserve_make(&d->reserve);
}

void disk_tidy(struct disk *d, bool pressing)
{
	int most = d->is_short ? PAGES_SHORT : pressing ? PAGES_TOO_LONG : PAGES_LONG;

	if (d->reserve.bytes) /* half of what is allocated for it is for the time of need */
		most = MIN(most, (int)(d->reserve.bytes / 2 / PAGE));
	if (d->log_pages >= most && !move_log(d) && is_full(d))
		(void)spend(d);
	if (d->is_short)
		restore(d);
}

static void close_file(struct disk *d)
{
	sqlite3_stmt **all[] = {
		&d->put, &d->del, &d->set_rev, &d->begin, &d->commit, &d->rollback
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		(void)sqlite3_finalize(take(*all[i]));
	/* Cutting the log now would give its space away. */
	if (d->db)
		(void)sqlite3_exec(d->db, "PRAGMA journal_size_limit = -1", NULL, NULL, NULL);
	(void)sqlite3_close(take(d->db));
}

void disk_free(struct disk *d)
{
	if (!d)
		return;
	close_file(d);
	reserve_done(&d->reserve);
	free(d->path);
	free(d);
}
