/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <time.h>

#include "guest/runtime/json_text.h"
#include "guest/runtime/reply.h"
#include "net/http_server.h"

/* Errors of everything below /v1: {"code","message"} and a newline. */

void rest_error(struct http_request *r, int status, const char *code, const char *fmt, ...)
{
	autobuf text = { 0 }, body = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	buf_printf(&body, "{\"code\":\"%s\",\"message\":", code);
	json_put_string(&body, buf_str(&text));
	buf_add_str(&body, "}\n");
	reply_json(r, status, &body);
}

void rest_refuse(struct http_request *r, struct err *e)
{
	int errnum = err_errno(e);

	if (err_is(e, ERR_FORBIDDEN))
		rest_error(r, 403, "PERMISSION_DENIED",
			   errnum == EACCES || errnum == EPERM
				   ? "permission denied"
				   : "path traversal outside sandbox root is forbidden");
	else if (errnum == EACCES || errnum == EPERM)
		rest_error(r, 403, "PERMISSION_DENIED", "%s", err_text(e));
	else if (err_is(e, ERR_NOT_FOUND) || errnum == ENOTDIR || errnum == ENAMETOOLONG ||
		 errnum == ELOOP)
		rest_error(r, 404, "NOT_FOUND", "%s", err_text(e));
	else if (err_is(e, ERR_EXHAUSTED) && !errnum)
		rest_error(r, 503, "UNAVAILABLE", "%s", err_text(e));
	else if (err_is(e, ERR_INVALID))
		rest_error(r, 400, "INVALID_ARGUMENT", "%s", err_text(e));
	else
		rest_error(r, 500, "INTERNAL", "%s", err_text(e));
	err_free(e);
}

void rest_no_route(struct http_request *r, const char *allow)
{
	struct http_headers h = { 0 };
	static const char text[] = "Method Not Allowed\n";

	if (!allow) {
		http_respond_text(r, 404, "404 page not found");
		return;
	}
	http_headers_add(&h, "Allow", allow);
	http_respond(r, 405, &h,
		     (struct http_body){ "text/plain; charset=utf-8", text, sizeof(text) - 1 });
	http_headers_done(&h);
}

void put_time(struct buf *out, int64_t at)
{
	time_t t = (time_t)at;
	char text[32];
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_printf(out, "\"%s\"", text);
}
