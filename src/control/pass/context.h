/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "control/control.h"

struct event_queue;
struct index;
struct key;
struct kind;
struct kinds;
struct links;
struct queue;
struct tally;

/*
 * What the passes of every controller are given: the client, what it calls the kinds, the options,
 * the queues, the clock and the index. Everything in memory can be rebuilt from the watches.
 */

/* Looked up once, at the start. */
struct context_kinds {
	const struct kind *sandbox, *template, *pool, *claim;
	const struct kind *pod, *service, *pvc, *policy, *event;
	const struct kind *agent, *session, *attachment, *approval, *team_policy, *budget, *ledger;
};

struct context {
	struct client *client;
	struct context_kinds kinds;
	struct control_options opt; /* defaults filled in */
	struct queue *queue;
	struct queue *chores; /* what has time: the keys of cluster/ do not hold up claims */
	struct index *index;
	struct links *links; /* of the kinds of cay.dev */
	struct tally *tally;
	struct list running;       /* writes under way */
	const struct key *telling; /* within a write of its own that leaves it nothing to do */
	struct event_queue *events;
	usec skew; /* tests step the clock */
};

struct context_kinds context_kinds(const struct kinds *registry);
usec context_now(const struct context *c);
void context_step(struct context *c, uint64_t ms); /* for tests: as if ms had passed */
void context_hold_time(struct context *c);         /* for tests: only that lets it pass */
