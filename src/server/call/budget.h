/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct map;
struct user;

/*
 * What each user may have under way: requests that are not answered in full, watches among them,
 * and bytes of answers that were produced but not taken by the peer. A user who has more gets no
 * further answer until some of that is over (429).
 */
struct budget {
	struct map *spent; /* user → bytes, as a pointer */
	size_t total;
	struct map *calls; /* user → requests, as a pointer */
	size_t n_calls, max_calls;
};
void budget_init(struct budget *b, size_t max_calls);
void budget_done(struct budget *b);
/* One more request, until budget_leave(). ERR_EXHAUSTED: the user has as many as are still free. */
must_use struct err *budget_enter(struct budget *b, const struct user *u);
void budget_leave(struct budget *b, const struct user *u);
/* ERR_EXHAUSTED: the user has spent the bytes. */
must_use struct err *budget_check(const struct budget *b, const struct user *u);
void budget_change(struct budget *b, const struct user *u, size_t from, size_t to);
