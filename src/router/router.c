/* SPDX-License-Identifier: Apache-2.0 */
#include "router/router.h"

#include <assert.h>
#include <stdarg.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/strv.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "router/callers/callers.h"
#include "router/router_priv.h"
#include "tls/tls.h"

/* The router: its ports, and what it consists of. What becomes of a request begins in enter.c. */
enum {
	HOLD_MS = 30000,
	WAITING_MAX = 4096,
	CONNS_MAX = 16384,
	IDLE_UPSTREAM = 1024, /* connections kept open to one port; with fewer, crowds reconnect */
};

void router_answer(struct http_request *req, int status, const char *fmt, ...)
{
	autoptr(json_doc) d = json_doc_new();
	struct http_headers h = { 0 };
	autobuf body = { 0 };
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (grpc_is_call(req)) {
		grpc_answer(req, status, text);
		return;
	}
	json_set_root(d, json_obj(d));
	json_set_str(d, json_root(d), "detail", text);
	json_write(json_root(d), &body);
	buf_add_char(&body, '\n');
	if (status == 503)
		http_headers_add(&h, "Retry-After", "1");
	if (status == 401)
		http_headers_add(&h, "WWW-Authenticate", "Bearer realm=\"cay\"");
	http_respond(req, status, &h,
		     (struct http_body){ "application/json", buf_head(&body), body.len });
	http_headers_done(&h);
}

static struct stream *on_accept(void *arg, int fd)
{
	const struct http_port *port = arg;
	struct router *r = port->r;

	if (r->callers)
		callers_accepted(r->callers, fd);
	return port->secure ? tls_port_accept(r->tls, fd) : stream_plain(fd);
}

static void on_refused(void *arg, const char *peer, int status)
{
	const struct http_port *port = arg;

	record_refused(port->r, peer, status);
}

static struct err *start_listening(struct router *r, struct http_port *port, const char *addr)
{
	static const struct http_handler handler = { .head = enter_request, .refused = on_refused };
	const struct http_server_spec spec = { .limits = { .max_conns = port->max_conns },
					       .handler = &handler,
					       .arg = port,
					       .wrap = on_accept,
					       .wrap_arg = port,
					       .http2 = &http2_protocol };
	autoclose fd = -1;
	struct err *e = net_listen(addr, &fd);

	if (!e)
		e = net_local_addr(fd, port->address, sizeof(port->address));
	if (!e && r->callers)
		e = callers_check(r->callers, fd);
	return e ? e : http_server_start(r->loop, take_fd(fd), &spec, &port->server);
}

struct err *router_listen_too(struct router *r, const char *addr)
{
	assert(!r->gateway.server);
	r->gateway =
		(struct http_port){ .r = r, .max_conns = MAX(r->spec.max_conns / 4, (size_t)1) };
	return start_listening(r, &r->gateway, addr);
}

static struct err *start_ports(struct router *r, const struct router_spec *spec)
{
	struct err *e;

	if (spec->tls.listen)
		r->spec.max_conns = MAX(r->spec.max_conns / 2, (size_t)1); /* two ports share */
	r->plain = (struct http_port){ .r = r, .max_conns = r->spec.max_conns };
	r->secure = r->plain;
	r->secure.secure = true;
	e = spec->listen ? start_listening(r, &r->plain, spec->listen) : NULL;
	if (!e && spec->tls.listen)
		e = tls_port_new(r->loop, &spec->tls, r->domain, &r->tls);
	if (!e && spec->tls.listen)
		e = start_listening(r, &r->secure, spec->tls.listen);
	if (!e && spec->sni_listen)
		e = sni_port_start(r, spec->sni_listen, &r->sni);
	return e;
}

static void keep_ways(struct router *r, const struct router_spec *spec)
{
	r->spec.domain = r->spec.path_prefix = r->spec.scoped_secret = r->spec.sni_listen = NULL;
	r->spec.pass_key = NULL;
	r->domain = xstrdup(spec->domain);
	r->prefix = xstrdup(spec->path_prefix);
	r->scoped_secret = xstrdup(spec->scoped_secret);
	if (spec->pass_key)
		r->pass_key = (struct tls_seal_key){ xmemdup(spec->pass_key, spec->pass_key_len),
						     spec->pass_key_len };
}

struct err *router_start(struct loop *l, struct client *c, const struct router_spec *spec,
			 struct router **ret)
{
	static const struct client_watch_events events = { holds_changed, holds_synced };
	autoptr(router) r = xnew(struct router);
	const struct http_limits limits = { .max_conns = spec->max_conns };
	struct err *e;

	r->loop = l;
	r->client = c;
	r->spec = *spec;
	r->spec.listen = NULL; /* the caller's */
	r->spec.hosts = NULL;
	r->spec.ns = r->ns = xstrdup(spec->ns);
	r->metrics = metrics_new();
	r->spec.tls = (struct router_tls_spec){ 0 };
	r->hosts = spec->hosts ? strv_copy(spec->hosts) : NULL;
	keep_ways(r, spec);
	if (!r->spec.max_conns)
		r->spec.max_conns = CONNS_MAX;
	if (!r->spec.hold_ms)
		r->spec.hold_ms = HOLD_MS;
	if (!r->spec.max_waiting)
		r->spec.max_waiting = WAITING_MAX;
	list_init(&r->woken);
	list_init(&r->requests);
	list_init(&r->tunnels);
	list_init(&r->stays);
	list_init(&r->visits);
	r->holds = map_new(free);
	r->waker = timer_new(l, holds_wake, r);
	r->pool = http_pool_new(l, &limits, IDLE_UPSTREAM);
	http_pool_set_mark(r->pool, spec->mark);
	e = spec->tell_callers ? callers_new(l, spec->has_group ? &spec->group : NULL,
					     enter_learned, r, &r->callers)
			       : NULL;
	if (!e)
		e = start_ports(r, spec);
	if (e)
		return e;
	r->sandboxes = kinds_need(client_kinds(c), API_SANDBOX, "Sandbox");
	r->watch = client_watch(c, &(struct client_watch_spec){ .kind = r->sandboxes, .ns = r->ns },
				&events, r);
	*ret = take(r);
	return NULL;
}

void router_free(struct router *r)
{
	if (!r)
		return;
	http_server_free(r->plain.server);
	http_server_free(r->secure.server);
	http_server_free(r->gateway.server);
	sni_port_free(r->sni);
	tls_port_free(r->tls);
	callers_free(r->callers);
	while (!list_empty(&r->tunnels))
		proxy_cut(r->tunnels.next);
	client_watch_free(r->watch);
	http_pool_free(r->pool);
	timer_free(r->waker);
	map_free(r->holds);
	strv_free(r->hosts);
	metrics_free(r->metrics);
	free(r->ns);
	free(r->domain);
	free(r->prefix);
	free(r->scoped_secret);
	free((void *)r->pass_key.bytes);
	free(r);
}

bool router_awaits(const struct router *r, const char *ns, const char *sandbox)
{
	for (struct list *l = r->requests.next; l != &r->requests; l = l->next)
		if (proxy_awaits(l, ns, sandbox))
			return true;
	return false;
}

const char *router_address(const struct router *r)
{
	return r->plain.address;
}

const char *router_tls_address(const struct router *r)
{
	return r->secure.address;
}

const char *router_sni_address(const struct router *r)
{
	return r->sni_address;
}

void router_set_sni_policy(struct router *r,
			   bool (*may_enter)(void *arg, const struct router_caller *caller),
			   void *arg)
{
	r->sni_enter = may_enter;
	r->sni_arg = arg;
}

void router_set_policy(struct router *r, router_policy decide, void *arg)
{
	r->decide = decide;
	r->decide_arg = arg;
}

struct err *router_adopt(struct router *r, int fd, uint64_t ticket)
{
	assert(ticket && r->callers);
	if (http_server_conns(r->plain.server) >= r->spec.max_conns) {
		(void)close(fd);
		return err_new(ERR_EXHAUSTED, "the router has %zu connections, which is the limit",
			       r->spec.max_conns);
	}
	callers_adopted(r->callers, fd, ticket);
	http_server_adopt(r->plain.server, stream_plain(fd), "127.0.0.1:0");
	return NULL;
}

void router_drain(struct router *r)
{
	struct http_server *const all[] = { r->plain.server, r->secure.server, r->gateway.server };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i])
			http_server_stop_accepting(all[i]);
	if (r->sni)
		sni_port_stop(r->sni);
}

bool router_idle(const struct router *r)
{
	const struct http_server *const all[] = { r->plain.server, r->secure.server,
						  r->gateway.server };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i] && http_server_conns(all[i]))
			return false;
	return list_empty(&r->tunnels) && !r->stats.passing;
}

void router_write_metrics(const struct router *r, struct buf *b)
{
	metrics_gauge(b, "sandbox_router_inflight_requests", "Requests under way.",
		      r->stats.active + r->stats.tunnels);
	metrics_write(r->metrics, b);
}

void router_stats(const struct router *r, struct router_stats *ret)
{
	*ret = r->stats;
}
