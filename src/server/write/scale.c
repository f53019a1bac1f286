/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/write/write_priv.h"

/*
 * /scale: spec.replicas, status.replicas and status.selector of an object, or what its kind has in
 * their place, seen as an autoscaling/v1 Scale. Writing it changes the first and nothing else.
 */
static const char group[] = "autoscaling/v1";
static const struct kind shown_as = { .group = "autoscaling", .version = "v1", .kind = "Scale" };

/* A copy of the object in the version that was asked for: replicas may exist only there. */
static struct err *view(const struct kind *k, const struct object *o, struct json_doc **ret)
{
	autoptr(json_doc) d = object_edit(o);
	struct err *e = k->storage ? k->from_storage(k, d) : NULL;

	if (e)
		return err_recode(err_wrap(e, "convert %s", o->name), ERR_INTERNAL);
	*ret = take(d);
	return NULL;
}

static const struct kind_scale *paths_of(const struct kind *k)
{
	static const struct kind_scale usual = { "spec.replicas", "status.replicas",
						 "status.selector" };

	return k->scale ? k->scale : &usual;
}

static struct json_doc *scale_of(const struct kind *k, const struct json *obj)
{
	static const char *const kept[] = { "name", "namespace", "uid", "resourceVersion",
					    "creationTimestamp" };
	const struct kind_scale *at = paths_of(k);
	const struct json *was = json_get(obj, "metadata");
	const struct json *selector = at->selector ? json_at_path(obj, at->selector) : NULL;
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *part;
	autobuf text = { 0 };

	json_set_root(d, root);
	json_set_str(d, root, "kind", "Scale");
	json_set_str(d, root, "apiVersion", group);
	meta = json_set(d, root, "metadata", json_obj(d));
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		(void)json_set(d, meta, kept[i], json_copy(d, json_get(was, kept[i])));
	part = json_set(d, root, "spec", json_obj(d));
	/* The default is one, for every kind that has a scale; none is left out. */
	if (json_int(json_at_path(obj, at->spec), 1))
		json_set_int(d, part, "replicas", json_int(json_at_path(obj, at->spec), 1));
	part = json_set(d, root, "status", json_obj(d));
	json_set_int(d, part, "replicas", json_int(json_at_path(obj, at->status), 0));
	if (json_is(selector, JSON_OBJ))
		label_selector_text(selector, &text);
	if (json_str(selector) || text.len)
		json_set_str(d, part, "selector", str_or(json_str(selector), buf_str(&text)));
	return d;
}

/* Sets the number at a path of members, which are made where they are missing. */
static void set_at(struct json_doc *d, struct json *obj, const char *path, int64_t n)
{
	struct span rest = SPAN(path);

	for (;;) {
		struct span part = span_cut(rest, '.', &rest);
		autofree char *name = xstrndup(part.p, part.len);

		if (!rest.p) {
			json_set_int(d, obj, name, n);
			return;
		}
		obj = json_need_obj(d, obj, name);
	}
}

/* Only a custom resource can lack it: it has no default of one. */
static struct err *check_replicas(const struct kind *k, const struct json *obj)
{
	if (!k->scale || json_at_path(obj, k->scale->spec))
		return NULL;
	return err_new(ERR_INTERNAL,
		       "Internal error occurred: the spec replicas field \".%s\" does not exist",
		       k->scale->spec);
}

/* A Scale has no lists: a strategic patch of it is a merge patch. Takes scale over. */
static struct err *patched(struct call *c, struct json_doc *scale, struct json_doc **ret)
{
	struct decode_input in = { .media = DECODE_TREE, .tree = scale };
	autoptr(json_doc) patch = NULL;
	enum patch_type how;
	struct err *e = body_patch(c, NULL, &how, &patch);

	if (!e)
		e = patch_apply(how == PATCH_STRATEGIC ? PATCH_MERGE : how, scale, json_root(patch),
				NULL);
	if (!e)
		return body_decode(body_scale, &body_kind_scale, &in, ret);
	json_doc_free(scale);
	return e;
}

/* What of the object is applied: its replicas, if the Scale has any. */
static struct json *applied(struct json_doc *d, const struct op *op, const struct json *scale)
{
	const struct json *replicas = json_at_path(scale, "spec.replicas");
	struct json *o = json_obj(d), *meta = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "apiVersion", kind_api_version(op->kind));
	json_set_str(d, o, "kind", op->kind->kind);
	(void)json_set(d, o, "metadata", meta);
	json_set_str(d, meta, "name", op->name);
	if (replicas)
		set_at(d, o, paths_of(op->kind)->spec, json_int(replicas, 0));
	return o;
}

static struct err *apply_scale(struct call *c, struct op *op)
{
	autoptr(json_doc) scale = NULL;
	autoptr(json_doc) d = json_doc_new();
	enum patch_type how;
	struct err *e = body_patch(c, NULL, &how, &scale);
	const struct json *root = e ? NULL : json_root(scale);

	if (e)
		return e;
	if (!str_eq(json_get_str(root, "apiVersion"), group) ||
	    !str_eq(json_get_str(root, "kind"), shown_as.kind))
		return err_new(ERR_MALFORMED, "invalid object type: %s, Kind=%s",
			       str_or(json_get_str(root, "apiVersion"), "/"),
			       str_or(json_get_str(root, "kind"), ""));
	op->sub = "";
	return op_apply(op, applied(d, op, root));
}

/* The Scale that the client wants: its own, or ours with its patch. */
static struct err *wanted(struct call *c, const struct json *obj, struct json_doc **ret)
{
	struct err *e;

	if (c->route.verb != VERB_UPDATE)
		return patched(c, scale_of(c->route.kind, obj), ret);
	e = body_tree(c, body_scale, &body_kind_scale, ret);
	if (!err_is(e, ERR_MALFORMED) || !c->route.kind->type->structural)
		return e;
	err_free(e);
	return err_new(ERR_MALFORMED, "no kind is registered for the type v1.Scale in scheme "
				      "\"pkg/runtime/scheme.go:111\"");
}

static struct err *set_scale(struct call *c, struct op *op, const struct object *o)
{
	autoptr(json_doc) scale = NULL;
	autoptr(json_doc) d = NULL;
	const struct json *replicas;
	struct json *root;
	const char *rev, *name;
	struct err *e = view(c->route.kind, o, &d);

	if (!e)
		e = wanted(c, json_root(d), &scale);
	if (e)
		return e;
	name = json_get_str(json_get(json_root(scale), "metadata"), "name");
	if (!str_empty(name) && !str_eq(name, o->name))
		return err_new(
			ERR_MALFORMED,
			"the name of the object (%s) does not match the name on the URL (%s)", name,
			o->name);
	replicas = json_at_path(json_root(scale), "spec.replicas");
	if (json_int(replicas, 0) < 0) {
		causes_add(&op->causes, CAUSE_INVALID, "spec.replicas",
			   "Invalid value: %lld: must be greater than or equal to 0",
			   (long long)json_int(replicas, -1));
		return err_invalid(&shown_as, o->name, &op->causes);
	}
	root = json_root(d);
	set_at(d, root, paths_of(c->route.kind)->spec, json_int(replicas, 0));
	rev = json_get_str(json_get(json_root(scale), "metadata"), "resourceVersion");
	if (!str_empty(rev))
		json_set_str(d, json_get(root, "metadata"), "resourceVersion", rev);
	op->sub = "";
	op->kind = c->route.kind;
	return op_update(op, take(d));
}

void write_scale(struct admit *a, struct call *c)
{
	const struct route *r = &c->route;
	autoptr(object) o = object_ref(objects_find(a->objects, r->kind, r->ns, r->name));
	autoptr(json_doc) seen = NULL;
	autoptr(json_doc) d = NULL;
	autoop op = write_op(a, c);
	struct err *e = write_options(c, &op);

	if (!e && !o)
		e = err_absent(r->kind, r->name);
	op.manager_sub = "scale";
	if (!e && r->verb == VERB_PATCH && body_applies(c))
		e = apply_scale(c, &op);
	else if (!e && r->verb != VERB_GET)
		e = set_scale(c, &op, o);
	if (!e)
		e = view(r->kind, op.result ? op.result : o, &seen);
	if (!e)
		e = check_replicas(r->kind, json_root(seen));
	if (e) {
		write_finish(c, &op, STATUS_OK, e);
		return;
	}
	d = scale_of(r->kind, json_root(seen));
	call_reply_durably(c, STATUS_OK, call_encode(c, json_root(d), body_scale));
}
