/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/list.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/client.h"
#include "client/http_priv.h"

/*
 * The writes of client.h over HTTPS. The answer to a write goes into the caches before done() is
 * called, so that whoever done() wakes up sees it there, and also when nobody waits for it any
 * more.
 */
enum {
	WRITE_MS = 60000,
	BRIEF_MS = 3000,
};

/* A write under way. */
struct op {
	struct list link;
	struct http_client *h;
	const struct kind *kind;
	char *ns, *name; /* NULL: of a create */
	bool deletes;
	char *label;           /* of the request under way */
	struct json_doc *rest; /* a patch that is still to be sent; NULL: none */
	struct client_waiter waiter;
};

char *http_path(const struct client_ref *to)
{
	const struct kind *k = to->kind;
	autobuf path = { 0 };
	autofree char *ns_text = str_empty(to->ns) ? NULL : url_encode(to->ns);
	autofree char *name_text = str_empty(to->name) ? NULL : url_encode(to->name);

	buf_printf(&path, "/%s/%s", str_empty(k->group) ? "api" : "apis", kind_api_version(k));
	if (ns_text && (k->flags & KIND_NAMESPACED))
		buf_printf(&path, "/namespaces/%s", ns_text);
	buf_printf(&path, "/%s", k->plural);
	if (name_text)
		buf_printf(&path, "/%s", name_text);
	if (!str_empty(to->sub))
		buf_printf(&path, "/%s", to->sub);
	return buf_steal(&path, NULL);
}

struct object *http_object(const struct kind *k, struct json_doc *doc)
{
	struct json *root = json_root(doc), *meta = json_get(root, "metadata");

	if (json_is(meta, JSON_OBJ))
		(void)json_del(meta, "managedFields");
	if (!json_get(root, "kind")) { /* list items come without it */
		json_set_str(doc, root, "apiVersion", kind_api_version(k));
		json_set_str(doc, root, "kind", k->kind);
	}
	return object_new(k, doc);
}

/* Whether nothing is left of it on the server. A Pod in its grace period and an object with
 * finalizers are still there; so is anything that is not being deleted, unless it is the answer to
 * a delete. */
static bool object_gone(const struct object *o, bool answers_delete)
{
	const struct json *meta = json_get(o->root, "metadata");

	if (json_len(json_get(meta, "finalizers")))
		return false;
	if (!object_deleting(o))
		return answers_delete;
	return json_get_int(meta, "deletionGracePeriodSeconds", 0) == 0;
}

static void into_caches(struct op *op, struct object *o)
{
	bool gone = object_gone(o, op->deletes);

	for (size_t i = 0; i < op->h->n; i++) {
		struct informer *inf = op->h->informers[i];

		if (informer_kind(inf) != op->kind)
			continue;
		if (gone)
			informer_deleted(inf, o->ns, o->name, o->uid);
		else
			informer_wrote(inf, o);
	}
}

static void out_of_caches(struct op *op, const char *uid)
{
	for (size_t i = 0; i < op->h->n; i++) {
		if (informer_kind(op->h->informers[i]) == op->kind)
			informer_deleted(op->h->informers[i], op->ns, op->name, uid);
	}
}

static struct err *op_read(struct op *op, const struct reply *r, struct object **ret)
{
	const struct json_limits limits = { .max_len = r->len + 1 };
	autoptr(json_doc) doc = NULL;
	struct err *e = json_parse(r->body, r->len, &limits, &doc);

	if (e)
		return err_wrap(e, "%s: parse the answer", op->label);
	if (!json_is(json_root(doc), JSON_OBJ))
		return err_new(ERR_MALFORMED, "%s: the answer is not a JSON object", op->label);
	if (str_eq(json_get_str(json_root(doc), "kind"), "Status") && op->deletes) {
		out_of_caches(op, json_str(json_at_path(json_root(doc), "details.uid")));
		*ret = NULL;
		return NULL;
	}
	*ret = http_object(op->kind, take(doc));
	into_caches(op, *ret);
	return NULL;
}

static void op_free(struct op *op)
{
	client_waiter_done(&op->waiter);
	list_del(&op->link);
	kind_unref(op->kind);
	free(op->ns);
	free(op->name);
	free(op->label);
	json_doc_free(op->rest);
	free(op);
}

/* What to send to the object that a ref names. */
struct ask {
	const char *method;
	const char *type;      /* of the body; NULL: JSON */
	struct json_doc *body; /* taken over */
};

static void on_op_done(void *arg, struct err *e, const struct reply *r);

/* One request of the op. */
static void op_send(struct op *op, const char *sub, const struct ask *ask)
{
	const struct client_ref to = { op->kind, op->ns, op->name, sub };
	autofree char *path = http_path(&to);
	struct exchange_spec spec = { .method = ask->method, .type = ask->type };

	free(op->label);
	op->label = xasprintf("%s %s%s%s", ask->method, op->kind->plural, sub ? "/" : "",
			      sub ? sub : "");
	if (ask->body) {
		autobuf text = { 0 };

		json_write(json_root(ask->body), &text);
		spec.body = buf_steal(&text, &spec.body_len);
		json_doc_free(ask->body);
	}
	spec.path = path;
	spec.label = op->label;
	spec.timeout_ms = op->kind->flags & KIND_BRIEF ? BRIEF_MS : WRITE_MS;
	spec.urgent =
		op->kind->flags & KIND_URGENT; /* a leader must not wait behind its own work */
	spec.done = on_op_done;
	spec.arg = op;
	(void)exchange_start(op->h->t, &spec);
}

static void on_op_done(void *arg, struct err *e, const struct reply *r)
{
	struct op *op = arg;
	autoptr(object) o = NULL;

	if (!e && (r->status < 200 || r->status > 299))
		e = status_err_text(r->body, r->len, r->status, op->label);
	if (!e)
		e = op_read(op, r, &o);
	if (!e && op->rest) {
		op_send(op, NULL,
			&(struct ask){ "PATCH", patch_media_type(PATCH_MERGE), take(op->rest) });
		return;
	}
	client_waiter_end(&op->waiter, e,
			  !e && o && !(op->deletes && object_gone(o, true)) ? o : NULL);
	op_free(op);
}

static struct op *op_new(struct http_client *h, const struct client_ref *to, struct client_write *w)
{
	struct op *op = xnew(struct op);

	op->h = h;
	list_add_tail(&h->ops, &op->link);
	op->kind = kind_ref(to->kind);
	op->ns = xstrdup(str_or(to->ns, ""));
	op->name = xstrdup(to->name);
	client_waiter_init(&op->waiter, w);
	return op;
}

static void op_start(struct http_client *h, const struct client_ref *to, const struct ask *ask,
		     struct client_write *w)
{
	struct op *op = op_new(h, to, w);

	op->deletes = str_eq(ask->method, "DELETE");
	op_send(op, to->sub, ask);
}

void http_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
		 struct client_write *w)
{
	const char *own = json_str(json_at_path(json_root(obj), "metadata.namespace"));
	struct client_ref in = { .kind = to->kind, .ns = str_or(to->ns, own) };

	op_start(ctx, &in, &(struct ask){ .method = "POST", .body = obj }, w);
}

void http_update(void *ctx, const struct client_ref *to, struct json_doc *obj,
		 struct client_write *w)
{
	op_start(ctx, to, &(struct ask){ .method = "PUT", .body = obj }, w);
}

/* The half of a patch that goes to /status, with its preconditions; NULL: it has none. What is left
 * in the patch is the other half, which depends on the uid alone. */
static struct json_doc *cut_status(struct json_doc *patch)
{
	struct json *root = json_root(patch), *meta = json_get(root, "metadata");
	struct json_doc *d;
	struct json *half;

	if (!json_get(root, "status"))
		return NULL;
	d = json_doc_new();
	half = json_obj(d);
	json_set_root(d, half);
	json_set(d, half, "metadata", json_obj(d));
	json_set(d, json_get(half, "metadata"), "uid", json_copy(d, json_get(meta, "uid")));
	json_set(d, json_get(half, "metadata"), "resourceVersion",
		 json_copy(d, json_get(meta, "resourceVersion")));
	json_set(d, half, "status", json_copy(d, json_get(root, "status")));
	(void)json_del(root, "status");
	if (json_is(meta, JSON_OBJ))
		(void)json_del(meta, "resourceVersion");
	return d;
}

/* A patch that has nothing but a precondition. */
static bool is_empty(const struct json *patch)
{
	const struct json *meta = json_get(patch, "metadata");

	return json_len(patch) == (meta ? 1 : 0) &&
	       json_len(meta) == (json_get(meta, "uid") ? 1 : 0);
}

static void patch_whole(struct http_client *h, const struct client_ref *to, struct json_doc *patch,
			struct client_write *w)
{
	struct json_doc *status = cut_status(patch);
	struct op *op = op_new(h, to, w);
	struct ask ask = { .method = "PATCH", .type = patch_media_type(PATCH_MERGE) };

	ask.body = status ? status : patch;
	if (status && !is_empty(json_root(patch)))
		op->rest = patch;
	else if (status)
		json_doc_free(patch);
	op_send(op, status ? "status" : NULL, &ask);
}

void http_patch(void *ctx, const struct client_ref *to, enum patch_type how, struct json_doc *patch,
		struct client_write *w)
{
	struct client_ref at = *to;
	struct ask ask = { .method = "PATCH", .body = patch };

	if (str_eq(to->sub, CLIENT_WHOLE)) {
		patch_whole(ctx, to, patch, w);
		return;
	}
	if (str_eq(to->sub, CLIENT_AT_ONCE)) { /* it would be ignored there */
		(void)json_del(json_root(patch), "status");
		at.sub = NULL;
	}
	/* Custom resources have no strategic merge. */
	if (how == PATCH_STRATEGIC && (to->kind->flags & KIND_CRD))
		how = PATCH_MERGE;
	ask.type = patch_media_type(how);
	op_start(ctx, &at, &ask, w);
}

static struct json_doc *delete_options(const struct client_delete_spec *spec)
{
	struct json_doc *d;
	struct json *root, *pre;

	if (!spec->uid && !spec->rev && !spec->propagation && spec->grace_s < 0)
		return NULL;
	d = json_doc_new();
	root = json_obj(d);
	json_set_root(d, root);
	json_set_str(d, root, "kind", "DeleteOptions");
	json_set_str(d, root, "apiVersion", "v1");
	if (spec->uid || spec->rev) {
		pre = json_need_obj(d, root, "preconditions");
		json_set_str(d, pre, "uid", spec->uid);
		if (spec->rev)
			json_set(d, pre, "resourceVersion",
				 json_new_strf(d, "%llu", (unsigned long long)spec->rev));
	}
	json_set_str(d, root, "propagationPolicy", spec->propagation);
	if (spec->grace_s >= 0)
		json_set_int(d, root, "gracePeriodSeconds", spec->grace_s);
	return d;
}

void http_delete(void *ctx, const struct client_ref *to, const struct client_delete_spec *spec,
		 struct client_write *w)
{
	op_start(ctx, to, &(struct ask){ .method = "DELETE", .body = delete_options(spec) }, w);
}

void http_writes_forget(struct http_client *h)
{
	while (!list_empty(&h->ops))
		op_free(list_first(&h->ops, struct op, link));
}
