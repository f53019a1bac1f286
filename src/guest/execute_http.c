/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>

#include "guest/execute_priv.h"
#include "guest/runtime_priv.h"
#include "net/http_server.h"

/*
 * The two ends of POST /execute: here the request is read and the result written. An answer can be
 * many times RT_PIECE; it is escaped piece by piece as the caller reads it.
 */
void result_note(struct result *res, const char *fmt, ...)
{
	struct buf *b = &res->text[1];
	va_list ap;

	if (b->len && buf_head(b)[b->len - 1] != '\n')
		buf_add_char(b, '\n');
	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

static void result_done(void *arg)
{
	struct result *res = arg;

	buf_done(&res->text[0]);
	buf_done(&res->text[1]);
	free(res);
}

/* Writes some more of a text; true once all of it is written. */
static bool text_more(struct result *res, struct buf *text, struct buf *out)
{
	if (text->len)
		res->at += json_escape(out, buf_head(text) + res->at, text->len - res->at, RT_PIECE,
				       true);
	return res->at == text->len;
}

static enum reply_next result_more(void *arg, struct buf *out)
{
	struct result *res = arg;
	bool whole = true;

	switch (res->part) {
	case 0:
		buf_add_str(out, "{\"stdout\":\"");
		break;
	case 1:
		whole = text_more(res, &res->text[0], out);
		break;
	case 2:
		buf_add_str(out, "\",\"stderr\":\"");
		break;
	case 3:
		whole = text_more(res, &res->text[1], out);
		break;
	default:
		buf_printf(out, "\",\"exit_code\":%d,\"timed_out\":%s}", res->exit_code,
			   res->timed_out ? "true" : "false");
		return REPLY_END;
	}
	if (whole) {
		res->part++;
		res->at = 0;
	}
	return REPLY_MORE;
}

void result_reply(struct http_request *r, struct result *res)
{
	static const struct reply_ops ops = { result_more, result_done };

	reply_stream(r, NULL, &ops, res);
}

/* One complaint about a request, in the format of the framework that callers know. */
static void refuse(struct http_request *r, const char *type, const char *field, const char *msg,
		   const json_t *input)
{
	char *text = input ? json_dumps(input, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	autobuf body = { 0 };

	buf_printf(&body, "{\"detail\":[{\"type\":\"%s\",\"loc\":[\"body\"", type);
	if (field)
		buf_printf(&body, ",\"%s\"", field);
	buf_printf(&body, "],\"msg\":\"%s\",\"input\":", msg);
	buf_add_str(&body, text ? text : "null");
	buf_add_str(&body, "}]}");
	free(text);
	reply_json(r, 422, &body);
}

/* The limit for this request, at most the server's. False if it was rejected. */
static bool limit_of(struct rt *rt, struct http_request *r, const json_t *body, double *ret)
{
	const json_t *v = json_object_get(body, "timeout_seconds");
	double limit;

	*ret = rt->limit_s;
	if (!v || json_is_null(v))
		return true;
	if (!json_is_number(v)) {
		refuse(r, "float_type", "timeout_seconds", "Input should be a valid number", v);
		return false;
	}
	limit = json_number_value(v);
	if (!isfinite(limit) || limit <= 0) {
		refuse(r, "greater_than", "timeout_seconds", "Input should be greater than 0", v);
		return false;
	}
	*ret = fmin(limit, rt->limit_s);
	return true;
}

static void run_body(struct rt *rt, struct http_request *r, const json_t *body)
{
	const json_t *command = json_object_get(body, "command");
	double limit_s;

	if (!json_is_object(body))
		refuse(r, "model_attributes_type", NULL, "Input should be a valid dictionary",
		       body);
	else if (!command)
		refuse(r, "missing", "command", "Field required", body);
	else if (!json_is_string(command))
		refuse(r, "string_type", "command", "Input should be a valid string", command);
	else if (limit_of(rt, r, body, &limit_s))
		execute_run(rt, r, json_string_value(command), limit_s);
}

static void on_body(void *owner, struct http_request *r, const char *data, size_t len)
{
	json_error_t error;
	json_t *body = json_loadb(data, len, JSON_DECODE_ANY, &error);

	http_request_set_owner(r, NULL, NULL);
	if (body)
		run_body(owner, r, body);
	else
		refuse(r, "json_invalid", NULL, "JSON decode error", NULL);
	json_decref(body);
}

void execute_serve(struct rt *rt, struct http_request *r, unused const char *tail)
{
	http_request_set_owner(r, rt, NULL);
	http_request_buffer(r, RT_BODY_MAX, on_body);
}
