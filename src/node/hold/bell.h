/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct instance;
struct loop;
struct runtime;

/*
 * Hears packets to addresses that nobody has at the moment: while any is wanted, their routes lead
 * to a link of the instance, with a metric that the route of a sandbox's own link beats, and a
 * packet socket there tells where they were going. The other end of the link is a network like
 * those of sandboxes, at an address of its own (POOL_BELL), in which nothing runs.
 *
 * The daemon alone holds that network, so that link and routes end with the daemon, however it
 * ends. On the loop's thread; routes are changed by jobs.
 */
struct bell;

struct bell_spec {
	struct loop *loop;
	struct runtime *runtime;
	const struct instance *instance;
	/* Somebody sent a packet that asks something of whoever has the address with this place. */
	void (*rang)(void *arg, unsigned place);
	void *arg;
};
struct bell *bell_new(const struct bell_spec *spec);
void bell_set(struct bell *b, unsigned place, bool on);
void bell_free(struct bell *b); /* turns the loop until its jobs have ended */
