/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/index_priv.h"
#include "control/keys_priv.h"
#include "control/roster_priv.h"

/*
 * A shelf holds objects under a text: the uid of their owner, the pool they name. An event takes
 * the old state from its place and puts the new one where it belongs now.
 */
struct index {
	struct map *pods_by_owner, *sandboxes_by_owner; /* uid → map of "name" → object */
	struct map *claims_by_pool, *pools_by_template; /* "ns/x" → map of name → object */
	struct map *orphans;                            /* "ns/hash" → map of name → object */
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

static const char *owner_uid(const struct object *o)
{
	return o ? json_get_str(object_controller(o), "uid") : NULL;
}

const char *claim_pool(const struct object *claim)
{
	return str_or(json_get_str(json_get(object_spec(claim), "warmPoolRef"), "name"), "");
}

const char *pool_template(const struct object *pool)
{
	return str_or(json_get_str(json_get(object_spec(pool), "sandboxTemplateRef"), "name"), "");
}

bool controlled_by_kind(const struct object *o, const char *kind)
{
	const struct json *ref = object_controller(o);
	char group[256];

	api_version_group(json_get_str(ref, "apiVersion"), group, sizeof(group));
	return str_eq(json_get_str(ref, "kind"), kind) && str_eq(group, GROUP_EXTENSIONS);
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

void index_claim(struct index *ix, struct object *was, struct object *now)
{
	move_by_name(ix->claims_by_pool, was, now, claim_pool);
}

void index_pool(struct index *ix, struct object *was, struct object *now)
{
	move_by_name(ix->pools_by_template, was, now, pool_template);
	if (now)
		index_roster(ix, now->ns, now->name)->wanted = true;
	else
		index_drop_roster(ix, was->ns, was->name);
}

static char *orphan_place(const struct object *o)
{
	const char *hash = o ? object_label(o, KEY_POOL) : NULL;

	return hash && !object_controller(o) ? xasprintf("%s/%s", o->ns, hash) : NULL;
}

bool index_sandbox(struct index *ix, struct object *was, struct object *now,
		   struct roster **ret_roster)
{
	autofree char *from = orphan_place(was), *to = orphan_place(now);

	shelf_move(ix->sandboxes_by_owner, was, owner_uid(was), now, owner_uid(now));
	shelf_move(ix->orphans, was, from, now, to);
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

const struct map *index_orphans_of(const struct index *ix, const char *ns, const char *pool_hash)
{
	return shelf_at(ix->orphans, ns, pool_hash);
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
	map_free(ix->members);
	map_free(ix->rosters);
	free(ix);
}
