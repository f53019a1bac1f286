/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/str.h"
#include "base/wall.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "router/callers/callers.h"
#include "router/router_priv.h"
#include "tls/tls.h"

/*
 * The decision about each request: is it for us, which sandbox does it name, and may it go in. One
 * of which too little is known waits, and is decided on from the start when more is known.
 */
enum {
	REFUSAL_LOG_US = 1000 * 1000, /* between two lines: anybody may be refused at will */
};

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
		   const char *who, struct err *why)
{
	const struct record rec = {
		.route = route, .status = status_of(why), .who = who, .why = err_text(why)
	};
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
		refuse(r, req, route, NULL,
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

/* The decision has been made about who, NULL: nobody that is known; e is taken over. */
static void let_in(struct router *r, struct http_request *req, const struct route *route,
		   const char *who, struct err *e)
{
	if (!e)
		metrics_learn_namespace(r->metrics, route->ns);
	metrics_count(r->metrics, METRIC_DECISIONS, route->ns, decision_name(e));
	if (e)
		refuse(r, req, route, who, e);
	else
		proxy_start(r, req, route, who);
}

/* Nothing shown by itself lets the request in, or keeps it out. */
static void ask_policy(struct router *r, struct router_ask *ask, const struct route *route)
{
	struct list *wait = NULL;
	struct err *e = decide_on(r, ask, route, &wait);

	if (wait)
		visit_wait(r, ask->request, route, wait);
	else if (!e && mint_asked(ask->request, route))
		mint_answer(r, ask->request, route, ask->who);
	else
		let_in(r, ask->request, route, ask->who, e);
}

void router_ask_is(const struct router_ask *ask, const char *fmt, ...)
{
	va_list ap;

	if (!ask->who)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(ask->who, ROUTER_WHO_MAX, fmt, ap);
	va_end(ap);
}

void router_ask_review(const struct router_ask *ask)
{
	if (ask->review)
		*ask->review = true;
}

/* The only decision about who may go in. */
static void enter(struct router *r, struct http_request *req, struct route *route)
{
	char who[ROUTER_WHO_MAX] = "";
	struct router_ask ask = { .who = who,
				  .review = &route->review,
				  .ns = route->ns,
				  .sandbox = route->id,
				  .port = route->port,
				  .way = route->way,
				  .request = req };
	struct err *why = check_certificate(r, req);

	if (why) {
		let_in(r, req, route, NULL, why);
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
		let_in(r, req, route, why ? NULL : entry_bearer(), why);
		break;
	case ENTRY_ANSWERED:
		break;
	}
}

/* Those of which too little is known still wait again, behind all others. */
void router_resume(struct router *r, struct list *waiting)
{
	LIST_HEAD(now);

	list_take_all(waiting, &now);
	while (!list_empty(&now)) {
		struct visit *v = list_first(&now, struct visit, on);
		struct http_request *req = v->req;
		struct route route = v->route;

		http_request_set_owner(req, NULL, NULL);
		visit_free(v);
		enter(r, req, &route);
	}
}

void enter_learned(void *arg)
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

void enter_request(void *arg, struct http_request *req)
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
