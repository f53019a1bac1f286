/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct buf;

/*
 * A metric with labels, in Prometheus' text format: one number, or one histogram, for each
 * combination of their values.
 *
 * Users choose some of those values, so a metric has a limit of combinations. What comes beyond it
 * is counted together, in a series all of whose labels are "other". A value that is longer than any
 * name counts as "other" too. An observation costs one look-up and no allocation once its series
 * exists.
 */
enum series_type {
	SERIES_COUNTER,
	SERIES_GAUGE,
	SERIES_HISTOGRAM,
};

enum {
	SERIES_LABELS_MAX = 10,
	SERIES_VALUE_MAX = 253, /* bytes of a value */
};

struct series_spec {
	const char *name, *help;
	enum series_type type;
	const char *labels[SERIES_LABELS_MAX]; /* NULL after the last, unless all are there */
	const uint32_t *bounds;                /* of a histogram: upper ends, ascending */
	size_t n_bounds;
	unsigned per; /* how many of them make one of the unit in the name; 0: one */
	size_t max;   /* series */
};

struct series;
struct series *series_new(const struct series_spec *spec); /* spec must outlive it */
void series_free(struct series *s);
AUTOPTR(series)

/* values: one for each label; NULL counts as "". */
void series_add(struct series *s, const char *const values[], uint64_t n);
void series_observe(struct series *s, const char *const values[], uint64_t value);

/* The lines of the metric, also if there is no series yet. */
void series_write(const struct series *s, struct buf *b);
