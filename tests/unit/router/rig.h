/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "router/callers/reviews.h"
#include "router/router.h"
#include "test.h"

/*
 * A router between a socket of the test's and real HTTP servers on loopback addresses, one for each
 * sandbox, with Sandbox objects in a small client of the test's own. All on one loop.
 */
#define until(l, cond)                                                    \
	do {                                                              \
		usec until_end_ = clock_mono() + 20 * 1000000;            \
		while (!(cond)) {                                         \
			if (clock_mono() > until_end_)                    \
				fail_msg("waited in vain for %s", #cond); \
			loop_turn((l), 20);                               \
		}                                                         \
	} while (0)

struct rig {
	struct loop *l;
	struct map *objects; /* "ns/name" → struct object */
	const struct client_watch_events *ev;
	void *ev_arg;
	struct client *client;
	struct router *router;
	struct http_server *server; /* on 127.0.0.2 */
	uint16_t port;
	size_t n_requests;            /* that reached it */
	int version;                  /* of HTTP, of the last one */
	char *timeout;                /* its grpc-timeout */
	struct http_request *waiting; /* one whose answer is the test's */
	struct buf body;              /* of that */
	bool body_ended;
	uint64_t rev;
	bool access_log;          /* requests are logged */
	bool late;                /* the client has not listed yet: rig_synced() says when */
	struct reviews *reviews;  /* the router's policy; NULL: it has none */
	struct rig_review *asked; /* what it asked the API server, in order */
	size_t n_asked;
};

/* A question to the API server. */
struct rig_review {
	struct client_waiter waiter;
	const struct kind *kind;
	char *text; /* the document */
};
void rig_guard(struct rig *g, const struct reviews_spec *spec);
/* Answers the i-th question; status is JSON text, NULL: the API server fails. */
void rig_say(struct rig *g, size_t i, const char *status);

/* g->late and g->access_log are the caller's, the rest is filled in. */
void rig_start(struct rig *g, const struct router_spec *spec);
void rig_synced(struct rig *g);
void rig_stop(struct rig *g);
/* Makes or changes default/NAME: status and metadata parts as JSON text, %PORT% excluded. */
void rig_sandbox(struct rig *g, const char *name, const char *json);
void rig_ready(struct rig *g, const char *name, const char *ip); /* Ready, with this address */
void rig_delete(struct rig *g, const char *name);

int rig_connect(struct rig *g);
void rig_send(struct rig *g, int fd, const char *fmt, ...) printf_like(3, 4);
/* Until needle is there, or the peer's end (NULL). malloc'd. */
char *rig_read(struct rig *g, int fd, const char *needle);
/* One request on a connection of its own; the whole answer. head: "GET /x", then further header
 * lines. */
char *rig_ask(struct rig *g, const char *head, const char *fmt, ...) printf_like(3, 4);
int rig_status(const char *answer);
bool rig_counted(struct rig *g, const char *part); /* it is in the router's metrics */
int rig_listen(const char *addr); /* a socket for upstreams that speak no proper HTTP */
void rig_settle(struct rig *g);
