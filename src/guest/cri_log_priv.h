/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * The log of a container's command in the format that container runtimes share:
 *
 *   2026-01-02T03:04:05.123456789Z stdout F a whole line
 *   2026-01-02T03:04:05.123456789Z stderr P the first 16 KiB of a longer one
 *
 * The file takes at most max bytes of disk: beyond that, its oldest part becomes a hole and the
 * newer half stays at the same offsets. A reader skips the zeros and the first line after them,
 * which is cut. A full disk costs lines, never the sandbox; the next line that can be written
 * follows one that says how many are missing.
 */
#define LOG_LINE (16 * 1024)
#define LOG_MAX  (20 * 1024 * 1024) /* unless somebody says otherwise */

enum log_source {
	LOG_SOURCE_STDOUT,
	LOG_SOURCE_STDERR,
	LOG_SOURCE_MAX_,
};

struct cri_log {
	int fd;     /* not owned; -1: lines are dropped */
	int helper; /* not owned: takes the end of a hole, where we can make none; -1: nobody does
		     */
	bool sized;
	uint64_t max;
	uint64_t size, punched; /* bytes in the file; how many at its beginning are a hole */
	uint64_t lost;          /* lines that could not be written since the last that could */
	int lost_errno;
	struct buf line[LOG_SOURCE_MAX_];
};

void cri_log_init(struct cri_log *log, int fd);
void cri_log_done(struct cri_log *log);
void cri_log_feed(struct cri_log *log, enum log_source source, const char *data, size_t len);
/* The source has ended: a line without its newline counts as complete. */
void cri_log_end(struct cri_log *log, enum log_source source);
