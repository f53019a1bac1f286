/* SPDX-License-Identifier: Apache-2.0 */
#include "api/patch.h"

#include "api/patch_priv.h"
#include "base/str.h"

/* Recognises the type of a patch, and applies the merge patch of RFC 7386. */
enum {
	MAX_WORK = 20 * 1000 * 1000
};

static const char *const media_types[PATCH_TYPE_MAX_] = {
	[PATCH_JSON] = "application/json-patch+json",
	[PATCH_MERGE] = "application/merge-patch+json",
	[PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
	[PATCH_APPLY] = "application/apply-patch+yaml",
};

const char *patch_media_type(enum patch_type t)
{
	return media_types[t];
}

struct err *patch_type_of(const char *content_type, enum patch_type *ret)
{
	struct span rest, name = span_trim(span_cut(SPAN(str_or(content_type, "")), ';', &rest));

	for (int t = 0; t < PATCH_TYPE_MAX_; t++) {
		if (!span_eq(name, media_types[t]))
			continue;
		*ret = (enum patch_type)t;
		return NULL;
	}
	return err_new(ERR_MEDIA_TYPE, "415: Unsupported Media Type");
}

bool patch_affords(struct patch_work *w, uint64_t steps)
{
	w->over |= steps > w->left;
	if (!w->over)
		w->left -= steps;
	return !w->over;
}

struct err *patch_spend(struct patch_work *w, uint64_t steps)
{
	if (!patch_affords(w, steps))
		return err_new(ERR_TOO_LARGE,
			       "apply patch: it takes more than %d steps; split it up", MAX_WORK);
	return NULL;
}

static struct err *merge_into(struct patch_work *w, struct json *obj, const struct json *patch);

/* Where the target has no object to merge into, the nulls of the patch have nothing to remove. */
static struct err *merge_member(struct patch_work *w, struct json *obj, const char *key,
				const struct json *v)
{
	struct json *have;
	struct err *e = patch_spend(w, json_len(obj) + 1);

	if (e)
		return e;
	if (json_is(v, JSON_NULL)) {
		json_del(obj, key);
		return NULL;
	}
	if (!json_is(v, JSON_OBJ)) {
		json_set(w->d, obj, key, json_copy(w->d, v));
		return NULL;
	}
	have = json_get(obj, key);
	if (!json_is(have, JSON_OBJ))
		have = json_set(w->d, obj, key, json_obj(w->d));
	return merge_into(w, json_own(w->d, have), v);
}

/* Recurses as deeply as the patch is nested, which the parser limits. */
static struct err *merge_into(struct patch_work *w, struct json *obj, const struct json *patch)
{
	json_each(it, patch) {
		struct err *e = merge_member(w, obj, it.key, it.val);

		if (e)
			return e;
	}
	return NULL;
}

struct err *patch_merge(struct patch_work *w, const struct json *patch)
{
	if (!json_is(patch, JSON_OBJ))
		return err_new(ERR_MALFORMED, "Invalid JSON Patch");
	return merge_into(w, json_root(w->d), patch);
}

struct err *patch_apply(enum patch_type how, struct json_doc *d, const struct json *patch,
			const struct type *t)
{
	struct patch_work w = { .d = d, .left = MAX_WORK };

	switch (how) {
	case PATCH_JSON:
		return patch_json(&w, patch);
	case PATCH_MERGE:
		return patch_merge(&w, patch);
	case PATCH_STRATEGIC:
		return patch_strategic(&w, patch, t);
	case PATCH_APPLY:
	case PATCH_TYPE_MAX_:
		break;
	}
	return err_new(ERR_UNSUPPORTED, "apply patch: %s cannot be applied here",
		       media_types[PATCH_APPLY]);
}
