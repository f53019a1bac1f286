/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/client.h"
#include "control/control.h"
#include "control/pass/item.h"
#include "control/pass/pass.h"

struct cluster;
struct index;
struct notes;

/*
 * What the controllers share. Everything in memory can be rebuilt from the watches. What notes and
 * rosters hold besides (when a claim was first seen, who is waiting) may be lost in a crash without
 * harm.
 */
enum {
	WATCH_TEMPLATES,
	WATCH_POOLS,
	WATCH_CLAIMS,
	WATCH_PODS,
	WATCH_SERVICES,
	WATCH_PVCS,
	WATCH_POLICIES,
	WATCH_SANDBOXES,
	WATCH_MAX_,
};

/* Looked up once, at the start. */
struct control_kinds {
	const struct kind *sandbox, *template, *pool, *claim;
	const struct kind *pod, *service, *pvc, *policy, *event;
};

struct control {
	struct loop *loop;
	struct client *client;
	struct control_kinds kinds;
	struct control_options opt; /* defaults filled in */
	char *cluster_domain;
	char **label_domains; /* NULL-terminated */
	struct queue *queue;
	struct queue *chores; /* the keys of cluster/, which must not hold up claims */
	struct index *index;
	struct notes *notes;
	struct client_watch *watches[WATCH_MAX_];
	unsigned n_synced;
	struct cluster *cluster; /* NULL: a kube-controller-manager does this */
	struct list running;     /* writes under way */
	usec skew;               /* tests step the clock */
};

usec control_now(const struct control *c);
void control_step(struct control *c, uint64_t ms); /* for tests: as if ms had passed */
