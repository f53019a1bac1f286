/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report: conditions, floors and rows as JSON, and the same as text. A percentile that the
 * number of runs does not support is in neither.
 */
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

static const struct {
	const char *key, *ratio, *title;
	double q;
} quantiles[] = {
	{ "p50_us", "p50_to_floor", "p50", 0.5 },
	{ "p90_us", "p90_to_floor", "p90", 0.9 },
	{ "p99_us", "p99_to_floor", "p99", 0.99 },
	{ "p999_us", "p999_to_floor", "p99.9", 0.999 },
};

/* "tls+fdatasync" → the sum of both medians; 0 if one of them was not measured. */
static double floor_us(const struct bench *b, const char *names)
{
	struct span rest = SPAN(names), name;
	double sum = 0;

	do {
		autofree char *key = NULL;
		double us;

		name = span_cut(rest, '+', &rest);
		key = xstrndup(name.p, name.len);
		us = json_real(
			json_get(json_get(b->floor ? json_root(b->floor) : NULL, key), "p50_us"),
			0);
		if (us <= 0)
			return 0;
		sum += us;
	} while (rest.p);
	return sum;
}

static void put_quantiles(struct json_doc *d, struct json *o, struct row *r, double floor)
{
	double us;

	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++) {
		if (!samples_quantile(&r->us, quantiles[i].q, &us))
			continue;
		json_set(d, o, quantiles[i].key, json_new_real(d, us));
		if (floor > 0)
			json_set(d, o, quantiles[i].ratio, json_new_real(d, us / floor));
	}
	if (!r->us.n)
		return;
	json_set(d, o, "min_us", json_new_real(d, samples_min(&r->us)));
	json_set(d, o, "max_us", json_new_real(d, samples_max(&r->us)));
}

static void put_row(const struct bench *b, struct json_doc *d, struct json *list, struct row *r)
{
	struct json *o = json_obj(d);
	double floor = r->floor ? floor_us(b, r->floor) : 0;

	json_set_str(d, o, "scenario", r->scenario);
	json_set_str(d, o, "name", r->name);
	json_set_str(d, o, "what", r->what);
	json_set_int(d, o, "n", (int64_t)(r->us.n));
	json_set_int(d, o, "failures", (int64_t)r->n_failed);
	if (r->n_cuts)
		json_set_int(d, o, "watch_cuts", (int64_t)r->n_cuts);
	if (floor > 0) {
		json_set_str(d, o, "floor", r->floor);
		json_set(d, o, "floor_us", json_new_real(d, floor));
	}
	put_quantiles(d, o, r, floor);
	for (size_t i = 0; i < r->n_figures; i++)
		json_set(d, o, r->figures[i].key, json_new_real(d, r->figures[i].value));
	if (r->writes && json_len(json_root(r->writes)))
		json_set(d, o, "writes_by", json_copy(d, json_root(r->writes)));
	json_push(d, list, o);
}

struct json_doc *report_build(struct bench *b)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *list;

	json_set_root(d, root);
	host_conditions(b, d, json_need_obj(d, root, "conditions"));
	if (b->floor)
		json_set(d, root, "floors", json_copy(d, json_root(b->floor)));
	list = json_set(d, root, "rows", json_arr(d));
	for (size_t i = 0; i < b->n_rows; i++)
		put_row(b, d, list, b->rows[i]);
	return d;
}

/* As text */

static bool is_quantile(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++)
		if (str_eq(key, quantiles[i].key) || str_eq(key, quantiles[i].ratio))
			return true;
	return false;
}

static void print_row(struct buf *out, const struct json *r)
{
	buf_printf(out, "%-28s", json_get_str(r, "name"));
	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++) {
		double ratio = json_real(json_get(r, quantiles[i].ratio), 0);

		if (!json_get(r, quantiles[i].key))
			continue;
		buf_printf(out, " %s %.2f ms", quantiles[i].title,
			   json_real(json_get(r, quantiles[i].key), 0) / 1e3);
		if (ratio > 0)
			buf_printf(out, " (%.1fx)", ratio);
	}
	buf_printf(out, "  n %lld", (long long)json_get_int(r, "n", 0));
	if (json_get_int(r, "failures", 0))
		buf_printf(out, "  FAILURES %lld", (long long)json_get_int(r, "failures", 0));
	buf_add_str(out, "\n    ");
	json_each(it, r) {
		static const char *const shown[] = { "floor_us", "min_us", NULL };
		size_t len = strlen(it.key);
		double v = json_real(it.val, 0);

		if (!json_is(it.val, JSON_REAL) || str_in(it.key, shown) || is_quantile(it.key))
			continue;
		if (str_ends(it.key, "_us"))
			buf_printf(out, "%.*s %.3f ms  ", (int)len - 3, it.key, v / 1e3);
		else
			buf_printf(out, "%s %.6g  ", it.key, v);
	}
	buf_printf(out, "\n    %s\n", json_get_str(r, "what"));
	if (json_get(r, "writes_by")) {
		buf_add_str(out, "    each:");
		json_each(it, json_get(r, "writes_by"))
			buf_printf(out, " %s %.2f;", it.key, json_real(it.val, 0));
		buf_add_char(out, '\n');
	}
}

void report_print(const struct json *r)
{
	const struct json *c = json_get(r, "conditions");
	autobuf out = { 0 };

	buf_printf(
		&out,
		"cay %s (%s), kernel %s, %lld cores, %s; image %s; load average %.2f before, %.2f after\n",
		json_get_str(c, "version"), json_get_str(c, "build"), json_get_str(c, "kernel"),
		(long long)json_get_int(c, "cores", 0), json_get_str(c, "filesystem"),
		json_get_str(c, "image"), json_real(json_get(c, "load_before"), 0),
		json_real(json_get(c, "load_after"), 0));
	json_each(f, json_get(r, "floors"))
		buf_printf(&out, "floor %-10s p50 %.3f ms  p99 %.3f ms\n", f.key,
			   json_real(json_get(f.val, "p50_us"), 0) / 1e3,
			   json_real(json_get(f.val, "p99_us"), 0) / 1e3);
	buf_add_char(&out, '\n');
	json_each(it, json_get(r, "rows"))
		print_row(&out, it.val);
	cli_write(&out);
}
