/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"

struct admit;
struct client;
struct loop;
struct objects;
struct store_event;

/* client/client.h for this process. */
struct locals {
	const struct objects *objects;
	struct admit *admit;
	struct loop *loop;
	struct list watches; /* struct local_watch, of all clients */
};
void locals_init(struct locals *ls, struct admit *a, struct loop *l);
/* For store_on_change(); arg is the struct locals. */
void locals_changed(void *arg, const struct store_event *ev);
/* user is who its writes are recorded as. */
struct client *local_client(struct locals *ls, const char *user);
