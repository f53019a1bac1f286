/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

struct map;
struct object;
struct sandbox_view;

/*
 * Objects that the controllers look up by something other than their names. Watch events keep the
 * index current, so that no pass ever goes through all objects.
 */
struct index;
struct roster;

struct index *index_new(void);
void index_free(struct index *ix);

/* Either may be NULL, as in a watch event. */
void index_pod(struct index *ix, struct object *was, struct object *now);
void index_claim(struct index *ix, struct object *was, struct object *now);
void index_pool(struct index *ix, struct object *was, struct object *now);
/* True when claims that wait for a member of the roster may now get one. */
bool index_sandbox(struct index *ix, struct object *was, struct object *now,
		   struct roster **ret_roster);

/* name → struct object, borrowed; NULL when there is none. No writes while walking them. */
const struct map *index_pods_of(const struct index *ix, const char *owner_uid);
const struct map *index_sandboxes_of(const struct index *ix, const char *owner_uid);
const struct map *index_claims_of(const struct index *ix, const char *ns, const char *pool);
const struct map *index_pools_of(const struct index *ix, const char *ns, const char *template);
/* Sandboxes with this pool label that have no controller. */
const struct map *index_orphans_of(const struct index *ix, const char *ns, const char *pool_hash);
/* How many Sandboxes go back to the pool when their claims have ended, and are not on their way. */
int64_t index_lent_by(const struct index *ix, const char *ns, const char *pool);

/*
 * The members of one pool, in the order in which claims get them, and what the pool and claim
 * controllers remember of each.
 */
struct member {
	struct roster *roster;
	struct object *sandbox;
	struct list link;             /* of roster->members, oldest first */
	struct list ready_link;       /* of roster->ready, in the same order */
	struct list odd_link;         /* of roster->odd; unlinked when it is fine */
	const struct sandbox_view *v; /* of sandbox */
	usec seen_at;                 /* when the pool controller first saw it; 0: not yet */
	uint64_t seq;
	struct node_count *node; /* NULL: on no node yet */
	bool taken;              /* a claim is about to own it */
	uint64_t judged_rev;     /* the template's revision that stale is about */
	bool stale;
	uint64_t fresh_rev; /* the template's revision for which a claim found it fresh */
	uint64_t lost_rev;  /* the Sandbox's revision at which a claim did not get it */
};

/* A claim that waits for a member to get an address; part of the claim's note. */
struct waiter {
	struct list link; /* of roster->waiting, or of roster->called */
	char *ns, *name;
	usec since;  /* when it came: its place in line */
	bool called; /* there is a member for it */
};

/* What the pool controller remembers between passes. */
struct pool_memory {
	bool stalled;               /* users have been told that the pool makes no progress */
	unsigned burst;             /* how many creates the next round may start */
	uint64_t was_active;        /* members at the last pass */
	usec rest_from, rest_until; /* refilling waits; 0: it does not */
};

struct roster {
	char *key; /* "ns/pool" */
	struct list members, ready;
	struct list waiting; /* struct waiter, oldest first */
	struct list called;  /* those that are about to look for a member */
	struct list odd;     /* members that the pool controller must look at */
	size_t n_members, n_ready;
	int64_t desired;       /* members, according to the pool */
	bool low;              /* as roster_low() said last */
	usec dry_since;        /* monotonic; 0: it is not dry */
	usec dry_time;         /* how long it was dry before that */
	uint64_t dry_times;    /* how often it became dry */
	uint64_t claimed;      /* members that claims have got */
	size_t n_fine;         /* the others, which are Ready, warm, and what the template makes */
	bool wanted;           /* the pool itself exists */
	struct map *nodes;     /* name → struct node_count, owned */
	struct map *returning; /* names that are being given to members again → nothing */
	struct pool_memory memory;
	bool refused;        /* its members are: there is no room for them in the namespace */
	usec status_differs; /* since when the pool's status is out of date; 0: it is not */
	uint64_t hashed_rev; /* the template's revision that the hashes are of */
	uint64_t fine_for;   /* the template's revision that n_fine is for; 0: none */
	char *fine_uid;      /* and the pool's uid */
	char blueprint_hash[9], pod_hash[9];
};

const struct map *index_pools(const struct index *ix); /* "ns/pool" → struct roster, borrowed */
struct roster *index_roster(struct index *ix, const char *ns,
			    const char *pool); /* made if needed */
struct roster *index_find_roster(struct index *ix, const char *ns,
				 const char *pool); /* NULL: no such pool, and no member of it */
struct member *index_member(struct index *ix, const char *ns, const char *name); /* NULL: in none */

/* Between the end of a Sandbox that is returned and the beginning of the next it is neither. */
void roster_return_begins(struct roster *r, const char *name);
void roster_return_ends(struct roster *r, const char *name);

void roster_wait(struct roster *r, struct waiter *w); /* at its place */
/* The first in line, which is called now; NULL: nobody waits. */
struct waiter *roster_call(struct roster *r);
void waiter_leave(struct waiter *w); /* it waits no more, if it did */
/* Whether others came before it, so that it must wait even for a member that could be had. */
bool roster_ahead(const struct roster *r, const struct waiter *w);

enum pick {
	PICK_NONE,    /* there is no member */
	PICK_PENDING, /* there are members, but none has an address yet */
	PICK_MEMBER,
};
/*
 * The member that a claim gets: Ready ones first, from the node with the most members, oldest
 * first. fits() may refuse one. Members that are taken are passed over.
 */
enum pick roster_pick(struct roster *r, bool (*fits)(void *arg, struct member *m), void *arg,
		      struct member **ret);
/* Whether few members are left for claims: fewer than half of those that are desired, and from then
 * on until there are three quarters. */
bool roster_low(struct roster *r);
/* Dry: it should have members, and has none that a claim would get at once. */
bool roster_dry(const struct roster *r);
size_t roster_waiting(const struct roster *r); /* claims */
usec roster_dry_time(const struct roster *r, usec mono);
void roster_note_dry(struct roster *r);  /* n_ready, desired or wanted has changed */
void member_is_fine(struct member *m);   /* it needs no attention until it changes */
void roster_doubt_all(struct roster *r); /* every member must be looked at again */
/* The pool is gone; its roster is freed with its last member. */
void index_drop_roster(struct index *ix, const char *ns, const char *pool);
