/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Measurements and their quantiles, by nearest rank: a quantile is always one of the measurements.
 */
struct samples {
	double *v;
	size_t n, cap;
	bool sorted;
};
void samples_add(struct samples *s, double value);
void samples_done(struct samples *s);
/*
 * False if there are too few for that quantile to exist: at least one measurement must lie above
 * it, so that p99 needs 100 of them and p99.9 needs 1000.
 */
bool samples_quantile(struct samples *s, double q, double *ret);
double samples_min(struct samples *s); /* 0 if there are none */
double samples_max(struct samples *s);
