/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "json/json.h"

struct client;
struct kind;
struct kinds;
struct loop;
struct map;
struct settings;

/*
 * A bench run: a namespace of its own on the server that the kubeconfig names, scenarios one after
 * the other, and a report that states the conditions under which the figures were measured. Times
 * are in microseconds.
 */
struct samples {
	const char *name;  /* "claim" */
	const char *what;  /* "POST of a claim to its Ready event, one client" */
	const char *floor; /* names of the floors to divide by, like "tls+fdatasync"; or NULL */
	double *us;
	size_t n, n_failed;
	double wall_us; /* of the whole scenario; 0: not of interest */
};
void samples_add(struct samples *s, double us);
double samples_at(const struct samples *s, double quantile); /* call samples_sort() first */
void samples_sort(struct samples *s);
void samples_done(struct samples *s);

struct bench {
	const struct settings *settings;
	struct loop *loop;
	struct kinds *registry;
	struct {
		const struct kind *namespace, *sandbox, *template, *claim, *pool;
	} kinds;
	struct client *client;
	char *ns;
	char *router;
	unsigned pool_size;
	struct map *waits; /* object name → struct wait, for those that are not Ready yet */
	struct client_watch *claims, *sandboxes, *pools;
	int64_t pool_ready;
	struct samples results[8];
	size_t n_results;
	struct json_doc *floor; /* NULL: not measured */
};

/* Runs the loop until *done is set or the time is up; false in the latter case. */
bool bench_until(struct bench *b, const bool *done, uint64_t timeout_ms);
struct samples *bench_result(struct bench *b, const char *name, const char *what,
			     const char *floor);

must_use struct err *bench_scenarios(struct bench *b);
/* Runs the floor program that is installed next to us; *ret is its JSON. */
must_use struct err *bench_floor(struct loop *l, const char *dir, struct json_doc **ret);
struct json_doc *bench_report(const struct bench *b);
void bench_print(const struct json *report);
