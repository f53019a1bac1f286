/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/http_server.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/streams/streams_priv.h"

/*
 * The log of a container as plain text, in pieces as the node reads them. The head of the answer
 * waits for the first byte, because until then an error can be answered with a Status.
 */
struct log_reader {
	struct pod_stream stream;
	struct call *call; /* the request's reference */
	struct http_request *req;
	struct access_session *session; /* NULL: over */
	bool started;                   /* the head is sent */
};

/* The peer left or the answer is complete. */
static void on_ended(void *owner)
{
	struct log_reader *r = owner;

	r->call->req = NULL;
	pod_stream_del(&r->stream);
	if (r->session)
		access_cancel(r->session);
	call_unref(r->call);
	free(r);
}

static void log_cut(struct pod_stream *p)
{
	struct log_reader *r = container_of(p, struct log_reader, stream);

	pod_stream_del(p);
	if (r->session)
		access_cancel(take(r->session));
	http_respond_abort(r->req); /* on_ended() frees it, later in this turn */
}

static void start(struct log_reader *r)
{
	struct http_headers h = { 0 };

	if (r->started)
		return;
	r->started = true;
	r->call->status = STATUS_OK;
	http_headers_add(&h, "Content-Type", "text/plain");
	http_headers_add(&h, "Cache-Control", "no-cache, private");
	http_respond_start(r->req, STATUS_OK, &h, -1);
	http_headers_done(&h);
}

static void on_output(void *arg, unused int fd, const char *data, size_t len)
{
	struct log_reader *r = arg;

	start(r);
	http_respond_write(r->req, data, len);
	if (http_respond_full(r->req))
		access_pause(r->session, true);
}

static void on_drain(void *owner)
{
	struct log_reader *r = owner;

	if (r->session)
		access_pause(r->session, false);
}

static void on_session_ended(void *arg, const struct err *e, unused int code, unused int signal)
{
	struct log_reader *r = arg;

	r->session = NULL;
	if (e && !r->started) {
		call_fail(r->call, err_copy(e));
	} else if (e) {
		http_respond_abort(r->req);
	} else {
		start(r);
		http_respond_end(r->req);
	}
}

static const struct access_events session_events = {
	.output = on_output,
	.ended = on_session_ended,
};

static struct err *read_number(struct call *c, const char *name, int64_t min, int64_t *ret)
{
	return call_query_int(c, name, min, INT64_MAX / 1000000, ret);
}

static struct err *read_since(struct call *c, int64_t *ret_us)
{
	const char *time = call_query(c, "sinceTime");
	int64_t seconds = 0;
	struct err *e = read_number(c, "sinceSeconds", 1, &seconds);

	if (!e && time && seconds)
		e = err_new(ERR_MALFORMED,
			    "at most one of sinceTime or sinceSeconds may be specified");
	if (!e && time) {
		e = clock_parse(time, ret_us);
		return e ? err_recode(err_wrap(e, "read sinceTime"), ERR_MALFORMED) : NULL;
	}
	if (!e && seconds)
		*ret_us = MAX(clock_wall() - seconds * 1000000, (int64_t)1);
	return e;
}

static struct err *read_options(struct call *c, struct access_log_spec *s)
{
	const char *stream = call_query(c, "stream");
	struct err *e;

	s->follow = call_query_true(c, "follow");
	s->previous = call_query_true(c, "previous");
	s->timestamps = call_query_true(c, "timestamps");
	s->tail = -1;
	if (!str_empty(stream) && !str_eq(stream, "All"))
		return err_new(ERR_MALFORMED,
			       "stream: Unsupported value: \"%s\": supported values: \"All\"",
			       stream);
	e = read_number(c, "tailLines", 0, &s->tail);
	if (!e)
		e = read_number(c, "limitBytes", 1, &s->limit_bytes);
	if (!e)
		e = read_since(c, &s->since_us);
	return e;
}

static struct err *open_log(struct streams *ps, struct log_reader *r,
			    const struct access_log_spec *s)
{
	struct err *e = pod_stream_add(&r->stream, ps, r->call);

	if (e)
		return e;
	e = access_logs(ps->access, s, &session_events, r, &r->session);
	if (err_is(e, ERR_UNAVAILABLE))
		e = err_wrap(err_recode(e, ERR_MALFORMED),
			     "container \"%s\" in pod \"%s\" is waiting to start", s->to.container,
			     s->to.pod);
	return e;
}

void streams_log(struct streams *ps, struct call *c)
{
	struct log_reader *r;
	struct access_log_spec s = { 0 };
	struct err *e;

	e = read_options(c, &s);
	if (!e)
		e = pod_target(ps, c, POD_USE_LOG, &s.to);
	if (e) {
		call_fail(c, e);
		return;
	}
	r = xnew(struct log_reader);
	r->stream.cut = log_cut;
	r->call = c;
	r->req = c->req;
	http_request_set_owner(c->req, r, on_ended);
	http_respond_on_drain(c->req, on_drain);
	e = open_log(ps, r, &s);
	if (e)
		call_fail(c, e);
}
