/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct client;
struct http_request;
struct loop;

/*
 * The router: one HTTP port from outside into sandboxes, by the X-Sandbox-* headers
 * (reference/dataplane.md §2.1). Only Sandboxes known to the client can be targets.
 */
struct router;

struct router_spec {
	const char *listen; /* "127.0.0.1:8080" */
	/* Time to the head of an answer when the request names none, and the most that it may name.
	 * 0: 180 s and one hour. */
	unsigned proxy_timeout_ms;
	unsigned hold_ms;    /* how long a request waits for a sandbox that starts; 0: 30 s */
	bool allow_loopback; /* sandboxes may have 127.0.0.0/8 and ::1 addresses */
	bool no_access_log;  /* requests are recorded at debug level only */
};
must_use struct err *router_start(struct loop *l, struct client *c, const struct router_spec *spec,
				  struct router **ret);
const char *router_address(const struct router *r);
void router_free(struct router *r); /* cuts everything; before the client */
AUTOPTR(router)

/*
 * Who may go in: asked once for each request before anything else is done for it.
 * ERR_UNAUTHENTICATED is answered with 401, ERR_FORBIDDEN with 403, anything else with 500. NULL
 * decide: everyone.
 */
struct router_ask {
	const char *ns, *sandbox;
	uint16_t port;
	struct http_request *request;
};
typedef struct err *(*router_policy)(void *arg, const struct router_ask *ask);
void router_set_policy(struct router *r, router_policy decide, void *arg);

struct router_stats {
	uint64_t requests, failed; /* failed: 502, 503 and 504 of our own */
	size_t active, held, tunnels;
};
void router_stats(const struct router *r, struct router_stats *ret);
