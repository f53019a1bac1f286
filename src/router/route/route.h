/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/str.h"
#include "router/router.h"

struct http_headers;
struct object;

/* Where a request wants to go. */
struct route {
	enum router_way way;
	bool secure; /* it came through the port with TLS */
	char id[64], ns[64];
	uint16_t port;
	bool has_ip;
	struct in6_addr ip; /* IPv4 in its mapped form */
	bool has_uid;
	char uid[64];
	bool by_pass;        /* a pass let it in, perhaps for one path or few methods */
	bool review;         /* who was let in may have to leave */
	uint64_t timeout_ms; /* 0: none given, or a bad one */
};
/* NULL, or the text that refuses the request. */
const char *route_parse(const struct http_headers *h, bool allow_loopback, struct route *ret);
bool route_has_id(const struct http_headers *h);
bool route_has_any(const struct http_headers *h); /* that says where to go */
uint64_t route_timeout_ms(const struct http_headers *h);
/* Labels and port; *bad is the text that refuses the first that is wrong. */
bool route_names(struct span ns, struct span id, struct span port, struct route *ret,
		 const char **bad);
/* False for text that is not an address, and for addresses that no sandbox can have. */
bool route_ip(const char *text, bool allow_loopback, struct in6_addr *ret);

/* way.c: host, path and headers together. */
struct way_ask {
	const char *domain, *prefix; /* of the router; NULL: off */
	bool allow_loopback;
	const char *host, *target; /* of the request */
	const struct http_headers *headers;
};
/*
 * NULL, or the text that refuses the request. *ret_rest: where in the target that begins which the
 * sandbox shall see; a slash in front of it is missing if it begins with none.
 */
const char *way_read(const struct way_ask *q, struct route *ret, size_t *ret_rest);
/* "PORT-NAME.NAMESPACE.domain". True: the name is below the domain, and *bad is NULL or says what
 * is wrong with it. */
bool way_host(const char *domain, const char *name, struct route *ret, const char **bad);
/* "PREFIX/NAMESPACE/NAME/PORT", under which a sandbox appears by path. malloc'd. */
char *way_base(const char *prefix, const struct route *route);

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

/* host.c: whether a Host header names us; fd is the connection. */
bool host_served(const char *const *hosts, const char *host, int fd);
/* Without port, brackets and the dot at the end. False: there is no name. */
bool host_name(const char *host, char ret[256]);
