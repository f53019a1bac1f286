/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/stats.h"
#include "test.h"

static struct samples numbers(size_t n) /* 1 … n, in no order */
{
	struct samples s = { 0 };

	for (size_t i = 0; i < n; i++)
		samples_add(&s, (double)(i * 7919 % n + 1));
	return s;
}

TEST(a_quantile_is_the_measurement_at_its_rank)
{
	static const struct {
		size_t n;
		double q, value;
	} rows[] = {
		{ 2, 0.5, 1 },     { 3, 0.5, 2 },      { 10, 0.5, 5 },      { 10, 0.9, 9 },
		{ 100, 0.99, 99 }, { 500, 0.99, 495 }, { 1000, 0.99, 990 }, { 1000, 0.999, 999 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct samples s = numbers(rows[i].n);
		double v = 0;

		is_true(samples_quantile(&s, rows[i].q, &v));
		eq_int(v, rows[i].value);
		samples_done(&s);
	}
}

TEST(a_quantile_that_so_few_measurements_do_not_have_is_not_given)
{
	static const struct {
		size_t n;
		double q;
		bool exists;
	} rows[] = {
		{ 0, 0.5, false },   { 1, 0.5, false },     { 2, 0.5, true },
		{ 9, 0.9, false },   { 10, 0.9, true },     { 99, 0.99, false },
		{ 100, 0.99, true }, { 999, 0.999, false }, { 1000, 0.999, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct samples s = numbers(rows[i].n);
		double v = -1;

		eq_int(samples_quantile(&s, rows[i].q, &v), rows[i].exists);
		eq_int(v != -1, rows[i].exists);
		samples_done(&s);
	}
}

TEST(measurements_may_be_added_after_a_quantile_was_read)
{
	struct samples s = numbers(100);
	double v = 0;

	is_true(samples_quantile(&s, 0.5, &v));
	samples_add(&s, 0);
	samples_add(&s, 1000);
	eq_int(samples_min(&s), 0);
	eq_int(samples_max(&s), 1000);
	is_true(samples_quantile(&s, 0.5, &v));
	eq_int(v, 50);
	samples_done(&s);
}
