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
	struct list queries, peers;
	unsigned n_queries, n_peers;
	struct asker *askers; /* one for each place of the pool */
	uint64_t answered, forwarded, refused;
	bool told;
};

struct peer;

/* Who asked, and so where the answer goes. */
struct query_from {
	unsigned place;
	struct sockaddr_in addr;
	struct peer *peer; /* NULL: over UDP */
};

/* query.c: one question that is passed on. */
struct query;
/* False: no more at a time, or there is no name server; the caller refuses it. */
bool query_start(struct resolver *r, const struct query_from *from, const uint8_t *wire, size_t len,
		 const struct dns_query *q);
void queries_drop(struct resolver *r, const struct peer *peer); /* NULL: all */

/* peer.c: TCP connections of sandboxes. */
void peers_accept(struct resolver *r);
void peer_answer(struct peer *p, const void *wire, size_t len);
void peers_free(struct resolver *r);

/* resolver.c */
bool resolver_is_sandbox(const struct resolver *r, const struct sockaddr_in *from,
			 unsigned *ret_place);
/* Answers it, passes it on, or drops it. False: it cannot be read. */
bool resolver_ask(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		  size_t len);
void resolver_reply(struct resolver *r, const struct query_from *from, const void *wire,
		    size_t len);
/* An answer without records. */
void resolver_refuse(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		     const struct dns_query *q, enum dns_code code);
const struct resolv_conf *resolver_host(struct resolver *r); /* as it is now */
