/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"

/*
 * The client is a thin dispatch: a transport's functions and what they work on. All behaviour is in
 * the transports (server/ in one process, http.c over HTTPS).
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

void client_fetch(struct client *c, const struct kind *k, const char *ns, const char *name,
		  client_done done, void *arg)
{
	c->ops->fetch(c->ctx, k, ns, name, done, arg);
}

void client_create(struct client *c, const struct kind *k, const char *ns, struct json_doc *obj,
		   client_done done, void *arg)
{
	c->ops->create(c->ctx, k, ns, obj, done, arg);
}

void client_update(struct client *c, const struct kind *k, struct json_doc *obj, const char *sub,
		   client_done done, void *arg)
{
	c->ops->update(c->ctx, k, obj, sub, done, arg);
}

void client_patch(struct client *c, const struct kind *k, const char *ns, const char *name,
		  const char *sub, enum patch_type how, struct json_doc *patch, client_done done,
		  void *arg)
{
	c->ops->patch(c->ctx, k, ns, name, sub, how, patch, done, arg);
}

void client_delete(struct client *c, const struct kind *k, const char *ns, const char *name,
		   const struct client_delete_spec *spec, client_done done, void *arg)
{
	static const struct client_delete_spec defaults = { .grace_s = -1 };

	c->ops->delete_(c->ctx, k, ns, name, spec ? spec : &defaults, done, arg);
}

void client_sync(struct client *c, void (*fn)(void *arg), void *arg)
{
	c->ops->sync(c->ctx, fn, arg);
}
