/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"

#include <assert.h>

#include "api/kind.h"
#include "api/view.h"
#include "base/bytes.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * Objects: a tree that never changes again; the few members that everybody asks for are looked up
 * once.
 */

static uint64_t rev_of(const struct json *meta)
{
	const char *text = json_get_str(meta, "resourceVersion");
	uint64_t rev = 0;

	if (!str_empty(text))
		err_free(parse_uint(text, UINT64_MAX, &rev)); /* not one of our revisions: 0 */
	return rev;
}

struct object *object_new(const struct kind *kind, struct json_doc *doc)
{
	struct object *o = xnew(struct object);
	struct json *meta;

	o->refs = 1;
	o->kind = kind_ref(kind);
	o->doc = doc;
	o->root = json_root(doc);
	assert(json_is(o->root, JSON_OBJ));
	meta = json_get(o->root, "metadata");
	o->rev = rev_of(meta);
	o->ns = str_or(json_get_str(meta, "namespace"), "");
	o->name = str_or(json_get_str(meta, "name"), "");
	o->uid = str_or(json_get_str(meta, "uid"), "");
	return o;
}

struct object *object_ref(struct object *o)
{
	if (o)
		o->refs++;
	return o;
}

static void drop_view(struct object *o)
{
	if (o->view && o->kind->view->done)
		o->kind->view->done(o->view);
	free(o->view);
}

void object_unref(struct object *o)
{
	if (!o || --o->refs)
		return;
	drop_view(o);
	bytes_unref(o->text);
	json_doc_free(o->doc);
	kind_unref(o->kind);
	free(o);
}

size_t object_mem(const struct object *o)
{
	return sizeof(*o) + json_doc_mem(o->doc) + (o->view ? o->kind->view->size : 0);
}

struct bytes *object_text(struct object *o)
{
	if (!o->text)
		o->text = json_to_bytes(o->root);
	return o->text;
}

/* A view is a cache: making one does not change the object. */
const void *object_view(const struct object *o, const struct view_type *type)
{
	struct object *cache = (struct object *)o;

	assert(o->kind->view == type);
	if (!cache->view) {
		cache->view = xcalloc(1, type->size);
		type->decode(o, cache->view);
	}
	return cache->view;
}

struct json_doc *object_edit(const struct object *o)
{
	struct json_doc *d = json_doc_new();

	json_set_root(d, json_copy(d, o->root));
	return d;
}

struct json_doc *object_next(const struct object *o)
{
	return o->settled ? json_branch(o->doc) : object_edit(o);
}

static const struct json *meta_of(const struct object *o)
{
	return json_get(o->root, "metadata");
}

const char *object_label(const struct object *o, const char *key)
{
	return json_get_str(json_get(meta_of(o), "labels"), key);
}

const char *object_annotation(const struct object *o, const char *key)
{
	return json_get_str(json_get(meta_of(o), "annotations"), key);
}

bool object_deleting(const struct object *o)
{
	return json_get_str(meta_of(o), "deletionTimestamp");
}

int64_t object_generation(const struct object *o)
{
	return json_get_int(meta_of(o), "generation", 0);
}

struct json *object_spec(const struct object *o)
{
	return json_get(o->root, "spec");
}

struct json *object_status(const struct object *o)
{
	return json_get(o->root, "status");
}

struct json *object_controller(const struct object *o)
{
	json_each(it, json_get(meta_of(o), "ownerReferences"))
		if (json_get_bool(it.val, "controller", false))
			return it.val;
	return NULL;
}

bool object_controlled_by(const struct object *o, const char *uid)
{
	return uid && str_eq(json_get_str(object_controller(o), "uid"), uid);
}

void api_version_group(const char *api_version, char *ret, size_t size)
{
	const char *slash = api_version ? strchr(api_version, '/') : NULL;

	assert(size > 0);
	(void)snprintf(ret, size, "%.*s", slash ? (int)(slash - api_version) : 0,
		       slash ? api_version : "");
}
