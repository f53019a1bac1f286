/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

struct map;
struct user;

/*
 * How much of the loop's time the requests of each user have taken lately. One request is never cut
 * short, so a user with few of them under way can still keep all others waiting. Whenever requests
 * take more than half of the time and more than one user asks, nobody is given more than an equal
 * part of it: who has had that is answered with 429 until some of it is past.
 *
 * Time is counted in two windows of a second, of which the one before fades out.
 */
struct effort {
	usec began;               /* the present window */
	struct map *now, *before; /* user → µs, as a pointer */
	usec total_now, total_before;
	size_t n_users; /* in either */
};
void effort_init(struct effort *e);
void effort_done(struct effort *e);
/* ERR_EXHAUSTED: the user has had an equal part of the time, and others want theirs. */
must_use struct err *effort_check(struct effort *e, const struct user *u, usec now);
/* A part of a request of theirs took so long, and has just ended. */
void effort_add(struct effort *e, const struct user *u, usec now, usec took);
