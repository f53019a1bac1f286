/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct access_activity;
struct container;
struct buf;
struct packet_wait;
struct page_out;
struct pod;
struct pods;
struct timer;

/*
 * What is known of the use of a Pod, and whether it is frozen. Times are pods_now().
 */
struct pod_sleep {
	usec last;        /* when somebody used it, as far as it was seen; 0: never looked */
	usec looked;      /* at the counters: */
	int64_t bytes;    /* of its network, in both directions */
	int64_t cpu_usec; /* of its containers */
	unsigned n_tries; /* of probes, since then */
	unsigned n_execs; /* sessions that run a command */

	bool frozen;
	struct packet_wait *packets; /* while it is frozen */
	struct timer *check;         /* whether it has stopped; NULL: none was needed yet */
	usec check_until;
	unsigned n_thaws;          /* tries to thaw it that failed; the timer makes the next */
	const char *thawed_by;     /* why, for those who count it; NULL: nobody is told */
	struct timer *page_timer;  /* NULL: none was needed yet */
	struct page_out *page_out; /* under way; NULL: none is */
};

void pod_sleep_done(struct pod *p);
void pod_slept(struct pod *p); /* a new one: frozen by an earlier run of the daemon, or not */
/* Somebody uses it: it goes on if it is frozen. why is for those who count it: "exec", "packet". */
void pod_used(struct pod *p, const char *why);
/* It shall end: it goes on if it is frozen, and nobody is told. */
void pod_sleep_ends(struct pod *p);

/* page_out.c: of a frozen Pod. */
void pod_page_out_later(struct pod *p);
void pod_page_out_stop(struct pod *p);
void page_outs_metrics(const struct pods *ps, struct buf *b);
