/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/view_pod.h"
#include "base/clock.h"

struct container;
struct pods;
struct probe;

/* How a try is made; tests supply their own. */
struct probe_ops {
	/* Begins a try, which ends in probe_tried(), possibly before this returns. */
	void *(*start)(struct probe *p);
	/* Drops the try: probe_tried() must not be called for it. Also called after it has ended,
	 * to free it. */
	void (*stop)(void *try_);
};
extern const struct probe_ops probe_real_tries; /* probe_try.c */

/* What many tries amount to. */
struct probe_score {
	unsigned n_ok, n_bad; /* in a row */
	bool ok;              /* the verdict */
	bool dead;            /* it failed as often as it may */
};
/* True: the verdict changed. */
bool probe_count(struct probe_score *s, const struct pod_probe_view *rule, bool good);

enum probe_kind {
	PROBE_STARTUP,
	PROBE_READINESS,
	PROBE_LIVENESS,
	PROBE_POST_START, /* hooks are tried once */
	PROBE_PRE_STOP,
	PROBE_KIND_MAX_,
};

struct probe *probe_new(struct container *c, enum probe_kind kind); /* NULL: there is none */
void probe_free(struct probe *p);
void probe_assume_ok(struct probe *p); /* until a try says otherwise; NULL is fine */
bool probe_ok(const struct probe *p);  /* the last verdict; NULL: true */
/* Why the last verdict is bad; NULL: it is not, or there was none yet. */
const char *probe_trouble(const struct probe *p);
bool probe_dead(const struct probe *p); /* NULL: false */
void probe_tried(struct probe *p, bool good, const char *why);
/* Those of a container wait while its Pod is frozen; from now on they go on. */
void probes_resume(struct container *c);
struct container *probe_container(const struct probe *p);
bool probe_is_hook(const struct probe *p);
/* The rule, good until the loop turns. */
const struct pod_probe_view *probe_rule(const struct probe *p);

struct queue *probes_queue_new(struct pods *ps);
