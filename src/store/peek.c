/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a store file from outside, while another process may be serving it. A read transaction of
 * its own sees one complete commit and changes nothing.
 */
#include <sqlite3.h>

#include "base/bytes.h"
#include "base/str.h"
#include "store/store.h"

static struct err *failed(sqlite3 *db, const char *path)
{
	return err_new(ERR_UNAVAILABLE, "read %s: %s", path, sqlite3_errmsg(db));
}

/* Keys are compared as bytes, so everything under prefix is one range. */
static struct err *each_row(sqlite3 *db, const char *path, const char *prefix,
			    void (*fn)(void *arg, const char *key, struct bytes *value), void *arg)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(
		db, "SELECT key, value FROM objects WHERE key >= ?1 ORDER BY key", -1, &st, NULL);
	struct err *e = NULL;

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, prefix, -1, SQLITE_STATIC);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		const char *key;

		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		key = (const char *)sqlite3_column_text(st, 0);
		if (!str_starts(key, prefix)) {
			rc = SQLITE_DONE;
			break;
		}
		autoptr(bytes) value =
			bytes_new(sqlite3_column_blob(st, 1), (size_t)sqlite3_column_bytes(st, 1));
		fn(arg, key, value);
	}
	if (rc != SQLITE_DONE)
		e = failed(db, path);
	sqlite3_finalize(st);
	return e;
}

struct err *store_peek(const char *path, const char *prefix,
		       void (*fn)(void *arg, const char *key, struct bytes *value), void *arg)
{
	sqlite3 *db = NULL;
	struct err *e;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
		e = failed(db, path);
	} else {
		sqlite3_busy_timeout(db, 5000);
		e = each_row(db, path, prefix, fn, arg);
	}
	sqlite3_close(db);
	return e;
}
