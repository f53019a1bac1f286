/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "router/route/route.h"
#include "router/router.h"
#include "tls/tls.h"

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

/* entry.c: what a request shows beside who has connected. */
enum entry {
	ENTRY_ASK,      /* nothing: the policy decides */
	ENTRY_IN,       /* something that lets it in */
	ENTRY_REFUSED,  /* something that is no good, and *why */
	ENTRY_ANSWERED, /* it has been answered */
};
/* Removes what is ours from the request, and binds the route to the sandbox that a pass names. */
enum entry entry_look(struct router *r, struct http_request *req, struct route *route,
		      struct err **why);
bool entry_by_browser(struct http_request *req); /* a page may have made it do this */
#define ENTRY_PARAM "cay_pass"                   /* of signed URLs */
const char *entry_cookie_name(bool secure);
/* Who is let in by it, for the record. */
const char *entry_bearer(void);

/* mint.c: signs a URL for whoever may send this request. True: it was asked for. */
bool mint_asked(struct http_request *req, const struct route *route);
void mint_answer(struct router *r, struct http_request *req, const struct route *route,
		 const char *who);

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
const char *failure_reason(const struct err *e); /* of a connection, in metrics */
void failure_answer(struct http_request *req, enum router_failure f, const char *id);

/* Turns the headers of a request into those that the sandbox shall see, except Host. */
struct forward {
	const struct route *route;
	const char *prefix; /* of the router, for routes by path */
	const char *peer;
	const char *upgrade; /* the protocol that the client wants to change to; NULL: none */
};
void forward_headers(struct http_headers *h, const struct forward *f);

/* answer.c: turns the headers of a sandbox's answer into those that the client shall see. addr: of
 * the sandbox. */
struct answer {
	const struct route *route;
	const char *prefix, *addr;
	bool no_rewrite;
};
void answer_headers(struct http_headers *h, const struct answer *a);

/* What a sandbox shall see of the trailers of a request; *ret is empty before. */
void forward_trailers(const struct http_headers *from, struct http_headers *ret);

/* grpc.c: a call is POST by HTTP/2, with application/grpc or application/grpc+CODEC. */
bool grpc_is_call(struct http_request *req);
/* NULL, or the text that refuses the call. *ret stays as it is if none is given. */
const char *grpc_timeout(const struct http_headers *h, usec *ret);
void grpc_set_timeout(struct http_headers *h, uint64_t left_ms);
/* Answers a call: HTTP status 200, and in the trailers what status means to gRPC. */
void grpc_answer(struct http_request *req, int status, const char *text);
void grpc_end(struct http_request *req, int status, const char *text); /* one whose head is sent */
/* Moves the status of a call out of a head that has it: an answer of nothing else has no trailers.
 */
void grpc_take_status(struct http_headers *head, struct http_headers *ret);

/* Whether the ports offer HTTP/2. */
enum {
	ROUTER_HTTP2 = true,
};

/* tls_port.c: the certificates of the port with TLS. */
struct tls_port;
must_use struct err *tls_port_new(struct loop *l, const struct router_tls_spec *spec,
				  const char *domain, struct tls_port **ret);
void tls_port_free(struct tls_port *t);
struct stream *tls_port_accept(struct tls_port *t, int fd);

/*
 * hello.c: the name in a ClientHello. HELLO_MORE: there are too few bytes yet; HELLO_BAD: it is no
 * ClientHello, too long, or names nothing.
 */
enum hello {
	HELLO_MORE,
	HELLO_NAMED,
	HELLO_NAMELESS,
	HELLO_BAD,
};
enum {
	HELLO_MAX = 16 * 1024 + 512, /* bytes on the wire, records included */
};
enum hello hello_read(const void *data, size_t len, char ret[256]);

/* sni_port.c: the port that passes TLS on. */
struct sni_port;
must_use struct err *sni_port_start(struct router *r, const char *addr, struct sni_port **ret);
void sni_port_free(struct sni_port *s);
void sni_port_stop(struct sni_port *s);    /* accepts nobody any more */
void sni_port_learned(struct sni_port *s); /* one more caller is known */

/* One port of HTTP. */
struct http_port {
	struct router *r;
	bool secure;
	size_t max_conns;
	struct http_server *server;
	char address[64];
};

/* Whoever waits for a sandbox. When that has changed it is held no longer, and looks again. */
struct waiter {
	struct list link;
	bool held;
	void (*look)(struct waiter *w);
};
/* Those who wait for one sandbox. */
struct hold {
	struct list waiters; /* struct waiter.link */
	size_t n;
};

/*
 * What happened, counted by labels (metrics.c). A namespace is a label once a request was let into
 * it: strangers cannot make up labels.
 */
struct metrics;
enum metric {
	METRIC_REQUESTS,  /* method, code, namespace */
	METRIC_ERRORS,    /* namespace, reason */
	METRIC_RETRIES,   /* namespace */
	METRIC_DECISIONS, /* namespace, decision */
	METRIC_MAX_,
};
struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
void metrics_count(struct metrics *m, enum metric what, const char *ns, const char *label);
/* A request that has been answered, or that nobody waits for any more. ns NULL: of none. */
void metrics_request(struct metrics *m, struct http_request *req, int status, const char *ns,
		     usec took);
void metrics_learn_namespace(struct metrics *m, const char *ns);
void metrics_write(const struct metrics *m, struct buf *b);

/*
 * record.c: what became of a request. Each answer is recorded once, before it is given or at the
 * end of the request: it is counted, is a line of the access log, and of the audit log if it went
 * in or somebody who is known was refused.
 */
struct record {
	const struct route *route; /* NULL: it leads nowhere */
	bool entered;              /* it was let in: the namespace is that of a known client */
	const char *who;           /* asked; NULL or "": not known */
	const char *why;           /* it was refused; NULL: it was not */
	const char *sub;           /* what it was for, in the audit log; NULL: "proxy" */
	int status;                /* 0: the client left before it was answered */
	uint64_t bytes;            /* from the sandbox */
	usec took;
};
void record_request(const struct router *r, struct http_request *req, const struct record *rec);
/* In the log alone. */
void record_uncounted(const struct router *r, struct http_request *req, const struct record *rec);
void record_refused(const struct router *r, const char *peer, int status); /* no request at all */
/* A connection whose TLS is passed on; fd is the client's. */
void record_passed(const struct router *r, const struct route *route,
		   const struct router_caller *caller, int fd);
void record_tunnel_end(const struct router *r, const struct route *route, usec took);

struct router {
	struct loop *loop;
	struct client *client;
	const struct kind *sandboxes;
	struct router_spec spec;
	struct http_port plain, secure;
	struct http_port gateway; /* its server NULL: there is no such address */
	struct tls_port *tls;
	struct sni_port *sni;
	char sni_address[64];
	bool (*sni_enter)(void *arg, const struct router_caller *caller);
	void *sni_arg;
	char *domain, *prefix, *scoped_secret; /* NULL: off */
	struct tls_seal_key pass_key;          /* its bytes NULL: no signed URLs */
	struct http_pool *pool;
	struct client_watch *watch;
	bool synced;
	router_policy decide;
	void *decide_arg;
	struct map *holds;       /* "ns/name" → struct hold, owned */
	struct list woken;       /* proxies whose sandbox changed */
	char *ns;                /* NULL: all */
	char **hosts;            /* NULL: any */
	struct callers *callers; /* NULL: nobody asks for them */
	struct list visits;      /* requests that wait for callers: struct visit.on */
	size_t n_visits;         /* and all others that wait to be let in */
	struct metrics *metrics;
	struct timer
		*waker; /* looks at them in the next turn, outside of the write that changed it */
	struct list requests; /* under way: struct proxy.link */
	struct list tunnels;  /* upgraded connections: struct proxy.link */
	struct list stays;    /* requests and tunnels that may have to end: struct proxy.on_stays */
	struct router_stats stats;
	usec refusals_quiet_until; /* until then, they are only counted: */
	uint64_t n_unlogged;
};

struct proxy;
/* The proxy sees the request through to its end. */
void proxy_start(struct router *r, struct http_request *req, const struct route *route,
		 const char *who);
void proxy_cut(struct list *tunnel);
bool proxy_awaits(struct list *request, const char *ns, const char *sandbox);
/* {"detail": text} */
void router_answer(struct http_request *req, int status, const char *fmt, ...) printf_like(3, 4);

/* enter.c: a request has come to a port, and has to be decided on. arg: a struct http_port. */
void enter_request(void *arg, struct http_request *req);
void enter_learned(void *arg); /* one more caller is known; arg: the router */

/* holds.c: what the watch of Sandboxes tells, and the turn in which it is looked at. */
void holds_changed(void *arg, struct object *was, struct object *now);
void holds_synced(void *arg);
void holds_wake(void *arg);
/* False when too many wait already. */
bool router_hold(struct router *r, const struct route *route, struct waiter *w);
/* Does nothing unless it is held. */
void router_unhold(struct router *r, const struct route *route, struct waiter *w);
/* Where a route leads now. A Sandbox that is down and was woken for it is starting. Returns the
 * Sandbox, a new reference; NULL: there is none. */
struct object *router_find(struct router *r, const struct route *route, struct target *ret);
