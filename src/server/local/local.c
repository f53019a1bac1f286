/* SPDX-License-Identifier: Apache-2.0 */
#include "server/local/local.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "server/admit/admit.h"
#include "server/call/status.h"
#include "server/local/local_priv.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * client/client.h for this process: the store itself is the cache, and a write takes the same path
 * as a request over HTTP, with the same defaults, checks and errors, before the function returns.
 */
static struct object *local_get(void *ctx, const struct kind *k, const char *ns, const char *name)
{
	struct local *l = ctx;

	return object_ref(objects_find(l->all->objects, k, ns, name));
}

void local_each(void *ctx, const struct kind *k, const char *ns,
		bool (*fn)(void *arg, struct object *o), void *arg)
{
	struct local *l = ctx;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, k, ns);
	while ((en = store_next(l->all->objects->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(l->all->objects, en);

		if (o && !fn(arg, o))
			return;
	}
}

static struct op op_for(const struct local *l, const struct client_ref *to)
{
	return (struct op){ .admit = l->all->admit,
			    .user = l->user,
			    .kind = to->kind,
			    .ns = str_or(to->ns, ""),
			    .name = str_or(to->name, ""),
			    .sub = str_or(to->sub, "") };
}

/* Takes e over. The object stays ours until done() has returned. */
static void finish(struct op *op, struct client_waiter *waiter, struct err *e)
{
	client_waiter_end(waiter, e, e || op->removed ? NULL : op->result);
}

/* What a controller writes is decoded like any body. Takes obj over. */
static struct err *decode(struct op *op, struct json_doc *obj, struct json_doc **ret)
{
	return op_decode(op, &(struct decode_input){ .media = DECODE_TREE, .tree = obj }, ret);
}

static void local_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
			 struct client_write *w)
{
	const struct client_ref in = { .kind = to->kind, .ns = to->ns };
	autoop op = op_for(ctx, &in);
	struct client_waiter waiter;
	struct json_doc *d;
	struct err *e;

	client_waiter_init(&waiter, w);
	e = decode(&op, obj, &d);
	finish(&op, &waiter, e ? e : op_create(&op, d));
}

static void local_update(void *ctx, const struct client_ref *to, struct json_doc *obj,
			 struct client_write *w)
{
	autoop op = op_for(ctx, to);
	struct client_waiter waiter;
	struct json_doc *d;
	struct err *e;

	client_waiter_init(&waiter, w);
	e = decode(&op, obj, &d);
	finish(&op, &waiter, e ? e : op_update(&op, d));
}

static void local_patch(void *ctx, const struct client_ref *to, enum patch_type how,
			struct json_doc *patch, struct client_write *w)
{
	autoptr(json_doc) p = patch;
	autoop op = op_for(ctx, to);
	struct client_waiter waiter;

	if (str_eq(op.sub, CLIENT_AT_ONCE)) /* a second half costs nothing here */
		op.sub = CLIENT_WHOLE;
	client_waiter_init(&waiter, w);
	finish(&op, &waiter, op_patch(&op, how, json_root(p), NULL));
}

static void local_delete(void *ctx, const struct client_ref *to,
			 const struct client_delete_spec *spec, struct client_write *w)
{
	autofree char *rev = spec->rev ? xasprintf("%llu", (unsigned long long)spec->rev) : NULL;
	const struct delete_options options = { .uid = spec->uid,
						.resource_version = rev,
						.propagation = spec->propagation,
						.grace_s = spec->grace_s };
	autoop op = op_for(ctx, to);
	struct client_waiter waiter;

	client_waiter_init(&waiter, w);
	finish(&op, &waiter, op_delete(&op, &options));
}

/* A wait until everything is durable, however long that takes: whoever waits is about to destroy
 * something. The store cannot forget a sync, so this outlives both the wait and the client. */
struct local_sync {
	struct list link;
	struct local *l; /* NULL: the client is gone */
	bool failed;     /* waits for the timer */
	struct client_waiter waiter;
};

static void on_synced(void *arg, struct err *e)
{
	struct local_sync *sync = arg;

	if (sync->l && e) {
		log_debug("store cannot commit, deletions keep waiting for it", KV("err", e));
		sync->failed = true;
		timer_set(sync->l->again, 1000);
		err_free(e);
		return;
	}
	err_free(e);
	list_del(&sync->link);
	client_waiter_end(&sync->waiter, NULL, NULL);
	free(sync);
}

static void sync_again(void *arg)
{
	struct local *l = arg;
	struct local_sync *sync, *next;

	list_each_safe(sync, next, &l->syncs, link) {
		if (!sync->failed)
			continue;
		sync->failed = false;
		store_sync(l->all->objects->store, on_synced, sync);
	}
}

static void local_sync(void *ctx, struct client_write *w)
{
	struct local *l = ctx;
	struct local_sync *sync = xnew(struct local_sync);

	sync->l = l;
	client_waiter_init(&sync->waiter, w);
	list_add_tail(&l->syncs, &sync->link);
	store_sync(l->all->objects->store, on_synced, sync);
}

static void local_free(void *ctx)
{
	struct local *l = ctx;
	struct local_sync *sync, *next;

	list_each_safe(sync, next, &l->syncs, link) {
		client_waiter_done(&sync->waiter);
		list_del(&sync->link);
		sync->l = NULL;
		if (sync->failed)
			free(sync);
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
	.create = local_create,
	.update = local_update,
	.patch = local_patch,
	.delete_ = local_delete,
	.sync = local_sync,
	.free = local_free,
};

void locals_init(struct locals *ls, struct admit *a, struct loop *l)
{
	*ls = (struct locals){ .objects = a->objects, .admit = a, .loop = l };
	list_init(&ls->watches);
}

struct client *local_client(struct locals *ls, const char *user)
{
	struct local *l = xnew(struct local);

	l->all = ls;
	l->user = xstrdup(user);
	list_init(&l->syncs);
	l->again = timer_new(ls->loop, sync_again, l);
	return client_new(&local_ops, l, ls->objects->kinds);
}
