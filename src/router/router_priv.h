/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "router/router.h"

struct client;
struct client_watch;
struct http_exchange;
struct http_headers;
struct http_pool;
struct http_request;
struct http_server;
struct kind;
struct map;
struct object;
struct pump;
struct timer;

/* Where a request wants to go, according to its headers. */
struct route {
	char id[64], ns[64];
	uint16_t port;
	bool has_ip;
	struct in6_addr ip; /* IPv4 in its mapped form */
	bool has_uid;
	char uid[64];
	uint64_t timeout_ms; /* 0: none given, or a bad one */
};
/* NULL, or the text that refuses the request. */
const char *route_parse(const struct http_headers *h, bool allow_loopback, struct route *ret);
bool route_has_id(const struct http_headers *h);
/* False for text that is not an address, and for addresses that no sandbox can have. */
bool route_ip(const char *text, bool allow_loopback, struct in6_addr *ret);

/* What is known about the sandbox that a route names. */
enum target_state {
	TARGET_UNKNOWN,  /* no such sandbox, or not for this request */
	TARGET_DOWN,     /* it is not running, and nobody is starting it */
	TARGET_STARTING, /* wait; addr is set if it already has one */
	TARGET_READY,
	TARGET_STATE_MAX_,
};
struct target {
	enum target_state state;
	char addr[64]; /* "10.0.0.1:8888", "[fd00::1]:80"; "" when none */
};
void target_find(const struct object *sandbox, const struct route *route, bool allow_loopback,
		 struct target *ret);
bool target_young(const struct object *sandbox, usec now); /* its ports may still be opening */

/* Why a request did not reach its sandbox (failure.c has the words). */
enum router_failure {
	ROUTER_NOT_FOUND,
	ROUTER_OTHER_UID,
	ROUTER_UNCLAIMED,
	ROUTER_SUSPENDED,
	ROUTER_ENDED,
	ROUTER_REFUSED,
	ROUTER_DEAF,
	ROUTER_BROKEN,
	ROUTER_NOT_READY,
	ROUTER_SILENT,
	ROUTER_CROWDED,
	ROUTER_FAILURE_MAX_,
};
/* Of a sandbox that a route does not lead to: TARGET_UNKNOWN or TARGET_DOWN. */
enum router_failure failure_of_sandbox(const struct object *sandbox, const struct route *route);
/* Of a connection into the sandbox. */
enum router_failure failure_of_error(const struct err *e);
int failure_status(enum router_failure f);
void failure_answer(struct http_request *req, enum router_failure f, const char *id);

/* Turns the headers of a request into those that the sandbox shall see, except Host. upgrade: the
 * protocol that the client wants to change to; NULL: none. */
void forward_headers(struct http_headers *h, const char *peer, const char *upgrade);

/*
 * Who has connected (callers.c). The kernel is asked when a connection is accepted; whether a user
 * is in the group is looked up by a job when it first matters.
 */
struct callers;
/* group NULL: nobody is. learned() is called whenever one more user is known. */
must_use struct err *callers_new(struct loop *l, const gid_t *group, void (*learned)(void *arg),
				 void *arg, struct callers **ret);
void callers_free(struct callers *c);
/* ERR_UNSUPPORTED: this kernel cannot tell whose sockets are whose. */
must_use struct err *callers_check(struct callers *c, int listen_fd);
void callers_accepted(struct callers *c, int fd);
/* One that was handed to us: whoever it is has this ticket. */
void callers_adopted(struct callers *c, int fd, uint64_t ticket);
/* False: it is being looked up, and learned() will be called. */
bool callers_find(struct callers *c, int fd, struct router_caller *ret);
/* The owner of the other end of a connection within this machine. False: there is none. */
bool caller_uid(int netlink, int fd, uid_t *ret);

/* host.c: whether a Host header names us; fd is the connection. */
bool host_served(const char *const *hosts, const char *host, int fd);

/* Requests that wait for one sandbox. */
struct hold {
	struct list proxies; /* struct proxy.hold_link */
	size_t n;
};

struct router {
	struct loop *loop;
	struct client *client;
	const struct kind *sandboxes;
	struct router_spec spec;
	char address[64];
	struct http_server *server;
	struct http_pool *pool;
	struct client_watch *watch;
	bool synced;
	router_policy decide;
	void *decide_arg;
	struct map *holds;       /* "ns/name" → struct hold, owned */
	struct list woken;       /* proxies whose sandbox changed */
	char **hosts;            /* NULL: any */
	struct callers *callers; /* NULL: nobody asks for them */
	struct list visits;      /* requests that wait for callers: struct visit.on */
	struct timer
		*waker; /* looks at them in the next turn, outside of the write that changed it */
	struct list tunnels; /* upgraded connections: struct proxy.link */
	struct router_stats stats;
	usec refusals_quiet_until; /* until then, they are only counted: */
	uint64_t n_unlogged;
};

struct proxy;
/* The proxy sees the request through to its end. */
void proxy_start(struct router *r, struct http_request *req, const struct route *route);
void proxy_look_again(struct proxy *p); /* its sandbox has changed */
struct proxy *proxy_of_hold(struct list *link);
void proxy_cut(struct list *tunnel);
/* {"detail": text} */
void router_answer(struct http_request *req, int status, const char *fmt, ...) printf_like(3, 4);

/* False when too many wait already. */
bool router_hold(struct router *r, const struct route *route, struct list *link);
void router_unhold(struct router *r, const struct route *route, struct list *link);

/* node_port_pick.c: where a connection to a node port goes. */
struct pick_from {
	struct client *client;
	const char *ns, *service;
	const char *port; /* its name, "" for one without */
	const char *keep; /* "ADDRESS:PORT" that is taken if it is among them; NULL: any will do */
};
/* Any of the Pods that are ready. False: there is none. */
bool node_port_pick(const struct pick_from *from, char ret[64]);
