/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct client;
struct loop;

/*
 * The router: one HTTP port from outside into sandboxes, by the X-Sandbox-* headers
 * (reference/dataplane.md §2.1). Only Sandboxes known to the client can be targets.
 */
struct router;

struct router_spec {
	const char *listen;        /* "127.0.0.1:8080" */
	unsigned proxy_timeout_ms; /* 0: 180 s */
	unsigned hold_ms;          /* how long a request waits for a sandbox that starts; 0: 30 s */
};
must_use struct err *router_start(struct loop *l, struct client *c, const struct router_spec *spec,
				  struct router **ret);
const char *router_address(const struct router *r);
void router_free(struct router *r);
AUTOPTR(router)
