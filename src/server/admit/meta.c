/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"

#include <stdio.h>
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

enum {
	OWNERS_COMPARED_MAX = 256, /* each with each */
};

/*
 * What the server itself decides in an object's metadata: names, uid, times, generation, versions.
 * Whatever a client sends there is replaced or compared, never trusted.
 */
/* Where the request's path and the object disagree. */
static struct err *check_place(const struct op *op, const struct json *meta)
{
	const char *ns = json_get_str(meta, "namespace");
	const char *name = json_get_str(meta, "name");

	if ((op->kind->flags & KIND_NAMESPACED) && !str_empty(ns) && !str_eq(ns, op->ns))
		return err_new(ERR_MALFORMED, "the namespace of the provided object does not match "
					      "the namespace sent on the request");
	if (*op->name && str_empty(name) && op->external)
		return err_new(
			ERR_MALFORMED,
			"the name of the object (%s based on URL) was undeterminable: name must "
			"be provided",
			op->name);
	if (*op->name && !str_empty(name) && !str_eq(name, op->name))
		return err_new(
			ERR_MALFORMED,
			"the name of the object (%s) does not match the name on the URL (%s)", name,
			op->name);
	return NULL;
}

static void del_all(struct json *meta, const char *const *names)
{
	for (size_t i = 0; names[i]; i++)
		(void)json_del(meta, names[i]);
}

static void set_place(const struct op *op, struct json_doc *d, struct json *meta)
{
	if (op->kind->flags & KIND_NAMESPACED)
		json_set_str(d, meta, "namespace", op->ns);
	else
		(void)json_del(meta, "namespace");
}

/* A free name made from generateName; with 27^5 endings a handful of tries is plenty. */
static struct err *generate_name(struct op *op, struct json_doc *d, struct json *meta)
{
	const char *prefix = json_get_str(meta, "generateName");
	char name[256], suffix[6];
	int keep;

	if (str_empty(prefix))
		return NULL; /* validation says that a name is required */
	keep = (int)MIN(strlen(prefix), (size_t)58);
	for (int i = 0; i < 8; i++) {
		random_suffix(suffix, 5);
		(void)snprintf(name, sizeof(name), "%.*s%s", keep, prefix, suffix);
		if (!objects_find(op->admit->objects, op->kind, op->ns, name)) {
			json_set_str(d, meta, "name", name);
			return NULL;
		}
	}
	return err_new(ERR_EXISTS,
		       "%s \"%s\" already exists, the server was not able to generate a "
		       "unique name for the object",
		       op->kind->plural, name);
}

/* Whether it could be the version of an object. */
static bool is_version(const char *text)
{
	uint64_t version = 0;

	err_free(parse_uint(str_or(text, "0"), UINT64_MAX, &version));
	return version;
}

/* The same owner twice becomes one, and its client hears of it. */
static void drop_twins(struct op *op, struct json_doc *d, struct json *meta)
{
	struct json *list = json_get(meta, "ownerReferences");
	autobuf uids = { 0 };

	if (!op->external || json_len(list) < 2 || json_len(list) > OWNERS_COMPARED_MAX)
		return;
	for (size_t i = json_len(list); i-- > 1;) {
		const struct json *one = json_at(list, i);
		size_t k = 0;

		while (!json_equal(json_at(list, k), one))
			k++;
		if (k == i)
			continue;
		buf_printf(&uids, "%s%s", uids.len ? ", " : "",
			   str_or(json_get_str(one, "uid"), ""));
		json_remove(json_own(d, list), i);
	}
	if (uids.len && op->warn) {
		autofree char *text = xasprintf(
			".metadata.ownerReferences contains duplicate entries; API server dedups "
			"owner references in 1.20+, and may reject such requests as early as 1.24; "
			"please fix your requests; duplicate UID(s) observed: %s",
			buf_str(&uids));

		op->warn(op->warn_arg, text);
	}
}

struct err *meta_prepare_create(struct op *op, struct json_doc *d)
{
	static const char *const ours[] = { "uid",
					    "creationTimestamp",
					    "deletionTimestamp",
					    "deletionGracePeriodSeconds",
					    "resourceVersion",
					    "selfLink",
					    "managedFields",
					    NULL };
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	char uid[37], when[CLOCK_TEXT_MAX];
	struct err *e = check_place(op, meta);

	if (e)
		return e;
	if (op->external && is_version(json_get_str(meta, "resourceVersion")))
		return err_new(ERR_MALFORMED,
			       "resourceVersion should not be set on objects to be created");
	del_all(meta, ours);
	drop_twins(op, d, meta);
	set_place(op, d, meta);
	if (*op->name)
		json_set_str(d, meta, "name", op->name);
	if (str_empty(json_get_str(meta, "name"))) {
		e = generate_name(op, d, meta);
		if (e)
			return e;
	}
	random_uuid(uid);
	json_set_str(d, meta, "uid", uid);
	clock_format(clock_wall(), when);
	json_set_str(d, meta, "creationTimestamp", when);
	if (op->kind->flags & KIND_GENERATION)
		json_set_int(d, meta, "generation", 1);
	return NULL;
}

static void keep_from(struct json_doc *d, struct json *meta, const struct json *old,
		      const char *name)
{
	const struct json *was = json_get(old, name);

	if (!json_equal(json_get(meta, name),
			was)) /* usually it is equal, and copies cost memory */
		(void)json_set(d, meta, name, json_copy(d, was));
}

static struct err *no_version(struct op *op, const char *name)
{
	static const char field[] = "metadata.resourceVersion",
			  why[] = "Invalid value: 0: must be specified for an update";

	op->details = DETAILS_PLURAL;
	causes_add(&op->causes, CAUSE_INVALID, field, "%s", why);
	return err_new(ERR_INVALID, "%s.%s \"%s\" is invalid: %s: %s", op->kind->plural,
		       op->kind->group, name, field, why);
}

/* An empty or absent value is not a precondition. */
static struct err *check_version(struct op *op, const struct json *meta, const struct object *old)
{
	const char *rev = json_get_str(meta, "resourceVersion");
	const char *uid = json_get_str(meta, "uid");

	if (!str_empty(uid) && !str_eq(uid, old->uid) && op->patches && op->external) {
		causes_invalid_str(&op->causes, "metadata.uid", uid, "field is immutable");
	} else if (!str_empty(uid) && !str_eq(uid, old->uid)) {
		autofree char *why =
			xasprintf("Precondition failed: UID in precondition: %s, UID in "
				  "object meta: %s",
				  uid, old->uid);

		return err_changed(op->kind, old->name, why);
	}
	if (!str_empty(rev) && !str_eq(rev, "0") &&
	    !str_eq(rev, json_get_str(json_get(old->root, "metadata"), "resourceVersion")))
		return err_changed(op->kind, old->name, NULL);
	if (op->external && str_empty(rev) &&
	    (op->kind->flags & (KIND_CRD | KIND_DEFINES | KIND_CONDITIONAL)))
		return no_version(op, old->name);
	return NULL;
}

static void check_finalizers(struct op *op, const struct json *meta, const struct json *old)
{
	if (!json_get(old, "deletionTimestamp"))
		return;
	json_each(now, json_get(meta, "finalizers")) {
		bool had = false;

		json_each(was, json_get(old, "finalizers"))
			had |= json_equal(now.val, was.val);
		if (!had)
			causes_add(
				&op->causes, CAUSE_FORBIDDEN, "metadata.finalizers",
				"Forbidden: no new finalizers can be added if the object is being "
				"deleted, found new finalizers []string{\"%s\"}",
				str_or(json_str(now.val), ""));
	}
}

/* Only a deletion can begin one. Once it has begun, leaving these out changes nothing. */
static void check_deletion(struct op *op, const struct json *meta, const struct json *old)
{
	static const char *const fixed[] = { "deletionTimestamp", "deletionGracePeriodSeconds" };
	bool deleting = json_get(old, fixed[0]);

	for (size_t i = 0; i < ARRAY_LEN(fixed) && op->external; i++) {
		const struct json *v = json_get(meta, fixed[i]);
		autofree char *path = xasprintf("metadata.%s", fixed[i]);

		if (v && !(i == 0 && deleting) && !json_equal(v, json_get(old, fixed[i])))
			causes_invalid(&op->causes, path, v, "field is immutable");
	}
}

struct err *meta_prepare_update(struct op *op, struct json_doc *d, struct object *old)
{
	static const char *const kept[] = { "name",
					    "namespace",
					    "uid",
					    "resourceVersion",
					    "generation",
					    "creationTimestamp",
					    "deletionTimestamp",
					    "deletionGracePeriodSeconds",
					    NULL };
	static const char *const never[] = { "selfLink", NULL };
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	const struct json *was = json_get(old->root, "metadata");
	struct err *e = check_place(op, meta);

	if (!e)
		e = check_version(op, meta, old);
	if (e)
		return e;
	drop_twins(op, d, meta);
	check_finalizers(op, meta, was);
	check_deletion(op, meta, was);
	for (size_t i = 0; kept[i]; i++)
		keep_from(d, meta, was, kept[i]);
	if (!op->manager)
		keep_from(d, meta, was, "managedFields");
	del_all(meta, never);
	return NULL;
}
