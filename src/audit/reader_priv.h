/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/reader.h"

struct json_doc;

/* A file of a log, open. */
struct log_file {
	int fd;         /* -1: none */
	uint64_t first; /* the number of its first record */
	uint64_t len;   /* when it was opened */
};
/* The file that has record n, if it is there: the youngest that begins at n or before. */
must_use struct err *log_file_with(const char *path, uint64_t n, struct log_file *ret);
/* The oldest of those that begin after record n. */
must_use struct err *log_file_after(const char *path, uint64_t n, struct log_file *ret);
void log_file_close(struct log_file *f);
bool log_file_is_youngest(const struct log_file *f, const char *path); /* it may be written to */
/* Somewhere before record n, soon before it, at the beginning of a line; *ret_end: after it. */
must_use struct err *log_file_seek(const struct log_file *f, uint64_t n, uint64_t *ret_begin,
				   uint64_t *ret_end);

/* The record in a line, and its number; NULL: it is none that has one. */
struct json_doc *log_line_read(const char *p, size_t len, uint64_t *ret_n);

/* All of len bytes at an offset, or less at the end of the file. */
must_use struct err *log_pread(int fd, void *p, size_t len, uint64_t at, size_t *ret_len);
