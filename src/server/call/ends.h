/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct loop;
struct timer;

/*
 * The next time at which a credential ends by which something is open: one timer for all of them.
 * When it is reached, whoever is told looks at all that is open, ends what is over, and names the
 * ends of the others again.
 */
struct ends {
	struct timer *timer; /* NULL: nobody is told */
	int64_t next;        /* seconds since 1970; 0: none is known */
	void (*reached)(void *arg);
	void *arg;
};
void ends_init(struct ends *e, struct loop *l, void (*reached)(void *arg), void *arg);
void ends_done(struct ends *e);
void ends_name(struct ends *e, int64_t at); /* 0: it has none */
