/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/cay/visibility.h"
#include "api/diff.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/view_sandbox.h"
#include "api/view_template.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/template/blueprint.h"

/*
 * The Sandbox of a claim: made cold from the template, taken warm from the pool, or kept in line
 * afterwards. All three want the same Pod metadata, so that a later pass finds nothing to do.
 */

static void put_system_labels(struct json_doc *d, struct json *labels, const struct object *claim,
			      const struct object *template)
{
	char hash[9];

	json_set_str(d, labels, KEY_CLAIM_UID, claim->uid);
	json_set_str(d, labels, KEY_CREATED_BY, str_or(claim_view(claim)->created_by, NULL));
	if (!template)
		return;
	name_hash(template->name, hash);
	json_set_str(d, labels, KEY_TEMPLATE_REF_HASH, hash);
}

struct err *claim_pod_metadata(struct json_doc *d, const struct object *claim,
			       const struct object *template, struct json **ret)
{
	struct json *meta = json_copy(d, template_view(template)->blueprint.pod_metadata);
	struct err *e;

	if (!json_is(meta, JSON_OBJ))
		meta = json_obj(d);
	put_system_labels(d, json_need_obj(d, meta, "labels"), claim, template);
	e = claim_merge_metadata(d, meta, claim);
	if (!e)
		*ret = meta;
	return e;
}

/* If the template cannot be read: what the Sandbox has, without the pool's own mark. */
static struct err *kept_metadata(struct json_doc *d, const struct object *claim,
				 const struct object *sandbox, struct json **ret)
{
	struct json *meta = json_copy(d, sandbox_view(sandbox)->blueprint.pod_metadata);
	struct json *annotations;
	struct err *e;

	if (!json_is(meta, JSON_OBJ))
		meta = json_obj(d);
	annotations = json_get(meta, "annotations");
	if (str_eq(json_get_str(annotations, KEY_SAFE_TO_EVICT), "true"))
		(void)json_del(annotations, KEY_SAFE_TO_EVICT);
	json_set_str(d, json_need_obj(d, meta, "labels"), KEY_CLAIM_UID, claim->uid);
	e = claim_merge_metadata(d, meta, claim);
	if (!e)
		*ret = meta;
	return e;
}

/* Whom the Sandbox is for is said by its claim: the server has said who that is. The annotations of
 * have are changed to that. */
static void put_visibility(struct json_doc *d, struct json *meta, const struct object *claim,
			   const struct object *have)
{
	static const char *const keys[] = { KEY_VISIBILITY, KEY_OWNER };
	bool says = object_annotation(claim, KEY_VISIBILITY);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *want = says ? object_annotation(claim, keys[i]) : NULL;
		const char *is = have ? object_annotation(have, keys[i]) : NULL;

		if (str_eq(want, is))
			continue;
		json_set(d, json_need_obj(d, meta, "annotations"), keys[i],
			 want ? json_new_str(d, want) : json_new_null(d));
	}
}

/* Cold Sandboxes */

static void put_cold_meta(struct json_doc *d, struct json *root, const struct object *claim,
			  const struct object *template)
{
	struct json *meta = draft_meta(d, root, claim->name, claim), *labels, *annotations;

	labels = json_need_obj(d, meta, "labels");
	put_system_labels(d, labels, claim, template);
	json_set_str(d, labels, KEY_LAUNCH_TYPE, "cold");
	annotations = json_need_obj(d, meta, "annotations");
	json_set_str(d, annotations, KEY_TEMPLATE_REF, template->name);
	json_set_str(d, annotations, KEY_TRACE, str_or(claim_view(claim)->trace, NULL));
	put_visibility(d, meta, claim, NULL);
}

struct trouble claim_build_cold(const struct object *claim, const struct object *template,
				struct json_doc **ret)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = draft_root(d, API_SANDBOX, "Sandbox");
	struct json *spec = blueprint_spec(d, template), *vcts = NULL, *pod_meta = NULL;
	struct err *e;

	put_cold_meta(d, root, claim, template);
	json_set(d, root, "spec", spec);
	e = claim_merge_vcts(d, template, claim, &vcts);
	if (e)
		return (struct trouble){ TROUBLE_VCT, e };
	json_set(d, spec, "volumeClaimTemplates", vcts);
	e = claim_pod_metadata(d, claim, template, &pod_meta);
	if (e)
		return (struct trouble){ TROUBLE_OTHER, e };
	json_set(d, json_get(spec, "podTemplate"), "metadata", pod_meta);
	e = claim_inject_env(d, json_at_path(spec, "podTemplate.spec"), template, claim);
	if (e)
		return (struct trouble){ err_is(e, ERR_FORBIDDEN) ? TROUBLE_ENV : TROUBLE_OTHER,
					 e };
	*ret = take(d);
	return (struct trouble){ 0 };
}

/* Warm Sandboxes, and keeping any in line */

static void put_pod_metadata(struct json_doc *d, struct json *root, const struct object *sandbox,
			     const struct json *want)
{
	static const char *const maps[] = { "labels", "annotations" };
	const struct json *have = sandbox_view(sandbox)->blueprint.pod_metadata;
	struct json *patch = json_obj(d);

	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		json_set(d, patch, maps[i],
			 diff_strings(d, json_get(have, maps[i]), json_get(want, maps[i])));
	if (json_len(patch))
		json_set(d, json_need_obj(d, json_need_obj(d, root, "spec"), "podTemplate"),
			 "metadata", patch);
}

static struct json *map_copy(struct json_doc *d, const struct object *o, const char *map)
{
	struct json *copy = json_copy(d, json_get(json_get(o->root, "metadata"), map));

	return json_is(copy, JSON_OBJ) ? copy : json_obj(d);
}

/* Nothing that a condition speaks of changes with the adoption, only the generation does; what was
 * true of the last one is true of the next. */
static void put_generation(struct json_doc *d, struct json *root, const struct object *sandbox)
{
	int64_t generation = object_generation(sandbox);
	struct json *conditions;

	if (!json_get(root, "spec") || !json_len(json_get(object_status(sandbox), "conditions")))
		return;
	conditions = json_copy(d, json_get(object_status(sandbox), "conditions"));
	json_each(it, conditions)
		if (json_get_int(it.val, "observedGeneration", 0) == generation)
			json_set_int(d, it.val, "observedGeneration", generation + 1);
	json_set(d, json_need_obj(d, root, "status"), "conditions", conditions);
}

/* What it takes to put the Sandbox back when the claim has ended, in the write that takes it away:
 * with the finalizer no deletion goes past the controller that does it. */
static void put_way_back(struct json_doc *d, struct json *meta, const struct object *sandbox)
{
	struct json *finalizers = json_arr(d);

	json_each(it, json_get(json_get(sandbox->root, "metadata"), "finalizers"))
		if (!str_eq(json_str(it.val), FINALIZER_RESET))
			json_push(d, finalizers, json_copy(d, it.val));
	json_push_str(d, finalizers, FINALIZER_RESET);
	json_set(d, meta, "finalizers", finalizers);
	json_set_str(d, json_need_obj(d, meta, "annotations"), KEY_RESET_POOL,
		     sandbox_view(sandbox)->owner.name);
}

struct err *claim_build_adoption(const struct object *claim, const struct object *sandbox,
				 const struct object *template, struct json_doc **ret)
{
	autoptr(json_doc) d = json_doc_new();
	const struct json *have = json_get(sandbox->root, "metadata");
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");
	struct json *labels = map_copy(d, sandbox, "labels"), *owners = json_arr(d);
	struct json *pod_meta = NULL;
	struct err *e;

	json_set_root(d, root);
	e = template ? claim_pod_metadata(d, claim, template, &pod_meta)
		     : kept_metadata(d, claim, sandbox, &pod_meta);
	if (e)
		return e;
	(void)json_del(labels, KEY_POOL);
	(void)json_del(labels, KEY_POD_TEMPLATE_HASH);
	(void)json_del(labels, KEY_TEMPLATE_HASH);
	put_system_labels(d, labels, claim, template);
	json_set_str(d, labels, KEY_LAUNCH_TYPE, "warm");
	json_set(d, meta, "labels", diff_strings(d, json_get(have, "labels"), labels));
	if (!str_empty(claim_view(claim)->trace))
		json_set_str(d, json_need_obj(d, meta, "annotations"), KEY_TRACE,
			     claim_view(claim)->trace);
	put_visibility(d, meta, claim, sandbox);
	if (template && template_view(template)->resets)
		put_way_back(d, meta, sandbox);
	json_push(d, owners, meta_controller_ref(d, claim));
	json_set(d, meta, "ownerReferences", owners);
	draft_guard(d, meta, sandbox);
	put_pod_metadata(d, root, sandbox, pod_meta);
	put_generation(d, root, sandbox);
	*ret = take(d);
	return NULL;
}

/* An existing launch type is never changed. */
static const char *launch_type(const struct object *claim, const struct object *sandbox)
{
	const char *is = sandbox_view(sandbox)->launch_type;
	const char *assigned = claim_view(claim)->assigned;

	if (!str_empty(is))
		return is;
	return str_eq(assigned, sandbox->name) || !str_eq(sandbox->name, claim->name) ? "warm"
										      : "cold";
}

struct err *claim_build_sync(const struct object *claim, const struct object *sandbox,
			     const struct object *template, struct json_doc **ret)
{
	autoptr(json_doc) d = json_doc_new();
	const struct json *have = json_get(json_get(sandbox->root, "metadata"), "labels");
	struct json *root = json_obj(d), *labels = map_copy(d, sandbox, "labels"), *diff;
	struct json *pod_meta = NULL, *meta = json_obj(d);
	char hash[9];
	struct err *e;

	*ret = NULL;
	json_set_root(d, root);
	json_set_str(d, labels, KEY_LAUNCH_TYPE, launch_type(claim, sandbox));
	if (template) {
		e = claim_pod_metadata(d, claim, template, &pod_meta);
		if (e)
			return e;
		name_hash(template->name, hash);
		json_set_str(d, labels, KEY_TEMPLATE_REF_HASH, hash);
		json_set_str(d, labels, KEY_CREATED_BY,
			     str_or(claim_view(claim)->created_by, NULL));
		put_pod_metadata(d, root, sandbox, pod_meta);
	}
	diff = diff_strings(d, have, labels);
	if (diff)
		json_set(d, meta, "labels", diff);
	put_visibility(d, meta, claim, sandbox);
	if (json_len(meta))
		json_set(d, root, "metadata", meta);
	if (json_len(root))
		*ret = take(d);
	return NULL;
}

struct json_doc *claim_build_unassign(void)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");

	json_set_root(d, root);
	json_set(d, json_need_obj(d, meta, "annotations"), KEY_SANDBOX_NAME, json_new_null(d));
	json_set(d, json_need_obj(d, meta, "labels"), KEY_SANDBOX_NAME, json_new_null(d));
	return d;
}
