/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_server.h"
#include "server/server_priv.h"

/*
 * From a head to a handler: who asks, for what, may they, and only then the body.
 */
static void (*const handlers[VERB_MAX_])(struct call *c) = {
	[VERB_GET] = handle_get,       [VERB_LIST] = handle_list,
	[VERB_WATCH] = handle_watch,   [VERB_CREATE] = handle_create,
	[VERB_UPDATE] = handle_update, [VERB_PATCH] = handle_patch,
	[VERB_DELETE] = handle_delete, [VERB_DELETE_COLLECTION] = handle_delete_collection,
};

static struct err *no_such_thing(void)
{
	return err_new(ERR_NOT_FOUND, "the server could not find the requested resource");
}

static struct err *no_such_method(void)
{
	return err_new(ERR_METHOD,
		       "the server does not allow this method on the requested resource");
}

/* The path makes sense for the kind: scope, subresource, name where one is needed. */
static struct err *check_resource(const struct route *r)
{
	const struct subresource *sub;
	bool namespaced;

	if (!r->kind)
		return no_such_thing();
	namespaced = r->kind->flags & KIND_NAMESPACED;
	if (*r->ns && !namespaced)
		return no_such_thing();
	if (namespaced && !*r->ns && *r->name)
		return no_such_thing();
	if (*r->sub) {
		sub = subresource_find(r->kind, r->sub);
		if (!sub)
			return no_such_thing();
		return sub->verbs & B(r->verb) ? NULL : no_such_method();
	}
	if (r->verb == VERB_CREATE && (*r->name || (namespaced && !*r->ns)))
		return no_such_method();
	if ((r->verb == VERB_UPDATE || r->verb == VERB_PATCH) && !*r->name)
		return no_such_method();
	if (r->verb == VERB_DELETE_COLLECTION && namespaced && !*r->ns)
		return no_such_method();
	return NULL;
}

static void run(struct call *c)
{
	const struct route *r = &c->route;

	if (!r->resource)
		handle_page(c);
	else if (*r->sub)
		subresource_find(r->kind, r->sub)->handle(c);
	else
		handlers[r->verb](c);
}

/* The kind may have been removed while the body was on its way. */
static bool still_served(const struct call *c)
{
	const struct route *r = &c->route;

	return !r->kind || kinds_find(c->s->registry, r->group, r->version, r->plural) == r->kind;
}

static void on_body(void *owner, struct http_request *req unused, const char *data, size_t len)
{
	struct call *c = owner;

	c->body = data;
	c->body_len = len;
	if (still_served(c)) {
		run(c);
	} else {
		c->route.kind = NULL;
		call_fail(c, no_such_thing());
	}
}

static bool has_body(const struct route *r)
{
	return r->resource && (B(r->verb) & (B(VERB_CREATE) | B(VERB_UPDATE) | B(VERB_PATCH) |
					     B(VERB_DELETE) | B(VERB_DELETE_COLLECTION)));
}

static struct err *let_in(struct call *c)
{
	struct err *routed, *e;

	e = authenticate(c);
	if (e)
		return e;
	routed = route_read(c, &c->route);
	if (!routed || c->route.resource) {
		e = authorise(c);
		if (e) {
			err_free(routed);
			return e;
		}
	}
	if (routed)
		return routed;
	if (c->route.resource)
		e = check_resource(&c->route);
	if (e) {
		c->route.kind = NULL; /* the error is about the path, not about an object */
		return e;
	}
	if (!e && http_request_body_len(c->req) > BODY_MAX)
		e = err_new(ERR_TOO_LARGE, "Request entity too large: limit is %d", BODY_MAX);
	return e;
}

static void deprecation(struct call *c)
{
	const struct kind *k = c->route.kind;

	if (k && (k->flags & KIND_DEPRECATED))
		call_warn(c, arena_printf(c->arena, "%s %s is deprecated; use %s %s",
					  kind_api_version(k), k->kind,
					  kind_api_version(kind_storage(k)), k->kind));
}

static void on_head(void *arg, struct http_request *req)
{
	struct server *s = arg;
	struct call *c = call_new(s, req);
	const struct subresource *sub;
	struct err *e = let_in(c);

	s->counts.requests++;
	if (e) {
		call_fail(c, e);
		return;
	}
	deprecation(c);
	sub = *c->route.sub ? subresource_find(c->route.kind, c->route.sub) : NULL;
	if (sub && sub->raw)
		sub->handle(c);
	else if (has_body(&c->route))
		http_request_buffer(req, BODY_MAX, on_body);
	else
		run(c);
}

const struct http_handler server_http_handler = { .head = on_head };
