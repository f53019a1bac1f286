/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/draft.h"

#include "api/diff.h"
#include "api/meta.h"

struct json *draft_root(struct json_doc *d, const char *api_version, const char *kind)
{
	struct json *root = json_obj(d);

	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", api_version);
	json_set_str(d, root, "kind", kind);
	return root;
}

struct json *draft_meta(struct json_doc *d, struct json *root, const char *name,
			const struct object *controller)
{
	struct json *meta = json_need_obj(d, root, "metadata"), *owners = json_arr(d);

	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", controller->ns);
	json_push(d, owners, meta_controller_ref(d, controller));
	json_set(d, meta, "ownerReferences", owners);
	return meta;
}

void draft_guard_uid(struct json_doc *d, struct json *meta, const struct object *o)
{
	json_set(d, meta, "uid", json_copy(d, json_get(json_get(o->root, "metadata"), "uid")));
}

void draft_guard(struct json_doc *d, struct json *meta, const struct object *o)
{
	const struct json *have = json_get(o->root, "metadata");

	draft_guard_uid(d, meta, o);
	json_set(d, meta, "resourceVersion", json_copy(d, json_get(have, "resourceVersion")));
}

void draft_adopt(struct json_doc *d, struct json *meta, const struct object *o,
		 const struct object *controller)
{
	const struct json *have = json_get(json_get(o->root, "metadata"), "ownerReferences");
	struct json *owners = json_arr(d);

	json_each(it, have)
		json_push(d, owners, json_copy(d, it.val));
	json_push(d, owners, meta_controller_ref(d, controller));
	json_set(d, meta, "ownerReferences", owners);
	draft_guard(d, meta, o);
}

struct json_doc *draft_status(const struct object *o)
{
	struct json_doc *d = json_doc_new();
	struct json *status = json_copy(d, object_status(o));

	json_set_root(d, status ? status : json_obj(d));
	return d;
}

struct json_doc *draft_status_patch(const struct object *o, const struct json *want)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *diff = diff_merge(d, object_status(o), want);

	if (!diff)
		return NULL;
	json_set_root(d, root);
	draft_guard_uid(d, json_need_obj(d, root, "metadata"), o);
	json_set(d, root, "status", diff);
	return take(d);
}

void draft_count(struct json_doc *d, struct json *status, const char *name, int64_t n)
{
	if (n > 0)
		json_set_int(d, status, name, n);
	else
		(void)json_del(status, name);
}
