/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/crd/crd_priv.h"
#include "api/crd/custom.h"
#include "api/decode_priv.h"
#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/openapi.h"
#include "api/registry.h"
#include "api/schema_builtin_priv.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

/*
 * From definitions to kinds, and from our own kinds to definitions. A kind that was made from a
 * definition holds the object that it was made from: names and schema are in its tree.
 */
struct defined {
	struct object *crd; /* a reference */
	struct arena *arena;
	struct custom *custom;
};

/* What every custom resource has, whatever its schema says. */
const struct field custom_fields[] = {
	{ "apiVersion", &type_string, 0 },
	{ "kind", &type_string, 0 },
	{ "metadata", &type_meta_object_meta, 0 },
	{ 0 },
};

static void defined_release(void *arg)
{
	struct defined *def = arg;

	custom_free(def->custom);
	arena_free(def->arena);
	object_unref(def->crd);
	free(def);
}

/* Conversion None: nothing but the version changes, and what the other one does not know is left
 * out. */
static void become(const struct kind *k, struct json_doc *d)
{
	struct decode_walk w = { .d = d };
	struct place at = { .path = { .name = "" } };

	json_set_str(d, json_root(d), "apiVersion", k->api_version);
	custom_prune(&w, json_root(d), k->type->custom, &at);
}

static struct err *to_storage(const struct kind *k, struct json_doc *d)
{
	become(k->storage, d);
	return NULL;
}

static struct err *from_storage(const struct kind *k, struct json_doc *d)
{
	become(k, d);
	return NULL;
}

/* Of the kind that is stored: an object that was stored when the definition was another one. */
static struct err *from_earlier(const struct kind *k, struct json_doc *d)
{
	become(k, d);
	custom_default(d, json_root(d), k->type->custom);
	return NULL;
}

/* A list of texts, cut off where a kind has no more room: validation allows no more. */
static void copy_names(const struct json *from, const char **to)
{
	size_t n = 0;

	json_each(it, from)
		if (n < CRD_NAMES_MAX && json_str(it.val))
			to[n++] = json_str(it.val);
}

/* ".spec.a" as "spec.a" */
static const char *plain_path(const char *path)
{
	return path && *path == '.' ? path + 1 : path;
}

static const struct selectable *selectable_of(struct defined *def, const struct json *list)
{
	struct selectable *all = arena_new_n(def->arena, struct selectable, json_len(list) + 1);
	size_t n = 0;

	json_each(it, list) {
		const char *path = plain_path(json_get_str(it.val, "jsonPath"));

		if (path)
			all[n++] = (struct selectable){ path, path };
	}
	return n ? all : NULL;
}

static const struct column *columns_of(struct defined *def, const struct json *list)
{
	struct column *all = arena_new_n(def->arena, struct column, json_len(list) + 1);
	size_t n = 0;

	json_each(it, list) {
		const char *path = str_or(json_get_str(it.val, "jsonPath"), "");
		const char *help = json_get_str(it.val, "description");

		all[n++] = (struct column){
			.name = str_or(json_get_str(it.val, "name"), "-"),
			.type = str_or(json_get_str(it.val, "type"), "string"),
			.path = path,
			.help = help ? help
				     : arena_printf(def->arena,
						    "Custom resource definition column (in "
						    "JSONPath format): %s",
						    path),
			.priority = (int)json_get_int(it.val, "priority", 0),
			.format = str_or(json_get_str(it.val, "format"), ""),
		};
	}
	return n ? all : columns_plain;
}

static const struct kind_scale *scale_of(struct defined *def, const struct json *scale)
{
	struct kind_scale *s = arena_new_of(def->arena, struct kind_scale);

	if (!scale)
		return NULL;
	s->spec = plain_path(json_get_str(scale, "specReplicasPath"));
	s->status = plain_path(json_get_str(scale, "statusReplicasPath"));
	s->selector = plain_path(str_or(json_get_str(scale, "labelSelectorPath"), NULL));
	return s;
}

/* com.example.v1.Widget, as API servers name the components of OpenAPI */
static char *component_name(struct defined *def, const char *group, const char *version,
			    const char *kind)
{
	struct span rest = SPAN(group);
	autofree char *out = xstrdup("");

	while (rest.p) {
		struct span part = span_cut(rest, '.', &rest);
		char *next = xasprintf("%.*s.%s", (int)part.len, part.p, out);

		free(out);
		out = next;
	}
	return arena_printf(def->arena, "%s%s.%s", out, version, kind);
}

static const struct type *type_of(struct defined *def, const struct kind *k)
{
	struct type *t = arena_new_of(def->arena, struct type);

	*t = (struct type){ TYPE_OBJECT, component_name(def, k->group, k->version, k->kind),
			    custom_fields, .structural = true, .custom = def->custom };
	return t;
}

static unsigned flags_of(const struct json *spec, const struct json *version)
{
	const struct json *subs = json_get(version, "subresources");
	unsigned flags = KIND_CRD | KIND_GENERATION;

	if (str_eq(json_get_str(spec, "scope"), "Namespaced"))
		flags |= KIND_NAMESPACED;
	if (json_get(subs, "status"))
		flags |= KIND_STATUS;
	if (json_get(subs, "scale"))
		flags |= KIND_SCALE;
	if (json_get_bool(version, "deprecated", false))
		flags |= KIND_DEPRECATED;
	if (!json_get_bool(version, "served", false))
		flags |= KIND_UNSERVED;
	return flags;
}

static void fill_names(struct kind *k, struct defined *def, const struct json *version)
{
	const struct json *spec = object_spec(def->crd);
	const struct json *names = json_get(object_status(def->crd), "acceptedNames");

	k->group = json_get_str(spec, "group");
	k->version = json_get_str(version, "name");
	k->api_version = arena_printf(def->arena, "%s/%s", k->group, k->version);
	k->kind = json_get_str(names, "kind");
	k->list_kind = json_get_str(names, "listKind");
	k->plural = json_get_str(names, "plural");
	k->singular = str_or(json_get_str(names, "singular"), "");
	copy_names(json_get(names, "shortNames"), k->short_names);
	copy_names(json_get(names, "categories"), k->categories);
}

static struct err *kind_of(struct object *crd, const struct json *version,
			   const struct kind *storage, struct kind **ret)
{
	const struct json *schema = json_get(json_get(version, "schema"), "openAPIV3Schema");
	const struct json *subs = json_get(version, "subresources");
	struct defined *def = xnew(struct defined);
	struct kind k = { .release = defined_release, .arg = def, .storage = storage };
	struct err *e;

	def->crd = object_ref(crd);
	def->arena = arena_new();
	e = custom_new(schema, &def->custom);
	if (e) {
		defined_release(def);
		return e;
	}
	fill_names(&k, def, version);
	k.flags = flags_of(object_spec(crd), version);
	k.type = type_of(def, &k);
	k.columns = columns_of(def, json_get(version, "additionalPrinterColumns"));
	k.selectable = selectable_of(def, json_get(version, "selectableFields"));
	k.scale = scale_of(def, json_get(subs, "scale"));
	k.deprecation = json_get_str(version, "deprecationWarning");
	k.help = json_get_str(schema, "description");
	k.from_storage = storage ? from_storage : from_earlier;
	k.to_storage = storage ? to_storage : NULL;
	*ret = kind_new(&k);
	return NULL;
}

void crd_kinds_done(struct crd_kinds *ks)
{
	for (size_t i = 0; i < ks->n; i++)
		kind_unref(ks->list[i]);
	ks->n = 0;
}

/* Versions that are neither served nor stored define nothing. */
static struct err *add_versions(struct object *crd, bool storage, struct crd_kinds *ret)
{
	struct err *e = NULL;

	json_each(it, json_get(object_spec(crd), "versions")) {
		bool stored = json_get_bool(it.val, "storage", false);

		if (stored != storage || (!stored && !json_get_bool(it.val, "served", false)) ||
		    ret->n == CRD_VERSIONS_MAX)
			continue;
		e = kind_of(crd, it.val, stored ? NULL : ret->list[0], &ret->list[ret->n]);
		if (e)
			return err_wrap(e, "version %s", json_get_str(it.val, "name"));
		ret->n++;
	}
	return NULL;
}

struct err *crd_kinds_new(struct object *crd, struct crd_kinds *ret)
{
	struct err *e;

	ret->n = 0;
	e = add_versions(crd, true, ret);
	if (!e && ret->n)
		e = add_versions(crd, false, ret);
	if (e)
		crd_kinds_done(ret);
	return e;
}

size_t crd_parts(const struct kinds *ks)
{
	size_t n, parts = 0;
	const struct kind *const *all = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++)
		if (all[i]->type->custom)
			parts += custom_nodes(all[i]->type->custom);
	return parts;
}

/* Ours */

bool crd_is_own(const struct kind *k)
{
	return k->type->structural && !k->type->custom && !k->storage;
}

const struct kind *crd_own(const struct kinds *ks, const char *name)
{
	const struct kind *k = kinds_stored(ks, name);

	return k && crd_is_own(k) ? k : NULL;
}

/* Other versions of the same kind are served, and stored as this one. */
static void add_others(struct json_doc *d, const struct kinds *ks, const struct kind *k)
{
	struct json *versions = json_at_path(json_root(d), "spec.versions");
	size_t n;
	const struct kind *const *all = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++)
		if (all[i]->storage == k && str_eq(all[i]->group, k->group))
			json_push(d, versions, openapi_crd_version(d, all[i]));
}

/* A group that belongs to Kubernetes' community needs an approval, or says that it has none. */
static void approve(struct json_doc *d, const struct kind *k)
{
	struct json *meta = json_get(json_root(d), "metadata");

	if (str_ends(k->group, ".k8s.io"))
		json_set_str(d, json_need_obj(d, meta, "annotations"), "api-approved.kubernetes.io",
			     "unapproved, served by Cay itself");
}

struct json_doc *crd_of_own(const struct kinds *ks, const struct kind *k)
{
	struct json_doc *d = openapi_crd(k);

	add_others(d, ks, k);
	approve(d, k);
	return d;
}
