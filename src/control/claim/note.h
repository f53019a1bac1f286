/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "control/index/index.h"

struct map;

/*
 * What the claim controller remembers of a claim between passes, by uid. All that a crash costs is
 * the accuracy of two time stamps.
 */
struct note {
	usec first_seen;
	usec began;         /* the same by the monotonic clock */
	usec ready_at;      /* when we first wrote that it is Ready; 0: not since we started */
	char *reserved;     /* the member that an adoption is under way for; NULL: none */
	unsigned conflicts; /* how many adoptions in a row were lost to others */
	struct waiter waiter;
};

struct notes;

struct notes *notes_new(void);
void notes_free(struct notes *n);
struct note *notes_need(struct notes *n, const struct object *claim, usec now);
struct note *notes_get(struct notes *n, const char *uid); /* NULL: none */
void notes_forget(struct notes *n, const char *uid);
/* The adoption that the note tells of has ended, or nobody waits for it any more: its member is
 * free for others. NULL: there was none. */
struct member *note_release(struct note *n, struct index *ix);
