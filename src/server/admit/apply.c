/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/managed.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Server-side apply: of an object that exists, the next state is made by api/apply and goes the way
 * of any patch; one that does not is created from what is applied.
 */
#define BEFORE "before-first-apply"

static struct err *check_patch(const struct op *op, const struct json *patch)
{
	const struct kind *k = op->kind;
	const char *version = str_or(json_get_str(patch, "apiVersion"), "");
	const char *kind = str_or(json_get_str(patch, "kind"), "");

	if (!str_eq(version, kind_api_version(k)) || !str_eq(kind, k->kind))
		return err_new(ERR_MALFORMED, "invalid object type: %s%s, Kind=%s",
			       strchr(version, '/') ? "" : "/", version, kind);
	if (json_get(json_get(patch, "metadata"), "managedFields"))
		return err_new(ERR_MALFORMED, "metadata.managedFields must be nil");
	return NULL;
}

static struct err *check_types(const struct op *op, struct fields_mem *mem,
			       const struct json *patch)
{
	const struct json *meta = json_get(patch, "metadata");
	struct err *e = typed_check(mem, patch, type_in_full(op->kind->type));
	const char *version = kind_api_version(op->kind);

	if (!e)
		return NULL;
	return err_recode(err_wrap(e, "failed to create typed patch object (%s/%s; %s%s, Kind=%s)",
				   str_or(json_get_str(meta, "namespace"), ""),
				   str_or(json_get_str(meta, "name"), ""),
				   strchr(version, '/') ? "" : "/", version, op->kind->kind),
			  ERR_INTERNAL);
}

static struct apply request(struct op *op, struct fields_mem *mem, const struct json *patch)
{
	bool status = str_eq(op->sub, "status");

	return (struct apply){
		.mem = mem,
		.type = type_in_full(op->kind->type),
		.patch = patch,
		.by = {
			.name = op->manager,
			.applied = true,
			.api_version = kind_api_version(op->kind),
			.sub = op->manager_sub ? op->manager_sub : op->sub,
		},
		.force = op->options.force,
		.only = status ? "status" : NULL,
		.never = !status && (op->kind->flags & KIND_STATUS) ? "status" : NULL,
		.causes = &op->causes,
	};
}

static void keep_owners(struct op *op, const struct managed *m)
{
	struct json_doc *owners = json_doc_new();

	json_set_root(owners, managed_write(owners, m));
	track_known(op, owners);
}

/* Create */

static struct err *create(struct op *op, struct apply *r)
{
	struct json_doc *copy = json_doc_new(), *d = NULL;
	struct decode_input in = { .media = DECODE_TREE, .tree = copy };
	struct managed m = { 0 };
	struct manager by = r->by;
	struct err *e;

	json_set_root(copy, json_copy(copy, r->patch));
	if (json_get(json_root(copy),
		     "metadata")) /* a version of what is not there means nothing */
		(void)json_del(json_get(json_root(copy), "metadata"), "resourceVersion");
	e = op_decode(op, &in, &d);
	if (e)
		return e;
	by.set = managed_strip(r->mem, apply_fields(r));
	if (!fields_empty(by.set))
		managed_add(r->mem, &m, &by);
	keep_owners(op, &m);
	op->created = true;
	return op_create(op, d);
}

/* Update */

/* The object as it is, in the version of the request and without owners. */
static struct err *live_tree(const struct op *op, const struct object *old, struct json_doc **ret)
{
	autoptr(json_doc) d = object_edit(old);
	struct err *e = op->kind->storage ? op->kind->from_storage(op->kind, d) : NULL;

	if (e)
		return e;
	(void)json_del(json_need_obj(d, json_root(d), "metadata"), "managedFields");
	*ret = take(d);
	return NULL;
}

/* Everything in an object that nobody is recorded for belongs to whoever was there before. */
static void own_before(const struct apply *r)
{
	struct manager before = r->by;
	struct comparison c =
		typed_compare(r->mem, typed_zero(r->mem->doc, r->type), r->live, r->type);

	before.name = BEFORE;
	c.added = fields_union(r->mem, c.added, c.modified);
	c.modified = c.removed = NULL;
	if (r->only)
		c.added = fields_only(r->mem, c.added, r->only);
	else if (r->never)
		c.added = fields_without(r->mem, c.added, r->never);
	managed_update(r->mem, r->m, &c, &before);
}

static struct err *owners_of(const struct apply *r, const struct object *old)
{
	const struct json *list = json_get(json_get(old->root, "metadata"), "managedFields");
	struct err *e = managed_read(r->mem, list, r->m);

	if (e)
		return err_recode(err_wrap(e, "failed to decode managed fields"), ERR_INTERNAL);
	if (!r->m->n)
		own_before(r);
	return NULL;
}

static struct err *check_uid(struct op *op, const struct json *patch, const struct object *old)
{
	const char *uid = json_get_str(json_get(patch, "metadata"), "uid");

	if (str_empty(uid) || str_eq(uid, old->uid))
		return NULL;
	causes_invalid_str(&op->causes, "metadata.uid", uid, "field is immutable");
	return err_invalid(op->kind, old->name, &op->causes);
}

static struct err *update(struct op *op, struct apply *r, struct object *old)
{
	autoptr(json_doc) live = NULL;
	autoptr(json_doc) next = json_doc_new();
	struct managed m = { 0 };
	struct json *root = NULL;
	struct err *e = check_uid(op, r->patch, old);

	if (!e)
		e = live_tree(op, old, &live);
	if (e)
		return e;
	r->live = json_root(live);
	r->m = &m;
	e = owners_of(r, old);
	if (!e)
		e = apply_merge(r, next, &root);
	if (e)
		return e;
	if (m.n > MANAGED_ENTRIES_MAX)
		return err_new(ERR_TOO_LARGE,
			       "metadata.managedFields: the object would have more than %d owners; "
			       "write managedFields: [{}] to forget them",
			       MANAGED_ENTRIES_MAX);
	json_set_root(next, root);
	keep_owners(op, &m);
	return op_follow(op, old, take(next), NULL);
}

static struct err *apply(struct op *op, const struct json *patch)
{
	autoptr(object) old =
		object_ref(objects_find(op->admit->objects, op->kind, op->ns, op->name));
	char now[CLOCK_TEXT_MAX];
	autofields mem = { 0 };
	struct apply r;
	struct err *e = check_patch(op, patch);

	if (!e && !old && (*op->sub || op->manager_sub))
		e = err_absent(op->kind, op->name);
	if (e)
		return e;
	fields_mem_init(&mem);
	clock_format(clock_wall(), now);
	r = request(op, &mem, patch);
	r.by.time = now;
	e = check_types(op, &mem, patch);
	if (e)
		return e;
	return old ? update(op, &r, old) : create(op, &r);
}

struct err *op_apply(struct op *op, const struct json *patch)
{
	struct err *e = apply(op, patch);

	op_audit(op, "apply", e);
	return e;
}
