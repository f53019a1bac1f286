/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

struct json;
struct json_doc;

/* What may be used, and what was. Amounts are counted in units that are never divided. */
enum cost {
	COST_CPU_US,        /* microseconds of a processor */
	COST_MEMORY_BYTE_S, /* bytes times seconds */
	COST_DISK_BYTE_S,   /* the same */
	COST_NETWORK_BYTES, /* received and sent */
	COST_MAX_,
};
struct costs {
	int64_t of[COST_MAX_];
};
const char *cost_name(enum cost c); /* "cpuSeconds", "memoryGiBHours", … as in the API */
/*
 * In the API, amounts are quantities in the units of their names. Numbers are rounded to billionths
 * of these; what is larger than an int64_t counts as its maximum.
 */
void costs_read(const struct json *tree, int64_t absent, struct costs *ret);
struct json *costs_write(const struct costs *c, struct json_doc *d); /* without those below 0 */
/* As they are read after they were written: sums and differences of such amounts stay exact. */
void costs_round(struct costs *c);
void costs_add(struct costs *to, const struct costs *c);
bool costs_none(const struct costs *c); /* all are 0 */
/* An amount as in the API, "12.5". */
enum {
	COST_TEXT_MAX = 48,
};
void cost_text(enum cost c, int64_t amount, char ret[COST_TEXT_MAX]);

#define BUDGET_PERIOD_MIN ((usec)60 * 1000000)

enum on_exceeded {
	EXCEEDED_SUSPEND,
	EXCEEDED_DENY,
	EXCEEDED_WARN,
	EXCEEDED_MAX_,
};

struct budget_view {
	struct costs limits;   /* < 0: none */
	int64_t max_sandboxes; /* at once; < 0: none */
	usec period;           /* 0: for ever */
	enum on_exceeded on_exceeded;
	usec created;
	bool exceeded;    /* status */
	const char *says; /* status: why, in a sentence; "" */
	int64_t generation;
	bool deleting;
};
extern const struct view_type budget_view_type;
const struct budget_view *budget_view(const struct object *o);
/* When the period began in which now is, if one began at start. period 0: it never ends. */
usec budget_period_start(usec start, usec period, usec now);
/* The first cost of which as much was used as may be; COST_MAX_: there is none. */
enum cost budget_exceeds(const struct budget_view *v, const struct costs *used);
