/* SPDX-License-Identifier: Apache-2.0 */
#include "client/http.h"

#include <assert.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/client.h"
#include "client/http_priv.h"

/*
 * client.h over HTTPS. Reads come from informers, which are shared by all who watch the same
 * objects. The answer to a write goes into the caches before done() is called, so that whoever
 * done() wakes up sees it there, and also when nobody waits for it any more.
 */
enum {
	MAX_INFORMERS = 64,
	WRITE_MS = 60000,
};

struct http_client {
	struct transport *t;
	struct informer *informers[MAX_INFORMERS];
	size_t n;
	struct list ops; /* struct op.link; under way */
};

struct http_watch {
	struct informer *informer;
	struct listener *listener;
};

/* A write under way. */
struct op {
	struct list link;
	struct http_client *h;
	const struct kind *kind;
	char *ns, *name; /* of a delete */
	bool deletes;
	char *label;
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
	free(op);
}

static void on_op_done(void *arg, struct err *e, const struct reply *r)
{
	struct op *op = arg;
	autoptr(object) o = NULL;

	if (!e && (r->status < 200 || r->status > 299))
		e = status_err_text(r->body, r->len, r->status, op->label);
	if (!e)
		e = op_read(op, r, &o);
	client_waiter_end(&op->waiter, e,
			  !e && o && !(op->deletes && object_gone(o, true)) ? o : NULL);
	op_free(op);
}

/* What to send to the object that a ref names. */
struct ask {
	const char *method;
	const char *type;      /* of the body; NULL: JSON */
	struct json_doc *body; /* taken over */
};

static void op_start(struct http_client *h, const struct client_ref *to, const struct ask *ask,
		     struct client_write *w)
{
	struct op *op = xnew(struct op);
	autofree char *path = http_path(to);
	struct exchange_spec spec = { .method = ask->method, .type = ask->type };

	op->h = h;
	list_add_tail(&h->ops, &op->link);
	op->kind = kind_ref(to->kind);
	op->ns = xstrdup(str_or(to->ns, ""));
	op->name = xstrdup(to->name);
	op->deletes = str_eq(ask->method, "DELETE");
	op->label = xasprintf("%s %s%s%s", ask->method, to->kind->plural, to->sub ? "/" : "",
			      to->sub ? to->sub : "");
	client_waiter_init(&op->waiter, w);
	if (ask->body) {
		autobuf text = { 0 };

		json_write(json_root(ask->body), &text);
		spec.body = buf_steal(&text, &spec.body_len);
		json_doc_free(ask->body);
	}
	spec.path = path;
	spec.label = op->label;
	spec.timeout_ms = WRITE_MS;
	spec.urgent =
		to->kind->flags & KIND_URGENT; /* a leader must not wait behind its own work */
	spec.done = on_op_done;
	spec.arg = op;
	(void)exchange_start(h->t, &spec);
}

static void http_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
			struct client_write *w)
{
	const char *own = json_str(json_at_path(json_root(obj), "metadata.namespace"));
	struct client_ref in = { .kind = to->kind, .ns = str_or(to->ns, own) };

	op_start(ctx, &in, &(struct ask){ .method = "POST", .body = obj }, w);
}

static void http_update(void *ctx, const struct client_ref *to, struct json_doc *obj,
			struct client_write *w)
{
	op_start(ctx, to, &(struct ask){ .method = "PUT", .body = obj }, w);
}

static void http_patch(void *ctx, const struct client_ref *to, enum patch_type how,
		       struct json_doc *patch, struct client_write *w)
{
	struct ask ask = { .method = "PATCH", .body = patch };

	/* Custom resources have no strategic merge. */
	if (how == PATCH_STRATEGIC && (to->kind->flags & KIND_CRD))
		how = PATCH_MERGE;
	ask.type = patch_media_type(how);
	op_start(ctx, to, &ask, w);
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

static void http_delete(void *ctx, const struct client_ref *to,
			const struct client_delete_spec *spec, struct client_write *w)
{
	op_start(ctx, to, &(struct ask){ .method = "DELETE", .body = delete_options(spec) }, w);
}

/* A write that was answered is on the server's disk. */
static void http_sync(unused void *ctx, struct client_write *w)
{
	struct client_waiter waiter;

	client_waiter_init(&waiter, w);
	client_waiter_end(&waiter, NULL, NULL);
}

static struct object *http_get(void *ctx, const struct kind *k, const char *ns, const char *name)
{
	struct http_client *h = ctx;
	bool watched = false;

	for (size_t i = 0; i < h->n; i++) {
		struct object *o;

		if (informer_kind(h->informers[i]) != k)
			continue;
		watched = true;
		o = cache_get(informer_cache(h->informers[i]), ns, name);
		if (o)
			return object_ref(o);
	}
	assert(watched); /* otherwise "absent" might only mean "never looked for" */
	return NULL;
}

/* Visits the objects that no earlier informer of the kind has. */
struct each {
	struct http_client *h;
	size_t at;
	bool (*fn)(void *arg, struct object *o);
	void *arg;
};

static bool each_once(void *arg, struct object *o)
{
	struct each *e = arg;

	for (size_t i = 0; i < e->at; i++) {
		struct informer *inf = e->h->informers[i];

		if (informer_kind(inf) == o->kind && cache_get(informer_cache(inf), o->ns, o->name))
			return true;
	}
	return e->fn(e->arg, o);
}

static void http_each(void *ctx, const struct kind *k, const char *ns,
		      bool (*fn)(void *arg, struct object *o), void *arg)
{
	struct http_client *h = ctx;
	struct each each = { .h = h, .fn = fn, .arg = arg };
	bool watched = false;

	for (size_t i = 0; i < h->n; i++) {
		if (informer_kind(h->informers[i]) != k || !informer_covers_all(h->informers[i]))
			continue;
		(void)cache_each(informer_cache(h->informers[i]), ns, fn, arg);
		return;
	}
	for (; each.at < h->n; each.at++) {
		struct informer *inf = h->informers[each.at];

		if (informer_kind(inf) != k)
			continue;
		watched = true;
		if (!cache_each(informer_cache(inf), ns, each_once, &each))
			return;
	}
	assert(watched);
}

static void *http_watch(void *ctx, const struct client_watch_spec *spec,
			const struct client_watch_events *ev, void *arg)
{
	struct http_client *h = ctx;
	struct http_watch *w = xnew(struct http_watch);

	for (size_t i = 0; i < h->n; i++) {
		if (informer_is(h->informers[i], spec))
			w->informer = h->informers[i];
	}
	if (!w->informer) {
		assert(h->n < MAX_INFORMERS); /* there are few kinds, and peers cannot add any */
		w->informer = informer_new(h->t, spec);
		h->informers[h->n++] = w->informer;
	}
	w->listener = informer_listen(w->informer, ev, arg);
	return w;
}

/* An informer is freed with its last listener, but not from inside its own callback: then it stays,
 * and serves whoever watches the same objects next. */
static void http_watch_free(void *ctx, void *watch)
{
	struct http_client *h = ctx;
	struct http_watch *w = watch;
	bool last = informer_unlisten(w->informer, w->listener);

	if (last && !informer_busy(w->informer)) {
		for (size_t i = 0; i < h->n; i++) {
			if (h->informers[i] != w->informer)
				continue;
			informer_free(w->informer);
			h->informers[i] = h->informers[--h->n];
			break;
		}
	}
	free(w);
}

static void http_free(void *ctx)
{
	struct http_client *h = ctx;

	while (h->n)
		informer_free(h->informers[--h->n]);
	transport_free(h->t);
	while (!list_empty(&h->ops))
		op_free(list_first(&h->ops, struct op, link));
	free(h);
}

static const struct client_ops http_ops = {
	.get = http_get,
	.each = http_each,
	.watch = http_watch,
	.watch_free = http_watch_free,
	.create = http_create,
	.update = http_update,
	.patch = http_patch,
	.delete_ = http_delete,
	.sync = http_sync,
	.free = http_free,
};

struct err *client_http_new(struct loop *l, const struct kubeconfig *k, const char *user_agent,
			    struct kinds *kinds, struct client **ret)
{
	struct transport *t = NULL;
	struct http_client *h;
	struct err *e = transport_new(l, k, user_agent, &t);

	if (e)
		return e;
	h = xnew(struct http_client);
	h->t = t;
	list_init(&h->ops);
	*ret = client_new(&http_ops, h, kinds);
	return NULL;
}

struct json_doc *client_http_counts(struct client *c)
{
	struct http_client *h = client_transport(c, &http_ops);
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	if (!h)
		return d;
	map_each(it, transport_counts(h->t))
		json_set_int(d, root, it.key, *(int64_t *)it.value);
	return d;
}
