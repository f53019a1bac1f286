/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "node/host/firewall.h"

struct instance;
struct loop;

/*
 * Keeps the instance's packet filter as it was loaded: the kernel tells of every change of any
 * table, and whatever somebody else did to ours is undone by a job. If it happens again and again,
 * the pauses before that grow, because two programs that restore their own tables could fight
 * forever.
 */
struct filter_watch;

struct filter_news {
	bool intact;         /* it is as it should be again; false: not yet */
	bool removed;        /* the whole table was gone; false: it was changed */
	bool ours;           /* nobody touched it: its rules are to change */
	size_t restored;     /* how often since the start */
	unsigned pause_ms;   /* not intact: the next try comes after this time */
	const struct err *e; /* why it could not be restored; NULL: it was not tried */
};
struct filter_watch_spec {
	struct loop *loop;
	const struct instance *instance;
	struct firewall_rules rules;
	void (*news)(void *arg, const struct filter_news *news);
	void (*in_force)(void *arg); /* rules that were to change are; may be NULL */
	void *arg;
};
/* Loads the filter. The policies of rules are referenced, here and in filter_watch_change(). */
must_use struct err *filter_watch_new(const struct filter_watch_spec *spec,
				      struct filter_watch **ret);
/* Loads it with other rules, in a job; loaded() is told once when they are in force. Until then,
 * and if it fails, the old ones are; it is tried again like a restoration. NULL: nobody new waits,
 * and who waits already is told when these are in force. */
void filter_watch_change(struct filter_watch *w, const struct firewall_rules *rules,
			 void (*loaded)(void *arg), void *arg);
/* The number of the policies that are in force; while they are loaded, of those before. */
unsigned filter_watch_policies(const struct filter_watch *w);
unsigned filter_watch_limits(const struct filter_watch *w); /* likewise */
void filter_watch_free(struct filter_watch *w);             /* leaves the filter as it is */
AUTOPTR(filter_watch)
