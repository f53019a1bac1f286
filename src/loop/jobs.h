/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct loop;

/*
 * Jobs that have an owner: whoever embeds this can wait until the last one has ended before it is
 * freed.
 */
struct jobs {
	struct loop *loop;
	unsigned n;               /* under way */
	void (*ended)(void *arg); /* one more has ended; may be NULL */
	void *arg;
};

void jobs_init(struct jobs *j, struct loop *l, void (*ended)(void *arg), void *arg);
/* As job_run(). */
void jobs_run(struct jobs *j, void (*work)(void *arg), void (*done)(void *arg), void *arg);
void jobs_wait(struct jobs *j); /* turns the loop until none is under way */
