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
#include "base/metrics.h"
#include "base/str.h"
#include "base/strv.h"
#include "base/wall.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "router/callers/callers.h"
#include "router/router_priv.h"
#include "tls/tls.h"

/*
 * The port, the decision about each request, and the requests that wait for their sandbox. We learn
 * of a Sandbox's change from within the write that makes it, so the requests that wait for it are
 * only noted there and looked at in the next turn.
 */
enum {
	HELD_MAX = 2048,
	HELD_MAX_EACH = 512,
	HOLD_MS = 30000,
	WAITING_MAX = 4096,
	CONNS_MAX = 16384,
	REFUSAL_LOG_US = 1000 * 1000, /* between two lines: anybody may be refused at will */
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

static void hold_key(const char *ns, const char *name, char ret[512])
{
	(void)snprintf(ret, 512, "%s/%s", ns, name);
}

bool router_hold(struct router *r, const struct route *route, struct waiter *w)
{
	struct hold *h;
	char key[512];

	hold_key(route->ns, route->id, key);
	h = map_get(r->holds, key);
	if (r->stats.held >= HELD_MAX || (h && h->n >= HELD_MAX_EACH))
		return false;
	if (!h) {
		h = xnew(struct hold);
		list_init(&h->waiters);
		map_put(r->holds, key, h);
	}
	h->n++;
	r->stats.held++;
	w->held = true;
	list_add_tail(&h->waiters, &w->link);
	return true;
}

void router_unhold(struct router *r, const struct route *route, struct waiter *w)
{
	struct hold *h;
	char key[512];

	if (!w->held)
		return;
	w->held = false;
	hold_key(route->ns, route->id, key);
	h = map_get(r->holds, key);
	list_del(&w->link);
	r->stats.held--;
	if (h && !--h->n)
		(void)map_del(r->holds, key);
}

struct object *router_find(struct router *r, const struct route *route, struct target *ret)
{
	struct object *sandbox = client_get(r->client, r->sandboxes, route->ns, route->id);

	target_find(sandbox, route, r->spec.allow_loopback, ret);
	if (ret->state == TARGET_UNKNOWN && !r->synced)
		ret->state = TARGET_STARTING; /* the watch has not told us everything yet */
	if (ret->state == TARGET_DOWN && r->spec.wake &&
	    r->spec.wake(r->spec.wake_arg, route->ns, route->id))
		ret->state = TARGET_STARTING;
	return sandbox;
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
	while (!list_empty(&h->waiters)) {
		struct list *link = h->waiters.next;

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

		while (!list_empty(&h->waiters)) {
			struct list *link = h->waiters.next;

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
	while (!list_empty(&now)) {
		struct waiter *w = list_first(&now, struct waiter, link);

		w->look(w);
	}
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

/* An answer of our own to a request that does not go in. */
static void answer(struct router *r, struct http_request *req, const struct record *rec,
		   const char *text)
{
	record_request(r, req, rec);
	router_answer(req, rec->status, "%s", text);
}

static int status_of(const struct err *why)
{
	if (err_is(why, ERR_UNAUTHENTICATED))
		return 401;
	if (err_is(why, ERR_FORBIDDEN))
		return 403;
	return err_is(why, ERR_EXHAUSTED) ? 503 : 500;
}

static void refuse(struct router *r, struct http_request *req, const struct route *route,
		   struct err *why)
{
	const struct record rec = { .route = route, .status = status_of(why) };
	bool ours = rec.status == 500 && !err_is(why, ERR_UNAVAILABLE);

	note_refusal(r, req, why);
	answer(r, req, &rec, ours ? "An internal error occurred in the proxy." : err_text(why));
	err_free(why);
}

/* A request that waits until its caller, or what a policy must know of it, has been looked up. */
struct visit {
	struct list on;
	struct router *r;
	struct http_request *req;
	struct route route;
};

static void visit_free(void *owner)
{
	struct visit *v = owner;

	v->r->n_visits--;
	list_del(&v->on);
	free(v);
}

static void visit_wait(struct router *r, struct http_request *req, const struct route *route,
		       struct list *where)
{
	struct visit *v;

	if (r->n_visits >= r->spec.max_waiting) {
		refuse(r, req, route,
		       err_new(ERR_EXHAUSTED, "Too many requests wait to be let in."));
		return;
	}
	v = xnew(struct visit);
	r->n_visits++;

	v->r = r;
	v->req = req;
	v->route = *route;
	list_add_tail(where, &v->on);
	http_request_set_owner(req, v, visit_free);
}

static bool find_caller(struct router *r, struct http_request *req, struct router_caller *ret)
{
	const struct stream *s = http_request_conn_stream(req);

	*ret = (struct router_caller){ 0 };
	return !r->callers || !s || callers_find(r->callers, s->fd, ret);
}

static const char *decision_name(const struct err *e)
{
	if (!e)
		return "allow";
	return err_is(e, ERR_UNAUTHENTICATED) || err_is(e, ERR_FORBIDDEN) ? "deny" : "error";
}

/*
 * Who has connected says nothing where a page may have made a browser do it: only what the request
 * itself shows counts then.
 */
static bool is_ambient(struct http_request *req, const struct route *route)
{
	return route->way == ROUTER_BY_HEADER ? !entry_by_browser(req)
					      : !wall_stands("browser-way");
}

static struct err *rejected(void)
{
	return err_new(
		ERR_UNAUTHENTICATED,
		"unauthenticated: the client certificate was not issued here or has expired");
}

/* Beside everything else that lets a request in, if it is needed. */
static struct err *check_certificate(const struct router *r, struct http_request *req)
{
	const struct stream *s = http_request_conn_stream(req);

	if (!r->spec.need_certificate || (s && tls_peer_of(s)))
		return NULL;
	return s && tls_peer_rejected(s)
		       ? rejected()
		       : err_new(ERR_UNAUTHENTICATED, "a client certificate is required");
}

static struct err *decide_on(struct router *r, struct router_ask *ask, const struct route *route,
			     struct list **ret_wait)
{
	const struct stream *s = http_request_conn_stream(ask->request);
	const struct tls_peer *peer = s ? tls_peer_of(s) : NULL;
	autofree const char **groups = NULL;

	if (!r->decide)
		return NULL;
	if (!is_ambient(ask->request, route)) {
		ask->caller = (struct router_caller){ 0 };
		return r->decide(r->decide_arg, ask, ret_wait);
	}
	if (s && tls_peer_rejected(s))
		return rejected();
	if (peer) {
		groups = xnew_n(const char *, peer->n_groups + 1);
		for (size_t i = 0; i < peer->n_groups; i++)
			groups[i] = peer->groups[i];
		ask->user = peer->name;
		ask->user_alt = peer->alt;
		ask->groups = groups;
	}
	return r->decide(r->decide_arg, ask, ret_wait);
}

/* The decision has been made; e is taken over. */
static void let_in(struct router *r, struct http_request *req, const struct route *route,
		   struct err *e)
{
	if (!e)
		metrics_learn_namespace(r->metrics, route->ns);
	metrics_count(r->metrics, METRIC_DECISIONS, route->ns, decision_name(e));
	if (e)
		refuse(r, req, route, e);
	else
		proxy_start(r, req, route);
}

/* Nothing shown by itself lets the request in, or keeps it out. */
static void ask_policy(struct router *r, struct router_ask *ask, const struct route *route)
{
	struct list *wait = NULL;
	struct err *e = decide_on(r, ask, route, &wait);

	if (wait)
		visit_wait(r, ask->request, route, wait);
	else if (!e && mint_asked(ask->request, route))
		mint_answer(r, ask->request, route);
	else
		let_in(r, ask->request, route, e);
}

/* The only decision about who may go in. */
static void enter(struct router *r, struct http_request *req, struct route *route)
{
	struct router_ask ask = { .ns = route->ns,
				  .sandbox = route->id,
				  .port = route->port,
				  .way = route->way,
				  .request = req };
	struct err *why = check_certificate(r, req);

	if (why) {
		let_in(r, req, route, why);
		return;
	}
	if (!find_caller(r, req, &ask.caller)) {
		visit_wait(r, req, route, &r->visits);
		return;
	}
	switch (entry_look(r, req, route, &why)) {
	case ENTRY_ASK:
		ask_policy(r, &ask, route);
		break;
	case ENTRY_IN:
	case ENTRY_REFUSED:
		let_in(r, req, route, why);
		break;
	case ENTRY_ANSWERED:
		break;
	}
}

/* Those of which too little is known still wait again, behind all others. */
void router_resume(struct router *r, struct list *waiting)
{
	LIST_HEAD(now);

	while (!list_empty(waiting)) {
		struct list *link = waiting->next;

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

static void on_learned(void *arg)
{
	struct router *r = arg;

	router_resume(r, &r->visits);
	if (r->sni)
		sni_port_learned(r->sni);
}

/* False: the request has been answered. */
static bool host_is_ours(struct router *r, struct http_request *req, const struct route *route)
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
	answer(r, req, &(struct record){ .route = route, .status = 421 }, err_text(why));
	return false;
}

static void answer_health(const struct router *r, struct http_request *req)
{
	static const char ok[] = "{\"status\":\"ok\"}\n";

	record_uncounted(r, req, &(struct record){ .status = 200 });
	http_respond(req, 200, NULL, (struct http_body){ "application/json", ok, sizeof(ok) - 1 });
}

static void on_request(void *arg, struct http_request *req)
{
	const struct http_port *port = arg;
	struct router *r = port->r;
	const struct http_headers *h = http_request_headers(req);
	struct route route = { 0 };
	size_t rest = 0;
	const char *bad = way_read(&(struct way_ask){ .domain = r->domain,
						      .prefix = r->prefix,
						      .allow_loopback = r->spec.allow_loopback,
						      .host = http_headers_get(h, "Host"),
						      .target = http_request_target(req),
						      .headers = h },
				   &route, &rest);

	if (route.way != ROUTER_BY_HOST && str_eq(http_request_path(req), "/healthz") &&
	    !route_has_id(h) && str_eq(http_request_method(req), "GET")) {
		answer_health(r, req);
		return;
	}
	r->stats.requests++;
	if (route.way != ROUTER_BY_HOST && !host_is_ours(r, req, &route))
		return;
	if (bad) {
		answer(r, req, &(struct record){ .status = 400 }, bad);
		return;
	}
	route.secure = port->secure;
	if (rest) {
		const char *tail = http_request_target(req) + rest;
		autofree char *target = xasprintf("%s%s", *tail == '/' ? "" : "/", tail);

		http_request_set_target(req, target);
	}
	enter(r, req, &route);
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
	static const struct http_handler handler = { .head = on_request, .refused = on_refused };
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
	static const struct client_watch_events events = { on_sandbox_changed, on_synced };
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
	list_init(&r->visits);
	r->holds = map_new(free);
	r->waker = timer_new(l, on_wake, r);
	r->pool = http_pool_new(l, &limits, IDLE_UPSTREAM);
	http_pool_set_mark(r->pool, spec->mark);
	e = spec->tell_callers ? callers_new(l, spec->has_group ? &spec->group : NULL, on_learned,
					     r, &r->callers)
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
