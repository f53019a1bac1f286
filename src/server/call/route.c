/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/route.h"

#include <string.h>

#include "api/kind.h"
#include "api/registry.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http_server.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"

/*
 * From method and path to what is asked:
 *
 *   /api/v1/PLURAL[/NAME[/SUB]]                       /apis/GROUP/VERSION/PLURAL…
 *   /api/v1/namespaces/NS/PLURAL[/NAME[/SUB]]         /apis/GROUP/VERSION/namespaces/NS/PLURAL…
 *   /api/v1/watch/…                                   /apis/GROUP/VERSION/watch/…
 *
 * and everything else is a page of the server itself.
 */
enum {
	PARTS_MAX = 16,
};

struct parts {
	const char *list[PARTS_MAX];
	size_t n;
	const char *rest; /* of a path that is passed on, from its slash on; NULL: it is not */
};

static const char *const verb_names[VERB_MAX_] = {
	[VERB_GET] = "get",       [VERB_LIST] = "list",
	[VERB_WATCH] = "watch",   [VERB_CREATE] = "create",
	[VERB_UPDATE] = "update", [VERB_PATCH] = "patch",
	[VERB_DELETE] = "delete", [VERB_DELETE_COLLECTION] = "deletecollection",
};

const char *verb_name(enum verb v)
{
	return verb_names[v];
}

#define READ_AND_WRITE (B(VERB_GET) | B(VERB_UPDATE) | B(VERB_PATCH))
#define UPGRADE        (B(VERB_GET) | B(VERB_CREATE))
#define PROXY          (READ_AND_WRITE | B(VERB_CREATE) | B(VERB_DELETE))

const struct subresource subresources[SUB_MAX_] = {
	[SUB_STATUS] = { "status", .verbs = READ_AND_WRITE },
	[SUB_FINALIZE] = { "finalize", .verbs = B(VERB_UPDATE) },
	[SUB_SCALE] = { "scale", "autoscaling", "v1", "Scale", READ_AND_WRITE },
	[SUB_TOKEN] = { "token", "authentication.k8s.io", "v1", "TokenRequest", B(VERB_CREATE) },
	[SUB_LOG] = { "log", .verbs = B(VERB_GET) },
	[SUB_EXEC] = { "exec", "", "v1", "PodExecOptions", UPGRADE, .raw = true },
	[SUB_ATTACH] = { "attach", "", "v1", "PodAttachOptions", UPGRADE, .raw = true },
	[SUB_FORWARD] = { "portforward", "", "v1", "PodPortForwardOptions", UPGRADE, .raw = true },
	[SUB_RESIZE] = { "resize", .verbs = READ_AND_WRITE },
	[SUB_EVICTION] = { "eviction", "policy", "v1", "Eviction", B(VERB_CREATE) },
	[SUB_PROXY] = { "proxy", "", "v1", "ProxyOptions", PROXY, .raw = true,
			.named_after = true },
	[SUB_EPHEMERAL] = { "ephemeralcontainers", .verbs = READ_AND_WRITE },
};

char *subresource_kind(const struct subresource *s, const struct kind *k)
{
	return s->named_after ? xasprintf("%s%s", k->kind, s->kind)
			      : xstrdup(s->kind ? s->kind : k->kind);
}

enum sub subresource_find(const struct kind *k, const char *name)
{
	unsigned i = 0;

	if (!kind_has_subresource(k, name))
		return SUB_MAX_;
	while (i < SUB_MAX_ && !str_eq(subresources[i].name, name))
		i++;
	return i;
}

bool route_is_raw(const struct route *r)
{
	enum sub sub = r->kind && !str_empty(r->sub) ? subresource_find(r->kind, r->sub) : SUB_MAX_;

	return sub != SUB_MAX_ && subresources[sub].raw;
}

/* /api/v1/namespaces/NS/PLURAL/NAME/proxy: what follows is not for us. */
static bool is_passed_on(const struct parts *p)
{
	return p->n == 7 && str_eq(p->list[6], "proxy") && str_eq(p->list[0], "api") &&
	       str_eq(p->list[2], "namespaces");
}

static struct err *split(struct call *c, const char *path, struct parts *ret)
{
	struct span rest = SPAN(path), part;
	struct err *e;

	while (rest.p && !ret->rest) {
		autofree char *text = NULL;
		size_t len;

		part = span_cut(rest, '/', &rest);
		if (!part.len)
			continue;
		if (ret->n == PARTS_MAX)
			return err_no_resource();
		e = url_decode(part.p, part.len, false, &text, &len);
		if (e)
			return err_wrap(e, "read the path");
		if (strlen(text) != len || strchr(text, '/'))
			return err_no_resource();
		ret->list[ret->n++] = arena_strdup(c->arena, text);
		if (is_passed_on(ret))
			ret->rest = part.p + part.len;
	}
	return NULL;
}

static const char *join(struct call *c, const struct parts *p)
{
	autobuf b = { 0 };

	for (size_t i = 0; i < p->n; i++) {
		buf_add_char(&b, '/');
		buf_add_str(&b, p->list[i]);
	}
	return arena_strdup(c->arena, b.len ? buf_str(&b) : "/");
}

static const char *part(const struct parts *p, size_t i)
{
	return i < p->n ? p->list[i] : "";
}

/* What follows group and version. namespaces are both a kind and a part of other kinds' paths. */
static void read_resource(const struct parts *p, size_t at, struct route *r)
{
	bool scoped = str_eq(part(p, at), "namespaces") && p->n > at + 2;

	if (scoped && !*r->group &&
	    (str_eq(part(p, at + 2), "status") || str_eq(part(p, at + 2), "finalize")))
		scoped = false;
	if (scoped) {
		r->ns = part(p, at + 1);
		at += 2;
	}
	r->plural = part(p, at);
	r->name = part(p, at + 1);
	r->sub = part(p, at + 2);
}

static struct err *read_verb(struct call *c, struct route *r)
{
	static const struct {
		const char *method;
		enum verb one, many;
	} rows[] = {
		{ "GET", VERB_GET, VERB_LIST },
		{ "HEAD", VERB_GET, VERB_LIST },
		{ "POST", VERB_CREATE, VERB_CREATE },
		{ "PUT", VERB_UPDATE, VERB_UPDATE },
		{ "PATCH", VERB_PATCH, VERB_PATCH },
		{ "DELETE", VERB_DELETE, VERB_DELETE_COLLECTION },
		{ "OPTIONS", VERB_GET, VERB_LIST },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!str_eq(rows[i].method, c->method))
			continue;
		if (str_eq(c->method, "OPTIONS") && !r->rest)
			break; /* for whom it is passed on to */
		r->verb = *r->name ? rows[i].one : rows[i].many;
		if ((r->verb == VERB_LIST && call_query_true(c, "watch")) ||
		    (r->watches && str_eq(c->method, "GET")))
			r->verb = VERB_WATCH;
		return r->watches && r->verb != VERB_WATCH ? err_no_method() : NULL;
	}
	return err_no_method();
}

struct err *route_read(struct call *c)
{
	struct route *r = &c->route;
	struct parts p = { 0 };
	size_t at;
	struct err *e;

	*r = (struct route){ .group = "",
			     .version = "",
			     .plural = "",
			     .ns = "",
			     .name = "",
			     .sub = "",
			     .path = http_request_path(c->req) };
	e = split(c, http_request_path(c->req), &p);
	if (e)
		return e;
	r->path = join(c, &p);
	if (p.rest) {
		r->rest = arena_strdup(c->arena, p.rest);
		r->base = arena_strndup(c->arena, http_request_path(c->req),
					(size_t)(p.rest - http_request_path(c->req)));
	}
	if (str_eq(part(&p, 0), "api") && p.n > 2) {
		at = 2;
	} else if (str_eq(part(&p, 0), "apis") && p.n > 3) {
		r->group = p.list[1];
		at = 3;
	} else {
		return read_verb(c, r);
	}
	r->version = p.list[at - 1];
	r->resource = true;
	if (str_eq(part(&p, at), "watch") && p.n > at + 1) { /* the older form of ?watch=1 */
		r->watches = true;
		at++;
	}
	read_resource(&p, at, r);
	if (p.n > at + 3 + (*r->ns ? 2 : 0))
		return err_no_resource();
	r->kind = c->kind = kind_ref(kinds_find(c->calls->kinds, r->group, r->version, r->plural));
	return read_verb(c, r);
}
