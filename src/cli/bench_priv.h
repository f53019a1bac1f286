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
 * A bench run: one namespace of its own on the server that the kubeconfig names, scenarios one
 * after the other, and a report that says under which conditions the figures were taken. Times are
 * microseconds.
 */
struct samples {
	const char *name;  /* "claim" */
	const char *what;  /* "POST of a claim to its Ready event, one client" */
	const char *floor; /* which floors to divide by: "tls+fdatasync", "launch", "exec"; NULL:
			      none */
	double *us;
	size_t n, n_failed;
	double wall_us; /* of the whole scenario; 0: not of interest */
};
void samples_add(struct samples *s, double us);
double samples_at(const struct samples *s, double quantile); /* sorted first by samples_sort() */
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

/* Turns the loop until *done or the time is up; false: it is. */
bool bench_until(struct bench *b, const bool *done, uint64_t timeout_ms);
struct samples *bench_result(struct bench *b, const char *name, const char *what,
			     const char *floor);

must_use struct err *bench_scenarios(struct bench *b);
/* Runs the floor program that is installed beside us; *ret is its JSON. */
must_use struct err *bench_floor(struct loop *l, const char *dir, struct json_doc **ret);
struct json_doc *bench_report(const struct bench *b);
void bench_print(const struct json *report);
