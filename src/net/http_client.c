/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_client.h"

#include <assert.h>
#include <errno.h>
#include <llhttp.h>
#include <sys/socket.h>
#include <unistd.h>

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
	EARLY_MAX = 256 * 1024, /* limit on body written before there is a connection */
};

enum exchange_state {
	EXCHANGE_CONNECTING,
	EXCHANGE_WAITING, /* the request is sent or being sent; no byte of an answer yet */
	EXCHANGE_ANSWER,  /* part of the answer has arrived */
	EXCHANGE_OVER,    /* freed, but someone up the stack still holds it */
	EXCHANGE_STATE_MAX_,
};

struct http_exchange {
	struct http_pool *pool; /* NULL: it was freed before us */
	uint32_t mark;
	struct stream *(*wrap)(void *arg, int fd);
	void *wrap_arg;
	struct loop *loop;
	struct list link;
	struct http_limits limits;
	struct http_exchange_events ev;
	void *arg;
	unsigned refs;         /* the exchange itself and running callbacks */
	struct deferred later; /* reports err, or continues reading after a pause */
	enum exchange_state state;

	char *addr;
	struct buf head; /* of the request, kept for a second attempt */
	struct buf early;
	int64_t body_left; /* < 0: chunked */
	bool is_head, body_ended, body_sent, early_full;
	uint64_t connect_ms, head_ms;

	int fd; /* while connecting */
	struct watch *watch;
	struct timer *timer;
	struct conn *conn;
	bool reused;

	llhttp_t parser;
	struct http_headers headers;
	struct buf name, value;
	size_t head_len;
	int status;
	bool head_ready, head_told, complete, keep_alive, paused;
	struct err *err; /* an error that is reported later */
};

static void exchange_connect(struct http_exchange *x);

static void exchange_unref(struct http_exchange *x)
{
	if (--x->refs)
		return;
	http_headers_done(&x->headers);
	buf_done(&x->head);
	buf_done(&x->early);
	buf_done(&x->name);
	buf_done(&x->value);
	err_free(x->err);
	free(x->addr);
	free(x);
}

static void exchange_drop_fd(struct http_exchange *x)
{
	watch_free(take(x->watch));
	if (x->fd >= 0)
		(void)close(take_fd(x->fd));
}

static void exchange_free(struct http_exchange *x)
{
	if (x->state == EXCHANGE_OVER)
		return;
	x->state = EXCHANGE_OVER;
	list_del(&x->link);
	exchange_drop_fd(x);
	deferred_cancel(&x->later);
	timer_free(take(x->timer));
	conn_free(take(x->conn));
	exchange_unref(x);
}

/* Takes ownership of e. */
static void exchange_fail(struct http_exchange *x, struct err *e)
{
	if (x->state == EXCHANGE_OVER) {
		err_free(e);
		return;
	}
	x->refs++;
	conn_free(take(x->conn));
	exchange_drop_fd(x);
	x->ev.failed(x->arg, e);
	err_free(e);
	exchange_free(x);
	exchange_unref(x);
}

/* An idle connection may die just as it is reused: that says nothing about the peer. */
static void exchange_lost(struct http_exchange *x, struct err *e)
{
	if (x->state != EXCHANGE_WAITING || !x->reused || x->body_sent) {
		exchange_fail(x, e);
		return;
	}
	err_free(e);
	conn_free(take(x->conn));
	exchange_connect(x);
}

static void exchange_finish(struct http_exchange *x)
{
	struct conn *c = x->conn;

	x->refs++;
	if (x->pool && x->keep_alive && x->body_ended && !x->body_left && !conn_in(c)->len &&
	    !conn_unsent(c)) {
		x->conn = NULL;
		http_pool_put(x->pool, x->addr, c);
	}
	x->ev.end(x->arg);
	exchange_free(x);
	exchange_unref(x);
}

static void tell_head(struct http_exchange *x)
{
	if (x->head_told || !x->head_ready)
		return;
	x->head_told = true;
	timer_clear(x->timer);
	x->ev.head(x->arg, x->status, &x->headers);
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	struct http_exchange *x = p->data;

	x->head_len += len;
	if (x->head_len > x->limits.max_head)
		return HPE_USER;
	if (!x->head_ready)
		buf_add(&x->name, at, len);
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	struct http_exchange *x = p->data;

	x->head_len += len;
	if (x->head_len > x->limits.max_head)
		return HPE_USER;
	if (!x->head_ready)
		buf_add(&x->value, at, len);
	return 0;
}

static int on_value_complete(llhttp_t *p)
{
	struct http_exchange *x = p->data;

	if (x->head_ready)
		return 0; /* a trailer */
	if (x->headers.n >= x->limits.max_headers)
		return HPE_USER;
	http_headers_add(&x->headers, buf_str(&x->name), buf_str(&x->value));
	buf_clear(&x->name);
	buf_clear(&x->value);
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	struct http_exchange *x = p->data;

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
	struct http_exchange *x = p->data;

	tell_head(x);
	if (x->state == EXCHANGE_OVER)
		return HPE_USER;
	if (len)
		x->ev.data(x->arg, at, len);
	if (x->state == EXCHANGE_OVER)
		return HPE_USER;
	return x->paused ? HPE_PAUSED : 0;
}

static int on_message_complete(llhttp_t *p)
{
	struct http_exchange *x = p->data;

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

static struct err *answer_err(struct http_exchange *x, llhttp_errno_t r)
{
	const char *reason = llhttp_get_error_reason(&x->parser);

	if (r == HPE_USER)
		return err_new(ERR_TOO_LARGE, "the head of the answer from %s is too large",
			       x->addr);
	return err_new(ERR_MALFORMED, "read answer from %s: %s", x->addr,
		       reason ? reason : llhttp_errno_name(r));
}

static void exchange_parsed(struct http_exchange *x, llhttp_errno_t r)
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
	struct http_exchange *x = arg;
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
	struct http_exchange *x = arg;

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
	struct http_exchange *x = arg;

	if (x->ev.drained && !x->body_ended)
		x->ev.drained(x->arg);
}

static void on_closed(void *arg, const struct err *e)
{
	struct http_exchange *x = arg;

	exchange_lost(x, e ? err_wrap(err_recode(err_copy(e), ERR_UNAVAILABLE), "exchange with %s",
				      x->addr)
			   : err_new(ERR_UNAVAILABLE, "the connection to %s was closed", x->addr));
}

static const struct conn_events conn_events = {
	.data = on_data,
	.eof = on_eof,
	.drained = on_drained,
	.closed = on_closed,
};

static void on_timer(void *arg)
{
	struct http_exchange *x = arg;

	exchange_fail(x, x->conn ? err_new(ERR_TIMEOUT, "%s did not answer in time", x->addr)
				 : err_sys(ETIMEDOUT, "connect to %s", x->addr));
}

/* The peer must begin its answer within head_ms after the end of the request. */
static void arm_head_timer(struct http_exchange *x)
{
	if (x->head_ms && x->body_ended && x->conn && !x->head_told)
		timer_set(x->timer, x->head_ms);
}

static void exchange_use(struct http_exchange *x, struct conn *c)
{
	x->conn = c;
	x->state = EXCHANGE_WAITING;
	llhttp_init(&x->parser, HTTP_RESPONSE, &settings);
	x->parser.data = x;
	timer_clear(x->timer);
	conn_set_events(c, &conn_events, x);
	conn_pause(c, x->paused);
	conn_write(c, buf_head(&x->head), x->head.len);
	if (x->early.len) {
		x->body_sent = true;
		conn_write(c, buf_head(&x->early), x->early.len);
		buf_done(&x->early);
	}
	arm_head_timer(x);
}

static void on_connected(void *arg, unused unsigned ready)
{
	struct http_exchange *x = arg;
	int errnum = 0, fd;
	socklen_t len = sizeof(errnum);

	if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	if (errnum) {
		exchange_fail(
			x, err_recode(err_sys(errnum, "connect to %s", x->addr), ERR_UNAVAILABLE));
		return;
	}
	watch_free(take(x->watch));
	fd = take_fd(x->fd);
	exchange_use(x, conn_new(x->loop, x->wrap ? x->wrap(x->wrap_arg, fd) : stream_plain(fd),
				 &conn_events, x));
	if (x->early_full)
		on_drained(x);
}

static void exchange_fail_later(struct http_exchange *x, struct err *e)
{
	x->err = e;
	deferred_call(&x->later);
}

static void on_later(void *arg)
{
	struct http_exchange *x = arg;

	if (x->err)
		exchange_fail(x, take(x->err));
	else if (x->state == EXCHANGE_ANSWER && !x->paused)
		on_data(x, conn_in(x->conn));
}

static void exchange_connect(struct http_exchange *x)
{
	struct err *e;

	x->state = EXCHANGE_CONNECTING;
	x->reused = false;
	e = net_connect_marked(x->addr, x->mark, &x->fd);
	if (e) {
		exchange_fail_later(x, e);
		return;
	}
	x->watch = watch_new(x->loop, x->fd, on_connected, x);
	watch_want(x->watch, WATCH_WRITE);
	if (x->connect_ms)
		timer_set(x->timer, x->connect_ms);
	else
		timer_clear(x->timer);
}

/* A method or a target must not contain a space or line break, which would end it early. */
static bool word_valid(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == 0x7f)
			return false;
	return true;
}

static void put_headers(struct buf *b, const struct http_headers *h)
{
	for (size_t i = 0; h && i < h->n; i++) {
		const struct http_header *one = &h->list[i];

		if (str_eq_nocase(one->name, "Content-Length") ||
		    str_eq_nocase(one->name, "Transfer-Encoding"))
			continue;
		if (http_header_valid(one))
			buf_printf(b, "%s: %s\r\n", one->name, one->value);
	}
}

static void put_request(struct buf *b, const struct http_exchange_spec *spec)
{
	bool may_have_body = str_eq(spec->method, "POST") || str_eq(spec->method, "PUT") ||
			     str_eq(spec->method, "PATCH");

	buf_printf(b, "%s %s HTTP/1.1\r\n", spec->method, spec->target);
	put_headers(b, spec->headers);
	if (spec->body_len < 0)
		buf_add_str(b, "Transfer-Encoding: chunked\r\n");
	else if (spec->body_len > 0 || may_have_body)
		buf_printf(b, "Content-Length: %lld\r\n", (long long)spec->body_len);
	buf_add_str(b, "\r\n");
}

struct http_exchange *http_exchange_start(struct http_pool *p,
					  const struct http_exchange_spec *spec,
					  const struct http_exchange_events *ev, void *arg)
{
	struct http_exchange *x = xnew(struct http_exchange);
	struct conn *c;

	x->pool = p;
	x->mark = p->mark;
	x->wrap = p->wrap;
	x->wrap_arg = p->wrap_arg;
	x->loop = p->loop;
	x->limits = p->limits;
	x->ev = *ev;
	x->arg = arg;
	x->refs = 1;
	x->fd = -1;
	x->addr = xstrdup(spec->addr);
	x->is_head = str_eq(spec->method, "HEAD");
	x->body_left = spec->body_len;
	x->body_ended = spec->body_len == 0;
	x->connect_ms = spec->connect_ms;
	x->head_ms = spec->head_ms;
	x->timer = timer_new(p->loop, on_timer, x);
	deferred_init(&x->later, p->loop, on_later, x);
	list_add_tail(&p->exchanges, &x->link);
	put_request(&x->head, spec);
	if (!word_valid(spec->method) || !word_valid(spec->target)) {
		exchange_fail_later(
			x, err_new(ERR_INVALID, "the method or target is not a single word"));
		return x;
	}
	c = http_pool_take(p, spec->addr);
	if (c) {
		exchange_use(x, c);
		x->reused = true;
	} else {
		exchange_connect(x);
	}
	return x;
}

static void body_put(struct http_exchange *x, const void *p, size_t len)
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

void http_exchange_write(struct http_exchange *x, const void *p, size_t len)
{
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

bool http_exchange_full(const struct http_exchange *x)
{
	return x->conn ? conn_full(x->conn) : x->early.len >= EARLY_MAX;
}

void http_exchange_end_body(struct http_exchange *x)
{
	if (x->body_ended || x->state == EXCHANGE_OVER)
		return;
	if (x->body_left < 0) {
		body_put(x, "0\r\n\r\n", 5);
		x->body_left = 0;
	}
	x->body_ended = true;
	arm_head_timer(x);
}

void http_exchange_pause(struct http_exchange *x, bool paused)
{
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

struct conn *http_exchange_take_conn(struct http_exchange *x)
{
	static const struct conn_events nothing = { .data = nothing_data,
						    .closed = nothing_closed };
	struct conn *c = take(x->conn);

	conn_set_events(c, &nothing, NULL);
	exchange_free(x);
	return c;
}

void http_exchange_cancel(struct http_exchange *x)
{
	exchange_free(x);
}

void http_exchange_forget_pool(struct list *exchanges)
{
	struct http_exchange *x, *tmp;

	list_each_safe(x, tmp, exchanges, link) {
		list_del(&x->link);
		x->pool = NULL;
	}
}
