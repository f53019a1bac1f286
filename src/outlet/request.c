/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/team.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "outlet/outlet_priv.h"
#include "outlet/target.h"
#include "tls/tls.h"

/*
 * One request of a sandbox on its way out:
 *
 *   who asks → what for → may they → it is on record → look the host up → may it be reached
 *     → connect → may they, still → send, with the credential → the answer, without it
 *
 * The request is the HTTP server's; ended() tells that it is over, whatever the reason, and frees
 * what belongs to it. It is decided about twice: once before anybody outside learns of it, and once
 * when it is sent, with the value of the credential as it is then. Nobody outside learns of it
 * before it is in the log, with the Credential that it gets: if that is another in the end, it is
 * recorded anew. A server that is killed leaves a record without a request, never the reverse.
 */
enum {
	IDLE_MS = 10 * 60 * 1000,  /* in which no byte moves; language models take their time */
	TOTAL_MS = 60 * 60 * 1000, /* from the head of the request to the end of the answer */
};

struct outgoing {
	struct outlet *o;
	struct http_request *req;
	struct visitor *visitor;
	char *ns, *sandbox;
	unsigned place;
	struct target target;
	void *recorded, *lookup;
	struct dial *dial;
	int fd;                    /* connected, and nothing was sent; -1: none */
	struct http_exchange *x;   /* NULL: not connected, or over */
	struct credential_use use; /* from when it is sent to the head of the answer */
	char *credential;          /* the name of the one that is on record; NULL: none */
	struct err *why;           /* it was refused, or failed */
	struct timer *timer;
	usec started, moved; /* moved: when a byte last did */
	bool sent, answered;
	uint64_t bytes_up, bytes_down; /* of bodies: to the server, and from it */
};

static void drop(struct outgoing *g)
{
	if (g->lookup)
		g->o->spec.ops->lookup_cancel(take(g->lookup));
	if (g->recorded)
		g->o->spec.ops->recorded_cancel(take(g->recorded));
	dial_cancel(take(g->dial));
	if (g->fd >= 0)
		stream_free(stream_plain(take_fd(g->fd)));
	if (g->x)
		http_exchange_cancel(take(g->x));
	credential_done(&g->use);
}

static const char *note_of(const struct outgoing *g, int status)
{
	if (g->why)
		return err_text(g->why);
	return status ? NULL : "the sandbox left before the answer";
}

static void record(const struct outgoing *g, bool over)
{
	const struct target *t = &g->target;
	int status = over ? http_request_status(g->req) : 0;

	g->o->spec.ops->record(g->o->spec.arg,
			       &(struct outlet_record){
				       .ns = g->ns,
				       .sandbox = g->sandbox,
				       .from = http_request_peer(g->req),
				       .method = http_request_method(g->req),
				       .scheme = t->path ? target_scheme(t) : NULL,
				       .host = t->path ? t->host : NULL,
				       .path = t->path,
				       .port = t->port,
				       .status = status,
				       .credential = over && !g->sent ? NULL : g->credential,
				       .note = over ? note_of(g, status) : NULL,
				       .received = g->bytes_up,
				       .sent = g->bytes_down,
				       .took_us = clock_mono() - g->started,
				       .unrecorded = g->visitor->unrecorded,
			       });
	g->visitor->unrecorded = 0;
}

static void on_ended(void *owner)
{
	struct outgoing *g = owner;

	drop(g);
	record(g, true);
	visitor_leave(g->visitor);
	g->o->stats.active--;
	timer_free(g->timer);
	target_done(&g->target);
	err_free(g->why);
	free(g->credential);
	free(g->ns);
	free(g->sandbox);
	free(g);
}

/* An answer of our own */

/* A gateway's statuses, which are not the API server's (server/call/status.c): what does not work
 * here is the other side's fault. */
static int status_of(const struct err *e)
{
	switch (err_code(e)) {
	case ERR_MALFORMED:
		return 400;
	case ERR_FORBIDDEN:
		return 403;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_METHOD:
		return 405;
	case ERR_EXHAUSTED:
		return 429;
	case ERR_UNSUPPORTED:
		return 501;
	case ERR_TIMEOUT:
		return 504;
	case ERR_UNAUTHENTICATED:
	case ERR_UNACCEPTABLE:
	case ERR_EXISTS:
	case ERR_CONFLICT:
	case ERR_GONE:
	case ERR_TOO_LARGE:
	case ERR_MEDIA_TYPE:
	case ERR_INVALID:
	case ERR_UNAVAILABLE:
	case ERR_UNCERTAIN:
	case ERR_CANCELED:
	case ERR_CORRUPT:
	case ERR_SYS:
	case ERR_INTERNAL:
	case ERR_CODE_MAX_:
		break;
	}
	return 502;
}

static void answer(struct http_request *req, int status, const struct err *e)
{
	autofree char *text = xasprintf("outlet: %s\n", err_text(e));
	struct http_headers h = { 0 };

	if (err_is(e, ERR_EXHAUSTED))
		http_headers_add(&h, "Retry-After", "1");
	headers_isolate(&h);
	http_respond(req, status, &h,
		     (struct http_body){ "text/plain; charset=utf-8", text, strlen(text) });
	http_headers_done(&h);
}

/* Takes e over. */
static void fail_with(struct outgoing *g, int status, struct err *e)
{
	drop(g);
	err_free(g->why);
	g->why = e;
	if (g->answered) {
		http_respond_abort(g->req); /* what was sent must not pass for all of it */
		return;
	}
	g->answered = true;
	if (err_is(e, ERR_FORBIDDEN))
		g->o->stats.refused++;
	else
		g->o->stats.failed++;
	answer(g->req, status, e);
}

static void fail(struct outgoing *g, struct err *e)
{
	fail_with(g, status_of(e), e);
}

static void on_timer(void *arg)
{
	struct outgoing *g = arg;
	usec now = clock_mono(), idle = now - g->moved, all = now - g->started;
	usec left = MIN(IDLE_MS * 1000ll - idle, TOTAL_MS * 1000ll - all);

	if (left > 0)
		timer_set(g->timer, (uint64_t)left / 1000 + 1);
	else if (g->answered && !g->x)
		http_respond_abort(g->req); /* it does not read its answer */
	else
		fail(g, err_new(ERR_TIMEOUT, "%s took too long", g->target.host));
}

static void moves(struct outgoing *g)
{
	g->moved = clock_mono();
}

/* The bodies */

static void on_body_data(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct outgoing *g = owner;

	g->bytes_up += len;
	moves(g);
	if (!g->x)
		return; /* it was answered already: nobody wants the rest */
	http_exchange_write(g->x, data, len);
	if (http_exchange_full(g->x))
		http_request_pause(req, true);
}

static void on_body_end(void *owner, unused struct http_request *req)
{
	struct outgoing *g = owner;

	moves(g);
	if (g->x)
		http_exchange_end_body(g->x, NULL);
}

static void on_drained_up(void *arg)
{
	struct outgoing *g = arg;

	moves(g);
	http_request_pause(g->req, false);
}

static void on_drained_down(void *owner)
{
	struct outgoing *g = owner;

	moves(g);
	if (g->x)
		http_exchange_pause(g->x, false);
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct outgoing *g = arg;
	int64_t length = http_headers_length(h);

	moves(g);
	if (status == 101) {
		fail(g,
		     err_new(ERR_UNAVAILABLE, "%s changes the protocol, unasked", g->target.host));
		return;
	}
	headers_to_answer(h, &g->target, &g->use);
	credential_done(&g->use);
	g->answered = true;
	g->o->stats.passed++;
	http_respond_on_drain(g->req, on_drained_down);
	http_respond_start(g->req, status, h, length);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct outgoing *g = arg;

	g->bytes_down += len;
	moves(g);
	http_respond_write(g->req, data, len);
	if (http_respond_full(g->req))
		http_exchange_pause(g->x, true);
}

/* Trailers are dropped: a server could tell in them what heads are searched for. */
static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct outgoing *g = arg;

	g->x = NULL;
	http_respond_end(g->req);
}

static void on_failed(void *arg, const struct err *e)
{
	struct outgoing *g = arg;
	struct err *why = err_copy(e);

	g->x = NULL;
	if (!err_is(why, ERR_TIMEOUT))
		why = err_recode(why, ERR_UNAVAILABLE);
	fail(g, why);
}

/* Sending */

/* Whether it may be sent now, and with what: use is the caller's. */
static struct err *permit(struct outgoing *g, struct credential_use *ret)
{
	const struct outlet_spec *spec = &g->o->spec;
	autoptr(arena) a = arena_new();
	struct outlet_verdict v = { 0 };
	struct err *e = spec->ops->decide(spec->arg,
					  &(struct outlet_ask){
						  .ns = g->ns,
						  .sandbox = g->sandbox,
						  .method = http_request_method(g->req),
						  .host = g->target.host,
						  .path = g->target.path,
						  .port = g->target.port,
					  },
					  a, &v);

	*ret = (struct credential_use){ 0 };
	if (e || !g->target.tls) /* nothing secret is sent that anybody on the way can read */
		return e;
	return credential_find(g->o, g->ns,
			       &(struct credential_ask){ g->target.host, v.agents, v.capabilities },
			       ret);
}

static void start_exchange(struct outgoing *g, struct stream *s)
{
	static const struct http_exchange_events events = { .head = on_head,
							    .data = on_data,
							    .end = on_end,
							    .drained = on_drained_up,
							    .failed = on_failed };
	static const struct http_body_events body = { on_body_data, on_body_end };
	const struct credential_view *v = g->use.object ? credential_view(g->use.object) : NULL;
	bool query = v && *v->query;
	int64_t len = http_request_body_len(g->req);
	struct http_headers h = { 0 };
	autobuf target = { 0 };

	headers_to_send(http_request_headers(g->req), &g->target, &g->use, &h);
	target_write(&g->target, query ? v->query : NULL, query ? g->use.text : NULL, &target);
	g->x = http_exchange_start(
		g->o->pool,
		&(struct http_exchange_spec){ .version = 1,
					      .addr = g->target.host,
					      .stream = s,
					      .method = http_request_method(g->req),
					      .target = buf_str(&target),
					      .headers = &h,
					      .body_len = len },
		&events, g);
	headers_wipe(&h);
	explicit_bzero(buf_head(&target), target.len);
	if (len)
		http_request_stream(g->req, &body);
}

static const char *name_of(const struct credential_use *u)
{
	return u->object ? u->object->name : NULL;
}

static void on_recorded(void *arg, struct err *e);

static void record_first(struct outgoing *g, const struct credential_use *u)
{
	const struct outlet_spec *spec = &g->o->spec;
	const char *name = name_of(u);

	free(g->credential);
	g->credential = name ? xstrdup(name) : NULL;
	record(g, false);
	g->recorded = spec->ops->recorded(spec->arg, on_recorded, g);
}

static void send_it(struct outgoing *g)
{
	struct err *e = permit(g, &g->use);
	int fd;

	if (e) {
		fail(g, e);
		return;
	}
	if (!str_eq(name_of(&g->use), g->credential)) {
		record_first(g, &g->use);
		credential_done(&g->use);
		return;
	}
	moves(g);
	g->sent = true;
	fd = take_fd(g->fd);
	start_exchange(g, g->target.tls ? tls_connect(g->o->tls, fd, g->target.host)
					: stream_plain(fd));
}

static void on_connected(void *arg, int fd, const struct err *e)
{
	struct outgoing *g = arg;
	struct err *why;

	g->dial = NULL;
	g->fd = fd;
	if (fd >= 0) {
		send_it(g);
		return;
	}
	why = e ? err_copy(e) : err_new(ERR_UNAVAILABLE, "no address answers");
	fail(g, err_wrap(why, "%s", g->target.host));
}

static void connect_to(struct outgoing *g, const struct ip *addrs, size_t n)
{
	const struct outlet_spec *spec = &g->o->spec;
	struct ip good[DIAL_ADDRS_MAX];
	size_t n_good = 0;

	for (size_t i = 0; i < n && n_good < DIAL_ADDRS_MAX; i++)
		if (spec->ops->reach(spec->arg, g->place, &addrs[i], g->target.port))
			good[n_good++] = addrs[i];
	if (!n) {
		fail(g, err_new(ERR_UNAVAILABLE, "%s: the name has no address", g->target.host));
	} else if (!n_good) {
		fail(g, err_new(ERR_FORBIDDEN,
				"%s: none of its addresses may be reached from this sandbox at "
				"port %u",
				g->target.host, g->target.port));
	} else {
		g->dial = dial_start(&(struct dial_spec){ .loop = spec->loop,
							  .addrs = good,
							  .n = n_good,
							  .port = g->target.port,
							  .done = on_connected,
							  .arg = g });
	}
}

static void on_looked_up(void *arg, const struct ip *addrs, size_t n)
{
	struct outgoing *g = arg;

	g->lookup = NULL;
	connect_to(g, addrs, n);
}

static void find_host(struct outgoing *g)
{
	const struct outlet_spec *spec = &g->o->spec;
	struct ip ip;

	if (!g->target.literal)
		g->lookup = spec->ops->lookup(spec->arg, g->place, g->target.host, on_looked_up, g);
	else if (ip_parse(g->target.host, &ip))
		connect_to(g, &ip, 1);
	else
		fail(g, err_new(ERR_MALFORMED, "%s is not an address", g->target.host));
}

static void on_recorded(void *arg, struct err *e)
{
	struct outgoing *g = arg;

	g->recorded = NULL;
	if (e)
		fail_with(g, 503,
			  err_new(ERR_UNAVAILABLE,
				  "the audit log cannot be written now, and nothing was sent"));
	else if (g->fd >= 0)
		send_it(g);
	else
		find_host(g);
	err_free(e); /* it names files of the host */
}

/* What is asked for */

/* A page in a browser inside the sandbox can have requests sent here, and is not to be lent
 * credentials: a header says so, or it came by a name of its own. */
static struct err *check_request(struct outgoing *g)
{
	static const char *const no_methods[] = { "CONNECT", "TRACE", NULL };
	const char *method = http_request_method(g->req), *address = g->o->address;
	const char *mark = headers_browser_mark(http_request_headers(g->req), address);
	const char *host = str_or(http_request_header(g->req, "Host"), "");

	if (str_in(method, no_methods))
		return err_new(ERR_METHOD, "%s is not passed on", method);
	if (http_request_header(g->req, "Upgrade"))
		return err_new(ERR_UNSUPPORTED, "protocols cannot be changed through the outlet");
	if (mark)
		return err_new(ERR_FORBIDDEN,
			       "the header %s says that a browser asks, and it is for programs "
			       "alone: send the request from a program, without this header",
			       mark);
	if (!headers_is_our_name(SPAN(host), address))
		return err_new(ERR_MALFORMED, "the outlet is no proxy: ask for "
					      "http://outlet.cay.internal/https/HOST/PATH");
	return target_read(http_request_target(g->req), &g->target);
}

static void start(struct outgoing *g)
{
	struct credential_use use = { 0 };
	struct err *e = check_request(g);

	if (!e)
		e = permit(g, &use);
	if (e)
		fail(g, e);
	else
		record_first(g, &use);
	credential_done(&use);
}

/* Who asks */

static struct err *admit(struct outlet *o, const struct visitor *v)
{
	if (v->active >= ACTIVE_EACH_MAX)
		return err_new(ERR_EXHAUSTED, "this sandbox has %d requests under way",
			       ACTIVE_EACH_MAX);
	if (o->stats.active >= ACTIVE_MAX ||
	    (o->stats.active >= ACTIVE_MANY && v->active >= ACTIVE_FEW))
		return err_new(ERR_EXHAUSTED, "too many requests of all sandboxes are under way");
	return NULL;
}

static void begin(struct outlet *o, struct http_request *req, const struct outlet_sandbox *who,
		  struct visitor *v)
{
	struct outgoing *g = xnew(struct outgoing);

	g->o = o;
	g->req = req;
	g->fd = -1;
	g->visitor = v;
	g->ns = xstrdup(who->ns);
	g->sandbox = xstrdup(who->name);
	g->place = who->place;
	g->started = g->moved = clock_mono();
	g->timer = timer_new(o->spec.loop, on_timer, g);
	timer_set(g->timer, IDLE_MS);
	visitor_enter(v);
	o->stats.active++;
	http_request_set_owner(req, g, on_ended);
	start(g);
}

void outlet_head(void *arg, struct http_request *req)
{
	struct outlet *o = arg;
	struct outlet_sandbox who;
	struct visitor *v;
	char ip[PEER_IP_MAX];
	autoptr(err) e = NULL;

	http_peer_ip(http_request_peer(req), ip);
	if (!o->spec.ops->who(o->spec.arg, ip, &who)) {
		e = err_new(ERR_FORBIDDEN, "it is for sandboxes alone");
		answer(req, status_of(e), e);
		return;
	}
	v = visitor_at(o->visitors, ip, who.uid);
	if (!visitor_may_ask(v))
		e = err_new(ERR_EXHAUSTED, "more than %d requests a second", REFILL_PER_SECOND);
	else
		e = admit(o, v);
	if (!e) {
		begin(o, req, &who, v);
		return;
	}
	v->unrecorded++;
	answer(req, status_of(e), e);
}
