/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* wal.c: looks for damage in a write-ahead log that is not just a torn end. */
enum {
	WAL_HEADER = 32,
	WAL_FRAME = 24, /* and a page */
	WAL_PAGE_MAX = 65536,
};

struct wal_scan {
	uint32_t page; /* bytes */
	bool big_endian;
	uint8_t salt[8];
	uint32_t sum[2]; /* as the frame before has stored them */
	uint64_t n, bad; /* frames seen; number of the first bad one, 0: none */
	bool after_commit, damaged;
};
/* False: there are no frames to look at, or damaged is set. */
bool wal_scan_header(struct wal_scan *s, const uint8_t head[WAL_HEADER]);
/* frame has WAL_FRAME + page bytes. False: the log is damaged. */
bool wal_scan_frame(struct wal_scan *s, const uint8_t *frame);

/* ERR_CORRUPT: commits were lost that had been stored. A log that does not exist is fine. */
must_use struct err *wal_check(const char *path);
