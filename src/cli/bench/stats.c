/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/stats.h"

#include <stdlib.h>

#include "base/mem.h"

void samples_add(struct samples *s, double value)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->v = xrealloc(s->v, s->cap * sizeof(*s->v));
	}
	s->v[s->n++] = value;
	s->sorted = false;
}

void samples_done(struct samples *s)
{
	free(s->v);
	*s = (struct samples){ 0 };
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void sort(struct samples *s)
{
	if (!s->sorted && s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_value);
	s->sorted = true;
}

bool samples_quantile(struct samples *s, double q, double *ret)
{
	double rank = q * (double)s->n - 1e-6; /* 0.99 × 1000 may come out as 990.0000000001 */
	double above = (1 - q) * (double)s->n + 1e-6;

	if (!s->n || above < 1)
		return false;
	sort(s);
	*ret = s->v[(size_t)rank]; /* counted from 0, so this is the rank rounded up */
	return true;
}

double samples_min(struct samples *s)
{
	sort(s);
	return s->n ? s->v[0] : 0;
}

double samples_max(struct samples *s)
{
	sort(s);
	return s->n ? s->v[s->n - 1] : 0;
}
