/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct instance;
struct netlink;

/*
 * The links by which this host reaches the public Internet, and the forwarding on them.
 *
 * Packets of sandboxes go out by such a link, and the answers come in by it; the kernel passes on
 * what comes in by a link only if that link's own setting says so: `forwarding` of IPv4,
 * `force_forwarding` of IPv6, which kernels have since Linux 6.17. The switches for the whole host
 * are never touched. Where an uplink does not forward yet, it is switched on, and since that
 * would make the host a router for anybody, the packet filter drops whatever comes in by such a
 * link for somebody other than a sandbox. A link that the operator has switched on stays as it is.
 *
 * Several instances may use one uplink, and a daemon that is killed leaves it as it is. So each
 * instance writes a note first, `/run/cay/forwarding/<id>.<link>`, for IPv6 with `:6` behind it;
 * the last one to take its note away switches the link off again. One whose data directory is gone
 * keeps nobody from that, and one of an earlier boot means nothing; one of another network
 * namespace is about another link. A link is known by its index, as somebody may give it another
 * name.
 *
 * All of these block for a moment, on a lock between instances: call them from jobs, or at start
 * and stop.
 */
enum {
	UPLINKS_MAX = 32, /* any more are left as they are */
	LINK_NAME = 16,
};
/* One family of a link. */
struct uplink {
	char name[LINK_NAME];
	unsigned ifindex;
	bool ip6;
};
struct uplinks {
	struct uplink at[UPLINKS_MAX];
	unsigned n;
};

/* By the routes of the main table: every link of a route that leads to a public address. */
must_use struct err *uplinks_find(struct netlink *nl, struct uplinks *ret);
/*
 * Notes those among the uplinks that are to be switched on, which are *ret, and takes back what was
 * noted before for any other link. The packet filter must know of them before
 * uplinks_switch_on().
 */
must_use struct err *uplinks_claim(const struct instance *i, const struct uplinks *found,
				   struct uplinks *ret);
must_use struct err *uplinks_switch_on(const struct uplinks *claimed);
void uplinks_release(const struct instance *i); /* all that it noted; nothing noted is fine */
/* Those that it noted and that forward: what it has switched on. */
void uplinks_noted(const struct instance *i, struct uplinks *ret);

bool uplinks_have(const struct uplinks *u,
		  const struct uplink *one); /* by index, name and family */
const struct uplink *uplinks_first(const struct uplinks *u, bool ip6); /* NULL: none */

/* Whether the host forwards IPv6 as a whole, or could do so for single links. */
bool uplinks_can_forward6(void);
/* For the link of a sandbox, where the kernel has that setting. */
void uplinks_set_forward6(const char *link, bool on);
