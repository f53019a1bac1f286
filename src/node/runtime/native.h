/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct buf;
struct cgroups;
struct diskpool;
struct features;
struct inotify;
struct instance;
struct loop;
struct runtime;

/*
 * The runtime that is built in: containers are processes of this host, made by the launcher. All
 * that it is given stays the caller's and must outlive it.
 */
struct native_spec {
	const struct instance *instance;
	const struct cgroups *cgroups;
	const struct diskpool *disk;
	const struct features *features; /* that the kernel has */
	struct inotify *inotify;
	int run_fd;           /* of instance->run_dir, which is there already */
	const char *launcher; /* cay-launch */
	const char *init;     /* cay-init */
	unsigned pool;        /* slots and networks kept ready; 0: 16 */
	bool egress;          /* sandboxes may connect to public addresses */
	/* Whether nothing is left in the packet filter of whoever had the address with this place
	 * before: only then does another get it. NULL: always. */
	bool (*address_clear)(void *arg, unsigned place);
	void *arg;
};

/* Notes what an earlier run left and starts the launchers. Nothing is given a range or an address
 * before the loop turns: hold() what must be held until then. ops->free() ends it. */
must_use struct err *native_open(struct loop *l, const struct native_spec *spec,
				 struct runtime **ret);
uint32_t native_last_id(void); /* the highest id that a sandbox may have on the host */
/* How much is launched at a time (permits.h). */
void native_set_pace(struct runtime *r, bool yield);
/* What policies open in the packet filter of the network at an address, now or as soon as it is in
 * use: lists of addresses, "A-B,C", of those whom it may reach and of those who may reach it. */
void native_set_peers(struct runtime *r, const char *ip, const char *out, const char *in);
/* All were told: whatever network has something else, from before the start, loses it. */
void native_peers_known(struct runtime *r);
void native_metrics(const struct runtime *r, struct buf *b); /* lines of /metrics */
