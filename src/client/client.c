/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"

#include <assert.h>

#include "base/log.h"
#include "base/str.h"

/*
 * The client is a thin dispatch: a transport's functions and what they work on. All behaviour is in
 * the transports (server/ in one process, http.c over HTTPS), apart from the link between a request
 * and whoever waits for its end. That link is a list of at most one element: either side can be
 * freed first, and neither has to look for the other.
 */
struct client {
	const struct client_ops *ops;
	void *ctx;
	struct kinds *kinds;
};

struct client_watch {
	struct client *client;
	void *watch; /* the transport's */
};

struct client *client_new(const struct client_ops *ops, void *ctx, struct kinds *kinds)
{
	struct client *c = xnew(struct client);

	c->ops = ops;
	c->ctx = ctx;
	c->kinds = kinds;
	return c;
}

void client_free(struct client *c)
{
	if (!c)
		return;
	if (c->ops->free)
		c->ops->free(c->ctx);
	free(c);
}

struct kinds *client_kinds(struct client *c)
{
	return c->kinds;
}

void *client_transport(struct client *c, const struct client_ops *ops)
{
	return c->ops == ops ? c->ctx : NULL;
}

struct object *client_get(struct client *c, const struct kind *k, const char *ns, const char *name)
{
	return c->ops->get(c->ctx, k, ns, name);
}

void client_each(struct client *c, const struct kind *k, const char *ns,
		 bool (*fn)(void *arg, struct object *o), void *arg)
{
	c->ops->each(c->ctx, k, ns, fn, arg);
}

struct client_watch *client_watch(struct client *c, const struct client_watch_spec *spec,
				  const struct client_watch_events *ev, void *arg)
{
	struct client_watch *w = xnew(struct client_watch);

	w->client = c;
	w->watch = c->ops->watch(c->ctx, spec, ev, arg);
	return w;
}

void client_watch_free(struct client_watch *w)
{
	if (!w)
		return;
	w->client->ops->watch_free(w->client->ctx, w->watch);
	free(w);
}

/* An API server asks every custom resource what it is; the ref says so already. */
static void name_kind(struct json_doc *obj, const struct kind *k)
{
	struct json *root = json_root(obj);

	if (!json_is(root, JSON_OBJ))
		return; /* the server says what is wrong with it */
	if (!json_get(root, "apiVersion"))
		json_set_str(obj, root, "apiVersion", kind_api_version(k));
	if (!json_get(root, "kind"))
		json_set_str(obj, root, "kind", k->kind);
}

void client_create(struct client *c, const struct client_ref *to, struct json_doc *obj,
		   struct client_write *w)
{
	name_kind(obj, to->kind);
	c->ops->create(c->ctx, to, obj, w);
}

static void refuse(struct client_write *w, struct err *e)
{
	struct client_waiter waiter;

	client_waiter_init(&waiter, w);
	client_waiter_end(&waiter, e, NULL);
}

void client_update(struct client *c, const struct client_ref *to, struct json_doc *obj,
		   struct client_write *w)
{
	static const char *const patches[] = { CLIENT_WHOLE, CLIENT_AT_ONCE, NULL };

	if (str_in(str_or(to->sub, ""), patches)) {
		json_doc_free(obj);
		refuse(w, err_new(ERR_INVALID,
				  "update %s: status and the rest are written apart, or patched",
				  to->name));
		return;
	}
	name_kind(obj, to->kind);
	c->ops->update(c->ctx, to, obj, w);
}

void client_patch(struct client *c, const struct client_ref *to, enum patch_type how,
		  struct json_doc *patch, struct client_write *w)
{
	c->ops->patch(c->ctx, to, how, patch, w);
}

void client_delete(struct client *c, const struct client_ref *to,
		   const struct client_delete_spec *spec, struct client_write *w)
{
	static const struct client_delete_spec defaults = { .grace_s = -1 };

	c->ops->delete_(c->ctx, to, spec ? spec : &defaults, w);
}

void client_sync(struct client *c, struct client_write *w)
{
	c->ops->sync(c->ctx, w);
}

void client_cancel(struct client_write *w)
{
	if (w->on.next) /* NULL: it was never started */
		list_del(&w->on);
}

void client_waiter_init(struct client_waiter *at, struct client_write *w)
{
	list_init(&at->writes);
	if (!w)
		return;
	assert(w->done);
	assert(!w->on.next || list_empty(&w->on)); /* one call at a time */
	list_add_tail(&at->writes, &w->on);
}

void client_waiter_end(struct client_waiter *at, struct err *e, struct object *obj)
{
	struct client_write *w;

	if (list_empty(&at->writes)) {
		if (e)
			log_debug("request failed while nobody waited for it, dropping the error",
				  KV("err", e));
		err_free(e);
		return;
	}
	w = list_first(&at->writes, struct client_write, on);
	list_del(&w->on);
	w->done(w, e, obj);
}

void client_waiter_done(struct client_waiter *at)
{
	list_del(at->writes.next); /* if nobody waits, this is the list itself */
}
