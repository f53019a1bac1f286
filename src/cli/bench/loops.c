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

/* Runs the load and adds what it cost; the pool is there. */
static struct err *measure(struct bench *b, struct load *load, struct row *row, const char *rate)
{
	struct usage was = { 0 }, now = { 0 };
	struct err *e;

	host_usage(b, &was);
	e = load_run(b, load, row);
	host_usage(b, &now);
	row_figure(row, "clients", load->clients);
	row_figure(row, "wall_us", load->wall_us);
	if (load->wall_us > 0)
		row_figure(row, rate, (double)row->us.n / load->wall_us * 1e6);
	if (load->pool)
		row_figure(row, "cold_claims", (double)load->n_cold);
	row_usage(row, &was, &now, load->n);
	usage_done(&was);
	usage_done(&now);
	free(load->sandbox);
	return e;
}

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
		e = measure(b, &load, row, "cycles_per_s");
	row_figure(row, "pool", size);
	return e;
}

struct err *scenario_loops(struct bench *b)
{
	unsigned clients[8];
	size_t n = 0;
	struct err *e = bench_list(b, "clients", clients, ARRAY_LEN(clients), &n);

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
		e = measure(b, &load, row, "claims_per_s");
	row_figure(row, "pool", members);
	return e ? e : world_empty(b);
}

static struct err *cold_of(struct bench *b, unsigned clients)
{
	autofree char *prefix = xasprintf("cold%u", clients);
	autofree char *name = xasprintf("cold clients=%u", clients);
	struct load load = { .prefix = prefix,
			     .n = MAX((size_t)settings_int(b->settings, "runs"), (size_t)clients),
			     .clients = clients,
			     .deletes = true };
	struct row *row = bench_row(
		b, "cold", name, clients == 1 ? "launch" : NULL,
		"Sandbox without a pool, POST to Ready event; deleted before the client's next");

	return measure(b, &load, row, "cycles_per_s");
}

struct err *scenario_cold(struct bench *b)
{
	struct err *e = cold_of(b, 1);

	if (!e)
		e = world_empty(b);
	if (!e)
		e = cold_of(b, 8);
	return e ? e : world_empty(b);
}
