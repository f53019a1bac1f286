/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "node/runtime/runtime.h"

struct loop;
struct timer;

/*
 * A line of waiters for something that is kept in stock: slots, or networks.
 *
 * First come, first served, and one waiter is called for each thing in stock. A waiter that was
 * called has the rest of the loop's turn to ask; if it does not, the next is called, so that
 * nothing stays in stock while something waits for it.
 */
enum {
	LINE_CALLED_MAX = 16, /* called, without a response yet */
};

struct line {
	struct list waiting;                                /* struct runtime_wait */
	const struct runtime_wait *called[LINE_CALLED_MAX]; /* only compared: they may be gone */
	unsigned n_called;
	bool call_all;
	struct timer *next;
	unsigned (*stock)(void *arg);
	void *arg;
};

void line_init(struct line *l, struct loop *loop, unsigned (*stock)(void *arg), void *arg);
void line_done(struct line *l); /* calls no further waiters; NULL members are fine */

/* True: take one now. False: there is none for w, which waits in line (unless it is NULL). */
bool line_ask(struct line *l, struct runtime_wait *w);
void line_stocked(struct line *l);  /* there is one more; from the loop, as it calls a waiter */
void line_call_all(struct line *l); /* in the next turn: something changed that concerns all */
