/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "node/network/dns_packet.h"

struct arena;
struct client;
struct instance;
struct object;

/*
 * The names that objects give, as a cluster's DNS has them, below the cluster domain:
 *
 *   <service>.<ns>.svc              its addresses, or those of the Pods behind it that are ready
 *   _<port>._<protocol>.<service>.<ns>.svc   where that port is (SRV): the Service, or its Pods
 *   <hostname>.<service>.<ns>.svc   the Pod with this hostname behind a Service without an address
 *   a-b-c-d.<ns>.pod, <pod>.<ns>.pod   the Pod with this address, or of this name
 *   <address>.in-addr.arpa          of the instance's own pool, the other way round
 */
struct names {
	struct client *client;
	const struct instance *instance;
	const char *domain; /* without a dot at its end */
	/* Pods that count although no object says so, as in policies.h. NULL: none do. */
	void (*held)(void *arg, void (*fn)(void *fn_arg, struct object *pod), void *fn_arg);
	void *arg;
	bool outlet; /* outlet.cay.internal is the gateway; nothing else is below cay.internal */
};

/* False: it is somebody else's name. Strings of the answer are in the arena. */
bool names_answer(const struct names *n, const struct dns_query *q, struct arena *a,
		  struct dns_answer *ret);
/* The same of what is below cay.internal: a domain of ours, which nobody else is asked about, and
 * which a sandbox knows whatever its agents may reach. */
bool names_internal(const struct names *n, const struct dns_query *q, struct arena *a,
		    struct dns_answer *ret);
