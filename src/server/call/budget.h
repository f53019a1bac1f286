/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct map;
struct user;

/*
 * How many bytes of answers each user may have under way: produced but not taken by the peer. A
 * user who is above that gets no further answer until the peers have read some (429).
 */
struct budget {
	struct map *spent; /* user → bytes, as a pointer */
	size_t total;
};
void budget_init(struct budget *b);
void budget_done(struct budget *b);
/* ERR_EXHAUSTED: the user has spent it. */
must_use struct err *budget_check(const struct budget *b, const struct user *u);
void budget_change(struct budget *b, const struct user *u, size_t from, size_t to);
