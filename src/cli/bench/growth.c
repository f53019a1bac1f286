/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What many idle sandboxes cost: memory of the server and of the machine for each, and whether a
 * claim becomes slower with their number. This runs first, on a server that has grown for nothing
 * else yet.
 */
#include "base/mem.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	CLAIMS = 100,
	SETTLE_MS = 6000, /* the server returns the memory of a peak a few seconds after it */
	FEW = 50,         /* below this there is nothing to settle */
};

static void put_memory(struct row *row, const struct usage *empty, const struct usage *full,
		       unsigned size)
{
	if (full->known) {
		row_figure(row, "server_rss_mib", full->rss / (1 << 20));
		row_figure(row, "server_kib_each", (full->rss - empty->rss) / size / 1024);
	}
	row_figure(row, "machine_kib_each",
		   (empty->mem_available - full->mem_available) / size / 1024);
}

static struct err *at_size(struct bench *b, unsigned size, const struct usage *empty)
{
	autofree char *name = xasprintf("growth %u", size);
	autofree char *prefix = xasprintf("grown%u", size);
	struct load load = { .prefix = prefix,
			     .pool = "growth",
			     .n = MIN((unsigned)CLAIMS, MAX(size / 2, 1u)),
			     .clients = 1 };
	struct row *row =
		bench_row(b, "growth", name, "tls+fdatasync",
			  "warm claim beside so many idle sandboxes; the pool is not refilled");
	struct usage full = { 0 }, after = { 0 };
	struct err *e = world_scale(b, "growth", size);

	if (!e)
		e = world_pool_full(b, "growth", size);
	if (!e)
		e = world_refill(b, "growth", false);
	if (!e)
		e = bench_pause(b, size < FEW ? 100 : SETTLE_MS);
	if (e)
		return e;
	host_usage(b, &full);
	put_memory(row, empty, &full, size);
	e = load_run(b, &load, row);
	host_usage(b, &after);
	row_usage(row, &full, &after, load.n);
	row_figure(row, "cold_claims", (double)load.n_cold);
	usage_done(&full);
	usage_done(&after);
	free(load.sandbox);
	if (!e)
		e = world_unclaim(b, prefix, load.n);
	return e ? e : world_refill(b, "growth", true);
}

struct err *scenario_growth(struct bench *b)
{
	struct usage empty = { 0 };
	unsigned sizes[LIST_MAX];
	size_t n = 0;
	struct err *e = bench_list(b, "sizes", sizes, LIST_MAX, &n);

	if (!e)
		e = world_pool(b, "growth", 0);
	host_usage(b, &empty);
	for (size_t i = 0; !e && i < n; i++)
		e = at_size(b, sizes[i], &empty);
	usage_done(&empty);
	return e ? e : world_empty(b);
}
