/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "node/host/firewall.h"

struct buf;
struct client;
struct instance;
struct loop;
struct node_object;

/*
 * The packet filter of the node: loaded, watched, and reported when somebody else touched it: in
 * the log, as an Event and a condition of the Node, and as a metric.
 */
struct filter;

struct filter_spec {
	struct loop *loop;
	struct client *client;
	const struct instance *instance;
	const char *node_name; /* outlives it */
	struct firewall_rules rules;
	void (*in_force)(void *arg); /* see filter_watch.h */
	void *arg;
};
must_use struct err *filter_open(const struct filter_spec *spec, struct filter **ret);
/* Rules that have changed; loaded() when they are in force. See filter_watch_change(). */
void filter_change(struct filter *f, const struct firewall_rules *rules, void (*loaded)(void *arg),
		   void *arg);
unsigned filter_policies(const struct filter *f);                /* see filter_watch_policies() */
unsigned filter_limits(const struct filter *f);                  /* see filter_watch_limits() */
void filter_set_object(struct filter *f, struct node_object *o); /* NULL: it is gone */
void filter_metrics(const struct filter *f, struct buf *b);
void filter_free(struct filter *f);
