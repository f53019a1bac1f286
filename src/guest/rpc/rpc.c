/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/rpc/rpc.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "guest/rpc/pb_priv.h"
#include "guest/rpc/rpc_frame_priv.h"
#include "guest/rpc/rpc_priv.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "loop/loop.h"
#include "net/grpc.h"
#include "net/http_server.h"

/*
 * gRPC over the server's HTTP/2. A call is a POST; its body has the messages of the client, the
 * answer those of the server, and the trailers of the answer how it ended. A call that ends without
 * a message has no trailers: its headers say it all.
 */
#define HELD_MAX ((size_t)64 * 1024 * 1024) /* of requests, over all calls */

struct rpc {
	struct face *face;
	struct http_request *r;
	const struct rpc_method *method;
	const struct rpc_events *ev; /* NULL: nobody is to be told */
	void *arg;
	struct timer *deadline; /* NULL: it may take as long as it likes */
	struct buf in;
	struct arena *arena;
	bool begun;    /* the headers of the answer are sent */
	bool finished; /* the end of the answer too */
};

static size_t held;

const struct rpc_service *const rpc_services[] = {
	&process_service, &watcher_service, &reflection_service, &reflection_alpha_service, NULL,
};

struct rt *rpc_rt(const struct rpc *c)
{
	return c->face->rt;
}

const char *rpc_base(const struct rpc *c)
{
	return c->face->base;
}

void rpc_own(struct rpc *c, const struct rpc_events *ev, void *arg)
{
	c->ev = ev;
	c->arg = arg;
}

static void release(struct rpc *c)
{
	held -= c->in.len;
	buf_done(&c->in);
	arena_free(take(c->arena));
}

/* Nothing more will come of it; its owner is told once. */
static void let_go(struct rpc *c)
{
	const struct rpc_events *ev = take(c->ev);

	if (ev)
		ev->gone(c->arg);
}

static void on_ended(void *owner)
{
	struct rpc *c = owner;

	let_go(c);
	release(c);
	timer_free(c->deadline);
	free(c);
}

void rpc_begin(struct rpc *c)
{
	struct http_headers h = { 0 };

	if (c->begun)
		return;
	c->begun = true;
	http_headers_add(&h, "content-type", "application/grpc");
	http_respond_start(c->r, 200, &h, -1);
	http_headers_done(&h);
}

bool rpc_full(const struct rpc *c)
{
	return c->begun && http_respond_full(c->r);
}

void rpc_send_head(struct rpc *c, uint32_t len)
{
	char head[RPC_HEAD_LEN];

	rpc_begin(c);
	rpc_frame_head(head, len);
	http_respond_write(c->r, head, sizeof(head));
}

void rpc_send_piece(struct rpc *c, const void *p, size_t len)
{
	http_respond_write(c->r, p, len);
}

void rpc_send(struct rpc *c, const struct buf *message)
{
	rpc_send_head(c, (uint32_t)message->len);
	rpc_send_piece(c, buf_head(message), message->len);
}

void rpc_cut(struct rpc *c)
{
	c->finished = true;
	c->ev = NULL;
	if (c->deadline)
		timer_clear(c->deadline);
	http_respond_abort(c->r);
}

static void put_status(struct http_headers *h, enum rpc_code code, const char *text)
{
	autobuf message = { 0 };
	char number[12];

	(void)snprintf(number, sizeof(number), "%d", (int)code);
	http_headers_add(h, "grpc-status", number);
	if (!*text)
		return;
	grpc_message_put(&message, text);
	http_headers_add(h, "grpc-message", buf_str(&message));
}

static void end(struct rpc *c, enum rpc_code code, const char *text)
{
	struct http_headers h = { 0 };

	c->finished = true;
	c->ev = NULL;
	if (c->deadline)
		timer_clear(c->deadline);
	if (!c->begun) {
		http_headers_add(&h, "content-type", "application/grpc");
		http_headers_add(&h, "grpc-accept-encoding", "identity");
	}
	put_status(&h, code, text);
	if (c->begun)
		http_respond_trailers(c->r, &h);
	else
		http_respond_start(c->r, 200, &h, 0);
	http_respond_end(c->r);
	http_headers_done(&h);
}

void rpc_finish(struct rpc *c, enum rpc_code code, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	end(c, code, buf_str(&text));
}

static enum rpc_code code_of(const struct err *e)
{
	int errnum = err_errno(e);

	if (err_is(e, ERR_FORBIDDEN) || errnum == EACCES || errnum == EPERM)
		return RPC_PERMISSION_DENIED;
	if (err_is(e, ERR_NOT_FOUND) || errnum == ENOTDIR || errnum == ENAMETOOLONG ||
	    errnum == ELOOP)
		return RPC_NOT_FOUND;
	if (err_is(e, ERR_EXHAUSTED) || err_is(e, ERR_TOO_LARGE))
		return RPC_RESOURCE_EXHAUSTED;
	return err_is(e, ERR_INVALID) ? RPC_INVALID_ARGUMENT : RPC_INTERNAL;
}

void rpc_fail(struct rpc *c, struct err *e)
{
	end(c, code_of(e), err_text(e));
	err_free(e);
}

static void on_deadline(void *arg)
{
	struct rpc *c = arg;

	let_go(c);
	rpc_finish(c, RPC_DEADLINE_EXCEEDED, "the deadline of the call has passed");
}

/* True if the method has been called. */
static bool call(struct rpc *c, struct span message)
{
	const struct pb_message *m = c->method->request;
	void *request;
	struct err *e;

	c->arena = c->arena ? c->arena : arena_new();
	request = arena_alloc(c->arena, MAX(m->size, (size_t)1));
	e = pb_decode(m, message, c->arena, request);
	if (e) {
		rpc_fail(c, err_wrap(e, "read %s", m->name));
		return false;
	}
	c->method->call(c, request);
	return true;
}

static void complain(struct rpc *c, enum rpc_frame what)
{
	if (what == RPC_FRAME_COMPRESSED)
		rpc_finish(c, RPC_UNIMPLEMENTED,
			   "the message is compressed, and only identity is supported");
	else if (what == RPC_FRAME_LARGE)
		rpc_finish(c, RPC_RESOURCE_EXHAUSTED, "the message has more than %d bytes",
			   RPC_MESSAGE_MAX);
	else
		rpc_finish(c, RPC_INTERNAL, "the first byte of a message must be 0 or 1");
}

/* A method that gets several requests gets each when there is room for its answer. */
static void serve_many(struct rpc *c)
{
	enum rpc_frame what;
	struct span message;

	while (!c->finished && !rpc_full(c) &&
	       (what = rpc_frame_next(&c->in, &message)) != RPC_FRAME_MORE) {
		if (what != RPC_FRAME_MESSAGE) {
			complain(c, what);
			return;
		}
		(void)call(c, message);
		arena_free(take(c->arena));
		buf_eat(&c->in, RPC_HEAD_LEN + message.len);
		held -= RPC_HEAD_LEN + message.len;
	}
	if (!c->finished)
		http_request_pause(c->r, rpc_full(c));
}

static void on_drained(void *owner)
{
	struct rpc *c = owner;

	if (c->ev && c->ev->drained)
		c->ev->drained(c->arg);
	else if (c->method && c->method->many_requests && !c->finished)
		serve_many(c);
}

static void on_data(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct rpc *c = owner;
	enum rpc_frame what;
	struct span message;

	if (c->finished)
		return;
	if (len > HELD_MAX - held) {
		rpc_finish(c, RPC_RESOURCE_EXHAUSTED, "too many large requests at a time");
		return;
	}
	buf_add(&c->in, data, len);
	held += len;
	if (c->method->many_requests) {
		serve_many(c);
		return;
	}
	what = rpc_frame_next(&c->in, &message);
	if (what == RPC_FRAME_MESSAGE && c->in.len > RPC_HEAD_LEN + message.len)
		rpc_finish(c, RPC_UNIMPLEMENTED, "the method takes one message, and more came");
	else if (what != RPC_FRAME_MESSAGE && what != RPC_FRAME_MORE)
		complain(c, what);
}

static void on_end(void *owner, unused struct http_request *r)
{
	struct rpc *c = owner;
	struct span message;
	bool whole;

	if (c->finished)
		return;
	whole = rpc_frame_next(&c->in, &message) == RPC_FRAME_MESSAGE;
	if (c->in.len && !whole)
		rpc_finish(c, RPC_INTERNAL, "the request ends in the middle of a message");
	else if (c->method->many_requests)
		rpc_finish(c, RPC_OK, "%s", "");
	else if (!whole)
		rpc_finish(c, RPC_UNIMPLEMENTED, "the method takes one message, and none came");
	else if (call(c, message) && !c->method->keeps)
		release(c);
}

static const struct rpc_method *method_of(const char *path)
{
	for (size_t i = 0; rpc_services[i]; i++) {
		const struct rpc_service *s = rpc_services[i];
		autofree char *prefix = xasprintf("/%s.%s/", s->package, s->name);

		if (!str_starts(path, prefix))
			continue;
		for (const struct rpc_method *m = s->methods; m->name; m++)
			if (str_eq(path + strlen(prefix), m->name))
				return m;
	}
	return NULL;
}

static bool is_grpc(const char *type)
{
	static const char name[] = "application/grpc";
	size_t len = sizeof(name) - 1;

	return type && str_starts(type, name) &&
	       (!type[len] || type[len] == ';' || str_eq(type + len, "+proto") ||
		str_starts(type + len, "+proto;"));
}

static void deadline_set(struct rpc *c, const char *text)
{
	usec time;

	if (!text)
		return;
	if (!grpc_timeout_read(text, &time)) {
		rpc_finish(c, RPC_INTERNAL, "grpc-timeout: at most eight digits and one of HMSmun");
		return;
	}
	c->deadline = timer_new(c->face->rt->loop, on_deadline, c);
	timer_set(c->deadline, (uint64_t)(time + 999) / 1000);
}

void rpc_serve(struct face *f, struct http_request *r)
{
	static const struct http_body_events body = { on_data, on_end };
	struct rpc *c;

	if (http_request_version(r) < 2) {
		http_respond_text(r, 415, "this port serves gRPC, over HTTP/2 only");
		return;
	}
	if (!str_eq(http_request_method(r), "POST")) {
		rest_no_route(r, "POST");
		return;
	}
	if (!is_grpc(http_request_header(r, "content-type"))) {
		http_respond_text(r, 415, "content-type must be application/grpc");
		return;
	}
	c = xnew(struct rpc);
	c->face = f;
	c->r = r;
	c->method = method_of(http_request_path(r));
	http_request_set_owner(r, c, on_ended);
	http_respond_on_drain(r, on_drained);
	http_request_stream(r, &body);
	if (c->method)
		deadline_set(c, http_request_header(r, "grpc-timeout"));
	else
		rpc_finish(c, RPC_UNIMPLEMENTED, "no method %s", http_request_path(r));
}
