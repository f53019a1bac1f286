/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/view_pool.h"
#include "base/str.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/pool/pool_priv.h"
#include "control/template/blueprint.h"

/*
 * What a pool writes: new members, patches of members, its status.
 */

static void put_hashes(struct json_doc *d, struct json *labels, const struct object *pool,
		       const char *const hashes[2])
{
	char hash[9];

	name_hash(pool->name, hash);
	json_set_str(d, labels, KEY_POOL, hash);
	name_hash(pool_view(pool)->template, hash);
	json_set_str(d, labels, KEY_TEMPLATE_REF_HASH, hash);
	json_set_str(d, labels, KEY_POD_TEMPLATE_HASH, hashes[1]);
	json_set_str(d, labels, KEY_TEMPLATE_HASH, hashes[0]);
}

struct json_doc *member_build(const struct object *pool, const struct object *template,
			      const char *blueprint_hash, const char *pod_hash)
{
	const char *const hashes[2] = { blueprint_hash, pod_hash };
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_SANDBOX, "Sandbox"), *meta, *spec, *pod_meta, *a;

	meta = draft_meta(d, root, NULL, pool);
	json_set(d, meta, "generateName", json_new_strf(d, "%s-", pool->name));
	put_hashes(d, json_need_obj(d, meta, "labels"), pool, hashes);
	json_set_str(d, json_get(meta, "labels"), KEY_LAUNCH_TYPE, "warm");
	json_set_str(d, json_get(meta, "labels"), KEY_CREATED_BY, "controller");
	json_set_str(d, json_need_obj(d, meta, "annotations"), KEY_TEMPLATE_REF,
		     pool_view(pool)->template);

	spec = blueprint_spec(d, template);
	json_set(d, root, "spec", spec);
	pod_meta = json_need_obj(d, json_get(spec, "podTemplate"), "metadata");
	put_hashes(d, json_need_obj(d, pod_meta, "labels"), pool, hashes);
	a = json_need_obj(d, pod_meta, "annotations");
	if (!json_get(a, KEY_SAFE_TO_EVICT))
		json_set_str(d, a, KEY_SAFE_TO_EVICT, "true");
	return d;
}

struct json_doc *member_patch(const struct object *sb, const struct object *pool)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");

	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, meta, "labels"), KEY_LAUNCH_TYPE, "warm");
	if (pool)
		draft_adopt(d, meta, sb, pool);
	else
		draft_guard(d, meta, sb);
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
	if (pool_view(pool)->generation)
		json_set_int(d, status, "observedGeneration", pool_view(pool)->generation);
	return d;
}
