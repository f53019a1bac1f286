/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

struct map;
struct object;

/*
 * What the controllers look up by other things than names, kept from watch events, so that no pass
 * ever goes through everything.
 */
struct index;
struct roster;

struct index *index_new(void);
void index_free(struct index *ix);

/* Either may be NULL, as in a watch event. */
void index_pod(struct index *ix, struct object *was, struct object *now);
void index_claim(struct index *ix, struct object *was, struct object *now);
void index_pool(struct index *ix, struct object *was, struct object *now);
/* True when a claim that waits for a member of the roster may now get one. */
bool index_sandbox(struct index *ix, struct object *was, struct object *now,
		   struct roster **ret_roster);

/* name → struct object, borrowed; NULL when there is none. No writes while walking them. */
const struct map *index_pods_of(const struct index *ix, const char *owner_uid);
const struct map *index_sandboxes_of(const struct index *ix, const char *owner_uid);
const struct map *index_claims_of(const struct index *ix, const char *ns, const char *pool);
const struct map *index_pools_of(const struct index *ix, const char *ns, const char *template);
/* Sandboxes with this pool label that nobody controls. */
const struct map *index_orphans_of(const struct index *ix, const char *ns, const char *pool_hash);

/* The name that the field names: spec.warmPoolRef.name, spec.sandboxTemplateRef.name; "" if none.
 */
const char *claim_pool(const struct object *claim);
const char *pool_template(const struct object *pool);

/* True when the controller owner is of this kind in the extensions group, of whatever version. */
bool controlled_by_kind(const struct object *o, const char *kind);

/*
 * The members of one pool, in the order in which claims get them, with all that a pass over the
 * pool asks of each, so that it need not look into two thousand trees.
 */
struct member {
	struct roster *roster;
	struct object *sandbox;
	struct list link;       /* of roster->members, oldest first */
	struct list ready_link; /* of roster->ready, in the same order */
	struct list odd_link;   /* of roster->odd; unlinked when nothing is left to do about it */
	const char *owner_uid, *pool_hash; /* in the Sandbox's tree */
	usec created;
	usec seen_at; /* by the pool controller, for the first time; 0: not yet */
	uint64_t seq;
	struct node_count *node; /* NULL: on no node yet */
	bool deleting, ready, networked;
	bool adoptable;      /* by its labels */
	bool warm;           /* is labelled as launched warm */
	bool taken;          /* a claim is about to own it */
	uint64_t judged_rev; /* the template's revision for which stale was found */
	bool stale;
	uint64_t fresh_rev; /* the template's revision for which a claim found it fresh */
	uint64_t lost_rev;  /* the Sandbox's revision at which a claim did not get it */
};

/* A claim that waits for a member to get an address; part of the claim's note. */
struct waiter {
	struct list link; /* of roster->waiting */
	char *ns, *name;
};

struct roster {
	char *key; /* "ns/pool" */
	struct list members, ready, waiting;
	struct list odd; /* members that the pool controller must look at */
	size_t n_members;
	size_t n_fine;     /* the others: Ready, warm, as the template wants them */
	bool wanted;       /* the pool itself exists */
	struct map *nodes; /* name → struct node_count, owned */
	/* The pool controller's memory between passes. */
	bool stalled;        /* it was told that the pool makes no progress */
	unsigned burst;      /* how many creates the next round may start */
	usec status_at;      /* when status was last written */
	uint64_t was_active; /* members at the last pass, with those created in it */
	usec rest_from,
		rest_until;  /* since when, and until when, refilling waits; 0: it does not */
	uint64_t hashed_rev; /* the template's revision that the hashes are of */
	uint64_t fine_for;   /* the template's revision that n_fine is for; 0: none */
	char *fine_uid;      /* and the pool's uid */
	char blueprint_hash[9], pod_hash[9];
};

struct roster *index_roster(struct index *ix, const char *ns,
			    const char *pool); /* made if needed */
struct member *index_member(struct index *ix, const char *ns, const char *name); /* NULL: in none */

enum pick {
	PICK_NONE,    /* nobody there */
	PICK_PENDING, /* members, but none has an address yet */
	PICK_MEMBER,
};
/*
 * The member a claim gets: Ready ones first, from the node that has most members, oldest first.
 * fits() may refuse one. A member that is taken is passed over.
 */
enum pick roster_pick(struct roster *r, bool (*fits)(void *arg, struct member *m), void *arg,
		      struct member **ret);
void member_is_fine(struct member *m);   /* nothing is to do about it until it changes */
void roster_doubt_all(struct roster *r); /* every member must be looked at again */
/* The pool is gone; its roster goes with its last member. */
void index_drop_roster(struct index *ix, const char *ns, const char *pool);
