/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/str.h"
#include "net/conn.h"
#include "net/http2_peer_priv.h"

/*
 * One exchange of HTTP/2. It waits for a connection that has room for it, and is a stream there.
 * nghttp2's callbacks only fill in fields and buffers; http2_exchange_step() tells the owner
 * afterwards. The window of the stream opens by what the owner has taken.
 */
enum {
	OUT_HIGH = 256 * 1024,
	BOMB = 4, /* times the limit of a head: whoever sends that much does so on purpose */
};

static void seek(struct http2_exchange *x);

static struct http2_exchange *http2_of(const struct http_exchange *x)
{
	return container_of(x, struct http2_exchange, base);
}

static void exchange_unref(struct http2_exchange *x)
{
	if (--x->refs)
		return;
	http_headers_done(&x->request);
	http_headers_done(&x->request_trailers);
	http_headers_done(&x->headers);
	http_headers_done(&x->trailers);
	buf_done(&x->in);
	buf_done(&x->out);
	err_free(x->err);
	free(x->addr);
	free(x->method);
	free(x->target);
	free(x);
}

static void exchange_free(struct http2_exchange *x)
{
	if (x->over)
		return;
	x->over = true;
	list_del(&x->base.link);
	http2_peer_del(x);
	deferred_cancel(&x->later);
	timer_free(take(x->timer));
	exchange_unref(x);
}

/* Takes ownership of e. */
static void exchange_fail(struct http2_exchange *x, struct err *e)
{
	x->refs++;
	http2_peer_del(x);
	if (!x->over)
		x->base.ev.failed(x->base.arg, e);
	err_free(e);
	exchange_free(x);
	exchange_unref(x);
}

static void exchange_finish(struct http2_exchange *x)
{
	x->refs++;
	http2_peer_del(x);
	x->base.ev.end(x->base.arg, &x->trailers);
	exchange_free(x);
	exchange_unref(x);
}

/* Takes ownership of e. */
static void fail_later(struct http2_exchange *x, struct err *e)
{
	if (x->err)
		err_free(e);
	else
		x->err = e;
	deferred_call(&x->later);
}

static void on_later(void *arg)
{
	struct http2_exchange *x = arg;

	http2_exchange_step(x);
}

static void on_timer(void *arg)
{
	struct http2_exchange *x = arg;

	exchange_fail(x, x->id ? err_new(ERR_TIMEOUT, "%s did not answer in time", x->addr)
			       : err_sys(ETIMEDOUT, "connect to %s", x->addr));
}

/* The peer must begin its answer within head_ms after the end of the request. */
static void arm_head_timer(struct http2_exchange *x)
{
	if (x->head_ms && x->body_ended && x->id && !x->head_told)
		timer_set(x->timer, x->head_ms);
}

static void look_again(struct http2_exchange *x)
{
	if (x->peer)
		http2_peer_ready(x);
	else
		deferred_call(&x->later);
}

void http2_exchange_move(struct http2_exchange *x)
{
	http2_peer_del(x);
	x->id = 0;
	x->closed = false;
	x->waits = false;
	seek(x);
}

/* Only what nobody can have acted on is sent again, or what may be done twice. */
void http2_exchange_lost(struct http2_exchange *x, const struct err *e)
{
	bool harmless = x->id && ((x->reused && http_repeatable(x->method)) ||
				  (x->closed && x->code == NGHTTP2_REFUSED_STREAM));

	if (x->fin) { /* all of it is here, and told when its owner wants it */
		http2_peer_del(x);
		look_again(x);
		return;
	}
	if (!harmless || x->repeated || x->body_sent || x->head_len || !x->base.pool) {
		exchange_fail(x, err_copy(e));
		return;
	}
	x->repeated = true;
	http2_exchange_move(x);
}

static void seek(struct http2_exchange *x)
{
	struct http2_peer *p = NULL;
	struct err *e = x->base.pool ? http2_peer_get(x->base.pool, x->addr, &p)
				     : err_new(ERR_UNAVAILABLE, "the pool of connections is gone");

	if (e) {
		fail_later(x, e);
		return;
	}
	x->reused = p->greeted;
	if (x->connect_ms)
		timer_set(x->timer, x->connect_ms);
	http2_peer_add(p, x);
}

/* Called by nghttp2 when it can send something of the body. */
/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static ssize_t read_body(nghttp2_session *session, int32_t id, unused uint8_t *p, size_t len,
			 uint32_t *flags, unused nghttp2_data_source *source, unused void *arg)
{
	struct http2_exchange *x = nghttp2_session_get_stream_user_data(session, id);
	struct http2_fields f;

	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* cancelled */
	if (!x->out.len && !x->body_ended) {
		x->waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	len = MIN(len, x->out.len);
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (!x->body_ended || len < x->out.len)
		return (ssize_t)len;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!x->request_trailers.n)
		return (ssize_t)len;
	http2_fields_init(&f, &x->request_trailers);
	http2_fields_add_all(&f, &x->request_trailers);
	if (f.n && nghttp2_submit_trailer(session, id, f.list, f.n) == 0)
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	http2_fields_done(&f);
	return (ssize_t)len;
}

void http2_exchange_sent(struct http2_exchange *x, size_t len)
{
	x->body_sent = x->body_sent || len;
	buf_eat(&x->out, len);
	if (!x->out.len)
		buf_done(&x->out);
	if (!x->was_full || x->out.len > OUT_HIGH / 4)
		return;
	x->was_full = false;
	x->drained = true;
	http2_peer_ready(x);
}

void http2_exchange_submit(struct http2_exchange *x)
{
	const nghttp2_data_provider body = { .read_callback = read_body };
	const char *host = http_headers_get(&x->request, "Host");
	struct http2_fields f;
	char length[24];

	http2_fields_init(&f, &x->request);
	http2_fields_add(&f, ":method", x->method);
	http2_fields_add(&f, ":scheme", "http");
	http2_fields_add(&f, ":path", x->target);
	http2_fields_add(&f, ":authority", host ? host : x->addr);
	for (size_t i = 0; i < x->request.n; i++)
		if (!str_eq_nocase(x->request.list[i].name, "Host"))
			http2_fields_add_all(&f, &(struct http_headers){ &x->request.list[i], 1 });
	http2_fields_add(&f, "te", "trailers");
	(void)snprintf(length, sizeof(length), "%lld", (long long)x->body_len);
	if (x->body_len > 0)
		http2_fields_add(&f, "content-length", length);
	x->id = nghttp2_submit_request(x->peer->session, NULL, f.list, f.n,
				       x->body_len ? &body : NULL, x);
	http2_fields_done(&f);
	timer_clear(x->timer);
	if (x->id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) {
		/* They are used up; a new connection has all of them, so this ends there. */
		x->id = 0;
		http2_peer_leave(x->peer);
		http2_exchange_move(x);
		return;
	}
	if (x->id < 0) {
		fail_later(x, err_new(ERR_UNAVAILABLE, "send to %s: %s", x->addr,
				      nghttp2_strerror(x->id)));
		x->id = 0;
		return;
	}
	arm_head_timer(x);
	http2_peer_ready(x); /* has it sent */
}

static void read_status(struct http2_exchange *x, const char *value)
{
	x->status = 0; /* three digits, by nghttp2's promise */
	for (; *value; value++)
		x->status = x->status * 10 + (*value - '0');
}

bool http2_exchange_header(struct http2_exchange *x, const char *name, const char *value)
{
	size_t max = x->base.limits.max_head;

	x->head_len += strlen(name) + strlen(value) + HTTP2_FIELD_COST;
	x->n_fields++;
	if (x->head_len > max || x->n_fields > x->base.limits.max_headers) {
		if (!x->err)
			x->err = err_new(ERR_TOO_LARGE,
					 "the head of the answer from %s is too large", x->addr);
		http2_peer_ready(x);
		return x->head_len <= BOMB * max;
	}
	if (name[0] == ':')
		read_status(x, value);
	else
		http_headers_add(x->head_done ? &x->trailers : &x->headers, name, value);
	return true;
}

static void pass_data(struct http2_exchange *x)
{
	struct buf in = x->in;

	/* It is the owner's now; the rest comes in the next step. */
	x->in = (struct buf){ 0 };
	if (x->peer)
		(void)nghttp2_session_consume(x->peer->session, x->id, in.len);
	x->base.ev.data(x->base.arg, buf_head(&in), in.len);
	buf_done(&in);
}

static struct err *closed_err(const struct http2_exchange *x)
{
	return err_new(ERR_UNAVAILABLE, "%s ended the stream: %s", x->addr,
		       nghttp2_http2_strerror(x->code));
}

/* True if something was told and x should be looked at again. */
static bool step_once(struct http2_exchange *x)
{
	if (x->err) {
		exchange_fail(x, take(x->err));
	} else if (x->head_done && !x->head_told) {
		x->head_told = true;
		timer_clear(x->timer);
		x->base.ev.head(x->base.arg, x->status, &x->headers);
		return true;
	} else if (x->drained) {
		x->drained = false;
		if (x->base.ev.drained && !x->body_ended)
			x->base.ev.drained(x->base.arg);
		return true;
	} else if (x->paused) {
		return false;
	} else if (x->in.len) {
		pass_data(x);
		return true;
	} else if (x->fin) {
		exchange_finish(x);
	} else if (x->closed) {
		autoptr(err) e = closed_err(x);

		http2_exchange_lost(x, e);
	}
	return false;
}

void http2_exchange_step(struct http2_exchange *x)
{
	x->refs++;
	while (!x->over && step_once(x))
		;
	exchange_unref(x);
}

static void resume(struct http2_exchange *x)
{
	if (x->waits && x->peer)
		(void)nghttp2_session_resume_data(x->peer->session, x->id);
	x->waits = false;
	look_again(x);
}

static bool exchange_full(const struct http_exchange *base)
{
	return http2_of(base)->out.len >= OUT_HIGH;
}

static void exchange_write(struct http_exchange *base, const void *p, size_t len)
{
	struct http2_exchange *x = http2_of(base);

	if (x->body_ended || x->over)
		return;
	if (x->body_left >= 0) {
		len = (size_t)MIN((uint64_t)len, (uint64_t)x->body_left);
		x->body_left -= (int64_t)len;
	}
	if (!len)
		return;
	buf_add(&x->out, p, len);
	x->was_full = x->was_full || exchange_full(base);
	resume(x);
}

static void exchange_end_body(struct http_exchange *base, const struct http_headers *trailers)
{
	struct http2_exchange *x = http2_of(base);

	if (x->body_ended || x->over)
		return;
	for (size_t i = 0; trailers && i < trailers->n; i++)
		http_headers_add(&x->request_trailers, trailers->list[i].name,
				 trailers->list[i].value);
	x->body_ended = true;
	arm_head_timer(x);
	resume(x);
}

static void exchange_pause(struct http_exchange *base, bool paused)
{
	struct http2_exchange *x = http2_of(base);

	x->paused = paused;
	if (!paused)
		look_again(x);
}

static void exchange_cancel(struct http_exchange *base)
{
	exchange_free(http2_of(base));
}

static const struct http_exchange_ops http2_ops = {
	.write = exchange_write,
	.full = exchange_full,
	.end_body = exchange_end_body,
	.pause = exchange_pause,
	.cancel = exchange_cancel,
};

struct http_exchange *http2_exchange_start(struct http_pool *p,
					   const struct http_exchange_spec *spec,
					   const struct http_exchange_events *ev, void *arg,
					   struct err *bad)
{
	struct http2_exchange *x = xnew(struct http2_exchange);
	const struct http_headers *h = spec->headers;

	http_exchange_init(&x->base, p, &http2_ops, ev, arg);
	x->refs = 1;
	list_init(&x->on);
	list_init(&x->ready);
	deferred_init(&x->later, p->loop, on_later, x);
	x->timer = timer_new(p->loop, on_timer, x);
	x->connect_ms = spec->connect_ms;
	x->head_ms = spec->head_ms;
	x->addr = xstrdup(spec->addr);
	x->method = xstrdup(spec->method);
	x->target = xstrdup(spec->target);
	for (size_t i = 0; h && i < h->n; i++)
		http_headers_add(&x->request, h->list[i].name, h->list[i].value);
	x->body_len = x->body_left = spec->body_len;
	x->body_ended = !x->body_len;
	if (bad)
		fail_later(x, bad);
	else
		seek(x);
	return &x->base;
}
