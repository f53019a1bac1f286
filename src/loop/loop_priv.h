/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

/* uv.h has a field of this name. */
#pragma push_macro("unused")
#undef unused
#include <uv.h>
#pragma pop_macro("unused")

#include "base/list.h"
#include "loop/loop.h"

/* A call that waits for its turn: deferred on the loop's own thread, or posted from any. */
struct call {
	void (*fn)(void *arg);
	void *arg;
	struct call *next;
};

struct loop {
	uv_loop_t uv;
	uv_prepare_t prepare; /* runs after callbacks, before the sleep */
	uv_async_t wake;      /* keeps the loop alive; sent by loop_post() and loop_stop() */
	uv_timer_t turn_end;  /* bounds the sleep of loop_turn() */

	struct call *deferred, **deferred_tail; /* first in, first out */
	struct call *spare;                     /* one call kept for the next loop_defer() */
	struct list flushes;                    /* struct loop_flush */
	struct list *next_flush;                /* where flush_all() goes on */
	_Atomic(struct call *) posted;          /* last in, first out; reversed when taken */
	atomic_bool stopping;
};
