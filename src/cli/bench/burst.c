/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many claims at the same time, on connections that are open and on new ones, while somebody else
 * runs commands. A burst is repeated, so that there is a median of how long all of it took.
 */
#include "base/mem.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	SPARE = 10,           /* members beyond the burst */
	ALONE_MS = 500,       /* how long the commands run before the first burst, at least */
	ALONE_MAX_MS = 30000, /* and at most, until one has ended */
	PER_ROUND = 100,
};

struct burst {
	unsigned n;
	bool fresh; /* on new connections */
	const char *pool;
	struct row *row;
	struct samples walls, alone, during;
	size_t n_cold;
	double bench_us, loop_us, server_us; /* CPU time of all rounds */
	bool server_known;
};

/* What a burst costs on both ends; on new connections most of it are handshakes. */
static struct err *measured(struct bench *b, struct burst *s, struct load *load)
{
	struct usage was = { 0 }, now = { 0 };
	struct err *e;

	host_usage(b, &was);
	s->bench_us -= load_own_cpu_us();
	e = load_run(b, load, s->row);
	s->bench_us += load_own_cpu_us();
	host_usage(b, &now);
	s->loop_us += now.loop_us - was.loop_us;
	s->server_us += now.cpu_us - was.cpu_us;
	s->server_known = was.known && now.known;
	usage_done(&was);
	usage_done(&now);
	return e;
}

static struct err *round_of(struct bench *b, struct burst *s, struct beside *beside, size_t i)
{
	autofree char *prefix = xasprintf("%s-%zu", s->pool, i);
	struct load load = { .prefix = prefix,
			     .pool = s->pool,
			     .n = s->n,
			     .clients = s->n,
			     .new_connections = s->fresh };
	struct err *e;

	load.during = &s->during;
	load.beside = beside;
	e = measured(b, s, &load);
	free(load.sandbox);
	s->n_cold += load.n_cold;
	if (e)
		return e;
	samples_add(&s->walls, load.wall_us);
	e = world_unclaim(b, prefix, s->n);
	return e ? e : world_pool_full(b, s->pool, s->n + SPARE);
}

/* Of few: one alone is its own. */
static double median(struct samples *s)
{
	double v = 0;

	return samples_quantile(s, 0.5, &v) ? v : samples_max(s);
}

static void report(struct bench *b, struct burst *s, size_t n_failed)
{
	struct row *row = s->row;
	double alone, during, n = (double)MAX(s->walls.n * s->n, (size_t)1);

	row_figure(row, "rounds", (double)s->walls.n);
	row_figure(row, "wall_us", median(&s->walls));
	row_figure(row, "wall_max_us", samples_max(&s->walls));
	row_figure(row, "pool", s->n + SPARE);
	row_figure(row, "cold_claims", (double)s->n_cold);
	row_figure(row, "bench_cpu_us", s->bench_us / n);
	if (s->server_known) {
		row_figure(row, "loop_cpu_us", s->loop_us / n);
		row_figure(row, "server_cpu_us", s->server_us / n);
	}
	alone = median(&s->alone);
	during = median(&s->during);
	row_figure(row, *b->router.addr ? "exec_alone_us" : "get_alone_us", alone);
	row_figure(row, *b->router.addr ? "exec_during_us" : "get_during_us", during);
	row_figure(row, "beside_ratio", alone > 0 ? during / alone : 0);
	row_figure(row, "beside_n", (double)s->during.n);
	row->n_failed += n_failed;
}

/* How long a command takes while there is no burst. */
static struct err *alone(struct bench *b, struct burst *s, struct beside *beside)
{
	usec end = clock_mono() + (usec)ALONE_MAX_MS * 1000;
	struct err *e;

	beside_into(beside, &s->alone);
	e = bench_pause(b, ALONE_MS);
	while (!e && !s->alone.n && clock_mono() < end) {
		e = beside_error(beside);
		if (!e)
			e = bench_pause(b, 10);
	}
	beside_into(beside, NULL);
	return e;
}

static struct err *with_beside(struct bench *b, struct burst *s, const char *sandbox)
{
	size_t rounds = MAX((size_t)settings_int(b->settings, "runs") / PER_ROUND, (size_t)1);
	struct beside *beside = beside_new(b, sandbox);
	struct err *e = bench_pause(b, 100);

	if (!e)
		e = alone(b, s, beside);
	for (size_t i = 0; !e && i < rounds; i++)
		e = round_of(b, s, beside, i);
	report(b, s, beside_free(beside));
	return e;
}

static struct err *burst(struct bench *b, unsigned n, bool fresh)
{
	autofree char *pool = xasprintf("burst%u%s", n, fresh ? "n" : "o");
	autofree char *first = xasprintf("%s-beside", pool);
	autofree char *name = xasprintf("burst %u %s", n, fresh ? "new" : "open");
	struct burst s = { .n = n, .fresh = fresh, .pool = pool };
	struct load load = { .prefix = first, .pool = pool, .n = 1, .clients = 1 };
	struct row quiet = { .name = name };
	struct err *e;

	s.row = bench_row(
		b, "burst", name, NULL,
		fresh ? "claims at the same time, each on a new connection with a client "
			"certificate; POST to Ready event"
		      : "claims at the same time on open connections; POST to Ready event");
	e = world_pool(b, pool, n + SPARE);
	if (!e)
		e = load_run(b, &load, &quiet);
	if (!e && !load.sandbox)
		e = err_new(ERR_UNAVAILABLE, "there is no sandbox to run commands in");
	if (!e)
		e = world_pool_full(b, pool, n + SPARE);
	if (!e)
		e = with_beside(b, &s, load.sandbox);
	samples_done(&s.walls);
	samples_done(&s.alone);
	samples_done(&s.during);
	samples_done(&quiet.us);
	free(load.sandbox);
	return e ? e : world_empty(b);
}

struct err *scenario_burst(struct bench *b)
{
	unsigned sizes[LIST_MAX];
	size_t n = 0;
	struct err *e = bench_list(b, "bursts", sizes, LIST_MAX, &n);

	for (size_t i = 0; !e && i < 2 * n; i++)
		e = burst(b, sizes[i / 2], i % 2);
	return e;
}
