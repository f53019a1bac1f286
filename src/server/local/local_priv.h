/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "client/client.h"
#include "server/local/local.h"

struct local {
	struct locals *all;
	char *user;
	struct list syncs;   /* struct local_sync.link: all under way */
	struct timer *again; /* for those whose commit failed */
};

/* For struct client_ops: every stored object of a kind, and watches. ctx is a struct local. */
void local_each(void *ctx, const struct kind *k, const char *ns,
		bool (*fn)(void *arg, struct object *o), void *arg);
void *local_watch(void *ctx, const struct client_watch_spec *spec,
		  const struct client_watch_events *ev, void *arg);
void local_watch_free(void *ctx, void *watch);
