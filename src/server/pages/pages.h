/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct call;
struct call_counts;
struct kinds;
struct map;
struct store;

/* What /metrics reports besides the store's own numbers. */
struct pages_counts {
	uint64_t requests, failures, limited, writes, watches_started, events_encoded;
	size_t watches, answer_bytes, under_way;
};

enum {
	PAGES_METRICS_MAX = 4, /* roles beside the server */
};

/* A role that has lines of its own in /metrics (base/metrics.h). */
struct pages_metrics {
	void (*write)(void *arg, struct buf *b);
	void *arg;
};

/* Pages of the server itself: everything that is not a resource. */
struct pages {
	const struct kinds *kinds;
	const struct store *store;
	const char *address; /* where the server listens; NULL: nowhere yet */
	const char *issuer;  /* of tokens */
	char *jwks;          /* what checks them, as JSON; owned */
	bool ready;
	void (*count)(void *arg, struct pages_counts *ret);
	void *arg;
	const struct call_counts *calls;
	struct pages_metrics metrics[PAGES_METRICS_MAX];
	size_t n_metrics;
	struct map *documents; /* path → struct bytes: OpenAPI, made once for each … */
	uint64_t documents_of; /* … kinds_version() */
};
void pages_done(struct pages *ps);
void pages_show(struct pages *ps, struct call *c); /* answers the call */
