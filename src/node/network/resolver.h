/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct buf;
struct client;
struct instance;
struct loop;
struct object;

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
	/* As in names.h. */
	void (*held)(void *arg, void (*fn)(void *fn_arg, struct object *pod), void *fn_arg);
	void *arg;
};

/* If the address is taken by another program, it says so and tries again now and then. */
must_use struct err *resolver_new(const struct resolver_spec *spec, struct resolver **ret);
void resolver_free(struct resolver *r);
AUTOPTR(resolver)

/* The search list of the host's resolv.conf: words with a space before each. */
void resolver_searches(struct resolver *r, struct buf *out);
void resolver_metrics(const struct resolver *r, struct buf *out);
