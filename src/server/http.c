/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/registry.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/access.h"
#include "net/http_server.h"
#include "server/auth/auth.h"
#include "server/call/body.h"
#include "server/call/status.h"
#include "server/call/trace.h"
#include "server/http_priv.h"
#include "server/objects/objects.h"
#include "server/pages/pages.h"
#include "server/read/read.h"
#include "server/streams/streams.h"
#include "server/users/users.h"
#include "server/watch/watch.h"
#include "server/write/write.h"

/*
 * From a head to a handler: who asks, for what, whether they may, and only then the body.
 */

static void get_awake(struct streams *ps, struct call *c)
{
	read_get(ps->objects, c);
}

/* Whether the user of a call may do something else to the same object as well. */
static struct err *may_also(struct front *f, const struct call *c, enum verb verb, const char *sub)
{
	struct call other = *c;

	other.route.verb = verb;
	other.route.sub = sub;
	return authorise(f->by, &other);
}

/* A Pod that sleeps is woken for whoever is about to go into it, and may. */
static bool wakes(struct front *f, const struct call *c)
{
	const char *sub = c->route.kind == f->objects->pod ? streams_announced(c) : NULL;
	autoptr(err) e = sub ? may_also(f, c, VERB_CREATE, sub) : NULL;

	return sub && !e;
}

static void on_get(struct front *f, struct call *c)
{
	if (!wakes(f, c) || !streams_wake(f->streams, c, get_awake))
		read_get(f->objects, c);
}

static void on_list(struct front *f, struct call *c)
{
	read_list(f->objects, c);
}

static void on_watch(struct front *f, struct call *c)
{
	watchers_serve(f->watchers, c);
}

static void on_create(struct front *f, struct call *c)
{
	write_create(f->admit, f->waiters, c);
}

/* An apply, and an update of some kinds, create what is not there, which is another right. */
static struct err *may_create(struct front *f, struct call *c)
{
	const struct route *r = &c->route;
	bool creates = r->verb == VERB_UPDATE ? r->kind->flags & KIND_PUT_CREATES : body_applies(c);

	if (*r->sub || !creates || objects_find(f->objects, r->kind, r->ns, r->name))
		return NULL;
	return may_also(f, c, VERB_CREATE, "");
}

static void on_update(struct front *f, struct call *c)
{
	struct err *e = may_create(f, c);

	if (e)
		call_fail(c, e);
	else
		write_update(f->admit, c);
}

static void on_patch(struct front *f, struct call *c)
{
	struct err *e = may_create(f, c);

	if (e)
		call_fail(c, e);
	else
		write_patch(f->admit, c);
}

static void on_delete(struct front *f, struct call *c)
{
	write_delete(f->admit, c);
}

static void on_delete_collection(struct front *f, struct call *c)
{
	write_delete_collection(f->admit, c);
}

/* An object or a collection */
static void on_object(struct front *f, struct call *c)
{
	static void (*const handlers[VERB_MAX_])(struct front *f, struct call *c) = {
		[VERB_GET] = on_get,       [VERB_LIST] = on_list,
		[VERB_WATCH] = on_watch,   [VERB_CREATE] = on_create,
		[VERB_UPDATE] = on_update, [VERB_PATCH] = on_patch,
		[VERB_DELETE] = on_delete, [VERB_DELETE_COLLECTION] = on_delete_collection,
	};

	handlers[c->route.verb](f, c);
}

static void on_scale(struct front *f, struct call *c)
{
	write_scale(f->admit, c);
}

static void on_evict(struct front *f, struct call *c)
{
	write_evict(f->admit, c);
}

static void on_token(struct front *f, struct call *c)
{
	token_issue(f->tokens, c);
}

static void on_log(struct front *f, struct call *c)
{
	streams_log(f->streams, c);
}

static void on_exec(struct front *f, struct call *c)
{
	streams_exec(f->streams, c);
}

static void on_attach(struct front *f, struct call *c)
{
	streams_attach(f->streams, c);
}

static void on_forward(struct front *f, struct call *c)
{
	streams_forward(f->streams, c);
}

static void on_proxy(struct front *f, struct call *c)
{
	streams_proxy(f->streams, c);
}

static void (*const sub_handlers[SUB_MAX_])(struct front *f, struct call *c) = {
	[SUB_STATUS] = on_object,    [SUB_FINALIZE] = on_object, [SUB_SCALE] = on_scale,
	[SUB_TOKEN] = on_token,      [SUB_LOG] = on_log,         [SUB_EXEC] = on_exec,
	[SUB_ATTACH] = on_attach,    [SUB_FORWARD] = on_forward, [SUB_RESIZE] = on_object,
	[SUB_EPHEMERAL] = on_object, [SUB_EVICTION] = on_evict,  [SUB_PROXY] = on_proxy,
};

/* The path makes sense for the kind: scope, subresource, name where one is needed. */
static struct err *check_resource(const struct route *r)
{
	const char *bad;
	bool namespaced;
	enum sub sub;

	if (review_of(r))
		return review_check(r);
	if (!r->kind)
		return err_no_resource();
	namespaced = r->kind->flags & KIND_NAMESPACED;
	if (*r->ns && !namespaced)
		return err_no_resource();
	bad = meta_bad_segment(r->name);
	if (bad)
		return err_new(ERR_MALFORMED, "Name parameter invalid: \"%s\": %s", r->name, bad);
	if (namespaced && !*r->ns && *r->name)
		return err_no_resource();
	if (*r->sub) {
		sub = subresource_find(r->kind, r->sub);
		if (sub == SUB_MAX_ && (r->kind->flags & KIND_CRD))
			return err_absent(r->kind, r->name);
		if (sub == SUB_MAX_)
			return err_no_resource();
		return subresources[sub].verbs & B(r->verb) ? NULL : err_no_method();
	}
	if ((r->kind->flags & KIND_MEASURED) && !(KIND_MEASURED_VERBS & B(r->verb)))
		return err_no_method();
	if (r->verb == VERB_CREATE && (*r->name || (namespaced && !*r->ns)))
		return err_no_method();
	if ((r->verb == VERB_UPDATE || r->verb == VERB_PATCH) && !*r->name)
		return err_no_method();
	if (r->verb == VERB_DELETE_COLLECTION &&
	    ((namespaced && !*r->ns) || r->kind->flags & KIND_CONTENTS))
		return err_no_method();
	return NULL;
}

static void run(struct front *f, struct call *c)
{
	const struct route *r = &c->route;

	if (users_path(r))
		users_answer(f->users, c);
	else if (!r->resource)
		pages_show(f->pages, c);
	else if (review_of(r))
		review_answer(&(struct review_desk){ f->tokens, f->by }, c);
	else if (*r->sub)
		sub_handlers[subresource_find(r->kind, r->sub)](f, c);
	else
		on_object(f, c);
}

/* The kind may have been removed while the body was on its way. */
static bool still_served(const struct call *c)
{
	const struct route *r = &c->route;

	return !r->kind || kinds_find(c->calls->kinds, r->group, r->version, r->plural) == r->kind;
}

static void on_body(void *owner, struct http_request *req unused, const char *data, size_t len)
{
	autoptr(call) c = call_ref(owner);
	struct front *f = container_of(c->calls, struct front, calls);
	usec since = clock_mono();

	c->body = data;
	c->body_len = len;
	if (still_served(c)) {
		run(f, c);
	} else {
		c->route.kind = NULL;
		call_fail(c, err_no_resource());
	}
	call_spent(c, since);
}

static bool has_body(const struct route *r)
{
	if (users_path(r))
		return r->verb == VERB_CREATE;
	return r->resource && (B(r->verb) & (B(VERB_CREATE) | B(VERB_UPDATE) | B(VERB_PATCH) |
					     B(VERB_DELETE) | B(VERB_DELETE_COLLECTION)));
}

static const struct server_endpoint *find_endpoint(const struct front *f, const struct call *c)
{
	const char *path = http_request_path(c->req);

	for (size_t i = 0; i < f->n_endpoints; i++) {
		const struct server_endpoint *e = &f->endpoints[i];

		if (str_ends(e->path, "/") ? str_starts(path, e->path) : str_eq(path, e->path))
			return e;
	}
	return NULL;
}

/* Somebody, and not nobody: what they may do there is asked for each thing that they do. */
static struct err *may_visit(struct call *c)
{
	if (str_in("system:authenticated", c->user.groups) || !wall_stands("endpoint-users"))
		return NULL;
	return err_new(ERR_UNAUTHENTICATED, "Unauthorized");
}

/* Hands the request over; the call is over for us. */
static void visit_endpoint(const struct server_endpoint *e, struct call *c)
{
	const struct access_target who = { .user = c->user.name,
					   .from = c->from,
					   .groups = c->user.groups,
					   .account_ns = c->user.sa_ns,
					   .by = c->user.by,
					   .expires = c->ends };

	e->visit(e->arg, c->req, &who);
	c->req = NULL;
	call_unref(c);
}

/* A custom resource has any subresource until somebody looks for the object. */
static bool is_custom_part(const struct route *r)
{
	return r->kind && (r->kind->flags & KIND_CRD) && *r->sub &&
	       subresource_find(r->kind, r->sub) == SUB_MAX_;
}

static struct err *let_in(struct front *f, struct call *c)
{
	struct err *routed, *e;

	e = authenticate(f->tokens, c);
	if (!e)
		e = call_enter(c);
	if (!e)
		e = impersonate(f->by, f->objects, c);
	if (!e && find_endpoint(f, c))
		return may_visit(c);
	if (e)
		return e;
	routed = route_read(c);
	if (!routed || c->route.resource) {
		e = authorise(f->by, c);
		if (e) {
			err_free(routed);
			return e;
		}
	}
	e = routed;
	if (!e && c->route.resource)
		e = check_resource(&c->route);
	if (e) {
		if (!is_custom_part(&c->route))
			c->route.kind = NULL; /* it is about the path, not about an object */
		return e;
	}
	if (c->route.resource && c->route.verb != VERB_WATCH && !*c->route.sub) {
		e = call_check_timeout(c);
		if (e)
			return e;
	}
	if (!route_is_raw(&c->route) && http_request_body_len(c->req) > BODY_MAX)
		return err_new(ERR_TOO_LARGE, "Request entity too large: limit is %d", BODY_MAX);
	return NULL;
}

static void deprecation(struct call *c)
{
	const struct kind *k = c->route.kind;

	if (!k || !(k->flags & KIND_DEPRECATED))
		return;
	if (k->deprecation)
		call_warn(c, k->deprecation);
	else if (kind_storage(k) == k || k->type->custom)
		call_warn(c, arena_printf(c->arena, "%s %s is deprecated", kind_api_version(k),
					  k->kind));
	else
		call_warn(c, arena_printf(c->arena, "%s %s is deprecated; use %s %s instead",
					  kind_api_version(k), k->kind,
					  kind_api_version(kind_storage(k)), k->kind));
}

static void begin(struct front *f, struct call *c, struct http_request *req)
{
	const struct server_endpoint *to = find_endpoint(f, c);
	const struct route *r = &c->route;
	struct err *e = to && to->open ? NULL : let_in(f, c);

	f->calls.n_requests++;
	if (e) {
		if (err_is(e, ERR_UNAUTHENTICATED) && to)
			http_headers_add(&c->headers, "WWW-Authenticate", "Bearer realm=\"cay\"");
		call_fail(c, e);
		return;
	}
	if (to) {
		visit_endpoint(to, c);
		return;
	}
	call_trace(c);
	deprecation(c);
	if (route_is_raw(r))
		run(f, c);
	else if (has_body(r))
		http_request_buffer(req, BODY_MAX, on_body);
	else
		run(f, c);
}

/* What it costs is the user's, whatever becomes of it. */
static void on_head(void *arg, struct http_request *req)
{
	struct front *f = arg;
	autoptr(call) c = call_ref(call_new(&f->calls, req));

	begin(f, c, req);
	call_spent(c, c->began);
}

const struct http_handler front_handler = { .head = on_head };
