/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "server/read/filter.h"

struct object;
struct objects;
struct store_entry;
struct store_view;

/*
 * A walk over the objects that a filter selects, at one revision. It may rest between two objects
 * for as long as it likes.
 */
struct cursor {
	const struct objects *objects;
	const struct filter *filter;
	struct store_view *view;
	struct store_entry *at; /* a reference to the last one; NULL: none yet */
	char *after;            /* where to begin; NULL: at the first */
	bool ended;             /* nothing is left */
};
/* The filter outlives it. Errors are those of store_view_new(). */
must_use struct err *cursor_init(struct cursor *c, const struct objects *os, const struct filter *f,
				 uint64_t rev);
void cursor_done(struct cursor *c);
void cursor_rewind(struct cursor *c); /* to where it began, at the same revision */
/* The next object, a new reference. NULL: at the end, or nothing was found among the next few:
 * look at ended. ERR_GONE: too much has changed since. */
must_use struct err *cursor_next(struct cursor *c, struct object **ret);
/* ERR_GONE: too much has changed since; what the cursor says from now on is of no use. */
must_use struct err *cursor_check(const struct cursor *c);
/* Whether anything follows, selected or not. Ask cursor_check() first. */
bool cursor_more(const struct cursor *c);
const char *cursor_key(const struct cursor *c); /* of the last one; NULL: none yet */
