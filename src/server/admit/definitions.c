/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/crd/crd.h"
#include "api/crd/custom.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * CustomResourceDefinitions as far as the server knows them. The write that stores one also
 * registers its kinds, so that the next request finds them; the write that ends one takes them out
 * again. Its objects are gone by then: the finalizer that only control/cluster/definition.c may
 * take away sees to that, after a crash as well.
 */
enum {
	DEFINITIONS_MAX = 1000,
	PARTS_MAX = 512 * 1024, /* of the schemas of all of them together */
};

static void keep(struct json_doc *d, const struct object *old, const char *name)
{
	(void)json_set(d, json_root(d), name, json_copy(d, json_get(old->root, name)));
}

static bool has_finalizer(const struct json *obj)
{
	json_each(it, json_get(json_get(obj, "metadata"), "finalizers"))
		if (str_eq(json_str(it.val), CRD_FINALIZER))
			return true;
	return false;
}

static void warn(const struct op *op, const char *text)
{
	if (op->warn)
		op->warn(op->warn_arg, text);
}

/* Ours is what it is, whatever a client writes: it may be labelled and annotated, as kubectl apply
 * does. */
static void keep_own(const struct op *op, struct json_doc *d, const struct object *old)
{
	autofree char *text = xasprintf("CustomResourceDefinition %s is built into this server: "
					"its spec stays as it is",
					old->name);

	if (!json_equal(json_get(json_root(d), "spec"), json_get(old->root, "spec")))
		warn(op, text);
	keep(d, old, "spec");
	keep(d, old, "status");
}

static void keep_finalizer(const struct op *op, struct json_doc *d, const struct object *old)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");

	if (!op->external || !has_finalizer(old->root) || has_finalizer(json_root(d)))
		return;
	json_push_str(d, json_need_arr(d, meta, "finalizers"), CRD_FINALIZER);
	warn(op, "the finalizer " CRD_FINALIZER " stays until all objects of the kind are gone; "
		 "delete them, or take their own finalizers away");
}

static struct err *check_room(const struct op *op, const char *name)
{
	const struct objects *os = op->admit->objects;
	autobuf prefix = { 0 };
	char why[128];

	key_prefix(&prefix, op->kind, NULL);
	if (store_count(os->store, buf_str(&prefix)) < DEFINITIONS_MAX &&
	    crd_parts(os->kinds) < PARTS_MAX)
		return NULL;
	(void)snprintf(why, sizeof(why),
		       "there may be %d definitions, whose schemas have %d parts together; delete "
		       "some first",
		       DEFINITIONS_MAX, PARTS_MAX);
	return err_forbidden(op->kind, name, why);
}

struct err *definition_settle(struct op *op, struct json_doc *d, const struct object *old)
{
	struct json *root = json_own_all(d, json_root(d));
	const char *name = str_or(json_get_str(json_get(root, "metadata"), "name"), "");
	const struct kinds *ks = op->admit->objects->kinds;

	if (old && op->external && crd_own(ks, name)) {
		keep_own(op, d, old);
		return NULL;
	}
	if (old)
		keep_finalizer(op, d, old);
	crd_settle(d, ks, clock_wall());
	if (op->warn && (!old || !json_equal(json_get(root, "spec"), json_get(old->root, "spec"))))
		crd_warn(root, op->warn, op->warn_arg);
	return old || crd_own(ks, name) ? NULL : check_room(op, name);
}

struct err *definition_may_go(const struct op *op, const struct object *o)
{
	if (!(o->kind->flags & KIND_DEFINES) || !crd_own(op->admit->objects->kinds, o->name))
		return NULL;
	return err_forbidden(op->kind, o->name, "this definition is built into the server");
}

struct err *definition_open(const struct op *op)
{
	const struct objects *os = op->admit->objects;
	const struct object *crd;
	autofree char *name = NULL;

	if (!op->kind->type->custom)
		return NULL;
	name = xasprintf("%s.%s", op->kind->plural, op->kind->group);
	crd = objects_find(os, os->definition, "", name);
	if (!crd || !object_deleting(crd))
		return NULL;
	return err_new(ERR_METHOD,
		       "create not allowed while custom resource definition is terminating");
}

/* The registry */

/* One that the definition has made, in the order in which they can be removed: those that are
 * stored as another one come first. NULL: none is left. */
static const struct kind *next_kind(const struct kinds *ks, const char *group, const char *plural)
{
	const struct kind *stored = NULL;
	size_t n;
	const struct kind *const *all = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++) {
		if (!all[i]->type->custom || !str_eq(all[i]->group, group) ||
		    !str_eq(all[i]->plural, plural))
			continue;
		if (all[i]->storage)
			return all[i];
		stored = all[i];
	}
	return stored;
}

static void remove_kinds(struct kinds *ks, const char *group, const char *plural)
{
	const struct kind *k;
	struct err *e = NULL;

	while (!e && (k = next_kind(ks, group, plural)))
		e = kinds_remove(ks, k);
	if (e)
		log_error("kind of a definition cannot be removed", KV("err", e));
	err_free(e);
}

static void add_kinds(struct kinds *ks, struct object *crd)
{
	struct crd_kinds made = { 0 };
	struct err *e = crd_kinds_new(crd, &made);

	for (size_t i = 0; !e && i < made.n; i++)
		e = kinds_add(ks, made.list[i]);
	if (e)
		log_warn("kind of a stored definition is not served", KV("definition", crd->name),
			 KV("err", e));
	crd_kinds_done(&made);
	err_free(e);
}

static void replace_kinds(struct kinds *ks, const struct object *old, struct object *now)
{
	const struct json *spec = object_spec(now ? now : old);

	if (old)
		remove_kinds(ks, json_get_str(spec, "group"),
			     str_or(json_get_str(json_get(spec, "names"), "plural"), ""));
	if (now && crd_established(now->root))
		add_kinds(ks, now);
}

/* Names that the one before had are free now: others of the group may have waited for them. */
static void settle_others(struct op *op, const char *group)
{
	const struct objects *os = op->admit->objects;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };
	autofree char *after = NULL;

	key_prefix(&prefix, os->definition, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), after))) {
		autoptr(object) o = objects_of_entry(os, en);
		autoop again = { .admit = op->admit,
				 .user = "system:cay:server",
				 .kind = os->definition,
				 .ns = "",
				 .sub = "" };
		struct err *e = NULL;

		free(after);
		after = xstrdup(en->key);
		if (!o || crd_own(os->kinds, o->name) || crd_names_accepted(o->root) ||
		    !str_eq(json_get_str(object_spec(o), "group"), group))
			continue;
		again.name = o->name;
		e = op_update(&again, object_edit(o));
		if (e)
			log_warn("names of a definition cannot be settled",
				 KV("definition", o->name), KV("err", e));
		err_free(e);
	}
}

void definition_changed(struct op *op, const struct object *old, struct object *now)
{
	struct kinds *ks = op->admit->objects->kinds;
	const struct object *any = now ? now : old;

	if (!(any->kind->flags & KIND_DEFINES) || crd_own(ks, any->name) ||
	    (old && now && crd_same_kinds(now->root, old->root)))
		return;
	replace_kinds(ks, old, now);
	if (old)
		settle_others(op, json_get_str(object_spec(any), "group"));
}

void definitions_load(struct admit *a)
{
	const struct objects *os = a->objects;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, os->definition, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(os, en);

		if (o && !crd_own(os->kinds, o->name) && crd_established(o->root))
			add_kinds(os->kinds, o);
	}
}

/* Ours */

static struct err *need_own(struct admit *a, const struct kind *k)
{
	struct json_doc *d = crd_of_own(a->objects->kinds, k);
	autofree char *name = xstrdup(json_get_str(json_get(json_root(d), "metadata"), "name"));
	autoop op = { .admit = a,
		      .user = "system:cay:server",
		      .kind = a->objects->definition,
		      .ns = "",
		      .name = name,
		      .sub = "" };
	const struct object *had = objects_find(a->objects, op.kind, "", name);
	struct json_doc *next = NULL;
	struct err *e;

	if (had) { /* an earlier version of this server may have had other fields */
		next = object_edit(had);
		(void)json_set(next, json_root(next), "spec",
			       json_copy(next, json_get(json_root(d), "spec")));
		json_doc_free(d);
		d = next;
	}
	e = op_decode(&op, &(struct decode_input){ .media = DECODE_TREE, .tree = d }, &next);
	if (e)
		return e;
	return had ? op_update(&op, next) : op_create(&op, next);
}

struct err *definitions_bootstrap(struct admit *a)
{
	size_t n;
	const struct kind *const *all = kinds_all(a->objects->kinds, &n);

	for (size_t i = 0; i < n; i++) {
		struct err *e = crd_is_own(all[i]) ? need_own(a, all[i]) : NULL;

		if (e)
			return err_wrap(e, "define %s", all[i]->plural);
	}
	return NULL;
}
