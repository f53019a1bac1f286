/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/regex.h"

/* A run of code points, both ends included. */
struct regex_range {
	uint32_t lo, hi;
};

enum regex_assert {
	ASSERT_TEXT_BEGIN,
	ASSERT_TEXT_END,
	ASSERT_LINE_BEGIN,
	ASSERT_LINE_END,
	ASSERT_WORD,
	ASSERT_NOT_WORD,
};

enum regex_node_kind {
	NODE_CLASS,  /* one character in ranges */
	NODE_CAT,    /* children one after the other; none: the empty text */
	NODE_ALT,    /* one of the children */
	NODE_REPEAT, /* the one child, min to max times */
	NODE_ASSERT,
};

struct regex_node {
	enum regex_node_kind kind;
	struct regex_node *child, *last, *next;
	const struct regex_range *ranges; /* sorted, not overlapping */
	size_t n_ranges;
	int min, max; /* max < 0: any number */
	enum regex_assert assertion;
};

/* regex_parse.c: the tree of a pattern, in the arena. */
must_use struct err *regex_parse(struct arena *a, const char *pattern, struct regex_node **ret);
