/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index.h"

#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/index/roster_priv.h"

/*
 * A shelf holds objects by a text, such as the uid of their owner or the pool that they name. A
 * watch event takes the old state from its place and puts the new one where it belongs now.
 */
struct index {
	struct map *pods_by_owner, *sandboxes_by_owner; /* uid → map of "name" → object */
	struct map *claims_by_pool, *pools_by_template; /* "ns/x" → map of name → object */
	struct map *orphans;                            /* "ns/hash" → map of name → object */
	struct map *lent;                               /* "ns/pool" → map of name → object */
	struct map *rosters;                            /* "ns/pool" → struct roster, owned */
	struct map *members;                            /* "ns/name" → struct member, owned */
	uint64_t seq;
};

static void object_drop(void *p)
{
	object_unref(p);
}

static void shelf_drop(void *p)
{
	map_free(p);
}

static void shelf_put(struct map *shelf, const char *at, struct object *o)
{
	struct map *place = map_get(shelf, at);

	if (!place) {
		place = map_new(object_drop);
		map_put(shelf, at, place);
	}
	map_put(place, o->name, object_ref(o));
}

static void shelf_del(struct map *shelf, const char *at, const struct object *o)
{
	struct map *place = map_get(shelf, at);

	if (!place)
		return;
	(void)map_del(place, o->name);
	if (!map_len(place))
		(void)map_del(shelf, at);
}

static void shelf_move(struct map *shelf, struct object *was, const char *from, struct object *now,
		       const char *to)
{
	if (was && from && !(now && to && str_eq(from, to)))
		shelf_del(shelf, from, was);
	if (now && to)
		shelf_put(shelf, to, now);
}

/* The uid that an object is found by; NULL: none. */
static const char *owner_uid(const struct object *o)
{
	return o ? str_or(json_get_str(object_controller(o), "uid"), NULL) : NULL;
}

static const char *sandbox_owner_uid(const struct object *o)
{
	return o ? str_or(sandbox_view(o)->owner.uid, NULL) : NULL;
}

void index_pod(struct index *ix, struct object *was, struct object *now)
{
	shelf_move(ix->pods_by_owner, was, owner_uid(was), now, owner_uid(now));
}

static void move_by_name(struct map *shelf, struct object *was, struct object *now,
			 const char *(*names)(const struct object *))
{
	autofree char *from = was ? xasprintf("%s/%s", was->ns, names(was)) : NULL;
	autofree char *to = now ? xasprintf("%s/%s", now->ns, names(now)) : NULL;

	shelf_move(shelf, was, from, now, to);
}

static const char *pool_of(const struct object *claim)
{
	return claim_view(claim)->pool;
}

static const char *template_of(const struct object *pool)
{
	return pool_view(pool)->template;
}

void index_claim(struct index *ix, struct object *was, struct object *now)
{
	move_by_name(ix->claims_by_pool, was, now, pool_of);
}

void index_pool(struct index *ix, struct object *was, struct object *now)
{
	struct roster *r;

	move_by_name(ix->pools_by_template, was, now, template_of);
	if (!now) {
		index_drop_roster(ix, was->ns, was->name);
		return;
	}
	r = index_roster(ix, now->ns, now->name);
	r->wanted = true;
	r->desired = pool_view(now)->replicas;
	roster_note_dry(r);
}

static char *orphan_place(const struct object *o)
{
	const struct sandbox_view *v = o ? sandbox_view(o) : NULL;

	return v && v->pool_hash && v->owner.type == OWNER_NONE
		       ? xasprintf("%s/%s", o->ns, v->pool_hash)
		       : NULL;
}

static char *lent_place(const struct object *o)
{
	const char *pool = o ? sandbox_view(o)->lent_by : NULL;

	return pool ? xasprintf("%s/%s", o->ns, pool) : NULL;
}

bool index_sandbox(struct index *ix, struct object *was, struct object *now,
		   struct roster **ret_roster)
{
	autofree char *from = orphan_place(was), *to = orphan_place(now);
	autofree char *lent_from = lent_place(was), *lent_to = lent_place(now);

	shelf_move(ix->sandboxes_by_owner, was, sandbox_owner_uid(was), now,
		   sandbox_owner_uid(now));
	shelf_move(ix->orphans, was, from, now, to);
	shelf_move(ix->lent, was, lent_from, now, lent_to);
	return member_follow(ix, was, now, ret_roster);
}

static const struct map *shelf_at(const struct map *shelf, const char *ns, const char *name)
{
	autofree char *at = xasprintf("%s/%s", ns, name);

	return map_get(shelf, at);
}

const struct map *index_pods_of(const struct index *ix, const char *uid)
{
	return map_get(ix->pods_by_owner, uid);
}

const struct map *index_sandboxes_of(const struct index *ix, const char *uid)
{
	return map_get(ix->sandboxes_by_owner, uid);
}

const struct map *index_claims_of(const struct index *ix, const char *ns, const char *pool)
{
	return shelf_at(ix->claims_by_pool, ns, pool);
}

const struct map *index_pools_of(const struct index *ix, const char *ns, const char *template)
{
	return shelf_at(ix->pools_by_template, ns, template);
}

int64_t index_lent_by(const struct index *ix, const char *ns, const char *pool)
{
	autofree char *key = xasprintf("%s/%s", ns, pool);
	const struct roster *r = map_get(ix->rosters, key);
	int64_t n = 0;

	map_each(it, map_get(ix->lent, key))
		n += !r || !map_has(r->returning, it.key);
	return n;
}

const struct map *index_orphans_of(const struct index *ix, const char *ns, const char *pool_hash)
{
	return shelf_at(ix->orphans, ns, pool_hash);
}

const struct map *index_pools(const struct index *ix)
{
	return ix->rosters;
}

struct map *index_rosters(struct index *ix)
{
	return ix->rosters;
}

struct map *index_members(struct index *ix)
{
	return ix->members;
}

uint64_t index_next_seq(struct index *ix)
{
	return ++ix->seq;
}

struct index *index_new(void)
{
	struct index *ix = xnew(struct index);

	ix->pods_by_owner = map_new(shelf_drop);
	ix->sandboxes_by_owner = map_new(shelf_drop);
	ix->claims_by_pool = map_new(shelf_drop);
	ix->pools_by_template = map_new(shelf_drop);
	ix->orphans = map_new(shelf_drop);
	ix->lent = map_new(shelf_drop);
	ix->rosters = map_new(roster_drop);
	ix->members = map_new(member_drop);
	return ix;
}

void index_free(struct index *ix)
{
	if (!ix)
		return;
	map_free(ix->pods_by_owner);
	map_free(ix->sandboxes_by_owner);
	map_free(ix->claims_by_pool);
	map_free(ix->pools_by_template);
	map_free(ix->orphans);
	map_free(ix->lent);
	map_free(ix->members);
	map_free(ix->rosters);
	free(ix);
}
