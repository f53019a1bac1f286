/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "net/http_client.h"

/* What the pool and its exchanges know of each other. */
struct http_pool {
	struct loop *loop;
	struct http_limits limits;
	struct map *addrs;                         /* address → struct pool_addr, owned */
	uint32_t mark;                             /* of the connections' packets; 0: none */
	struct stream *(*wrap)(void *arg, int fd); /* NULL: plain */
	void *wrap_arg;
	struct list idle;      /* struct pool_idle.link, longest idle first */
	struct list exchanges; /* struct http_exchange.link */
	size_t n_idle, max_per_addr;
};

struct conn *http_pool_take(struct http_pool *p, const char *addr); /* NULL if none is idle */
/* Takes ownership of c. */
void http_pool_put(struct http_pool *p, const char *addr, struct conn *c);
void http_exchange_forget_pool(struct list *exchanges);
