/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/call.h"

#include <stdio.h>
#include <string.h>

#include "api/encode.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/registry.h"
#include "audit/audit.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/accept.h"
#include "server/call/count.h"
#include "server/call/status.h"
#include "server/call/trace.h"
#include "store/store.h"

enum {
	WARNINGS_MAX = 16,
	WARNING_LEN_MAX = 1024,
};

struct err *call_enter(struct call *c)
{
	struct err *e = budget_check(&c->calls->budget, &c->user);

	c->known = true;
	if (!e)
		e = effort_check(&c->calls->effort, &c->user, c->began);
	if (!e)
		e = budget_enter(&c->calls->budget, &c->user);
	c->entered = !e;
	return e;
}

void call_spent(struct call *c, usec since)
{
	usec now = clock_mono();

	if (c->known) /* who is nobody has no share, and makes nobody else's smaller */
		effort_add(&c->calls->effort, &c->user, now, now - since);
}

static void leave(struct call *c)
{
	if (c->entered)
		budget_leave(&c->calls->budget, &c->user);
	c->entered = false;
}

static void on_ended(void *owner)
{
	struct call *c = owner;

	c->req = NULL;
	c->body = NULL;
	call_charge(c, 0);
	leave(c);
	if (c->left)
		c->left(c->left_arg);
	call_unref(c);
}

void call_charge(struct call *c, size_t bytes)
{
	if (bytes != c->charged)
		budget_change(&c->calls->budget, &c->user, c->charged, bytes);
	c->charged = bytes;
}

struct call *call_new(struct calls *calls, struct http_request *req)
{
	struct call *c = xnew(struct call);

	c->refs = 1; /* the request's */
	c->calls = calls;
	c->req = req;
	c->began = clock_mono();
	c->arena = arena_new();
	c->type = media_type(MEDIA_JSON);
	c->method = arena_strdup(c->arena, http_request_method(req));
	c->query = arena_strdup(c->arena, http_request_query(req));
	c->from = arena_strdup(c->arena, http_request_peer(req));
	http_request_set_owner(req, c, on_ended);
	return c;
}

int64_t call_end(const struct call *c)
{
	return c->renewed ? 0 : c->ends;
}

struct call *call_ref(struct call *c)
{
	c->refs++;
	return c;
}

void call_unref(struct call *c)
{
	if (!c || --c->refs)
		return;
	if (c->status && c->calls->counts)
		call_counts_add(c->calls->counts, c);
	if (c->span)
		call_trace_end(c);
	call_charge(c, 0);
	leave(c);
	causes_done(&c->causes);
	http_headers_done(&c->headers);
	arena_free(c->arena);
	kind_unref(c->kind);
	free(c);
}

/* 299 - "text": quotes and backslashes are escaped, other controls become spaces. */
void call_warn(void *arg, const char *text)
{
	struct call *c = arg;
	autobuf b = { 0 };

	if (c->headers.n >= WARNINGS_MAX)
		return;
	buf_add_str(&b, "299 - \"");
	for (size_t i = 0; text[i] && i < WARNING_LEN_MAX; i++) {
		if (text[i] == '"' || text[i] == '\\')
			buf_add_char(&b, '\\');
		buf_add_char(&b, (unsigned char)text[i] < ' ' ? ' ' : text[i]);
	}
	buf_add_char(&b, '"');
	http_headers_add(&c->headers, "Warning", buf_str(&b));
}

void call_note(void *arg, const char *key, const char *text)
{
	struct call *c = arg;

	for (size_t i = 0; i < CALL_NOTES_MAX; i++) {
		if (c->notes[i].key && !str_eq(c->notes[i].key, key))
			continue;
		c->notes[i] = (struct audit_note){ key, arena_strdup(c->arena, text) };
		return;
	}
}

/*
 * Writes, whatever becomes of them, and refused ways into Pods: those that are let in are recorded
 * by client/access.h.
 */
static bool is_worth_a_record(const struct call *c, int status)
{
	const struct route *r = &c->route;
	unsigned writes = B(VERB_CREATE) | B(VERB_UPDATE) | B(VERB_PATCH) | B(VERB_DELETE) |
			  B(VERB_DELETE_COLLECTION);

	if (!r->resource || !r->kind)
		return false;
	if (route_is_raw(r))
		return status == status_of(ERR_FORBIDDEN);
	return writes & B(r->verb);
}

/* When the answer to a request is known, the first time; the peer may have left. */
static void record(struct call *c, int status)
{
	const struct route *r = &c->route;

	c->status = status;
	if (c->recorded || !is_worth_a_record(c, status))
		return;
	c->recorded = true;
	audit_write(c->calls->audit, &(struct audit_record){ .user = user_payer(&c->user),
							     .as = c->user.by ? c->user.name : NULL,
							     .from = c->from,
							     .verb = verb_name(r->verb),
							     .group = r->group,
							     .resource = r->plural,
							     .sub = r->sub,
							     .ns = r->ns,
							     .name = r->name,
							     .dry_run = c->dry_run,
							     .status = status,
							     .notes = c->notes,
							     .took = clock_mono() - c->began });
}

/* The headers of the answer, which c gives up. */
static struct http_headers headers_take(struct call *c)
{
	struct http_headers h = c->headers;

	c->headers = (struct http_headers){ 0 };
	http_headers_add(&h, "Cache-Control", "no-cache, private");
	return h;
}

/* A long answer that is there in full, and goes out as the peer takes it. */
struct sending {
	struct call *call;
	struct bytes *text;
	size_t at;
};

static void sending_ended(void *owner)
{
	struct sending *s = owner;

	bytes_unref(s->text);
	on_ended(s->call);
	free(s);
}

static void sending_go(void *owner)
{
	struct sending *s = owner;
	struct http_request *req = s->call->req;
	size_t len;

	while (s->at < s->text->len && !http_respond_full(req)) {
		len = MIN(s->text->len - s->at, (size_t)ANSWER_OUT_MAX);
		http_respond_write(req, (const char *)s->text->data + s->at, len);
		s->at += len;
	}
	if (s->at == s->text->len)
		http_respond_end(req);
}

/* Takes text over. All of it is charged, even if an object has it too: that may end before the peer
 * has read anything, and then nobody else holds it. */
static void send_long(struct call *c, int status, const char *type, struct bytes *text)
{
	struct http_headers h = headers_take(c);
	struct sending *s = xnew(struct sending);

	*s = (struct sending){ .call = c, .text = text };
	if (type)
		http_headers_add(&h, "Content-Type", type);
	call_charge(c, text->len);
	http_request_set_owner(c->req, s, sending_ended);
	http_respond_on_drain(c->req, sending_go);
	http_respond_start(c->req, status, &h, (int64_t)text->len);
	http_headers_done(&h);
	sending_go(s);
}

static void send(struct call *c, int status, const char *type, const void *p, size_t len)
{
	struct http_headers h;

	record(c, status);
	if (!c->req)
		return;
	if (len > ANSWER_OUT_MAX) {
		send_long(c, status, type, bytes_new(p, len));
		return;
	}
	h = headers_take(c);
	http_respond(c->req, status, &h, (struct http_body){ type, p, len });
	http_headers_done(&h);
}

void call_stream(struct call *c, void *owner, void (*ended)(void *owner),
		 void (*drained)(void *owner))
{
	struct http_headers h = headers_take(c);

	c->status = STATUS_OK;
	http_headers_add(&h, "Content-Type", c->type);
	http_request_set_owner(c->req, owner, ended);
	http_respond_on_drain(c->req, drained);
	http_respond_start(c->req, STATUS_OK, &h, -1);
	http_headers_done(&h);
}

void call_reply_text(struct call *c, int status, const char *type, struct buf *text)
{
	send(c, status, type, buf_str(text), text->len);
	buf_clear(text);
}

void call_reply_bytes(struct call *c, int status, struct bytes *text)
{
	if (c->req && text->len > ANSWER_OUT_MAX) {
		record(c, status);
		send_long(c, status, c->type, text);
		return;
	}
	send(c, status, c->type, text->data, text->len);
	bytes_unref(text);
}

static enum media plain_media(const struct call *c)
{
	return c->req ? accept_plain(http_request_header(c->req, "accept")) : MEDIA_JSON;
}

struct bytes *call_encode(struct call *c, const struct json *v, const struct type *t)
{
	const struct encode_name name = { str_or(json_get_str(v, "apiVersion"), ""),
					  str_or(json_get_str(v, "kind"), "") };
	enum media m = plain_media(c);
	autobuf b = { 0 };

	c->type = media_type(m);
	if (m == MEDIA_JSON)
		return json_to_bytes(v);
	encode_object(&name, v, t, &b);
	return bytes_from_buf(&b);
}

void call_reply_json(struct call *c, int status, struct json_doc *d)
{
	autobuf b = { 0 };

	json_write(json_root(d), &b);
	buf_add_char(&b, '\n');
	json_doc_free(d);
	call_reply_text(c, status, media_type(MEDIA_JSON), &b);
}

void call_reply_tree(struct call *c, int status, struct json_doc *d, const struct type *t)
{
	struct bytes *text;

	if (plain_media(c) == MEDIA_JSON) {
		call_reply_json(c, status, d);
		return;
	}
	text = call_encode(c, json_root(d), t);
	json_doc_free(d);
	call_reply_bytes(c, status, text);
}

void call_reply_document(struct call *c, const char *type, const char *text)
{
	const char *seen = http_request_header(c->req, "if-none-match");
	char hash[9], etag[40];

	/* The version alone is not enough: every process counts it from the beginning. */
	name_hash(text, hash);
	(void)snprintf(etag, sizeof(etag), "\"%llx-%s\"",
		       (unsigned long long)kinds_version(c->calls->kinds), hash);
	http_headers_add(&c->headers, "ETag", etag);
	http_headers_add(&c->headers, "Vary", "Accept");
	if (seen && strstr(seen, etag))
		send(c, STATUS_NOT_MODIFIED, NULL, NULL, 0);
	else
		send(c, STATUS_OK, type, text, strlen(text));
}

void call_fail(struct call *c, struct err *e)
{
	struct status_about about = {
		.kind = c->route.kind,
		.name = c->route.name,
		.causes = &c->causes,
		.details = c->details,
	};
	enum err_code code = err_code(e);

	c->calls->n_failures++;
	if (code == ERR_EXHAUSTED)
		c->calls->n_limited++;
	if (status_retries(code))
		http_headers_add(&c->headers, "Retry-After", "1");
	if (code == ERR_INTERNAL || code == ERR_CORRUPT || code == ERR_SYS)
		log_error("request failed", KV("method", c->method), KV("path", c->route.path),
			  KV("err", e));
	call_reply_tree(c, status_of(code), status_failure(e, &about), encode_status);
	err_free(e);
}

struct durable {
	struct call *call;
	int status;
	struct bytes *text;
};

static void on_durable(void *arg, struct err *e)
{
	struct durable *d = arg;

	if (e)
		call_fail(d->call, e);
	else
		call_reply_bytes(d->call, d->status, take(d->text));
	bytes_unref(d->text);
	call_unref(d->call);
	free(d);
}

void call_reply_durably(struct call *c, int status, struct bytes *text)
{
	struct durable *d = xnew(struct durable);

	*d = (struct durable){ .call = call_ref(c), .status = status, .text = text };
	store_sync(c->calls->store, on_durable, d);
}
