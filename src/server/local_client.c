/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/selector.h"
#include "base/log.h"
#include "client/client.h"
#include "server/server_priv.h"

/*
 * client/client.h for this process: the store itself is the cache, and a write goes the way of a
 * request over HTTP, with the same defaults, checks and errors, before the call returns.
 */
struct local {
	struct server *s;
	char *user;
	struct list syncs;   /* struct local_sync: all that wait */
	struct timer *again; /* for those whose commit failed */
};

struct local_watch {
	struct list link;        /* in server.locals */
	const struct kind *kind; /* a reference */
	char *ns;                /* NULL: all */
	struct selector *labels;
	struct client_watch_events ev;
	void *arg;
};

static struct object *local_get(void *ctx, const struct kind *k, const char *ns, const char *name)
{
	struct local *l = ctx;

	return object_ref(find_object(l->s, k, ns, name));
}

static void local_each(void *ctx, const struct kind *k, const char *ns,
		       bool (*fn)(void *arg, struct object *o), void *arg)
{
	struct local *l = ctx;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, k, ns);
	while ((en = store_next(l->s->store, buf_str(&prefix), en ? en->key : NULL)))
		if (en->tag && !fn(arg, en->tag))
			return;
}

static bool watch_wants(const struct local_watch *w, const struct object *o)
{
	return (!w->ns || str_eq(w->ns, o->ns)) &&
	       (!w->labels ||
		selector_matches_labels(w->labels,
					json_get(json_get(o->root, "metadata"), "labels")));
}

void locals_changed(struct server *s, const struct store_event *ev)
{
	struct object *now = ev->type == STORE_DELETED ? NULL : ev->entry->tag;
	/* A deleted object is shown as it was last, with the revision of its end. */
	struct object *was = ev->type == STORE_DELETED ? ev->entry->tag
			     : ev->prev                ? ev->prev->tag
						       : NULL;
	const struct object *any = ev->entry->tag;
	struct local_watch *w, *next;

	list_each_safe(w, next, &s->locals, link) {
		struct object *a = was, *b = now;

		if (w->kind != any->kind)
			continue;
		if (a && !watch_wants(w, a))
			a = NULL;
		if (b && !watch_wants(w, b))
			b = NULL;
		if (a || b)
			w->ev.changed(w->arg, a, b);
	}
}

static bool tell_existing(void *arg, struct object *o)
{
	struct local_watch *w = arg;

	if (watch_wants(w, o))
		w->ev.changed(w->arg, NULL, o);
	return true;
}

static void *local_watch(void *ctx, const struct client_watch_spec *spec,
			 const struct client_watch_events *ev, void *arg)
{
	struct local *l = ctx;
	struct local_watch *w = xnew(struct local_watch);
	struct err *e;

	w->kind = kind_ref(kind_storage(spec->kind));
	w->ns = str_empty(spec->ns) ? NULL : xstrdup(spec->ns);
	w->ev = *ev;
	w->arg = arg;
	if (!str_empty(spec->label_selector)) {
		e = selector_parse_labels(spec->label_selector, &w->labels);
		assert(!e); /* a constant of our own */
		err_free(e);
	}
	list_add_tail(&l->s->locals, &w->link);
	local_each(l, w->kind, w->ns, tell_existing, w);
	if (ev->synced)
		ev->synced(arg);
	return w;
}

static void local_watch_free(void *ctx unused, void *watch)
{
	struct local_watch *w = watch;

	list_del(&w->link);
	selector_free(w->labels);
	kind_unref(w->kind);
	free(w->ns);
	free(w);
}

static void local_fetch(void *ctx, const struct kind *k, const char *ns, const char *name,
			client_done done, void *arg)
{
	struct local *l = ctx;
	autoptr(object) o = object_ref(find_object(l->s, k, ns, name));

	done(arg, o ? NULL : err_absent(k, name), o);
}

static struct op op_for(const struct local *l, const struct kind *k, const char *ns,
			const char *name)
{
	return (struct op){ .s = l->s,
			    .user = l->user,
			    .kind = k,
			    .ns = str_or(ns, ""),
			    .name = str_or(name, ""),
			    .sub = "" };
}

/* Ends an operation: the object stays ours until done() has returned. */
static void finish(struct op *op, struct err *e, client_done done, void *arg)
{
	if (e)
		done(arg, e, NULL);
	else
		done(arg, NULL, op->removed ? NULL : op->result);
}

static void local_create(void *ctx, const struct kind *k, const char *ns, struct json_doc *obj,
			 client_done done, void *arg)
{
	autoop op = op_for(ctx, k, ns, NULL);

	finish(&op, op_create(&op, obj), done, arg);
}

static void local_update(void *ctx, const struct kind *k, struct json_doc *obj, const char *sub,
			 client_done done, void *arg)
{
	const struct json *meta = json_get(json_root(obj), "metadata");
	autofree char *ns = xstrdup(str_or(json_get_str(meta, "namespace"), ""));
	autofree char *name = xstrdup(str_or(json_get_str(meta, "name"), ""));
	autoop op = op_for(ctx, k, ns, name);

	op.sub = str_or(sub, "");
	finish(&op, op_update(&op, obj), done, arg);
}

static void local_patch(void *ctx, const struct kind *k, const char *ns, const char *name,
			const char *sub, enum patch_type how, struct json_doc *patch,
			client_done done, void *arg)
{
	autoptr(json_doc) p = patch;
	autoop op = op_for(ctx, k, ns, name);

	op.sub = str_or(sub, "");
	finish(&op, op_patch(&op, how, json_root(p)), done, arg);
}

static void local_delete(void *ctx, const struct kind *k, const char *ns, const char *name,
			 const struct client_delete_spec *spec, client_done done, void *arg)
{
	struct delete_options options = { .grace_s = -1 };
	autoop op = op_for(ctx, k, ns, name);

	if (spec)
		options = (struct delete_options){ .uid = spec->uid,
						   .rev = spec->rev,
						   .propagation = spec->propagation,
						   .grace_s = spec->grace_s };
	finish(&op, op_delete(&op, &options), done, arg);
}

/* Someone waits until all is durable, however long that takes: they mean to destroy something. */
struct local_sync {
	struct list link;
	struct local *l; /* NULL: the client is gone, and nobody is called */
	bool failed;     /* waits for the timer */
	void (*fn)(void *arg);
	void *arg;
};

static void on_synced(void *arg, struct err *e)
{
	struct local_sync *w = arg;

	if (w->l && e) {
		log_warn("the store cannot commit, what waits for it goes on waiting",
			 KV("err", e));
		w->failed = true;
		timer_set(w->l->again, 1000);
		err_free(e);
		return;
	}
	err_free(e);
	list_del(&w->link);
	if (w->l)
		w->fn(w->arg);
	free(w);
}

static void sync_again(void *arg)
{
	struct local *l = arg;
	struct local_sync *w, *next;

	list_each_safe(w, next, &l->syncs, link) {
		if (!w->failed)
			continue;
		w->failed = false;
		store_sync(l->s->store, on_synced, w);
	}
}

static void local_sync(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct local *l = ctx;
	struct local_sync *w = xnew(struct local_sync);

	*w = (struct local_sync){ .l = l, .fn = fn, .arg = arg };
	list_add_tail(&l->syncs, &w->link);
	store_sync(l->s->store, on_synced, w);
}

static void local_free(void *ctx)
{
	struct local *l = ctx;
	struct local_sync *w, *next;

	list_each_safe(w, next, &l->syncs, link) {
		list_del(&w->link);
		w->l = NULL;
		if (w->failed)
			free(w);
	}
	timer_free(l->again);
	free(l->user);
	free(l);
}

static const struct client_ops local_ops = {
	.get = local_get,
	.each = local_each,
	.watch = local_watch,
	.watch_free = local_watch_free,
	.fetch = local_fetch,
	.create = local_create,
	.update = local_update,
	.patch = local_patch,
	.delete_ = local_delete,
	.sync = local_sync,
	.free = local_free,
};

struct client *server_client(struct server *s, const char *user)
{
	struct local *l = xnew(struct local);

	l->s = s;
	l->user = xstrdup(user);
	list_init(&l->syncs);
	l->again = timer_new(s->loop, sync_again, l);
	return client_new(&local_ops, l, s->registry);
}
