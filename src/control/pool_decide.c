/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "base/str.h"
#include "control/blueprint_priv.h"
#include "control/index_priv.h"
#include "control/keys_priv.h"
#include "control/pool_priv.h"

/*
 * The policy of warm pools (reference/api.md §5.3, §5.4): how many to make or remove, whom to give
 * up on, and what a new member looks like.
 */

static uint64_t sooner(uint64_t a, uint64_t b) /* 0 is never */
{
	return !a ? b : !b ? a : MIN(a, b);
}

/* How many may be made now. A pool whose members do not become Ready has some of them, not
 * all it asks for: the number is anybody's to write. */
static uint64_t room(const struct pool_seen *seen)
{
	uint64_t pending = seen->active - MIN(seen->ready, seen->active) + seen->terminating;
	uint64_t limit = MAX(MIN(seen->max_batch, seen->burst), (uint64_t)1);

	return pending >= PENDING_MAX ? 0 : MIN(limit, PENDING_MAX - pending);
}

struct pool_plan pool_decide(const struct pool_seen *seen)
{
	uint64_t want = seen->desired > 0 ? (uint64_t)seen->desired : 0;
	uint64_t total = seen->active + seen->terminating;
	struct pool_plan plan = { .again_ms = seen->grace_left_ms };

	if (seen->template_found && total < want && seen->rest_left_ms)
		plan.again_ms = sooner(plan.again_ms, seen->rest_left_ms);
	else if (seen->template_found && total < want)
		plan.create = MIN(want - total, room(seen));
	if (seen->active > want)
		plan.remove = MIN(seen->active - want, seen->max_batch);
	plan.stalled = seen->unschedulable || (!seen->template_found && want);
	if (plan.stalled)
		plan.again_ms = sooner(plan.again_ms, seen->recheck_ms);
	return plan;
}

/* Not placed, and any other Pod of the kind would not be either. */
static bool cannot_be_placed(const struct object *pod)
{
	const struct json *c;

	if (!pod || object_deleting(pod))
		return false;
	c = conditions_get(json_get(object_status(pod), "conditions"), "PodScheduled");
	return str_eq(json_get_str(c, "status"), "False") &&
	       (str_eq(json_get_str(c, "reason"), "Unschedulable") ||
		str_eq(json_get_str(c, "reason"), "SchedulingGated"));
}

enum fate member_fate(const struct member_seen *m, bool recreate)
{
	if (m->deleting)
		return FATE_TERMINATING;
	if (recreate && m->stale)
		return FATE_STALE;
	if (m->ready)
		return FATE_ACTIVE;
	if (m->age <= (usec)m->grace_ms * 1000)
		return FATE_YOUNG;
	return cannot_be_placed(m->pod) ? FATE_HELD : FATE_STUCK;
}

static void put_hashes(struct json_doc *d, struct json *labels, const struct object *pool,
		       const char *const hashes[2])
{
	char hash[9];

	name_hash(pool->name, hash);
	json_set_str(d, labels, KEY_POOL, hash);
	name_hash(pool_template(pool), hash);
	json_set_str(d, labels, KEY_TEMPLATE_REF_HASH, hash);
	json_set_str(d, labels, KEY_POD_TEMPLATE_HASH, hashes[1]);
	json_set_str(d, labels, KEY_TEMPLATE_HASH, hashes[0]);
}

struct json_doc *member_build(const struct object *pool, const struct object *template,
			      const char *blueprint_hash, const char *pod_hash)
{
	const char *const hashes[2] = { blueprint_hash, pod_hash };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *spec, *pod_meta, *owners = json_arr(d), *a;

	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", API_SANDBOX);
	json_set_str(d, root, "kind", "Sandbox");
	meta = json_need_obj(d, root, "metadata");
	json_set(d, meta, "generateName", json_new_strf(d, "%s-", pool->name));
	json_set_str(d, meta, "namespace", pool->ns);
	put_hashes(d, json_need_obj(d, meta, "labels"), pool, hashes);
	json_set_str(d, json_get(meta, "labels"), KEY_LAUNCH_TYPE, "warm");
	json_set_str(d, json_get(meta, "labels"), KEY_CREATED_BY, "controller");
	json_set_str(d, json_need_obj(d, meta, "annotations"), KEY_TEMPLATE_REF,
		     pool_template(pool));
	json_push(d, owners, meta_controller_ref(d, pool));
	json_set(d, meta, "ownerReferences", owners);

	spec = blueprint_spec(d, template);
	json_set(d, root, "spec", spec);
	pod_meta = json_need_obj(d, json_get(spec, "podTemplate"), "metadata");
	put_hashes(d, json_need_obj(d, pod_meta, "labels"), pool, hashes);
	a = json_need_obj(d, pod_meta, "annotations");
	if (!json_get(a, KEY_SAFE_TO_EVICT))
		json_set_str(d, a, KEY_SAFE_TO_EVICT, "true");
	return d;
}

struct json_doc *pool_status(const struct object *pool, uint64_t active, uint64_t ready)
{
	struct json_doc *d = json_doc_new();
	struct json *status = json_obj(d);
	char hash[9];

	name_hash(pool->name, hash);
	json_set_root(d, status);
	if (active)
		json_set_int(d, status, "replicas", (int64_t)active);
	if (ready)
		json_set_int(d, status, "readyReplicas", (int64_t)ready);
	json_set(d, status, "selector", json_new_strf(d, KEY_POOL "=%s", hash));
	if (object_generation(pool))
		json_set_int(d, status, "observedGeneration", object_generation(pool));
	return d;
}
