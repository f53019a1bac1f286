/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "api/selector.h"
#include "api/storage.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "node/volume/volume_priv.h"

/*
 * Which PersistentVolume a claim can have: one that is kept for it, or the smallest that is free,
 * large enough, of its class, and as its access modes and selector want it.
 */
int64_t pv_size(const struct object *o)
{
	int64_t milli = 0;

	err_free(quantity_parse_milli(json_at_path(object_spec(o), "capacity.storage"), &milli));
	return milli / 1000;
}

static const struct json *claim_ref(const struct object *pv)
{
	return json_get(object_spec(pv), "claimRef");
}

bool pv_is_of(const struct object *pv, const struct object *pvc)
{
	return str_eq(json_get_str(claim_ref(pv), "uid"), pvc->uid);
}

/* Whether it is nobody's, or was set aside for this claim, which then has no other like it. */
static bool is_to_have(const struct object *pv, const struct object *pvc, bool *ret_kept)
{
	const struct json *ref = claim_ref(pv);
	const char *uid = json_get_str(ref, "uid");

	*ret_kept = ref && str_eq(json_get_str(ref, "namespace"), pvc->ns) &&
		    str_eq(json_get_str(ref, "name"), pvc->name) &&
		    (str_empty(uid) || str_eq(uid, pvc->uid));
	return !ref || *ret_kept;
}

static bool selects(const struct json *selector, const struct object *pv)
{
	return label_selector_matches(selector, json_at_path(pv->root, "metadata.labels"), false);
}

static const char *volume_mode(const struct object *o)
{
	return str_or(json_get_str(object_spec(o), "volumeMode"), "Filesystem");
}

static bool has_mode(const struct json *modes, const char *mode)
{
	json_each(it, modes)
		if (str_eq(json_str(it.val), mode))
			return true;
	return false;
}

static const char *pv_mismatch(const struct object *pv, const struct object *pvc, const char *class)
{
	const struct json *has = json_get(object_spec(pv), "accessModes");

	if (pv_size(pv) < pvc_size(pvc))
		return "requested PV is too small";
	if (!str_eq(str_or(json_get_str(object_spec(pv), "storageClassName"), ""), class))
		return "storageClassName does not match";
	if (!str_eq(volume_mode(pv), volume_mode(pvc)))
		return "incompatible volumeMode";
	json_each(it, json_get(object_spec(pvc), "accessModes"))
		if (!has_mode(has, json_str(it.val)))
			return "incompatible accessMode";
	return NULL;
}

struct search {
	const struct object *pvc;
	const char *class;
	struct object *best; /* a reference */
	bool kept;           /* best was set aside for the claim */
	bool kept_only;
};

static void consider(struct search *s, struct object *pv)
{
	bool kept;

	if (object_deleting(pv) || !is_to_have(pv, s->pvc, &kept) || (s->kept_only && !kept) ||
	    pv_mismatch(pv, s->pvc, s->class))
		return;
	if (!kept && !selects(json_get(object_spec(s->pvc), "selector"), pv))
		return;
	if (s->best && (s->kept > kept || (s->kept == kept && pv_size(s->best) <= pv_size(pv))))
		return;
	object_unref(s->best);
	s->best = object_ref(pv);
	s->kept = kept;
}

static void consider_named(struct volumes *v, struct search *s, const char *name)
{
	autoptr(object) pv = pv_get(v, name);

	if (pv)
		consider(s, pv);
}

struct object *pv_match(struct volumes *v, const struct object *pvc, const char *class,
			bool kept_only)
{
	struct search s = { .pvc = pvc, .class = class, .kept_only = kept_only };

	consider_named(v, &s, map_get(v->given_pvs, pvc->uid));
	map_each(it, v->free_pvs)
		consider_named(v, &s, it.key);
	return s.best;
}

char *pv_refuses(const struct object *pv, const struct object *pvc, const char *class,
		 const char **ret_reason)
{
	const char *why;
	bool kept;

	*ret_reason = "FailedBinding";
	if (!is_to_have(pv, pvc, &kept))
		return xasprintf("volume \"%s\" already bound to a different claim.", pv->name);
	*ret_reason = "VolumeMismatch";
	why = object_deleting(pv) ? "it is being deleted" : pv_mismatch(pv, pvc, class);
	return why ? xasprintf("Cannot bind to requested volume \"%s\": %s", pv->name, why) : NULL;
}
