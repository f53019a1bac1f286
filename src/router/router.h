/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct audit;
struct buf;
struct client;
struct http_request;
struct list;
struct loop;
struct tls_pair;

/*
 * The router: HTTP ports from outside into sandboxes. The X-Sandbox-* headers of a request say
 * which one it is for, or its host or its path do where that is switched on
 * (docs/reference/dataplane.md §2.1). Only Sandboxes that the client knows can be reached.
 */
struct router;

/* How a request says which sandbox it is for. */
enum router_way {
	ROUTER_BY_HEADER,
	ROUTER_BY_HOST,
	ROUTER_BY_PATH,
	ROUTER_WAY_MAX_,
};

/*
 * A port with TLS. The certificate is in two files, which are read again when they change; or, with
 * cert_file NULL, a CA signs one for sans, and one for each namespace of the router's domain when a
 * client first asks for it (SNI). Everything is copied.
 */
struct router_tls_spec {
	const char *listen; /* NULL: no such port */
	const char *cert_file, *key_file;
	const struct tls_pair *ca;
	const char *const *sans;   /* NULL-terminated; may be NULL */
	const char *client_ca_pem; /* whose certificates name users; NULL: none is asked for */
};

struct router_spec {
	const char *listen; /* "127.0.0.1:8080"; NULL: no port without TLS, and no router_adopt() */
	size_t max_conns;   /* 0: 16384; each may need a second one to a sandbox */
	/* How long the head of an answer may take if the request does not say, and the most that it
	 * may say. 0: 180 s and one hour. */
	unsigned proxy_timeout_ms;
	unsigned head_timeout_ms; /* the same, and no request can ask for more; 0: no such limit */
	unsigned hold_ms;  /* how long a request waits for a sandbox that is starting; 0: 30 s */
	const char *ns;    /* only Sandboxes of this namespace are known; NULL: all. Copied. */
	uint64_t max_body; /* bytes that a request may send; more is answered with 413. 0: any */
	/* How often a refused connection is tried again, and after how long: the first time, twice
	 * that, and so on up to the last. Not has_retry: for 250 ms, or 2 s after a start. */
	bool has_retry;
	struct {
		unsigned max, first_ms, last_ms;
	} retry;
	bool allow_loopback; /* sandboxes may have 127.0.0.0/8 and ::1 addresses */
	bool no_access_log;  /* requests are recorded at debug level only */
	size_t max_waiting;  /* requests that wait to be let in; more are answered 503. 0: 4096 */
	uint32_t mark;       /* of the packets to sandboxes (SO_MARK); 0: none */
	/*
	 * What Host may name besides loopback addresses and the address that was connected to;
	 * NULL-terminated, and copied. NULL: anything. It is what stops a web page whose name was
	 * made to lead here (DNS rebinding).
	 */
	const char *const *hosts;
	/* "sandbox.localhost": requests for PORT-NAME.NAMESPACE.domain are routed by their host.
	 * NULL: none is. */
	const char *domain;
	/* "/s": requests for /s/NAMESPACE/NAME/PORT/… are routed by their path. NULL: none is. */
	const char *path_prefix;
	bool no_rewrite; /* Location and Set-Cookie of answers by path stay as they are */
	/* Signs URLs that let their bearer in. NULL: there are none. */
	const void *pass_key;
	size_t pass_key_len;
	/* Whoever has it makes tokens for single sandboxes (docs/reference/dataplane.md §2.2).
	 * NULL: they are not accepted. */
	const char *scoped_secret;
	struct router_tls_spec tls;
	bool need_certificate; /* of every client, beside what else lets it in */
	/* A port that passes TLS on to sandboxes as it is, by the name that a client asks for.
	 * NULL: none. It needs a domain, and tell_callers unless everybody may come. */
	const char *sni_listen;
	bool tell_callers; /* router_ask.caller is wanted; the start fails if it cannot be had */
	bool has_group;    /* members of this group are trusted like root */
	gid_t group;
	/* Somebody wants to go into a Sandbox that is down. True: it is being started, and the
	 * request waits for it. NULL: such requests are refused. */
	bool (*wake)(void *arg, const char *ns, const char *sandbox);
	void *wake_arg;
	struct audit *audit; /* the record of who went in; NULL: none */
};
must_use struct err *router_start(struct loop *l, struct client *c, const struct router_spec *spec,
				  struct router **ret);
const char *router_address(const struct router *r);
/* Accepts requests on one more address, with a quarter as many connections of its own. At most
 * once. */
must_use struct err *router_listen_too(struct router *r, const char *addr);
const char *router_tls_address(const struct router *r); /* "" if there is no such port */
const char *router_sni_address(const struct router *r); /* likewise */
void router_free(struct router *r); /* cuts all connections; call it before the client is freed */
AUTOPTR(router)

/* Whether a request into the Sandbox waits for the head of its answer. It looks at every request.
 */
bool router_awaits(const struct router *r, const char *ns, const char *sandbox);

/* The user of this machine at the other end of a connection. */
struct router_caller {
	/* False: the peer is on another machine, in a network of its own, or has left. */
	bool local;
	uid_t uid;
	bool trusted;    /* root, our own user, or a member of the group */
	uint64_t ticket; /* of a connection that was handed to router_adopt(); otherwise 0 */
};

/*
 * Decides who may go in. It is asked for each request, before anything else is done for it, unless
 * the request shows a signed URL, its cookie or a scoped token: those are the router's own affair.
 *
 * caller, user and groups say who has connected. A web page can make a browser connect, so they are
 * empty for requests by host or path, and for all that a browser says it has sent: the policy sees
 * nothing there but what the request itself shows.
 *
 * ERR_UNAUTHENTICATED is answered with 401 and its text, ERR_FORBIDDEN with 403 and its text,
 * ERR_EXHAUSTED with 503 and its text, ERR_UNAVAILABLE with 500 and its text, any other error with
 * 500. A NULL policy lets everybody in.
 *
 * If it cannot tell yet, it sets *ret_wait to a list of its own: the request waits there, and is
 * asked for again when the policy calls router_resume(). The list outlives the router.
 */
struct router_ask {
	const char *ns, *sandbox;
	uint16_t port;
	enum router_way way;
	struct router_caller caller;
	const char *user;             /* the CN of a client certificate; NULL: none */
	const char *user_alt;         /* its SPIFFE ID, or else its DNS name; NULL: none */
	const char *const *groups;    /* of that user, NULL-terminated */
	struct http_request *request; /* its Authorization is never passed on to the sandbox */
	/* For the record: who that turned out to be, also if they may not go in. The policy sets it
	 * with router_ask_is(). */
	char *who;    /* ROUTER_WHO_MAX bytes; "" before */
	bool *review; /* set by router_ask_review() */
};
enum {
	ROUTER_WHO_MAX = 513, /* what is longer is cut, as in the audit log */
};
#define ROUTER_LOCAL "uid %u of this machine" /* a user of it, by their number */
void router_ask_is(const struct router_ask *ask, const char *fmt, ...) printf_like(2, 3);
/* What is let in is asked about again by router_review(), under the name of router_ask_is(). */
void router_ask_review(const struct router_ask *ask);
/* A POST there, by header, asks for a signed URL. */
#define ROUTER_MINT_PATH "/.cay/url"
/*
 * The same for the page, by host, on the router's own port: it asks nobody whether that is allowed.
 * *ret is malloc'd. ERR_NOT_FOUND: there is no such Sandbox.
 */
struct router_url {
	const char *ns, *sandbox, *from; /* from: the peer, for the log */
	uint16_t port;
	int64_t ttl_s;
};
bool router_signs_urls(const struct router *r); /* it has a key, and a domain */
must_use struct err *router_sign_url(struct router *r, const struct router_url *ask, char **ret,
				     int64_t *ret_expires);
typedef struct err *(*router_policy)(void *arg, const struct router_ask *ask,
				     struct list **ret_wait);
void router_set_policy(struct router *r, router_policy decide, void *arg);
void router_resume(struct router *r, struct list *waiting);

/*
 * Ends the requests and tunnels that are reviewed and that stays() does not want: with 403 if they
 * have got no answer yet, otherwise by cutting them off. Others cost nothing. Not from within a
 * callback of a request.
 */
struct router_stay {
	const char *who, *ns, *sandbox;
	uint16_t port;
};
void router_review(struct router *r, bool (*stays)(void *arg, const struct router_stay *s),
		   void *arg);

/* No new connections; requests under way and tunnels go on. router_idle(): they have ended. */
void router_drain(struct router *r);
bool router_idle(const struct router *r);
/* Who may use the port that passes TLS on, where nobody can show anything. NULL: everybody. */
void router_set_sni_policy(struct router *r,
			   bool (*enter)(void *arg, const struct router_caller *caller), void *arg);

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
#define ROUTER_GATEWAY "external-http-gateway"
enum {
	ROUTER_POD_PORT = 8080,
};
struct front;
struct front_spec {
	const char *node_name;
	const char *address; /* of this machine, as sandboxes see it: for EndpointSlices */
	const char *gateway; /* address whose port 80 leads to the router; NULL: there is none */
};
struct front *front_new(struct loop *l, struct client *c, const struct front_spec *spec);
void front_free(struct front *f); /* the objects stay */
AUTOPTR(front)

struct router_stats {
	uint64_t requests, failed; /* failed: 502, 503 and 504 of our own */
	uint64_t refused;          /* by Host, by the policy, or for what they showed */
	size_t active, held, tunnels;
	size_t passing; /* connections through the port that passes TLS on */
};
void router_stats(const struct router *r, struct router_stats *ret);
/* Appends what has been counted, by the names that upstream's router uses (base/metrics.h). */
void router_write_metrics(const struct router *r, struct buf *b);
