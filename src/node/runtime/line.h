/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/runtime/runtime.h"

struct loop;
struct timer;

/*
 * A line of those who wait for something that there is a stock of: slots, or networks.
 *
 * First come, first served, and those who are in no hurry (later) after all others: whoever joins
 * draws a ticket and keeps it until it is served, however often it is called in between. One waiter
 * is called for one thing in stock, and that thing is set aside for it. A waiter that does not ask
 * within LINE_ANSWER_MS keeps its ticket, so it goes first whenever it does ask; but then the next
 * is called too, so that nothing lies idle because somebody lost interest.
 */
enum {
	LINE_ANSWER_MS = 25, /* a pass may be put off by 20 ms when many are due */
};

struct line {
	struct list waiting;   /* struct runtime_wait, by ticket */
	uint64_t next_ticket;  /* from 1 on */
	uint64_t first_called; /* the lowest ticket that was called in this round */
	unsigned n_called;     /* in this round, and not heard of yet */
	unsigned round;        /* a new one begins when those called had their time to ask */
	bool call_all;
	struct timer *next;
	char *trouble; /* why the stock cannot be filled, or NULL */
	unsigned (*stock)(void *arg, bool later);
	void *arg;
};

/* stock(): how many there are for those who are in a hurry, or for those who are not. */
void line_init(struct line *l, struct loop *loop, unsigned (*stock)(void *arg, bool later),
	       void *arg);
void line_done(struct line *l); /* nobody is called any more; NULL members are fine */

/* True: take one now. False: there is none for w, which stands in line (unless it is NULL). */
bool line_ask(struct line *l, struct runtime_wait *w);
/* The same, but nothing is taken yet; if it is not, the next is called before long. */
bool line_would_serve(struct line *l, struct runtime_wait *w);
void line_join(struct line *l, struct runtime_wait *w);  /* stands in line, at its old place */
void line_leave(struct line *l, struct runtime_wait *w); /* it was served elsewhere; or NULL */
void line_stocked(struct line *l); /* there is one more; from the loop, as it calls a waiter */

bool line_hurries(const struct line *l);                  /* the first in line is in a hurry */
unsigned line_len(const struct line *l, unsigned enough); /* of those in line or called; at most so
							     many are counted */

/* NULL: there is none any more. Everybody in line is called in the next turn to tell of trouble.
 * True when the text is a new one. */
bool line_trouble_is(struct line *l, const char *text);
