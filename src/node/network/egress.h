/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "node/host/uplink.h"

struct instance;
struct loop;
struct netlink;

/*
 * The way out of sandboxes: which links lead to the Internet (host/uplink.h), followed as routes
 * and settings of the host change. On the loop's thread.
 */
struct egress;

struct egress_spec {
	struct loop *loop;
	const struct instance *instance;
	struct netlink *nl;
	/* Links are about to be switched on: calls egress_ready() when the packet filter knows
	 * them. */
	void (*load)(void *arg, const struct uplinks *claimed);
	void *arg;
};

/* Finds and notes the uplinks, and switches nothing on before egress_ready(). */
must_use struct err *egress_open(const struct egress_spec *spec, struct egress **ret);
const struct uplinks *egress_uplinks(const struct egress *g); /* for the first load */
void egress_ready(struct egress *g);
void egress_free(struct egress *g); /* leaves everything as it is; uplinks_release() undoes it */
AUTOPTR(egress)

/* Forwarding on all links of sandboxes that are there already; new ones are made with it. */
must_use struct err *egress_set_links(const struct instance *i, struct netlink *nl, bool on);
