/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that no pool has made ahead, beside the plainest launch that the machine can do (the
 * floor) and beside other programs that start one behind the same walls.
 */
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	PEER_RUNS_MAX = 500,
	CLIENTS = 8,
};

static struct err *cold_of(struct bench *b, unsigned clients, struct row **ret)
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

	*ret = row;
	return load_measure(b, &load, row, "cycles_per_s");
}

static void peer(struct bench *b, const struct json *all, const char *name, struct row *cold)
{
	const struct json *found = json_get(all, name);
	const char *missing = json_get_str(found, "missing");
	struct row *row;

	if (missing || !json_get(found, "us")) {
		(void)fprintf(stderr, "cay: bench: %s is left out: %s\n", name,
			      str_or(missing, "it was not measured"));
		return;
	}
	row = bench_row(
		b, "cold", name, "launch",
		"the program starts and ends behind the same walls; overlay mounted for it");
	row_peer(row, json_get(found, "us"), cold);
}

/* What is not there is said and left out; the rest of the figures need none of it. */
static void peers(struct bench *b, struct row *cold)
{
	autoptr(json_doc) all = NULL;
	unsigned n = (unsigned)MIN(settings_int(b->settings, "runs"), (int64_t)PEER_RUNS_MAX);
	static const char *const which[] = { "start", "bwrap", "crun", NULL };
	autoptr(err) e = program_measure(b, "peers", n, which, &all);

	if (e) {
		(void)fprintf(stderr, "cay: bench: no other programs beside ours: %s\n",
			      err_text(e));
		return;
	}
	peer(b, json_root(all), "bwrap", cold);
	peer(b, json_root(all), "crun", cold);
}

struct err *scenario_cold(struct bench *b)
{
	struct row *one = NULL, *several = NULL;
	struct err *e = cold_of(b, 1, &one);

	if (!e)
		e = world_empty(b);
	if (!e)
		peers(b, one);
	if (!e)
		e = cold_of(b, CLIENTS, &several);
	return e ? e : world_empty(b);
}
