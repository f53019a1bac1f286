/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include "api/meta.h"
#include "api/openapi_priv.h"
#include "api/patch.h"
#include "api/registry.h"
#include "base/map.h"
#include "base/str.h"

/*
 * OpenAPI v3, one document per group and version: the paths of its kinds, and every type they
 * reach. kubectl reads from it what `explain` shows, how to merge lists, and whether the server
 * validates.
 */
struct writer {
	struct openapi_writer types; /* first, so that a pointer to it is one to the writer */
	const struct kinds *kinds;
	struct json_doc *d;
	struct json *paths, *schemas;
	struct map *done;          /* component name → anything: written or waiting */
	const struct type **queue; /* waiting to be written */
	size_t n_queue;
};

static void enqueue(void *arg, const struct type *t)
{
	struct writer *w = arg;

	if (map_has(w->done, t->name))
		return;
	map_put(w->done, t->name, w);
	w->queue = xrealloc(w->queue, (w->n_queue + 1) * sizeof(*w->queue));
	w->queue[w->n_queue++] = t;
}

static struct json *gvk_of(struct json_doc *d, const struct kind *k)
{
	struct json *gvk = json_obj(d);

	json_set_str(d, gvk, "group", k->group);
	json_set_str(d, gvk, "kind", k->kind);
	json_set_str(d, gvk, "version", k->version);
	return gvk;
}

/* Clients find a type by the x-kubernetes-group-version-kind of its component. */
static void add_component(struct writer *w, const struct type *t)
{
	struct json *s = openapi_type(&w->types, t), *list;
	size_t n;
	const struct kind *const *all = kinds_served(w->kinds, &n);

	for (size_t i = 0; i < n; i++) {
		if (all[i]->type != t)
			continue;
		list = json_need_arr(w->d, s, "x-kubernetes-group-version-kind");
		json_push(w->d, list, gvk_of(w->d, all[i]));
		json_set_str(w->d, s, "description", all[i]->help);
	}
	json_set(w->d, w->schemas, t->name, s);
}

/* Operations */
enum {
	OP_LIST = 1,
	OP_CREATE = 2,
	OP_DELETE_ALL = 4,
	OP_GET = 8,
	OP_UPDATE = 16,
	OP_PATCH = 32,
	OP_DELETE = 64,
};

static const struct operation {
	unsigned bit;
	const char *method, *action, *verb;
	bool writes; /* takes an object, and the parameters of a write */
} operations[] = {
	{ OP_LIST, "get", "list", "list", false },
	{ OP_GET, "get", "get", "read", false },
	{ OP_CREATE, "post", "post", "create", true },
	{ OP_UPDATE, "put", "put", "replace", true },
	{ OP_PATCH, "patch", "patch", "patch", true },
	{ OP_DELETE, "delete", "delete", "delete", false },
	{ OP_DELETE_ALL, "delete", "deletecollection", "deletecollection", false },
};

static void add_parameter(struct json_doc *d, struct json *list, const char *where,
			  const char *name)
{
	struct json *p = json_obj(d), *schema = json_obj(d);

	json_set_str(d, schema, "type", "string");
	json_set_bool(d, schema, "uniqueItems", true);
	json_set_str(d, p, "name", name);
	json_set_str(d, p, "in", where);
	if (str_eq(where, "path"))
		json_set_bool(d, p, "required", true);
	json_set(d, p, "schema", schema);
	json_push(d, list, p);
}

static struct json *ref_to(struct json_doc *d, const struct type *t)
{
	struct json *media = json_obj(d), *schema = json_obj(d);

	if (t)
		json_set(d, schema, "$ref", json_new_strf(d, "#/components/schemas/%s", t->name));
	else
		json_set_str(d, schema, "type", "object");
	json_set(d, media, "schema", schema);
	return media;
}

/* Custom resources offer no strategic merge patch: clients do not expect it of them. */
static struct json *body_of(struct json_doc *d, const struct operation *op, const struct kind *k)
{
	struct json *body = json_obj(d), *content = json_obj(d);

	json_set(d, body, "content", content);
	if (op->bit != OP_PATCH) {
		json_set(d, content, "application/json", ref_to(d, k->type));
		return body;
	}
	json_set(d, content, patch_media_type(PATCH_JSON), ref_to(d, NULL));
	json_set(d, content, patch_media_type(PATCH_MERGE), ref_to(d, NULL));
	if (!(k->flags & KIND_CRD))
		json_set(d, content, patch_media_type(PATCH_STRATEGIC), ref_to(d, NULL));
	return body;
}

static struct json *operation_of(struct json_doc *d, const struct operation *op,
				 const struct kind *k, const char *sub)
{
	static const char *const of_write[] = { "dryRun", "fieldManager", "fieldValidation" };
	struct json *o = json_obj(d), *ok = json_obj(d), *content = json_obj(d), *params;

	json_set(d, o, "operationId",
		 json_new_strf(d, "%s%s%s%s%s", op->verb, k->version,
			       k->flags & KIND_NAMESPACED ? "Namespaced" : "", k->kind, sub));
	if (op->writes) {
		params = json_need_arr(d, o, "parameters");
		for (size_t i = 0; i < ARRAY_LEN(of_write); i++)
			add_parameter(d, params, "query", of_write[i]);
		json_set(d, o, "requestBody", body_of(d, op, k));
	}
	json_set_str(d, ok, "description", "OK");
	if (op->bit != OP_LIST && op->bit != OP_DELETE_ALL) {
		json_set(d, content, "application/json", ref_to(d, k->type));
		json_set(d, ok, "content", content);
	}
	json_set(d, json_need_obj(d, o, "responses"), "200", ok);
	json_set_str(d, o, "x-kubernetes-action", op->action);
	json_set(d, o, "x-kubernetes-group-version-kind", gvk_of(d, k));
	return o;
}

static void add_path(struct writer *w, const struct kind *k, const char *path, unsigned ops,
		     const char *sub)
{
	struct json *item = json_obj(w->d), *params = json_arr(w->d);

	for (size_t i = 0; i < ARRAY_LEN(operations); i++)
		if (operations[i].bit & ops)
			json_set(w->d, item, operations[i].method,
				 operation_of(w->d, &operations[i], k, sub));
	if (strstr(path, "{namespace}"))
		add_parameter(w->d, params, "path", "namespace");
	if (strstr(path, "{name}"))
		add_parameter(w->d, params, "path", "name");
	if (json_len(params))
		json_set(w->d, item, "parameters", params);
	json_set(w->d, w->paths, path, item);
}

static void add_kind(struct writer *w, const struct kind *k)
{
	bool namespaced = k->flags & KIND_NAMESPACED, measured = k->flags & KIND_MEASURED;
	autofree char *root = *k->group ? xasprintf("/apis/%s/%s", k->group, k->version)
					: xasprintf("/api/%s", k->version);
	autofree char *all = xasprintf("%s/%s", root, k->plural);
	autofree char *some = namespaced
				      ? xasprintf("%s/namespaces/{namespace}/%s", root, k->plural)
				      : xstrdup(all);
	autofree char *one = xasprintf("%s/{name}", some);
	autofree char *status = xasprintf("%s/status", one), *scale = xasprintf("%s/scale", one);

	if (namespaced)
		add_path(w, k, all, OP_LIST, "ForAllNamespaces");
	add_path(w, k, some, OP_LIST | (measured ? 0 : OP_CREATE | OP_DELETE_ALL), "");
	add_path(w, k, one, OP_GET | (measured ? 0 : OP_UPDATE | OP_PATCH | OP_DELETE), "");
	if (k->flags & KIND_STATUS)
		add_path(w, k, status, OP_GET | OP_UPDATE | OP_PATCH, "Status");
	if (k->flags & KIND_SCALE)
		add_path(w, k, scale, OP_GET | OP_UPDATE | OP_PATCH, "Scale");
	enqueue(w, k->type);
}

static void add_all(struct writer *w, const char *group, const char *version)
{
	size_t n;
	const struct kind *const *all = kinds_served(w->kinds, &n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i]->group, group) && str_eq(all[i]->version, version))
			add_kind(w, all[i]);
	while (w->n_queue)
		add_component(w, w->queue[--w->n_queue]);
}

struct json_doc *openapi_v3(const struct kinds *ks, const char *group, const char *version)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *info = json_obj(d), *components = json_obj(d);
	autoptr(map) done = map_new(NULL);
	struct writer w = { .kinds = ks, .d = d, .done = done };

	w.types = (struct openapi_writer){ .d = d, .seen = enqueue, .arg = &w };
	json_set_root(d, root);
	json_set_str(d, root, "openapi", "3.0.0");
	json_set_str(d, info, "title", "Cay");
	json_set_str(d, info, "version", CAY_VERSION);
	json_set(d, root, "info", info);
	w.paths = json_set(d, root, "paths", json_obj(d));
	json_set(d, root, "components", components);
	w.schemas = json_set(d, components, "schemas", json_obj(d));
	add_all(&w, group, version);
	free(w.queue);
	return d;
}

static void add_to_index(const struct kinds *ks, struct json_doc *d, struct json *paths,
			 const struct kind *k)
{
	autofree char *path = *k->group ? xasprintf("apis/%s/%s", k->group, k->version)
					: xasprintf("api/%s", k->version);
	autoptr(json_doc) doc = NULL;
	struct json *entry;
	char hash[9];

	if (json_get(paths, path))
		return;
	doc = openapi_v3(ks, k->group, k->version);
	name_hash_json(json_root(doc), hash);
	entry = json_obj(d);
	json_set(d, entry, "serverRelativeURL",
		 json_new_strf(d, "/openapi/v3/%s?hash=%s", path, hash));
	json_set(d, paths, path, entry);
}

struct json_doc *openapi_v3_index(const struct kinds *ks)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *paths = json_obj(d);
	size_t n;
	const struct kind *const *all = kinds_served(ks, &n);

	json_set_root(d, root);
	json_set(d, root, "paths", paths);
	for (size_t i = 0; i < n; i++)
		add_to_index(ks, d, paths, all[i]);
	return d;
}
