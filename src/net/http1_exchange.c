/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <llhttp.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/http_client_priv.h"
#include "net/stream.h"

/*
 * One exchange: connect or reuse an idle connection, send, read the answer, return the connection
 * to the pool. The peer may be hostile: its head is limited, and what it says about framing is
 * believed only as far as llhttp's strict mode accepts it.
 */
enum {
	HEAD_USUAL = 512,       /* what most heads of requests fit in */
	EARLY_MAX = 256 * 1024, /* limit on body written before there is a connection */
};

enum exchange_state {
	EXCHANGE_CONNECTING,
	EXCHANGE_WAITING, /* the request is sent or being sent; no byte of an answer yet */
	EXCHANGE_ANSWER,  /* part of the answer has arrived */
	EXCHANGE_OVER,    /* freed, but someone up the stack still holds it */
	EXCHANGE_STATE_MAX_,
};

struct http1_exchange {
	struct http_exchange base;
	unsigned refs;         /* the exchange itself and running callbacks */
	struct deferred later; /* reports err, or continues reading after a pause */
	enum exchange_state state;

	char *addr;
	struct buf head; /* of the request, kept for a second attempt */
	struct buf early;
	int64_t body_left; /* < 0: chunked */
	bool is_head, repeatable, body_ended, body_sent, early_full;
	uint64_t connect_ms, head_ms;

	struct http_dial dial;
	struct timer *timer; /* of connecting; NULL: none */
	struct conn *conn;
	bool reused;
	bool given; /* the connection is for this exchange alone */

	llhttp_t parser;
	struct http_headers headers, trailers;
	struct buf name, value;
	size_t head_len;
	int status;
	bool head_ready, head_told, complete, keep_alive, paused;
	struct err *err; /* an error that is reported later */
};

static void exchange_connect(struct http1_exchange *x);

static struct http1_exchange *http1_of(const struct http_exchange *x)
{
	return container_of(x, struct http1_exchange, base);
}

static void exchange_unref(struct http1_exchange *x)
{
	if (--x->refs)
		return;
	http_headers_done(&x->headers);
	http_headers_done(&x->trailers);
	if (x->head.len) /* it may show who we are */
		explicit_bzero(buf_head(&x->head), x->head.len);
	buf_done(&x->head);
	buf_done(&x->early);
	buf_done(&x->name);
	buf_done(&x->value);
	err_free(x->err);
	free(x->addr);
	free(x);
}

static void exchange_free(struct http1_exchange *x)
{
	if (x->state == EXCHANGE_OVER)
		return;
	x->state = EXCHANGE_OVER;
	list_del(&x->base.link);
	http_dial_stop(&x->dial);
	deferred_cancel(&x->later);
	timer_free(take(x->timer));
	conn_free(take(x->conn));
	exchange_unref(x);
}

/* Takes ownership of e. */
static void exchange_fail(struct http1_exchange *x, struct err *e)
{
	if (x->state == EXCHANGE_OVER) {
		err_free(e);
		return;
	}
	x->refs++;
	conn_free(take(x->conn));
	http_dial_stop(&x->dial);
	x->base.ev.failed(x->base.arg, e);
	err_free(e);
	exchange_free(x);
	exchange_unref(x);
}

/*
 * An idle connection may die just as it is reused: that says nothing about the peer. It may have
 * read the request before, so only what can be done twice is sent again.
 */
static void exchange_lost(struct http1_exchange *x, struct err *e)
{
	if (x->state != EXCHANGE_WAITING || !x->reused || !x->repeatable || x->body_sent) {
		exchange_fail(x, e);
		return;
	}
	err_free(e);
	conn_free(take(x->conn));
	exchange_connect(x);
}

static void exchange_finish(struct http1_exchange *x)
{
	struct conn *c = x->conn;

	x->refs++;
	if (x->base.pool && !x->given && x->keep_alive && x->body_ended && !x->body_left &&
	    !conn_in(c)->len && !conn_unsent(c)) {
		x->conn = NULL;
		http_pool_put(x->base.pool, x->addr, c);
	}
	x->base.ev.end(x->base.arg, &x->trailers);
	exchange_free(x);
	exchange_unref(x);
}

static void tell_head(struct http1_exchange *x)
{
	if (x->head_told || !x->head_ready)
		return;
	x->head_told = true;
	conn_set_answer_ms(x->conn, 0);
	x->base.ev.head(x->base.arg, x->status, &x->headers);
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	struct http1_exchange *x = p->data;

	x->head_len += len;
	if (x->head_len > x->base.limits.max_head)
		return HPE_USER;
	buf_add(&x->name, at, len);
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	struct http1_exchange *x = p->data;

	x->head_len += len;
	if (x->head_len > x->base.limits.max_head)
		return HPE_USER;
	buf_add(&x->value, at, len);
	return 0;
}

static int on_value_complete(llhttp_t *p)
{
	struct http1_exchange *x = p->data;
	struct http_headers *to = x->head_ready ? &x->trailers : &x->headers;

	if (to->n >= x->base.limits.max_headers)
		return HPE_USER;
	http_headers_add(to, buf_str(&x->name), buf_str(&x->value));
	buf_clear(&x->name);
	buf_clear(&x->value);
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	struct http1_exchange *x = p->data;

	if (p->status_code < 200 && p->status_code != 101)
		return 0; /* the real answer follows */
	x->head_ready = true;
	x->status = p->status_code;
	if (p->status_code == 101)
		return 2;
	return x->is_head ? 1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	struct http1_exchange *x = p->data;

	tell_head(x);
	if (x->state == EXCHANGE_OVER)
		return HPE_USER;
	if (len)
		x->base.ev.data(x->base.arg, at, len);
	if (x->state == EXCHANGE_OVER)
		return HPE_USER;
	return x->paused ? HPE_PAUSED : 0;
}

static int on_message_complete(llhttp_t *p)
{
	struct http1_exchange *x = p->data;

	if (!x->head_ready) {
		http_headers_done(&x->headers);
		return 0;
	}
	x->complete = true;
	x->keep_alive = x->status != 101 && llhttp_should_keep_alive(p);
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

static struct err *answer_err(struct http1_exchange *x, llhttp_errno_t r)
{
	const char *reason = llhttp_get_error_reason(&x->parser);

	if (r == HPE_USER)
		return err_new(ERR_TOO_LARGE, "the head of the answer from %s is too large",
			       x->addr);
	return err_new(ERR_MALFORMED, "read answer from %s: %s", x->addr,
		       reason ? reason : llhttp_errno_name(r));
}

static void exchange_parsed(struct http1_exchange *x, llhttp_errno_t r)
{
	if (r != HPE_OK && r != HPE_PAUSED && r != HPE_PAUSED_UPGRADE) {
		exchange_fail(x, answer_err(x, r));
		return;
	}
	tell_head(x);
	if (x->state != EXCHANGE_OVER && x->complete && !x->paused)
		exchange_finish(x);
}

static void on_data(void *arg, struct buf *in)
{
	struct http1_exchange *x = arg;
	/*
	 * There may be no input, see on_later(); passing NULL would make llhttp forget that it is
	 * in a body.
	 */
	const char *p = in->len ? buf_head(in) : "";
	llhttp_errno_t r = HPE_PAUSED;

	x->refs++;
	x->state = EXCHANGE_ANSWER;
	if (llhttp_get_errno(&x->parser) == HPE_PAUSED)
		llhttp_resume(&x->parser);
	if (!x->complete) {
		r = llhttp_execute(&x->parser, p, in->len);
		if (x->state != EXCHANGE_OVER)
			buf_eat(in, r == HPE_OK ? in->len
						: (size_t)(llhttp_get_error_pos(&x->parser) - p));
	}
	if (x->state != EXCHANGE_OVER)
		exchange_parsed(x, r);
	exchange_unref(x);
}

static void on_eof(void *arg)
{
	struct http1_exchange *x = arg;

	x->refs++;
	if (llhttp_get_errno(&x->parser) == HPE_PAUSED)
		llhttp_resume(&x->parser);
	if (x->state == EXCHANGE_ANSWER && !x->complete)
		/* An answer that lasts until the connection closes is complete now. */
		(void)llhttp_finish(&x->parser);
	if (x->state == EXCHANGE_OVER)
		;
	else if (x->complete)
		exchange_parsed(x, HPE_PAUSED);
	else
		exchange_lost(x, err_new(ERR_UNAVAILABLE,
					 "%s closed the connection before its answer was complete",
					 x->addr));
	exchange_unref(x);
}

static void on_drained(void *arg)
{
	struct http1_exchange *x = arg;

	if (x->base.ev.drained && !x->body_ended)
		x->base.ev.drained(x->base.arg);
}

static void on_closed(void *arg, const struct err *e)
{
	struct http1_exchange *x = arg;

	if (err_is(e, ERR_TIMEOUT))
		exchange_fail(x, err_new(ERR_TIMEOUT, "%s did not answer in time", x->addr));
	else
		exchange_lost(x, e ? err_wrap(err_recode(err_copy(e), ERR_UNAVAILABLE),
					      "exchange with %s", x->addr)
				   : err_new(ERR_UNAVAILABLE, "the connection to %s was closed",
					     x->addr));
}

static const struct conn_events conn_events = {
	.data = on_data,
	.eof = on_eof,
	.drained = on_drained,
	.closed = on_closed,
};

static void on_timer(void *arg)
{
	struct http1_exchange *x = arg;

	exchange_fail(x, err_sys(ETIMEDOUT, "connect to %s", x->addr));
}

/* The peer must begin its answer within head_ms after the end of the request. */
static void arm_head_timer(struct http1_exchange *x)
{
	if (x->head_ms && x->body_ended && x->conn && !x->head_told)
		conn_set_answer_ms(x->conn, x->head_ms);
}

static void exchange_use(struct http1_exchange *x, struct conn *c)
{
	x->conn = c;
	x->state = EXCHANGE_WAITING;
	llhttp_init(&x->parser, HTTP_RESPONSE, &settings);
	x->parser.data = x;
	timer_free(take(x->timer));
	conn_set_events(c, &conn_events, x);
	conn_pause(c, x->paused);
	conn_set_high(c, x->base.limits.max_out);
	conn_write(c, buf_head(&x->head), x->head.len);
	if (x->early.len) {
		x->body_sent = true;
		conn_write(c, buf_head(&x->early), x->early.len);
		buf_done(&x->early);
	}
	arm_head_timer(x);
}

static void on_connected(void *arg, struct stream *s, const struct err *e)
{
	struct http1_exchange *x = arg;

	if (!s) {
		exchange_fail(x, err_copy(e));
		return;
	}
	exchange_use(x, conn_new(x->dial.with.loop, s, &conn_events, x));
	if (x->early_full)
		on_drained(x);
}

static void exchange_fail_later(struct http1_exchange *x, struct err *e)
{
	x->err = e;
	deferred_call(&x->later);
}

static void on_later(void *arg)
{
	struct http1_exchange *x = arg;

	if (x->err)
		exchange_fail(x, take(x->err));
	else if (x->state == EXCHANGE_ANSWER && !x->paused)
		on_data(x, conn_in(x->conn));
}

static void exchange_connect(struct http1_exchange *x)
{
	struct err *e;

	x->state = EXCHANGE_CONNECTING;
	x->reused = false;
	e = http_dial_start(&x->dial);
	if (e) {
		exchange_fail_later(x, e);
		return;
	}
	if (!x->connect_ms)
		return;
	if (!x->timer)
		x->timer = timer_new(x->dial.with.loop, on_timer, x);
	timer_set(x->timer, x->connect_ms);
}

static void put_headers(struct buf *b, const struct http_headers *h)
{
	for (size_t i = 0; h && i < h->n; i++) {
		const struct http_header *one = &h->list[i];

		if (str_eq_nocase(one->name, "Content-Length") ||
		    str_eq_nocase(one->name, "Transfer-Encoding"))
			continue;
		if (!http_header_valid(one))
			continue;
		buf_add_str(b, one->name);
		buf_add(b, ": ", 2);
		buf_add_str(b, one->value);
		buf_add(b, "\r\n", 2);
	}
}

static void put_request(struct buf *b, const struct http_exchange_spec *spec)
{
	bool may_have_body = str_eq(spec->method, "POST") || str_eq(spec->method, "PUT") ||
			     str_eq(spec->method, "PATCH");

	(void)buf_reserve(b, HEAD_USUAL);
	buf_add_str(b, spec->method);
	buf_add_char(b, ' ');
	buf_add_str(b, spec->target);
	buf_add_str(b, " HTTP/1.1\r\n");
	put_headers(b, spec->headers);
	if (spec->body_len < 0) {
		buf_add_str(b, "Transfer-Encoding: chunked\r\n");
	} else if (spec->body_len > 0 || may_have_body) {
		buf_add_str(b, "Content-Length: ");
		buf_add_uint(b, (uint64_t)spec->body_len);
		buf_add(b, "\r\n", 2);
	}
	buf_add(b, "\r\n", 2);
}

static void body_put(struct http1_exchange *x, const void *p, size_t len)
{
	if (x->conn) {
		x->body_sent = true;
		conn_write(x->conn, p, len);
		return;
	}
	buf_add(&x->early, p, len);
	if (x->early.len >= EARLY_MAX)
		x->early_full = true;
}

static void exchange_write(struct http_exchange *base, const void *p, size_t len)
{
	struct http1_exchange *x = http1_of(base);
	char size[24];
	int n;

	if (x->body_ended || x->state == EXCHANGE_OVER)
		return;
	if (x->body_left >= 0) {
		len = (size_t)MIN((uint64_t)len, (uint64_t)x->body_left);
		x->body_left -= (int64_t)len;
	}
	if (!len)
		return;
	n = snprintf(size, sizeof(size), "%zx\r\n", len);
	if (x->body_left < 0)
		body_put(x, size, (size_t)n);
	body_put(x, p, len);
	if (x->body_left < 0)
		body_put(x, "\r\n", 2);
}

static bool exchange_full(const struct http_exchange *base)
{
	const struct http1_exchange *x = http1_of(base);

	return x->conn ? conn_full(x->conn) : x->early.len >= EARLY_MAX;
}

static void exchange_end_body(struct http_exchange *base, const struct http_headers *trailers)
{
	struct http1_exchange *x = http1_of(base);
	autobuf end = { 0 };

	if (x->body_ended || x->state == EXCHANGE_OVER)
		return;
	if (x->body_left < 0) {
		buf_add_str(&end, "0\r\n");
		put_headers(&end, trailers);
		buf_add_str(&end, "\r\n");
		body_put(x, buf_head(&end), end.len);
		x->body_left = 0;
	}
	x->body_ended = true;
	arm_head_timer(x);
}

static void exchange_pause(struct http_exchange *base, bool paused)
{
	struct http1_exchange *x = http1_of(base);

	x->paused = paused;
	if (!x->conn)
		return;
	conn_pause(x->conn, paused);
	/*
	 * The connection offers the input that it holds; but the end may follow without another
	 * byte.
	 */
	if (!paused)
		deferred_call(&x->later);
}

static void nothing_data(unused void *arg, unused struct buf *in)
{
}

static void nothing_closed(unused void *arg, unused const struct err *e)
{
}

static struct conn *exchange_take_conn(struct http_exchange *base)
{
	static const struct conn_events nothing = { .data = nothing_data,
						    .closed = nothing_closed };
	struct http1_exchange *x = http1_of(base);
	struct conn *c = take(x->conn);

	conn_set_events(c, &nothing, NULL);
	exchange_free(x);
	return c;
}

static void exchange_cancel(struct http_exchange *base)
{
	exchange_free(http1_of(base));
}

static const struct http_exchange_ops http1_ops = {
	.write = exchange_write,
	.full = exchange_full,
	.end_body = exchange_end_body,
	.pause = exchange_pause,
	.take_conn = exchange_take_conn,
	.cancel = exchange_cancel,
};

struct http_exchange *http1_exchange_start(struct http_pool *p,
					   const struct http_exchange_spec *spec,
					   const struct http_exchange_events *ev, void *arg,
					   struct err *bad)
{
	struct http1_exchange *x = xnew(struct http1_exchange);
	struct conn *c;

	http_exchange_init(&x->base, p, &http1_ops, ev, arg);
	x->refs = 1;
	x->addr = xstrdup(spec->addr);
	x->is_head = str_eq(spec->method, "HEAD");
	x->repeatable = http_repeatable(spec->method);
	x->body_left = spec->body_len;
	x->body_ended = spec->body_len == 0;
	x->connect_ms = spec->connect_ms;
	x->head_ms = spec->head_ms;
	deferred_init(&x->later, p->loop, on_later, x);
	http_dial_init(&x->dial, &p->dialer, x->addr, on_connected, x);
	if (bad) {
		stream_free(spec->stream);
		exchange_fail_later(x, bad);
		return &x->base;
	}
	put_request(&x->head, spec);
	x->given = spec->stream;
	if (x->given) {
		exchange_use(x, conn_new(p->loop, spec->stream, &conn_events, x));
		return &x->base;
	}
	c = http_pool_take(p, spec->addr);
	if (c) {
		exchange_use(x, c);
		x->reused = true;
	} else {
		exchange_connect(x);
	}
	return &x->base;
}
