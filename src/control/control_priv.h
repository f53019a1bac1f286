/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/pass/context.h"
#include "control/pass/item.h"

struct client_watch;
struct idle;
struct loop;
struct pace;

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

/* What notes and rosters hold besides what the watches tell (when a claim was first seen, who is
 * waiting) may be lost in a crash without harm. */
struct control {
	struct context ctx;
	struct loop *loop;
	char *cluster_domain;
	char **label_domains; /* NULL-terminated */
	struct notes *notes;
	struct pace *pace;
	struct idle *idle;
	struct cluster *cluster; /* NULL: somebody else's business */
	struct client_watch *watches[WATCH_MAX_];
	unsigned n_synced;
	uint64_t n_passes[CONTROL_KIND_MAX_]; /* for tests */
};

void control_watch(struct control *c); /* wake.c: starts the watches */
