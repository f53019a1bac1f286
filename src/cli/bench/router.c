/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests through the router, beside nginx and HAProxy in front of the same backend, one worker
 * each (bench/proxies). The router is a process of its own there (bench/gate), so that what is
 * measured is the router and not what a server does beside it.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

static void add_cell(struct bench *b, const char *program, const char *conns,
		     const struct json *cell, const struct json *ours)
{
	autofree char *name = xasprintf("router %s connections=%s", program, conns);
	bool direct = str_eq(program, "direct");
	struct row *row = bench_row(b, "router", name, NULL,
				    direct ? "GET of 64 bytes from the backend itself"
					   : "GET of 64 bytes through one worker to the backend");

	row_peer(row, json_get(cell, "us"), NULL);
	row_figure(row, "requests_per_s", json_real(json_get(cell, "per_s"), 0));
	row_figure(row, "cpu_us", json_real(json_get(cell, "cpu_us"), 0));
	if (!ours || ours == cell || direct)
		return;
	/* Of both, more than 1 is good for us. */
	row_figure(row, "cay_to_this_per_s",
		   json_real(json_get(ours, "per_s"), 0) / json_real(json_get(cell, "per_s"), 1));
	row_figure(row, "this_to_cay_cpu",
		   json_real(json_get(cell, "cpu_us"), 0) / json_real(json_get(ours, "cpu_us"), 1));
}

struct err *scenario_router(struct bench *b)
{
	static const struct {
		const char *name, *ours;
	} programs[] = {
		{ "cay", "cay" },
		{ "nginx", "cay" },
		{ "haproxy", "cay" },
		{ "direct", "cay" },
		{ "cay tls", "cay tls" },
		{ "nginx tls", "cay tls" },
		{ "haproxy tls", "cay tls" },
	};
	autoptr(json_doc) all = NULL;
	struct err *e = program_measure(b, "proxies", (unsigned)settings_int(b->settings, "runs"),
					NULL, &all);

	if (e)
		return e;
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		const char *name = programs[i].name;
		const struct json *found = json_get(json_root(all), name);
		const char *missing = json_get_str(found, "missing");

		if (missing)
			(void)fprintf(stderr, "cay: bench: router: %s is left out: %s\n", name,
				      missing);
		json_each(it, missing ? NULL : found)
			add_cell(b, name, it.key, it.val,
				 json_get(json_get(json_root(all), programs[i].ours), it.key));
	}
	return NULL;
}
