/* SPDX-License-Identifier: Apache-2.0 */
#include "router/router.h"

#include <assert.h>
#include <stdarg.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "router/router_priv.h"

/*
 * The port, the decision about each request, and the requests that wait for their sandbox. We learn
 * of a Sandbox's change from within the write that makes it, so the requests that wait for it are
 * only noted there and looked at in the next turn.
 */
enum {
	HELD_MAX = 2048,
	HELD_MAX_EACH = 512,
	HOLD_MS = 30000,
	CONNS_MAX = 16384,
	REFUSAL_LOG_US = 1000 * 1000, /* between two lines: anybody may be refused at will */
	IDLE_UPSTREAM = 512, /* connections kept open to one port; with fewer, crowds reconnect */
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

static void hold_key(const char *ns, const char *name, char ret[512])
{
	(void)snprintf(ret, 512, "%s/%s", ns, name);
}

bool router_hold(struct router *r, const struct route *route, struct list *link)
{
	struct hold *h;
	char key[512];

	hold_key(route->ns, route->id, key);
	h = map_get(r->holds, key);
	if (r->stats.held >= HELD_MAX || (h && h->n >= HELD_MAX_EACH))
		return false;
	if (!h) {
		h = xnew(struct hold);
		list_init(&h->proxies);
		map_put(r->holds, key, h);
	}
	h->n++;
	r->stats.held++;
	list_add_tail(&h->proxies, link);
	return true;
}

void router_unhold(struct router *r, const struct route *route, struct list *link)
{
	struct hold *h;
	char key[512];

	hold_key(route->ns, route->id, key);
	h = map_get(r->holds, key);
	list_del(link);
	r->stats.held--;
	if (h && !--h->n)
		(void)map_del(r->holds, key);
}

static void on_sandbox_changed(void *arg, struct object *was, struct object *now)
{
	struct router *r = arg;
	struct object *o = now ? now : was;
	struct hold *h;
	char key[512];

	if (!r->stats.held)
		return;
	hold_key(o->ns, o->name, key);
	h = map_get(r->holds, key);
	if (!h)
		return;
	while (!list_empty(&h->proxies)) {
		struct list *link = h->proxies.next;

		list_del(link);
		list_add_tail(&r->woken, link);
	}
	timer_set(r->waker, 0);
}

static void on_synced(void *arg)
{
	struct router *r = arg;

	r->synced = true;
	map_each(it, r->holds) {
		struct hold *h = it.value;

		while (!list_empty(&h->proxies)) {
			struct list *link = h->proxies.next;

			list_del(link);
			list_add_tail(&r->woken, link);
		}
	}
	timer_set(r->waker, 0);
}

static void on_wake(void *arg)
{
	struct router *r = arg;
	LIST_HEAD(now);

	while (!list_empty(&r->woken)) { /* those that must wait longer are held again */
		struct list *link = r->woken.next;

		list_del(link);
		list_add_tail(&now, link);
	}
	while (!list_empty(&now))
		proxy_look_again(proxy_of_hold(now.next));
}

static void note_refusal(struct router *r, struct http_request *req, const struct err *why)
{
	usec now = clock_mono();

	r->stats.refused++;
	r->n_unlogged++;
	if (now < r->refusals_quiet_until)
		return;
	log_info("requests refused", KV("requests", r->n_unlogged),
		 KV("last_peer", http_request_peer(req)), KV("err", why));
	r->n_unlogged = 0;
	r->refusals_quiet_until = now + REFUSAL_LOG_US;
}

static void refuse(struct router *r, struct http_request *req, struct err *why)
{
	note_refusal(r, req, why);
	if (err_is(why, ERR_UNAUTHENTICATED))
		router_answer(req, 401, "%s", err_text(why));
	else if (err_is(why, ERR_FORBIDDEN))
		router_answer(req, 403, "%s", err_text(why));
	else
		router_answer(req, 500, "An internal error occurred in the proxy.");
	err_free(why);
}

/* A request whose caller is being looked up. */
struct visit {
	struct list on;
	struct router *r;
	struct http_request *req;
	struct route route;
};

static void visit_free(void *owner)
{
	struct visit *v = owner;

	list_del(&v->on);
	free(v);
}

static void visit_wait(struct router *r, struct http_request *req, const struct route *route)
{
	struct visit *v = xnew(struct visit);

	v->r = r;
	v->req = req;
	v->route = *route;
	list_add_tail(&r->visits, &v->on);
	http_request_set_owner(req, v, visit_free);
}

static bool find_caller(struct router *r, struct http_request *req, struct router_caller *ret)
{
	const struct stream *s = http_request_conn_stream(req);

	*ret = (struct router_caller){ 0 };
	return !r->callers || !s || callers_find(r->callers, s->fd, ret);
}

/* The only decision about who may go in. */
static void enter(struct router *r, struct http_request *req, const struct route *route)
{
	struct router_ask ask = {
		.ns = route->ns, .sandbox = route->id, .port = route->port, .request = req
	};
	struct err *e;

	if (!find_caller(r, req, &ask.caller)) {
		visit_wait(r, req, route);
		return;
	}
	e = r->decide ? r->decide(r->decide_arg, &ask) : NULL;
	if (e)
		refuse(r, req, e);
	else
		proxy_start(r, req, route);
}

/* Those whose caller is still unknown wait again, behind all others. */
static void on_learned(void *arg)
{
	struct router *r = arg;
	LIST_HEAD(now);

	while (!list_empty(&r->visits)) {
		struct list *link = r->visits.next;

		list_del(link);
		list_add_tail(&now, link);
	}
	while (!list_empty(&now)) {
		struct visit *v = list_first(&now, struct visit, on);
		struct http_request *req = v->req;
		struct route route = v->route;

		http_request_set_owner(req, NULL, NULL);
		visit_free(v);
		enter(r, req, &route);
	}
}

/* False: the request has been answered. */
static bool host_is_ours(struct router *r, struct http_request *req)
{
	const struct stream *s = http_request_conn_stream(req);
	const char *host = http_request_header(req, "Host");
	autoptr(err) why = NULL;

	if (!r->hosts || !wall_stands("router-host") ||
	    (s && host_served((const char *const *)r->hosts, host, s->fd)))
		return true;
	why = err_new(ERR_FORBIDDEN,
		      "The Host header names neither this machine nor an address of it; "
		      "--router-host adds names, and * allows all.");
	note_refusal(r, req, why);
	router_answer(req, 421, "%s", err_text(why));
	return false;
}

static void on_request(void *arg, struct http_request *req)
{
	static const char ok[] = "{\"status\":\"ok\"}\n";
	struct router *r = arg;
	const struct http_headers *h = http_request_headers(req);
	struct route route;
	const char *bad;

	if (str_eq(http_request_path(req), "/healthz") && !route_has_id(h) &&
	    str_eq(http_request_method(req), "GET")) {
		http_respond(req, 200, NULL,
			     (struct http_body){ "application/json", ok, sizeof(ok) - 1 });
		return;
	}
	r->stats.requests++;
	if (!host_is_ours(r, req))
		return;
	bad = route_parse(h, r->spec.allow_loopback, &route);
	if (bad) {
		router_answer(req, 400, "%s", bad);
		return;
	}
	enter(r, req, &route);
}

static struct stream *on_accept(void *arg, int fd)
{
	struct router *r = arg;

	if (r->callers)
		callers_accepted(r->callers, fd);
	return stream_plain(fd);
}

static struct err *start_listening(struct router *r, const char *addr)
{
	static const struct http_handler handler = { .head = on_request };
	const struct http_server_spec spec = { .limits = { .max_conns = r->spec.max_conns },
					       .handler = &handler,
					       .arg = r,
					       .wrap = on_accept,
					       .wrap_arg = r };
	autoclose fd = -1;
	struct err *e = net_listen(addr, &fd);

	if (!e)
		e = net_local_addr(fd, r->address, sizeof(r->address));
	if (!e && r->callers)
		e = callers_check(r->callers, fd);
	return e ? e : http_server_start(r->loop, take_fd(fd), &spec, &r->server);
}

static void keep_hosts(struct router *r, const char *const *hosts)
{
	size_t n = 0;

	if (!hosts)
		return;
	while (hosts[n])
		n++;
	r->hosts = xnew_n(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		r->hosts[i] = xstrdup(hosts[i]);
}

struct err *router_start(struct loop *l, struct client *c, const struct router_spec *spec,
			 struct router **ret)
{
	static const struct client_watch_events events = { on_sandbox_changed, on_synced };
	autoptr(router) r = xnew(struct router);
	const struct http_limits limits = { .max_conns = spec->max_conns };
	struct err *e;

	r->loop = l;
	r->client = c;
	r->spec = *spec;
	r->spec.listen = NULL; /* the caller's */
	r->spec.hosts = NULL;
	keep_hosts(r, spec->hosts);
	if (!r->spec.max_conns)
		r->spec.max_conns = CONNS_MAX;
	if (!r->spec.hold_ms)
		r->spec.hold_ms = HOLD_MS;
	list_init(&r->woken);
	list_init(&r->tunnels);
	list_init(&r->visits);
	r->holds = map_new(free);
	r->waker = timer_new(l, on_wake, r);
	r->pool = http_pool_new(l, &limits, IDLE_UPSTREAM);
	http_pool_set_mark(r->pool, spec->mark);
	e = spec->tell_callers ? callers_new(l, spec->has_group ? &spec->group : NULL, on_learned,
					     r, &r->callers)
			       : NULL;
	if (!e)
		e = start_listening(r, spec->listen);
	if (e)
		return e;
	r->sandboxes = kinds_need(client_kinds(c), API_SANDBOX, "Sandbox");
	r->watch = client_watch(c, &(struct client_watch_spec){ .kind = r->sandboxes }, &events, r);
	*ret = take(r);
	return NULL;
}

void router_free(struct router *r)
{
	if (!r)
		return;
	http_server_free(r->server);
	callers_free(r->callers);
	while (!list_empty(&r->tunnels))
		proxy_cut(r->tunnels.next);
	client_watch_free(r->watch);
	http_pool_free(r->pool);
	timer_free(r->waker);
	map_free(r->holds);
	for (size_t i = 0; r->hosts && r->hosts[i]; i++)
		free(r->hosts[i]);
	free(r->hosts);
	free(r);
}

const char *router_address(const struct router *r)
{
	return r->address;
}

void router_set_policy(struct router *r, router_policy decide, void *arg)
{
	r->decide = decide;
	r->decide_arg = arg;
}

struct err *router_adopt(struct router *r, int fd, uint64_t ticket)
{
	assert(ticket && r->callers);
	if (http_server_conns(r->server) >= r->spec.max_conns) {
		(void)close(fd);
		return err_new(ERR_EXHAUSTED, "the router has %zu connections, which is the limit",
			       r->spec.max_conns);
	}
	callers_adopted(r->callers, fd, ticket);
	http_server_adopt(r->server, stream_plain(fd), "127.0.0.1:0");
	return NULL;
}

void router_stats(const struct router *r, struct router_stats *ret)
{
	*ret = r->stats;
}
