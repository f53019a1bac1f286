/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "net/http_server_priv.h"

/*
 * What handlers ask of a request, and how they answer it, in either version of HTTP. What is common
 * is done here: the life of a request, which calls are in order, and how long a body may be. The
 * rest is up to r->ops.
 */
static void request_drop(void *arg)
{
	http_request_unref(arg);
}

void http_request_init(struct http_request *r, const struct http_request_ops *ops,
		       struct http_link *k)
{
	r->ops = ops;
	r->version = ops->version;
	r->refs = 1;
	r->loop = k->server->loop;
	r->max_body = k->server->spec.limits.max_body;
	deferred_init(&r->drop, r->loop, request_drop, r);
	memcpy(r->peer, k->peer, sizeof(r->peer));
}

static void split_target(struct http_request *r)
{
	size_t len = strcspn(r->head.target, "?");

	r->path = xstrdup(r->head.target);
	r->query = r->path + len;
	if (*r->query)
		*r->query++ = '\0';
}

void http_request_set_target(struct http_request *r, const char *target)
{
	char *old_target = r->head.target, *old_path = r->path; /* target may be part of them */

	r->head.target = xstrdup(target);
	split_target(r);
	free(old_target);
	free(old_path);
}

void http_request_from_head(struct http_request *r)
{
	split_target(r);
	r->body_done = !r->head.chunked && !r->head.length;
	r->no_body = str_eq(r->head.method, "HEAD");
}

void http_request_tell_end(struct http_request *r)
{
	r->body_told = true;
	if (r->mode == HTTP_BODY_STREAM)
		r->body_ev.end(r->owner, r);
	else
		r->body(r->owner, r, buf_str(&r->buffered), r->buffered.len);
}

void http_request_end(struct http_request *r, bool tell)
{
	void (*ended)(void *owner) = take(r->ended);

	r->ops = NULL;
	if (tell && ended)
		ended(r->owner);
	deferred_call(&r->drop);
}

void http_request_unref(struct http_request *r)
{
	if (!r || --r->refs)
		return;
	http_head_done(&r->head);
	http_headers_done(&r->trailers);
	buf_done(&r->buffered);
	free(r->path);
	free(r);
}

struct http_request *http_request_ref(struct http_request *r)
{
	r->refs++;
	return r;
}

const char *http_request_method(const struct http_request *r)
{
	return r->head.method;
}

const char *http_request_target(const struct http_request *r)
{
	return r->head.target;
}

const char *http_request_path(const struct http_request *r)
{
	return r->path;
}

const char *http_request_query(const struct http_request *r)
{
	return r->query;
}

struct http_headers *http_request_headers(struct http_request *r)
{
	return &r->head.headers;
}

const char *http_request_header(struct http_request *r, const char *name)
{
	return http_headers_get(&r->head.headers, name);
}

const struct http_headers *http_request_trailers(const struct http_request *r)
{
	return &r->head.trailers;
}

const char *http_request_peer(const struct http_request *r)
{
	return r->peer;
}

int http_request_version(const struct http_request *r)
{
	return r->version;
}

int64_t http_request_body_len(const struct http_request *r)
{
	return r->head.chunked ? -1 : (int64_t)r->head.length;
}

int http_request_status(const struct http_request *r)
{
	return r->status;
}

struct stream *http_request_conn_stream(struct http_request *r)
{
	return r->ops ? r->ops->stream(r) : NULL;
}

bool http_request_is_own(struct http_request *r, const char *scheme)
{
	const char *origin = http_request_header(r, "Origin");
	const char *site = http_request_header(r, "Sec-Fetch-Site");
	autofree char *own =
		xasprintf("%s://%s", scheme, str_or(http_request_header(r, "Host"), ""));

	if (origin && !str_eq_nocase(origin, own))
		return false;
	return !site || str_eq(site, "same-origin") || str_eq(site, "none");
}

struct loop *http_request_loop(struct http_request *r)
{
	return r->loop;
}

void http_request_set_owner(struct http_request *r, void *owner, void (*ended)(void *owner))
{
	r->owner = owner;
	r->ended = ended;
}

static void body_choose(struct http_request *r, enum http_body_mode mode)
{
	r->mode = mode;
	if (r->head.expects_continue && !r->body_done)
		r->ops->allow(r);
	r->head.expects_continue = false;
	r->ops->kick(r);
}

void http_request_buffer(struct http_request *r, size_t max_body,
			 void (*body)(void *owner, struct http_request *r, const char *data,
				      size_t len))
{
	if (!r->ops || r->answer != HTTP_ANSWER_NONE)
		return;
	if (max_body)
		r->max_body = max_body;
	r->body = body;
	if (r->head.length > r->max_body)
		http_respond_text(r, 413, http_reason(413));
	else
		body_choose(r, HTTP_BODY_BUFFER);
}

void http_request_stream(struct http_request *r, const struct http_body_events *ev)
{
	if (!r->ops || r->answer == HTTP_ANSWER_DONE)
		return;
	r->body_ev = *ev;
	body_choose(r, HTTP_BODY_STREAM);
}

void http_request_pause(struct http_request *r, bool paused)
{
	r->paused = paused;
	if (!paused && r->ops)
		r->ops->kick(r);
}

void http_request_be_patient(struct http_request *r)
{
	r->patient = true;
}

bool http_status_has_no_body(int status)
{
	return status < 200 || status == 204 || status == 304;
}

static void answer_start(struct http_request *r, const struct http_answer_head *a)
{
	if (http_status_has_no_body(a->status))
		r->no_body = true;
	r->answer_left = a->length;
	r->status = a->status;
	r->ops->start(r, a);
	r->answer = HTTP_ANSWER_STARTED;
}

void http_respond_start(struct http_request *r, int status, const struct http_headers *h,
			int64_t length)
{
	if (r->ops && r->answer == HTTP_ANSWER_NONE)
		answer_start(r, &(struct http_answer_head){
					.status = status, .headers = h, .length = length });
}

void http_respond_write(struct http_request *r, const void *p, size_t len)
{
	if (!r->ops || r->answer != HTTP_ANSWER_STARTED || r->no_body)
		return;
	if (r->answer_left >= 0) {
		len = (size_t)MIN((uint64_t)len, (uint64_t)r->answer_left);
		r->answer_left -= (int64_t)len;
	}
	if (len)
		r->ops->write(r, p, len);
}

bool http_respond_full(const struct http_request *r)
{
	return r->ops && r->ops->full(r);
}

void http_respond_on_drain(struct http_request *r, void (*drained)(void *owner))
{
	r->drained = drained;
}

void http_respond_trailers(struct http_request *r, const struct http_headers *h)
{
	http_headers_done(&r->trailers);
	for (size_t i = 0; i < h->n; i++)
		http_headers_add(&r->trailers, h->list[i].name, h->list[i].value);
}

void http_respond_end(struct http_request *r)
{
	if (!r->ops || r->answer != HTTP_ANSWER_STARTED)
		return;
	if (r->answer_left > 0 && !r->no_body) {
		http_respond_abort(r); /* shorter than announced */
		return;
	}
	r->answer = HTTP_ANSWER_DONE;
	r->ops->end(r);
}

void http_respond_abort(struct http_request *r)
{
	if (r->ops && r->answer != HTTP_ANSWER_DONE)
		r->ops->abort(r);
}

void http_respond(struct http_request *r, int status, const struct http_headers *h,
		  struct http_body body)
{
	if (!r->ops || r->answer != HTTP_ANSWER_NONE)
		return;
	answer_start(r, &(struct http_answer_head){ status, h, body.type, (int64_t)body.len });
	http_respond_write(r, body.data, body.len);
	http_respond_end(r);
}

void http_respond_text(struct http_request *r, int status, const char *text)
{
	autofree char *line = xasprintf("%s\n", text);

	http_respond(r, status, NULL,
		     (struct http_body){ "text/plain; charset=utf-8", line, strlen(line) });
}

void http_respond_upgrade(struct http_request *r, const struct http_headers *h, struct conn **ret)
{
	*ret = NULL;
	if (!r->ops || r->answer != HTTP_ANSWER_NONE)
		return;
	if (!r->ops->upgrade) {
		http_respond_text(r, 501, http_reason(501));
		return;
	}
	r->status = 101;
	*ret = r->ops->upgrade(r, h);
}
