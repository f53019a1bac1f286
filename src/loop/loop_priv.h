/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

/* <uv.h> has a field of this name. */
#pragma push_macro("unused")
#undef unused
#include <uv.h>
#pragma pop_macro("unused")

#include "base/list.h"
#include "loop/loop.h"

/* A call from any thread that waits for a turn of the loop. */
struct posted {
	void (*fn)(void *arg);
	void *arg;
	struct posted *next;
};

struct crew;

struct loop {
	uv_loop_t uv;
	uv_prepare_t prepare; /* runs after callbacks, before the sleep */
	uv_poll_t wake; /* on wake_fd, for loop_post() and loop_stop(); keeps the loop alive */
	int wake_fd;
	uv_timer_t turn_end; /* bounds the sleep of loop_turn() */

	struct list deferred;            /* struct deferred; first in, first out */
	struct list flushes;             /* struct loop_flush */
	struct list *next_flush;         /* where flush_all() goes on */
	_Atomic(struct posted *) posted; /* last in, first out; reversed when taken */
	struct crew *crew;               /* made by the first short job */
	bool in_timer;                   /* a timer's callback runs */
	atomic_bool stopping;
};

bool crew_works(const struct crew *c); /* a job's done() is still to be called; NULL is fine */
void crew_free(struct crew *c);        /* turns the loop until all jobs are done; NULL is fine */
