/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "server/data/data.h"

/*
 * archive.c: the file that a backup is. A tar archive of cay-backup.json (what it was made from),
 * the files below in their order, and at its end SHA256SUMS, in the form that sha256sum -c reads,
 * with the digests of all before it.
 */
#define ARCHIVE_FACTS "cay-backup.json"
#define ARCHIVE_STORE "store.db"
enum {
	ARCHIVE_SMALL_MAX = 64 * 1024, /* bytes of any file but the store */
};
struct archive_file {
	const char *name; /* in the data directory too */
	bool required;
};
extern const struct archive_file archive_files[]; /* ends with a NULL name */

struct archive_writer {
	int fd; /* the caller's */
	struct buf sums;
	uint64_t bytes;
	const struct data_progress *progress;
};
must_use struct err *archive_put_text(struct archive_writer *w, const char *name, const char *text);
must_use struct err *archive_put_file(struct archive_writer *w, const char *name, int from);
must_use struct err *archive_put_facts(struct archive_writer *w, const struct data_backup_facts *f);
must_use struct err *archive_end(struct archive_writer *w);
void archive_writer_done(struct archive_writer *w);

/*
 * Writes the files into the directory, which must be empty, synced; everything is verified before
 * this returns NULL. ERR_CORRUPT says what is wrong with the archive.
 */
must_use struct err *archive_unpack(const char *file, int dir, const struct data_progress *progress,
				    struct data_backup_facts *ret);
