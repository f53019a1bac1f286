/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay bench`: figures of a running server next to the floors of this machine, all measured in one
 * run and related to each other as ratios. Figures are never printed without their conditions:
 * host, kernel, version, pool size and failures.
 */
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/random.h"
#include "base/str.h"
#include "cli/bench_priv.h"
#include "cli/cli.h"
#include "client/client.h"
#include "loop/loop.h"

static const char *const formats[] = { "text", "json", NULL };

const struct setting bench_settings[] = {
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Server to measure (by default the one in $KUBECONFIG or ~/.kube/config)" },
	{ "router", SETTING_TEXT, "127.0.0.1:8080", "ADDR:PORT",
	  "Its router; if empty, no commands are run in sandboxes" },
	{ "pool", SETTING_INT, "120", "N", "Number of members in the warm pool", .min = 1,
	  .max = 100000 },
	{ "runs", SETTING_INT, "100", "N", "How many times each scenario is run", .min = 1,
	  .max = 1000000 },
	{ "burst", SETTING_INT, "100", "N", "Number of claims posted at the same time", .min = 1,
	  .max = 100000 },
	{ "image", SETTING_TEXT, "host", "NAME", "Image of the sandboxes" },
	{ "floor-dir", SETTING_TEXT, "/var/tmp", "DIR",
	  "Where to measure the floor of fdatasync; choose the disk of the data directory" },
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text or json (short: -o)",
	  .choices = formats },
	{ 0 },
};

void samples_add(struct samples *s, double us)
{
	s->us = xrealloc(s->us, (s->n + 1) * sizeof(*s->us));
	s->us[s->n++] = us;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void samples_sort(struct samples *s)
{
	if (s->n)
		qsort(s->us, s->n, sizeof(*s->us), by_value);
}

double samples_at(const struct samples *s, double quantile)
{
	size_t i = (size_t)(quantile * (double)s->n);

	return s->n ? s->us[MIN(i, s->n - 1)] : 0;
}

void samples_done(struct samples *s)
{
	free(s->us);
}

bool bench_until(struct bench *b, const bool *done, uint64_t timeout_ms)
{
	usec deadline = clock_mono() + (usec)timeout_ms * 1000;

	while (!*done && clock_mono() < deadline)
		(void)loop_turn(b->loop, 100); /* ended by the event that we wait for */
	return *done;
}

struct samples *bench_result(struct bench *b, const char *name, const char *what, const char *floor)
{
	struct samples *s = &b->results[b->n_results++];

	*s = (struct samples){ .name = name, .what = what, .floor = floor };
	return s;
}

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

static void report_result(const struct bench *b, struct json_doc *d, struct json *list,
			  const struct samples *s)
{
	struct json *o = json_obj(d);
	double floor = s->floor ? floor_us(b, s->floor) : 0;

	json_set_str(d, o, "name", s->name);
	json_set_str(d, o, "what", s->what);
	json_set_int(d, o, "runs", (int64_t)(s->n + s->n_failed));
	json_set_int(d, o, "failures", (int64_t)s->n_failed);
	json_set(d, o, "p50_us", json_new_real(d, samples_at(s, 0.5)));
	json_set(d, o, "p99_us", json_new_real(d, samples_at(s, 0.99)));
	json_set(d, o, "max_us", json_new_real(d, samples_at(s, 1)));
	if (s->wall_us > 0)
		json_set(d, o, "wall_us", json_new_real(d, s->wall_us));
	if (floor > 0) {
		json_set_str(d, o, "floor", s->floor);
		json_set(d, o, "floor_us", json_new_real(d, floor));
		json_set(d, o, "p50_to_floor", json_new_real(d, samples_at(s, 0.5) / floor));
		json_set(d, o, "p99_to_floor", json_new_real(d, samples_at(s, 0.99) / floor));
	}
	json_push(d, list, o);
}

struct json_doc *bench_report(const struct bench *b)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *list;
	struct utsname u;

	uname(&u);
	json_set_str(d, root, "version", CAY_VERSION);
	json_set_str(d, root, "host", u.nodename);
	json_set_str(d, root, "kernel", u.release);
	json_set_int(d, root, "cores", sysconf(_SC_NPROCESSORS_ONLN));
	json_set_int(d, root, "pool", b->pool_size);
	json_set_str(d, root, "image", settings_text(b->settings, "image"));
	if (b->floor)
		json_set(d, root, "floor", json_copy(d, json_root(b->floor)));
	list = json_set(d, root, "results", json_arr(d));
	for (size_t i = 0; i < b->n_results; i++)
		report_result(b, d, list, &b->results[i]);
	json_set_root(d, root);
	return d;
}

void bench_print(const struct json *r)
{
	autobuf out = { 0 };

	buf_printf(&out, "cay %s on %s, kernel %s, %lld cores; image %s, pool of %lld\n\n",
		   json_get_str(r, "version"), json_get_str(r, "host"), json_get_str(r, "kernel"),
		   (long long)json_get_int(r, "cores", 0), json_get_str(r, "image"),
		   (long long)json_get_int(r, "pool", 0));
	json_each(f, json_get(r, "floor"))
		buf_printf(&out, "  floor %-10s p50 %8.2f ms  p99 %8.2f ms\n", f.key,
			   json_real(json_get(f.val, "p50_us"), 0) / 1e3,
			   json_real(json_get(f.val, "p99_us"), 0) / 1e3);
	buf_add_char(&out, '\n');
	json_each(it, json_get(r, "results")) {
		double ratio = json_real(json_get(it.val, "p50_to_floor"), 0);

		buf_printf(
			&out,
			"  %-6s p50 %8.2f ms  p99 %8.2f ms  max %8.2f ms  runs %lld  failures %lld",
			json_get_str(it.val, "name"),
			json_real(json_get(it.val, "p50_us"), 0) / 1e3,
			json_real(json_get(it.val, "p99_us"), 0) / 1e3,
			json_real(json_get(it.val, "max_us"), 0) / 1e3,
			(long long)json_get_int(it.val, "runs", 0),
			(long long)json_get_int(it.val, "failures", 0));
		if (json_get(it.val, "wall_us"))
			buf_printf(&out, "  all in %.1f ms",
				   json_real(json_get(it.val, "wall_us"), 0) / 1e3);
		if (ratio > 0)
			buf_printf(&out, "  p50 = %.1f x, p99 = %.1f x %s", ratio,
				   json_real(json_get(it.val, "p99_to_floor"), 0),
				   json_get_str(it.val, "floor"));
		buf_printf(&out, "\n         %s\n", json_get_str(it.val, "what"));
	}
	cli_write(&out);
}

static bool any_failed(const struct bench *b)
{
	for (size_t i = 0; i < b->n_results; i++)
		if (b->results[i].n_failed || !b->results[i].n)
			return true;
	return false;
}

static void find_kinds(struct bench *b)
{
	b->registry = kinds_new();
	b->kinds.namespace = kinds_need(b->registry, "v1", "Namespace");
	b->kinds.sandbox = kinds_need(b->registry, API_SANDBOX, "Sandbox");
	b->kinds.template = kinds_need(b->registry, API_EXTENSIONS, "SandboxTemplate");
	b->kinds.claim = kinds_need(b->registry, API_EXTENSIONS, "SandboxClaim");
	b->kinds.pool = kinds_need(b->registry, API_EXTENSIONS, "SandboxWarmPool");
}

static struct err *run_all(struct bench *b, bool claims)
{
	char suffix[6];
	struct err *e = bench_floor(b->loop, settings_text(b->settings, "floor-dir"), &b->floor);

	if (e && claims) {
		(void)fprintf(stderr, "cay: bench: no floors, so no ratios: %s\n",
			      err_text(e)); /* the rest is still useful */
		err_free(e);
		e = NULL;
	}
	if (e || !claims)
		return e;
	find_kinds(b);
	e = cli_connect(b->loop, settings_text(b->settings, "kubeconfig"), b->registry, &b->client);
	if (e)
		return e;
	random_suffix(suffix, 5);
	b->ns = xasprintf("bench-%s", suffix);
	b->router = xstrdup(settings_text(b->settings, "router"));
	b->pool_size = (unsigned)settings_int(b->settings, "pool");
	e = bench_scenarios(b);
	for (size_t i = 0; i < b->n_results; i++)
		samples_sort(&b->results[i]);
	return e;
}

static void bench_done(struct bench *b)
{
	client_watch_free(b->claims);
	client_watch_free(b->sandboxes);
	client_watch_free(b->pools);
	client_free(b->client);
	kinds_free(b->registry);
	for (size_t i = 0; i < b->n_results; i++)
		samples_done(&b->results[i]);
	map_free(b->waits);
	json_doc_free(b->floor);
	loop_free(b->loop);
	free(b->ns);
	free(b->router);
}

int bench_run(const struct command *c, const struct settings *s)
{
	struct bench b = { .settings = s };
	const char *what = str_or(settings_arg(s, 0), "claim");
	autoptr(json_doc) report = NULL;
	struct err *e;
	int code;

	if (!str_eq(what, "claim") && !str_eq(what, "floor"))
		return cli_fail(err_new(ERR_INVALID, "usage: cay bench %s", c->usage));
	e = loop_new(&b.loop);
	if (!e)
		e = run_all(&b, str_eq(what, "claim"));
	report = bench_report(&b);
	if (!e && str_eq(settings_text(s, "output"), "json"))
		cli_print(json_root(report), "json");
	else if (!e)
		bench_print(json_root(report));
	code = e ? cli_fail(err_wrap(e, "bench")) : any_failed(&b) ? EXIT_FAILED : EXIT_OK;
	bench_done(&b);
	return code;
}
