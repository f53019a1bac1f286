/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * tar archives, as a stream in either direction: blocks of 512 bytes, a header for each entry and
 * its content after it. Read are ustar, the long names of GNU and the extended headers of pax; what
 * is written is GNU's, which has no limit of names or sizes.
 */
enum {
	TAR_BLOCK = 512,
	TAR_PATH_MAX = 4096,
	TAR_EXTENDED_MAX = 64 * 1024, /* of a header that describes the next one */
	TAR_ENTRIES_MAX = 1000 * 1000,
};

enum tar_type {
	TAR_FILE,
	TAR_DIR,
	TAR_SYMLINK,
	TAR_HARDLINK,
	TAR_OTHER, /* a device, a fifo, or what we do not know; never written */
	TAR_TYPE_MAX_,
};

struct tar_entry {
	enum tar_type type;
	const char *path; /* as it is in the archive; never "" */
	const char *link; /* of links; otherwise "", or NULL to be written */
	uint64_t size;    /* of files, and of what is none of these */
	uint32_t mode;    /* 0 to 0777 */
	int64_t mtime;
};

struct tar_events {
	must_use struct err *(*entry)(void *arg, const struct tar_entry *e);
	must_use struct err *(*data)(void *arg, const char *p, size_t len); /* of a file or other */
	must_use struct err *(*end)(void *arg); /* the entry is complete */
};

struct tar_reader;
struct tar_reader *tar_reader_new(const struct tar_events *ev, void *arg);
void tar_reader_free(struct tar_reader *t);
AUTOPTR(tar_reader)
/* After an error nothing more may be fed. ERR_INVALID names the entry. */
must_use struct err *tar_feed(struct tar_reader *t, const char *p, size_t len);
/* An archive that lacks its end is ERR_INVALID: it may have been cut. */
must_use struct err *tar_finish(struct tar_reader *t);

void tar_put_header(struct buf *out, const struct tar_entry *e);
void tar_put_padding(struct buf *out, uint64_t size); /* after so many bytes of content */
void tar_put_end(struct buf *out);

/*
 * A path of an entry without ".", empty names and a slash at its end; "" is the directory that
 * everything goes to. ERR_FORBIDDEN: it is absolute or has "..".
 */
must_use struct err *tar_path_clean(const char *path, char **ret);
/*
 * True if a symbolic link at this clean path stays inside, whatever other links there are: the
 * target is relative, and ".." comes only at its beginning and not too often.
 */
bool tar_link_stays(const char *path, const char *target);
