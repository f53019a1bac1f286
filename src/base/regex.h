/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Regular expressions of strangers, in the syntax of Go's regexp (RE2): whoever writes the pattern
 * and whoever writes the text may both be hostile. Matching takes time in proportion to the size of
 * the pattern times the length of the text, never more, and draws on an allowance of steps.
 *
 * Left out: classes by Unicode property (\pL), and letters beyond ASCII under (?i). Thread-safe:
 * nothing changes after regex_new().
 */
struct regex;

/* ERR_MALFORMED, in Go's words ("missing closing ]: `[a-z`"); ERR_TOO_LARGE: it would need more
 * than REGEX_SIZE_MAX steps of a program. */
must_use struct err *regex_new(const char *pattern, struct regex **ret);
void regex_free(struct regex *r);         /* NULL is fine */
size_t regex_size(const struct regex *r); /* what it took to make, in instructions or more */
AUTOPTR(regex)

enum {
	REGEX_SIZE_MAX = 8192, /* instructions, after repetitions are written out */
	REGEX_DEPTH_MAX = 100, /* groups inside each other */
};

enum regex_result {
	REGEX_NO,
	REGEX_YES,
	REGEX_TOO_LONG, /* the allowance was used up */
};
/* Is there a match anywhere in text? *steps is the allowance, and less afterwards. */
enum regex_result regex_match(const struct regex *r, const char *text, size_t len, size_t *steps);
