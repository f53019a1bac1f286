/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/str.h"
#include "store/sql_priv.h"
#include "store/store_priv.h"
#include "store/wal_priv.h"

/*
 * The file: one row per object, and the newest revision, which outlives the objects. schema.c has
 * its tables.
 *
 * WAL and synchronous=FULL: a commit appends to the log and syncs it once. The log is moved into
 * the file (which costs two more syncs) between commits, by disk_tidy(), never inside one. The log
 * and its index stay when the file is closed, so that opening it again needs no space.
 */
enum {
	PAGE = 4096,
	PAGES_LONG = 1000,     /* tidy when idle */
	PAGES_TOO_LONG = 2000, /* tidy even if there is work */
	PAGES_SHORT = 100,     /* tidy at this length while the disk is full */
	LOG_KEEP = 16 << 20,   /* a log that was longer than this is cut when it starts over */
	RESTORE_US = 500000,   /* how often to look for space again */
};

struct disk {
	struct sql sql;
	sqlite3_stmt *put, *del, *set_rev, *begin, *commit, *rollback;
	int log_pages;
	uint64_t id;
	struct reserve reserve;
	bool is_short; /* the disk was full, and the head-room is not complete again */
	usec looked;   /* for space */
};

static struct err *prepare_all(struct disk *d)
{
	const struct {
		const char *sql;
		sqlite3_stmt **st;
	} rows[] = {
		{ "INSERT INTO objects(key, rev, create_rev, value, sum) VALUES(?1, ?2, ?3, ?4, ?5)"
		  " ON CONFLICT(key) DO UPDATE SET rev = ?2, create_rev = ?3, value = ?4, sum = ?5",
		  &d->put },
		{ "DELETE FROM objects WHERE key = ?1", &d->del },
		{ "UPDATE meta SET value = ?1 WHERE name = 'rev'", &d->set_rev },
		{ "BEGIN IMMEDIATE", &d->begin },
		{ "COMMIT", &d->commit },
		{ "ROLLBACK", &d->rollback },
	};
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		e = sql_prepare(&d->sql, rows[i].sql, rows[i].st);
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

static struct err *find_id(struct disk *d)
{
	int64_t id = 0;
	struct err *e = sql_ask(&d->sql, "SELECT value FROM meta WHERE name = 'id'", 0, &id);

	d->id = (uint64_t)id;
	return e;
}

static struct err *set_up(struct disk *d)
{
	autofree char *limit = xasprintf("PRAGMA journal_size_limit = %lld",
					 (long long)MAX(d->reserve.bytes, (uint64_t)LOG_KEEP));
	struct schema_facts facts = { .schema = SCHEMA };
	bool empty = false;
	int keep = 1;
	struct err *e;

	(void)sqlite3_busy_timeout(d->sql.db, 2000);
	e = schema_check(&d->sql, &facts, &empty);
	if (!e && empty)
		e = schema_make(&d->sql);
	if (!e)
		e = sql_run(&d->sql, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
				     "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -512;");
	if (!e)
		e = sql_run(&d->sql, limit);
	if (!e)
		e = schema_check_whole(&d->sql);
	if (!e)
		e = schema_migrate(&d->sql, &facts);
	if (!e)
		e = find_id(d);
	if (!e)
		e = prepare_all(d);
	if (e)
		return e;
	(void)sqlite3_wal_hook(d->sql.db, on_commit, d);
	(void)sqlite3_file_control(d->sql.db, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep);
	return NULL;
}

static struct err *open_file(struct disk *d, const char *path)
{
	mode_t old = umask(0077);
	struct err *e = sql_open(&d->sql, sql_resolve(path),
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
					 SQLITE_OPEN_NOFOLLOW);

	if (!e)
		e = set_up(d);
	(void)umask(old);
	return e;
}

static void close_file(struct disk *d);

struct err *disk_open(const struct store_spec *spec, struct disk **ret)
{
	autoptr(disk) d = xnew(struct disk);
	autofree char *path = sql_resolve(spec->path);
	struct err *e;

	reserve_init(&d->reserve, path, str_eq(path, ":memory:") ? 0 : spec->reserve);
	e = spec->accept_damaged_log ? NULL : wal_check(d->reserve.log);
	if (!e)
		e = open_file(d, path);
	if (err_is(e, ERR_EXHAUSTED) && reserve_release(&d->reserve)) {
		err_free(e);
		close_file(d);
		d->is_short = true;
		e = open_file(d, path);
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

/* The row is not what was written. */
static struct err *rotten(const struct disk *d, const char *key)
{
	return err_new(
		ERR_CORRUPT,
		"read %s from store %s: it does not match its checksum; `cay fsck` lists all "
		"such objects, and `cay restore` brings a backup back",
		key, d->sql.path);
}

static struct err *load_row(const struct disk *d, sqlite3_stmt *st,
			    struct err *(*fn)(void *arg, const struct disk_row *row), void *arg)
{
	const struct schema_row r = schema_row(st);
	autoptr(bytes) value = bytes_new(r.value, r.len);
	struct disk_row row = {
		.key = r.key,
		.rev = r.rev,
		.create_rev = r.create_rev,
		.value = value,
	};

	if (r.has_sum && schema_sum(&r) != r.sum)
		return rotten(d, r.key);
	return fn(arg, &row);
}

struct err *disk_load(struct disk *d, struct err *(*fn)(void *arg, const struct disk_row *row),
		      void *arg, uint64_t *ret_rev)
{
	sqlite3_stmt *st = NULL;
	int64_t rev = 0;
	struct err *e;
	int rc;

	e = sql_ask(&d->sql, "SELECT value FROM meta WHERE name = 'rev'", 0, &rev);
	if (!e)
		e = sql_prepare(&d->sql, SCHEMA_ROWS, &st);
	if (e)
		return e;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW && !e)
		e = load_row(d, st, fn, arg);
	if (!e && rc != SQLITE_DONE)
		e = sql_err(&d->sql, "read store");
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

static uint64_t sum_of(const struct store_entry *en)
{
	const struct schema_row r = { .key = en->key,
				      .rev = en->rev,
				      .create_rev = en->create_rev,
				      .value = en->value->data,
				      .len = en->value->len };

	return schema_sum(&r);
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
		(void)sqlite3_bind_int64(st, 5, (sqlite3_int64)sum_of(en));
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
	e = sql_err(&d->sql, "commit to store");
	if (!sqlite3_get_autocommit(d->sql.db))
		(void)step(d->rollback); /* the next attempt finds the same state either way */
	return e;
}

/*
 * Moves the log into the file. If this fails, the log merely stays long: nothing is lost, and the
 * next call tries again.
 */
static bool move_log(struct disk *d)
{
	if (sqlite3_wal_checkpoint_v2(d->sql.db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) !=
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
	if (d->log_pages >= most && !move_log(d) && sql_is_full(&d->sql))
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
	if (d->sql.db)
		(void)sqlite3_exec(d->sql.db, "PRAGMA journal_size_limit = -1", NULL, NULL, NULL);
	sql_close(&d->sql);
}

void disk_free(struct disk *d)
{
	if (!d)
		return;
	close_file(d);
	reserve_done(&d->reserve);
	free(d);
}
