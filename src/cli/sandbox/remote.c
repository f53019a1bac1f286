/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that a command talks to. Requests and upgrades share one pool of connections, so a
 * command that claims and then runs something needs one TLS handshake for both. Commands are
 * written one step after the other: each waits for its answer by turning the loop.
 */
#include <errno.h>
#include <signal.h>

#include "api/meta.h"
#include "base/buf.h"
#include "cli/sandbox/sandbox_priv.h"
#include "client/http.h"
#include "loop/loop.h"
#include "net/http_client.h"

enum {
	CONNECT_MS = 10 * 1000,
	ANSWER_MS = 30 * 1000,
	TURN_MS = 1000,
	IDLE_MS = 60 * 1000,
	ANSWER_MAX = 64 * 1024 * 1024,
	LINE_MAX_LEN = 16 * 1024 * 1024,
	N_SIGNALS = 3,
	TWICE_MS = 1000, /* timeout(1) and others send a signal twice: to us, and to our group */
	MESSAGE_MAX = 1 << 20,
};

const char *const output_formats[] = { "text", "json", "yaml", NULL };

struct remote {
	struct loop *loop;
	struct cli_server at;
	char *ns;
	struct http_pool *pool;
	struct signal_watch *signals[N_SIGNALS];
	struct call *warm; /* a request that opens a connection for a later one; NULL: none */
	struct term_progress progress;
	char *note;    /* what is waited for, shown after a second; NULL: nothing */
	int signal;    /* that came last */
	bool canceled; /* by it */
	usec settled;  /* since when a clean-up runs; 0: none does */
};

static struct err *choose_namespace(struct remote *r, const char *flag, const char *of_context)
{
	const char *ns = str_or(flag, str_or(of_context, "default"));
	const char *fault = meta_bad_dns_label(ns);

	r->ns = xstrdup(ns);
	return fault ? err_new(ERR_INVALID, "--namespace: \"%s\": %s", ns, fault) : NULL;
}

struct err *remote_open(const struct settings *s, struct remote **ret)
{
	static const struct http_limits limits = { .idle_ms = IDLE_MS };
	autoptr(remote) r = xnew(struct remote);
	autofree char *path = NULL;
	struct err *e = cli_kubeconfig_find(settings_text(s, "kubeconfig"), CLI_DATA_DIR, &path);

	if (!e)
		e = cli_server_find(path, &r->at);
	if (!e)
		e = choose_namespace(r, settings_text(s, "namespace"), r->at.ns);
	if (!e)
		e = loop_new(&r->loop);
	if (e)
		return e;
	r->pool = http_pool_new(r->loop, &limits, 2);
	http_pool_set_wrap(r->pool, cli_server_wrap, &r->at);
	*ret = take(r);
	return NULL;
}

const char *remote_ns(const struct remote *r)
{
	return r->ns;
}

const struct cli_server *remote_server(const struct remote *r)
{
	return &r->at;
}

struct loop *remote_loop(struct remote *r)
{
	return r->loop;
}

/* Signals */

static void on_signal(void *arg, int signum)
{
	struct remote *r = arg;

	if (r->settled && clock_mono() - r->settled < (usec)TWICE_MS * 1000)
		return;
	r->signal = signum;
	r->canceled = true;
}

void remote_catch(struct remote *r)
{
	static const int which[N_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

	for (size_t i = 0; i < N_SIGNALS; i++)
		r->signals[i] = signal_watch_new(r->loop, which[i], on_signal, r);
}

int remote_signal(const struct remote *r)
{
	return r->signal;
}

void remote_settle(struct remote *r)
{
	r->canceled = false;
	r->settled = clock_mono();
}

void remote_note(struct remote *r, const char *text)
{
	term_progress_end(&r->progress);
	free(r->note);
	r->note = xstrdup(text);
	term_progress_start(&r->progress);
}

struct err *remote_until(struct remote *r, const bool *over, uint64_t ms)
{
	usec deadline = clock_mono() + (usec)ms * 1000;

	while (!*over) {
		usec left = ms ? (deadline - clock_mono()) / 1000 : TURN_MS;

		if (r->canceled)
			return err_new(ERR_CANCELED, "ended by signal %d", r->signal);
		if (left < 0)
			return err_new(ERR_TIMEOUT, "it did not end within %llu ms",
				       (unsigned long long)ms);
		(void)loop_turn(r->loop, (unsigned)MIN(left + 1, (usec)TURN_MS));
		if (r->note)
			term_progress_note(&r->progress, r->note);
	}
	return NULL;
}

struct err *remote_pause(struct remote *r, uint64_t ms)
{
	const bool never = false;
	struct err *e = remote_until(r, &never, ms);

	if (err_is(e, ERR_TIMEOUT))
		err_free(take(e));
	return e;
}

/* Requests */

struct call {
	struct http_exchange *x; /* NULL: over */
	struct feed *feed;       /* NULL: body gets everything */
	int status;
	struct buf body;
	struct err *err;
	bool over;
};

static void on_head(void *arg, int status, struct http_headers *h unused)
{
	((struct call *)arg)->status = status;
}

static void call_enough(struct call *c)
{
	http_exchange_cancel(take(c->x));
	c->over = true;
}

static void feed_lines(struct call *c)
{
	const char *end;

	while (c->body.len && (end = memchr(buf_head(&c->body), '\n', c->body.len)) != NULL) {
		size_t n = (size_t)(end - buf_head(&c->body));
		bool more = c->feed->line(c->feed, buf_head(&c->body), n);

		buf_eat(&c->body, n + 1);
		if (!more) {
			call_enough(c);
			return;
		}
	}
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct call *c = arg;
	bool fed = c->feed && c->status == 200;

	if (fed && c->feed->data) {
		if (!c->feed->data(c->feed, data, len))
			call_enough(c);
		return;
	}
	if (c->body.len + len > (fed ? (size_t)LINE_MAX_LEN : (size_t)ANSWER_MAX)) {
		c->err = err_new(ERR_TOO_LARGE, "the answer is larger than %d MiB",
				 (fed ? LINE_MAX_LEN : ANSWER_MAX) >> 20);
		call_enough(c);
		return;
	}
	buf_add(&c->body, data, len);
	if (fed)
		feed_lines(c);
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct call *c = arg;

	c->x = NULL;
	c->over = true;
}

static void on_failed(void *arg, const struct err *e)
{
	struct call *c = arg;

	c->err = err_copy(e);
	on_end(c, NULL);
}

static void put_headers(const struct remote *r, struct http_headers *h)
{
	http_headers_add(h, "Host", r->at.host);
	http_headers_add(h, "User-Agent", "cay/" CAY_VERSION);
	if (r->at.authorization)
		http_headers_add(h, "Authorization", r->at.authorization);
}

static void call_start(struct remote *r, struct call *c, const struct ask *ask)
{
	static const struct http_exchange_events events = {
		.head = on_head,
		.data = on_data,
		.end = on_end,
		.failed = on_failed,
	};
	autofree char *target = xasprintf("%s%s", r->at.prefix, ask->path);
	struct http_headers h = { 0 };
	size_t len = ask->body ? strlen(ask->body) : 0;

	put_headers(r, &h);
	http_headers_add(&h, "Accept", str_or(ask->accept, "application/json, */*"));
	if (ask->body)
		http_headers_add(&h, "Content-Type", str_or(ask->type, "application/json"));
	c->x = http_exchange_start(
		r->pool,
		&(struct http_exchange_spec){ .addr = r->at.addr,
					      .method = str_or(ask->method, "GET"),
					      .target = target,
					      .headers = &h,
					      .body_len = (int64_t)len,
					      .connect_ms = CONNECT_MS },
		&events, c);
	if (len) {
		http_exchange_write(c->x, ask->body, len);
		http_exchange_end_body(c->x, NULL);
	}
	http_headers_done(&h);
}

static void call_done(struct call *c)
{
	if (c->x)
		http_exchange_cancel(c->x);
	buf_done(&c->body);
	err_free(c->err);
}

static struct err *call_error(struct call *c, const struct remote *r, const char *what)
{
	if (err_errno(c->err) == ECONNREFUSED) /* whatever was asked */
		return cli_server_refused(&r->at, take(c->err));
	if (c->err)
		return err_wrap(take(c->err), "%s", what);
	if (c->status < 300)
		return NULL;
	return status_err_text(buf_str(&c->body), c->body.len, c->status, what);
}

void remote_warm(struct remote *r)
{
	if (r->warm)
		return;
	r->warm = xnew(struct call);
	call_start(r, r->warm, &(struct ask){ .path = "/version" });
}

struct err *remote_ask(struct remote *r, const struct ask *ask, struct json_doc **ret)
{
	autofree char *what = ask->what ? xstrdup(ask->what)
					: xasprintf("%s %s", str_or(ask->method, "GET"), ask->path);
	struct call c = { 0 };
	struct err *e;

	call_start(r, &c, ask);
	e = remote_until(r, &c.over, ask->timeout_ms ? ask->timeout_ms : (uint64_t)ANSWER_MS);
	if (e)
		e = err_wrap(e, "%s", what);
	else
		e = call_error(&c, r, what);
	if (!e && ret)
		e = err_wrap(json_parse(buf_str(&c.body), c.body.len, NULL, ret), "%s", what);
	call_done(&c);
	return e;
}

void remote_free(struct remote *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < N_SIGNALS; i++)
		signal_watch_free(r->signals[i]);
	if (r->warm)
		call_done(r->warm);
	free(r->warm);
	http_pool_free(r->pool);
	if (r->loop) {
		(void)loop_turn(r->loop, 0); /* what was closed is freed */
		loop_free(r->loop);
	}
	cli_server_done(&r->at);
	free(r->ns);
	free(r->note);
	free(r);
}

struct err *remote_get(struct remote *r, const char *path, struct json_doc **ret)
{
	return remote_ask(r, &(struct ask){ .path = path }, ret);
}

struct err *remote_feed(struct remote *r, const char *path, struct feed *f)
{
	struct call c = { .feed = f };
	struct err *e;

	call_start(r, &c, &(struct ask){ .path = path });
	e = remote_until(r, &c.over, f->timeout_ms);
	if (err_is(e, ERR_TIMEOUT)) {
		err_free(take(e));
		f->late = true;
	} else if (!e) {
		e = call_error(&c, r, path);
	}
	call_done(&c);
	return e;
}

struct websocket_dial *remote_dial(struct remote *r, const char *path, const char *const *protocols,
				   const struct websocket_dial_events *ev, void *arg)
{
	autofree char *target = xasprintf("%s%s", r->at.prefix, path);
	struct http_headers h = { 0 };
	struct websocket_dial *d;

	put_headers(r, &h);
	d = websocket_dial(r->pool,
			   &(struct websocket_dial_spec){ .addr = r->at.addr,
							  .target = target,
							  .headers = &h,
							  .protocols = protocols,
							  .max_message = MESSAGE_MAX,
							  .connect_ms = CONNECT_MS,
							  .head_ms = ANSWER_MS },
			   ev, arg);
	http_headers_done(&h);
	return d;
}
