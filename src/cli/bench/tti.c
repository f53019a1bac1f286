/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time to interactive, measured and scored the way the public boards of sandbox providers do it:
 * from the request for a sandbox to the output of `echo benchmark` in it, a hundred times in turn,
 * a hundred that begin 200 ms apart, and a hundred at once.
 *
 *   score = 100 × Σ weight × max(0, 1 - time / 10 s) × share that succeeded
 *
 * with weights of 60 % for the median, 25 % for p95 and 15 % for p99.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	TTI_RUNS = 100,
	STAGGERED_PER_S = 5,
};
#define CEILING_US 10e6

static const struct {
	double quantile, weight;
} parts[] = { { 0.5, 0.60 }, { 0.95, 0.25 }, { 0.99, 0.15 } };

static double score(struct row *row)
{
	size_t n = row->us.n + row->n_failed;
	double sum = 0;

	if (!row->us.n)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		double us;

		if (!samples_quantile(&row->us, parts[i].quantile, &us))
			us = samples_max(&row->us); /* too few runs for it to exist */
		sum += parts[i].weight * MAX(0.0, 1 - us / CEILING_US);
	}
	return 100 * sum * (double)row->us.n / (double)n;
}

static struct err *mode(struct bench *b, const char *name, const char *what, struct load *load)
{
	struct row *row = bench_row(b, "tti", name, "tls+fdatasync+exec", what);
	struct err *e;

	load->prefix = name;
	load->pool = "tti";
	load->deletes = true;
	load->command = "echo benchmark";
	e = load_run(b, load, row);
	row_figure(row, "cold_claims", (double)load->n_cold);
	row_figure(row, "score", score(row));
	free(take(load->sandbox));
	return e;
}

struct err *scenario_tti(struct bench *b)
{
	size_t n = (size_t)MIN(settings_int(b->settings, "runs"), (int64_t)TTI_RUNS);
	unsigned pool = (unsigned)settings_int(b->settings, "pool");
	struct load sequential = { .n = n, .clients = 1 };
	struct load staggered = { .n = n, .clients = 1, .rate = STAGGERED_PER_S };
	struct load burst = { .n = n, .clients = (unsigned)n };
	struct err *e;

	if (!*b->router.addr)
		return err_new(ERR_INVALID, "--router is empty: it leads to the first command");
	e = world_pool(b, "tti", pool);
	if (!e)
		e = mode(b, "sequential", "one sandbox after the other", &sequential);
	if (!e)
		e = world_pool_full(b, "tti", pool);
	if (!e)
		e = mode(b, "staggered", "sandboxes that begin 200 ms apart", &staggered);
	if (!e)
		e = world_pool_full(b, "tti", pool);
	if (!e)
		e = mode(b, "burst", "all sandboxes at once, on connections that are open", &burst);
	return e ? e : world_empty(b);
}
