/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "node/host/uplink.h"

struct bytes;
struct instance;

/* The instance's nftables table, from any thread. It is loaded whole, in one
 * transaction; where only policies and limits differ, it can be changed instead.
 * Pods that come and go change nothing in it unless a policy narrows or opens
 * something, or somebody is limited. */
struct firewall_rules {
	bool open; /* every process of the host may send packets to sandboxes, not the daemon alone
		    */
	bool egress;            /* sandboxes may connect to public addresses */
	bool outlet;            /* and the daemon's own socket at port 80 of the gateway */
	struct uplinks uplinks; /* that were switched on: they forward for sandboxes alone */
	/* The maps "policies" and "policies6" with their chains, which say what goes out of each
	 * sandbox, nothing from one that is not in the map; and the chain "between", for packets
	 * from one sandbox to another. NULL: no policy narrows or opens anything. */
	struct bytes *policies;
	unsigned policies_number; /* theirs: later ones have a higher one */
	/* The sets "free", "limited", "leases" and "anywhere", and the same with a 6: who reaches
	 * everything that is not shut to all, who does not, and where those go. Who is in neither
	 * of the first two reaches nothing. NULL: nobody is limited. */
	struct bytes *limits;
	unsigned limits_number; /* likewise */
	/* The map "services" with its chains, which lead connections to the addresses of Services
	 * on to their Pods, and the chain "to_itself", which lets pass what was led back to where
	 * it came from. NULL: there are none. */
	struct bytes *services;
	/* For conntrack_keep(): where datagrams go by these rules. Of others that the kernel
	 * remembers it is told to forget them, once the rules are in force. NULL: nowhere. */
	struct bytes *ways;
};
must_use struct err *firewall_load(const struct instance *i, const struct firewall_rules *r);
/* Turns a table that has policies and limits of was, and is the same otherwise, into one that has
 * those of now, by what differs between them. An error leaves it as it was. */
must_use struct err *firewall_change(const struct instance *i, const struct firewall_rules *was,
				     const struct firewall_rules *now);
must_use struct err *firewall_remove(const struct instance *i); /* absent is fine */
/* As the kernel has it, without counters; *ret is NULL if it is not there. From any thread. */
void firewall_text(const struct instance *i, char **ret);
/* Counts the changes of all tables of this host; 0: it cannot be found out. */
uint32_t firewall_generation(void);
bool firewall_present(const struct instance *i);
/*
 * Whether a table is taken, with the rule for the outlet or without. It stays: for a child in a
 * network of its own, which takes it along.
 */
bool firewall_try(bool with_outlet);
/* A chain of another table that drops what is forwarded unless one of its rules accepts it, as
 * "ip filter FORWARD"; NULL: there is none. */
char *firewall_forward_policy(void);
