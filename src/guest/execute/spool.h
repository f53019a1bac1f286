/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/*
 * What a command wrote, kept until somebody reads it: the beginning in memory, and all of it in a
 * file without a name once it exceeds SPOOL_MEMORY. What does not fit is counted and dropped, and
 * nothing is kept after that: there is never a hole in the middle.
 */
enum {
	SPOOL_MEMORY = 256 * 1024,
	SPOOL_SHARED_MAX = 16 * 1024 * 1024, /* where the only file to be had is memory */
};

struct spool_place {
	const char *dir; /* where the file is made, if it can be made there */
	uint64_t max;    /* bytes kept of one spool */
};

struct spool {
	struct buf memory; /* empty once there is a file */
	int fd;            /* -1: everything is in memory */
	uint64_t max;      /* of the file; 0: none has been needed yet */
	uint64_t kept, total;
	bool full;
	char last; /* of what is kept */
};

void spool_init(struct spool *s);
void spool_done(struct spool *s);
void spool_add(struct spool *s, const struct spool_place *place, const char *data, size_t len);
/* How many bytes from at on were read, at most len; -1 if they cannot be read any more. */
ssize_t spool_read(const struct spool *s, uint64_t at, char *to, size_t len);

static inline bool spool_cut(const struct spool *s)
{
	return s->total > s->kept;
}
