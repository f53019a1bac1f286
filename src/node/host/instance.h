/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"

struct netlink;

/*
 * What an instance is called on the host, kept in data_dir/node/instance.json. All names of things
 * that it makes are derived from here:
 *
 *   control groups   cay-<id> (scope.h)    links      cay<id><n>, n from the address
 *   nftables table   inet cay_<id>         addresses  a /18 of 100.64.0.0/10, its first on lo
 *                                                and of IPv6 fdca:7<id>00::/64, n at its end
 *   sockets          <run_dir>/<slot>.sock, <run_dir>/<slot>.seats/NAME.sock
 *   packet mark      0xca7<id>, on what the daemon sends to sandboxes
 *   directories      enum instance_dir
 */
enum {
	POOL_PREFIX = 18,
	POOL_SIZE = 1 << (32 - POOL_PREFIX),
	POOL6_PREFIX = 64,
	POOL_STAND_IN = 0, /* nobody's: as whom a sandbox calls itself through a Service */
	POOL_GATEWAY = 1,
	POOL_FIRST = 2,            /* of sandboxes */
	POOL_BELL = POOL_SIZE - 1, /* nobody's: its link hears packets to sandboxes that sleep */
	INSTANCE_ID_LEN = 5,
};

struct instance {
	char id[INSTANCE_ID_LEN + 1];
	char *data_dir, *run_dir;
	uint32_t pool; /* host order */
	bool ip6;      /* the host has it, and so do sandboxes that are made now */
	int lock;      /* held while the node runs; -1: not ours */
};

/* Reads it; make: creates it on the first start and takes the lock (ERR_CONFLICT: it is held).
 * Without make, ERR_NOT_FOUND when there never was a node here. run_dir NULL: the one it had. */
must_use struct err *instance_open(const char *data_dir, const char *run_dir, bool make,
				   struct instance **ret);
void instance_free(struct instance *i);
AUTOPTR(instance)
bool instance_running(const struct instance *i); /* a node holds the lock */

/* Directories of an instance. What is below run_dir is gone after the host has started anew. */
enum instance_dir {
	INSTANCE_SLOTS,    /* data_dir/roots: a directory per slot, with its layer and its log */
	INSTANCE_PODS,     /* data_dir/pods: one a Pod, with its volumes that live as long as it */
	INSTANCE_VOLUMES,  /* data_dir/volumes: one a PersistentVolumeClaim */
	INSTANCE_STATE,    /* run_dir/state: one file a Pod */
	INSTANCE_OBJECTS,  /* run_dir/volumes: one a Pod, with the volumes made from objects */
	INSTANCE_IDENTITY, /* run_dir/identity: one a Pod of a Sandbox, with its identity socket */
	INSTANCE_STAGE,    /* run_dir/stage: empty; each slot mounts its own things there */
	INSTANCE_DIR_MAX_,
};
const char *instance_dir_name(enum instance_dir dir); /* below data_dir or run_dir */
char *instance_dir(const struct instance *i, enum instance_dir dir);
char *instance_socket(const char *slot);      /* below run_dir */
char *instance_seats(const char *slot);       /* the directory of its seats' sockets, likewise */
char *instance_seats_slot(const char *name);  /* NULL: this is not the name of such a directory */
char *instance_socket_slot(const char *name); /* NULL: this is not the name of a socket */

uint32_t instance_mark(const struct instance *i);
char *instance_table(const struct instance *i);                 /* of the packet filter */
void instance_ifprefix(const struct instance *i, char ret[16]); /* of all its links */
/* n: the address's place in the pool. */
void instance_ifname(const struct instance *i, unsigned n, char ret[16]);
bool instance_owns_ifname(const struct instance *i, const char *name, unsigned *ret_n);
uint32_t instance_addr(const struct instance *i, unsigned n); /* network order */
void instance_addr_text(const struct instance *i, unsigned n, char ret[16]);
bool instance_addr_place(const struct instance *i, const char *text, unsigned *ret_n);
/* The place is the same in both families. */
struct ip instance_ip4(const struct instance *i, unsigned n);
struct ip instance_ip6(const struct instance *i, unsigned n);
bool instance_ip_place(const struct instance *i, const struct ip *a, unsigned *ret_n);

/* The gateway's addresses on lo, and routes that drop packets to unused addresses. */
must_use struct err *instance_net_up(const struct instance *i, struct netlink *nl);
void instance_net_down(const struct instance *i, struct netlink *nl);
