/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct client;
struct http_request;
struct loop;

/*
 * The router: one HTTP port from outside into sandboxes. The X-Sandbox-* headers of a request say
 * which one it is for (docs/reference/dataplane.md §2.1). Only Sandboxes that the client knows can
 * be reached.
 */
struct router;

struct router_spec {
	const char *listen; /* "127.0.0.1:8080" */
	size_t max_conns;   /* 0: 16384; each may need a second one to a sandbox */
	/* How long the head of an answer may take if the request does not say, and the most that it
	 * may say. 0: 180 s and one hour. */
	unsigned proxy_timeout_ms;
	unsigned hold_ms;    /* how long a request waits for a sandbox that is starting; 0: 30 s */
	bool allow_loopback; /* sandboxes may have 127.0.0.0/8 and ::1 addresses */
	bool no_access_log;  /* requests are recorded at debug level only */
	uint32_t mark;       /* of the packets to sandboxes (SO_MARK); 0: none */
	/*
	 * What Host may name besides loopback addresses and the address that was connected to;
	 * NULL-terminated, and copied. NULL: anything. It is what stops a web page whose name was
	 * made to lead here (DNS rebinding).
	 */
	const char *const *hosts;
	bool tell_callers; /* router_ask.caller is wanted; the start fails if it cannot be had */
	bool has_group;    /* members of this group are trusted like root */
	gid_t group;
};
must_use struct err *router_start(struct loop *l, struct client *c, const struct router_spec *spec,
				  struct router **ret);
const char *router_address(const struct router *r);
void router_free(struct router *r); /* cuts all connections; call it before the client is freed */
AUTOPTR(router)

/* The user of this machine at the other end of a connection. */
struct router_caller {
	/* False: the peer is on another machine, in a network of its own, or has left. */
	bool local;
	uid_t uid;
	bool trusted;    /* root, our own user, or a member of the group */
	uint64_t ticket; /* of a connection that was handed to router_adopt(); otherwise 0 */
};

/*
 * Decides who may go in. It is asked once for each request, before anything else is done for it.
 * ERR_UNAUTHENTICATED is answered with 401 and its text, ERR_FORBIDDEN with 403 and its text, any
 * other error with 500. A NULL policy lets everybody in.
 */
struct router_ask {
	const char *ns, *sandbox;
	uint16_t port;
	struct router_caller caller;
	struct http_request *request; /* its Authorization is never passed on to the sandbox */
};
typedef struct err *(*router_policy)(void *arg, const struct router_ask *ask);
void router_set_policy(struct router *r, router_policy decide, void *arg);

/*
 * Serves a connection that did not come through the port: fd is the router's from now on, a
 * connected socket that does not block. The policy knows who it is by the ticket, which is not 0.
 * ERR_EXHAUSTED: there are too many connections.
 */
must_use struct err *router_adopt(struct router *r, int fd, uint64_t ticket);

/*
 * The objects by which clients look for the router. The Pod is run by nobody: it stands for the
 * router, and forwarding its port leads there.
 */
#define ROUTER_SERVICE "sandbox-router-svc"
enum {
	ROUTER_POD_PORT = 8080,
};
struct front;
struct front_spec {
	const char *node_name;
	const char *address; /* of this machine, as sandboxes see it: for EndpointSlices */
};
struct front *front_new(struct loop *l, struct client *c, const struct front_spec *spec);
void front_free(struct front *f); /* the objects stay */
AUTOPTR(front)

/*
 * Node ports: on the loopback addresses of this machine, and on no others, the TCP ports that
 * Services of type NodePort and LoadBalancer have, each leading to a Pod that is ready. A caller
 * cannot show a token there, so enter() decides by who has connected.
 */
struct node_ports;
struct node_ports_spec {
	const char *node_name; /* in Events; outlives it */
	uint32_t mark;         /* of the packets to sandboxes (SO_MARK); 0: none */
	/*
	 * Of both, a namespace may have as many as are still free: one takes half at most, and
	 * leaves something to the next.
	 */
	size_t max_conns;      /* 0: 1024; each needs a second one to a sandbox */
	size_t max_ports;      /* 0: 256 */
	unsigned connect_ms;   /* how long connecting to a Pod may take; 0: 10 s */
	unsigned half_open_ms; /* see pump_set_half_open_ms(); 0: 60 s */
	bool has_group;        /* as in struct router_spec */
	gid_t group;
	bool (*enter)(void *arg, const struct router_caller *caller); /* NULL: everybody may */
	void *arg;
};
must_use struct err *node_ports_start(struct loop *l, struct client *c,
				      const struct node_ports_spec *spec, struct node_ports **ret);
void node_ports_free(struct node_ports *n); /* cuts all connections */
AUTOPTR(node_ports)
struct node_ports_stats {
	uint64_t accepted, refused; /* refused: by enter(), or because no Pod is ready or answers */
	size_t ports, conns;
};
void node_ports_stats(const struct node_ports *n, struct node_ports_stats *ret);

struct router_stats {
	uint64_t requests, failed; /* failed: 502, 503 and 504 of our own */
	uint64_t refused;          /* by Host or by the policy */
	size_t active, held, tunnels;
};
void router_stats(const struct router *r, struct router_stats *ret);
