/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/reply.h"

#include <errno.h>
#include <stdarg.h>

#include "guest/runtime/json_text.h"
#include "guest/runtime/runtime.h"
#include "loop/loop.h"
#include "net/http_server.h"

enum {
	PIECES = 16, /* per turn, to let others have theirs */
};

void reply_json(struct http_request *r, int status, struct buf *body)
{
	http_respond(r, status, NULL,
		     (struct http_body){ "application/json", buf_str(body), body->len });
}

void reply_message(struct http_request *r, int status, const char *fmt, ...)
{
	autobuf text = { 0 }, body = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	buf_add_str(&body, "{\"message\":");
	json_put_string(&body, buf_str(&text));
	buf_add_char(&body, '}');
	reply_json(r, status, &body);
}

void reply_error(struct http_request *r, struct err *e, const char *absent, const char *failed)
{
	if (err_is(e, ERR_FORBIDDEN))
		reply_message(r, 403, "Access denied");
	else if (absent && (err_is(e, ERR_NOT_FOUND) || err_errno(e) == ENOTDIR ||
			    err_errno(e) == ENAMETOOLONG))
		reply_message(r, 404, "%s", absent);
	else
		reply_message(r, 500, "%s: %s", failed, err_text(e));
	err_free(e);
}

/* An answer in pieces. It lives until its request has ended and no posted call refers to it. */
struct reply {
	struct http_request *r;
	const struct reply_ops *ops;
	void *arg;
	bool posted, ended;
};

static void reply_drop(struct reply *p)
{
	if (!p->ended || p->posted)
		return;
	http_request_unref(p->r);
	free(p);
}

static void on_ended(void *owner)
{
	struct reply *p = owner;

	p->ended = true;
	p->ops->done(p->arg);
	reply_drop(p);
}

static void push(void *owner);

static void on_posted(void *arg)
{
	struct reply *p = arg;

	p->posted = false;
	if (p->ended)
		reply_drop(p);
	else
		push(p);
}

static void push(void *owner)
{
	struct reply *p = owner;
	autobuf piece = { 0 };

	if (p->posted)
		return;
	for (int i = 0; i < PIECES && !http_respond_full(p->r); i++) {
		enum reply_next next = p->ops->more(p->arg, &piece);

		http_respond_write(p->r, buf_str(&piece), piece.len);
		piece.off = piece.len = 0;
		if (next == REPLY_END)
			http_respond_end(p->r);
		if (next == REPLY_TORN)
			http_respond_abort(p->r);
		if (next != REPLY_MORE)
			return;
	}
	if (http_respond_full(p->r))
		return; /* push() is called again when it has drained */
	p->posted = true;
	loop_post(http_request_loop(p->r), on_posted, p);
}

/* What fits into one piece is sent whole, with its length. */
static bool reply_short(struct http_request *r, const struct reply_ops *ops, void *arg,
			struct buf *first)
{
	enum reply_next next;

	do
		next = ops->more(arg, first);
	while (next == REPLY_MORE && first->len < RT_PIECE);
	if (next == REPLY_MORE)
		return false;
	if (next == REPLY_END)
		reply_json(r, 200, first);
	else
		reply_message(r, 500, "Reading failed");
	ops->done(arg);
	return true;
}

void reply_stream(struct http_request *r, const struct reply_head *head,
		  const struct reply_ops *ops, void *arg)
{
	struct http_headers json = { 0 };
	autobuf first = { 0 };
	struct reply *p;

	http_request_set_owner(r, NULL, NULL);
	if (!head && reply_short(r, ops, arg, &first))
		return;
	p = xnew(struct reply);
	*p = (struct reply){ .r = http_request_ref(r), .ops = ops, .arg = arg };
	http_request_set_owner(r, p, on_ended);
	http_respond_on_drain(r, push);
	http_headers_add(&json, "Content-Type", "application/json");
	if (head)
		http_respond_start(r, head->status, head->headers, head->length);
	else
		http_respond_start(r, 200, &json, -1);
	http_headers_done(&json);
	http_respond_write(r, buf_str(&first), first.len);
	push(p);
}
