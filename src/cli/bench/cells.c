/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warm claim in four cells: with and without the refill that it causes, with and without its
 * deletion. Without refill the pool is large enough for all claims, and they come one after the
 * other; with refill they come at a rate, whether or not earlier ones are Ready.
 */
#include "base/mem.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

static struct err *cell(struct bench *b, bool refill, bool deletes)
{
	size_t n = (size_t)settings_int(b->settings, "runs");
	double rate = (double)settings_int(b->settings, "rate");
	autofree char *pool = xasprintf("cell-%c%c", refill ? 'r' : 'n', deletes ? 'd' : 'k');
	unsigned size = refill ? (unsigned)settings_int(b->settings, "pool") : (unsigned)n + 10;
	struct load load = { .prefix = pool + 5,
			     .pool = pool,
			     .n = n,
			     .clients = refill ? 16 : 1,
			     .rate = refill ? rate : 0,
			     .deletes = deletes };
	autofree char *name = xasprintf("cell refill=%s delete=%s", refill ? "on" : "off",
					deletes ? "on" : "off");
	struct row *row =
		bench_row(b, "cells", name, "tls+fdatasync",
			  refill ? "warm claim at a rate, POST to Ready event"
				 : "warm claim, one after the other, POST to Ready event");
	struct usage was = { 0 }, now = { 0 };
	struct err *e;

	e = world_pool(b, pool, size);
	if (!e && !refill)
		e = world_refill(b, pool, false);
	if (!e)
		e = bench_pause(b, 500); /* the pool's own writes are over */
	if (e)
		return e;
	bench_say(b, "%s: %zu claims", row->name, n);
	host_usage(b, &was);
	e = load_run(b, &load, row);
	host_usage(b, &now);
	row_figure(row, "pool", size);
	row_figure(row, "rate", refill ? rate : 0);
	row_figure(row, "cold_claims", (double)load.n_cold);
	row_usage(row, &was, &now, n);
	usage_done(&was);
	usage_done(&now);
	free(load.sandbox);
	if (!e && !refill)
		e = bench_pause(b, 200); /* the pool's status follows its members */
	if (!e && !refill)
		e = world_refilled(b, pool, row, (int64_t)size - (int64_t)n);
	return e ? e : world_empty(b);
}

struct err *scenario_cells(struct bench *b)
{
	struct err *e = NULL;

	for (unsigned i = 0; !e && i < 4; i++)
		e = cell(b, i & 2, i & 1);
	return e;
}
