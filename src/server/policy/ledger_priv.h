/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "server/policy/ledger.h"
#include "server/policy/policy_priv.h"

struct map;

/* What the ledger consists of. */
struct line {
	char *name; /* "requests.cpu" */
	struct measure m;
	struct quantity hard, used;
	bool unknown; /* nothing of that name is served, as far as was known when it was read */
};

struct quota {
	struct list in_ns;  /* by name */
	struct list stale;  /* in the ledger's list while its status may be behind */
	struct object *o;   /* the ResourceQuota */
	struct line *lines; /* by name */
	size_t n_lines;
	bool scoped;
};

struct space {
	struct list quotas;
};

struct ledger {
	const struct objects *os;
	struct map *spaces; /* namespace → struct space, owned; only of those that have a quota */
	struct list stale;
	usec as_of; /* the time at which Pods that do not go away are judged */
	usec deadline;
};
