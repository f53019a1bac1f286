/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/trace.h"

#include "api/agents.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/call.h"
#include "server/call/route.h"
#include "trace/trace.h"

static bool is_traced(const struct route *r)
{
	return r->resource && r->kind && r->verb != VERB_WATCH && !route_is_raw(r);
}

void call_trace(struct call *c)
{
	const struct route *r = &c->route;
	struct trace_context parent;

	if (!c->calls->tracer || !is_traced(r))
		return;
	(void)trace_parent_read(http_request_header(c->req, "traceparent"), &parent);
	c->span = trace_start(c->calls->tracer,
			      arena_printf(c->arena, "%s %s%s%s", verb_name(r->verb), r->plural,
					   *r->sub ? "/" : "", r->sub),
			      SPAN_SERVER, &parent);
	trace_set(c->span, "http.request.method", c->method);
	trace_set(c->span, "url.path", r->path);
	trace_set(c->span, "client.address", c->from);
	trace_set(c->span, "enduser.id", user_payer(&c->user));
	trace_set(c->span, "k8s.namespace.name", str_or(r->ns, NULL));
}

void call_trace_end(struct call *c)
{
	if (c->status)
		trace_set_int(c->span, "http.response.status_code", c->status);
	if (!c->status || c->status >= 500)
		trace_failed(c->span);
	trace_end(take(c->span));
}

void call_trace_stamp(struct call *c, struct json_doc *d)
{
	const struct kind *k = c->route.kind;
	struct trace_context at = trace_context_of(c->span);
	autofree char *text = NULL;
	struct json *meta, *annotations;

	if (!c->span || !((str_eq(k->group, GROUP_EXTENSIONS) && str_eq(k->kind, "SandboxClaim")) ||
			  (str_eq(k->group, GROUP_AGENTS) && str_eq(k->kind, "Sandbox"))))
		return;
	meta = json_get(json_root(d), "metadata");
	annotations = meta ? json_need_obj(d, meta, "annotations") : NULL;
	if (!annotations || !str_empty(json_get_str(annotations, KEY_TRACE)))
		return;
	text = trace_annotation_write(&at);
	json_set_str(d, annotations, KEY_TRACE, text);
}
