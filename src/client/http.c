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
 * client.h over HTTPS: reads, which come from informers that are shared by all who watch the same
 * objects. The writes are in http_write.c.
 */
struct http_watch {
	struct informer *informer;
	struct listener *listener;
};

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
	http_writes_forget(h);
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
