/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admit/admit.h"

#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * One write: decode, convert, prune, default, validate, store. The same path for requests over HTTP
 * and for clients in this process, all of it in one step: nothing can change in between.
 */
void op_done(struct op *op)
{
	causes_done(&op->causes);
	object_unref(op->result);
	track_free(op->track);
}

void op_audit(const struct op *op, const char *verb, const struct err *e)
{
	log_debug("write", KV("user", op->user),
		  KV("impersonator", op->who && op->who->by ? op->who->by : ""), KV("verb", verb),
		  KV("kind", op->kind->kind), KV("namespace", op->ns),
		  KV("name", op->result ? op->result->name : op->name), KV("sub", op->sub),
		  KV("dry_run", op->options.dry_run),
		  KV("result", e ? err_code_name(err_code(e)) : "ok"));
}

/* patched: the result of a patch of was, with its unknown and duplicate members; NULL: a body. */
static struct err *decode(struct op *op, const struct decode_input *in,
			  const struct causes *patched, const struct json *was,
			  struct json_doc **ret)
{
	const struct decode_request r = {
		.in = *in,
		.strictness = op->options.strictness,
		.warn = op->warn,
		.warn_arg = op->warn_arg,
		.patch_causes = patched ? &op->causes : NULL,
		.reports = patched,
		.was = was,
	};

	struct err *e = object_decode(op->kind, &r, ret);

	if (patched && err_is(e, ERR_INVALID))
		op->details = DETAILS_NONE;
	return e;
}

struct err *op_decode(struct op *op, const struct decode_input *in, struct json_doc **ret)
{
	return decode(op, in, NULL, NULL, ret);
}

static struct err *verdict(struct op *op, const struct json_doc *d)
{
	const struct json *meta = json_get(json_root(d), "metadata");
	const char *name = json_get_str(meta, "name");

	if (!op->causes.n)
		return NULL;
	return err_invalid(op->kind, str_or(name, json_get_str(meta, "generateName")), &op->causes);
}

/* From the version that was sent to the one that is stored. */
static struct err *to_storage(struct op *op, struct json_doc *d, const struct object *old)
{
	const struct kind *k = op->kind;
	bool whole = !op->patches && !(old && k->validate_change);
	struct err *e;

	if (kind_storage(k) == k)
		return NULL;
	schema_default(d, json_root(d), k->type, NULL);
	schema_validate(json_root(d), k->type, NULL, &op->causes);
	if (k->validate && whole && !op->causes.n)
		k->validate(json_root(d), NULL, &op->causes);
	e = verdict(op, d);
	return e ? e : k->to_storage(k, d);
}

/* The state before, if it went through all that the next one goes through. */
static const struct json *settled(const struct object *old)
{
	return old && old->settled ? old->root : NULL;
}

/*
 * True if nothing has changed of what the hooks of a kind look at: everything but metadata and
 * status. They are content with old as it is, or it would not be settled. A null is theirs to
 * place: decoding would have taken it away.
 */
static bool is_content(const struct json *root, const struct json *was)
{
	static const char *const others[] = { "metadata", "status", NULL };
	size_t n = 0;

	json_each(it, root)
		if (json_is(it.val, JSON_NULL) ||
		    (!str_in(it.key, others) && !json_same(it.val, json_get(was, it.key))))
			return false;
	for (size_t i = 0; others[i]; i++)
		n += (json_get(root, others[i]) != NULL) - (json_get(was, others[i]) != NULL);
	return was && json_len(root) == json_len(was) + n;
}

/* NULL: the write is about the object as a whole, or its status. */
static const struct kind_part *part_of(const struct op *op)
{
	const struct kind_part *p = kind_storage(op->kind)->parts;

	while (p && p->name && !str_eq(p->name, op->sub))
		p++;
	return p && p->name ? p : NULL;
}

/* Of a custom resource, or of one that is seen as such. */
static bool is_structural(const struct kind *k)
{
	return k->type->structural || k->type->custom;
}

/* As kube-apiserver: rules in CEL, which ours are on a cluster, need members of the right type. */
static void skip_rules(struct causes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		switch (c->list[i].reason) {
		case CAUSE_REQUIRED:
		case CAUSE_UNSUPPORTED:
		case CAUSE_TYPE:
		case CAUSE_TOO_LONG:
		case CAUSE_TOO_MANY:
			causes_add(c, CAUSE_INVALID, "<nil>",
				   "Invalid value: null: some validation rules were not checked "
				   "because the object was invalid; correct the existing errors to "
				   "complete validation");
			return;
		case CAUSE_INVALID:
		case CAUSE_DUPLICATE:
		case CAUSE_FORBIDDEN:
		case CAUSE_NOT_FOUND:
		case CAUSE_TERMINATING:
		case CAUSE_VERSION:
		case CAUSE_MANAGER:
		case CAUSE_UNKNOWN:
		case CAUSE_REASON_MAX_:
			break;
		}
	}
}

static struct err *default_and_validate(struct op *op, struct json_doc *d, const struct object *old)
{
	const struct kind *k = kind_storage(op->kind);
	const struct kind_part *part = part_of(op);
	void (*validate)(const struct json *obj, const struct json *was, struct causes *c) =
		part ? part->validate : k->validate;
	const struct json *root = json_root(d), *was = settled(old);
	bool content = is_content(root, was);
	bool checked = k->type->custom && op->kind != k; /* by the version that was sent */

	if (k->type->custom) /* it is compared with what is stored, whoever has checked that */
		was = old ? old->root : NULL;
	schema_default(d, json_root(d), k->type, was);
	if (k->defaults && (!content || k->flags & KIND_CONTENTS)) {
		json_own_all(d, json_root(d));
		k->defaults(d, old ? old->root : NULL);
	}
	if (!old) {
		struct err *e = policies_complete(op, d);

		if (e)
			return e;
	}
	if ((k->flags & KIND_ADDRESSES) && !content) {
		struct json_doc *before = old ? NULL : track_before(op, d);
		struct err *e = service_settle(op, d, old ? old->root : NULL);

		track_after(op, before, d);
		if (e || op->causes.n)
			return e ? e : verdict(op, d);
	}
	if (k->flags & KIND_DEFINES) {
		struct err *e = definition_settle(op, d, old);

		if (e)
			return e;
	}
	meta_validate(json_get(root, "metadata"), op->kind->flags,
		      json_get(settled(old), "metadata"), &op->causes);
	/* Decoding has checked the types of built-in kinds; a definition is checked as a whole. */
	if (!checked && is_structural(k) && !(k->flags & KIND_DEFINES))
		schema_validate(root, k->type, was, &op->causes);
	if (k->type->structural && k->validate)
		skip_rules(&op->causes);
	if ((!op->causes.n || !is_structural(k)) && validate &&
	    (!content || k->flags & KIND_CONTENTS))
		validate(root, old ? old->root : NULL, &op->causes);
	if (k->validate_notes && !*op->sub)
		k->validate_notes(root, old ? old->root : NULL, &op->causes);
	if (old && op->kind->validate_change)
		op->kind->validate_change(root, old->root, &op->causes);
	if (k->validate_status && old && str_eq(op->sub, "status"))
		k->validate_status(root, old->root, &op->causes);
	if (!op->causes.n && k->warn && op->warn && !content && !*op->sub)
		k->warn(root, old ? old->root : NULL, op->warn, op->warn_arg);
	return verdict(op, d);
}

static void set_rev(struct op *op, struct json_doc *d)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");

	char text[24];

	(void)snprintf(text, sizeof(text), "%llu",
		       (unsigned long long)store_rev(op->admit->objects->store) + 1);
	json_set_str(d, meta, "resourceVersion", text);
}

enum {
	MARK_MAX = 1024, /* what the mark of a deletion may add to an object */
	DIGITS_MAX = 8,  /* and what counters in its metadata may, in one write */
	LAST_STATUS_MAX = 16 * 1024,
};

static size_t status_len(const struct object *o)
{
	autobuf b = { 0 };

	if (object_status(o))
		json_write(object_status(o), &b);
	return b.len;
}

/* What is being deleted may report how that goes, and is otherwise no larger than it was. */
static bool leads_to_end(const struct object *old, struct object *o)
{
	size_t was = status_len(old), is = status_len(o);
	size_t rest_was = object_text((struct object *)old)->len - was;
	size_t more = object_deleting(old) ? DIGITS_MAX : MARK_MAX;

	return object_deleting(o) && is <= MAX(was, (size_t)LAST_STATUS_MAX) &&
	       object_text(o)->len - is <= rest_was + more;
}

/*
 * On a full disk only what makes space is written: deletions, what leads to one (marks, finalizers,
 * the status of what is being deleted), and states that are smaller than those before.
 */
static struct err *check_space(const struct op *op, const struct object *old, struct object *o)
{
	const struct store *s = op->admit->objects->store;

	if (store_state(s) != STORE_SHORT)
		return NULL;
	if (old && leads_to_end(old, o))
		return NULL;
	if (old && object_text(o)->len < object_text((struct object *)old)->len)
		return NULL;
	return err_new(ERR_UNAVAILABLE, "the write was refused: %s", store_trouble(s));
}

/* A new object, or the next state of old. Takes doc over. */
static struct err *put(struct op *op, const struct object *old, struct json_doc *doc)
{
	struct object *o;
	struct err *e;
	autofree char *key = NULL;

	if (op->options.dry_run) {
		op->result = object_new(kind_storage(op->kind), doc);
		return NULL;
	}
	set_rev(op, doc);
	o = object_new(kind_storage(op->kind), json_freeze_shelved(doc, op->admit->objects->specs));
	o->settled = true;
	key = key_of(o->kind, o->ns, o->name);
	e = check_space(op, old, o);
	if (e) {
		object_unref(o);
		return e;
	}
	op->result = object_ref(o);
	e = store_put(op->admit->objects->store, key, object_text(o), o, old ? old->rev : 0);
	if (err_is(e, ERR_EXISTS)) {
		err_free(e);
		return err_present(op->kind, op->result->name);
	}
	op->admit->n_writes++;
	if (!e) {
		addresses_note(op, old, op->result);
		quota_note(op, old, op->result);
		definition_changed(op, old, o);
	}
	return e;
}

struct err *op_end(struct op *op, const struct object *old, struct json_doc *doc)
{
	struct object *o;
	struct err *e;
	autofree char *key = key_of(op->kind, old->ns, old->name);

	op->removed = true;
	if (op->options.dry_run) {
		op->result = object_new(kind_storage(op->kind), doc);
		return NULL;
	}
	set_rev(op, doc);
	o = object_new(kind_storage(op->kind), json_freeze(doc));
	op->result = object_ref(o);
	e = store_delete(op->admit->objects->store, key, object_text(o), o, old->rev);
	op->admit->n_writes++;
	if (!e) {
		addresses_note(op, old, NULL);
		quota_note(op, old, NULL);
		definition_changed(op, old, NULL);
	}
	return e;
}

/* The controller that empties the object removes the last of these, through /finalize. */
bool op_holds_contents(const struct kind *k, const struct json *obj)
{
	return (kind_storage(k)->flags & KIND_CONTENTS) &&
	       json_len(json_get(json_get(obj, "spec"), "finalizers"));
}

static bool is_held(const struct op *op, const struct json *obj)
{
	const struct json *meta = json_get(obj, "metadata");

	if (json_len(json_get(meta, "finalizers")) || op_holds_contents(op->kind, obj))
		return true;
	return json_get_int(meta, "deletionGracePeriodSeconds", 0) > 0;
}

struct err *op_store(struct op *op, struct object *old, struct json_doc *doc)
{
	const struct json *meta = json_get(json_root(doc), "metadata");

	if (old && json_get(meta, "deletionTimestamp") && !is_held(op, json_root(doc)))
		return op_end(op, old, doc);
	if (old && json_equal(json_root(doc), old->root)) {
		op->result = object_ref(old);
		json_doc_free(doc);
		return NULL;
	}
	return put(op, old, doc);
}

/* Create */

static void begin(struct op *op, struct json_doc *d)
{
	const struct kind *k = kind_storage(op->kind);
	const struct kind_env env = admit_env(op->admit);

	if ((k->flags & (KIND_STATUS | KIND_OWN_STATUS)) == KIND_STATUS)
		(void)json_del(json_root(d), "status");
	if (k->prepare_create) {
		struct json_doc *before = track_before(op, d);

		k->prepare_create(d, &env);
		track_after(op, before, d);
	}
}

/* Last of all, so that what is asked about is what would be stored. */
static struct err *guarded(struct op *op, const struct json_doc *d, const struct object *old)
{
	const struct admit *a = op->admit;
	const struct json *was = old ? old->root : NULL;
	struct err *e = NULL;

	if (op->who && a->guard)
		e = a->guard(a->guard_arg, op, json_root(d), was);
	return e ? e : policies_allow(op, json_root(d), was);
}

/* What exists already is another matter, which is found out later. */
static struct err *may_begin(const struct op *op, const struct json_doc *d)
{
	const struct kind *k = kind_storage(op->kind);
	const char *why = k->forbid_create ? k->forbid_create(json_root(d)) : NULL;
	const char *name = json_get_str(json_get(json_root(d), "metadata"), "name");

	return why ? err_forbidden(op->kind, name, why) : NULL;
}

static struct err *prepare_create(struct op *op, struct json_doc *d)
{
	struct err *e;

	e = namespace_open(op, d);
	if (err_is(e, ERR_NOT_FOUND))
		op->absent_ns = op->ns;
	if (!e)
		e = definition_open(op);
	if (!e)
		e = meta_prepare_create(op, d);
	if (!e)
		e = to_storage(op, d, NULL);
	if (e)
		return e;
	begin(op, d);
	agents_settle(op, d, NULL);
	e = service_account_admit(op, d);
	if (!e)
		e = default_and_validate(op, d, NULL);
	if (!e)
		e = runtime_class_exists(op, d);
	if (!e)
		e = may_begin(op, d);
	return e ? e : guarded(op, d, NULL);
}

struct err *op_create(struct op *op, struct json_doc *doc)
{
	autoptr(json_doc) d = doc;
	const char *name;
	struct err *e = prepare_create(op, d);

	if (!e) {
		name = json_get_str(json_get(json_root(d), "metadata"), "name");
		if (objects_find(op->admit->objects, op->kind, op->ns, name))
			e = err_present(op->kind, name);
	}
	if (!e) {
		track_create(op, d);
		e = put(op, NULL, take(d));
	}
	op_audit(op, "create", e);
	return e;
}

/* Update */

/* What a write of the status may also change, but not of a custom resource. */
static void keep_metadata(const struct op *op, struct json_doc *whole, struct json_doc *d)
{
	static const char *const names[] = { "labels", "annotations", "finalizers" };
	struct json *to = json_need_obj(whole, json_root(whole), "metadata");
	const struct json *from = json_get(json_root(d), "metadata");

	for (size_t i = 0; op->external && i < ARRAY_LEN(names); i++) {
		const struct json *v = json_get(from, names[i]);

		if (kind_storage(op->kind)->flags & (KIND_CRD | KIND_DEFINES) ||
		    json_equal(v, json_get(to, names[i])))
			continue;
		if (v)
			(void)json_set(whole, to, names[i], json_copy(whole, v));
		else
			(void)json_del(to, names[i]);
	}
}

/* A write changes only a part of the spec, only status, or everything but status, unless it is
 * CLIENT_WHOLE. *d may become another doc. */
static void keep_rest(const struct op *op, struct json_doc **d, const struct object *old)
{
	struct json *status = json_get(json_root(*d), "status");
	const struct json *was = json_get(old->root, "status");
	const struct kind_part *part = part_of(op);
	struct json_doc *whole;

	if (part) {
		whole = object_edit(old);
		part->apply(whole, json_root(*d));
		json_doc_free(*d);
		*d = whole;
		return;
	}
	if (!(kind_storage(op->kind)->flags & KIND_STATUS) || str_eq(op->sub, CLIENT_WHOLE))
		return;
	if (str_eq(op->sub, "status")) {
		whole = object_next(old);
		keep_metadata(op, whole, *d);
		status = json_move(whole, *d, status);
		(void)json_set(whole, json_root(whole), "status", status);
		*d = whole;
	} else if (!json_equal(status, was)) {
		(void)json_set(*d, json_root(*d), "status", json_lend(*d, old->doc, was));
	}
}

/* Does it change what generation counts? Of a custom resource that is everything but metadata, and
 * status where that is apart; of an EndpointSlice, which has no spec, its labels too. */
static bool changes_more(const struct kind *k, const struct json *root, const struct json *was)
{
	static const char *const apart[] = { "metadata", "status", "apiVersion", NULL };
	const char *const *none = k->flags & KIND_STATUS
					  ? apart
					  : (const char *const[]){ "metadata", "apiVersion", NULL };

	if (!k->type->custom && schema_field(k->type, "spec"))
		return !json_equal(json_get(root, "spec"), json_get(was, "spec"));
	if (!k->type->custom && !json_equal(json_at_path(root, "metadata.labels"),
					    json_at_path(was, "metadata.labels")))
		return true;
	json_each(it, root)
		if (!str_in(it.key, none) && !json_equal(it.val, json_get(was, it.key)))
			return true;
	json_each(it, was)
		if (!str_in(it.key, none) && !json_get(root, it.key))
			return true;
	return false;
}

static void count_generation(const struct op *op, struct json_doc *d, const struct object *old)
{
	struct json *root = json_root(d);

	if (!(kind_storage(op->kind)->flags & KIND_GENERATION))
		return;
	if (changes_more(kind_storage(op->kind), root, old->root))
		json_set_int(d, json_need_obj(d, root, "metadata"), "generation",
			     object_generation(old) + 1);
}

static struct err *allowed(const struct op *op, const struct json_doc *d, const struct object *old)
{
	const struct kind *k = kind_storage(op->kind);
	const struct kind_env env = admit_env(op->admit);
	const char *why = k->forbid_update ? k->forbid_update(json_root(d), old->root, &env) : NULL;

	return why ? err_forbidden(op->kind, old->name, why) : NULL;
}

/* d is in the version of op->kind. Takes d over. */
static struct err *replace(struct op *op, struct object *old, struct json_doc *doc)
{
	autoptr(json_doc) d = doc;
	const struct kind *k;
	bool changes_rest;
	struct err *e;

	e = meta_prepare_update(op, d, old);
	if (!e)
		e = to_storage(op, d, old);
	if (e)
		return e;
	keep_rest(op, &d, old);
	agents_settle(op, d, old->root);
	k = kind_storage(op->kind);
	changes_rest = !*op->sub || str_eq(op->sub, CLIENT_WHOLE);
	if (k->prepare_update && changes_rest) {
		const struct kind_env env = admit_env(op->admit);

		k->prepare_update(d, old->root, &env);
	}
	e = default_and_validate(op, d, old);
	if (!e && changes_rest)
		e = allowed(op, d, old);
	if (!e)
		e = guarded(op, d, old);
	if (e)
		return e;
	count_generation(op, d, old);
	track_update(op, d, old);
	return op_store(op, old, take(d));
}

/* An update of what is not there. Takes doc over. */
static struct err *put_new(struct op *op, struct json_doc *doc)
{
	struct json *meta = json_need_obj(doc, json_root(doc), "metadata");
	const char *uid = json_get_str(meta, "uid");
	autofree char *why = NULL;

	if (!str_empty(uid)) {
		why = xasprintf(
			"Precondition failed: UID in precondition: %s, UID in object meta: ", uid);
		json_doc_free(doc);
		return err_changed(op->kind, op->name, why);
	}
	(void)json_del(meta, "resourceVersion");
	op->created = true;
	return op_create(op, doc);
}

struct err *op_update(struct op *op, struct json_doc *doc)
{
	autoptr(object) old =
		object_ref(objects_find(op->admit->objects, op->kind, op->ns, op->name));
	struct err *e;

	if (old) {
		e = replace(op, old, doc);
	} else if (op->external && (op->kind->flags & KIND_PUT_CREATES) && !*op->sub) {
		return put_new(op, doc);
	} else {
		json_doc_free(doc);
		e = err_absent(op->kind, op->name);
	}
	op_audit(op, "update", e);
	return e;
}

struct err *op_follow(struct op *op, struct object *old, struct json_doc *tree,
		      const struct causes *reports)
{
	static const struct causes none;
	const struct json *was = kind_storage(op->kind) == op->kind ? settled(old) : NULL;
	const struct decode_input in = { .media = DECODE_TREE, .tree = tree };
	struct json_doc *next = NULL;
	struct err *e = decode(op, &in, reports ? reports : &none, was, &next);

	op->patches = true;
	return e ? e : replace(op, old, next);
}

static struct err *patched(struct op *op, struct object *old, enum patch_type how,
			   const struct json *patch, const struct causes *reports)
{
	bool as_stored = kind_storage(op->kind) == op->kind;
	autoptr(json_doc) d = as_stored ? object_next(old) : object_edit(old);
	struct err *e = NULL;

	if (!as_stored)
		e = op->kind->from_storage(op->kind, d);
	if (!e)
		e = patch_apply(how, d, patch, op->kind->type);
	if (err_is(e, ERR_INVALID) && op->external) {
		op->details = DETAILS_NONE;
		err_free(e);
		e = err_new(ERR_INVALID, "the server rejected our request due to an error in our "
					 "request");
	}
	if (e)
		return e;
	return op_follow(op, old, take(d), reports);
}

struct err *op_patch(struct op *op, enum patch_type how, const struct json *patch,
		     const struct causes *reports)
{
	autoptr(object) old =
		object_ref(objects_find(op->admit->objects, op->kind, op->ns, op->name));
	struct err *e;

	e = old ? patched(op, old, how, patch, reports) : err_absent(op->kind, op->name);
	op_audit(op, "patch", e);
	return e;
}
