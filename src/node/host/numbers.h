/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/mem.h"

enum {
	ID_RANGE = 65536,  /* user and group ids of a slot */
	ID_NOBODY = 65534, /* stands for ids that a slot does not have */
};

/* Small numbers, each held by one owner at a time; the one that has been free longest comes first.
 */
struct numbers;
struct numbers *numbers_new(unsigned first, unsigned n);
void numbers_free(struct numbers *s);
AUTOPTR(numbers)
bool numbers_take(struct numbers *s, unsigned *ret); /* false: none is left */
bool numbers_reserve(struct numbers *s, unsigned v); /* this one; false: taken */
void numbers_put(struct numbers *s, unsigned v);
void numbers_start_at(struct numbers *s, unsigned v); /* where the search begins */
