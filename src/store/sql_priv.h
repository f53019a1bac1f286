/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* sql.c: one connection to a store file, and its errors in our words. For one thread at a time. */
struct sql {
	sqlite3 *db;
	char *path;
};
/* flags: SQLITE_OPEN_…; takes path over, on failure too. s must be closed in any case. */
must_use struct err *sql_open(struct sql *s, char *path, int flags);
void sql_close(struct sql *s);
bool sql_is_full(const struct sql *s); /* the last call failed because the disk is full */
/* What the last call ended with. ERR_CORRUPT, ERR_EXHAUSTED: the disk is full, ERR_UNAVAILABLE. */
must_use struct err *sql_err(const struct sql *s, const char *what);
must_use struct err *sql_run(struct sql *s, const char *statements);
must_use struct err *sql_prepare(struct sql *s, const char *statement, sqlite3_stmt **ret);
/* The first column of the first row, or otherwise if there is no row. */
must_use struct err *sql_ask(struct sql *s, const char *statement, int64_t otherwise, int64_t *ret);
/* path with its directory resolved: SQLite is told to follow no links, for the file's sake; its
 * directory may well be behind one. malloc'd. */
char *sql_resolve(const char *path);

/* schema.c: which tables a file has, and how an older file gets those of today. */
enum {
	SCHEMA = 2,
};
struct schema_facts {
	uint64_t rev, id;
	int64_t schema;
};
/* The file must be ours and not newer than this program. *ret_empty: it is nobody's yet. */
must_use struct err *schema_check(struct sql *s, struct schema_facts *ret, bool *ret_empty);
must_use struct err *schema_make(struct sql *s);
/* From facts->schema to SCHEMA, in one transaction; does nothing where they are the same. */
must_use struct err *schema_migrate(struct sql *s, const struct schema_facts *facts);
/* All that PRAGMA quick_check or integrity_check has to say; the first complaint is the error. */
must_use struct err *schema_check_whole(struct sql *s);

/* A row as it is in the file; key and value are borrowed. */
struct schema_row {
	const char *key;
	uint64_t rev, create_rev;
	const void *value;
	size_t len;
	bool has_sum;
	uint64_t sum;
};
#define SCHEMA_ROWS   "SELECT key, rev, create_rev, value, sum FROM objects"
#define SCHEMA_ROWS_1 "SELECT key, rev, create_rev, value, NULL FROM objects"
struct schema_row schema_row(sqlite3_stmt *st); /* of either of these */
/* The checksum that belongs to this row: over all but the sum. */
uint64_t schema_sum(const struct schema_row *r);
