/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Deleting. An object is removed at once unless something holds it: finalizers, the dependents of a
 * foreground or orphaning deletion (finalizers too, which the garbage collector removes), the grace
 * period of a Pod that runs on a node, or the contents of a namespace. Held objects get a
 * deletionTimestamp, and the write that removes the last hold ends them (op_store()).
 */

static struct err *check_conditions(struct op *op, const struct object *o,
				    const struct delete_options *w)
{
	autofree char *why = NULL, *rev = xasprintf("%llu", (unsigned long long)o->rev);

	if (w->uid && !str_eq(w->uid, o->uid))
		why = xasprintf("the UID in the precondition (%s) does not match the UID in record "
				"(%s). The object might have been deleted and then recreated",
				w->uid, o->uid);
	else if (w->resource_version && !str_eq(w->resource_version, rev))
		why = xasprintf(
			"the ResourceVersion in the precondition (%s) does not match the "
			"ResourceVersion in record (%s). The object might have been modified",
			w->resource_version, rev);
	if (!why)
		return NULL;
	op->details = DETAILS_KIND;
	return err_new(ERR_CONFLICT, "Operation cannot be fulfilled on %s%s%s \"%s\": %s",
		       op->kind->kind, *op->kind->group ? "." : "", op->kind->group, o->name, why);
}

static struct err *check_allowed(const struct op *op, const struct object *o)
{
	struct err *e;

	if (o->kind->kept && str_in(o->name, o->kind->kept)) {
		autofree char *why = xasprintf("this %s may not be deleted", o->kind->singular);

		return err_forbidden(op->kind, o->name, str_or(o->kind->kept_why, why));
	}
	e = address_may_go(op, o);
	return e ? e : definition_may_go(op, o);
}

static bool has(const struct json *list, const char *text)
{
	json_each(it, list)
		if (str_eq(json_str(it.val), text))
			return true;
	return false;
}

static void drop(struct json *list, const char *text)
{
	for (size_t i = json_len(list); i-- > 0;)
		if (str_eq(json_str(json_at(list, i)), text))
			json_remove(list, i);
}

/* The policy becomes a finalizer that the garbage collector acts on. Without a policy, that of an
 * earlier request stays. */
static void set_policy(struct json_doc *d, struct json *meta, const char *policy)
{
	const char *want = str_eq(policy, "Foreground") ? FINALIZER_FOREGROUND
			   : str_eq(policy, "Orphan")   ? FINALIZER_ORPHAN
							: NULL;
	struct json *list = json_own(d, json_get(meta, "finalizers"));

	if (!policy)
		return;
	if (!str_eq(want, FINALIZER_FOREGROUND))
		drop(list, FINALIZER_FOREGROUND);
	if (!str_eq(want, FINALIZER_ORPHAN))
		drop(list, FINALIZER_ORPHAN);
	if (want && !has(list, want))
		json_push_str(d, json_need_arr(d, meta, "finalizers"), want);
	if (!json_len(json_get(meta, "finalizers")))
		(void)json_del(meta, "finalizers");
}

/* How long it may take to stop; 0 for what does not run. */
static int64_t grace_of(const struct object *o, const struct delete_options *w)
{
	return o->kind->grace ? o->kind->grace(o->root, w->grace_s) : 0;
}

/* When the object must be gone. A later request may bring that forward, never put it off. */
static void set_deadline(struct json_doc *d, struct json *meta, int64_t grace_s)
{
	char when[CLOCK_TEXT_MAX];

	if (json_get(meta, "deletionTimestamp") &&
	    json_get_int(meta, "deletionGracePeriodSeconds", 0) <= grace_s)
		return;
	clock_format(clock_wall() + grace_s * 1000000, when);
	if (!json_get(meta, "deletionTimestamp") && json_get(meta, "generation"))
		json_set_int(d, meta, "generation", json_get_int(meta, "generation", 0) + 1);
	json_set_str(d, meta, "deletionTimestamp", when);
	json_set_int(d, meta, "deletionGracePeriodSeconds", grace_s);
}

static struct err *mark(struct op *op, struct object *o, const struct delete_options *w)
{
	struct json_doc *d = object_next(o);
	struct json *meta = json_need_obj(d, json_root(d), "metadata");

	set_policy(d, meta, w->propagation);
	set_deadline(d, meta, grace_of(o, w));
	if (o->kind->prepare_delete)
		o->kind->prepare_delete(d);
	return op_store(op, o, d);
}

/* Nothing holds it and nothing will, so there is no need to mark it first. */
static bool goes_at_once(const struct object *o, const struct delete_options *w)
{
	const struct json *meta = json_get(o->root, "metadata");

	return !(o->kind->flags & KIND_DEFINES) && !op_holds_contents(o->kind, o->root) &&
	       !json_len(json_get(meta, "finalizers")) && !str_eq(w->propagation, "Foreground") &&
	       !str_eq(w->propagation, "Orphan") && grace_of(o, w) == 0;
}

struct err *op_delete(struct op *op, const struct delete_options *w)
{
	autoptr(object) o =
		object_ref(objects_find(op->admit->objects, op->kind, op->ns, op->name));
	struct err *e;

	e = o ? check_conditions(op, o, w) : err_absent(op->kind, op->name);
	if (!e)
		e = check_allowed(op, o);
	if (!e)
		e = goes_at_once(o, w) ? op_end(op, o, object_next(o)) : mark(op, o, w);
	op_audit(op, "delete", e);
	return e;
}
