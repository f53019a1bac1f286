/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "guest/execute/execute.h"
#include "guest/execute/execute_priv.h"
#include "guest/runtime/json_text.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/*
 * The two ends of POST /execute: here the request is read and the result written. An answer can be
 * many times RT_PIECE; it is escaped piece by piece as the caller reads it.
 */
enum {
	LOOK_AHEAD = 4,      /* bytes that the escaping of a character may look at */
	KEY_MAX = 64 * 1024, /* a longer request cannot be taken over */
};

static char last_of_stderr(const struct execution *x)
{
	if (x->note.len)
		return buf_head(&x->note)[x->note.len - 1];
	return x->out[1].spool.kept ? x->out[1].spool.last : '\n';
}

/* Adds a line of ours after stderr, on a line of its own. */
void execute_note(struct execution *x, const char *fmt, ...)
{
	va_list ap;

	if (last_of_stderr(x) != '\n')
		buf_add_char(&x->note, '\n');
	va_start(ap, fmt);
	buf_vprintf(&x->note, fmt, ap);
	va_end(ap);
}

/* Writes some more of an output; true once all of it is written. */
static bool output_more(struct execution *x, struct spool *s, struct buf *out)
{
	char data[RT_PIECE + LOOK_AHEAD];
	ssize_t n = spool_read(s, x->at, data, sizeof(data));
	size_t max;

	if (n < 0) { /* its file cannot be read: the rest counts as cut */
		s->kept = x->at;
		x->exit_code = x->exit_code ? x->exit_code : 1;
		execute_note(x, "[the rest of the output could not be read back]\n");
		n = 0;
	}
	if (x->at + (uint64_t)n == s->kept || n <= LOOK_AHEAD)
		max = (size_t)n;
	else
		max = (size_t)n - LOOK_AHEAD;
	x->at += json_escape(out, data, (size_t)n, max, true);
	return x->at == s->kept;
}

static void put_end(const struct execution *x, struct buf *out)
{
	const struct spool *so = &x->out[0].spool, *se = &x->out[1].spool;

	buf_printf(out, "\",\"exit_code\":%d,\"timed_out\":%s", x->exit_code,
		   x->timed_out ? "true" : "false");
	if (spool_cut(so) || spool_cut(se))
		buf_printf(out, ",\"truncated\":true,\"stdout_bytes\":%llu,\"stderr_bytes\":%llu",
			   (unsigned long long)so->total, (unsigned long long)se->total);
	buf_add_char(out, '}');
}

static enum reply_next result_more(void *arg, struct buf *out)
{
	struct execution *x = arg;
	bool whole = true;

	switch (x->part) {
	case 0:
		buf_add_str(out, "{\"stdout\":\"");
		break;
	case 1:
		whole = output_more(x, &x->out[0].spool, out);
		break;
	case 2:
		buf_add_str(out, "\",\"stderr\":\"");
		break;
	case 3:
		whole = output_more(x, &x->out[1].spool, out);
		break;
	case 4:
		if (x->note.len)
			(void)json_escape(out, buf_head(&x->note), x->note.len, x->note.len, true);
		break;
	case 5:
		put_end(x, out);
		x->part++;
		return REPLY_END;
	}
	if (whole) {
		x->part++;
		x->at = 0;
	}
	return REPLY_MORE;
}

static void result_done(void *arg)
{
	struct execution *x = arg;

	execution_answered(x, x->part > 5);
}

void execute_reply(struct execution *x, struct http_request *r)
{
	static const struct reply_ops ops = { result_more, result_done };

	reply_stream(r, NULL, &ops, x);
}

static void nothing(unused void *arg)
{
}

void execute_reply_failed(struct http_request *r, bool stream, const char *reason)
{
	static const struct sse_events events = { nothing, nothing };
	autofree char *text = xasprintf("Failed to execute command: %s", reason);
	autobuf body = { 0 };

	if (stream) {
		struct sse *s = sse_new(r, &events, NULL);

		sse_bytes(s, "stderr", SSE_NO_ID, text, strlen(text));
		sse_event(s, "exit", SSE_NO_ID,
			  "{\"exit_code\":1,\"timed_out\":false,\"truncated\":false}");
		sse_end(s);
		return;
	}
	buf_add_str(&body, "{\"stdout\":\"\",\"stderr\":");
	json_put_string(&body, text);
	buf_add_str(&body, ",\"exit_code\":1,\"timed_out\":false}");
	reply_json(r, 200, &body);
}

/* In the format of the framework that callers know. */
static void refuse(struct http_request *r, const struct complaint *c)
{
	char *text = c->input ? json_dumps(c->input, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	autobuf body = { 0 };

	buf_printf(&body, "{\"detail\":[{\"type\":\"%s\",\"loc\":[\"body\"", c->type);
	if (c->field)
		buf_printf(&body, ",\"%s\"", c->field);
	if (c->below) {
		buf_add_char(&body, ',');
		json_put_string(&body, c->below);
	}
	buf_printf(&body, "],\"msg\":\"%s\",\"input\":", c->msg);
	buf_add_str(&body, text ? text : "null");
	buf_add_str(&body, "}]}");
	free(text);
	reply_json(r, 422, &body);
}

/* False: ret says what is wrong. */
static bool wish_read(const json_t *body, struct execute_wish *w, struct complaint *ret)
{
	json_t *command = json_object_get(body, "command");
	double limit_s = w->limit_s;

	if (!json_is_object(body)) {
		*ret = (struct complaint){ "model_attributes_type",
					   "Input should be a valid dictionary", NULL, NULL, body };
		return false;
	}
	if (!command) {
		*ret = (struct complaint){ "missing", "Field required", "command", NULL, body };
		return false;
	}
	if (!json_is_string(command)) {
		*ret = (struct complaint){ "string_type", "Input should be a valid string",
					   "command", NULL, command };
		return false;
	}
	w->command = json_string_value(command);
	if (!member_positive(body, "timeout_seconds", &limit_s, ret) ||
	    !member_bool(body, "detach", &w->detach, ret) ||
	    !member_is(body, "stdin", JSON_STRING, ret) || !setting_check(body, ret))
		return false;
	w->limit_s = fmin(limit_s, w->limit_s);
	return true;
}

static bool wants_events(struct http_request *r)
{
	return http_headers_has_token(http_request_headers(r), "Accept", "text/event-stream");
}

static void run_wish(struct rt *rt, struct http_request *r, const json_t *body,
		     struct execute_wish *w)
{
	const json_t *input = json_object_get(body, "stdin");
	struct err *e = setting_open(rt->base, rt->env, body, &w->setting);

	if (!e && json_is_string(input))
		e = setting_give_input(&w->setting, json_string_value(input),
				       json_string_length(input));
	if (!e) {
		execute_run(rt, r, w);
		return;
	}
	if (err_is(e, ERR_FORBIDDEN)) {
		reply_error(r, e, NULL, "");
		return;
	}
	if (w->setting.cwd && err_errno(e)) {
		autofree char *reason = xasprintf("[Errno %d] %s: '%s'", err_errno(e),
						  strerror(err_errno(e)), w->setting.cwd);

		execute_reply_failed(r, w->stream, reason);
	} else {
		execute_reply_failed(r, w->stream, err_text(e));
	}
	err_free(e);
}

/* What a request must repeat to take over what it began: all of it, and where it came from. */
static void key_build(struct http_request *r, const char *data, size_t len, struct buf *ret)
{
	static const char *const headers[] = { "X-Request-ID", "X-Forwarded-For" };

	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		const char *value = http_request_header(r, headers[i]);

		if (value)
			buf_printf(ret, "+%s", value);
		buf_add_char(ret, '\0');
	}
	buf_add(ret, data, len);
}

static void on_body(void *owner, struct http_request *r, const char *data, size_t len)
{
	struct rt *rt = owner;
	struct execute_wish wish = { .limit_s = rt->limit_s, .stream = wants_events(r) };
	struct complaint bad = { "json_invalid", "JSON decode error", NULL, NULL, NULL };
	autobuf key = { 0 };
	json_error_t error;
	json_t *body;

	http_request_set_owner(r, NULL, NULL);
	if (!wish.stream && len <= KEY_MAX) {
		key_build(r, data, len, &key);
		wish.key = (struct span){ buf_head(&key), key.len };
		if (execute_take_over(rt, r, wish.key))
			return;
	}
	body = json_loadb(data, len, JSON_DECODE_ANY, &error);
	if (!body || !wish_read(body, &wish, &bad)) {
		refuse(r, &bad);
	} else {
		run_wish(rt, r, body, &wish);
		setting_done(&wish.setting);
	}
	json_decref(body);
}

void execute_serve(struct face *f, struct http_request *r, unused const char *tail)
{
	http_request_set_owner(r, f->rt, NULL);
	http_request_buffer(r, RT_BODY_MAX, on_body);
}
