/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/str.h"
#include "store/sql_priv.h"

/*
 * What every part of store/ needs of SQLite: statements that end in our errors. What can be done
 * about an error is said here, once.
 */
struct err *sql_open(struct sql *s, char *path, int flags)
{
	*s = (struct sql){ .path = path };
	if (sqlite3_open_v2(s->path, &s->db, flags, NULL) == SQLITE_OK)
		return NULL;
	return s->db ? sql_err(s, "open store")
		     : err_new(ERR_UNAVAILABLE, "open store %s: out of memory", s->path);
}

void sql_close(struct sql *s)
{
	(void)sqlite3_close(take(s->db));
	free(take(s->path));
}

bool sql_is_full(const struct sql *s)
{
	int rc = sqlite3_extended_errcode(s->db), sys = sqlite3_system_errno(s->db);

	if ((rc & 0xff) == SQLITE_FULL || rc == SQLITE_IOERR_SHMSIZE)
		return true;
	return ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN) &&
	       (sys == ENOSPC || sys == EDQUOT);
}

struct err *sql_err(const struct sql *s, const char *what)
{
	int rc = sqlite3_extended_errcode(s->db);
	const char *text = sqlite3_errmsg(s->db);

	switch (rc & 0xff) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return err_new(ERR_CORRUPT,
			       "%s %s: %s; stop the server, keep a copy of the file, and restore "
			       "a backup (`cay restore`) or try `sqlite3 %s .recover`",
			       what, s->path, text, s->path);
	}
	if (sql_is_full(s))
		return err_new(ERR_EXHAUSTED, "%s %s: no space left on device", what, s->path);
	return err_new(ERR_UNAVAILABLE, "%s %s: %s (%d)", what, s->path, text, rc);
}

struct err *sql_run(struct sql *s, const char *statements)
{
	if (sqlite3_exec(s->db, statements, NULL, NULL, NULL) != SQLITE_OK)
		return sql_err(s, "prepare store");
	return NULL;
}

struct err *sql_prepare(struct sql *s, const char *statement, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v3(s->db, statement, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) !=
	    SQLITE_OK)
		return sql_err(s, "prepare store");
	return NULL;
}

struct err *sql_ask(struct sql *s, const char *statement, int64_t otherwise, int64_t *ret)
{
	sqlite3_stmt *st = NULL;
	struct err *e = sql_prepare(s, statement, &st);
	int rc;

	if (e)
		return e;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	else if (rc == SQLITE_DONE)
		*ret = otherwise;
	else
		e = sql_err(s, "read store");
	(void)sqlite3_finalize(st);
	return e;
}

char *sql_resolve(const char *path)
{
	const char *slash = strrchr(path, '/');
	autofree char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
	autofree char *real = dir && *dir ? realpath(dir, NULL) : NULL;

	return real ? xasprintf("%s%s", real, slash) : xstrdup(path);
}
