/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/object.h"
#include "base/clock.h"
#include "base/ip.h"
#include "base/list.h"
#include "base/str.h"
#include "outlet/outlet.h"

struct capabilities;
struct credential_view;
struct http_headers;
struct http_pool;
struct http_request;
struct http_server;
struct map;
struct stream;
struct target;
struct timer;
struct tls_ctx;

enum {
	ACTIVE_MAX = 512,          /* requests at a time, for all sandboxes */
	ACTIVE_MANY = 256,         /* from here on, a sandbox begins one only if it has few */
	ACTIVE_FEW = 4,            /* that is, fewer than these */
	ACTIVE_EACH_MAX = 32,      /* requests of one sandbox at a time */
	BURST = 100,               /* that it may send at once */
	REFILL_PER_SECOND = 20,    /* and how many more after that */
	CREDENTIAL_MAX = 8 * 1024, /* bytes of a value */
};

/* What one sandbox has under way, and how much more it may ask. */
struct visitor {
	char *uid; /* of the Sandbox */
	size_t active;
	bool forgotten; /* not in the map any more: the last of its requests frees it */
	uint32_t since_ms;
	uint32_t spent;      /* of BURST */
	unsigned unrecorded; /* requests that were one too many, since the last record */
};

struct outlet {
	struct outlet_spec spec;
	char *address;
	struct tls_ctx *tls;
	struct http_server *server; /* NULL: the port is taken */
	struct http_pool *pool;     /* keeps no connection: each is for one request */
	struct timer *retry;
	struct client_watch *watch_credentials, *watch_secrets;
	const struct kind *credential, *secret;
	struct map *visitors; /* address → struct visitor, ended with visitor_forget() */
	struct outlet_stats stats;
	bool told;
};

/* request.c: the handler of the server. */
void outlet_head(void *arg, struct http_request *r);

/* visitor.c */

/* The one of this sandbox, which has the address now. Borrowed from the map until the loop turns,
 * or from visitor_enter() to visitor_leave(). */
struct visitor *visitor_at(struct map *visitors, const char *ip, const char *uid);
void visitor_forget(void *visitor);      /* the map's way to free one */
void visitor_enter(struct visitor *v);   /* a request of it begins */
void visitor_leave(struct visitor *v);   /* and is over */
bool visitor_may_ask(struct visitor *v); /* false: it has asked too much of late */

/* credential.c */

/* Who would use one, and for which host. */
struct credential_ask {
	const char *host;
	const char *const *agents; /* all that are attached; ends with NULL */
	const struct capabilities *capabilities;
};
/* How well it fits: 0 not at all, and more the more precisely it names the host. Pure. */
size_t credential_rank(const struct credential_view *v, const char *name,
		       const struct credential_ask *ask);

/* One that was chosen, with its value. Zero: there is none. */
struct credential_use {
	struct object *object;
	char *text; /* the prefix and the value */
	char *value;
};
/* An error names the Credential and the field; then there is nothing to be sent. */
must_use struct err *credential_find(struct outlet *o, const char *ns,
				     const struct credential_ask *ask, struct credential_use *ret);
void credential_done(struct credential_use *u); /* wipes the value */

/* headers.c; address is the outlet's own */

bool headers_is_our_name(struct span host, const char *address); /* host: as in Host */
/* The header by which a browser gives itself away; NULL: a program asks, for all we know. Pure. */
const char *headers_browser_mark(const struct http_headers *h, const char *address);
/* Makes an answer a document that can do nothing in a browser, and that no page can use. */
void headers_isolate(struct http_headers *h);
/* What goes on to the server, for a caller who frees it with headers_wipe(). */
void headers_to_send(const struct http_headers *from, const struct target *t,
		     const struct credential_use *u, struct http_headers *ret);
void headers_wipe(struct http_headers *h);
/* What goes back to the sandbox. */
void headers_to_answer(struct http_headers *h, const struct target *t,
		       const struct credential_use *u);

/* dial.c: a connection to the first of some addresses that takes it. */
enum {
	DIAL_ADDRS_MAX = 4,
};
struct dial;
struct dial_spec {
	struct loop *loop;
	const struct ip *addrs;
	size_t n;
	uint16_t port;
	/* fd is the callee's; < 0: e says why, and stays the dial's. The dial is freed after it. */
	void (*done)(void *arg, int fd, const struct err *e);
	void *arg;
};
struct dial *dial_start(const struct dial_spec *spec);
void dial_cancel(struct dial *d); /* NULL is fine */
