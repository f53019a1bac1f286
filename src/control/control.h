/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct access;
struct buf;
struct client;
struct loop;
struct tracer;

/*
 * The controllers for Sandbox, SandboxTemplate, SandboxWarmPool and SandboxClaim, and for the kinds
 * of cay.dev, which use those. They reach objects only through client/ and cannot tell a store in
 * this process from a kube-apiserver.
 */
struct control;

struct control_options {
	const char *cluster_domain; /* NULL: cluster.local */
	unsigned pool_max_batch;    /* members made or removed at a time; 0: 300 */
	uint64_t pool_grace_ms;     /* for a member to become Ready; 0: 5 min */
	uint64_t pool_recheck_ms;   /* for a pool that makes no progress; 0: 1 min */
	uint64_t pool_rest_ms;      /* how long a pool waits after a claim before it refills */
	uint64_t turn_ms; /* that passes may take of a turn of the loop; 0: each queue's own */
	uint64_t claim_grace_ms; /* how long a claim waits for members without an address; 0: 2 s */
	bool no_sandbox_events, no_claim_events, no_observability_annotations;
	/* Also collect garbage, end namespaces, expire Events and make EndpointSlices: where the
	 * API server has no kube-controller-manager. */
	bool cluster_services;
	const char *root_ca; /* with that: the CA of the API server's certificate, PEM, which each
				namespace gets as a ConfigMap; outlives this. NULL: none */
	bool sandbox_slices; /* with that: EndpointSlices for the Services of Sandboxes too */
	const char *const *label_domains; /* whose labels claims may set; NULL: sandbox.users.io */
	/* Launches should yield to claims from now on, or no longer (pace/pace.h). NULL: nobody
	 * listens, as on a cluster. */
	void (*pace_changed)(void *arg, bool yield);
	void *pace_arg;
	/* How Pods are used, and how they are frozen; NULL: nobody knows, as on a cluster. */
	struct access *access;
	/* Whether a request into the Sandbox waits for its answer; NULL: nobody knows. */
	bool (*awaited)(void *arg, const char *ns, const char *sandbox);
	void *awaited_arg;
	/* Also control the kinds of cay.dev: they are built in, or the cluster has their CRDs. */
	bool agents;
	struct tracer *tracer; /* spans for passes; NULL: none. It outlives the controllers */
};

must_use struct err *control_start(struct loop *l, struct client *c,
				   const struct control_options *o, struct control **ret);
bool control_synced(const struct control *c);      /* every watch has delivered what existed */
void control_step(struct control *c, uint64_t ms); /* for tests: as if ms had passed */
void control_hold_time(struct control *c);         /* for tests: only that lets it pass */
/* Somebody needs a Sandbox that is suspended. True: it is being started. cause is static. */
bool control_wake(struct control *c, const char *ns, const char *sandbox, const char *cause);
void control_metrics(const struct control *c, struct buf *b); /* lines of /metrics */
/*
 * For who shows how pools and claims are doing. What is told is borrowed, until fn returns false or
 * the loop turns. A pool is told in no order, claims that became Ready the newest first: all of the
 * last minute unless they are very many, and the last 50 in any case.
 */
struct control_pool {
	const char *key; /* "namespace/name" */
	int64_t desired;
	size_t members, ready, waiting;
	uint64_t claimed, dry_times; /* since the start */
	bool dry;
	usec dry_since; /* monotonic; 0: it is not dry */
	usec dry_time;  /* in all */
};
struct control_claim {
	const char *ns, *name;
	usec took;
	usec at;   /* wall clock */
	usec mono; /* the same, by the monotonic clock */
	bool warm;
};
void control_each_pool(const struct control *c, bool (*fn)(void *arg, const struct control_pool *p),
		       void *arg);
void control_each_claim(const struct control *c,
			bool (*fn)(void *arg, const struct control_claim *l), void *arg);
uint64_t control_changes(const struct control *c); /* another one: something of it has changed */
size_t control_running(const struct control *c);   /* Sandboxes that are Ready */
/* Sends the Events that wait; done() is called once they have been answered, perhaps before this
 * returns. A clean stop begins with it where writes take their time. */
void control_finish(struct control *c, void (*done)(void *arg), void *arg);
void control_free(struct control *c);
AUTOPTR(control)
