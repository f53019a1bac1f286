/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "node/host/instance.h"
#include "node/network/dns_packet.h"
#include "node/network/names.h"
#include "node/network/resolv_conf.h"
#include "node/network/resolver.h"

enum {
	DNS_PORT = 53,
	QUERIES_MAX = 256,      /* passed on at a time, for all sandboxes */
	QUERIES_EACH_MAX = 32,  /* and for one of them */
	PEERS_MAX = 128,        /* TCP connections of sandboxes */
	PEERS_EACH_MAX = 4,     /* and of one of them */
	BURST = 200,            /* queries that a sandbox may send at once */
	REFILL_PER_SECOND = 100 /* and how many more after that */
};

/* What one sandbox has under way, and how much more it may ask. */
struct asker {
	uint32_t since_ms;
	uint16_t spent; /* of BURST */
	uint8_t queries, peers;
};

struct resolver {
	struct resolver_spec spec;
	char *domain, *resolv_conf;
	struct names names;
	struct resolv_conf host;
	uint64_t host_stamp; /* of the file as it was read */
	usec looked;         /* when the file was last looked at */
	int udp, tcp;        /* -1: not bound yet */
	struct watch *udp_watch, *tcp_watch;
	struct timer *retry;
	struct client_watch *watch_services, *watch_pods, *watch_slices;
	struct list queries, peers, lookups;
	unsigned n_queries, n_peers;
	struct asker *askers; /* one for each place of the pool */
	uint64_t answered, forwarded, refused;
	bool told;
};

struct peer;
struct query;

/* Who asked, and so where the answer goes. */
struct query_from {
	unsigned place;
	struct sockaddr_in addr;
	struct peer *peer;     /* who asked over TCP; NULL: nobody did */
	struct lookup *lookup; /* the node itself asked; NULL: a sandbox did */
	bool tcp;              /* and it asks over TCP */
};

/* query.c: one question that is passed on. */
struct query {
	struct resolver *r;
	struct list on;
	struct query_from from;
	struct dns_query q;
	uint8_t wire[2 + DNS_QUERY_MAX]; /* with the length in front, as TCP wants it */
	size_t len, sent;
	uint16_t id; /* of this try */
	unsigned tries;
	int fd;
	struct watch *watch;
	struct timer *timer;
	struct buf in;           /* TCP */
	struct narrowed *narrow; /* of a sandbox that is limited; NULL: it is not */
};
/* NULL: no more at a time; the caller refuses it. It is not on its way before query_pass(). */
struct query *query_new(struct resolver *r, const struct query_from *from, const uint8_t *wire,
			size_t len, const struct dns_query *q);
void query_pass(struct query *y);
void query_give_up(struct query *y); /* answers it so, and frees it */
void query_free(struct query *y);
/* Those of a peer or a lookup; NULL: all. */
void queries_drop(struct resolver *r, const void *asker);

/* lookup.c: names that the node itself asks for. */
void lookup_answer(struct lookup *l, const uint8_t *wire, size_t len);
void lookups_drop(struct resolver *r);

/* peer.c: TCP connections of sandboxes. */
void peers_accept(struct resolver *r);
void peer_answer(struct peer *p, const void *wire, size_t len);
void peers_free(struct resolver *r);

/* narrow.c: questions of sandboxes whose way out is limited. */
void narrow_ask(struct resolver *r, const struct query_from *from, const uint8_t *wire, size_t len,
		const struct dns_query *q);
void narrow_answer(struct query *y, const uint8_t *wire, size_t len); /* it came */
void narrow_free(struct narrowed *n);
bool narrow_waits(const struct narrowed *n); /* for something else than a name server */

/* resolver.c */
bool resolver_is_sandbox(const struct resolver *r, const struct sockaddr_in *from,
			 unsigned *ret_place);
/* Answers it, passes it on, or drops it. False: it cannot be read. */
bool resolver_ask(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		  size_t len);
void resolver_reply(struct resolver *r, const struct query_from *from, const void *wire,
		    size_t len);
void resolver_answer(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		     const struct dns_query *q, const struct dns_answer *a);
/* An answer without records. */
void resolver_refuse(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		     const struct dns_query *q, enum dns_code code);
const struct resolv_conf *resolver_host(struct resolver *r); /* as it is now */
