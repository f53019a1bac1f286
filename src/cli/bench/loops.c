/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throughput: clients that claim and delete as fast as the server lets them, with real sandboxes
 * that must be replaced; and claims alone, from a pool that is not refilled.
 */
#include "base/mem.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	ROUNDS =
		4, /* times --runs: the members that are ready at the beginning soon count little */
	SUSTAINED_CLIENTS = 64,
};

static struct err *loop_of(struct bench *b, unsigned clients)
{
	unsigned size = (unsigned)settings_int(b->settings, "pool");
	autofree char *prefix = xasprintf("loop%u", clients);
	autofree char *name = xasprintf("loop clients=%u", clients);
	struct load load = { .prefix = prefix,
			     .pool = "loop",
			     .n = MAX((size_t)settings_int(b->settings, "runs") * ROUNDS,
				      (size_t)clients),
			     .clients = clients,
			     .deletes = true };
	struct row *row =
		bench_row(b, "loops", name, "tls+fdatasync",
			  "each client claims, waits for Ready, deletes, and begins again");
	struct err *e = world_pool_full(b, "loop", size);

	if (!e)
		e = load_measure(b, &load, row, "cycles_per_s");
	row_figure(row, "pool", size);
	return e;
}

struct err *scenario_loops(struct bench *b)
{
	unsigned clients[LIST_MAX];
	size_t n = 0;
	struct err *e = bench_list(b, "clients", clients, LIST_MAX, &n);

	if (!e)
		e = world_pool(b, "loop", (unsigned)settings_int(b->settings, "pool"));
	for (size_t i = 0; !e && i < n; i++)
		e = loop_of(b, clients[i]);
	return e ? e : world_empty(b);
}

struct err *scenario_sustained(struct bench *b)
{
	unsigned members = (unsigned)settings_int(b->settings, "members");
	struct load load = { .prefix = "sustained",
			     .pool = "sustained",
			     .n = members,
			     .clients = MIN((unsigned)SUSTAINED_CLIENTS, members) };
	struct row *row =
		bench_row(b, "sustained", "sustained", "tls+fdatasync",
			  "claims as fast as they are answered; the pool is not refilled");
	struct err *e = world_pool(b, "sustained", members);

	if (!e)
		e = world_refill(b, "sustained", false);
	if (!e)
		e = bench_pause(b, 500); /* the pool's own writes are over */
	if (!e)
		e = load_measure(b, &load, row, "claims_per_s");
	row_figure(row, "pool", members);
	if (!e)
		e = bench_pause(b, 200); /* the pool's status follows its members */
	if (!e)
		e = world_refilled(b, "sustained", row, 0);
	return e ? e : world_empty(b);
}
