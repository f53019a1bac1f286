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
	int64_t generation;
	bool deleting;
};
extern const struct view_type budget_view_type;
const struct budget_view *budget_view(const struct object *o);
