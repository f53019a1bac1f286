/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct buf;
struct client;
struct instance;
struct loop;
struct object;
struct reach;

/*
 * The name server of the node, at port 53 of the gateway address, over UDP and TCP. It answers for
 * the names of objects (names.h) and passes everything else on to the host's own name servers. Only
 * sandboxes of this instance get answers. On the loop's thread; nothing in it waits.
 */
struct resolver;

struct resolver_spec {
	struct loop *loop;
	struct client *client;
	const struct instance *instance;
	const char *domain;      /* of the cluster */
	const char *resolv_conf; /* the host's; it is read anew when it changes */
	bool forward;            /* false: only the names of objects are answered */
	struct reach *reach;     /* whose names are limited; outlives it. NULL: nobody's */
	bool outlet;             /* its name is answered too, see names.h */
	/* As in names.h. */
	void (*held)(void *arg, void (*fn)(void *fn_arg, struct object *pod), void *fn_arg);
	void *arg;
};

/* If the address is taken by another program, it says so and tries again now and then. */
must_use struct err *resolver_new(const struct resolver_spec *spec, struct resolver **ret);
void resolver_free(struct resolver *r);
AUTOPTR(resolver)

/*
 * The addresses of a name, by the host's name servers and for the sandbox at this place: its limits
 * count. done() is called from the loop, once, and is not told why there are none.
 */
struct ip;
struct lookup;
struct lookup_spec {
	const char *name;
	unsigned place;
	void (*done)(void *arg, const struct ip *addrs, size_t n);
	void *arg;
};
struct lookup *resolver_lookup(struct resolver *r, const struct lookup_spec *spec);
void lookup_cancel(struct lookup *l); /* before done(), which does not follow; NULL is fine */

/* The search list of the host's resolv.conf: words with a space before each. */
void resolver_searches(struct resolver *r, struct buf *out);
void resolver_metrics(const struct resolver *r, struct buf *out);
