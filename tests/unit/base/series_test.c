/* SPDX-License-Identifier: Apache-2.0 */
#include "base/series.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "test.h"

static const struct series_spec counted = {
	"seen_total", "What was seen.", SERIES_COUNTER, { "a", "b" }, .max = 3
};
static const uint32_t bounds[] = { 1000, 250000, 2000000 };
static const struct series_spec timed = { "took_seconds",   "How long it took.",
					  SERIES_HISTOGRAM, { "a" },
					  bounds,           ARRAY_LEN(bounds),
					  1000000,          2 };
static const struct series_spec plain = { "rows", "Rows.", SERIES_HISTOGRAM, { NULL },
					  bounds, 1,       .max = 1 };

static bool has_line(const struct series *s, const char *line)
{
	autobuf b = { 0 };
	autofree char *whole = xasprintf("\n%s\n", line);

	series_write(s, &b);
	return strstr(buf_str(&b), whole);
}

TEST(a_metric_without_series_still_says_what_it_is)
{
	autoptr(series) s = series_new(&counted);
	autobuf b = { 0 };

	series_write(s, &b);
	eq_str(buf_str(&b), "# HELP seen_total What was seen.\n# TYPE seen_total counter\n");
}

TEST(equal_labels_are_one_series)
{
	autoptr(series) s = series_new(&counted);

	series_add(s, (const char *const[]){ "x", "y" }, 1);
	series_add(s, (const char *const[]){ "x", "y" }, 2);
	series_add(s, (const char *const[]){ "x", NULL }, 1);
	is_true(has_line(s, "seen_total{a=\"x\",b=\"y\"} 3"));
	is_true(has_line(s, "seen_total{a=\"x\",b=\"\"} 1"));
}

TEST(a_value_cannot_end_its_label)
{
	autoptr(series) s = series_new(&counted);

	series_add(s, (const char *const[]){ "x\",b=\"y", "\\\n" }, 1);
	is_true(has_line(s, "seen_total{a=\"x\\\",b=\\\"y\",b=\"\\\\\\n\"} 1"));
}

TEST(what_is_beyond_the_limit_is_counted_together)
{
	autoptr(series) s = series_new(&counted);
	char name[8];

	for (int i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		series_add(s, (const char *const[]){ name, "y" }, 1);
	}
	is_true(has_line(s, "seen_total{a=\"2\",b=\"y\"} 1"));
	is_false(has_line(s, "seen_total{a=\"3\",b=\"y\"} 1"));
	is_true(has_line(s, "seen_total{a=\"other\",b=\"other\"} 7"));
	series_add(s, (const char *const[]){ "2", "y" }, 1); /* those that are known go on */
	is_true(has_line(s, "seen_total{a=\"2\",b=\"y\"} 2"));
}

TEST(a_value_longer_than_any_name_is_other)
{
	autoptr(series) s = series_new(&counted);
	char name[SERIES_VALUE_MAX + 2];

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	series_add(s, (const char *const[]){ name, "y" }, 1);
	is_true(has_line(s, "seen_total{a=\"other\",b=\"y\"} 1"));
	name[sizeof(name) - 2] = '\0';
	series_add(s, (const char *const[]){ name, "y" }, 1);
	is_false(has_line(s, "seen_total{a=\"other\",b=\"y\"} 2"));
}

TEST(buckets_include_those_below_and_their_bound)
{
	static const uint64_t values[] = { 0, 1000, 1001, 250000, 3000000 };
	autoptr(series) s = series_new(&timed);

	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		series_observe(s, (const char *const[]){ "x" }, values[i]);
	is_true(has_line(s, "took_seconds_bucket{a=\"x\",le=\"0.001\"} 2"));
	is_true(has_line(s, "took_seconds_bucket{a=\"x\",le=\"0.25\"} 4"));
	is_true(has_line(s, "took_seconds_bucket{a=\"x\",le=\"2\"} 4"));
	is_true(has_line(s, "took_seconds_bucket{a=\"x\",le=\"+Inf\"} 5"));
	is_true(has_line(s, "took_seconds_sum{a=\"x\"} 3.252001"));
	is_true(has_line(s, "took_seconds_count{a=\"x\"} 5"));
}

TEST(a_histogram_may_have_no_labels)
{
	autoptr(series) s = series_new(&plain);

	series_observe(s, NULL, 7);
	is_true(has_line(s, "rows_bucket{le=\"1000\"} 1"));
	is_true(has_line(s, "rows_sum 7"));
	is_true(has_line(s, "rows_count 1"));
}
