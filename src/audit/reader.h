/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

struct json;
struct json_doc;

/*
 * Readers of an audit log: the whole of it from the oldest line on, the newest records that match,
 * what comes after a record, and the check of its chain. All of them read files that may be written
 * and rotated meanwhile, in pieces: each step ends soon and needs little memory, whatever is in the
 * files. They block, so steps are for jobs; one reader is used by one thread at a time.
 *
 * Records are found by their numbers, never by the name of a file, which changes when files are
 * rotated. Rotation renames from the oldest file to the youngest, so whoever looks at PATH, PATH.1,
 * PATH.2, … in this order may see a file twice and misses none.
 */
enum {
	AUDIT_LINE_MAX = 1024 * 1024,      /* of a line; what is longer is none of ours */
	AUDIT_STEP = 1024 * 1024,          /* bytes that a step reads, about */
	AUDIT_PAGE_MAX = 4 * 1024 * 1024,  /* bytes of the records of a page */
	AUDIT_LOOK_MAX = 64 * 1024 * 1024, /* bytes that are looked through for a page */
	AUDIT_FAULTS_LISTED = 100,
};

/* Which records are wanted: those that all of it selects. Texts are borrowed; NULL: any. */
struct audit_filter {
	const char *user;    /* who did it, or in whose name */
	const char *agent;   /* its name, in whichever namespace */
	const char *sandbox; /* or its Pod or claim */
	const char *ns, *verb;
	bool refused;      /* status 400 and above */
	usec since, until; /* 0: any; until is not included */
	bool chain;        /* also what only belongs to the chain */
};
bool audit_filter_wants(const struct audit_filter *f, const struct json *record);

/* The files of a log as they are now, the oldest first. They can be read on when they have been
 * renamed or removed. */
struct audit_part {
	int fd;
	char *name; /* the whole path */
	uint64_t len;
};
struct audit_parts {
	struct audit_part *list;
	size_t n;
	uint64_t bytes; /* of all */
};
must_use struct err *audit_parts_open(const char *path, struct audit_parts *ret);
void audit_parts_done(struct audit_parts *p);

/* The lines of a file up to len. A line without an end is one too; of a line that is longer than
 * AUDIT_LINE_MAX only the beginning is told. Begins as { .fd = fd, .len = len, … }. */
struct audit_scan {
	int fd;
	uint64_t at, len;
	uint64_t number; /* of the line, from 1 on */
	struct buf line; /* the beginning of one */
	void (*fn)(void *arg, uint64_t number, const char *p, size_t len);
	void *arg;
};
must_use struct err *audit_scan_step(struct audit_scan *s, size_t max); /* at == len: over */
void audit_scan_done(struct audit_scan *s);

/* The newest records that match. */
struct audit_page_spec {
	const char *path; /* borrowed, as is the filter */
	const struct audit_filter *filter;
	uint64_t before; /* only numbers below it; 0: all */
	size_t limit;    /* 0: only where the log ends */
};
struct audit_page;
struct audit_page *audit_page_new(const struct audit_page_spec *spec);
void audit_page_free(struct audit_page *p);
AUTOPTR(audit_page)
must_use struct err *audit_page_step(struct audit_page *p, bool *ret_over);
size_t audit_page_len(const struct audit_page *p);
struct span audit_page_line(const struct audit_page *p, size_t i); /* 0: the oldest; no newline */
uint64_t audit_page_last(const struct audit_page *p); /* the newest that was looked at; 0: none */
uint64_t audit_page_next(const struct audit_page *p); /* before, for the next page; 0: none */

/* The records after one, the oldest first, and then those that are written. */
struct audit_cursor_spec {
	const char *path; /* borrowed, as is the filter */
	const struct audit_filter *filter;
	uint64_t after;
};
struct audit_cursor;
struct audit_cursor *audit_cursor_new(const struct audit_cursor_spec *spec);
void audit_cursor_free(struct audit_cursor *c);
AUTOPTR(audit_cursor)
/*
 * Appends lines with their ends to out, max_lines at most, which it counts down; and
 * {"gap":{"from":N,"to":N}} for numbers that are not there. *ret_end: there is no more now.
 */
must_use struct err *audit_cursor_step(struct audit_cursor *c, struct buf *out, size_t *max_lines,
				       bool *ret_end);
uint64_t audit_cursor_last(const struct audit_cursor *c); /* all up to it have been looked at */

/* The check of the whole chain. key: the public one. */
struct audit_verify;
must_use struct err *audit_verify_open(const char *path, const unsigned char *key,
				       struct audit_verify **ret);
void audit_verify_free(struct audit_verify *v);
AUTOPTR(audit_verify)
must_use struct err *audit_verify_step(struct audit_verify *v, size_t max, bool *ret_over);
struct audit_verdict {
	uint64_t files, lines, checkpoints, signed_up_to, faults;
	uint64_t bytes, of;          /* that have been read, and all */
	const char *from, *to;       /* times of the first and the last record; "": not known */
	const struct json *findings; /* [{"file","line","fault"}], AUDIT_FAULTS_LISTED at most */
};
struct audit_verdict audit_verify_verdict(const struct audit_verify *v); /* borrows from v */
